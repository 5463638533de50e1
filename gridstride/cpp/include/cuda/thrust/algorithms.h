// Thrust's algorithms, as sequential loops in the calling thread, of host code or of a kernel. An execution policy as
// first argument only selects the memory space that is allowed. Thrust does not specify the order of a reduction; here
// it is the order of the elements.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>
#include "execution_policy.h"
#include "functional.h"
#include "iterators.h"

namespace thrust {
#define GRIDSTRIDE_WITH_POLICY(name) \
    template <class P, class... A, emulated::if_policy<P> = 0> auto name(P &&, A &&...args) { \
        emulated::check_memory_space<emulated::PolicyOf<std::decay_t<P>>::space>(#name, args...); \
        return thrust::name(static_cast<A &&>(args)...); \
    }

namespace emulated {
template <class I> std::vector<value_of<I>> to_vector(I first, I last) {
    std::vector<value_of<I>> result;
    result.reserve(size_t(last - first));
    for (; first != last; ++first) result.push_back(*first);
    return result;
}
template <class V, class O> void write_all(const V &x, O out) {
    for (size_t i = 0; i < x.size(); i++, ++out) *out = x[i];
}
// Returns the indices of the elements in sorted order, by a stable sort.
template <class K, class Less> std::vector<size_t> sorted_indices(const K &keys, Less less) {
    std::vector<size_t> order(keys.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return less(keys[a], keys[b]); });
    return order;
}
// Sorts by insertion, because a thread of a kernel has no temporary memory.
template <class K, class Less, class... V> void sort_in_place(K keys, std::ptrdiff_t n, Less less, V... values) {
    const auto move_down = [](auto x, std::ptrdiff_t from, std::ptrdiff_t to) {
        const value_of<decltype(x)> value = x[from];
        for (; from > to; from--) x[from] = value_of<decltype(x)>(x[from - 1]);
        x[to] = value;
    };
    for (std::ptrdiff_t i = 1; i < n; i++) {
        std::ptrdiff_t to = i;
        while (to && less(value_of<K>(keys[i]), value_of<K>(keys[to - 1]))) to--;
        if (to < i) move_down(keys, i, to), (move_down(values, i, to), ...);
    }
}
template <class I> void reorder(I first, const std::vector<size_t> &order) {
    const auto x = to_vector(first, first + std::ptrdiff_t(order.size()));
    for (size_t i : order) *first = x[i], ++first;
}
}

// Elementwise algorithms
template <class I, class F> I for_each(I first, I last, F f) {
    emulated::DeviceAccessScope access;
    emulated::ThreadIndexScope thread(last - first);
    for (; first != last; ++first, ++thread) thread.call(f, *first);
    return first;
}
template <class I, class N, class F> I for_each_n(I first, N n, F f) { return thrust::for_each(first, first + n, f); }
template <class I, class O, class F> O transform(I first, I last, O out, F f) {
    emulated::DeviceAccessScope access;
    emulated::ThreadIndexScope thread(last - first);
    for (; first != last; ++first, ++out, ++thread) *out = thread.call(f, *first);
    return out;
}
template <class I, class J, class O, class F> O transform(I first, I last, J second, O out, F f) {
    emulated::DeviceAccessScope access;
    emulated::ThreadIndexScope thread(last - first);
    for (; first != last; ++first, ++second, ++out, ++thread) *out = thread.call(f, *first, *second);
    return out;
}
template <class I, class O, class F, class Predicate>
O transform_if(I first, I last, O out, F f, Predicate predicate) {
    emulated::DeviceAccessScope access;
    for (; first != last; ++first, ++out) if (predicate(*first)) *out = f(*first);
    return out;
}
template <class I, class T> void fill(I first, I last, const T &x) {
    emulated::DeviceAccessScope access;
    for (; first != last; ++first) *first = x;
}
template <class I, class N, class T> I fill_n(I first, N n, const T &x) {
    thrust::fill(first, first + n, x);
    return first + n;
}
template <class I, class F> void generate(I first, I last, F f) {
    emulated::DeviceAccessScope access;
    emulated::ThreadIndexScope thread(last - first);
    for (; first != last; ++first, ++thread) *first = thread.call(f);
}
template <class I, class N, class F> void generate_n(I first, N n, F f) { thrust::generate(first, first + n, f); }
template <class I, class T, class S> void sequence(I first, I last, T x, S step) {
    emulated::DeviceAccessScope access;
    for (std::ptrdiff_t i = 0; first != last; ++first, i++) *first = emulated::value_of<I>(x + T(i) * step);
}
template <class I, class T> void sequence(I first, I last, T x) { thrust::sequence(first, last, x, T(1)); }
template <class I> void sequence(I first, I last) { thrust::sequence(first, last, emulated::value_of<I>(0)); }
template <class I, class F> void tabulate(I first, I last, F f) {
    emulated::DeviceAccessScope access;
    emulated::ThreadIndexScope thread(last - first);
    for (std::ptrdiff_t i = 0; first != last; ++first, ++thread, i++) *first = thread.call(f, i);
}
template <class I, class T> void replace(I first, I last, const T &old, const T &x) {
    emulated::DeviceAccessScope access;
    for (; first != last; ++first) if (*first == old) *first = x;
}
template <class I, class F, class T> void replace_if(I first, I last, F f, const T &x) {
    emulated::DeviceAccessScope access;
    for (; first != last; ++first) if (f(*first)) *first = x;
}
template <class I> void reverse(I first, I last) {
    emulated::DeviceAccessScope access;
    for (; first != last && first != --last; ++first) {
        const emulated::value_of<I> x = *first;
        *first = emulated::value_of<I>(*last), *last = x;
    }
}
template <class I, class J> J swap_ranges(I first, I last, J second) {
    emulated::DeviceAccessScope access;
    for (; first != last; ++first, ++second) {
        const emulated::value_of<I> x = *first;
        *first = emulated::value_of<J>(*second), *second = x;
    }
    return second;
}

// Selections
template <class I, class O> O copy(I first, I last, O out) {
    emulated::DeviceAccessScope access;
    for (; first != last; ++first, ++out) *out = *first;
    return out;
}
template <class I, class N, class O> O copy_n(I first, N n, O out) { return thrust::copy(first, first + n, out); }
template <class I, class S, class O, class F> O copy_if(I first, I last, S stencil, O out, F f) {
    emulated::DeviceAccessScope access;
    for (; first != last; ++first, ++stencil) if (f(*stencil)) *out = *first, ++out;
    return out;
}
template <class I, class O, class F> O copy_if(I first, I last, O out, F f) {
    return thrust::copy_if(first, last, first, out, f);
}
template <class I, class F> I remove_if(I first, I last, F f) {
    return thrust::copy_if(first, last, first, [f](const auto &x) mutable { return !f(x); });
}
template <class I, class S, class F> I remove_if(I first, I last, S stencil, F f) {
    return thrust::copy_if(first, last, stencil, first, [f](const auto &x) mutable { return !f(x); });
}
template <class I, class T> I remove(I first, I last, const T &x) {
    return thrust::remove_if(first, last, [x](const auto &item) { return item == x; });
}
template <class I, class O, class F> O remove_copy_if(I first, I last, O out, F f) {
    return thrust::copy_if(first, last, out, [f](const auto &x) mutable { return !f(x); });
}
template <class I, class F> I partition(I first, I last, F f) {
    emulated::DeviceAccessScope access;
    auto x = emulated::to_vector(first, last);
    const auto middle = std::stable_partition(x.begin(), x.end(), f) - x.begin();
    emulated::write_all(x, first);
    return first + middle;
}
template <class I, class F> I stable_partition(I first, I last, F f) { return thrust::partition(first, last, f); }
template <class M, class I, class O> O gather(M map, M last, I in, O out) {
    emulated::DeviceAccessScope access;
    for (; map != last; ++map, ++out) *out = in[*map];
    return out;
}
template <class I, class M, class O> void scatter(I first, I last, M map, O out) {
    emulated::DeviceAccessScope access;
    for (; first != last; ++first, ++map) out[*map] = *first;
}
template <class I, class M, class S, class O> void scatter_if(I first, I last, M map, S stencil, O out) {
    emulated::DeviceAccessScope access;
    for (; first != last; ++first, ++map, ++stencil) if (*stencil) out[*map] = *first;
}

// Searches, counts, comparisons
template <class I, class F> I find_if(I first, I last, F f) {
    emulated::DeviceAccessScope access;
    while (first != last && !f(*first)) ++first;
    return first;
}
template <class I, class T> I find(I first, I last, const T &x) {
    return thrust::find_if(first, last, [&x](const auto &item) { return item == x; });
}
template <class I, class F> std::ptrdiff_t count_if(I first, I last, F f) {
    emulated::DeviceAccessScope access;
    std::ptrdiff_t n = 0;
    for (; first != last; ++first) n += bool(f(*first));
    return n;
}
template <class I, class T> std::ptrdiff_t count(I first, I last, const T &x) {
    return thrust::count_if(first, last, [&x](const auto &item) { return item == x; });
}
template <class I, class F> bool any_of(I a, I b, F f) { return thrust::find_if(a, b, f) != b; }
template <class I, class F> bool none_of(I a, I b, F f) { return !thrust::any_of(a, b, f); }
template <class I, class F> bool all_of(I a, I b, F f) {
    return !thrust::any_of(a, b, [f](const auto &x) mutable { return !f(x); });
}
template <class I, class J, class F> bool equal(I first, I last, J second, F are_equal) {
    emulated::DeviceAccessScope access;
    for (; first != last; ++first, ++second) if (!are_equal(*first, *second)) return false;
    return true;
}
template <class I, class J> bool equal(I a, I b, J c) { return thrust::equal(a, b, c, std::equal_to<>()); }
template <class I, class Less = std::less<>> bool is_sorted(I first, I last, Less less = {}) {
    emulated::DeviceAccessScope access;
    for (I next = first; first != last && ++next != last; ++first) if (less(*next, *first)) return false;
    return true;
}
template <class I, class Less = std::less<>> I min_element(I first, I last, Less less = {}) {
    emulated::DeviceAccessScope access;
    I best = first;
    for (; first != last; ++first) if (less(*first, *best)) best = first;
    return best;
}
template <class I, class Less = std::less<>> I max_element(I first, I last, Less less = {}) {
    return thrust::min_element(first, last, [less](const auto &a, const auto &b) mutable { return less(b, a); });
}
template <class I, class Less = std::less<>> std::pair<I, I> minmax_element(I first, I last, Less less = {}) {
    return {thrust::min_element(first, last, less), thrust::max_element(first, last, less)};
}

// Sums and scans
template <class I, class T, class Op> T reduce(I first, I last, T sum, Op op) {
    emulated::DeviceAccessScope access;
    for (; first != last; ++first) sum = op(sum, *first);
    return sum;
}
template <class I, class T> T reduce(I a, I b, T sum) { return thrust::reduce(a, b, sum, std::plus<>()); }
template <class I> auto reduce(I a, I b) { return thrust::reduce(a, b, emulated::value_of<I>()); }
template <class I, class F, class T, class Op> T transform_reduce(I first, I last, F f, T sum, Op op) {
    emulated::DeviceAccessScope access;
    for (; first != last; ++first) sum = op(sum, f(*first));
    return sum;
}
template <class I, class J, class T, class Op, class F> T inner_product(I a, I last, J b, T sum, Op op, F f) {
    emulated::DeviceAccessScope access;
    for (; a != last; ++a, ++b) sum = op(sum, f(*a, *b));
    return sum;
}
template <class I, class J, class T> T inner_product(I a, I last, J b, T sum) {
    return thrust::inner_product(a, last, b, sum, std::plus<>(), std::multiplies<>());
}
template <class I, class O, class Op> O inclusive_scan(I first, I last, O out, Op op) {
    emulated::DeviceAccessScope access;
    if (first == last) return out;
    emulated::value_of<I> sum = *first;
    for (*out = sum, ++out; ++first != last; ++out) *out = sum = op(sum, emulated::value_of<I>(*first));
    return out;
}
template <class I, class O> O inclusive_scan(I a, I b, O out) {
    return thrust::inclusive_scan(a, b, out, std::plus<>());
}
template <class I, class O, class T, class Op> O exclusive_scan(I first, I last, O out, T sum, Op op) {
    emulated::DeviceAccessScope access;
    for (; first != last; ++first, ++out) {
        const emulated::value_of<I> x = *first;
        *out = sum, sum = op(sum, x);
    }
    return out;
}
template <class I, class O, class T> O exclusive_scan(I a, I b, O out, T sum) {
    return thrust::exclusive_scan(a, b, out, sum, std::plus<>());
}
template <class I, class O> O exclusive_scan(I a, I b, O out) {
    return thrust::exclusive_scan(a, b, out, emulated::value_of<I>());
}
template <class I, class O, class F, class Op> O transform_inclusive_scan(I first, I last, O out, F f, Op op) {
    return thrust::inclusive_scan(make_transform_iterator(first, f), make_transform_iterator(last, f), out, op);
}
template <class I, class O, class F, class T, class Op>
O transform_exclusive_scan(I first, I last, O out, F f, T sum, Op op) {
    return thrust::exclusive_scan(make_transform_iterator(first, f), make_transform_iterator(last, f), out, sum, op);
}
template <class I, class O, class F> O adjacent_difference(I first, I last, O out, F f) {
    emulated::DeviceAccessScope access;
    if (first == last) return out;
    emulated::value_of<I> previous = *first;
    for (*out = previous, ++out; ++first != last; ++out) {
        const emulated::value_of<I> x = *first;
        *out = f(x, previous), previous = x;
    }
    return out;
}
template <class I, class O> O adjacent_difference(I a, I b, O out) {
    return thrust::adjacent_difference(a, b, out, std::minus<>());
}

// Scans runs of equal keys: calls `begin(key, x)` for the first value of a run, and `next(x)` for every further one.
namespace emulated {
template <class K, class V, class Equal, class Begin, class Next>
void scan_runs(K first, K last, V in, Equal equal, Begin begin, Next next) {
    emulated::DeviceAccessScope access;
    if (first == last) return;
    value_of<K> key = *first;
    for (begin(key, value_of<V>(*in)); ++first != last;) {
        const value_of<K> previous_key = key;
        const value_of<V> x = *++in;
        key = *first;
        if (equal(previous_key, key)) next(x);
        else begin(key, x);
    }
}
}
template <class K, class V, class O, class Equal = std::equal_to<>, class Op = std::plus<>>
O inclusive_scan_by_key(K first, K last, V in, O out, Equal equal = {}, Op op = {}) {
    typedef emulated::value_of<V> T;
    T sum{};
    const auto write = [&](const T &x) { *out = sum = x, ++out; };
    emulated::scan_runs(first, last, in, equal, [&](const auto &, const T &x) { write(x); },
        [&](const T &x) { write(op(sum, x)); });
    return out;
}
template <class K, class V, class O, class T, class Equal = std::equal_to<>, class Op = std::plus<>>
O exclusive_scan_by_key(K first, K last, V in, O out, T initial, Equal equal = {}, Op op = {}) {
    T sum{};
    const auto write = [&](const T &previous_sum, const auto &x) {
        *out = previous_sum, ++out, sum = op(previous_sum, x);
    };
    emulated::scan_runs(first, last, in, equal, [&](const auto &, const auto &x) { write(initial, x); },
        [&](const auto &x) { write(T(sum), x); });
    return out;
}
template <class K, class V, class A, class B, class Equal = std::equal_to<>, class Op = std::plus<>>
std::pair<A, B> reduce_by_key(K first, K last, V in, A keys_out, B out, Equal equal = {}, Op op = {}) {
    typedef emulated::value_of<V> T;
    T sum{};
    bool has_run = false;
    const auto write_sum = [&] { if (has_run) *out = sum, ++out; };
    emulated::scan_runs(first, last, in, equal,
        [&](const auto &key, const T &x) { write_sum(), *keys_out = key, ++keys_out, sum = x, has_run = true; },
        [&](const T &x) { sum = op(sum, x); });
    emulated::DeviceAccessScope access;
    return write_sum(), std::pair<A, B>(keys_out, out);
}
template <class K, class V, class A, class B, class Equal = std::equal_to<>>
std::pair<A, B> unique_by_key_copy(K first, K last, V in, A keys_out, B out, Equal equal = {}) {
    return thrust::reduce_by_key(first, last, in, keys_out, out, equal, [](const auto &a, const auto &) { return a; });
}
template <class K, class V, class Equal = std::equal_to<>>
std::pair<K, V> unique_by_key(K first, K last, V in, Equal equal = {}) {
    return thrust::unique_by_key_copy(first, last, in, first, in, equal);
}
template <class I, class O, class Equal = std::equal_to<>> O unique_copy(I first, I last, O out, Equal equal = {}) {
    return thrust::unique_by_key_copy(first, last, first, out, make_discard_iterator(), equal).first;
}
template <class I, class Equal = std::equal_to<>> I unique(I first, I last, Equal equal = {}) {
    return thrust::unique_copy(first, last, first, equal);
}

// Sorted ranges
template <class I, class Less = std::less<>> void stable_sort(I first, I last, Less less = {}) {
    emulated::DeviceAccessScope access;
    if (gridstride::on_device()) return emulated::sort_in_place(first, last - first, less);
    emulated::reorder(first, emulated::sorted_indices(emulated::to_vector(first, last), less));
}
template <class I, class Less = std::less<>> void sort(I first, I last, Less less = {}) {
    thrust::stable_sort(first, last, less);
}
template <class K, class V, class Less = std::less<>>
void stable_sort_by_key(K first, K last, V values, Less less = {}) {
    emulated::DeviceAccessScope access;
    if (gridstride::on_device()) return emulated::sort_in_place(first, last - first, less, values);
    const auto order = emulated::sorted_indices(emulated::to_vector(first, last), less);
    emulated::reorder(first, order), emulated::reorder(values, order);
}
template <class K, class V, class Less = std::less<>> void sort_by_key(K first, K last, V values, Less less = {}) {
    thrust::stable_sort_by_key(first, last, values, less);
}
template <class I, class J, class O, class Less = std::less<>>
O merge(I a, I a_end, J b, J b_end, O out, Less less = {}) {
    emulated::DeviceAccessScope access;
    for (; a != a_end || b != b_end; ++out) {
        if (a == a_end || (b != b_end && less(*b, *a))) *out = *b, ++b;
        else *out = *a, ++a;
    }
    return out;
}
#define GRIDSTRIDE_SEARCH(name, is_before) \
    template <class I, class V, class O> O name(I first, I last, V value, V values_end, O out) { \
        emulated::DeviceAccessScope access; \
        for (; value != values_end; ++value, ++out) *out = thrust::name(first, last, *value) - first; \
        return out; \
    } \
    template <class I, class T> I name(I first, I last, const T &x) { \
        emulated::DeviceAccessScope access; \
        while (first != last) { \
            const I middle = first + (last - first) / 2; \
            if (is_before) first = middle + 1; \
            else last = middle; \
        } \
        return first; \
    } \
    GRIDSTRIDE_WITH_POLICY(name)
template <class I, class T> I lower_bound(I, I, const T &);
template <class I, class T> I upper_bound(I, I, const T &);
GRIDSTRIDE_SEARCH(lower_bound, *middle < x)
GRIDSTRIDE_SEARCH(upper_bound, !(x < *middle))
#undef GRIDSTRIDE_SEARCH
template <class I, class T> bool binary_search(I first, I last, const T &x) {
    const I position = thrust::lower_bound(first, last, x);
    emulated::DeviceAccessScope access;
    return position != last && !(x < *position);
}
template <class I, class G> void shuffle(I first, I last, G &&generator) {
    emulated::DeviceAccessScope access;
    auto x = emulated::to_vector(first, last);
    for (size_t i = x.size(); i > 1; i--) std::swap(x[i - 1], x[generator() % i]);
    emulated::write_all(x, first);
}

#define X GRIDSTRIDE_WITH_POLICY
X(for_each) X(for_each_n) X(transform) X(transform_if) X(fill) X(fill_n) X(generate) X(generate_n) X(sequence)
X(tabulate) X(replace) X(replace_if) X(reverse) X(swap_ranges) X(copy) X(copy_n) X(copy_if) X(remove_if) X(remove)
X(remove_copy_if) X(partition) X(stable_partition) X(gather) X(scatter) X(scatter_if) X(find_if) X(find) X(count_if)
X(count) X(any_of) X(none_of) X(all_of) X(equal) X(is_sorted) X(min_element) X(max_element) X(minmax_element)
X(reduce) X(transform_reduce) X(inner_product) X(inclusive_scan) X(exclusive_scan) X(transform_inclusive_scan)
X(transform_exclusive_scan) X(adjacent_difference) X(inclusive_scan_by_key) X(exclusive_scan_by_key)
X(reduce_by_key) X(unique_by_key_copy) X(unique_by_key) X(unique_copy) X(unique) X(stable_sort) X(sort)
X(stable_sort_by_key) X(sort_by_key) X(merge) X(binary_search) X(shuffle)
#undef X
#undef GRIDSTRIDE_WITH_POLICY
}
