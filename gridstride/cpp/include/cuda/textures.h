// Arrays, texture objects and surface objects, as the CUDA programming guide defines them. The detectors check reads of
// texels.
#pragma once
#include <algorithm>
#include "emulator.h"
#include "sixteen_bits.h"

// Formats and coordinates

enum cudaChannelFormatKind {
    cudaChannelFormatKindSigned = 0,
    cudaChannelFormatKindUnsigned = 1,
    cudaChannelFormatKindFloat = 2,
    cudaChannelFormatKindNone = 3
};
struct cudaChannelFormatDesc { int x, y, z, w; cudaChannelFormatKind f; };
inline cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) {
    return {x, y, z, w, f};
}
namespace gridstride {
// The element type of a vector, and the number of its elements
template <class T, class = void> struct Texel {
    typedef T Element;
    static constexpr int num_channels = 1;
};
template <class T> struct Texel<T, std::void_t<decltype(T::x)>> {
    typedef decltype(T::x) Element;
    static constexpr int num_channels = sizeof(T) / sizeof(Element);
};
GRIDSTRIDE_NO_TSAN GRIDSTRIDE_INLINE int texel_bytes(const cudaChannelFormatDesc &d) {
    return (d.x + d.y + d.z + d.w) / 8;
}
}
template <class T> cudaChannelFormatDesc cudaCreateChannelDesc() {
    typedef typename gridstride::Texel<T>::Element Element;
    constexpr int bits = 8 * sizeof(Element), n = gridstride::Texel<T>::num_channels;
    return {bits, n > 1 ? bits : 0, n > 2 ? bits : 0, n > 3 ? bits : 0,
        !std::is_integral_v<Element>      ? cudaChannelFormatKindFloat
            : std::is_signed_v<Element> ? cudaChannelFormatKindSigned
                                    : cudaChannelFormatKindUnsigned};
}

struct cudaExtent { size_t width, height, depth; };
struct cudaPos { size_t x, y, z; };
struct cudaPitchedPtr { void *ptr; size_t pitch, xsize, ysize; };
inline cudaExtent make_cudaExtent(size_t w, size_t h, size_t d) { return {w, h, d}; }
inline cudaPos make_cudaPos(size_t x, size_t y, size_t z) { return {x, y, z}; }
inline cudaPitchedPtr make_cudaPitchedPtr(void *p, size_t pitch, size_t x, size_t y) { return {p, pitch, x, y}; }

// Arrays: rows are contiguous; layers and faces are the depth

enum {
    cudaArrayDefault = 0,
    cudaArrayLayered = 1,
    cudaArraySurfaceLoadStore = 2,
    cudaArrayCubemap = 4,
    cudaArrayTextureGather = 8
};
namespace gridstride {
struct Texels {
    char *data;
    size_t width, height, depth, pitch, slice;
    cudaChannelFormatDesc desc;
    unsigned flags;
};
}
struct cudaArray : gridstride::Texels {};
typedef cudaArray *cudaArray_t;
typedef const cudaArray *cudaArray_const_t;

inline cudaError_t cudaMalloc3DArray(cudaArray_t *array, const cudaChannelFormatDesc *desc, cudaExtent e,
    unsigned flags = 0, int line = __builtin_LINE()) {
    const int bytes = gridstride::texel_bytes(*desc);
    const bool is_cubemap = flags & cudaArrayCubemap;
    if (!bytes || !e.width || (is_cubemap && (e.width != e.height || e.depth % 6 || !e.depth)))
        return gridstride::record_error(cudaErrorInvalidValue);
    const size_t h = std::max<size_t>(e.height, 1), d = std::max<size_t>(e.depth, 1), row = e.width * size_t(bytes);
    char *const p = static_cast<char *>(gridstride::device_alloc(row * h * d, size_t(bytes), false, false, line));
    if (!p) return gridstride::record_error(cudaErrorMemoryAllocation);
    *array = new cudaArray{{p, e.width, h, d, row, row * h, *desc, flags}};
    return cudaSuccess;
}
inline cudaError_t cudaMallocArray(cudaArray_t *array, const cudaChannelFormatDesc *desc, size_t width,
    size_t height = 0, unsigned flags = 0, int line = __builtin_LINE()) {
    return cudaMalloc3DArray(array, desc, {width, height, 0}, flags, line);
}
inline cudaError_t cudaFreeArray(cudaArray_t array) {
    if (array) gridstride::host_waits();
    if (array && !gridstride::device_free(array->data)) return gridstride::record_error(cudaErrorInvalidValue);
    delete array;
    return cudaSuccess;
}
inline cudaError_t cudaArrayGetInfo(
    cudaChannelFormatDesc *desc, cudaExtent *extent, unsigned *flags, cudaArray_t array) {
    if (desc) *desc = array->desc;
    if (extent) *extent = {array->width, array->height, array->depth};
    if (flags) *flags = array->flags;
    return cudaSuccess;
}
inline cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc *desc, cudaArray_const_t array) {
    *desc = array->desc;
    return cudaSuccess;
}

