// expect: synccheck line 10 or 12
#include <cstdio>

__global__ void strided_sums(const int *x, int n, int *out) {
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {   // the last round is not for all
        atomicAdd(&total, x[i]);
        __syncthreads();
    }
    __syncthreads();
    if (threadIdx.x == 0) *out = total;
}

int main() {
    const int n = 100;
    int h[n], *x, *out;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof(int));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    strided_sums<<<1, 64>>>(x, n, out);
    cudaMemcpy(h, out, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
