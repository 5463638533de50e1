// Support for loops that rewriters/loop_reads.py has rewritten: one call checks all reads of a loop over products.
#pragma once
#include <type_traits>
#include "runtime.h"

// A function whose accesses and indices are not instrumented, because `record_reads` has checked them
#define GRIDSTRIDE_READS_CHECKED GRIDSTRIDE_NO_TSAN __attribute__((no_sanitize("bounds")))

namespace gridstride {
// The reads of a loop, each of which reads addresses with a constant stride
struct LoopReads {
    struct Read {
        uintptr_t first;
        intptr_t stride;
        unsigned bytes;
        bool is_array;                     // not a pointer
    };
    static constexpr int max_reads = 8;
    static constexpr long long min_count = 8, max_count = 1 << 20;    // a call for fewer iterations takes longer
    long long count;
    bool fits;                             // whether each index is within the bounds of its array
    int size;
    Read reads[max_reads];
    __attribute__((always_inline)) GRIDSTRIDE_READS_CHECKED explicit LoopReads(long long n)
        : count(n), fits(n >= min_count && n <= max_count), size(0) {}
    // The implicit constructor, and the implicit assignment of a read, would be instrumented, so not inlined.
    __attribute__((always_inline)) GRIDSTRIDE_READS_CHECKED LoopReads(const LoopReads &other)
        : count(other.count), fits(other.fits), size(other.size) {
        for (int i = 0; i < size; i++) {
            reads[i].first = other.reads[i].first, reads[i].stride = other.reads[i].stride;
            reads[i].bytes = other.reads[i].bytes, reads[i].is_array = other.reads[i].is_array;
        }
    }
    // Adds a read of an element of an array or a pointer of type A, of which these are the addresses at the first and
    // the second iteration.
    template <class A, class T>
    __attribute__((always_inline)) GRIDSTRIDE_READS_CHECKED void add(T *first, T *second) {
        constexpr bool is_number = std::is_arithmetic_v<T> && !std::is_volatile_v<T>;
        if constexpr (!is_number || (sizeof(T) != 4 && sizeof(T) != 8)) fits = false;
        Read &read = reads[size++];
        read.first = reinterpret_cast<uintptr_t>(first);
        read.stride = intptr_t(reinterpret_cast<uintptr_t>(second) - read.first);
        read.bytes = unsigned(sizeof(T)), read.is_array = std::is_array_v<std::remove_reference_t<A>>;
    }
    // Checks an index of the read that is added next, which is the same in all iterations.
    template <class A, int axis, class I>
    __attribute__((always_inline)) GRIDSTRIDE_READS_CHECKED void check_index(I index) {
        constexpr auto extent = std::extent_v<std::remove_reference_t<A>, axis>;
        if (extent && (unsigned long long)(index) >= extent) fits = false;
    }
    // Checks an index that is an affine function of the iteration. An unsigned one of 32 bits must not wrap.
    template <class A, int axis, class I>
    __attribute__((always_inline)) GRIDSTRIDE_READS_CHECKED void check_index(I first, I second) {
        constexpr auto extent = std::extent_v<std::remove_reference_t<A>, axis>;
        constexpr bool may_wrap = std::is_unsigned_v<I> && sizeof(I) <= 4;
        constexpr unsigned long long end = extent ? extent : 1ull << 32;
        const long long a = (long long)(first), last = a + (count - 1) * ((long long)(second) - a);
        if ((extent || may_wrap) && ((unsigned long long)(a) >= end || (unsigned long long)(last) >= end)) fits = false;
    }
};
// Checks and records the reads; returns false if the loop must check each access by itself.
GRIDSTRIDE_API bool record_reads(const LoopReads &);

// The type of the parameter by which a function gets a variable: a reference to an array, a copy of anything else
template <class T> using LoopParameter = std::conditional_t<std::is_array_v<std::remove_reference_t<T>>,
    std::remove_reference_t<T> &, std::decay_t<T>>;
// Whether a variable of this type is a local number that only its own thread can access
template <class T> constexpr bool is_plain_number =
    std::is_arithmetic_v<T> && !std::is_reference_v<T> && !std::is_volatile_v<T>;
}
