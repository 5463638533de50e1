// right: the padding of a tile and of a pitched array is never written, and never read
#include <cstdio>

__global__ void transposed(const float *in, size_t in_pitch, float *out, size_t out_pitch) {
    __shared__ float tile[8][9];
    int r = threadIdx.y, c = threadIdx.x;
    tile[r][c] = *((const float *)((const char *)in + r * in_pitch) + c);
    __syncthreads();
    ((float *)((char *)out + r * out_pitch))[c] = tile[c][r];
}

int main() {
    float h[8][8], *a, *b;
    size_t ap, bp;
    for (int i = 0; i < 64; i++) h[i / 8][i % 8] = i;
    cudaMallocPitch(&a, &ap, sizeof h[0], 8);
    cudaMallocPitch(&b, &bp, sizeof h[0], 8);
    cudaMemcpy2D(a, ap, h, sizeof h[0], sizeof h[0], 8, cudaMemcpyHostToDevice);
    transposed<<<1, dim3(8, 8)>>>(a, ap, b, bp);
    cudaMemcpy2D(h, sizeof h[0], b, bp, sizeof h[0], 8, cudaMemcpyDeviceToHost);
    printf("%g %g %g %s\n", h[0][1], h[3][4], h[7][0], cudaGetErrorName(cudaGetLastError()));
}
