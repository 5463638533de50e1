// Host code of the exported NVFP4 product: makes random operands in the layouts that the kernel takes, checks the
// result against float64, measures the time. Requires definitions of the kernel, NAME, SMS, H, W, K (of h x k @ (w x
// k).T) and FACTOR, the product of the scales of both matrices. The launch is defined below.
void multiply(int case_index, const uint4 *a, const uint4 *b, const uint4 *a_scales, const uint4 *b_scales, float *out);

constexpr int BLOCK = 16;                   // elements along k per scale

inline double decode_e2m1(int code) {
    const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    return code & 8 ? -values[code & 7] : values[code];
}
inline double decode_e4m3(int code) {           // without a sign
    return std::ldexp(code >> 3 ? 8 + (code & 7) : code & 7, std::max(code >> 3, 1) - 10);
}

// A matrix of `rows` rows of 128 bytes, with two elements per byte
struct Operand {
    int rows;
    std::vector<unsigned char> bytes, scale_bytes;
    std::vector<double> values;             // rows x K, with the scales

    Operand(int rows, unsigned long long seed)
        : rows(rows), bytes(rows * K / 2), scale_bytes(512 * (K / BLOCK / 4)), values(rows * K) {
        for (int r = 0; r < rows; r++)
            for (int k = 0; k < K; k++) {
                const int code = hashed(seed << 32 | (r * K + k)) >> 40 & 15, block = k / BLOCK,
                          scale = 40 + (hashed(seed << 33 | (r * K + block)) >> 40 & 31);
                const int unit = k / 32 ^ r % 8;                          // the 128-byte swizzle
                bytes[r * 128 + unit * 16 + k % 32 / 2] |= code << k % 2 * 4;
                scale_bytes[block / 4 * 512 + r % 32 * 16 + r / 32 * 4 + block % 4] = scale;
                values[r * K + k] = decode_e2m1(code) * decode_e4m3(scale);
            }
    }
};
inline const uint4 *copy_to_gpu(const std::vector<unsigned char> &bytes) {
    uint4 *p = allocate<uint4>(bytes.size() / sizeof(uint4));
    OK(cudaMemcpy(p, bytes.data(), bytes.size(), cudaMemcpyDefault));
    return p;
}

// Returns the largest error, divided by its bound: the rounding error of a few float additions, as in main.cuh
inline double check(const Operand &a, const Operand &b, const float *out) {
    const std::vector<float> actual = read(out, H * W);
    double max_ratio = 0;
    for (int i = 0; i < H * W; i++) {
        double sum = 0, abs_sum = 0;
        for (int k = 0; k < K; k++) {
            const double product = a.values[i / W * K + k] * b.values[i % W * K + k] * FACTOR;
            sum += product, abs_sum += std::fabs(product);
        }
        const double error = std::fabs(actual[i] - sum) / (16 * 0x1p-24 * abs_sum);
        if (!(error <= 1)) {
            printf("FAIL %-34s element [%d, %d] is %g, expected %g\n", NAME, i / W, i % W, actual[i], sum);
            exit(1);
        }
        max_ratio = std::max(max_ratio, error);
    }
    return max_ratio;
}

int run(bool small) {
    cudaDeviceProp gpu;
    require_gpu(gpu);
    const Operand a(H, 1), b(W, 2);
    const uint4 *device_a = copy_to_gpu(a.bytes), *device_b = copy_to_gpu(b.bytes),
                *a_scales = copy_to_gpu(a.scale_bytes), *b_scales = copy_to_gpu(b.scale_bytes);
    float *out = allocate<float>(H * W);
    auto multiply_once = [&] { multiply(0, device_a, device_b, a_scales, b_scales, out); };
    fill_with_nan(out, H * W);
    multiply_once();
    OK(cudaDeviceSynchronize());
    const double max_ratio = check(a, b, out), ms = small ? 0 : median_time(multiply_once);
    printf("PASS %-34s %5dx%d @ %dx%d", NAME, H, K, K, W);
    if (!small) printf("  %9.4f ms", ms);
    printf("  largest error %.2f of the bound, %s\n", max_ratio, gpu.name);
    return 0;
}
