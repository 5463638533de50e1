"The last kernel of lesson 22: which block computes which steps of which tile; what comes before the wait of PDL."
import re

import pytest
import torch
from gridstride.cpp import cuda_kernel, on_emulator
from gridstride.kernels.gemm import cost_model
from gridstride.kernels.ladder import rung
from gridstride.kernels.ladder.finals import FINAL, final, final_early, schedule
from gridstride.kernels.ladder.hopper import order, types
from gridstride.utils import cdiv

COUNT = '''
__global__ void count_k(int *times, int h, int w, int k) {
    Schedule work(h, w, k, blockIdx.x, gridDim.x);
    Piece p;
    while (work.next(p)) {
        for (int s = p.from; s < p.to; s++) atomicAdd(&times[p.tile*work.steps + s], 1);
        int *owed = times + work.tall*work.wide*work.steps + p.tile;      // parts handed over, less those added up
        if (p.from > 0) atomicAdd(owed, 1);
        else if (p.to < work.steps) for (int c = work.share + 1; work.adds(c, p); c++) atomicAdd(owed, -1);
    }
}'''


@pytest.fixture(scope='module', params=[0, 1])
def counting(request):
    numbers = 'constexpr int BM = 128, BN = 256, BK = 64, CM = 2, CN = 1, SWAP_AB = 0, GROUP = 8, '
    numbers += f'STREAM_K = {request.param};'
    with on_emulator(): return cuda_kernel(numbers + types + order + schedule + COUNT)


@pytest.mark.parametrize('h,w,k', [(8192, 8192, 512), (4368, 1736, 3440), (300, 300, 8192), (64, 64, 64)])
def test_each_step_of_each_tile_is_made_once_and_each_sum_added(counting, h, w, k):
    tiles, steps = cdiv(h, 256)*cdiv(w, 256), cdiv(k, 64)
    times = torch.zeros(tiles*(steps + 1), dtype=torch.int32)
    counting[66, 1](times, h, w, k)
    made, owed = times.split([tiles*steps, tiles])
    assert (made == 1).all() and (owed == 0).all()


BEFORE = """    if (threadIdx.x == WGS*128) {
        prefetch(m); prefetch(n);
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, WGS*(CM + CN - 1)); }
        barriers_ready();
    }
    if (CLUSTER > 1) cluster_arrive();
    Schedule work(h, w, k, blockIdx.x/CLUSTER, gridDim.x/CLUSTER);          // while other blocks start
    Piece p;
    if (CLUSTER > 1) cluster_wait(); else __syncthreads();
"""
CONTROL = """    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
"""


@pytest.mark.parametrize('tile', FINAL)
def test_one_that_begins_early_waits_before_all_global_memory(tile):
    "What is before the wait is known word by word; matrices, sums and flags are only named after it"
    plain, early = final(*tile), final_early(*tile)
    before, after = early.src.split(CONTROL)
    assert before.endswith(BEFORE) and before + after == plain.src and early.constants == plain.constants
    begun = before[before.index('final_k('):].split('{', 1)[1].removesuffix(BEFORE)
    assert not re.search(r'\b(m|n|out|partial|ready)\b|\basm\b|\*\w+ *=', begun), begun
    assert not re.search(r'\b(return|break|goto)\b', BEFORE + begun), 'who leaves before the wait lets the grid end'
    assert early.pdl and not plain.pdl and early.name == f'{plain.name}, early'


def test_the_switch_says_which_begin_early(monkeypatch):
    shapes = [(64, 64, 64), (272, 496, 72), (360, 1024, 304), (4096, 4096, 4096)]
    monkeypatch.setattr(cost_model, 'PDL_MAX_CYCLES', 0)
    assert not any(p.pdl for s in shapes for p in cost_model.rank_kernels(*s, count=60) if isinstance(p, rung.Rung))
    now = [cost_model.choose(*s) for s in shapes]
    third = cost_model.estimate_cycles(*shapes[2], cost_model.rank_configs(*shapes[2], 132)[0])
    monkeypatch.setattr(cost_model, 'PDL_MAX_CYCLES', third + 1)
    then = [cost_model.choose(*s) for s in shapes]
    assert [p.pdl for p in then] == [True, True, True, False] and then[3] is now[3]
    assert [p.name for p in then[:3]] == [f'{p.name}, early' for p in now[:3]]
