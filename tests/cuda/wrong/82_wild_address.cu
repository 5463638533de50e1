// expect: memcheck line 5
#include <cstdio>

__global__ void far(const int *x, int *out, long long row, long long width) {
    out[0] = x[row * width];
}

int main() {
    int *out;
    cudaMalloc(&out, 1024 * sizeof(int));
    cudaMemset(out, 0, 1024 * sizeof(int));
    far<<<1, 1>>>(out, out + 1, 1 << 20, 1 << 20);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
