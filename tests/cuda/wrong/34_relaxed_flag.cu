// expect: racecheck line 11 or 15
#include <cstdio>
#include <cuda/atomic>

__global__ void passed(int *out) {
    __shared__ cuda::atomic<int, cuda::thread_scope_block> ready;
    __shared__ int message;
    if (threadIdx.x == 0) ready.store(0);
    __syncthreads();
    if (threadIdx.x == 0) {
        message = 42;
        ready.store(1, cuda::memory_order_relaxed);   // release is needed
    } else if (threadIdx.x == 32) {
        while (ready.load(cuda::memory_order_relaxed) == 0) { }   // and acquire
        *out = message;
    }
}

int main() {
    int h, *out;
    cudaMalloc(&out, sizeof(int));
    passed<<<1, 64>>>(out);
    cudaMemcpy(&h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %s\n", h, cudaGetErrorName(cudaGetLastError()));
}
