// The sizes of a launch. `rows` counts query positions, and `keys` positions of keys and values, each per sequence and
// head. group: query heads per KV head (GQA). TWO_KEY_ARRAYS (ring attention): query rows from `other_first_row` on
// also attend to the `other_keys` keys of a second array, and `order` lists the tiles in the order in which blocks
// process them.
struct Sizes {
    int batch, heads, group, rows, keys, window, section_heads, other_first_row, other_keys;
    const int *order;
};
// A work tile: BM query rows of one head, from `row` on. It takes the steps [first_step, end_step), of BN keys each;
// those from `own_steps` on read keys of the second array.
struct Tile { int batch, head, row, rows, keys, first_step, end_step, own_steps, other_first_row, other_keys; };

__device__ int cdiv(int a, int b) { return (a + b - 1)/b; }
__device__ int count_tiles(const Sizes &dims) { return dims.batch*dims.heads*cdiv(dims.rows, BM); }

// Returns the index of the tile that is nth in scheduling order
__device__ int nth_tile(int n, const Sizes &dims) { return TWO_KEY_ARRAYS ? dims.order[n] : n; }

// The L2 cache holds the keys and values of `section_heads` heads, so blocks finish these heads before they begin
// others. The last rows of these heads come first (longest processing time first): with a causal mask they attend to
// the most keys, and a long tile at the end would leave other SMs idle. LENS: `lens` contains the number of query rows
// of each sequence, then the number of keys of each.
__device__ Tile tile_of(int n, const Sizes &dims, const int *lens) {
    int row_tiles = cdiv(dims.rows, BM), all_heads = dims.batch*dims.heads;
    int section = n/(dims.section_heads*row_tiles), index = n%(dims.section_heads*row_tiles);
    int first_head = section*dims.section_heads;
    int heads = min(dims.section_heads, all_heads - first_head), head = first_head + index%heads;
    Tile t = {head/dims.heads, head%dims.heads, (row_tiles - 1 - index/heads)*BM, dims.rows, dims.keys, 0, 0, 0,
              dims.other_first_row, dims.other_keys};
    if (LENS) {
        t.rows = min(dims.rows, lens[t.batch]);
        t.keys = min(dims.keys, lens[dims.batch + t.batch]);
    }
    int end = CAUSAL ? min(t.keys, t.row + BM) : WINDOW ? min(t.keys, t.row + BM - 1 + dims.window) : t.keys;
    if (WINDOW) t.first_step = max(0, t.row - dims.window + 1)/BN;
    t.end_step = t.own_steps = t.row < t.rows ? max(t.first_step, cdiv(end, BN)) : t.first_step;
    if (TWO_KEY_ARRAYS && t.row < t.rows && t.row + BM > dims.other_first_row) t.end_step += cdiv(dims.other_keys, BN);
    return t;
}

// TWO_KEY_ARRAYS: returns the end (exclusive) of the keys that row i attends to, in the array that contains key j. The
// keys of the second array are numbered from own_steps*BN.
__device__ int key_end(int i, int j, const Tile &t) {
    if (j >= t.own_steps*BN) return i >= t.other_first_row ? t.own_steps*BN + t.other_keys : 0;
    return CAUSAL ? min(i + 1, t.keys) : t.keys;
}
// Returns whether row i attends to key j
__device__ bool attends(int i, int j, const Tile &t, int window) {
    if (TWO_KEY_ARRAYS) return j < key_end(i, j, t);
    return j < t.keys && (!CAUSAL || j <= i) && (!WINDOW || (j > i - window && j < i + window));
}
// Returns whether all `rows` rows from i on attend to all BN keys from j on, so that no mask is needed
__device__ bool is_full_tile(int i, int rows, int j, const Tile &t, int window) {
    return attends(i, j + BN - 1, t, window) && (!WINDOW || attends(i + rows - 1, j, t, window));
}
