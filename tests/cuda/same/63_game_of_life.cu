#include <cstdio>
#include <vector>

__global__ void torus(const unsigned char *now, unsigned char *next, int h, int w) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c >= w || r >= h) return;
    int n = 0;
    for (int dr = h - 1; dr <= h + 1; dr++)
        for (int dc = w - 1; dc <= w + 1; dc++) n += now[(r + dr) % h * w + (c + dc) % w];
    n -= now[r * w + c];
    next[r * w + c] = n == 3 || (n == 2 && now[r * w + c]);
}

// 32 cells in a word, a row of words for each thread; neighbours are counted with bit operations.
__global__ void words(unsigned *rows, int h, int steps) {
    __shared__ unsigned board[2][64];
    int r = threadIdx.x;
    board[0][r] = rows[r];
    __syncthreads();
    for (int k = 0; k < steps; k++) {
        unsigned ones = 0, twos = 0, fours = 0, own = board[k & 1][r];
        for (int dr = -1; dr <= 1; dr++) {
            unsigned v = board[k & 1][(r + dr + h) % h];
            unsigned sides[3] = {__funnelshift_l(v, v, 1), __funnelshift_r(v, v, 1), dr ? v : 0};
            for (unsigned s : sides) {
                unsigned carry = ones & s, more = twos & carry;
                ones ^= s;
                twos ^= carry;
                fours |= more;
            }
        }
        board[~k & 1][r] = ~fours & twos & (ones | own);
        __syncthreads();
    }
    rows[r] = board[steps & 1][r];
}

int main() {
    const int h = 20, w = 32, steps = 12;
    std::vector<unsigned char> cells(h * w);
    unsigned rows[h] = {}, *d, seed = 3;
    for (int i = 0; i < h * w; i++) {
        cells[i] = (seed = seed * 1664525u + 1013904223u) >> 28 < 6;
        rows[i / w] |= unsigned(cells[i]) << i % w;
    }
    unsigned char *a, *b;
    cudaMalloc(&a, h * w), cudaMalloc(&b, h * w), cudaMalloc(&d, sizeof rows);
    cudaMemcpy(a, cells.data(), cells.size(), cudaMemcpyHostToDevice);
    cudaMemcpy(d, rows, sizeof rows, cudaMemcpyHostToDevice);
    for (int k = 0; k < steps; k++) {
        torus<<<dim3((w + 7) / 8, (h + 7) / 8), dim3(8, 8)>>>(a, b, h, w);
        unsigned char *held = a;
        a = b, b = held;
    }
    words<<<1, h>>>(d, h, steps);
    cudaMemcpy(cells.data(), a, h * w, cudaMemcpyDeviceToHost);
    cudaMemcpy(rows, d, sizeof rows, cudaMemcpyDeviceToHost);
    int alive = 0, different = 0;
    for (int i = 0; i < h * w; i++) alive += cells[i], different += cells[i] != (rows[i / w] >> i % w & 1);
    for (int r = 0; r < h; r += 3) printf("%08x ", rows[r]);
    printf("\n%d alive, %d different\n%s\n", alive, different, cudaGetErrorName(cudaGetLastError()));
}
