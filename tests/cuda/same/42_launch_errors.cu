#include <cstdio>

__global__ void mark(int *x) {
    extern __shared__ int s[];
    if (threadIdx.x == 0 && threadIdx.z == 0) s[0] = 1, *x += s[0];
}
__global__ void large(double *out) { __shared__ double s[100]; s[threadIdx.x] = 1; out[threadIdx.x] = s[threadIdx.x]; }

void report(const char *what) {
    cudaError_t e = cudaGetLastError();
    printf("%-22s %s: %s\n", what, cudaGetErrorName(e), cudaGetErrorString(e));
}

int main() {
    int *x, h;
    cudaMalloc(&x, sizeof(int));
    cudaMemset(x, 0, sizeof(int));
    mark<<<1, 1024, 4>>>(x);
    report("1024 threads");
    mark<<<1, 0, 4>>>(x);
    report("no threads");
    mark<<<0, 32, 4>>>(x);
    report("no blocks");
    mark<<<1, 1025, 4>>>(x);
    report("1025 threads");
    mark<<<1, 2048, 4>>>(x);
    report("2048 threads");
    mark<<<1, dim3(32, 33), 4>>>(x);
    report("32 x 33 threads");
    mark<<<1, dim3(1, 1, 65), 4>>>(x);
    report("65 in z");
    mark<<<1, dim3(16, 0, 1), 4>>>(x);
    report("none in y");
    mark<<<dim3(1, 65536), 1, 4>>>(x);
    report("65536 blocks in y");
    mark<<<1, 32, 48 * 1024>>>(x);
    report("48 KB");
    mark<<<1, 32, 48 * 1024 + 1>>>(x);
    report("48 KB and 1");
    mark<<<1, 32, 1 << 20>>>(x);
    report("1 MB");
    large<<<1, 32, 48 * 1024>>>(nullptr);
    report("static and 48 KB");
    mark<<<1, dim3(1, 1, 64), 4>>>(x);
    cudaDeviceSynchronize();
    report("64 in z");
    cudaMemcpy(&h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d launches ran\n", h);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
