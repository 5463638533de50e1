"What memory requests cost, by the addresses of a warp's lanes."
import numpy as np
import pytest

from gridstride import sim
from gridstride.sim import cuda
from gridstride.sim.counters import sectors, wavefronts

LANE = np.arange(32)


@pytest.mark.parametrize('byte,want', [(LANE * 4, (1, 4, 4)), (LANE * 128, (1, 32, 4)), (LANE * 4 + 4, (1, 5, 4)),
                                       (LANE * 0, (1, 1, 4))],
                         ids=['in a row', 'a column', 'shifted', 'all the same'])
def test_sectors_of_a_request(byte, want): assert sectors(LANE * 0, byte, 4) == want


@pytest.mark.parametrize('byte,size,want', [(LANE * 4, 4, (1, 1, 0)), (LANE * 8, 4, (1, 2, 1)),
    (LANE * 128, 4, (1, 32, 31)), (LANE * 0, 4, (1, 1, 0)), (LANE * 8, 8, (1, 2, 0))],
                         ids=['in a row', 'every second', 'one bank', 'all the same', 'doubles'])
def test_wavefronts_of_a_request(byte, size, want): assert wavefronts(LANE * 0, LANE, byte, size) == want


@pytest.mark.parametrize('width', [32, 64])
@pytest.mark.parametrize('size', [1, 2, 4, 8, 16])
def test_requests_of_many_warps_are_counted_as_by_hand_in_whatever_order_the_lanes_come(size, width):
    rng = np.random.default_rng(size + width)
    for n in (1, 31, 100, 300):
        thread = rng.permutation(400)[:n]                # some warps lack lanes, some are not there
        warp, lane, byte = thread//width, thread % width, rng.integers(0, 40*n, n)//16*16
        here = set(warp.tolist())
        touched = {(w, (b + k)//32) for w, b in zip(warp, byte) for k in range(size)}
        assert sectors(warp, byte, size) == (len(here), len(touched), sum(-(-size*(warp == w).sum()//32) for w in here))
        banks = {}                                       # the words of each bank, for lanes that are served at once
        for w, l, b in zip(warp, lane, byte):
            for word in range(b//4, (b + max(4, size))//4):
                served = w, l//(128//max(4, size))
                banks.setdefault(served, {}).setdefault(word % 32, set()).add(word)
        waves = sum(max(map(len, o.values())) for o in banks.values())
        assert wavefronts(warp, lane, byte, size, width) == (len(here), waves, waves - len(banks))


def test_a_transpose_writes_eight_times_the_sectors_that_it_reads():
    @cuda.jit
    def transpose(x, out):
        c, r = cuda.grid(2)
        if r < x.shape[0] and c < x.shape[1]: out[c, r] = x[r, c]
    x = np.random.randn(64, 64).astype(np.float32)
    out = np.empty_like(x)
    with sim.trace() as t: transpose[(2, 2), (32, 32)](x, out)
    assert (out == x.T).all() and t.stats.divergent_branches == 0
    assert (t.stats.global_load_requests, t.stats.global_load_sectors, t.stats.global_store_sectors) == (128, 512, 4096)
