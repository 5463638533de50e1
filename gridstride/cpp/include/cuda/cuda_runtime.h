// The host runtime of the emulator: memory, streams, events, the device's properties, errors.
#pragma once
#include "emulator.h"

// Other headers ask by these whether the runtime's have been included.
#define __DRIVER_TYPES_H__
#define __CUDA_RUNTIME_H__

#define GRIDSTRIDE_CUDA_ERRORS(X) \
    X(cudaSuccess, 0, "no error") \
    X(cudaErrorInvalidValue, 1, "invalid argument") \
    X(cudaErrorMemoryAllocation, 2, "out of memory") \
    X(cudaErrorInitializationError, 3, "initialization error") \
    X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument") \
    X(cudaErrorInvalidPitchValue, 12, "invalid pitch argument") \
    X(cudaErrorInvalidSymbol, 13, "invalid device symbol") \
    X(cudaErrorInvalidDevicePointer, 17, "invalid device pointer") \
    X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy") \
    X(cudaErrorInvalidDeviceFunction, 98, "invalid device function") \
    X(cudaErrorInvalidFilterSetting, 26, "linear filtering not supported for non-float type") \
    X(cudaErrorInvalidNormSetting, 27, "read as normalized float not supported for 32-bit non float type") \
    X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected") \
    X(cudaErrorInvalidDevice, 101, "invalid device ordinal") \
    X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle") \
    X(cudaErrorNotReady, 600, "device not ready") \
    X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered") \
    X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch") \
    X(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated") \
    X(cudaErrorAssert, 710, "device-side assert triggered") \
    X(cudaErrorMisalignedAddress, 716, "misaligned address") \
    X(cudaErrorLaunchFailure, 719, "unspecified launch failure") \
    X(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch") \
    X(cudaErrorNotSupported, 801, "operation not supported") \
    X(cudaErrorIllegalState, 401, "the operation cannot be performed in the present state") \
    X(cudaErrorHostMemoryAlreadyRegistered, 712, "part or all of the requested memory range is already mapped") \
    X(cudaErrorHostMemoryNotRegistered, 713, "pointer does not correspond to a registered memory region") \
    X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing") \
    X(cudaErrorStreamCaptureUnmatched, 903, "the capture was not initiated in this stream") \
    X(cudaErrorGraphExecUpdateFailure, 910, "the graph update was not performed") \
    X(cudaErrorUnknown, 999, "unknown error")

#define X(name, code, text) name = code,
enum cudaError { GRIDSTRIDE_CUDA_ERRORS(X) };
#undef X
typedef cudaError cudaError_t;

inline const char *cudaGetErrorName(cudaError_t e) {
#define X(name, code, text) if (e == name) return #name;
    GRIDSTRIDE_CUDA_ERRORS(X)
#undef X
    return "unrecognized error code";
}
inline const char *cudaGetErrorString(cudaError_t e) {
#define X(name, code, text) if (e == name) return text;
    GRIDSTRIDE_CUDA_ERRORS(X)
#undef X
    return "unrecognized error code";
}
inline cudaError_t cudaGetLastError() { return cudaError_t(gridstride::last_error(true)); }
inline cudaError_t cudaPeekAtLastError() { return cudaError_t(gridstride::last_error(false)); }
namespace gridstride {
inline cudaError_t told(cudaError_t e) { return cudaError_t(set_error(e)); }
inline cudaError_t failed_unless(bool ok, cudaError_t e) { return ok ? cudaSuccess : told(e); }
}

#define CUDART_CB

// Memory

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum {
    cudaHostAllocDefault = 0,
    cudaHostAllocPortable = 1,
    cudaHostAllocMapped = 2,
    cudaMemAttachGlobal = 1,
    cudaMemAttachHost = 2
};

namespace gridstride {
template <class T> constexpr size_t item_bytes() {
    if constexpr (std::is_void_v<T>) return 1;
    else return sizeof(T);
}
template <class T> cudaError_t host_too(T **p, size_t bytes, bool cleared, int line) {
    *p = static_cast<T *>(device_alloc(bytes, item_bytes<T>(), cleared, true, line));
    return failed_unless(*p, cudaErrorMemoryAllocation);
}
}
inline cudaError_t cudaMalloc(void **p, size_t bytes, int line = __builtin_LINE()) {
    if (!p) return gridstride::told(cudaErrorInvalidValue);
    *p = bytes ? gridstride::device_alloc(bytes, 1, false, false, line) : nullptr;
    return gridstride::failed_unless(*p || !bytes, cudaErrorMemoryAllocation);
}
template <class T> cudaError_t cudaMalloc(T **p, size_t bytes, int line = __builtin_LINE()) {
    if (!p) return gridstride::told(cudaErrorInvalidValue);
    *p = bytes ? static_cast<T *>(gridstride::device_alloc(bytes, sizeof(T), false, false, line)) : nullptr;
    return gridstride::failed_unless(*p || !bytes, cudaErrorMemoryAllocation);
}
template <class T> cudaError_t cudaMallocAsync(T **p, size_t bytes, cudaStream_t s, int line = __builtin_LINE()) {
    using namespace gridstride;
    if (!kept(s, NodeKind::alloc, [] { return 0; })) {
        const Enqueued operation("cudaMallocAsync", s, line);
        const cudaError_t e = cudaMalloc(p, bytes, line);
        if (!e) device_used(*p, bytes, "allocates");
        return e;
    }
    *p = static_cast<T *>(graph_alloc(bytes, line));
    return failed_unless(*p, cudaErrorMemoryAllocation);
}
template <class T> cudaError_t cudaMallocManaged(
    T **p, size_t bytes, unsigned = cudaMemAttachGlobal, int line = __builtin_LINE()) {
    return gridstride::host_too(p, bytes, false, line);
}
inline cudaError_t cudaFree(void *p) {
    if (p) gridstride::host_waits();
    return gridstride::failed_unless(!p || gridstride::device_free(p), cudaErrorInvalidValue);
}
inline cudaError_t cudaFreeAsync(void *p, cudaStream_t s, int line = __builtin_LINE()) {
    const auto free = [=] {
        const gridstride::Enqueued operation("cudaFreeAsync", s, line);
        return int(gridstride::failed_unless(!p || gridstride::free_in_order(p), cudaErrorInvalidValue));
    };
    return gridstride::kept(s, gridstride::NodeKind::free, free) ? cudaSuccess : cudaError_t(free());
}

