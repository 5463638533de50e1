#include <cstdio>

__global__ void set(int *x, int v) { *x = v; }

int main() {
    int *x, h = 0;
    cudaMalloc(&x, sizeof(int));
    set<<<1, 2048>>>(x, 1);
    printf("%s\n", cudaGetErrorName(cudaPeekAtLastError()));   // looking does not clear
    printf("%s\n", cudaGetErrorName(cudaPeekAtLastError()));
    set<<<1, 1>>>(x, 2);                                       // a launch that works does not clear either
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize())); // and this is an error of its own
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));      // reading clears
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    cudaMemcpy(&h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d\n", h);

    // The last of several errors is kept.
    set<<<0, 1>>>(x, 3);
    cudaError_t e = cudaSetDevice(1000);
    printf("%s %s\n", cudaGetErrorName(e), cudaGetErrorName(cudaGetLastError()));

    void *none;
    cudaError_t bad = cudaMalloc(&none, size_t(1) << 60);
    printf("%s, %s\n", cudaGetErrorName(bad), cudaGetErrorString(bad));
    bad = cudaGetLastError();
    printf("%d %d\n", bad == cudaErrorMemoryAllocation, cudaGetLastError() == cudaSuccess);

    printf("%s\n", cudaGetErrorName(cudaMemcpy(nullptr, x, 4, cudaMemcpyDeviceToHost)));
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    printf("%s: %s\n", cudaGetErrorName(cudaErrorInvalidConfiguration),
           cudaGetErrorString(cudaErrorInvalidConfiguration));
    printf("%s: %s\n", cudaGetErrorName(cudaErrorIllegalAddress), cudaGetErrorString(cudaErrorIllegalAddress));
    printf("%d %d %d %d\n", cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation,
           cudaErrorInvalidConfiguration);
    set<<<1, 1>>>(x, 5);
    if (cudaGetLastError() != cudaSuccess || cudaDeviceSynchronize()) printf("not launched\n");
    cudaMemcpy(&h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %s\n", h, cudaGetErrorName(cudaFree(x)));
}
