// torch::Tensor for CUDA C that is called from Python: data pointer, sizes, strides, type and device of a tensor that
// lives in Python. What computes is done there, by PyTorch itself; so this header compiles in a fraction of a second.
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
#pragma GCC visibility push(hidden)   // two libraries in one process do not share what is here
#include "tensor_class.h"
#include "accessor.h"
#include "dispatch.h"

#ifndef GRIDSTRIDE_WITHOUT_AT    // a source that does not say at:: may call a function of its own so
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
