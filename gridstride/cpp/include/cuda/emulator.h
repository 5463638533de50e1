// The predefined names of CUDA C, for a C++ compiler; always included first. rewriters/rewrite.py rewrites launches and
// declarations of shared memory to calls of the functions below.
#pragma once
#define GRIDSTRIDE_EMULATOR 1

// To compile sources faster, templates should be instantiated while the headers are precompiled, and not again in each
// source. So <cmath> is included without its special functions (special_functions.h has them), <string> without the
// conversions of wide strings (wide_strings.h has them), and templates that ordinary functions call return `auto`, for
// whose deduction g++ must instantiate them immediately.
#include <cstddef>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#if defined(_GLIBCXX_RELEASE) && _GLIBCXX_RELEASE == 12
#include <cwchar>    // its functions remain
#undef _GLIBCXX_USE_C99_WCHAR
#endif

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <cstdio>    // these three would undefine macros below if they were included later
#include <cstdlib>
#include <ctime>
#include <limits>
#include <string.h>
#include <type_traits>
#include <utility>
#include "block_loops.h"
#include "capture.h"
#include "heap.h"
#include "loop_reads.h"
#include "runtime.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDACC_VER_BUILD__ 0
#define CUDA_VERSION 13000
#define CUDART_VERSION 13000
#define __CUDA_ARCH__ 900
#define __CUDA_ARCH_LIST__ 900
#define __CUDA_ARCH_FEAT_SM90_ALL 1

namespace gridstride {
// The value of __CUDA_ARCH__, from the macro GRIDSTRIDE_ARCH (toolchain/build.py)
[[maybe_unused]] static int architecture = __CUDA_ARCH__;
}

#define GRIDSTRIDE_STRINGIFY(...) #__VA_ARGS__
#define GRIDSTRIDE_NAME(...) GRIDSTRIDE_STRINGIFY(__VA_ARGS__)

// rewriters/launches.py rewrites `kernel<<<1, 32>>>(x)` to
// GRIDSTRIDE_LAUNCH(GRIDSTRIDE_CONFIG(1, 32), GRIDSTRIDE_KERNEL_CALL(kernel), x)
#define GRIDSTRIDE_LAUNCH ::gridstride::launch
#define GRIDSTRIDE_CONFIG ::gridstride::Config
#define GRIDSTRIDE_KERNEL_CALL(...) \
    GRIDSTRIDE_NAME(__VA_ARGS__), __LINE__, [=](auto... gs_a) GRIDSTRIDE_NO_TSAN { __VA_ARGS__(gs_a...); }

// The first statement of a kernel: reports a call without a launch, when the grid is empty.
#ifdef GRIDSTRIDE_CHECKED
#define GRIDSTRIDE_ENTRY(kernel) ::gridstride::enter_kernel(kernel)
#else
#define GRIDSTRIDE_ENTRY(kernel) if (__builtin_expect(!gridDim.x, 0)) ::gridstride::not_launched(kernel)
#endif

