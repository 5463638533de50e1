// Host code of an exported memory-bound kernel: makes random integers, checks every result, measures the time.
// Requires definitions of KIND (the operator), Elem and Out (the types of input and result), cases (rows, width; the
// last case is timed). The launches are defined below.
void launch(int case_index, const Elem *x, Out *out);

constexpr int BINS = 256;

// Fills x with integers from -3 to 3, whose sums are exact in each type and order, or with bytes; the same in each run
__global__ void fill(Elem *x, size_t size) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    unsigned long long h = hashed(i);
    int byte = h >> 56, small = (int)((h >> 33) % 7) - 3;
    x[i] = Elem(sizeof(Elem) == 1 ? byte : small);
}

// Computes the expected result on the CPU
std::vector<Out> compute_expected(const std::vector<Elem> &x, size_t rows, size_t width) {
    std::vector<Out> out(KIND == HISTOGRAM ? BINS : KIND == SUM || KIND == ARGMAX ? rows : rows * width);
    for (size_t r = 0; r < rows; r++) {
        const Elem *row = x.data() + r * width;
        long long sum = 0, best = 0;
        for (size_t i = 0; i < width; i++) {
            sum += (long long)row[i];
            if (row[i] > row[best]) best = i;
            if (KIND == SCAN) out[r * width + i] = Out(sum);
            if (KIND == TRANSPOSE) out[i * rows + r] = Out(row[i]);
            if (KIND == HISTOGRAM) out[(size_t)row[i]] += 1;
        }
        if (KIND == SUM) out[r] = Out(sum);
        if (KIND == ARGMAX) out[r] = Out(best);
    }
    return out;
}

double run_case(int case_index, bool timed) {
    auto [rows, width] = cases[case_index];
    size_t size = (size_t)rows * width;
    Elem *x = allocate<Elem>(size);
    Out *out = allocate<Out>(std::max(size, (size_t)BINS));
    fill<<<(size + 255) / 256, 256>>>(x, size);
    const std::vector<Out> expected = compute_expected(read(x, size), rows, width);
    return check_and_time(timed, [&] { fill_with_nan(out, expected.size()); }, [&] { launch(case_index, x, out); },
                          [&] { require_equal(out, expected, rows, width); });
}

int run() {
    cudaDeviceProp gpu;
    double ms = run_cases(std::size(cases), gpu, run_case);
    auto [rows, width] = *(std::end(cases) - 1);
    double bytes = (double)rows * width * (sizeof(Elem) + (KIND == SCAN || KIND == TRANSPOSE ? sizeof(Out) : 0));
    printf("PASS %-34s %6d x %-10d %9.4f ms  %7.1f GB/s, %s\n", NAME, rows, width, ms, bytes / ms / 1e6, gpu.name);
    return 0;
}
