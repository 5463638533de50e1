// What each of several threads knows of a row, a Part, joined: all of them get what all know.
// Above: the types From (of the numbers) and Sum (in which is computed), THREADS (of a block), CLUSTER (blocks).
struct Part { Sum most, sum; };                             // the largest number, and the sum of exp(number - most)

#define LOWEST Sum(__int_as_float(0xff800000))               // minus infinity
__device__ Sum base_of(Sum most) { return most == LOWEST ? Sum(0) : most; }  // to be subtracted: no inf - inf

// 16 bits leave room for a power whose last bits are wrong, and which is 0 below 2^-126
__device__ float power(float x) {
    if (sizeof(From) > 2) return expf(x);
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
    return y;
}
__device__ double power(double x) { return exp(x); }

template<int LANES> __device__ Part join_lanes(Part part) { // LANES neighbours of a warp; the order is always one
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
