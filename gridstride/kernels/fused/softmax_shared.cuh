// Softmax of rows that are read once, but are too long for registers or have two inputs: GROUP threads of each of
// CLUSTER blocks hold a row in shared memory, `packs` packs per thread, until its maximum and sum are known. A thread
// reads only what it has copied itself, so no barrier is needed. Defined above: GROUP, and ASYNC: use asynchronous
// copies (cp.async), so that all of them are in flight at once.
__device__ void copy(Pack *to, const Pack *from) {
    if constexpr (ASYNC && sizeof(Pack) >= 4) copy_async<sizeof(Pack)>(to, from, true);
    else *to = *from;
}

__global__ void __launch_bounds__(THREADS)
keep_rows(const From *x, const From *dy, From *out, long long rows, int width, int packs) {
    extern __shared__ __align__(16) char smem[];
    begin();
    const int count = width / V, first = part_of_row() * GROUP * packs + threadIdx.x % GROUP;
    const long long row = blockIdx.x / CLUSTER * (long long)(THREADS / GROUP) + threadIdx.x / GROUP;
    const int own = row < rows ? min(packs, (count - first + GROUP - 1) / GROUP) : 0;
    Pack *xs = (Pack *)smem + threadIdx.x, *dys = INPUTS == 2 ? xs + packs * THREADS : xs;
    for (int p = 0; p < own; p++) {
        copy(xs + p * THREADS, (const Pack *)x + row * count + first + p * GROUP);
        if (INPUTS == 2) copy(dys + p * THREADS, (const Pack *)dy + row * count + first + p * GROUP);
    }
    if constexpr (ASYNC) copies_wait_all();

    Part all = {LOWEST, 0};
    #pragma unroll 4
    for (int p = 0; p < own; p++) {
        Pack pack = xs[p * THREADS];
        #pragma unroll
        for (int v = 0; v < V; v++) all.most = max(all.most, most_of(Sum(pack.at[v])));
    }
    const Sum base = base_of(all.most);
    #pragma unroll 4
    for (int p = 0; p < own; p++) {
        Pack pack = xs[p * THREADS], other = dys[p * THREADS];
        #pragma unroll
        for (int v = 0; v < V; v++) all.sum += term(Sum(pack.at[v]), Sum(other.at[v]), base);
    }
    all = finish(GROUP <= 32 ? join_lanes<GROUP < 32 ? GROUP : 32>(all) : join_block(all));
    #pragma unroll 4
    for (int p = 0; p < own; p++) {
        Pack pack = xs[p * THREADS], other = dys[p * THREADS], outputs;
        #pragma unroll
        for (int v = 0; v < V; v++) outputs.at[v] = From(result(Sum(pack.at[v]), Sum(other.at[v]), all));
        store((Pack *)out + row * count + first + p * GROUP, outputs);
    }
}
