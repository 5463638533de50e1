// expect: memcheck line 9
#include <cstdio>
#include <cstdint>
__device__ uint32_t address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__global__ void copied(const int *x, int *out) {
    __shared__ alignas(16) int s[128];
    int t = threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(&s[4 * t])), "l"(x + 4 * t + 1) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
    out[t] = s[127 - t];
}

int main() {
    int h[160], *x, *out;
    for (int i = 0; i < 160; i++) h[i] = i * 5 % 31;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    copied<<<1, 32>>>(x, out);
    cudaMemcpy(h, out, 32 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[7], h[31], cudaGetErrorName(cudaGetLastError()));
}
