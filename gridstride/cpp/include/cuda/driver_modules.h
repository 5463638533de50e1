// Contexts, modules, memory and launches of the driver API. A module is a file that `gridstride nvcc -fatbin` writes;
// real GPU code is CUDA_ERROR_INVALID_IMAGE. Each function calls the runtime API, whose names its findings have.
#pragma once
#include <fstream>
#include <sstream>
#include <string>
#include <vector>
#include "cuda.h"

enum CUcomputemode { CU_COMPUTEMODE_DEFAULT = 0, CU_COMPUTEMODE_PROHIBITED = 2, CU_COMPUTEMODE_EXCLUSIVE_PROCESS = 3 };
enum CUctx_flags { CU_CTX_SCHED_AUTO = 0, CU_CTX_SCHED_SPIN = 1, CU_CTX_SCHED_YIELD = 2, CU_CTX_SCHED_BLOCKING_SYNC = 4,
    CU_CTX_MAP_HOST = 8 };
enum CUstream_flags { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum CUevent_flags { CU_EVENT_DEFAULT = 0, CU_EVENT_BLOCKING_SYNC = 1, CU_EVENT_DISABLE_TIMING = 2 };
enum CUjit_option { CU_JIT_MAX_REGISTERS, CU_JIT_THREADS_PER_BLOCK, CU_JIT_WALL_TIME, CU_JIT_INFO_LOG_BUFFER,
    CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    CU_JIT_OPTIMIZATION_LEVEL, CU_JIT_TARGET_FROM_CUCONTEXT, CU_JIT_TARGET, CU_JIT_FALLBACK_STRATEGY,
    CU_JIT_GENERATE_DEBUG_INFO, CU_JIT_LOG_VERBOSE, CU_JIT_GENERATE_LINE_INFO, CU_JIT_CACHE_MODE };
enum CUjitInputType { CU_JIT_INPUT_CUBIN, CU_JIT_INPUT_PTX, CU_JIT_INPUT_FATBINARY, CU_JIT_INPUT_OBJECT,
    CU_JIT_INPUT_LIBRARY };
enum CUfunction_attribute { CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
    CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, CU_FUNC_ATTRIBUTE_NUM_REGS,
    CU_FUNC_ATTRIBUTE_PTX_VERSION, CU_FUNC_ATTRIBUTE_BINARY_VERSION, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT };
struct CUctxCreateParams { void *execAffinityParams; int numExecAffinityParams; void *cigParams; };
struct CUuuid { char bytes[16]; };
typedef struct GridstrideContext { int device; } *CUcontext;
typedef struct GridstrideModule { gridstride::LoadedModule *loaded; } *CUmodule;
typedef const gridstride::ModuleKernel *CUfunction;
typedef struct GridstrideLink { std::string image; } *CUlinkState;
typedef cudaHostFn_t CUhostFn;
typedef size_t (*CUoccupancyB2DSize)(int threads);
#define CU_LAUNCH_PARAM_END (reinterpret_cast<void *>(0))
#define CU_LAUNCH_PARAM_BUFFER_POINTER (reinterpret_cast<void *>(1))
#define CU_LAUNCH_PARAM_BUFFER_SIZE (reinterpret_cast<void *>(2))
#define GRIDSTRIDE_LINE int line = __builtin_LINE()

namespace gridstride {
// Most errors have the same code in both APIs.
inline CUresult driver_result(cudaError_t error) { return CUresult(error); }
inline std::vector<CUcontext> &context_stack() {
    static thread_local std::vector<CUcontext> stack;
    return stack;
}
inline CUresult select_current_context() {
    const auto &stack = context_stack();
    return stack.empty() || !stack.back() ? CUDA_SUCCESS : driver_result(cudaSetDevice(stack.back()->device));
}
inline void *address_of(CUdeviceptr p) { return reinterpret_cast<void *>(p); }
// Returns the addresses of parameters that are packed into one buffer.
inline std::vector<void *> unpack_parameters(const ModuleKernel &kernel, char *buffer) {
    std::vector<void *> addresses;
    size_t offset = 0;
    for (const ParameterLayout *p = kernel.parameters; p->bytes; p++) {
        offset = (offset + p->alignment - 1) / p->alignment * p->alignment;
        addresses.push_back(buffer + offset);
        offset += p->bytes;
    }
    return addresses;
}
inline bool read_file(const char *path, std::string &contents) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return contents = text.str(), bool(file);
}
inline char *buffer_of(void **extra) {
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2)
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) return static_cast<char *>(extra[1]);
    return nullptr;
}
}

