// More instructions of a Hopper GPU for the blocks of a cluster. (Products are compiled below all of ptx.cuh, and their
// recordings are keyed on that text, so what they do not need is here.)
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
// As `cluster_arrive`, where others need not see what this thread wrote: no fence, which takes a thousand cycles
__device__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
__device__ void into_block(float *p, int rank, float v) {
    u32 there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address(p)), "r"(rank));
    asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(there), "f"(v) : "memory");
}
__device__ void into_block(double *p, int rank, double v) {
    u32 there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address(p)), "r"(rank));
    asm volatile("st.shared::cluster.f64 [%0], %1;" :: "r"(there), "d"(v) : "memory");
}
// Stores two floats in another block (st.async), whose mbarrier at the address of `bar` counts their bytes
__device__ void store_async(void *p, int rank, float a, float b, u32 bar) {
    asm volatile("{ .reg .b32 there, over;\n"
                 "mapa.shared::cluster.u32 there, %0, %1; mapa.shared::cluster.u32 over, %4, %1;\n"
                 "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [there], {%2, %3}, [over]; }"
                 :: "r"(address(p)), "r"(rank), "f"(a), "f"(b), "r"(bar) : "memory");
}
