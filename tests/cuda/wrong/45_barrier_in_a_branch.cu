// expect: synccheck line 10 or 13
#include <cstdio>

__global__ void rotated(const int *x, int *y, int n) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = 0;
    if (t < n) {
        s[t] = x[t];
        __syncthreads();
        y[t] = s[(t + 1) % n];
    }
    __syncthreads();
    if (t == 0) y[n] = s[0];
}

int main() {
    const int n = 40;
    int h[n + 1], *x, *y;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, n * sizeof(int), cudaMemcpyHostToDevice);
    rotated<<<1, 64>>>(x, y, n);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
