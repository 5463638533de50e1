// CUB's warp-wide, block-wide and device-wide reductions and scans. They follow CUB's documentation, not its
// implementation; floats are added in CUB's order.
#pragma once
#include <algorithm>
#include <chrono>    // programs rely on its inclusion by CUB
#include <limits>
#include <numeric>
#include <vector>
#include "../emulator.h"

namespace cub {
struct Sum { template <class T> T operator()(const T &a, const T &b) const { return a + b; } };
struct Max { template <class T> T operator()(const T &a, const T &b) const { return a < b ? b : a; } };
struct Min { template <class T> T operator()(const T &a, const T &b) const { return b < a ? b : a; } };
template <class K, class V> struct KeyValuePair {
    K key;
    V value;
};
struct ArgMax {
    template <class P> P operator()(const P &a, const P &b) const {
        return a.value < b.value || (!(b.value < a.value) && b.key < a.key) ? b : a;
    }
};
struct ArgMin {
    template <class P> P operator()(const P &a, const P &b) const {
        return b.value < a.value || (!(a.value < b.value) && b.key < a.key) ? b : a;
    }
};
enum BlockReduceAlgorithm {
    BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS
};
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

namespace emulated {
// The line of the kernel on which a collective is called: accesses to its temporary storage are reported there.
struct Line { int number; };
#define GRIDSTRIDE_CALL emulated::Line line = {__builtin_LINE()}

// Raw storage for a value in shared memory, where no constructor runs
template <class T> struct Slot {
    alignas(T) char bytes[sizeof(T)];
    void report(bool write, Line line) { gridstride::report_access(bytes, sizeof(T), write, line.number); }
    T load(Line line) {
        report(false, line);
        return gridstride::load_unchecked(reinterpret_cast<const T *>(bytes));
    }
    void store(const T &value, Line line) {
        report(true, line);
        gridstride::store_unchecked(reinterpret_cast<T *>(bytes), value);
    }
};
inline int rank_in_block() { return int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)); }

// Returns a value for a result that CUB leaves undefined: a NaN or a large integer, which is unlikely to be right by
// chance
template <class T> GRIDSTRIDE_NO_TSAN T undefined_value(T x, gridstride::Code owner_phrase, Line line) {
    if constexpr (std::is_same_v<T, double>)
        __builtin_memcpy(&x, &gridstride::undefined_nan_of_double, sizeof(T));
    else if constexpr (std::is_same_v<T, float>) __builtin_memcpy(&x, &gridstride::undefined_nan, sizeof(T));
    else if constexpr (std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>)
        __builtin_memset(static_cast<void *>(&x), 0x76, sizeof(T));
    gridstride::undefined_result(owner_phrase, line.number);
    return x;
}

// Reduces `n` values in the order of a shuffle reduction: neighbours first, then pairs of neighbours, and so on.
template <class T, class Op> T reduce_lanes(Slot<T> *x, int n, Op op, Line line) {
    T lanes[32];
    for (int i = 0; i < n; i++) lanes[i] = x[i].load(line);
    for (int step = 1; step < n; step *= 2)
        for (int i = 0; i + step < n; i++) lanes[i] = op(lanes[i], lanes[i + step]);
    return lanes[0];
}
template <class T, class Op> T reduce_warps(Slot<T> *x, int n, Op op, Line line) {
    T res = reduce_lanes(x, std::min(n, 32), op, line);
    for (int i = 32; i < n; i += 32) res = op(res, reduce_lanes(x + i, std::min(n - i, 32), op, line));
    return res;
}
template <class T, int n, class Op> T reduce_items(const T (&items)[n], Op op) {
    T res = items[0];
    for (int i = 1; i < n; i++) res = op(res, items[i]);
    return res;
}
template <class T> T shuffle_value(T x, unsigned mask, int lane, Line line) {
    unsigned words[(sizeof(T) + 3) / 4] = {};
    __builtin_memcpy(words, &x, sizeof(T));
    for (auto &w : words) w = __shfl_sync(mask, w, lane, warpSize, line.number);
    __builtin_memcpy(&x, words, sizeof(T));
    return x;
}
struct NoPrefix {};

