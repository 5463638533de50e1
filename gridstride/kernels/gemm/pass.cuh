// y = active(x), or dy times the slope at x, of `size` numbers that are computed in float32. Above: Number, and both.
__global__ void activate(const Number *x, const Number *, Number *y, long long size) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) y[i] = Number(active(float(x[i])));
}

__global__ void by_slope(const Number *x, const Number *dy, Number *y, long long size) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) y[i] = Number(float(dy[i]) * slope(float(x[i])));
}
