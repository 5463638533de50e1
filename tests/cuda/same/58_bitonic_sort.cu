#include <algorithm>
#include <cstdio>
#include <vector>

template <typename T> __device__ void order(T &a, T &b, bool up) {
    if ((a > b) == up) { T held = a; a = b; b = held; }
}

// One block in shared memory; what is missing to a power of two is filled with the greatest key.
template <typename T, int N> __global__ void in_block(T *x, int n, T greatest) {
    __shared__ T s[N];
    int t = threadIdx.x;
    for (int i = t; i < N; i += blockDim.x) s[i] = i < n ? x[i] : greatest;
    for (int size = 2; size <= N; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            int i = 2 * t - (t & (stride - 1));
            order(s[i], s[i + stride], (i & size) == 0);
        }
    __syncthreads();
    for (int i = t; i < n; i += blockDim.x) x[i] = s[i];
}

__global__ void global_step(int *x, int size, int stride) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, i = 2 * t - (t & (stride - 1));
    order(x[i], x[i + stride], !(i & size));
}

__global__ void in_warp(unsigned long long *x) {   // 32 keys, one for each lane
    int lane = threadIdx.x & 31;
    unsigned long long v = x[threadIdx.x];
    for (int size = 2; size <= 32; size <<= 1)
        for (int stride = size >> 1; stride; stride >>= 1) {
            unsigned long long other = __shfl_xor_sync(0xffffffffu, v, stride);
            bool lower = !(lane & stride), up = !(lane & size);
            v = (v < other) == (lower == up) ? v : other;
        }
    x[threadIdx.x] = v;
}

template <typename T> bool sorted(const T *d, int n, std::vector<T> want) {
    std::vector<T> got(n);
    cudaMemcpy(got.data(), d, n * sizeof(T), cudaMemcpyDeviceToHost);
    std::sort(want.begin(), want.end());
    return got == want;
}

int main() {
    unsigned seed = 1;
    auto random = [&] { return (seed = seed * 1664525u + 1013904223u) >> 8; };
    std::vector<int> h(256);
    std::vector<float> f(100);
    std::vector<unsigned long long> l(32);
    for (auto &v : h) v = int(random() % 1000) - 500;
    for (auto &v : f) v = random() / 64.0f;
    for (auto &v : l) v = (unsigned long long)random() << 30;
    int *d;
    float *e;
    unsigned long long *g;
    cudaMalloc(&d, h.size() * sizeof(int)), cudaMalloc(&e, f.size() * sizeof(float)), cudaMalloc(&g, l.size() * 8);
    cudaMemcpy(d, h.data(), h.size() * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(e, f.data(), f.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(g, l.data(), l.size() * 8, cudaMemcpyHostToDevice);
    for (int size = 2; size <= 256; size *= 2)
        for (int stride = size / 2; stride > 0; stride >>= 1) global_step<<<2, 64>>>(d, size, stride);
    in_block<float, 128><<<1, 64>>>(e, 100, 1e30f);
    in_warp<<<1, 32>>>(g);
    printf("%d %d %d\n", sorted(d, 256, h), sorted(e, 100, f), sorted(g, 32, l));
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