// A group of `lanes` threads of a warp; each warp has separate temporary storage
template <int lanes> class LogicalWarp {
public:
    struct TempStorage { Slot<unsigned> slots[lanes]; };

protected:
    TempStorage &temp;
    int lane = rank_in_block() % lanes, first_lane = rank_in_block() % 32 / lanes * lanes;
    unsigned mask = (lanes == 32 ? ~0u : (1u << lanes % 32) - 1) << first_lane;

    explicit LogicalWarp(TempStorage &temp) : temp(temp) {}
    void write_slot(Line line) { temp.slots[lane].store(unsigned(rank_in_block()), line); }
    template <class T> T shuffle_value(T x, int from, Line line) {
        return emulated::shuffle_value(x, mask, first_lane + from, line);
    }
};
}

template <class T, int lanes = 32> class WarpReduce : emulated::LogicalWarp<lanes> {
    using Warp = emulated::LogicalWarp<lanes>;

public:
    using typename Warp::TempStorage;
    WarpReduce(TempStorage &temp) : Warp(temp) {}
    // Returns the result in the first lane; it is undefined in the others.
    template <class Op> T Reduce(T x, Op op, int num_valid = lanes, GRIDSTRIDE_CALL) {
        const int lane = this->lane;
        this->write_slot(line);
        for (int step = 1; step < lanes; step *= 2) {
            const bool has_partner = lane + step < num_valid;
            const T partner_value = this->shuffle_value(x, has_partner ? lane + step : lane, line);
            if (has_partner) x = op(x, partner_value);
        }
        return lane ? emulated::undefined_value(x, gridstride::Code::first_of_warp, line) : x;
    }
    T Sum(T x, int num_valid = lanes, GRIDSTRIDE_CALL) { return Reduce(x, cub::Sum(), num_valid, line); }
    T Max(T x, int num_valid = lanes, GRIDSTRIDE_CALL) { return Reduce(x, cub::Max(), num_valid, line); }
    T Min(T x, int num_valid = lanes, GRIDSTRIDE_CALL) { return Reduce(x, cub::Min(), num_valid, line); }
};

template <class T, int lanes = 32> class WarpScan : emulated::LogicalWarp<lanes> {
    using Warp = emulated::LogicalWarp<lanes>;

public:
    using typename Warp::TempStorage;
    WarpScan(TempStorage &temp) : Warp(temp) {}
    template <class Op> void InclusiveScan(T x, T &out, Op op, GRIDSTRIDE_CALL) {
        const int lane = this->lane;
        this->write_slot(line);
        for (int step = 1; step < lanes; step *= 2) {
            const bool has_partner = lane >= step;
            const T partner_value = this->shuffle_value(x, has_partner ? lane - step : lane, line);
            if (has_partner) x = op(partner_value, x);
        }
        out = x;
    }
    template <class Op> void InclusiveScan(T x, T &out, Op op, T &aggregate, GRIDSTRIDE_CALL) {
        InclusiveScan(x, out, op, line);
        aggregate = this->shuffle_value(out, lanes - 1, line);
    }
    template <class Op> void ExclusiveScan(T x, T &out, T initial, Op op, GRIDSTRIDE_CALL) {
        const int lane = this->lane;
        InclusiveScan(x, out, op, line);
        const T before = this->shuffle_value(out, lane ? lane - 1 : 0, line);
        out = lane ? op(initial, before) : initial;
    }
    template <class Op> void ExclusiveScan(T x, T &out, T initial, Op op, T &aggregate, GRIDSTRIDE_CALL) {
        T inclusive;
        InclusiveScan(x, inclusive, op, aggregate, line);
        ExclusiveScan(x, out, initial, op, line);
    }
    void InclusiveSum(T x, T &out, GRIDSTRIDE_CALL) { InclusiveScan(x, out, cub::Sum(), line); }
    void InclusiveSum(T x, T &out, T &aggregate, GRIDSTRIDE_CALL) {
        InclusiveScan(x, out, cub::Sum(), aggregate, line);
    }
    void ExclusiveSum(T x, T &out, GRIDSTRIDE_CALL) { ExclusiveScan(x, out, T{}, cub::Sum(), line); }
    void ExclusiveSum(T x, T &out, T &aggregate, GRIDSTRIDE_CALL) {
        ExclusiveScan(x, out, T{}, cub::Sum(), aggregate, line);
    }
};

