// right: all blocks change one struct plainly, one after the other, behind a lock
#include <cstdio>

struct Account { int lock, entries; long long balance; };

__global__ void booked(Account *a, const int *amounts, int n) {
    __shared__ int sum;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    if (i < n) atomicAdd(&sum, amounts[i]);
    __syncthreads();
    if (threadIdx.x == 0) {
        while (atomicCAS(&a->lock, 0, 1) != 0) { }
        __threadfence();
        a->entries = a->entries + 1;
        a->balance += sum;
        __threadfence();
        atomicExch(&a->lock, 0);
    }
}

int main() {
    const int n = 300;
    int h[n], *d;
    Account a = {0, 0, 1000}, *da;
    for (int i = 0; i < n; i++) h[i] = i - 100;
    cudaMalloc(&d, sizeof h);
    cudaMalloc(&da, sizeof a);
    cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemcpy(da, &a, sizeof a, cudaMemcpyHostToDevice);
    booked<<<10, 32>>>(da, d, n);
    cudaMemcpy(&a, da, sizeof a, cudaMemcpyDeviceToHost);
    printf("%d %d %lld %s\n", a.lock, a.entries, a.balance, cudaGetErrorName(cudaGetLastError()));
}
