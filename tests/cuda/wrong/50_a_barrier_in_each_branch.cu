// expect: synccheck line 9 or 13
#include <cstdio>

__global__ void merged(const int *x, int *y) {
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t % 2) {
        s[t] = x[t];
        __syncthreads();
        y[t] = s[t - 1];
    } else {
        s[t] = -x[t];
        __syncthreads();
        y[t] = s[t + 1];
    }
}

int main() {
    int h[32], *x, *y;
    for (int i = 0; i < 32; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    merged<<<1, 32>>>(x, y);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
