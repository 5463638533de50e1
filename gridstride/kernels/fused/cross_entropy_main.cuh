// Host code of an exported cross entropy: it makes random logits, checks results against double, and times the last
// size. Defined above: the type of the logits (Number), the tolerance of gradients (ROUNDING), and the sizes (cases:
// rows, width). The launches are defined below: the mean loss, and its gradient, which overwrites the logits.
void launch(int number, Number *x, const long long *target, float *scale, float *loss, float *out);

constexpr long long IGNORED = -100;
constexpr int CHECKED = 16;                 // rows that are checked

// Makes logits from -8 to 8 and one target per row; every seventh row is ignored. They are the same in each run.
__global__ void fill(Number *x, long long *target, int rows, int width) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x, size = (size_t)rows * width;
    if (i < size) x[i] = Number((float)(hashed(i) >> 40) / (1 << 20) - 8);
    if (i < rows) target[i] = i % 7 == 3 ? IGNORED : (long long)(hashed(size + i) % width);
}

void need(bool right, const char *what, int rows, int width, int row) {
    if (right) return;
    printf("FAIL %-34s %d x %d: %s of row %d is wrong\n", NAME, rows, width, what, row);
    exit(1);
}

bool near(double got, double want, double rounding, double least) {
    return std::abs(got - want) <= rounding * std::abs(want) + least;
}

// Computes the loss of a row and its gradient on the CPU.
double expected(const std::vector<Number> &x, long long target, double factor, std::vector<double> &gradient) {
    double most = -1e300, sum = 0;
    for (Number o : x) most = std::max(most, (double)(float)o);
    for (Number o : x) sum += std::exp((float)o - most);
    for (size_t i = 0; i < x.size(); i++)
        gradient[i] = factor * (std::exp((float)x[i] - most) / sum - ((long long)i == target));
    return std::log(sum) + most - (float)x[target];
}

// Exits if a result is wrong.
void check(int number, Number *x, const long long *target, float *scale, float *loss, float *out) {
    auto [rows, width] = cases[number];
    const int step = std::max(1, rows / CHECKED);
    std::vector<std::vector<Number>> given;
    for (int row = 0; row < rows; row += step) given.push_back(read(x + (size_t)row * width, width));
    std::vector<long long> targets = read(target, rows);
    const int counted = rows - (int)std::count(targets.begin(), targets.end(), IGNORED);
    launch(number, x, target, scale, loss, out);
    OK(cudaDeviceSynchronize());
    std::vector<float> losses = read(loss, rows);
    double sum = 0;
    for (float o : losses) sum += o;
    need(near(read(out, 1)[0], sum / counted, 1e-5, 0), "the mean", rows, width, 0);
    for (int row = 0; row < rows; row += step) {
        std::vector<Number> got = read(x + (size_t)row * width, width);
        std::vector<double> want(width);
        double lost = targets[row] == IGNORED ? 0 : expected(given[row / step], targets[row], 1. / counted, want);
        need(near(losses[row], lost, 1e-6, 1e-6), "the loss", rows, width, row);
        for (int i = 0; i < width; i++)
            need(near((float)got[i], want[i], ROUNDING, 1e-6 / counted), "a gradient", rows, width, row);
    }
}

int run() {
    cudaDeviceProp gpu;
    need_gpu(gpu);
    double ms = 0;
    const int last = int(sizeof cases / sizeof *cases) - 1;
    for (int i = 0; i <= last; i++) {
        auto [rows, width] = cases[i];
        size_t size = (size_t)rows * width;
        Number *x = allocate<Number>(size);
        auto *target = allocate<long long>(rows);
        float *scale = allocate<float>(1), *loss = allocate<float>(rows), *out = allocate<float>(1);
        fill<<<(size + 255) / 256, 256>>>(x, target, rows, width);
        check(i, x, target, scale, loss, out);
        if (i == last) ms = median_time([&] { launch(i, x, target, scale, loss, out); });
    }
    auto [rows, width] = cases[last];
    double bytes = 2. * rows * width * sizeof(Number);      // logits are read, gradients are written
    printf("PASS %-34s %6d x %-10d %9.4f ms  %7.1f GB/s, %s\n", NAME, rows, width, ms, bytes / ms / 1e6, gpu.name);
    return 0;
}
