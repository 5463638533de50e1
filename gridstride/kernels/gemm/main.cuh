// Host code of an exported GEMM with an epilogue: makes random inputs, checks the results in double, and measures the
// time. Requires definitions of the types Elem (of A and B) and Out, UNIT_ROUNDOFF (of Out), the layouts of A and B,
// the operations of the epilogue (the activation is GELU), and the sizes (cases: batch size or groups, M, N, K; the
// last one is timed). The launches are defined below.
struct Arrays {
    Elem *A, *B, *bias, *other, *saved;
    Out *out, *initial_out;
    float *sums;
    int *ends;
};

void launch(int case_index, const Arrays &x);

template <class T> __global__ void fill(T *x, size_t size, int seed) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) x[i] = T(random_value(i * 16 + seed));
}

template <class T> T *allocate_random(size_t size, int seed) {
    T *x = allocate<T>(size);
    fill<<<(size + 255) / 256, 256>>>(x, size, seed);
    return x;
}

__device__ double gelu(double x) { return x / 2 * (1 + erf(x * .70710678118654752)); }
__device__ double gelu_grad(double x) {
    return (1 + erf(x * .70710678118654752)) / 2 + x * .3989422804014327 * exp(-x * x / 2);
}

// Compares every `row_step`-th row and every `col_step`-th column, and counts wrong elements. The error bound is the
// rounding of the result, plus 16 * 2^-24 of the sum of the absolute values of its terms, plus 2^-20 of that sum for an
// approximated activation or gradient
__global__ void compare(Arrays x, int count, int M, int N, int K, int row_step, int col_step, int *num_wrong) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) * row_step, c = blockIdx.y * col_step;
    if (row >= (GROUPS ? M : count * M) || c >= N) return;
    int matrix = GROUPS ? 0 : row / M, r = GROUPS ? row : row % M;
    if (GROUPS) while (row >= x.ends[matrix]) matrix++;
    const Elem *A = x.A + (GROUPS ? 0 : (size_t)matrix * M * K), *B = x.B + (size_t)matrix * K * N;
    double sum = 0, abs_sum = 0;
    for (int i = 0; i < K; i++) {
        double product = (double)(float)A[a_transposed ? (size_t)i * M + r : (size_t)r * K + i];
        product *= (double)(float)B[b_transposed ? (size_t)c * K + i : (size_t)i * N + c];
        sum += product * SCALE;
        abs_sum += fabs(product * SCALE);
    }
    size_t index = (size_t)row * N + c;
    auto check_element = [&](double actual, double expected, double sum_error, double rounding) {
        if (!(fabs(actual - expected) <= rounding * fabs(expected) + sum_error)) atomicAdd(num_wrong, 1);
    };
    if (BIASED) { sum += (float)x.bias[c]; abs_sum += fabs((float)x.bias[c]); }
    if (SAVES) check_element((float)x.saved[index], gelu_grad(sum), (16 * 0x1p-24 + 0x1p-20) * 2 * abs_sum, 0x1p-8);
    double other = (float)x.other[index], factor = 1;
    if (ACTIVATES) { factor = 1.13; sum = gelu(sum); }
    if (MULTIPLIES) { factor = fabs(other); sum *= other; }
    if (ADDS) { sum += other; abs_sum += fabs(other); }
    if (ACCUMULATES) { sum += (float)x.initial_out[index]; abs_sum += fabs((float)x.initial_out[index]); }
    check_element((float)x.out[index], sum, (16 * 0x1p-24 + (ACTIVATES ? 0x1p-20 : 0)) * factor * abs_sum,
                  UNIT_ROUNDOFF);
}

