"""Which kernel multiplies two matrices of 16-bit floats the fastest: a model of what each takes, as it was measured.

Kernels are lesson 22's `finals`, for bfloat16 row after row, and `hopper_f16`, for either type in each layout.
`benchmarks/cost.py` measures products on a GPU and fits the model, `benchmarks/cost.json` is what it measured. Lesson
22's `finals.cost` has the same thoughts with numbers that were found by hand; what a pick by either loses against the
fastest kernel that was measured is what `python cost.py fit` prints.
"""

from functools import lru_cache
from typing import NamedTuple

from ..ladder import finals
from . import hopper_f16
from ...utils import cdiv


class Cut(NamedTuple):
    "How a kernel cuts a product, whatever the kernel"

    BM: int  # of a block's tile: rows of `wgmma`'s product, which are columns of the result if it is `turned`
    BN: int
    CM: int = 1  # blocks of a cluster, along BM and along BN
    CN: int = 1
    CK: int = 1  # blocks that share k
    BLOCKS: int = 1  # of an SM
    turned: int = 0  # the product of the transposes?
    beside: int = 0  # two warpgroups side by side?
    split: int = 0  # is the last wave shared, by parts of k?
    family: str = 'final'  # lesson 22's last rung; 'half': `hopper_f16`; 'tiled': `tiled`
    ping: int = 0  # do two warpgroups take turns at tiles, so that one multiplies while the other stores?


# All are positive: what is fitted are their logarithms
class Model(NamedTuple):
    "Cycles; where they are of a block's tile, it has BM x BN numbers"

    tensor: float = 1.0  # the tensor cores' time for a step of 64 k, over what they take at best
    shared: float = 0.74  # what shared memory moves in a step: cycles for 128 bytes
    l2: float = 128 / 63  # what the L2 cache gives in a step: cycles for 128 bytes
    lines: float = 1.67  # rows that do not begin with a line, over those that do
    down: float = 1.0  # rows of a second tile whose k goes down its columns, over those of one whose k goes along
    memory: float = 1 / 1500  # all that is read and written once: cycles for a byte
    begin: float = 6000  # once
    cluster: float = 3000  # once, with clusters
    end: float = 1000  # for each tile
    store: float = 1 / 16  # for each number of a tile
    share: float = 2000  # for each tile whose k is shared
    add: float = 1 / 8  # for each number of such a tile, and of each part of a last wave
    hand: float = 20500  # once, where the last wave is shared
    tiled: float = 1.0  # the ends of tiles of `tiled`, over those of lesson 22
    half: float = 1.0  # all that a kernel of `hopper_f16` takes, over lesson 22's
    here: float = 1000  # once, with clusters of `hopper_f16`
    turn: float = 500  # for each tile but the last, where warpgroups take turns and its end is hidden


def _smooth(*xs):
    return sum(x**4 for x in xs) ** 0.25


