// Counting, constant, transform, permutation, zip and other iterators
#pragma once
#include <cstddef>
#include <iterator>
#include "tuple.h"

namespace thrust {
namespace emulated {
// While this object exists, the host may access device memory, because it executes a device algorithm.
struct DeviceAccessScope {
    const bool was_allowed = gridstride::allow_device_access(true);
    DeviceAccessScope() = default;
    DeviceAccessScope(const DeviceAccessScope &) = delete;
    ~DeviceAccessScope() { gridstride::allow_device_access(was_allowed); }
};
// Sets the thread indices while the host calls a function per element, as if one thread ran per element: a function may
// seed a random generator with them.
class ThreadIndexScope {
    static constexpr unsigned block_threads = 256;
    const bool is_active = !gridstride::on_device();
    const uint3 saved_thread_idx = gs_thread_idx, saved_block_idx = gs_block_idx;
    const dim3 saved_block_dim = blockDim, saved_grid_dim = gridDim;

public:
    explicit ThreadIndexScope(std::ptrdiff_t elements) {
        if (!is_active) return;
        gs_thread_idx = gs_block_idx = {0, 0, 0};
        blockDim = dim3(block_threads);
        gridDim = dim3(unsigned((elements + block_threads - 1) / block_threads));
    }
    ThreadIndexScope(const ThreadIndexScope &) = delete;
    // Calls `f` for one element. It is not inlined, because the compiler knows the indices as constants.
    template <class F, class... A> static GRIDSTRIDE_NOINLINE decltype(auto) call(F &f, A &&...arguments) {
        __asm__ volatile("" ::: "memory");             // otherwise several calls could become one
        return f(std::forward<A>(arguments)...);
    }
    ThreadIndexScope &operator++() {
        if (is_active && ++gs_thread_idx.x == block_threads) gs_thread_idx.x = 0, gs_block_idx.x++;
        return *this;
    }
    ~ThreadIndexScope() {
        if (!is_active) return;
        gs_thread_idx = saved_thread_idx, gs_block_idx = saved_block_idx;
        blockDim = saved_block_dim, gridDim = saved_grid_dim;
    }
};

// The operators that all iterators share, implemented with `at(n)`, the element at distance `n`
template <class Self, class V, class R> class iterator_facade {
    Self &self() { return static_cast<Self &>(*this); }
    const Self &self() const { return static_cast<const Self &>(*this); }

public:
    typedef std::random_access_iterator_tag iterator_category;
    typedef V value_type;
    typedef std::ptrdiff_t difference_type;
    typedef R reference;
    typedef void pointer;
    R operator*() const { return self().at(0); }
    R operator[](difference_type n) const { return self().at(n); }
    Self &operator+=(difference_type n) { return self().move(n), self(); }
    Self &operator-=(difference_type n) { return self().move(-n), self(); }
    Self &operator++() { return self() += 1; }
    Self &operator--() { return self() -= 1; }
    Self operator++(int) { Self old = self(); return self() += 1, old; }
    Self operator--(int) { Self old = self(); return self() -= 1, old; }
    friend Self operator+(Self a, difference_type n) { return a += n; }
    friend Self operator+(difference_type n, Self a) { return a += n; }
    friend Self operator-(Self a, difference_type n) { return a -= n; }
    friend difference_type operator-(const Self &a, const Self &b) { return a.distance_from(b); }
    friend bool operator==(const Self &a, const Self &b) { return a.distance_from(b) == 0; }
    friend bool operator!=(const Self &a, const Self &b) { return a.distance_from(b) != 0; }
    friend bool operator<(const Self &a, const Self &b) { return a.distance_from(b) < 0; }
};
template <class I> using value_of = typename std::iterator_traits<I>::value_type;
template <class I> using reference_of = typename std::iterator_traits<I>::reference;
template <class V> struct any_assign { // accepts and discards any value
    template <class X> const any_assign &operator=(const X &) const { return *this; }
};
}

template <class T, class = void, class = void, class D = std::ptrdiff_t>
class counting_iterator : public emulated::iterator_facade<counting_iterator<T>, T, T> {
    T x;

public:
    explicit counting_iterator(T x = T()) : x(x) {}
    T at(std::ptrdiff_t n) const { return T(x + n); }
    void move(std::ptrdiff_t n) { x = T(x + n); }
    std::ptrdiff_t distance_from(const counting_iterator &other) const {
        return std::ptrdiff_t(x) - std::ptrdiff_t(other.x);
    }
};
template <class T> counting_iterator<T> make_counting_iterator(T x) { return counting_iterator<T>(x); }

template <class T> class constant_iterator : public emulated::iterator_facade<constant_iterator<T>, T, T> {
    T x;
    std::ptrdiff_t position;

public:
    constant_iterator(T x = T(), std::ptrdiff_t position = 0) : x(x), position(position) {}
    T at(std::ptrdiff_t) const { return x; }
    void move(std::ptrdiff_t n) { position += n; }
    std::ptrdiff_t distance_from(const constant_iterator &other) const { return position - other.position; }
};
template <class T> constant_iterator<T> make_constant_iterator(T x, std::ptrdiff_t position = 0) {
    return {x, position};
}

class discard_iterator
    : public emulated::iterator_facade<discard_iterator, emulated::any_assign<void>, emulated::any_assign<void>> {
    std::ptrdiff_t position;

public:
    discard_iterator(std::ptrdiff_t position = 0) : position(position) {}
    emulated::any_assign<void> at(std::ptrdiff_t) const { return {}; }
    void move(std::ptrdiff_t n) { position += n; }
    std::ptrdiff_t distance_from(const discard_iterator &other) const { return position - other.position; }
};
inline discard_iterator make_discard_iterator(std::ptrdiff_t position = 0) { return position; }

template <class F, class I>
using transform_result_t = std::decay_t<decltype(std::declval<F &>()(*std::declval<const I &>()))>;
template <class F, class I, class R = transform_result_t<F, I>, class = void>
class transform_iterator : public emulated::iterator_facade<transform_iterator<F, I, R>, R, R> {
    I i;
    mutable F f;                                        // mutable, because its operator() may not be const

public:
    transform_iterator() = default;
    transform_iterator(I i, F f = F()) : i(i), f(f) {}
    R at(std::ptrdiff_t n) const { return f(i[n]); }
    void move(std::ptrdiff_t n) { i += n; }
    std::ptrdiff_t distance_from(const transform_iterator &other) const { return i - other.i; }
    I base() const { return i; }
};
template <class F, class I> transform_iterator<F, I> make_transform_iterator(I i, F f) { return {i, f}; }

template <class I, class M>
class permutation_iterator
    : public emulated::iterator_facade<permutation_iterator<I, M>, emulated::value_of<I>, emulated::reference_of<I>> {
    I i;
    M map;

public:
    permutation_iterator() = default;
    permutation_iterator(I i, M map) : i(i), map(map) {}
    emulated::reference_of<I> at(std::ptrdiff_t n) const { return i[map[n]]; }
    void move(std::ptrdiff_t n) { map += n; }
    std::ptrdiff_t distance_from(const permutation_iterator &other) const { return map - other.map; }
};
template <class I, class M> permutation_iterator<I, M> make_permutation_iterator(I i, M map) { return {i, map}; }

template <class Tuple> class zip_iterator;
template <class... I>
class zip_iterator<std::tuple<I...>>
    : public emulated::iterator_facade<zip_iterator<std::tuple<I...>>, std::tuple<emulated::value_of<I>...>,
          std::tuple<emulated::reference_of<I>...>> {
    std::tuple<I...> iterators;

public:
    zip_iterator() = default;
    zip_iterator(const std::tuple<I...> &iterators) : iterators(iterators) {}
    std::tuple<emulated::reference_of<I>...> at(std::ptrdiff_t n) const {
        return std::apply([n](auto &...i) { return std::tuple<emulated::reference_of<I>...>(i[n]...); }, iterators);
    }
    void move(std::ptrdiff_t n) { std::apply([n](auto &...i) { ((i += n), ...); }, iterators); }
    std::ptrdiff_t distance_from(const zip_iterator &other) const {
        return std::get<0>(iterators) - std::get<0>(other.iterators);
    }
    const std::tuple<I...> &get_iterator_tuple() const { return iterators; }
};
template <class... I> zip_iterator<std::tuple<I...>> make_zip_iterator(const std::tuple<I...> &iterators) {
    return iterators;
}
template <class... I> zip_iterator<std::tuple<I...>> make_zip_iterator(I... i) { return std::tuple<I...>(i...); }

template <class I> struct iterator_value { typedef emulated::value_of<I> type; };
template <class I> struct iterator_difference { typedef typename std::iterator_traits<I>::difference_type type; };
using std::advance;
using std::distance;
}
