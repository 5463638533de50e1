// Depthwise convolution of images that are stored channels last (NHWC), if the channels of a pixel are a multiple of 16
// bytes and the arrays are aligned to 16 bytes. A block computes tiles of TILE_H x TILE_W outputs of its CHANNELS
// channels, one after another. Asynchronous copies load the input of a tile with its halo into shared memory, and write
// zeros where it is out of bounds; with STAGES = 2 they load the next tile meanwhile. A thread holds the taps of V
// channels in registers, and computes ROWS x COLS outputs: it reads each row of its part of the input once.
// Requires definitions of Elem, KH, KW, STRIDE, DILATION, PAD_H, PAD_W, ROWS, COLS, V, LANES (threads per pixel),
// THREADS_Y, THREADS_X (threads along the height and the width of a tile), STAGES, MIN_BLOCKS (per SM), BIAS, FLIP (the
// filter is rotated by 180 degrees: the gradient of x).
struct alignas(V * sizeof(Elem)) Vector { Elem data[V]; };
constexpr int THREADS = LANES * THREADS_Y * THREADS_X, CHANNELS = LANES * V, TAPS = KH * KW;
constexpr int TILE_H = THREADS_Y * ROWS, TILE_W = THREADS_X * COLS;
constexpr int TILE_IN_H = (TILE_H - 1) * STRIDE + (KH - 1) * DILATION + 1;
constexpr int TILE_IN_W = (TILE_W - 1) * STRIDE + (KW - 1) * DILATION + 1;
constexpr int THREAD_IN_H = (ROWS - 1) * STRIDE + (KH - 1) * DILATION + 1;
constexpr int THREAD_IN_W = (COLS - 1) * STRIDE + (KW - 1) * DILATION + 1;
constexpr int CHUNK = 16 / sizeof(Elem), CHUNKS = CHANNELS / CHUNK, COPIES = TILE_IN_H * TILE_IN_W * CHUNKS;
static_assert(CHANNELS % CHUNK == 0, "a chunk would span two pixels");

struct Shape { int channels, height, width, out_height, out_width, tiles_x, tiles_y; };

struct Tile {
    int image, row, column;                                                 // of its first output
    __device__ Tile(int index, const Shape &s)
        : image(index / s.tiles_x / s.tiles_y), row(index / s.tiles_x % s.tiles_y * TILE_H),
          column(index % s.tiles_x * TILE_W) {}
};

__device__ void load_tile(u32 buffer, const Elem *x, int first, const Tile &tile, const Shape &s) {
    const int top = tile.row * STRIDE - PAD_H, left = tile.column * STRIDE - PAD_W, chunk = threadIdx.x % CHUNKS;
    const Elem *image = x + (long long)tile.image * s.height * s.width * s.channels + first + chunk * CHUNK;
    const bool has_channel = first + chunk * CHUNK < s.channels;
    #pragma unroll 4
    for (int pixel = threadIdx.x / CHUNKS; pixel < TILE_IN_H * TILE_IN_W; pixel += THREADS / CHUNKS) {
        const int r = top + pixel / TILE_IN_W, c = left + pixel % TILE_IN_W;
        const bool in_bounds = (unsigned)r < s.height && (unsigned)c < s.width && has_channel;
        const Elem *source = in_bounds ? image + (long long)(r * s.width + c) * s.channels : x;
        copy_async<16>(buffer + (pixel * CHUNKS + chunk) * 16, source, in_bounds);
    }
}

__device__ void load_taps(u32 buffer, const Elem *weight, int first, int channels) {
    for (int i = threadIdx.x; i < CHANNELS * TAPS / CHUNK; i += THREADS) {
        const int offset = first * TAPS + i * CHUNK;
        const bool in_bounds = offset < channels * TAPS;
        copy_async<16>(buffer + i * 16, in_bounds ? weight + offset : weight, in_bounds);
    }
}

