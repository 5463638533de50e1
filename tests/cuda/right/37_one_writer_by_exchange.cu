// right: who comes first to a cell is found by atomicCAS, and that thread alone writes beside it
#include <cstdio>

struct Cell { unsigned taken; int owner_plus_bucket; };

__global__ void claimed(Cell *cells, int buckets, int n, int *won) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Cell &c = cells[i % buckets];
    if (atomicCAS(&c.taken, 0u, 1u) == 0) {
        c.owner_plus_bucket = i - i / buckets * buckets + 100;
        atomicAdd(won, 1);
    }
}

int main() {
    const int buckets = 13;
    Cell h[buckets], *cells;
    int won, *d, sum = 0;
    cudaMalloc(&cells, sizeof h);
    cudaMalloc(&d, sizeof(int));
    cudaMemset(cells, 0, sizeof h);
    cudaMemset(d, 0, sizeof(int));
    claimed<<<4, 32>>>(cells, buckets, 120, d);
    cudaMemcpy(h, cells, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpy(&won, d, sizeof won, cudaMemcpyDeviceToHost);
    for (Cell c : h) sum += c.owner_plus_bucket;
    printf("%d %d %s\n", won, sum, cudaGetErrorName(cudaGetLastError()));
}