// Copies of rows

namespace gridstride {
struct Rows { const void *data; size_t pitch, slice; };
inline cudaError_t copy_rows(Rows to, Rows from, cudaExtent e, cudaMemcpyKind kind) {
    for (size_t k = 0; k < e.depth; k++)
        for (size_t j = 0; j < e.height; j++) {
            char *const t = static_cast<char *>(const_cast<void *>(to.data)) + k * to.slice + j * to.pitch;
            const char *const f = static_cast<const char *>(from.data) + k * from.slice + j * from.pitch;
            if (cudaError_t error = cudaMemcpy(t, f, e.width, kind)) return error;
        }
    return cudaSuccess;
}
// `x` is in bytes
inline Rows rows_of(const Texels &a, size_t x = 0, size_t y = 0, size_t z = 0) {
    return {a.data + z * a.slice + y * a.pitch + x, a.pitch, a.slice};
}
inline bool fits(const Texels &a, size_t x, size_t y, size_t bytes, size_t h) {
    return x + bytes <= a.pitch && y + h <= a.height;
}
}
inline cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes,
    cudaMemcpyKind kind, int line = __builtin_LINE()) {
    if (y * to->pitch + x + bytes > to->slice * to->depth) return gridstride::record_error(cudaErrorInvalidValue);
    return cudaMemcpy(to->data + y * to->pitch + x, from, bytes, kind, line);
}
inline cudaError_t cudaMemcpyFromArray(
    void *to, cudaArray_const_t from, size_t x, size_t y, size_t bytes, cudaMemcpyKind kind,
    int line = __builtin_LINE()) {
    if (y * from->pitch + x + bytes > from->slice * from->depth) return gridstride::record_error(cudaErrorInvalidValue);
    return cudaMemcpy(to, from->data + y * from->pitch + x, bytes, kind, line);
}
inline cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t bytes,
    size_t height, cudaMemcpyKind kind, int line = __builtin_LINE()) {
    if (!gridstride::fits(*to, x, y, bytes, height)) return gridstride::record_error(cudaErrorInvalidValue);
    const gridstride::StreamOperation operation(
        "cudaMemcpy2DToArray", nullptr, line, gridstride::waits_for_copy(to->data, from));
    return gridstride::copy_rows(gridstride::rows_of(*to, x, y), {from, pitch, 0}, {bytes, height, 1}, kind);
}
inline cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
    size_t bytes, size_t height, cudaMemcpyKind kind, int line = __builtin_LINE()) {
    if (!gridstride::fits(*from, x, y, bytes, height)) return gridstride::record_error(cudaErrorInvalidValue);
    const gridstride::StreamOperation operation(
        "cudaMemcpy2DFromArray", nullptr, line, gridstride::waits_for_copy(to, from->data));
    return gridstride::copy_rows({to, pitch, 0}, gridstride::rows_of(*from, x, y), {bytes, height, 1}, kind);
}
inline cudaError_t cudaMemcpyToArrayAsync(
    cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s = nullptr,
    int line = __builtin_LINE()) {
    using namespace gridstride;
    const auto copy = [=] {
        const StreamOperation operation("cudaMemcpyToArrayAsync", s, line);
        return int(cudaMemcpyToArray(to, x, y, from, bytes, kind));
    };
    return defer(s, NodeKind::memcpy, copy) ? cudaSuccess : cudaError_t(copy());
}
inline cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch,
    size_t bytes, size_t height, cudaMemcpyKind kind, cudaStream_t s = nullptr, int line = __builtin_LINE()) {
    using namespace gridstride;
    const auto copy = [=] {
        const StreamOperation operation("cudaMemcpy2DToArrayAsync", s, line);
        return int(cudaMemcpy2DToArray(to, x, y, from, pitch, bytes, height, kind));
    };
    return defer(s, NodeKind::memcpy, copy) ? cudaSuccess : cudaError_t(copy());
}

