// right: all threads read the same places at once, and nobody writes them then
#include <cstdio>

__constant__ int weights[8];

__global__ void weighted(const int *x, int *y) {
    __shared__ int s[8], scale;
    int t = threadIdx.x;
    if (t < 8) s[t] = x[t];
    if (t == 63) scale = x[8];
    __syncthreads();
    int v = 0;
    for (int k = 0; k < 8; k++) v += s[k] * weights[k] + x[k];
    y[blockIdx.x * blockDim.x + t] = v * scale + t;
}

int main() {
    int w[8], h[128], *x, *y;
    for (int i = 0; i < 9; i++) h[i] = i + 1;
    for (int i = 0; i < 8; i++) w[i] = i * i;
    cudaMalloc(&x, 9 * sizeof(int));
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, 9 * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(weights, w, sizeof w);
    weighted<<<2, 64>>>(x, y);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %s\n", h[0], h[127], cudaGetErrorName(cudaGetLastError()));
}
