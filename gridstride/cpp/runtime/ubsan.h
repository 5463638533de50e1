// What the compiler tells of a line that does what C++ leaves open: the structures of -fsanitize=bounds and its kin.
#pragma once
#include <stdint.h>

struct SourcePlace {
    const char *file;
    uint32_t line, column;
};
struct TypeName {
    uint16_t kind, info;               // of a whole number: twice the log of its bits, 1 more if it has a sign
    char text[1];
    int bits() const { return 1 << (info >> 1); }
    bool has_sign() const { return info & 1; }
};
