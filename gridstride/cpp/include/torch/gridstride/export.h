// GRIDSTRIDE_EXPORT(f) exports the host function f to Python; kernel.h has GRIDSTRIDE_KERNEL(k). Argument types are
// deduced; a type that cannot be passed is reported at the call.
#pragma once
#include <new>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include "tensor_class.h"

namespace gridstride {
namespace bindings {

template <class T, class = void> struct Argument : Type<T> {};

// A pointer parameter takes a tensor, or None. A pointer to integers takes integers of this size, signed or not; a
// pointer to void, or to a struct that is not a vector type, takes any tensor.
GRIDSTRIDE_BINDING bool read_pointer(Reader &r, torch::Tensor &x, torch::ScalarType expected);
GRIDSTRIDE_BINDING void *pointer(const torch::Tensor &x);
template <class T>
struct Type<T *, std::enable_if_t<!std::is_function_v<T> && !std::is_pointer_v<T> &&
                                  !std::is_same_v<T, torch::Tensor> && !std::is_same_v<T, const char>>> {
    static constexpr bool is_known = true;
    using Stored = torch::Tensor;
    static bool read(Reader &r, Stored &x) { return read_pointer(r, x, torch::dtype_of<std::remove_const_t<T>>); }
    static T *pass(Stored &x) { return static_cast<T *>(pointer(x)); }
};

struct StringOrTensor { std::string string; torch::Tensor tensor; };
template <> struct Argument<const char *> {   // a string, or a tensor of bytes
    static constexpr bool is_known = true;
    using Stored = StringOrTensor;
    static bool read(Reader &r, StringOrTensor &x) {
        return Type<std::string>::read(r, x.string) || Type<const signed char *>::read(r, x.tensor);
    }
    static const char *pass(StringOrTensor &x) {
        return x.tensor.defined() ? static_cast<const char *>(pointer(x.tensor)) : x.string.c_str();
    }
};

// A struct by value, passed as bytes. A tensor map is passed with its tensor, whose address is stored in the map here.
template <class T> struct Struct { T value; torch::Tensor tensor; };
GRIDSTRIDE_BINDING bool read_struct(Reader &r, void *value, size_t bytes, torch::Tensor &tensor);
template <class T>
struct Argument<T, std::enable_if_t<std::is_class_v<T> && std::is_trivially_copyable_v<T> && !Type<T>::is_known>> {
    static constexpr bool is_known = true;
    using Stored = Struct<T>;
    static bool read(Reader &r, Stored &x) { return read_struct(r, &x.value, sizeof(T), x.tensor); }
    static T pass(Stored &x) {
#ifdef GRIDSTRIDE_EMULATOR
        if constexpr (sizeof(T) == sizeof(TensorMap))
            if (x.tensor.defined()) {
                TensorMap map;
                __builtin_memcpy(&map, &x.value, sizeof map);
                map.base = static_cast<char *>(pointer(x.tensor));
                __builtin_memcpy(static_cast<void *>(&x.value), &map, sizeof map);
            }
#endif
        return x.value;
    }
};

GRIDSTRIDE_BINDING int64_t run_call(void (*f)(gs_call *, const void *), gs_call *call, const void *kernel = nullptr);
[[noreturn]] GRIDSTRIDE_BINDING void reject_argument(int64_t argument_index, const char *reason);
[[noreturn]] GRIDSTRIDE_BINDING void reject_count(int64_t min_count, int64_t max_count, int64_t count);
[[noreturn]] GRIDSTRIDE_BINDING void reject_function();
GRIDSTRIDE_BINDING Writer &new_result();               // an empty Writer for the result of the call

template <class T> using ArgumentOf = Argument<std::decay_t<T>>;
template <class T> void read_argument(Reader &r, typename ArgumentOf<T>::Stored &x, int64_t argument_index) {
    if (!ArgumentOf<T>::read(r, x)) reject_argument(argument_index, r.reason);
}

template <class R, class = void> constexpr bool can_return = std::is_void_v<R>;
template <class R>
constexpr bool can_return<R,
    std::void_t<decltype(Type<std::decay_t<R>>::write(std::declval<Writer &>(), std::declval<const R &>()))>> = true;
template <class All, size_t i> using Nth = std::tuple_element_t<i, All>;
template <class F, class All, size_t... i> constexpr bool accepts(std::index_sequence<i...>) {
    return std::is_invocable_v<F, Nth<All, i>...>;
}

template <class R> void write_result(gs_call *call, const R &result) {
    Writer &w = new_result();
    Type<std::decay_t<R>>::write(w, result);
    call->result = w.words.data();
}
// Calls F with the arguments that Python has passed; the others have defaults.
template <class F, class R, class All, size_t... i> void apply(gs_call *call, std::index_sequence<i...>) {
    [[maybe_unused]] std::tuple<typename ArgumentOf<Nth<All, i>>::Stored...> stored;
    [[maybe_unused]] Reader r{call->args, false};
    (read_argument<Nth<All, i>>(r, std::get<i>(stored), int64_t(i) + 1), ...);
    if constexpr (std::is_void_v<R>)
        F()(static_cast<Nth<All, i> &&>(ArgumentOf<Nth<All, i>>::pass(std::get<i>(stored)))...);
    else write_result<R>(call, F()(static_cast<Nth<All, i> &&>(ArgumentOf<Nth<All, i>>::pass(std::get<i>(stored)))...));
}
// Calls F with the `n` arguments that Python has passed, if the others have defaults.
template <class F, class R, class All, size_t n> void apply_with_defaults(gs_call *call) {
    constexpr size_t num_parameters = std::tuple_size_v<All>;
    if (call->n == int64_t(n)) return apply<F, R, All>(call, std::make_index_sequence<n>());
    if constexpr (n > 0)
        if constexpr (accepts<F, All>(std::make_index_sequence<n - 1>()))
            return apply_with_defaults<F, R, All, n - 1>(call);
    reject_count(int64_t(n), int64_t(num_parameters), call->n);
}
template <class F, class R, class... A> int64_t call_function(gs_call *call) {
    return run_call(
        []([[maybe_unused]] gs_call *c, const void *) {
            if constexpr ((ArgumentOf<A>::is_known && ...) && can_return<R>)
                apply_with_defaults<F, R, std::tuple<A...>, sizeof...(A)>(c);
            else reject_function();
        },
        call);
}

// An exported function F; `f` has its type.
struct Export : Exported {
    template <class F, class R, class... A>
    Export(const char *name, R (*)(A...), F)
        : Exported{name, call_function<F, R, A...>, ::gridstride::bindings::types<R(A...)>, false, exports} {
        exports = this;
    }
    Export(const Export &) = delete;
};
}
}

