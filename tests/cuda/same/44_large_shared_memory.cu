#include <cstdio>

extern __shared__ float big[];

__global__ void through(const float *in, float *out, int n) {   // all of it by one block
    for (int i = threadIdx.x; i < n; i += blockDim.x) big[i] = in[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = big[n - 1 - i];
}
template <typename T> __global__ void last_byte(T *out, int bytes) {
    extern __shared__ unsigned char c[];
    c[bytes - 1] = 200;
    *out = T(c[bytes - 1]);
}

int main() {
    const int n = 16 * 1024, bytes = n * sizeof(float);   // 64 KB
    float *h = new float[n], *a, *b;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&a, bytes);
    cudaMalloc(&b, bytes);
    cudaMemcpy(a, h, bytes, cudaMemcpyHostToDevice);
    cudaMemset(b, 0, bytes);

    through<<<1, 64, bytes>>>(a, b, n);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    printf("%s\n", cudaGetErrorName(cudaFuncSetAttribute(through, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)));
    through<<<1, 64, bytes>>>(a, b, n);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    cudaMemcpy(h, b, bytes, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < n; i++) wrong += h[i] != n - 1 - i;
    printf("%d wrong\n", wrong);
    through<<<1, 64, bytes + 4>>>(a, b, n);   // more than was asked for
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));

    auto k = last_byte<int>;
    cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 96 * 1024);
    k<<<1, 1, 96 * 1024>>>((int *)a, 96 * 1024);
    int v;
    cudaMemcpy(&v, a, sizeof v, cudaMemcpyDeviceToHost);
    printf("%d %s\n", v, cudaGetErrorName(cudaGetLastError()));
    last_byte<double><<<1, 1, 96 * 1024>>>((double *)a, 96 * 1024);   // another instance, which was not set
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    cudaError_t e = cudaFuncSetAttribute((const void *)last_byte<char>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         1 << 22);
    printf("%s %s\n", cudaGetErrorName(e), cudaGetErrorName(cudaGetLastError()));
    cudaFree(a);
    cudaFree(b);
    delete[] h;
}
