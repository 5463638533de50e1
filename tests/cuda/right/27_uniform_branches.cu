// right: barriers in branches and loops, which all the threads of a block take alike
#include <cstdio>

__global__ void folded(const int *x, const int *lengths, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x, n = lengths[blockIdx.x];   // the same for the whole block
    s[t] = x[t];
    if (n > 1) {
        __syncthreads();
        for (int half = n / 2; half >= 1; half /= 2) {
            if (t < half) s[t] += s[t + half];
            __syncthreads();
        }
    } else if (blockIdx.x % 2) {
        __syncthreads();
    }
    int rounds = __syncthreads_or(t == 7) ? 2 : 0;
    while (rounds--) __syncthreads();
    if (t == 0) out[blockIdx.x] = s[0];
}

int main() {
    int h[64], lengths[5] = {1, 2, 64, 1, 16}, *x, *d, *out;
    for (int i = 0; i < 64; i++) h[i] = i + 1;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&d, sizeof lengths);
    cudaMalloc(&out, sizeof lengths);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemcpy(d, lengths, sizeof lengths, cudaMemcpyHostToDevice);
    folded<<<5, 64>>>(x, d, out);
    cudaMemcpy(h, out, sizeof lengths, cudaMemcpyDeviceToHost);
    printf("%d %d %d %d %d %s\n", h[0], h[1], h[2], h[3], h[4], cudaGetErrorName(cudaGetLastError()));
}
