// Arrays, textures and surfaces of the driver API, by the functions of the runtime API. Copies between two arrays, and
// copies of three axes, are not supported.
#pragma once
#include "cuda.h"
#include "textures.h"

typedef cudaArray_t CUarray;
typedef cudaTextureObject_t CUtexObject;
typedef cudaSurfaceObject_t CUsurfObject;
enum CUarray_format { CU_AD_FORMAT_UNSIGNED_INT8 = 1, CU_AD_FORMAT_UNSIGNED_INT16 = 2, CU_AD_FORMAT_UNSIGNED_INT32 = 3,
    CU_AD_FORMAT_SIGNED_INT8 = 8, CU_AD_FORMAT_SIGNED_INT16 = 9, CU_AD_FORMAT_SIGNED_INT32 = 10,
    CU_AD_FORMAT_HALF = 16, CU_AD_FORMAT_FLOAT = 32 };
enum CUmemorytype { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2, CU_MEMORYTYPE_ARRAY = 3,
    CU_MEMORYTYPE_UNIFIED = 4 };
enum CUresourcetype { CU_RESOURCE_TYPE_ARRAY, CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, CU_RESOURCE_TYPE_LINEAR,
    CU_RESOURCE_TYPE_PITCH2D };
enum CUaddress_mode { CU_TR_ADDRESS_MODE_WRAP, CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_MIRROR,
    CU_TR_ADDRESS_MODE_BORDER };
enum CUfilter_mode { CU_TR_FILTER_MODE_POINT, CU_TR_FILTER_MODE_LINEAR };
#define CU_TRSF_READ_AS_INTEGER 0x01
#define CU_TRSF_NORMALIZED_COORDINATES 0x02
#define CU_TRSF_SRGB 0x10
#define CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION 0x20
#define CU_TRSF_SEAMLESS_CUBEMAP 0x40
#define CUDA_ARRAY3D_LAYERED 0x01
#define CUDA_ARRAY3D_SURFACE_LDST 0x02
#define CUDA_ARRAY3D_CUBEMAP 0x04
struct CUDA_ARRAY_DESCRIPTOR { size_t Width, Height; CUarray_format Format; unsigned NumChannels; };
struct CUDA_ARRAY3D_DESCRIPTOR {
    size_t Width, Height, Depth;
    CUarray_format Format;
    unsigned NumChannels, Flags;
};
struct CUDA_MEMCPY2D {
    size_t srcXInBytes, srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch, dstXInBytes, dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch, WidthInBytes, Height;
};
struct CUDA_RESOURCE_DESC {
    CUresourcetype resType;
    union {
        struct { CUarray hArray; } array;
        struct { CUdeviceptr devPtr; CUarray_format format; unsigned numChannels; size_t sizeInBytes; } linear;
        struct {
            CUdeviceptr devPtr;
            CUarray_format format;
            unsigned numChannels;
            size_t width, height, pitchInBytes;
        } pitch2D;
        struct { int reserved[32]; } reserved;
    } res;
    unsigned flags;
};
struct CUDA_TEXTURE_DESC {
    CUaddress_mode addressMode[3];
    CUfilter_mode filterMode;
    unsigned flags, maxAnisotropy;
    CUfilter_mode mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp, borderColor[4];
    int reserved[12];
};
struct CUDA_RESOURCE_VIEW_DESC;

namespace gridstride {
inline cudaChannelFormatDesc channels_of(CUarray_format format, unsigned channels) {
    const int bits = format == CU_AD_FORMAT_UNSIGNED_INT8 || format == CU_AD_FORMAT_SIGNED_INT8 ? 8
        : format == CU_AD_FORMAT_UNSIGNED_INT16 || format == CU_AD_FORMAT_SIGNED_INT16 ||
            format == CU_AD_FORMAT_HALF ? 16 : 32;
    const auto kind = format >= CU_AD_FORMAT_HALF ? cudaChannelFormatKindFloat
        : format >= CU_AD_FORMAT_SIGNED_INT8 ? cudaChannelFormatKindSigned : cudaChannelFormatKindUnsigned;
    return {bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0, channels > 3 ? bits : 0, kind};
}
// Returns the resource, and the format of its texels
inline bool resource_of(const CUDA_RESOURCE_DESC &from, cudaResourceDesc &to, cudaChannelFormatDesc &format) {
    to = {};
    if (from.resType == CU_RESOURCE_TYPE_ARRAY && from.res.array.hArray) {
        to.resType = cudaResourceTypeArray, to.res.array.array = from.res.array.hArray;
        format = from.res.array.hArray->desc;
    } else if (from.resType == CU_RESOURCE_TYPE_LINEAR) {
        const auto &r = from.res.linear;
        format = channels_of(r.format, r.numChannels);
        to.resType = cudaResourceTypeLinear;
        to.res.linear = {reinterpret_cast<void *>(r.devPtr), format, r.sizeInBytes};
    } else if (from.resType == CU_RESOURCE_TYPE_PITCH2D) {
        const auto &r = from.res.pitch2D;
        format = channels_of(r.format, r.numChannels);
        to.resType = cudaResourceTypePitch2D;
        to.res.pitch2D = {reinterpret_cast<void *>(r.devPtr), format, r.width, r.height, r.pitchInBytes};
    } else return false;
    return true;
}
}

