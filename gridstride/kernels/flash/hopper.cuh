// Functions of the attention kernels for a Hopper GPU, in addition to ptx.cuh: TMA loads of 4D arrays, named barriers.
__device__ void tma_load(u32 dst, const TensorMap &x, int c, int row, int head, int batch, u32 bar) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];"
                 :: "r"(dst), "l"(&x), "r"(c), "r"(row), "r"(head), "r"(batch), "r"(bar) : "memory");
}
__device__ void prefetch(const TensorMap &x) { asm volatile("prefetch.tensormap [%0];" :: "l"(&x) : "memory"); }

// Named barriers: some threads wait, others only arrive
__device__ void named_sync(int bar, int threads) {
    asm volatile("bar.sync %0, %1;" :: "r"(bar), "r"(threads) : "memory");
}
__device__ void named_arrive(int bar, int threads) {
    asm volatile("bar.arrive %0, %1;" :: "r"(bar), "r"(threads) : "memory");
}

// Makes the compiler assume that d is read and written here: it does not see that an asynchronous wgmma writes d
template<int N> __device__ void fence_accumulators(float (&d)[N]) {
    #pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i]) :: "memory");
}

// Keeps ptxas from moving the computation of `sum` after the wait for the wgmmas, with a store under a condition
// that never holds: `sum` is never negative
__device__ void keep_before(float sum, u32 anywhere) {
    if (sum < 0) asm volatile("st.shared.f32 [%0], %1;" :: "r"(anywhere), "f"(sum) : "memory");
}

// wgmma reads descriptors from uniform registers. If the compiler knows that the base of a descriptor is the same in
// all lanes, the descriptor takes one addition, otherwise 13 instructions; a wgmma with 64 columns takes only 32
// cycles.
__device__ int uniform(int x) { return __shfl_sync(~0u, x, 0); }
// Returns the lower 32 bits of a matrix descriptor, which have the address; `advance` adds the constant upper half.
__device__ u32 descriptor_lo(u32 tile, u32 leading_bytes) {
    return uniform((tile & 0x3ffff) >> 4 | leading_bytes >> 4 << 16);
}
__device__ u64 advance(u32 lo, int bytes) { return (u64)(1 << 30 | 1024 >> 4) << 32 | (lo + bytes/16); }

// The current stage of a multistage pipeline (a ring of STAGES buffers), and the phase of its barriers, which counts
// the passes through the ring
struct PipelineState {
    int stage = 0, phase = 0;
    __device__ void next() {
        if (++stage == STAGES) { stage = 0; phase++; }
    }
};
