// right: a counter is cleared plainly, counted up atomically, and read plainly, each behind a barrier
#include <cstdio>

__global__ void counts(const int *x, int *out, int rounds) {
    __shared__ int n, bins[4];
    int t = threadIdx.x;
    for (int k = 0; k < rounds; k++) {
        if (t == 0) n = 0;
        if (t < 4) bins[t] = 0;
        __syncthreads();
        if (x[t] > k * 10) atomicAdd(&n, 1);
        atomicAdd(&bins[(x[t] + k) & 3], x[t]);
        __syncthreads();
        if (t < 4) out[k * 4 + t] = bins[t] * 1000 + n;
        __syncthreads();
    }
}

int main() {
    int h[64], *x, *out;
    for (int i = 0; i < 64; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, 12 * sizeof(int));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    counts<<<1, 64>>>(x, out, 3);
    cudaMemcpy(h, out, 12 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[5], h[11], cudaGetErrorName(cudaGetLastError()));
}
