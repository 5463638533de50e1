// right: aligned loads of 16 bytes end exactly where the array ends; the rest is read one by one
#include <cstdio>

__global__ void negated(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i + 3 < n) {
        float4 v = reinterpret_cast<const float4 *>(x)[i];
        reinterpret_cast<float4 *>(y)[i] = make_float4(-v.x, -v.y, -v.z, -v.w);
    } else {
        for (int k = 4 * i; k < n; k++) y[k] = -x[k];
    }
}

int main() {
    float h[71], *x, *y;
    for (int n : {64, 71, 3}) {
        for (int i = 0; i < n; i++) h[i] = i;
        cudaMalloc(&x, n * sizeof(float));
        cudaMalloc(&y, n * sizeof(float));
        cudaMemcpy(x, h, n * sizeof(float), cudaMemcpyHostToDevice);
        negated<<<1, 32>>>(x, y, n);
        cudaMemcpy(h, y, n * sizeof(float), cudaMemcpyDeviceToHost);
        printf("%g ", h[n - 1]);
        cudaFree(x);
        cudaFree(y);
    }
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
