// Host code of an exported matrix product: makes random inputs, checks every result against float64, measures the time.
// Requires definitions of the kernel, NAME, SMS (the number of SMs that the grids are for), Elem (the type of m, n and
// out), m_transposed and n_transposed (m or n is stored transposed), and cases (h, w, k of h x k @ k x w; the last case
// is timed). The launches are defined below.
void multiply(int case_index, const Elem *m, const Elem *n, Elem *out);

// Makes normally distributed values, the same in each run: the Box-Muller transform of two hashes of the index.
__device__ inline float uniform(unsigned long long x) {                    // returns a value above 0, at most 1
    x = (x ^ x >> 31) * 0x7fb5d329728ea185ull;
    x = (x ^ x >> 27) * 0x81dadef4bc2dd44dull;
    return ((x ^ x >> 33) >> 40) * 0x1p-24f + 0x1p-25f;
}

__global__ void randomize(Elem *x, size_t size, unsigned long long seed) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    unsigned long long counter = (seed << 40 | i) * 2 + 0x9e3779b97f4a7c15ull;
    x[i] = Elem(sqrtf(-2 * logf(uniform(counter))) * cospif(2 * uniform(counter + 1)));
}

// The error bound of a correct result, compared with the float64 product. A sum of k products in float32, in any order,
// has an error of a few times 2^-24 times the sum of the products' absolute values: at most 3 times was measured, 16
// times is allowed. A missing or additional product exceeds this by far. Rounding the result to its type adds up to
// 2^-8 (bfloat16) or 2^-24 (float32) of its value.
constexpr double UNIT_ROUNDOFF = sizeof(Elem) == 2 ? 0x1p-8 : 0x1p-24, TERM_TOLERANCE = 16 * 0x1p-24;

struct Errors {
    unsigned long long count, first;        // how many elements are wrong, and the index of the first
    unsigned max_ratio;                     // the largest error, divided by its bound, as the bits of a float
};

// A block of 16 x 16 threads computes TILE x TILE elements of out, TILE_K steps along k at a time; a thread computes
// THREAD_TILE x THREAD_TILE of them.
constexpr int TILE = 64, TILE_K = 16, THREAD_TILE = 4;

// Compares out with the product in float64, in which each product of two elements is exact. Blocks load tiles into
// shared memory, because otherwise a product of 8192^3 takes seconds.
__global__ void compare(const Elem *m, const Elem *n, const Elem *out, int h, int w, int k, Errors *wrong) {
    __shared__ double a[TILE_K][TILE + 1], b[TILE_K][TILE + 1];
    const int top = blockIdx.y * TILE, left = blockIdx.x * TILE, thread = threadIdx.y * 16 + threadIdx.x;
    double sum[THREAD_TILE][THREAD_TILE] = {}, abs_sum[THREAD_TILE][THREAD_TILE] = {};
    for (int k_begin = 0; k_begin < k; k_begin += TILE_K) {
        for (int i = thread; i < TILE * TILE_K; i += 256) {                  // coalesced
            int ja = m_transposed ? i / TILE : i % TILE_K, r = m_transposed ? i % TILE : i / TILE_K;
            int jb = n_transposed ? i % TILE_K : i / TILE, c = n_transposed ? i / TILE_K : i % TILE;
            size_t row = top + r, column = left + c, ka = k_begin + ja, kb = k_begin + jb;
            a[ja][r] = row < h && ka < k ? (double)(float)m[m_transposed ? ka * h + row : row * k + ka] : 0;
            b[jb][c] = column < w && kb < k ? (double)(float)n[n_transposed ? column * k + kb : kb * w + column] : 0;
        }
        __syncthreads();
        for (int j = 0; j < TILE_K; j++)
            for (int r = 0; r < THREAD_TILE; r++)
                for (int c = 0; c < THREAD_TILE; c++) {
                    double product = a[j][threadIdx.y + 16 * r] * b[j][threadIdx.x + 16 * c];
                    sum[r][c] += product;
                    abs_sum[r][c] += fabs(product);
                }
        __syncthreads();
    }
    for (int r = 0; r < THREAD_TILE; r++)
        for (int c = 0; c < THREAD_TILE; c++) {
            size_t row = top + threadIdx.y + 16 * r, column = left + threadIdx.x + 16 * c, i = row * w + column;
            if (row >= h || column >= w) continue;
            double error = fabs((double)(float)out[i] - sum[r][c]) /
                           (UNIT_ROUNDOFF * fabs(sum[r][c]) + TERM_TOLERANCE * abs_sum[r][c]);
            if (error <= 1) atomicMax(&wrong->max_ratio, __float_as_uint((float)error));
            else {                          // also if the error is NaN
                atomicAdd(&wrong->count, 1);
                atomicMin(&wrong->first, i);
            }
        }
}