inline CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d, int line = __builtin_LINE()) {
    const cudaChannelFormatDesc format = gridstride::channels_of(d->Format, d->NumChannels);
    return CUresult(cudaMalloc3DArray(array, &format, {d->Width, d->Height, d->Depth}, d->Flags, line));
}
inline CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d, int line = __builtin_LINE()) {
    const CUDA_ARRAY3D_DESCRIPTOR descriptor = {d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
    return cuArray3DCreate(array, &descriptor, line);
}
inline CUresult cuArrayDestroy(CUarray array) { return CUresult(cudaFreeArray(array)); }
inline CUresult cuMemcpy2D(const CUDA_MEMCPY2D *p, int line = __builtin_LINE()) {
    const bool from_array = p->srcMemoryType == CU_MEMORYTYPE_ARRAY, to_array = p->dstMemoryType == CU_MEMORYTYPE_ARRAY;
    if (from_array && to_array) return CUDA_ERROR_NOT_SUPPORTED;
    // the pitch of a single row may be 0
    const size_t src_pitch = p->Height == 1 && !p->srcPitch ? p->WidthInBytes : p->srcPitch;
    const size_t dst_pitch = p->Height == 1 && !p->dstPitch ? p->WidthInBytes : p->dstPitch;
    const bool from_host = p->srcMemoryType == CU_MEMORYTYPE_HOST, to_host = p->dstMemoryType == CU_MEMORYTYPE_HOST;
    const char *from = (from_host ? static_cast<const char *>(p->srcHost) : reinterpret_cast<char *>(p->srcDevice)) +
        p->srcY * src_pitch + p->srcXInBytes;
    char *to = (to_host ? static_cast<char *>(p->dstHost) : reinterpret_cast<char *>(p->dstDevice)) +
        p->dstY * dst_pitch + p->dstXInBytes;
    if (to_array)
        return CUresult(cudaMemcpy2DToArray(p->dstArray, p->dstXInBytes, p->dstY, from, src_pitch, p->WidthInBytes,
            p->Height, from_host ? cudaMemcpyHostToDevice : cudaMemcpyDefault, line));
    if (from_array)
        return CUresult(cudaMemcpy2DFromArray(to, dst_pitch, p->srcArray, p->srcXInBytes, p->srcY, p->WidthInBytes,
            p->Height, to_host ? cudaMemcpyDeviceToHost : cudaMemcpyDefault, line));
    return CUresult(cudaMemcpy2D(to, dst_pitch, from, src_pitch, p->WidthInBytes, p->Height, cudaMemcpyDefault, line));
}
inline CUresult cuTexObjectCreate(CUtexObject *object, const CUDA_RESOURCE_DESC *r, const CUDA_TEXTURE_DESC *t,
    const CUDA_RESOURCE_VIEW_DESC *view = nullptr) {
    cudaResourceDesc resource;
    cudaChannelFormatDesc format;
    if (!gridstride::resource_of(*r, resource, format)) return CUDA_ERROR_INVALID_VALUE;
    if (view || t->flags & CU_TRSF_SRGB) return CUDA_ERROR_NOT_SUPPORTED;
    cudaTextureDesc d = {};
    for (int axis = 0; axis < 3; axis++) d.addressMode[axis] = cudaTextureAddressMode(t->addressMode[axis]);
    for (int i = 0; i < 4; i++) d.borderColor[i] = t->borderColor[i];
    d.filterMode = cudaTextureFilterMode(t->filterMode);
    // 8-bit and 16-bit integers are read as floats, unless the flag says otherwise
    const bool is_normalized = format.f != cudaChannelFormatKindFloat && format.x < 32 &&
        !(t->flags & CU_TRSF_READ_AS_INTEGER);
    d.readMode = is_normalized ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
    d.normalizedCoords = !!(t->flags & CU_TRSF_NORMALIZED_COORDINATES);
    d.maxAnisotropy = t->maxAnisotropy, d.seamlessCubemap = !!(t->flags & CU_TRSF_SEAMLESS_CUBEMAP);
    return CUresult(cudaCreateTextureObject(object, &resource, &d));
}
inline CUresult cuTexObjectDestroy(CUtexObject object) { return CUresult(cudaDestroyTextureObject(object)); }
inline CUresult cuSurfObjectCreate(CUsurfObject *object, const CUDA_RESOURCE_DESC *r) {
    cudaResourceDesc resource;
    cudaChannelFormatDesc format;
    if (!gridstride::resource_of(*r, resource, format)) return CUDA_ERROR_INVALID_VALUE;
    return CUresult(cudaCreateSurfaceObject(object, &resource));
}
inline CUresult cuSurfObjectDestroy(CUsurfObject object) { return CUresult(cudaDestroySurfaceObject(object)); }
