#include <cstdio>
#define TW 8

__global__ void naive(const float *m, const float *n, float *out, int h, int w, int k) {
    int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= h || c >= w) return;
    float o = 0;
    for (int i = 0; i < k; ++i) o += m[r * k + i] * n[i * w + c];
    out[r * w + c] = o;
}

__global__ void tiled(const float *m, const float *n, float *out, int h, int w, int k) {
    __shared__ float ms[TW][TW], ns[TW][TW];
    int tc = threadIdx.x, tr = threadIdx.y, r = blockIdx.y * TW + tr, c = blockIdx.x * TW + tc;
    float p = 0;
    for (int ph = 0; ph < (k + TW - 1) / TW; ++ph) {
        int idx = ph * TW;
        ms[tr][tc] = r < h && idx + tc < k ? m[r * k + idx + tc] : 0.f;
        ns[tr][tc] = c < w && idx + tr < k ? n[(idx + tr) * w + c] : 0.f;
        __syncthreads();
        for (int i = 0; i < TW; ++i) p += ms[tr][i] * ns[i][tc];
        __syncthreads();
    }
    if (r < h && c < w) out[r * w + c] = p;
}

// A dynamic tile of any width, both halves in one buffer
__global__ void dynamic(const float *m, const float *n, float *out, int h, int w, int k, int tw) {
    extern __shared__ float ms[];
    float *ns = &ms[tw * tw], p = 0;
    int tc = threadIdx.x, tr = threadIdx.y, r = blockIdx.y * tw + tr, c = blockIdx.x * tw + tc;
    for (int idx = 0; idx < k; idx += tw) {
        ms[tr * tw + tc] = r < h && idx + tc < k ? m[r * k + idx + tc] : 0.f;
        ns[tr * tw + tc] = c < w && idx + tr < k ? n[(idx + tr) * w + c] : 0.f;
        __syncthreads();
        for (int i = 0; i < tw; ++i) p += ms[tr * tw + i] * ns[tw * i + tc];
        __syncthreads();
    }
    if (r < h && c < w) out[r * w + c] = p;
}

// Each thread computes a column of four.
template <int K> __global__ void coarse(const float *m, const float *n, float *out, int h, int w) {
    float acc[4] = {};
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = (blockIdx.y * blockDim.y + threadIdx.y) * 4;
    if (c >= w) return;
#pragma unroll
    for (int i = 0; i < K; i++)
        for (int j = 0; j < 4; j++) if (r + j < h) acc[j] += m[(r + j) * K + i] * n[i * w + c];
    for (int j = 0; j < 4; j++) if (r + j < h) out[(r + j) * w + c] = acc[j];
}

int main() {
    const int h = 21, w = 18, k = 13;
    float m[h * k], n[k * w], o[h * w], *dm, *dn, *d;
    for (int i = 0; i < h * k; i++) m[i] = i % 7 - 3;
    for (int i = 0; i < k * w; i++) n[i] = (i % 11 - 5) * 0.5f;
    cudaMalloc(&dm, sizeof m), cudaMalloc(&dn, sizeof n), cudaMalloc(&d, sizeof o);
    cudaMemcpy(dm, m, sizeof m, cudaMemcpyHostToDevice);
    cudaMemcpy(dn, n, sizeof n, cudaMemcpyHostToDevice);
    dim3 tpb(TW, TW), blocks((w + TW - 1) / TW, (h + TW - 1) / TW);
    for (int kind = 0; kind < 4; kind++) {
        cudaMemset(d, 0xff, sizeof o);
        if (kind == 0) naive<<<blocks, tpb>>>(dm, dn, d, h, w, k);
        if (kind == 1) tiled<<<blocks, tpb>>>(dm, dn, d, h, w, k);
        if (kind == 2) dynamic<<<dim3(4, 5), dim3(5, 5), 2 * 5 * 5 * sizeof(float)>>>(dm, dn, d, h, w, k, 5);
        if (kind == 3) coarse<k><<<dim3(3, 2), dim3(6, 3)>>>(dm, dn, d, h, w);
        cudaMemcpy(o, d, sizeof o, cudaMemcpyDeviceToHost);
        double sum = 0;
        for (int i = 0; i < h * w; i++) sum += o[i] * (i % 5 + 1);
        printf("%g %g %g, %g\n", o[0], o[w + 1], o[h * w - 1], sum);
    }
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