#ifdef GRIDSTRIDE_DEFINITIONS
namespace gridstride {
namespace bindings {
inline bool is_compatible(torch::ScalarType expected, torch::ScalarType type) {
    if (expected == torch::ScalarType::Undefined || expected == type) return true;
    return torch::isIntegralType(expected, true) && torch::isIntegralType(type, true) &&
           torch::elementSize(expected) == torch::elementSize(type);
}
inline bool reject(Reader &r, const std::string &new_reason) {
    static thread_local std::string reason;
    reason = new_reason;
    return r.reject(reason.c_str());
}
bool read_pointer(Reader &r, torch::Tensor &x, torch::ScalarType expected) {
    if (!Type<torch::Tensor>::read(r, x)) return false;
    if (!x.defined() || is_compatible(expected, x.scalar_type())) return true;
    return reject(r, torch::str("expected scalar type ", expected, " but found ", x.scalar_type()));
}
void *pointer(const torch::Tensor &x) { return x.defined() ? x.data_ptr() : nullptr; }
bool read_struct(Reader &r, void *value, size_t bytes, torch::Tensor &tensor) {
    std::string contents;
    const bool with_tensor = r.is(list);
    if (with_tensor) r.next();
    if (!Type<std::string>::read(r, contents))
        return r.reject("pass a struct as bytes, a ctypes.Structure or a tensor map");
    if (contents.size() != bytes)
        return reject(r, torch::str("the struct has ", bytes, " bytes, got ", contents.size()));
    __builtin_memcpy(value, contents.data(), bytes);
    return !with_tensor || Type<torch::Tensor>::read(r, tensor);
}

struct RejectedArgument { int64_t argument; const char *reason; };

// Ends a call: takes Python references for all tensors that C++ still references, and copies device memory back.
struct Frame {
    gs_call *outer = current();
    explicit Frame(gs_call *call) {
        current() = call;
        call->argument = 0; call->message = nullptr; call->result = nullptr;
#ifdef __CUDACC__
        if (call->device >= 0) cudaSetDevice(int(call->device));
#endif
    }
    ~Frame() {
#ifdef GRIDSTRIDE_EMULATOR
        if (!defers_queue()) copy_out_host_arrays(), memory_ranges.clear();
#endif
        for (auto &h : argument_handles) if (h->references > 1) { h->retain(); h->owned = true; }
        argument_handles.clear();
        current() = outer;
    }
};

inline int store_outcome(int code, const char *new_message) {
    static thread_local std::string message;
    message = new_message;
    current()->message = message.c_str();
    return code;
}
struct GuardedCall {
    void (*f)(gs_call *, const void *);
    gs_call *call;
    const void *kernel;
    int code = done;
};
inline int run_and_catch(const GuardedCall &run) {
    try { run.f(run.call, run.kernel); return done;
    } catch (const RejectedArgument &e) {
        current()->argument = e.argument;
        return store_outcome(type_error, e.reason ? e.reason : "");
    } catch (const torch::Error &e) {
        return store_outcome(e.outcome, e.what());
    }
#ifdef GRIDSTRIDE_EMULATOR
    catch (const LaunchStopped &) { return store_outcome(finding, ""); }
#endif
    catch (const std::out_of_range &e) { return store_outcome(index_error, e.what()); }
    catch (const std::overflow_error &e) { return store_outcome(overflow_error, e.what()); }
    catch (const std::invalid_argument &e) { return store_outcome(value_error, e.what()); }
    catch (const std::domain_error &e) { return store_outcome(value_error, e.what()); }
    catch (const std::length_error &e) { return store_outcome(value_error, e.what()); }
    catch (const std::bad_alloc &e) { return store_outcome(memory_error, e.what()); }
    catch (const std::exception &e) { return store_outcome(runtime_error, e.what()); }
    catch (...) { return store_outcome(runtime_error, "the function threw an object that is not a std::exception"); }
}
#ifdef GRIDSTRIDE_EMULATOR
#ifdef __wasm__
int outcome_of_jump();             // of a call that a finding or an exception has ended without unwinding its stack
#else
inline int outcome_of_jump() { return store_outcome(finding, ""); }
#endif
// Runs a call guarded, because a crash of host code must not end the notebook.
inline int run_guarded(GuardedCall run) {
    if (!gridstride::run_guarded(
            [](void *p) {
                auto &r = *static_cast<GuardedCall *>(p);
                r.code = run_and_catch(r);
            },
            &run, run.kernel /* cannot be interrupted */ ? nullptr : reinterpret_cast<const void *>(run.f)))
        run.code = outcome_of_jump();
    return run.code;
}
#endif
int64_t run_call(void (*f)(gs_call *, const void *), gs_call *call, const void *kernel) {
    Frame frame(call);
#ifdef GRIDSTRIDE_EMULATOR
    return run_guarded({f, call, kernel});
#else
    return run_and_catch({f, call, kernel});
#endif
}
void reject_argument(int64_t argument_index, const char *reason) { throw RejectedArgument{argument_index, reason}; }
void reject_count(int64_t min_count, int64_t max_count, int64_t count) {
    fail(type_error, torch::str("it takes ", min_count == max_count ? "" : torch::str(min_count, " to "), max_count,
                         max_count == 1 ? " argument" : " arguments", ", not ", count));
}
void reject_function() {
    fail(type_error, "Python cannot call this function, because it cannot pass one of its parameters or its result");
}
Writer &new_result() {
    static thread_local Writer w;
    w.words.clear();
    w.gives_references = true;
    return w;
}
}
}
#endif

