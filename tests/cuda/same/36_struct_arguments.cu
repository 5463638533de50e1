#include <cstdio>
#define N 6

struct Vec { float x, y, z; };
struct Mixed { char tag; double d; short s[3]; bool on; long long l; };
struct Nested { Vec at[2]; struct { int a, b; } inner; Mixed m; int *out; };
struct Table { int rows[4][5]; unsigned char mask : 3, kind : 5; };
union Word { float f; unsigned u; unsigned char b[4]; };
typedef struct list { int value; struct list *next; } list;

__global__ void by_value(Nested n, Vec v, const Mixed m, int k) {
    int t = threadIdx.x;
    n.inner.a += t;   // one's own copy
    float s = n.at[t % 2].x + n.at[1].z * v.y + v.z;
    n.out[t] = int(s * 4) + n.inner.a * n.inner.b + m.tag + int(m.d * 2) + m.s[t % 3] +
               (m.on ? k : -k) + int(n.m.l >> 33);
}
__global__ void tables(Table t, int *out) {
    int sum = 0;
    for (int c = 0; c < 5; c++) sum += t.rows[threadIdx.x][c] * (c + 1);
    out[threadIdx.x] = sum + t.mask * 1000 + t.kind * 10000;
}
__global__ void particles(Vec *p, Vec by, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    Vec q = p[i];
    q.x += by.x * i, q.y -= by.y, q.z = q.x * q.y;
    p[i] = q;
}
__global__ void reversed(list *head, int *sum) {
    list *back = nullptr;
    while (head) { list *next = head->next; head->next = back; back = head; head = next; }
    int s = 0;
    for (; back; back = back->next) s = s * 10 + back->value;
    *sum = s;
}
__global__ void words(Word w, unsigned *out) { w.b[threadIdx.x] ^= 0xff; out[threadIdx.x] = w.u; }
struct Empty {};
__global__ void with_empty(Empty, int *o, Empty) { *o = sizeof(Mixed); }

int main() {
    int h[8], *d;
    cudaMalloc(&d, sizeof h);
    Mixed m = {'m', 2.5, {10, 20, 30}, true, 5ll << 33};
    Nested n = {{{1, 2, 3}, {4, 5, 0.25f}}, {7, 8}, m, d};
    by_value<<<1, 8>>>(n, Vec{1, 2, 3}, m, 1000);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    for (int v : h) printf("%d ", v);
    Table t = {};
    for (int i = 0; i < 20; i++) t.rows[i / 5][i % 5] = i;
    t.mask = 5, t.kind = 20;
    tables<<<1, 4>>>(t, d);
    cudaMemcpy(h, d, 16, cudaMemcpyDeviceToHost);
    printf("| %d %d %d %d\n", h[0], h[1], h[2], h[3]);
    Vec p[N], *dp;
    for (int i = 0; i < N; i++) p[i] = {float(i), i * 0.5f, -1};
    cudaMalloc(&dp, sizeof p);
    cudaMemcpy(dp, p, sizeof p, cudaMemcpyHostToDevice);
    particles<<<1, 32>>>(dp, Vec{0.5f, 1.5f}, N);
    cudaMemcpy(p, dp, sizeof p, cudaMemcpyDeviceToHost);
    for (Vec v : p) printf("%g,%g,%g ", v.x, v.y, v.z);
    list nodes[4], *dn;
    cudaMalloc(&dn, sizeof nodes);
    for (int i = 0; i < 4; i++) nodes[i] = {i + 1, i < 3 ? dn + i + 1 : NULL};
    cudaMemcpy(dn, nodes, sizeof nodes, cudaMemcpyHostToDevice);
    reversed<<<1, 1>>>(dn, d);
    Word w = {1.0f};
    words<<<1, 4>>>(w, (unsigned *)d + 1);
    with_empty<<<1, 1>>>(Empty{}, d + 5, Empty());
    cudaMemcpy(h, d, 24, cudaMemcpyDeviceToHost);
    printf("\n%d %x %x %x %x %d\n%s\n", h[0], h[1], h[2], h[3], h[4], h[5], cudaGetErrorName(cudaGetLastError()));
}
