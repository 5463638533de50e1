#include <cassert>
#include <cstdio>

struct Range {
    int lo, hi;
    __device__ int check(int v) const { assert(lo <= v && v < hi); return v; }
};

__global__ void roots(const int *x, int *r, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    assert(x[i] >= 0);
    int y = 0;
    while ((y + 1) * (y + 1) <= x[i]) ++y;
    assert(y * y <= x[i] && "a root is not too great");
    r[i] = Range{0, 1000}.check(y);
    static_assert(sizeof(int) == 4, "ints have 4 bytes");
}

// With a false condition that nobody reaches
__global__ void unreached(int *r) {
    if (threadIdx.x > blockDim.x) assert(false);
    if (threadIdx.x >= 1000) __trap();
    assert(r[threadIdx.x] >= 0);
    r[threadIdx.x]++;
}

int main() {
    const int n = 70;
    int h[n], *x, *r;
    for (int i = 0; i < n; i++) h[i] = i * i + i;
    assert(h[2] == 6);
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&r, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    roots<<<3, 32>>>(x, r, n);
    unreached<<<1, n>>>(r);
    cudaError_t e = cudaDeviceSynchronize();
    cudaMemcpy(h, r, sizeof h, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < n; i++) wrong += h[i] != i + 1;
    printf("%d wrong\n%s %s\n", wrong, cudaGetErrorString(e), cudaGetErrorName(cudaGetLastError()));
}
