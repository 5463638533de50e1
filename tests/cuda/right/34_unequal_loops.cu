// right: threads go round a loop differently often, and the barrier stands after it
#include <cstdio>

__global__ void strided_sums(const int *x, int n, int *out) {
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&total, x[i]);
    __syncthreads();
    for (int from = 0; from < n; from += blockDim.x) {   // and equally often, for the ragged end too
        int i = from + threadIdx.x;
        if (i < n) out[i] = total - x[i];
        __syncthreads();
        if (threadIdx.x == 0) total++;
        __syncthreads();
    }
}

int main() {
    const int n = 100;
    int h[n], *x, *out;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    strided_sums<<<1, 64>>>(x, n, out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %s\n", h[0], h[99], cudaGetErrorName(cudaGetLastError()));
}
