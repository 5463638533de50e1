//> E4M3 9c5962238ccb87d4
//> E4M3 saturated d22cb59349850c14
//> E5M2 9d9e7308e994a1c4
//> E5M2 saturated 0a21b25618482790
//> values 7296fb62fd000000
//> fe3a 1.25 -448, 7b00b22e 0.09375 -0.1875 0 57344
//> 58 c3 2a 403c
// So does the library's own header, compiled for a host.
#include <cstdio>
#include <cstring>
#include <cuda_fp8.h>

static unsigned long long digest = 0;
static void add(unsigned long long x) { digest = (digest ^ x) * 0x9e3779b97f4a7c15ull; }
static float bits(unsigned x) { float f; memcpy(&f, &x, 4); return f; }
static unsigned of(float f) { unsigned x; memcpy(&x, &f, 4); return f == f ? x : 0x7fc00000u; }
static void show(const char *what) { printf("%s %016llx\n", what, digest), digest = 0; }

int main() {
    const __nv_fp8_interpretation_t kinds[] = {__NV_E4M3, __NV_E5M2};
    const __nv_saturation_t ends[] = {__NV_NOSAT, __NV_SATFINITE};
    for (auto k : kinds)
        for (auto s : ends) {
            for (unsigned i = 0; i < 65536; i++)
                for (unsigned low : {0u, 1u, 0x8000u, 0xffffu}) {
                    const float x = bits(i << 16 | low);
                    add(__nv_cvt_float_to_fp8(x, s, k));
                    if (x == x) add(__nv_cvt_double_to_fp8(double(x) * 1.0000001, s, k));
                }
            show(k == __NV_E4M3 ? s ? "E4M3 saturated" : "E4M3" : s ? "E5M2 saturated" : "E5M2");
        }
    for (unsigned i = 0; i < 256; i++) {
        __nv_fp8_e4m3 a;
        __nv_fp8_e5m2 b;
        a.__x = b.__x = (__nv_fp8_storage_t)i;
        add(of(float(a))), add(of(float(b)));
        add(of(float(__half(__nv_cvt_fp8_to_halfraw(a.__x, __NV_E4M3)))));
        add(of(float(__nv_bfloat16(b))));
    }
    show("values");
    const __nv_fp8x2_e4m3 two(float2{1.3f, -500});
    const __nv_fp8x4_e5m2 four(float4{0.1f, -0.2f, 1e-9f, 1e9f});
    const float2 x = float2(two);
    const float4 y = float4(four);
    printf("%04x %g %g, %08x %g %g %g %g\n", two.__x, x.x, x.y, four.__x, y.x, y.y, y.z, y.w);
    printf("%02x %02x %02x %02x\n", __nv_fp8_e4m3(17).__x, __nv_fp8_e5m2(-3.5).__x, __nv_fp8_e4m3(__half(0.3f)).__x,
        __nv_cvt_float2_to_fp8x2(float2{1, 2}, __NV_SATFINITE, __NV_E5M2));
}
