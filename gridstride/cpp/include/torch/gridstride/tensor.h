// torch::Tensor for host code that Python calls: the data pointer, sizes, strides, dtype and device of a Python tensor.
// Operations are computed in Python, by PyTorch itself, so this header compiles in a fraction of a second.
#pragma once
#ifdef GRIDSTRIDE_EMULATOR
#include <emulator.h>
#elif defined(__CUDACC__)
#include <cuda_runtime.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>
#pragma GCC visibility push(hidden)   // because two libraries in one process must not share these functions
#include "tensor_class.h"
#include "accessor.h"
#include "dispatch.h"

#ifndef GRIDSTRIDE_WITHOUT_AT    // because a source without at:: may have a function of that name
namespace at = torch;
#endif
namespace c10 = torch;
#if defined(__CUDACC__) || defined(GRIDSTRIDE_EMULATOR)
#include "stream.h"
#endif
#include "export.h"
#ifdef GRIDSTRIDE_EMULATOR
#include "kernel.h"
#endif
#pragma GCC visibility pop
