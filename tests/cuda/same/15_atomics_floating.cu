#include <cfloat>
#include <cstdio>

__device__ float atomic_max(float *at, float v) {   // for floats of either sign, by compare and swap
    int *bits = (int *)at, old = atomicOr(bits, 0), seen;
    do {
        seen = old;
        if (__int_as_float(seen) >= v) break;
        old = atomicCAS(bits, seen, __float_as_int(v));
    } while (old != seen);
    return __int_as_float(old);
}

__device__ double atomic_multiply(double *at, double by) {
    auto *bits = reinterpret_cast<unsigned long long *>(at);
    unsigned long long old = atomicCAS(bits, 0ull, 0ull), seen;
    do {
        seen = old;
        old = atomicCAS(bits, seen, __double_as_longlong(by * __longlong_as_double(seen)));
    } while (seen != old);
    return __longlong_as_double(old);
}

__global__ void floats(float *f, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(&f[0], 0.25f * i);
    atomicAdd(f + 1, -1.0f);
    float had = atomicExch(f + 2, float(i + 1));
    atomicAdd(&f[3], had);
    atomic_max(f + 4, float((i * 53) % n) - n);
}

__global__ void doubles(double *d) {
    atomicAdd(d, 1 / 1024.0);
    atomicAdd(&d[1], double(threadIdx.x) * (1ll << 40));
    if (threadIdx.x < 20) atomic_multiply(d + 2, threadIdx.x % 2 ? 4 : 0.5);
}

__global__ void shared_sums(const float *x, float *sums) {
    __shared__ float s[4];
    if (threadIdx.x < 4) s[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&s[threadIdx.x % 4], x[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x < 4) atomicAdd(sums + threadIdx.x, s[threadIdx.x]);
}

int main() {
    const int n = 90;
    float f[5] = {0, 0, 0, 0, -FLT_MAX}, x[n], *df, *dx;
    double d[3] = {0, 0, 1}, *dd;
    cudaMalloc(&df, sizeof f);
    cudaMalloc(&dd, sizeof d);
    cudaMalloc(&dx, sizeof x);
    cudaMemcpy(df, f, sizeof f, cudaMemcpyHostToDevice);
    cudaMemcpy(dd, d, sizeof d, cudaMemcpyHostToDevice);
    floats<<<3, 32>>>(df, n);
    doubles<<<2, 64>>>(dd);
    cudaMemcpy(f, df, sizeof f, cudaMemcpyDeviceToHost);
    cudaMemcpy(d, dd, sizeof d, cudaMemcpyDeviceToHost);
    printf("%.2f %.2f %.2f %.2f\n", f[0], f[1], f[2] + f[3], f[4]);
    printf("%.4f %.0f %.0f\n", d[0], d[1], d[2]);

    for (int i = 0; i < n; i++) x[i] = i / 8.0f;
    cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
    cudaMemset(df, 0, sizeof f);
    shared_sums<<<3, 30>>>(dx, df);
    cudaMemcpy(f, df, sizeof f, cudaMemcpyDeviceToHost);
    printf("%.3f %.3f %.3f %.3f\n%s\n", f[0], f[1], f[2], f[3], cudaGetErrorName(cudaGetLastError()));
}
