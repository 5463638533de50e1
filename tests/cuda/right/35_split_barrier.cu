// right: no __syncthreads between the writing and the reading, but a cuda::barrier in two halves
#include <cstdio>
#include <cuda/barrier>
#include <utility>
#pragma nv_diag_suppress static_var_with_dynamic_init

__global__ void exchanged(const int *x, int *y) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t == 0) init(&bar, blockDim.x);
    __syncthreads();
    for (int k = 0; k < 3; k++) {
        s[t] = x[t] + k;
        auto token = bar.arrive();
        int own = k * t;
        bar.wait(std::move(token));
        y[k * 64 + t] = s[63 - t] + own;
        bar.arrive_and_wait();
    }
}

int main() {
    int h[192], *x, *y;
    for (int i = 0; i < 64; i++) h[i] = i;
    cudaMalloc(&x, 64 * sizeof(int));
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, 64 * sizeof(int), cudaMemcpyHostToDevice);
    exchanged<<<1, 64>>>(x, y);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[64], h[191], cudaGetErrorName(cudaGetLastError()));
}
