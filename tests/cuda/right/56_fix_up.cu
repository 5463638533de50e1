// right: the last block of each four waits for the parts of the others, and adds them
#include <cstdio>

__device__ int ready[64], part[64];

__global__ void tiles(int *out) {   // the fix-up of stream-K
    int b = blockIdx.x;
    part[b] = b + 1;
    __threadfence();
    if (b % 4 < 3) {
        atomicExch(&ready[b], 1);
        return;
    }
    int sum = part[b];
    for (int i = b - 3; i < b; i++) {
        while (atomicCAS(&ready[i], 1, 1) != 1) __nanosleep(20);
        __threadfence();
        sum += part[i];
    }
    out[b / 4] = sum;
}

int main() {
    int h[8], *out;
    cudaMalloc(&out, sizeof h);
    cudaMemset(out, 0, sizeof h);
    tiles<<<32, 1>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[1], h[7], cudaGetErrorName(cudaGetLastError()));
}