// Pools keep nothing here: what is freed is given back at once.
struct GridstridePool { unsigned long long threshold; };
typedef GridstridePool *cudaMemPool_t;
enum cudaMemAllocationType { cudaMemAllocationTypeInvalid = 0, cudaMemAllocationTypePinned = 1 };
enum cudaMemLocationType {
    cudaMemLocationTypeInvalid = 0, cudaMemLocationTypeDevice = 1, cudaMemLocationTypeHost = 2
};
enum cudaMemAllocationHandleType { cudaMemHandleTypeNone = 0, cudaMemHandleTypePosixFileDescriptor = 1 };
struct cudaMemLocation { cudaMemLocationType type; int id; };
struct cudaMemPoolProps {
    cudaMemAllocationType allocType;
    cudaMemAllocationHandleType handleTypes;
    cudaMemLocation location;
};
enum cudaMemPoolAttr {
    cudaMemPoolReuseFollowEventDependencies = 1,
    cudaMemPoolReuseAllowOpportunistic = 2,
    cudaMemPoolReuseAllowInternalDependencies = 3,
    cudaMemPoolAttrReleaseThreshold = 4,
    cudaMemPoolAttrReservedMemCurrent = 5,
    cudaMemPoolAttrReservedMemHigh = 6,
    cudaMemPoolAttrUsedMemCurrent = 7,
    cudaMemPoolAttrUsedMemHigh = 8
};
inline cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
    static GridstridePool only{0};
    *pool = &only;
    return gridstride::failed_unless(device == 0, cudaErrorInvalidDevice);
}
inline cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
    return cudaDeviceGetDefaultMemPool(pool, device);
}
inline cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t) { return cudaSuccess; }
inline cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *props) {
    if (props->handleTypes != cudaMemHandleTypeNone) return gridstride::told(cudaErrorNotSupported);
    *pool = new GridstridePool{0};
    return cudaSuccess;
}
inline cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { delete pool; return cudaSuccess; }
enum cudaMemAccessFlags {
    cudaMemAccessFlagsProtNone = 0, cudaMemAccessFlagsProtRead = 1, cudaMemAccessFlagsProtReadWrite = 3
};
struct cudaMemAccessDesc { cudaMemLocation location; cudaMemAccessFlags flags; };
inline cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc *access, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (access[i].location.type == cudaMemLocationTypeDevice && access[i].location.id)
            return gridstride::told(cudaErrorInvalidDevice);
    return cudaSuccess;
}
inline cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags *flags, cudaMemPool_t, cudaMemLocation *at) {
    *flags = cudaMemAccessFlagsProtReadWrite;
    return gridstride::failed_unless(at->id == 0, cudaErrorInvalidDevice);
}
inline cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value) {
    if (attribute == cudaMemPoolAttrReleaseThreshold) pool->threshold = *static_cast<unsigned long long *>(value);
    return cudaSuccess;
}
inline cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value) {
    if (attribute < cudaMemPoolAttrReleaseThreshold) *static_cast<int *>(value) = 1;
    else *static_cast<unsigned long long *>(value) =
        attribute == cudaMemPoolAttrReleaseThreshold ? pool->threshold : gridstride::device_total();
    return cudaSuccess;
}
template <class T> cudaError_t cudaMallocFromPoolAsync(
    T **p, size_t bytes, cudaMemPool_t, cudaStream_t s, int line = __builtin_LINE()) {
    return cudaMallocAsync(p, bytes, s, line);
}
template <class T> cudaError_t cudaMallocPitch(
    T **p, size_t *pitch, size_t width, size_t height, int line = __builtin_LINE()) {
    *pitch = (width + 511) / 512 * 512;
    return cudaMalloc(p, *pitch * height, line);
}
// Pinned memory can be read by kernels as well: it is device memory that the host may touch.
template <class T> cudaError_t cudaMallocHost(T **p, size_t bytes, int line = __builtin_LINE()) {
    return gridstride::host_too(p, bytes, true, line);
}
template <class T> cudaError_t cudaHostAlloc(T **p, size_t bytes, unsigned, int line = __builtin_LINE()) {
    return cudaMallocHost(p, bytes, line);
}
inline cudaError_t cudaFreeHost(void *p) { return cudaFree(p); }

// Memory of the host's own that is registered has a copy for kernels, which comes and goes with each launch.
enum {
    cudaHostRegisterDefault = 0,
    cudaHostRegisterPortable = 1,
    cudaHostRegisterMapped = 2,
    cudaHostRegisterIoMemory = 4,
    cudaHostRegisterReadOnly = 8
};
inline cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned) {
    if (!p || !bytes) return gridstride::told(cudaErrorInvalidValue);
    return gridstride::failed_unless(gridstride::register_host(p, bytes), cudaErrorHostMemoryAlreadyRegistered);
}
inline cudaError_t cudaHostUnregister(void *p) {
    gridstride::host_waits();
    return gridstride::failed_unless(gridstride::unregister_host(p), cudaErrorHostMemoryNotRegistered);
}
template <class T> cudaError_t cudaHostGetDevicePointer(T **p, void *host, unsigned) {
    *p = static_cast<T *>(gridstride::is_device(host) ? host : gridstride::mapped(host));
    return gridstride::failed_unless(*p, cudaErrorInvalidValue);
}

