// Computes y = gelu(x + bias), row-major. With DROPOUT, an element becomes 0 with probability `p`, and the others are
// multiplied by `scale`. A block has THREADS_X x THREADS_Y threads and processes `rows_per_block` rows; each thread
// processes one vector of each of its rows. Requires definitions of ROWS_IN_FLIGHT, the rows that a thread loads before
// it uses the first one.

// Random bits by Philox 4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"). Element i
// has word i % 4 of the 128 bits for the counter i / 4, so the forward and backward passes compute the same mask.
__device__ uint4 philox(unsigned long long seed, unsigned long long i) {
    uint4 c = {(unsigned)i, (unsigned)(i >> 32), 0, 0};
    unsigned k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
    #pragma unroll
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
        unsigned a = __umulhi(0xD2511F53, c.x), b = __umulhi(0xCD9E8D57, c.z);
        c = {b ^ c.y ^ k0, 0xCD9E8D57 * c.z, a ^ c.w ^ k1, 0xD2511F53 * c.x};
    }
    return c;
}

struct KeepMask { bool data[VEC]; };  // the elements of a vector that dropout keeps

__device__ KeepMask keep_mask(long long first, unsigned long long seed, float p) {
    KeepMask res;
    #pragma unroll
    for (int v = 0; v < VEC; v += 4) {
        uint4 bits = philox(seed, (first + v) / 4);
        unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
        #pragma unroll
        for (int w = 0; w < 4 && v + w < VEC; w++) {
            unsigned word = words[w];
            if constexpr (VEC < 4) {  // the vector may begin at any of the four words
                int word_index = (first + w) % 4;
                word = word_index == 0 ? bits.x : word_index == 1 ? bits.y : word_index == 2 ? bits.z : bits.w;
            }
            res.data[v + w] = (word >> 8) * 0x1p-24f >= p;  // 24 bits as a value from 0 to 1
        }
    }
    return res;
}

// Loops over the rows of a block: calls load(a, i) for ROWS_IN_FLIGHT rows, then compute(a, i) for the same rows; i is
// the index of the vector in the array.
template<class Load, class Compute>
__device__ void visit_rows(long long rows, int vectors, int rows_per_block, int column, Load load, Compute compute) {
    const long long begin = blockIdx.x / ((vectors + THREADS_X - 1) / THREADS_X) * (long long)rows_per_block;
    const long long end = min(rows, begin + rows_per_block);
    if (column >= vectors) return;
    for (long long r = begin + threadIdx.x / THREADS_X; r < end; r += ROWS_IN_FLIGHT * THREADS_Y) {
        #pragma unroll
        for (int a = 0; a < ROWS_IN_FLIGHT; a++)
            if (r + a * THREADS_Y < end) load(a, (r + a * THREADS_Y) * vectors + column);
        #pragma unroll
        for (int a = 0; a < ROWS_IN_FLIGHT; a++)
            if (r + a * THREADS_Y < end) compute(a, (r + a * THREADS_Y) * vectors + column);
    }
}

__device__ int column_of_thread(int vectors) {
    return blockIdx.x % ((vectors + THREADS_X - 1) / THREADS_X) * THREADS_X + threadIdx.x % THREADS_X;
}

__global__ void __launch_bounds__(THREADS_X * THREADS_Y)
bias_gelu_forward(const Elem *x, const Elem *bias, Elem *y, long long rows, int vectors, int rows_per_block,
                  long long seed, float p, Acc scale) {
    const int column = column_of_thread(vectors);
    Vector inputs[ROWS_IN_FLIGHT], b;
    if (column < vectors) b = ((const Vector *)bias)[column];
    visit_rows(rows, vectors, rows_per_block, column, [&](int a, long long i) {
        inputs[a] = ((const Vector *)x)[i];
    }, [&](int a, long long i) {
        KeepMask mask;
        if constexpr (DROPOUT) mask = keep_mask(i * VEC, seed, p);
        Vector vector;
        #pragma unroll
        for (int v = 0; v < VEC; v++) {
            Acc res = gelu(Acc(inputs[a].data[v]) + Acc(b.data[v]));
            if constexpr (DROPOUT) res = mask.data[v] ? res * scale : Acc(0);
            vector.data[v] = Elem(res);
        }
        store((Vector *)y + i, vector);
    });
}

// Computes dx and, per block, the column sums of dx over its rows: partial sums of the bias gradient.
__global__ void __launch_bounds__(THREADS_X * THREADS_Y)
bias_gelu_backward(const Elem *x, const Elem *bias, const Elem *dy, Elem *dx, Acc *partials, long long rows,
                   int vectors, int rows_per_block, long long seed, float p, Acc scale) {
    __shared__ Acc sums[THREADS_Y][THREADS_X * VEC];
    const int column = column_of_thread(vectors);
    Vector inputs[ROWS_IN_FLIGHT], grads[ROWS_IN_FLIGHT], b;
    Acc sum[VEC] = {};
    if (column < vectors) b = ((const Vector *)bias)[column];
    visit_rows(rows, vectors, rows_per_block, column, [&](int a, long long i) {
        inputs[a] = ((const Vector *)x)[i];
        grads[a] = ((const Vector *)dy)[i];
    }, [&](int a, long long i) {
        KeepMask mask;
        if constexpr (DROPOUT) mask = keep_mask(i * VEC, seed, p);
        Vector vector;
        #pragma unroll
        for (int v = 0; v < VEC; v++) {
            Acc res = Acc(grads[a].data[v]) * gelu_grad(Acc(inputs[a].data[v]) + Acc(b.data[v]));
            if constexpr (DROPOUT) res = mask.data[v] ? res * scale : Acc(0);
            vector.data[v] = Elem(res);
            sum[v] += res;
        }
        store((Vector *)dx + i, vector);
    });
    const int thread_x = threadIdx.x % THREADS_X, thread_y = threadIdx.x / THREADS_X;
    // Elements with the same v are adjacent, which avoids bank conflicts.
    #pragma unroll
    for (int v = 0; v < VEC; v++) sums[thread_y][v * THREADS_X + thread_x] = sum[v];
    __syncthreads();
    if (thread_y != 0 || column >= vectors) return;
    const long long row_block = blockIdx.x / ((vectors + THREADS_X - 1) / THREADS_X);
    Acc *partial = partials + (row_block * vectors + column) * VEC;
    #pragma unroll
    for (int v = 0; v < VEC; v++) {
        for (int y = 1; y < THREADS_Y; y++) sum[v] += sums[y][v * THREADS_X + thread_x];
        partial[v] = sum[v];
    }
}