inline CUresult cuDriverGetVersion(int *version) { return *version = CUDA_VERSION, CUDA_SUCCESS; }
inline CUresult cuDeviceGetName(char *name, int n, CUdevice device) {
    cudaDeviceProp p;
    if (const cudaError_t e = cudaGetDeviceProperties(&p, device)) return gridstride::driver_result(e);
    if (n > 0) snprintf(name, size_t(n), "%s", p.name);
    return CUDA_SUCCESS;
}
inline CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
    cudaDeviceProp p;
    const cudaError_t e = cudaGetDeviceProperties(&p, device);
    return *bytes = e ? 0 : p.totalGlobalMem, gridstride::driver_result(e);
}
inline CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    return gridstride::driver_result(cudaDeviceCanAccessPeer(can, device, peer));
}

// Contexts
inline CUresult cuCtxPushCurrent(CUcontext context) {
    return gridstride::context_stack().push_back(context), gridstride::select_current_context();
}
inline CUresult cuCtxPopCurrent(CUcontext *context) {
    auto &stack = gridstride::context_stack();
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context) *context = stack.back();
    return stack.pop_back(), gridstride::select_current_context();
}
inline CUresult cuCtxSetCurrent(CUcontext context) {
    auto &stack = gridstride::context_stack();
    if (!stack.empty()) stack.pop_back();
    return context ? cuCtxPushCurrent(context) : CUDA_SUCCESS;
}
inline CUresult cuCtxGetCurrent(CUcontext *context) {
    const auto &stack = gridstride::context_stack();
    return *context = stack.empty() ? nullptr : stack.back(), CUDA_SUCCESS;
}
inline CUresult cuCtxGetDevice(CUdevice *device) {
    const auto &stack = gridstride::context_stack();
    // without a context of its own, the thread has that of the runtime's device
    return stack.empty() ? gridstride::driver_result(cudaGetDevice(device))
                         : (*device = stack.back()->device, CUDA_SUCCESS);
}
inline CUresult cuCtxCreate(CUcontext *context, unsigned, CUdevice device) {
    return *context = new GridstrideContext{device}, cuCtxPushCurrent(*context);
}
inline CUresult cuCtxCreate(CUcontext *context, CUctxCreateParams *, unsigned flags, CUdevice device) {
    return cuCtxCreate(context, flags, device);
}
inline CUresult cuCtxDestroy(CUcontext context) {
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    auto &stack = gridstride::context_stack();
    for (size_t i = stack.size(); i--;)
        if (stack[i] == context) stack.erase(stack.begin() + long(i));
    delete context;
    return gridstride::select_current_context();
}
inline CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    static GridstrideContext primary[8] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
    if (device < 0 || device > 7) return CUDA_ERROR_INVALID_DEVICE;
    return *context = &primary[device], CUDA_SUCCESS;
}
inline CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
inline CUresult cuCtxSynchronize() { return gridstride::driver_result(cudaDeviceSynchronize()); }
inline CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    return gridstride::driver_result(cudaDeviceEnablePeerAccess(peer->device, flags));
}

