// Pointers to device memory, which the host may dereference
#pragma once
#include <cstddef>
#include <iterator>
#include <new>
#include "system_error.h"
#include "tuple.h"

namespace thrust {
template <class T> class device_ptr {
    T *p;

public:
    typedef std::random_access_iterator_tag iterator_category;
    typedef std::remove_const_t<T> value_type;
    typedef std::ptrdiff_t difference_type;
    typedef T *pointer;
    typedef std::add_lvalue_reference_t<T> reference;
    typedef T element_type;

    device_ptr(std::nullptr_t = nullptr) : p(nullptr) {}
    device_ptr(T *p) : p(p) { gridstride::share_with_host(p); }
    template <class U, class = std::enable_if_t<std::is_convertible_v<U *, T *> || std::is_void_v<U>>>
    device_ptr(const device_ptr<U> &other) : p(static_cast<T *>(other.get())) {}
    T *get() const { return p; }
    explicit operator bool() const { return p; }
    reference operator*() const { return *p; }
    T *operator->() const { return p; }
    template <class I> reference operator[](I i) const { return p[i]; }
    device_ptr &operator+=(difference_type n) { return p += n, *this; }
    device_ptr &operator-=(difference_type n) { return p -= n, *this; }
    device_ptr &operator++() { return ++p, *this; }
    device_ptr &operator--() { return --p, *this; }
    device_ptr operator++(int) { device_ptr old = *this; return ++p, old; }
    device_ptr operator--(int) { device_ptr old = *this; return --p, old; }
    friend device_ptr operator+(device_ptr a, difference_type n) { return a += n; }
    friend device_ptr operator+(difference_type n, device_ptr a) { return a += n; }
    friend device_ptr operator-(device_ptr a, difference_type n) { return a -= n; }
    friend difference_type operator-(const device_ptr &a, const device_ptr &b) { return a.p - b.p; }
    friend bool operator==(const device_ptr &a, const device_ptr &b) { return a.p == b.p; }
    friend bool operator!=(const device_ptr &a, const device_ptr &b) { return a.p != b.p; }
    friend bool operator<(const device_ptr &a, const device_ptr &b) { return a.p < b.p; }
    friend bool operator>(const device_ptr &a, const device_ptr &b) { return b < a; }
    friend bool operator<=(const device_ptr &a, const device_ptr &b) { return !(b < a); }
    friend bool operator>=(const device_ptr &a, const device_ptr &b) { return !(a < b); }
};

template <class T> T *raw_pointer_cast(T *p) { return p; }
template <class T> T *raw_pointer_cast(const device_ptr<T> &p) { return p.get(); }
template <class T> device_ptr<T> device_pointer_cast(T *p) { return device_ptr<T>(p); }
template <class T> device_ptr<T> device_pointer_cast(const device_ptr<T> &p) { return p; }

template <class T> device_ptr<T> device_malloc(size_t n, int line = __builtin_LINE()) {
    void *const p = n ? gridstride::device_alloc(n * sizeof(T), sizeof(T), false, true, line) : nullptr;
    if (n && !p) throw std::bad_alloc();
    return device_ptr<T>(static_cast<T *>(p));
}
inline device_ptr<void> device_malloc(size_t bytes, int line = __builtin_LINE()) {
    return device_malloc<char>(bytes, line);
}
template <class T> void device_free(const device_ptr<T> &p) {
    if (p) gridstride::device_free(const_cast<std::remove_const_t<T> *>(p.get()));
}
}