// Copies of boxes; `extent.width` and positions along x are in elements if either side is an array, otherwise in bytes.
struct cudaMemcpy3DParms {
    cudaArray_t srcArray;
    cudaPos srcPos;
    cudaPitchedPtr srcPtr;
    cudaArray_t dstArray;
    cudaPos dstPos;
    cudaPitchedPtr dstPtr;
    cudaExtent extent;
    cudaMemcpyKind kind;
};
namespace gridstride {
inline Rows rows_of(cudaArray_t array, cudaPos at, const cudaPitchedPtr &p) {
    if (array) return rows_of(*array, at.x * size_t(texel_bytes(array->desc)), at.y, at.z);
    const size_t slice = p.pitch * p.ysize;
    return {static_cast<const char *>(p.ptr) + at.z * slice + at.y * p.pitch + at.x, p.pitch, slice};
}
inline bool fits(cudaArray_t a, cudaPos at, cudaExtent e) {
    return !a || (at.x + e.width <= a->width && at.y + e.height <= a->height && at.z + e.depth <= a->depth);
}
}
inline cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms *p, int line = __builtin_LINE()) {
    using namespace gridstride;
    const bool from_device = p->srcArray || is_device_only(p->srcPtr.ptr),
               to_device = p->dstArray || is_device_only(p->dstPtr.ptr);
    const StreamOperation operation("cudaMemcpy3D", nullptr, line, !from_device || !to_device);
    const cudaArray_t array = p->srcArray ? p->srcArray : p->dstArray;
    if (!fits(p->srcArray, p->srcPos, p->extent) || !fits(p->dstArray, p->dstPos, p->extent))
        return record_error(cudaErrorInvalidValue);
    cudaExtent e = p->extent;
    if (array) e.width *= size_t(texel_bytes(array->desc));
    return copy_rows(
        rows_of(p->dstArray, p->dstPos, p->dstPtr), rows_of(p->srcArray, p->srcPos, p->srcPtr), e, p->kind);
}
inline cudaError_t cudaMemcpy3DAsync(
    const cudaMemcpy3DParms *p, cudaStream_t s = nullptr, int line = __builtin_LINE()) {
    const cudaMemcpy3DParms parameters = *p;
    const auto copy = [=] {
        const void *const to = parameters.dstArray ? nullptr : parameters.dstPtr.ptr;
        const gridstride::StreamOperation operation("cudaMemcpy3DAsync", s, line, to && gridstride::is_pageable(to));
        return int(cudaMemcpy3D(&parameters));
    };
    return gridstride::defer(s, gridstride::NodeKind::memcpy, copy) ? cudaSuccess : cudaError_t(copy());
}
inline cudaError_t cudaMalloc3D(cudaPitchedPtr *p, cudaExtent e, int line = __builtin_LINE()) {
    *p = {nullptr, (e.width + 511) / 512 * 512, e.width, e.height};
    return cudaMalloc(&p->ptr, p->pitch * e.height * e.depth, line);
}
inline cudaError_t cudaMemset3D(cudaPitchedPtr p, int value, cudaExtent e, int line = __builtin_LINE()) {
    const gridstride::StreamOperation operation("cudaMemset3D", nullptr, line, !gridstride::is_device_only(p.ptr));
    for (size_t k = 0; k < e.depth; k++) {
        char *const at = static_cast<char *>(p.ptr) + k * p.pitch * p.ysize;
        if (cudaError_t error = cudaMemset2D(at, p.pitch, value, e.width, e.height)) return error;
    }
    return cudaSuccess;
}

// Texture objects

