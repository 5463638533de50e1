#include <cstdio>
#include <cstdint>

__global__ void __launch_bounds__(64) plain(int *x) { x[threadIdx.x] += 1; }
__global__ __launch_bounds__(128, 2) void saxpy(const float *__restrict__ x, float *__restrict__ y, float a,
                                                const int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * __ldg(&x[i]) + y[i];
}
template <int T> __global__ void __launch_bounds__(T) bounded(int *__restrict x) { x[threadIdx.x] *= T; }
extern "C" __global__ void with_c_name(int *x) { x[threadIdx.x] -= 3; }
static __global__ void with_default(int *x, int by = 7) { x[threadIdx.x] += by; }

__device__ __forceinline__ int forced(int v) { return v * 2; }
__device__ __noinline__ int separate(int v) { return v * 3; }
static inline __device__ int inlined(int v) { return v * 5; }
__host__ __device__ constexpr int power(int b, int e) { return e ? b * power(b, e - 1) : 1; }
__inline__ __device__ int old_inlined(const int &v) { return v - 1; }
[[nodiscard]] __device__ auto trailing(int v) -> int { return v % 7; }

__global__ void functions(const int *__restrict__ in, int *out) {
    int t = threadIdx.x, v = __ldg(in + t);
    int4 four = __ldg(reinterpret_cast<const int4 *>(in) + t / 4);
    const unsigned char byte = __ldg((const unsigned char *)in + 4 * t);
    out[t] = forced(v) + separate(v) + inlined(v) + old_inlined(v) + trailing(v) + power(3, 4);
    out[t] += four.x + four.w + byte;
    out[t] += __ldcg(in + t) + __ldcs(in + t);
#pragma unroll
    for (int k = 0; k < 4; k++) out[t] += k;
#pragma unroll 2
    for (int k = 0; k < t; ++k) out[t] ^= k;
}

__global__ void architecture(int *out) {
#ifdef __CUDA_ARCH__
    *out = __CUDA_ARCH__ >= 700;
#else
    *out = -1;
#endif
}

int main() {
    int h[32], *d, *o;
    float f[50], *x, *y;
    for (int i = 0; i < 32; i++) h[i] = i * 100;
    for (int i = 0; i < 50; i++) f[i] = i * 0.5f;
    cudaMalloc(&d, sizeof h);
    cudaMalloc(&o, sizeof h);
    cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
    plain<<<1, 32>>>(d);
    with_c_name<<<1, 16>>>(d);
    bounded<32><<<1, 32>>>(d);
    with_default<<<1, 8>>>(d);
    with_default<<<1, 4>>>(d, 1000);
    functions<<<1, 32>>>(d, o);
    cudaMemcpy(h, o, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 32; i++) printf("%d%c", h[i], i % 8 == 7 ? '\n' : ' ');
    cudaMalloc(&x, sizeof f);
    cudaMalloc(&y, sizeof f);
    cudaMemcpy(x, f, sizeof f, cudaMemcpyHostToDevice);
    cudaMemset(y, 0, sizeof f);
    for (int k = 0; k < 3; k++) saxpy<<<2, 32>>>(x, y, 2.0f, 50);
    cudaMemcpy(f, y, sizeof f, cudaMemcpyDeviceToHost);
    architecture<<<1, 1>>>(d);
    cudaMemcpy(h, d, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%g %g %d %d\n%s\n", f[1], f[49], h[0], power(2, 10), cudaGetErrorName(cudaGetLastError()));
}