// Modules
inline CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    gridstride::LoadedModule *loaded = gridstride::load_module(image);
    if (!loaded) return CUDA_ERROR_INVALID_IMAGE;
    return *module = new GridstrideModule{loaded}, CUDA_SUCCESS;
}
inline CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned, CUjit_option *, void **) {
    return cuModuleLoadData(module, image);
}
inline CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) { return cuModuleLoadData(module, image); }
inline CUresult cuModuleLoad(CUmodule *module, const char *path) {
    std::string image;
    if (!gridstride::read_file(path, image)) return CUDA_ERROR_FILE_NOT_FOUND;
    return cuModuleLoadData(module, image.c_str());
}
inline CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    *function = gridstride::find_kernel(module->loaded, name);
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
inline CUresult cuModuleGetGlobal(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
    size_t size = 0;
    void *p = gridstride::find_variable(module->loaded, name, &size);
    if (address) *address = reinterpret_cast<CUdeviceptr>(p);
    if (bytes) *bytes = size;
    return p ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
// The linker: it returns its input, because a module is complete; there can be only one
inline CUresult cuLinkCreate(unsigned n, CUjit_option *options, void **values, CUlinkState *link) {
    for (unsigned i = 0; i < n; i++)
        if (options[i] == CU_JIT_INFO_LOG_BUFFER || options[i] == CU_JIT_ERROR_LOG_BUFFER)
            *static_cast<char *>(values[i]) = 0;
    return *link = new GridstrideLink, CUDA_SUCCESS;
}
inline CUresult cuLinkAddData(CUlinkState link, CUjitInputType, void *data, size_t bytes, const char *, unsigned,
    CUjit_option *, void **) {
    const size_t size = gridstride::size_of_module(data);
    if (!size || size > bytes) return CUDA_ERROR_INVALID_IMAGE;
    if (!link->image.empty()) return CUDA_ERROR_NOT_SUPPORTED;
    return link->image.assign(static_cast<const char *>(data), size), CUDA_SUCCESS;
}
inline CUresult cuLinkAddFile(CUlinkState link, CUjitInputType type, const char *path, unsigned n,
    CUjit_option *options, void **values) {
    std::string image;
    if (!gridstride::read_file(path, image)) return CUDA_ERROR_FILE_NOT_FOUND;
    return cuLinkAddData(link, type, &image[0], image.size(), path, n, options, values);
}
inline CUresult cuLinkComplete(CUlinkState link, void **image, size_t *bytes) {
    if (link->image.empty()) return CUDA_ERROR_INVALID_VALUE;
    return *image = &link->image[0], *bytes = link->image.size(), CUDA_SUCCESS;
}
inline CUresult cuLinkDestroy(CUlinkState link) { return delete link, CUDA_SUCCESS; }
inline CUresult cuModuleUnload(CUmodule module) { return delete module, CUDA_SUCCESS; }

// Kernels
inline CUresult cuLaunchKernel(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
    unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **parameters, void **extra,
    GRIDSTRIDE_LINE) {
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    std::vector<void *> unpacked;
    if (!parameters && extra) unpacked = gridstride::unpack_parameters(*f, gridstride::buffer_of(extra));
    const dim3 grid(grid_x, grid_y, grid_z), block(block_x, block_y, block_z);
    f->launch(gridstride::Config(grid, block, shared, stream), f->name, line, parameters ? parameters
        : unpacked.data());
    return gridstride::driver_result(cudaPeekAtLastError());
}
inline CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value) {
    const bool is_limit = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    if (is_limit) gridstride::max_dynamic_shared_of(f->name) = size_t(value);
    return CUDA_SUCCESS;
}
inline CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f) {
    const bool is_limit = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    *value = is_limit ? int(gridstride::max_dynamic_shared_of(f->name)) : attribute ? 0 : 1024;
    return CUDA_SUCCESS;
}
inline CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction, int threads, size_t shared) {
    return gridstride::driver_result(gridstride::max_blocks(n, threads, shared));
}
inline CUresult cuOccupancyMaxPotentialBlockSize(
    int *grid, int *block, CUfunction, CUoccupancyB2DSize bytes, size_t shared, int limit) {
    if (bytes) shared = bytes(limit && limit < 1024 ? limit : 1024);
    return gridstride::driver_result(gridstride::choose_block_size(grid, block, shared, limit));
}

