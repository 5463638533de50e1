// right: tiles over the edge are filled with zeros, which are read; both barriers are there
#include <cstdio>
#define TW 8

__global__ void matmul(const float *m, const float *n, float *out, int h, int w, int k) {
    __shared__ float ms[TW][TW], ns[TW][TW];
    int tc = threadIdx.x, tr = threadIdx.y, r = blockIdx.y * TW + tr, c = blockIdx.x * TW + tc;
    float p = 0;
    for (int from = 0; from < k; from += TW) {
        ms[tr][tc] = r < h && from + tc < k ? m[r * k + from + tc] : 0;
        ns[tr][tc] = c < w && from + tr < k ? n[(from + tr) * w + c] : 0;
        __syncthreads();
        for (int i = 0; i < TW; i++) p += ms[tr][i] * ns[i][tc];
        __syncthreads();
    }
    if (r < h && c < w) out[r * w + c] = p;
}

int main() {
    const int h = 19, w = 13, k = 21;
    float a[h * k], b[k * w], o[h * w], *da, *db, *out;
    for (int i = 0; i < h * k; i++) a[i] = i % 5 - 2;
    for (int i = 0; i < k * w; i++) b[i] = i % 7 - 3;
    cudaMalloc(&da, sizeof a), cudaMalloc(&db, sizeof b), cudaMalloc(&out, sizeof o);
    cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice);
    cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice);
    matmul<<<dim3(2, 3), dim3(TW, TW)>>>(da, db, out, h, w, k);
    cudaMemcpy(o, out, sizeof o, cudaMemcpyDeviceToHost);
    printf("%g %g %g %s\n", o[0], o[w], o[h * w - 1], cudaGetErrorName(cudaGetLastError()));
}
