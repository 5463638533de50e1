// Host code of an exported 8-bit product: makes random inputs, checks elements in all parts of the result against
// double, and times the last size. Requires definitions of the sizes (cases: M, N, K), INTEGERS (the operands are
// integers, not e4m3), and TERM_TOLERANCE (the tolerance of a sum). The launches are defined below.
void launch(int case_index, const unsigned char *a, const unsigned char *b, __nv_bfloat16 *out, const float *a_scales,
            const float *b_scales);

__device__ unsigned random_bits(unsigned long long i) { return hashed(i) >> 32; }

// Makes random bytes, without the NaN of e4m3, and scales from 1/2 to 1.
__global__ void fill(unsigned char *x, float *scales, int rows, int columns, unsigned long long seed) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) scales[i] = (random_bits(seed << 40 | 1ull << 39 | i) >> 8) * 0x1p-25f + .5f;
    if (i >= (size_t)rows * columns) return;
    unsigned char byte = random_bits(seed << 40 | i);
    x[i] = !INTEGERS && (byte & 127) == 127 ? byte - 1 : byte;
}

float decode(unsigned char byte) {
    if (INTEGERS) return (signed char)byte;
    int exponent = byte >> 3 & 15, fraction = byte & 7;
    float x = exponent ? std::ldexp(8.f + fraction, exponent - 10) : std::ldexp((float)fraction, -9);
    return byte & 128 ? -x : x;
}

struct Arrays { unsigned char *a, *b; float *a_scales, *b_scales; __nv_bfloat16 *out; };

// Exits if a result is wrong: checks all elements of small results.
void check(int case_index, const Arrays &arrays) {
    auto [M, N, K] = cases[case_index];
    std::vector<unsigned char> a = read(arrays.a, (size_t)M * K), b = read(arrays.b, (size_t)N * K);
    std::vector<float> a_scales = read(arrays.a_scales, M), b_scales = read(arrays.b_scales, N);
    std::vector<__nv_bfloat16> out = read(arrays.out, (size_t)M * N);
    int row_step = M > 1000 ? 211 : 1, column_step = N > 1000 ? 97 : 1;
    for (int r = 0; r < M; r += row_step)
        for (int c = 0; c < N; c += column_step) {
            double sum = 0, abs_sum = 0, scale = (double)a_scales[r] * b_scales[c];
            for (int i = 0; i < K; i++) {
                double p = (double)decode(a[(size_t)r * K + i]) * decode(b[(size_t)c * K + i]);
                sum += p;
                abs_sum += std::abs(p);
            }
            double actual = (float)out[(size_t)r * N + c], expected = sum * scale;
            if (!(std::abs(actual - expected) <= 0x1p-8 * std::abs(expected) + TERM_TOLERANCE * abs_sum * scale)) {
                printf("FAIL %-34s %d x %d x %d: [%d, %d] is %g, expected %g\n", NAME, M, N, K, r, c, actual,
                       expected);
                exit(1);
            }
        }
}

double run_case(int case_index, bool timed) {
    auto [M, N, K] = cases[case_index];
    size_t a = (size_t)M * K, b = (size_t)N * K;
    Arrays arrays = {allocate<unsigned char>(a), allocate<unsigned char>(b), allocate<float>(M), allocate<float>(N),
                     allocate<__nv_bfloat16>((size_t)M * N)};
    fill<<<(a + 255) / 256, 256>>>(arrays.a, arrays.a_scales, M, K, 2 * case_index);
    fill<<<(b + 255) / 256, 256>>>(arrays.b, arrays.b_scales, N, K, 2 * case_index + 1);
    auto multiply = [&] { launch(case_index, arrays.a, arrays.b, arrays.out, arrays.a_scales, arrays.b_scales); };
    return check_and_time(timed, [&] { fill_with_nan(arrays.out, (size_t)M * N); }, multiply,
                          [&] { check(case_index, arrays); });
}

int run() {
    cudaDeviceProp gpu;
    double ms = run_cases(std::size(cases), gpu, run_case);
    auto [M, N, K] = *(std::end(cases) - 1);
    printf("PASS %-34s %d x %d x %d  %9.4f ms  %7.1f TFLOP/s, %s\n", NAME, M, N, K, ms, 2. * M * N * K / ms / 1e9,
           gpu.name);
    return 0;
}