template <class T, int x_threads, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int y_threads = 1,
    int z_threads = 1, int = 0>
class BlockReduce {
    static constexpr int threads = x_threads * y_threads * z_threads;

public:
    struct TempStorage { emulated::Slot<T> slots[threads]; };
    BlockReduce(TempStorage &temp) : temp(temp) {}
    // Returns the result in the first thread; it is undefined in the others.
    template <class Op> T Reduce(T x, Op op, int num_valid = threads, GRIDSTRIDE_CALL) {
        const int rank = emulated::rank_in_block();
        temp.slots[rank].store(x, line);
        __syncthreads(line.number);
        return rank ? emulated::undefined_value(x, gridstride::Code::first_of_block, line)
                    : emulated::reduce_warps(temp.slots, num_valid, op, line);
    }
    template <int n, class Op> T Reduce(T (&x)[n], Op op, GRIDSTRIDE_CALL) {
        return Reduce(emulated::reduce_items(x, op), op, threads, line);
    }
    T Sum(T x, int num_valid = threads, GRIDSTRIDE_CALL) { return Reduce(x, cub::Sum(), num_valid, line); }
    template <int n> T Sum(T (&x)[n], GRIDSTRIDE_CALL) { return Reduce(x, cub::Sum(), line); }

private:
    TempStorage &temp;
};

template <class T, int x_threads, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int y_threads = 1, int z_threads = 1, int = 0>
class BlockScan {
    static constexpr int threads = x_threads * y_threads * z_threads;

public:
    struct TempStorage { emulated::Slot<T> slots[threads], aggregate, prefix; };
    BlockScan(TempStorage &temp) : temp(temp) {}

