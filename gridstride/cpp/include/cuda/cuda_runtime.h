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
template <class T> cudaError_t host_too(T **p, size_t bytes, bool cleared, int line) {
    *p = static_cast<T *>(device_alloc(bytes, 1, cleared, true, line));
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
template <class T> cudaError_t cudaMallocAsync(T **p, size_t bytes, cudaStream_t, int line = __builtin_LINE()) {
    return cudaMalloc(p, bytes, line);
}
template <class T> cudaError_t cudaMallocManaged(
    T **p, size_t bytes, unsigned = cudaMemAttachGlobal, int line = __builtin_LINE()) {
    return gridstride::host_too(p, bytes, false, line);
}
inline cudaError_t cudaFree(void *p) {
    return gridstride::failed_unless(!p || gridstride::device_free(p), cudaErrorInvalidValue);
}
inline cudaError_t cudaFreeAsync(void *p, cudaStream_t) { return cudaFree(p); }

// Pools keep nothing here: what is freed is given back at once.
struct GridstridePool { unsigned long long threshold; };
typedef GridstridePool *cudaMemPool_t;
enum cudaMemAllocationType { cudaMemAllocationTypeInvalid = 0, cudaMemAllocationTypePinned = 1 };
enum cudaMemLocationType { cudaMemLocationTypeInvalid = 0, cudaMemLocationTypeDevice = 1 };
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
    T **p, size_t bytes, cudaMemPool_t, cudaStream_t, int line = __builtin_LINE()) {
    return cudaMalloc(p, bytes, line);
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

// Memory of the host's own that is registered can be copied as before; no kernel reaches it here.
enum {
    cudaHostRegisterDefault = 0,
    cudaHostRegisterPortable = 1,
    cudaHostRegisterMapped = 2,
    cudaHostRegisterIoMemory = 4,
    cudaHostRegisterReadOnly = 8
};
inline cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned) {
    if (!p || !bytes) return gridstride::told(cudaErrorInvalidValue);
    return gridstride::failed_unless(gridstride::register_host(p, true), cudaErrorHostMemoryAlreadyRegistered);
}
inline cudaError_t cudaHostUnregister(void *p) {
    return gridstride::failed_unless(gridstride::register_host(p, false), cudaErrorHostMemoryNotRegistered);
}
template <class T> cudaError_t cudaHostGetDevicePointer(T **p, void *host, unsigned) {
    const bool own = gridstride::is_registered(host);
    *p = own ? nullptr : static_cast<T *>(host);
    return gridstride::failed_unless(!own, cudaErrorNotSupported);
}

inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    if (kind < 0 || kind > cudaMemcpyDefault) return gridstride::told(cudaErrorInvalidMemcpyDirection);
    if (bytes && (!to || !from)) return gridstride::told(cudaErrorInvalidValue);
    const bool to_device = gridstride::is_device(to), from_device = gridstride::is_device(from);
    if ((to_device && !gridstride::device_range(to, bytes)) || (from_device && !gridstride::device_range(from, bytes)))
        return gridstride::told(cudaErrorInvalidValue);
    if ((kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) && !to_device && bytes)
        return gridstride::told(cudaErrorInvalidValue);
    if ((kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice) && !from_device && bytes)
        return gridstride::told(cudaErrorInvalidValue);
    gridstride::device_copy(to, from, bytes);
    if (to_device) gridstride::device_written(to, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(
    void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s = nullptr) {
    using namespace gridstride;
    if (kept(s, NodeKind::memcpy, [=] { return int(cudaMemcpy(to, from, bytes, kind)); })) return cudaSuccess;
    return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemcpy2D(
    void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind kind) {
    if (width > to_pitch || width > from_pitch) return gridstride::told(cudaErrorInvalidPitchValue);
    for (size_t row = 0; row < height; row++)
        if (cudaError_t e = cudaMemcpy(static_cast<char *>(to) + row * to_pitch,
                static_cast<const char *>(from) + row * from_pitch, width, kind))
            return e;
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy2DAsync(
    void *to, size_t tp, const void *from, size_t fp, size_t w, size_t h, cudaMemcpyKind k, cudaStream_t s = nullptr) {
    using namespace gridstride;
    if (kept(s, NodeKind::memcpy, [=] { return int(cudaMemcpy2D(to, tp, from, fp, w, h, k)); })) return cudaSuccess;
    return cudaMemcpy2D(to, tp, from, fp, w, h, k);
}
inline cudaError_t cudaMemset(void *p, int value, size_t bytes) {
    if (!gridstride::is_device(p) || !gridstride::device_range(p, bytes))
        return gridstride::told(cudaErrorInvalidValue);
    gridstride::device_fill(p, value, bytes);
    gridstride::device_written(p, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s = nullptr) {
    using namespace gridstride;
    if (kept(s, NodeKind::memset, [=] { return int(cudaMemset(p, value, bytes)); })) return cudaSuccess;
    return cudaMemset(p, value, bytes);
}
inline cudaError_t cudaMemset2D(void *p, size_t pitch, int value, size_t width, size_t height) {
    for (size_t row = 0; row < height; row++)
        if (cudaError_t e = cudaMemset(static_cast<char *>(p) + row * pitch, value, width)) return e;
    return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    *total = size_t(16) << 30;
    *free = *total - gridstride::device_total();
    return cudaSuccess;
}
inline cudaError_t cudaMemPrefetchAsync(const void *, size_t, int, cudaStream_t = nullptr) { return cudaSuccess; }

template <class T>
cudaError_t cudaMemcpyToSymbol(
    T &symbol, const void *from, size_t bytes, size_t offset = 0, cudaMemcpyKind = cudaMemcpyHostToDevice) {
    if (offset + bytes > sizeof(T)) return gridstride::told(cudaErrorInvalidValue);
    char *to = reinterpret_cast<char *>(const_cast<std::remove_cv_t<T> *>(&symbol)) + offset;
    gridstride::device_copy(to, from, bytes);
    gridstride::device_written(to, bytes);
    return cudaSuccess;
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(
    T &symbol, const void *from, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t = nullptr) {
    return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(
    void *to, const T &symbol, size_t bytes, size_t offset = 0, cudaMemcpyKind = cudaMemcpyDeviceToHost) {
    if (offset + bytes > sizeof(T)) return gridstride::told(cudaErrorInvalidValue);
    gridstride::device_copy(to, reinterpret_cast<const char *>(&symbol) + offset, bytes);
    return cudaSuccess;
}
template <class P, class T> cudaError_t cudaGetSymbolAddress(P **p, T &symbol) {
    *p = (P *)&symbol;
    return cudaSuccess;
}
template <class T> cudaError_t cudaGetSymbolSize(size_t *bytes, const T &) { *bytes = sizeof(T); return cudaSuccess; }

// Streams and events: every piece of work is over when the call returns, and the clock is the CPU's.

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

inline cudaError_t cudaStreamCreate(cudaStream_t *s) { *s = new GridstrideStream(); return cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned) { return cudaStreamCreate(s); }
// from the least to the greatest; a priority changes nothing here
constexpr int gridstride_priorities[] = {0, -5};
inline cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = gridstride_priorities[0];
    if (greatest) *greatest = gridstride_priorities[1];
    return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned, int priority) {
    const auto [least, greatest] = gridstride_priorities;
    *s = new GridstrideStream{priority > least ? least : priority < greatest ? greatest : priority};
    return cudaSuccess;
}
inline cudaError_t cudaStreamGetPriority(cudaStream_t s, int *priority) {
    *priority = s ? s->priority : 0;
    return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t s) { delete s; return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    return gridstride::failed_unless(!gridstride::captured(s), cudaErrorStreamCaptureUnsupported);
}
inline cudaError_t cudaStreamQuery(cudaStream_t s) { return cudaStreamSynchronize(s); }
// A stream that waits for a captured one is captured, too.
inline cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned = 0) {
    if (e->graph && !gridstride::captured(s)) gridstride::begin_capture(s, e->graph);
    return cudaSuccess;
}
inline cudaError_t cudaStreamAddCallback(cudaStream_t s, cudaStreamCallback_t f, void *data, unsigned) {
    f(s, cudaSuccess, data);
    return cudaSuccess;
}
inline cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void *data) {
    if (!gridstride::kept(s, gridstride::NodeKind::host, [=] { return f(data), 0; })) f(data);
    return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t *e) { *e = new GridstrideEvent{-1, nullptr}; return cudaSuccess; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned) { return cudaEventCreate(e); }
inline cudaError_t cudaEventDestroy(cudaEvent_t e) { delete e; return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s = nullptr) {
    e->graph = gridstride::captured(s);
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    e->seconds = double(t.tv_sec) + t.tv_nsec * 1e-9;
    return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
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
        accessPolicyMaxWindowSize, pciBusID, pciDeviceID, pciDomainID, tccDriver, kernelExecTimeoutEnabled;
};
inline cudaError_t cudaGetDeviceCount(int *n) { *n = 1; return cudaSuccess; }
inline cudaError_t cudaGetDevice(int *d) { *d = 0; return cudaSuccess; }
enum {
    cudaDeviceScheduleAuto = 0,
    cudaDeviceScheduleSpin = 1,
    cudaDeviceScheduleYield = 2,
    cudaDeviceScheduleBlockingSync = 4,
    cudaDeviceMapHost = 8
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
    p->totalGlobalMem = size_t(16) << 30;
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
    p->deviceOverlap = 1;
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
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrClockRate = 13,
    cudaDevAttrGpuOverlap = 15,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrIntegrated = 18,
    cudaDevAttrCanMapHostMemory = 19,
    cudaDevAttrComputeMode = 20,
    cudaDevAttrConcurrentKernels = 31,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
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
    cudaDevAttrMemoryPoolsSupported = 115
};
inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp p;
    if (cudaError_t e = cudaGetDeviceProperties(&p, device)) return e;
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = int(p.sharedMemPerBlock); break;
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
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaThreadSynchronize() { return cudaSuccess; }
inline cudaError_t cudaDeviceReset() { gridstride::device_reset(); return cudaSuccess; }
inline cudaError_t cudaDriverGetVersion(int *v) { *v = CUDA_VERSION; return cudaSuccess; }
inline cudaError_t cudaRuntimeGetVersion(int *v) { *v = CUDART_VERSION; return cudaSuccess; }
enum cudaFuncCache {
    cudaFuncCachePreferNone,
    cudaFuncCachePreferShared,
    cudaFuncCachePreferL1,
    cudaFuncCachePreferEqual
};
enum cudaLimit { cudaLimitStackSize, cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize };
inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }

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
    cudaLaunchAttributeCooperative = 2,
    cudaLaunchAttributeClusterDimension = 4,
    cudaLaunchAttributeProgrammaticStreamSerialization = 6,
    cudaLaunchAttributePriority = 8
};
union cudaLaunchAttributeValue {
    int cooperative, priority, programmaticStreamSerializationAllowed;
    struct { unsigned x, y, z; } clusterDim;
};
struct cudaLaunchAttribute { cudaLaunchAttributeID id; cudaLaunchAttributeValue val; };
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
