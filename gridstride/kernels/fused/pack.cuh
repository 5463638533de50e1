// V elements that are loaded and stored at once. Above: the types From (of the arrays) and Sum (in which is computed),
// V, and STREAM: is what is stored too much for the caches to keep it until it is read?
struct alignas(V * sizeof(From)) Pack { From at[V]; };

__device__ void store(Pack *to, const Pack &pack) {
    if constexpr (STREAM && sizeof(Pack) == 16) __stcs((uint4 *)to, *(const uint4 *)&pack);
    else *to = pack;
}