    template <class Op> void InclusiveScan(T x, T &out, Op op, GRIDSTRIDE_CALL) {
        scan_item<true>(x, out, op, nullptr, no_prefix, nullptr, line);
    }
    template <class Op> void InclusiveScan(T x, T &out, Op op, T &aggregate, GRIDSTRIDE_CALL) {
        scan_item<true>(x, out, op, nullptr, no_prefix, &aggregate, line);
    }
    template <class Op> void ExclusiveScan(T x, T &out, Op op, GRIDSTRIDE_CALL) {
        scan_item<false>(x, out, op, nullptr, no_prefix, nullptr, line);
    }
    template <class Op> void ExclusiveScan(T x, T &out, T initial, Op op, GRIDSTRIDE_CALL) {
        scan_item<false>(x, out, op, &initial, no_prefix, nullptr, line);
    }
    template <class Op> void ExclusiveScan(T x, T &out, T initial, Op op, T &aggregate, GRIDSTRIDE_CALL) {
        scan_item<false>(x, out, op, &initial, no_prefix, &aggregate, line);
    }
    template <int n, class Op> void InclusiveScan(T (&x)[n], T (&out)[n], Op op, GRIDSTRIDE_CALL) {
        scan<true>(x, out, op, nullptr, no_prefix, nullptr, line);
    }
    template <int n, class Op> void InclusiveScan(T (&x)[n], T (&out)[n], Op op, T &aggregate, GRIDSTRIDE_CALL) {
        scan<true>(x, out, op, nullptr, no_prefix, &aggregate, line);
    }
    // The first warp calls `prefix` with the block aggregate; it returns the block prefix.
    template <int n, class Op, class Prefix>
    auto InclusiveScan(T (&x)[n], T (&out)[n], Op op, Prefix &prefix, GRIDSTRIDE_CALL)
        -> std::void_t<decltype(prefix(x[0]))> {
        scan<true>(x, out, op, nullptr, prefix, nullptr, line);
    }
    template <int n, class Op> void ExclusiveScan(T (&x)[n], T (&out)[n], T initial, Op op, GRIDSTRIDE_CALL) {
        scan<false>(x, out, op, &initial, no_prefix, nullptr, line);
    }
    template <int n, class Op>
    void ExclusiveScan(T (&x)[n], T (&out)[n], T initial, Op op, T &aggregate, GRIDSTRIDE_CALL) {
        scan<false>(x, out, op, &initial, no_prefix, &aggregate, line);
    }
    template <int n, class Op, class Prefix>
    auto ExclusiveScan(T (&x)[n], T (&out)[n], Op op, Prefix &prefix, GRIDSTRIDE_CALL)
        -> std::void_t<decltype(prefix(x[0]))> {
        scan<false>(x, out, op, nullptr, prefix, nullptr, line);
    }
    void InclusiveSum(T x, T &out, GRIDSTRIDE_CALL) { InclusiveScan(x, out, cub::Sum(), line); }
    void InclusiveSum(T x, T &out, T &aggregate, GRIDSTRIDE_CALL) {
        InclusiveScan(x, out, cub::Sum(), aggregate, line);
    }
    template <int n> void InclusiveSum(T (&x)[n], T (&out)[n], GRIDSTRIDE_CALL) {
        InclusiveScan(x, out, cub::Sum(), line);
    }
    template <int n> void InclusiveSum(T (&x)[n], T (&out)[n], T &aggregate, GRIDSTRIDE_CALL) {
        InclusiveScan(x, out, cub::Sum(), aggregate, line);
    }
    void ExclusiveSum(T x, T &out, GRIDSTRIDE_CALL) { ExclusiveScan(x, out, T{}, cub::Sum(), line); }
    void ExclusiveSum(T x, T &out, T &aggregate, GRIDSTRIDE_CALL) {
        ExclusiveScan(x, out, T{}, cub::Sum(), aggregate, line);
    }
    template <int n> void ExclusiveSum(T (&x)[n], T (&out)[n], GRIDSTRIDE_CALL) {
        ExclusiveScan(x, out, T{}, cub::Sum(), line);
    }
    template <int n> void ExclusiveSum(T (&x)[n], T (&out)[n], T &aggregate, GRIDSTRIDE_CALL) {
        ExclusiveScan(x, out, T{}, cub::Sum(), aggregate, line);
    }

private:
    TempStorage &temp;
    emulated::NoPrefix no_prefix;