def _step_cycles(m, shape, layout, cut):
    "Cycles of 64 k for a block that has its SM alone"
    (h, w, k), (ta, tb) = shape, (o == 't' for o in layout)
    a_row, b_row = h if ta else k, k if tb else w
    if cut.turned:
        a_row, b_row = b_row, a_row
    whole = ta if cut.turned else not tb  # a second tile whose k goes down its columns comes in whole boxes
    box = hopper_f16.box(cut) if cut.family == 'half' else 64
    loaded = cdiv(cut.BN, box) * box if whole else cut.BN

    def rows(n, length):
        return n * (m.lines if length % 64 else 1)

    shared = max(1, cut.BM // 64) * 4 * (16 * (1 + cut.beside) + cut.BN / 4) + cut.BM + loaded
    l2 = rows(cut.BM / cut.CN, a_row) + rows(loaded / cut.CM, b_row) * (m.down if whole else 1)
    return _smooth(m.tensor * cut.BM * cut.BN / 32, m.shared * shared, m.l2 * l2)


def _shared_wave(m, cut, tiles, slots, steps, step):
    "Cycles of the tiles that do not fill a wave, shared by all clusters; None if there is nothing to share"
    rest = tiles % slots
    sharers = min(slots, rest * 8, rest * steps // 4)
    if sharers > rest:
        return rest * steps / sharers * step + m.hand + m.add * cut.BM * cut.BN * cdiv(sharers, rest)


def cycles(m, shape, layout, cut, sms=132) -> float:
    "What the model `m` says of a product of `shape`, (h, w, k); infinite if the kernel is not made for it"
    h, w, k = shape
    size = cut.CM * cut.CN * cut.CK
    high, wide = (cut.BN * cut.CN, cut.BM * cut.CM) if cut.turned else (cut.BM * cut.CM, cut.BN * cut.CN)
    tiles, slots = cdiv(h, high) * cdiv(w, wide), finals.at_once(size, sms) * cut.BLOCKS
    numbers, steps = cut.BM * cut.BN, cdiv(cdiv(k, 64), cut.CK)
    step = _step_cycles(m, shape, layout, cut) * min(cut.BLOCKS, cdiv(tiles * size, sms))
    end = (m.end + m.store * numbers) * (m.tiled if cut.family == 'tiled' else 1)
    tile = steps * step + end + (cut.CK > 1) * (m.share + m.add * numbers)
    waves = cdiv(tiles, slots)
    if cut.ping and waves == 1:
        return float('inf')  # one warpgroup would have nothing to do
    computed = waves * tile - (waves - 1) * (end - m.turn) * cut.ping
    if cut.split:
        last = _shared_wave(m, cut, tiles, slots, steps, step)
        computed = float('inf') if last is None else tiles // slots * tile + last
    worked = _smooth(computed, m.memory * 2 * (h * k + k * w + h * w))
    half = cut.family == 'half'
    return (m.begin + (m.here if half else m.cluster) * (size > 1) + worked) * (m.half if half else 1)


# As fitted to an H100, in cycles of 1,755 MHz. A kernel that is not named here is not picked; its number is what it
# takes over what the model says, half of which is believed where it was measured twice.
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
    share=947.4,
    add=0.1437,
    hand=1.538e04,
    tiled=1,
    half=0.9969,
    here=156.7,
    turn=730.8,
)
FACTORS = {
    Cut(64, 32, CN=4, turned=1, family='half'): 0.976,
    Cut(64, 48, CM=2, CN=2, turned=1, family='half'): 0.984,
    Cut(64, 64, CM=2, CN=2, CK=2, turned=1, family='half'): 0.944,
    Cut(64, 64, CM=2, CN=4, family='half'): 0.985,
    Cut(64, 64, CM=4, CN=2, family='half'): 1.017,
    Cut(64, 80, CN=4, turned=1, family='half'): 0.952,
    Cut(64, 80, CM=2, BLOCKS=2, turned=1, family='half'): 1.003,
    Cut(64, 80, CM=2, CN=4, turned=1, family='half'): 0.964,
    Cut(64, 96, CM=4, CK=2, turned=1, family='half'): 0.920,
    Cut(64, 136, CM=2, CN=4, turned=1, family='half', ping=1): 0.958,
    Cut(64, 144, CM=4, CK=2, family='half'): 0.942,
    Cut(64, 160, CM=4, CN=2, family='half'): 0.986,
    Cut(64, 168, CM=4, CN=2, turned=1, family='half'): 0.988,
    Cut(128, 64, CN=4, family='half'): 0.921,
    Cut(128, 128, CM=4, CN=2, turned=1, family='half'): 0.921,
    Cut(128, 144, CM=4, CN=2, family='half'): 1.036,
    Cut(128, 160, CM=4, turned=1): 0.962,
    Cut(128, 160, CM=4, CN=2, family='half', ping=1): 0.990,
    Cut(128, 176, CM=2, CN=2, family='half'): 0.987,
    Cut(128, 176, CM=4, CN=2, family='half'): 1.044,
    Cut(128, 184, CM=4, CN=2, turned=1, family='half', ping=1): 0.997,
    Cut(128, 192, CM=2, turned=1, family='half', ping=1): 0.995,
    Cut(128, 192, CM=2, CN=2, family='half', ping=1): 0.958,
    Cut(128, 192, CM=2, CN=4, family='half'): 0.988,
    Cut(128, 208, CM=2, turned=1, family='half', ping=1): 1.002,
    Cut(128, 208, CM=4, CN=2, turned=1, family='half', ping=1): 1.011,
    Cut(128, 224, CM=2, family='half'): 1.012,
    Cut(128, 224, CM=4, turned=1, family='half'): 0.967,
    Cut(128, 256, CM=2): 0.982,
    Cut(128, 256, CM=2, family='half'): 1.018,
    Cut(128, 272, CM=2, turned=1, beside=1): 0.998,
    Cut(192, 136, CM=2, CN=4, turned=1, family='half', ping=1): 1.003,
    Cut(192, 160, CN=2, turned=1, beside=1, family='half'): 0.926,
    Cut(192, 192, CN=2, turned=1, beside=1): 0.971,
    Cut(192, 192, CN=2, turned=1, beside=1, family='half'): 0.962,
    Cut(192, 224, CM=2, beside=1, family='half'): 1.026,
    Cut(256, 144, CN=2, turned=1, family='half'): 0.999,
    Cut(256, 152, CN=2, turned=1, family='half'): 1.006,
    Cut(256, 160, CN=2, family='half'): 1.013,
    Cut(256, 176, CN=2, turned=1, family='half'): 1.023,
    Cut(256, 184, CN=2, turned=1, family='half'): 0.994,
    Cut(256, 192, CN=2, turned=1, family='half'): 0.995,
    Cut(256, 192, CM=2, CN=2, family='half'): 1.010,
    Cut(256, 200, CN=2, turned=1, family='half'): 1.007,
    Cut(256, 200, CM=2, turned=1, family='half'): 1.014,
}


# What takes fewer cycles, by estimate, begins before the kernel ahead of it has ended: see `finals.begin_early`. In
# CUDA graphs of an H100 that is 1.29 times as fast in the mean of eight products below 10,000 cycles, 1.16 up to 15,000
# and 1.09 up to 25,000; above, 1.02 and less (`benchmarks/early.txt`, after chains of such kernels were compared bit by
# bit).
EARLY = 35_000


def kernel_of(cut, early=False, dtype='bfloat16', layout='nn'):
    "The kernel that multiplies so; it may begin `early`"
    if cut.family == 'half':
        return hopper_f16.half(cut, dtype, layout, early)
    make = finals.final_early if early else finals.final
    return make(cut.BM, cut.BN, cut.CM, cut.CN, cut.turned, cut.beside, cut.split)


@lru_cache
def known(dtype='bfloat16', layout='nn') -> tuple:
    "The cuts of which there is a kernel for a type and a layout"
    plain = (dtype, layout) == ('bfloat16', 'nn')
    return tuple(o for o in FACTORS if (plain if o.family == 'final' else not hopper_f16.why_not(o, layout)))


def estimate(h, w, k, cut, sms=132, layout='nn') -> float:
    "About how many cycles a kernel takes for h x k @ k x w"
    return FACTORS[cut] * cycles(FITTED, (h, w, k), layout, cut, sms)


@lru_cache(4096)
def order(h, w, k, sms=132, dtype='bfloat16', layout='nn') -> list:
    "How kernels cut h x k @ k x w, that with the lowest estimate first"
    every = [o for o in known(dtype, layout) if o.CK <= cdiv(k, 64)]
    return sorted(every, key=lambda o: estimate(h, w, k, o, sms, layout))


def ranked(h, w, k, sms=132, n=6, dtype='bfloat16', layout='nn') -> list:
    "The kernels with the `n` lowest estimates for h x k @ k x w, the lowest first"
    best = order(h, w, k, sms, dtype, layout)[:n]
    begin = [estimate(h, w, k, o, sms, layout) < EARLY for o in best]
    return [kernel_of(o, early, dtype, layout) for o, early in zip(best, begin)]


def choose(h, w, k, sms=132, dtype='bfloat16', layout='nn'):
    "The kernel for h x k @ k x w"
    return ranked(h, w, k, sms, 1, dtype, layout)[0]
