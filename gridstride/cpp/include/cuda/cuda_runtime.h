// The host runtime of the emulator: errors, memory, streams and events, the device, kernels.
#pragma once
#include "emulator.h"

// Other headers test these macros.
#define __DRIVER_TYPES_H__
#define __CUDA_RUNTIME_H__

#include "runtime_memory.h"
#include "runtime_streams.h"
#include "runtime_device.h"
#include "runtime_kernels.h"

inline cudaError_t cudaDriverGetVersion(int *v) { *v = CUDA_VERSION; return cudaSuccess; }
inline cudaError_t cudaRuntimeGetVersion(int *v) { *v = CUDART_VERSION; return cudaSuccess; }
inline cudaError_t cudaProfilerStart() { return cudaSuccess; }
inline cudaError_t cudaProfilerStop() { return cudaSuccess; }

#include "graphs.h"
