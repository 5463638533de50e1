// std::riemann_zeta, std::legendre and the other special functions of <cmath>, which emulator.h leaves out.
#pragma once
#include <cmath>
#if defined(__GLIBCXX__) && !defined(_GLIBCXX_USE_STD_SPEC_FUNCS) && __has_include(<bits/specfun.h>)
#define _GLIBCXX_USE_STD_SPEC_FUNCS 1
#include <bits/specfun.h>
#endif
