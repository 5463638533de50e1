#include <cstdio>

// A row for each warp: greatest, sum of exponentials, quotient. Powers of two make the exponentials exact.
__global__ void rows_by_warps(const float *x, float *y, int rows, int cols) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (warp >= rows) return;   // a whole warp leaves
    const float *in = x + warp * cols;
    float most = -INFINITY, sum = 0;
    for (int c = lane; c < cols; c += 32) most = fmaxf(most, in[c]);
    for (int by = 16; by; by /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, by));
    for (int c = lane; c < cols; c += 32) sum += exp2f(in[c] - most);
    for (int by = 16; by; by /= 2) sum += __shfl_xor_sync(0xffffffff, sum, by);
    for (int c = lane; c < cols; c += 32) y[warp * cols + c] = exp2f(in[c] - most) / sum;
}

// A row for each block, in one pass: the sum is rescaled when a greater value comes.
__global__ void rows_by_blocks(const float *x, float *y, int cols) {
    __shared__ float ms[64], ss[64];
    const float *in = x + blockIdx.x * cols;
    float m = -INFINITY, s = 0;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float now = fmaxf(m, in[c]);
        s = s * exp2f(m - now) + exp2f(in[c] - now);
        m = now;
    }
    ms[threadIdx.x] = m, ss[threadIdx.x] = s;
    for (int half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            float a = ms[threadIdx.x], b = ms[threadIdx.x + half], both = fmaxf(a, b);
            float left = a == -INFINITY ? 0 : ss[threadIdx.x] * exp2f(a - both);
            float right = b == -INFINITY ? 0 : ss[threadIdx.x + half] * exp2f(b - both);
            ms[threadIdx.x] = both, ss[threadIdx.x] = left + right;
        }
    }
    __syncthreads();
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[blockIdx.x * cols + c] = exp2f(in[c] - ms[0]) / ss[0];
}

int main() {
    const int rows = 5, cols = 75;
    float h[rows][cols], a[rows][cols], b[rows][cols], *x, *y;
    for (int r = 0; r < rows; r++) for (int c = 0; c < cols; c++) h[r][c] = (r * 31 + c * 7) % 13 - 6;
    cudaMalloc(&x, sizeof h), cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    rows_by_warps<<<2, 96>>>(x, y, rows, cols);
    cudaMemcpy(a, y, sizeof a, cudaMemcpyDeviceToHost);
    cudaMemset(y, 0, sizeof h);
    rows_by_blocks<<<rows, 64>>>(x, y, cols);
    cudaMemcpy(b, y, sizeof b, cudaMemcpyDeviceToHost);
    int off = 0, sums = 0;
    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int c = 0; c < cols; c++) sum += a[r][c], off += !(fabs(a[r][c] - b[r][c]) <= 1e-6 * a[r][c]);
        sums += fabs(sum - 1) < 1e-5;
    }
    printf("%d off, %d of %d rows have the sum 1, %.4f %.4f\n", off, sums, rows, a[0][6], b[4][74]);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
