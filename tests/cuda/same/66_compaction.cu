#include <cstdio>
#define FULL 0xffffffffu

template <typename P> __device__ int place_in_block(bool keep, P publish) {   // ordered
    __shared__ int warps[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned votes = __ballot_sync(FULL, keep);
    if (lane == 0) warps[warp] = __popc(votes);
    __syncthreads();
    if (warp == 0) {
        int mine = lane < (blockDim.x + 31) / 32 ? warps[lane] : 0, sum = mine;
        for (int by = 1; by < 32; by *= 2) {
            int before = __shfl_up_sync(FULL, sum, by);
            if (lane >= by) sum += before;
        }
        warps[lane] = sum - mine;
        if (lane == 31) publish(sum);
    }
    __syncthreads();
    return warps[warp] + __popc(votes & ((1u << lane) - 1));
}

__global__ void count(const int *x, int n, int *counts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int c = __syncthreads_count(i < n && x[i] < 0);
    if (threadIdx.x == 0) counts[blockIdx.x] = c;
}
__global__ void starts(int *counts, int blocks, int *total) {
    int s = 0;
    for (int b = 0; b < blocks; b++) { int c = counts[b]; counts[b] = s; s += c; }
    *total = s;
}
__global__ void gather(const int *x, int n, const int *start, int *out, int *from) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool keep = i < n && x[i] < 0;
    int at = start[blockIdx.x] + place_in_block(keep, [](int) {});
    if (keep) out[at] = x[i], from[at] = i;
}

// In one block: negatives to the front, the others behind, both in order
__global__ void partition(int *x, int n, int *negatives) {
    __shared__ int count;
    int t = threadIdx.x, v = t < n ? x[t] : 0;
    int before = place_in_block(t < n && v < 0, [&](int sum) { count = sum; });
    if (t < n) x[v < 0 ? before : count + t - before] = v;
    if (t == 0) *negatives = count;
}

int main() {
    const int n = 450, tpb = 96, blocks = (n + tpb - 1) / tpb;
    int h[n], got[n], from[n], *x, *out, *dfrom, *counts, *total, kept, wrong = 0, k = 0;
    for (int i = 0; i < n; i++) h[i] = (i * 101 + 7) % 223 - 90;
    cudaMalloc(&x, sizeof h), cudaMalloc(&out, sizeof h), cudaMalloc(&dfrom, sizeof h);
    cudaMalloc(&counts, blocks * sizeof(int)), cudaMalloc(&total, sizeof(int));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    count<<<blocks, tpb>>>(x, n, counts);
    starts<<<1, 1>>>(counts, blocks, total);
    gather<<<blocks, tpb>>>(x, n, counts, out, dfrom);
    cudaMemcpy(&kept, total, sizeof kept, cudaMemcpyDeviceToHost);
    cudaMemcpy(got, out, kept * sizeof(int), cudaMemcpyDeviceToHost);
    cudaMemcpy(from, dfrom, kept * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i++) if (h[i] < 0) wrong += k >= kept || got[k] != h[i] || from[k] != i, k++;
    printf("%d kept, %d wrong, %d\n", kept, wrong + (k != kept), got[kept - 1]);
    partition<<<1, 128>>>(x, 100, total);
    cudaMemcpy(got, x, 100 * sizeof(int), cudaMemcpyDeviceToHost);
    cudaMemcpy(&kept, total, sizeof kept, cudaMemcpyDeviceToHost);
    printf("%d, %d %d %d %d\n%s\n", kept, got[0], got[kept - 1], got[kept], got[99],
           cudaGetErrorName(cudaGetLastError()));
}
