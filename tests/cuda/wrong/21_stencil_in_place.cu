// expect: racecheck line 11
#include <cstdio>

__global__ void smoothed(int *x, int n, int steps) {
    extern __shared__ int s[];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int k = 0; k < steps; k++) {
        if (t > 0 && t < n - 1)
            s[t] = (s[t - 1] + 2 * s[t] + s[t + 1]) / 4;
        __syncthreads();
    }
    x[t] = s[t];
}

int main() {
    const int n = 96;
    int h[n], *x;
    for (int i = 0; i < n; i++) h[i] = i * 1000 % 777;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    smoothed<<<1, n, sizeof h>>>(x, n, 3);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[1], cudaGetErrorName(cudaGetLastError()));
}
