// Host code of an exported kernel that orders or selects: makes random keys, checks every result, measures the time.
// Requires definitions of OPERATOR, Key and Out (the types of input and result), K (of a top-k), cases (rows, width;
// the last case is timed). The launches are defined below.
void launch(int case_index, const Key *x, Out *out);

// Fills x with random keys, some of which are equal (for a sort: with 32 random bits); the same in each run
__global__ void fill(Key *x, size_t size) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    unsigned long long h = hashed(i);
    x[i] = OPERATOR == SORT ? Key(h >> 32) : Key((int)((h >> 33) % 20011) - 10005);
}

// Marks the keys that a compaction keeps: the odd ones
__global__ void mark(const Key *x, unsigned char *keep, size_t size) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) keep[i] = (long long)x[i] & 1;
}

// Computes the expected result on the CPU; for a compaction, only the elements that it keeps
std::vector<Out> compute_expected(const std::vector<Key> &x, size_t rows, size_t width) {
    std::vector<Out> out;
    std::vector<size_t> order(width);
    for (size_t r = 0; r < rows; r++) {
        const Key *row = x.data() + r * width;
        for (size_t i = 0; i < width; i++) order[i] = i;
        auto less = [&](size_t a, size_t b) { return row[a] < row[b]; };
        auto greater = [&](size_t a, size_t b) { return row[a] > row[b]; };
        if (OPERATOR == TOPK) std::stable_sort(order.begin(), order.end(), greater);
        else if (OPERATOR != COMPACT) std::stable_sort(order.begin(), order.end(), less);
        for (size_t i = 0; i < (OPERATOR == TOPK ? K : width); i++)
            if (OPERATOR != COMPACT || ((long long)row[i] & 1))
                out.push_back(OPERATOR == SORT || OPERATOR == COMPACT ? Out(row[order[i]]) : Out(order[i]));
    }
    return out;
}

double run_case(int case_index, bool timed) {
    auto [rows, width] = cases[case_index];
    size_t size = (size_t)rows * width;
    Key *x = allocate<Key>(size);
    Out *out = allocate<Out>(size);
    fill<<<(size + 255) / 256, 256>>>(x, size);
    const std::vector<Out> expected = compute_expected(read(x, size), rows, width);
    return check_and_time(timed, [&] { fill_with_nan(out, expected.size()); }, [&] { launch(case_index, x, out); },
                          [&] { require_equal(out, expected, rows, width); });
}

int run() {
    cudaDeviceProp gpu;
    double ms = run_cases(std::size(cases), gpu, run_case);
    auto [rows, width] = *(std::end(cases) - 1);
    printf("PASS %-34s %6d x %-10d %9.4f ms  %7.2f billion keys/s, %s\n", NAME, rows, width, ms,
           (double)rows * width / ms / 1e6, gpu.name);
    return 0;
}
