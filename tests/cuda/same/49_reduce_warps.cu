#include <cstdio>

template <typename T> __inline__ __device__ T warp_sum(T v) {
    for (int offset = warpSize / 2; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
    return v;
}
template <typename T> __inline__ __device__ T block_sum(T v) {
    static __shared__ T partial[32];
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    v = warp_sum(v);
    if (lane == 0) partial[warp] = v;
    __syncthreads();
    v = threadIdx.x < (blockDim.x + warpSize - 1) / warpSize ? partial[lane] : T(0);
    if (warp == 0) v = warp_sum(v);
    return v;
}
template <typename T> __global__ void sum(const T *x, T *out, int n) {
    T v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) v += x[i];
    v = block_sum(v);
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}

struct Best { float v; int at; };
__global__ void arg_max(const float *x, int n, Best *out) {   // the first of the greatest
    Best b = {-1e30f, n};
    for (int i = threadIdx.x; i < n; i += blockDim.x) if (x[i] > b.v) b = {x[i], i};
    for (int by = 16; by; by /= 2) {
        float v = __shfl_xor_sync(~0u, b.v, by);
        int at = __shfl_xor_sync(~0u, b.at, by);
        if (v > b.v || (v == b.v && at < b.at)) b = Best{v, at};
    }
    __shared__ Best each[4];
    if (threadIdx.x % 32 == 0) each[threadIdx.x / 32] = b;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; w++)
            if (each[w].v > b.v || (each[w].v == b.v && each[w].at < b.at)) b = each[w];
        *out = b;
    }
}

template <typename T> double total(int n, T (*f)(int)) {
    T *h = new T[n], *x, *out, part[2], all;
    for (int i = 0; i < n; i++) h[i] = f(i);
    cudaMalloc(&x, n * sizeof(T));
    cudaMalloc(&out, 2 * sizeof(T));
    cudaMemcpy(x, h, n * sizeof(T), cudaMemcpyHostToDevice);
    sum<<<2, 128>>>(x, out, n);
    cudaMemcpy(part, out, sizeof part, cudaMemcpyDeviceToHost);
    sum<<<1, 32>>>(out, x, 2);
    cudaMemcpy(&all, x, sizeof all, cudaMemcpyDeviceToHost);
    delete[] h;
    return part[0] + part[1] == all ? double(all) : -1;
}

int main() {
    printf("%.0f\n", total<int>(1000, [](int i) { return i * 3 - 7; }));
    printf("%.3f\n", total<float>(777, [](int i) { return (i % 64) / 8.0f; }));
    printf("%.0f\n", total<double>(500, [](int i) { return double(1ll << 40) + i; }));
    printf("%.0f\n", total<long long>(5, [](int i) { return -(1ll << 45) * i; }));
    float h[500], *x;
    Best b, *d;
    for (int i = 0; i < 500; i++) h[i] = i * 7919 % 401;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&d, sizeof b);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    arg_max<<<1, 128>>>(x, 500, d);
    cudaMemcpy(&b, d, sizeof b, cudaMemcpyDeviceToHost);
    printf("%g at %d\n%s\n", b.v, b.at, cudaGetErrorName(cudaGetLastError()));
}
