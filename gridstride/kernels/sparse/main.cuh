// Host code of an exported product with a sparse matrix: makes random inputs, checks results against double, and
// times the last size. Defined above: the type of all elements (Number), the product (KIND; BR: rows of a block),
// ROUNDING, KEPT (how many of 1000 blocks or elements are nonzero), and the sizes (cases: rows of w, rows of x, k; for
// CSR columns of x). The launches are defined below.
struct Matrix { Number *dense, *values; unsigned *words; int *starts, *columns; };

void launch(int number, const Matrix &w, const Number *x, Number *y);

inline int read(const int *from) {
    int res;
    OK(cudaMemcpy(&res, from, 4, cudaMemcpyDefault));
    return res;
}

__host__ __device__ inline unsigned random_bits(unsigned long long i) {
    unsigned long long h = hashed(i);
    return (h ^ h >> 29) >> 32;
}

__global__ void fill(Number *x, size_t size) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) x[i] = Number(random_number(i << 1));
}

// Each thread makes four elements of a row, two of them nonzero, and writes their indices to a word of the metadata. At
// the start all words hold indices 0 and 1.
__global__ void fill_24(Matrix w, int rows, int k) {
    const int pairs[] = {4, 8, 9, 12, 13, 14};
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    int r = i / (k / 4), c = i % (k / 4) * 4, across = (k + 127) / 128;
    if (r >= rows) return;
    unsigned nibble = pairs[random_bits(i << 1 | 1) % 6], at = r % 8 * 4 + c % 64 / 16;
    for (int j = 0; j < 4; j++) w.dense[(size_t)r * k + c + j] = Number(0.f);
    for (int j = 0; j < 2; j++) {
        Number v(random_number((i * 2 + j) << 1 | 1));
        w.values[i * 2 + j] = v;
        w.dense[(size_t)r * k + c + (nibble >> 2 * j & 3)] = v;
    }
    size_t word = ((((size_t)(r / 64) * across + c / 128) * 4 + r % 64 / 16) * 32 + at) * 2 + c % 128 / 64;
    atomicXor(&w.words[word], (nibble ^ 4) << (r % 16 / 8 * 16 + c % 16 / 4 * 4));
}

// Launched with one thread block per block of elements, or per row.
__global__ void fill_kept(Matrix w, int rows, int k) {
    int high = KIND == BLOCKS ? BR : 1, wide = KIND == BLOCKS ? 64 : 1, r = blockIdx.x;
    for (int at = w.starts[r]; at < w.starts[r + 1]; at++)
        for (int i = threadIdx.x; i < high * wide; i += blockDim.x) {
            int row = r * high + i / wide, column = w.columns[at] * wide + i % wide;
            bool inside = row < rows && column < k;
            Number v(inside ? random_number(((size_t)at * high * wide + i) << 1 | 1) : 0.f);
            w.values[(size_t)at * high * wide + i] = v;
            if (inside) w.dense[(size_t)row * k + column] = v;
        }
}

template <class T> T *sent(const std::vector<T> &x) {
    T *p = allocate<T>(x.size());
    OK(cudaMemcpy(p, x.data(), x.size() * sizeof(T), cudaMemcpyDefault));
    return p;
}

Matrix make(int rows, int k) {
    size_t size = (size_t)rows * k;
    Matrix w = {allocate<Number>(size)};
    OK(cudaMemset(w.dense, 0, size * sizeof(Number)));
    if (KIND == TWO_FOUR) {
        size_t words = (size_t)(rows + 63) / 64 * ((k + 127) / 128) * 256;
        w.values = allocate<Number>(size / 2);
        w.words = allocate<unsigned>(words);
        OK(cudaMemset(w.words, 0x44, words * 4));
        fill_24<<<(size / 4 + 255) / 256, 256>>>(w, rows, k);
        return w;
    }
    int high = KIND == BLOCKS ? BR : 1, wide = KIND == BLOCKS ? 64 : 1, tall = (rows + high - 1) / high;
    std::vector<int> starts = {0}, columns;
    for (int r = 0; r < tall; r++) {
        // The first block is nonzero, and the second block row is empty
        for (int c = 0; c < (k + wide - 1) / wide; c++) {
            bool kept = random_bits((unsigned long long)r << 32 | c) % 1000 < KEPT;
            if (r + c == 0 || (r != 1 && kept)) columns.push_back(c);
        }
        starts.push_back(columns.size());
    }
    w.values = allocate<Number>(columns.size() * high * wide);
    w.starts = sent(starts);
    w.columns = sent(columns);
    fill_kept<<<tall, KIND == BLOCKS ? 256 : 1>>>(w, rows, k);
    return w;
}

// Checks every `down`th row of w and every `right`th row of x. The error of a result may be ROUNDING times the result
// plus 16 * 2^-24 times the sum of the magnitudes of its terms.
__global__ void compare(Matrix w, const Number *x, const Number *y, int rows, int n, int k, int down, int right,
                        int *wrong) {
    int r = (blockIdx.x * blockDim.x + threadIdx.x) * down, c = blockIdx.y * right;
    if (r >= rows) return;
    double sum = 0, size = 0;
    for (int i = 0; i < k; i++) {
        double p = (double)(float)w.dense[(size_t)r * k + i];
        p *= (float)x[KIND == CSR ? (size_t)i * n + c : (size_t)c * k + i];
        sum += p;
        size += fabs(p);
    }
    double got = (float)y[KIND == CSR ? (size_t)r * n + c : (size_t)c * rows + r];
    if (!(fabs(got - sum) <= ROUNDING * fabs(sum) + 16 * 0x1p-24 * size)) atomicAdd(wrong, 1);
}

// Exits if a result is wrong; checks all elements of small results.
void check(int number, const Matrix &w, const Number *x, const Number *y) {
    auto [rows, n, k] = cases[number];
    static int *wrong = allocate<int>(1);
    int none = 0, down = rows > 1000 ? 7 : 1, right = n > 1000 ? 31 : 1;
    OK(cudaMemcpy(wrong, &none, 4, cudaMemcpyDefault));
    dim3 grid((rows / down + 256) / 256, (n + right - 1) / right);
    compare<<<grid, 256>>>(w, x, y, rows, n, k, down, right, wrong);
    int got = read(wrong);
    if (!got) return;
    printf("FAIL %-34s %dx%d, %d: %d elements are wrong\n", NAME, rows, k, n, got);
    exit(1);
}

double run_case(int number, bool timed) {
    auto [rows, n, k] = cases[number];
    Matrix w = make(rows, k);
    Number *x = allocate<Number>((size_t)n * k), *y = allocate<Number>((size_t)n * rows);
    fill<<<((size_t)n * k + 255) / 256, 256>>>(x, (size_t)n * k);
    return check_and_time(timed, [&] { erase(y, (size_t)n * rows); }, [&] { launch(number, w, x, y); },
                          [&] { check(number, w, x, y); });
}

int run() {
    cudaDeviceProp gpu;
    double ms = run_cases(std::size(cases), gpu, run_case);
    auto [rows, n, k] = *(std::end(cases) - 1);
    printf("PASS %-34s %dx%d, %d  %9.4f ms  %7.1f TFLOP/s with the zeros, %s\n", NAME, rows, k, n, ms,
           2. * rows * n * k / ms / 1e9, gpu.name);
    return 0;
}