    template <bool inclusive, class Op, class Prefix>
    void scan_item(const T &x, T &out, Op op, const T *initial, Prefix &prefix, T *aggregate, emulated::Line line) {
        T in[1] = {x}, res[1] = {x};
        scan<inclusive>(in, res, op, initial, prefix, aggregate, line);
        out = res[0];
    }
    // The first thread scans the values of all threads, and stores the prefix of each thread in its slot.
    template <class Op> void scan_slots(Op op, emulated::Line line) {
        T sum = temp.slots[0].load(line);
        for (int i = 1; i < threads; i++) {
            const T next = op(sum, temp.slots[i].load(line));
            temp.slots[i].store(sum, line);
            sum = next;
        }
        temp.aggregate.store(sum, line);
    }
    template <bool inclusive, int n, class Op, class Prefix>
    void scan(T (&x)[n], T (&out)[n], Op op, const T *initial, Prefix &prefix, T *aggregate, emulated::Line line) {
        constexpr bool has_block_prefix = !std::is_same_v<Prefix, emulated::NoPrefix>;
        const int rank = emulated::rank_in_block();
        temp.slots[rank].store(emulated::reduce_items(x, op), line);
        __syncthreads(line.number);
        if (!rank) scan_slots(op, line);
        __syncthreads(line.number);
        if (aggregate) *aggregate = temp.aggregate.load(line);
        if constexpr (has_block_prefix) {
            if (rank < 32) {
                const T block_prefix = prefix(temp.aggregate.load(line));
                if (!rank) temp.prefix.store(block_prefix, line);
            }
            __syncthreads(line.number);
        }
        bool has_prefix = rank;
        T before = has_prefix ? temp.slots[rank].load(line) : x[0];
        const auto add_before = [&](const T &p) { before = has_prefix ? op(p, before) : p, has_prefix = true; };
        if (initial) add_before(*initial);
        if constexpr (has_block_prefix) add_before(temp.prefix.load(line));
        for (int i = 0; i < n; i++) {
            const T item = x[i], sum = has_prefix ? op(before, item) : item;
            out[i] = inclusive ? sum : before;
            before = sum, has_prefix = true;
        }
        // Each thread reads the temporary storage at the end of the call, so that its reuse without a barrier is a data
        // race.
        temp.slots[(rank + 1) % threads].report(false, line);
    }
};

// Device-wide functions, implemented as loops on the host
namespace emulated {
template <class T> std::vector<T> copy_to_host(const T *p, size_t n) {
    std::vector<T> res(n);
    cudaMemcpy(res.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost, 0);
    return res;
}
template <class T> cudaError_t copy_to_device(T *p, const std::vector<T> &x) {
    return cudaMemcpy(p, x.data(), x.size() * sizeof(T), cudaMemcpyHostToDevice, 0);
}
// Returns whether this is the first of two calls, which only returns the size of the temporary storage.
inline bool is_size_query(void *temp, size_t &bytes) { return !temp && (bytes = 256); }
// Returns the bits [begin, end) of a key as an integer; their order is that of the keys.
template <class K> unsigned long long radix_key(K key, int begin, int end) {
    static_assert(std::is_arithmetic_v<K>, "the emulator supports DeviceRadixSort of arithmetic types only");
    if (key == K()) key = K();                                             // -0 and 0 are equal keys
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &key, sizeof(K));
    const int top = int(sizeof(K)) * 8 - 1;
    const bool negative = std::is_signed_v<K> && bits >> top & 1;
    if (std::is_floating_point_v<K> && negative) bits = ~bits;
    else if (std::is_signed_v<K>) bits ^= 1ull << top;
    return (end - begin > 63 ? bits : bits >> begin & ((1ull << (end - begin)) - 1));
}
template <class K, class V>
cudaError_t sort(const K *keys, K *to, const V *values, V *values_to, size_t n, int begin, int end, bool descending) {
    const auto k = copy_to_host(keys, n);
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t(0));
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        const auto x = radix_key(k[a], begin, end), y = radix_key(k[b], begin, end);
        return descending ? y < x : x < y;
    });
    std::vector<K> sorted_keys;
    for (size_t i : order) sorted_keys.push_back(k[i]);
    if (values) {
        const auto v = copy_to_host(values, n);
        std::vector<V> sorted_values;
        for (size_t i : order) sorted_values.push_back(v[i]);
        copy_to_device(values_to, sorted_values);
    }
    return copy_to_device(to, sorted_keys);
}
}

