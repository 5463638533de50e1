// Host code of an exported cross entropy: makes random logits, checks results against double, and times the last size.
// Requires definitions of the type of the logits (Logit), RELATIVE_TOLERANCE (of gradients), and the sizes (cases:
// rows, width). The launches are defined below: the mean loss, and its gradient, which overwrites the logits.
void launch(int case_index, Logit *x, const long long *target, float *scale, float *loss, float *out);

constexpr long long IGNORE_INDEX = -100;
constexpr int CHECKED = 16;                 // rows that are checked

// Makes logits from -8 to 8 and one target per row; every seventh row is ignored. They are the same in each run.
__global__ void fill(Logit *x, long long *target, int rows, int width) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x, size = (size_t)rows * width;
    if (i < size) x[i] = Logit((float)(hashed(i) >> 40) / (1 << 20) - 8);
    if (i < rows) target[i] = i % 7 == 3 ? IGNORE_INDEX : (long long)(hashed(size + i) % width);
}

void require(bool is_correct, const char *what, int rows, int width, int row) {
    if (is_correct) return;
    printf("FAIL %-34s %d x %d: %s of row %d is wrong\n", NAME, rows, width, what, row);
    exit(1);
}

bool is_close(double actual, double expected, double relative, double absolute) {
    return std::abs(actual - expected) <= relative * std::abs(expected) + absolute;
}

// Computes the loss of a row and its gradient on the CPU.
double compute_expected(const std::vector<Logit> &x, long long target, double factor, std::vector<double> &gradient) {
    double row_max = -1e300, sum = 0;
    for (Logit logit : x) row_max = std::max(row_max, (double)(float)logit);
    for (Logit logit : x) sum += std::exp((float)logit - row_max);
    for (size_t i = 0; i < x.size(); i++)
        gradient[i] = factor * (std::exp((float)x[i] - row_max) / sum - ((long long)i == target));
    return std::log(sum) + row_max - (float)x[target];
}

// Exits if a result is wrong.
void check(int case_index, Logit *x, const long long *target, float *scale, float *loss, float *out) {
    auto [rows, width] = cases[case_index];
    const int step = std::max(1, rows / CHECKED);
    std::vector<std::vector<Logit>> inputs;
    for (int row = 0; row < rows; row += step) inputs.push_back(read(x + (size_t)row * width, width));
    std::vector<long long> targets = read(target, rows);
    const int counted = rows - (int)std::count(targets.begin(), targets.end(), IGNORE_INDEX);
    launch(case_index, x, target, scale, loss, out);
    OK(cudaDeviceSynchronize());
    std::vector<float> losses = read(loss, rows);
    double sum = 0;
    for (float row_loss : losses) sum += row_loss;
    require(is_close(read(out, 1)[0], sum / counted, 1e-5, 0), "the mean", rows, width, 0);
    for (int row = 0; row < rows; row += step) {
        std::vector<Logit> actual = read(x + (size_t)row * width, width);
        std::vector<double> expected(width);
        const bool is_ignored = targets[row] == IGNORE_INDEX;
        double expected_loss = 0;
        if (!is_ignored) expected_loss = compute_expected(inputs[row / step], targets[row], 1. / counted, expected);
        require(is_close(losses[row], expected_loss, 1e-6, 1e-6), "the loss", rows, width, row);
        for (int i = 0; i < width; i++)
            require(is_close((float)actual[i], expected[i], RELATIVE_TOLERANCE, 1e-6 / counted), "a gradient", rows,
                    width, row);
    }
}

int run() {
    cudaDeviceProp gpu;
    require_gpu(gpu);
    double ms = 0;
    const int last = int(sizeof cases / sizeof *cases) - 1;
    for (int i = 0; i <= last; i++) {
        auto [rows, width] = cases[i];
        size_t size = (size_t)rows * width;
        Logit *x = allocate<Logit>(size);
        auto *target = allocate<long long>(rows);
        float *scale = allocate<float>(1), *loss = allocate<float>(rows), *out = allocate<float>(1);
        fill<<<(size + 255) / 256, 256>>>(x, target, rows, width);
        check(i, x, target, scale, loss, out);
        if (i == last) ms = median_time([&] { launch(i, x, target, scale, loss, out); });
    }
    auto [rows, width] = cases[last];
    double bytes = 2. * rows * width * sizeof(Logit);      // logits are read, gradients are written
    printf("PASS %-34s %6d x %-10d %9.4f ms  %7.1f GB/s, %s\n", NAME, rows, width, ms, bytes / ms / 1e6, gpu.name);
    return 0;
}
