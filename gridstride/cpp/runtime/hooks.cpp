// The hooks that instrumented code calls: before every access (-fsanitize=thread, without ThreadSanitizer's runtime),
// and for an index that is out of bounds or an address that is misaligned for its type (-fsanitize=bounds,
// -fsanitize=alignment).
#include "detector.h"
#include "findings.h"
#include "loop_reads.h"
#include "ubsan.h"

using gridstride::detector;
static inline uint32_t location_of(void *pc) { return uint32_t(reinterpret_cast<uintptr_t>(pc) - detector.image.base); }
static inline void check_access(const volatile void *pointer, unsigned bytes, bool write, void *pc,
    bool is_atomic = false) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    if (__builtin_expect(gridstride::checks_enabled, 1)) detector.access(address, bytes, write, location_of(pc));
    else if (gridstride::memory.holds(address) && gridstride::options.checks) detector.check_host_access(address, bytes,
        write, is_atomic, pc);
    else if (__builtin_expect(gridstride::has_registered_memory, 0))
        gridstride::check_registered_access(address, bytes, write, is_atomic, pc);
}
// Checks the natural alignment up to 8 bytes; that of vector types is checked by -fsanitize=alignment.
static inline void check_alignment(const volatile void *pointer, unsigned bytes, bool write, void *pc) {
    bytes = std::min(bytes, 8u);
    if (reinterpret_cast<uintptr_t>(pointer) % bytes && gridstride::checks_enabled)
        detector.report_misaligned(reinterpret_cast<uintptr_t>(pointer), bytes, write ? "write" : "read",
            location_of(pc));
}
// Checks a volatile access, which PTX treats as a relaxed atomic one; it orders nothing (Detector::strong_conflict).
static inline void check_volatile_access(const volatile void *pointer, unsigned bytes, bool write, void *pc) {
    if (!gridstride::checks_enabled) return check_access(pointer, bytes, write, pc, true);
    detector.volatile_access(const_cast<void *>(pointer), bytes, write, location_of(pc));
}
// The full check of an access to memory other than the thread's stack and the built-in variables. While the detectors
// are off, `shared_base` and `own_stack` match no address.
template <unsigned n, bool write> static __attribute__((noinline)) void check_slow(void *p, void *pc) {
    const uintptr_t a = reinterpret_cast<uintptr_t>(p);
    if (!gridstride::checks_enabled) {                                          // an access of host code
        if (gridstride::memory.holds(a) || gridstride::has_registered_memory) check_access(p, n, write, pc);
        return;
    }
    const bool fits = a % std::min(n, 8u) == 0;
    const uintptr_t offset = a - reinterpret_cast<uintptr_t>(gridstride::memory.base);
    if (fits && offset < gridstride::memory.size && !(write && detector.pending.active) &&
        detector.fast_global_access<n, write>(offset, location_of(pc)))
        return;
    if (!write && fits && a - detector.image.base < detector.image.end - detector.image.base) return;  // constants
    check_alignment(p, n, write, pc);
    check_access(p, n, write, pc);
}
template <unsigned n, bool write> static __attribute__((noinline)) void check_cells(void *p, void *pc) {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(gridstride::memory.base);
    if (!detector.access_cells<n, write>(offset, location_of(pc))) check_access(p, n, write, pc);
}
// Every call is a tail call, so that no register is saved. Accesses to the thread's stack return early, because they
// are the most frequent ones in a kernel that keeps matrix fragments in local arrays.
template <unsigned n, bool write> static __attribute__((noinline)) void check_outside_shared(void *p, void *pc) {
    const uintptr_t a = reinterpret_cast<uintptr_t>(p);
    const uintptr_t offset = a - reinterpret_cast<uintptr_t>(gridstride::memory.base);
    if (offset >= gridstride::memory.size) {
        if (a - detector.own_stack < gridstride::stack_bytes && a % std::min(n, 8u) == 0) return;
        if (a - detector.builtins < detector.builtin_bytes) return;            // threadIdx, blockIdx, ...
        if (gridstride::checks_enabled || gridstride::has_registered_memory) check_slow<n, write>(p, pc);
        return;
    }
    if (!gridstride::checks_enabled || offset % std::min(n, 8u) || detector.has_unordered_operations ||
        (write && detector.pending.active))
        return check_slow<n, write>(p, pc);
    if (!write && n % 4 == 0 && (n < 16 || offset % n == 0) &&
        detector.is_read_by_others(detector.cells.line_tags[offset / gridstride::line_bytes]))
        return;
    gridstride::Line &line = detector.cells.line_at(offset);
    if (line.has(gridstride::Run::expanded_bit)) return check_cells<n, write>(p, pc);
    if (n % 4 || !detector.continues_run<n, write>(line, offset, location_of(pc))) check_slow<n, write>(p, pc);
}
// Checks an access to words of shared memory.
template <unsigned n, bool write> static __attribute__((noinline)) void check_shared(void *p, void *pc) {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(p) - detector.shared_base;
    bool is_fast = !(write && detector.pending.active);
    if (write) detector.record_ranges();
    for (unsigned i = 0; i < n; i += 4)
        is_fast = is_fast && ((!write && detector.is_tagged(offset + i)) ||
                                       detector.fast_shared_access(offset + i, write, location_of(pc)));
    if (is_fast) return;
    check_alignment(p, n, write, pc);
    check_access(p, n, write, pc);
}
// Checks an access to one or two bytes of shared memory.
template <unsigned n, bool write> static __attribute__((noinline)) void check_shared_bytes(void *p, void *pc) {
    if (detector.fast_shared_bytes<n, write>(reinterpret_cast<uintptr_t>(p) - detector.shared_base, location_of(pc)))
        return;
    check_alignment(p, n, write, pc);
    check_access(p, n, write, pc);
}
template <unsigned n, bool write> static inline __attribute__((always_inline)) void check_fast(void *p, void *pc) {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(p) - detector.shared_base;
    if constexpr (n < 4)
        if (offset < gridstride::shared_cap && offset % n == 0) return check_shared_bytes<n, write>(p, pc);
    if (n % 4 || offset >= gridstride::shared_cap - n || offset % std::min(n, 8u))
        return check_outside_shared<n, write>(p, pc);
    if (n == 4 && !write && detector.is_tagged(offset)) return;
    check_shared<n, write>(p, pc);
}
namespace gridstride {
// Returns whether the hook of a write has checked this range: a large struct is copied by a call of memcpy after its
// hooks.
static bool was_checked_by_hook(const void *to, size_t n) {
    const auto &range = detector.pending.range;
    return range.address == reinterpret_cast<uintptr_t>(to) && range.bytes == n;
}
void *copy_memory(void *to, const void *from, size_t n, void *pc) {
    if (n) check_access(from, unsigned(n), false, pc);
    if (n && !was_checked_by_hook(to, n)) check_access(to, unsigned(n), true, pc);
    return memmove(to, from, n);
}
void copy_unchecked(void *to, const void *from, size_t n) { memcpy(to, from, n); }
void *fill_memory(void *to, int value, size_t n, void *pc) {
    if (n) check_access(to, unsigned(n), true, pc);
    return memset(to, value, n);
}
bool record_reads(const LoopReads &loop) {
    if (!checks_enabled || !loop.fits) return false;
    const uint32_t location = location_of(__builtin_return_address(0));
    for (const LoopReads::Read *r = loop.reads; r < loop.reads + loop.size; r++)
        if (!(r->bytes == 4 ? detector.record_strided_reads<4>(*r, size_t(loop.count), location)
                            : detector.record_strided_reads<8>(*r, size_t(loop.count), location)))
            return false;
    return true;
}
}
// the data that the compiler passes to the handlers of -fsanitize=bounds and -fsanitize=alignment
struct IndexFault {
    SourceLocation location;
    const TypeName *array, *index;
};
struct PointerFault {
    SourceLocation location;
    const TypeName *type;
    unsigned char log_alignment, check;
};
static void report_index_out_of_bounds(const IndexFault *fault, uintptr_t index, void *pc) {
    if (!gridstride::on_device() || !gridstride::checks(gridstride::memcheck)) return;
    gridstride::fail_index(static_cast<int>(index), fault->array->name, static_cast<char *>(pc) - 1,
        int(fault->location.column));
}
// Returns whether the address may be that of a kernel argument passed by value: Arm's calling convention aligns it to
// at most 16 bytes, even if its type requires more.
static bool is_argument(uintptr_t a, unsigned alignment) {
    return alignment > 16 && !gridstride::memory.holds(a) && !detector.is_shared(reinterpret_cast<void *>(a));
}
static void report_misaligned_pointer(const PointerFault *fault, uintptr_t a, void *pc) {
    const unsigned alignment = 1u << fault->log_alignment;
    if (!gridstride::on_device() || a % alignment == 0 || is_argument(a, alignment)) return;
    const char *access = fault->check == 0 ? "read" : fault->check == 1 ? "write" : "access";
    detector.report_misaligned(a, alignment, access, location_of(pc));
}
extern "C" {
GRIDSTRIDE_API void __ubsan_handle_out_of_bounds(IndexFault *f, uintptr_t i) {
    report_index_out_of_bounds(f, i, __builtin_return_address(0));
}
GRIDSTRIDE_API void __ubsan_handle_out_of_bounds_abort(IndexFault *f, uintptr_t i) {
    report_index_out_of_bounds(f, i, __builtin_return_address(0));
}
GRIDSTRIDE_API void __ubsan_handle_missing_return(SourceLocation *f) {
    gridstride::fail(gridstride::Code::no_return, {}, int(f->line));
}
GRIDSTRIDE_API void __ubsan_handle_type_mismatch_v1(PointerFault *f, uintptr_t a) {
    report_misaligned_pointer(f, a, __builtin_return_address(0));
}
GRIDSTRIDE_API void __ubsan_handle_type_mismatch_v1_abort(PointerFault *f, uintptr_t a) {
    report_misaligned_pointer(f, a, __builtin_return_address(0));
}
#define PC __builtin_return_address(0)
#define GRIDSTRIDE_HOOKS(n) \
    GRIDSTRIDE_API void __tsan_read##n(void *p) { check_fast<n, false>(p, PC); } \
    GRIDSTRIDE_API void __tsan_write##n(void *p) { check_fast<n, true>(p, PC); } \
    GRIDSTRIDE_API void __tsan_unaligned_read##n(void *p) { check_access(p, n, false, PC); } \
    GRIDSTRIDE_API void __tsan_unaligned_write##n(void *p) { check_access(p, n, true, PC); } \
    GRIDSTRIDE_API void __tsan_volatile_read##n(void *p) { check_volatile_access(p, n, false, PC); } \
    GRIDSTRIDE_API void __tsan_volatile_write##n(void *p) { check_volatile_access(p, n, true, PC); } \
    GRIDSTRIDE_API void __tsan_unaligned_volatile_read##n(void *p) { check_volatile_access(p, n, false, PC); } \
    GRIDSTRIDE_API void __tsan_unaligned_volatile_write##n(void *p) { check_volatile_access(p, n, true, PC); } \
    GRIDSTRIDE_API void __tsan_read##n##_pc(void *p, void *pc) { check_access(p, n, false, pc); } \
    GRIDSTRIDE_API void __tsan_write##n##_pc(void *p, void *pc) { check_access(p, n, true, pc); } \
    GRIDSTRIDE_API void __tsan_read_write##n(void *p) { \
        check_access(p, n, false, PC); \
        check_access(p, n, true, PC); \
    } \
    GRIDSTRIDE_API void __tsan_unaligned_read_write##n(void *p) { \
        check_access(p, n, false, PC); \
        check_access(p, n, true, PC); \
    }
