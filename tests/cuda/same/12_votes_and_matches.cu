#include <cstdio>
#define FULL 0xffffffff

__global__ void votes(unsigned *out) {
    int t = threadIdx.x;
    unsigned ballot = __ballot_sync(FULL, t % 5 == 0), parity = __ballot_sync(FULL, __popc(t) & 1);
    int all = __all_sync(FULL, t < 32), almost = __all_sync(FULL, t < 31);
    int any = __any_sync(FULL, t == 31), none = __any_sync(FULL, t > 31);
    unsigned active = __activemask();
    if (t == 0) out[0] = ballot, out[1] = parity, out[2] = all != 0, out[3] = almost != 0, out[4] = any != 0,
        out[5] = none != 0, out[6] = active;
    if (t < 10) {
        unsigned b = __ballot_sync(0x3ff, t != 4);
        int a = __all_sync(0x3ff, t != 4);
        if (t == 9) out[7] = b, out[8] = a != 0;
    }
}

__global__ void matches(const int *x, unsigned *out) {
    int t = threadIdx.x, all, same;
    unsigned mine = __match_any_sync(FULL, x[t]);
    unsigned wide = __match_any_sync(FULL, (unsigned long long)(x[t] % 3) << 40);
    unsigned m = __match_all_sync(FULL, x[t], &all), s = __match_all_sync(FULL, x[t] / 100, &same);
    out[t] = mine;
    out[32 + t] = wide;
    if (t == 0) out[64] = m, out[65] = all != 0, out[66] = s, out[67] = same != 0;
}

// One atomic for each warp: the lanes that want a place get neighbouring ones.
__global__ void places(const int *x, int *kept, int *n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, base = 0;
    bool want = x[i] % 3 == 0;
    unsigned who = __ballot_sync(FULL, want);
    int leader = __ffs(who) - 1, before = __popc(who & ((1u << lane) - 1));
    if (lane == leader) base = atomicAdd(n, __popc(who));
    base = __shfl_sync(FULL, base, leader < 0 ? 0 : leader);
    if (want) kept[base + before] = x[i];
}

int main() {
    unsigned u[80], *d;
    int h[64], *x, n, sum = 0, bad = 0;
    cudaMalloc(&d, 512);
    cudaMalloc(&x, sizeof h);
    votes<<<1, 32>>>(d);
    cudaMemcpy(u, d, 36, cudaMemcpyDeviceToHost);
    printf("%08x %08x %u%u%u%u %08x %03x %u\n", u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8]);
    for (int i = 0; i < 64; i++) h[i] = i * 11 % 7;
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    matches<<<1, 32>>>(x, d);
    cudaMemcpy(u, d, 68 * 4, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 32; i += 4) printf("%08x %08x ", u[i], u[32 + i]);
    printf("\n%08x %u %08x %u\n", u[64], u[65], u[66], u[67]);
    cudaMemset(d, 0, 512);
    places<<<2, 32>>>(x, (int *)d + 1, (int *)d);
    cudaMemcpy(u, d, 65 * 4, cudaMemcpyDeviceToHost);
    n = u[0];
    for (int i = 1; i <= n; i++) sum += u[i], bad += u[i] % 3 != 0;
    printf("%d kept, sum %d, %d wrong\n%s\n", n, sum, bad, cudaGetErrorName(cudaGetLastError()));
}
