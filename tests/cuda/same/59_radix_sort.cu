#include <cstdio>
constexpr int TPB = 64, BITS = 4, RADIX = 1 << BITS;

// How many keys of each digit there are in each block: counts[digit][block]
__global__ void count(const unsigned *keys, int n, int shift, int *counts) {
    __shared__ int c[RADIX];
    if (threadIdx.x < RADIX) c[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * TPB + threadIdx.x;
    if (i < n) atomicAdd(&c[keys[i] >> shift & (RADIX - 1)], 1);
    __syncthreads();
    if (threadIdx.x < RADIX) counts[threadIdx.x * gridDim.x + blockIdx.x] = c[threadIdx.x];
}

__global__ void exclusive(int *x, int n) {   // one warp goes along
    int lane = threadIdx.x, before = 0;
    for (int from = 0; from < n; from += 32) {
        int v = from + lane < n ? x[from + lane] : 0, sum = v;
        for (int by = 1; by < 32; by *= 2) {
            int o = __shfl_up_sync(~0u, sum, by);
            if (lane >= by) sum += o;
        }
        if (from + lane < n) x[from + lane] = before + sum - v;
        before += __shfl_sync(~0u, sum, 31);
    }
}

// Stable: a key's place is its digit's start and the number of equal digits before it in the block.
__global__ void scatter(const unsigned *keys, const int *values, unsigned *out_keys, int *out_values, int n, int shift,
                        const int *starts) {
    __shared__ int warps[TPB / 32][RADIX];
    int i = blockIdx.x * TPB + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned key = i < n ? keys[i] : 0;
    int digit = i < n ? int(key >> shift & (RADIX - 1)) : RADIX;
    unsigned peers = __match_any_sync(~0u, digit);
    for (int d = lane; d < RADIX; d += 32) warps[warp][d] = 0;
    __syncwarp();
    if (i < n && lane == __ffs(peers) - 1) warps[warp][digit] = __popc(peers);
    __syncthreads();
    if (i >= n) return;
    int at = starts[digit * gridDim.x + blockIdx.x] + __popc(peers & ((1u << lane) - 1));
    for (int w = 0; w < warp; w++) at += warps[w][digit];
    out_keys[at] = key;
    out_values[at] = values[i];
}

int main() {
    const int n = 500, blocks = (n + TPB - 1) / TPB;
    unsigned h[n], k[n], *keys[2], seed = 7;
    int v[n], *values[2], *counts;
    for (int i = 0; i < n; i++) h[i] = (seed = seed * 1103515245u + 12345u) >> 12 & 0xfff, v[i] = i;
    for (int b = 0; b < 2; b++) cudaMalloc(&keys[b], sizeof h), cudaMalloc(&values[b], sizeof v);
    cudaMalloc(&counts, RADIX * blocks * sizeof(int));
    cudaMemcpy(keys[0], h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemcpy(values[0], v, sizeof v, cudaMemcpyHostToDevice);
    int from = 0;
    for (int shift = 0; shift < 12; shift += BITS, from ^= 1) {
        count<<<blocks, TPB>>>(keys[from], n, shift, counts);
        exclusive<<<1, 32>>>(counts, RADIX * blocks);
        scatter<<<blocks, TPB>>>(keys[from], values[from], keys[1 - from], values[1 - from], n, shift, counts);
    }
    cudaMemcpy(k, keys[from], sizeof k, cudaMemcpyDeviceToHost);
    cudaMemcpy(v, values[from], sizeof v, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += k[i] != h[v[i]] || (i && (k[i] < k[i - 1] || (k[i] == k[i - 1] && v[i] < v[i - 1])));
    printf("%d wrong, %u %u %u, %d %d\n%s\n", wrong, k[0], k[n / 2], k[n - 1], v[0], v[n - 1],
           cudaGetErrorName(cudaGetLastError()));
}
