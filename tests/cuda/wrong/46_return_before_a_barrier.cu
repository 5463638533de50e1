// expect: synccheck line 11
#include <cstdio>

__global__ void sum(const int *x, int n, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = 0;
    if (t >= n) return;   // and the barriers below are not for all of the block
    s[t] = x[t];
    for (int half = 32; half; half /= 2) {
        __syncthreads();
        if (t < half) s[t] += s[t + half];
    }
    if (t == 0) *out = s[0];
}

int main() {
    const int n = 45;
    int h[n], *x, *out;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof(int));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    sum<<<1, 64>>>(x, n, out);
    cudaMemcpy(h, out, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