// Does the host wait for such a copy? Within the device's memory not; cudaMemcpyAsync only to memory that is pageable.
namespace gridstride {
inline bool waits_for_copy(const void *to, const void *from) { return !of_device_alone(to) || !of_device_alone(from); }
}
inline cudaError_t cudaMemcpy(
    void *to, const void *from, size_t bytes, cudaMemcpyKind kind, int line = __builtin_LINE()) {
    if (kind < 0 || kind > cudaMemcpyDefault) return gridstride::told(cudaErrorInvalidMemcpyDirection);
    if (!bytes) return cudaSuccess;                         // also right behind an array
    if (!to || !from) return gridstride::told(cudaErrorInvalidValue);
    const bool to_device = gridstride::is_device(to), from_device = gridstride::is_device(from);
    if ((to_device && !gridstride::device_range(to, bytes)) || (from_device && !gridstride::device_range(from, bytes)))
        return gridstride::told(cudaErrorInvalidValue);
    if ((kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) && !to_device)
        return gridstride::told(cudaErrorInvalidValue);
    if ((kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice) && !from_device)
        return gridstride::told(cudaErrorInvalidValue);
    const gridstride::Enqueued operation("cudaMemcpy", nullptr, line, gridstride::waits_for_copy(to, from));
    gridstride::device_copy(to, from, bytes);
    if (to_device) gridstride::device_written(to, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(
    void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s = nullptr,
    int line = __builtin_LINE()) {
    using namespace gridstride;
    const auto copy = [=] {
        const Enqueued operation("cudaMemcpyAsync", s, line, is_pageable(to));
        return int(cudaMemcpy(to, from, bytes, kind));
    };
    return kept(s, NodeKind::memcpy, copy) ? cudaSuccess : cudaError_t(copy());
}
inline cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
    size_t height, cudaMemcpyKind kind, int line = __builtin_LINE()) {
    if (width > to_pitch || width > from_pitch) return gridstride::told(cudaErrorInvalidPitchValue);
    const gridstride::Enqueued operation("cudaMemcpy2D", nullptr, line, gridstride::waits_for_copy(to, from));
    for (size_t row = 0; row < height; row++)
        if (cudaError_t e = cudaMemcpy(static_cast<char *>(to) + row * to_pitch,
                static_cast<const char *>(from) + row * from_pitch, width, kind))
            return e;
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy2DAsync(
    void *to, size_t tp, const void *from, size_t fp, size_t w, size_t h, cudaMemcpyKind k, cudaStream_t s = nullptr,
    int line = __builtin_LINE()) {
    using namespace gridstride;
    const auto copy = [=] {
        const Enqueued operation("cudaMemcpy2DAsync", s, line, is_pageable(to));
        return int(cudaMemcpy2D(to, tp, from, fp, w, h, k));
    };
    return kept(s, NodeKind::memcpy, copy) ? cudaSuccess : cudaError_t(copy());
}
inline cudaError_t cudaMemset(void *p, int value, size_t bytes, int line = __builtin_LINE()) {
    if (!gridstride::is_device(p) || !gridstride::device_range(p, bytes))
        return gridstride::told(cudaErrorInvalidValue);
    const gridstride::Enqueued operation("cudaMemset", nullptr, line, !gridstride::of_device_alone(p));
    gridstride::device_fill(p, value, bytes);
    gridstride::device_written(p, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(
    void *p, int value, size_t bytes, cudaStream_t s = nullptr, int line = __builtin_LINE()) {
    using namespace gridstride;
    const auto fill = [=] {
        const Enqueued operation("cudaMemsetAsync", s, line);
        return int(cudaMemset(p, value, bytes));
    };
    return kept(s, NodeKind::memset, fill) ? cudaSuccess : cudaError_t(fill());
}
inline cudaError_t cudaMemset2D(
    void *p, size_t pitch, int value, size_t width, size_t height, int line = __builtin_LINE()) {
    const gridstride::Enqueued operation("cudaMemset2D", nullptr, line, !gridstride::of_device_alone(p));
    for (size_t row = 0; row < height; row++)
        if (cudaError_t e = cudaMemset(static_cast<char *>(p) + row * pitch, value, width)) return e;
    return cudaSuccess;
}
inline cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int value, size_t w, size_t h, cudaStream_t s = nullptr,
    int line = __builtin_LINE()) {
    using namespace gridstride;
    const auto fill = [=] {
        const Enqueued operation("cudaMemset2DAsync", s, line);
        return int(cudaMemset2D(p, pitch, value, w, h));
    };
    return kept(s, NodeKind::memset, fill) ? cudaSuccess : cudaError_t(fill());
}
inline cudaError_t cudaMemcpyPeer(
    void *to, int to_device, const void *from, int from_device, size_t bytes, int line = __builtin_LINE()) {
    if (to_device || from_device) return gridstride::told(cudaErrorInvalidDevice);
    return cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice, line);
}
inline cudaError_t cudaMemcpyPeerAsync(
    void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t s = nullptr,
    int line = __builtin_LINE()) {
    if (to_device || from_device) return gridstride::told(cudaErrorInvalidDevice);
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s, line);
}
inline cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    const size_t used = gridstride::device_total();      // more than all of it, if it was larger then
    *total = gridstride::device_size();
    *free = *total > used ? *total - used : 0;
    return cudaSuccess;
}
// All memory is near, so that advice changes nothing.
enum { cudaCpuDeviceId = -1, cudaInvalidDeviceId = -2 };
enum cudaMemoryAdvise {
    cudaMemAdviseSetReadMostly = 1,
    cudaMemAdviseUnsetReadMostly = 2,
    cudaMemAdviseSetPreferredLocation = 3,
    cudaMemAdviseUnsetPreferredLocation = 4,
    cudaMemAdviseSetAccessedBy = 5,
    cudaMemAdviseUnsetAccessedBy = 6
};
inline cudaError_t cudaMemPrefetchAsync(const void *, size_t, int, cudaStream_t = nullptr) { return cudaSuccess; }
inline cudaError_t cudaMemPrefetchAsync(const void *, size_t, cudaMemLocation, unsigned, cudaStream_t = nullptr) {
    return cudaSuccess;
}
inline cudaError_t cudaMemAdvise(const void *, size_t, cudaMemoryAdvise, int) { return cudaSuccess; }
inline cudaError_t cudaMemAdvise(const void *, size_t, cudaMemoryAdvise, cudaMemLocation) { return cudaSuccess; }
enum { cudaMemAttachSingle = 4 };
template <class T>
cudaError_t cudaStreamAttachMemAsync(cudaStream_t, T *, size_t = 0, unsigned = cudaMemAttachSingle) {
    return cudaSuccess;
}

