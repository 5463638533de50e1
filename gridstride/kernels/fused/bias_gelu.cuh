// y = gelu(x + bias), row-major; with DROPS (dropout), a fraction `p` of the elements becomes 0, and the others are
// scaled by `scale`. A block has ACROSS x DOWN threads, each with one pack of columns; it goes down `share` rows of a
// strip.
// Above: AHEAD, the rows in flight per thread.

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

struct Kept { bool at[V]; };                                // which elements of a pack are kept

__device__ Kept kept(long long first, unsigned long long seed, float p) {
    Kept res;
    #pragma unroll
    for (int v = 0; v < V; v += 4) {
        uint4 bits = philox(seed, (first + v) / 4);
        unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
        #pragma unroll
        for (int w = 0; w < 4 && v + w < V; w++) {
            unsigned word = words[w];
            if constexpr (V < 4) {                          // a pack may begin at any of the words, and cross no four
                int at = (first + w) % 4;
                word = at == 0 ? bits.x : at == 1 ? bits.y : at == 2 ? bits.z : bits.w;
            }
            res.at[v + w] = (word >> 8) * 0x1p-24f >= p;    // 24 bits as a value from 0 to 1
        }
    }
    return res;
}

// Goes down the rows: read(a, i) for some, then work(a, i) for these; i: which pack of the array
template<class Read, class Work>
__device__ void down_the_rows(long long rows, int packs, int share, int column, Read read, Work work) {
    const long long top = blockIdx.x / ((packs + ACROSS - 1) / ACROSS) * (long long)share, end = min(rows, top + share);
    if (column >= packs) return;
    for (long long r = top + threadIdx.x / ACROSS; r < end; r += AHEAD * DOWN) {
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
bias_gelu_forward(const From *x, const From *bias, From *y, long long rows, int packs, int share, long long seed,
                  float p, Sum scale) {
    const int column = column_of_thread(packs);
    Pack held[AHEAD], b;
    if (column < packs) b = ((const Pack *)bias)[column];
    down_the_rows(rows, packs, share, column, [&](int a, long long i) { held[a] = ((const Pack *)x)[i]; },
    [&](int a, long long i) {
        Kept here;
        if constexpr (DROPS) here = kept(i * V, seed, p);
        Pack pack;
        #pragma unroll
        for (int v = 0; v < V; v++) {
            Sum res = gelu(Sum(held[a].at[v]) + Sum(b.at[v]));
            if constexpr (DROPS) res = here.at[v] ? res * scale : Sum(0);
            pack.at[v] = From(res);
        }
        store((Pack *)y + i, pack);
    });
}

// dx, and per `share` rows the column sums, which are partial sums of the bias's gradient
__global__ void __launch_bounds__(ACROSS * DOWN)
bias_gelu_backward(const From *x, const From *bias, const From *dy, From *dx, Sum *parts, long long rows, int packs,
                   int share, long long seed, float p, Sum scale) {
    __shared__ Sum sums[DOWN][ACROSS * V];
    const int column = column_of_thread(packs);
    Pack held[AHEAD], grads[AHEAD], b;
    Sum sum[V] = {};
    if (column < packs) b = ((const Pack *)bias)[column];
    down_the_rows(rows, packs, share, column, [&](int a, long long i) {
        held[a] = ((const Pack *)x)[i];
        grads[a] = ((const Pack *)dy)[i];
    }, [&](int a, long long i) {
        Kept here;
        if constexpr (DROPS) here = kept(i * V, seed, p);
        Pack pack;
        #pragma unroll
        for (int v = 0; v < V; v++) {
            Sum res = Sum(grads[a].at[v]) * gelu_grad(Sum(held[a].at[v]) + Sum(b.at[v]));
            if constexpr (DROPS) res = here.at[v] ? res * scale : Sum(0);
            pack.at[v] = From(res);
            sum[v] += res;
        }
        store((Pack *)dx + i, pack);
    });
    const int across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
    #pragma unroll
    // those of one v next to each other: no bank conflicts
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
