// expect: synccheck line 7 or 8
#include <cstdio>

__global__ void counted(const int *x, int *y) {
    int t = threadIdx.x;
    unsigned mask = t < 8 ? 0x000000ffu : 0xffffffffu;   // the upper lanes wait for the lower, which do not
    y[t] = __popc(__ballot_sync(mask, x[t] > 3));
    __syncwarp();
}

int main() {
    int h[32], *x, *y;
    for (int i = 0; i < 32; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    counted<<<1, 32>>>(x, y);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
