#include <cstdio>
#define ROWS 4

struct Point { float x, y; int id; };
enum { COLS = 8 };

__global__ void kinds(int *out) {
    __shared__ int grid[ROWS][COLS], last;
    __shared__ double cube[2][ROWS][4];
    static __shared__ Point points[ROWS * COLS];
    __shared__ unsigned char bytes[ROWS * COLS];
    __shared__ bool flags[ROWS][COLS];
    __shared__ __align__(16) char raw[16 * sizeof(short)];
    volatile __shared__ int seen[ROWS * COLS];
    __shared__ int2 range;
    __shared__ const char *word;
    __shared__ float2 pairs[COLS];

    int r = threadIdx.y, c = threadIdx.x, t = r * COLS + c;
    grid[r][c] = t * t;
    cube[c / 4][r][c % 4] = t + 0.5;
    points[t] = {float(c), float(r), t};
    bytes[t] = t * 9;
    flags[r][c] = (r + c) % 3 == 0;
    seen[t] = t + 1;
    if (t < 16) ((short *)raw)[t] = short(-t * 1000);
    if (r == 0) pairs[c] = make_float2(c, -c);
    if (t == 5) last = 77, range.x = -1, range.y = 1, word = "shared";
    __syncthreads();

    int other = ROWS * COLS - 1 - t, sum = grid[ROWS - 1 - r][COLS - 1 - c];
    sum += int(cube[1 - c / 4][r][c % 4] * 2);
    sum += int(points[other].x * 10 + points[other].y) + points[other].id;
    sum += bytes[other] + flags[r][COLS - 1 - c] + seen[other];
    sum += ((short *)raw)[t % 16] + last + range.y - range.x + word[t % 6];
    sum += int(pairs[c].x + 2 * pairs[COLS - 1 - c].y);
    out[t] = sum;
}

__global__ void sizes(int *out) {
    __shared__ float a[3];
    __shared__ double b[5][7];
    if (threadIdx.x == 0) {
        a[0] = 1.5f;
        b[4][6] = 2.5;
        out[0] = sizeof a;
        out[1] = sizeof(b) / sizeof(b[0]);
        out[2] = sizeof b[0];
        out[3] = int(&b[4][6] - &b[0][0]);
        out[4] = int(a[0] + b[4][6]);
    }
}

int main() {
    int *d, h[32];
    cudaMalloc(&d, sizeof h);
    kinds<<<1, dim3(COLS, ROWS)>>>(d);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 32; i++) printf("%d%c", h[i], i % 8 == 7 ? '\n' : ' ');
    sizes<<<1, 4>>>(d);
    cudaMemcpy(h, d, 5 * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < 5; i++) printf("%d ", h[i]);
    printf("\n%s\n", cudaGetErrorName(cudaGetLastError()));
    cudaFree(d);
}
