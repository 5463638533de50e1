#include <cstdio>
#include <utility>

// Heat in a rod: ping-pong between two arrays, a launch for each step; all numbers are multiples of powers of two
__global__ void step(const double *in, double *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = i == 0 || i == n - 1 ? in[i] : 0.25 * in[i - 1] + 0.5 * in[i] + 0.25 * in[i + 1];
}

// All steps in one kernel, two buffers in shared memory, one barrier a step
__global__ void steps(double *x, int n, int times) {
    extern __shared__ double buffer[];
    double *now = buffer, *next = buffer + n;
    int i = threadIdx.x;
    now[i] = x[i];
    __syncthreads();
    for (int k = 0; k < times; k++) {
        next[i] = i == 0 || i == n - 1 ? now[i] : 0.25 * now[i - 1] + 0.5 * now[i] + 0.25 * now[i + 1];
        __syncthreads();
        double *held = now;
        now = next, next = held;
    }
    x[i] = now[i];
}

// A plate: a block goes down through the rows and keeps three of them.
__global__ void plate(const int *in, int *out, int h, int w) {
    __shared__ int rows[3][34];
    int t = threadIdx.x, c = blockIdx.x * 32 + t - 1;
    auto load = [&](int r) { rows[r % 3][t] = c >= 0 && c < w ? in[r * w + c] : 0; };
    load(0);
    load(1);
    for (int r = 1; r < h - 1; r++) {
        load(r + 1);
        __syncthreads();
        if (t > 0 && t < 33 && c > 0 && c < w - 1)
            out[r * w + c] = rows[(r - 1) % 3][t] + rows[(r + 1) % 3][t] + rows[r % 3][t - 1] +
                             rows[r % 3][t + 1] - 4 * rows[r % 3][t];
        __syncthreads();
    }
}

int main() {
    const int n = 70, times = 9, h = 12, w = 50;
    double x[n], y[n], *a, *b;
    for (int i = 0; i < n; i++) x[i] = (i * 37) % 64;
    cudaMalloc(&a, sizeof x), cudaMalloc(&b, sizeof x);
    cudaMemcpy(a, x, sizeof x, cudaMemcpyHostToDevice);
    for (int k = 0; k < times; k++) {
        step<<<(n + 31) / 32, 32>>>(a, b, n);
        std::swap(a, b);
    }
    cudaMemcpy(y, a, sizeof y, cudaMemcpyDeviceToHost);
    cudaMemcpy(b, x, sizeof x, cudaMemcpyHostToDevice);
    steps<<<1, n, 2 * sizeof x>>>(b, n, times);
    cudaMemcpy(x, b, sizeof x, cudaMemcpyDeviceToHost);
    int different = 0;
    for (int i = 0; i < n; i++) different += x[i] != y[i];
    printf("%d different, %.12f %.12f\n", different, y[1], y[n / 2]);

    int m[h][w], o[h][w], *in, *out, wrong = 0;
    for (int r = 0; r < h; r++) for (int c = 0; c < w; c++) m[r][c] = r * c % 17 + r;
    cudaMalloc(&in, sizeof m), cudaMalloc(&out, sizeof m);
    cudaMemcpy(in, m, sizeof m, cudaMemcpyHostToDevice);
    cudaMemset(out, 0, sizeof m);
    plate<<<(w + 31) / 32, 34>>>(in, out, h, w);
    cudaMemcpy(o, out, sizeof o, cudaMemcpyDeviceToHost);
    for (int r = 1; r < h - 1; r++) for (int c = 1; c < w - 1; c++)
        wrong += o[r][c] != m[r - 1][c] + m[r + 1][c] + m[r][c - 1] + m[r][c + 1] - 4 * m[r][c];
    printf("%d wrong, %d %d\n%s\n", wrong, o[1][1], o[h - 2][w - 2], cudaGetErrorName(cudaGetLastError()));
}