enum cudaResourceType {
    cudaResourceTypeArray = 0,
    cudaResourceTypeMipmappedArray = 1,
    cudaResourceTypeLinear = 2,
    cudaResourceTypePitch2D = 3
};
struct cudaResourceDesc {
    cudaResourceType resType;
    union {
        struct { cudaArray_t array; } array;
        struct { void *devPtr; cudaChannelFormatDesc desc; size_t sizeInBytes; } linear;
        struct { void *devPtr; cudaChannelFormatDesc desc; size_t width, height, pitchInBytes; } pitch2D;
    } res;
    unsigned flags;
};
enum cudaTextureAddressMode {
    cudaAddressModeWrap = 0, cudaAddressModeClamp = 1, cudaAddressModeMirror = 2, cudaAddressModeBorder = 3
};
enum cudaTextureFilterMode { cudaFilterModePoint = 0, cudaFilterModeLinear = 1 };
enum cudaTextureReadMode { cudaReadModeElementType = 0, cudaReadModeNormalizedFloat = 1 };
struct cudaTextureDesc {
    cudaTextureAddressMode addressMode[3];
    cudaTextureFilterMode filterMode;
    cudaTextureReadMode readMode;
    int sRGB;
    float borderColor[4];
    int normalizedCoords;
    unsigned maxAnisotropy;
    cudaTextureFilterMode mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    int disableTrilinearOptimization, seamlessCubemap;
};
struct cudaResourceViewDesc;
namespace gridstride {
struct Texture : Texels {
    cudaResourceDesc resource;
    cudaTextureDesc description;
};
inline bool read_resource(Texels &t, const cudaResourceDesc &r) {
    const auto &[linear_at, linear_desc, linear_bytes] = r.res.linear;
    const auto &p = r.res.pitch2D;
    if (r.resType == cudaResourceTypeArray && r.res.array.array) return t = *r.res.array.array, true;
    if (r.resType == cudaResourceTypeLinear && texel_bytes(linear_desc)) {
        const size_t n = linear_bytes / size_t(texel_bytes(linear_desc));
        return t = {static_cast<char *>(linear_at), n, 1, 1, linear_bytes, linear_bytes, linear_desc, 0}, linear_at;
    }
    if (r.resType != cudaResourceTypePitch2D || p.pitchInBytes % 32) return false;
    t = {static_cast<char *>(p.devPtr), p.width, p.height, 1, p.pitchInBytes, p.height * p.pitchInBytes, p.desc, 0};
    return p.devPtr;
}
}
typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
inline cudaError_t cudaCreateTextureObject(cudaTextureObject_t *object, const cudaResourceDesc *r,
    const cudaTextureDesc *description, const cudaResourceViewDesc *view = nullptr) {
    gridstride::Texture t{{}, *r, *description};
    if (view || description->sRGB || description->maxAnisotropy > 1)
        return gridstride::record_error(cudaErrorNotSupported);
    if (!gridstride::read_resource(t, *r)) return gridstride::record_error(cudaErrorInvalidValue);
    const bool is_float = t.desc.f == cudaChannelFormatKindFloat,
               is_normalized = description->readMode != cudaReadModeElementType;
    if (is_normalized && !is_float && t.desc.x == 32) return gridstride::record_error(cudaErrorInvalidNormSetting);
    if (description->filterMode == cudaFilterModeLinear && !is_float && !is_normalized)
        return gridstride::record_error(cudaErrorInvalidFilterSetting);
    *object = reinterpret_cast<uintptr_t>(new gridstride::Texture(t));
    return cudaSuccess;
}
inline cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) {
    delete reinterpret_cast<gridstride::Texture *>(object);
    return cudaSuccess;
}
inline cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *object, const cudaResourceDesc *r) {
    gridstride::Texture t{{}, *r, {}};
    if (r->resType != cudaResourceTypeArray || !gridstride::read_resource(t, *r) ||
        !(t.flags & cudaArraySurfaceLoadStore))
        return gridstride::record_error(cudaErrorInvalidValue);
    *object = reinterpret_cast<uintptr_t>(new gridstride::Texture(t));
    return cudaSuccess;
}
inline cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) { return cudaDestroyTextureObject(object); }
inline cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc *r, cudaTextureObject_t object) {
    *r = reinterpret_cast<gridstride::Texture *>(object)->resource;
    return cudaSuccess;
}
inline cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc *description, cudaTextureObject_t object) {
    *description = reinterpret_cast<gridstride::Texture *>(object)->description;
    return cudaSuccess;
}

