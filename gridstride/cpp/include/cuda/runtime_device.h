// One to eight devices with the limits of an H100, so that a launch that is valid here is valid on a GPU.
#pragma once
#include <stdio.h>
#include <string.h>
#include <initializer_list>
#include "device_attributes.h"
#include "emulator.h"
#include "runtime_errors.h"

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
        maxTexture1DMipmap, maxTexture2D[2], maxTexture2DLinear[3], maxTexture2DMipmap[2], maxTexture2DGather[2],
        maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap, maxTexture1DLayered[2], maxTexture2DLayered[3],
        maxTextureCubemapLayered[2], maxSurface1D, maxSurface2D[2], maxSurface3D[3], maxSurface1DLayered[2],
        maxSurface2DLayered[3], maxSurfaceCubemap, maxSurfaceCubemapLayered[2], sparseCudaArraySupported,
        hostRegisterReadOnlySupported, timelineSemaphoreInteropSupported, gpuDirectRDMASupported,
        gpuDirectRDMAFlushWritesOptions, gpuDirectRDMAWritesOrdering, deferredMappingCudaArraySupported;
    size_t surfaceAlignment, textureAlignment, texturePitchAlignment;
    struct { char bytes[16]; } uuid;
};
inline cudaError_t cudaGetDeviceCount(int *n) { *n = gridstride::device_count(); return cudaSuccess; }
inline cudaError_t cudaGetDevice(int *d) { *d = gridstride::current_device(); return cudaSuccess; }
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
namespace gridstride {
inline bool are_devices(int device, int peer) { return is_device_index(device) && is_device_index(peer); }
}
// A device is not a peer of itself.
inline cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    *can = device != peer && gridstride::are_devices(device, peer);
    return gridstride::success_if(gridstride::are_devices(device, peer), cudaErrorInvalidDevice);
}
enum cudaDeviceP2PAttr {
    cudaDevP2PAttrPerformanceRank = 1, cudaDevP2PAttrAccessSupported = 2, cudaDevP2PAttrNativeAtomicSupported = 3,
    cudaDevP2PAttrCudaArrayAccessSupported = 4
};
// All pairs of devices have the same rank, as with NVLink.
inline cudaError_t cudaDeviceGetP2PAttribute(int *value, cudaDeviceP2PAttr attribute, int device, int peer) {
    *value = attribute != cudaDevP2PAttrPerformanceRank;
    return gridstride::success_if(gridstride::are_devices(device, peer) && device != peer, cudaErrorInvalidDevice);
}
inline cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    if (flags) return gridstride::record_error(cudaErrorInvalidValue);
    if (!gridstride::is_device_index(peer) || peer == gridstride::current_device())
        return gridstride::record_error(cudaErrorInvalidDevice);
    return gridstride::success_if(gridstride::set_peer_access(peer, true), cudaErrorPeerAccessAlreadyEnabled);
}
inline cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    if (!gridstride::is_device_index(peer)) return gridstride::record_error(cudaErrorInvalidDevice);
    return gridstride::success_if(gridstride::set_peer_access(peer, false), cudaErrorPeerAccessNotEnabled);
}
inline cudaError_t cudaSetDevice(int d) {
    return gridstride::success_if(gridstride::choose_device(d), cudaErrorInvalidDevice);
}
enum cudaMemoryType {
    cudaMemoryTypeUnregistered = 0,
    cudaMemoryTypeHost = 1,
    cudaMemoryTypeDevice = 2,
    cudaMemoryTypeManaged = 3
};
struct cudaPointerAttributes {
    cudaMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
};
// Pinned and managed memory count as host memory.
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *pointer) {
    void *const p = const_cast<void *>(pointer);
    const int device = gridstride::device_of(p);
    const bool is_shared = device >= 0 && gridstride::is_shared_with_host(p);
    const cudaMemoryType type = device < 0 ? cudaMemoryTypeUnregistered
        : is_shared ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    *attributes = {type, device < 0 ? -2 : device, device < 0 ? nullptr : p, is_shared || device < 0 ? p : nullptr};
    return cudaSuccess;
}
namespace gridstride {
inline void set_texture_limits(cudaDeviceProp &p) {
    constexpr int max_size = 1 << 15, layers = 2048;
    p.maxTexture1D = p.maxTexture2D[0] = p.maxSurface2D[0] = p.maxTexture2DLinear[0] = 1 << 17;
    p.maxTexture2D[1] = p.maxSurface2D[1] = 1 << 16, p.maxTexture1DLinear = 1 << 28;
    p.maxTexture2DLinear[1] = 65000, p.maxTexture2DLinear[2] = 2097120;
    for (int axis = 0; axis < 3; axis++) p.maxTexture3D[axis] = p.maxSurface3D[axis] = 16384;
    p.maxTexture3DAlt[0] = p.maxTexture3DAlt[1] = 8192, p.maxTexture3DAlt[2] = max_size;
    for (int axis = 0; axis < 2; axis++)
        p.maxTexture2DMipmap[axis] = p.maxTexture2DGather[axis] = p.maxTexture2DLayered[axis] =
            p.maxSurface2DLayered[axis] = max_size;
    p.maxTexture1DMipmap = p.maxTextureCubemap = p.maxSurface1D = p.maxSurfaceCubemap = max_size;
    for (int *sizes : {p.maxTexture1DLayered, p.maxSurface1DLayered}) sizes[0] = max_size, sizes[1] = layers;
    p.maxTexture2DLayered[2] = p.maxSurface2DLayered[2] = layers;
    for (int *sizes : {p.maxTextureCubemapLayered, p.maxSurfaceCubemapLayered})
        sizes[0] = max_size, sizes[1] = layers - 2;                          // a multiple of the six faces
}
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int d) {
    if (!gridstride::is_device_index(d)) return gridstride::record_error(cudaErrorInvalidDevice);
    *p = {};
    p->pciBusID = d;
    const bool is_blackwell = gridstride::architecture >= 1000;
    strcpy(p->name, is_blackwell ? "gridstride emulator (CPU) with the limits of a B200"
                                 : "gridstride emulator (CPU) with the limits of an H100");
    p->totalGlobalMem = gridstride::device_size();
    p->sharedMemPerBlock = 48 << 10, p->sharedMemPerBlockOptin = 227 << 10, p->sharedMemPerMultiprocessor = 228 << 10,
    p->reservedSharedMemPerBlock = 1024;
    p->totalConstMem = 64 << 10, p->memPitch = 2147483647,
    p->major = gridstride::architecture / 100, p->minor = 0, p->warpSize = 32,
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 2147483647, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536, p->multiProcessorCount = is_blackwell ? 148 : 132,
    p->maxThreadsPerMultiProcessor = 2048, p->maxBlocksPerMultiProcessor = 32;
    p->clockRate = 1980000, p->memoryClockRate = 2619000, p->memoryBusWidth = 5120, p->l2CacheSize = 50 << 20;
    p->concurrentKernels = p->canMapHostMemory = p->unifiedAddressing = p->managedMemory = p->cooperativeLaunch = 1,
    p->asyncEngineCount = 3, p->concurrentManagedAccess = p->streamPrioritiesSupported = p->memoryPoolsSupported = 1;
    p->memoryPoolSupportedHandleTypes = 1;                 // file descriptors
    p->deviceOverlap = p->globalL1CacheSupported = p->localL1CacheSupported = p->hostRegisterSupported = 1;
    p->computePreemptionSupported = p->clusterLaunch = p->unifiedFunctionPointers = 1;
    p->persistingL2CacheMaxSize = 32 << 20, p->accessPolicyMaxWindowSize = 128 << 20;
    gridstride::set_texture_limits(*p);
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
#define X(name, number, value) cudaDevAttr##name = number,
enum cudaDeviceAttr { GRIDSTRIDE_DEVICE_ATTRIBUTES(X) };
#undef X
inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp p;
    if (cudaError_t e = cudaGetDeviceProperties(&p, device)) return e;
    switch (attribute) {
#define X(name, number, attribute_value) case cudaDevAttr##name: *value = int(attribute_value); break;
        GRIDSTRIDE_DEVICE_ATTRIBUTES(X)
#undef X
        default: return gridstride::record_error(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() {
    gridstride::wait_for_device();
    gridstride::host_waits_for_device(gridstride::current_device());
    return cudaError_t(gridstride::error_after_waiting());
}
inline cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
inline cudaError_t cudaDeviceReset() { gridstride::host_waits(); gridstride::device_reset(); return cudaSuccess; }
inline cudaError_t cudaThreadExit() { return cudaDeviceReset(); }
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
// The default limits of a GPU, which are not enforced here
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
    snprintf(id, size_t(bytes), "0000:%02x:00.0", device);
    return gridstride::success_if(gridstride::is_device_index(device), cudaErrorInvalidDevice);
}
