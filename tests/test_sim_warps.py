"Warps of 64 lanes, as AMD's wavefronts are: `sim.options(warp=64)`."
import numpy as np
import pytest

from found import names
from gridstride import cpp, cuda_kernel, sim
from gridstride.support.memory_transactions import wavefronts
from gridstride.sim import cuda

WIDTHS = 32, 64
SIZES = 1, 31, 32, 33, 63, 64, 65, 100, 256  # of a block: around both widths, the last warp partly empty


@pytest.fixture(params=WIDTHS)
def warp(request):
    with sim.options(warp=request.param): yield request.param


def warps_of(x, warp): return [x[i:i+warp] for i in range(0, len(x), warp)]


def mask(lanes): return sum(1 << int(i) for i in lanes)


@cuda.jit
def _where(size, lane, number):
    t = cuda.threadIdx.x
    size[t],lane[t],number[t] = cuda.warpsize,cuda.laneid,t//cuda.warpsize


@pytest.mark.parametrize('n', SIZES)
def test_warpsize_and_lanes(warp, n):
    got = np.full((3,n), -1)
    _where[1,n](*got)
    t = np.arange(n)
    np.testing.assert_array_equal(got, [np.full(n, warp), t%warp, t//warp])


def test_the_host_reads_the_width():
    assert cuda.warpsize == cuda.get_current_device().WARP_SIZE == 32
    with sim.options(warp=64): assert cuda.warpsize == cuda.get_current_device().WARP_SIZE == 64
    assert cuda.warpsize == 32 and 'warpsize' in cuda.__all__


@cuda.jit
def _votes(x, ballot, active, below, same, of_all, flags):
    t = cuda.threadIdx.x
    ballot[t] = cuda.ballot_sync(-1, x[t] > 1)
    flags[0,t],flags[1,t] = cuda.all_sync(-1, x[t] < 3),cuda.any_sync(-1, x[t] > 2)
    same[t] = cuda.match_any_sync(-1, x[t])
    of_all[t],flags[2,t] = cuda.match_all_sync(-1, x[t])
    below[t] = cuda.lanemask_lt()
    if t%3: active[t] = cuda.activemask()


@pytest.mark.parametrize('n', SIZES)
def test_votes(warp, n):
    x = np.random.default_rng(n).integers(0, 4, n)
    x[64:128] = 2 # one warp that agrees, of either width
    ballot,active,below,same,of_all = (np.zeros(n, np.uint64) for _ in range(5))
    flags = np.full((3,n), -1)
    _votes[1,n](x, ballot, active, below, same, of_all, flags)
    for t in range(n):
        lanes = x[t//warp*warp:][:warp]
        agree = len(set(lanes)) == 1
        want = dict(ballot=mask(np.flatnonzero(lanes > 1)), below=mask(range(t%warp)),
                    same=mask(np.flatnonzero(lanes == x[t])), of_all=mask(range(len(lanes)))*agree,
                    active=mask(i for i in range(len(lanes)) if (t//warp*warp+i)%3) if t%3 else 0)
        got = dict(ballot=ballot[t], below=below[t], same=same[t], of_all=of_all[t], active=active[t])
        assert {k: int(v) for k,v in got.items()} == want, t
        assert flags[:,t].tolist() == [(lanes < 3).all(), (lanes > 2).any(), agree], t


@cuda.jit
def _shuffles(x, down, up, xor, at, part):
    t = cuda.threadIdx.x
    down[t],up[t] = cuda.shfl_down_sync(-1, x[t], 16),cuda.shfl_up_sync(-1, x[t], 3)
    xor[t],at[t] = cuda.shfl_xor_sync(-1, x[t], cuda.warpsize//2),cuda.shfl_sync(-1, x[t], cuda.warpsize-1)
    part[t] = cuda.shfl_down_sync(-1, x[t], 5, 16)


def test_shuffles(warp):
    n = 192
    x,t = np.random.default_rng(0).normal(size=n),np.arange(n)
    got = np.full((5,n), np.nan)
    _shuffles[1,n](x, *got)
    lane = t%warp
    sources = (np.where(lane+16 < warp, t+16, t), np.where(lane >= 3, t-3, t), t^warp//2, t-lane+warp-1,
               np.where(t%16+5 < 16, t+5, t))
    np.testing.assert_array_equal(got, [x[o] for o in sources])


@cuda.jit
def _bits(x, count, leading, first):
    t = cuda.threadIdx.x
    m = cuda.ballot_sync(-1, x[t] > 0)
    count[t],leading[t],first[t] = cuda.popc(m),cuda.clz(m),cuda.ffs(m)


def test_bits_of_a_wide_ballot():
    x = np.random.default_rng(1).normal(size=128)
    x[63],x[64:120] = 1,-1 # the highest bit in the first wavefront; none of the lower ones in the second
    got = np.full((3,128), -1)
    with sim.options(warp=64): _bits[1,128](x, *got)
    for w,lanes in enumerate(warps_of(x > 0, 64)):
        at = np.flatnonzero(lanes)
        assert (got[:,w*64:][:,:64].T == [len(at), 63-at.max(), at.min()+1]).all()


@cuda.jit
def _named(x): x[cuda.threadIdx.x] = cuda.ballot_sync(0xffffffff, True)


def test_a_mask_of_32_lanes_does_not_name_the_others():
    _named[1,64](np.zeros(64))
    with sim.options(warp=64):
        _named[1,32](np.zeros(32)) # all that are there
        with pytest.raises(sim.SynccheckError) as e:
            _named[1,64](np.zeros(64))
    assert names(str(e.value), '0xffffffff', '0xffffffffffffffff')
    assert e.value.code == 'thread_not_in_mask' and e.value.thread == (32,0,0)


@cuda.jit
def _mirrored(x):
    s,t = cuda.shared.array(64, np.float64),cuda.threadIdx.x
    s[t] = t
    cuda.syncwarp()
    x[t] = s[63-t]


def test_syncwarp_orders_as_many_as_a_warp_has():
    x = np.full(64, np.nan)
    with sim.options(warp=64): _mirrored[1,64](x)
    np.testing.assert_array_equal(x, np.arange(64)[::-1])
    with pytest.raises(sim.RacecheckError): _mirrored[1,64](x)


# Threads write, their wavefront meets, lane 0 publishes: thread `reader` of the other wavefront reads all of it.
@cuda.jit
def _published(data, flag, out, writers):
    t = cuda.threadIdx.x
    if t < 64:
        if t < writers: data[t] = t+1.
        cuda.syncwarp()
        if t == 0:
            cuda.threadfence()
            cuda.atomic.exch(flag, 0, 1)
    cuda.syncwarp()
    if t == 64:
        while cuda.atomic.cas(flag, 0, 1, 1) != 1: pass
        cuda.threadfence()
        for i in range(writers): out[0] += data[i]


def test_a_flag_publishes_what_the_whole_wavefront_wrote():
    data,flag,out = np.zeros(64),np.zeros(1, int),np.zeros(1)
    with sim.options(warp=64): _published[1,128](data, flag, out, 64)
    assert out[0] == 64*65/2
    with pytest.raises(sim.RacecheckError): _published[1,128](data, flag*0, out, 64)


@cuda.jit
def _read(x, out, stride): out[cuda.grid(1)] = x[cuda.grid(1)*stride]


@pytest.mark.parametrize('stride,sectors', [(1,16), (2,32), (8,128)])
def test_a_request_is_one_of_a_wavefront(warp, stride, sectors):
    x,out = np.zeros(128*stride, np.float32),np.full(128, np.nan, np.float32)
    with sim.trace() as t: _read[1,128](x, out, stride)
    assert t.stats.global_load_requests == 128//warp and t.stats.global_load_sectors == sectors


@pytest.mark.parametrize('size,stride,want', [(4,1,2), (4,2,4), (4,32,64), (8,1,4), (16,1,8)])
def test_32_banks_serve_64_lanes_in_halves(size, stride, want):
    lane = np.arange(64)
    assert wavefronts(lane*0, lane, lane*stride*size, size, 64)[:2] == (1,want)
    two = wavefronts(lane//32, lane%32, lane*stride*size, size)
    assert two[:2] == (2,want), 'as two warps of 32 lanes, but for the number of requests'


@cuda.jit
def _halves(x):
    if cuda.threadIdx.x < 32: x[cuda.grid(1)] = 1
    else: x[cuda.grid(1)] = 2


def test_a_branch_between_the_halves_divides_a_wavefront(warp):
    with sim.trace() as t: _halves[1,64](np.zeros(64))
    assert (t.stats.branches, t.stats.divergent_branches) == ((1,1) if warp == 64 else (2,0))


@pytest.mark.parametrize('bad', [16, 128, '64', True, 33.])
def test_other_widths_are_refused(bad):
    with pytest.raises(ValueError, match='32(?s:.*)or 64'):
        with sim.options(warp=bad): pass


def test_what_knows_32_lanes_alone_refuses_64():
    k = cuda_kernel('__global__ void k(float *x) { x[threadIdx.x] = warpSize; }')
    x = np.full(64, np.nan, np.float32)
    with sim.options(warp=64), pytest.raises(cpp.NotEmulated, match='64 threads'): k[1,64](x)
    with sim.options(warp=64, engine='c'), pytest.raises(sim.NotSimulated, match="engine='lanes'"): _named[1,64](x)
    k[1,64](x)
    assert (x == 32).all()
