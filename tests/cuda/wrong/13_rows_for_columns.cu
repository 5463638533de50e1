// expect: memcheck line 7
#include <cstdio>

__global__ void transposed(const float *in, float *out, int h, int w) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < h && c < w)
        out[c * w + r] = in[r * w + c];
}

int main() {
    const int h = 10, w = 20;
    float m[h * w], *in, *out;
    for (int i = 0; i < h * w; i++) m[i] = i;
    cudaMalloc(&in, sizeof m);
    cudaMalloc(&out, sizeof m);
    cudaMemcpy(in, m, sizeof m, cudaMemcpyHostToDevice);
    cudaMemset(out, 0, sizeof m);
    transposed<<<dim3(3, 2), dim3(8, 8)>>>(in, out, h, w);
    cudaMemcpy(m, out, sizeof m, cudaMemcpyDeviceToHost);
    printf("%g %s\n", m[1], cudaGetErrorName(cudaGetLastError()));
}
