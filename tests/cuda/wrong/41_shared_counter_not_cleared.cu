// expect: initcheck line 7
#include <cstdio>

__global__ void count(const int *x, int *out) {
    __shared__ int n;
    if (x[threadIdx.x] < 10)
        atomicAdd(&n, 1);
    __syncthreads();
    if (threadIdx.x == 0) *out = n;
}

int main() {
    int h[64], *x, *out;
    for (int i = 0; i < 64; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof(int));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    count<<<1, 64>>>(x, out);
    cudaMemcpy(h, out, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
