// Split-K: the pages of all sequences, one sequence after the other, are split into equal parts, one per block with the
// same rows of q. A block processes its part in pieces, each of which has consecutive pages of one sequence.
struct Sizes { int batch, rows, heads, pages, table_columns, parts; };  // rows: of q per sequence
struct Piece { int b, first, last, num_pages, slot; };         // pages `first` to `last` of `num_pages`; result slot

__device__ int pages_of(int len, const Sizes &z) {
    int pages = len/PAGE + (len%PAGE > 0);
    if (len < 0 || pages > z.table_columns) __trap();          // the row of the table has fewer pages
    return pages;
}
__device__ int page_at(const int *table, int b, int i, const Sizes &z) {
    int page = table[(long long)b*z.table_columns + i];
    if (page < 0 || page >= z.pages) __trap();
    return page;
}
__device__ int part_begin(int part, int total, const Sizes &z) { return (long long)part*total/z.parts; }
__device__ int part_of(int page, int total, const Sizes &z) { return (((long long)page + 1)*z.parts - 1)/total; }

template<class T> __device__ T warp_sum(T x) {
    for (int distance = 16; distance; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
    return x;
}
__device__ int warp_prefix_sum(int x) {
    for (int distance = 1; distance < 32; distance *= 2) {
        int before = __shfl_up_sync(~0u, x, distance);
        if (threadIdx.x%32 >= distance) x += before;
    }
    return x;
}
// Counts the pages of the first `count` sequences; called by all lanes of a warp.
__device__ int count_pages(const int *lens, int count, const Sizes &z) {
    int sum = 0;
    for (int i = threadIdx.x%32; i < count; i += 32) sum += pages_of(lens[i], z);
    return warp_sum(sum);
}

// An iterator over the pieces of a part. `before`: pages of the sequences before b.
struct PieceIterator {
    int b, before, page, end, part, start;
    __device__ bool has_next() const { return page < end; }
    __device__ Piece next(const int *lens, const Sizes &z) {
        int num_pages;
        while ((num_pages = pages_of(lens[b], z)) == 0) b++;
        bool begun = page == before, is_first = page == start;
        Piece p = {b, page - before, min(end - before, num_pages), num_pages, 0};
        // -1: the sequence is not split, so this is the final result
        p.slot = begun && p.last == num_pages ? -1 : 2*part + !is_first;
        page = before += num_pages;
        b++;
        return p;
    }
};

// Creates the iterator of a part; called by all lanes of a warp. A prefix sum of pages finds the sequence in which the
// part begins.
__device__ PieceIterator pieces_of_part(int part, const int *lens, const Sizes &z) {
    int total = count_pages(lens, z.batch, z), from = part_begin(part, total, z), before = 0, lane = threadIdx.x%32;
    PieceIterator w = {0, 0, from, part_begin(part + 1, total, z), part, from};
    if (!w.has_next()) return w;
    for (;; w.b += 32) {
        int own_pages = w.b + lane < z.batch ? pages_of(lens[w.b + lane], z) : 0, sum = warp_prefix_sum(own_pages);
        unsigned ends_after = __ballot_sync(~0u, before + sum > from);
        if (ends_after) {
            int first_lane = __ffs(ends_after) - 1;
            w.before = before + __shfl_sync(~0u, sum - own_pages, first_lane);
            w.b += first_lane;
            return w;
        }
        before += __shfl_sync(~0u, sum, 31);
    }
}
__device__ PieceIterator pieces_of_block(const int *lens, const Sizes &z) {
    __shared__ PieceIterator shared;
    if (threadIdx.x < 32) {
        PieceIterator w = pieces_of_part(blockIdx.y, lens, z);
        if (threadIdx.x == 0) shared = w;
    }
    __syncthreads();
    return shared;
}

// Returns the end of the keys that row i of q attends to: a row of the last new token attends to all keys, a row of the
// token before it to one key less, and so on.
__device__ int end_of(int i, int len, const Sizes &z) { return len - (z.rows - 1 - i)/z.heads; }
