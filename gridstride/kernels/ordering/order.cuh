// `order` maps the bits of a key to an unsigned integer that has the same order.
// Requires definitions of the type Bits (unsigned, of the size of a key), KIND (of the keys), MANTISSA (bits, for
// floats), DESCENDING.
enum { UNSIGNED, SIGNED, FLOATING };
constexpr int KEY_BITS = 8 * sizeof(Bits);
constexpr Bits SIGN = Bits(1) << (KEY_BITS - 1), INFINITE = Bits(SIGN - 1) >> MANTISSA << MANTISSA;

// The integers of negative floats descend, so they are negated, which gives -0.0 the order of 0.0. NaN is the largest.
__device__ __forceinline__ Bits order(Bits key) {
    if (KIND == SIGNED) key ^= SIGN;
    if (KIND == FLOATING) {
        bool is_nan = Bits(key & ~SIGN) > INFINITE;
        key = is_nan ? Bits(~Bits(0)) : key & SIGN ? Bits(0 - key) : Bits(key | SIGN);
    }
    return DESCENDING ? Bits(~key) : key;
}
