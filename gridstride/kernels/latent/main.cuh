// Host code of an exported decode step: makes random inputs on shuffled pages, checks some rows against double, and
// times the last size. Defined above: HEADS, SCALE (of the scores), and the sizes (cases). The launches are defined
// below.
struct Arrays { bf16 *q, *cache, *out; float *lse; int *table, *lens; };

void decode(int number, const Arrays &a);

constexpr int DIM = 576, VALUES = 512, PAGE = 64, CHECKED = 5;      // CHECKED: heads and sequences that are checked

int wide_of(int number) { return (cases[number].keys + PAGE - 1) / PAGE; }
// the last case, which is timed, has full sequences
int len_of(int number, int b) {
    bool last = number == int(sizeof cases / sizeof *cases) - 1;
    return last ? cases[number].keys : (b * 7919 + cases[number].keys) % (cases[number].keys + 1);
}
// a permutation, because 1000003 is a prime above the number of pages
int page_of(int number, int b, int i) {
    int wide = wide_of(number), pages = cases[number].batch * wide;
    return ((long long)b * wide + i) * 1000003 % pages;
}

// `off`: the tolerance
void compare(const char *what, int number, int b, int head, int column, double got, double right, double off) {
    if (got == right || std::abs(got - right) <= off) return;
    printf("FAIL %-34s batch %d, %d keys: %s[%d, %d, %d] is %g, and %g is right\n", NAME, cases[number].batch,
           len_of(number, b), what, b, head, column, got, right);
    exit(1);
}

void check_row(int number, int b, int head, const std::vector<double> &keys, const Arrays &a) {
    int len = len_of(number, b);
    size_t at = (size_t)b * HEADS + head;
    std::vector<double> q = read_doubles(a.q + at * DIM, DIM), out = read_doubles(a.out + at * VALUES, VALUES), p(len);
    double sum = 0;
    for (int j = 0; j < len; j++) {
        double score = 0;
        for (int c = 0; c < DIM; c++) score += q[c] * keys[(size_t)j * DIM + c];
        sum += p[j] = std::exp(score * SCALE);
    }
    compare("lse", number, b, head, 0, read_doubles(a.lse + at, 1)[0], std::log(sum), 1e-4);
    for (int c = 0; c < VALUES; c++) {
        double right = 0, off = 1e-30;                              // P and results are rounded to bfloat16
        for (int j = 0; j < len; j++) {
            double x = p[j] / sum * keys[(size_t)j * DIM + c];
            right += x;
            off += std::abs(x) * 0x1p-7;
        }
        compare("out", number, b, head, c, out[c], right, off + 0x1p-8 * std::abs(right));
    }
}

int hop(int n) { return n > CHECKED ? (n - 1) / CHECKED : 1; }

// Exits if a result is wrong
void check(int number, const Arrays &a) {
    for (int b = 0; b < cases[number].batch; b += hop(cases[number].batch)) {
        std::vector<double> keys;
        for (int i = 0; i * PAGE < len_of(number, b); i++) {
            std::vector<double> page = read_doubles(a.cache + (size_t)page_of(number, b, i) * PAGE * DIM, PAGE * DIM);
            keys.insert(keys.end(), page.begin(), page.end());
        }
        for (int head = 0; head < HEADS; head += hop(HEADS)) check_row(number, b, head, keys, a);
    }
}

Arrays arrays_of(int number) {
    int batch = cases[number].batch, wide = wide_of(number);
    size_t rows = (size_t)batch * HEADS, of_q = rows * DIM, of_cache = (size_t)batch * wide * PAGE * DIM;
    Arrays a = {allocate<bf16>(of_q), allocate<bf16>(of_cache), allocate<bf16>(rows * VALUES), allocate<float>(rows),
                allocate<int>(batch * wide), allocate<int>(batch)};
    fill_normal<<<(of_q + 255) / 256, 256>>>(a.q, of_q, 0);
    fill_normal<<<(of_cache + 255) / 256, 256>>>(a.cache, of_cache, 1);
    OK(cudaMemset(a.out, 0xff, rows * VALUES * sizeof(bf16)));
    OK(cudaMemset(a.lse, 0xff, rows * sizeof(float)));
    std::vector<int> table, lens;
    for (int b = 0; b < batch; b++) {
        lens.push_back(len_of(number, b));
        for (int i = 0; i < wide; i++) table.push_back(page_of(number, b, i));
    }
    OK(cudaMemcpy(a.table, table.data(), table.size() * sizeof(int), cudaMemcpyDefault));
    OK(cudaMemcpy(a.lens, lens.data(), lens.size() * sizeof(int), cudaMemcpyDefault));
    return a;
}

int run() {
    cudaDeviceProp gpu;
    need_gpu(gpu);
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
           cases[last].keys, ms, keys * DIM * 2 / ms / 1e6, keys * HEADS * 2 * (DIM + VALUES) / ms / 1e9, gpu.name);
    return 0;
}
