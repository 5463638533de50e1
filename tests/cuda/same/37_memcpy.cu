#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true) {
    if (code != cudaSuccess) {
        fprintf(stderr, "%s %s:%d\n", cudaGetErrorString(code), file, line);
        if (abort) exit(code);
    }
}
__global__ void increment(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i]++;
}

int main(int argc, char **argv) {
    const int n = 100;
    size_t bytes = n * sizeof(int);
    int *a, *b, *host = (int *)malloc(bytes);
    std::vector<int> v(n);
    for (int i = 0; i < n; i++) v[i] = i * i;
    gpuErrchk(cudaMalloc((void **)&a, bytes));
    gpuErrchk(cudaMalloc(&b, bytes));

    gpuErrchk(cudaMemcpy(a, v.data(), bytes, cudaMemcpyHostToDevice));
    increment<<<4, 32>>>(a, n);
    gpuErrchk(cudaPeekAtLastError());
    gpuErrchk(cudaMemcpy(b, a, bytes, cudaMemcpyDeviceToDevice));
    increment<<<2, 32>>>(b, 50);
    gpuErrchk(cudaMemcpy(host, b, bytes, cudaMemcpyDeviceToHost));
    printf("%d %d %d %d\n", host[0], host[49], host[50], host[99]);

    gpuErrchk(cudaMemcpy(host, &v[10], 10 * sizeof(int), cudaMemcpyHostToHost));
    gpuErrchk(cudaMemcpy(b + 20, host, 10 * sizeof(int), cudaMemcpyDefault));
    gpuErrchk(cudaMemcpy(b + 30, a + 90, 10 * sizeof(int), cudaMemcpyDefault));
    gpuErrchk(cudaMemset(b, 0, 40));
    gpuErrchk(cudaMemset(b + 10, 0xff, 5 * sizeof(int)));
    gpuErrchk(cudaMemset((char *)(b + 15) + 1, 1, 2));
    gpuErrchk(cudaMemcpy(host, b, bytes, cudaMemcpyDefault));
    for (int i = 9; i < 42; i += 3) printf("%d ", host[i]);
    printf("%x\n", host[15]);

    // The host's data are taken when the call is made; the kernel's results are there when the copy returns.
    for (int k = 0; k < 3; k++) {
        memset(host, k, bytes);
        gpuErrchk(cudaMemcpy(a, host, bytes, cudaMemcpyHostToDevice));
        memset(host, 77, bytes);
        increment<<<4, 32>>>(a, n);
        gpuErrchk(cudaMemcpy(host + k, a + k, sizeof(int), cudaMemcpyDeviceToHost));
        printf("%x ", host[k]);
    }
    gpuErrchk(cudaMemcpy(a, host, 0, cudaMemcpyHostToDevice));
    int *none = nullptr;
    gpuErrchk(cudaFree(none));
    gpuErrchk(cudaFree(a));
    gpuErrchk(cudaFree(b));
    free(host);
    gpuErrchk(cudaDeviceSynchronize());
    printf("\n%s %d\n", cudaGetErrorString(cudaGetLastError()), argc > 0 && argv[0] != NULL);
    return 0;
}
