// GELU: x * Phi(x), where Phi is the CDF of the normal distribution. Defined above: the types From and Sum, and TANH:
// approximate Phi by tanh. For 16-bit arrays, Phi is computed with an error of at most 2^-22, which is faster.
constexpr bool SHORT = sizeof(From) == 2;

__device__ float fast_inverse(float x) { asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(x) : "f"(x)); return x; }
__device__ float fast_power(float x) { asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(x) : "f"(x)); return x; }

__device__ Sum inverse(Sum x) { return SHORT ? fast_inverse(x) : 1 / x; }
__device__ Sum power_of_2(Sum x) { return SHORT ? fast_power(x) : exp2(x); }

__device__ Sum gaussian(Sum x) { return power_of_2(Sum(-.7213475204444817) * x * x); }

__device__ Sum normal_cdf(Sum x) {
    if constexpr (TANH) {                                   // (1 + tanh(u)) / 2 is 1 / (1 + e^-2u)
        return inverse(1 + power_of_2(x * (Sum(-2.302208198144325) + Sum(-.1029432395800235) * x * x)));
    } else if constexpr (SHORT) {                           // Abramowitz and Stegun 7.1.26, first for -|x|
        Sum t = inverse(1 + Sum(.23164189) * fabsf(x));
        Sum phi = ((((Sum(.530702715) * t - Sum(.726576014)) * t + Sum(.710706871)) * t - Sum(.142248368)) * t
                     + Sum(.127414796)) * t * gaussian(x);
        return x < 0 ? phi : 1 - phi;
    } else return Sum(.5) * (1 + erf(x * Sum(.70710678118654752)));
}

__device__ Sum gelu(Sum x) { return x * normal_cdf(x); }

__device__ Sum gelu_grad(Sum x) {
    Sum phi = normal_cdf(x);
    if constexpr (TANH)
        return phi + x * phi * (1 - phi) * Sum(1.5957691216057308) * (1 + Sum(3 * .044715) * x * x);
    else return phi + x * Sum(.3989422804014327) * gaussian(x);
}
