#include <cmath>
#include <cstdio>

// Exact in every implementation: rounding, remainders, signs, roots of squares, powers of two
__global__ void exact(float *o) {
    int k = 0;
    auto put = [&](double v) { o[k++] = float(v); };
    put(floorf(-2.5f)), put(ceilf(-2.5f)), put(rintf(2.5f)), put(roundf(2.5f)), put(truncf(-2.7f)),
        put(nearbyintf(3.5f));
    put(fabsf(-3.0f)), put(fminf(1, NAN)), put(fmaxf(-1, 2)), put(copysignf(2, -0.0f)), put(fmodf(7.5f, 2)),
        put(remainderf(7.5f, 2));
    put(sqrtf(144)), put(sqrt(2.25)), put(cbrtf(0)), put(hypotf(3, 4)), put(ldexpf(0.75f, 5)), put(scalbnf(1, -3)),
        put(fmaf(2, 3, 4));
    put(exp2f(10)), put(log2f(1024)), put(powf(2, 8)), put(expf(0)), put(logf(1)), put(cosf(0)), put(sinf(0)),
        put(atan2f(0, 1));
    put(abs(-4)), put(max(3, 9)), put(min(2.5f, 1.5f)), put(isnan(NAN)), put(isinf(-INFINITY)), put(isfinite(1.0f)),
        put(signbit(-1.0f) != 0);
    put(rsqrtf(0.25f)), put(__saturatef(1.5f)), put(__saturatef(-1)), put(fdimf(5, 3)), put(ilogbf(10)),
        put(max(1u, 2u)), put(min(3ll, 5ll));
    put(__fadd_rn(1, 2)), put(__fmul_rn(3, 4)), put(__fdiv_rn(1, 4)), put(__fsqrt_rn(16)), put(__fmaf_rn(2, 2, 1)),
        put(__frcp_rn(8));
    put(__dadd_rn(0.5, 1)), put(__dmul_rn(0.5, 3)), put(__fdividef(6, 2)), put(std::abs(-2.5f)),
        put(fma(1.0, 2.0, 3.0));
    float whole, part = modff(3.75f, &whole);
    int e;
    float m = frexpf(12, &e);
    put(whole), put(part), put(m), put(e), put(llrintf(-1.5f)), put(lroundf(1.5f));
    o[63] = k;
}

// Approximate functions: how many of n arguments are off by more than the tolerance
template <typename F, typename G> __device__ int off(F f, G g, double tolerance) {
    double x = 0.01 + threadIdx.x * 0.03, a = f(x), b = g(x);
    return fabs(a - b) > tolerance * (1 + fabs(b));
}
__global__ void close_to(int *c) {
    #define AGAINST(i, name) \
        atomicAdd(c + i, off([](float x) { return name##f(x); }, [](double x) { return name(x); }, 1e-5))
    AGAINST(0, sin), AGAINST(1, cos), AGAINST(2, tan), AGAINST(3, exp), AGAINST(4, log), AGAINST(5, tanh),
        AGAINST(6, sqrt);
    AGAINST(7, asin), AGAINST(8, acos), AGAINST(9, atan), AGAINST(10, sinh), AGAINST(11, cosh), AGAINST(12, erf);
    AGAINST(13, log10), AGAINST(14, log1p), AGAINST(15, expm1), AGAINST(16, cbrt), AGAINST(17, exp2),
        AGAINST(18, lgamma), AGAINST(19, erfc);
    double x = threadIdx.x * 0.03;
    float s, co;
    sincosf(x, &s, &co);
    atomicAdd(c + 20, fabs(s * s + co * co - 1) > 1e-5);
    atomicAdd(c + 21, fabs(__expf(x) - exp(x)) > 1e-4 || fabs(__sinf(x) - sin(x)) > 1e-4 ||
                      fabs(__powf(2, x) - pow(2, x)) > 1e-4);
    atomicAdd(c + 22, fabs(sin(x) * sin(x) + cos(x) * cos(x) - 1) > 1e-14 || fabs(exp(log(x + 1)) - x - 1) > 1e-14);
    atomicAdd(c + 23, fabs(rsqrt(x + 1) * sqrt(x + 1) - 1) > 1e-14 || fabs(__logf(x + 2) - log(x + 2)) > 1e-4);
    atomicAdd(c + 23, fabs(sinpi(x) - sin(M_PI * x)) > 1e-12);
}

int main() {
    float *d, h[64];
    int *c, n[24];
    cudaMalloc(&d, sizeof h);
    cudaMalloc(&c, sizeof n);
    cudaMemset(d, 0, sizeof h);
    cudaMemset(c, 0, sizeof n);
    exact<<<1, 1>>>(d);
    close_to<<<1, 32>>>(c);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpy(n, c, sizeof n, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 64; i++) printf("%g%c", h[i], i % 16 == 15 ? '\n' : ' ');
    for (int v : n) printf("%d ", v);
    printf("\n%s\n", cudaGetErrorName(cudaGetLastError()));
}