struct DeviceReduce {
    template <class T, class R, class N, class Op, class I>
    static cudaError_t Reduce(
        void *temp, size_t &bytes, T *in, R *out, N n, Op op, I initial, cudaStream_t s = nullptr) {
        if (emulated::is_size_query(temp, bytes)) return cudaSuccess;
        const gridstride::StreamScope stream_scope(s);
        R res = R(initial);
        for (const auto &item : emulated::copy_to_host<std::remove_const_t<T>>(in, size_t(n)))
            res = R(op(res, R(item)));
        return emulated::copy_to_device(out, std::vector<R>{res});
    }
    template <class T, class R, class N>
    static cudaError_t Sum(void *temp, size_t &bytes, T *in, R *out, N n, cudaStream_t s = nullptr) {
        return Reduce(temp, bytes, in, out, n, cub::Sum(), R(), s);
    }
    template <class T, class R, class N>
    static cudaError_t Max(void *temp, size_t &bytes, T *in, R *out, N n, cudaStream_t s = nullptr) {
        return Reduce(temp, bytes, in, out, n, cub::Max(), std::numeric_limits<R>::lowest(), s);
    }
    template <class T, class R, class N>
    static cudaError_t Min(void *temp, size_t &bytes, T *in, R *out, N n, cudaStream_t s = nullptr) {
        return Reduce(temp, bytes, in, out, n, cub::Min(), std::numeric_limits<R>::max(), s);
    }
};
struct DeviceScan {
    template <class T, class R, class N>
    static cudaError_t InclusiveSum(void *temp, size_t &bytes, T *in, R *out, N n, cudaStream_t s = nullptr) {
        const gridstride::StreamScope stream_scope(s);
        return scan(temp, bytes, in, out, n, cub::Sum(), R(), true);
    }
    template <class T, class R, class N>
    static cudaError_t ExclusiveSum(void *temp, size_t &bytes, T *in, R *out, N n, cudaStream_t s = nullptr) {
        const gridstride::StreamScope stream_scope(s);
        return scan(temp, bytes, in, out, n, cub::Sum(), R(), false);
    }
    template <class T, class R, class Op, class I, class N>
    static cudaError_t ExclusiveScan(
        void *temp, size_t &bytes, T *in, R *out, Op op, I initial, N n, cudaStream_t s = nullptr) {
        const gridstride::StreamScope stream_scope(s);
        return scan(temp, bytes, in, out, n, op, R(initial), false);
    }

private:
    template <class T, class R, class N, class Op>
    static cudaError_t scan(void *temp, size_t &bytes, T *in, R *out, N n, Op op, R sum, bool inclusive) {
        if (emulated::is_size_query(temp, bytes)) return cudaSuccess;
        std::vector<R> res;
        for (const auto &item : emulated::copy_to_host<std::remove_const_t<T>>(in, size_t(n))) {
            const R next = R(op(sum, R(item)));
            res.push_back(inclusive ? next : sum);
            sum = next;
        }
        return emulated::copy_to_device(out, res);
    }
};
struct DeviceRadixSort {
#define GRIDSTRIDE_SORT(name, descending) \
    template <class K, class N> static cudaError_t SortKeys##name(void *temp, size_t &bytes, const K *keys, K *to, \
        N n, int begin = 0, int end = sizeof(K) * 8, cudaStream_t s = nullptr) { \
        if (emulated::is_size_query(temp, bytes)) return cudaSuccess; \
        const gridstride::StreamScope stream_scope(s); \
        return emulated::sort<K, K>(keys, to, nullptr, nullptr, size_t(n), begin, end, descending); \
    } \
    template <class K, class V, class N> static cudaError_t SortPairs##name(void *temp, size_t &bytes, const K *keys, \
        K *to, const V *values, V *values_to, N n, int begin = 0, int end = sizeof(K) * 8, cudaStream_t s = nullptr) { \
        if (emulated::is_size_query(temp, bytes)) return cudaSuccess; \
        const gridstride::StreamScope stream_scope(s); \
        return emulated::sort(keys, to, values, values_to, size_t(n), begin, end, descending); \
    }
    GRIDSTRIDE_SORT(, false)
    GRIDSTRIDE_SORT(Descending, true)
#undef GRIDSTRIDE_SORT
};
}
#undef GRIDSTRIDE_CALL
