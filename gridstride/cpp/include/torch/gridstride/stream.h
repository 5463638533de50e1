// Streams, devices, and checks of the results of CUDA functions
#pragma once
#include <cuda_runtime.h>
#include "tensor_class.h"

#define C10_CUDA_CHECK(...) \
    do { \
        const cudaError_t gs_error = (__VA_ARGS__); \
        if (gs_error != cudaSuccess) { \
            cudaGetLastError(); \
            ::gridstride::bindings::fail( \
                ::gridstride::bindings::runtime_error, ::torch::str("CUDA error: ", cudaGetErrorString(gs_error))); \
        } \
    } while (0)
#ifdef GRIDSTRIDE_EMULATOR
#define C10_CUDA_KERNEL_LAUNCH_CHECK() \
    do { \
        if (::gridstride::is_launch_rejected()) throw ::gridstride::LaunchStopped(); \
        C10_CUDA_CHECK(cudaGetLastError()); \
    } while (0)
#else
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#endif
#define C10_CUDA_CHECK_WARN(...) C10_CUDA_CHECK(__VA_ARGS__)
#define AT_CUDA_CHECK(...) C10_CUDA_CHECK(__VA_ARGS__)
#define TORCH_CUDA_CHECK(...) C10_CUDA_CHECK(__VA_ARGS__)

namespace torch {
namespace cuda {

inline DeviceIndex current_device() { int d = 0; C10_CUDA_CHECK(cudaGetDevice(&d)); return DeviceIndex(d); }
inline DeviceIndex device_count() {
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess ? DeviceIndex(n) : DeviceIndex(0);
}
inline bool is_available() { return device_count() > 0; }
inline void set_device(DeviceIndex d) { C10_CUDA_CHECK(cudaSetDevice(d)); }
inline void synchronize(DeviceIndex = -1) { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
inline void device_synchronize() { synchronize(); }
inline cudaDeviceProp *getCurrentDeviceProperties() {
    static cudaDeviceProp properties;
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, current_device()));
    return &properties;
}

class CUDAStream {
    cudaStream_t s;
    DeviceIndex d;
public:
    CUDAStream(cudaStream_t s, DeviceIndex d) : s(s), d(d) {}
    cudaStream_t stream() const { return s; }
    operator cudaStream_t() const { return s; }
    DeviceIndex device_index() const { return d; }
    Device device() const { return Device(kCUDA, d); }
    bool query() const { return cudaStreamQuery(s) == cudaSuccess; }
    void synchronize() const { C10_CUDA_CHECK(cudaStreamSynchronize(s)); }
};
inline CUDAStream getCurrentCUDAStream(DeviceIndex d = -1) {
    using namespace ::gridstride::bindings;
    if (d < 0) d = current_device();
    const gs_call *call = current();
    void *s = call && call->device == d
        ? call->stream : reinterpret_cast<void *>(call_python_for<int64_t>("stream", {int(d)}));
    return CUDAStream(static_cast<cudaStream_t>(s), d);
}
inline CUDAStream getDefaultCUDAStream(DeviceIndex d = -1) { return CUDAStream(nullptr, d < 0 ? current_device() : d); }

class CUDAGuard {                     // makes another device current until the end of the scope
    DeviceIndex previous = current_device();
public:
    explicit CUDAGuard(DeviceIndex d) { set_index(d); }
    explicit CUDAGuard(Device d) { set_device(d); }
    CUDAGuard(const CUDAGuard &) = delete;
    ~CUDAGuard() { cudaSetDevice(previous); }
    void set_index(DeviceIndex d) { if (d >= 0) cuda::set_device(d); }
    void set_device(Device d) { set_index(d.index()); }
    void reset_device(Device d) { set_device(d); }
};
class OptionalCUDAGuard {
    std::optional<CUDAGuard> guard;
public:
    OptionalCUDAGuard() = default;
    explicit OptionalCUDAGuard(Device d) { set_device(d); }
    explicit OptionalCUDAGuard(std::optional<Device> d) { if (d) set_device(*d); }
    explicit OptionalCUDAGuard(DeviceIndex d) { set_index(d); }
    void set_device(Device d) { if (d.is_cuda()) set_index(d.index()); }
    void set_index(DeviceIndex d) { guard.emplace(d); }
    void reset() { guard.reset(); }
};
class CUDAStreamGuard {               // makes another stream current until the end of the scope
    gs_call *call = ::gridstride::bindings::current();
    void *previous = call ? call->stream : nullptr;
public:
    explicit CUDAStreamGuard(CUDAStream s) { if (call) call->stream = s.stream(); }
    CUDAStreamGuard(const CUDAStreamGuard &) = delete;
    ~CUDAStreamGuard() { if (call) call->stream = previous; }
};
}
using DeviceGuard = cuda::OptionalCUDAGuard;
inline Device device_of(const Tensor &t) { return t.device(); }
}
