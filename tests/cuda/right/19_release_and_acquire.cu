// right: a plain message between warps, published by a flag with release and read after acquire
#include <cstdio>
#include <cuda/atomic>

__global__ void passed(int *out) {
    __shared__ cuda::atomic<int, cuda::thread_scope_block> ready;
    __shared__ int message[4];
    if (threadIdx.x == 0) ready.store(0, cuda::memory_order_relaxed);
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 0; k < 4; k++) message[k] = 10 + k;
        ready.store(1, cuda::memory_order_release);
    } else if (threadIdx.x >= 32) {
        while (ready.load(cuda::memory_order_acquire) == 0) { }
        out[threadIdx.x - 32] = message[threadIdx.x % 4];
    }
}

int main() {
    int h[32], *out;
    cudaMalloc(&out, sizeof h);
    passed<<<1, 64>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %s\n", h[0], h[31], cudaGetErrorName(cudaGetLastError()));
}
