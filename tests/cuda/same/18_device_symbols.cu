#include <cstdio>

__device__ int counter, limit = 40;
__device__ float table[3][4] = {{1, 2}, {5, 6, 7, 8}};
__device__ int *where;
static __device__ unsigned long long big = 1ull << 40;
__device__ volatile int ready;
__managed__ int shared_with_host = 5;
__managed__ double sums[2];

typedef int (*op_t)(int, int);
__device__ int add(int a, int b) { return a + b; }
__device__ int times(int a, int b) { return a * b; }
__device__ op_t ops[] = {add, times, add};
__host__ __device__ int both(int x) { return 3 * x + 1; }
__device__ int declared_before(int);

__global__ void counted() {
    if (atomicAdd(&counter, 1) >= limit) atomicAdd(&shared_with_host, 1);
    atomicAdd(&sums[threadIdx.x % 2], 0.5 * threadIdx.x);
}
__global__ void changed() {
    table[threadIdx.x / 4][threadIdx.x % 4] *= 2;
    if (threadIdx.x == 0) big += 1, ready = 1;
}
__global__ void applied(int *out) {
    int t = threadIdx.x;
    out[t] = ops[t % 3](t, t + 1) + both(t) + declared_before(t);
    if (where) where[t] = out[t] + ready;
}
__device__ int declared_before(int x) { return -x; }

int main() {
    counted<<<2, 32>>>();
    cudaDeviceSynchronize();
    int c, *d;
    cudaMemcpyFromSymbol(&c, counter, sizeof c);
    printf("%d %d %.1f %.1f\n", c, shared_with_host, sums[0], sums[1]);
    int zero = 0, fewer = 10;
    cudaMemcpyToSymbol(counter, &zero, sizeof zero);
    cudaMemcpyToSymbol(limit, &fewer, sizeof fewer);
    shared_with_host = 100;
    counted<<<2, 32>>>();
    cudaDeviceSynchronize();
    printf("%d\n", shared_with_host);

    changed<<<1, 12>>>();
    float t[3][4];
    unsigned long long b;
    cudaMemcpyFromSymbol(t, table, sizeof t);
    cudaMemcpyFromSymbol(&b, big, sizeof b);
    for (auto &row : t) for (float v : row) printf("%g ", v);
    printf("%llx\n", b);

    int *address, h[8];
    size_t bytes;
    cudaGetSymbolAddress((void **)&address, counter);
    cudaGetSymbolSize(&bytes, table);
    cudaMemset(address, 0, sizeof(int));
    cudaMemcpyFromSymbol(&c, counter, sizeof c);
    cudaMalloc(&d, sizeof h);
    cudaMemcpyToSymbol(where, &d, sizeof d);
    int *scratch;
    cudaMalloc(&scratch, sizeof h);
    applied<<<1, 8>>>(scratch);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d |", c, int(bytes));
    for (int v : h) printf(" %d", v);
    printf(" | %d\n%s\n", both(2), cudaGetErrorName(cudaGetLastError()));
}
