// Function objects; binary ones also accept operands of different types.
#pragma once
#include <functional>
#include "../cuda/std/functional"
#include "tuple.h"

namespace thrust {
using std::bit_and;
using std::bit_or;
using std::bit_xor;
using std::divides;
using std::equal_to;
using std::greater;
using std::greater_equal;
using std::less;
using std::less_equal;
using std::logical_and;
using std::logical_not;
using std::logical_or;
using std::minus;
using std::modulus;
using std::multiplies;
using std::negate;
using std::not_equal_to;
using std::plus;

template <class T = void> struct maximum {
    T operator()(const T &a, const T &b) const { return a < b ? b : a; }
};
template <> struct maximum<void> {
    template <class A, class B> auto operator()(const A &a, const B &b) const { return a < b ? b : a; }
};
template <class T = void> struct minimum {
    T operator()(const T &a, const T &b) const { return b < a ? b : a; }
};
template <> struct minimum<void> {
    template <class A, class B> auto operator()(const A &a, const B &b) const { return b < a ? b : a; }
};
template <class T = void> struct identity {
    const T &operator()(const T &x) const { return x; }
};
template <class T = void> struct square {
    T operator()(const T &x) const { return x * x; }
};
template <class A, class R> struct unary_function {
    typedef A argument_type;
    typedef R result_type;
};
template <class A, class B, class R> struct binary_function {
    typedef A first_argument_type;
    typedef B second_argument_type;
    typedef R result_type;
};
}
