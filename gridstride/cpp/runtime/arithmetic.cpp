// The compiler's handlers for arithmetic that is undefined behaviour in C++ and may give another result on a GPU:
// -fsanitize=shift-exponent, -fsanitize=float-cast-overflow, and, on CPUs that do not trap when an integer is divided
// by zero or INT_MIN by -1, -fsanitize=integer-divide-by-zero and -fsanitize=signed-integer-overflow.
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <algorithm>
#include "detector.h"
#include "findings.h"
#include "ubsan.h"

struct ShiftFault {
    SourceLocation location;
    const TypeName *value_type, *distance_type;
};
struct DivisionFault {
    SourceLocation location;
    const TypeName *operand_type;
};
struct CastFault {
    SourceLocation location;
    const TypeName *from_type, *to_type;
};

static bool is_checked() {
    return gridstride::detector.is_enabled && gridstride::checks_enabled && gridstride::on_device();
}
// Returns a handler's argument; if its type has more bits than an address, the argument is the address of the value.
template <class T> static T read_argument(uintptr_t argument, int bits) {
    const bool is_address = bits > CHAR_BIT * int(sizeof argument);
    T value = 0;
    const void *const source = is_address ? reinterpret_cast<const void *>(argument) : &argument;
    memcpy(&value, source, std::min(sizeof value, size_t(bits + 7) / 8));
    return value;
}
// Returns the value of an integer argument, of its lower 64 bits if it has more.
static long long integer_value(const TypeName &type, uintptr_t argument) {
    const int bits = std::min(type.bits(), 64), unused = 64 - bits;
    const auto shifted = read_argument<uint64_t>(argument, type.bits()) << unused;
    return type.has_sign() ? static_cast<long long>(shifted) >> unused : static_cast<long long>(shifted >> unused);
}
static double float_value(const TypeName &type, uintptr_t argument) {
    switch (type.info) {
        case 32: return read_argument<float>(argument, 32);
        case 64: return read_argument<double>(argument, 64);
        default: return 0;
    }
}
// Returns whether the type is narrower than int and the value fits into an int: the conversion then keeps the lower
// bits, here and on a GPU.
static bool fits_int(const TypeName &type, double value) {
    return type.bits() < 32 && value > (type.has_sign() ? -0x1p31 - 1 : -1) && value < 0x1p31;
}

namespace gridstride {
static void warn_about_shift(const ShiftFault &fault, uintptr_t distance) {
    const int bits = fault.value_type->bits();
    if (is_checked() && is_user_source(fault.location.file))
        begin_warning(
            Code::shifted_too_far, int(fault.location.line),
            {{"bits", bits}, {"distance", integer_value(*fault.distance_type, distance)}, {"max_distance", bits - 1}});
}
static void warn_about_cast(const CastFault &fault, uintptr_t from) {
    const double x = float_value(*fault.from_type, from);
    if (!is_checked() || !is_user_source(fault.location.file) || fits_int(*fault.to_type, x)) return;
    char value[32];
    snprintf(value, sizeof value, "%g", x);
    begin_warning(
        Code::does_not_fit, int(fault.location.line),
            {{"value", static_cast<const char *>(value)}, {"type", fault.to_type->name}});
}
}

extern "C" {
GRIDSTRIDE_API void __ubsan_handle_shift_out_of_bounds(ShiftFault *f, uintptr_t, uintptr_t distance) {
    gridstride::warn_about_shift(*f, distance);
}
GRIDSTRIDE_API void __ubsan_handle_float_cast_overflow(CastFault *f, uintptr_t from) {
    gridstride::warn_about_cast(*f, from);
}
GRIDSTRIDE_API void __ubsan_handle_divrem_overflow(DivisionFault *f, uintptr_t, uintptr_t divisor) {
    using namespace gridstride;
    const bool overflows = integer_value(*f->operand_type, divisor);
    const Code code = overflows ? Code::division_overflows : Code::division;
    const Code host_code = overflows ? Code::host_division_overflows : Code::host_division;
    fail_at(on_device() ? code : host_code, {}, static_cast<char *>(__builtin_return_address(0)) - 1, 0);
}
}
