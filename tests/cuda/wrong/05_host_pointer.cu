// expect: memcheck line 7
#include <cstdio>
#include <cstdlib>

__global__ void add(const int *a, const int *b, int *c, int n) {
    int i = threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

int main() {
    const int n = 32;
    int *a = (int *)malloc(n * sizeof(int)), *b, *c, h[n];
    for (int i = 0; i < n; i++) a[i] = h[i] = i;
    cudaMalloc(&b, n * sizeof(int));
    cudaMalloc(&c, n * sizeof(int));
    cudaMemcpy(b, h, n * sizeof(int), cudaMemcpyHostToDevice);
    add<<<1, n>>>(a, b, c, n);   // a is the host's
    cudaMemcpy(h, c, n * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[n - 1], cudaGetErrorName(cudaGetLastError()));
    free(a);
}
