// Inline PTX: rewriters/ptx.py translates each instruction of an asm statement to a call of a function here; its
// arguments are the line, the destinations and the sources. Constraints determine the types of registers: "r" uint32_t,
// "f" float, "l" uint64_t, "h" uint16_t.
#pragma once
#include "atomics.h"
#include "small_floats.h"
#include "warp.h"

namespace gridstride {
namespace ptx {

// Returns the index of the SM: blocks are assigned to the 132 SMs of an H100 round-robin.
inline uint32_t sm() {
    return uint32_t((blockIdx.x + gridDim.x * (blockIdx.y + uint64_t(gridDim.y) * blockIdx.z)) % 132);
}

inline uint3 index_in_cluster() {
    const dim3 shape = cluster_shape();
    return {blockIdx.x % shape.x, blockIdx.y % shape.y, blockIdx.z % shape.z};
}
inline uint3 clusters_of_grid() {
    const dim3 shape = cluster_shape();
    return {gridDim.x / shape.x, gridDim.y / shape.y, gridDim.z / shape.z};
}

// Operands: `gs_0` is the register of `%0`, and `gs_out_0` the variable to which the register is stored

#define GRIDSTRIDE_PTX_OUT(n, constraint, ...) \
    auto &&gs_out_##n = __VA_ARGS__; \
    auto gs_##n = ::gridstride::ptx::Register<constraint>()
#define GRIDSTRIDE_PTX_INOUT(n, constraint, ...) \
    auto &&gs_out_##n = __VA_ARGS__; \
    auto gs_##n = ::gridstride::ptx::read_operand<constraint>(gs_out_##n)
#define GRIDSTRIDE_PTX_STORE(n) ::gridstride::ptx::write_operand(gs_out_##n, gs_##n)

template <class T> constexpr bool is_integer = std::is_integral_v<T> || std::is_enum_v<T>;
template <char constraint, class T> auto read_operand(T x) {
    using U = std::decay_t<T>;
    if constexpr (constraint == 'f' || constraint == 'd') {
        static_assert(std::is_floating_point_v<U> && sizeof(U) == (constraint == 'f' ? 4 : 8),
            "an \"f\" operand must be a float, a \"d\" operand a double");
        return x;
    } else if constexpr (std::is_pointer_v<U>) {
        static_assert(constraint == 'l', "a pointer must be an \"l\" operand");
        return uint64_t(reinterpret_cast<uintptr_t>(x));
    } else {
        constexpr int bytes = constraint == 'l' ? 8 : constraint == 'r' ? 4 : 2;
        static_assert(is_integer<U> && sizeof(U) <= bytes,
            "\"h\", \"r\" and \"l\" operands must be integers of at most 16, 32 and 64 bits");
        return std::conditional_t<bytes == 8, uint64_t, std::conditional_t<bytes == 4, uint32_t, uint16_t>>(x);
    }
}
template <char constraint>
using Register = std::conditional_t<constraint == 'f', float,
    std::conditional_t<constraint == 'd', double,
        std::conditional_t<constraint == 'l', uint64_t, std::conditional_t<constraint == 'r', uint32_t, uint16_t>>>>;
template <class T, class R> GRIDSTRIDE_INLINE void write_operand(T &to, R value) {
    static_assert(sizeof(T) == sizeof(R) && std::is_floating_point_v<T> == std::is_floating_point_v<R>,
        "an output operand's type must have its constraint's size: \"=h\" 16 bits, \"=r\" 32, \"=l\" 64, \"=f\" float, "
        "\"=d\" double");
    if constexpr (std::is_pointer_v<T>) to = reinterpret_cast<T>(value);
    else to = T(value);
}
// The bits of a register, for untyped instructions
inline uint32_t register_bits(uint32_t x) { return x; }
inline uint32_t register_bits(float x) { return bit_cast<uint32_t>(x); }
inline void set_register(uint32_t &to, uint32_t x) { to = x; }
inline void set_register(float &to, uint32_t x) { to = bit_cast<float>(x); }

// Moves, conversions, special registers

template <class D, class S> void mov(int, D &d, S s) {
    static_assert(sizeof(D) == sizeof(S), "mov: the two registers must have the same size");
    d = bit_cast<D>(s);
}
// `mov d, {a, b}` and `mov {a, b}, s`: the first register in braces has the lowest bits
template <class D, class... S> void pack(int, D &d, S... s) {
    static_assert(sizeof(D) == (sizeof(S) + ...), "mov: source and destination must have the same size");
    char bytes[sizeof d], *p = bytes;
    ((__builtin_memcpy(p, &s, sizeof s), p += sizeof s), ...);
    __builtin_memcpy(&d, bytes, sizeof d);
}
template <class S, class... D> void unpack(int, S s, D &...d) {
    static_assert(sizeof(S) == (sizeof(D) + ...), "mov: source and destination must have the same size");
    const char *p = reinterpret_cast<const char *>(&s);
    ((__builtin_memcpy(&d, p, sizeof d), p += sizeof d), ...);
}
// Applies the bitwise function of three inputs with this truth table: its result for a, b, c = 0xf0, 0xcc, 0xaa
inline void lop3(int, uint32_t &d, uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    d = 0;
    for (uint32_t i = 0; i < 8; i++)
        if (table >> i & 1) d |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
}
inline void convert(int, uint32_t &d, uint64_t s) { d = uint32_t(s); }
inline void convert(int, uint64_t &d, uint32_t s) { d = s; }
inline void to_shared(int, uint64_t &d, uint64_t generic) {
    d = shared_address(reinterpret_cast<const void *>(generic));
}
inline void to_global(int, uint64_t &d, uint64_t generic) { d = generic; }
// Rounds to 10 mantissa bits, ties away from zero.
inline uint32_t round_to_tf32(float x) {
    const uint32_t bits = bit_cast<uint32_t>(x);
    return x != x ? 0x7fffffff : (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0x1000) & ~0x1fffu;
}
template <class D> void to_tf32(int, D &d, float x) { set_register(d, round_to_tf32(x)); }
template <int m> void to_pair(int, uint32_t &d, float upper, float lower) {
    d = uint32_t(narrow<m>(upper)) << 16 | narrow<m>(lower);
}

// Pairs of floats of 4, 6 and 8 bits: the second source has the lowest bits
template <class Format, class D> void to_small_pair(int, D &d, float upper, float lower) {
    d = D(encode_pair<Format>(lower, upper));
}
template <class Format, class D> void halves_to_small_pair(int, D &d, uint32_t halves) {
    d = D(encode_pair<Format>(widen<10>(halves & 0xffff), widen<10>(halves >> 16)));
}
template <class Format, class S> void small_pair_to_halves(int, uint32_t &d, S pair) {
    d = uint32_t(narrow<10>(decode_slot<Format>(pair, 1))) << 16 | narrow<10>(decode_slot<Format>(pair, 0));
}
template <class D> void to_scales(int, D &d, float upper, float lower, bool saturate, cudaRoundMode rounding) {
    d = D(encode_pair<E8M0>(lower, upper, saturate, rounding));
}
template <class D> void bfloats_to_scales(int line, D &d, uint32_t pair, bool saturate, cudaRoundMode rounding) {
    to_scales(line, d, widen<7>(pair >> 16), widen<7>(pair & 0xffff), saturate, rounding);
}
inline void scales_to_bfloats(int, uint32_t &d, uint16_t scales) {
    d = uint32_t(narrow<7>(decode_slot<E8M0>(scales, 1))) << 16 | narrow<7>(decode_slot<E8M0>(scales, 0));
}

// Shared memory, by 32-bit addresses

inline uint32_t window_address(uint32_t address) { return address; }
inline uint32_t window_address(uint64_t address) { return uint32_t(address); }
template <class A, class... D> GRIDSTRIDE_NO_TSAN void load_shared(int line, A address, D &...d) {
    constexpr unsigned bytes = (sizeof(D) + ...);
    const char *p = shared_pointer(window_address(address), bytes, "ld.shared", line);
    report_access(p, bytes, false, line);
    ((__builtin_memcpy(&d, p, sizeof d), p += sizeof d), ...);
}
template <class A, class... S> GRIDSTRIDE_NO_TSAN void store_shared(int line, A address, S... s) {
    constexpr unsigned bytes = (sizeof(S) + ...);
    char *p = shared_pointer(window_address(address), bytes, "st.shared", line);
    report_access(p, bytes, true, line);
    ((__builtin_memcpy(p, &s, sizeof s), p += sizeof s), ...);
}

template <class... D> GRIDSTRIDE_NO_TSAN void load_global(int line, uint64_t address, D &...d) {
    const char *p = reinterpret_cast<const char *>(address);
    must_be_aligned(p, (sizeof(D) + ...), "ld.global", line);
    report_access(p, (sizeof(D) + ...), false, line);
    ((__builtin_memcpy(&d, p, sizeof d), p += sizeof d), ...);
}
template <class... S> GRIDSTRIDE_NO_TSAN void store_global(int line, uint64_t address, S... s) {
    char *p = reinterpret_cast<char *>(address);
    must_be_aligned(p, (sizeof(S) + ...), "st.global", line);
    report_access(p, (sizeof(S) + ...), true, line);
    ((__builtin_memcpy(p, &s, sizeof s), p += sizeof s), ...);
}

// Loads and stores of a type `T` that is narrower than the register
template <class T, class A, class D> void load_shared_as(int line, A address, D &d) {
    T value;
    load_shared(line, address, value);
    d = D(value);
}
template <class T, class A, class S> void store_shared_as(int line, A address, S s) {
    store_shared(line, address, T(s));
}
template <class T, class D> void load_global_as(int line, uint64_t address, D &d) {
    T value;
    load_global(line, address, value);
    d = D(value);
}
template <class T, class S> void store_global_as(int line, uint64_t address, S s) { store_global(line, address, T(s)); }

// Asynchronous copies

template <bool only_16, unsigned bytes, class A>
void copy(int line, A to, uint64_t from, unsigned source_bytes = bytes) {
    static_assert(
        bytes == 16 || ((bytes == 4 || bytes == 8) && !only_16), "cp.async.ca copies 4, 8 or 16 bytes, cp.async.cg 16");
    copy_async(shared_pointer(window_address(to), bytes, "cp.async", line), reinterpret_cast<const void *>(from), bytes,
        source_bytes < bytes ? source_bytes : bytes, "cp.async", line);
}

// The asynchronous engines of Hopper: see runtime.h. An unused destination is `_`.

struct DiscardedOperand { template <class T> DiscardedOperand &operator=(const T &) { return *this; } };
template <class D, class A> void mapa(int line, D &d, A address, uint32_t rank) {
    d = D(map_shared(window_address(address), rank, line));
}
// `n`: the bytes of expect_tx, otherwise the number of arrivals
template <class S, class A> void arrive(int line, bool expects_bytes, S &&state, A address, uint32_t n = 1) {
    if (expects_bytes) mbarrier_expect(window_address(address), n, line);
    state = mbarrier_arrive(window_address(address), expects_bytes ? 1 : n, line);
}
template <class A> void expect(int line, A address, uint32_t bytes) {
    mbarrier_expect(window_address(address), bytes, line);
}
template <class A> void init(int line, A address, uint32_t count) {
    mbarrier_init(window_address(address), count, line);
}
template <class A> void invalidate(int line, A address) { mbarrier_invalidate(window_address(address), line); }
template <class A, class P> bool wait_parity(int line, bool waits, A address, P phase) {
    return waits ? mbarrier_try_wait(window_address(address), uint32_t(phase), line)
                 : mbarrier_test_wait(window_address(address), uint32_t(phase), false, line);
}
template <class A, class B, class... S> void store_async(int line, A to, B bar, S... s) {
    char bytes[(sizeof(S) + ...)], *p = bytes;
    ((__builtin_memcpy(p, &s, sizeof s), p += sizeof s), ...);
    ::gridstride::store_async(window_address(to), bytes, sizeof bytes, window_address(bar), line);
}
template <class A, class B> void bulk_load(int line, A to, uint64_t from, uint32_t bytes, B bar, uint32_t blocks = 0) {
    ::gridstride::bulk_load(
        window_address(to), reinterpret_cast<const void *>(from), bytes, window_address(bar), blocks, line);
}
inline void bulk_prefetch(int line, uint64_t from, uint32_t bytes) {
    ::gridstride::bulk_prefetch(reinterpret_cast<const void *>(from), bytes, line);
}
template <class A> void bulk_store(int line, uint64_t to, A from, uint32_t bytes) {
    ::gridstride::bulk_store(reinterpret_cast<void *>(to), window_address(from), bytes, line);
}
template <bool of_pair, TensorMode mode = TensorMode::tiled, class A, class B>
void tensor_load(int line, const int32_t *coordinates, int rank, A to, uint64_t map, B bar, uint32_t blocks = 0) {
    ::gridstride::tensor_load(window_address(to), reinterpret_cast<const void *>(map), coordinates, rank,
        window_address(bar), blocks, line, of_pair, mode);
}
// Cluster launch control: the response is in a 128-bit register
template <class A, class B> void try_cancel(int line, bool for_cluster, A to, B bar) {
    ::gridstride::try_cancel(window_address(to), window_address(bar), for_cluster, line);
}
inline bool is_canceled(unsigned __int128 response) { return bit_cast<Canceled>(response).is_canceled; }
template <class X, class Y, class Z, class W>
void first_of_canceled(int, X &&x, Y &&y, Z &&z, W &&, unsigned __int128 response) {
    const Canceled block = bit_cast<Canceled>(response);
    x = block.x, y = block.y, z = block.z;
}
template <TensorMode mode = TensorMode::tiled, class A>
void tensor_store(int line, const int32_t *coordinates, int rank, uint64_t map, A from) {
    ::gridstride::tensor_store(
        reinterpret_cast<const void *>(map), coordinates, rank, window_address(from), line, mode);
}
template <WgmmaType type, int n, bool registers, int selector = 0, bool has_half_accumulators = false>
void wgmma(int line, float *const *results, float *const *accumulators, const uint32_t *a_registers, uint64_t a,
    uint64_t b, bool accumulates, int a_sign, int b_sign, bool a_transposed = false, bool b_transposed = false,
    const uint32_t *metadata = nullptr) {
    static_assert(n % 8 == 0 && n >= 8 && n <= 256, "wgmma: n must be a multiple of 8, from 8 to 256");
    static_assert(selector == 0 || selector == 1, "wgmma.mma_async.sp: the selector must be 0 or 1");
    const uint32_t *const a_words = registers ? a_registers : nullptr;
    ::gridstride::wgmma({type, n, a, b, a_words, accumulates, a_sign, b_sign, a_transposed, b_transposed, results,
                            accumulators, metadata, selector, has_half_accumulators},
        line);
}
// Blackwell: the address of tcgen05.alloc may be generic.
template <class A> void tensor_alloc(int line, int cta_group, A to, uint32_t columns) {
    uint32_t address = window_address(to);
    if constexpr (sizeof(A) == 8)
        if (const uint32_t shared = shared_address(reinterpret_cast<const void *>(to))) address = shared;
    tmem_alloc(cta_group, address, columns, line);
}
// `gs_registers` are the registers of tcgen05.ld and tcgen05.st
template <TensorShape shape, uint32_t repeats, bool packs>
void tensor_load_registers(int line, uint32_t *const *registers, uint32_t address, uint32_t split = 0) {
    tmem_load({shape, repeats, packs, address, split}, registers, line);
}
template <TensorShape shape, uint32_t repeats, bool packs>
void tensor_store_registers(int line, uint32_t *const *registers, uint32_t address, uint32_t split = 0) {
    tmem_store({shape, repeats, packs, address, split}, registers, line);
}
template <TensorKind kind, int cta_group, int block = 0>
void multiply_tensors(int line, uint32_t d, bool a_in_tensor_memory, uint64_t a, uint64_t b, uint32_t descriptor,
    bool accumulates, const uint32_t *masks = nullptr, int d_scale = 0, uint32_t a_scales = 0, uint32_t b_scales = 0) {
    tmem_multiply({kind, cta_group, block, d, a, b, a_in_tensor_memory, uint32_t(a), descriptor, a_scales, b_scales,
                      masks, accumulates, d_scale, false, false, 0},
        line);
}
// tcgen05.mma.ws, tcgen05.mma.sp, or both
template <TensorKind kind, int cta_group, bool is_weight_stationary, bool is_sparse>
void multiply_tensors_as(int line, uint32_t d, bool a_in_tensor_memory, uint64_t a, uint64_t b, uint32_t metadata,
    uint32_t descriptor, bool accumulates, const uint32_t *masks, int d_scale = 0) {
    tmem_multiply({kind, cta_group, 0, d, a, b, a_in_tensor_memory, uint32_t(a), descriptor, 0, 0, masks, accumulates,
                      d_scale, is_weight_stationary, is_sparse, metadata},
        line);
}
template <int n, bool increases> void set_registers(int line) {
    static_assert(n % 8 == 0 && n >= 24 && n <= 256, "setmaxnreg: the count must be a multiple of 8, from 24 to 256");
    ::gridstride::set_registers(increases, n, line);
}
template <class D, class P> void elect(int line, D &&d, P &p, uint32_t mask) {
    sync_warp(mask, line);
    d = uint32_t(__builtin_ctz(mask)), p = lane() == __builtin_ctz(mask);
}

// Loads and stores of `T` with a memory order; each element of a vector is loaded or stored separately. A register may
// be wider than `T`.
template <class T, class D> void set_widened(D &d, T value) {
    if constexpr (sizeof(T) == sizeof(D)) d = bit_cast<D>(value);
    else d = D(value);
}
template <class T, class S> T narrow_to(S s) {
    if constexpr (sizeof(T) == sizeof(S)) return bit_cast<T>(s);
    else return T(s);
}
template <class T, class... D>
GRIDSTRIDE_NO_TSAN void load_ordered(int line, Order order, Scope scope, uint64_t address, D &...d) {
    const char *p = reinterpret_cast<const char *>(address);
    must_be_aligned(p, sizeof(T) * sizeof...(D), "ld", line);
    const auto load_one = [&](auto &to) {
        atomic_begin(p, sizeof(T), Use::load, scope, order, line);
        set_widened(to, load_unchecked(reinterpret_cast<const T *>(p)));
        atomic_end(p);
        p += sizeof(T);
    };
    (load_one(d), ...);
}
template <class T, class... S>
GRIDSTRIDE_NO_TSAN void store_ordered(int line, Order order, Scope scope, uint64_t address, S... s) {
    char *p = reinterpret_cast<char *>(address);
    must_be_aligned(p, sizeof(T) * sizeof...(S), "st", line);
    const auto store_one = [&](auto from) {
        atomic_begin(p, sizeof(T), Use::store, scope, order, line);
        store_unchecked(reinterpret_cast<T *>(p), narrow_to<T>(from));
        atomic_end(p);
        p += sizeof(T);
    };
    (store_one(s), ...);
}

// atom and red
template <class Op, class T, class D>
GRIDSTRIDE_NO_TSAN void update(int line, Order order, Scope scope, D &&d, uint64_t address, T value) {
    T *p = reinterpret_cast<T *>(address);
    must_be_aligned(p, sizeof(T), "atom", line);
    atomic_begin(p, sizeof(T), Use::modify, scope, order, line);
    const T old = load_unchecked(p);
    store_unchecked<T>(p, Op::apply(old, value));
    atomic_end(p);
    if constexpr (std::is_same_v<std::decay_t<D>, uint32_t> && sizeof(T) == 4) d = bit_cast<uint32_t>(old);
    else d = old;
}

// multimem: an operation on the same elements of all devices, at a multicast address
template <class F> GRIDSTRIDE_NO_TSAN void visit_replicas(uint64_t address, size_t bytes, int line, F f) {
    void *replicas[8];
    const int count = multicast_replicas(reinterpret_cast<const void *>(address), replicas);
    if (!count) report_access(reinterpret_cast<const void *>(address), unsigned(bytes), false, line);
    for (int i = 0; i < count; i++) f(reinterpret_cast<uint64_t>(replicas[i]), i);
}
template <class Op, class T, class... D>
GRIDSTRIDE_NO_TSAN void multimem_load(int line, Order order, Scope scope, uint64_t address, D &...d) {
    T results[sizeof...(D)] = {};
    visit_replicas(address, sizeof results, line, [&](uint64_t replica, int i) {
        for (size_t k = 0; k < sizeof...(D); k++) {
            T value;
            load_ordered<T>(line, order, scope, replica + k * sizeof(T), value);
            results[k] = i ? Op::apply(results[k], value) : value;
        }
    });
    size_t k = 0;
    (set_widened(d, results[k++]), ...);
}
template <class T, class... S>
GRIDSTRIDE_NO_TSAN void multimem_store(int line, Order order, Scope scope, uint64_t address, S... values) {
    visit_replicas(address, sizeof(T) * sizeof...(S), line,
        [&](uint64_t replica, int) { store_ordered<T>(line, order, scope, replica, values...); });
}
template <class Op, class T, class... S>
GRIDSTRIDE_NO_TSAN void multimem_update(int line, Order order, Scope scope, uint64_t address, S... values) {
    visit_replicas(address, sizeof(T) * sizeof...(S), line, [&](uint64_t replica, int) {
        size_t k = 0;
        (update<Op, T>(line, order, scope, DiscardedOperand(), replica + sizeof(T) * k++, narrow_to<T>(values)), ...);
    });
}

// Video instructions, on one, two or four lanes of a word; the results may be combined with a third source.
enum class Video { add, sub, absdiff, min, max, avrg, shl, shr, nothing };
template <int lanes> int64_t lane_value(uint32_t word, int i, bool is_signed) {
    constexpr int bits = 32 / lanes;
    const uint32_t shifted = uint32_t(uint64_t(word) << (32 - bits * (i + 1)));  // the lane's bits are the highest ones
    return is_signed ? int64_t(int32_t(shifted) >> (32 - bits)) : int64_t(shifted >> (32 - bits));
}
inline int64_t apply_video(Video operation, int64_t a, int64_t b) {
    switch (operation) {
        case Video::add: return a + b;
        case Video::sub: return a - b;
        case Video::absdiff: return a < b ? b - a : a - b;
        case Video::min: return a < b ? a : b;
        case Video::max: return a < b ? b : a;
        case Video::avrg: return (a + b + (a + b >= 0)) >> 1;
        case Video::shl: return a << b;
        case Video::shr: return a >> b;
        default: return a;
    }
}
template <Video operation, int lanes, Video combination, bool is_signed, bool a_signed, bool b_signed, bool saturates,
    bool clamps>
void video(int, uint32_t &d, uint32_t a, uint32_t b, uint32_t c = 0) {
    constexpr int bits = 32 / lanes;
    constexpr int64_t lowest = is_signed ? -(int64_t(1) << (bits - 1)) : 0, highest = lowest + (int64_t(1) << bits) - 1;
    int64_t combined = is_signed ? int64_t(int32_t(c)) : int64_t(c);
    uint32_t merged = 0;
    for (int i = 0; i < lanes; i++) {
        int64_t second = lane_value<lanes>(b, i, b_signed);
        if (operation == Video::shl || operation == Video::shr)
            second = !clamps ? second & (bits - 1) : second < bits ? second : bits;
        int64_t result = apply_video(operation, lane_value<lanes>(a, i, a_signed), second);
        if (saturates) result = result < lowest ? lowest : result > highest ? highest : result;
        else result = lane_value<lanes>(uint32_t(result), 0, is_signed);
        merged |= uint32_t(uint64_t(result) & ((uint64_t(1) << bits) - 1)) << bits * i;
        combined = apply_video(combination == Video::nothing ? Video::add : combination, combined, result);
    }
    d = combination == Video::nothing ? merged : uint32_t(combined);
}

// Pairs of 16-bit floats in a register
template <int m, class F> uint32_t map_pairs(F f, uint32_t a, uint32_t b, uint32_t c = 0) {
    const auto half = [&](int i) {
        const auto element = [i](uint32_t x) { return widen<m>((unsigned short)(x >> 16 * i)); };
        return uint32_t(narrow<m>(f(element(a), element(b), element(c))));
    };
    return half(1) << 16 | half(0);
}
template <int m> void fma_pair(int, uint32_t &d, uint32_t a, uint32_t b, uint32_t c) {
    d = map_pairs<m>([](float x, float y, float z) { return fma_rounded_to_odd(x, y, z); }, a, b, c);
}
template <int m, class F> void apply_pair(int, uint32_t &d, F f, uint32_t a, uint32_t b) {
    d = map_pairs<m>([&](float x, float y, float) { return round_to_odd(f(double(x), double(y))); }, a, b);
}

}
}
