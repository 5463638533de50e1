// flags: --extended-lambda
#include <cstdio>

template <typename F> __global__ void for_each(int n, F f) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) f(i);
}
template <typename T, typename F> __global__ void map(const T *in, T *out, int n, F f) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = f(in[i]);
}
template <typename F> void parallel(int n, F f) { for_each<<<(n + 63) / 64, 32>>>(n, f); }

struct Params { float a, b; int shift; };

int main() {
    const int n = 100;
    int *d, h[n];
    cudaMalloc(&d, sizeof h);
    parallel(n, [=] __device__ (int i) { d[i] = i * i; });
    int k = 5, table[4] = {1, 10, 100, 1000};
    parallel(n, [=] __device__ (int i) {
        if (i % 2) d[i] += k + table[i % 4];
        else d[i] -= k;
    });
    auto halve = [] __device__ (int v) { return v / 2; };
    map<<<4, 25>>>(d, d, n, halve);
    auto add = [k] __device__ __host__ (int v) -> int { return v + k; };
    map<<<4, 25>>>(d, d, n, add);
    map<int><<<1, 10>>>(d, d, 10, [] __device__ (int v) { auto sq = [v](int w) { return v * w; }; return sq(3); });
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i += 11) printf("%d ", h[i]);

    float g[10], *f;
    cudaMalloc(&f, sizeof g);
    Params p = {0.5f, 2, 3};
    parallel(10, [f, p] __device__ (int i) { f[i] = p.a * float(i << p.shift) + p.b; });
    cudaMemcpy(g, f, sizeof g, cudaMemcpyDeviceToHost);
    printf("| %g %g | %d %s\n", g[1], g[9], add(1), cudaGetErrorName(cudaGetLastError()));
}
