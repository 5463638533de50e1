// Joins the Parts of a row that several threads have computed (online softmax): all of them get the result.
// Defined above: the types From (of the elements) and Sum (of all arithmetic), THREADS (per block), CLUSTER (blocks).
struct Part { Sum most, sum; };                             // the maximum, and the sum of exp(x - most)

#define LOWEST Sum(__int_as_float(0xff800000))               // minus infinity
// Subtracted from x; never infinite, because inf - inf is NaN
__device__ Sum base_of(Sum most) { return most == LOWEST ? Sum(0) : most; }

// For 16-bit results an approximate exponential suffices, which is 0 below 2^-126.
__device__ float power(float x) {
    if (sizeof(From) > 2) return expf(x);
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
    return y;
}
__device__ double power(double x) { return exp(x); }

template<int LANES> __device__ Part join_lanes(Part part) { // joins LANES lanes of a warp, in a fixed order
    Sum most = part.most;
    for (int d = LANES / 2; d > 0; d /= 2) most = max(most, __shfl_xor_sync(~0u, most, d));
    Sum sum = part.sum * power(part.most - base_of(most));
    for (int d = LANES / 2; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    return {most, sum};
}

__device__ Part join(Part a, Part b) {
    Sum most = max(a.most, b.most), base = base_of(most);
    return {most, a.sum * power(a.most - base) + b.sum * power(b.most - base)};
}
