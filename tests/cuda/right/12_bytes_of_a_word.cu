// right: neighbouring threads write different bytes of one word, which are places of their own
#include <cstdio>

struct Cell { char kind; bool on; short value; };

__global__ void set(unsigned char *out, short *halves, Cell *cells) {
    __shared__ unsigned char s[64];
    __shared__ short h[64];
    __shared__ Cell c[16];
    int t = threadIdx.x;
    s[t] = t * 3;
    h[63 - t] = t;
    if (t % 4 == 0) c[t / 4].kind = char('a' + t / 4);
    if (t % 4 == 1) c[t / 4].on = t % 8 == 1;
    if (t % 4 == 2) c[t / 4].value = t;
    __syncthreads();
    out[t] = s[t ^ 1];
    halves[t] = h[t];
    if (t < 16) cells[t] = c[15 - t];
}

int main() {
    unsigned char b[64], *db;
    short h[64], *dh;
    Cell c[16], *dc;
    cudaMalloc(&db, sizeof b);
    cudaMalloc(&dh, sizeof h);
    cudaMalloc(&dc, sizeof c);
    set<<<1, 64>>>(db, dh, dc);
    cudaMemcpy(b, db, sizeof b, cudaMemcpyDeviceToHost);
    cudaMemcpy(h, dh, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpy(c, dc, sizeof c, cudaMemcpyDeviceToHost);
    printf("%d %d %d %c %d %d %s\n", b[0], b[63], h[0], c[0].kind, c[15].on, c[3].value,
           cudaGetErrorName(cudaGetLastError()));
}
