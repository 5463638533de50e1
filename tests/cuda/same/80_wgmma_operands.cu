// flags: -gencode=arch=compute_90a,code=sm_90a
// Which places of shared memory wgmma takes its operands from: whole numbers everywhere, and many descriptors.
#include <cuda_bf16.h>
#include <cstdio>
typedef unsigned long long u64;

__device__ unsigned address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

template <int TA, int TB> __device__ void multiply(float (&d)[16], u64 a, u64 b) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, 1, 1, 1, %18, %19;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                 : "l"(a), "l"(b), "n"(TA), "n"(TB) : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

__device__ u64 descriptor(const void *p, int lead, int stride, int mode) {
    return (address(p) & 0x3ffff) >> 4 | (u64)(lead >> 4) << 16 | (u64)(stride >> 4) << 32 | (u64)mode << 62;
}

template <int TA, int TB> __global__ void k(unsigned *out, int mode, int lead, int stride, int skip) {
    extern __shared__ __align__(1024) __nv_bfloat16 s[];
    for (int i = threadIdx.x; i < 48*1024/2; i += 128) s[i] = __float2bfloat16(float(i*40503u/97%17) - 8);
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    float d[16] = {};
    multiply<TA, TB>(d, descriptor(s + skip/2, lead, stride, mode),
                     descriptor(s + 12*1024 + skip/2, lead, stride, mode));
    unsigned hash = 17;
    for (int i = 0; i < 16; i++) hash = hash*31 + int(d[i]);
    out[threadIdx.x] = hash;
}

template <int TA, int TB> void row(unsigned *out, int mode, int lead, int stride, int skip) {
    unsigned host[128], hash = 17;
    k<TA, TB><<<1, 128, 48*1024>>>(out, mode, lead, stride, skip);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    for (unsigned x : host) hash = hash*31 + x;
    printf("a %s, b %s, swizzle %3d, %4d and %4d bytes apart, from %4d: %08x %s\n", TA ? "turned" : "along k",
           TB ? "turned" : "along k", mode ? 256 >> mode : 0, lead, stride, skip, hash,
           cudaGetErrorString(cudaGetLastError()));
}

int main() {
    unsigned *out;
    cudaMalloc(&out, 128*sizeof *out);
    // along k, with and without a swizzle; further along k within the swizzle
    for (int lead : {128, 1024}) for (int stride : {256, 2048}) row<0, 0>(out, 0, lead, stride, 0);
    for (int mode : {1, 2, 3})
        for (int stride : {8*(256 >> mode), 16*(256 >> mode)}) row<0, 0>(out, mode, 16, stride, 0);
    row<0, 0>(out, 1, 16, 1024, 32), row<0, 0>(out, 1, 16, 1024, 96), row<0, 0>(out, 2, 16, 512, 32);
    // across k
    for (int lead : {2048, 4096}) for (int stride : {1024, 2048}) {
        row<0, 1>(out, 1, lead, stride, 0); row<1, 0>(out, 1, lead, stride, 0); row<1, 1>(out, 1, lead, stride, 0);
    }
    for (int lead : {1024, 2048}) row<1, 1>(out, 2, lead, 512, 0), row<1, 1>(out, 3, lead, 256, 0);
    for (int lead : {128, 512}) for (int stride : {256, 1024}) row<1, 1>(out, 0, lead, stride, 0);
    cudaFree(out);
    return 0;
}
