// GELU: x times the share of normal numbers that are below x. Above: the types From and Sum, and TANH: is that share
// approximated by tanh? Where the arrays have 16 bits, what is computed is right to 2^-22, which is less work.
constexpr bool SHORT = sizeof(From) == 2;

__device__ Sum inverse(Sum x) {
    if constexpr (SHORT) return __fdividef(1.f, x);
    else return 1 / x;
}

__device__ Sum power_of_e(Sum x) {
    if constexpr (SHORT) return __expf(x);
    else return exp(x);
}

__device__ Sum bell(Sum x) { return power_of_e(Sum(-.5) * x * x); }

__device__ Sum below(Sum x) {
    if constexpr (TANH) {                                   // (1 + tanh(u)) / 2, and 2 u
        Sum u2 = Sum(1.5957691216057308) * x * (1 + Sum(.044715) * x * x);
        return inverse(1 + power_of_e(-u2));
    } else if constexpr (SHORT) {                           // Abramowitz and Stegun 7.1.26, for x below 0 first
        Sum t = inverse(1 + Sum(.23164189) * fabsf(x));
        Sum share = ((((Sum(.530702715) * t - Sum(.726576014)) * t + Sum(.710706871)) * t - Sum(.142248368)) * t
                     + Sum(.127414796)) * t * bell(x);
        return x < 0 ? share : 1 - share;
    } else return Sum(.5) * (1 + erf(x * Sum(.70710678118654752)));
}

__device__ Sum gelu(Sum x) { return x * below(x); }

__device__ Sum gelu_slope(Sum x) {
    Sum share = below(x);
    if constexpr (TANH)
        return share + x * share * (1 - share) * Sum(1.5957691216057308) * (1 + Sum(3 * .044715) * x * x);
    else return share + x * Sum(.3989422804014327) * bell(x);
}
