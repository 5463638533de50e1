// right: blocks take their place by an atomic, wait for the one before, and hand on a sum
#include <cstdio>

__device__ int next, ready[64], sums[64];

__global__ void scanned(int *out) {
    __shared__ int place;
    if (threadIdx.x == 0) place = atomicAdd(&next, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        int b = place, before = 0;
        if (b) {
            while (atomicAdd(&ready[b - 1], 0) == 0) { }
            __threadfence();
            before = sums[b - 1];
        }
        sums[b] = before + b;
        __threadfence();
        atomicExch(&ready[b], 1);
        out[b] = before + b;
    }
}

int main() {
    int h[50], *out;
    cudaMalloc(&out, sizeof h);
    cudaMemset(out, 0, sizeof h);
    scanned<<<50, 32>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[1], h[49], cudaGetErrorName(cudaGetLastError()));
}
