// Functions for the PTX instructions of a Blackwell GPU (sm_100a): tensor memory and the tensor cores. They are used
// after those of ptx.cuh. Tensor memory has 128 lanes of 512 columns of 32 bits; an address has the lane in its upper
// 16 bits. Warp i can access the 32 lanes from 32*(i%4) on.

// One warp allocates columns, whose address is written to shared memory, and frees them.
__device__ void tensor_alloc(u32 dst, int columns) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
                 :: "r"(dst), "r"(columns) : "memory");
}
__device__ void tensor_free(u32 at, int columns) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(at), "r"(columns));
}
__device__ void tensor_relinquish() { asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"); }

// A warp loads or stores one column of its 32 lanes; until the wait, nothing else may change or free the column.
__device__ void tensor_load(float &value, u32 src) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=f"(value) : "r"(src));
}
__device__ void tensor_store(u32 dst, float value) {
    asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(dst), "f"(value) : "memory");
}
__device__ void tensor_wait_loads() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
__device__ void tensor_wait_stores() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

// Fences around a synchronization that orders accesses to tensor memory by different threads: the first thread calls
// `tensor_fence_before` before it, the others call `tensor_fence_after` after it.
__device__ void tensor_fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ void tensor_fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

// The matrix descriptor of a tile with a 128-byte swizzle: rows of 128 bytes, 1024 bytes from 8 rows to the next 8;
// `lead`: bytes to the next 64 columns of a transposed tile. Bit 46 is Blackwell's version.
__device__ u64 tensor_descriptor(u32 at, u32 lead) {
    return (at & 0x3ffff) >> 4 | (u64)(lead >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 46 | 2ull << 61;
}
// The instruction descriptor of a bf16 product with float accumulators; B_TRANSPOSED: b (K x N) is row-major
__device__ constexpr u32 tensor_instruction(int M, int N, bool B_TRANSPOSED) {
    return 1 << 4 | 1 << 7 | 1 << 10 | B_TRANSPOSED << 16 | N/8 << 17 | M/16 << 24;
}
// Issues d (+)= a (M x 16) @ b (16 x N), by one thread
__device__ void tensor_multiply(u32 d, u64 a, u64 b, u32 instruction, int more) {
    asm volatile("{ .reg .pred more; setp.ne.b32 more, %4, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, more; }"
                 :: "r"(d), "l"(a), "l"(b), "r"(instruction), "r"(more) : "memory");
}
// Arrives at the mbarrier when all tcgen05 instructions that this thread has issued are complete.
__device__ void tensor_commit(u32 bar) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(bar) : "memory");
}
