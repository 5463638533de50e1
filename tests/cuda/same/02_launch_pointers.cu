#include <cuda_runtime.h>
#include <stdio.h>

namespace ops {
__global__ void add(int *x, int v) { x[threadIdx.x] += v; }
namespace inner { static __global__ void times(int *x, int v) { x[threadIdx.x] *= v; } }
}
namespace {
void __global__ negate_it(int *x, int) { x[threadIdx.x] = -x[threadIdx.x]; }
}
template <int BY> __global__ void shifted(int *x, int v) { x[threadIdx.x] += v << BY; }

__global__ void later(int *x, int v);

typedef void (*kernel_t)(int *, int);
struct Step { kernel_t kernel; int arg; };

void launch(void (*k)(int *, int), int *x, int v, int n) { k<<<1, n>>>(x, v); }
template <typename K> void launch_any(K k, int *x) { k<<<1, 4>>>(x, 7); }

void show(const char *what, int *d) {
    int h[4];
    cudaMemcpy(h, d, sizeof(h), cudaMemcpyDeviceToHost);
    printf("%-9s %d %d %d %d\n", what, h[0], h[1], h[2], h[3]);
}

int main(void) {
    int start[4] = {1, 2, 3, 4}, *d;
    cudaMalloc((void **)&d, sizeof(start));
    cudaMemcpy(d, start, sizeof(start), cudaMemcpyHostToDevice);

    ops::add<<<1, 4>>>(d, 10);
    ops::inner::times<<<1, 4>>>(d, 2);
    show("names", d);

    kernel_t p = ops::add, table[] = {ops::add, ops::inner::times, &negate_it, shifted<3>};
    p<<<1, 2>>>(d, 100);
    (*p)<<<1, 1>>>(d, 1000);
    for (int i = 0; i < 4; i++) table[i]<<<1, 4>>>(d, i + 1);
    show("table", d);

    for (bool up : {true, false, true}) (up ? ops::add : ops::inner::times)<<<1, 4>>>(d, 3);
    show("ternary", d);

    Step steps[2] = {{later, 5}, {negate_it, 0}};
    for (const Step &s : steps) s.kernel<<<1, 4>>>(d, s.arg);
    Step *last = steps + 1;
    last->kernel<<<1, 4>>>(d, last->arg);
    show("members", d);

    launch(later, d, -1, 4);
    launch_any(shifted<1>, d);
    launch_any(ops::add, d);
    show("passed", d);
    using namespace ops;
    add<<<1, 4>>>(d, 1), inner::times<<<1, 4>>>(d, -1);
    show("comma", d);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    return cudaFree(d);
}

__global__ void later(int *x, int v) { x[threadIdx.x] -= v; }
