// What the compiler reports of a line with undefined behaviour: the structures of -fsanitize=bounds and the like.
#pragma once
#include <stdint.h>

struct SourceLocation {
    const char *file;
    uint32_t line, column;
};
struct TypeName {
    uint16_t kind, info;               // of an integer: twice the log of its bits, 1 more if it has a sign
    char text[1];
    int bits() const { return 1 << (info >> 1); }
    bool has_sign() const { return info & 1; }
};
