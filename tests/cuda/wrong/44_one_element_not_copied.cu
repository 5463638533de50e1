// expect: initcheck line 10
#include <cstdio>

struct Row { int first, length; };

__global__ void lengths(const int *starts, Row *rows, int n) {   // n rows have n + 1 starts
    int r = threadIdx.x;
    if (r < n) {
        int from = starts[r];
        rows[r] = {from, starts[r + 1] - from};
    }
}

int main() {
    const int n = 20;
    int h[n + 1], *starts;
    Row got[n], *rows;
    for (int i = 0; i <= n; i++) h[i] = i * i;
    cudaMalloc(&starts, sizeof h);
    cudaMalloc(&rows, sizeof got);
    cudaMemcpy(starts, h, n * sizeof(int), cudaMemcpyHostToDevice);
    lengths<<<1, 32>>>(starts, rows, n);
    cudaMemcpy(got, rows, sizeof got, cudaMemcpyDeviceToHost);
    printf("%d %s\n", got[0].length, cudaGetErrorName(cudaGetLastError()));
}
