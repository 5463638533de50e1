#include <cstdio>
constexpr int TILE = 16, ROWS = 4;

template <typename T> __global__ void naive(const T *in, T *out, int h, int w) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < h && c < w) out[c * h + r] = in[r * w + c];
}

template <typename T> __global__ void tiled(const T *__restrict__ in, T *__restrict__ out, int h, int w) {
    __shared__ T tile[TILE][TILE + 1];   // the padding puts a column into different banks
    int c = blockIdx.x * TILE + threadIdx.x, r = blockIdx.y * TILE + threadIdx.y;
    for (int k = 0; k < TILE; k += ROWS)
        if (r + k < h && c < w) tile[threadIdx.y + k][threadIdx.x] = in[(r + k) * w + c];
    __syncthreads();
    c = blockIdx.y * TILE + threadIdx.x, r = blockIdx.x * TILE + threadIdx.y;
    for (int k = 0; k < TILE; k += ROWS)
        if (r + k < w && c < h) out[(r + k) * h + c] = tile[threadIdx.x][threadIdx.y + k];
}

__global__ void swizzled(const int *in, int *out, int n) {   // square, in place of padding: c ^ r
    __shared__ int tile[TILE * TILE];
    int x = threadIdx.x, y = threadIdx.y;
    tile[y * TILE + (x ^ y)] = in[(blockIdx.y * TILE + y) * n + blockIdx.x * TILE + x];
    __syncthreads();
    out[(blockIdx.x * TILE + y) * n + blockIdx.y * TILE + x] = tile[x * TILE + (y ^ x)];
}

template <typename T> int wrong(const T *h, const T *d, int rows, int cols) {
    T *got = new T[rows * cols];
    cudaMemcpy(got, d, rows * cols * sizeof(T), cudaMemcpyDeviceToHost);
    int bad = 0;
    for (int r = 0; r < rows; r++) for (int c = 0; c < cols; c++) bad += got[c * rows + r] != h[r * cols + c];
    delete[] got;
    return bad;
}

template <typename T> void run(int h, int w) {
    T *m = new T[h * w], *in, *out;
    for (int i = 0; i < h * w; i++) m[i] = T(i * 7 % 1013);
    cudaMalloc(&in, h * w * sizeof(T));
    cudaMalloc(&out, h * w * sizeof(T));
    cudaMemcpy(in, m, h * w * sizeof(T), cudaMemcpyHostToDevice);
    dim3 tpb(TILE, ROWS), blocks((w + TILE - 1) / TILE, (h + TILE - 1) / TILE);
    tiled<T><<<blocks, tpb>>>(in, out, h, w);
    printf("%d x %d: %d wrong\n", h, w, wrong(m, out, h, w));
    if (sizeof(T) == 4 && h == w && h % TILE == 0) {
        swizzled<<<blocks, dim3(TILE, TILE)>>>((int *)in, (int *)out, h);
        printf("swizzled: %d wrong\n", wrong(m, out, h, w));
    }
    cudaMemset(out, 0, h * w * sizeof(T));
    naive<<<dim3((w + 7) / 8, (h + 7) / 8), dim3(8, 8)>>>(in, out, h, w);
    printf("naive: %d wrong\n", wrong(m, out, h, w));
    cudaFree(in), cudaFree(out);
    delete[] m;
}

int main() {
    run<float>(16, 16);
    run<float>(32, 32);
    run<double>(33, 20);
    run<float>(1, 40);
    run<int>(48, 48);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
