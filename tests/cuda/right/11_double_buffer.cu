// right: one barrier a step is enough, for what is written was last read before the barrier before
#include <cstdio>

__global__ void smoothed(int *x, int n, int steps) {
    __shared__ int s[2][96];
    int t = threadIdx.x, now = 0;
    s[0][t] = x[t];
    for (int k = 0; k < steps; k++, now ^= 1) {
        __syncthreads();
        int left = t > 0 ? s[now][t - 1] : 0, right = t < n - 1 ? s[now][t + 1] : 0;
        s[now ^ 1][t] = left + right;
    }
    x[t] = s[now][t];
}

int main() {
    const int n = 96;
    int h[n], *x;
    for (int i = 0; i < n; i++) h[i] = i % 7;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    smoothed<<<1, n>>>(x, n, 5);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[50], h[95], cudaGetErrorName(cudaGetLastError()));
}