namespace gridstride {
// Returns the value of one channel of a texel.
template <class Element> GRIDSTRIDE_NO_TSAN Element channel_value(const Texture &t, const char *p, int c) {
    const int bits = t.desc.x;
    uint32_t raw = 0;
    for (int byte = 0; byte < bits / 8; byte++) raw |= uint32_t((unsigned char)p[c * bits / 8 + byte]) << 8 * byte;
    if (t.desc.f == cudaChannelFormatKindFloat) {
        const float f = bits == 16 ? widen<10>((unsigned short)raw) : bit_cast<float>(raw);
        if constexpr (std::is_same_v<Element, float>) return f;
        else return Element(bit_cast<uint32_t>(f));
    }
    const int32_t signed_value = int32_t(raw << (32 - bits)) >> (32 - bits);
    const bool is_signed = t.desc.f == cudaChannelFormatKindSigned;
    if constexpr (std::is_same_v<Element, float>) {
        if (t.description.readMode == cudaReadModeElementType)
            return bit_cast<float>(is_signed ? uint32_t(signed_value) : raw);
        const float max_value = float((1 << (bits - is_signed)) - 1);
        return is_signed ? std::max(float(signed_value) / max_value, -1.0f) : float(raw) / max_value;
    }
    return Element(is_signed ? uint32_t(signed_value) : raw);
}
template <class T> GRIDSTRIDE_NO_TSAN T texel(const Texture &t, long long x, long long y, long long z, int line) {
    typedef typename Texel<T>::Element Element;
    const int n = !t.desc.y ? 1 : !t.desc.z ? 2 : !t.desc.w ? 3 : 4, bytes = texel_bytes(t.desc);
    T result;
    Element *const out = reinterpret_cast<Element *>(&result);
    const char *const p = t.data + z * (long long)t.slice + y * (long long)t.pitch + x * bytes;
    const bool is_border = x < 0 || y < 0 || z < 0;
    if (!is_border) report_access(p, unsigned(bytes), false, line);
    // a value that needs no conversion; integers of 32 bits are never normalized
    const bool has_same_type = t.desc.x == 8 * int(sizeof(Element)) &&
        (sizeof(Element) == 4 || t.desc.f != cudaChannelFormatKindFloat);
    if (!is_border && has_same_type && n >= Texel<T>::num_channels) {
        __builtin_memcpy(out, p, Texel<T>::num_channels * sizeof(Element));
        return result;
    }
    for (int c = 0; c < Texel<T>::num_channels; c++) {
        const float border = t.description.borderColor[c];
        out[c] = is_border ? Element(border) : c < n ? channel_value<Element>(t, p, c) : Element(0);
    }
    return result;
}

// Converts a coordinate along an axis of n texels to a position in texels, according to the address mode.
GRIDSTRIDE_NO_TSAN GRIDSTRIDE_INLINE float texel_position(const Texture &t, float x, size_t n, int axis) {
    x = x == x ? x : 0;
    if (!t.description.normalizedCoords) return std::min(std::max(x, -1e9f), 1e9f);
    const float period = floorf(x), fraction = x - period;
    switch (t.description.addressMode[axis]) {
        case cudaAddressModeWrap: return fraction * float(n);
        case cudaAddressModeMirror: return (fmodf(period, 2) == 0 ? fraction : 1 - fraction) * float(n);
        default: return std::min(std::max(x, -1e4f), 1e4f) * float(n);
    }
}
// Returns the index of a texel; -1 for the border. Only normalized coordinates wrap.
GRIDSTRIDE_NO_TSAN GRIDSTRIDE_INLINE long long texel_index(const Texture &t, long long i, size_t n, int axis) {
    const auto mode = t.description.addressMode[axis];
    const long long size = (long long)n;
    if (i >= 0 && i < size) return i;
    if (mode == cudaAddressModeBorder) return -1;
    if (mode == cudaAddressModeWrap && t.description.normalizedCoords) return (i % size + size) % size;
    return i < 0 ? 0 : size - 1;
}
// The two neighbouring texels of a coordinate, and its distance from the first one. Texture units round the distance to
// a multiple of 1/256.
struct TexelPair {
    long long low, high;
    float distance;
    GRIDSTRIDE_NO_TSAN TexelPair(const Texture &t, float x, size_t n, int axis) : high(0), distance(0) {
        const float position = texel_position(t, x, n, axis);
        if (t.description.filterMode == cudaFilterModePoint) {
            low = texel_index(t, (long long)floorf(position), n, axis);
            return;
        }
        const float first = floorf(position - 0.5f);
        distance = rintf((position - 0.5f - first) * 256) / 256;
        low = texel_index(t, (long long)first, n, axis), high = texel_index(t, (long long)first + 1, n, axis);
    }
};
template <class T> GRIDSTRIDE_NO_TSAN T interpolate(const T &a, const T &b, float distance) {
    T result = a;
    if constexpr (std::is_same_v<typename Texel<T>::Element, float>)
        for (int c = 0; c < Texel<T>::num_channels; c++) {
            const float x = reinterpret_cast<const float *>(&a)[c], y = reinterpret_cast<const float *>(&b)[c];
            reinterpret_cast<float *>(&result)[c] = (1 - distance) * x + distance * y;
        }
    return result;
}
template <class T>
GRIDSTRIDE_NO_TSAN T interpolate_x(const Texture &t, const TexelPair &x, long long y, long long z, int line) {
    const T low = texel<T>(t, x.low, y, z, line);
    return x.distance > 0 ? interpolate(low, texel<T>(t, x.high, y, z, line), x.distance) : low;
}
template <class T>
GRIDSTRIDE_NO_TSAN T interpolate_xy(
    const Texture &t, const TexelPair &x, const TexelPair &y, long long z, int line) {
    const T low = interpolate_x<T>(t, x, y.low, z, line);
    return y.distance > 0 ? interpolate(low, interpolate_x<T>(t, x, y.high, z, line), y.distance) : low;
}
GRIDSTRIDE_NO_TSAN inline long long clamp_layer(const Texture &t, int layer, int faces = 1) {
    return std::min(std::max(layer, 0), int(t.depth) / faces - 1);
}
GRIDSTRIDE_INLINE const Texture &texture(unsigned long long object) {
    return *reinterpret_cast<const Texture *>(object);
}
}

