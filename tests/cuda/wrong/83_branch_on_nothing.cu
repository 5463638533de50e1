// expect: initcheck line 7
#include <cstdio>

__global__ void counted(const int *x, int n, int *out) {
    int c = 0;
    for (int i = 0; i < n; i++)
        if (x[i] > 0)
            c++;
    out[0] = c;
}

int main() {
    int *out;
    cudaMalloc(&out, 1024 * sizeof(int));
    cudaMemset(out, 0, 1024 * sizeof(int));
    int *x;
    cudaMalloc(&x, 64 * sizeof(int));
    cudaMemset(x, 0, 63 * sizeof(int));
    counted<<<1, 1>>>(x, 64, out);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