// Memory
inline CUresult cuMemAlloc(CUdeviceptr *p, size_t bytes, GRIDSTRIDE_LINE) {
    return gridstride::driver_result(cudaMalloc(reinterpret_cast<void **>(p), bytes, line));
}
inline CUresult cuMemFree(CUdeviceptr p) { return gridstride::driver_result(cudaFree(gridstride::address_of(p))); }
inline CUresult cuMemAllocHost(void **p, size_t bytes) { return gridstride::driver_result(cudaMallocHost(p, bytes)); }
inline CUresult cuMemFreeHost(void *p) { return gridstride::driver_result(cudaFreeHost(p)); }
inline CUresult cuMemAllocManaged(CUdeviceptr *p, size_t bytes, unsigned) {
    return gridstride::driver_result(cudaMallocManaged(reinterpret_cast<void **>(p), bytes));
}
inline CUresult cuMemGetInfo(size_t *available, size_t *total) {
    return gridstride::driver_result(cudaMemGetInfo(available, total));
}
#define GRIDSTRIDE_DRIVER_COPY(name, To, From, to, from, kind) \
    inline CUresult name(To to_pointer, From from_pointer, size_t bytes, GRIDSTRIDE_LINE) { \
        return gridstride::driver_result(cudaMemcpy(to, from, bytes, kind, line)); \
    } \
    inline CUresult name##Async(To to_pointer, From from_pointer, size_t bytes, CUstream stream, GRIDSTRIDE_LINE) { \
        return gridstride::driver_result(cudaMemcpyAsync(to, from, bytes, kind, stream, line)); \
    }
GRIDSTRIDE_DRIVER_COPY(cuMemcpyHtoD, CUdeviceptr, const void *, gridstride::address_of(to_pointer), from_pointer,
    cudaMemcpyHostToDevice)
GRIDSTRIDE_DRIVER_COPY(cuMemcpyDtoH, void *, CUdeviceptr, to_pointer, gridstride::address_of(from_pointer),
    cudaMemcpyDeviceToHost)
GRIDSTRIDE_DRIVER_COPY(cuMemcpyDtoD, CUdeviceptr, CUdeviceptr, gridstride::address_of(to_pointer),
    gridstride::address_of(from_pointer), cudaMemcpyDeviceToDevice)
#undef GRIDSTRIDE_DRIVER_COPY
inline CUresult cuMemsetD8(CUdeviceptr p, unsigned char value, size_t n) {
    return gridstride::driver_result(cudaMemset(gridstride::address_of(p), value, n));
}
inline CUresult cuMemsetD32(CUdeviceptr p, unsigned value, size_t n) {
    const std::vector<unsigned> values(n, value);
    return cuMemcpyHtoD(p, values.data(), n * sizeof value);
}

// Streams and events
inline CUresult cuStreamCreate(CUstream *s, unsigned flags, GRIDSTRIDE_LINE) {
    return gridstride::driver_result(cudaStreamCreateWithFlags(s, flags, line));
}
inline CUresult cuStreamDestroy(CUstream s) { return gridstride::driver_result(cudaStreamDestroy(s)); }
inline CUresult cuStreamSynchronize(CUstream s) { return gridstride::driver_result(cudaStreamSynchronize(s)); }
inline CUresult cuStreamQuery(CUstream s) { return gridstride::driver_result(cudaStreamQuery(s)); }
inline CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
    return gridstride::driver_result(cudaStreamWaitEvent(s, e, flags));
}
inline CUresult cuLaunchHostFunc(CUstream s, CUhostFn f, void *data, GRIDSTRIDE_LINE) {
    return gridstride::driver_result(cudaLaunchHostFunc(s, f, data, line));
}
inline CUresult cuEventCreate(CUevent *e, unsigned flags) {
    return gridstride::driver_result(cudaEventCreateWithFlags(e, flags));
}
inline CUresult cuEventDestroy(CUevent e) { return gridstride::driver_result(cudaEventDestroy(e)); }
inline CUresult cuEventRecord(CUevent e, CUstream s) { return gridstride::driver_result(cudaEventRecord(e, s)); }
inline CUresult cuEventSynchronize(CUevent e) { return gridstride::driver_result(cudaEventSynchronize(e)); }
inline CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to) {
    return gridstride::driver_result(cudaEventElapsedTime(ms, from, to));
}
#undef GRIDSTRIDE_LINE
