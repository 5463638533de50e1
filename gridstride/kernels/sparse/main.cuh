// Host code of an exported product with a sparse matrix: makes random inputs, checks results against double, and times
// the last size. Requires definitions of the type of all elements (Elem), the product (KIND; BR: rows of a block),
// UNIT_ROUNDOFF, NONZERO_PER_THOUSAND (how many of 1000 blocks or elements are nonzero), and the sizes (cases: rows of
// w, rows of x, k; for CSR columns of x). The launches are defined below.
struct Matrix { Elem *dense, *values; unsigned *words; int *row_offsets, *columns; };

void launch(int case_index, const Matrix &w, const Elem *x, Elem *y);

inline int read(const int *src) {
    int res;
    OK(cudaMemcpy(&res, src, 4, cudaMemcpyDefault));
    return res;
}

__host__ __device__ inline unsigned random_bits(unsigned long long i) {
    unsigned long long h = hashed(i);
    return (h ^ h >> 29) >> 32;
}

__global__ void fill(Elem *x, size_t size) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) x[i] = Elem(random_value(i << 1));
}

// Each thread makes four elements of a row, two of them nonzero, and writes their indices to a word of the metadata. At
// the start all words hold indices 0 and 1.
__global__ void fill_24(Matrix w, int rows, int k) {
    const int pairs[] = {4, 8, 9, 12, 13, 14};
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    int r = i / (k / 4), c = i % (k / 4) * 4, column_tiles = (k + 127) / 128;
    if (r >= rows) return;
    unsigned nibble = pairs[random_bits(i << 1 | 1) % 6], lane = r % 8 * 4 + c % 64 / 16;
    for (int j = 0; j < 4; j++) w.dense[(size_t)r * k + c + j] = Elem(0.f);
    for (int j = 0; j < 2; j++) {
        Elem v(random_value((i * 2 + j) << 1 | 1));
        w.values[i * 2 + j] = v;
        w.dense[(size_t)r * k + c + (nibble >> 2 * j & 3)] = v;
    }
    size_t word = ((((size_t)(r / 64) * column_tiles + c / 128) * 4 + r % 64 / 16) * 32 + lane) * 2 + c % 128 / 64;
    atomicXor(&w.words[word], (nibble ^ 4) << (r % 16 / 8 * 16 + c % 16 / 4 * 4));
}

// Launched with one thread block per block of elements, or per row.
__global__ void fill_nonzeros(Matrix w, int rows, int k) {
    int block_height = KIND == BLOCKS ? BR : 1, block_width = KIND == BLOCKS ? 64 : 1, r = blockIdx.x;
    for (int b = w.row_offsets[r]; b < w.row_offsets[r + 1]; b++)
        for (int i = threadIdx.x; i < block_height * block_width; i += blockDim.x) {
            int row = r * block_height + i / block_width, column = w.columns[b] * block_width + i % block_width;
            bool in_bounds = row < rows && column < k;
            Elem v(in_bounds ? random_value(((size_t)b * block_height * block_width + i) << 1 | 1) : 0.f);
            w.values[(size_t)b * block_height * block_width + i] = v;
            if (in_bounds) w.dense[(size_t)row * k + column] = v;
        }
}

template <class T> T *copy_to_device(const std::vector<T> &x) {
    T *p = allocate<T>(x.size());
    OK(cudaMemcpy(p, x.data(), x.size() * sizeof(T), cudaMemcpyDefault));
    return p;
}

