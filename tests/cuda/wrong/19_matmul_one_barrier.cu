// expect: racecheck line 10 or 11 or 14
#include <cstdio>
#define TW 8

__global__ void matmul(const float *m, const float *n, float *out, int size) {
    __shared__ float ms[TW][TW], ns[TW][TW];
    int tc = threadIdx.x, tr = threadIdx.y, r = blockIdx.y * TW + tr, c = blockIdx.x * TW + tc;
    float p = 0;
    for (int from = 0; from < size; from += TW) {
        ms[tr][tc] = m[r * size + from + tc];
        ns[tr][tc] = n[(from + tr) * size + c];
        __syncthreads();
        for (int i = 0; i < TW; i++)
            p += ms[tr][i] * ns[i][tc];
    }   // the next tile overwrites this one while others still read it
    out[r * size + c] = p;
}

int main() {
    const int n = 32;
    float h[n * n], *a, *b, *out;
    for (int i = 0; i < n * n; i++) h[i] = i % 5;
    cudaMalloc(&a, sizeof h), cudaMalloc(&b, sizeof h), cudaMalloc(&out, sizeof h);
    cudaMemcpy(a, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemcpy(b, h, sizeof h, cudaMemcpyHostToDevice);
    matmul<<<dim3(n / TW, n / TW), dim3(TW, TW)>>>(a, b, out, n);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%g %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
