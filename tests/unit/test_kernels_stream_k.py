"The last kernel of lesson 25: which block computes which steps of which tile."
import pytest
import torch
from gridstride.cpp import cuda_kernel, on_emulator
from gridstride.kernels.ladder.stream_k import schedule_src
from gridstride.kernels.ladder.hopper import tile_order_src, types_src
from gridstride.utils import cdiv

COUNT = '''
__global__ void count_k(int *times, int h, int w, int k) {
    Schedule work(h, w, k, blockIdx.x, gridDim.x);
    Piece p;
    while (work.next(p)) {
        for (int s = p.from; s < p.to; s++) atomicAdd(&times[p.tile*work.steps + s], 1);
        int *owed = times + work.tile_rows*work.tile_cols*work.steps + p.tile; // partial sums stored, less those added
        if (p.from > 0) atomicAdd(owed, 1);
        else if (p.to < work.steps) for (int c = work.part + 1; work.contributes(c, p); c++) atomicAdd(owed, -1);
    }
}'''


@pytest.fixture(scope='module', params=[0, 1])
def counting(request):
    numbers = 'constexpr int BM = 128, BN = 256, BK = 64, CM = 2, CN = 1, SWAP_AB = 0, GROUP = 8, '
    numbers += f'STREAM_K = {request.param};'
    with on_emulator(): return cuda_kernel(numbers + types_src + tile_order_src + schedule_src + COUNT)


@pytest.mark.parametrize('h,w,k', [(8192, 8192, 512), (4368, 1736, 3440), (300, 300, 8192), (64, 64, 64)])
def test_each_step_of_each_tile_is_made_once_and_each_sum_added(counting, h, w, k):
    tiles, steps = cdiv(h, 256)*cdiv(w, 256), cdiv(k, 64)
    times = torch.zeros(tiles*(steps + 1), dtype=torch.int32)
    counting[66, 1](times, h, w, k)
    made, owed = times.split([tiles*steps, tiles])
    assert (made == 1).all() and (owed == 0).all()
