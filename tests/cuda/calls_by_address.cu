//> launched 0 5.5
//> dynamic 0 3
//> unknown 98
//> dpx 70005 -3 0 9 1
//> half 8.5 -2
//> batched 0 8.5 -2
//> bytes 0 23 -4
//> listed 0 8.5
//> groups 32
// Launches of kernels by addresses, functions for dynamic programming, and products of matrices of other types.
#include <cooperative_groups.h>
#include <cstdio>
#include <cublas_v2.h>
#include <cuda_fp16.h>

namespace cg = cooperative_groups;
template <class T, class... A> __global__ void add(T *x, A... a) { if (threadIdx.x == 0) x[0] = (a + ...); }
__global__ void fill(float *x, int n) {
    extern __shared__ float s[];
    s[threadIdx.x] = n;
    __syncthreads();
    x[threadIdx.x] = s[0];
}
__global__ void groups() {
    __shared__ cg::block_tile_memory<128> memory;
    auto block = cg::this_thread_block(memory);
    cg::synchronize(block);
    if (threadIdx.x == 0) printf("groups %d\n", (int)block.size());
}
static cudaError_t launch(const void *kernel, int bytes, void **args) {
    cudaLaunchConfig_t config = {1, 32, size_t(bytes), nullptr, nullptr, 0};
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    return cudaLaunchKernelExC(&config, kernel, args);
}
template <class T, int n> T *upload(const T (&values)[n]) {
    T *p;
    cudaMalloc(&p, sizeof values);
    cudaMemcpy(p, values, sizeof values, cudaMemcpyHostToDevice);
    return p;
}
template <class T, class F> void show(const char *what, const T *p, int n, F convert) {
    T h[4];
    cudaMemcpy(h, p, n * sizeof(T), cudaMemcpyDeviceToHost);
    printf("%s", what);
    for (int i = 0; i < n; i++) printf(" %g", convert(h[i]));
    printf("\n");
}
int main() {
    float *x, h[32];
    cudaMalloc(&x, sizeof h);
    int i = 3;
    double d = 2.5;
    void *args[] = {&x, &i, &d}, *two[] = {&x, &i};
    int error = launch((const void *)add<float, int, double>, 0, args);
    cudaMemcpy(h, x, sizeof(float), cudaMemcpyDeviceToHost);
    printf("launched %d %g\n", error, h[0]);
    error = launch((const void *)fill, 100000, two);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("dynamic %d %g\n", error, h[31]);
    printf("unknown %d\n", launch((const void *)&d, 0, two));
    cudaGetLastError();
    bool first;
    const int larger = __vibmax_s32(9, -9, &first);
    printf("dpx %x %d %d %d %d\n", __viaddmax_s16x2(0x00010002, 0x7fff0003, 0x00070004), __vimin3_s32(4, -3, 5),
        __viaddmin_s32_relu(-4, 1, 7), larger, first);
    // 1 x 2 by 2 x 2, column-major: (1.5, 2) @ ((3, -4), (2, 2)) = (8.5, -2)
    cublasHandle_t handle;
    cublasCreate(&handle);
    const __half a[] = {1.5, 2}, b[] = {3, 2, -4, 2}, one = 1, zero = 0;
    __half *da = upload(a), *db = upload(b), *dc = upload({one, one});
    cublasHgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 2, 2, &one, da, 1, db, 2, &zero, dc, 1);
    show("half", dc, 2, [](__half v) { return float(v); });
    const float f_one = 1, f_zero = 0;
    error = cublasGemmStridedBatchedEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, 2, &f_one, da, CUDA_R_16F, 2, 0, db,
        CUDA_R_16F, 2, 2, &f_zero, x, CUDA_R_32F, 1, 1, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    show(error ? "batched 1" : "batched 0", x, 2, [](float v) { return v; });
    const signed char ia[] = {3, 4}, ib[] = {5, 2, 0, -1};
    signed char *dia = upload(ia), *dib = upload(ib);
    const int i_one = 1, i_zero = 0;
    int *dic = upload({7, 7});
    error = cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 2, 2, &i_one, dia, CUDA_R_8I, 1, dib, CUDA_R_8I, 2,
        &i_zero, dic, CUDA_R_32I, 1, CUBLAS_COMPUTE_32I, CUBLAS_GEMM_DEFAULT);
    show(error ? "bytes 1" : "bytes 0", dic, 2, [](int v) { return double(v); });
    const float fa[] = {1.5f, 2}, fb[] = {3, 2};
    const float *const pa[] = {upload(fa)}, *const pb[] = {upload(fb)};
    float *const pc[] = {x};
    error = cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 2, &f_one, upload(pa), 1, upload(pb), 2,
        &f_zero, upload(pc), 1, 1);
    show(error ? "listed 1" : "listed 0", x, 1, [](float v) { return v; });
    groups<<<1, 32>>>();
    return cudaDeviceSynchronize();
}
