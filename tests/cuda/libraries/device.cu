// PTX for parts of words and for flags, a pipeline of a block, attributes, and handles of memory and events. With an
// argument, the producers do not wait for the consumers.
#include <cooperative_groups.h>
#include <cub/cub.cuh>
#include <cuda/pipeline>
#include <cuda_fp16.h>
#include <thrust/complex.h>
#include <cstdio>
#include <cstring>
namespace cg = cooperative_groups;
__global__ void video(unsigned *out) {
    unsigned a = 0x01f07f80, b = 0x02107f81, sum, four, shifted;
    asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(1000u));
    asm("vabsdiff4.u32.u32.u32 %0, %1, %2, %3;" : "=r"(four) : "r"(a), "r"(b), "r"(0u));
    asm("vshr.u32.u32.u32.clamp.add %0, %1, %2, %3;" : "=r"(shifted) : "r"(a), "r"(8u), "r"(5u));
    out[0] = sum, out[1] = four, out[2] = shifted;
    int low;
    asm("vadd.s32.s32.s32.sat %0, %1, %2;" : "=r"(low) : "r"(-2147483647), "r"(-9));
    asm("vadd4.s32.s32.s32.sat %0, %1, %2, %3;" : "=r"(four) : "r"(0x7f80017f), "r"(0x01ff0101), "r"(0));
    out[3] = unsigned(low), out[4] = four;
}
__global__ void flags(unsigned char *arrived, float *data, unsigned *out) {   // block 0 signals block 1
    if (blockIdx.x == 0) {
        *data = 3;
        asm volatile("st.release.sys.global.u8 [%0], %1;" :: "l"(arrived) "r"(7) : "memory");
        return;
    }
    unsigned seen;
    do asm volatile("ld.acquire.sys.global.u8 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
    while (seen != 7);
    out[0] = unsigned(*data);
    uint4 v;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(out + 4));
    out[1] = v.x + v.y + v.z + v.w;
}
// Threads 0 to 31 produce, the others consume, in a ring of two stages.
template <bool waits> __global__ void ring(const float *x, float *out, int steps) {
    const auto block = cg::this_thread_block();
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ float stage[2][32];
    const bool produces = threadIdx.x < 32;
    const auto role = produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipe = cuda::make_pipeline(block, &state, role);
    float sum = 0;
    for (int i = 0; i < steps; i++)
        if (produces) {
            if (waits) pipe.producer_acquire();
            cuda::memcpy_async(&stage[i % 2][threadIdx.x], &x[i * 32 + threadIdx.x], sizeof(float), pipe);
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            sum += stage[i % 2][63 - threadIdx.x];
            pipe.consumer_release();
        }
    if (!produces) out[threadIdx.x - 32] = sum;
}
__global__ void assigned(float *out) {
    __half2 h(1.0f, 2.0f);
    h = {};
    thrust::complex<float> c(1, 2);
    c = c * thrust::conj(c) + 1.0f;
    out[0] = __low2float(h) + c.real(), out[1] = c.imag();
}
int main(int argc, char **argv) {
    unsigned *out, h[8];
    cudaMalloc(&out, 32), cudaMemset(out, 0, 32);
    video<<<1, 1>>>(out);
    cudaMemcpy(h, out, 32, cudaMemcpyDeviceToHost);
    printf("%u %x %u %d %x\n", h[0], h[1], h[2], int(h[3]), h[4]);
    unsigned char *arrived;
    float *data;
    cudaMalloc(&arrived, 1), cudaMemset(arrived, 0, 1), cudaMalloc(&data, 4);
    for (unsigned &v : h) v = 5;
    cudaMemcpy(out, h, 32, cudaMemcpyHostToDevice);
    flags<<<2, 1>>>(arrived, data, out);
    cudaMemcpy(h, out, 32, cudaMemcpyDeviceToHost);
    printf("%u %u\n", h[0], h[1]);
    float x[160], *dx, *dout, sums[32];
    for (int i = 0; i < 160; i++) x[i] = float(i);
    cudaMalloc(&dx, sizeof x), cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice), cudaMalloc(&dout, 128);
    if (argc > 1) ring<false><<<1, 64>>>(dx, dout, 5);
    else ring<true><<<1, 64>>>(dx, dout, 5);
    cudaMemcpy(sums, dout, 128, cudaMemcpyDeviceToHost);
    printf("%g %g\n", sums[0], sums[31]);
    std::chrono::steady_clock::now();                      // CUB includes its header
    assigned<<<1, 1>>>(dout);
    cudaMemcpy(sums, dout, 8, cudaMemcpyDeviceToHost);
    printf("%g %g\n", sums[0], sums[1]);
    int value = -1;
    cudaDeviceGetAttribute(&value, cudaDevAttrHostNativeAtomicSupported, 0);
    printf("%d %s %d\n", value, cudaGetErrorName(cudaErrorGraphExecUpdateFailure), int(cudaDevAttrMaxPitch));
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t event;
    cudaEvent_t e, opened = nullptr;
    void *p = nullptr;
    cudaEventCreate(&e, cudaEventDisableTiming | cudaEventInterprocess);
    printf("%d ", cudaIpcGetMemHandle(&memory, dx) || cudaIpcGetEventHandle(&event, e));
    printf("%d ", cudaIpcOpenMemHandle(&p, memory, cudaIpcMemLazyEnablePeerAccess));
    printf("%d ", cudaIpcOpenEventHandle(&opened, event));
    printf("%d %d\n", p == dx, opened == e);
    memset(&memory, 1, sizeof memory);
    printf("%d\n", int(cudaIpcOpenMemHandle(&p, memory, 0)));
}
