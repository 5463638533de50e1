// The interface to Python. A value is passed as 64-bit words: its kind, then its contents.
//   none | bool x | int x | float bits | string n bytes... | list n items... | dtype code | device type index
//   from Python: tensor object data dtype device_type device_index dim sizes... strides...
//   to Python: tensor object
#pragma once
#include <initializer_list>
#include <optional>
#include <stdint.h>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>
#include "call.h"
#include "check.h"

namespace gridstride {
namespace bindings {

enum Kind { none, boolean, integer, floating, string, list, tensor, dtype, device };

struct Reader {
    const int64_t *at;
    bool owns_references;             // whether each tensor comes with a reference that C++ must release
    const char *reason = nullptr;     // why the last value was rejected; null: because of its type
    int64_t next() { return *at++; }
    bool is(Kind kind) { return *at == kind && (at++, true); }
    bool reject(const char *new_reason) { reason = new_reason; return false; }
};

struct Writer {
    std::vector<int64_t> words;
    bool gives_references = false;    // whether each tensor gets a reference that Python must release
    GRIDSTRIDE_BINDING void put(int64_t x);
    GRIDSTRIDE_BINDING void put_string(const char *s, size_t n);
};

// Reads and writes values of a C++ type. A `Stored` object lives during the call; pass() converts it to the argument.
template <class T, class = void> struct Type { static constexpr bool is_known = false; };
template <class T> struct Plain {
    static constexpr bool is_known = true;
    using Stored = T;
    static T &pass(T &x) { return x; }
};

template <> struct Type<bool> : Plain<bool> {
    static bool read(Reader &r, bool &x) { return r.is(boolean) && (x = r.next(), true); }
    static void write(Writer &w, bool x) { w.put(boolean); w.put(x); }
};
template <class T> struct Type<T, std::enable_if_t<std::is_integral_v<T>>> : Plain<T> {
    static bool read(Reader &r, T &x) {
        if (!r.is(integer) && !r.is(boolean)) return false;
        const int64_t value = r.next();
        x = T(value);
        return (int64_t(x) == value && (std::is_signed_v<T> || value >= 0)) ||
               r.reject("the value is out of range for its type");
    }
    static void write(Writer &w, T x) { w.put(integer); w.put(int64_t(x)); }
};
template <class T> struct Type<T, std::enable_if_t<std::is_floating_point_v<T>>> : Plain<T> {
    static bool read(Reader &r, T &x) {
        if (r.is(integer) || r.is(boolean)) { x = T(r.next()); return true; }
        double value;
        if (!r.is(floating)) return false;
        __builtin_memcpy(&value, r.at++, 8);
        x = T(value);
        return true;
    }
    static void write(Writer &w, double x) {
        int64_t bits;
        __builtin_memcpy(&bits, &x, 8);
        w.put(floating);
        w.put(bits);
    }
};
template <> struct Type<std::string> : Plain<std::string> {
    GRIDSTRIDE_BINDING static bool read(Reader &r, std::string &x);
    static void write(Writer &w, const std::string &x) { w.put_string(x.data(), x.size()); }
};
template <> struct Type<const char *> {
    static void write(Writer &w, const char *x) { if (x) w.put_string(x, __builtin_strlen(x)); else w.put(none); }
};
template <> struct Type<std::string_view> : Plain<std::string> {
    static bool read(Reader &r, std::string &x) { return Type<std::string>::read(r, x); }
    static std::string_view pass(std::string &x) { return x; }
    static void write(Writer &w, std::string_view x) { w.put_string(x.data(), x.size()); }
};

template <class T, class = void> constexpr bool is_plain = false;
template <class T>
constexpr bool is_plain<T, std::void_t<typename Type<T>::Stored>> = std::is_same_v<typename Type<T>::Stored, T>;

template <class T> struct Type<std::vector<T>, std::enable_if_t<is_plain<T>>> : Plain<std::vector<T>> {
    static bool read(Reader &r, std::vector<T> &x) {
        if (!r.is(list)) return false;
        const int64_t n = r.next();
        for (int64_t i = 0; i < n; i++) {
            T item{};
            if (!Type<T>::read(r, item)) return false;
            x.push_back(item);
        }
        return true;
    }
    static void write(Writer &w, const std::vector<T> &x) {
        w.put(list);
        w.put(int64_t(x.size()));
        for (const T &item : x) Type<T>::write(w, item);
    }
};
template <class T> struct Type<std::optional<T>, std::enable_if_t<is_plain<T>>> : Plain<std::optional<T>> {
    static bool read(Reader &r, std::optional<T> &x) {
        if (r.is(none)) return true;
        T item{};
        return Type<T>::read(r, item) && (x = item, true);
    }
    static void write(Writer &w, const std::optional<T> &x) { if (x) Type<T>::write(w, *x); else w.put(none); }
};
// A tuple is written as a list of length -1 - n.
template <class... T> struct Type<std::tuple<T...>, std::enable_if_t<(is_plain<T> && ...)>> : Plain<std::tuple<T...>> {
    static bool read(Reader &r, std::tuple<T...> &x) {
        if (!r.is(list)) return false;
        const int64_t n = r.next();
        if ((n < 0 ? -n - 1 : n) != int64_t(sizeof...(T))) return r.reject("the length differs");
        return std::apply([&](auto &...item) { return (Type<T>::read(r, item) && ...); }, x);
    }
    static void write(Writer &w, const std::tuple<T...> &x) {
        w.put(list); w.put(-int64_t(sizeof...(T)) - 1);
        std::apply([&](const auto &...item) { (Type<std::decay_t<decltype(item)>>::write(w, item), ...); }, x);
    }
};
template <class A, class B>
struct Type<std::pair<A, B>, std::enable_if_t<is_plain<A> && is_plain<B>>> : Plain<std::pair<A, B>> {
    static bool read(Reader &r, std::pair<A, B> &x) {
        if (!r.is(list)) return false;
        const int64_t n = r.next();
        return (n == 2 || n == -3 || r.reject("the length differs")) && Type<A>::read(r, x.first) &&
               Type<B>::read(r, x.second);
    }
    static void write(Writer &w, const std::pair<A, B> &x) {
        w.put(list);
        w.put(-3);
        Type<A>::write(w, x.first);
        Type<B>::write(w, x.second);
    }
};

struct Item {                         // an argument of an operation
    const void *value;
    void (*write)(Writer &, const void *);
    Item(const char *x)
        : value(x),
          write([](Writer &w, const void *p) { Type<const char *>::write(w, static_cast<const char *>(p)); }) {}
    template <class T>
    Item(const T &x)
        : value(&x), write([](Writer &w, const void *p) { Type<T>::write(w, *static_cast<const T *>(p)); }) {}
};
// Runs an operation in Python, e.g. call_python("sum", {x}); throws PythonError if it raises an exception.
GRIDSTRIDE_BINDING Reader call_python(const char *operation, std::initializer_list<Item> args);
[[noreturn]] GRIDSTRIDE_BINDING void reject_result(const char *operation);
template <class R> R call_python_for(const char *operation, std::initializer_list<Item> args) {
    Reader r = call_python(operation, args);
    R result{};
    if (!Type<R>::read(r, result)) reject_result(operation);
    return result;
}
}
}

