// Host code of every exported kernel: checks errors, launches, allocates memory, makes inputs, measures times. Requires
// definitions of the kernel's NAME; SMS, MAJOR and MINOR: the number of SMs and the compute capability that the grids
// are for.
constexpr int RUNS = 20;                    // timed runs; the median is printed
constexpr size_t FLUSH_BYTES = 128 << 20;   // more than the L2 cache holds

#define OK(call) ok((call), #call, __LINE__)

inline void ok(cudaError_t code, const char *call, int line) {
    if (code == cudaSuccess) return;
    printf("FAIL %-34s line %d: %s: %s\n", NAME, line, call, cudaGetErrorString(code));
    exit(1);
}

// Launch attributes: programmatic dependent launch (the kernel may begin before the previous one ends), the cluster
// size, and cooperative launch (all blocks are resident at once).
struct LaunchAttributes { bool pdl; dim3 cluster; bool cooperative; };

template <class... Params, class... Args>
void start(void (*kernel)(Params...), dim3 grid, dim3 block, int shared, LaunchAttributes attributes, Args... args) {
    // A block may use 48 KiB without opting in, including static shared memory, of which kernels have at most 8 KiB
    if (shared > 40 << 10) OK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    cudaLaunchAttribute list[3];
    cudaLaunchConfig_t config = {grid, block, (size_t)shared, 0, list, 0};
    if (attributes.pdl) {
        list[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        list[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (attributes.cluster.x * attributes.cluster.y > 1) {
        list[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
        list[config.numAttrs++].val.clusterDim = {attributes.cluster.x, attributes.cluster.y, attributes.cluster.z};
    }
    if (attributes.cooperative) {
        list[config.numAttrs].id = cudaLaunchAttributeCooperative;
        list[config.numAttrs++].val.cooperative = 1;
    }
    OK(cudaLaunchKernelEx(&config, kernel, args...));
}

template <class T> T *allocate(size_t elements) {
    T *p;
    OK(cudaMalloc(&p, elements * sizeof(T)));
    return p;
}

// Copies an array to the host, unchanged or converted to doubles
template <class T> std::vector<T> read(const T *src, size_t size) {
    std::vector<T> dst(size);
    OK(cudaMemcpy(dst.data(), src, size * sizeof(T), cudaMemcpyDefault));
    return dst;
}
template <class T> std::vector<double> read_doubles(const T *src, size_t size) {
    std::vector<T> values = read(src, size);
    return {values.begin(), values.end()};
}

// Inputs are hashes of their indices, so they are the same in each run
__host__ __device__ inline unsigned long long hashed(unsigned long long i) {
    unsigned long long h = (i + 1) * 0x9e3779b97f4a7c15ull;
    return (h ^ h >> 31) * 0x7fb5d329728ea185ull;
}
// Returns a value from -1 to 1
__host__ __device__ inline float random_value(unsigned long long i) {
    unsigned long long h = hashed(i);
    return (int)((h ^ h >> 29) >> 32) * 0x1p-31f;
}
// Returns a normally distributed value, by the Box-Muller transform
__device__ inline float normal(unsigned long long i) {
    unsigned long long h = hashed(i);
    float u = ((unsigned)(h >> 40) + 1) * 0x1p-24f, v = (unsigned)(h >> 16 & 0xffffff) * 0x1p-24f;
    return sqrtf(-2 * logf(u)) * cosf(6.2831853f * v);
}
// `array`, 0 to 3, selects different values
template <class T> __global__ void fill_normal(T *x, size_t size, int array) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) x[i] = T(normal(i * 4 + array));
}

// Returns the median time of `run` in milliseconds; overwrites the L2 cache before each run
template <class F> double median_time(F run) {
    char *flush = allocate<char>(FLUSH_BYTES);
    cudaEvent_t begin, end;
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&end));
    std::vector<float> times(RUNS);
    for (float &ms : times) {
        OK(cudaMemsetAsync(flush, 0, FLUSH_BYTES));
        OK(cudaEventRecord(begin));
        run();
        OK(cudaEventRecord(end));
        OK(cudaEventSynchronize(end));
        OK(cudaEventElapsedTime(&ms, begin, end));
    }
    std::sort(times.begin(), times.end());
    return times[RUNS / 2];
}

constexpr int OTHER_GPU = 77;               // the exit status on a GPU of another compute capability

// Exits unless the kernels and their grids fit the GPU
inline void require_gpu(cudaDeviceProp &gpu) {
    OK(cudaGetDeviceProperties(&gpu, 0));
    bool fits = gpu.major == MAJOR && gpu.minor == MINOR;
    if (fits && gpu.multiProcessorCount >= SMS) return;
    printf("%s %-34s needs compute capability %d.%d and %d SMs; %s has %d.%d and %d\n",
           fits ? "FAIL" : "SKIP", NAME, MAJOR, MINOR, SMS, gpu.name, gpu.major, gpu.minor, gpu.multiProcessorCount);
    exit(fits ? 1 : OTHER_GPU);
}

// Erases the results with `reset`, computes them with `run`, and exits from `check` if one is wrong. If the case is
// timed, returns the median time of `run` in milliseconds, and checks again: workspaces must be reusable after a run.
template <class Reset, class Run, class Check>
double check_and_time(bool timed, Reset reset, Run run, Check check) {
    auto check_once = [&] {
        reset();
        run();
        OK(cudaDeviceSynchronize());
        check();
    };
    check_once();
    if (!timed) return 0;
    double ms = median_time(run);
    check_once();
    return ms;
}

// Fills an array with bytes 0xff: NaN, if its elements are floats
template <class T> void fill_with_nan(T *x, size_t elements) { OK(cudaMemset(x, 0xff, elements * sizeof(T))); }

// Runs all cases and times the last one: `run_case(index, timed)` returns its time, 0 if it is not timed. Returns the
// time of the last case.
template <class F> double run_cases(int count, cudaDeviceProp &gpu, F run_case) {
    double ms = 0;
    require_gpu(gpu);
    for (int i = 0; i < count; i++) ms = run_case(i, i == count - 1);
    return ms;
}

// Exits unless an array contains these elements
template <class T> void require_equal(const T *actual, const std::vector<T> &expected, int rows, int width) {
    std::vector<T> values = read(actual, expected.size());
    for (size_t i = 0; i < expected.size(); i++)
        if (!(values[i] == expected[i])) {
            printf("FAIL %-34s %d x %d: element %zu of %zu is wrong\n", NAME, rows, width, i, expected.size());
            exit(1);
        }
}
