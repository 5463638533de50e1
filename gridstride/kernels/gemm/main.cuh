// Host code of an exported product with an epilogue: random inputs, a check of results against double, the time.
// Above it are the types Number (of m and n) and Out, ROUNDING of each, the layouts of m and n, what the epilogue does
// (its activation is GELU), and the sizes to try (cases: products or groups, h, w, k; the last one is timed). The
// launches are below it.
struct Arrays {
    Number *m, *n, *bias, *other, *saved;
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

// Each `down`th row and each `right`th column: a right result is off by no more than its rounding, 16 of 2^-24 of the
// sum of its terms' sizes, and 2^-20 of that where an activation or its gradient is approximated
__global__ void compare(Arrays a, int count, int h, int w, int k, int down, int right, int *wrong) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) * down, c = blockIdx.y * right;
    if (row >= (GROUPS ? h : count * h) || c >= w) return;
    int z = GROUPS ? 0 : row / h, r = GROUPS ? row : row % h;
    if (GROUPS) while (row >= a.ends[z]) z++;
    const Number *m = a.m + (GROUPS ? 0 : (size_t)z * h * k), *n = a.n + (size_t)z * k * w;
    double sum = 0, size = 0;
    for (int i = 0; i < k; i++) {
        double p = (double)(float)m[m_transposed ? (size_t)i * h + r : (size_t)r * k + i];
        p *= (double)(float)n[n_transposed ? (size_t)c * k + i : (size_t)i * w + c];
        sum += p * SCALE;
        size += fabs(p * SCALE);
    }
    size_t at = (size_t)row * w + c;
    auto off = [&](double got, double want, double terms, double rounding) {
        if (!(fabs(got - want) <= rounding * fabs(want) + terms)) atomicAdd(wrong, 1);
    };
    if (BIASED) { sum += (float)a.bias[c]; size += fabs((float)a.bias[c]); }
    if (SAVES) off((float)a.saved[at], gelu_grad_of(sum), (16 * 0x1p-24 + 0x1p-20) * 2 * size, 0x1p-8);
    double other = (float)a.other[at], factor = 1;
    if (ACTIVATES) { factor = 1.13; sum = gelu_of(sum); }
    if (MULTIPLIES) { factor = fabs(other); sum *= other; }
    if (ADDS) { sum += other; size += fabs(other); }
    if (ONTO) { sum += (float)a.before[at]; size += fabs((float)a.before[at]); }
    off((float)a.out[at], sum, (16 * 0x1p-24 + (ACTIVATES ? 0x1p-20 : 0)) * factor * size, ROUNDING);
}

// Column sums: of the result, which has been rounded since, or of the added matrix
__global__ void compare_sums(Arrays a, int h, int w, int rows, int *wrong) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= w) return;
    double got = 0, want = 0, size = 0;
    for (int r = 0; r < rows; r++) got += a.sums[(size_t)r * w + c];
    for (int r = 0; r < h; r++) {
        double x = MULTIPLIES ? (float)a.out[(size_t)r * w + c] : (float)a.other[(size_t)r * w + c];
        want += x;
        size += fabs(x);
    }
    if (!(fabs(got - want) <= (MULTIPLIES ? ROUNDING : 16 * 0x1p-24) * size)) atomicAdd(wrong, 1);
}

// Exits if a result is wrong: checks all elements of small results
void check(int number, const Arrays &x) {
    auto [count, h, w, k, rows] = cases[number];
    static int *wrong = allocate<int>(1);
    int none = 0, got, tall = GROUPS ? h : count * h, down = tall > 2000 ? 41 : 1, right = w > 1000 ? 37 : 1;
    OK(cudaMemcpy(wrong, &none, 4, cudaMemcpyDefault));
    dim3 grid((tall / down + 256) / 256, (w + right - 1) / right);
    compare<<<grid, 256>>>(x, count, h, w, k, down, right, wrong);
    if (SUMS) compare_sums<<<(w + 255) / 256, 256>>>(x, h, w, rows, wrong);
    OK(cudaMemcpy(&got, wrong, sizeof got, cudaMemcpyDefault));
    if (!got) return;
    printf("FAIL %-34s %d of %dx%d @ %dx%d: %d elements are wrong\n", NAME, count, h, k, k, w, got);
    exit(1);
}

// Where groups end: the second one is empty, the others are ragged
int *make_ends(int count, int h) {
    std::vector<int> ends;
    for (int g = 0; g < count; g++)
        ends.push_back(g == count - 1 ? h : g == 1 ? ends[0] : (size_t)h * (g + 1) / count - g % 3);
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
        auto [count, h, w, k, rows] = cases[i];
        size_t tall = GROUPS ? h : (size_t)count * h, size = tall * w;
        Arrays x = {allocate_random<Number>(tall * k, 0), allocate_random<Number>((size_t)count * k * w, 1),
                    allocate_random<Number>(w, 2), allocate_random<Number>(size, 3), allocate<Number>(size),
                    allocate<Out>(size), allocate_random<Out>(size, 4), allocate<float>((size_t)rows * w + 1),
                    make_ends(count, h)};
        auto product = [&] { launch(i, x); };
        auto once = [&] {
            if (ONTO) OK(cudaMemcpy(x.out, x.before, size * sizeof(Out), cudaMemcpyDefault));
            else OK(cudaMemset(x.out, 0xff, size * sizeof(Out)));
            OK(cudaMemset(x.saved, 0xff, size * sizeof(Number)));
            product();
            OK(cudaDeviceSynchronize());
            check(i, x);
        };
        once();
        if (i == last) ms = median_time(product);
        once();
    }
    auto [count, h, w, k, rows] = cases[last];
    double flops = 2. * (GROUPS ? 1 : count) * h * w * k;
    printf("PASS %-34s %d of %dx%d @ %dx%d  %9.4f ms  %7.2f TFLOP/s, %s\n", NAME, count, h, k, k, w, ms,
           flops / ms / 1e9, gpu.name);
    return 0;
}