// A variable of the device by its name, which is an address in host code, too: given as itself, or as that address.
namespace gridstride {
template <class T> const void *named(const T &symbol) {
    return const_cast<const char *>(&reinterpret_cast<const volatile char &>(symbol));
}
// `back`: the kind of copy that would go the other way
inline cudaError_t find_symbol(
    const void *symbol, size_t bytes, size_t offset, cudaMemcpyKind &kind, cudaMemcpyKind back, char *&at) {
    size_t all = 0;
    at = symbol_at(symbol, all);
    if (!at) return told(cudaErrorInvalidSymbol);
    if (kind == back || kind == cudaMemcpyHostToHost) return told(cudaErrorInvalidMemcpyDirection);
    if (!is_device(at)) kind = cudaMemcpyDefault;          // one of those that are C++'s, too
    at += offset;
    return failed_unless(offset <= all && bytes <= all - offset, cudaErrorInvalidValue);
}
inline cudaError_t copy_symbol(
    const char *name, void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s, int line) {
    const auto copy = [=] {
        const Enqueued operation(name, s, line, is_pageable(to));
        return int(cudaMemcpy(to, from, bytes, kind));
    };
    return kept(s, NodeKind::memcpy, copy) ? cudaSuccess : cudaError_t(copy());
}
}
inline cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset = 0,
    cudaMemcpyKind kind = cudaMemcpyHostToDevice, int line = __builtin_LINE()) {
    char *to;
    if (cudaError_t e = gridstride::find_symbol(symbol, bytes, offset, kind, cudaMemcpyDeviceToHost, to)) return e;
    const gridstride::Enqueued operation("cudaMemcpyToSymbol", nullptr, line, gridstride::waits_for_copy(to, from));
    return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset,
    cudaMemcpyKind kind, cudaStream_t s = nullptr, int line = __builtin_LINE()) {
    char *to;
    if (cudaError_t e = gridstride::find_symbol(symbol, bytes, offset, kind, cudaMemcpyDeviceToHost, to)) return e;
    return gridstride::copy_symbol("cudaMemcpyToSymbolAsync", to, from, bytes, kind, s, line);
}
inline cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset = 0,
    cudaMemcpyKind kind = cudaMemcpyDeviceToHost, int line = __builtin_LINE()) {
    char *from;
    if (cudaError_t e = gridstride::find_symbol(symbol, bytes, offset, kind, cudaMemcpyHostToDevice, from)) return e;
    const gridstride::Enqueued operation("cudaMemcpyFromSymbol", nullptr, line, gridstride::waits_for_copy(to, from));
    return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset,
    cudaMemcpyKind kind, cudaStream_t s = nullptr, int line = __builtin_LINE()) {
    char *from;
    if (cudaError_t e = gridstride::find_symbol(symbol, bytes, offset, kind, cudaMemcpyHostToDevice, from)) return e;
    return gridstride::copy_symbol("cudaMemcpyFromSymbolAsync", to, from, bytes, kind, s, line);
}
template <class P> cudaError_t cudaGetSymbolAddress(P **p, const void *symbol) {
    *p = reinterpret_cast<P *>(gridstride::symbol_address(symbol));
    return gridstride::failed_unless(*p, cudaErrorInvalidSymbol);
}
inline cudaError_t cudaGetSymbolSize(size_t *bytes, const void *symbol) {
    *bytes = 0;
    return gridstride::failed_unless(gridstride::symbol_at(symbol, *bytes), cudaErrorInvalidSymbol);
}
template <class T>
cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *from, size_t bytes, size_t offset = 0,
    cudaMemcpyKind kind = cudaMemcpyHostToDevice, int line = __builtin_LINE()) {
    return cudaMemcpyToSymbol(gridstride::named(symbol), from, bytes, offset, kind, line);
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T &symbol, const void *from, size_t bytes, size_t offset,
    cudaMemcpyKind kind, cudaStream_t s = nullptr, int line = __builtin_LINE()) {
    return cudaMemcpyToSymbolAsync(gridstride::named(symbol), from, bytes, offset, kind, s, line);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t bytes, size_t offset = 0,
    cudaMemcpyKind kind = cudaMemcpyDeviceToHost, int line = __builtin_LINE()) {
    return cudaMemcpyFromSymbol(to, gridstride::named(symbol), bytes, offset, kind, line);
}
template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void *to, const T &symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
    cudaStream_t s = nullptr, int line = __builtin_LINE()) {
    return cudaMemcpyFromSymbolAsync(to, gridstride::named(symbol), bytes, offset, kind, s, line);
}
template <class P, class T> cudaError_t cudaGetSymbolAddress(P **p, const T &symbol) {
    return cudaGetSymbolAddress(p, gridstride::named(symbol));
}
template <class T> cudaError_t cudaGetSymbolSize(size_t *bytes, const T &symbol) {
    return cudaGetSymbolSize(bytes, gridstride::named(symbol));
}

