// Host code of an exported attention: makes random inputs, checks some rows and keys against double, measures the time.
// Requires definitions of CAUSAL (row i attends only to keys 0 to i), BACKWARD (compute gradients), DIM (the head
// dimension), and the sizes (cases; the last one is timed). The launches are defined below.
struct Arrays { bf16 *q, *k, *v, *dout, *out, *dq, *dk, *dv; float *lse; unsigned *tile_counter; };

void forward(int case_index, const Arrays &a);
void backward(int case_index, const Arrays &a);

constexpr int CHECKED = 12;                 // rows and keys of a large head that are checked
const double SCALE = 1 / std::sqrt((double)DIM);

// A sum, and the bound of its rounding error: P and dS are rounded to bfloat16
struct Sum {
    double value = 0, error_bound = 0;
    void add(double x, double bound) { value += x; error_bound += bound; }
};

void compare(const char *what, int case_index, int head, int i, int column, double actual, Sum expected) {
    if (std::abs(actual - expected.value) <= expected.error_bound + 0x1p-8 * std::abs(expected.value) + 1e-30) return;
    auto [batch, heads, group, rows, keys] = cases[case_index];
    printf("FAIL %-34s %d x %d x %d x %d, keys %d: %s[head %d, %d, %d] is %g, expected %g\n", NAME, batch, heads,
           rows, DIM, keys, what, head, i, column, actual, expected.value);
    exit(1);
}

// A head of q, and the head of k that it shares, in double
struct Head {
    int rows, keys;
    std::vector<double> q, k, v, dout, out, lse;
    double dot(const std::vector<double> &a, int i, const std::vector<double> &b, int j) const {
        double sum = 0;
        for (int c = 0; c < DIM; c++) sum += a[(size_t)i * DIM + c] * b[(size_t)j * DIM + c];
        return sum;
    }
    bool attends(int i, int j) const { return !CAUSAL || j <= i; }
    double p(int i, int j) const { return attends(i, j) ? std::exp(dot(q, i, k, j) * SCALE - lse[i]) : 0; }
    // dS, and the bound of its error: `out` is rounded to bfloat16
    Sum ds(int i, int j) const {
        double p = this->p(i, j), ds = p * (dot(dout, i, v, j) - dot(dout, i, out, i)), abs_sum = 0;
        for (int c = 0; c < DIM; c++) abs_sum += std::abs(dout[(size_t)i * DIM + c] * out[(size_t)i * DIM + c]);
        return {ds, std::abs(ds) * 0x1p-7 + p * abs_sum * 0x1p-8};
    }
};

Head head_of(int case_index, int head, const Arrays &a) {
    auto [batch, heads, group, rows, keys] = cases[case_index];
    size_t q_size = (size_t)rows * DIM, k_size = (size_t)keys * DIM;
    Head h = {rows, keys, read_doubles(a.q + head * q_size, q_size), read_doubles(a.k + head / group * k_size, k_size),
              read_doubles(a.v + head / group * k_size, k_size)};
    h.out = read_doubles(a.out + head * q_size, q_size);
    h.lse = read_doubles(a.lse + (size_t)head * rows, rows);
    if (BACKWARD) h.dout = read_doubles(a.dout + head * q_size, q_size);
    return h;
}

int sampling_step(int n) { return n > 400 ? n / CHECKED : 1; }

void check_forward(int case_index, int head, const Head &h) {
    for (int i = 0; i < h.rows; i += sampling_step(h.rows)) {
        double sum = 0;
        std::vector<double> p(h.keys);
        for (int j = 0; j < h.keys; j++)
            if (h.attends(i, j)) sum += p[j] = std::exp(h.dot(h.q, i, h.k, j) * SCALE);
        compare("lse", case_index, head, i, 0, h.lse[i], {std::log(sum), 1e-4});
        for (int c = 0; c < DIM; c++) {
            Sum expected;
            for (int j = 0; j < h.keys; j++) {
                double x = p[j] / sum * h.v[(size_t)j * DIM + c];
                expected.add(x, std::abs(x) * 0x1p-7);
            }
            compare("out", case_index, head, i, c, h.out[(size_t)i * DIM + c], expected);
        }
    }
}

// Computes row i of dq, dk or dv: P or dS of all heads that share keys, times rows of x
template <class Visit>
void check_row(const char *what, int case_index, int head, int i, const double *actual, Visit visit) {
    std::vector<Sum> expected(DIM);
    visit([&](Sum s, const double *x) {
        for (int c = 0; c < DIM; c++) expected[c].add(s.value * x[c], s.error_bound * std::abs(x[c]));
    });
    for (int c = 0; c < DIM; c++) compare(what, case_index, head, i, c, actual[c], expected[c]);
}

