// Device memory: allocation, pools, pinned memory, copies, and symbols.
#pragma once
#include "capture.h"
#include "runtime_errors.h"

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
template <class T> cudaError_t alloc_host_accessible(T **p, size_t bytes, bool cleared, int line) {
    *p = static_cast<T *>(device_alloc(bytes, item_bytes<T>(), cleared, true, line));
    return success_if(*p, cudaErrorMemoryAllocation);
}
}
inline cudaError_t cudaMalloc(void **p, size_t bytes, int line = __builtin_LINE()) {
    if (!p) return gridstride::record_error(cudaErrorInvalidValue);
    *p = bytes ? gridstride::device_alloc(bytes, 1, false, false, line) : nullptr;
    return gridstride::success_if(*p || !bytes, cudaErrorMemoryAllocation);
}
template <class T> cudaError_t cudaMalloc(T **p, size_t bytes, int line = __builtin_LINE()) {
    if (!p) return gridstride::record_error(cudaErrorInvalidValue);
    *p = bytes ? static_cast<T *>(gridstride::device_alloc(bytes, sizeof(T), false, false, line)) : nullptr;
    return gridstride::success_if(*p || !bytes, cudaErrorMemoryAllocation);
}
template <class T> cudaError_t cudaMallocAsync(T **p, size_t bytes, cudaStream_t s, int line = __builtin_LINE()) {
    using namespace gridstride;
    if (!defer(s, NodeKind::alloc, [] { return 0; })) {
        const StreamOperation operation("cudaMallocAsync", s, line);
        const cudaError_t e = cudaMalloc(p, bytes, line);
        if (!e) record_device_use(*p, bytes, "allocates");
        return e;
    }
    *p = static_cast<T *>(graph_alloc(bytes, line));
    return success_if(*p, cudaErrorMemoryAllocation);
}
template <class T> cudaError_t cudaMallocManaged(
    T **p, size_t bytes, unsigned = cudaMemAttachGlobal, int line = __builtin_LINE()) {
    return gridstride::alloc_host_accessible(p, bytes, false, line);
}
inline cudaError_t cudaFree(void *p) {
    if (p) gridstride::host_waits();
    return gridstride::success_if(!p || gridstride::device_free(p), cudaErrorInvalidValue);
}
inline cudaError_t cudaFreeAsync(void *p, cudaStream_t s, int line = __builtin_LINE()) {
    const auto free = [=] {
        const gridstride::StreamOperation operation("cudaFreeAsync", s, line);
        return int(gridstride::success_if(!p || gridstride::free_in_order(p), cudaErrorInvalidValue));
    };
    return gridstride::defer(s, gridstride::NodeKind::free, free) ? cudaSuccess : cudaError_t(free());
}

