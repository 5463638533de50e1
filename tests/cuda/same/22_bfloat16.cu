#include <cstdio>
#include <cuda_bf16.h>

__global__ void rounded(const float *x, unsigned short *bits, float *back, int n) {
    int i = threadIdx.x;
    if (i < n) {
        __nv_bfloat16 b = __float2bfloat16(x[i]);
        bits[i] = __bfloat16_as_ushort(b);
        back[i] = __bfloat162float(b);
    }
}

template <typename T> __global__ void sums(const T *a, const T *b, T *out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = a[i] * b[i] + T(1.0f);
}

__global__ void dot(const __nv_bfloat162 *a, const __nv_bfloat162 *b, float *out, int n) {
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 32) {
        float2 x = __bfloat1622float2(a[i]), y = __bfloat1622float2(b[i]);
        s += x.x * y.x + x.y * y.y;
    }
    for (int by = 16; by; by /= 2) s += __shfl_down_sync(~0u, s, by);
    if (threadIdx.x == 0) *out = s;
}

int main() {
    const int n = 9;
    float x[n] = {1, -1.5f, 0.1f, 3.14159265f, 1e30f, 257, 259, 1e-40f, -0.0f}, back[n], *dx, *dback;
    unsigned short bits[n], *dbits;
    cudaMalloc(&dx, sizeof x);
    cudaMalloc(&dback, sizeof x);
    cudaMalloc(&dbits, sizeof bits);
    cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
    rounded<<<1, 16>>>(dx, dbits, dback, n);
    cudaMemcpy(bits, dbits, sizeof bits, cudaMemcpyDeviceToHost);
    cudaMemcpy(back, dback, sizeof back, cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i++) printf("%04x %.7g, ", bits[i], back[i]);
    printf("\n");

    const int m = 128;
    __nv_bfloat16 a[m], b[m], o[8], *da, *db, *dout;
    for (int i = 0; i < m; i++) a[i] = __float2bfloat16(i % 16), b[i] = __float2bfloat16(0.25f * (i % 8) - 1);
    cudaMalloc(&da, sizeof a);
    cudaMalloc(&db, sizeof b);
    cudaMalloc(&dout, sizeof o);
    cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice);
    cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice);
    sums<__nv_bfloat16><<<1, 8>>>(da, db, dout, 8);
    cudaMemcpy(o, dout, sizeof o, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 8; i++) printf("%g ", __bfloat162float(o[i]));

    float s;
    dot<<<1, 32>>>((__nv_bfloat162 *)da, (__nv_bfloat162 *)db, dx, m / 2);
    cudaMemcpy(&s, dx, sizeof s, cudaMemcpyDeviceToHost);
    printf("%g\n%s\n", s, cudaGetErrorName(cudaGetLastError()));
}