#define GRIDSTRIDE_LINE int line = __builtin_LINE()
template <class T> GRIDSTRIDE_NO_TSAN T tex1Dfetch(cudaTextureObject_t object, int i, GRIDSTRIDE_LINE) {
    const auto &t = gridstride::texture(object);
    return i < 0 || size_t(i) >= t.width ? T{} : gridstride::texel<T>(t, i, 0, 0, line);
}
template <class T> GRIDSTRIDE_NO_TSAN T tex1D(cudaTextureObject_t object, float x, GRIDSTRIDE_LINE) {
    const auto &t = gridstride::texture(object);
    return gridstride::interpolate_x<T>(t, gridstride::TexelPair(t, x, t.width, 0), 0, 0, line);
}
template <class T> GRIDSTRIDE_NO_TSAN T tex2D(cudaTextureObject_t object, float x, float y, GRIDSTRIDE_LINE) {
    using namespace gridstride;
    const Texture &t = texture(object);
    return interpolate_xy<T>(t, TexelPair(t, x, t.width, 0), TexelPair(t, y, t.height, 1), 0, line);
}
template <class T> GRIDSTRIDE_NO_TSAN T tex3D(cudaTextureObject_t object, float x, float y, float z, GRIDSTRIDE_LINE) {
    using namespace gridstride;
    const Texture &t = texture(object);
    const TexelPair a(t, x, t.width, 0), b(t, y, t.height, 1), c(t, z, t.depth, 2);
    const T low = interpolate_xy<T>(t, a, b, c.low, line);
    return c.distance > 0 ? interpolate(low, interpolate_xy<T>(t, a, b, c.high, line), c.distance) : low;
}
template <class T> GRIDSTRIDE_NO_TSAN T tex1DLayered(cudaTextureObject_t object, float x, int layer, GRIDSTRIDE_LINE) {
    using namespace gridstride;
    const Texture &t = texture(object);
    return interpolate_x<T>(t, TexelPair(t, x, t.width, 0), 0, clamp_layer(t, layer), line);
}
template <class T>
GRIDSTRIDE_NO_TSAN T tex2DLayered(cudaTextureObject_t object, float x, float y, int layer, GRIDSTRIDE_LINE) {
    using namespace gridstride;
    const Texture &t = texture(object);
    return interpolate_xy<T>(
        t, TexelPair(t, x, t.width, 0), TexelPair(t, y, t.height, 1), clamp_layer(t, layer), line);
}
// The level of detail is ignored, because there is only one level.
template <class T> GRIDSTRIDE_NO_TSAN T tex1DLod(cudaTextureObject_t object, float x, float, GRIDSTRIDE_LINE) {
    return tex1D<T>(object, x, line);
}
template <class T> GRIDSTRIDE_NO_TSAN T tex2DLod(cudaTextureObject_t object, float x, float y, float, GRIDSTRIDE_LINE) {
    return tex2D<T>(object, x, y, line);
}
template <class T>
GRIDSTRIDE_NO_TSAN T tex3DLod(cudaTextureObject_t object, float x, float y, float z, float, GRIDSTRIDE_LINE) {
    return tex3D<T>(object, x, y, z, line);
}

