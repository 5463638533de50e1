// y = active(x), or dy times the gradient of the activation at x, elementwise in float32. Defined above: the type
// Number, `active` and `active_grad`.
__global__ void activate(const Number *x, const Number *, Number *y, long long size) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) y[i] = Number(active(float(x[i])));
}

__global__ void activation_backward(const Number *x, const Number *dy, Number *y, long long size) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) y[i] = Number(float(dy[i]) * active_grad(float(x[i])));
}
