// expect: memcheck line 8
#include <cstdio>
#include <cstdlib>

__global__ void row_sums(float **rows, float *sums, int w) {
    float s = 0;
    for (int c = 0; c < w; c++)
        s += rows[threadIdx.x][c];
    sums[threadIdx.x] = s;
}

int main() {
    const int h = 4, w = 8;
    float **rows = (float **)malloc(h * sizeof(float *)), *sums, got[h];
    for (int r = 0; r < h; r++) {
        cudaMalloc(&rows[r], w * sizeof(float));
        cudaMemset(rows[r], 0, w * sizeof(float));
    }
    cudaMalloc(&sums, sizeof got);
    row_sums<<<1, h>>>(rows, sums, w);   // the rows are the device's, the table of them is the host's
    cudaMemcpy(got, sums, sizeof got, cudaMemcpyDeviceToHost);
    printf("%g %s\n", got[0], cudaGetErrorName(cudaGetLastError()));
    free(rows);
}
