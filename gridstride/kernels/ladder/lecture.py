"""The kernels of lesson 06 as the first steps of lesson 16's ladder: `NAIVE`, `DYNAMIC`, `STATIC`, `STATIC32`.

Their inner loops compile to the same instructions as in lesson 06: in `DYNAMIC` the width of a tile is known only at
run time, in `STATIC` and `STATIC32` it is a constant.
"""

from .rung import Rung

naive_src = r'''
__global__ void matmul_naive_k(const float *m, const float *n, float *out, int h, int w, int k) {
    int r = blockIdx.y*blockDim.y + threadIdx.y, c = blockIdx.x*blockDim.x + threadIdx.x;
    if (r >= h || c >= w) return;
    float o = 0;
    for (int i = 0; i < k; i++) o += m[r*k + i] * n[i*w + c];
    out[r*w + c] = o;
}
'''

tiled_src = r'''
__global__ void matmul_dynamic_k(const float *m, const float *n, float *out, int h, int w, int k) {
    extern __shared__ float shared[];
    int tw = blockDim.x, tc = threadIdx.x, tr = threadIdx.y;
    float *ms = shared, *ns = shared + tw*tw;
    int r = blockIdx.y*tw + tr, c = blockIdx.x*tw + tc;
    float o = 0;
    for (int ph = 0; ph < (k+tw-1)/tw; ph++) {
        int idx = ph*tw;
        ms[tr*tw + tc] = r < h && idx+tc < k ? m[r*k + idx+tc] : 0;
        ns[tr*tw + tc] = c < w && idx+tr < k ? n[(idx+tr)*w + c] : 0;
        __syncthreads();
        for (int i = 0; i < tw; i++) o += ms[tr*tw + i] * ns[i*tw + tc];
        __syncthreads();
    }
    if (r < h && c < w) out[r*w + c] = o;
}
'''

static_src = r'''
__global__ void matmul_static_k(const float *m, const float *n, float *out, int h, int w, int k) {
    __shared__ float ms[BM][BK], ns[BK][BN];
    int tc = threadIdx.x, tr = threadIdx.y;
    int r = blockIdx.y*BM + tr, c = blockIdx.x*BN + tc;
    float o = 0;
    for (int ph = 0; ph < (k+BK-1)/BK; ph++) {
        int idx = ph*BK;
        ms[tr][tc] = r < h && idx+tc < k ? m[r*k + idx+tc] : 0;
        ns[tr][tc] = c < w && idx+tr < k ? n[(idx+tr)*w + c] : 0;
        __syncthreads();
        for (int i = 0; i < BK; i++) o += ms[tr][i] * ns[i][tc];
        __syncthreads();
    }
    if (r < h && c < w) out[r*w + c] = o;
}
'''


def _one_thread_per_element(BM, BN):
    "Return the size of a block (x, y): one thread per element of a tile"
    return BN, BM


NAIVE = Rung('naive', naive_src, threads=_one_thread_per_element, BM=16, BN=16)
DYNAMIC = Rung('dynamic', tiled_src, threads=_one_thread_per_element, shared=lambda BM, BN: 8 * BM * BN, BM=16, BN=16)
STATIC = Rung('static 16', static_src, threads=_one_thread_per_element, BM=16, BN=16, BK=16)
STATIC32 = Rung('static 32', static_src, threads=_one_thread_per_element, BM=32, BN=32, BK=32)
