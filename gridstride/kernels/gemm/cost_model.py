"""Which kernel multiplies two matrices of 16-bit floats the fastest: a cost model, fitted to measurements.

Kernels are lesson 22's `finals`, for row-major bfloat16, and `hopper_f16`, for either type in each layout.
`benchmarks/cost.py` measures products on a GPU and fits the model, `benchmarks/cost.json` has its measurements. Lesson
22's `finals.cost` is the same model with parameters that were found by hand; `python cost.py fit` prints what a pick by
either loses compared with the fastest kernel that was measured.
"""

from functools import lru_cache
from typing import NamedTuple

from ..ladder import finals
from . import hopper_f16
from ...utils import cdiv


class TileConfig(NamedTuple):
    "The tile of a kernel of any family, and its partition among blocks and warpgroups"

    BM: int  # of a block's tile: rows of `wgmma`'s product, which are columns of the result if it is `swap_ab`
    BN: int
    CM: int = 1  # blocks of a cluster, along BM and along BN
    CN: int = 1
    CK: int = 1  # blocks that share k
    BLOCKS: int = 1  # of an SM
    swap_ab: int = 0  # swapped operands: the transposed product, n' m'
    split_n: int = 0  # do the two warpgroups split BN instead of BM?
    stream_k: int = 0  # stream-K: is the last wave shared, by parts of k?
    family: str = 'final'  # lesson 22's last rung; 'half': `hopper_f16`
    pingpong: int = 0  # ping-pong: two warpgroups take turns at tiles, so that one multiplies while the other stores


# All are positive: what is fitted are their logarithms
class Model(NamedTuple):
    "Parameters of the model, in cycles; a block's tile has BM x BN elements"

    tensor: float = 1.0  # the tensor cores' time for a step of 64 k, over what they take at best
    shared: float = 0.74  # what shared memory moves in a step: cycles for 128 bytes
    l2: float = 128 / 63  # what the L2 cache gives in a step: cycles for 128 bytes
    lines: float = 1.67  # rows that do not begin with a line, over those that do
    down: float = 1.0  # rows of a second tile whose k goes down its columns, over those of one whose k goes along
    memory: float = 1 / 1500  # all that is read and written once: cycles for a byte
    begin: float = 6000  # once
    cluster: float = 3000  # once, with clusters
    end: float = 1000  # per tile
    store: float = 1 / 16  # per element of a tile
    split_k: float = 2000  # per tile whose k is shared
    add: float = 1 / 8  # per element of such a tile, and of each part of a last wave
    stream_k: float = 20500  # once, if the last wave is shared
    half: float = 1.0  # all that a kernel of `hopper_f16` takes, over lesson 22's
    here: float = 1000  # once, with clusters of `hopper_f16`
    pingpong: float = 500  # per tile but the last, with ping-pong, which hides its end


def _smooth(*xs):
    return sum(x**4 for x in xs) ** 0.25


