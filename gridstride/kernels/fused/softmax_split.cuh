// Softmax of rows that are too long for a cluster: `blocks` blocks per row read `share` packs each and write a Part. A
// second launch joins the Parts and reads the row again.

__global__ void __launch_bounds__(THREADS)
find_parts(const From *x, const From *dy, Part *parts, long long width, long long share, int blocks) {
    const long long row = blockIdx.x / blocks, part = blockIdx.x % blocks, end = min(width / V, (part + 1) * share);
    const Pack *xs = (const Pack *)(x + row * width), *dys = (const Pack *)(dy + row * width);
    Part all = {LOWEST, 0};
    for (long long i = part * share + threadIdx.x; i < end; i += THREADS) {
        Pack a = xs[i], b = INPUTS == 2 ? dys[i] : a;
        Part some = {LOWEST, 0};
        #pragma unroll
        for (int v = 0; v < V; v++) some.most = max(some.most, most_of(Sum(a.at[v])));
        #pragma unroll
        for (int v = 0; v < V; v++) some.sum += term(Sum(a.at[v]), Sum(b.at[v]), base_of(some.most));
        all = join(all, some);
    }
    all = join_block(all);
    if (threadIdx.x == 0) parts[blockIdx.x] = all;
}

__global__ void __launch_bounds__(THREADS) finish_rows(const From *x, const From *dy, const Part *parts, From *out,
                                                       long long width, long long share, int blocks) {
    const long long row = blockIdx.x / blocks, part = blockIdx.x % blocks, end = min(width / V, (part + 1) * share);
    const Pack *xs = (const Pack *)(x + row * width), *dys = (const Pack *)(dy + row * width);
    Pack *outs = (Pack *)(out + row * width);
    Part all = {LOWEST, 0};
    for (int i = threadIdx.x; i < blocks; i += THREADS) all = join(all, parts[row * blocks + i]);
    all = finish(join_block(all));
    for (long long i = part * share + threadIdx.x; i < end; i += THREADS) {
        Pack a = xs[i], b = INPUTS == 2 ? dys[i] : a, y;
        #pragma unroll
        for (int v = 0; v < V; v++) y.at[v] = From(result(Sum(a.at[v]), Sum(b.at[v]), all));
        store(outs + i, y);
    }
}