// Pools cache nothing: freed memory is released immediately. Access to a pool counts as peer access to its device.
struct GridstridePool {
    unsigned long long threshold;
    int device;
    uint64_t id;                       // 0: other processes cannot import it
};
typedef GridstridePool *cudaMemPool_t;
enum cudaMemAllocationType { cudaMemAllocationTypeInvalid = 0, cudaMemAllocationTypePinned = 1 };
enum cudaMemLocationType {
    cudaMemLocationTypeInvalid = 0, cudaMemLocationTypeDevice = 1, cudaMemLocationTypeHost = 2
};
enum cudaMemAllocationHandleType {
    cudaMemHandleTypeNone = 0, cudaMemHandleTypePosixFileDescriptor = 1, cudaMemHandleTypeWin32 = 2
};
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
    static GridstridePool default_pools[8] = {
        {0, 0, 0}, {0, 1, 0}, {0, 2, 0}, {0, 3, 0}, {0, 4, 0}, {0, 5, 0}, {0, 6, 0}, {0, 7, 0}};
    if (!gridstride::is_device_index(device)) return gridstride::record_error(cudaErrorInvalidDevice);
    *pool = &default_pools[device];
    return cudaSuccess;
}
inline cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
    return cudaDeviceGetDefaultMemPool(pool, device);
}
inline cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t) { return cudaSuccess; }
inline cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *props) {
    const bool is_shared = props->handleTypes == cudaMemHandleTypePosixFileDescriptor;
    if (props->handleTypes != cudaMemHandleTypeNone && !is_shared)
        return gridstride::record_error(cudaErrorNotSupported);
    if (!gridstride::is_device_index(props->location.id)) return gridstride::record_error(cudaErrorInvalidDevice);
    *pool = new GridstridePool{0, props->location.id, is_shared ? gridstride::new_pool_id() : 0};
    return cudaSuccess;
}
inline cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { delete pool; return cudaSuccess; }
enum cudaMemAccessFlags {
    cudaMemAccessFlagsProtNone = 0, cudaMemAccessFlagsProtRead = 1, cudaMemAccessFlagsProtReadWrite = 3
};
struct cudaMemAccessDesc { cudaMemLocation location; cudaMemAccessFlags flags; };
namespace gridstride {
class DeviceScope {                       // makes a device current while this object exists
    const int previous = current_device();

public:
    explicit DeviceScope(int device) { choose_device(device); }
    DeviceScope(const DeviceScope &) = delete;
    ~DeviceScope() { choose_device(previous); }
};
}
inline cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc *access, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const int device = access[i].location.id;
        if (access[i].location.type != cudaMemLocationTypeDevice || device == pool->device) continue;
        if (!gridstride::is_device_index(device)) return gridstride::record_error(cudaErrorInvalidDevice);
        const gridstride::DeviceScope on_device(device);
        gridstride::set_peer_access(pool->device, access[i].flags != cudaMemAccessFlagsProtNone);
    }
    return cudaSuccess;
}
inline cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags *flags, cudaMemPool_t, cudaMemLocation *location) {
    *flags = cudaMemAccessFlagsProtReadWrite;
    return gridstride::success_if(gridstride::is_device_index(location->id), cudaErrorInvalidDevice);
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
    T **p, size_t bytes, cudaMemPool_t pool, cudaStream_t s, int line = __builtin_LINE()) {
    const gridstride::DeviceScope on_device(pool->device);
    const cudaError_t error = cudaMallocAsync(p, bytes, s, line);
    if (!error && pool->id) gridstride::set_pool(*p, pool->id);
    return error;
}
template <class T> cudaError_t cudaMallocAsync(
    T **p, size_t bytes, cudaMemPool_t pool, cudaStream_t s, int line = __builtin_LINE()) {
    return cudaMallocFromPoolAsync(p, bytes, pool, s, line);
}
// Pools that processes share: the handle of a pool is a file descriptor, that of its memory is that of `cudaIpc...`.
struct cudaMemPoolPtrExportData { unsigned char reserved[64]; };
namespace gridstride {
struct PoolPointer { MemoryHandle memory; uint64_t pool; };
static_assert(sizeof(PoolPointer) <= sizeof(cudaMemPoolPtrExportData), "it contains a handle and the pool");
}
inline cudaError_t cudaMemPoolExportToShareableHandle(
    void *handle, cudaMemPool_t pool, cudaMemAllocationHandleType type, unsigned) {
    if (!pool->id || type != cudaMemHandleTypePosixFileDescriptor)
        return gridstride::record_error(cudaErrorInvalidValue);
    const int descriptor = gridstride::export_pool(pool->id);
    *static_cast<int *>(handle) = descriptor;
    return gridstride::success_if(descriptor >= 0, cudaErrorOperatingSystem);
}
inline cudaError_t cudaMemPoolImportFromShareableHandle(
    cudaMemPool_t *pool, void *handle, cudaMemAllocationHandleType, unsigned) {
    const uint64_t id = gridstride::import_pool(int(reinterpret_cast<intptr_t>(handle)));
    if (!id) return gridstride::record_error(cudaErrorInvalidValue);
    *pool = new GridstridePool{0, gridstride::current_device(), id};
    return cudaSuccess;
}
inline cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData *data, void *p) {
    gridstride::PoolPointer pointer = {{}, gridstride::pool_of(p)};
    gridstride::host_waits();
    if (!pointer.pool || !gridstride::share_memory(p, pointer.memory))
        return gridstride::record_error(cudaErrorInvalidValue);
    *data = {};
    gridstride::copy_unchecked(data->reserved, &pointer, sizeof pointer);
    return cudaSuccess;
}
inline cudaError_t cudaMemPoolImportPointer(void **p, cudaMemPool_t pool, cudaMemPoolPtrExportData *data) {
    gridstride::PoolPointer pointer;
    gridstride::copy_unchecked(&pointer, data->reserved, sizeof pointer);
    if (pointer.pool != pool->id) return gridstride::record_error(cudaErrorInvalidValue);
    *p = gridstride::open_shared(pointer.memory);
    if (!*p) return gridstride::record_error(cudaErrorMapBufferObjectFailed);
    const int owner = gridstride::device_of(*p);
    if (owner >= 0 && owner != gridstride::current_device()) gridstride::set_peer_access(owner, true);
    return cudaSuccess;
}
template <class T> cudaError_t cudaMallocPitch(
    T **p, size_t *pitch, size_t width, size_t height, int line = __builtin_LINE()) {
    *pitch = (width + 511) / 512 * 512;
    return cudaMalloc(p, *pitch * height, line);
}
// Pinned memory is device memory that the host may access, too.
template <class T> cudaError_t cudaMallocHost(T **p, size_t bytes, int line = __builtin_LINE()) {
    return gridstride::alloc_host_accessible(p, bytes, true, line);
}
template <class T> cudaError_t cudaHostAlloc(T **p, size_t bytes, unsigned, int line = __builtin_LINE()) {
    return cudaMallocHost(p, bytes, line);
}
inline cudaError_t cudaFreeHost(void *p) { return cudaFree(p); }

