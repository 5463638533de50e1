// A Vector is VEC elements that are loaded and stored by one instruction. Defined above: the types Elem (of the arrays)
// and Acc (of all arithmetic), VEC, and STREAMING_STORES: the result exceeds the caches, so stores use a streaming
// hint.
struct alignas(VEC * sizeof(Elem)) Vector { Elem at[VEC]; };

__device__ void store(Vector *to, const Vector &vector) {
    if constexpr (STREAMING_STORES && sizeof(Vector) == 16) __stcs((uint4 *)to, *(const uint4 *)&vector);
    else *to = vector;
}
