// right: lanes that have returned are excused from the collectives of their warp
#include <cstdio>

__global__ void counted(const int *x, int n, int *out) {
    int t = threadIdx.x;
    if (t >= n) return;
    __syncwarp();
    unsigned odd = __ballot_sync(0xffffffff, x[t] % 2), mask = __ballot_sync(0xffffffff, 1);
    int first = __shfl_sync(mask, x[t], 0);
    out[t] = __popc(odd) * 1000 + first * 100 + __popc(mask);
}

int main() {
    int h[32], *x, *out;
    for (int i = 0; i < 32; i++) h[i] = i + 3;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    counted<<<1, 32>>>(x, 21, out);
    cudaMemcpy(h, out, 21 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %s\n", h[0], h[20], cudaGetErrorName(cudaGetLastError()));
}
