"Clusters of blocks by cooperative groups on the emulator; what PTX says of them is in test_cpp_hopper.py."
import pytest
import torch

from gridstride.cpp import cuda_kernel
from gridstride.diagnostics.errors import *
from found import finding

TOTAL = '''#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void __cluster_dims__(2, 2) total(const int *x, int *out) {
    __shared__ int own;
    auto cluster = cg::this_cluster();
    if (threadIdx.x == 0) own = 0;
    __syncthreads();
    atomicAdd(&own, x[(blockIdx.y*gridDim.x + blockIdx.x)*blockDim.x + threadIdx.x]);
    FIRST
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < cluster.num_blocks(); i++) sum += *cluster.map_shared_rank(&own, i);
        out[blockIdx.y*gridDim.x + blockIdx.x] = sum;
    }
    LAST
}
'''
SYNC = 'cluster.sync();'

def total(first=SYNC, last=SYNC, grid=(4,4), **more):
    x,out = torch.arange(4*4*64, dtype=torch.int32),torch.full((4,4), -1, dtype=torch.int32)
    cuda_kernel(TOTAL.replace('FIRST', first).replace('LAST', last), **more)[grid,64](x, out)
    want = x.view(2, 2, 2, 2, 64).sum((1, 3, 4), dtype=torch.int32)
    return out.equal(want.repeat_interleave(2, 0).repeat_interleave(2, 1))

@pytest.mark.slow
def test_blocks_read_each_others_shared_memory(order):
    assert total() and total(checks=False)
    assert total('cluster.barrier_arrive(); cluster.barrier_wait();')

def test_reading_before_the_others_are_ready_is_a_race(order):
    "Of blocks that have begun, as far as the emulator ran them; of others it is not known whether they have"
    with pytest.raises(RacecheckError) as e: total(first='')
    assert e.value.code in ('race_of_cluster', 'block_not_begun') and 'cluster.sync()' in str(e.value)
    if e.value.code == 'block_not_begun': assert e.value.line == 12
    else: assert 12 in (e.value.line, e.value.other.line) and e.value.block != e.value.other.block
    assert total()               # and leaves nothing allocated

PUSH = '''#include <cooperative_groups.h>
__global__ void __cluster_dims__(4) push(int *out) {
    __shared__ int parts[4];
    auto cluster = cooperative_groups::this_cluster();
    FIRST
    if (threadIdx.x == 0) *cluster.map_shared_rank(&parts[cluster.block_rank()], 0) = threadIdx.x + 1;
    SECOND
    if (cluster.block_rank() == 0 && threadIdx.x == 0) *out = parts[0] + parts[1] + parts[2] + parts[3];
    LAST
}
'''

def push(first=SYNC, second=SYNC, last=SYNC):
    out = torch.zeros(1, dtype=torch.int32)
    cuda_kernel(PUSH.replace('FIRST', first).replace('SECOND', second).replace('LAST', last))[4,64](out)
    return int(out)

def test_writing_to_a_block_that_may_not_have_begun(order):
    assert push() == 4
    assert push('if (threadIdx.x == 0) cluster.barrier_arrive(), cluster.barrier_wait(); '
                'else cluster.barrier_arrive(), cluster.barrier_wait(); __syncthreads();') == 4
    with finding('racecheck block_not_begun') as e: push(first='')
    assert e.value.line == 6 and e.value.block != (0,0,0)

def test_reading_what_others_bring_needs_a_barrier_of_the_cluster(order):
    with finding('racecheck race_of_cluster') as e: push(second='')
    assert {e.value.line, e.value.other.line} == {6, 8}

def test_leaving_while_others_read_is_found(order):
    with finding('memcheck block_may_end|memcheck block_ended') as e: total(last='')
    assert e.value.line == 12

def test_a_grid_has_whole_clusters():
    with finding('launch cluster_size', grid=(3,4,1), cluster=(2,2,1)): total(grid=(3,4))

def test_a_rank_that_does_not_exist():
    with finding('memcheck no_block', block_rank=4, blocks=4):
        cuda_kernel(TOTAL.replace('FIRST', SYNC).replace('LAST', SYNC).replace('&own, i)', '&own, i+1)'))[(4,4),64](
            torch.zeros(1024, dtype=torch.int32), torch.zeros(16, dtype=torch.int32))

def test_sizes_and_ranks_of_groups():
    src = '''#include <cooperative_groups.h>
    __global__ void __cluster_dims__(2, 1) numbers(int *out) {
        auto c = cooperative_groups::this_cluster();
        int *mine = out + 6*(blockIdx.x*blockDim.x + threadIdx.x);
        mine[0] = c.block_rank(); mine[1] = c.num_blocks(); mine[2] = c.thread_rank(); mine[3] = c.size();
        mine[4] = c.block_index().x; mine[5] = c.dim_blocks().x;
    }'''
    out = torch.zeros(4*32, 6, dtype=torch.int32)
    cuda_kernel(src)[4,32](out)
    thread = torch.arange(4*32)
    block = thread//32
    assert out.equal(torch.stack([block%2, torch.full_like(block, 2), thread%64, torch.full_like(block, 64), block%2,
                                  torch.full_like(block, 2)], 1).int())
