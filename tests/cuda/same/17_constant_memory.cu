#include <cstdio>

struct Camera { float position[3]; int id; };
template <int N> struct Filter { float w[N]; int n() const { return N; } };

__constant__ float coefficients[5];
__constant__ int offsets[2][3] = {{1, 2, 3}, {-1, -2, -3}};
__constant__ Camera camera = {{0.5f, 1.5f, 2.5f}, 7};
__constant__ int how_many, unset[4];
static __constant__ unsigned char codes[] = "constants";
__constant__ Filter<3> filter;
__device__ constexpr int primes[] = {2, 3, 5, 7, 11};
constexpr int SIX = 6;

__device__ float polynomial(float x) {
    float y = 0;
    for (int i = how_many - 1; i >= 0; i--) y = y * x + coefficients[i];
    return y;
}

__global__ void evaluated(float *out) { out[threadIdx.x] = polynomial(threadIdx.x); }

__global__ void looked_up(int *out) {
    int t = threadIdx.x;
    int v = offsets[t % 2][t % 3] * SIX + primes[t % 5] + codes[t % 9] + unset[t % 4];
    v += int(camera.position[t % 3] * 2) * camera.id;
    out[t] = v + int(filter.w[t % 3] * 8);
}

int main() {
    float c[5] = {1, -2, 3, -4, 0.5f}, f[16], back[5], *df;
    int n = 5, h[16], back2[2][3], *d;
    cudaMalloc(&df, sizeof f);
    cudaMalloc(&d, sizeof h);
    cudaMemcpyToSymbol(coefficients, c, sizeof c);
    cudaMemcpyToSymbol(how_many, &n, sizeof(int));
    evaluated<<<1, 16>>>(df);
    cudaMemcpy(f, df, sizeof f, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 16; i += 3) printf("%g ", f[i]);

    float one = 100;   // one element, at an offset in bytes
    cudaMemcpyToSymbol(coefficients, &one, sizeof one, 1 * sizeof(float));
    n = 2;
    cudaMemcpyToSymbol(how_many, &n, sizeof n, 0, cudaMemcpyHostToDevice);
    evaluated<<<1, 16>>>(df);
    cudaMemcpy(f, df, sizeof f, cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(back, coefficients, sizeof back);
    cudaMemcpyFromSymbol(back2, offsets, sizeof back2);
    printf("| %g %g | %g %g %g | %d\n", f[0], f[15], back[0], back[1], back[4], back2[1][2]);

    Filter<3> w = {{0.125f, 0.25f, 0.5f}};
    cudaMemcpyToSymbol(filter, &w, sizeof w);
    looked_up<<<1, 16>>>(d);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    for (int v : h) printf("%d ", v);
    float twos[5] = {2, 2, 2, 2, 2};
    void *on_device;
    cudaGetSymbolAddress(&on_device, coefficients);
    cudaMemcpy(on_device, twos, 8, cudaMemcpyHostToDevice);
    evaluated<<<1, 4>>>(df);
    cudaMemcpy(f, df, 16, cudaMemcpyDeviceToHost);
    printf("| %g %g %d\n%s\n", f[0], f[3], w.n(), cudaGetErrorName(cudaGetLastError()));
}
