// right: the flag is relaxed, and fences before the store and after the load do the ordering
#include <cstdio>
#include <cuda/atomic>

__global__ void chained(int *values, int *ticket, int *flag) {
    __shared__ int mine;
    cuda::atomic_ref<int, cuda::thread_scope_device> take(*ticket), done(*flag);
    if (threadIdx.x == 0) mine = take.fetch_add(1, cuda::memory_order_relaxed);
    __syncthreads();
    if (threadIdx.x == 0) {
        while (done.load(cuda::memory_order_relaxed) != mine) { }
        cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device);
        values[mine + 1] = values[mine] + mine;
        cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
        done.store(mine + 1, cuda::memory_order_relaxed);
    }
}

int main() {
    int h[16] = {5}, *d;
    cudaMalloc(&d, sizeof h);
    cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
    chained<<<12, 4>>>(d, d + 14, d + 15);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %s\n", h[12], h[15], cudaGetErrorName(cudaGetLastError()));
}
