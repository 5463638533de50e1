// More PTX instructions for thread block clusters. (The source of a product includes all of ptx.cuh, and its recordings
// are keyed on that code, so functions that products do not need are here.)
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
// Like `cluster_arrive`, but without a release of this thread's writes, which takes a thousand cycles
__device__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
__device__ void into_block(float *p, int rank, float v) {       // stores to the same address in another block
    u32 there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address(p)), "r"(rank));
    asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(there), "f"(v) : "memory");
}
__device__ void into_block(double *p, int rank, double v) {
    u32 there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address(p)), "r"(rank));
    asm volatile("st.shared::cluster.f64 [%0], %1;" :: "r"(there), "d"(v) : "memory");
}
// Stores two floats in another block (st.async); the mbarrier of that block at the address of `bar` counts their bytes
__device__ void store_async(void *p, int rank, float a, float b, u32 bar) {
    asm volatile("{ .reg .b32 there, over;\n"
                 "mapa.shared::cluster.u32 there, %0, %1; mapa.shared::cluster.u32 over, %4, %1;\n"
                 "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [there], {%2, %3}, [over]; }"
                 :: "r"(address(p)), "r"(rank), "f"(a), "f"(b), "r"(bar) : "memory");
}
