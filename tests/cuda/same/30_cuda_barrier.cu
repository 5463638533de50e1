#include <cstdio>
#include <cuda/barrier>
#include <utility>
#pragma nv_diag_suppress static_var_with_dynamic_init

using barrier = cuda::barrier<cuda::thread_scope_block>;

__global__ void rotated(int *x, int steps) {
    __shared__ barrier bar;
    __shared__ int s[96];
    int t = threadIdx.x, n = blockDim.x;
    if (t == 0) init(&bar, n);
    s[t] = x[t];
    __syncthreads();
    for (int k = 0; k < steps; k++) {
        int v = s[(t + 1) % n];
        bar.arrive_and_wait();
        s[t] = v + k;
        bar.arrive_and_wait();
    }
    x[t] = s[t];
}

// Arrive early, do something of one's own, wait late.
__global__ void split(const int *x, int *out) {
    __shared__ barrier bar;
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t == 0) init(&bar, blockDim.x);
    __syncthreads();
    s[t] = x[t] * 3;
    barrier::arrival_token token = bar.arrive();
    int own = 0;
    for (int k = 0; k <= t % 7; k++) own += k;
    bar.wait(std::move(token));
    out[t] = s[63 - t] + own;
}

// One warp fills two buffers in turn, the other empties them.
__global__ void pipeline(const int *x, int *total, int rounds) {
    __shared__ barrier full[2], empty[2];
    __shared__ int buffer[2][32];
    int t = threadIdx.x, lane = t % 32;
    if (t < 2) init(&full[t], 64), init(&empty[t], 64);
    __syncthreads();
    if (t < 32) {
        for (int r = 0; r < rounds; r++) {
            empty[r % 2].arrive_and_wait();
            buffer[r % 2][lane] = x[r * 32 + lane];
            (void)full[r % 2].arrive();
        }
    } else {
        int sum = 0;
        (void)empty[0].arrive();
        (void)empty[1].arrive();
        for (int r = 0; r < rounds; r++) {
            full[r % 2].arrive_and_wait();
            sum = sum * 3 + buffer[r % 2][31 - lane];
            if (r + 2 < rounds) (void)empty[r % 2].arrive();
        }
        total[lane] = sum;
    }
}

int main() {
    int h[192], *x, *o;
    for (int i = 0; i < 192; i++) h[i] = i * 7 % 50;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&o, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    split<<<1, 64>>>(x, o);
    pipeline<<<1, 64>>>(x, o + 64, 6);
    rotated<<<1, 96>>>(x, 5);
    cudaMemcpy(h, o, 96 * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < 96; i += 9) printf("%d ", h[i]);
    cudaMemcpy(h, x, 96 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("\n%d %d %d %d\n%s\n", h[0], h[50], h[91], h[95], cudaGetErrorName(cudaGetLastError()));
}
