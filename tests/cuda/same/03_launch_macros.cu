#include <cstdio>
#include <cstdlib>

#define CHECK(call) do {                                                                  \
        cudaError_t err_ = (call);                                                        \
        if (err_ != cudaSuccess) { printf("%s\n", cudaGetErrorString(err_)); exit(1); }    \
    } while (0)
#define CDIV(a, b) (((a) + (b) - 1) / (b))
#define THREADS 32
#define LAUNCH(kernel, n, ...) do {                        \
        kernel<<<CDIV(n, THREADS), THREADS>>>(__VA_ARGS__); \
        CHECK(cudaGetLastError());                          \
    } while (0)
#define LAUNCH_T(kernel, T, ...) kernel<T><<<1, THREADS>>>(__VA_ARGS__)
#define CONFIG 2, dim3(4, 4)
#define DEFINE_KERNEL(name, op) \
    __global__ void name(int *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = x[i] op i; }
#define IDX (blockIdx.x * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x)

DEFINE_KERNEL(add_index, +)
DEFINE_KERNEL(xor_index, ^)

__global__ void set(int *x, int n, int v) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = v;
}
__global__ void flat(int *x) { x[IDX] += 1000; }
template <typename T> __global__ void cut(T *x, int n) { if (threadIdx.x < n) x[threadIdx.x] %= T(7); }

int main() {
    const int n = 45;
    int *d, h[n];
    CHECK(cudaMalloc(&d, sizeof(int) * n));
    LAUNCH(set, n, d, n, 3);
    LAUNCH(add_index, n, d, n);
    LAUNCH(xor_index, n - 5, d, n - 5);
    flat<<<CONFIG>>>(d);
    LAUNCH_T(cut, int, d, 10);
    if (n > 100) LAUNCH(set, n, d, n, 0);
    else LAUNCH(add_index, 5, d, 5);
    CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) printf("%d%c", h[i], i % 15 == 14 ? '\n' : ' ');
    CHECK(cudaFree(d));
    CHECK(cudaGetLastError());
    puts("done");
}
