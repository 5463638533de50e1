// A part of the driver's interface: tensor maps
#pragma once
#include "emulator.h"

typedef int CUresult;
constexpr CUresult CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1;
typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
struct alignas(64) CUtensorMap { cuuint64_t opaque[16]; };
enum CUtensorMapDataType {
    CU_TENSOR_MAP_DATA_TYPE_UINT8,
    CU_TENSOR_MAP_DATA_TYPE_UINT16,
    CU_TENSOR_MAP_DATA_TYPE_UINT32,
    CU_TENSOR_MAP_DATA_TYPE_INT32,
    CU_TENSOR_MAP_DATA_TYPE_UINT64,
    CU_TENSOR_MAP_DATA_TYPE_INT64,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ
};
enum CUtensorMapInterleave {
    CU_TENSOR_MAP_INTERLEAVE_NONE,
    CU_TENSOR_MAP_INTERLEAVE_16B,
    CU_TENSOR_MAP_INTERLEAVE_32B
};
enum CUtensorMapSwizzle {
    CU_TENSOR_MAP_SWIZZLE_NONE,
    CU_TENSOR_MAP_SWIZZLE_32B,
    CU_TENSOR_MAP_SWIZZLE_64B,
    CU_TENSOR_MAP_SWIZZLE_128B
};
enum CUtensorMapL2promotion {
    CU_TENSOR_MAP_L2_PROMOTION_NONE,
    CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
    CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
    CU_TENSOR_MAP_L2_PROMOTION_L2_256B
};
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA };

// `strides` has the strides of all axes but the first, in bytes; the first axis is contiguous.
inline CUresult cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank, void *base,
    const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *element_strides,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill fill) {
    constexpr int bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    if (!out || rank < 1 || rank > 5 || unsigned(type) > 12 || reinterpret_cast<uintptr_t>(base) % 16 || interleave ||
        fill)
        return CUDA_ERROR_INVALID_VALUE;
    ::gridstride::TensorMap map = {{'g', 's', ' ', 't', 'm', 'a', 'p'}, static_cast<char *>(base), int(rank),
        bytes[type], swizzle ? 16 << swizzle : 0, 0, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, {bytes[type]}};
    for (unsigned i = 0; i < rank; i++) {
        if (!sizes[i] || sizes[i] > 1ull << 32 || !box[i] || box[i] > 256 ||
            (element_strides && element_strides[i] != 1) ||
            (i && (strides[i - 1] % 16 || strides[i - 1] >= 1ull << 40)))
            return CUDA_ERROR_INVALID_VALUE;
        map.sizes[i] = int32_t(sizes[i]), map.box[i] = int32_t(box[i]);
        if (i) map.strides[i] = int64_t(strides[i - 1]);
    }
    const int row = map.box[0] * map.itemsize;
    if (row % 16 || (swizzle && row > map.swizzle)) return CUDA_ERROR_INVALID_VALUE;
    memcpy(out, &map, sizeof map);
    return CUDA_SUCCESS;
}
// Returns the address of a driver function by its name.
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound };
constexpr unsigned long long cudaEnableDefault = 0;
inline cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned, unsigned long long,
    cudaDriverEntryPointQueryResult *result = nullptr) {
    const bool is_known = !strcmp(symbol, "cuTensorMapEncodeTiled");
    *function = is_known ? reinterpret_cast<void *>(&cuTensorMapEncodeTiled) : nullptr;
    if (result) *result = is_known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
inline CUresult cuGetErrorName(CUresult error, const char **text) {
    return *text = error ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_SUCCESS", CUDA_SUCCESS;
}
inline CUresult cuGetErrorString(CUresult error, const char **text) {
    return *text = error ? "invalid argument" : "no error", CUDA_SUCCESS;
}
