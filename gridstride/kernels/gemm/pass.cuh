// y = active(x), or dy times the gradient of the activation at x, elementwise in float32. Requires definitions of the
// type Elem, `active` and `active_grad`.
__global__ void activate(const Elem *x, const Elem *, Elem *y, long long size) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) y[i] = Elem(active(float(x[i])));
}

__global__ void activation_backward(const Elem *x, const Elem *dy, Elem *y, long long size) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) y[i] = Elem(float(dy[i]) * active_grad(float(x[i])));
}