// Streams and events: every piece of work is over when the call returns, and the clock is the CPU's. What would be in
// order on a GPU is told to the runtime.

struct GridstrideStream { int priority; };
struct GridstrideEvent { double seconds; gridstride::Graph *graph; };
typedef GridstrideEvent *cudaEvent_t;
typedef void (*cudaStreamCallback_t)(cudaStream_t, cudaError_t, void *);
typedef void (*cudaHostFn_t)(void *);
enum {
    cudaStreamDefault = 0,
    cudaStreamNonBlocking = 1,
    cudaEventDefault = 0,
    cudaEventBlockingSync = 1,
    cudaEventDisableTiming = 2
};
#define cudaStreamLegacy ((cudaStream_t)0)
#define cudaStreamPerThread ((cudaStream_t)0)

GRIDSTRIDE_UNSEEN inline cudaError_t cudaStreamCreateWithFlags(
    cudaStream_t *s, unsigned flags, int line = __builtin_LINE()) {
    *s = new GridstrideStream();
    gridstride::stream_created(*s, !(flags & cudaStreamNonBlocking), line);
    return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t *s, int line = __builtin_LINE()) {
    return cudaStreamCreateWithFlags(s, cudaStreamDefault, line);
}
// from the least to the greatest; a priority changes nothing here
constexpr int gridstride_priorities[] = {0, -5};
inline cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = gridstride_priorities[0];
    if (greatest) *greatest = gridstride_priorities[1];
    return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithPriority(
    cudaStream_t *s, unsigned flags, int priority, int line = __builtin_LINE()) {
    const auto [least, greatest] = gridstride_priorities;
    const cudaError_t e = cudaStreamCreateWithFlags(s, flags, line);
    (*s)->priority = priority > least ? least : priority < greatest ? greatest : priority;
    return e;
}
inline cudaError_t cudaStreamGetPriority(cudaStream_t s, int *priority) {
    *priority = s ? s->priority : 0;
    return cudaSuccess;
}
GRIDSTRIDE_UNSEEN inline cudaError_t cudaStreamDestroy(cudaStream_t s) {
    gridstride::stream_destroyed(s);
    delete s;
    return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    gridstride::host_waits_for(s);
    return gridstride::failed_unless(!gridstride::captured(s), cudaErrorStreamCaptureUnsupported);
}
inline cudaError_t cudaStreamQuery(cudaStream_t s) { return cudaStreamSynchronize(s); }
// A stream that waits for a captured one is captured, too.
inline cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned = 0) {
    if (e->graph && !gridstride::captured(s)) gridstride::begin_capture(s, e->graph, false);
    if (e->graph) gridstride::captured_waits(s, e);
    else gridstride::stream_waits(s, e);
    return cudaSuccess;
}
inline cudaError_t cudaStreamAddCallback(
    cudaStream_t s, cudaStreamCallback_t f, void *data, unsigned, int line = __builtin_LINE()) {
    const gridstride::Enqueued operation("cudaStreamAddCallback", s, line);
    f(s, cudaSuccess, data);
    return cudaSuccess;
}
inline cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void *data, int line = __builtin_LINE()) {
    const auto call = [=] {
        const gridstride::Enqueued operation("cudaLaunchHostFunc", s, line);
        f(data);
        return 0;
    };
    if (!gridstride::kept(s, gridstride::NodeKind::host, call)) call();
    return cudaSuccess;
}
GRIDSTRIDE_UNSEEN inline cudaError_t cudaEventCreate(cudaEvent_t *e) {
    *e = new GridstrideEvent{-1, nullptr};
    return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned) { return cudaEventCreate(e); }
GRIDSTRIDE_UNSEEN inline cudaError_t cudaEventDestroy(cudaEvent_t e) {
    gridstride::event_destroyed(e);
    delete e;
    return cudaSuccess;
}
GRIDSTRIDE_UNSEEN inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s = nullptr) {
    e->graph = gridstride::captured(s);
    if (e->graph) gridstride::record_captured(e, s);
    else gridstride::event_recorded(e, s);
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    e->seconds = double(t.tv_sec) + t.tv_nsec * 1e-9;
    return cudaSuccess;
}
inline cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s = nullptr, unsigned = 0) {
    return cudaEventRecord(e, s);
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t e) { gridstride::host_waits_for_event(e); return cudaSuccess; }
inline cudaError_t cudaEventQuery(cudaEvent_t e) { return cudaEventSynchronize(e); }
inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) {
    if (a->seconds < 0 || b->seconds < 0) return gridstride::told(cudaErrorInvalidResourceHandle);
    *ms = float((b->seconds - a->seconds) * 1e3);
    return cudaSuccess;
}