Sum scaled(Sum s) { return {s.value * SCALE, s.error_bound * SCALE}; }

void check_backward(int case_index, int first, const std::vector<Head> &heads, const Arrays &a) {
    const int group = cases[case_index].group, rows = cases[case_index].rows, keys = cases[case_index].keys;
    size_t q_size = (size_t)rows * DIM, k_size = (size_t)keys * DIM;
    std::vector<double> dk = read_doubles(a.dk + first / group * k_size, k_size);
    std::vector<double> dv = read_doubles(a.dv + first / group * k_size, k_size);
    for (int g = 0; g < group; g++) {
        const Head &h = heads[g];
        std::vector<double> dq = read_doubles(a.dq + (first + g) * q_size, q_size);
        for (int i = 0; i < rows; i += sampling_step(rows))
            check_row("dq", case_index, first + g, i, &dq[(size_t)i * DIM], [&](auto add) {
                for (int j = 0; j < keys; j++) add(scaled(h.ds(i, j)), &h.k[(size_t)j * DIM]);
            });
    }
    for (int j = 0; j < keys; j += sampling_step(keys)) {
        check_row("dk", case_index, first / group, j, &dk[(size_t)j * DIM], [&](auto add) {
            for (const Head &h : heads)
                for (int i = 0; i < rows; i++) add(scaled(h.ds(i, j)), &h.q[(size_t)i * DIM]);
        });
        check_row("dv", case_index, first / group, j, &dv[(size_t)j * DIM], [&](auto add) {
            for (const Head &h : heads)
                for (int i = 0; i < rows; i++) {
                    double p = h.p(i, j);
                    add(Sum{p, p * 0x1p-7}, &h.dout[(size_t)i * DIM]);
                }
        });
    }
}

// Exits if a result is wrong; checks the first and the last head of k
void check(int case_index, const Arrays &a) {
    auto [batch, heads, group, rows, keys] = cases[case_index];
    for (int first : {0, batch * heads - group}) {
        std::vector<Head> group_heads;
        for (int g = 0; g < group; g++) group_heads.push_back(head_of(case_index, first + g, a));
        for (int g = 0; g < group; g++) check_forward(case_index, first + g, group_heads[g]);
        if (BACKWARD) check_backward(case_index, first, group_heads, a);
    }
}

Arrays arrays_of(int case_index) {
    auto [batch, heads, group, rows, keys] = cases[case_index];
    size_t q_size = (size_t)batch * heads * rows * DIM, k_size = (size_t)batch * (heads / group) * keys * DIM;
    Arrays a = {allocate<bf16>(q_size), allocate<bf16>(k_size), allocate<bf16>(k_size), allocate<bf16>(q_size),
                allocate<bf16>(q_size), allocate<bf16>(q_size), allocate<bf16>(k_size), allocate<bf16>(k_size),
                allocate<float>(q_size / DIM), allocate<unsigned>(1)};
    int seed = 0;
    for (auto [x, size] : {std::pair(a.q, q_size), {a.k, k_size}, {a.v, k_size}, {a.dout, q_size}})
        fill_normal<<<(size + 255) / 256, 256>>>(x, size, seed++);
    for (auto [x, size] : {std::pair(a.out, q_size), {a.dq, q_size}, {a.dk, k_size}, {a.dv, k_size}})
        OK(cudaMemset(x, 0xff, size * sizeof(bf16)));
    OK(cudaMemset(a.lse, 0xff, q_size / DIM * sizeof(float)));
    OK(cudaMemset(a.tile_counter, 0, sizeof(unsigned)));
    return a;
}

int run() {
    cudaDeviceProp gpu;
    require_gpu(gpu);
    double ms = 0;
    const int last = int(sizeof cases / sizeof *cases) - 1;
    for (int i = 0; i <= last; i++) {
        Arrays a = arrays_of(i);
        forward(i, a);
        if (BACKWARD) backward(i, a);
        OK(cudaDeviceSynchronize());
        check(i, a);
        if (i == last) ms = median_time([&] { BACKWARD ? backward(i, a) : forward(i, a); });
        check(i, a);
    }
    auto [batch, heads, group, rows, keys] = cases[last];
    double scores = (double)batch * heads * rows * keys / (CAUSAL ? 2 : 1);
    printf("PASS %-34s %d x %d x %d x %d  %9.4f ms  %7.1f TFLOP/s, %s\n", NAME, batch, heads, rows, DIM, ms,
           2 * (BACKWARD ? 5 : 2) * DIM * scores / ms / 1e9, gpu.name);
    return 0;
}
