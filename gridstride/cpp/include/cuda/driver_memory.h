// Virtual memory management and devices of the driver API. The memory of a reservation is allocated with the
// reservation, so a handle has only a size, and can be mapped only once at a time. Handles for other processes and
// multicast objects are not supported.
#pragma once
#include <unordered_map>
#include "cuda.h"

enum CUmemAllocationHandleType {
    CU_MEM_HANDLE_TYPE_NONE = 0,
    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
    CU_MEM_HANDLE_TYPE_FABRIC = 8
};
enum CUmemAllocationType { CU_MEM_ALLOCATION_TYPE_INVALID = 0, CU_MEM_ALLOCATION_TYPE_PINNED = 1 };
enum CUmemLocationType { CU_MEM_LOCATION_TYPE_INVALID = 0, CU_MEM_LOCATION_TYPE_DEVICE = 1 };
enum CUmemAllocationCompType { CU_MEM_ALLOCATION_COMP_NONE = 0, CU_MEM_ALLOCATION_COMP_GENERIC = 1 };
enum CUmemAccess_flags {
    CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
    CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3
};
enum CUmemAllocationGranularity_flags {
    CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
    CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1
};
enum CUmulticastGranularity_flags {
    CU_MULTICAST_GRANULARITY_MINIMUM = 0,
    CU_MULTICAST_GRANULARITY_RECOMMENDED = 1
};
enum CUdevice_attribute {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9,
    CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
    CU_DEVICE_ATTRIBUTE_MAX_PITCH = 11,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
    CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT = 14,
    CU_DEVICE_ATTRIBUTE_GPU_OVERLAP = 15,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT = 17,
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
    CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
    CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS = 31,
    CU_DEVICE_ATTRIBUTE_ECC_ENABLED = 32,
    CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
    CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
    CU_DEVICE_ATTRIBUTE_TCC_DRIVER = 35,
    CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
    CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED = 78,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
    CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
    CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED = 86,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,
    CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED = 90,
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED = 99,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED = 102,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
    CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED = 107,
    CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
    CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH = 120,
    CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED = 132
};
struct CUmemLocation { CUmemLocationType type; int id; };
struct CUmemAllocationProp {
    CUmemAllocationType type;
    CUmemAllocationHandleType requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct { unsigned char compressionType, gpuDirectRDMACapable; unsigned short usage; } allocFlags;
};
struct CUmemAccessDesc { CUmemLocation location; CUmemAccess_flags flags; };
struct CUmulticastObjectProp { unsigned numDevices; size_t size; unsigned long long handleTypes, flags; };
typedef unsigned long long CUmemGenericAllocationHandle;

namespace gridstride {
struct PhysicalMemory {
    size_t size;
    CUdeviceptr mapped_at;  // 0: not mapped
    int references;
    CUmemAllocationProp properties;
};
inline PhysicalMemory *physical_memory(CUmemGenericAllocationHandle handle) {
    return reinterpret_cast<PhysicalMemory *>(handle);
}
// Returns the mapped memory by address; all translation units of a program share the map.
inline std::unordered_map<CUdeviceptr, PhysicalMemory *> &mapped_memory() {
    static std::unordered_map<CUdeviceptr, PhysicalMemory *> all;
    return all;
}
inline void release_physical_memory(PhysicalMemory *memory) {
    if (!--memory->references) delete memory;
}
constexpr size_t allocation_granularity = 2 << 20;
}

inline CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
inline CUresult cuDeviceGetCount(int *n) { return cudaGetDeviceCount(n) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS; }
inline CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    int n = 0;
    cuDeviceGetCount(&n);
    *device = ordinal;
    return ordinal < 0 || ordinal >= n ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}
