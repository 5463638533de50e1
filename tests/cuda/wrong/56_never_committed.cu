// expect: racecheck line 12
#include <cstdio>
#include <cstdint>
__device__ uint32_t address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__global__ void turned(const int *x, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address(&s[t])), "l"(x + t) : "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");   // of groups: a copy is in one once it is committed
    __syncthreads();
    out[t] = s[63 - t];
}

int main() {
    int h[64], *x, *out;
    for (int i = 0; i < 64; i++) h[i] = i * 5 % 31;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    turned<<<1, 64>>>(x, out);
    cudaMemcpy(h, out, 64 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[7], h[63], cudaGetErrorName(cudaGetLastError()));
}
