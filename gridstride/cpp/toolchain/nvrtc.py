"""Provides substitutes for headers that NVRTC lacks: host headers, and those that nvcc includes implicitly.

A source may include headers of host libraries although its kernels use little of them."""

import re
from pathlib import Path

FIRST_HEADER = 'gridstride_start.h'  # included before the first line, as nvcc does with its own header
_FIRST_HEADER_TEXT = """#pragma once
namespace std {}
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned uint32_t;
typedef long long int64_t; typedef unsigned long long uint64_t;
typedef long long intptr_t; typedef unsigned long long uintptr_t;
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_E 2.7182818284590452354
#define M_LN2 0.69314718055994530942
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
"""
_LIMITS_TEXT = """#pragma once
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX-1)
#define UINT_MAX 4294967295u
#define LLONG_MAX 9223372036854775807ll
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623157e+308
"""
_LIMIT_HEADERS = {name: _LIMITS_TEXT for name in ('limits.h', 'climits', 'float.h', 'cfloat')}
# C++ headers of which libcu++ has a counterpart in the namespace cuda::std
_LIBCU_HEADERS = 'type_traits utility limits array tuple functional algorithm cmath complex optional'.split()
_C_HEADERS = (
    'assert ctype errno float inttypes limits math stdarg stdbool stddef stdint stdio stdlib string time'.split()
)
_CPP_HEADERS = (
    'bit chrono iomanip initializer_list iostream iterator map memory new numeric random string vector'.split()
)
HOST_HEADERS = {
    *_LIBCU_HEADERS,
    *_CPP_HEADERS,
    *(f'{name}.h' for name in _C_HEADERS),
    *(f'c{name}' for name in _C_HEADERS),
}  # names of the host's headers
CUDA_HEADER = re.compile(r'cuda|cooperative_groups|mma\.h|nv/|crt/')


def substitute_headers(src: str, folders: list) -> dict:  # name -> text
    "Return {name: text} of substitutes for headers that `src` includes and `folders` lack, except CUDA's"

    def exists(path):
        return any((Path(f) / path).is_file() for f in folders)

    substitutes = {FIRST_HEADER: _FIRST_HEADER_TEXT}
    for header in re.findall(r'^[ \t]*#[ \t]*include[ \t]*<([^>\n]+)>', src, re.M):
        if exists(header) or CUDA_HEADER.match(header):
            continue
        from_libcu = f'#pragma once\n#include <cuda/std/{header}>\nnamespace std {{ using namespace cuda::std; }}\n'
        substitutes[header] = (
            from_libcu if header in _LIBCU_HEADERS and exists(f'cuda/std/{header}') else _LIMIT_HEADERS.get(header, '')
        )
    return substitutes
