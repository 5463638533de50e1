// The structures that the compiler passes to the handlers of -fsanitize=bounds and similar checks.
#pragma once
#include <stdint.h>

struct SourceLocation {
    const char *file;
    uint32_t line, column;
};
struct TypeName {
    uint16_t kind, info;               // info of an integer type: 2 * log2(bits), plus 1 if it is signed
    char name[1];
    int bits() const { return 1 << (info >> 1); }
    bool has_sign() const { return info & 1; }
};
