// Functions for PTX instructions that CUDA C has no function for. Many of them need a Hopper GPU. The lessons `mma`,
// `pipelines` and `tma_and_wgmma` explain most of them.
typedef unsigned u32;
typedef unsigned long long u64;

__device__ u32 address(const void *p) { return (u32)__cvta_generic_to_shared(p); }    // in shared memory

// Asynchronous copies by threads, from global to shared memory, without registers; they write zeros unless `valid`
template<int BYTES> __device__ void copy_async(u32 to, const void *from, bool valid) {
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     :: "r"(to), "l"(from), "n"(BYTES), "r"(valid ? BYTES : 0) : "memory");
}
template<int BYTES> __device__ void copy_async(void *to, const void *from, bool valid) {
    copy_async<BYTES>(address(to), from, valid);
}
__device__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template<int PENDING> __device__ void copies_wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}
__device__ void copies_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// mbarriers: barriers in shared memory that count arrivals and bytes
__device__ void barrier_init(u32 bar, int count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory");
}
__device__ void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void barrier_arrive(u32 bar) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(bar) : "memory"); }
__device__ void barrier_expect(u32 bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}
__device__ void barrier_wait(u32 bar, int phase) {      // waits until this phase has completed; phase -1 already has
    asm volatile("{ .reg .pred done;\nagain: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra again; }"
                 :: "r"(bar), "r"(phase & 1) : "memory");
}
// Returns whether the phase of this parity has completed; waits for it for a limited time
__device__ int barrier_completed(u32 bar, int parity) {
    int done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(bar), "r"(parity) : "memory");
    return done;
}

// Bulk copies, which one thread issues: copies of contiguous bytes ...
__device__ void bulk_copy(u32 to, const void *from, int bytes, u32 bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(to), "l"(from), "r"(bytes), "r"(bar) : "memory");
}
__device__ void bulk_copy_evict_first(u32 to, const void *from, int bytes, u32 bar) {    // an L2 hint: evict them first
    u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1], %2, [%3], %4;"
                 :: "r"(to), "l"(from), "r"(bytes), "r"(bar), "l"(policy) : "memory");
}

// ... and copies of boxes of an array that a tensor map describes (TMA)
struct alignas(64) TensorMap { char bytes[128]; };

__device__ void tma_load(u32 to, const TensorMap &x, int r, int c, u32 bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 :: "r"(to), "l"(&x), "r"(c), "r"(r), "r"(bar) : "memory");
}
// `blocks`: a bit per block of the cluster
__device__ void tma_load_multicast(u32 to, const TensorMap &x, int r, int c, u32 bar, short blocks) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(to), "l"(&x), "r"(c), "r"(r), "r"(bar), "h"(blocks) : "memory");
}
__device__ void fence_for_tma() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void tma_store(const TensorMap &x, int r, int c, u32 from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(&x), "r"(c), "r"(r), "r"(from) : "memory");
}
__device__ void stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ void stores_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// Matrix products by a warpgroup; `wgmma` in ptx.py generates the function that issues a product
__device__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template<int N> __device__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }

// Makes the compiler assume that d is read and written here: it does not see that an asynchronous wgmma writes d later
template<int M, int N> __device__ void fence_accumulators(float (&d)[M][N]) {
    #pragma unroll
    for (int i = 0; i < M*N; i++) asm volatile("" : "+f"(d[i/N][i%N]) :: "memory");
}

// Returns the wgmma descriptor of a tile with a 128-byte swizzle: rows of 128 bytes; 8 rows are 1024 bytes after the
// previous 8 rows
__device__ u64 descriptor(u32 at, u32 lead) {
    return (at & 0x3ffff) >> 4 | (u64)(lead >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

// Reallocate registers between warpgroups: decrease or increase the number of registers per thread to N
template<int N> __device__ void setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N)); }
template<int N> __device__ void setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N)); }

// Thread block clusters
__device__ int rank() { u32 x; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(x)); return x; }
__device__ void cluster_sync() { asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory"); }
__device__ void barrier_arrive_at(u32 bar, int rank) {      // `bar` is an address in another block
    asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote]; }"
                 :: "r"(bar), "r"(rank) : "memory");
}
__device__ float load_from_block(const float *p, int rank) {       // loads from the same address in another block
    u32 remote;
    float v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address(p)), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(remote) : "memory");
    return v;
}

// `ldmatrix` loads four 8x8 matrices from shared memory, `ldmatrix_trans2` loads two and transposes them; lane l passes
// the address of row l%8 of matrix l/8. `mma` is a product by a warp: d[16][8] += a[16][16] @ b[16][8]
__device__ void ldmatrix(u32 (&x)[4], u32 row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(row));
}
__device__ void ldmatrix_trans2(u32 (&x)[2], u32 row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(x[0]), "=r"(x[1]) : "r"(row));
}
__device__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// `pack` rounds two floats to bf16 and packs them into one register; `stmatrix` stores four 8x8 matrices of such pairs
// to shared memory
__device__ u32 pack(float lo, float hi) {
    u32 x;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(hi), "f"(lo));
    return x;
}
__device__ void stmatrix(u32 to, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
