// GRIDSTRIDE_KERNEL(k) exports the kernel k to Python, on the emulator. The runtime interprets a description of its
// parameters (../../../runtime/kernels.cpp), so that little is compiled per kernel, and a source that does not use
// torch or the standard library does not need their headers.
#pragma once
#include <emulator.h>
#include "call.h"
#include "dtypes.h"
#pragma GCC visibility push(hidden)   // because two libraries in one process must not share these functions

namespace gridstride {
namespace bindings {

// The arguments that a parameter accepts. `array`: a tensor or None; `string`: also a string; `bytes`: a struct by
// value
enum class ParameterKind : uint8_t { unsupported, array, string, boolean, integer, floating_point, bytes };

struct Parameter {
    ParameterKind kind;
    bool is_signed;
    torch::ScalarType type;           // the type of the scalar, or of the array's elements
    size_t bytes, alignment;
    size_t itemsize;                  // the size of an element
};

template <class T> constexpr ParameterKind parameter_kind() {
    if constexpr (std::is_same_v<T, const char *>) return ParameterKind::string;
    else if constexpr (std::is_pointer_v<T>) {
        using Item = std::remove_pointer_t<T>;
        return std::is_function_v<Item> ? ParameterKind::unsupported : ParameterKind::array;
    } else if constexpr (std::is_same_v<T, bool>) return ParameterKind::boolean;
    else if constexpr (std::is_integral_v<T>) return ParameterKind::integer;
    else if constexpr (std::is_floating_point_v<T> || is_sixteen_bits<T>) return ParameterKind::floating_point;
    else
        return std::is_class_v<T> && std::is_trivially_copyable_v<T> ? ParameterKind::bytes
                                                                     : ParameterKind::unsupported;
}
template <class T> constexpr size_t itemsize() {
    using Item = std::remove_pointer_t<T>;
    if constexpr (!std::is_pointer_v<T> || std::is_function_v<Item>) return 0;
    else if constexpr (std::is_void_v<Item>) return 1;
    else return sizeof(Item);
}
// The type of an array's elements; a table of addresses is an array of 64-bit integers.
template <class T> constexpr torch::ScalarType element_type() {
    using Item = std::remove_const_t<std::remove_pointer_t<T>>;
    if constexpr (std::is_pointer_v<T> && std::is_pointer_v<Item>) return torch::kLong;
    else return torch::dtype_of<Item>;
}
template <class T> constexpr Parameter parameter() {
    return {parameter_kind<T>(), std::is_signed_v<T>, element_type<T>(),
        sizeof(T), alignof(T), itemsize<T>()};
}

struct KernelDescription {             // an exported kernel
    const char *name;
    size_t &shared_limit;             // the limit of its dynamic shared memory, in bytes
    bool &allows_large_clusters;      // whether its clusters may have 16 blocks, not just 8
    const Parameter *parameters;
    int num_parameters;
    void (*run_thread)(void *addresses);   // runs one thread of the kernel; addresses: of the arguments
    bool (*prepare)();                // called before the launch, in the calling OS thread
};
GRIDSTRIDE_BINDING int64_t launch_exported(gs_call *call, const KernelDescription &kernel);

// K is a struct with the kernel and its name.
template <class K, class... A, size_t... i>
GRIDSTRIDE_NO_TSAN void run_thread([[maybe_unused]] void *const *addresses, std::index_sequence<i...>) {
    K::kernel()(*static_cast<std::remove_const_t<A> *>(addresses[i])...);
}
template <class K, class... A> struct Launcher {
    GRIDSTRIDE_NO_TSAN static void thread(void *addresses) {
        run_thread<K, A...>(static_cast<void *const *>(addresses), std::index_sequence_for<A...>());
    }
    static int64_t call(gs_call *c) {
        static constexpr Parameter parameters[] = {parameter<A>()..., {}};
        size_t &shared_limit = max_dynamic_shared_of(K::name());
        bool &large_clusters = allows_large_clusters(K::name());
        return launch_exported(
            c, {K::name(), shared_limit, large_clusters, parameters, int(sizeof...(A)), thread, begin_worker});
    }
};
struct ExportedKernel : Exported {
    template <class K, class... A>
    ExportedKernel(const char *name, void (*)(A...), K)
        : Exported{name, Launcher<K, A...>::call, ::gridstride::bindings::types<void(A...)>, true, exports} {
        exports = this;
    }
    ExportedKernel(const ExportedKernel &) = delete;
};
}
}
#pragma GCC visibility pop

#define GRIDSTRIDE_KERNEL_AS(id, ...) \
    namespace { \
    struct gs_kernel_##id { \
        static const char *name() { return #__VA_ARGS__; } \
        static constexpr auto kernel() { return __VA_ARGS__; } \
    }; \
    } \
    static const ::gridstride::bindings::ExportedKernel gs_export_kernel_##id(#id, __VA_ARGS__, gs_kernel_##id());
#define GRIDSTRIDE_KERNEL(name) GRIDSTRIDE_KERNEL_AS(name, name)
