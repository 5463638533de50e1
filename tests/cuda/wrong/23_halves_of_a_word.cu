// expect: racecheck line 9 or 10
#include <cstdio>

__global__ void packed(const unsigned *x, unsigned *y) {   // two threads rewrite one word, each for its half
    __shared__ unsigned s[32];
    int t = threadIdx.x, shift = t % 2 * 16;
    if (t < 32) s[t] = 0;
    __syncthreads();
    unsigned others = s[t / 2] & ~(0xffffu << shift);
    s[t / 2] = others | (x[t] & 0xffffu) << shift;
    __syncthreads();
    if (t < 32) y[t] = s[t];
}

int main() {
    unsigned h[64], *x, *y;
    for (int i = 0; i < 64; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    packed<<<1, 64>>>(x, y);
    cudaMemcpy(h, y, 32 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%x %s\n", h[1], cudaGetErrorName(cudaGetLastError()));
}
