#include <cstdio>

__device__ struct { int calls; float sum; } stats;
__constant__ struct Setting { int times, plus; } setting = {3, 1}, other = {5, 2};
__device__ enum Mode { OFF, ON } mode = ON;
__device__ unsigned long int seen, *last_seen;
__device__ const char *const names[] = {"zero", "one", "two"};

__global__ void ranges(const int *x, int *out) {
    __shared__ struct { int lo, hi; } range;
    __shared__ union { float f; int i; } bits;
    __shared__ struct Cell { short a, b; } cells[32];
    __shared__ unsigned int long wide[2][2], *at;
    __shared__ const char (*word)[4];
    __shared__ int (*functions[2])(int);
    int t = threadIdx.x;
    if (t == 0) {
        range.lo = 1 << 30, range.hi = -1, bits.f = 1.0f, at = &wide[1][0], word = &"abc";
        functions[0] = [](int v) { return v + 1; };
        functions[1] = [](int v) { return v * 2; };
    }
    if (t < 4) wide[t / 2][t % 2] = t * 10;
    __syncthreads();
    atomicMin(&range.lo, x[t]);
    atomicMax(&range.hi, x[t]);
    cells[t] = Cell{short(t), short(-t)};
    __syncthreads();
    int sum = range.lo + range.hi * 100 + bits.i % 1000 + int(at[t % 2]) + (*word)[t % 3];
    out[t] = sum + cells[31 - t].a + cells[t].b + functions[t % 2](t);
}
__global__ void globals(int *out) {
    atomicAdd(&stats.calls, 1);
    atomicAdd(&stats.sum, 0.5f * threadIdx.x);
    if (threadIdx.x == 0) seen = 77, last_seen = &seen;
    out[threadIdx.x] = threadIdx.x * setting.times + setting.plus + other.times * 1000 + names[threadIdx.x % 3][0];
    if (mode == ON && threadIdx.x == 0) out[0] += int(*last_seen) * 10000;
}

int main() {
    int h[32], *x, *o;
    for (int i = 0; i < 32; i++) h[i] = 5 + i * 13 % 37;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&o, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    ranges<<<1, 32>>>(x, o);
    cudaMemcpy(h, o, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 32; i += 5) printf("%d ", h[i]);
    globals<<<1, 9>>>(o);
    cudaMemcpy(h, o, 36, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 9; i++) printf("%d ", h[i]);
    struct { int calls; float sum; } s;
    cudaMemcpyFromSymbol(&s, stats, sizeof s);
    printf("\n%d %g\n%s\n", s.calls, s.sum, cudaGetErrorName(cudaGetLastError()));
}