// The device: one, with the sizes of an H100, so that launches that fit here fit there.

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor,
        reservedSharedMemPerBlock, totalConstMem, memPitch;
    int major, minor, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], regsPerBlock,
        regsPerMultiprocessor, multiProcessorCount, maxThreadsPerMultiProcessor, maxBlocksPerMultiProcessor, clockRate,
        memoryClockRate, memoryBusWidth, l2CacheSize, concurrentKernels, integrated, canMapHostMemory,
        unifiedAddressing, managedMemory, cooperativeLaunch, asyncEngineCount, ECCEnabled, computeMode, deviceOverlap,
        pageableMemoryAccess, concurrentManagedAccess, streamPrioritiesSupported, memoryPoolsSupported,
        hostNativeAtomicSupported, isMultiGpuBoard, multiGpuBoardGroupID, persistingL2CacheMaxSize,
        accessPolicyMaxWindowSize, pciBusID, pciDeviceID, pciDomainID, tccDriver, kernelExecTimeoutEnabled,
        globalL1CacheSupported, localL1CacheSupported, computePreemptionSupported, canUseHostPointerForRegisteredMem,
        pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, hostRegisterSupported,
        cooperativeMultiDeviceLaunch, ipcEventSupported, clusterLaunch, unifiedFunctionPointers,
        singleToDoublePrecisionPerfRatio, memoryPoolSupportedHandleTypes, maxTexture1D, maxTexture1DLinear,
        maxTexture2D[2], maxTexture2DLinear[3], maxTexture3D[3], maxTextureCubemap, maxTexture1DLayered[2],
        maxTexture2DLayered[3], maxTextureCubemapLayered[2], maxSurface1D, maxSurface2D[2], maxSurface3D[3];
    size_t surfaceAlignment, textureAlignment, texturePitchAlignment;
    struct { char bytes[16]; } uuid;
};
inline cudaError_t cudaGetDeviceCount(int *n) { *n = 1; return cudaSuccess; }
inline cudaError_t cudaGetDevice(int *d) { *d = 0; return cudaSuccess; }
enum {
    cudaDeviceScheduleAuto = 0,
    cudaDeviceScheduleSpin = 1,
    cudaDeviceScheduleYield = 2,
    cudaDeviceScheduleBlockingSync = 4,
    cudaDeviceBlockingSync = 4,
    cudaDeviceMapHost = 8,
    cudaDeviceLmemResizeToMax = 16
};
inline cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
// There is no other device, and a device is no peer of its own.
inline cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    *can = 0;
    return gridstride::failed_unless(device == 0 && peer == 0, cudaErrorInvalidDevice);
}
inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return gridstride::told(cudaErrorInvalidDevice); }
inline cudaError_t cudaDeviceDisablePeerAccess(int) { return gridstride::told(cudaErrorInvalidDevice); }
inline cudaError_t cudaSetDevice(int d) { return gridstride::failed_unless(d == 0, cudaErrorInvalidDevice); }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int d) {
    if (d) return gridstride::told(cudaErrorInvalidDevice);
    *p = {};
    strcpy(p->name, "gridstride emulator (CPU) with the limits of an H100");
    p->totalGlobalMem = gridstride::device_size();
    p->sharedMemPerBlock = 48 << 10, p->sharedMemPerBlockOptin = 227 << 10, p->sharedMemPerMultiprocessor = 228 << 10,
    p->reservedSharedMemPerBlock = 1024;
    p->totalConstMem = 64 << 10, p->memPitch = 2147483647, p->major = 9, p->minor = 0, p->warpSize = 32,
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 2147483647, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536, p->multiProcessorCount = 132,
    p->maxThreadsPerMultiProcessor = 2048, p->maxBlocksPerMultiProcessor = 32;
    p->clockRate = 1980000, p->memoryClockRate = 2619000, p->memoryBusWidth = 5120, p->l2CacheSize = 50 << 20;
    p->concurrentKernels = p->canMapHostMemory = p->unifiedAddressing = p->managedMemory = p->cooperativeLaunch = 1,
    p->asyncEngineCount = 3, p->concurrentManagedAccess = p->streamPrioritiesSupported = p->memoryPoolsSupported = 1;
    p->deviceOverlap = p->globalL1CacheSupported = p->localL1CacheSupported = p->hostRegisterSupported = 1;
    p->computePreemptionSupported = p->clusterLaunch = p->unifiedFunctionPointers = 1;
    p->persistingL2CacheMaxSize = 32 << 20, p->accessPolicyMaxWindowSize = 128 << 20;
    p->maxTexture1D = p->maxTexture2D[0] = p->maxTexture2D[1] = p->maxSurface2D[0] = 131072;
    p->maxTexture1DLinear = 1 << 28, p->maxTexture3D[0] = p->maxTexture3D[1] = p->maxTexture3D[2] = 16384;
    p->surfaceAlignment = p->textureAlignment = 512, p->texturePitchAlignment = 32;
    p->singleToDoublePrecisionPerfRatio = 2;
    return cudaSuccess;
}
enum cudaComputeMode {
    cudaComputeModeDefault = 0,
    cudaComputeModeExclusive = 1,
    cudaComputeModeProhibited = 2,
    cudaComputeModeExclusiveProcess = 3
};
enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxBlockDimX = 2,
    cudaDevAttrMaxBlockDimY = 3,
    cudaDevAttrMaxBlockDimZ = 4,
    cudaDevAttrMaxGridDimX = 5,
    cudaDevAttrMaxGridDimY = 6,
    cudaDevAttrMaxGridDimZ = 7,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrTotalConstantMemory = 9,
    cudaDevAttrMaxRegistersPerBlock = 12,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrClockRate = 13,
    cudaDevAttrGpuOverlap = 15,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrIntegrated = 18,
    cudaDevAttrCanMapHostMemory = 19,
    cudaDevAttrComputeMode = 20,
    cudaDevAttrConcurrentKernels = 31,
    cudaDevAttrMemoryClockRate = 36,
    cudaDevAttrGlobalMemoryBusWidth = 37,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrAsyncEngineCount = 40,
    cudaDevAttrUnifiedAddressing = 41,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxRegistersPerMultiprocessor = 82,
    cudaDevAttrStreamPrioritiesSupported = 78,
    cudaDevAttrManagedMemory = 83,
    cudaDevAttrPageableMemoryAccess = 88,
    cudaDevAttrConcurrentManagedAccess = 89,
    cudaDevAttrCooperativeLaunch = 95,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
    cudaDevAttrHostRegisterSupported = 99,
    cudaDevAttrMaxBlocksPerMultiprocessor = 106,
    cudaDevAttrMemoryPoolsSupported = 115,
    cudaDevAttrMemoryPoolSupportedHandleTypes = 119
};
inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp p;
    if (cudaError_t e = cudaGetDeviceProperties(&p, device)) return e;
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = int(p.sharedMemPerBlock); break;
        case cudaDevAttrMaxBlockDimX: case cudaDevAttrMaxBlockDimY: case cudaDevAttrMaxBlockDimZ:
            *value = p.maxThreadsDim[attribute - cudaDevAttrMaxBlockDimX];
            break;
        case cudaDevAttrMaxGridDimX: case cudaDevAttrMaxGridDimY: case cudaDevAttrMaxGridDimZ:
            *value = p.maxGridSize[attribute - cudaDevAttrMaxGridDimX];
            break;
        case cudaDevAttrTotalConstantMemory: *value = int(p.totalConstMem); break;
        case cudaDevAttrMaxRegistersPerBlock: *value = p.regsPerBlock; break;
        case cudaDevAttrMemoryClockRate: *value = p.memoryClockRate; break;
        case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
        case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
        case cudaDevAttrAsyncEngineCount: *value = p.asyncEngineCount; break;
        case cudaDevAttrHostRegisterSupported: *value = p.hostRegisterSupported; break;
        case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
        case cudaDevAttrMemoryPoolSupportedHandleTypes: *value = p.memoryPoolSupportedHandleTypes; break;
        case cudaDevAttrWarpSize: *value = p.warpSize; break;
        case cudaDevAttrGpuOverlap: *value = p.deviceOverlap; break;
        case cudaDevAttrStreamPrioritiesSupported: *value = p.streamPrioritiesSupported; break;
        case cudaDevAttrPageableMemoryAccess: *value = p.pageableMemoryAccess; break;
        case cudaDevAttrMemoryPoolsSupported: *value = p.memoryPoolsSupported; break;
        case cudaDevAttrClockRate: *value = p.clockRate; break;
        case cudaDevAttrIntegrated: *value = p.integrated; break;
        case cudaDevAttrCanMapHostMemory: *value = p.canMapHostMemory; break;
        case cudaDevAttrComputeMode: *value = p.computeMode; break;
        case cudaDevAttrConcurrentKernels: *value = p.concurrentKernels; break;
        case cudaDevAttrUnifiedAddressing: *value = p.unifiedAddressing; break;
        case cudaDevAttrManagedMemory: case cudaDevAttrConcurrentManagedAccess: *value = p.managedMemory; break;
        case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
        case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
        case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = int(p.sharedMemPerMultiprocessor); break;
        case cudaDevAttrMaxRegistersPerMultiprocessor: *value = p.regsPerMultiprocessor; break;
        case cudaDevAttrCooperativeLaunch: *value = p.cooperativeLaunch; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = int(p.sharedMemPerBlockOptin); break;
        default: return gridstride::told(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() {
    gridstride::wait_for_device();
    gridstride::host_waits();
    return cudaSuccess;
}
inline cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
inline cudaError_t cudaDeviceReset() { gridstride::host_waits(); gridstride::device_reset(); return cudaSuccess; }
inline cudaError_t cudaThreadExit() { return cudaDeviceReset(); }
inline cudaError_t cudaDriverGetVersion(int *v) { *v = CUDA_VERSION; return cudaSuccess; }
inline cudaError_t cudaRuntimeGetVersion(int *v) { *v = CUDART_VERSION; return cudaSuccess; }
enum cudaFuncCache {
    cudaFuncCachePreferNone,
    cudaFuncCachePreferShared,
    cudaFuncCachePreferL1,
    cudaFuncCachePreferEqual
};
enum cudaLimit {
    cudaLimitStackSize = 0,
    cudaLimitPrintfFifoSize = 1,
    cudaLimitMallocHeapSize = 2,
    cudaLimitDevRuntimePendingLaunchCount = 4,
    cudaLimitMaxL2FetchGranularity = 5,
    cudaLimitPersistingL2CacheSize = 6
};
namespace gridstride {
// What a GPU has at first; none of it binds here.
inline size_t limits[] = {1024, 1 << 20, 8 << 20, 2, 2048, 64, 0};
}
inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
    gridstride::limits[limit] = value;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceGetLimit(size_t *value, cudaLimit limit) {
    *value = gridstride::limits[limit];
    return cudaSuccess;
}
inline cudaError_t cudaChooseDevice(int *device, const cudaDeviceProp *) { *device = 0; return cudaSuccess; }
inline cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int device) {
    snprintf(id, size_t(bytes), "0000:00:00.0");
    return gridstride::failed_unless(device == 0, cudaErrorInvalidDevice);
}

