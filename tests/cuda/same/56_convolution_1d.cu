#include <cstdio>
#define R 3
#define TPB 32

__constant__ int mask[2 * R + 1];

__global__ void simple(const int *x, int *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int s = 0;
    for (int j = -R; j <= R; j++) if (i + j >= 0 && i + j < n) s += x[i + j] * mask[j + R];
    y[i] = s;
}

__global__ void with_halo(const int *x, int *y, int n) {
    __shared__ int tile[TPB + 2 * R];
    int t = threadIdx.x, i = blockIdx.x * TPB + t;
    tile[R + t] = i < n ? x[i] : 0;
    if (t < R) {
        int left = i - R, right = i + TPB;
        tile[t] = left >= 0 ? x[left] : 0;
        tile[R + TPB + t] = right < n ? x[right] : 0;
    }
    __syncthreads();
    if (i < n) {
        int s = 0;
#pragma unroll
        for (int j = 0; j < 2 * R + 1; j++) s += tile[t + j] * mask[j];
        y[i] = s;
    }
}

// As many threads as inputs of the tile: those of the edge only load.
__global__ void more_threads(const int *x, int *y, int n) {
    __shared__ int tile[TPB];
    const int t = threadIdx.x, outs = TPB - 2 * R, i = int(blockIdx.x) * outs + t - R;
    tile[t] = i >= 0 && i < n ? x[i] : 0;
    __syncthreads();
    if (t < R || t >= TPB - R || i >= n) return;
    int s = 0;
    for (int j = -R; j <= R; j++) s += tile[t + j] * mask[j + R];
    y[i] = s;
}

__global__ void in_registers(const int *x, int *y, int n) {   // a warp's lanes hold the window
    int lane = threadIdx.x, i = int(blockIdx.x) * (32 - 2 * R) + lane - R, v = i >= 0 && i < n ? x[i] : 0, s = 0;
    for (int j = -R; j <= R; j++) s += __shfl_sync(~0u, v, (lane + j) & 31) * mask[j + R];
    if (lane >= R && lane < 32 - R && i < n) y[i] = s;
}

int main() {
    int m[2 * R + 1] = {1, -2, 3, 5, -7, 2, 4}, *x, *y;
    cudaMemcpyToSymbol(mask, m, sizeof m);
    cudaMalloc(&x, 400);
    cudaMalloc(&y, 400);
    for (int n : {1, 2, 31, 32, 33, 100}) {
        int h[100], got[100], want[100], wrong[4] = {};
        for (int i = 0; i < n; i++) h[i] = i * 29 % 31 - 9;
        for (int i = 0; i < n; i++) {
            want[i] = 0;
            for (int j = -R; j <= R; j++) if (i + j >= 0 && i + j < n) want[i] += h[i + j] * m[j + R];
        }
        cudaMemcpy(x, h, n * sizeof(int), cudaMemcpyHostToDevice);
        void (*kernels[4])(const int *, int *, int) = {simple, with_halo, more_threads, in_registers};
        for (int k = 0; k < 4; k++) {
            cudaMemset(y, 0, n * sizeof(int));
            int outs = k < 2 ? TPB : TPB - 2 * R;
            kernels[k]<<<(n + outs - 1) / outs, TPB>>>(x, y, n);
            cudaMemcpy(got, y, n * sizeof(int), cudaMemcpyDeviceToHost);
            for (int i = 0; i < n; i++) wrong[k] += got[i] != want[i];
        }
        printf("%d: %d %d %d %d, %d\n", n, wrong[0], wrong[1], wrong[2], wrong[3], got[n / 2]);
    }
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
