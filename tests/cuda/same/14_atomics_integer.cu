#include <climits>
#include <cstdio>

typedef unsigned long long u64;

__global__ void ints(int *a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&a[0], i);
    atomicSub(&a[1], 2 * i);
    atomicMin(&a[2], (i * 37) % 100 - 50);
    atomicMax(&a[3], (i * 37) % 100 - 50);
    atomicAnd(&a[4], ~(1 << i % 20));
    atomicOr(&a[5], 1 << i % 20);
    atomicXor(&a[6], i);
    int before = atomicExch(&a[7], i + 1);
    atomicAdd(&a[8], before - (i + 1));   // all but the last value come back
    if (atomicCAS(&a[9], 0, i + 1) == 0) atomicAdd(&a[10], 1);
}

__global__ void unsigneds(unsigned *a) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(a, i);
    atomicSub(a + 1, 1u);
    atomicMin(a + 2, 3000000000u - i);
    atomicMax(a + 3, 3000000000u - i);
    atomicAnd(a + 4, 0xf0f0f0f0u | i);
    atomicOr(a + 5, i << 24);
    atomicXor(a + 6, i * 2654435761u);
    atomicInc(a + 7, 9);    // 0..9, then 0 again
    atomicDec(a + 8, 6);    // 6..0, then 6 again
    if (atomicInc(a + 9, gridDim.x * blockDim.x - 1) == gridDim.x * blockDim.x - 1) atomicAdd(a + 10, 1u);
}

__global__ void longs(u64 *a, long long *s) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(a, (u64)i << 32);
    atomicMin(a + 1, (u64)(1000 - i) << 40);
    atomicMax(a + 2, (u64)i << 50);
    atomicAnd(a + 3, ~((u64)1 << i % 64));
    atomicOr(a + 4, (u64)1 << i % 50);
    atomicXor(a + 5, (u64)i << 30);
    atomicExch(a + 6, 5ull);
    u64 old = atomicAdd(a + 7, 0ull), seen;
    do { seen = old; old = atomicCAS(a + 7, seen, seen * 3 + 1); } while (old != seen);
    atomicMin(s, -i * (1ll << 33));
    atomicMax(s + 1, -(i + 1) * (1ll << 33));
}

int main() {
    int h[11] = {0, 0, INT_MAX, INT_MIN, -1, 0, 0, 0, 0, 0, 0};
    unsigned u[11] = {0, 0, UINT_MAX, 0, UINT_MAX, 0, 0, 0, 0, 0, 0};
    u64 w[8] = {0, ULLONG_MAX, 0, ULLONG_MAX, 0, 0, 0, 1};
    long long s[2] = {0, LLONG_MIN};
    void *d, *e;
    cudaMalloc(&d, 256);
    cudaMalloc(&e, sizeof s);

    cudaMemcpy(d, h, sizeof h, cudaMemcpyDefault);
    ints<<<4, 50>>>((int *)d);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDefault);
    bool taken = h[9] >= 1 && h[9] <= 200;
    for (int i = 0; i < 7; i++) printf("%d ", h[i]);
    printf("| %d %d %d\n", h[7] + h[8], taken, h[10]);

    cudaMemcpy(d, u, sizeof u, cudaMemcpyDefault);
    unsigneds<<<3, 41>>>((unsigned *)d);
    cudaMemcpy(u, d, sizeof u, cudaMemcpyDefault);
    for (unsigned v : u) printf("%u ", v);

    cudaMemcpy(d, w, sizeof w, cudaMemcpyDefault);
    cudaMemcpy(e, s, sizeof s, cudaMemcpyDefault);
    longs<<<2, 20>>>((u64 *)d, (long long *)e);
    cudaMemcpy(w, d, sizeof w, cudaMemcpyDefault);
    cudaMemcpy(s, e, sizeof s, cudaMemcpyDefault);
    printf("\n");
    for (u64 v : w) printf("%llx ", v);
    printf("%lld %lld\n%s\n", s[0], s[1], cudaGetErrorName(cudaGetLastError()));
}