// Registered host memory has a copy on the device, which is updated before each launch and copied back after it.
enum {
    cudaHostRegisterDefault = 0,
    cudaHostRegisterPortable = 1,
    cudaHostRegisterMapped = 2,
    cudaHostRegisterIoMemory = 4,
    cudaHostRegisterReadOnly = 8
};
inline cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned) {
    if (!p || !bytes) return gridstride::record_error(cudaErrorInvalidValue);
    return gridstride::success_if(gridstride::register_host(p, bytes), cudaErrorHostMemoryAlreadyRegistered);
}
inline cudaError_t cudaHostUnregister(void *p) {
    gridstride::host_waits();
    return gridstride::success_if(gridstride::unregister_host(p), cudaErrorHostMemoryNotRegistered);
}
template <class T> cudaError_t cudaHostGetDevicePointer(T **p, void *host, unsigned) {
    *p = static_cast<T *>(gridstride::is_device(host) ? host : gridstride::device_address_of(host));
    return gridstride::success_if(*p, cudaErrorInvalidValue);
}

// Returns whether the host waits for a copy; it does not wait for one within device memory.
namespace gridstride {
inline bool waits_for_copy(const void *to, const void *from) { return !is_device_only(to) || !is_device_only(from); }
}
inline cudaError_t cudaMemcpy(
    void *to, const void *from, size_t bytes, cudaMemcpyKind kind, int line = __builtin_LINE()) {
    if (kind < 0 || kind > cudaMemcpyDefault) return gridstride::record_error(cudaErrorInvalidMemcpyDirection);
    if (const int e = gridstride::error_after_waiting()) return cudaError_t(e);
    if (!bytes) return cudaSuccess;                         // also for an address just past the end of an array
    if (!to || !from) return gridstride::record_error(cudaErrorInvalidValue);
    const bool to_device = gridstride::is_device(to), from_device = gridstride::is_device(from);
    if ((to_device && !gridstride::is_in_allocation(to, bytes)) ||
        (from_device && !gridstride::is_in_allocation(from, bytes)))
        return gridstride::record_error(cudaErrorInvalidValue);
    if ((kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) && !to_device)
        return gridstride::record_error(cudaErrorInvalidValue);
    if ((kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice) && !from_device)
        return gridstride::record_error(cudaErrorInvalidValue);
    const gridstride::StreamOperation operation("cudaMemcpy", nullptr, line, gridstride::waits_for_copy(to, from));
    gridstride::device_copy(to, from, bytes);
    if (to_device) gridstride::mark_initialized(to, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(
    void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s = nullptr,
    int line = __builtin_LINE()) {
    using namespace gridstride;
    const auto copy = [=] {
        const StreamOperation operation("cudaMemcpyAsync", s, line, is_pageable(to));
        return int(cudaMemcpy(to, from, bytes, kind));
    };
    // A copy from pageable memory returns after it has read its source, a copy to pageable memory after it has ended.
    const bool is_any_pageable = is_pageable(to) || is_pageable(from);
    if (is_any_pageable && is_queueing() && !is_any_stream_captured()) return cudaError_t(copy());
    return defer(s, NodeKind::memcpy, copy) ? cudaSuccess : cudaError_t(copy());
}
inline cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
    size_t height, cudaMemcpyKind kind, int line = __builtin_LINE()) {
    if (width > to_pitch || width > from_pitch) return gridstride::record_error(cudaErrorInvalidPitchValue);
    const gridstride::StreamOperation operation("cudaMemcpy2D", nullptr, line, gridstride::waits_for_copy(to, from));
    for (size_t row = 0; row < height; row++)
        if (cudaError_t e = cudaMemcpy(static_cast<char *>(to) + row * to_pitch,
                static_cast<const char *>(from) + row * from_pitch, width, kind))
            return e;
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy2DAsync(
    void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind kind,
    cudaStream_t s = nullptr, int line = __builtin_LINE()) {
    using namespace gridstride;
    const auto copy = [=] {
        const StreamOperation operation("cudaMemcpy2DAsync", s, line, is_pageable(to));
        return int(cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind));
    };
    return defer(s, NodeKind::memcpy, copy) ? cudaSuccess : cudaError_t(copy());
}
inline cudaError_t cudaMemset(void *p, int value, size_t bytes, int line = __builtin_LINE()) {
    if (!gridstride::is_device(p) || !gridstride::is_in_allocation(p, bytes))
        return gridstride::record_error(cudaErrorInvalidValue);
    const auto fill = [=] {
        const gridstride::StreamOperation operation("cudaMemset", nullptr, line, !gridstride::is_device_only(p));
        gridstride::device_fill(p, value, bytes);
        gridstride::mark_initialized(p, bytes);
        return 0;
    };
    if (gridstride::is_device_only(p) && gridstride::is_queueing() &&
        gridstride::defer(nullptr, gridstride::NodeKind::memset, fill))
        return cudaSuccess;
    fill();
    return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(
    void *p, int value, size_t bytes, cudaStream_t s = nullptr, int line = __builtin_LINE()) {
    using namespace gridstride;
    const auto fill = [=] {
        const StreamOperation operation("cudaMemsetAsync", s, line);
        return int(cudaMemset(p, value, bytes));
    };
    return defer(s, NodeKind::memset, fill) ? cudaSuccess : cudaError_t(fill());
}
inline cudaError_t cudaMemset2D(
    void *p, size_t pitch, int value, size_t width, size_t height, int line = __builtin_LINE()) {
    const gridstride::StreamOperation operation("cudaMemset2D", nullptr, line, !gridstride::is_device_only(p));
    for (size_t row = 0; row < height; row++)
        if (cudaError_t e = cudaMemset(static_cast<char *>(p) + row * pitch, value, width)) return e;
    return cudaSuccess;
}
inline cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int value, size_t w, size_t h, cudaStream_t s = nullptr,
    int line = __builtin_LINE()) {
    using namespace gridstride;
    const auto fill = [=] {
        const StreamOperation operation("cudaMemset2DAsync", s, line);
        return int(cudaMemset2D(p, pitch, value, w, h));
    };
    return defer(s, NodeKind::memset, fill) ? cudaSuccess : cudaError_t(fill());
}
inline cudaError_t cudaMemcpyPeer(
    void *to, int to_device, const void *from, int from_device, size_t bytes, int line = __builtin_LINE()) {
    if (!gridstride::is_device_index(to_device) || !gridstride::is_device_index(from_device))
        return gridstride::record_error(cudaErrorInvalidDevice);
    gridstride::host_waits_for_device(to_device);
    gridstride::host_waits_for_device(from_device);
    return cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice, line);
}
inline cudaError_t cudaMemcpyPeerAsync(
    void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t s = nullptr,
    int line = __builtin_LINE()) {
    if (!gridstride::is_device_index(to_device) || !gridstride::is_device_index(from_device))
        return gridstride::record_error(cudaErrorInvalidDevice);
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s, line);
}
inline cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    const size_t used = gridstride::device_total();      // may exceed the total, which can shrink
    *total = gridstride::device_size();
    *free = *total > used ? *total - used : 0;
    return cudaSuccess;
}
// All memory is equally fast, so advice has no effect.
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

