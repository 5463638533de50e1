// What the host's part of every exported kernel needs: errors, launches, memory, times. Above it stand what the
// kernel is called (NAME), and for how many SMs the grids are (SMS).
constexpr int RUNS = 20;                    // of which the median is told
constexpr size_t CACHE = 128 << 20;         // bytes: more than the L2 cache holds

#define OK(call) ok((call), #call, __LINE__)

inline void ok(cudaError_t code, const char *call, int line) {
    if (code == cudaSuccess) return;
    printf("FAIL %-34s line %d: %s: %s\n", NAME, line, call, cudaGetErrorString(code));
    exit(1);
}

// What is asked of a launch: that it may begin before the one ahead has ended, the blocks of a cluster, and that all
// blocks are there at once.
struct Wishes { bool early; dim3 cluster; bool together; };

template <class... Params, class... Args>
void start(void (*kernel)(Params...), dim3 grid, dim3 block, int shared, Wishes asked, Args... args) {
    // static memory counts among the 48 KiB that need no leave
    if (shared > 40 << 10) OK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    cudaLaunchAttribute wishes[3];
    cudaLaunchConfig_t config = {grid, block, (size_t)shared, 0, wishes, 0};
    if (asked.early) {
        wishes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        wishes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (asked.cluster.x * asked.cluster.y > 1) {
        wishes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
        wishes[config.numAttrs++].val.clusterDim = {asked.cluster.x, asked.cluster.y, asked.cluster.z};
    }
    if (asked.together) {
        wishes[config.numAttrs].id = cudaLaunchAttributeCooperative;
        wishes[config.numAttrs++].val.cooperative = 1;
    }
    OK(cudaLaunchKernelEx(&config, kernel, args...));
}

template <class T> T *room(size_t elements) {
    T *p;
    OK(cudaMalloc(&p, elements * sizeof(T)));
    return p;
}

// The median time of `run` in milliseconds; the L2 cache is overwritten before each run.
template <class F> double median_time(F run) {
    char *other = room<char>(CACHE);
    cudaEvent_t begin, end;
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&end));
    std::vector<float> times(RUNS);
    for (float &ms : times) {
        OK(cudaMemsetAsync(other, 0, CACHE));
        OK(cudaEventRecord(begin));
        run();
        OK(cudaEventRecord(end));
        OK(cudaEventSynchronize(end));
        OK(cudaEventElapsedTime(&ms, begin, end));
    }
    std::sort(times.begin(), times.end());
    return times[RUNS / 2];
}

// Ends the program unless this is a GPU for which the kernels and their grids were made
inline void need_gpu(cudaDeviceProp &gpu) {
    OK(cudaGetDeviceProperties(&gpu, 0));
    if (gpu.multiProcessorCount >= SMS && gpu.major == 9) return;
    printf("FAIL %-34s is made for compute capability 9.0 and %d SMs, and this is a %s with %d.%d and %d\n", NAME, SMS,
           gpu.name, gpu.major, gpu.minor, gpu.multiProcessorCount);
    exit(1);
}
