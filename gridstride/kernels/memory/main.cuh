// Host code of an exported memory-bound kernel: makes random integers, checks every result, measures the time.
// Defined above: KIND (the operator), From and To (the types of input and result), cases (rows, width; the last case is
// timed). The launches are defined below.
void launch(int number, const From *x, To *out);

constexpr int BINS = 256;

// Fills x with integers from -3 to 3, whose sums are exact in each type and order, or with bytes; the same in each run
__global__ void fill(From *x, size_t size) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    unsigned long long h = hashed(i);
    int byte = h >> 56, small = (int)((h >> 33) % 7) - 3;
    x[i] = From(sizeof(From) == 1 ? byte : small);
}

// Computes the expected result on the CPU
std::vector<To> expected(const std::vector<From> &x, size_t rows, size_t width) {
    std::vector<To> out(KIND == HISTOGRAM ? BINS : KIND == SUM || KIND == ARGMAX ? rows : rows * width);
    for (size_t r = 0; r < rows; r++) {
        const From *row = x.data() + r * width;
        long long sum = 0, best = 0;
        for (size_t i = 0; i < width; i++) {
            sum += (long long)row[i];
            if (row[i] > row[best]) best = i;
            if (KIND == SCAN) out[r * width + i] = To(sum);
            if (KIND == TRANSPOSE) out[i * rows + r] = To(row[i]);
            if (KIND == HISTOGRAM) out[(size_t)row[i]] += 1;
        }
        if (KIND == SUM) out[r] = To(sum);
        if (KIND == ARGMAX) out[r] = To(best);
    }
    return out;
}

// Exits if a result is wrong
void check(int number, const From *x, To *out) {
    auto [rows, width] = cases[number];
    std::vector<From> given((size_t)rows * width);
    OK(cudaMemcpy(given.data(), x, given.size() * sizeof(From), cudaMemcpyDefault));
    std::vector<To> want = expected(given, rows, width), got(want.size());
    OK(cudaMemset(out, 0xff, want.size() * sizeof(To)));
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
        From *x = allocate<From>(size);
        To *out = allocate<To>(std::max(size, (size_t)BINS));
        fill<<<(size + 255) / 256, 256>>>(x, size);
        check(i, x, out);
        if (i == last) ms = median_time([&] { launch(i, x, out); });
        check(i, x, out);                                   // workspaces must be reusable after a run
    }
    auto [rows, width] = cases[last];
    double bytes = (double)rows * width * (sizeof(From) + (KIND == SCAN || KIND == TRANSPOSE ? sizeof(To) : 0));
    printf("PASS %-34s %6d x %-10d %9.4f ms  %7.1f GB/s, %s\n", NAME, rows, width, ms, bytes / ms / 1e6, gpu.name);
    return 0;
}