GRIDSTRIDE_HOOKS(1)
GRIDSTRIDE_HOOKS(2)
GRIDSTRIDE_HOOKS(4) GRIDSTRIDE_HOOKS(8) GRIDSTRIDE_HOOKS(16) GRIDSTRIDE_API void __tsan_read_range(void *p, size_t n) {
    check_access(p, unsigned(n), false, PC);
}
GRIDSTRIDE_API void __tsan_write_range(void *p, size_t n) {
    check_access(p, unsigned(n), true, PC);
    if (detector.pending.active) detector.pending.range = {reinterpret_cast<uintptr_t>(p), n};
}
GRIDSTRIDE_API void *__tsan_memcpy(void *a, const void *b, size_t n) { return gridstride::copy_memory(a, b, n, PC); }
GRIDSTRIDE_API void *__tsan_memmove(void *a, const void *b, size_t n) { return gridstride::copy_memory(a, b, n, PC); }
GRIDSTRIDE_API void *__tsan_memset(void *a, int v, size_t n) { return gridstride::fill_memory(a, v, n, PC); }
GRIDSTRIDE_API void __tsan_init() {}
GRIDSTRIDE_API void __tsan_func_entry(void *) {}
GRIDSTRIDE_API void __tsan_func_exit() {}
GRIDSTRIDE_API void __tsan_vptr_read(void **p) { check_access(p, sizeof *p, false, PC); }
GRIDSTRIDE_API void __tsan_vptr_update(void **p, void *) { check_access(p, sizeof *p, true, PC); }
GRIDSTRIDE_API void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
GRIDSTRIDE_API void __tsan_atomic_signal_fence(int) {}
#define GRIDSTRIDE_FETCH(bits, T, op) \
    GRIDSTRIDE_API T __tsan_atomic##bits##_fetch_##op(volatile T *p, T v, int) { \
        return __atomic_fetch_##op(p, v, __ATOMIC_SEQ_CST); \
    }