// Compares the column sums: of the result, which was rounded after the summation, or of the addend
__global__ void compare_sums(Arrays x, int M, int N, int rows, int *num_wrong) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= N) return;
    double actual = 0, expected = 0, abs_sum = 0;
    for (int r = 0; r < rows; r++) actual += x.sums[(size_t)r * N + c];
    for (int r = 0; r < M; r++) {
        double value = MULTIPLIES ? (float)x.out[(size_t)r * N + c] : (float)x.other[(size_t)r * N + c];
        expected += value;
        abs_sum += fabs(value);
    }
    if (!(fabs(actual - expected) <= (MULTIPLIES ? UNIT_ROUNDOFF : 16 * 0x1p-24) * abs_sum)) atomicAdd(num_wrong, 1);
}

// Exits if a result is wrong; checks all elements of small results, and a sample of large ones
void check(int case_index, const Arrays &x) {
    auto [count, M, N, K, rows] = cases[case_index];
    static int *device_count = allocate<int>(1);
    int num_wrong = 0, num_rows = GROUPS ? M : count * M;
    int row_step = num_rows > 2000 ? 41 : 1, col_step = N > 1000 ? 37 : 1;
    OK(cudaMemcpy(device_count, &num_wrong, sizeof num_wrong, cudaMemcpyDefault));
    dim3 grid((num_rows / row_step + 256) / 256, (N + col_step - 1) / col_step);
    compare<<<grid, 256>>>(x, count, M, N, K, row_step, col_step, device_count);
    if (SUMS) compare_sums<<<(N + 255) / 256, 256>>>(x, M, N, rows, device_count);
    OK(cudaMemcpy(&num_wrong, device_count, sizeof num_wrong, cudaMemcpyDefault));
    if (!num_wrong) return;
    printf("FAIL %-34s %d of %dx%d @ %dx%d: %d elements are wrong\n", NAME, count, M, K, K, N, num_wrong);
    exit(1);
}

// Returns the ends of the groups: the second group is empty, and the others differ in size
int *make_ends(int count, int M) {
    std::vector<int> ends;
    for (int g = 0; g < count; g++)
        ends.push_back(g == count - 1 ? M : g == 1 ? ends[0] : (size_t)M * (g + 1) / count - g % 3);
    int *p = allocate<int>(count);
    OK(cudaMemcpy(p, ends.data(), count * sizeof(int), cudaMemcpyDefault));
    return p;
}

int run() {
    cudaDeviceProp gpu;
    require_gpu(gpu);
    double ms = 0;
    const int last = int(sizeof cases / sizeof *cases) - 1;
    for (int i = 0; i <= last; i++) {
        auto [count, M, N, K, rows] = cases[i];
        size_t num_rows = GROUPS ? M : (size_t)count * M, size = num_rows * N;
        Arrays x = {allocate_random<Elem>(num_rows * K, 0), allocate_random<Elem>((size_t)count * K * N, 1),
                    allocate_random<Elem>(N, 2), allocate_random<Elem>(size, 3), allocate<Elem>(size),
                    allocate<Out>(size), allocate_random<Out>(size, 4), allocate<float>((size_t)rows * N + 1),
                    make_ends(count, M)};
        auto launch_case = [&] { launch(i, x); };
        auto run_checked = [&] {
            if (ACCUMULATES) OK(cudaMemcpy(x.out, x.initial_out, size * sizeof(Out), cudaMemcpyDefault));
            else OK(cudaMemset(x.out, 0xff, size * sizeof(Out)));
            OK(cudaMemset(x.saved, 0xff, size * sizeof(Elem)));
            launch_case();
            OK(cudaDeviceSynchronize());
            check(i, x);
        };
        run_checked();
        if (i == last) ms = median_time(launch_case);
        run_checked();
    }
    auto [count, M, N, K, rows] = cases[last];
    double flops = 2. * (GROUPS ? 1 : count) * M * N * K;
    printf("PASS %-34s %d of %dx%d @ %dx%d  %9.4f ms  %7.2f TFLOP/s, %s\n", NAME, count, M, K, K, N, ms,
           flops / ms / 1e9, gpu.name);
    return 0;
}
