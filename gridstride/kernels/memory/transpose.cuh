// out (w x h) = x (h x w) turned, matrix after matrix; a block turns one tile in shared memory, so that rows are read
// and written as they lie. Above: the type Number (any of its size), TILE, THREADS, and PAD (numbers that make columns
// cross all banks). Blocks go down the columns of tiles: neighbours write beside each other.
__global__ void __launch_bounds__(THREADS) transpose(const Number *x, Number *out, int h, int w) {
    __shared__ Number tile[TILE][TILE + PAD];
    const int EACH = TILE * TILE / THREADS, STEP = THREADS / TILE;           // numbers of a thread, rows in between
    const int down = (h + TILE - 1) / TILE, across = (w + TILE - 1) / TILE;  // tiles
    const int matrix = blockIdx.x / (down * across), number = blockIdx.x % (down * across);
    const int r = number % down * TILE, c = number / down * TILE;
    const int column = threadIdx.x % TILE, row = threadIdx.x / TILE;
    x += (size_t)matrix * h * w;
    out += (size_t)matrix * h * w;
    Number held[EACH];                                      // all loads first, then what needs them
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