#define GRIDSTRIDE_ATOMICS(bits, T) \
    GRIDSTRIDE_API T __tsan_atomic##bits##_load(const volatile T *p, int) { \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST); \
    } \
    GRIDSTRIDE_API void __tsan_atomic##bits##_store(volatile T *p, T v, int) { \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST); \
    } \
    GRIDSTRIDE_API T __tsan_atomic##bits##_exchange(volatile T *p, T v, int) { \
        return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); \
    } \
    GRIDSTRIDE_FETCH(bits, T, add) \
    GRIDSTRIDE_FETCH(bits, T, sub) \
    GRIDSTRIDE_FETCH(bits, T, and) \
    GRIDSTRIDE_FETCH(bits, T, or) \
    GRIDSTRIDE_FETCH(bits, T, xor) \
    GRIDSTRIDE_API int __tsan_atomic##bits##_compare_exchange_strong(volatile T *p, T *c, T v, int, int) { \
        return __atomic_compare_exchange_n(p, c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    } \
    GRIDSTRIDE_API int __tsan_atomic##bits##_compare_exchange_weak(volatile T *p, T *c, T v, int, int) { \
        return __atomic_compare_exchange_n(p, c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    } \
    GRIDSTRIDE_API T __tsan_atomic##bits##_compare_exchange_val(volatile T *p, T c, T v, int, int) { \
        __atomic_compare_exchange_n(p, &c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        return c; \
    }
GRIDSTRIDE_ATOMICS(8, uint8_t)
GRIDSTRIDE_ATOMICS(16, uint16_t) GRIDSTRIDE_ATOMICS(32, uint32_t) GRIDSTRIDE_ATOMICS(64, uint64_t)
}
