// The driver API: tensor maps; driver_memory.h and driver_modules.h have the rest
#pragma once
#define __cuda_cuda_h__
#include "emulator.h"

typedef int CUresult;
#define GRIDSTRIDE_DRIVER_ERRORS(X) \
    X(CUDA_SUCCESS, 0, "no error") \
    X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument") \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory") \
    X(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error") \
    X(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected") \
    X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal") \
    X(CUDA_ERROR_INVALID_IMAGE, 200, "device kernel image is invalid") \
    X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context") \
    X(CUDA_ERROR_FILE_NOT_FOUND, 301, "file not found") \
    X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle") \
    X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found") \
    X(CUDA_ERROR_NOT_READY, 600, "device not ready") \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch") \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, "peer access is already enabled") \
    X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported") \
    X(CUDA_ERROR_UNKNOWN, 999, "unknown error")
#define GRIDSTRIDE_DRIVER_ERROR(name, code, description) constexpr CUresult name = code;
GRIDSTRIDE_DRIVER_ERRORS(GRIDSTRIDE_DRIVER_ERROR)
#undef GRIDSTRIDE_DRIVER_ERROR
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
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ,
    CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B,  // this and the next two: for Blackwell, not supported
    CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B,
    CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B
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
    CU_TENSOR_MAP_SWIZZLE_128B,
    CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B,   // this and the next two: for Blackwell, not supported
    CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B,
    CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B
};
enum CUtensorMapL2promotion {
    CU_TENSOR_MAP_L2_PROMOTION_NONE,
    CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
    CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
    CU_TENSOR_MAP_L2_PROMOTION_L2_256B
};
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA };

// Encodes a tensor map. `strides` contains the strides in bytes of all axes but the first, which is contiguous.
inline CUresult cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank, void *base,
    const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *element_strides,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill fill) {
    constexpr int bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    if (!out || rank < 1 || rank > 5 || unsigned(type) > 12 ||
        unsigned(swizzle) > 3 || reinterpret_cast<uintptr_t>(base) % 16 || interleave ||
        fill)
        return CUDA_ERROR_INVALID_VALUE;
    ::gridstride::TensorMap map = {{'g', 's', ' ', 't', 'm', 'a', 'p'}, 0, static_cast<char *>(base), int(rank),
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
// Encodes a tensor map in im2col mode, for the pixels under a filter, of images N x D x H x W x C. Corners have an
// element per spatial axis, W first.
inline CUresult cuTensorMapEncodeIm2col(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank, void *base,
    const cuuint64_t *sizes, const cuuint64_t *strides, const int *lower, const int *upper, cuuint32_t channels,
    cuuint32_t pixels, const cuuint32_t *element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    if (rank < 3 || rank > 5 || !channels || channels > 256 || !pixels || pixels > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    const cuuint32_t box[] = {channels, 1, 1, 1, 1}, ones[] = {1, 1, 1, 1, 1};
    const CUresult result = cuTensorMapEncodeTiled(
        out, type, rank, base, sizes, strides, box, ones, interleave, swizzle, promotion, fill);
    if (result != CUDA_SUCCESS) return result;
    ::gridstride::TensorMap map;
    memcpy(&map, out, sizeof map);
    const int limit = rank == 3 ? 1 << 15 : rank == 4 ? 1 << 7 : 1 << 4;
    map.im2col = 1, map.box[1] = int32_t(pixels);
    for (unsigned axis = 1; axis + 1 < rank; axis++) {
        const int low = lower[axis - 1], high = upper[axis - 1];
        const unsigned stride = element_strides ? element_strides[axis] : 1;
        if (low < -limit || low >= limit || high < -limit || high >= limit || !stride || stride > 8)
            return CUDA_ERROR_INVALID_VALUE;
        if (low > map.sizes[axis] - 1 + high) return CUDA_ERROR_INVALID_VALUE;  // an empty bounding box
        map.im2col |= int32_t(stride << 4 * axis);
        map.box[axis + 1] = int32_t(uint32_t(low & 0xffff) | uint32_t(high) << 16);
    }
    memcpy(out, &map, sizeof map);
    return CUDA_SUCCESS;
}
enum CUtensorMapIm2ColWideMode { CU_TENSOR_MAP_IM2COL_WIDE_MODE_W, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128 };
// Loads of im2col::w are not emulated, because the PTX specification shows only in figures which pixels they load.
inline CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
    const cuuint64_t *, int, int, cuuint32_t, cuuint32_t, const cuuint32_t *, CUtensorMapInterleave,
    CUtensorMapIm2ColWideMode, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
inline CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *base) {
    ::gridstride::TensorMap updated_map;
    memcpy(&updated_map, map, sizeof updated_map);
    if (!::gridstride::is_tensor_map(updated_map) || reinterpret_cast<uintptr_t>(base) % 16)
        return CUDA_ERROR_INVALID_VALUE;
    updated_map.base = static_cast<char *>(base);
    memcpy(map, &updated_map, sizeof updated_map);
    return CUDA_SUCCESS;
}
typedef cudaLaunchAttribute CUlaunchAttribute;
typedef cudaLaunchAttributeID CUlaunchAttributeID;
typedef cudaStream_t CUstream;
typedef cudaEvent_t CUevent;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
// Returns the address of a driver function, given its name.
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound };
constexpr unsigned long long cudaEnableDefault = 0;
inline cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned, unsigned long long,
    cudaDriverEntryPointQueryResult *result = nullptr) {
    const std::pair<const char *, void *> known[] = {
        {"cuTensorMapEncodeTiled", reinterpret_cast<void *>(&cuTensorMapEncodeTiled)},
        {"cuTensorMapEncodeIm2col", reinterpret_cast<void *>(&cuTensorMapEncodeIm2col)},
        {"cuTensorMapEncodeIm2colWide", reinterpret_cast<void *>(&cuTensorMapEncodeIm2colWide)},
        {"cuTensorMapReplaceAddress", reinterpret_cast<void *>(&cuTensorMapReplaceAddress)}};
    *function = nullptr;
    for (auto &[name, address] : known)
        if (!strcmp(symbol, name)) *function = address;
    if (result) *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
inline cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
    cudaDriverEntryPointQueryResult *result = nullptr) {
    return cudaGetDriverEntryPointByVersion(symbol, function, CUDA_VERSION, flags, result);
}
// The name and the description of an error
constexpr std::pair<const char *, const char *> gridstride_driver_error(CUresult error) {
    switch (error) {
#define GRIDSTRIDE_DRIVER_ERROR(name, code, description) case code: return {#name, description};
        GRIDSTRIDE_DRIVER_ERRORS(GRIDSTRIDE_DRIVER_ERROR)
#undef GRIDSTRIDE_DRIVER_ERROR
        default: return {nullptr, nullptr};
    }
}
inline CUresult cuGetErrorName(CUresult error, const char **name) {
    return *name = gridstride_driver_error(error).first, *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
inline CUresult cuGetErrorString(CUresult error, const char **description) {
    *description = gridstride_driver_error(error).second;
    return *description ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
#include "driver_memory.h"
#include "driver_textures.h"
#include "driver_modules.h"
