// Functions that the depthwise convolutions of planes (NCHW) share. A block works on a tile of TILE_H x TILE_W outputs
// of each of PLANES planes, with a tile of the input, with its halo, in shared memory. A thread works on ROWS x COLS
// outputs. It reads each row of its part of the input once, for all outputs that need this row.
// Defined above: Elem (of all arrays), KH and KW (the sizes of the kernel), STRIDE, DILATION, PAD_H, PAD_W, TILE_H,
// TILE_W, PLANES, ROWS, COLS (COLS * STRIDE is a multiple of 4), V (elements per load: divides the width, and TILE_W *
// STRIDE unless a tile is as wide as a plane), V_OUT (elements per store), THREADS (at least one per part of the tile).
struct alignas(V * sizeof(Elem)) Vector { Elem at[V]; };
struct alignas(V_OUT * sizeof(Elem)) OutVector { Elem at[V_OUT]; };
struct alignas(V < 4 ? V * 4 : 16) Floats { float at[V]; };
constexpr int LANES_X = TILE_W / COLS, PLANE_THREADS = TILE_H / ROWS * LANES_X;
constexpr int SPAN_H = (KH - 1) * DILATION + 1, SPAN_W = (KW - 1) * DILATION + 1;
constexpr int IN_H = (TILE_H - 1) * STRIDE + SPAN_H, IN_ROWS = (ROWS - 1) * STRIDE + SPAN_H;
// The tile begins LEFT columns before that of the first output, so loads are aligned. A thread reads aligned float4s of
// it: READ columns per row, after the first SKIP columns, which no output needs; its first tap is SHIFT columns later.
constexpr int LEFT = (PAD_W + V - 1) / V * V, SKIP = (LEFT - PAD_W) / 4 * 4, SHIFT = LEFT - PAD_W - SKIP;
constexpr int READ = (SHIFT + (COLS - 1) * STRIDE + SPAN_W + 3) / 4 * 4, UNIT = V > 4 ? V : 4;
constexpr int PITCH = (SKIP + (LANES_X - 1) * COLS * STRIDE + READ + UNIT - 1) / UNIT * UNIT;
constexpr int ROW_VECTORS = PITCH / V, TILE_VECTORS = PLANES * IN_H * ROW_VECTORS, LOADS_IN_FLIGHT = 8;

// Loads the tile of PLANES planes, which are `plane_stride` elements apart; several loads of a thread are in flight
__device__ __forceinline__ void load_tile(float (*tile)[PITCH], const Elem *x, long long plane_stride, int planes,
                                          int height, int width, int top, int left) {
    for (int from = threadIdx.x; from < TILE_VECTORS; from += LOADS_IN_FLIGHT * THREADS) {
        Vector vectors[LOADS_IN_FLIGHT];
        #pragma unroll
        for (int a = 0; a < LOADS_IN_FLIGHT; a++) {
            const int i = from + a * THREADS, row = i / ROW_VECTORS, plane = row / IN_H;
            const int r = top + row % IN_H, c = left + i % ROW_VECTORS * V;
            const bool in_bounds = plane < min(planes, PLANES) && r >= 0 && r < height && c >= 0 && c < width;
            if (in_bounds) vectors[a] = *(const Vector *)(x + plane * plane_stride + r * width + c);
            else
                #pragma unroll
                for (int v = 0; v < V; v++) vectors[a].at[v] = Elem(0.f);
        }
        #pragma unroll
        for (int a = 0; a < LOADS_IN_FLIGHT; a++) {
            const int i = from + a * THREADS;
            Floats floats;
            #pragma unroll
            for (int v = 0; v < V; v++) floats.at[v] = float(vectors[a].at[v]);
            if (i < TILE_VECTORS) *(Floats *)&tile[i / ROW_VECTORS][i % ROW_VECTORS * V] = floats;
        }
    }
}

// Calls visit(r, c, tap, x) once per product of this thread: output (r, c), tap of the kernel, element of the input
template <class Visit> __device__ __forceinline__ void visit_taps(const float (*tile)[PITCH], int column, Visit visit) {
    #pragma unroll
    for (int i = 0; i < IN_ROWS; i++) {
        float row[READ];
        #pragma unroll
        for (int j = 0; j < READ; j += 4) *(float4 *)&row[j] = *(const float4 *)&tile[i][SKIP + column * STRIDE + j];
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

