// Host code of an exported kernel that orders or selects: makes random keys, checks every result, measures the time.
// Defined above: OPERATOR, Key and To (the types of input and result), K (of a top-k), cases (rows, width; the last
// case is timed). The launches are defined below.
void launch(int number, const Key *x, To *out);

// Fills x with keys of which some are equal, or of all values if they have 32 random bits; the same in each run
__global__ void fill(Key *x, size_t size) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    unsigned long long h = hashed(i);
    x[i] = OPERATOR == SORT ? Key(h >> 32) : Key((int)((h >> 33) % 20011) - 10005);
}

// What a compaction keeps: the odd keys
__global__ void mark(const Key *x, unsigned char *keep, size_t size) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) keep[i] = (long long)x[i] & 1;
}

// Computes the expected result on the CPU; of a compaction, its first elements
std::vector<To> expected(const std::vector<Key> &x, size_t rows, size_t width) {
    std::vector<To> out;
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
                out.push_back(OPERATOR == SORT || OPERATOR == COMPACT ? To(row[order[i]]) : To(order[i]));
    }
    return out;
}

// Exits if a result is wrong
void check(int number, const Key *x, To *out) {
    auto [rows, width] = cases[number];
    std::vector<Key> given((size_t)rows * width);
    OK(cudaMemcpy(given.data(), x, given.size() * sizeof(Key), cudaMemcpyDefault));
    std::vector<To> want = expected(given, rows, width), got(want.size());
    OK(cudaMemset(out, 0xff, given.size() * sizeof(To)));
    launch(number, x, out);
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(got.data(), out, got.size() * sizeof(To), cudaMemcpyDefault));
    for (size_t i = 0; i < want.size(); i++)
        if (!(got[i] == want[i])) {
            printf("FAIL %-34s %d x %d: element %zu of %zu is wrong\n", NAME, rows, width, i, want.size());
            exit(1);
        }
}

int run() {
    cudaDeviceProp gpu;
    need_gpu(gpu);
    double ms = 0;
    const int last = int(sizeof cases / sizeof *cases) - 1;
    for (int i = 0; i <= last; i++) {
        size_t size = (size_t)cases[i].rows * cases[i].width;
        Key *x = allocate<Key>(size);
        To *out = allocate<To>(size);
        fill<<<(size + 255) / 256, 256>>>(x, size);
        check(i, x, out);
        if (i == last) ms = median_time([&] { launch(i, x, out); });
        check(i, x, out);                                   // workspaces must be reusable after a run
    }
    auto [rows, width] = cases[last];
    printf("PASS %-34s %6d x %-10d %9.4f ms  %7.2f billion keys/s, %s\n", NAME, rows, width, ms,
           (double)rows * width / ms / 1e6, gpu.name);
    return 0;
}
