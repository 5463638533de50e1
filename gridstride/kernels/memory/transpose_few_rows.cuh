// Transposes matrices x (HEIGHT x w) with few rows into out (w x HEIGHT). A block transposes WIDTH columns of all rows,
// whose results are adjacent in memory. It loads them row by row into shared memory, and stores them in their order in
// memory, so that loads and stores are coalesced.
// Requires definitions of the type Elem (any type with the size of an element), HEIGHT, WIDTH, THREADS, PAD (elements
// of padding per row, which prevent bank conflicts).
__global__ void __launch_bounds__(THREADS) transpose_few_rows(const Elem *x, Elem *out, int w) {
    __shared__ Elem tile[HEIGHT][WIDTH + PAD];
    const int tiles = (w + WIDTH - 1) / WIDTH, matrix = blockIdx.x / tiles, first = blockIdx.x % tiles * WIDTH;
    const int columns = min(WIDTH, w - first);
    x += (size_t)matrix * HEIGHT * w + first;
    out += (size_t)matrix * HEIGHT * w + (size_t)first * HEIGHT;
    #pragma unroll
    for (int i = threadIdx.x; i < HEIGHT * WIDTH; i += THREADS)
        if (i % WIDTH < columns) tile[i / WIDTH][i % WIDTH] = x[(size_t)(i / WIDTH) * w + i % WIDTH];
    __syncthreads();
    #pragma unroll
    for (int i = threadIdx.x; i < HEIGHT * WIDTH; i += THREADS)
        if (i < HEIGHT * columns) out[i] = tile[i % HEIGHT][i / HEIGHT];
}
