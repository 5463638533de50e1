// expect: memcheck line 8
#include <cstdio>

__global__ void sum4(const float *x, float *s, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    const float4 *wide = reinterpret_cast<const float4 *>(x + 1);
    float4 v = wide[i];
    s[i] = v.x + v.y + v.z + v.w;
}

int main() {
    const int n = 16;
    float h[4 * n + 1], *x, *s;
    for (int i = 0; i <= 4 * n; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&s, n * sizeof(float));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    sum4<<<1, 32>>>(x, s, n);
    cudaMemcpy(h, s, n * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%g %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
