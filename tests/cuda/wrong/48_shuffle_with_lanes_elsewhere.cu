// expect: synccheck line 8 or 12
#include <cstdio>

__global__ void half_sums(const int *x, int *y) {
    int t = threadIdx.x, v = x[t];
    if (t < 16) {
        for (int by = 8; by; by /= 2)
            v += __shfl_xor_sync(0xffffffff, v, by);
    } else {
        v = -v;
    }
    __syncwarp();
    y[t] = v;
}

int main() {
    int h[32], *x, *y;
    for (int i = 0; i < 32; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    half_sums<<<1, 32>>>(x, y);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
