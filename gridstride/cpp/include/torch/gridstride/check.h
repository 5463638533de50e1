// TORCH_CHECK and similar macros: a false condition raises an exception, also in Python.
#pragma once
#include <exception>
#include <initializer_list>
#include <stddef.h>
#include <stdio.h>
#include <string>
#include <type_traits>
#include "call.h"

namespace gridstride {
namespace bindings {

// The exception that Python raises
enum Outcome {
    done,
    runtime_error,
    python_error,
    type_error,
    value_error,
    index_error,
    memory_error,
    not_implemented,
    overflow_error,
    finding
};

GRIDSTRIDE_BINDING void append(std::string &s, const std::string &x);
GRIDSTRIDE_BINDING void append(std::string &s, const char *x);
GRIDSTRIDE_BINDING void append(std::string &s, char x);
GRIDSTRIDE_BINDING void append(std::string &s, bool x);
GRIDSTRIDE_BINDING void append(std::string &s, double x);
GRIDSTRIDE_BINDING void append(std::string &s, const void *x);
GRIDSTRIDE_BINDING void append(std::string &s, long long x);
GRIDSTRIDE_BINDING void append(std::string &s, unsigned long long x);
template <class T> std::enable_if_t<std::is_integral_v<T>> append(std::string &s, T x) {
    append(s, std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>(x));
}
template <class T> std::enable_if_t<std::is_enum_v<T>> append(std::string &s, T x) {
    s += std::to_string(static_cast<long long>(x));
}
template <class T> auto append(std::string &s, const T &list) -> decltype(list.begin(), list.size(), void()) {
    s += '[';
    for (size_t i = 0; i < list.size(); i++) { if (i) s += ", "; append(s, list.begin()[i]); }
    s += ']';
}

struct MessagePart {                         // an argument of str(), and its conversion to a string
    const void *value;
    void (*append_to)(std::string &, const void *);
    GRIDSTRIDE_BINDING MessagePart(const char *x);
    GRIDSTRIDE_BINDING MessagePart(const std::string &x);
    template <class T>
    MessagePart(const T &x)
        : value(&x), append_to([](std::string &s, const void *p) { append(s, *static_cast<const T *>(p)); }) {}
};
GRIDSTRIDE_BINDING std::string concatenate(std::initializer_list<MessagePart> parts);
}
}

namespace torch {

class GRIDSTRIDE_EXCEPTION Error : public std::exception {
    std::string message;
public:
    int outcome;
    GRIDSTRIDE_BINDING explicit Error(std::string message, int outcome = ::gridstride::bindings::runtime_error);
    GRIDSTRIDE_BINDING ~Error() override;
    GRIDSTRIDE_BINDING const char *what() const noexcept override;
    const char *what_without_backtrace() const noexcept { return message.c_str(); }
    const std::string &msg() const noexcept { return message; }
};

template <class... A> std::string str(const A &...a) {
    return ::gridstride::bindings::concatenate({::gridstride::bindings::MessagePart(a)...});
}
}

namespace gridstride {
namespace bindings {
[[noreturn]] GRIDSTRIDE_BINDING void fail(int outcome, std::string message);

GRIDSTRIDE_BINDING std::string failure_message(const char *condition);
template <class... A> std::string failure_message(const char *, const A &...a) { return torch::str(a...); }
template <class A, class B> std::string comparison_message(const char *comparison, const A &a, const B &b) {
    return torch::str("Check failed: ", comparison, " (", a, " vs. ", b, ").");
}
}
}

#ifdef GRIDSTRIDE_DEFINITIONS
namespace gridstride {
namespace bindings {
template <class T> void append_formatted(std::string &s, const char *format, T x) {
    char buffer[32];
    snprintf(buffer, sizeof buffer, format, x);
    s += buffer;
}
void append(std::string &s, const std::string &x) { s += x; }
void append(std::string &s, const char *x) { s += x ? x : "(null)"; }
void append(std::string &s, char x) { s += x; }
void append(std::string &s, bool x) { s += x ? '1' : '0'; }
void append(std::string &s, double x) { append_formatted(s, "%g", x); }
void append(std::string &s, const void *x) { append_formatted(s, "%p", x); }
void append(std::string &s, long long x) { s += std::to_string(x); }
void append(std::string &s, unsigned long long x) { s += std::to_string(x); }

MessagePart::MessagePart(const char *x)
    : value(x), append_to([](std::string &s, const void *p) { append(s, static_cast<const char *>(p)); }) {}
MessagePart::MessagePart(const std::string &x)
    : value(&x), append_to([](std::string &s, const void *p) { append(s, *static_cast<const std::string *>(p)); }) {}
std::string concatenate(std::initializer_list<MessagePart> parts) {
    std::string s;
    for (const MessagePart &part : parts) part.append_to(s, part.value);
    return s;
}
void fail(int outcome, std::string message) { throw torch::Error(static_cast<std::string &&>(message), outcome); }
std::string failure_message(const char *condition) {
    return std::string("Expected ") + condition + " to be true, but got false.";
}
}
}
namespace torch {
Error::Error(std::string message, int outcome) : message(static_cast<std::string &&>(message)), outcome(outcome) {}
Error::~Error() = default;
const char *Error::what() const noexcept { return message.c_str(); }
}
#endif

#define GRIDSTRIDE_CHECK(outcome, condition, ...) \
    do { \
        if (!(condition)) \
            ::gridstride::bindings::fail( \
                ::gridstride::bindings::outcome, ::gridstride::bindings::failure_message(#condition, ##__VA_ARGS__)); \
    } while (0)
#define TORCH_CHECK(condition, ...) GRIDSTRIDE_CHECK(runtime_error, condition, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) GRIDSTRIDE_CHECK(value_error, condition, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...) GRIDSTRIDE_CHECK(index_error, condition, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) GRIDSTRIDE_CHECK(type_error, condition, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) GRIDSTRIDE_CHECK(not_implemented, condition, ##__VA_ARGS__)
#define TORCH_CHECK_ARG(condition, n, ...) \
    GRIDSTRIDE_CHECK(runtime_error, condition, "invalid argument ", n, ": ", ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(condition, ...) \
    GRIDSTRIDE_CHECK(runtime_error, condition, #condition " INTERNAL ASSERT FAILED at ", __FILE__, ":", __LINE__, \
        ". ", ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#define AT_ASSERT(...) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#define AT_ASSERTM(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define AT_ERROR(...) ::gridstride::bindings::fail(::gridstride::bindings::runtime_error, ::torch::str(__VA_ARGS__))

#define GRIDSTRIDE_COMPARE(a, op, b) \
    [](const auto &gs_a, const auto &gs_b) { \
        if (!(gs_a op gs_b)) \
            ::gridstride::bindings::fail(::gridstride::bindings::runtime_error, \
                ::gridstride::bindings::comparison_message(#a " " #op " " #b, gs_a, gs_b)); \
    }((a), (b))
#define TORCH_CHECK_EQ(a, b) GRIDSTRIDE_COMPARE(a, ==, b)
#define TORCH_CHECK_NE(a, b) GRIDSTRIDE_COMPARE(a, !=, b)
#define TORCH_CHECK_LT(a, b) GRIDSTRIDE_COMPARE(a, <, b)
#define TORCH_CHECK_LE(a, b) GRIDSTRIDE_COMPARE(a, <=, b)
#define TORCH_CHECK_GT(a, b) GRIDSTRIDE_COMPARE(a, >, b)
#define TORCH_CHECK_GE(a, b) GRIDSTRIDE_COMPARE(a, >=, b)
