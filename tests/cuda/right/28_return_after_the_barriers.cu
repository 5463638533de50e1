// right: some threads return early, and no barrier follows; whole blocks return before any
#include <cstdio>

__global__ void differences(const int *x, int *y, int n) {
    __shared__ int s[33];
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
    if (blockIdx.x * 32 >= n) return;   // all of the block
    s[t] = i < n ? x[i] : 0;
    if (t == 0) s[32] = i + 32 < n ? x[i + 32] : 0;
    __syncthreads();
    if (i >= n - 1) return;
    if (s[t] == 0) { y[i] = -1; return; }
    y[i] = s[t + 1] - s[t];
}

int main() {
    const int n = 75;
    int h[n], *x, *y;
    for (int i = 0; i < n; i++) h[i] = i * i % 50;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    differences<<<5, 32>>>(x, y, n);
    cudaMemcpy(h, y, (n - 1) * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[1], h[n - 2], cudaGetErrorName(cudaGetLastError()));
}
