// Softmax of rows that are read once: GROUP threads of each of CLUSTER blocks keep a row in registers, HELD packs per
// thread, all of them if there is a cluster. Exponentials are computed once, relative to the thread's maximum, and
// scaled when the row's maximum and sum are known. Above: GROUP, HELD, BLOCKS (per SM)
__global__ void __launch_bounds__(THREADS, BLOCKS)
keep_rows(const From *x, const From *, From *out, long long rows, int width) {
    begin();
    const int count = width / V, first = part_of_row() * GROUP * HELD + threadIdx.x % GROUP;
    const long long row = blockIdx.x / CLUSTER * (long long)(THREADS / GROUP) + threadIdx.x / GROUP;
    // packs of the row, from the thread's first one on
    const int own = CLUSTER > 1 ? GROUP * HELD : row < rows ? count - first : 0;
    const Pack *from = (const Pack *)x + row * count + first;
    Pack *to = (Pack *)out + row * count + first, held[HELD];
    #pragma unroll
    for (int h = 0; h < HELD; h++)
        if (h * GROUP < own) held[h] = from[h * GROUP];

    Sum kept[HELD][V];
    Part all = {LOWEST, 0};
    #pragma unroll
    for (int h = 0; h < HELD; h++)
        #pragma unroll
        for (int v = 0; v < V; v++) {
            kept[h][v] = h * GROUP < own ? Sum(held[h].at[v]) : LOWEST;
            all.most = max(all.most, kept[h][v]);
        }
    const Sum base = base_of(all.most);
    #pragma unroll
    for (int h = 0; h < HELD; h++)
        #pragma unroll
        for (int v = 0; v < V; v++) {
            const Sum e = power(kept[h][v] - base);
            all.sum += e;
            if (!LOG) kept[h][v] = e;
        }
    all = finish(CLUSTER == 1 && GROUP <= 32 ? join_lanes<GROUP < 32 ? GROUP : 32>(all) : join_block(all));
    const Sum share = power(base - all.most) * all.sum;
    #pragma unroll
    for (int h = 0; h < HELD; h++) {
        Pack made;
        #pragma unroll
        for (int v = 0; v < V; v++) made.at[v] = From(LOG ? kept[h][v] - all.most - all.sum : kept[h][v] * share);
        if (h * GROUP < own) store(to + h * GROUP, made);
    }
}