// The struct calls F by name, so that default arguments apply. `id` is its name in Python.
#define GRIDSTRIDE_EXPORT_AS(id, ...) \
    namespace { \
    struct gs_function_##id { \
        template <class... GsA> \
        auto operator()(GsA &&...gs_a) const -> decltype(__VA_ARGS__(static_cast<GsA &&>(gs_a)...)) { \
            return __VA_ARGS__(static_cast<GsA &&>(gs_a)...); \
        } \
    }; \
    } \
    static const ::gridstride::bindings::Export gs_export_##id(#id, __VA_ARGS__, gs_function_##id());
#define GRIDSTRIDE_EXPORT(name) GRIDSTRIDE_EXPORT_AS(name, name)
// PYBIND11_MODULE is accepted and ignored, because GRIDSTRIDE_EXPORT exports the functions.
namespace pybind11 {
struct arg {
    explicit arg(const char *) {}
    template <class T> arg &operator=(const T &) { return *this; }
};
struct gil_scoped_release {};
struct gil_scoped_acquire {};
template <class... T> struct call_guard {};
struct module_ {
    template <class... A> module_ &def(const A &...) { return *this; }
    template <class... A> module_ &impl(const A &...) { return *this; }
    template <class T> module_ &attr(const T &) { return *this; }
    const char *&doc() { static const char *docstring; return docstring; }
};
using module = module_;
}
#define PYBIND11_MODULE(name, m) [[maybe_unused]] static void gs_pybind11_module(::pybind11::module_ &m)
#define TORCH_LIBRARY(name, m) [[maybe_unused]] static void gs_torch_library_##name(::pybind11::module_ &m)
#define TORCH_LIBRARY_FRAGMENT(name, m) \
    [[maybe_unused]] static void gs_torch_library_fragment_##name(::pybind11::module_ &m)
#define TORCH_LIBRARY_IMPL(name, key, m) \
    [[maybe_unused]] static void gs_torch_library_##name##_##key(::pybind11::module_ &m)
