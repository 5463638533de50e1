// AT_DISPATCH_...: compiles code once per type, as `scalar_t`, and runs the instance for the type of a tensor.
#pragma once
#include "tensor_class.h"

#define AT_DISPATCH_SWITCH(type, name, ...) \
    [&] { \
        const ::torch::ScalarType gs_type = (type); \
        switch (gs_type) { \
            __VA_ARGS__ \
            default: \
                ::gridstride::bindings::fail(::gridstride::bindings::not_implemented, \
                    ::torch::str('"', name, "\" not implemented for '", gs_type, "'")); \
        } \
    }()
#define AT_DISPATCH_CASE(code, ...) \
    case code: { using scalar_t [[maybe_unused]] = ::torch::ScalarTypeToCPPTypeT<code>; return __VA_ARGS__(); }
#define AT_PRIVATE_CASE_TYPE_USING_HINT(code, hint, ...) \
    case code: { using hint [[maybe_unused]] = ::torch::ScalarTypeToCPPTypeT<code>; return __VA_ARGS__(); }

#define AT_DISPATCH_CASE_FLOATING_TYPES(...) \
    AT_DISPATCH_CASE(::torch::kDouble, __VA_ARGS__) AT_DISPATCH_CASE(::torch::kFloat, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(...) \
    AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(::torch::kHalf, __VA_ARGS__)
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(...) \
    AT_DISPATCH_CASE(::torch::kHalf, __VA_ARGS__) AT_DISPATCH_CASE(::torch::kBFloat16, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...) \
    AT_DISPATCH_CASE(::torch::kByte, __VA_ARGS__) AT_DISPATCH_CASE(::torch::kChar, __VA_ARGS__) \
    AT_DISPATCH_CASE(::torch::kShort, __VA_ARGS__) \
    AT_DISPATCH_CASE(::torch::kInt, __VA_ARGS__) AT_DISPATCH_CASE(::torch::kLong, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...) \
    AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)

#define AT_DISPATCH_FLOATING_TYPES(type, name, ...) \
    AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(type, name, ...) \
    AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(__VA_ARGS__))
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(type, name, ...) \
    AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(a, type, name, ...) \
    AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(a, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(a, b, type, name, ...) \
    AT_DISPATCH_SWITCH(type, name, \
        AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(a, __VA_ARGS__) \
        AT_DISPATCH_CASE(b, __VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(type, name, ...) \
    AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES_AND(a, type, name, ...) \
    AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(a, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(type, name, ...) AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(a, type, name, ...) \
    AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(a, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND2(a, b, type, name, ...) \
    AT_DISPATCH_SWITCH(type, name, \
        AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(a, __VA_ARGS__) AT_DISPATCH_CASE(b, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND3(a, b, c, type, name, ...) \
    AT_DISPATCH_SWITCH(type, name, \
        AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(a, __VA_ARGS__) AT_DISPATCH_CASE(b, __VA_ARGS__) \
        AT_DISPATCH_CASE(c, __VA_ARGS__))
#define AT_DISPATCH_INDEX_TYPES(type, name, ...) \
    AT_DISPATCH_SWITCH(type, name, \
        AT_PRIVATE_CASE_TYPE_USING_HINT(::torch::kInt, index_t, __VA_ARGS__) \
        AT_PRIVATE_CASE_TYPE_USING_HINT(::torch::kLong, index_t, __VA_ARGS__))
