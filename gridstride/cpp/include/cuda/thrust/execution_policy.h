// Execution policies; every algorithm is a sequential loop.
#pragma once
#include <iterator>
#include <type_traits>
#include <utility>
#include "tuple.h"

namespace thrust {
// The memory that an algorithm may access when host code calls it
enum class MemorySpace { either, host, device };
template <MemorySpace space> struct execution_policy {
    execution_policy on(cudaStream_t) const { return {}; }
    // an allocator for temporary memory
    template <class A> execution_policy operator()(const A &) const { return {}; }
};
inline constexpr execution_policy<MemorySpace::host> host;
inline constexpr execution_policy<MemorySpace::device> device;
inline constexpr execution_policy<MemorySpace::either> seq;
namespace cuda { inline constexpr execution_policy<MemorySpace::device> par, par_nosync; }
namespace omp { inline constexpr execution_policy<MemorySpace::host> par; }
namespace emulated {
template <class P> struct PolicyOf : std::false_type {};
template <MemorySpace s> struct PolicyOf<execution_policy<s>> : std::true_type {
    static constexpr MemorySpace space = s;
};
template <class P> using if_policy = std::enable_if_t<PolicyOf<std::decay_t<P>>::value, int>;

// Returns the address of an iterator over plain memory; null for any other iterator.
template <class T, std::enable_if_t<std::is_object_v<T>, int> = 0> const void *address_of(T *p, int) {
    return const_cast<const std::remove_cv_t<T> *>(p);
}
template <class I, class P = std::decay_t<decltype(std::declval<const I &>().base())>>
std::enable_if_t<std::is_pointer_v<P>, const void *> address_of(const I &i, int) {
    return i.base();
}
template <class I> const void *address_of(const I &, long) { return nullptr; }
// Like address_of, but returns null if the argument is a value, not an iterator, and happens to be a pointer
template <class Value, class A> const void *address_unless_value(const A &x) {
    if constexpr (std::is_same_v<std::decay_t<A>, Value>) return nullptr;
    else return address_of(x, 0);
}
template <class A, class B> bool is_empty(const A &first, const B &last) {
    if constexpr (std::is_same_v<std::decay_t<A>, std::decay_t<B>>) return first == last;
    else if constexpr (std::is_integral_v<B>) return !last;
    else return false;
}
// Reports a device algorithm that is called with a host address, and vice versa.
template <MemorySpace space, class First, class Last, class... A>
void check_memory_space(const char *algorithm, const First &first, const Last &last, const A &...more) {
    typedef typename std::iterator_traits<std::decay_t<First>>::value_type Value;
    if (space == MemorySpace::either || gridstride::on_device() || is_empty(first, last)) return;
    for (const void *p :
        {address_of(first, 0), address_unless_value<Value>(last), address_unless_value<Value>(more)...})
        if (p && (space == MemorySpace::device ? !gridstride::is_device(p)
                                       : gridstride::is_device(p) && !gridstride::is_shared_with_host(p)))
            gridstride::report_wrong_policy(algorithm, space == MemorySpace::device);
}
}
}
