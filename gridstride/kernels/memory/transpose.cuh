// Transposes matrices x (h x w) into out (w x h); a block transposes one tile in shared memory, so that loads and
// stores are coalesced. Defined above: the type Number (any type of the element size), TILE, THREADS, and PAD (elements
// of padding per row against bank conflicts). Consecutive blocks have tiles of the same column, so that they store
// neighbouring elements.
__global__ void __launch_bounds__(THREADS) transpose(const Number *x, Number *out, int h, int w) {
    __shared__ Number tile[TILE][TILE + PAD];
    const int EACH = TILE * TILE / THREADS, STEP = THREADS / TILE;           // elements per thread, rows in between
    const int down = (h + TILE - 1) / TILE, across = (w + TILE - 1) / TILE;  // tiles
    const int matrix = blockIdx.x / (down * across), number = blockIdx.x % (down * across);
    const int r = number % down * TILE, c = number / down * TILE;
    const int column = threadIdx.x % TILE, row = threadIdx.x / TILE;
    x += (size_t)matrix * h * w;
    out += (size_t)matrix * h * w;
    Number held[EACH];                                      // all loads first, then their uses
    #pragma unroll
    for (int i = 0; i < EACH; i++)
        if (r + row + i * STEP < h && c + column < w) held[i] = x[(size_t)(r + row + i * STEP) * w + c + column];
    #pragma unroll
    for (int i = 0; i < EACH; i++) tile[row + i * STEP][column] = held[i];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < EACH; i++)
        if (c + row + i * STEP < w && r + column < h)
            out[(size_t)(c + row + i * STEP) * h + r + column] = tile[column][row + i * STEP];
}
