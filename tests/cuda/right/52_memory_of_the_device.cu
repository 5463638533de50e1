// right: what one kernel has from malloc, another uses and frees
#include <cstdio>

__device__ int *kept;

__global__ void kept_here(int n) {
    kept = (int *)malloc(n * sizeof(int));
    for (int i = 0; i < n; i++) kept[i] = i;
}

__global__ void used_there(int *out, int n) {
    out[0] = kept[0];
    out[1] = kept[n - 1];
    int *one = new int(7);
    out[2] = *one;
    delete one;
    free(kept);
}

int main() {
    int h[3], *out;
    cudaMalloc(&out, sizeof h);
    cudaMemset(out, 0, sizeof h);
    kept_here<<<1, 1>>>(1000);
    used_there<<<1, 1>>>(out, 1000);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[1], h[2], cudaGetErrorName(cudaGetLastError()));
}
