#include <cstdio>

__device__ float4 operator+(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
__device__ float dot(const float3 &a, const float3 &b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

__global__ void copied(const float *in, float *out, int n) {   // four at a time, then the rest
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) {
        float4 v = reinterpret_cast<const float4 *>(in)[i];
        reinterpret_cast<float4 *>(out)[i] = v + make_float4(1, 2, 3, 4);
    }
    if (i < n % 4) out[n / 4 * 4 + i] = -in[n / 4 * 4 + i];
}

__global__ void pixels(uchar4 *p, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    uchar4 c = p[i];
    unsigned char grey = (c.x * 2 + c.y * 5 + c.z) / 8;
    p[i] = make_uchar4(grey, grey, grey, 255 - c.w);
    ((unsigned int *)p)[i] ^= 0x01000000u;
}

__global__ void others(double2 *d, int2 *i, longlong2 *l, short3 *s, float3 *f, uint4 *u) {
    int t = threadIdx.x;
    d[t] = make_double2(t * 0.5, -t);
    int2 p = {t, t * t};
    i[t].x = p.y;
    i[t].y = p.x;
    l[t] = longlong2{(long long)t << 40, 1};
    s[t] = make_short3(t, 2 * t, 3 * t);
    f[t] = make_float3(dot(make_float3(t, 1, 2), make_float3(1, 2, 3)), 0, t);
    uint4 q;
    q.x = q.y = q.z = t;
    q.w = ~0u;
    u[t] = q;
}

int main() {
    const int n = 39;
    float h[n], *a, *b;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&a, sizeof h);
    cudaMalloc(&b, sizeof h);
    cudaMemcpy(a, h, sizeof h, cudaMemcpyHostToDevice);
    copied<<<2, 8>>>(a, b, n);
    cudaMemcpy(h, b, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i += 3) printf("%g ", h[i]);

    uchar4 p[5];
    for (int i = 0; i < 5; i++) p[i] = make_uchar4(i, 50 * i, 255 - i, 10 * i);
    cudaMemcpy(a, p, sizeof p, cudaMemcpyHostToDevice);
    pixels<<<1, 8>>>((uchar4 *)a, 5);
    cudaMemcpy(p, a, sizeof p, cudaMemcpyDeviceToHost);
    printf("\n");
    for (uchar4 c : p) printf("%d,%d,%d,%d ", c.x, c.y, c.z, c.w);

    struct { double2 d[4]; longlong2 l[4]; uint4 u[4]; int2 i[4]; float3 f[4]; short3 s[4]; } all, *d;
    cudaMalloc(&d, sizeof all);
    others<<<1, 4>>>(d->d, d->i, d->l, d->s, d->f, d->u);
    cudaMemcpy(all.d, d, sizeof all.d, cudaMemcpyDeviceToHost);
    cudaMemcpy(all.l, d->l, sizeof all.l + sizeof all.u + sizeof all.i + sizeof all.f + sizeof all.s,
               cudaMemcpyDeviceToHost);
    printf("\n%g %g %lld %u %d %d %g %g %d %d\n", all.d[3].x, all.d[2].y, all.l[3].x >> 40, all.u[2].w, all.i[3].x,
           all.i[3].y, all.f[3].x, all.f[2].z, all.s[3].x, all.s[1].z);
    printf("%d %d %d %d %d %d\n", int(sizeof(float3)), int(sizeof(uchar4)), int(alignof(float4)), int(alignof(float3)),
           int(alignof(double2)), int(alignof(int2)));
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
