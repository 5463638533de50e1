#include <cstdio>
constexpr unsigned ALL = ~0u;

template <typename T> __device__ T mixed(T v, int lane) {
    T a = __shfl_sync(ALL, v, (lane * 7 + 3) % 32);
    T b = __shfl_up_sync(ALL, v, 3);
    T c = __shfl_down_sync(ALL, v, 5);
    T d = __shfl_xor_sync(ALL, v, 9);
    return a + b * T(2) + c * T(3) + d * T(5);
}

__global__ void kinds(long long *out) {
    int t = threadIdx.x;
    long long sum = mixed<int>(t, t) + mixed<unsigned>(t * 3, t) + mixed<long long>((long long)t << 33, t);
    sum += (long long)(mixed<float>(t * 0.5f, t) * 2) + (long long)(mixed<double>(t * 0.25, t) * 4);
    sum += (long long)mixed<unsigned long long>(t * 1000000007ull, t);
    out[t] = sum;
}

__global__ void widths(int *out) {
    int t = threadIdx.x, v = 100 + t, *o = out + t * 8;
    o[0] = __shfl_sync(ALL, v, 2, 8);       // lane 2 of each 8
    o[1] = __shfl_sync(ALL, v, 37);         // 37 % 32
    o[2] = __shfl_sync(ALL, v, t + 1, 4);   // (t + 1) % 4 in each 4
    o[3] = __shfl_up_sync(ALL, v, 1, 16);   // the first of each 16 keeps its own
    o[4] = __shfl_down_sync(ALL, v, 2, 4);
    o[5] = __shfl_xor_sync(ALL, v, 1, 2);
    o[6] = __shfl_xor_sync(ALL, v, 8, 8);   // to a later segment: keeps its own
    o[7] = __shfl_down_sync(ALL, v, 0);
}

__global__ void scanned(int *x) {   // inclusive sum of a warp
    int lane = threadIdx.x % 32, v = x[threadIdx.x];
    for (int by = 1; by < 32; by *= 2) {
        int before = __shfl_up_sync(ALL, v, by);
        if (lane >= by) v += before;
    }
    x[threadIdx.x] = v;
}

__global__ void few(int *out) {   // only the 8 lower lanes are in the mask and in the branch
    if (threadIdx.x < 8) {
        int v = threadIdx.x * threadIdx.x;
        for (int by = 4; by; by >>= 1) v += __shfl_xor_sync(0xff, v, by);
        out[threadIdx.x] = v;
    }
}

int main() {
    long long *d, h[32];
    int g[256];
    cudaMalloc(&d, sizeof g);
    kinds<<<1, 32>>>(d);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 32; i += 3) printf("%lld ", h[i]);
    widths<<<1, 32>>>((int *)d);
    cudaMemcpy(g, d, sizeof g, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 256; i++) printf("%s%d", i % 8 ? " " : "\n", g[i]);
    for (int i = 0; i < 64; i++) g[i] = i % 5;
    cudaMemcpy(d, g, 256, cudaMemcpyHostToDevice);
    scanned<<<1, 64>>>((int *)d);
    few<<<1, 32>>>((int *)d + 64);
    cudaMemcpy(g, d, 288, cudaMemcpyDeviceToHost);
    printf("\n%d %d %d %d | %d %d\n%s\n", g[1], g[31], g[32], g[63], g[64], g[71],
           cudaGetErrorName(cudaGetLastError()));
}
