// Host code of an exported 8-bit product: random inputs, a check of some elements of each part of the result
// against double, the time. Above it are the sizes to try (cases: h, w, k; the last one is timed), WHOLE (are they
// integers, or e4m3?), and TERM (the bound for the error of a sum). Below it are the launches.
void launch(int number, const unsigned char *m, const unsigned char *n, __nv_bfloat16 *out, const float *m_scales,
            const float *n_scales);

__device__ unsigned random_bits(unsigned long long i) { return hashed(i) >> 32; }

// Bytes, but no NaN of e4m3, and scales from 1/2 to 1
__global__ void fill(unsigned char *x, float *scales, int rows, int columns, unsigned long long seed) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) scales[i] = (random_bits(seed << 40 | 1ull << 39 | i) >> 8) * 0x1p-25f + .5f;
    if (i >= (size_t)rows * columns) return;
    unsigned char byte = random_bits(seed << 40 | i);
    x[i] = !WHOLE && (byte & 127) == 127 ? byte - 1 : byte;
}

float number_of(unsigned char byte) {
    if (WHOLE) return (signed char)byte;
    int exponent = byte >> 3 & 15, fraction = byte & 7;
    float x = exponent ? std::ldexp(8.f + fraction, exponent - 10) : std::ldexp((float)fraction, -9);
    return byte & 128 ? -x : x;
}

struct Arrays { unsigned char *m, *n; float *m_scales, *n_scales; __nv_bfloat16 *out; };

// Exits if a result is wrong: checks all elements of small results.
void check(int number, const Arrays &a) {
    auto [h, w, k] = cases[number];
    std::vector<unsigned char> m = read(a.m, (size_t)h * k), n = read(a.n, (size_t)w * k);
    std::vector<float> by_m = read(a.m_scales, h), by_n = read(a.n_scales, w);
    std::vector<__nv_bfloat16> out = read(a.out, (size_t)h * w);
    int down = h > 1000 ? 211 : 1, right = w > 1000 ? 97 : 1;
    for (int r = 0; r < h; r += down)
        for (int c = 0; c < w; c += right) {
            double sum = 0, size = 0, scale = (double)by_m[r] * by_n[c], got = (float)out[(size_t)r * w + c];
            for (int i = 0; i < k; i++) {
                double p = (double)number_of(m[(size_t)r * k + i]) * number_of(n[(size_t)c * k + i]);
                sum += p;
                size += std::abs(p);
            }
            if (!(std::abs(got - sum * scale) <= 0x1p-8 * std::abs(sum * scale) + TERM * size * scale)) {
                printf("FAIL %-34s %d x %d x %d: [%d, %d] is %g, and %g is right\n", NAME, h, w, k, r, c, got,
                       sum * scale);
                exit(1);
            }
        }
}

int run() {
    cudaDeviceProp gpu;
    need_gpu(gpu);
    double ms = 0;
    const int last = int(sizeof cases / sizeof *cases) - 1;
    for (int i = 0; i <= last; i++) {
        auto [h, w, k] = cases[i];
        size_t m = (size_t)h * k, n = (size_t)w * k;
        Arrays a = {allocate<unsigned char>(m), allocate<unsigned char>(n), allocate<float>(h), allocate<float>(w),
                    allocate<__nv_bfloat16>((size_t)h * w)};
        fill<<<(m + 255) / 256, 256>>>(a.m, a.m_scales, h, k, 2 * i);
        fill<<<(n + 255) / 256, 256>>>(a.n, a.n_scales, w, k, 2 * i + 1);
        OK(cudaMemset(a.out, 0xff, (size_t)h * w * 2));
        auto multiply = [&] { launch(i, a.m, a.n, a.out, a.m_scales, a.n_scales); };
        multiply();
        OK(cudaDeviceSynchronize());
        check(i, a);
        if (i == last) ms = median_time(multiply);
        check(i, a);
    }
    auto [h, w, k] = cases[last];
    printf("PASS %-34s %d x %d x %d  %9.4f ms  %7.1f TFLOP/s, %s\n", NAME, h, w, k, ms, 2. * h * w * k / ms / 1e9,
           gpu.name);
    return 0;
}
