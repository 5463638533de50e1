// thrust::complex is that of the standard library: the emulator compiles for the host.
#pragma once
#include <complex>
#include "../emulator.h"

namespace thrust {
using std::abs;
using std::arg;
using std::complex;
using std::conj;
using std::cos;
using std::cosh;
using std::exp;
using std::log;
using std::log10;
using std::norm;
using std::polar;
using std::pow;
using std::proj;
using std::sin;
using std::sinh;
using std::sqrt;
using std::tan;
using std::tanh;
}
