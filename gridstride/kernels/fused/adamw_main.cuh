// Host code of an exported AdamW: makes random tensors, runs one step, checks it against double, and times it.
// Requires definitions of the sizes of the tensors (cases; the last one is timed), elements per block (CHUNK), and the
// hyperparameters. The launches are defined below.
void launch(int case_index, char *memory, const long long *table, const int2 *chunks);

constexpr long long CHECKED = 1 << 20;      // elements at the end of each tensor that are checked

struct ParameterArrays { float *arrays[4]; };          // parameters, gradients, means, means of squares

// Fills arrays with values from -2 to 2, the last one from 0 to 4; they are the same in each run.
__global__ void fill(float *x, long long size, int array) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    unsigned long long h = hashed(i * 4 + array);
    x[i] = (float)(h >> 40) / (1 << 22) - (array < 3 ? 2 : 0);
}

std::vector<std::vector<float>> read_last(const ParameterArrays &tensor, long long size) {
    long long count = std::min(size, CHECKED);
    std::vector<std::vector<float>> arrays;
    for (float *x : tensor.arrays) arrays.push_back(read(x + size - count, count));
    return arrays;
}

// Exits if a result is wrong.
void compare(const std::vector<std::vector<float>> &inputs, const std::vector<std::vector<float>> &actual,
             long long size) {
    for (size_t i = 0; i < inputs[0].size(); i++) {
        double p = inputs[0][i], g = inputs[1][i], m = inputs[2][i], s = inputs[3][i];
        m += one_minus_beta1 * (g - m);
        s += one_minus_beta2 * (g * g - s);
        p += -decay * p - step_size * m / (std::sqrt(s) / bias_correction2_sqrt + eps);
        double expected[4] = {p, g, m, s};
        for (int k = 0; k < 4; k++)                         // a few rounding errors, each 2^-24 of a value below 4
            if (!(std::abs(actual[k][i] - expected[k]) <= 2e-6)) {
                printf("FAIL %-34s array %d of %lld elements: %g, expected %g\n", NAME, k, size, actual[k][i],
                       expected[k]);
                exit(1);
            }
    }
}

template <class T> T *copy_to_gpu(const std::vector<T> &src) {
    T *dst = allocate<T>(src.size());
    OK(cudaMemcpy(dst, src.data(), src.size() * sizeof(T), cudaMemcpyDefault));
    return dst;
}

// Runs a step; returns its time if it is `timed`, else 0.
double run_case(int case_index, bool timed) {
    std::vector<ParameterArrays> tensors;
    std::vector<long long> table;
    std::vector<int2> chunks;
    for (long long size : cases[case_index]) {
        ParameterArrays t;
        for (int k = 0; k < 4; k++) {
            t.arrays[k] = allocate<float>(size);
            fill<<<(size + 255) / 256, 256>>>(t.arrays[k], size, k);
            table.push_back((long long)t.arrays[k]);
        }
        table.push_back(size);
        for (int c = 0; c * CHUNK < size; c++) chunks.push_back({(int)tensors.size(), c});
        tensors.push_back(t);
    }
    const long long *device_table = copy_to_gpu(table);
    const int2 *device_chunks = copy_to_gpu(chunks);
    std::vector<std::vector<std::vector<float>>> inputs;
    for (size_t i = 0; i < tensors.size(); i++) inputs.push_back(read_last(tensors[i], cases[case_index][i]));
    launch(case_index, nullptr, device_table, device_chunks);
    OK(cudaDeviceSynchronize());
    for (size_t i = 0; i < tensors.size(); i++)
        compare(inputs[i], read_last(tensors[i], cases[case_index][i]), cases[case_index][i]);
    return timed ? median_time([&] { launch(case_index, nullptr, device_table, device_chunks); }) : 0;
}

int run() {
    cudaDeviceProp gpu;
    require_gpu(gpu);
    double ms = 0, elements = 0;
    for (size_t i = 0; i < cases.size(); i++) ms = run_case(i, i + 1 == cases.size());
    for (long long size : cases.back()) elements += size;
    printf("PASS %-34s %zu tensors, %.0f elements %9.4f ms  %7.1f GB/s, %s\n", NAME, cases.back().size(), elements, ms,
           28 * elements / ms / 1e6, gpu.name);
    return 0;
}
