// expect: racecheck line 7 or 9
#include <cstdio>

__global__ void count(const int *x, int *out) {
    __shared__ int n;
    int t = threadIdx.x;
    if (t == 0) n = 0;
    if (x[t] > 20)
        atomicAdd(&n, 1);
    __syncthreads();
    if (t == 0) *out = n;
}

int main() {
    int h[64], *x, *out;
    for (int i = 0; i < 64; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof(int));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    count<<<1, 64>>>(x, out);
    cudaMemcpy(h, out, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
