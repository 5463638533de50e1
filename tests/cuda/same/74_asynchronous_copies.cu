#include <cstdio>
#include <cuda_pipeline.h>
#include <cstdint>

__device__ uint32_t shared_address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
#define COMMIT asm volatile("cp.async.commit_group;\n" ::: "memory")
#define WAIT_ALL() asm volatile("cp.async.wait_all;" ::: "memory")
#define WAIT_FOR(n) asm volatile("cp.async.wait_group " #n ";" ::: "memory")
template <int left> __device__ void wait_group() { asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory"); }
template <int bytes> __device__ void copy(void *to, const void *from, int read = bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n"
                 ::"r"(shared_address(to)), "l"(from), "n"(bytes), "r"(read) : "memory");
}

__global__ void kinds(const int *x, int *out) {   // 4, 8 and 16 bytes, of which some are read and the rest is 0
    __shared__ alignas(16) int s[3][128];
    int t = threadIdx.x;
    copy<4>(&s[0][t], x + t);
    copy<4>(&s[0][t + 32], x + t, t % 2 * 4);
    copy<8>(&s[1][2 * t], x + 2 * t, t % 3 * 4);
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 ::"r"(shared_address(&s[2][4 * t])), "l"(x + 4 * t), "r"(t % 5 * 4));
    WAIT_ALL();
    __syncthreads();
    for (int i = t; i < 64; i += 32) out[i] = s[0][i];
    for (int i = t; i < 64; i += 32) out[64 + i] = s[1][i];
    for (int i = t; i < 128; i += 32) out[128 + i] = s[2][i];
}

__global__ void stages(const int *x, int *out, int n) {   // sums of a row of 64 each, three stages under way
    __shared__ alignas(16) int s[3][64];
    int t = threadIdx.x, sum = 0;
    auto fetch = [&](int i) {
        asm volatile("{\n  .reg .pred p;\n  setp.lt.s32 p, %2, %3;\n"
                     "  @p cp.async.cg.shared.global [%0], [%1], 16;   // only those that there are\n}"
                     ::"r"(shared_address(&s[i % 3][4 * (t % 16)])), "l"(x + i * 64 + 4 * (t % 16)),
                       "r"(i), "r"(t < 16 ? n : 0) : "memory");
        COMMIT;
    };
    fetch(0), fetch(1);
    for (int i = 0; i < n; i++) {
        i + 1 < n ? wait_group<1>() : wait_group<0>();
        __syncthreads();
        if (i + 2 < n) fetch(i + 2);
        sum += s[i % 3][t] * (t + i);
    }
    out[t] = sum;
}

__global__ void by_functions(const int *x, int *out) {
    __shared__ alignas(16) int s[2][32];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[0][t], x + t, 4);
    __pipeline_commit();
    if (t < 8) __pipeline_memcpy_async(&s[1][4 * t], x + 4 * t, 16, t % 5 * 4);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    out[t] = s[0][t];
    WAIT_FOR(0);
    __syncthreads();
    out[32 + t] = s[1][31 - t];
}

int main() {
    int h[640], *x, *out;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    for (int i = 0; i < 640; i++) h[i] = i * i % 97 + 1;
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    kinds<<<1, 32>>>(x, out);
    cudaMemcpy(h, out, 256 * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < 256; i++) printf("%d%s", h[i], i % 32 == 31 ? "\n" : " ");
    stages<<<1, 64>>>(x, out, 10);
    cudaMemcpy(h, out, 64 * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < 64; i += 7) printf("%d ", h[i]);
    by_functions<<<1, 32>>>(x, out);
    cudaMemcpy(h, out, 64 * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < 64; i++) printf("%s%d", i % 32 ? " " : "\n", h[i]);
    printf("\n%s\n", cudaGetErrorName(cudaGetLastError()));
}