#ifdef GRIDSTRIDE_DEFINITIONS
namespace gridstride {
namespace bindings {
void Writer::put(int64_t x) { words.push_back(x); }
void Writer::put_string(const char *s, size_t n) {
    put(string);
    put(int64_t(n));
    const size_t at = words.size();
    words.resize(at + (n + 7) / 8);
    if (n) __builtin_memcpy(&words[at], s, n);
}
bool Type<std::string>::read(Reader &r, std::string &x) {
    if (!r.is(string)) return false;
    const size_t n = size_t(r.next());
    x.assign(reinterpret_cast<const char *>(r.at), n);
    r.at += (n + 7) / 8;
    return true;
}

struct PythonError : torch::Error {   // an exception that Python has stored
    PythonError() : torch::Error("Python raised an exception", python_error) {}
};
Reader call_python(const char *operation, std::initializer_list<Item> args) {
    Writer w;
    for (const Item &item : args) item.write(w, item.value);
    const int64_t *result = nullptr;
#ifdef GRIDSTRIDE_EMULATOR
    set_in_python(true);
    const bool raised = python.call(operation, w.words.data(), int64_t(args.size()), &result);
    set_in_python(false);
#else
    const bool raised = python.call(operation, w.words.data(), int64_t(args.size()), &result);
#endif
    if (raised) throw PythonError();
    return {result, true};
}
void reject_result(const char *operation) {
    fail(type_error, std::string(operation) + " returned a value whose type C++ does not accept here");
}
}
}
#endif
#define TORCH_WARN(...) \
    ((void)::gridstride::bindings::call_python( \
        "warn", {::torch::str(__VA_ARGS__), ::torch::str(__FILE__), int64_t(__LINE__)}))
#define TORCH_WARN_ONCE(...) \
    do { \
        static bool gs_warned; \
        if (!gs_warned) { \
            gs_warned = true; \
            TORCH_WARN(__VA_ARGS__); \
        } \
    } while (0)
