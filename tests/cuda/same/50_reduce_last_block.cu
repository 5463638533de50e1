#include <cstdio>
#define TPB 64

__device__ unsigned finished = 0;

__device__ long long folded(long long *s, long long v) {
    int t = threadIdx.x;
    s[t] = v;
    __syncthreads();
    for (int half = TPB / 2; half; half /= 2) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    return s[0];
}

// Every block leaves its part; whichever comes last adds up the parts.
__global__ void sum(const int *x, int n, volatile long long *parts, long long *total) {
    __shared__ long long s[TPB];
    __shared__ bool last;
    long long v = 0;
    for (int i = blockIdx.x * TPB + threadIdx.x; i < n; i += gridDim.x * TPB) v += (long long)x[i] * x[i];
    long long part = folded(s, v);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = part;
        __threadfence();
        last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;   // and 0 again for the next launch
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    v = 0;
    for (int b = threadIdx.x; b < gridDim.x; b += TPB) v += parts[b];
    v = folded(s, v);
    if (threadIdx.x == 0) *total = v;
}

int main() {
    const int n = 3000;
    int *h = new int[n], *x;
    long long *parts, *total, got, want = 0;
    for (int i = 0; i < n; i++) h[i] = i * 31 % 1999, want += (long long)h[i] * h[i];
    cudaMalloc(&x, n * sizeof(int));
    cudaMalloc(&parts, 100 * sizeof(long long));
    cudaMalloc(&total, sizeof(long long));
    cudaMemcpy(x, h, n * sizeof(int), cudaMemcpyHostToDevice);
    for (int blocks : {1, 7, 20, 47, 70}) {
        cudaMemset(total, 0xff, sizeof(long long));
        sum<<<blocks, TPB>>>(x, n, parts, total);
        cudaMemcpy(&got, total, sizeof got, cudaMemcpyDeviceToHost);
        printf("%d blocks: %lld %s\n", blocks, got, got == want ? "right" : "wrong");
    }
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    delete[] h;
    cudaFree(x), cudaFree(parts), cudaFree(total);
}
