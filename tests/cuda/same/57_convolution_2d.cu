#include <cstdio>
#include <cstring>
const int K = 5, RAD = K / 2, TILE = 8, PADDED = TILE + 2 * RAD;

__constant__ float filter[K][K];

__device__ int clamped(int v, int n) { return v < 0 ? 0 : v >= n ? n - 1 : v; }

// The edge's pixels go on for ever outside of the image.
__global__ void direct(const unsigned char *in, float *out, int h, int w) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c >= w || r >= h) return;
    float s = 0;
    for (int y = -RAD; y <= RAD; y++)
        for (int x = -RAD; x <= RAD; x++) s += in[clamped(r + y, h) * w + clamped(c + x, w)] * filter[y + RAD][x + RAD];
    out[r * w + c] = s;
}

__global__ void tiled(const unsigned char *in, float *out, int h, int w) {
    __shared__ unsigned char tile[PADDED][PADDED];
    int tc = threadIdx.x, tr = threadIdx.y;
    for (int y = tr; y < PADDED; y += TILE)
        for (int x = tc; x < PADDED; x += TILE)
            tile[y][x] = in[clamped(int(blockIdx.y) * TILE + y - RAD, h) * w +
                            clamped(int(blockIdx.x) * TILE + x - RAD, w)];
    __syncthreads();
    int c = blockIdx.x * TILE + tc, r = blockIdx.y * TILE + tr;
    if (c >= w || r >= h) return;
    float s = 0;
    for (int y = 0; y < K; y++) for (int x = 0; x < K; x++) s += tile[tr + y][tc + x] * filter[y][x];
    out[r * w + c] = s;
}

struct Pixel { unsigned char r, g, b; };
__global__ void to_grey(const Pixel *in, unsigned char *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = (in[i].r * 77 + in[i].g * 151 + in[i].b * 28) >> 8;
}

int main() {
    const int h = 19, w = 27, n = h * w;
    Pixel image[n], *dimage;
    unsigned char *grey;
    float f[K][K], a[n], b[n], *out;
    for (int i = 0; i < n; i++) image[i] = {(unsigned char)(i * 5), (unsigned char)(i / 3), (unsigned char)(255 - i)};
    for (int y = 0; y < K; y++) for (int x = 0; x < K; x++) f[y][x] = (3 - abs(y - RAD)) * (3 - abs(x - RAD)) / 64.0f;
    cudaMalloc(&dimage, sizeof image);
    cudaMalloc(&grey, n);
    cudaMalloc(&out, sizeof a);
    cudaMemcpy(dimage, image, sizeof image, cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(filter, f, sizeof f);
    to_grey<<<(n + 63) / 64, 64>>>(dimage, grey, n);

    dim3 block(TILE, TILE), grid((w + TILE - 1) / TILE, (h + TILE - 1) / TILE);
    direct<<<grid, block>>>(grey, out, h, w);
    cudaMemcpy(a, out, sizeof a, cudaMemcpyDeviceToHost);
    cudaMemset(out, 0, sizeof a);
    tiled<<<grid, block>>>(grey, out, h, w);
    cudaMemcpy(b, out, sizeof b, cudaMemcpyDeviceToHost);
    double sum = 0;
    for (float v : a) sum += v;
    printf("%s %.6f %.6f %.6f %.6f\n", memcmp(a, b, sizeof a) ? "different" : "same", a[0], a[n / 2], a[n - 1], sum);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
