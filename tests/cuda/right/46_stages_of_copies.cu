// right: three stages; the one barrier of a round comes after the wait, before a stage is filled again
#include <cstdio>
#include <cstdint>
__device__ uint32_t address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

template <int left> __device__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory"); }

__global__ void sums(const int *x, int *out, int n) {
    __shared__ alignas(16) int s[3][128];
    int t = threadIdx.x, sum = 0;
    auto fetch = [&](int i) {   // also past the end: an empty group keeps the count
        if (i < n)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                         ::"r"(address(&s[i % 3][4 * t])), "l"(x + 128 * i + 4 * t) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int i = 0; i < 2; i++) fetch(i);
    for (int i = 0; i < n; i++) {
        wait<1>();
        __syncthreads();
        fetch(i + 2);
        for (int j = 0; j < 4; j++) sum += s[i % 3][(t * 7 + j * 32) % 128] * (j + 1);
    }
    out[t] = sum;
}

int main() {
    int h[640], *x, *out;
    for (int i = 0; i < 640; i++) h[i] = i * 5 % 31;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    sums<<<1, 32>>>(x, out, 5);
    cudaMemcpy(h, out, 32 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[7], h[31], cudaGetErrorName(cudaGetLastError()));
}