Matrix make(int rows, int k) {
    size_t size = (size_t)rows * k;
    Matrix w = {allocate<Elem>(size)};
    OK(cudaMemset(w.dense, 0, size * sizeof(Elem)));
    if (KIND == TWO_FOUR) {
        size_t words = (size_t)(rows + 63) / 64 * ((k + 127) / 128) * 256;
        w.values = allocate<Elem>(size / 2);
        w.words = allocate<unsigned>(words);
        OK(cudaMemset(w.words, 0x44, words * 4));
        fill_24<<<(size / 4 + 255) / 256, 256>>>(w, rows, k);
        return w;
    }
    int block_height = KIND == BLOCKS ? BR : 1, block_width = KIND == BLOCKS ? 64 : 1;
    int block_rows = (rows + block_height - 1) / block_height;
    std::vector<int> row_offsets = {0}, columns;
    for (int r = 0; r < block_rows; r++) {
        // The first block is nonzero, and the second block row is empty
        for (int c = 0; c < (k + block_width - 1) / block_width; c++) {
            bool kept = random_bits((unsigned long long)r << 32 | c) % 1000 < NONZERO_PER_THOUSAND;
            if (r + c == 0 || (r != 1 && kept)) columns.push_back(c);
        }
        row_offsets.push_back(columns.size());
    }
    w.values = allocate<Elem>(columns.size() * block_height * block_width);
    w.row_offsets = copy_to_device(row_offsets);
    w.columns = copy_to_device(columns);
    fill_nonzeros<<<block_rows, KIND == BLOCKS ? 256 : 1>>>(w, rows, k);
    return w;
}

// Checks every `row_step`th row of w and every `x_step`th row of x. The error of a result may be UNIT_ROUNDOFF times
// the result plus 16 * 2^-24 times the sum of the magnitudes of its terms.
__global__ void compare(Matrix w, const Elem *x, const Elem *y, int rows, int n, int k, int row_step, int x_step,
                        int *wrong) {
    int r = (blockIdx.x * blockDim.x + threadIdx.x) * row_step, c = blockIdx.y * x_step;
    if (r >= rows) return;
    double sum = 0, abs_sum = 0;
    for (int i = 0; i < k; i++) {
        double p = (double)(float)w.dense[(size_t)r * k + i];
        p *= (float)x[KIND == CSR ? (size_t)i * n + c : (size_t)c * k + i];
        sum += p;
        abs_sum += fabs(p);
    }
    double actual = (float)y[KIND == CSR ? (size_t)r * n + c : (size_t)c * rows + r];
    if (!(fabs(actual - sum) <= UNIT_ROUNDOFF * fabs(sum) + 16 * 0x1p-24 * abs_sum)) atomicAdd(wrong, 1);
}

// Exits if a result is wrong; checks all elements of small results.
void check(int case_index, const Matrix &w, const Elem *x, const Elem *y) {
    auto [rows, n, k] = cases[case_index];
    static int *wrong = allocate<int>(1);
    int zero = 0, row_step = rows > 1000 ? 7 : 1, x_step = n > 1000 ? 31 : 1;
    OK(cudaMemcpy(wrong, &zero, 4, cudaMemcpyDefault));
    dim3 grid((rows / row_step + 256) / 256, (n + x_step - 1) / x_step);
    compare<<<grid, 256>>>(w, x, y, rows, n, k, row_step, x_step, wrong);
    int num_wrong = read(wrong);
    if (!num_wrong) return;
    printf("FAIL %-34s %dx%d, %d: %d elements are wrong\n", NAME, rows, k, n, num_wrong);
    exit(1);
}

double run_case(int case_index, bool timed) {
    auto [rows, n, k] = cases[case_index];
    Matrix w = make(rows, k);
    Elem *x = allocate<Elem>((size_t)n * k), *y = allocate<Elem>((size_t)n * rows);
    fill<<<((size_t)n * k + 255) / 256, 256>>>(x, (size_t)n * k);
    return check_and_time(timed, [&] { fill_with_nan(y, (size_t)n * rows); }, [&] { launch(case_index, w, x, y); },
                          [&] { check(case_index, w, x, y); });
}

int run() {
    cudaDeviceProp gpu;
    double ms = run_cases(std::size(cases), gpu, run_case);
    auto [rows, n, k] = *(std::end(cases) - 1);
    printf("PASS %-34s %dx%d, %d  %9.4f ms  %7.1f TFLOP/s as a dense product, %s\n", NAME, rows, k, n, ms,
           2. * rows * n * k / ms / 1e9, gpu.name);
    return 0;
}
