// Host code of an exported softmax or log_softmax, forward or backward: it makes random inputs, checks results against
// double, and times the last size. Defined above: the operator (LOG, BACKWARD), the type of the arrays (From), the
// relative tolerance (ROUNDING), and the sizes (cases: rows, width). The launches are defined below; in the backward
// pass, x is the result of the forward pass.
void launch(int number, const From *x, const From *dy, From *out);

constexpr int CHECKED = 16;                 // rows that are checked

// Makes scores for the forward pass; for the backward pass probabilities that add up to about one, or their logarithms,
// and a gradient.
__global__ void fill(From *x, From *dy, size_t size, int width) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    float n = normal(i * 2);
    x[i] = From(!BACKWARD ? 3 * n : LOG ? n - logf(width) : expf(n) / width);
    dy[i] = From(normal(i * 2 + 1));
}

// Computes the expected row, and the magnitude of its sums, on which the rounding error of float32 depends.
struct Right { std::vector<double> value, terms; };

Right forward(const std::vector<double> &x) {
    Right right;
    double most = *std::max_element(x.begin(), x.end()), sum = 0;
    for (double o : x) sum += std::exp(o - most);
    for (double o : x) {
        double share = std::exp(o - most) / sum;
        right.value.push_back(LOG ? o - most - std::log(sum) : share);
        right.terms.push_back(LOG ? std::abs(o) + std::abs(most) + std::log(sum) : share);
    }
    return right;
}

Right backward(const std::vector<double> &y, const std::vector<double> &dy) {
    Right right;
    double sum = 0, size = 0;
    for (size_t i = 0; i < y.size(); i++) {
        double term = LOG ? dy[i] : y[i] * dy[i];
        sum += term, size += std::abs(term);
    }
    for (size_t i = 0; i < y.size(); i++) {
        double share = LOG ? std::exp(y[i]) : y[i];
        right.value.push_back(LOG ? dy[i] - share * sum : share * (dy[i] - sum));
        right.terms.push_back(LOG ? std::abs(dy[i]) + share * size : share * (std::abs(dy[i]) + size));
    }
    return right;
}

// Exits if a result is wrong
void check(int number, const From *x, const From *dy, From *out) {
    auto [rows, width] = cases[number];
    OK(cudaMemset(out, 0xff, (size_t)rows * width * sizeof(From)));
    launch(number, x, dy, out);
    OK(cudaDeviceSynchronize());
    for (int row = 0; row < rows; row += std::max(1, rows / CHECKED)) {
        size_t first = (size_t)row * width;
        std::vector<double> given = read_doubles(x + first, width), got = read_doubles(out + first, width);
        Right right = BACKWARD ? backward(given, read_doubles(dy + first, width)) : forward(given);
        for (int i = 0; i < width; i++)
            if (!(std::abs(got[i] - right.value[i]) <= ROUNDING * std::abs(right.value[i]) + 4e-6 * right.terms[i])) {
                printf("FAIL %-34s %d x %d: [%d, %d] is %g, and %g is right\n", NAME, rows, width, row, i, got[i],
                       right.value[i]);
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
        auto [rows, width] = cases[i];
        size_t size = (size_t)rows * width;
        From *x = allocate<From>(size), *dy = allocate<From>(size), *out = allocate<From>(size);
        fill<<<(size + 255) / 256, 256>>>(x, dy, size, width);
        check(i, x, dy, out);
        if (i == last) ms = median_time([&] { launch(i, x, dy, out); });
    }
    auto [rows, width] = cases[last];
    double bytes = (double)rows * width * sizeof(From) * (BACKWARD ? 3 : 2);
    printf("PASS %-34s %6d x %-10d %9.4f ms  %7.1f GB/s, %s\n", NAME, rows, width, ms, bytes / ms / 1e6, gpu.name);
    return 0;
}
