// Host code of an exported product with quantized weights: makes random inputs, checks results against double, and
// times the last size. Requires definitions of the sizes (cases: rows of x, rows and columns of w), the type Elem (of
// x, y and the scales), KIND, GROUP (columns that share a scale; 0: the whole row), CODEBOOK (the values of NF4) and
// the tolerance (UNIT_ROUNDOFF). The launches are defined below.
void launch(int case_index, const Elem *x, const unsigned char *words, const Elem *scales, Elem *y);

constexpr int BITS = KIND == INT4 || KIND == NF4 ? 4 : 8, STEP = 128, GROUP_COLUMNS = GROUP ? GROUP : STEP;

__device__ unsigned random_bits(unsigned long long i) { return hashed(i) >> 32; }

// Makes values from -1 to 1, or scales from 1/2 to 1.
__global__ void fill(Elem *x, size_t size, bool scales) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) x[i] = Elem((random_bits(i) >> 8) * (scales ? 0x1p-25f : 0x1p-23f) + (scales ? .5f : -1.f));
}

// Makes random bytes: quantized weights, without the NaN of e4m3.
__global__ void fill(unsigned char *words, size_t size) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    unsigned char byte = random_bits(i);
    words[i] = KIND == FP8 && (byte & 127) == 127 ? byte - 1 : byte;
}

float from_e4m3(unsigned byte) {
    int exponent = byte >> 3 & 15, fraction = byte & 7;
    float x = exponent ? std::ldexp(8.f + fraction, exponent - 10) : std::ldexp((float)fraction, -9);
    return byte & 128 ? -x : x;
}

// Returns an element of w without its scale; fragments.py describes the layout.
float weight_at(const std::vector<unsigned char> &words, int steps, int row, int column) {
    int c = column % STEP, product = c / 32 * 2 + c % 8 / 4, lane = row % 8 * 4 + c % 32 / 8;
    int reg = c % 4 / 2 * 2 + row % 16 / 8, element = c % 2;
    int bit = KIND == INT4 ? 4 * (reg + 4 * element) : KIND == NF4 ? 8 * reg + 4 * element
                                                                  : reg / 2 * 32 + (reg % 2 + 2 * element) * 8;
    int byte = product * BITS + bit / 8;            // index of the byte in the thread's bytes; a product has BITS bytes
    size_t load = ((size_t)(row / 16) * steps + column / STEP) * (BITS / 2) + byte / 16;
    unsigned bits = words[(load * 32 + lane) * 16 + byte % 16] >> bit % 8;
    if (KIND == INT4) return int(bits & 15) - 8;
    if (KIND == NF4) return (float)Elem(CODEBOOK[bits & 15]);
    return KIND == INT8 ? (float)(signed char)bits : from_e4m3(bits);
}

// Exits if a result is wrong: checks all rows of small results, and some rows in each part of large ones.
void check(int case_index, const std::vector<Elem> &x, const std::vector<unsigned char> &words,
           const std::vector<Elem> &scales, const std::vector<Elem> &y) {
    auto [batch, rows, columns] = cases[case_index];
    int steps = (columns + STEP - 1) / STEP, groups = GROUP ? steps * (STEP / GROUP_COLUMNS) : 1;
    std::vector<double> w(columns);
    for (int row = 0; row < rows; row += rows > 1000 ? 97 : 1) {
        for (int c = 0; c < columns; c++) {
            size_t group = (size_t)(row / 16) * groups + (GROUP ? c / GROUP_COLUMNS : 0);
            size_t scale = group * 16 + row % 8 * 2 + row % 16 / 8;
            w[c] = weight_at(words, steps, row, c) * (double)(float)scales[scale];
        }
        for (int b = 0; b < batch; b++) {
            double sum = 0, abs_sum = 0;
            for (int c = 0; c < columns; c++) {
                double p = w[c] * (float)x[(size_t)b * columns + c];
                sum += p;
                abs_sum += std::abs(p);
            }
            double actual = (float)y[(size_t)b * rows + row];
            if (!(std::abs(actual - sum) <= UNIT_ROUNDOFF * std::abs(sum) + 1e-6 * abs_sum)) {
                printf("FAIL %-34s %d x %d x %d: row %d of y, %d: %g, expected %g\n", NAME, batch, rows, columns, b,
                       row, actual, sum);
                exit(1);
            }
        }
    }
}

// Runs a product; returns its time if it is `timed`, else 0.
double run_case(int case_index, bool timed) {
    auto [batch, rows, columns] = cases[case_index];
    size_t tiles = (rows + 15) / 16, steps = (columns + STEP - 1) / STEP;
    size_t groups = GROUP ? steps * (STEP / GROUP_COLUMNS) : 1;
    size_t bytes = tiles * steps * 16 * STEP * BITS / 8, count = tiles * groups * 16, in = (size_t)batch * columns;
    Elem *x = allocate<Elem>(in), *scales = allocate<Elem>(count), *y = allocate<Elem>((size_t)batch * rows);
    unsigned char *words = allocate<unsigned char>(bytes);
    fill<<<(in + 255) / 256, 256>>>(x, in, false);
    fill<<<(count + 255) / 256, 256>>>(scales, count, true);
    fill<<<(bytes + 255) / 256, 256>>>(words, bytes);
    const auto inputs = read(x, in), w_scales = read(scales, count);
    const auto weights = read(words, bytes);
    auto check_result = [&] { check(case_index, inputs, weights, w_scales, read(y, (size_t)batch * rows)); };
    return check_and_time(timed, [&] { fill_with_nan(y, (size_t)batch * rows); },
                          [&] { launch(case_index, x, words, scales, y); }, check_result);
}

int run() {
    cudaDeviceProp gpu;
    double ms = run_cases(std::size(cases), gpu, run_case);
    auto [batch, rows, columns] = *(std::end(cases) - 1);
    double bytes = (double)rows * columns * (BITS + (GROUP ? 16. / GROUP_COLUMNS : 0)) / 8;
    printf("PASS %-34s %d x %d x %d  %9.4f ms  %7.1f GB/s, %s\n", NAME, batch, rows, columns, ms, bytes / ms / 1e6,
           gpu.name);
    return 0;
}
