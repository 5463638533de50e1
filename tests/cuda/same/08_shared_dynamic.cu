#include <cstdio>

extern __shared__ float window[];   // one buffer, whatever it is called

__global__ void reversed(float *x) {
    window[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = window[blockDim.x - 1 - threadIdx.x];
}

// ints, then doubles, then chars, in one buffer, beside a static array
__global__ void several(double *out, int n) {
    extern __shared__ double aligned[];
    __shared__ int stat[32];
    double *d = aligned;
    int *i = (int *)&d[n];
    char *c = reinterpret_cast<char *>(i + n);
    int t = threadIdx.x;
    d[t] = t / 4.0;
    i[t] = t * t;
    c[t] = char('a' + t);
    stat[t] = -t;
    __syncthreads();
    int o = n - 1 - t;
    out[t] = d[o] + i[o] + c[o] + stat[o];
}

struct Item { int key; short value; };
template <typename T> __device__ T *dynamic() {
    extern __shared__ __align__(16) unsigned char buffer[];
    return reinterpret_cast<T *>(buffer);
}
template <typename T> __global__ void rotated(T *x, int by) {
    T *s = dynamic<T>();
    int t = threadIdx.x, n = blockDim.x;
    s[t] = x[blockIdx.x * n + t];
    __syncthreads();
    x[blockIdx.x * n + t] = s[(t + by) % n];
}

int main() {
    const int n = 24;
    float f[n], *df;
    for (int i = 0; i < n; i++) f[i] = i + 0.25f;
    cudaMalloc(&df, sizeof f);
    cudaMemcpy(df, f, sizeof f, cudaMemcpyHostToDevice);
    reversed<<<1, n, n * sizeof(float)>>>(df);
    rotated<char><<<2, 8, 8>>>((char *)df, 4);
    cudaMemcpy(f, df, sizeof f, cudaMemcpyDeviceToHost);
    printf("%.2f %.2f %.2f %.2f %.2f\n", f[0], f[1], f[2], f[3], f[n - 1]);

    double g[n], *dg;
    cudaMalloc(&dg, sizeof g);
    size_t bytes = n * (sizeof(double) + sizeof(int) + sizeof(char));
    several<<<1, n, bytes>>>(dg, n);
    cudaMemcpy(g, dg, sizeof g, cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i += 5) printf("%.2f ", g[i]);
    printf("\n");

    Item items[2 * n], *di;
    for (int i = 0; i < 2 * n; i++) items[i] = {i, short(-i)};
    cudaMalloc(&di, sizeof items);
    cudaMemcpy(di, items, sizeof items, cudaMemcpyHostToDevice);
    for (int k = 1; k < 4; k++) rotated<Item><<<2, n, n * sizeof(Item)>>>(di, k);
    cudaMemcpy(items, di, sizeof items, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 2 * n; i += 7) printf("%d:%d ", items[i].key, items[i].value);
    printf("\n%s\n", cudaGetErrorName(cudaGetLastError()));
}
