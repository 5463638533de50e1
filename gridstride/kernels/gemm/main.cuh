// Host code of an exported product with an epilogue: makes random inputs, checks the results in double, and measures
// the time. Defined above: the types Number (of A and B) and Out, ROUNDING (of Out), the layouts of A and B, the parts
// of the epilogue (its activation is GELU), and the sizes (cases: products or groups, M, N, K; the last one is timed).
// The launches are defined below.
struct Arrays {
    Number *A, *B, *bias, *other, *saved;
    Out *out, *before;
    float *sums;
    int *ends;
};

void launch(int number, const Arrays &x);

template <class T> __global__ void fill(T *x, size_t size, int seed) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) x[i] = T(random_number(i * 16 + seed));
}

template <class T> T *allocate_random(size_t size, int seed) {
    T *x = allocate<T>(size);
    fill<<<(size + 255) / 256, 256>>>(x, size, seed);
    return x;
}

__device__ double gelu_of(double x) { return x / 2 * (1 + erf(x * .70710678118654752)); }
__device__ double gelu_grad_of(double x) {
    return (1 + erf(x * .70710678118654752)) / 2 + x * .3989422804014327 * exp(-x * x / 2);
}

// Compares every `down`th row and every `right`th column. The error bound: the rounding of the result, plus 16 * 2^-24
// of the sum of the absolute values of its terms, plus 2^-20 of that sum for an approximated activation or gradient
__global__ void compare(Arrays x, int count, int M, int N, int K, int down, int right, int *wrong) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) * down, c = blockIdx.y * right;
    if (row >= (GROUPS ? M : count * M) || c >= N) return;
    int z = GROUPS ? 0 : row / M, r = GROUPS ? row : row % M;
    if (GROUPS) while (row >= x.ends[z]) z++;
    const Number *A = x.A + (GROUPS ? 0 : (size_t)z * M * K), *B = x.B + (size_t)z * K * N;
    double sum = 0, size = 0;
    for (int i = 0; i < K; i++) {
        double p = (double)(float)A[a_transposed ? (size_t)i * M + r : (size_t)r * K + i];
        p *= (double)(float)B[b_transposed ? (size_t)c * K + i : (size_t)i * N + c];
        sum += p * SCALE;
        size += fabs(p * SCALE);
    }
    size_t at = (size_t)row * N + c;
    auto off = [&](double got, double want, double terms, double rounding) {
        if (!(fabs(got - want) <= rounding * fabs(want) + terms)) atomicAdd(wrong, 1);
    };
    if (BIASED) { sum += (float)x.bias[c]; size += fabs((float)x.bias[c]); }
    if (SAVES) off((float)x.saved[at], gelu_grad_of(sum), (16 * 0x1p-24 + 0x1p-20) * 2 * size, 0x1p-8);
    double other = (float)x.other[at], factor = 1;
    if (ACTIVATES) { factor = 1.13; sum = gelu_of(sum); }
    if (MULTIPLIES) { factor = fabs(other); sum *= other; }
    if (ADDS) { sum += other; size += fabs(other); }
    if (ACCUMULATES) { sum += (float)x.before[at]; size += fabs((float)x.before[at]); }
    off((float)x.out[at], sum, (16 * 0x1p-24 + (ACTIVATES ? 0x1p-20 : 0)) * factor * size, ROUNDING);
}

// Compares the column sums: of the result, which was rounded afterwards, or of the added matrix
__global__ void compare_sums(Arrays x, int M, int N, int rows, int *wrong) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= N) return;
    double got = 0, want = 0, size = 0;
    for (int r = 0; r < rows; r++) got += x.sums[(size_t)r * N + c];
    for (int r = 0; r < M; r++) {
        double value = MULTIPLIES ? (float)x.out[(size_t)r * N + c] : (float)x.other[(size_t)r * N + c];
        want += value;
        size += fabs(value);
    }
    if (!(fabs(got - want) <= (MULTIPLIES ? ROUNDING : 16 * 0x1p-24) * size)) atomicAdd(wrong, 1);
}

// Exits if a result is wrong; checks all elements of small results and a sample of large ones
void check(int number, const Arrays &x) {
    auto [count, M, N, K, rows] = cases[number];
    static int *wrong = allocate<int>(1);
    int none = 0, got, tall = GROUPS ? M : count * M, down = tall > 2000 ? 41 : 1, right = N > 1000 ? 37 : 1;
    OK(cudaMemcpy(wrong, &none, 4, cudaMemcpyDefault));
    dim3 grid((tall / down + 256) / 256, (N + right - 1) / right);
    compare<<<grid, 256>>>(x, count, M, N, K, down, right, wrong);
    if (SUMS) compare_sums<<<(N + 255) / 256, 256>>>(x, M, N, rows, wrong);
    OK(cudaMemcpy(&got, wrong, sizeof got, cudaMemcpyDefault));
    if (!got) return;
    printf("FAIL %-34s %d of %dx%d @ %dx%d: %d elements are wrong\n", NAME, count, M, K, K, N, got);
    exit(1);
}

// Returns the ends of the groups: the second group is empty, the others have different sizes
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
    need_gpu(gpu);
    double ms = 0;
    const int last = int(sizeof cases / sizeof *cases) - 1;
    for (int i = 0; i <= last; i++) {
        auto [count, M, N, K, rows] = cases[i];
        size_t tall = GROUPS ? M : (size_t)count * M, size = tall * N;
        Arrays x = {allocate_random<Number>(tall * K, 0), allocate_random<Number>((size_t)count * K * N, 1),
                    allocate_random<Number>(N, 2), allocate_random<Number>(size, 3), allocate<Number>(size),
                    allocate<Out>(size), allocate_random<Out>(size, 4), allocate<float>((size_t)rows * N + 1),
                    make_ends(count, M)};
        auto product = [&] { launch(i, x); };
        auto run_checked = [&] {
            if (ACCUMULATES) OK(cudaMemcpy(x.out, x.before, size * sizeof(Out), cudaMemcpyDefault));
            else OK(cudaMemset(x.out, 0xff, size * sizeof(Out)));
            OK(cudaMemset(x.saved, 0xff, size * sizeof(Number)));
            product();
            OK(cudaDeviceSynchronize());
            check(i, x);
        };
        run_checked();
        if (i == last) ms = median_time(product);
        run_checked();
    }
    auto [count, M, N, K, rows] = cases[last];
    double flops = 2. * (GROUPS ? 1 : count) * M * N * K;
    printf("PASS %-34s %d of %dx%d @ %dx%d  %9.4f ms  %7.2f TFLOP/s, %s\n", NAME, count, M, K, K, N, ms,
           flops / ms / 1e9, gpu.name);
    return 0;
}
