// Shared by the depthwise convolution kernels for NCHW. A plane is one channel of one image. A block computes TILE_H x
// TILE_W outputs in each of PLANES planes, and stages the input tiles with their halo in shared memory. A thread
// computes ROWS x COLS outputs. It reads each row of its part of the input once, for all outputs that need this row.
// Requires definitions of Elem (element type of all arrays), KH and KW (filter size), STRIDE, DILATION, PAD_H, PAD_W,
// TILE_H, TILE_W, PLANES, ROWS, COLS (COLS * STRIDE is a multiple of 4), V (elements per load: divides the width, and
// TILE_W * STRIDE unless a tile is as wide as a plane), V_OUT (elements per store), THREADS (block size, at least
// PLANES * PLANE_THREADS).
struct alignas(V * sizeof(Elem)) Vector { Elem data[V]; };
struct alignas(V_OUT * sizeof(Elem)) OutVector { Elem data[V_OUT]; };
struct alignas(V < 4 ? V * 4 : 16) Floats { float data[V]; };
constexpr int THREADS_X = TILE_W / COLS, PLANE_THREADS = TILE_H / ROWS * THREADS_X;
constexpr int SPAN_H = (KH - 1) * DILATION + 1, SPAN_W = (KW - 1) * DILATION + 1;
constexpr int TILE_IN_H = (TILE_H - 1) * STRIDE + SPAN_H, THREAD_IN_H = (ROWS - 1) * STRIDE + SPAN_H;
// The input tile starts HALO_LEFT columns (PAD_W, rounded up to a multiple of V) to the left of the first output's
// column, so that vector loads are aligned. Per row, a thread reads READ_COLS columns as float4s. The tile's first SKIP
// columns are not read, because no output needs them. The first tap of a thread's first output is at SHIFT in what it
// read.
constexpr int HALO_LEFT = (PAD_W + V - 1) / V * V, SKIP = (HALO_LEFT - PAD_W) / 4 * 4, SHIFT = HALO_LEFT - PAD_W - SKIP;
constexpr int READ_COLS = (SHIFT + (COLS - 1) * STRIDE + SPAN_W + 3) / 4 * 4, PITCH_ALIGN = V > 4 ? V : 4;
constexpr int MIN_PITCH = SKIP + (THREADS_X - 1) * COLS * STRIDE + READ_COLS;
constexpr int PITCH = (MIN_PITCH + PITCH_ALIGN - 1) / PITCH_ALIGN * PITCH_ALIGN;
constexpr int ROW_VECTORS = PITCH / V, TILE_VECTORS = PLANES * TILE_IN_H * ROW_VECTORS, LOADS_IN_FLIGHT = 8;

// Loads the input tiles of PLANES planes, of which `planes_left` exist. Planes are `plane_stride` elements apart; the
// tile begins at row `in_row0` and column `in_col0` of a plane. LOADS_IN_FLIGHT loads per thread are in flight.
__device__ __forceinline__ void load_tile(float (*tile)[PITCH], const Elem *x, long long plane_stride, int planes_left,
                                          int height, int width, int in_row0, int in_col0) {
    for (int base = threadIdx.x; base < TILE_VECTORS; base += LOADS_IN_FLIGHT * THREADS) {
        Vector vectors[LOADS_IN_FLIGHT];
        #pragma unroll
        for (int load = 0; load < LOADS_IN_FLIGHT; load++) {
            const int i = base + load * THREADS, row = i / ROW_VECTORS, plane = row / TILE_IN_H;
            const int r = in_row0 + row % TILE_IN_H, c = in_col0 + i % ROW_VECTORS * V;
            const bool in_bounds = plane < min(planes_left, PLANES) && r >= 0 && r < height && c >= 0 && c < width;
            if (in_bounds) vectors[load] = *(const Vector *)(x + plane * plane_stride + r * width + c);
            else
                #pragma unroll
                for (int v = 0; v < V; v++) vectors[load].data[v] = Elem(0.f);
        }
        #pragma unroll
        for (int load = 0; load < LOADS_IN_FLIGHT; load++) {
            const int i = base + load * THREADS;
            Floats floats;
            #pragma unroll
            for (int v = 0; v < V; v++) floats.data[v] = float(vectors[load].data[v]);
            if (i < TILE_VECTORS) *(Floats *)&tile[i / ROW_VECTORS][i % ROW_VECTORS * V] = floats;
        }
    }
}

// Calls visit(r, c, tap, x) once per multiply-add of this thread: output (r, c) of the thread, tap of the filter,
// element of the input. `tile` points at the thread's first input row; `out_col` is the column of its first output in
// the tile.
template <class Visit>
__device__ __forceinline__ void visit_taps(const float (*tile)[PITCH], int out_col, Visit visit) {
    #pragma unroll
    for (int i = 0; i < THREAD_IN_H; i++) {
        float row[READ_COLS];
        #pragma unroll
        for (int j = 0; j < READ_COLS; j += 4)
            *(float4 *)&row[j] = *(const float4 *)&tile[i][SKIP + out_col * STRIDE + j];
        #pragma unroll
        for (int kh = 0; kh < KH; kh++) {
            const int row_offset = i - kh * DILATION;
            if (row_offset < 0 || row_offset % STRIDE || row_offset / STRIDE >= ROWS) continue;
            #pragma unroll
            for (int kw = 0; kw < KW; kw++)
                #pragma unroll
                for (int c = 0; c < COLS; c++)
                    visit(row_offset / STRIDE, c, kh * KW + kw, row[SHIFT + c * STRIDE + kw * DILATION]);
        }
    }
}