inline CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: return *value = 0, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED:  // without effect
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: return *value = 1, CUDA_SUCCESS;
    default:  // the same values as in the runtime
        return cudaDeviceGetAttribute(value, cudaDeviceAttr(attribute), device) ? CUDA_ERROR_INVALID_VALUE
                                                                                : CUDA_SUCCESS;
    }
}
inline CUresult cuMemGetAllocationGranularity(
    size_t *bytes, const CUmemAllocationProp *, CUmemAllocationGranularity_flags) {
    return *bytes = gridstride::allocation_granularity, CUDA_SUCCESS;
}
inline CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties,
    unsigned long long) {
    *handle = 0;
    if (!size || size % gridstride::allocation_granularity) return CUDA_ERROR_INVALID_VALUE;
    *handle = reinterpret_cast<CUmemGenericAllocationHandle>(new gridstride::PhysicalMemory{size, 0, 1, *properties});
    return CUDA_SUCCESS;
}
inline CUresult cuMemGetAllocationPropertiesFromHandle(
    CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle) {
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    return *properties = gridstride::physical_memory(handle)->properties, CUDA_SUCCESS;
}
inline CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    gridstride::release_physical_memory(gridstride::physical_memory(handle));
    return CUDA_SUCCESS;
}
inline CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t, CUdeviceptr, unsigned long long) {
    void *memory = nullptr;
    *address = 0;
    if (!size || size % gridstride::allocation_granularity) return CUDA_ERROR_INVALID_VALUE;
    if (cudaMalloc(&memory, size)) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = reinterpret_cast<CUdeviceptr>(memory);
    return CUDA_SUCCESS;
}
inline CUresult cuMemAddressFree(CUdeviceptr address, size_t) {
    return cudaFree(reinterpret_cast<void *>(address)) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
inline CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
    unsigned long long) {
    auto *memory = gridstride::physical_memory(handle);
    if (!memory || offset || size != memory->size) return CUDA_ERROR_INVALID_VALUE;
    if (memory->mapped_at) return CUDA_ERROR_NOT_SUPPORTED;
    if (!gridstride::mapped_memory().emplace(address, memory).second) return CUDA_ERROR_INVALID_VALUE;
    memory->mapped_at = address;
    memory->references++;
    return CUDA_SUCCESS;
}
inline CUresult cuMemUnmap(CUdeviceptr address, size_t) {
    auto found = gridstride::mapped_memory().find(address);
    if (found == gridstride::mapped_memory().end()) return CUDA_ERROR_INVALID_VALUE;
    found->second->mapped_at = 0;
    gridstride::release_physical_memory(found->second);
    gridstride::mapped_memory().erase(found);
    return CUDA_SUCCESS;
}
inline CUresult cuMemSetAccess(CUdeviceptr address, size_t, const CUmemAccessDesc *, size_t) {
    return gridstride::mapped_memory().count(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
inline CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
    auto found = gridstride::mapped_memory().find(reinterpret_cast<CUdeviceptr>(address));
    if (found == gridstride::mapped_memory().end()) return CUDA_ERROR_INVALID_VALUE;
    found->second->references++;
    *handle = reinterpret_cast<CUmemGenericAllocationHandle>(found->second);
    return CUDA_SUCCESS;
}

inline CUresult cuMemExportToShareableHandle(
    void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
inline CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
inline CUresult cuMulticastGetGranularity(
    size_t *bytes, const CUmulticastObjectProp *, CUmulticastGranularity_flags) {
    return *bytes = gridstride::allocation_granularity, CUDA_SUCCESS;
}
inline CUresult cuMulticastCreate(CUmemGenericAllocationHandle *, const CUmulticastObjectProp *) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
inline CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle, CUdevice) { return CUDA_ERROR_NOT_SUPPORTED; }
inline CUresult cuMulticastBindMem(CUmemGenericAllocationHandle, size_t, CUmemGenericAllocationHandle, size_t, size_t,
    unsigned long long) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
inline CUresult cuMulticastUnbind(CUmemGenericAllocationHandle, CUdevice, size_t, size_t) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
