#include <cstdio>
#include <cuda_fp16.h>

__global__ void bits(const float *x, unsigned short *out, float *back, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    __half h = __float2half(x[i]);
    out[i] = __half_as_ushort(h);
    back[i] = __half2float(h);
}

__global__ void arithmetic(const half *a, const half *b, half *out, int *less) {
    int t = threadIdx.x;
    half x = a[t], y = b[t];
    half sum = __hadd(x, y), product = __hmul(x, y), fused = __hfma(x, y, sum);
    half op = x - y + x * y;
    op += __float2half(0.5f);
    out[4 * t] = sum;
    out[4 * t + 1] = product;
    out[4 * t + 2] = fused;
    out[4 * t + 3] = -op;
    less[t] = __hlt(x, y) * 8 + __hge(x, y) * 4 + (x == y) * 2 + (x > half(1.0f));
}

__global__ void pairs(const half2 *in, half2 *out) {
    int t = threadIdx.x;
    half2 v = in[t], w = __floats2half2_rn(2.0f, -1.0f);
    half2 r = __hfma2(v, w, __float2half2_rn(0.25f));
    r = __hadd2(r, __halves2half2(__high2half(v), __low2half(v)));
    out[t] = r * __half2half2(__int2half_rn(2));
}

int main() {
    const int n = 10;
    float x[n] = {0, 1, -2, 0.1f, 65504, 65520, 1e-7f, 2049, 2051, -0.33333333f}, back[n], *dx, *db;
    unsigned short h[n], *dh;
    cudaMalloc(&dx, sizeof x);
    cudaMalloc(&db, sizeof x);
    cudaMalloc(&dh, 256);
    cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
    bits<<<1, 32>>>(dx, dh, db, n);
    cudaMemcpy(h, dh, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpy(back, db, sizeof back, cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i++) printf("%04x %.9g, ", h[i], back[i]);

    half a[8], b[8], o[32], *da, *dbb, *dout;
    int less[8], *dl;
    for (int i = 0; i < 8; i++) a[i] = __float2half(i * 0.5f - 1), b[i] = __float2half(3.0f - i);
    cudaMalloc(&da, sizeof a);
    cudaMalloc(&dbb, sizeof b);
    cudaMalloc(&dout, sizeof o);
    cudaMalloc(&dl, sizeof less);
    cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice);
    cudaMemcpy(dbb, b, sizeof b, cudaMemcpyHostToDevice);
    arithmetic<<<1, 8>>>(da, dbb, dout, dl);
    cudaMemcpy(o, dout, sizeof o, cudaMemcpyDeviceToHost);
    cudaMemcpy(less, dl, sizeof less, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 8; i++)
        printf("\n%g %g %g %g %d", __half2float(o[4 * i]), float(o[4 * i + 1]), float(o[4 * i + 2]),
               float(o[4 * i + 3]), less[i]);

    pairs<<<1, 4>>>((half2 *)da, (half2 *)dout);
    cudaMemcpy(o, dout, 16, cudaMemcpyDeviceToHost);
    printf("\n");
    for (int i = 0; i < 8; i++) printf("%g ", float(o[i]));
    printf("%d\n%s\n", int(sizeof(half2)), cudaGetErrorName(cudaGetLastError()));
}
