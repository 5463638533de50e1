// host_vector and device_vector. The host may access the elements of both: a device_vector uses managed memory. Like
// Thrust's header, this one includes most algorithms.
#pragma once
#include <iostream>
#include <memory>
#include <vector>
#include "algorithms.h"
#include "device_ptr.h"

namespace thrust {
template <class T> class device_allocator {};

template <class T, class = void> class device_vector {
    T *p = nullptr;
    size_t n = 0, num_reserved = 0;

    static T *allocate(size_t n) { return n ? device_malloc<T>(n).get() : nullptr; }
    void destroy_from(size_t from) { std::destroy(p + from, p + n); }
    template <class I> void append(I first, I last) {
        for (; first != last; ++first) push_back(*first);
    }

public:
    typedef T value_type;
    typedef size_t size_type;
    typedef std::ptrdiff_t difference_type;
    typedef T &reference;
    typedef const T &const_reference;
    typedef device_ptr<T> iterator, pointer;
    typedef device_ptr<const T> const_iterator, const_pointer;

    device_vector() = default;
    explicit device_vector(size_t n) { resize(n); }
    device_vector(size_t n, const T &x) { resize(n, x); }
    template <class I, class = typename std::iterator_traits<I>::iterator_category> device_vector(I first, I last) {
        emulated::DeviceAccessScope access;
        append(first, last);
    }
    device_vector(std::initializer_list<T> x) : device_vector(x.begin(), x.end()) {}
    device_vector(const device_vector &other) : device_vector(other.begin(), other.end()) {}
    device_vector(device_vector &&other) noexcept { swap(other); }
    template <class A> device_vector(const std::vector<T, A> &other) : device_vector(other.begin(), other.end()) {}
    ~device_vector() { destroy_from(0), gridstride::device_free(p); }
    device_vector &operator=(device_vector other) { return swap(other), *this; }
    template <class A> device_vector &operator=(const std::vector<T, A> &other) { return *this = device_vector(other); }
    void swap(device_vector &other) noexcept {
        std::swap(p, other.p), std::swap(n, other.n), std::swap(num_reserved, other.num_reserved);
    }

    void reserve(size_t new_capacity) {
        if (new_capacity <= num_reserved) return;
        T *const new_p = allocate(new_capacity);
        std::uninitialized_move(p, p + n, new_p);
        destroy_from(0);
        gridstride::device_free(p);
        p = new_p, num_reserved = new_capacity;
    }
    void resize(size_t new_size, const T &x = T()) {
        reserve(new_size);
        if (new_size < n) destroy_from(new_size);
        else std::uninitialized_fill(p + n, p + new_size, x);
        n = new_size;
    }
    void push_back(const T &x) {
        const T copy = x;             // `x` may be an element, which `reserve` moves
        if (n == num_reserved) reserve(n ? 2 * n : 16);
        new (p + n++) T(copy);
    }
    void pop_back() { resize(n - 1); }
    void clear() { resize(0); }
    void shrink_to_fit() {}
    void assign(size_t n, const T &x) { clear(), resize(n, x); }
    template <class I, class = typename std::iterator_traits<I>::iterator_category> void assign(I first, I last) {
        *this = device_vector(first, last);
    }
    iterator erase(iterator first, iterator last) {
        std::move(last.get(), p + n, first.get());
        resize(n - size_t(last - first));
        return first;
    }
    iterator erase(iterator position) { return erase(position, position + 1); }

    size_t size() const { return n; }
    size_t capacity() const { return num_reserved; }
    bool empty() const { return !n; }
    T &operator[](size_t i) { return p[i]; }
    const T &operator[](size_t i) const { return p[i]; }
    T &front() { return p[0]; }
    T &back() { return p[n - 1]; }
    const T &front() const { return p[0]; }
    const T &back() const { return p[n - 1]; }
    pointer data() { return p; }
    const_pointer data() const { return p; }
    iterator begin() { return p; }
    iterator end() { return p + n; }
    const_iterator begin() const { return p; }
    const_iterator end() const { return p + n; }
    const_iterator cbegin() const { return p; }
    const_iterator cend() const { return p + n; }
};

template <class T, class A = std::allocator<T>> class host_vector : public std::vector<T, A> {
public:
    using std::vector<T, A>::vector;
    host_vector() = default;
    host_vector(const std::vector<T, A> &other) : std::vector<T, A>(other) {}
    host_vector(const device_vector<T> &other) : std::vector<T, A>(other.begin(), other.end()) {}
    host_vector &operator=(const device_vector<T> &other) { return this->assign(other.begin(), other.end()), *this; }
};
template <class T> using universal_vector = device_vector<T>;

template <class T, class A> bool operator==(const device_vector<T> &a, const std::vector<T, A> &b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}
template <class T> bool operator==(const device_vector<T> &a, const device_vector<T> &b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}
}
