#include <cstdio>
#include <cstring>

__global__ void bits(const unsigned *x, unsigned *o, int n) {
    int t = threadIdx.x;
    if (t >= n) return;
    unsigned v = x[t], w = x[(t + 1) % n], *r = o + t * 24;
    unsigned long long l = (unsigned long long)v << 32 | w;
    r[0] = __popc(v), r[1] = __clz(v), r[2] = __ffs(v), r[3] = __brev(v);
    r[4] = __popcll(l), r[5] = __clzll(l), r[6] = __ffsll(l), r[7] = unsigned(__brevll(l) >> 32);
    r[8] = __byte_perm(v, w, 0x0123), r[9] = __byte_perm(v, w, 0x7531), r[10] = __byte_perm(v, w, 0x4040);
    r[11] = __funnelshift_l(v, w, 5), r[12] = __funnelshift_r(v, w, 5), r[13] = __funnelshift_lc(v, w, 40),
        r[14] = __funnelshift_rc(v, w, 32);
    r[15] = __mulhi(int(v), int(w)), r[16] = __umulhi(v, w), r[17] = __mul24(int(v), int(w)), r[18] = __umul24(v, w);
    r[19] = unsigned(__umul64hi(l, l) >> 7), r[20] = __sad(int(v), int(w), 5u), r[21] = __usad(v, w, 6u);
    r[22] = __hadd(int(v), int(w)), r[23] = __urhadd(v, w);
}

__global__ void as_others(const float *f, const double *d, int *o) {
    int t = threadIdx.x, *r = o + t * 16;
    r[0] = __float_as_int(f[t]), r[1] = int(__float_as_uint(f[t]) >> 23 & 255);
    r[2] = int(__int_as_float(0x40490fdb) * 1000), r[3] = __uint_as_float(0x3f800000u) == 1;
    r[4] = __double2hiint(d[t]), r[5] = __double2loint(d[t]), r[6] = int(__double_as_longlong(d[t]) >> 52);
    r[7] = __hiloint2double(0x3ff80000, 0) == 1.5, r[8] = __float2int_rn(f[t]), r[9] = __float2int_rz(f[t]);
    r[10] = __float2int_ru(f[t]), r[11] = __float2int_rd(f[t]), r[12] = __double2int_rn(d[t]);
    r[13] = __int2float_rn(16777217) == 16777216.0f,
        r[14] = int(__float2uint_rn(fabsf(f[t])) + __longlong_as_double(0x4000000000000000ll));
    r[15] = int(__float2ll_rd(f[t] * 4));
}

__device__ unsigned xorshift(unsigned s) { s ^= s << 13, s ^= s >> 17, s ^= s << 5; return s; }
__global__ void vectors_in_words(unsigned *o) {
    unsigned a = 0x10f0807f, b = 0x01200180;
    o[0] = __vadd4(a, b), o[1] = __vmaxu4(a, b), o[2] = __vcmpeq4(a, b), o[3] = __dp4a(0x01020304, 0x05060708, 10),
        o[4] = xorshift(2463534242u);
}

int main() {
    const int n = 6;
    unsigned x[n] = {0, 1, 0x80000000u, 0xdeadbeefu, 0x00ff1200u, 0xffffffffu}, h[n * 24], *dx, *o;
    cudaMalloc(&dx, sizeof x);
    cudaMalloc(&o, sizeof h);
    cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
    bits<<<1, 32>>>(dx, o, n);
    cudaMemcpy(h, o, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < n * 24; i++) printf("%x%c", h[i], i % 24 == 23 ? '\n' : ' ');

    float f[4] = {1.5f, -2.5f, 100.25f, -0.75f}, *df;
    double d[4] = {1.5, -3.5, 1e10 / 1024, 0.1}, *dd;
    cudaMalloc(&df, sizeof f);
    cudaMalloc(&dd, sizeof d);
    cudaMemcpy(df, f, sizeof f, cudaMemcpyHostToDevice);
    cudaMemcpy(dd, d, sizeof d, cudaMemcpyHostToDevice);
    as_others<<<1, 4>>>(df, dd, (int *)o);
    cudaMemcpy(h, o, 256, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 64; i++) printf("%d%c", int(h[i]), i % 16 == 15 ? '\n' : ' ');
    vectors_in_words<<<1, 1>>>(o);
    cudaMemcpy(h, o, 20, cudaMemcpyDeviceToHost);
    printf("%08x %08x %08x %d %u\n%s\n", h[0], h[1], h[2], h[3], h[4], cudaGetErrorName(cudaGetLastError()));
}
