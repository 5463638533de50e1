// A pack is V elements that are loaded and stored at once. Defined above: the types From (of the arrays) and Sum (of
// all arithmetic), V, and STREAM: the result exceeds the caches, so stores use a streaming hint.
struct alignas(V * sizeof(From)) Pack { From at[V]; };

__device__ void store(Pack *to, const Pack &pack) {
    if constexpr (STREAM && sizeof(Pack) == 16) __stcs((uint4 *)to, *(const uint4 *)&pack);
    else *to = pack;
}
