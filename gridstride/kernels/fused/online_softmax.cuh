// Online softmax: the state of a row is its running maximum and sum. Threads that share a row merge their states.
// Requires definitions of the types Elem (of the elements) and Acc (of all arithmetic), THREADS (per block), CLUSTER
// (blocks).
struct RowState { Acc row_max, row_sum; };  // the maximum, and the sum of exp(x - row_max)

#define NEG_INF Acc(__int_as_float(0xff800000))
// Returns the shift that is subtracted from x: the maximum, or a finite value if the maximum is infinite, because inf -
// inf is NaN.
__device__ Acc finite_max(Acc row_max) { return row_max == NEG_INF ? Acc(0) : row_max; }

// For 16-bit results an approximate exponential suffices, which is 0 below 2^-126.
__device__ float exp_of(float x) {
    if (sizeof(Elem) > 2) return expf(x);
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
    return y;
}
__device__ double exp_of(double x) { return exp(x); }

// Merges the states of each group of LANES lanes, in a fixed order; all lanes receive the result.
template<int LANES> __device__ RowState merge_lanes(RowState state) {
    Acc row_max = state.row_max;
    for (int d = LANES / 2; d > 0; d /= 2) row_max = max(row_max, __shfl_xor_sync(~0u, row_max, d));
    Acc row_sum = state.row_sum * exp_of(state.row_max - finite_max(row_max));
    for (int d = LANES / 2; d > 0; d /= 2) row_sum += __shfl_xor_sync(~0u, row_sum, d);
    return {row_max, row_sum};
}

__device__ RowState merge(RowState a, RowState b) {
    Acc row_max = max(a.row_max, b.row_max), base = finite_max(row_max);
    return {row_max, a.row_sum * exp_of(a.row_max - base) + b.row_sum * exp_of(b.row_max - base)};
}
