// Memory operations at system scope, and waits for another GPU that end with a timeout.
typedef unsigned u32;
typedef unsigned long long u64;

__device__ inline void store_relaxed(u64 *p, u64 x) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" :: "l"(p), "l"(x) : "memory");
}
__device__ inline void store_release(u64 *p, u64 x) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" :: "l"(p), "l"(x) : "memory");
}
__device__ inline u64 load_relaxed(const u64 *p) {
    u64 x;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
    return x;
}
__device__ inline u64 load_acquire(const u64 *p) {
    u64 x;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
    return x;
}
__device__ inline u64 nanoseconds() {
    u64 x;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(x));
    return x;
}

// A timeout for waits for another rank: the kernel stores the rank and the round that it waits for in `report`, in host
// memory, and traps. All later calls of this process on this GPU fail.
struct Watchdog { u64 *report; u64 timeout; };
struct Timer {
    u64 start = 0;
    unsigned polls = 0;
    __device__ void poll(Watchdog watch, int rank, unsigned round) {
        if (++polls % 1024) return;
        const u64 now = nanoseconds();
        if (!start) start = now;
        if (now - start < watch.timeout) return;
        store_relaxed(watch.report + 1, round);
        store_release(watch.report, rank + 1);
        __threadfence_system();
        __trap();
    }
};
// A flag of 32 bits that a copy engine stores after a copy, or a stream waits for.
__device__ inline u32 load_acquire(const u32 *p) {
    u32 x;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
    return x;
}
__device__ inline void store_release(u32 *p, u32 x) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" :: "l"(p), "r"(x) : "memory");
}
// The flag may be that of the next round already: the other rank needs only what this rank has sent.
__device__ inline void wait_arrival(const u32 *flag, u32 round, int source, Watchdog watch) {
    Timer timer;
    while ((int)(load_acquire(flag) - round) < 0) timer.poll(watch, source, round);
}

// The state of copies and overlapped products, in the memory of this GPU.
struct CopyState {
    u64 round;              // `begin_round` increments it
    const u32 *arrived;     // [rank][MAX_COPIES]: the round in which this chunk of that rank has arrived
    u32 *num_stored;        // per chunk: warps that have stored their part of a tile
    u32 *complete;          // per chunk: the round in which all tiles of the chunk were stored
    u64 *report, timeout;   // of a `Watchdog`
};
