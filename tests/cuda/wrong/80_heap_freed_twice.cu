// expect: memcheck line 9
#include <cstdio>

__global__ void piece(int *out, int n) {
    int *p = (int *)malloc(n * sizeof(int));
    p[0] = n;
    out[0] = p[0];
    free(p);
    free(p);
}

int main() {
    int *out;
    cudaMalloc(&out, 1024 * sizeof(int));
    cudaMemset(out, 0, 1024 * sizeof(int));
    piece<<<1, 1>>>(out, 10);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
