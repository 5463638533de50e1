#include <cstdio>

// Integers: forces are divided with truncation, so that every order of summing gives the same.
struct Body { int x, y, vx, vy, mass; };

__device__ int2 force(const Body &a, const Body &b) {
    int dx = b.x - a.x, dy = b.y - a.y, d = max(abs(dx), abs(dy)) + 1;
    return make_int2(b.mass * dx / d, b.mass * dy / d);
}

__global__ void naive(const Body *in, Body *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Body me = in[i];
    for (int j = 0; j < n; j++) if (j != i) {
        int2 f = force(me, in[j]);
        me.vx += f.x, me.vy += f.y;
    }
    me.x += me.vx / 64, me.y += me.vy / 64;
    out[i] = me;
}

template <int TILE> __global__ void tiled(const Body *in, Body *out, int n) {
    __shared__ Body tile[TILE];
    int i = blockIdx.x * TILE + threadIdx.x;
    Body me = i < n ? in[i] : Body{};
    for (int from = 0; from < n; from += TILE) {
        int j = from + threadIdx.x;
        if (j < n) tile[threadIdx.x] = in[j];
        __syncthreads();
        for (int k = 0; k < TILE && from + k < n; k++) {
            int2 f = from + k == i ? int2{0, 0} : force(me, tile[k]);
            me.vx += f.x, me.vy += f.y;
        }
        __syncthreads();
    }
    me.x += me.vx / 64, me.y += me.vy / 64;
    if (i < n) out[i] = me;
}

__global__ void energies(const Body *b, int n, double *kinetic) {
    double e = 0;
    for (int i = threadIdx.x; i < n; i += 32)
        e += 0.5 * b[i].mass * (double(b[i].vx) * b[i].vx + double(b[i].vy) * b[i].vy);
    for (int by = 16; by; by /= 2) e += __shfl_xor_sync(~0u, e, by);
    if (threadIdx.x == 0) *kinetic = e;
}

int main() {
    const int n = 50;
    Body h[n], a[n], b[n], *buffer[2];
    double *e, kinetic;
    for (int i = 0; i < n; i++) h[i] = {i * 37 % 101 * 50, i * 53 % 97 * 50, 0, 0, 1 + i % 9};
    cudaMalloc(&e, sizeof *e);
    for (auto &p : buffer) cudaMalloc(&p, sizeof h);
    for (int kind = 0; kind < 2; kind++) {
        cudaMemcpy(buffer[0], h, sizeof h, cudaMemcpyHostToDevice);
        for (int k = 0; k < 6; k++)
            if (kind) tiled<32><<<(n + 31) / 32, 32>>>(buffer[k % 2], buffer[1 - k % 2], n);
            else naive<<<(n + 15) / 16, 16>>>(buffer[k % 2], buffer[1 - k % 2], n);
        cudaMemcpy(kind ? b : a, buffer[0], sizeof h, cudaMemcpyDeviceToHost);
    }
    energies<<<1, 32>>>(buffer[0], n, e);
    cudaMemcpy(&kinetic, e, sizeof kinetic, cudaMemcpyDeviceToHost);
    int different = 0;
    for (int i = 0; i < n; i++) different += a[i].x != b[i].x || a[i].vy != b[i].vy;
    printf("%d different, (%d, %d) (%d, %d), %.1f\n", different, a[0].x, a[0].y, b[n - 1].vx, b[n - 1].vy, kinetic);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