// What is said of one kernel; it is known by its name.

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum { cudaSharedmemCarveoutDefault = -1, cudaSharedmemCarveoutMaxShared = 100, cudaSharedmemCarveoutMaxL1 = 0 };
struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, maxDynamicSharedSizeBytes;
};
namespace gridstride {
template <class K> cudaError_t set_attribute(const char *kernel, K, cudaFuncAttribute a, int value) {
    if (a == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
    if (a != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > 227 << 10)
        return told(cudaErrorInvalidValue);
    max_dynamic_of(kernel) = size_t(value);
    return cudaSuccess;
}
inline cudaError_t get_attributes(cudaFuncAttributes *p, const char *kernel) {
    *p = {0, 0, 0, 1024, 0, 90, 90, int(max_dynamic_of(kernel))};
    return cudaSuccess;
}
// Blocks that fit on one multiprocessor, as far as threads and shared memory say; how many registers nvcc would use is
// not known here.
inline cudaError_t max_blocks(int *n, int threads, size_t dynamic) {
    if (threads < 1 || threads > 1024) return told(cudaErrorInvalidValue);
    *n = blocks_of_sm(threads, dynamic);
    return cudaSuccess;
}
inline cudaError_t best_block(int *grid, int *block, size_t dynamic, int limit) {
    *block = limit && limit < 1024 ? limit : 1024;
    int n;
    max_blocks(&n, *block, dynamic);
    *grid = n * 132;
    return cudaSuccess;
}
}
#define cudaFuncSetAttribute(...) ::gridstride::set_attribute(GRIDSTRIDE_TEXT(__VA_ARGS__), __VA_ARGS__)
#define cudaFuncGetAttributes(p, ...) ::gridstride::get_attributes(p, GRIDSTRIDE_TEXT(__VA_ARGS__))
#define cudaFuncSetCacheConfig(kernel, config) ((void)(config), cudaSuccess)
template <class K> cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, K, int threads, size_t dynamic) {
    return gridstride::max_blocks(n, threads, dynamic);
}
template <class K>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int *grid, int *block, K, size_t dynamic = 0, int limit = 0) {
    return gridstride::best_block(grid, block, dynamic, limit);
}
template <class K, class F>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *grid, int *block, K kernel, F bytes, int limit = 0) {
    const int most = limit && limit < 1024 ? limit : 1024;
    return cudaOccupancyMaxPotentialBlockSize(grid, block, kernel, size_t(bytes(most)), most);
}
// Launches by a function. The rewriter takes the cast to `void *` away, so the kernel's type is known.
namespace gridstride {
template <class... P, size_t... i>
void launch_packed(const Config &config, const char *name, int line, void (*kernel)(P...), [[maybe_unused]] void **args,
    std::index_sequence<i...>) {
    launch(config, name, line, kernel, *static_cast<std::remove_reference_t<P> *>(args[i])...);
}
template <class... P>
cudaError_t launch_by_pointers(int cooperative, const char *name, int line, void (*kernel)(P...), dim3 grid, dim3 block,
    void **args, size_t shared = 0, cudaStream_t stream = nullptr) {
    launch_packed(Config(grid, block, shared, stream, dim3(1, 1, 1), cooperative), name, line, kernel, args,
        std::index_sequence_for<P...>());
    return cudaPeekAtLastError();
}
}
#define cudaLaunchKernel(...) \
    ::gridstride::launch_by_pointers(0, GRIDSTRIDE_TEXT(__VA_ARGS__), __LINE__, __VA_ARGS__)
