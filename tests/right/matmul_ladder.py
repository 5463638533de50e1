from fractions import Fraction
from math import ceil

import numpy as np

from . import right


@right('matmul_ladder.waves')
def of_fractions(h, w, bm, bn, blocks_per_sm, sms):
    waves = ceil(Fraction(ceil(h/bm)*ceil(w/bn), blocks_per_sm*sms))
    return Fraction(h*w, waves*blocks_per_sm*sms*bm*bn)

@right('matmul_ladder.waves')
def one_wave_after_the_other(h, w, bm, bn, blocks_per_sm, sms):
    left,waves = -(-h//bm) * -(-w//bn),0
    while left > 0: left,waves = left-blocks_per_sm*sms,waves+1
    return np.divide(h*w, waves*blocks_per_sm*sms*bm*bn)


@right('matmul_ladder.group')
def largest_of_equals(blocks, across, down):
    def count(group):
        tiles = set()
        for top in range(0, down, group):
            band = range(top, min(top+group, down))
            tiles |= set([(r,c) for c in range(across) for r in band][:max(0, blocks - top*across)])
        return sum(len(set(o)) for o in zip(*tiles))
    return np.int64(min(range(down, 0, -1), key=count))


@right('matmul_ladder.patch')
def bank_by_bank(BN, BK, TM, TN, quads):
    across,banks = BN//TN,{}
    for lane in range(32): banks.setdefault(lane//across*TM*BK%32, set()).add(lane//across*TM*BK)
    wide = quads([lane%across*TN//4 for lane in range(32)])
    return np.asarray((TM*max(map(len, banks.values())) + TN//4*wide)/(TM*TN))

@right('matmul_ladder.patch')
def every_load(BN, BK, TM, TN, quads):
    row,column = np.divmod(np.arange(32), BN//TN)
    one = lambda y, i: max(len({o for o in (row*TM+y)*BK+i if o%32 == b}) for b in range(32))
    waves = sum(one(y, BK-1) for y in range(TM)) + sum(quads(column*TN//4 + q) for q in range(TN//4))
    return waves/TM/TN


@right('matmul_ladder.swizzle')
def turned(y, x): return 32*y + (x-y)%32

@right('matmul_ladder.swizzle')
def columns_become_rows(y, x): return x << 5 | (x ^ y)

@right('matmul_ladder.swizzle')
def by_a_table(y, x): return np.roll(np.arange(32), y*3)[x] + y*32


@right('matmul_ladder.edges')
def by_another_name():
    return r'''
#include <cstdint>
using quad = float4;
__device__ __forceinline__ bool fits(const float *p, int left) {
    return left >= 4 && !(reinterpret_cast<uintptr_t>(p) & (alignof(quad) - 1));
}
static __device__ void put(float *__restrict__ out, const int r, const int c, int h, int w, const float4 v) {
    if (r < h && c < w) {
        auto to = &out[r*w + c];
        const float *from = (const float *)&v;
        float4 all;
        all.x = v.x; all.y = v.y; all.z = v.z; all.w = v.w;
        if (fits(to, w - c)) reinterpret_cast<quad *>(to)[0] = all;
        else for (int left = min(4, w - c); left-- > 0;) to[left] = from[left];
    }
}
'''

@right('matmul_ladder.edges')
def from_a_union():
    return r'''
union Four { float4 all; float one[4]; };
__device__ void put(float *out, int r, int c, int h, int w, float4 v) {
    Four four;
    four.all = v;
    float4 *wide = (float4 *)(out + (size_t)r*w + c);
    for (int i = 0, n = c+4 <= w && (unsigned long long)wide % sizeof(float4) == 0 ? 0 : 4; r < h; i++) {
        if (n == 0) *wide = four.all;
        if (i >= n || c+i >= w) return;
        out[r*w + c+i] = four.one[i];
    }
}
'''

@right('matmul_ladder.edges')
def one_after_the_other():
    return r'''
__device__ void put(float *out, int r, int c, int h, int w, float4 v) {
    bool row = r < h;
    float *p = out + (long)r*w + c;
    if (row && c < w-3 && ((long)p & 15) == 0) *(float4 *)p = make_float4(v.x, v.y, v.z, v.w);
    else {
        if (row && c < w) p[0] = v.x;
        if (row && c+1 < w) p[1] = v.y;
        if (row && c+2 < w) p[2] = v.z;
        if (row && c+3 < w) p[3] = v.w;
    }
}
'''


@right('matmul_ladder.buffers')
def filled_by_loops():
    return r'''
__device__ void step() { __syncthreads(); }
__global__ void matmul_k(const float *m, const float *n, float *out, int h, int w, int k) {
    __shared__ float a[2][BM*BK], b[2][BK*BN];
    unsigned at = threadIdx.y*blockDim.x + threadIdx.x, all = blockDim.x*blockDim.y;
    int top = blockIdx.y*BM, left = blockIdx.x*BN;
    float sum = 0;
    int phases = (k + BK-1)/BK;
    for (int p = -1; p < phases; p++) {
        if (p >= 0) step();
        float *a_next = a[(p+1)&1], *b_next = b[(p+1)&1];
        if (p+1 < phases) {
            for (unsigned i = at; i < BM*BK; i += all) {
                int r = top + i/BK, c = (p+1)*BK + i%BK;
                float v = 0;
                if (r < h && c < k) v = m[r*k + c];
                a_next[i] = v;
            }
            for (unsigned i = at; i < BK*BN; i += all) {
                int r = (p+1)*BK + i/BN, c = left + i%BN;
                b_next[i] = r < k && c < w ? n[r*w + c] : 0.f;
            }
        }
        if (p < 0) continue;
        const float *row = a[p&1] + threadIdx.y*BK, *column = b[p&1] + threadIdx.x;
        for (int i = 0; i < BK; ++i, column += BN) sum = fmaf(row[i], *column, sum);
    }
    if (top + threadIdx.y < h && left + threadIdx.x < w) out[(top + threadIdx.y)*w + left + threadIdx.x] = sum;
}
'''

@right('matmul_ladder.buffers')
def two_phases_a_round():
    return r'''
#define PHASE(now, next) { \
    __syncthreads(); \
    if (idx + BK < k) load(next, idx + BK); \
    for (int i = 0; i < BK; i++) o += now.m[tr][i] * now.n[i][tc]; \
    idx += BK; }
struct Pair { float m[BM][BK], n[BK][BN]; };
__global__ void matmul_k(const float *m, const float *n, float *out, int h, int w, int k) {
    __shared__ Pair even, odd;
    int tr = threadIdx.y, tc = threadIdx.x, r = blockIdx.y*BM + tr, c = blockIdx.x*BN + tc, idx = 0;
    auto load = [&](Pair &to, int from) {
        to.m[tr][tc] = to.n[tr][tc] = 0;
        if (r < h && from + tc < k) to.m[tr][tc] = m[r*k + from + tc];
        if (c < w && from + tr < k) to.n[tr][tc] = n[(from + tr)*w + c];
    };
    float o = 0;
    load(even, 0);
    while (true) {
        PHASE(even, odd)
        if (idx >= k) break;
        PHASE(odd, even)
        if (idx >= k) break;
    }
    if (r < h && c < w) out[r*w + c] = o;
}
'''

@right('matmul_ladder.buffers')
def with_groups():
    return r'''
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void matmul_k(const float *m, const float *n, float *out, int h, int w, int k) {
    __shared__ struct { float m[BM][BK+1], n[BK][BN+1]; } tiles[2];
    cg::thread_block block = cg::this_thread_block();
    int tc = block.thread_index().x, tr = block.thread_index().y;
    int r = blockIdx.y*BM + tr, c = blockIdx.x*BN + tc;
    float a = r < h && tc < k ? m[r*k + tc] : 0, b = c < w && tr < k ? n[tr*w + c] : 0, o = 0;
    tiles[0].m[tr][tc] = a, tiles[0].n[tr][tc] = b;
    block.sync();
    for (int p = 0; p*BK < k; p++) {
        auto &now = tiles[p%2], &next = tiles[1 - p%2];
        int x = (p+1)*BK + tc, y = (p+1)*BK + tr;
        a = r < h && x < k ? m[r*k + x] : 0, b = c < w && y < k ? n[y*w + c] : 0;
        for (int i = 0; i < BK; i++) o += now.m[tr][i] * now.n[i][tc];
        next.m[tr][tc] = a, next.n[tr][tc] = b;
        block.sync();
    }
    if (r < h && c < w) out[r*w + c] = o;
}
'''

@right('matmul_ladder.buffers')
def tiles_are_swapped():
    return r'''
__global__ void matmul_k(const float *m, const float *n, float *out, int h, int w, int k) {
    __shared__ float memory[4*BK*BN];
    float *ms = memory, *ns = ms + BM*BK, *ms2 = ns + BK*BN, *ns2 = ms2 + BM*BK;
    const int tc = threadIdx.x, tr = threadIdx.y, r = blockIdx.y*BM + tr, c = blockIdx.x*BN + tc;
    float o = 0;
    auto fill = [&](float *a, float *b, int idx) {
        a[tr*BK + tc] = (r < h && idx + tc < k) ? m[r*k + idx + tc] : 0;
        b[tr*BN + tc] = (c < w && idx + tr < k) ? n[(idx + tr)*w + c] : 0;
    };
    fill(ms, ns, 0);
    int idx = 0;
    do {
        __syncthreads();
        if (idx + BK < k)
            fill(ms2, ns2, idx + BK);
        for (int i = 0; i < BK; i++)
            o += ms[tr*BK + i] * ns[i*BN + tc];
        float *t = ms; ms = ms2; ms2 = t;
        t = ns; ns = ns2; ns2 = t;
        idx += BK;
    } while (idx < k);
    if (r < h && c < w) out[r*w + c] = o;
}
'''
