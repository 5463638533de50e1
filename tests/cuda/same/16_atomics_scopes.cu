#include <cstdio>
#include <cstdint>

__global__ void scopes(int *a, unsigned *u, float *f) {
    __shared__ int s[4];
    __shared__ unsigned r;
    int t = threadIdx.x;
    if (t < 4) s[t] = 0;
    if (t == 4) r = 0;
    __syncthreads();
    atomicAdd_block(&s[0], t);
    atomicMax_block(&s[1], t ^ 21);
    atomicOr_block(&s[2], 1 << t % 8);
    atomicCAS_block(&s[3], 0, 9);
    atomicInc_block(&r, 4);
    __syncthreads();
    if (t == 0) {
        for (int k = 0; k < 4; k++) atomicAdd_system(&a[k], s[k]);
        atomicAdd(u, r);
    }
    atomicMin_system(&a[4], -t);
    atomicXor_system(&a[5], 1 << t);
    atomicSub_block(&a[6 + blockIdx.x], 3);
    atomicExch_system(&a[9], 5);
    atomicAdd_system(f, 0.5f);
    atomicAnd_system(u + 1, ~(1u << t));
    atomicDec_system(u + 2, 100);
}

// A lock for a whole block: one thread takes it, the block works, the same thread gives it back.
__device__ int held = 0;
__global__ void locked(int *total, int *order) {
    if (threadIdx.x == 0) {
        while (atomicCAS(&held, 0, 1) != 0) { }
        __threadfence();
    }
    __syncthreads();
    if (threadIdx.x == 3) total[0] = total[0] + blockIdx.x + 1;
    if (threadIdx.x == 5) order[total[1]++] = blockIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicExch(&held, 0);
    }
}

__global__ void tickets(unsigned short *small, int *next, int *taken) {
    int mine = atomicAdd(next, 1);
    taken[mine] = 1 + mine;
    unsigned short old = 0, seen;   // a guess, mended by the first exchange that fails
    do { seen = old; old = atomicCAS(small, seen, (unsigned short)(seen + 1)); } while (old != seen);
}

int main() {
    int h[64] = {0}, *d;
    cudaMalloc(&d, sizeof h);
    cudaMemset(d, 0, sizeof h);
    unsigned *u = (unsigned *)d + 16;
    cudaMemset(u + 1, 0xff, 4);
    scopes<<<3, 32>>>(d, u, (float *)d + 20);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 10; i++) printf("%d ", h[i]);
    printf("| %d %d %d | %g\n", h[16], h[17], h[18], *(float *)&h[20]);

    cudaMemset(d, 0, sizeof h);
    locked<<<6, 8>>>(d, d + 2);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    int seen = 0;
    for (int i = 0; i < 6; i++) seen |= 1 << h[2 + i];
    printf("%d %d %x\n", h[0], h[1], seen);

    cudaMemset(d, 0, sizeof h);
    tickets<<<2, 25>>>((unsigned short *)d, d + 1, d + 2);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 50; i++) seen += h[2 + i] == i + 1;
    printf("%d %d %d\n%s\n", h[0], h[1], seen, cudaGetErrorName(cudaGetLastError()));
}
