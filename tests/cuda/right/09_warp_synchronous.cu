// right: no barrier of the block, since each warp keeps to its own part and synchronises itself
#include <cstdio>

__device__ int warp_reduce(int *s, int lane) {
    for (int by = 16; by; by /= 2) {
        int v = s[lane] + (lane < by ? s[lane + by] : 0);
        __syncwarp();
        s[lane] = v;
        __syncwarp();
    }
    return s[0];
}

__global__ void sums(const int *x, int *out) {
    __shared__ int s[96];
    int t = threadIdx.x, warp = t / 32;
    s[t] = x[t];
    __syncwarp();
    int v = warp_reduce(s + warp * 32, t % 32);
    out[t] = v;
}

int main() {
    int h[96], *x, *out;
    for (int i = 0; i < 96; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    sums<<<1, 96>>>(x, out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[33], h[95], cudaGetErrorName(cudaGetLastError()));
}
