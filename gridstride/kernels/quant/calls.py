"""What is launched for a product with a matrix in few bits: the `KernelLaunch` of each kind, type and size."""

from functools import lru_cache
from typing import NamedTuple

from .fragments import BITS, STEP
from .sources import KINDS, whole
from ..ladder.rung import KernelLaunch
from ...utils import cdiv

MAX_ROWS = 64  # rows of x
_BOOK = 4 * 256 * 32  # bytes of NF4's pairs in shared memory
GROUPS = 32, 64, 128, 'row'  # columns that share a scale


class Shape(NamedTuple):
    "The partition of a matrix among warps"

    tiles: int  # tiles of 16 rows per warp
    across: int  # warps of a block below each other
    deep: int  # warps that share the columns
    ahead: int  # steps in flight per warp
    blocks: int  # on an SM
    stay: bool  # do they go through the rows, or come and go?


# What was fastest for 28672 x 8192 elements on an H100, by rows of x, in eights, and for types of 4 and of 8 bits. DRAM
# bandwidth is best with one tile per block, but blocks that fill a codebook for NF4 are persistent.
_SHAPES = {
    1: {4: Shape(1, 2, 4, 2, 3, False), 8: Shape(1, 1, 16, 1, 2, False)},
    2: {4: Shape(2, 4, 2, 2, 2, True), 8: Shape(2, 4, 4, 1, 1, True)},
    4: {4: Shape(2, 4, 4, 1, 1, False), 8: Shape(2, 4, 2, 1, 1, True)},
    8: {4: Shape(2, 4, 2, 1, 1, False), 8: Shape(2, 4, 1, 1, 1, True)},
}
_NF4 = Shape(1, 1, 16, 2, 2, True)  # for eight rows of x or fewer


def shape_for(kind, batch, steps) -> Shape:
    "The `Shape` for `batch` rows of x and so many steps along a row of w"
    found = _NF4 if kind == 'nf4' and batch <= 8 else _SHAPES[_eights(batch)][BITS[kind]]
    return found._replace(deep=min(found.deep, 1 << max(0, steps - 1).bit_length()))


class Ring(NamedTuple):
    "The pipeline of bulk copies of a matrix, on a Hopper GPU"

    warps: int
    chunk: int  # steps of a copy
    stages: int  # copies in flight per warp


# What was fastest on an H100: large copies, but as many for 16 rows as there are warps. For 8 bits copies win nothing.
_RINGS = Ring(16, 4, 2), Ring(16, 2, 3), Ring(16, 1, 4)
_STREAMED = 'int4', 'nf4'
_MAX_STREAMED = 4  # rows of x, which are kept in shared memory
_SHARED = 226 * 1024  # bytes of dynamic shared memory that a block may request, in addition to its barriers


def ring_for(kind, group, batch, columns, zeros):  # (a `Ring`, bytes of shared memory for it), or None
    "The ring of bulk copies of a matrix, if it is read so, and x leaves enough shared memory"
    if kind not in _STREAMED or batch > _MAX_STREAMED:
        return None
    steps = cdiv(columns, STEP)
    ring = next((o for o in _RINGS if steps >= o.warps * o.chunk), _RINGS[-1])
    scales = 0 if group == 'row' else 32 * (STEP // group) * (1 + zeros)
    stages = ring.warps * ring.stages * ring.chunk * (2 * STEP * BITS[kind] + scales)
    others = batch * (256 * steps + 64) + _BOOK * (kind == 'nf4') + 2 * 4 * ring.warps * 16 * batch
    return (ring, stages + others) if stages + others <= _SHARED else None


@lru_cache(1024)
def matvec_calls(
    kind,  # 'int4', 'int8', 'nf4', 'fp8'
    dtype,  # of x
    group,  # columns that share a scale, or 'row'
    batch,  # rows of x, at most `MAX_ROWS`
    rows,  # of w
    columns,  # a multiple of 8
    bias,  # is there one?
    zeros,  # are there any?
    on,  # a `Device`
) -> list:  # of `KernelLaunch`
    "The launch that multiplies rows of x by a packed matrix"
    what = dict(KIND=KINDS.index(kind), GROUP=0 if group == 'row' else group, BIAS=bias, ZEROS=zeros)
    arrays = 'x', 'words', 'scales', 'zeros' if zeros else 'scales', 'bias' if bias else 'x', 'y'
    found = ring_for(kind, group, batch, columns, zeros) if on.hopper else None
    if found:
        ring, shared = found
        src = whole('streamed', dtype, (*what.items(), *((o.upper(), n) for o, n in ring._asdict().items())))
        grid, block = (min(on.sms, cdiv(rows, 16)),), (32 * ring.warps,)
        return [KernelLaunch(src, 'multiply_streamed', arrays, (batch, rows, columns), grid, block, shared)]
    at = shape_for(kind, batch, cdiv(columns, STEP))
    constants = dict(TILES=at.tiles, ACROSS=at.across, DEEP=at.deep, AHEAD=at.ahead, BLOCKS=at.blocks)
    src = whole('matvec', dtype, (*(what | constants).items(), ('COLUMNS', _eights(batch))))
    bands, block = cdiv(rows, 16 * at.tiles * at.across), (32 * at.across * at.deep,)
    grid = (min(on.sms * at.blocks, bands) if at.stay else bands,)
    shared = 4 * at.deep * 8 * _eights(batch) * (16 * at.tiles * at.across + 1) + _BOOK * (kind == 'nf4')
    return [KernelLaunch(src, 'multiply_packed', arrays, (batch, rows, columns), grid, block, shared)]


def _eights(batch):
    "Eights of rows, of which there are 1, 2, 4 or 8, so that there are few kernels"
    return next(shape for shape in _SHAPES if batch <= 8 * shape)
