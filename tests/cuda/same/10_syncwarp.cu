#include <cstdio>
constexpr unsigned FULL = 0xffffffffu;

// Each warp sums its own 32 values in shared memory, with no barrier for the block.
__global__ void warp_tree(const int *x, int *sums) {
    __shared__ int s[128];
    int t = threadIdx.x, lane = t % 32;
    s[t] = x[t];
    __syncwarp();
    for (int half = 16; half > 0; half /= 2) {
        if (lane < half) s[t] += s[t + half];
        __syncwarp();
    }
    if (lane == 0) sums[t / 32] = s[t];
}

// The halves of a warp take different branches and synchronise among themselves.
__global__ void halves(int *out) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = t;
    __syncwarp();
    if (t < 16) {
        int v = s[15 - t];
        __syncwarp(0x0000ffff);
        s[t] = v * 2;
        __syncwarp(0x0000ffff);
        out[t] = s[(t + 1) % 16];
    } else {
        int v = s[16 + (t + 5) % 16];
        __syncwarp(0xffff0000);
        s[t] = v * 3;
        __syncwarp(0xffff0000);
        out[t] = s[47 - t];
    }
}

// Lanes that were given one number work together, every third here.
__global__ void thirds(int *out) {
    __shared__ int total[3];
    int t = threadIdx.x, mine = t % 3;
    unsigned mask = __ballot_sync(FULL, mine == 0);
    if (mine == 1) mask = __ballot_sync(0x92492492u, 1);
    if (mine == 2) mask = __ballot_sync(0x24924924u, 1);
    if (t == mine) total[mine] = 0;
    __syncwarp(mask);
    atomicAdd(&total[mine], t);
    __syncwarp(mask);
    out[t] = total[mine];
}

int main() {
    int h[128], *x, *o;
    for (int i = 0; i < 128; i++) h[i] = i * i % 101;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&o, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    warp_tree<<<1, 128>>>(x, o);
    cudaMemcpy(h, o, 16, cudaMemcpyDeviceToHost);
    printf("%d %d %d %d\n", h[0], h[1], h[2], h[3]);
    halves<<<1, 32>>>(o);
    cudaMemcpy(h, o, 128, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 32; i++) printf("%d ", h[i]);
    thirds<<<1, 32>>>(o);
    cudaMemcpy(h, o, 12, cudaMemcpyDeviceToHost);
    printf("\n%d %d %d\n%s\n", h[0], h[1], h[2], cudaGetErrorName(cudaGetLastError()));
}
