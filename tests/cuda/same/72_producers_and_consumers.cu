#include <cstdio>
#define TPB 32

// Blocks take tickets. Those with an even one produce, the next odd one consumes what the one before has made.
struct Slot { int flag, data[TPB]; };
__global__ void pairs(Slot *slots, int *ticket, int *out) {
    __shared__ int mine;
    int t = threadIdx.x;
    if (t == 0) mine = atomicAdd(ticket, 1);
    __syncthreads();
    Slot *s = slots + mine / 2;
    if (mine % 2 == 0) {
        s->data[t] = mine * 100 + t;
        __threadfence();
        __syncthreads();
        if (t == 0) atomicExch(&s->flag, 1);
    } else {
        if (t == 0) while (atomicAdd(&s->flag, 0) == 0) { }
        __threadfence();
        __syncthreads();
        out[mine / 2 * TPB + t] = ((volatile int *)s->data)[TPB - 1 - t];
    }
}

// Work is taken from a common counter till none is left; some parts are longer than others.
__global__ void workers(int *next, int parts, int *done) {
    __shared__ int part;
    while (true) {
        __syncthreads();   // nobody may still want the last part's number
        if (threadIdx.x == 0) part = atomicAdd(next, 1);
        __syncthreads();
        if (part >= parts) break;
        int v = 0;
        for (int k = 0; k < part % 5 + 1; k++) v += k * int(threadIdx.x);
        atomicAdd(&done[part], v);
    }
}

// A ring in shared memory between two warps, with counters that only grow
__global__ void ring(const int *x, int n, int *out) {
    __shared__ int buffer[4], written, taken;
    if (threadIdx.x == 0) written = taken = 0;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 0; i < n; i++) {
            while (i - atomicAdd(&taken, 0) >= 4) { }
            __threadfence_block();
            buffer[i % 4] = x[i] * 2;
            __threadfence_block();
            atomicAdd(&written, 1);
        }
    else if (threadIdx.x == 32)
        for (int i = 0; i < n; i++) {
            while (atomicAdd(&written, 0) <= i) { }
            __threadfence_block();
            out[i] = *(volatile int *)&buffer[i % 4] + 1;
            __threadfence_block();
            atomicAdd(&taken, 1);
        }
}

int main() {
    int h[256], *x, *o;
    Slot *slots;
    cudaMalloc(&x, sizeof h), cudaMalloc(&o, sizeof h), cudaMalloc(&slots, 8 * sizeof(Slot));
    cudaMemset(slots, 0, 8 * sizeof(Slot)), cudaMemset(x, 0, sizeof h);
    pairs<<<16, TPB>>>(slots, x, o);
    cudaMemcpy(h, o, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %d\n", h[0], h[31], h[32], h[255]);
    cudaMemset(o, 0, sizeof h);
    workers<<<5, 40>>>(x + 1, 30, o);
    cudaMemcpy(h, o, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %d %d\n", h[0], h[1], h[4], h[28], h[29] + h[30]);
    for (int i = 0; i < 50; i++) h[i] = i * i;
    cudaMemcpy(x, h, 200, cudaMemcpyHostToDevice);
    ring<<<1, 64>>>(x, 50, o);
    cudaMemcpy(h, o, 200, cudaMemcpyDeviceToHost);
    printf("%d %d %d\n%s\n", h[0], h[1], h[49], cudaGetErrorName(cudaGetLastError()));
}