namespace gridstride {
// Returns its argument; Clang checks the alignment of what is bound to the reference (rewriters/struct_copies.py).
template <class T> __forceinline__ constexpr T &&aligned(T &&x) { return static_cast<T &&>(x); }

// Elements smaller than an address cannot contain one; but an array of bytes may be a workspace for any type.
template <class T> constexpr bool element_has_no_address() {
    return std::is_floating_point_v<T> || std::is_same_v<T, bool> || (sizeof(T) > 1 && sizeof(T) < sizeof(void *));
}
// An `unsigned long long` may be a texture object.
template <class T> bool has_no_address(const T &x) {
    if constexpr (std::is_integral_v<T> && sizeof(T) == 8 && !std::is_same_v<T, unsigned long long>)
        return uint64_t(x) < uint64_t(1) << 32;
    else return std::is_floating_point_v<T> || sizeof(T) < sizeof(void *);
}
template <class T> Arg make_arg(const T &x) {
    // a tensor map contains the address of its array
    if constexpr (std::is_class_v<T> && sizeof(T) == sizeof(TensorMap) && std::is_trivially_copyable_v<T>) {
        TensorMap map;
        __builtin_memcpy(&map, &x, sizeof map);
        if (is_tensor_map(map)) return {map.base, size_t(map.itemsize)};
    }
    return {nullptr, 0, has_no_address(x)};
}
template <class T> Arg make_arg(T *const &p) {
    return {const_cast<const void *>(static_cast<const volatile void *>(p)), sizeof(T),
        element_has_no_address<std::remove_cv_t<T>>()};
}
template <class R, class... A> Arg make_arg(R (*const &)(A...)) { return {nullptr, 0, true}; }
inline Arg make_arg(void *const &p) { return {p, 1}; }
inline Arg make_arg(const void *const &p) { return {p, 1}; }

template <class T> GRIDSTRIDE_NO_TSAN void pass_to_device([[maybe_unused]] T &x) {
    if constexpr (sizeof(T) >= sizeof(void *) && (std::is_pointer_v<T> || std::is_class_v<T>) &&
                  std::is_trivially_copyable_v<T>)
        hide_host_addresses(const_cast<void *>(static_cast<const volatile void *>(&x)), sizeof x, std::is_pointer_v<T>);
}

// Shared variables at file scope are thread-local references. Reading `has_worker` initializes all thread-local
// variables of the source in this OS thread before the kernel runs.
static thread_local const bool has_worker = make_worker();

static inline bool begin_worker() { return has_worker; }

template <class F> struct CallOf {
    GRIDSTRIDE_NO_TSAN static void thread(void *f) { (*static_cast<F *>(f))(); }
    static void copy(void *to, const void *f) { new (to) F(*static_cast<const F *>(f)); }
    static void destroy(void *f) { static_cast<F *>(f)->~F(); }
    static constexpr bool is_trivial = std::is_trivially_copyable_v<F>;
    static constexpr CallType type = {
        sizeof(F), alignof(F), thread, is_trivial ? nullptr : copy, is_trivial ? nullptr : destroy, begin_worker};
};
template <class F, class... A>
GRIDSTRIDE_NO_TSAN void launch(const Config &config, const char *kernel, int line, F kernel_call, A... args) {
    (pass_to_device(args), ...);
    const Arg list[sizeof...(A) + 1] = {make_arg(args)..., {nullptr, 0}};
    // not instrumented, because copying the arguments for a thread is not an access of the kernel
    auto call = [=]() GRIDSTRIDE_NO_TSAN { kernel_call(const_cast<A &>(args)...); };
    launch(config, {&CallOf<decltype(call)>::type, &call, kernel, line, list, int(sizeof...(A))});
}

// The type of a kernel's parameter, for an argument in braces, which has no type of its own
template <int i, class T, class... P> struct Nth : Nth<i - 1, P...> {};
template <class T, class... P> struct Nth<0, T, P...> { using type = std::remove_cv_t<T>; };
template <class F, int i> struct ParameterOf;
template <class... P, int i> struct ParameterOf<void (*)(P...), i> : Nth<i, P...> {};
template <class F, int i> using Parameter = typename ParameterOf<F, i>::type;
// The return type of a function that is only declared, to deduce the parameters of a template or an overloaded kernel
template <class... P> struct Parameters {};
template <class List, int i> struct ParameterIn;
template <class... P, int i> struct ParameterIn<Parameters<P...>, i> : Nth<i, std::decay_t<P>...> {};
template <class List, int i> using ParameterAt = typename ParameterIn<List, i>::type;

template <class T> constexpr Shape shape() {
    using Item = std::remove_all_extents_t<T>;
    return {std::extent_v<T> || !std::is_array_v<T>
                ? sizeof(std::conditional_t<std::is_array_v<T> && !std::extent_v<T>, Item, T>)
                : 0,
        sizeof(Item), int(std::rank_v<T>),
        {std::extent_v<T>, std::extent_v<T, 1>, std::extent_v<T, 2>, std::extent_v<T, 3>}};
}

// A constant, because otherwise each thread would fill in a shape, by instrumented writes.
template <class T, size_t alignment> constexpr Shape make_declared_shape() {
    Shape s = shape<T>();
    s.alignment = alignment > alignof(T) ? alignment : alignof(T), s.has_alignment = alignment != 0;
    return s;
}
template <class T, size_t alignment> inline constexpr Shape declared_shape = make_declared_shape<T, alignment>();

template <class T, int> struct Site { static inline const int index = shared_site(); };

template <class T, int counter, size_t alignment = 0> inline T &shared(const char *name) {
    return *static_cast<std::remove_cv_t<T> *>(
        shared_alloc(&Site<T, counter>::index, name, declared_shape<T, alignment>));
}
template <class T, int> T &file_shared(const char *name) {
    return *static_cast<std::remove_cv_t<T> *>(shared_at_file_scope(name, shape<T>()));
}
template <class T> inline T &dynamic_shared(const char *name) {
    return *reinterpret_cast<T *>(shared_dynamic(name, shape<T>()));
}
template <class T> T &symbol(T &init, const char *name, char kind, void **slot) {
    return *static_cast<T *>(symbol_alloc(const_cast<const void *>(static_cast<const volatile void *>(&init)),
        sizeof(T), sizeof(std::remove_all_extents_t<T>), name, kind, slot));
}
}

