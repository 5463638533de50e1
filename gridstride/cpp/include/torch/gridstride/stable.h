// torch's stable ABI: the same tensors and functions under the names of that ABI
#pragma once
#include "tensor.h"

#define STD_TORCH_CHECK(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define AOTI_TORCH_SUCCESS 0
#define AOTI_TORCH_FAILURE 1
#define TORCH_ERROR_CODE_CHECK(...) TORCH_CHECK((__VA_ARGS__) == AOTI_TORCH_SUCCESS, #__VA_ARGS__ " failed")
#define STABLE_TORCH_ERROR_CODE_CHECK(...) TORCH_ERROR_CODE_CHECK(__VA_ARGS__)
#define TORCH_BOX(function) function
#define STABLE_TORCH_LIBRARY(name, m) TORCH_LIBRARY(name, m)
#define STABLE_TORCH_LIBRARY_FRAGMENT(name, m) TORCH_LIBRARY_FRAGMENT(name, m)
#define STABLE_TORCH_LIBRARY_IMPL(name, key, m) TORCH_LIBRARY_IMPL(name, key, m)

using AOTITorchError = int32_t;

#if defined(__CUDACC__) || defined(GRIDSTRIDE_EMULATOR)
inline AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device, void **stream) {
    *stream = torch::cuda::getCurrentCUDAStream(torch::DeviceIndex(device)).stream();
    return AOTI_TORCH_SUCCESS;
}
#endif

namespace torch {
namespace headeronly {
using torch::ScalarType;
using torch::DeviceType;
using IntHeaderOnlyArrayRef = torch::IntArrayRef;
}
namespace stable {
using torch::Device;
using torch::ScalarType;
using torch::Tensor;
using IntHeaderOnlyArrayRef = torch::IntArrayRef;

#if defined(__CUDACC__) || defined(GRIDSTRIDE_EMULATOR)
namespace accelerator {
using DeviceIndex = int32_t;
#pragma GCC visibility push(hidden)   // as its base class
struct DeviceGuard : torch::cuda::CUDAGuard {
    explicit DeviceGuard(DeviceIndex device) : CUDAGuard(torch::DeviceIndex(device)) {}
};
#pragma GCC visibility pop
inline DeviceIndex getCurrentDeviceIndex() { return torch::cuda::current_device(); }
}
#endif

// Using-declarations, not wrappers: an unqualified call would find the function and its wrapper.
using torch::clone;
using torch::empty_like;
using torch::matmul;
using torch::transpose;

inline Tensor new_empty(const Tensor &x, IntArrayRef sizes, std::optional<ScalarType> type = {}) {
    return torch::empty(sizes, x.options().dtype(type.value_or(x.scalar_type())));
}
inline Tensor new_zeros(const Tensor &x, IntArrayRef sizes, std::optional<ScalarType> type = {}) {
    return torch::zeros(sizes, x.options().dtype(type.value_or(x.scalar_type())));
}
inline Tensor contiguous(const Tensor &x) { return x.contiguous(); }
inline Tensor &zero_(Tensor &x) { x.zero_(); return x; }
inline Tensor &copy_(Tensor &x, const Tensor &from) { x.copy_(from); return x; }
inline Tensor select(const Tensor &x, int64_t dim, int64_t index) { return x.select(dim, index); }
inline Tensor narrow(const Tensor &x, int64_t dim, int64_t start, int64_t length) {
    return x.narrow(dim, start, length);
}
inline Tensor reshape(const Tensor &x, IntArrayRef sizes) { return x.reshape(sizes); }
inline Tensor view(const Tensor &x, IntArrayRef sizes) { return x.view(sizes); }
}
}