// Cubemaps: the axis of the largest coordinate selects one of the six faces; the other two coordinates select a
// position on it. A texel past the edge of a face is on the neighbouring face; three texels meet at a corner.
namespace gridstride {
struct FacePosition { int face; float s, t; };
GRIDSTRIDE_NO_TSAN inline FacePosition face_position(float x, float y, float z) {
    const float ax = fabsf(x), ay = fabsf(y), az = fabsf(z);
    if (ax >= ay && ax >= az) return {x < 0, (x < 0 ? z : -z) / ax, -y / ax};
    if (ay >= az) return {2 + (y < 0), x / ay, (y < 0 ? -z : z) / ay};
    return {4 + (z < 0), (z < 0 ? -x : x) / az, -y / az};
}
template <class T>
GRIDSTRIDE_NO_TSAN T cube_texel(const Texture &t, int face, long long i, long long j, int first, int line) {
    const long long n = (long long)t.width;
    const bool outside_x = i < 0 || i >= n, outside_y = j < 0 || j >= n;
    if (outside_x && outside_y) {
        const long long edge_i = i < 0 ? 0 : n - 1, edge_j = j < 0 ? 0 : n - 1;
        const T edge_mean =
            interpolate(cube_texel<T>(t, face, i, edge_j, first, line),
                cube_texel<T>(t, face, edge_i, j, first, line), 0.5f);
        return interpolate(cube_texel<T>(t, face, edge_i, edge_j, first, line), edge_mean, 2.0f / 3);
    }
    if (!outside_x && !outside_y) return texel<T>(t, i, j, first + face, line);
    const float s = (2 * float(i) + 1) / float(n) - 1, u = (2 * float(j) + 1) / float(n) - 1, directions[6][3] = {
        {1, -u, -s}, {-1, -u, s}, {s, 1, u}, {s, -1, -u}, {s, -u, 1}, {-s, -u, -1}};
    const FacePosition position = face_position(directions[face][0], directions[face][1], directions[face][2]);
    const auto to_index = [n](float a) {
        const long long index = (long long)floorf((a + 1) / 2 * float(n));
        return std::min(std::max(index, 0ll), n - 1);
    };
    return texel<T>(t, to_index(position.s), to_index(position.t), first + position.face, line);
}
template <class T>
GRIDSTRIDE_NO_TSAN T sample_cube(const Texture &t, float x, float y, float z, long long layer, int line) {
    const FacePosition position = face_position(x, y, z);
    const float n = float(t.width), s = (position.s + 1) / 2 * n, u = (position.t + 1) / 2 * n;
    const int first = int(layer) * 6;
    if (t.description.filterMode == cudaFilterModePoint) {
        const auto to_index = [n](float a) { return (long long)std::min(std::max(floorf(a), 0.0f), n - 1); };
        return texel<T>(t, to_index(s), to_index(u), first + position.face, line);
    }
    const float i = floorf(s - 0.5f), j = floorf(u - 0.5f), a = rintf((s - 0.5f - i) * 256) / 256,
                b = rintf((u - 0.5f - j) * 256) / 256;
    const auto texel_at = [&](float di, float dj) {
        return cube_texel<T>(t, position.face, int(i + di), int(j + dj), first, line);
    };
    const T low = a > 0 ? interpolate(texel_at(0, 0), texel_at(1, 0), a) : texel_at(0, 0);
    return b > 0 ? interpolate(low, a > 0 ? interpolate(texel_at(0, 1), texel_at(1, 1), a) : texel_at(0, 1), b) : low;
}
}
template <class T>
GRIDSTRIDE_NO_TSAN T texCubemap(cudaTextureObject_t object, float x, float y, float z, GRIDSTRIDE_LINE) {
    return gridstride::sample_cube<T>(gridstride::texture(object), x, y, z, 0, line);
}
template <class T>
GRIDSTRIDE_NO_TSAN T texCubemapLayered(
    cudaTextureObject_t object, float x, float y, float z, int layer, GRIDSTRIDE_LINE) {
    const auto &t = gridstride::texture(object);
    return gridstride::sample_cube<T>(t, x, y, z, gridstride::clamp_layer(t, layer, 6), line);
}
#define GRIDSTRIDE_BY_POINTER(name, ARGS, ...) \
    template <class T> void name ARGS { *p = name<T>(object, __VA_ARGS__, line); }
GRIDSTRIDE_BY_POINTER(tex1Dfetch, (T *p, cudaTextureObject_t object, int i, GRIDSTRIDE_LINE), i)
GRIDSTRIDE_BY_POINTER(tex1D, (T *p, cudaTextureObject_t object, float x, GRIDSTRIDE_LINE), x)
GRIDSTRIDE_BY_POINTER(tex2D, (T *p, cudaTextureObject_t object, float x, float y, GRIDSTRIDE_LINE), x, y)
GRIDSTRIDE_BY_POINTER(tex3D, (T *p, cudaTextureObject_t object, float x, float y, float z, GRIDSTRIDE_LINE), x, y, z)
#undef GRIDSTRIDE_BY_POINTER