// A device variable is a reference. As with nvcc, its address in host code differs from that in a kernel, so the
// runtime changes the pointer that implements the reference. That pointer is accessed as `slot`, a variable with the
// same assembler name, which is marked as used, because otherwise the compiler would remove the reference.
#define GRIDSTRIDE_SYMBOL(x, init, name, kind) GRIDSTRIDE_SYMBOL_(x, init, name, kind, __COUNTER__)
// The initial value is `gs_init_x`, except in a macro, where the variable's name may be a parameter or made by `##`.
#define GRIDSTRIDE_OWN_SYMBOL(x, kind) GRIDSTRIDE_SYMBOL_(x, gs_init_##x, #x, kind, __COUNTER__)
#define GRIDSTRIDE_SYMBOL_(x, init, name, kind, n) GRIDSTRIDE_NTH_SYMBOL(x, init, name, kind, n)
#define GRIDSTRIDE_NTH_SYMBOL(x, init, name, kind, n) GRIDSTRIDE_SYMBOL_IN(static, gs_slot_##n, x, init, name, kind)
#define GRIDSTRIDE_SYMBOL_IN(linkage, slot, x, init, name, kind) \
    extern __attribute__((visibility("hidden"))) void *slot __asm__(GRIDSTRIDE_NAME(__USER_LABEL_PREFIX__) #slot); \
    linkage __attribute__((used)) decltype(init) &x __asm__(GRIDSTRIDE_NAME(__USER_LABEL_PREFIX__) #slot) = \
        ::gridstride::symbol(init, name, kind, &slot)
// A device variable with external linkage: one file defines the reference, the others declare it. `slot` must be
// unique.
#define GRIDSTRIDE_DECLARE_SYMBOL(slot, x, init) \
    extern __attribute__((visibility("hidden"))) decltype(init) &x __asm__( \
        GRIDSTRIDE_NAME(__USER_LABEL_PREFIX__) #slot)
#define GRIDSTRIDE_SHARED_SYMBOL(slot, x, init, name, kind) GRIDSTRIDE_SYMBOL_IN(, slot, x, init, name, kind)

// `exit` and `abort` must not end the process of a notebook, and output must appear in the notebook.
inline int gridstride_puts(const char *string) { return ::gridstride::print("%s\n", string); }
inline int gridstride_putchar(int c) { return ::gridstride::print("%c", c), c; }
[[noreturn]] __attribute__((always_inline)) inline void gridstride_exit(int code) { ::gridstride::exit_program(code); }
[[noreturn]] __attribute__((always_inline)) inline void gridstride_abort() {
    ::gridstride::trap(::gridstride::Code::abort_called);
}
namespace std {
using ::gridstride_abort;
using ::gridstride_exit;
using ::gridstride_printf;
using ::gridstride_putchar;
using ::gridstride_puts;
}
#define printf gridstride_printf
#define puts gridstride_puts
#undef putchar
#define putchar gridstride_putchar
#define exit gridstride_exit
#define abort gridstride_abort

// GPUs do not support exceptions, so a `throw` in a kernel is reported. Linkers other than Apple's redirect the
// function to __wrap_ (toolchain/compilers.py), because a static C++ library would use its own function.
#ifdef __APPLE__
#define GRIDSTRIDE_ALLOCATE_EXCEPTION __cxa_allocate_exception
#else
#define GRIDSTRIDE_ALLOCATE_EXCEPTION __wrap___cxa_allocate_exception
#endif
#ifdef GRIDSTRIDE_CHECKED
#define GRIDSTRIDE_HOOK extern "C" __attribute__((used, weak, noinline, visibility("hidden"))) GRIDSTRIDE_NO_TSAN
GRIDSTRIDE_HOOK void *GRIDSTRIDE_ALLOCATE_EXCEPTION(size_t bytes) noexcept {
    return gridstride::exception_alloc(bytes, __builtin_return_address(0));
}
GRIDSTRIDE_HOOK __attribute__((noreturn)) void __stack_chk_fail() {
    gridstride::report_local_overrun(__builtin_return_address(0));
}
#endif

// memcpy, memmove and memset report their accesses to the detectors, with the address of the call. With gcc, a flag
// disables their builtins (toolchain/compilers.py); clang 16 and later call __tsan_memcpy instead.
#if defined(GRIDSTRIDE_CHECKED) && (!defined(__clang__) || (!defined(__apple_build_version__) && __clang_major__ < 16))
GRIDSTRIDE_HOOK void *memcpy(void *to, const void *from, size_t n) noexcept {
    return gridstride::copy_memory(to, from, n, __builtin_return_address(0));
}
GRIDSTRIDE_HOOK void *memmove(void *to, const void *from, size_t n) noexcept {
    return gridstride::copy_memory(to, from, n, __builtin_return_address(0));
}
GRIDSTRIDE_HOOK void *memset(void *to, int value, size_t n) noexcept {
    return gridstride::fill_memory(to, value, n, __builtin_return_address(0));
}
// gcc does not instrument a builtin with a constant length, so builtins in the user's source are renamed
// (rewriters/rewrite.py). The branch for `n == 0` allows a call in a constexpr function.
#define GRIDSTRIDE_COPIES(name, T) \
    __attribute__((always_inline)) constexpr void *gridstride_##name(void *to, T from, size_t n) { \
        return n ? name(to, from, n) : to; \
    }
GRIDSTRIDE_COPIES(memcpy, const void *)
GRIDSTRIDE_COPIES(memmove, const void *)
GRIDSTRIDE_COPIES(memset, int)
#undef GRIDSTRIDE_COPIES
#else
#define gridstride_memcpy __builtin_memcpy
#define gridstride_memmove __builtin_memmove
#define gridstride_memset __builtin_memset
#endif

#include "math_device.h"
#include "intrinsics.h"
#include "warp.h"
#include "atomics.h"
#include "cuda_runtime.h"
#include "ptx.h"
#include "ptx_matrices.h"
