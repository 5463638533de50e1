// expect: racecheck line 16
#include <cstdio>
#include <cstdint>
__device__ uint32_t address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__global__ void sums(const int *x, int *out) {
    __shared__ alignas(16) int s[2][128];
    int t = threadIdx.x, sum = 0;
    for (int i = 0; i < 2; i++) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                     ::"r"(address(&s[i][4 * t])), "l"(x + 128 * i + 4 * t) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int i = 0; i < 2; i++) {
        asm volatile("cp.async.wait_group 1;" ::: "memory"); __syncthreads();   // in the last round nothing comes after
        sum += s[i][127 - t];
    }
    out[t] = sum;
}

int main() {
    int h[256], *x, *out;
    for (int i = 0; i < 256; i++) h[i] = i * 5 % 31;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    sums<<<1, 32>>>(x, out);
    cudaMemcpy(h, out, 32 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[7], h[31], cudaGetErrorName(cudaGetLastError()));
}
