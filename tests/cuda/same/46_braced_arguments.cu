#include <cstdio>

struct Vec { float x, y, z; };
struct Plus { int by; __device__ int operator()(int v) const { return v + by; } };
struct Nothing {};

__global__ void moved(Vec *p, Vec by) {
    Vec &q = p[threadIdx.x];
    q.x += by.x;
    q.y += by.y;
    q.z += by.z;
}
__global__ void applied(int *x, Plus f, int2 range, Nothing) {
    if (threadIdx.x >= range.x && threadIdx.x < range.y) x[threadIdx.x] = f(x[threadIdx.x]);
}
__global__ void converted(double *out, float f, long long l, bool b, unsigned char c, const void *p) {
    out[0] = f;
    out[1] = double(l);
    out[2] = b;
    out[3] = c;
    out[4] = p == nullptr;
}

int main() {
    Vec h[4] = {{0, 0, 0}, {1, 2, 3}, {4, 5, 6}, {7, 8, 9}}, *p;
    int g[8] = {}, *x;
    double o[5], *out;
    cudaMalloc(&p, sizeof h);
    cudaMalloc(&x, sizeof g);
    cudaMalloc(&out, sizeof o);
    cudaMemcpy(p, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemcpy(x, g, sizeof g, cudaMemcpyHostToDevice);

    // Braces take the type of the parameter, and so do numbers.
    moved<<<1, 4>>>(p, {0.5f, 1.5f, 2.5f});
    moved<<<1, {2, 1, 1}>>>(p, {});
    applied<<<1, 8>>>(x, {10}, {2, 6}, {});
    applied<<<1, 8>>>(x, Plus{1}, make_int2(0, 8), Nothing());
    converted<<<1, 1>>>(out, 3, -1, 5.0, 'A', 0);
    cudaMemcpy(o, out, sizeof o, cudaMemcpyDeviceToHost);
    for (double v : o) printf("%g ", v);
    converted<<<1, 1>>>(out, 2.75, true, nullptr != x, 300 - 50, NULL);
    cudaMemcpy(o, out, sizeof o, cudaMemcpyDeviceToHost);
    for (double v : o) printf("%g ", v);

    cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpy(g, x, sizeof g, cudaMemcpyDeviceToHost);
    printf("\n");
    for (Vec v : h) printf("%g,%g,%g ", v.x, v.y, v.z);
    for (int v : g) printf("%d ", v);
    printf("\n%s\n", cudaGetErrorName(cudaGetLastError()));
}
