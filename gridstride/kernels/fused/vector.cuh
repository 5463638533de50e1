// A Vector is VEC elements that are loaded and stored by one instruction. Requires definitions of the types Elem (of
// the arrays) and Acc (of all arithmetic), VEC, and STREAMING_STORES: the result exceeds the caches, so stores use a
// streaming hint.
struct alignas(VEC * sizeof(Elem)) Vector { Elem data[VEC]; };

__device__ void store(Vector *dst, const Vector &vector) {
    if constexpr (STREAMING_STORES && sizeof(Vector) == 16) __stcs((uint4 *)dst, *(const uint4 *)&vector);
    else *dst = vector;
}
