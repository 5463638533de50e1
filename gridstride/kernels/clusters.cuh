// More PTX instructions for thread block clusters. (The source of a GEMM includes all of ptx.cuh, and its recordings
// are keyed on that code, so functions that GEMMs do not need are here.)
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
// Like `cluster_arrive`, but does not release this thread's writes, which would take a thousand cycles
__device__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
__device__ void store_to_block(float *p, int rank, float v) {   // stores to the same address in another block
    u32 remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address(p)), "r"(rank));
    asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(remote), "f"(v) : "memory");
}
__device__ void store_to_block(double *p, int rank, double v) {
    u32 remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address(p)), "r"(rank));
    asm volatile("st.shared::cluster.f64 [%0], %1;" :: "r"(remote), "d"(v) : "memory");
}
// Stores two floats in another block (st.async); the mbarrier of that block at the address of `bar` counts their bytes
__device__ void store_async(void *p, int rank, float a, float b, u32 bar) {
    asm volatile("{ .reg .b32 remote, remote_bar;\n"
                 "mapa.shared::cluster.u32 remote, %0, %1; mapa.shared::cluster.u32 remote_bar, %4, %1;\n"
                 "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [remote], {%2, %3}, [remote_bar]; }"
                 :: "r"(address(p)), "r"(rank), "f"(a), "f"(b), "r"(bar) : "memory");
}