#define cudaLaunchCooperativeKernel(...) \
    ::gridstride::launch_by_pointers(1, GRIDSTRIDE_TEXT(__VA_ARGS__), __LINE__, __VA_ARGS__)

enum cudaLaunchAttributeID {
    cudaLaunchAttributeIgnore = 0,
    cudaLaunchAttributeAccessPolicyWindow = 1,
    cudaLaunchAttributeCooperative = 2,
    cudaLaunchAttributeClusterDimension = 4,
    cudaLaunchAttributeProgrammaticStreamSerialization = 6,
    cudaLaunchAttributePriority = 8
};
enum cudaAccessProperty {
    cudaAccessPropertyNormal = 0, cudaAccessPropertyStreaming = 1, cudaAccessPropertyPersisting = 2
};
struct cudaAccessPolicyWindow {
    void *base_ptr;
    size_t num_bytes;
    float hitRatio;
    cudaAccessProperty hitProp, missProp;
};
union cudaLaunchAttributeValue {
    cudaAccessPolicyWindow accessPolicyWindow;
    int cooperative, priority, programmaticStreamSerializationAllowed;
    struct { unsigned x, y, z; } clusterDim;
};
struct cudaLaunchAttribute { cudaLaunchAttributeID id; cudaLaunchAttributeValue val; };
typedef cudaLaunchAttributeID cudaStreamAttrID;
typedef cudaLaunchAttributeValue cudaStreamAttrValue;
#define cudaStreamAttributeAccessPolicyWindow cudaLaunchAttributeAccessPolicyWindow
#define cudaStreamAttributePriority cudaLaunchAttributePriority
// Caches are not emulated, nor is what is said of them.
inline cudaError_t cudaStreamSetAttribute(cudaStream_t, cudaStreamAttrID, const cudaStreamAttrValue *) {
    return cudaSuccess;
}
inline cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};
namespace gridstride {
template <class... P, class... A>
cudaError_t launch_configured(
    const char *name, int line, const cudaLaunchConfig_t *c, void (*kernel)(P...), A &&...args) {
    Config config(c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream);
    for (unsigned i = 0; i < c->numAttrs; i++) {
        const cudaLaunchAttributeValue &v = c->attrs[i].val;
        if (c->attrs[i].id == cudaLaunchAttributeClusterDimension)
            config.cluster = dim3(v.clusterDim.x, v.clusterDim.y, v.clusterDim.z);
        if (c->attrs[i].id == cudaLaunchAttributeCooperative) config.cooperative = v.cooperative != 0;
    }
    launch(config, name, line, kernel, static_cast<P>(args)...);
    return cudaPeekAtLastError();
}
}
#define cudaLaunchKernelEx(config, ...) \
    ::gridstride::launch_configured(GRIDSTRIDE_TEXT(__VA_ARGS__), __LINE__, config, __VA_ARGS__)

inline cudaError_t cudaProfilerStart() { return cudaSuccess; }
inline cudaError_t cudaProfilerStop() { return cudaSuccess; }

#include "graphs.h"
