// Host code of an exported decode step: makes random inputs on shuffled pages, checks some rows against double, and
// times the last size. Requires definitions of HEADS, SCALE (of the scores), and the sizes (cases). The launches are
// defined below.
struct Arrays { bf16 *q, *cache, *out; float *lse; int *table, *lens; };

void decode(int case_index, const Arrays &a);

constexpr int HEAD_DIM_K = 576, HEAD_DIM_V = 512, PAGE_SIZE = 64;
constexpr int CHECKED = 5;                                  // heads and sequences that are checked

int table_width(int case_index) { return (cases[case_index].keys + PAGE_SIZE - 1) / PAGE_SIZE; }
// the last case, which is timed, has full sequences
int length_of(int case_index, int b) {
    bool last = case_index == int(sizeof cases / sizeof *cases) - 1;
    return last ? cases[case_index].keys : (b * 7919 + cases[case_index].keys) % (cases[case_index].keys + 1);
}
// a permutation, because 1000003 is a prime above the number of pages
int page_of(int case_index, int b, int i) {
    int width = table_width(case_index), pages = cases[case_index].batch * width;
    return ((long long)b * width + i) * 1000003 % pages;
}

// Exits if a value differs from the expected one by more than `tolerance`
void compare(const char *what, int case_index, int b, int head, int column, double actual, double expected,
             double tolerance) {
    if (actual == expected || std::abs(actual - expected) <= tolerance) return;
    printf("FAIL %-34s batch %d, %d keys: %s[%d, %d, %d] is %g, expected %g\n", NAME, cases[case_index].batch,
           length_of(case_index, b), what, b, head, column, actual, expected);
    exit(1);
}

void check_row(int case_index, int b, int head, const std::vector<double> &keys, const Arrays &a) {
    int len = length_of(case_index, b);
    size_t row = (size_t)b * HEADS + head;
    std::vector<double> q = read_doubles(a.q + row * HEAD_DIM_K, HEAD_DIM_K), p(len);
    std::vector<double> out = read_doubles(a.out + row * HEAD_DIM_V, HEAD_DIM_V);
    double sum = 0;
    for (int j = 0; j < len; j++) {
        double score = 0;
        for (int c = 0; c < HEAD_DIM_K; c++) score += q[c] * keys[(size_t)j * HEAD_DIM_K + c];
        sum += p[j] = std::exp(score * SCALE);
    }
    compare("lse", case_index, b, head, 0, read_doubles(a.lse + at, 1)[0], std::log(sum), 1e-4);
    for (int c = 0; c < HEAD_DIM_V; c++) {
        double expected = 0, tolerance = 1e-30;                              // P and results are rounded to bfloat16
        for (int j = 0; j < len; j++) {
            double x = p[j] / sum * keys[(size_t)j * HEAD_DIM_K + c];
            expected += x;
            tolerance += std::abs(x) * 0x1p-7;
        }
        compare("out", case_index, b, head, c, out[c], expected, tolerance + 0x1p-8 * std::abs(expected));
    }
}

int sampling_step(int n) { return n > CHECKED ? (n - 1) / CHECKED : 1; }

// Exits if a result is wrong
void check(int case_index, const Arrays &a) {
    for (int b = 0; b < cases[case_index].batch; b += sampling_step(cases[case_index].batch)) {
        std::vector<double> keys;
        for (int i = 0; i * PAGE_SIZE < length_of(case_index, b); i++) {
            const bf16 *first = a.cache + (size_t)page_of(case_index, b, i) * PAGE_SIZE * HEAD_DIM_K;
            std::vector<double> page = read_doubles(first, PAGE_SIZE * HEAD_DIM_K);
            keys.insert(keys.end(), page.begin(), page.end());
        }
        for (int head = 0; head < HEADS; head += sampling_step(HEADS)) check_row(case_index, b, head, keys, a);
    }
}

Arrays arrays_of(int case_index) {
    int batch = cases[case_index].batch, width = table_width(case_index);
    size_t rows = (size_t)batch * HEADS, q_size = rows * HEAD_DIM_K;
    size_t cache_size = (size_t)batch * width * PAGE_SIZE * HEAD_DIM_K;
    Arrays a = {allocate<bf16>(q_size), allocate<bf16>(cache_size), allocate<bf16>(rows * HEAD_DIM_V),
                allocate<float>(rows), allocate<int>(batch * width), allocate<int>(batch)};
    fill_normal<<<(q_size + 255) / 256, 256>>>(a.q, q_size, 0);
    fill_normal<<<(cache_size + 255) / 256, 256>>>(a.cache, cache_size, 1);
    OK(cudaMemset(a.out, 0xff, rows * HEAD_DIM_V * sizeof(bf16)));
    OK(cudaMemset(a.lse, 0xff, rows * sizeof(float)));
    std::vector<int> table, lens;
    for (int b = 0; b < batch; b++) {
        lens.push_back(length_of(case_index, b));
        for (int i = 0; i < width; i++) table.push_back(page_of(case_index, b, i));
    }
    OK(cudaMemcpy(a.table, table.data(), table.size() * sizeof(int), cudaMemcpyDefault));
    OK(cudaMemcpy(a.lens, lens.data(), lens.size() * sizeof(int), cudaMemcpyDefault));
    return a;
}

int run() {
    cudaDeviceProp gpu;
    require_gpu(gpu);
    double ms = 0;
    const int last = int(sizeof cases / sizeof *cases) - 1;
    for (int i = 0; i <= last; i++) {
        Arrays a = arrays_of(i);
        decode(i, a);
        OK(cudaDeviceSynchronize());
        check(i, a);
        if (i == last) ms = median_time([&] { decode(i, a); });
        check(i, a);
    }
    double keys = (double)cases[last].batch * cases[last].keys;
    printf("PASS %-34s %d x %d keys  %9.4f ms  %7.0f GB/s  %7.1f TFLOP/s, %s\n", NAME, cases[last].batch,
           cases[last].keys, ms, keys * HEAD_DIM_K * 2 / ms / 1e6,
           keys * HEADS * 2 * (HEAD_DIM_K + HEAD_DIM_V) / ms / 1e9, gpu.name);
    return 0;
}
