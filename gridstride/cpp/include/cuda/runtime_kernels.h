// Attributes and occupancy of a kernel, and cudaLaunchKernel with its variants
#pragma once
#include "emulator.h"
#include "runtime_errors.h"

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9,
    cudaFuncAttributeNonPortableClusterSizeAllowed = 14
};
enum { cudaSharedmemCarveoutDefault = -1, cudaSharedmemCarveoutMaxShared = 100, cudaSharedmemCarveoutMaxL1 = 0 };
struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, maxDynamicSharedSizeBytes;
};
namespace gridstride {
// Kernels by address, for launches through a `void *`. If a program has such launches, lint/callers.py makes each
// kernel refer to its `PackedKernel`, which registers the kernel when the module is loaded. A linked list, because a
// standard container would be instantiated in each source.
struct PackedLaunch {
    const void *kernel;
    const char *name;
    void (*launch)(const Config &, const char *name, int line, void **args);
    const PackedLaunch *next;
};
inline const PackedLaunch *packed_launches = nullptr;
inline const PackedLaunch *find_packed_launch(const void *kernel) {
    const PackedLaunch *packed = packed_launches;
    while (packed && packed->kernel != kernel) packed = packed->next;
    return packed;
}
template <class K> cudaError_t set_attribute(const char *kernel, K function, cudaFuncAttribute a, int value) {
    if (a == cudaFuncAttributeNonPortableClusterSizeAllowed) {
        allows_large_clusters(kernel) = value;
        if constexpr (std::is_pointer_v<K>)
            if (const PackedLaunch *packed = find_packed_launch(reinterpret_cast<const void *>(function)))
                allows_large_clusters(packed->name) = value;
        return cudaSuccess;
    }
    if (a != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || value > 227 << 10) return record_error(cudaErrorInvalidValue);
    max_dynamic_shared_of(kernel) = size_t(value);
    if constexpr (std::is_pointer_v<K>)
        if (const PackedLaunch *packed = find_packed_launch(reinterpret_cast<const void *>(function)))
            max_dynamic_shared_of(packed->name) = size_t(value);
    return cudaSuccess;
}
inline cudaError_t get_attributes(cudaFuncAttributes *p, const char *kernel) {
    *p = {0, 0, 0, 1024, 0, 90, 90, int(max_dynamic_shared_of(kernel))};
    return cudaSuccess;
}
// Stores the number of resident blocks per SM, limited by threads and shared memory; register use is unknown here.
inline cudaError_t max_blocks(int *n, int threads, size_t dynamic) {
    if (threads < 1 || threads > 1024) return record_error(cudaErrorInvalidValue);
    *n = resident_blocks_per_sm(threads, dynamic);
    return cudaSuccess;
}
inline cudaError_t choose_block_size(int *grid, int *block, size_t dynamic, int limit) {
    *block = limit && limit < 1024 ? limit : 1024;
    int n;
    max_blocks(&n, *block, dynamic);
    *grid = n * 132;
    return cudaSuccess;
}
}
#define cudaFuncSetAttribute(...) ::gridstride::set_attribute(GRIDSTRIDE_STRINGIFY(__VA_ARGS__), __VA_ARGS__)
#define cudaFuncGetAttributes(p, ...) ::gridstride::get_attributes(p, GRIDSTRIDE_STRINGIFY(__VA_ARGS__))
#define cudaFuncSetCacheConfig(kernel, config) ((void)(config), cudaSuccess)
template <class K> cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, K, int threads, size_t dynamic) {
    return gridstride::max_blocks(n, threads, dynamic);
}
template <class K>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int *grid, int *block, K, size_t dynamic = 0, int limit = 0) {
    return gridstride::choose_block_size(grid, block, dynamic, limit);
}
template <class K, class F>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *grid, int *block, K kernel, F bytes, int limit = 0) {
    const int max_threads = limit && limit < 1024 ? limit : 1024;
    return cudaOccupancyMaxPotentialBlockSize(grid, block, kernel, size_t(bytes(max_threads)), max_threads);
}
// cudaLaunchKernel and similar functions. The rewriter removes the cast to `void *`, so the kernel's type is known.
namespace gridstride {
template <class... P, size_t... i>
void launch_packed(const Config &config, const char *name, int line, void (*kernel)(P...), [[maybe_unused]] void **args,
    std::index_sequence<i...>) {
    launch(config, name, line, kernel, *static_cast<std::remove_reference_t<P> *>(args[i])...);
}
template <class Name, auto kernel> struct PackedKernel;
template <class Name, class... P, void (*kernel)(P...)> struct PackedKernel<Name, kernel> {
    static void launch(const Config &config, const char *name, int line, void **args) {
        launch_packed(config, name, line, kernel, args, std::index_sequence_for<P...>());
    }
    static inline PackedLaunch packed = {};
    static inline const bool is_registered =
        (packed = {reinterpret_cast<const void *>(kernel), Name::value(), launch, packed_launches},
            packed_launches = &packed);
    static const bool *at_load() { return &is_registered; }
};
// A kernel of a module that the driver API loads
template <class Name, auto kernel> struct KernelOfModule;
template <class Name, class... P, void (*kernel)(P...)> struct KernelOfModule<Name, kernel> {
    static constexpr ParameterLayout parameters[] = {{sizeof(P), alignof(P)}..., {0, 0}};
    static void launch(const Config &config, const char *name, int line, void **args) {
        launch_packed(config, name, line, kernel, args, std::index_sequence_for<P...>());
    }
    static constexpr ModuleKernel description() { return {Name::value(), launch, parameters}; }
};
inline cudaError_t launch_by_address(int line, const Config &config, const void *kernel, void **args) {
    const PackedLaunch *packed = find_packed_launch(kernel);
    if (!packed) return record_error(cudaErrorInvalidDeviceFunction);
    packed->launch(config, packed->name, line, args);
    return cudaPeekAtLastError();
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
    ::gridstride::launch_by_pointers(0, GRIDSTRIDE_STRINGIFY(__VA_ARGS__), __LINE__, __VA_ARGS__)
#define cudaLaunchCooperativeKernel(...) \
    ::gridstride::launch_by_pointers(1, GRIDSTRIDE_STRINGIFY(__VA_ARGS__), __LINE__, __VA_ARGS__)

#define GRIDSTRIDE_REGISTER_KERNEL(name, ...) \
    struct gs_name { static const char *value() { return name; } }; \
    (void)::gridstride::PackedKernel<gs_name, __VA_ARGS__>::at_load()

enum cudaLaunchAttributeID {
    cudaLaunchAttributeIgnore = 0,
    cudaLaunchAttributeAccessPolicyWindow = 1,
    cudaLaunchAttributeCooperative = 2,
    cudaLaunchAttributeClusterDimension = 4,
    cudaLaunchAttributeProgrammaticStreamSerialization = 6,
    cudaLaunchAttributePriority = 8,
    cudaLaunchAttributePreferredClusterDimension = 11
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
    struct { unsigned x, y, z; } clusterDim, preferredClusterDim;
};
struct cudaLaunchAttribute { cudaLaunchAttributeID id; cudaLaunchAttributeValue val; };
typedef cudaLaunchAttributeID cudaStreamAttrID;
typedef cudaLaunchAttributeValue cudaStreamAttrValue;
#define cudaStreamAttributeAccessPolicyWindow cudaLaunchAttributeAccessPolicyWindow
#define cudaStreamAttributePriority cudaLaunchAttributePriority
// Caches are not emulated, so cache hints have no effect.
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
inline Config config_of(const cudaLaunchConfig_t *c) {
    Config config(c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream);
    for (unsigned i = 0; i < c->numAttrs; i++) {
        const cudaLaunchAttributeValue &v = c->attrs[i].val;
        if (c->attrs[i].id == cudaLaunchAttributeClusterDimension)
            config.cluster = dim3(v.clusterDim.x, v.clusterDim.y, v.clusterDim.z);
        if (c->attrs[i].id == cudaLaunchAttributeCooperative) config.cooperative = v.cooperative != 0;
    }
    return config;
}
template <class... P, class... A>
cudaError_t launch_configured(
    const char *name, int line, const cudaLaunchConfig_t *c, void (*kernel)(P...), A &&...args) {
    launch(config_of(c), name, line, kernel, static_cast<P>(args)...);
    return cudaPeekAtLastError();
}
}
inline cudaError_t cudaLaunchKernelExC(
    const cudaLaunchConfig_t *config, const void *kernel, void **args, int line = __builtin_LINE()) {
    return gridstride::launch_by_address(line, gridstride::config_of(config), kernel, args);
}
#define cudaLaunchKernelEx(config, ...) \
    ::gridstride::launch_configured(GRIDSTRIDE_STRINGIFY(__VA_ARGS__), __LINE__, config, __VA_ARGS__)
