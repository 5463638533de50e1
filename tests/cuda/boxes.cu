// nvcc -std=c++17 -gencode=arch=compute_90a,code=sm_90a
// A box of an array of one to three axes, by every swizzle and over edges: as it lies in shared memory, and as it goes
// back. Arguments: the number of axes; the swizzle, 0 to 3; x, y, z of the box that comes; whether it goes back, and to
// which x, y, z. boxes.json has what an H100 printed, each time in a process of its own, since an illegal instruction
// ends one.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
typedef unsigned long long u64;

__device__ unsigned address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

template <int N> __device__ void load(void *to, const CUtensorMap &map, int x, int y, int z, u64 *bar) {
    if (N == 1)
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2}], [%3];" :: "r"(address(to)), "l"(&map), "r"(x), "r"(address(bar)) : "memory");
    if (N == 2)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];"
                     :: "r"(address(to)), "l"(&map), "r"(x), "r"(y), "r"(address(bar)) : "memory");
    if (N == 3)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3, %4}], [%5];"
                     :: "r"(address(to)), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(address(bar)) : "memory");
}
template <int N> __device__ void store(const CUtensorMap &map, int x, int y, int z, const void *from) {
    if (N == 1)
        asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%1}], [%2];"
                     :: "l"(&map), "r"(x), "r"(address(from)) : "memory");
    if (N == 2)
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                     :: "l"(&map), "r"(x), "r"(y), "r"(address(from)) : "memory");
    if (N == 3)
        asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];"
                     :: "l"(&map), "r"(x), "r"(y), "r"(z), "r"(address(from)) : "memory");
}

// the box at (x, y, z) of `in` comes, is written out as it lies, and goes to (ox, oy, oz) of `out`
template <int N> __global__ void k(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out,
                                   short *lies, int x, int y, int z, int bytes, int ox, int oy, int oz, int back) {
    extern __shared__ __align__(1024) short box[];
    __shared__ u64 bar;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;"
                     :: "r"(address(&bar)) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(address(&bar)), "r"(bytes) : "memory");
        load<N>(box, in, x, y, z, &bar);
    }
    __syncthreads();
    asm volatile("{ .reg .pred over;\nagain: mbarrier.try_wait.parity.shared.b64 over, [%0], 0;\n@!over bra again; }"
                 :: "r"(address(&bar)) : "memory");
    for (int i = threadIdx.x; i < bytes/2; i += blockDim.x) lies[i] = box[i];
    if (threadIdx.x == 0) {
        if (back) store<N>(out, ox, oy, oz, box);
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}

static PFN_cuTensorMapEncodeTiled_v12000 encode() {
    void *f = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &found);
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(f);
}
static CUtensorMap map_of(short *p, int axes, const int *sizes, const int *box, int swizzle) {
    CUtensorMap map;
    cuuint64_t all[3], steps[3], bytes = 2;
    cuuint32_t sides[3], every[3] = {1, 1, 1};
    for (int i = 0; i < axes; i++) { all[i] = sizes[i], sides[i] = box[i], bytes *= sizes[i], steps[i] = bytes; }
    CUresult error = encode()(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, axes, p, all, steps, sides, every,
                              CU_TENSOR_MAP_INTERLEAVE_NONE, CUtensorMapSwizzle(swizzle),
                              CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (error) printf("no map: %d\n", int(error));
    return map;
}
static unsigned hash_of(const short *p, int n) {
    std::vector<short> host(n);
    cudaMemcpy(host.data(), p, n*2, cudaMemcpyDeviceToHost);
    unsigned hash = 17;
    for (short x : host) hash = hash*31 + (unsigned short)x;
    return hash;
}

template <int N> void row(int ox, int oy, int oz, int back, int swizzle, int w, int h, int d, int bw, int bh, int bd,
                          int x, int y, int z) {
    const int sizes[] = {w, h, d}, box[] = {bw, bh, bd}, n = w*h*d, m = bw*bh*bd;
    std::vector<short> host(n);
    for (int i = 0; i < n; i++) host[i] = i + 1;
    short *in, *out, *lies;
    cudaMalloc(&in, n*2), cudaMalloc(&out, n*2), cudaMalloc(&lies, m*2);
    cudaMemcpy(in, host.data(), n*2, cudaMemcpyHostToDevice), cudaMemset(out, 0, n*2);
    k<N><<<1, 64, m*2>>>(map_of(in, N, sizes, box, swizzle), map_of(out, N, sizes, box, swizzle), lies, x, y, z, m*2,
                         ox, oy, oz, back);
    const unsigned as_it_lies = hash_of(lies, m), gone = hash_of(out, n);
    printf("%08x %08x %s\n", as_it_lies, gone, cudaGetErrorString(cudaGetLastError()));
    cudaFree(in), cudaFree(out), cudaFree(lies);
}

int main(int n, char **v) {
    int N = atoi(v[1]), sw = atoi(v[2]), x = atoi(v[3]), y = atoi(v[4]), z = atoi(v[5]), back = atoi(v[6]),
        ox = atoi(v[7]), oy = atoi(v[8]), oz = atoi(v[9]), side = sw ? 8 << sw : 64;
    if (N == 1) row<1>(ox, oy, oz, back, sw, 200, 1, 1, 64, 1, 1, x, y, z);
    if (N == 2) row<2>(ox, oy, oz, back, sw, 72, 40, 1, side, 16, 1, x, y, z);
    if (N == 3) row<3>(ox, oy, oz, back, sw, 72, 10, 5, side, 4, 3, x, y, z);
}
