// Split-K: the pages of all sequences, one sequence after the other, are divided into equal splits. Each of the blocks
// with the same rows of q processes one split, in pieces: consecutive pages of one sequence.
struct Sizes { int batch, rows, heads, pages, table_columns, splits; };  // rows: of q per sequence
struct Piece { int b, first, end, num_pages, slot; };          // pages `first` to `end - 1` of `num_pages`; result slot

__device__ int pages_of(int len, const Sizes &dims) {
    int pages = len/PAGE_SIZE + (len%PAGE_SIZE > 0);
    if (len < 0 || pages > dims.table_columns) __trap();       // the row of the table has fewer pages
    return pages;
}
__device__ int page_at(const int *table, int b, int i, const Sizes &dims) {
    int page = table[(long long)b*dims.table_columns + i];
    if (page < 0 || page >= dims.pages) __trap();
    return page;
}
__device__ int split_begin(int split, int total, const Sizes &dims) { return (long long)split*total/dims.splits; }
__device__ int split_of(int page, int total, const Sizes &dims) {
    return (((long long)page + 1)*dims.splits - 1)/total;
}

template<class T> __device__ T warp_sum(T x) {
    for (int distance = 16; distance; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
    return x;
}
__device__ int warp_prefix_sum(int x) {
    for (int distance = 1; distance < 32; distance *= 2) {
        int below = __shfl_up_sync(~0u, x, distance);
        if (threadIdx.x%32 >= distance) x += below;
    }
    return x;
}
// Counts the pages of the first `count` sequences; called by all lanes of a warp.
__device__ int count_pages(const int *lens, int count, const Sizes &dims) {
    int sum = 0;
    for (int i = threadIdx.x%32; i < count; i += 32) sum += pages_of(lens[i], dims);
    return warp_sum(sum);
}

// An iterator over the pieces of a split. `pages_before`: pages of the sequences before b.
struct PieceIterator {
    int b, pages_before, page, end, split, start;
    __device__ bool has_next() const { return page < end; }
    __device__ Piece next(const int *lens, const Sizes &dims) {
        int num_pages;
        while ((num_pages = pages_of(lens[b], dims)) == 0) b++;
        bool starts_sequence = page == pages_before, is_first = page == start;
        Piece p = {b, page - pages_before, min(end - pages_before, num_pages), num_pages, 0};
        // -1: the sequence is not split, so this is the final result
        p.slot = starts_sequence && p.end == num_pages ? -1 : 2*split + !is_first;
        page = pages_before += num_pages;
        b++;
        return p;
    }
};

// Creates the iterator of a split; called by all lanes of a warp. A prefix sum of pages finds the sequence in which the
// split begins.
__device__ PieceIterator pieces_of_split(int split, const int *lens, const Sizes &dims) {
    int total = count_pages(lens, dims.batch, dims), first_page = split_begin(split, total, dims), pages_before = 0;
    int lane = threadIdx.x%32;
    PieceIterator it = {0, 0, first_page, split_begin(split + 1, total, dims), split, first_page};
    if (!it.has_next()) return it;
    for (;; it.b += 32) {
        int own_pages = it.b + lane < dims.batch ? pages_of(lens[it.b + lane], dims) : 0;
        int sum = warp_prefix_sum(own_pages);
        unsigned ends_after = __ballot_sync(~0u, pages_before + sum > first_page);
        if (ends_after) {
            int first_lane = __ffs(ends_after) - 1;
            it.pages_before = pages_before + __shfl_sync(~0u, sum - own_pages, first_lane);
            it.b += first_lane;
            return it;
        }
        pages_before += __shfl_sync(~0u, sum, 31);
    }
}
__device__ PieceIterator pieces_of_block(const int *lens, const Sizes &dims) {
    __shared__ PieceIterator shared;
    if (threadIdx.x < 32) {
        PieceIterator it = pieces_of_split(blockIdx.y, lens, dims);
        if (threadIdx.x == 0) shared = it;
    }
    __syncthreads();
    return shared;
}

// Returns the end of the keys that row i of q attends to: a row of the last new token attends to all keys, a row of the
// token before it to one key less, and so on.
__device__ int key_end(int i, int len, const Sizes &dims) { return len - (dims.rows - 1 - i)/dims.heads; }
