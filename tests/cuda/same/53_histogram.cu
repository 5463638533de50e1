#include <cstdio>
#define BINS 32

__global__ void direct(const unsigned char *x, int n, unsigned *bins) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[x[i] * BINS / 256], 1);
}

__global__ void privatised(const unsigned char *x, int n, unsigned *bins) {
    __shared__ unsigned mine[BINS];
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) mine[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[x[i] >> 3], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) if (mine[b]) atomicAdd(bins + b, mine[b]);
}

// A column of counters for each thread, four values a time, added up without any atomic
__global__ void columns(const uchar4 *x, int n4, unsigned *bins) {
    extern __shared__ unsigned short counts[];
    const int t = threadIdx.x, n = blockDim.x;
    for (int b = 0; b < BINS; b++) counts[b * n + t] = 0;
    for (int i = t; i < n4; i += n) {
        uchar4 v = x[i];
        counts[(v.x >> 3) * n + t]++;
        counts[(v.y >> 3) * n + t]++;
        counts[(v.z >> 3) * n + t]++;
        ++counts[(v.w >> 3) * n + t];
    }
    __syncthreads();
    for (int b = t; b < BINS; b += n) {
        unsigned sum = 0;
        for (int k = 0; k < n; k++) sum += counts[b * n + (b + k) % n];
        bins[b] = sum;
    }
}

// Runs of one value are added at once.
__global__ void runs(const unsigned char *x, int n, int each, unsigned *bins) {
    int from = (blockIdx.x * blockDim.x + threadIdx.x) * each, to = min(from + each, n);
    unsigned run = 0;
    for (int i = from; i < to; i++) {
        run++;
        if (i + 1 == to || x[i + 1] / 8 != x[i] / 8) { atomicAdd(&bins[x[i] / 8], run); run = 0; }
    }
}

int main() {
    const int n = 2000;
    unsigned char h[n], *x;
    unsigned want[BINS] = {}, got[BINS], *bins;
    for (int i = 0; i < n; i++) h[i] = (i / 5 * i / 7) % 251, want[h[i] / 8]++;
    cudaMalloc(&x, n);
    cudaMalloc(&bins, sizeof got);
    cudaMemcpy(x, h, n, cudaMemcpyHostToDevice);
    for (int kind = 0; kind < 4; kind++) {
        cudaMemset(bins, 0, sizeof got);
        if (kind == 0) direct<<<(n + 127) / 128, 128>>>(x, n, bins);
        else if (kind == 1) privatised<<<3, 48>>>(x, n, bins);
        else if (kind == 2) columns<<<1, 24, 24 * BINS * sizeof(short)>>>((uchar4 *)x, n / 4, bins);
        else runs<<<2, 37>>>(x, n, 28, bins);
        cudaMemcpy(got, bins, sizeof got, cudaMemcpyDeviceToHost);
        int wrong = 0;
        for (int b = 0; b < BINS; b++) wrong += got[b] != want[b];
        printf("%d wrong, %u %u %u\n", wrong, got[0], got[7], got[31]);
    }
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
