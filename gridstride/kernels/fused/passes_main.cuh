// Host code of an exported gelu, bias_gelu, rms_norm or layer_norm, forward or backward: makes random inputs, checks
// all results against double, and times the last size. Requires definitions of the operator (OPERATOR, BACKWARD), the
// types of the arrays (Elem) and accumulators (Acc), RELATIVE_TOLERANCE, EPS of the norms, and the sizes (cases: rows,
// width). The launches are defined below.
struct Arrays { Elem *x, *dy, *weight, *bias, *y, *dx, *dweight, *dbias; Acc *row_stats; };

void launch(int case_index, const Arrays &a);

constexpr bool CENTERED = OPERATOR == LAYER_NORM, NORM = OPERATOR == RMS_NORM || CENTERED;
constexpr bool BIASED = OPERATOR == BIAS_GELU;

Elem *random_array(size_t size, int array) {
    Elem *x = allocate<Elem>(size);
    fill_normal<<<(size + 255) / 256, 256>>>(x, size, array);
    return x;
}

// Exits if a result is wrong. `rows_summed`: the number of rows in its sum, on which the tolerance depends.
void compare(const char *what, const std::vector<double> &actual, const std::vector<double> &expected, int width,
             double rows_summed) {
    for (size_t i = 0; i < expected.size(); i++)
        if (!(std::abs(actual[i] - expected[i]) <=
              RELATIVE_TOLERANCE * std::abs(expected[i]) + 2e-5 * std::max(1., std::sqrt(rows_summed)))) {
            printf("FAIL %-34s %s[%zu, %zu] is %g, expected %g\n", NAME, what, i / width, i % width, actual[i],
                   expected[i]);
            exit(1);
        }
}

double normal_cdf(double x) { return std::erfc(-x * std::sqrt(.5)) / 2; }                     // Phi, the normal CDF
double gelu_grad(double x) { return normal_cdf(x) + x * std::exp(-x * x / 2) * .39894228040143268; }

// The expected rows, forward (y) or backward (dx), and the expected gradients of weight and bias
struct Expected { std::vector<double> rows, dweight, dbias; };

void add_norm(Expected &expected, const double *x, const double *dy, const std::vector<double> &weight,
              const std::vector<double> &bias, double mean, double factor) {
    const int width = weight.size();
    double g_mean = 0, g_x_hat_mean = 0;
    for (int i = 0; BACKWARD && i < width; i++) {
        double x_hat = (x[i] - mean) * factor, g = dy[i] * weight[i];
        g_mean += CENTERED ? g / width : 0, g_x_hat_mean += g * x_hat / width;
        expected.dweight[i] += dy[i] * x_hat, expected.dbias[i] += dy[i];
    }
    for (int i = 0; i < width; i++) {
        double x_hat = (x[i] - mean) * factor;
        expected.rows.push_back(BACKWARD ? factor * (dy[i] * weight[i] - g_mean - x_hat * g_x_hat_mean)
                                      : x_hat * weight[i] + (CENTERED ? bias[i] : 0));
    }
}

void add_gelu(Expected &expected, const double *x, const double *dy, const std::vector<double> &bias) {
    for (size_t i = 0; i < bias.size(); i++) {
        double u = x[i] + (BIASED ? bias[i] : 0), res = BACKWARD ? dy[i] * gelu_grad(u) : u * normal_cdf(u);
        expected.rows.push_back(res);
        if (BACKWARD) expected.dbias[i] += res;
    }
}

// Computes the expected results; for the backward pass of a norm, also writes the statistics of the forward pass.
Expected compute_expected(const Arrays &a, int rows, int width) {
    auto x = read_doubles(a.x, (size_t)rows * width), dy = read_doubles(a.dy, (size_t)rows * width);
    auto weight = read_doubles(a.weight, width), bias = read_doubles(a.bias, width);
    Expected expected = {{}, std::vector<double>(width), std::vector<double>(width)};
    std::vector<Acc> row_stats(2 * rows);
    for (int r = 0; r < rows; r++) {
        const double *row = x.data() + (size_t)r * width, *row_dy = dy.data() + (size_t)r * width;
        double mean = 0, square = 0;
        for (int i = 0; CENTERED && i < width; i++) mean += row[i] / width;
        for (int i = 0; NORM && i < width; i++) square += (row[i] - mean) * (row[i] - mean) / width;
        double factor = 1 / std::sqrt(square + EPS);
        row_stats[r] = factor, row_stats[rows + r] = mean;
        if (NORM) add_norm(expected, row, row_dy, weight, bias, mean, factor);
        else add_gelu(expected, row, row_dy, bias);
    }
    OK(cudaMemcpy(a.row_stats, row_stats.data(), row_stats.size() * sizeof(Acc), cudaMemcpyDefault));
    return expected;
}

void check(int case_index, const Arrays &a, const Expected &expected) {
    auto [rows, width] = cases[case_index];
    size_t size = (size_t)rows * width;
    compare(BACKWARD ? "dx" : "y", read_doubles(BACKWARD ? a.dx : a.y, size), expected.rows, width, 1);
    if (BACKWARD && NORM) compare("dweight", read_doubles(a.dweight, width), expected.dweight, width, rows);
    if (BACKWARD && (CENTERED || BIASED)) compare("dbias", read_doubles(a.dbias, width), expected.dbias, width, rows);
}

double run_case(int case_index, bool timed) {
    auto [rows, width] = cases[case_index];
    size_t size = (size_t)rows * width;
    Arrays a = {random_array(size, 0),  random_array(size, 1),  random_array(width, 2),
                random_array(width, 3), allocate<Elem>(size),   allocate<Elem>(size),
                allocate<Elem>(width),  allocate<Elem>(width),  allocate<Acc>(2 * rows)};
    Expected expected = compute_expected(a, rows, width);
    auto reset = [&] {
        fill_with_nan(BACKWARD ? a.dx : a.y, size);
        fill_with_nan(a.dweight, width);
        fill_with_nan(a.dbias, width);
    };
    return check_and_time(timed, reset, [&] { launch(case_index, a); }, [&] { check(case_index, a, expected); });
}

int run() {
    cudaDeviceProp gpu;
    double ms = run_cases(std::size(cases), gpu, run_case);
    auto [rows, width] = *(std::end(cases) - 1);
    double bytes = (double)rows * width * sizeof(Elem) * (BACKWARD ? 3 : 2);
    printf("PASS %-34s %6d x %-10d %9.4f ms  %7.1f GB/s, %s\n", NAME, rows, width, ms, bytes / ms / 1e6, gpu.name);
    return 0;
}
