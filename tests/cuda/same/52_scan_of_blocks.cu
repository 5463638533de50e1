#include <cstdio>
const int TPB = 64;

__device__ int warp_scan(int v) {
    for (int by = 1; by < 32; by *= 2) {
        int before = __shfl_up_sync(~0u, v, by);
        if (threadIdx.x % 32 >= by) v += before;
    }
    return v;
}
__device__ int block_scan(int v) {
    __shared__ int warps[TPB / 32];
    v = warp_scan(v);
    if (threadIdx.x % 32 == 31) warps[threadIdx.x / 32] = v;
    __syncthreads();
    for (int w = 0; w < threadIdx.x / 32; w++) v += warps[w];
    return v;
}

// Three kernels: scan each block, scan the blocks' totals, add what comes before.
__global__ void scan_blocks(const int *x, int *out, int *totals, int n) {
    int i = blockIdx.x * TPB + threadIdx.x, v = block_scan(i < n ? x[i] : 0);
    if (i < n) out[i] = v;
    if (totals && threadIdx.x == TPB - 1) totals[blockIdx.x] = v;
}
__global__ void add_before(int *out, const int *totals, int n) {
    int i = (blockIdx.x + 1) * TPB + threadIdx.x;
    if (i < n) out[i] += totals[blockIdx.x];
}
void scan(const int *x, int *out, int n) {   // any length: the totals are scanned in the same way
    int blocks = (n + TPB - 1) / TPB, *totals = nullptr;
    if (blocks == 1) { scan_blocks<<<1, TPB>>>(x, out, nullptr, n); return; }
    cudaMalloc(&totals, blocks * sizeof(int));
    scan_blocks<<<blocks, TPB>>>(x, out, totals, n);
    scan(totals, totals, blocks);
    add_before<<<blocks - 1, TPB>>>(out, totals, n);
    cudaFree(totals);
}

// One kernel: a block takes the next part, and waits till the part before has published its sum.
struct State { unsigned next; int published; int before; };
__global__ void chained(const int *x, int *out, int n, State *s) {
    __shared__ int part, before;
    if (threadIdx.x == 0) part = atomicAdd(&s->next, 1);
    __syncthreads();
    int i = part * TPB + threadIdx.x, v = block_scan(i < n ? x[i] : 0);
    if (threadIdx.x == TPB - 1) {
        while (atomicAdd(&s->published, 0) != part) { }
        __threadfence();
        before = *(volatile int *)&s->before;
        *(volatile int *)&s->before = before + v;
        __threadfence();
        atomicExch(&s->published, part + 1);
    }
    __syncthreads();
    if (i < n) out[i] = before + v;
}

int main() {
    const int n = 5000;
    int *h = new int[n], *got = new int[n], *x, *o;
    State *s;
    for (int i = 0; i < n; i++) h[i] = i * 7 % 11 - 3;
    cudaMalloc(&x, n * sizeof(int)), cudaMalloc(&o, n * sizeof(int)), cudaMalloc(&s, sizeof(State));
    cudaMemcpy(x, h, n * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemset(s, 0, sizeof(State));
    for (int kind = 0; kind < 2; kind++) {
        cudaMemset(o, 0, n * sizeof(int));
        if (kind == 0) scan(x, o, n);
        else chained<<<(n + TPB - 1) / TPB, TPB>>>(x, o, n, s);
        cudaMemcpy(got, o, n * sizeof(int), cudaMemcpyDeviceToHost);
        int sum = 0, wrong = 0;
        for (int i = 0; i < n; i++) sum += h[i], wrong += got[i] != sum;
        printf("%d wrong, last %d\n", wrong, got[n - 1]);
    }
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
