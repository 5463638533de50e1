// Elements of arrays whose type is known only at run time, as a cudaDataType
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "library_calls.h"
#include "library_types.h"

namespace gridstride {
namespace library {
GRIDSTRIDE_NO_TSAN inline int bytes_of(cudaDataType type) {
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F || type == CUDA_R_32I ? 4
         : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : type == CUDA_R_8I || type == CUDA_R_8U ? 1 : 0;
}
GRIDSTRIDE_NO_TSAN inline double read_element(cudaDataType type, const void *p, size_t i) {
    switch (type) {
        case CUDA_R_64F: return static_cast<const double *>(p)[i];
        case CUDA_R_32F: return double(static_cast<const float *>(p)[i]);
        case CUDA_R_16F: return double(float(static_cast<const __half *>(p)[i]));
        case CUDA_R_16BF: return double(float(static_cast<const __nv_bfloat16 *>(p)[i]));
        case CUDA_R_32I: return static_cast<const int *>(p)[i];
        case CUDA_R_8I: return static_cast<const signed char *>(p)[i];
        default: return static_cast<const unsigned char *>(p)[i];
    }
}
GRIDSTRIDE_NO_TSAN inline void write_element(cudaDataType type, void *p, size_t i, double x) {
    switch (type) {
        case CUDA_R_64F: static_cast<double *>(p)[i] = x; break;
        case CUDA_R_32F: static_cast<float *>(p)[i] = float(x); break;
        case CUDA_R_16F: static_cast<__half *>(p)[i] = __double2half(x); break;
        case CUDA_R_16BF: static_cast<__nv_bfloat16 *>(p)[i] = __double2bfloat16(x); break;
        case CUDA_R_32I: static_cast<int *>(p)[i] = int(x); break;
        default: static_cast<signed char *>(p)[i] = (signed char)(x < -128 ? -128 : x > 127 ? 127 : x);
    }
}
// Loads a scalar from host or device memory.
template <class T> T load_scalar(const T *p) {
    const DeviceAccessScope access;
    return *p;
}
GRIDSTRIDE_NO_TSAN inline double load_scalar(cudaDataType type, const void *p) { return read_element(type, p, 0); }
}
}
