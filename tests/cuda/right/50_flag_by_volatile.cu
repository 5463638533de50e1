// right: a flag is polled through volatile, and fences stand on both sides
#include <cstdio>

__global__ void passed(int *data, volatile int *flag, int *out) {
    if (blockIdx.x == 1) {
        data[0] = 42;
        __threadfence();
        *flag = 1;
    } else {
        while (*flag == 0) { }
        __threadfence();
        out[0] = data[0];
    }
}

int main() {
    int h[3], *out;
    cudaMalloc(&out, sizeof h);
    cudaMemset(out, 0, sizeof h);
    passed<<<2, 1>>>(out + 1, out + 2, out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[1], h[2], cudaGetErrorName(cudaGetLastError()));
}
