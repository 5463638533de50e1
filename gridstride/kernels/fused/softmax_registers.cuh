// Softmax of rows that are read once: GROUP threads of each of CLUSTER blocks hold a row in registers, HELD packs per
// thread (exactly HELD in a cluster). Exponentials are computed once, relative to the maximum of the thread, and scaled
// when the maximum and the sum of the row are known. Defined above: GROUP, HELD, BLOCKS (per SM).
__global__ void __launch_bounds__(THREADS, BLOCKS)
keep_rows(const From *x, const From *, From *out, long long rows, int width) {
    begin();
    const int count = width / V, first = part_of_row() * GROUP * HELD + threadIdx.x % GROUP;
    const long long row = blockIdx.x / CLUSTER * (long long)(THREADS / GROUP) + threadIdx.x / GROUP;
    // The number of packs of the row from the thread's first one on.
    const int own = CLUSTER > 1 ? GROUP * HELD : row < rows ? count - first : 0;
    const Pack *from = (const Pack *)x + row * count + first;
    Pack *to = (Pack *)out + row * count + first, held[HELD];
    #pragma unroll
    for (int h = 0; h < HELD; h++)
        if (h * GROUP < own) held[h] = from[h * GROUP];

    Sum terms[HELD][V];
    Part all = {LOWEST, 0};
    #pragma unroll
    for (int h = 0; h < HELD; h++)
        #pragma unroll
        for (int v = 0; v < V; v++) {
            terms[h][v] = h * GROUP < own ? Sum(held[h].at[v]) : LOWEST;
            all.most = max(all.most, terms[h][v]);
        }
    const Sum base = base_of(all.most);
    #pragma unroll
    for (int h = 0; h < HELD; h++)
        #pragma unroll
        for (int v = 0; v < V; v++) {
            const Sum e = power(terms[h][v] - base);
            all.sum += e;
            if (!LOG) terms[h][v] = e;
        }
    all = finish(CLUSTER == 1 && GROUP <= 32 ? join_lanes<GROUP < 32 ? GROUP : 32>(all) : join_block(all));
    const Sum factor = power(base - all.most) * all.sum;
    #pragma unroll
    for (int h = 0; h < HELD; h++) {
        Pack result;
        #pragma unroll
        for (int v = 0; v < V; v++) result.at[v] = From(LOG ? terms[h][v] - all.most - all.sum : terms[h][v] * factor);
        if (h * GROUP < own) store(to + h * GROUP, result);
    }
}
