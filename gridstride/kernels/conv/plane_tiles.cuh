// What the depthwise convolutions of planes (NCHW) share. A block works on a tile of TILE_H x TILE_W outputs of each of
// PLANES planes, with a tile of the input, with its halo, in shared memory. A thread works on ROWS x COLS outputs. It
// reads each row of its part of the input once, for all outputs that need this row.
// Defined above: Elem (of all arrays), KH and KW (the sizes of the kernel), STRIDE, DILATION, PAD_H, PAD_W, TILE_H,
// TILE_W, PLANES, ROWS, COLS (COLS * STRIDE is a multiple of 4), V (elements per load: divides the width, and TILE_W *
// STRIDE unless a tile is as wide as a plane), V_OUT (elements per store), LOAD_LANES (threads that load a row).
struct alignas(V * sizeof(Elem)) Pack { Elem at[V]; };
struct alignas(V_OUT * sizeof(Elem)) PackOut { Elem at[V_OUT]; };
constexpr int LANES_X = TILE_W / COLS, PLANE_THREADS = TILE_H / ROWS * LANES_X, THREADS = PLANES * PLANE_THREADS;
constexpr int SPAN_H = (KH - 1) * DILATION + 1, SPAN_W = (KW - 1) * DILATION + 1;
constexpr int IN_H = (TILE_H - 1) * STRIDE + SPAN_H, IN_ROWS = (ROWS - 1) * STRIDE + SPAN_H;
// The tile begins LEFT columns before the first output's, so loads are aligned; a thread reads aligned float4s of it
constexpr int LEFT = (PAD_W + V - 1) / V * V, SKIP = (LEFT - PAD_W) / 4 * 4, SHIFT = LEFT - PAD_W - SKIP;
constexpr int READ = (SHIFT + (COLS - 1) * STRIDE + SPAN_W + 3) / 4 * 4, UNIT = V > 4 ? V : 4;
constexpr int PITCH = (SKIP + (LANES_X - 1) * COLS * STRIDE + READ + UNIT - 1) / UNIT * UNIT;
constexpr int STEP = THREADS / LOAD_LANES;                  // rows that are loaded at once

__device__ __forceinline__ void load_tile(float (*tile)[PITCH], const Elem *x, int planes, int height, int width,
                                          int top, int left) {
    if (threadIdx.x >= STEP * LOAD_LANES) return;
    for (int row = threadIdx.x / LOAD_LANES; row < PLANES * IN_H; row += STEP) {
        const int plane = row / IN_H, r = top + row % IN_H;
        const bool is_inside = plane < planes && r >= 0 && r < height;
        const Elem *from = x + ((size_t)plane * height + r) * width;
        for (int i = threadIdx.x % LOAD_LANES * V; i < PITCH; i += LOAD_LANES * V) {
            const int c = left + i;
            Pack pack;
            if (is_inside && c >= 0 && c < width) pack = *(const Pack *)(from + c);
            else
                for (int v = 0; v < V; v++) pack.at[v] = Elem(0.f);
            #pragma unroll
            for (int v = 0; v < V; v++) tile[row][i + v] = float(pack.at[v]);
        }
    }
}

// Calls use(r, c, tap, x) per product of this thread: output (r, c), tap of the kernel, element of the input
template <class Use> __device__ __forceinline__ void for_products(const float (*tile)[PITCH], int column, Use use) {
    #pragma unroll
    for (int i = 0; i < IN_ROWS; i++) {
        float row[READ];
        #pragma unroll
        for (int j = 0; j < READ; j += 4) *(float4 *)&row[j] = *(const float4 *)&tile[i][SKIP + column * STRIDE + j];
        #pragma unroll
        for (int kh = 0; kh < KH; kh++) {
            const int down = i - kh * DILATION;
            if (down < 0 || down % STRIDE || down / STRIDE >= ROWS) continue;
            #pragma unroll
            for (int kw = 0; kw < KW; kw++)
                #pragma unroll
                for (int c = 0; c < COLS; c++)
                    use(down / STRIDE, c, kh * KW + kw, row[SHIFT + c * STRIDE + kw * DILATION]);
        }
    }
}

