// Computes the cross entropy of rows of `width` logits in two passes: `losses` reads a row and stores its max and sum,
// and `gradients` computes the gradient from them. The probabilities are not stored.
// Requires definitions of the types Elem (of logits) and Acc (of all arithmetic), VEC (elements per load), THREADS (at
// least 2 VEC), and LOADS_IN_FLIGHT (per thread).
struct alignas(VEC * sizeof(Elem)) Vector { Elem data[VEC]; };

// A row may begin at any address, so the elements before the first aligned vector and after the last one are peeled:
// they are loaded one by one.
struct RowAlignment {
    unsigned width, peeled_head, vectors, peeled;  // peeled_head: peeled elements before the first vector
    __device__ RowAlignment(const Elem *elements, unsigned width) : width(width) {
        const unsigned misalignment = (size_t)elements % sizeof(Vector) / sizeof(Elem);
        peeled_head = min(width, (VEC - misalignment) % VEC);
        vectors = (width - peeled_head) / VEC;
        peeled = width - vectors * VEC;
    }
    __device__ unsigned index_of_peeled(unsigned i) const { return i < peeled_head ? i : width - peeled + i; }
    __device__ unsigned vector_of(long long i) const {  // the vector of element i; ~0u if it is peeled
        return i >= peeled_head && i < peeled_head + vectors * VEC ? (unsigned)(i - peeled_head) / VEC : ~0u;
    }
};

constexpr Acc LOG2E = 1.44269504088896340736, LN2 = 0.69314718055994530942;
constexpr Acc LOWEST = sizeof(Acc) == 4 ? -3e38 : -1e308;  // finite, because infinity - infinity is NaN

