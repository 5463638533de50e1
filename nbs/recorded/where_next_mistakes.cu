// Ten kernels, nine of them wrong. The first argument selects one: nvcc where_next_mistakes.cu -o mistakes, then
// compute-sanitizer --tool racecheck ./mistakes 3. Above each kernel: what is wrong, and which tool of compute-sanitizer
// reported it on an NVIDIA H100.
#include <cstdio>
#include <cstdlib>
#include <cuda/atomic>

// 1 no guard | an index past the end of a global array | memcheck
__global__ void doubled(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2 * x[i];
}

// 2 into the next array | an index past the end of a shared array, into another one | nothing
__global__ void neighbours(const int *x, int *y) {
    __shared__ int a[32], b[32];
    int t = threadIdx.x;
    a[t] = x[t];
    b[t] = -x[t];
    __syncthreads();
    y[t] = b[t] +
           a[t + 1];
}

// 3 no barrier | a data race in shared memory | racecheck
__global__ void reversed(int *x) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    x[t] = s[63 - t];
}

// 4 read too early | a data race of an atomic operation and a plain read | nothing
__global__ void shared_sum(int *out) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, threadIdx.x);
    out[threadIdx.x] = sum;
}

// 5 wrong index | a data race between blocks, in global memory | nothing
__global__ void row_sums(const int *m, int *sums, int w) {
    int v = m[blockIdx.x * w + threadIdx.x];
    for (int by = 16; by; by /= 2) v += __shfl_down_sync(~0u, v, by);
    if (threadIdx.x == 0)
        sums[threadIdx.x] = v;
}

// 6 lock without fence | a data race between blocks, because a lock orders nothing | nothing
__global__ void booked(int *lock, int *balance) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) { }
        *balance += blockIdx.x;
        atomicExch(lock, 0);
    }
}

// 7 never written | a read of uninitialized global memory | initcheck
__global__ void accumulated(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += x[i];
}

// 8 halo not loaded | a read of uninitialized shared memory | nothing
__global__ void sums(const int *x, int *y, int n) {
    __shared__ int s[34];
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
    s[t + 1] = i < n ? x[i] : 0;
    if (t == 0) s[0] = i > 0 ? x[i - 1] : 0;
    __syncthreads();
    if (i < n)
        y[i] = s[t] + s[t + 1] + s[t + 2];
}

// 9 barrier in a branch | a barrier that not all threads reach | hangs
__global__ void rotated(const int *x, int *y, int n) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = 0;
    if (t < n) {
        s[t] = x[t];
        __syncthreads();
        y[t] = s[(t + 1) % n];
    }
    __syncthreads();
    if (t == 0) y[n] = s[0];
}

// 10 release and acquire | nothing: the kernel is right | racecheck
__global__ void passed(int *out) {
    __shared__ cuda::atomic<int, cuda::thread_scope_block> ready;
    __shared__ int message[4];
    if (threadIdx.x == 0) ready.store(0, cuda::memory_order_relaxed);
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 0; k < 4; k++) message[k] = 10 + k;
        ready.store(1, cuda::memory_order_release);
    } else if (threadIdx.x >= 32) {
        while (ready.load(cuda::memory_order_acquire) == 0) { }
        out[threadIdx.x - 32] = message[threadIdx.x % 4];
    }
}

template<class T> T *filled(int n) { // 0, 1, 2, ... on the device
    T h[1024], *d;
    for (int i = 0; i < n; i++) h[i] = T(i);
    cudaMalloc(&d, n * sizeof(T));
    cudaMemcpy(d, h, n * sizeof(T), cudaMemcpyHostToDevice);
    return d;
}

template<class T> T *unwritten(int n) {
    T *d;
    cudaMalloc(&d, n * sizeof(T));
    return d;
}

int main(int argc, char **argv) {
    int *zeros = unwritten<int>(1024);
    cudaMemset(zeros, 0, 1024 * sizeof(int));
    switch (argc > 1 ? atoi(argv[1]) : 0) {
        case 1: doubled<<<4, 32>>>(filled<float>(100), unwritten<float>(100), 100); break;
        case 2: neighbours<<<1, 32>>>(filled<int>(32), unwritten<int>(32)); break;
        case 3: reversed<<<1, 64>>>(filled<int>(64)); break;
        case 4: shared_sum<<<1, 64>>>(zeros); break;
        case 5: row_sums<<<4, 32>>>(filled<int>(128), zeros, 32); break;
        case 6: booked<<<10, 32>>>(zeros, zeros + 1); break;
        case 7: accumulated<<<2, 32>>>(filled<float>(64), unwritten<float>(64), 64); break;
        case 8: sums<<<2, 32>>>(filled<int>(64), unwritten<int>(64), 64); break;
        case 9: rotated<<<1, 64>>>(filled<int>(40), unwritten<int>(41), 40); break;
        case 10: passed<<<1, 64>>>(unwritten<int>(32)); break;
        default: printf("which kernel, 1 to 10?\n");
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