// Surfaces: x is in bytes.

enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero = 0, cudaBoundaryModeClamp = 1, cudaBoundaryModeTrap = 2 };
namespace gridstride {
// Returns the address of an element; null outside the surface, where reads return zero and writes have no effect.
template <class T>
GRIDSTRIDE_NO_TSAN char *surface_address(
    unsigned long long object, int x, int y, int z, int mode, const char *access, int line) {
    const Texture &t = texture(object);
    if (x % int(sizeof(T))) must_be_aligned(reinterpret_cast<const void *>(uintptr_t(unsigned(x))), sizeof(T),
        "a surface access", line);
    const long long indices[] = {z, y, x / int(sizeof(T))},
                    sizes[] = {(long long)t.depth, (long long)t.height, (long long)(t.pitch / sizeof(T))};
    long long clamped[3];
    bool is_in_bounds = true;
    for (int k = 0; k < 3; k++) {
        clamped[k] = std::min(std::max(indices[k], 0ll), sizes[k] - 1);
        is_in_bounds = is_in_bounds && clamped[k] == indices[k];
    }
    if (!is_in_bounds && mode == cudaBoundaryModeTrap) report_index_outside(access, "the surface", indices, sizes, 3,
        line);
    if (!is_in_bounds && mode == cudaBoundaryModeZero) return nullptr;
    return t.data + clamped[0] * (long long)t.slice + clamped[1] * (long long)t.pitch +
           clamped[2] * (long long)sizeof(T);
}
template <class T> GRIDSTRIDE_NO_TSAN T read_surface(char *p, int line) {
    T result{};
    if (p) report_access(p, sizeof(T), false, line), __builtin_memcpy(&result, p, sizeof(T));
    return result;
}
template <class T> GRIDSTRIDE_NO_TSAN void write_surface(char *p, const T &value, int line) {
    if (p) report_access(p, sizeof(T), true, line), __builtin_memcpy(p, &value, sizeof(T));
}
}
#define GRIDSTRIDE_SURFACE(name, PARAMETERS, ...) \
    template <class T> T name##read( \
        cudaSurfaceObject_t s, PARAMETERS, cudaSurfaceBoundaryMode m = cudaBoundaryModeTrap, GRIDSTRIDE_LINE) { \
        return gridstride::read_surface<T>(gridstride::surface_address<T>(s, __VA_ARGS__, m, "read", line), line); \
    } \
    template <class T> void name##read( \
        T *to, cudaSurfaceObject_t s, PARAMETERS, cudaSurfaceBoundaryMode m = cudaBoundaryModeTrap, GRIDSTRIDE_LINE) { \
        *to = gridstride::read_surface<T>(gridstride::surface_address<T>(s, __VA_ARGS__, m, "read", line), line); \
    } \
    template <class T> void name##write( \
        T x0, cudaSurfaceObject_t s, PARAMETERS, cudaSurfaceBoundaryMode m = cudaBoundaryModeTrap, GRIDSTRIDE_LINE) { \
        gridstride::write_surface(gridstride::surface_address<T>(s, __VA_ARGS__, m, "write", line), x0, line); \
    }
#define GRIDSTRIDE_COMMA ,
GRIDSTRIDE_SURFACE(surf1D, int x, x, 0, 0)
GRIDSTRIDE_SURFACE(surf2D, int x GRIDSTRIDE_COMMA int y, x, y, 0)
GRIDSTRIDE_SURFACE(surf3D, int x GRIDSTRIDE_COMMA int y GRIDSTRIDE_COMMA int z, x, y, z)
GRIDSTRIDE_SURFACE(surf1DLayered, int x GRIDSTRIDE_COMMA int layer, x, 0, layer)
GRIDSTRIDE_SURFACE(surf2DLayered, int x GRIDSTRIDE_COMMA int y GRIDSTRIDE_COMMA int layer, x, y, layer)
GRIDSTRIDE_SURFACE(surfCubemap, int x GRIDSTRIDE_COMMA int y GRIDSTRIDE_COMMA int face, x, y, face)
#undef GRIDSTRIDE_COMMA
#undef GRIDSTRIDE_SURFACE
#undef GRIDSTRIDE_LINE
