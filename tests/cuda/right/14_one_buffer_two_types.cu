// right: floats become indices in the same bytes of shared memory, with barriers between
#include <cstdio>

__global__ void ranks(const float *x, int *out) {
    __shared__ __align__(8) unsigned char bytes[64 * sizeof(float)];
    float *f = reinterpret_cast<float *>(bytes);
    int *at = reinterpret_cast<int *>(bytes), t = threadIdx.x, rank = 0;
    f[t] = x[t];
    __syncthreads();
    for (int k = 0; k < 64; k++) rank += f[k] < f[t] || (f[k] == f[t] && k < t);
    __syncthreads();
    at[rank] = t;
    __syncthreads();
    out[t] = at[t];
}

int main() {
    float h[64], *x;
    int got[64], *out;
    for (int i = 0; i < 64; i++) h[i] = i * 29 % 31;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof got);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    ranks<<<1, 64>>>(x, out);
    cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", got[0], got[1], got[63], cudaGetErrorName(cudaGetLastError()));
}
