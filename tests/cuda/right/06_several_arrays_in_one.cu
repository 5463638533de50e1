// right: three arrays of different types share the dynamic shared memory, to its last byte
#include <cstdio>

__global__ void packed(double *out, int n) {
    extern __shared__ double d[];
    float *f = (float *)(d + n);
    unsigned char *c = (unsigned char *)(f + n);
    int t = threadIdx.x;
    d[t] = t, f[t] = 2 * t, c[t] = t;
    __syncthreads();
    int o = n - 1 - t;
    out[t] = d[o] + f[o] + c[o];
}

int main() {
    const int n = 37;
    double h[n], *out;
    cudaMalloc(&out, sizeof h);
    packed<<<1, n, n * (sizeof(double) + sizeof(float) + 1)>>>(out, n);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%g %g %s\n", h[0], h[n - 1], cudaGetErrorName(cudaGetLastError()));
}
