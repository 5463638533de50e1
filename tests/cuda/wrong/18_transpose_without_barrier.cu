// expect: racecheck line 10 or 11
#include <cstdio>
#define TILE 16

__global__ void transposed(const float *in, float *out) {
    __shared__ float tile[TILE][TILE + 1];
    int r = threadIdx.y, c = threadIdx.x;
    tile[r][c] = 0;
    __syncthreads();
    tile[r][c] = in[r * TILE + c];
    out[r * TILE + c] = tile[c][r];
}

int main() {
    float h[TILE * TILE], *in, *out;
    for (int i = 0; i < TILE * TILE; i++) h[i] = i;
    cudaMalloc(&in, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
    transposed<<<1, dim3(TILE, TILE)>>>(in, out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%g %s\n", h[1], cudaGetErrorName(cudaGetLastError()));
}
