#include <cstdio>

__global__ void divergent(const int *x, int *sums, int n) {   // neighbours first
    __shared__ int s[64];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int stride = 1; stride < blockDim.x; stride *= 2) {
        if (t % (2 * stride) == 0) s[t] += s[t + stride];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}

__global__ void sequential(const int *x, int *sums, int n) {   // halves, two elements for each thread
    extern __shared__ int s[];
    unsigned t = threadIdx.x, i = blockIdx.x * (blockDim.x * 2) + t;
    int v = i < n ? x[i] : 0;
    if (i + blockDim.x < n) v += x[i + blockDim.x];
    s[t] = v;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half >>= 1) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}

// Any number of threads: the upper part is folded onto the lower, rounded up.
__global__ void uneven(const int *x, int *sum, int n) {
    extern __shared__ int s[];
    int t = threadIdx.x, acc = 0;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) acc += x[i];
    s[t] = acc;
    for (int m = blockDim.x; m > 1; m = (m + 1) / 2) {
        __syncthreads();
        int half = (m + 1) / 2;
        if (t + half < m) s[t] += s[t + half];
    }
    if (t == 0) atomicAdd(sum, s[0]);
}

int main() {
    int *x, *sums;
    cudaMalloc(&x, 1000 * sizeof(int));
    cudaMalloc(&sums, 32 * sizeof(int));
    for (int n : {1, 63, 64, 65, 199, 1000}) {
        int h[1000], s[32], want = 0, a = 0, b = 0, c, blocks = (n + 63) / 64;
        for (int i = 0; i < n; i++) want += h[i] = (i * 97) % 1009 - 300;
        cudaMemcpy(x, h, n * sizeof(int), cudaMemcpyHostToDevice);
        divergent<<<blocks, 64>>>(x, sums, n);
        cudaMemcpy(s, sums, blocks * sizeof(int), cudaMemcpyDeviceToHost);
        for (int k = 0; k < blocks; k++) a += s[k];
        int fewer = (n + 127) / 128;
        sequential<<<fewer, 64, 64 * sizeof(int)>>>(x, sums, n);
        cudaMemcpy(s, sums, fewer * sizeof(int), cudaMemcpyDeviceToHost);
        for (int k = 0; k < fewer; k++) b += s[k];
        cudaMemset(sums, 0, sizeof(int));
        uneven<<<3, 45, 45 * sizeof(int)>>>(x, sums, n);
        cudaMemcpy(&c, sums, sizeof(int), cudaMemcpyDeviceToHost);
        printf("%d: %d %d %d %d\n", n, want, a - want, b - want, c - want);
    }
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
