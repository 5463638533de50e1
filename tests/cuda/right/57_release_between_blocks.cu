// right: a message between blocks, by release and acquire of the device
#include <cstdio>
#include <cuda/atomic>

__global__ void passed(int *data, int *flag, int *out) {
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x;
        __syncthreads();   // what the others wrote is the message, too
        if (threadIdx.x == 0) ready.store(1, cuda::memory_order_release);
    } else {
        if (threadIdx.x == 0)
            while (ready.load(cuda::memory_order_acquire) == 0) { }
        __syncthreads();
        out[threadIdx.x] = data[63 - threadIdx.x];
    }
}

int main() {
    int h[64], *out;
    cudaMalloc(&out, sizeof h);
    cudaMemset(out, 0, sizeof h);
    int *data, *flag;
    cudaMalloc(&data, sizeof h);
    cudaMalloc(&flag, sizeof(int));
    cudaMemset(flag, 0, sizeof(int));
    passed<<<2, 64>>>(data, flag, out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[1], h[63], cudaGetErrorName(cudaGetLastError()));
}
