#include <cstdio>

template <typename T> __global__ void scale(T *x, int n, T by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
template <typename T, int N = 4> __global__ void fill(T *x, T first) {
    for (int k = 0; k < N; k++) x[threadIdx.x * N + k] = first + T(threadIdx.x * N + k);
}
template <typename... T> __global__ void total(int *out, T... v) { *out = (0 + ... + int(v)); }
template <bool up> __global__ void step(int *x) { x[threadIdx.x] += up ? 1 : -1; }
template <template <typename> class Box, typename T> __global__ void unbox(Box<T> b, T *out) { *out = b.v; }
template <typename T> struct Boxed { T v; };

template <typename T> T *made(int n) {
    T *p;
    cudaMalloc(&p, n * sizeof(T));
    return p;
}

template <typename T> double sum_of(int n, T by) {
    T *d = made<T>(n), *h = new T[n];
    fill<T, 2><<<1, n / 2>>>(d, T(1));
    scale<T><<<(n + 31) / 32, 32>>>(d, n, by);
    scale<<<(n + 31) / 32, 32>>>(d, n, T(2));
    cudaMemcpy(h, d, n * sizeof(T), cudaMemcpyDeviceToHost);
    double s = 0;
    for (int i = 0; i < n; i++) s += double(h[i]);
    cudaFree(d);
    delete[] h;
    return s;
}

int main() {
    printf("%.1f %.1f %.1f\n", sum_of<int>(66, 3), sum_of<float>(10, 0.5f), sum_of<double>(100, 0.25));

    int *d = made<int>(8), h[8];
    fill<int><<<1, 2>>>(d, 10);
    step<true><<<1, 8>>>(d);
    step<(3 > 4)><<<1, 2>>>(d);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    for (int v : h) printf("%d ", v);

    total<<<1, 1>>>(d, 1, 2.9f, 'a', 100u);
    unbox<Boxed, int><<<1, 1>>>(Boxed<int>{42}, d + 1);
    cudaMemcpy(h, d, 2 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("| %d %d\n", h[0], h[1]);
    total<<<1, 1>>>(d);
    cudaMemcpy(h, d, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
    cudaFree(d);
}
