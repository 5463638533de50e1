"Tensor maps made by host code in C++, and copies by the names of libcu++, on the emulator."
import pytest
import torch

from gridstride import cpp
from gridstride.cpp import load_cuda
from gridstride.diagnostics.errors import *
from found import finding

# Tiles of 8 x 32 elements come in by TMA, are doubled by threads, and go out by TMA.
TILES = '''#include <cuda.h>
#include <cuda/barrier>
#include <torch/extension.h>
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace cde = cuda::device::experimental;

__global__ void doubled(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap out) {
    __shared__ alignas(128) float tile[8][32];
    __shared__ barrier come;
    int r = blockIdx.y*8, c = blockIdx.x*32;
    if (threadIdx.x == 0) { init(&come, blockDim.x); FENCE_INIT }
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_tensor_2d_global_to_shared(tile, &x, c, r, come);
        token = cuda::device::barrier_arrive_tx(come, 1, BYTES);
    } else token = come.arrive();
    WAIT
    for (int i = threadIdx.x; i < 8*32; i += blockDim.x) tile[i/32][i%32] *= 2;
    FENCE
    __syncthreads();
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_tensor_2d_shared_to_global(&out, c, r, tile);
        cde::cp_async_bulk_commit_group();
        LAST
    }
}

CUtensorMap map_of(torch::Tensor x) {
    CUtensorMap map;
    uint64_t sizes[] = {uint64_t(x.size(1)), uint64_t(x.size(0))}, steps[] = {uint64_t(x.size(1)*4)};
    uint32_t box[] = {32, 8}, every[] = {1, 1};
    CUresult error = cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, x.data_ptr(), sizes, steps, box,
                                            every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                            CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    const char *text;
    cuGetErrorString(error, &text);
    TORCH_CHECK(error == CUDA_SUCCESS, text);
    return map;
}
torch::Tensor twice(torch::Tensor x) {
    auto out = torch::full_like(x, -1);
    doubled<<<dim3((x.size(1)+31)/32, (x.size(0)+7)/8), 64>>>(map_of(x), map_of(out));
    return out;
}
'''
PARTS = dict(FENCE_INIT='cde::fence_proxy_async_shared_cta();', BYTES='sizeof tile',
             WAIT='come.wait(std::move(token));', FENCE='cde::fence_proxy_async_shared_cta();',
             LAST='cde::cp_async_bulk_wait_group_read<0>();')

def twice(x, **changed):
    text = TILES
    for k,v in {**PARTS, **changed}.items():
        text = text.replace(f' {k} ', f' {v} ').replace(f' {k}\n', f' {v}\n').replace(f' {k})', f' {v})')
    return load_cuda(text, funcs='twice').twice(x)

@pytest.mark.parametrize('shape', [(8, 32), (16, 64), (13, 36), (1, 4)])
def test_tiles_come_and_go(shape):
    x = torch.randn(shape)
    for order in 'forward','reverse','shuffle':
        with cpp.options(order=order): assert twice(x).equal(2*x)

def line_of(text): return 1 + TILES[:TILES.index(text)].count('\n')

@pytest.mark.parametrize('changed,want,line', [
    (dict(FENCE=''), 'fencecheck no_proxy_fence', 'cp_async_bulk_tensor_2d_shared_to_global'),
    (dict(FENCE_INIT=''), 'fencecheck barrier_not_visible', 'cp_async_bulk_tensor_2d_global_to_shared'),
    (dict(LAST=''), 'racecheck store_not_awaited', 'cp_async_bulk_tensor_2d_shared_to_global'),
    (dict(BYTES='2*sizeof tile'), 'synccheck deadlock missing_bytes', 'WAIT'),
    (dict(BYTES='sizeof tile/2'), 'synccheck deadlock surplus_bytes', 'WAIT')])
def test_what_is_left_out_is_found(changed, want, line):
    for order in 'forward','reverse','shuffle':
        with cpp.options(order=order), finding(want) as e: twice(torch.randn(8, 32), **changed)
        assert e.value.line == line_of(line)

def test_a_tile_that_is_not_waited_for_is_found():
    for order in 'forward','reverse','shuffle':                  # which of the two comes first depends on the order
        with cpp.options(order=order), pytest.raises(RacecheckError, match='bulk copy') as e:
            twice(torch.randn(8, 32), WAIT='')
        assert {e.value.line, e.value.other.line} == {line_of('cp_async_bulk_tensor_2d_global'),
                                                      line_of('tile[i/32][i%32] *= 2')}

def test_an_array_that_no_map_can_have():
    with pytest.raises(RuntimeError, match='invalid argument'): twice(torch.randn(8, 33))    # rows of 132 bytes

@pytest.mark.slow
def test_a_templates_clusters_depend_on_its_arguments():
    src = '''#include <torch/extension.h>
    template <int N> __global__ void __cluster_dims__(N, 1, 1) ranks(int *out) {
        int rank, size;
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
        out[blockIdx.x] = 10*size + rank;
    }
    void two(torch::Tensor out) { ranks<2><<<4, 1>>>(out.data_ptr<int>()); }
    void four(torch::Tensor out) { ranks<4><<<4, 1>>>(out.data_ptr<int>()); }
    void one(torch::Tensor out) { ranks<1><<<4, 1>>>(out.data_ptr<int>()); }
    void three(torch::Tensor out) { ranks<3><<<4, 1>>>(out.data_ptr<int>()); }
    '''
    for checks in (True, False):
        m,out = load_cuda(src, checks=checks),torch.zeros(4, dtype=torch.int32)
        for f,want in ((m.two, [20,21,20,21]), (m.four, [40,41,42,43]), (m.one, [10]*4), (m.two, [20,21,20,21])):
            f(out)
            assert out.tolist() == want
        with finding('launch cluster_size', cluster=(3, 1, 1)): m.three(out)
