// Transposes matrices x (h x w) into out (w x h). A block transposes one tile in shared memory, so that loads and
// stores are coalesced. Consecutive blocks transpose tiles of one column, so that they store to adjacent addresses.
// Requires definitions of the type Elem (any type with the size of an element), TILE, THREADS, PAD (elements of padding
// per row, which prevent bank conflicts).
__global__ void __launch_bounds__(THREADS) transpose(const Elem *x, Elem *out, int h, int w) {
    __shared__ Elem tile[TILE][TILE + PAD];
    const int PER_THREAD = TILE * TILE / THREADS, ROW_STEP = THREADS / TILE;  // per thread: elements, distance in rows
    const int tiles_y = (h + TILE - 1) / TILE, tiles_x = (w + TILE - 1) / TILE;  // number of tiles
    const int matrix = blockIdx.x / (tiles_y * tiles_x), tile_index = blockIdx.x % (tiles_y * tiles_x);
    const int r = tile_index % tiles_y * TILE, c = tile_index / tiles_y * TILE;
    const int column = threadIdx.x % TILE, row = threadIdx.x / TILE;
    x += (size_t)matrix * h * w;
    out += (size_t)matrix * h * w;
    Elem values[PER_THREAD];                                        // issue all loads before the first use
    #pragma unroll
    for (int i = 0; i < PER_THREAD; i++)
        if (r + row + i * ROW_STEP < h && c + column < w)
            values[i] = x[(size_t)(r + row + i * ROW_STEP) * w + c + column];
    #pragma unroll
    for (int i = 0; i < PER_THREAD; i++) tile[row + i * ROW_STEP][column] = values[i];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < PER_THREAD; i++)
        if (c + row + i * ROW_STEP < w && r + column < h)
            out[(size_t)(c + row + i * ROW_STEP) * h + r + column] = tile[column][row + i * ROW_STEP];
}
