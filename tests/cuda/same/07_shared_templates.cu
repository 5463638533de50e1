#include <cstdio>

template <typename T, int N> struct Tile {
    T v[N][N + 1];
    __device__ T &at(int r, int c) { return v[r][c]; }
};

// Every instance of a function has its own array, which all threads of the block share.
template <typename T> __device__ T neighbour(T mine, int by) {
    __shared__ T a[64];
    a[threadIdx.x] = mine;
    __syncthreads();
    T other = a[(threadIdx.x + by) % blockDim.x];
    __syncthreads();
    return other;
}

__device__ int block_total(int v) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, v);
    __syncthreads();
    int s = sum;
    __syncthreads();
    return s;
}

template <typename T, int N> __global__ void transposed(const T *in, T *out) {
    __shared__ Tile<T, N> tile;
    tile.at(threadIdx.y, threadIdx.x) = in[threadIdx.y * N + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * N + threadIdx.x] = tile.at(threadIdx.x, threadIdx.y);
}

__global__ void mixed(double *out) {
    int t = threadIdx.x;
    int i = neighbour<int>(t, 1) + neighbour<int>(t * 100, 2);
    double d = neighbour(t * 0.5, 3);
    long long l = neighbour((long long)t << 33, blockDim.x - 1) >> 33;
    out[blockIdx.x * blockDim.x + t] = i + d + double(l) + block_total(t) + block_total(int(blockIdx.x));
}

__global__ void also_called_a(int *out) {
    __shared__ int a[2];
    int inner;
    { __shared__ int a[3]; a[threadIdx.x] = threadIdx.x; __syncthreads(); inner = a[2 - threadIdx.x]; }
    if (threadIdx.x < 2) a[threadIdx.x] = 10 + threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = 100 * inner + a[threadIdx.x % 2];
}

template <typename T, int N> void show_transposed() {
    T h[N * N], *a, *b;
    for (int i = 0; i < N * N; i++) h[i] = T(i) / T(2);
    cudaMalloc(&a, sizeof h);
    cudaMalloc(&b, sizeof h);
    cudaMemcpy(a, h, sizeof h, cudaMemcpyHostToDevice);
    transposed<T, N><<<1, dim3(N, N)>>>(a, b);
    cudaMemcpy(h, b, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < N * N; i += N - 1) printf("%.1f ", double(h[i]));
    printf("\n");
}

int main() {
    show_transposed<float, 4>();
    show_transposed<double, 7>();
    show_transposed<short, 16>();
    double *d, h[80];
    cudaMalloc(&d, sizeof h);
    mixed<<<2, 40>>>(d);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 80; i += 9) printf("%.1f ", h[i]);
    also_called_a<<<1, 3>>>((int *)d);
    int g[3];
    cudaMemcpy(g, d, sizeof g, cudaMemcpyDeviceToHost);
    printf("| %d %d %d %s\n", g[0], g[1], g[2], cudaGetErrorName(cudaGetLastError()));
}