// Adds a row of the input of a thread, `row` rows below its first, to the outputs that need it
__device__ __forceinline__ void add_row(float (&sums)[ROWS][COLS][V], const Elem *input, const float (&taps)[TAPS][V],
                                        int row) {
    float values[THREAD_IN_W][V];
    #pragma unroll
    for (int c = 0; c < THREAD_IN_W; c++) {
        const Vector vector = *(const Vector *)(input + (row * TILE_IN_W + c) * CHANNELS);
        #pragma unroll
        for (int v = 0; v < V; v++) values[c][v] = float(vector.data[v]);
    }
    #pragma unroll
    for (int kh = 0; kh < KH; kh++) {
        const int down = row - kh * DILATION;
        if (down < 0 || down % STRIDE || down / STRIDE >= ROWS) continue;
        #pragma unroll
        for (int kw = 0; kw < KW; kw++)
            #pragma unroll
            for (int c = 0; c < COLS; c++)
                #pragma unroll
                for (int v = 0; v < V; v++)
                    sums[down / STRIDE][c][v] += taps[kh * KW + kw][v] * values[c * STRIDE + kw * DILATION][v];
    }
}

__device__ __forceinline__ void store_outputs(const float (&sums)[ROWS][COLS][V], Elem *y, int channel,
                                              const Tile &tile, int row, int column, const Shape &s) {
    const int out_row = tile.row + row, out_column = tile.column + column;
    const long long pixel_index = ((long long)tile.image * s.out_height + out_row) * s.out_width + out_column;
    Elem *y_row = y + pixel_index * s.channels + channel;
    #pragma unroll
    for (int r = 0; r < ROWS; r++, y_row += (long long)s.out_width * s.channels) {
        if (out_row + r >= s.out_height) break;
        Elem *pixel = y_row;
        #pragma unroll
        for (int c = 0; c < COLS; c++, pixel += s.channels) {
            if (out_column + c >= s.out_width) break;
            Vector vector;
            #pragma unroll
            for (int v = 0; v < V; v++) vector.data[v] = Elem(sums[r][c][v]);
            *(Vector *)pixel = vector;
        }
    }
}

__global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
depthwise_nhwc_tile(const Elem *x, const Elem *weight, const Elem *bias, Elem *y, int channels, int height, int width,
                    int out_height, int out_width, int tiles_x, int tiles_y, int tiles, int groups) {
    extern __shared__ __align__(16) unsigned char memory[];
    Elem *const buffers = (Elem *)memory, *const smem_taps = buffers + STAGES * COPIES * CHUNK;
    const Shape shape{channels, height, width, out_height, out_width, tiles_x, tiles_y};
    const int first = blockIdx.x % groups * CHANNELS, step = gridDim.x / groups;
    const int lane = threadIdx.x % LANES * V, channel = first + lane;
    const int row = threadIdx.x / LANES / THREADS_X * ROWS, column = threadIdx.x / LANES % THREADS_X * COLS;
    int index = blockIdx.x / groups;
    load_taps(address(smem_taps), weight, first, channels);
    load_tile(address(buffers), x, first, Tile(index, shape), shape);
    copies_commit();
    copies_wait<0>();
    __syncthreads();
    float taps[TAPS][V], initial[V];
    #pragma unroll
    for (int v = 0; v < V; v++) {
        #pragma unroll
        for (int k = 0; k < TAPS; k++) taps[k][v] = float(smem_taps[(lane + v) * TAPS + (FLIP ? TAPS - 1 - k : k)]);
        initial[v] = BIAS && channel < channels ? float(bias[channel + v]) : 0.f;
    }
    for (int stage = 0; index < tiles; index += step, stage = (stage + 1) % STAGES) {
        const bool has_next = index + step < tiles;
        const Tile tile(index, shape), next(index + step, shape);
        if (STAGES > 1 && has_next)
            load_tile(address(buffers + (stage + 1) % STAGES * COPIES * CHUNK), x, first, next, shape);
        if (channel < channels && tile.row + row < out_height && tile.column + column < out_width) {
            float sums[ROWS][COLS][V];
            #pragma unroll
            for (int i = 0; i < ROWS * COLS * V; i++) sums[i / V / COLS][i / V % COLS][i % V] = initial[i % V];
            const Elem *stage_buffer = buffers + stage * COPIES * CHUNK;
            const Elem *input = stage_buffer + (row * TILE_IN_W + column) * STRIDE * CHANNELS + lane;
            #pragma unroll
            for (int i = 0; i < THREAD_IN_H; i++) add_row(sums, input, taps, i);
            store_outputs(sums, y, channel, tile, row, column, shape);
        }
        if (!has_next) break;
        if (STAGES == 1) __syncthreads();
        if (STAGES == 1) load_tile(address(buffers), x, first, next, shape);
        copies_commit();
        copies_wait<0>();
        __syncthreads();
    }
}
