// expect: memcheck line 7
#include <cstdio>

__global__ void piece(int *out, int n) {
    int *p = (int *)malloc(n * sizeof(int));
    for (int i = 0; i <= n; i++)
        p[i] = i;
    out[0] = p[n - 1];
    free(p);
}

int main() {
    int *out;
    cudaMalloc(&out, 1024 * sizeof(int));
    cudaMemset(out, 0, 1024 * sizeof(int));
    piece<<<1, 1>>>(out, 10);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
