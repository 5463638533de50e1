// Host code of an exported convolution: makes random inputs, checks results against double, and times the last case.
// Requires definitions of the operator (KIND), Elem (the type of all arrays), RELATIVE_TOLERANCE, and the sizes (cases:
// images, channels, height, width, out_channels, kernel, stride, padding; for a causal convolution: sequences,
// channels, 1, length, channels, taps). The launches are defined below.
void launch(int case_index, const Elem *x, const Elem *weight, const Elem *bias, Elem *y);

struct Sizes { int out_height, out_width; size_t x, weight, y; };

Sizes sizes_of(int case_index) {
    auto [images, channels, height, width, out_channels, kernel, stride, padding] = cases[case_index];
    int out_height = KIND == CAUSAL ? 1 : (height + 2 * padding - kernel) / stride + 1;
    int out_width = KIND == CAUSAL ? width : (width + 2 * padding - kernel) / stride + 1;
    size_t taps = KIND == CAUSAL ? kernel : kernel * kernel, depth = KIND == DENSE ? channels : 1;
    return {out_height, out_width, (size_t)images * channels * height * width, out_channels * taps * depth,
            (size_t)images * out_channels * out_height * out_width};
}

// Checks every `step`-th element of the result, in double. Its error may be RELATIVE_TOLERANCE times the result, plus
// 2^-18 times the sum of the magnitudes of its terms.
__global__ void compare(const Elem *x, const Elem *weight, const Elem *bias, const Elem *y, int channels, int height,
                        int width, int out_channels, int kernel, int stride, int padding, Sizes sizes, size_t step,
                        unsigned long long *wrong) {
    const size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * step;
    if (i >= sizes.y) return;
    const bool is_nhwc = KIND == DEPTHWISE_NHWC || KIND == DENSE;   // stored channels last
    const size_t pixel = is_nhwc ? i / out_channels : i;
    const int out_c = pixel % sizes.out_width, out_r = pixel / sizes.out_width % sizes.out_height;
    const size_t plane = pixel / sizes.out_width / sizes.out_height;
    const int channel = is_nhwc ? i % out_channels : plane % out_channels, rows = KIND == CAUSAL ? 1 : kernel;
    const size_t image = is_nhwc ? plane : plane / out_channels;
    const int left = KIND == CAUSAL ? kernel - 1 : padding, top = KIND == CAUSAL ? 0 : padding;
    double sum = (float)bias[channel], abs_sum = fabs(sum);
    for (int kh = 0; kh < rows; kh++)
        for (int kw = 0; kw < kernel; kw++) {
            const int r = out_r * stride - top + kh, c = out_c * stride - left + kw;
            if (r < 0 || r >= height || c < 0 || c >= width) continue;
            for (int in = KIND == DENSE ? 0 : channel; in < (KIND == DENSE ? channels : channel + 1); in++) {
                const size_t index = is_nhwc ? ((image * height + r) * width + c) * channels + in
                                          : ((image * channels + in) * height + r) * width + c;
                const int tap = kh * kernel + kw;
                const double w = (float)weight[KIND == DENSE ? ((size_t)channel * rows * kernel + tap) * channels + in
                                                             : (size_t)channel * rows * kernel + tap];
                const double p = w * (float)x[index];
                sum += p;
                abs_sum += fabs(p);
            }
        }
    if (KIND == CAUSAL) sum /= 1 + exp(-sum);               // SiLU
    if (!(fabs((double)(float)y[i] - sum) <= RELATIVE_TOLERANCE * fabs(sum) + 0x1p-18 * abs_sum)) atomicMin(wrong, i);
}

// Exits if a result is wrong
void check(int case_index, const Elem *x, const Elem *weight, const Elem *bias, const Elem *y) {
    auto [images, channels, height, width, out_channels, kernel, stride, padding] = cases[case_index];
    const Sizes sizes = sizes_of(case_index);
    const size_t step = sizes.y > 1 << 22 ? 97 : 1;
    static auto *wrong = allocate<unsigned long long>(1);
    fill_with_nan(wrong, 1);
    compare<<<(sizes.y / step + 256) / 256, 256>>>(x, weight, bias, y, channels, height, width, out_channels, kernel,
                                                   stride, padding, sizes, step, wrong);
    OK(cudaGetLastError());
    const unsigned long long first = read(wrong, 1)[0];
    if (first == ~0ull) return;
    printf("FAIL %-34s %d x %d x %d x %d: element %llu is wrong\n", NAME, images, channels, height, width, first);
    exit(1);
}

double run_case(int case_index, bool timed) {
    const Sizes sizes = sizes_of(case_index);
    const size_t out_channels = cases[case_index].out_channels;
    Elem *x = allocate<Elem>(sizes.x), *weight = allocate<Elem>(sizes.weight), *y = allocate<Elem>(sizes.y);
    Elem *bias = allocate<Elem>(out_channels);
    fill_normal<<<(sizes.x + 255) / 256, 256>>>(x, sizes.x, 0);
    fill_normal<<<(sizes.weight + 255) / 256, 256>>>(weight, sizes.weight, 1);
    fill_normal<<<(out_channels + 255) / 256, 256>>>(bias, out_channels, 2);
    return check_and_time(timed, [&] { fill_with_nan(y, sizes.y); }, [&] { launch(case_index, x, weight, bias, y); },
                          [&] { check(case_index, x, weight, bias, y); });
}

int run() {
    cudaDeviceProp gpu;
    double ms = run_cases(std::size(cases), gpu, run_case);
    auto [images, channels, height, width, out_channels, kernel, stride, padding] = *(std::end(cases) - 1);
    const Sizes sizes = sizes_of(std::size(cases) - 1);
    printf("PASS %-34s %d x %d x %d x %d, %d taps  %9.4f ms  %7.1f GB/s  %7.2f TFLOP/s, %s\n", NAME, images, channels,
           height, width, kernel, ms, (sizes.x + sizes.y) * sizeof(Elem) / ms / 1e6,
           2. * sizes.y / out_channels * sizes.weight / ms / 1e9, gpu.name);
    return 0;
}
