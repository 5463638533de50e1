// Host code of an exported softmax or log_softmax, forward or backward: makes random inputs, checks results against
// double, and times the last size. Requires definitions of the operator (LOG, BACKWARD), the type of the arrays (Elem),
// the relative tolerance (RELATIVE_TOLERANCE), and the sizes (cases: rows, width). The launches are defined below; in
// the backward pass, x is the result of the forward pass.
void launch(int case_index, const Elem *x, const Elem *dy, Elem *out);

constexpr int CHECKED = 16;                 // rows that are checked

// Makes scores for the forward pass; for the backward pass probabilities that add up to about one, or their logarithms,
// and a gradient.
__global__ void fill(Elem *x, Elem *dy, size_t size, int width) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    float n = normal(i * 2);
    x[i] = Elem(!BACKWARD ? 3 * n : LOG ? n - logf(width) : expf(n) / width);
    dy[i] = Elem(normal(i * 2 + 1));
}

// The expected row, and the magnitude of the terms of each element, which bounds the rounding error of float32
struct Expected { std::vector<double> value, terms; };

Expected forward(const std::vector<double> &x) {
    Expected expected;
    double row_max = *std::max_element(x.begin(), x.end()), sum = 0;
    for (double score : x) sum += std::exp(score - row_max);
    for (double score : x) {
        double probability = std::exp(score - row_max) / sum;
        expected.value.push_back(LOG ? score - row_max - std::log(sum) : probability);
        expected.terms.push_back(LOG ? std::abs(score) + std::abs(row_max) + std::log(sum) : probability);
    }
    return expected;
}

Expected backward(const std::vector<double> &y, const std::vector<double> &dy) {
    Expected expected;
    double sum = 0, abs_sum = 0;
    for (size_t i = 0; i < y.size(); i++) {
        double term = LOG ? dy[i] : y[i] * dy[i];
        sum += term, abs_sum += std::abs(term);
    }
    for (size_t i = 0; i < y.size(); i++) {
        double probability = LOG ? std::exp(y[i]) : y[i];
        double abs_dy = std::abs(dy[i]);
        expected.value.push_back(LOG ? dy[i] - probability * sum : probability * (dy[i] - sum));
        expected.terms.push_back(LOG ? abs_dy + probability * abs_sum : probability * (abs_dy + abs_sum));
    }
    return expected;
}

// Exits if a result is wrong
void check(int case_index, const Elem *x, const Elem *dy, Elem *out) {
    auto [rows, width] = cases[case_index];
    for (int row = 0; row < rows; row += std::max(1, rows / CHECKED)) {
        size_t first = (size_t)row * width;
        std::vector<double> row_inputs = read_doubles(x + first, width), actual = read_doubles(out + first, width);
        Expected expected = BACKWARD ? backward(row_inputs, read_doubles(dy + first, width)) : forward(row_inputs);
        for (int i = 0; i < width; i++)
            if (!(std::abs(actual[i] - expected.value[i]) <=
                  RELATIVE_TOLERANCE * std::abs(expected.value[i]) + 4e-6 * expected.terms[i])) {
                printf("FAIL %-34s %d x %d: [%d, %d] is %g, expected %g\n", NAME, rows, width, row, i, actual[i],
                       expected.value[i]);
                exit(1);
            }
    }
}

double run_case(int case_index, bool timed) {
    auto [rows, width] = cases[case_index];
    size_t size = (size_t)rows * width;
    Elem *x = allocate<Elem>(size), *dy = allocate<Elem>(size), *out = allocate<Elem>(size);
    fill<<<(size + 255) / 256, 256>>>(x, dy, size, width);
    return check_and_time(timed, [&] { fill_with_nan(out, size); }, [&] { launch(case_index, x, dy, out); },
                          [&] { check(case_index, x, dy, out); });
}

int run() {
    cudaDeviceProp gpu;
    double ms = run_cases(std::size(cases), gpu, run_case);
    auto [rows, width] = *(std::end(cases) - 1);
    double bytes = (double)rows * width * sizeof(Elem) * (BACKWARD ? 3 : 2);
    printf("PASS %-34s %6d x %-10d %9.4f ms  %7.1f GB/s, %s\n", NAME, rows, width, ms, bytes / ms / 1e6, gpu.name);
    return 0;
}
