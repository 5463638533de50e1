// expect: initcheck line 6
#include <cstdio>

__global__ void doubled(const int *x, int *out, int n) {
    int i = threadIdx.x;
    int v = x[i];
    out[i] = i < n ? 2 * v : 0;   // the guard comes too late
}

int main() {
    int *out;
    cudaMalloc(&out, 1024 * sizeof(int));
    cudaMemset(out, 0, 1024 * sizeof(int));
    int *x;
    cudaMalloc(&x, 64 * sizeof(int));
    cudaMemset(x, 0, 50 * sizeof(int));
    doubled<<<1, 64>>>(x, out, 50);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
