// right: the loop's end is voted on by the whole block, so that its barriers are for all
#include <cstdio>

__global__ void collatz(const int *x, int *steps, int *rounds) {
    __shared__ int longest;
    int t = threadIdx.x, v = x[t], n = 0, k = 0;
    if (t == 0) longest = 0;
    while (__syncthreads_or(v != 1)) {
        if (v != 1) v = v % 2 ? 3 * v + 1 : v / 2, n++;
        if (t == k % blockDim.x) longest = ++k;
        else k++;
    }
    steps[t] = n;
    __syncthreads();
    if (t == 0) *rounds = longest;
}

int main() {
    int h[40], *x, *out, r;
    for (int i = 0; i < 40; i++) h[i] = i + 1;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h + sizeof r);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    collatz<<<1, 40>>>(x, out, out + 40);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpy(&r, out + 40, sizeof r, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[26], r, cudaGetErrorName(cudaGetLastError()));
}
