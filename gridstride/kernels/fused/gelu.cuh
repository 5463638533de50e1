// GELU: x * Phi(x), where Phi is the CDF of the normal distribution. Requires definitions of the types Elem and Acc,
// and TANH: approximate Phi with tanh. For 16-bit arrays, Phi is computed with an error of at most 2^-22, which is
// faster.
constexpr bool FAST_MATH = sizeof(Elem) == 2;

__device__ float approx_reciprocal(float x) { asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(x) : "f"(x)); return x; }
__device__ float approx_exp2(float x) { asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(x) : "f"(x)); return x; }

__device__ Acc reciprocal(Acc x) { return FAST_MATH ? approx_reciprocal(x) : 1 / x; }
__device__ Acc exp2_of(Acc x) { return FAST_MATH ? approx_exp2(x) : exp2(x); }

__device__ Acc exp_minus_half_square(Acc x) { return exp2_of(Acc(-.7213475204444817) * x * x); }

__device__ Acc normal_cdf(Acc x) {
    if constexpr (TANH) {  // (1 + tanh(u)) / 2 is 1 / (1 + e^-2u)
        return reciprocal(1 + exp2_of(x * (Acc(-2.302208198144325) + Acc(-.1029432395800235) * x * x)));
    } else if constexpr (FAST_MATH) {  // Abramowitz and Stegun 7.1.26, first for -|x|
        Acc t = reciprocal(1 + Acc(.23164189) * fabsf(x));
        Acc phi = ((((Acc(.530702715) * t - Acc(.726576014)) * t + Acc(.710706871)) * t - Acc(.142248368)) * t
                     + Acc(.127414796)) * t * exp_minus_half_square(x);
        return x < 0 ? phi : 1 - phi;
    } else return Acc(.5) * (1 + erf(x * Acc(.70710678118654752)));
}

__device__ Acc gelu(Acc x) { return x * normal_cdf(x); }

__device__ Acc gelu_grad(Acc x) {
    Acc phi = normal_cdf(x);
    if constexpr (TANH)
        return phi + x * phi * (1 - phi) * Acc(1.5957691216057308) * (1 + Acc(3 * .044715) * x * x);
    else return phi + x * Acc(.3989422804014327) * exp_minus_half_square(x);
}
