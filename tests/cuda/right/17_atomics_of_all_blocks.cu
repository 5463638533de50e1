// right: all blocks add to the same places, and take the greatest by compare and swap
#include <cstdio>

__device__ void atomic_max(float *at, float v) {
    int *bits = (int *)at, seen = atomicAdd(bits, 0);
    while (__int_as_float(seen) < v) {
        int old = atomicCAS(bits, seen, __float_as_int(v));
        if (old == seen) break;
        seen = old;
    }
}

__global__ void summary(const float *x, int n, float *most, int *count, unsigned *mask) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomic_max(most, x[i]);
    atomicAdd(count, 1);
    atomicOr(mask, 1u << int(x[i]) % 32);
}

int main() {
    const int n = 150;
    float h[n], most = -1, *x, *dmost;
    int got[2], *out;
    for (int i = 0; i < n; i++) h[i] = i * 83 % 149 / 4 * 3;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&dmost, sizeof(float));
    cudaMalloc(&out, sizeof got);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemcpy(dmost, &most, sizeof most, cudaMemcpyHostToDevice);
    cudaMemset(out, 0, sizeof got);
    summary<<<5, 32>>>(x, n, dmost, out, (unsigned *)out + 1);
    cudaMemcpy(&most, dmost, sizeof most, cudaMemcpyDeviceToHost);
    cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost);
    printf("%g %d %x %s\n", most, got[0], unsigned(got[1]), cudaGetErrorName(cudaGetLastError()));
}