// Device variables: the symbol itself, or its address in host code
namespace gridstride {
template <class T> const void *symbol_key(const T &symbol) {
    return const_cast<const char *>(&reinterpret_cast<const volatile char &>(symbol));
}
// `opposite_kind`: the kind of a copy in the opposite direction
inline cudaError_t find_symbol(const void *symbol, size_t bytes, size_t offset, cudaMemcpyKind &kind,
    cudaMemcpyKind opposite_kind, char *&address) {
    size_t symbol_bytes = 0;
    address = symbol_at(symbol, symbol_bytes);
    if (!address) return record_error(cudaErrorInvalidSymbol);
    if (kind == opposite_kind || kind == cudaMemcpyHostToHost) return record_error(cudaErrorInvalidMemcpyDirection);
    if (!is_device(address)) kind = cudaMemcpyDefault;          // a device variable that is an ordinary C++ variable
    address += offset;
    return success_if(offset <= symbol_bytes && bytes <= symbol_bytes - offset, cudaErrorInvalidValue);
}
inline cudaError_t copy_symbol(
    const char *name, void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s, int line) {
    const auto copy = [=] {
        const StreamOperation operation(name, s, line, is_pageable(to));
        return int(cudaMemcpy(to, from, bytes, kind));
    };
    return defer(s, NodeKind::memcpy, copy) ? cudaSuccess : cudaError_t(copy());
}
}
inline cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset = 0,
    cudaMemcpyKind kind = cudaMemcpyHostToDevice, int line = __builtin_LINE()) {
    char *to;
    if (cudaError_t e = gridstride::find_symbol(symbol, bytes, offset, kind, cudaMemcpyDeviceToHost, to)) return e;
    const gridstride::StreamOperation operation(
        "cudaMemcpyToSymbol", nullptr, line, gridstride::waits_for_copy(to, from));
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
    const gridstride::StreamOperation operation(
        "cudaMemcpyFromSymbol", nullptr, line, gridstride::waits_for_copy(to, from));
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
    return gridstride::success_if(*p, cudaErrorInvalidSymbol);
}
inline cudaError_t cudaGetSymbolSize(size_t *bytes, const void *symbol) {
    *bytes = 0;
    return gridstride::success_if(gridstride::symbol_at(symbol, *bytes), cudaErrorInvalidSymbol);
}
template <class T>
cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *from, size_t bytes, size_t offset = 0,
    cudaMemcpyKind kind = cudaMemcpyHostToDevice, int line = __builtin_LINE()) {
    return cudaMemcpyToSymbol(gridstride::symbol_key(symbol), from, bytes, offset, kind, line);
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T &symbol, const void *from, size_t bytes, size_t offset,
    cudaMemcpyKind kind, cudaStream_t s = nullptr, int line = __builtin_LINE()) {
    return cudaMemcpyToSymbolAsync(gridstride::symbol_key(symbol), from, bytes, offset, kind, s, line);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t bytes, size_t offset = 0,
    cudaMemcpyKind kind = cudaMemcpyDeviceToHost, int line = __builtin_LINE()) {
    return cudaMemcpyFromSymbol(to, gridstride::symbol_key(symbol), bytes, offset, kind, line);
}
template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void *to, const T &symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
    cudaStream_t s = nullptr, int line = __builtin_LINE()) {
    return cudaMemcpyFromSymbolAsync(to, gridstride::symbol_key(symbol), bytes, offset, kind, s, line);
}
template <class P, class T> cudaError_t cudaGetSymbolAddress(P **p, const T &symbol) {
    return cudaGetSymbolAddress(p, gridstride::symbol_key(symbol));
}
template <class T> cudaError_t cudaGetSymbolSize(size_t *bytes, const T &symbol) {
    return cudaGetSymbolSize(bytes, gridstride::symbol_key(symbol));
}
