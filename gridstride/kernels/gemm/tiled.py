"""`Tiled`: a plain product by `product.cuh` with any tile, of either 16-bit type and in each layout, as `using`,
`tune` and `matmul` take kernels; `ranked` has those that an estimate likes best.

    with using(*ranked(1264, 416, 8080)): tune(a, b)            # measures them, and has `matmul` take the fastest

`matmul` picks none by itself: as measured on an H100 they gain nothing over lesson 22's kernels in the mean.
"""

from functools import cache, lru_cache
from itertools import product

from .calls import BK, GemmProblem, Tile, most_registers, product_call, registers, stage_bytes
from .launches import why_not
from . import cost_model
from ..ladder.rung import H100, Product, here
from ..sparse.launches import ready
from ...utils import backend, cdiv


class _Launch:
    "A launch for one shape, called with m, n, out and the number of a stream"

    def __init__(self, launch):
        self.launch = launch

    def __call__(self, m, n, out, stream):
        arrays = self._arrays(m, n, out)
        return self.launch(arrays, stream) if m.is_cuda else self.launch(arrays)

    def _arrays(self, m, n, out):
        "What the kernel takes; it looks at the first five"
        x = m[None]
        return [x, n[None], out[None], out[None], out, m, m, m, _as(out, 'float32'), _as(out, 'int32')]

    def steps(self, m, n, out):
        "The same launch as steps for a table of the compiled launcher, and the bytes of the workspace it needs"
        addresses = (0, 0), (1, 0), *[(2, 0)] * 3, *[(0, 0)] * 3, *[(2, 0)] * 2
        return ((self.launch.compiled_for(self._arrays(m, n, out)), addresses),), 0


def _as(x, dtype):
    import torch

    return x.view(getattr(torch, dtype))


class Tiled(Product):
    "`m @ n` by `product.cuh` with one tile"

    hopper = True

    def __init__(self, tile, dtype='bfloat16', layout='nn'):
        self.tile, self.dtype, self.layout, self.name = tile, dtype, layout, _name(tile, dtype, layout)

    def __repr__(self):
        return f'<Tiled {self.name!r}>'

    @property
    def src(self):
        "What is compiled, whatever the sizes"
        return self.call(64, 64, BK * self.tile.CK, H100)[0].src

    def why_not(self, h, w, k):
        if cdiv(k, BK) < self.tile.CK:
            return f'k is too short for {self.tile.CK} blocks'
        return why_not(self.dtype, self.layout, h, w, k)

    def call(self, h, w, k, on):
        "The `Call`, and the boxes of its first arrays"
        return product_call(_case(h, w, k, self.dtype, self.layout), 1.0, on, self.tile)

    def prepare(self, h, w, k, device):
        self.need(h, w, k)
        return _Launch(ready(*self.call(h, w, k, here()), device if backend() == 'gpu' else None))


def _case(h, w, k, dtype='bfloat16', layout='nn'):
    return GemmProblem(dtype, dtype, layout, 1, h, w, k)


def _name(tile, dtype, layout):
    "As tables have it"
    t = tile
    more = [f'{t.CM}x{t.CN}', f'k in {t.CK}' * (t.CK > 1), f'{t.BLOCKS} an SM' * (t.BLOCKS > 1)]
    more += [f'lead {t.LEAD}' * (t.LEAD > 0), f'bands of {t.GROUP}' * (t.GROUP != 16), 'early' * bool(t.EARLY)]
    kind = f' {layout}' * (layout != 'nn') + f' {dtype}' * (dtype != 'bfloat16')
    return f'tiled {t.BM}x{t.BN}{kind}, ' + ', '.join(o for o in more if o)


@cache  # asked for again, it gives the same kernel, which is compiled once
def tiled(tile, dtype='bfloat16', layout='nn') -> Tiled:
    "The product with a tile"
    return Tiled(tile, dtype, layout)


# What fits: both tiles in enough stages, the results of each warp in two pieces, and the sums in a thread's registers
# in addition to some forty for all else. An SM has 228 KiB, of which a block takes one for itself and one before its
# stages. The compiler (ptxas 13.0) refuses a `wgmma` whose sums and 26 more are beyond what all threads begin with.
_SM, _OWN, _ELSE, _ONE = 228 * 1024, 2048, 44, 26


def _fill(tile, transposed):
    "The tile with as many stages as shared memory has space for; None for too few stages, or too many accumulators"
    free = _SM // tile.BLOCKS - _OWN - tile.WGS * 4 * 4096
    stages = min(8, free // stage_bytes(tile, transposed))
    sums = tile.BM // 64 // tile.WGS * tile.BN // 2
    if stages * tile.BLOCKS < 4 or stages < 2 or sums + _ELSE > registers(tile)['UP']:
        return None
    if tile.BN // 2 + _ONE > most_registers(tile):
        return None  # whatever a thread is given later
    poor = sums > 124 or most_registers(tile) <= 80
    if tile.CK > 1 and (poor or stages * stage_bytes(tile, transposed) < tile.BM * tile.BN * 4):
        return None  # a split-K reduction needs the stages' memory, and registers for many sums at once
    return tile._replace(STAGES=stages)


# rows and warpgroups; columns; blocks of a cluster; blocks of an SM
_ROWS = (64, 1), (128, 2), (128, 1), (256, 2)
_SHARING = (1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (1, 1, 4), (1, 1, 8)


@lru_cache
def every_tile(layout='nn') -> tuple:
    "All tiles that fit, with as many stages as fit"
    transposed, found = layout[1] == 't', {}
    for (BM, WGS), BN, (CM, CN, CK), BLOCKS in product(_ROWS, range(64, 257, 8), _SHARING, (1, 2, 3)):
        if CM == 2 and transposed and BN % 16 or layout[0] == 't' and CN == 2 and BM == 64:
            continue
        if tile := _fill(Tile(BM, BN, 0, WGS, CM, CN, BLOCKS, CK), transposed):
            found[tile] = None
    return tuple(found)


def estimate(tile, c, sms=132) -> float:
    "About how many cycles a product of bfloat16 or float16 takes, as `cost_model` has it from an H100's measurements"
    cut = cost_model.TileConfig(tile.BM, tile.BN, tile.CM, tile.CN, tile.CK, tile.BLOCKS, family='tiled')
    return cost_model.cycles(cost_model.FITTED, (c.h, c.w, c.k), c.layout, cut, sms)


@lru_cache(256)
def _ranked_tiles(c, sms):
    "All tiles for a problem, sorted by estimate; of those that differ only in blocks the first"
    found = {}
    for tile in sorted((o for o in every_tile(c.layout) if o.CK <= cdiv(c.k, BK)), key=lambda o: estimate(o, c, sms)):
        found.setdefault((tile.BM, tile.BN, tile.CM, tile.CN, tile.CK), tile)
    return tuple(found.values())


def ranked(h, w, k, sms=132, n=6, dtype='bfloat16', layout='nn') -> list:
    "The products with the `n` lowest estimates for h x k @ k x w, the lowest first"
    return [tiled(o, dtype, layout) for o in _ranked_tiles(_case(h, w, k, dtype, layout), sms)[:n]]
