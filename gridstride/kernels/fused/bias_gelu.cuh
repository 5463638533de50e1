// y = gelu(x + bias), row-major. With DROPS (dropout), an element becomes 0 with probability `p`, and the others are
// multiplied by `scale`. A block has ACROSS x DOWN threads and processes `rows_per_block` rows; each thread has one
// pack of columns. Defined above: AHEAD, the rows in flight per thread.

// Random bits of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (Philox 4x32, 10 rounds): element i of a
// seed is word i % 4 of the 128 bits for i / 4, so forward and backward compute the same mask.
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

struct KeepMask { bool at[V]; };                                // which elements of a pack dropout keeps

__device__ KeepMask keep_mask(long long first, unsigned long long seed, float p) {
    KeepMask res;
    #pragma unroll
    for (int v = 0; v < V; v += 4) {
        uint4 bits = philox(seed, (first + v) / 4);
        unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
        #pragma unroll
        for (int w = 0; w < 4 && v + w < V; w++) {
            unsigned word = words[w];
            if constexpr (V < 4) {  // a pack may begin at any word, but is within one group of four
                int at = (first + w) % 4;
                word = at == 0 ? bits.x : at == 1 ? bits.y : at == 2 ? bits.z : bits.w;
            }
            res.at[v + w] = (word >> 8) * 0x1p-24f >= p;    // 24 bits as a value from 0 to 1
        }
    }
    return res;
}

// Loops over the rows of a block: calls read(a, i) for AHEAD rows, then work(a, i) for the same rows; i is the index of
// the pack in the array.
template<class Read, class Work>
__device__ void for_rows(long long rows, int packs, int rows_per_block, int column, Read read, Work work) {
    const long long begin = blockIdx.x / ((packs + ACROSS - 1) / ACROSS) * (long long)rows_per_block;
    const long long end = min(rows, begin + rows_per_block);
    if (column >= packs) return;
    for (long long r = begin + threadIdx.x / ACROSS; r < end; r += AHEAD * DOWN) {
        #pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (r + a * DOWN < end) read(a, (r + a * DOWN) * packs + column);
        #pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (r + a * DOWN < end) work(a, (r + a * DOWN) * packs + column);
    }
}

__device__ int column_of_thread(int packs) {
    return blockIdx.x % ((packs + ACROSS - 1) / ACROSS) * ACROSS + threadIdx.x % ACROSS;
}

__global__ void __launch_bounds__(ACROSS * DOWN)
bias_gelu_forward(const From *x, const From *bias, From *y, long long rows, int packs, int rows_per_block,
                  long long seed, float p, Sum scale) {
    const int column = column_of_thread(packs);
    Pack inputs[AHEAD], b;
    if (column < packs) b = ((const Pack *)bias)[column];
    for_rows(rows, packs, rows_per_block, column, [&](int a, long long i) { inputs[a] = ((const Pack *)x)[i]; },
    [&](int a, long long i) {
        KeepMask mask;
        if constexpr (DROPS) mask = keep_mask(i * V, seed, p);
        Pack pack;
        #pragma unroll
        for (int v = 0; v < V; v++) {
            Sum res = gelu(Sum(inputs[a].at[v]) + Sum(b.at[v]));
            if constexpr (DROPS) res = mask.at[v] ? res * scale : Sum(0);
            pack.at[v] = From(res);
        }
        store((Pack *)y + i, pack);
    });
}

// Computes dx, and per block the column sums of its rows, which are partial sums of the gradient of the bias.
__global__ void __launch_bounds__(ACROSS * DOWN)
bias_gelu_backward(const From *x, const From *bias, const From *dy, From *dx, Sum *parts, long long rows, int packs,
                   int rows_per_block, long long seed, float p, Sum scale) {
    __shared__ Sum sums[DOWN][ACROSS * V];
    const int column = column_of_thread(packs);
    Pack inputs[AHEAD], grads[AHEAD], b;
    Sum sum[V] = {};
    if (column < packs) b = ((const Pack *)bias)[column];
    for_rows(rows, packs, rows_per_block, column, [&](int a, long long i) {
        inputs[a] = ((const Pack *)x)[i];
        grads[a] = ((const Pack *)dy)[i];
    }, [&](int a, long long i) {
        KeepMask mask;
        if constexpr (DROPS) mask = keep_mask(i * V, seed, p);
        Pack pack;
        #pragma unroll
        for (int v = 0; v < V; v++) {
            Sum res = Sum(grads[a].at[v]) * gelu_grad(Sum(inputs[a].at[v]) + Sum(b.at[v]));
            if constexpr (DROPS) res = mask.at[v] ? res * scale : Sum(0);
            pack.at[v] = From(res);
            sum[v] += res;
        }
        store((Pack *)dx + i, pack);
    });
    const int across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
    // Elements with the same v are adjacent, which avoids bank conflicts.
    #pragma unroll
    for (int v = 0; v < V; v++) sums[down][v * ACROSS + across] = sum[v];
    __syncthreads();
    if (down != 0 || column >= packs) return;
    Sum *part = parts + (blockIdx.x / ((packs + ACROSS - 1) / ACROSS) * (long long)packs + column) * V;
    #pragma unroll
    for (int v = 0; v < V; v++) {
        for (int d = 1; d < DOWN; d++) sum[v] += sums[d][v * ACROSS + across];
        part[v] = sum[v];
    }
}
