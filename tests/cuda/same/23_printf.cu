#include <cstdio>

struct Named { const char *name; int v; };

__device__ void report(const char *what, int v) { printf("[%s=%d]\n", what, v); }

__global__ void every_format(float f, double d, long long l) {
    if (blockIdx.x != 1 || threadIdx.x != 2) return;
    printf("plain text, 100%%\n");
    printf("%d %i %5d|%-5d|%05d %+d\n", 1, -2, 3, 4, 5, 6);
    printf("%u %x %X %#x %o %c\n", 4000000000u, 255, 255, 255, 8, 'z');
    printf("%lld %llu %ld\n", l, (unsigned long long)l, 7L);
    printf("%f %.2f %8.3f|%-8.1f| %e %g\n", f, d, f, d, 12345.678, 0.0001);
    printf("%s %10s|%-6s|%.2s\n", "string", "right", "left", "cut");
    printf("thread %d of block %d, %d x %d\n", threadIdx.x, blockIdx.x, blockDim.x, gridDim.x);
    printf("%d %s\n", true, threadIdx.x ? "yes" : "no");
    report("function", 12);
    Named n = {"struct", 3};
    printf("%s %d\n", n.name, n.v);
    int k = printf("%d and %d\n", 3, 4);   // on the device: how many arguments were printed
    printf("%d\n", k);
}

template <typename T> __global__ void last_of(const T *x, int n, const char *unused = nullptr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == n - 1) printf("x[%d] = %g\n", i, double(x[i]));
}

__global__ void in_order() {
    if (threadIdx.x == 0)
        for (int i = 0; i < 5; i++) printf(i < 4 ? "%d, " : "%d\n", i * i);
}

int main() {
    printf("from the host\n");
    fflush(stdout);
    every_format<<<2, 4>>>(1.5f, -2.25, -123456789012ll);
    cudaDeviceSynchronize();

    float h[40], *d;
    for (int i = 0; i < 40; i++) h[i] = i / 4.0f;
    cudaMalloc(&d, sizeof h);
    cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
    last_of<<<2, 32>>>(d, 40);
    in_order<<<1, 32>>>();
    cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