__device__ float pow2(float x) {  // 2^x; 0 where it is below the smallest normal number
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ double pow2(double x) { return exp2(x); }

// e^x is 2^(x LOG2E). `shift` is the largest logit times LOG2E, `sum` the sum of all 2^(x LOG2E - shift), each of which
// is at most 1. The same rounded shift is used everywhere, so its rounding error cancels in the result.
struct LogSumExp { Acc shift, sum; };
__device__ float shift_of(float x) { return __fmul_rn(x, LOG2E); }
__device__ double shift_of(double x) { return __dmul_rn(x, LOG2E); }
__device__ Acc exp_minus(Acc x, Acc shift) { return pow2(fma(x, LOG2E, -shift)); }

__device__ LogSumExp merge(LogSumExp a, LogSumExp b) {
    Acc shift = a.shift > b.shift ? a.shift : b.shift;
    return {shift, a.sum * pow2(a.shift - shift) + b.sum * pow2(b.shift - shift)};
}

template<int N> __device__ void add(LogSumExp &sums, const Elem (&logits)[N]) {
    Acc x[N], row_max = (Acc)logits[0];
    #pragma unroll
    for (int n = 0; n < N; n++) {
        x[n] = (Acc)logits[n];
        row_max = x[n] > row_max ? x[n] : row_max;
    }
    Acc shift = shift_of(row_max);
    if (shift > sums.shift) sums = {shift, sums.sum * pow2(sums.shift - shift)};
    #pragma unroll
    for (int n = 0; n < N; n++) sums.sum += exp_minus(x[n], sums.shift);
}
__device__ void add(LogSumExp &sums, Elem x) {
    const Elem one[1] = {x};
    add(sums, one);
}

// Merges the states of each group of `lanes` lanes; all lanes receive the result.
__device__ LogSumExp warp_merge(LogSumExp sums, int lanes) {
    for (int d = lanes / 2; d > 0; d /= 2)
        sums = merge(sums, {__shfl_xor_sync(~0u, sums.shift, d), __shfl_xor_sync(~0u, sums.sum, d)});
    return sums;
}

// Merges the states of a block; all threads receive the result.
__device__ LogSumExp block_merge(LogSumExp sums) {
    __shared__ LogSumExp warp_results[THREADS / 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    sums = warp_merge(sums, 32);
    if (lane == 0) warp_results[warp] = sums;
    __syncthreads();
    return warp_merge(lane < THREADS / 32 ? warp_results[lane] : LogSumExp{LOWEST, 0}, 32);
}

__device__ Acc loss_of(Acc x, LogSumExp sums) {  // log(sum of e^x) - x of the target
    return (log2(sums.sum) + fma(x, -LOG2E, sums.shift)) * LN2;
}

__device__ Elem gradient_of(Elem x, LogSumExp sums, Acc factor, bool target) {  // (softmax - 1 for the target) * factor
    return Elem((exp_minus((Acc)x, sums.shift) / sums.sum - target) * factor);
}

__device__ Vector gradient_of(Vector vector, LogSumExp sums, Acc factor) {  // of a vector without the target
    factor /= sums.sum;
    #pragma unroll
    for (int v = 0; v < VEC; v++) vector.data[v] = Elem(exp_minus((Acc)vector.data[v], sums.shift) * factor);
    return vector;
}

__device__ Vector load(const Vector *src) {  // a streaming load: no thread reads it again
    if constexpr (sizeof(Vector) != 16) return *src;
    uint4 words = __ldcs((const uint4 *)src);
    Vector vector;
    memcpy(&vector, &words, sizeof(Vector));
    return vector;
}

__device__ void store(Vector *dst, const Vector &vector) {
    if constexpr (sizeof(Vector) != 16) *dst = vector;
    else __stcs((uint4 *)dst, *(const uint4 *)&vector);
}

// One block per row
__global__ void __launch_bounds__(THREADS)
losses(const Elem *x, const long long *target, Acc *loss, Acc *row_stats, unsigned width, long long ignore_index) {
    const size_t row = blockIdx.x;
    const Elem *elements = x + row * width;
    const RowAlignment alignment(elements, width);
    const Vector *vectors = (const Vector *)(elements + alignment.peeled_head);
    LogSumExp sums = {LOWEST, 0};
    for (unsigned i = threadIdx.x; i < alignment.vectors; i += LOADS_IN_FLIGHT * THREADS) {
        Vector vector[LOADS_IN_FLIGHT];
        #pragma unroll
        for (int a = 0; a < LOADS_IN_FLIGHT; a++)  // issue all loads before the first use
            if (i + a * THREADS < alignment.vectors) vector[a] = vectors[i + a * THREADS];
        #pragma unroll
        for (int a = 0; a < LOADS_IN_FLIGHT; a++)
            if (i + a * THREADS < alignment.vectors) add(sums, vector[a].data);
    }
    if (threadIdx.x < alignment.peeled) add(sums, elements[alignment.index_of_peeled(threadIdx.x)]);
    sums = block_merge(sums);
    if (threadIdx.x != 0) return;
    const long long t = target[row];
    loss[row] = t == ignore_index ? Acc(0) : loss_of((Acc)elements[t], sums);
    row_stats[2 * row] = sums.shift, row_stats[2 * row + 1] = sums.sum;
}

// `blocks` blocks per row, `block_vectors` vectors per block; `gradient` may be `x`, and has the same alignment. The
// upstream gradient is one value per row (per_row = 1) or a single value (per_row = 0), and is multiplied by `scale`.
__global__ void __launch_bounds__(THREADS)
gradients(const Elem *x, const long long *target, const Acc *row_stats, const Acc *upstream, const Acc *scale,
          Elem *gradient, unsigned width, unsigned block_vectors, int blocks, int per_row, long long ignore_index) {
    const size_t row = blockIdx.x / blocks;
    const unsigned row_block = blockIdx.x % blocks;
    const long long t = target[row];
    const Elem *elements = x + row * width;
    Elem *row_gradient = gradient + row * width;
    const RowAlignment alignment(elements, width);
    const Vector *vectors = (const Vector *)(elements + alignment.peeled_head);
    Vector *gradient_vectors = (Vector *)(row_gradient + alignment.peeled_head);
    const LogSumExp sums = {row_stats[2 * row], row_stats[2 * row + 1]};
    const Acc factor = upstream[row * per_row] * *scale;
    const unsigned target_vector = alignment.vector_of(t);
    const unsigned begin = row_block * block_vectors, end = min(alignment.vectors, begin + block_vectors);
    if (row_block == 0 && threadIdx.x < alignment.peeled) {
        const unsigned i = alignment.index_of_peeled(threadIdx.x);
        row_gradient[i] = t == ignore_index ? Elem(0) : gradient_of(elements[i], sums, factor, i == t);
    }
    for (unsigned i = begin + threadIdx.x; i < end; i += THREADS) {
        if (t == ignore_index) {
            store(gradient_vectors + i, Vector{});
            continue;
        }
        const Elem target_logit = i == target_vector ? elements[t] : Elem(0);  // read before it may be overwritten
        store(gradient_vectors + i, gradient_of(load(vectors + i), sums, factor));
        if (i == target_vector) row_gradient[t] = gradient_of(target_logit, sums, factor, true);
    }
}