// Multiplies into memory filled with NaN, and checks every element. Returns the largest error, divided by its bound.
double check(int case_index, const Elem *m, const Elem *n, Elem *out) {
    auto [h, w, k] = cases[case_index];
    size_t size = (size_t)h * w;
    static Errors *wrong = allocate<Errors>(1);
    Errors no_errors = {0, ~0ull, 0}, errors;
    OK(cudaMemcpy(wrong, &no_errors, sizeof no_errors, cudaMemcpyDefault));
    OK(cudaMemset(out, 0xff, size * sizeof(Elem)));
    multiply(case_index, m, n, out);
    OK(cudaDeviceSynchronize());
    compare<<<dim3((w + TILE - 1) / TILE, (h + TILE - 1) / TILE), dim3(16, 16)>>>(m, n, out, h, w, k, wrong);
    OK(cudaGetLastError());                    // if the comparison did not run, every result would pass
    OK(cudaMemcpy(&errors, wrong, sizeof errors, cudaMemcpyDefault));
    if (errors.count) {
        printf("FAIL %-34s %dx%d @ %dx%d: %llu of %zu elements are wrong, the first at [%llu, %llu]\n", NAME, h, k, k,
               w, errors.count, size, errors.first / w, errors.first % w);
        exit(1);
    }
    float max_ratio;
    memcpy(&max_ratio, &errors.max_ratio, 4);
    return max_ratio;
}

// `small`: skips the last case, which is timed: on a CPU it would take days
int run(bool small) {
    cudaDeviceProp gpu;
    require_gpu(gpu);
    double max_ratio = 0, ms = 0;
    const int timed_case = int(sizeof cases / sizeof *cases) - 1;
    for (int i = 0; i < timed_case + !small; i++) {
        auto [h, w, k] = cases[i];
        Elem *m = allocate<Elem>((size_t)h * k), *n = allocate<Elem>((size_t)k * w);
        Elem *out = allocate<Elem>((size_t)h * w);
        randomize<<<((size_t)h * k + 255) / 256, 256>>>(m, (size_t)h * k, 2 * i);
        randomize<<<((size_t)k * w + 255) / 256, 256>>>(n, (size_t)k * w, 2 * i + 1);
        max_ratio = std::max(max_ratio, check(i, m, n, out));
        if (i == timed_case) ms = median_time([&] { multiply(i, m, n, out); });
        max_ratio = std::max(max_ratio, check(i, m, n, out));  // its workspaces must be reusable after a run
    }
    if (small) {
        printf("PASS %-34s %d cases without the timed one, largest error %.2f of the bound, %s\n", NAME, timed_case,
               max_ratio, gpu.name);
        return 0;
    }
    auto [h, w, k] = cases[timed_case];
    double tflops = 2. * h * w * k / ms / 1e9;
    printf("PASS %-34s %5dx%d @ %dx%d  %9.4f ms  %7.2f TFLOP/s  largest error %.2f of the bound, %s\n",
           NAME, h, k, k, w, ms, tflops, max_ratio, gpu.name);
    return 0;
}