def _step_cycles(m, shape, layout, config):
    "Cycles per step of 64 k of a block that has an SM for itself"
    (h, w, k), (ta, tb) = shape, (o == 't' for o in layout)
    a_row, b_row = h if ta else k, k if tb else w
    if config.swap_ab:
        a_row, b_row = b_row, a_row
    whole = ta if config.swap_ab else not tb  # a second tile whose k goes down its columns comes in whole boxes
    box = hopper_f16.box(config) if config.family == 'half' else 64
    loaded = cdiv(config.BN, box) * box if whole else config.BN

    def rows(n, length):
        return n * (m.lines if length % 64 else 1)

    shared = max(1, config.BM // 64) * 4 * (16 * (1 + config.split_n) + config.BN / 4) + config.BM + loaded
    l2 = rows(config.BM / config.CN, a_row) + rows(loaded / config.CM, b_row) * (m.down if whole else 1)
    return _smooth(m.tensor * config.BM * config.BN / 32, m.shared * shared, m.l2 * l2)


def _stream_k_wave(m, config, tiles, slots, steps, step):
    "Cycles of the tiles of the partial last wave, shared by all clusters (stream-K); None if there is nothing to share"
    tail = tiles % slots
    sharers = min(slots, tail * 8, tail * steps // 4)
    if sharers > tail:
        return tail * steps / sharers * step + m.stream_k + m.add * config.BM * config.BN * cdiv(sharers, tail)


def cycles(m, shape, layout, config, sms=132) -> float:
    "The cycles that the model `m` predicts for a product of `shape`, (h, w, k); infinite if the kernel cannot have it"
    h, w, k = shape
    size = config.CM * config.CN * config.CK
    high, wide = (
        (config.BN * config.CN, config.BM * config.CM)
        if config.swap_ab
        else (config.BM * config.CM, config.BN * config.CN)
    )
    tiles, slots = cdiv(h, high) * cdiv(w, wide), finals.at_once(size, sms) * config.BLOCKS
    elements, steps = config.BM * config.BN, cdiv(cdiv(k, 64), config.CK)
    step = _step_cycles(m, shape, layout, config) * min(config.BLOCKS, cdiv(tiles * size, sms))
    end = m.end + m.store * elements
    tile = steps * step + end + (config.CK > 1) * (m.split_k + m.add * elements)
    waves = cdiv(tiles, slots)
    if config.pingpong and waves == 1:
        return float('inf')  # one warpgroup would have nothing to do
    computed = waves * tile - (waves - 1) * (end - m.pingpong) * config.pingpong
    if config.stream_k:
        last = _stream_k_wave(m, config, tiles, slots, steps, step)
        computed = float('inf') if last is None else tiles // slots * tile + last
    worked = _smooth(computed, m.memory * 2 * (h * k + k * w + h * w))
    half = config.family == 'half'
    return (m.begin + (m.here if half else m.cluster) * (size > 1) + worked) * (m.half if half else 1)


# As fitted to an H100, in cycles of 1,755 MHz. A kernel that is not named here is not picked; its factor is its time
# over the model's prediction, half of which is believed where it was measured twice.
FITTED = Model(
    tensor=0.8895,
    shared=0.7403,
    l2=2.543,
    lines=1.409,
    down=1.151,
    memory=0.000588,
    begin=6161,
    cluster=3195,
    end=127.4,
    store=0.07275,
    split_k=947.4,
    add=0.1437,
    stream_k=1.538e04,
    half=0.9969,
    here=156.7,
    pingpong=730.8,
)
FACTORS = {
    TileConfig(64, 32, CN=4, swap_ab=1, family='half'): 0.976,
    TileConfig(64, 48, CM=2, CN=2, swap_ab=1, family='half'): 0.984,
    TileConfig(64, 64, CM=2, CN=2, CK=2, swap_ab=1, family='half'): 0.944,
    TileConfig(64, 64, CM=2, CN=4, family='half'): 0.985,
    TileConfig(64, 64, CM=4, CN=2, family='half'): 1.017,
    TileConfig(64, 80, CN=4, swap_ab=1, family='half'): 0.952,
    TileConfig(64, 80, CM=2, BLOCKS=2, swap_ab=1, family='half'): 1.003,
    TileConfig(64, 80, CM=2, CN=4, swap_ab=1, family='half'): 0.964,
    TileConfig(64, 96, CM=4, CK=2, swap_ab=1, family='half'): 0.920,
    TileConfig(64, 136, CM=2, CN=4, swap_ab=1, family='half', pingpong=1): 0.958,
    TileConfig(64, 144, CM=4, CK=2, family='half'): 0.942,
    TileConfig(64, 160, CM=4, CN=2, family='half'): 0.986,
    TileConfig(64, 168, CM=4, CN=2, swap_ab=1, family='half'): 0.988,
    TileConfig(128, 64, CN=4, family='half'): 0.921,
    TileConfig(128, 128, CM=4, CN=2, swap_ab=1, family='half'): 0.921,
    TileConfig(128, 144, CM=4, CN=2, family='half'): 1.036,
    TileConfig(128, 160, CM=4, swap_ab=1): 0.962,
    TileConfig(128, 160, CM=4, CN=2, family='half', pingpong=1): 0.990,
    TileConfig(128, 176, CM=2, CN=2, family='half'): 0.987,
    TileConfig(128, 176, CM=4, CN=2, family='half'): 1.044,
    TileConfig(128, 184, CM=4, CN=2, swap_ab=1, family='half', pingpong=1): 0.997,
    TileConfig(128, 192, CM=2, swap_ab=1, family='half', pingpong=1): 0.995,
    TileConfig(128, 192, CM=2, CN=2, family='half', pingpong=1): 0.958,
    TileConfig(128, 192, CM=2, CN=4, family='half'): 0.988,
    TileConfig(128, 208, CM=2, swap_ab=1, family='half', pingpong=1): 1.002,
    TileConfig(128, 208, CM=4, CN=2, swap_ab=1, family='half', pingpong=1): 1.011,
    TileConfig(128, 224, CM=2, family='half'): 1.012,
    TileConfig(128, 224, CM=4, swap_ab=1, family='half'): 0.967,
    TileConfig(128, 256, CM=2): 0.982,
    TileConfig(128, 256, CM=2, family='half'): 1.018,
    TileConfig(128, 272, CM=2, swap_ab=1, split_n=1): 0.998,
    TileConfig(192, 136, CM=2, CN=4, swap_ab=1, family='half', pingpong=1): 1.003,
    TileConfig(192, 160, CN=2, swap_ab=1, split_n=1, family='half'): 0.926,
    TileConfig(192, 192, CN=2, swap_ab=1, split_n=1): 0.971,
    TileConfig(192, 192, CN=2, swap_ab=1, split_n=1, family='half'): 0.962,
    TileConfig(192, 224, CM=2, split_n=1, family='half'): 1.026,
    TileConfig(256, 144, CN=2, swap_ab=1, family='half'): 0.999,
    TileConfig(256, 152, CN=2, swap_ab=1, family='half'): 1.006,
    TileConfig(256, 160, CN=2, family='half'): 1.013,
    TileConfig(256, 176, CN=2, swap_ab=1, family='half'): 1.023,
    TileConfig(256, 184, CN=2, swap_ab=1, family='half'): 0.994,
    TileConfig(256, 192, CN=2, swap_ab=1, family='half'): 0.995,
    TileConfig(256, 192, CM=2, CN=2, family='half'): 1.010,
    TileConfig(256, 200, CN=2, swap_ab=1, family='half'): 1.007,
    TileConfig(256, 200, CM=2, swap_ab=1, family='half'): 1.014,
}


# What takes fewer cycles, by estimate, begins before the previous kernel ends, by programmatic dependent launch: see
# `finals.begin_early`. In CUDA graphs of an H100 that is 1.29x faster in the mean of eight products below 10,000
# cycles, 1.16x up to 15,000 and 1.09x up to 25,000; above, 1.02x and less (`benchmarks/early.txt`, after chains of such
# kernels were compared bit by bit).
EARLY = 35_000


def kernel_of(config, pdl=False, dtype='bfloat16', layout='nn'):
    "The kernel of a `TileConfig`; `pdl`: it begins before the previous kernel ends"
    if config.family == 'half':
        return hopper_f16.gemm_f16(config, dtype, layout, pdl)
    make = finals.final_early if pdl else finals.final
    return make(config.BM, config.BN, config.CM, config.CN, config.swap_ab, config.split_n, config.stream_k)


@lru_cache
def known(dtype='bfloat16', layout='nn') -> tuple:
    "The configurations of which there is a kernel for a type and a layout"
    plain = (dtype, layout) == ('bfloat16', 'nn')
    return tuple(
        config for config in FACTORS if (plain if config.family == 'final' else not hopper_f16.why_not(config, layout))
    )


def estimate(h, w, k, config, sms=132, layout='nn') -> float:
    "Estimate the cycles of a kernel for h x k @ k x w"
    return FACTORS[config] * cycles(FITTED, (h, w, k), layout, config, sms)


@lru_cache(4096)
def order(h, w, k, sms=132, dtype='bfloat16', layout='nn') -> list:
    "The configurations for h x k @ k x w, sorted by estimate"
    every = [o for o in known(dtype, layout) if o.CK <= cdiv(k, 64)]
    return sorted(every, key=lambda o: estimate(h, w, k, o, sms, layout))


def ranked(h, w, k, sms=132, n=6, dtype='bfloat16', layout='nn') -> list:
    "The kernels with the `n` lowest estimates for h x k @ k x w, the lowest first"
    best = order(h, w, k, sms, dtype, layout)[:n]
    begin = [estimate(h, w, k, o, sms, layout) < EARLY for o in best]
    return [kernel_of(o, pdl, dtype, layout) for o, pdl in zip(best, begin)]


def choose(h, w, k, sms=132, dtype='bfloat16', layout='nn'):
    "The kernel for h x k @ k x w"
    return ranked(h, w, k, sms, 1, dtype, layout)[0]
