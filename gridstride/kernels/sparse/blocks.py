"""Products with a matrix most of whose blocks are zeros, by the tensor cores of a Hopper GPU."""

from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F

from .launches import launch_on, ready
from .sources import HALVES, blocks_source
from ..ladder.rung import KernelLaunch, this_device, need_hopper
from ..tool import check_tensor, type_of
from ...utils import cdiv

BLOCKS = (128, 64), (64, 64)  # rows, columns of a block
_BN, _STAGES, _OUT = 256, 4, 64  # rows of x for a block of threads; rows of y that leave at once


class Blocks(NamedTuple):
    "A matrix without those of its blocks that are zeros"

    shape: tuple  # (rows, columns)
    block: tuple  # rows, columns of one
    values: object  # (blocks * rows of one, columns of one), those of a row of blocks below each other
    starts: object  # (rows of blocks + 1,) of int32: which is the first of each row
    columns: object  # (blocks,) of int32: which along the row each is

    @property
    def nbytes(self):
        "Bytes of all three"
        return self.values.nbytes + self.starts.nbytes + self.columns.nbytes


def _check_block(tool, block):
    if tuple(block) not in BLOCKS:
        raise ValueError(f'{tool}: block is {block!r}, and it may be {" or ".join(map(str, BLOCKS))}')


def _in_blocks(w, block):
    "(rows of blocks, blocks of a row, rows, columns), the last ones filled up with zeros"
    h, k = block
    w = F.pad(w, (0, -w.shape[1] % k, 0, -w.shape[0] % h))
    return w.view(w.shape[0] // h, h, w.shape[1] // k, k).transpose(1, 2)


def prune_blocks(
    w,  # (rows, columns) of floats
    zeros=0.9,  # how many of the blocks become 0
    block=(128, 64),  # (rows, columns) of a block
):  # w's shape
    "w, and 0 for those blocks whose sums of squares are the least"
    _check_block('prune_blocks', block)
    if not 0 <= zeros <= 1:
        raise ValueError(f'prune_blocks: zeros is {zeros!r}, and must be a fraction from 0 to 1')
    sizes = _in_blocks(w.detach().float(), block).square().sum((2, 3))
    if sizes.isnan().any():
        raise ValueError('prune_blocks: w has a NaN, which is neither large nor small')
    keeps = torch.zeros_like(sizes, dtype=torch.bool).flatten()
    keeps[sizes.flatten().argsort(descending=True, stable=True)[: round((1 - zeros) * sizes.numel())]] = True
    keeps = keeps.view_as(sizes).repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)
    return torch.where(keeps[: w.shape[0], : w.shape[1]], w, 0)


def to_blocks(
    w,  # (rows, columns) of float16 or bfloat16; rows and columns in eights
    block=(128, 64),  # or (64, 64)
) -> Blocks:
    "Convert a matrix to its blocks that are not all zeros. Raises TypeError and ValueError for one that does not fit"
    _check_block('to_blocks', block)
    if type_of(w) not in HALVES or w.dim() != 2:
        raise TypeError(
            f'to_blocks: w is {type_of(w)} of {w.dim()} axes, and it may be a matrix of {", ".join(HALVES)}'
        )
    if w.shape[0] % 8 or w.shape[1] % 8:
        raise ValueError(f'to_blocks: w is {w.shape[0]}x{w.shape[1]}, and the kernel needs both in eights')
    parts = _in_blocks(w.detach(), block)
    there = (parts != 0).flatten(2).any(-1)
    starts = F.pad(there.sum(1).cumsum(0), (1, 0)).int()
    return Blocks(tuple(w.shape), tuple(block), parts[there].flatten(0, 1), starts, there.nonzero()[:, 1].int())


def from_blocks(b: Blocks):  # (rows, columns)
    "The matrix with its zeros"
    (rows, columns), (h, k) = b.shape, b.block
    res = b.values.new_zeros(cdiv(rows, h), cdiv(columns, k), h, k)
    row = torch.arange(len(res), device=b.values.device).repeat_interleave(b.starts.diff())
    res[row, b.columns.long()] = b.values.view(-1, h, k)
    return res.transpose(1, 2).reshape(len(res) * h, -1)[:rows, :columns].contiguous()


@lru_cache(1024)
def blocks_call(
    dtype,
    rows,  # of w
    n,  # rows of x
    tall,  # rows of a block
    on,  # a `Device`
) -> tuple:  # a `KernelLaunch`, and the (box, swizzle) of values, x and y
    "The launch of the product by blocks"
    wide = _BN if tall == 128 else _BN // 2
    constants = dict(BR=tall, STAGES=_STAGES, M=1, N=wide, OUT=_OUT, BIAS=False)
    src, deep = blocks_source(dtype, tuple(constants.items()), wide), cdiv(rows, tall)
    shared = _STAGES * (tall + _BN) * 128 + 2 * 256 * _OUT
    arrays, grid = ('values', 'x', 'y', 'starts', 'columns'), (min(on.sms, deep * cdiv(n, _BN)),)
    call = KernelLaunch(src, 'multiply_blocks', arrays, (deep, n), grid, (384,), shared)
    return call, (((tall, 64), 128), ((_BN, 64), 128), ((_OUT, 64), 128))


@lru_cache(1024)
def _ready(sizes, device, backend):
    "Return the prepared launch for sizes on a device, cached"
    return ready(*blocks_call(*sizes, this_device()), device)


def multiply_blocks(
    x,  # (n, columns) of the type of the matrix, contiguous
    b,  # `Blocks`
):  # (n, rows)
    """Compute x @ w.T for a block-sparse matrix w, summed in float32.

        multiply_blocks(x, to_blocks(w))

    Raises TypeError and ValueError for operands that do not fit, Unavailable on a GPU that is not Hopper."""
    check_tensor('multiply_blocks', x, [type_of(b.values)])
    if x.dim() != 2 or x.shape[1] != b.shape[1]:
        raise ValueError(f'multiply_blocks: x has the shape {tuple(x.shape)}, and (any, {b.shape[1]}) is needed')
    for name, o in zip(Blocks._fields[2:], b[2:]):
        check_tensor('multiply_blocks', o, [type_of(o)], name)
        if o.device != x.device:
            raise ValueError(f'multiply_blocks: {name} is on {o.device} and x on {x.device}; move it with .to(...)')
    need_hopper('multiply_blocks', emulated=True)
    y = x.new_empty(x.shape[0], b.shape[0])
    if not y.numel():
        return y
    if not len(b.columns):
        return y.zero_()
    x, sizes = x.clone() if x.data_ptr() % 16 else x, (type_of(x), b.shape[0], x.shape[0], b.block[0])
    launch_on(_ready, (sizes,), x, (b.values, x, y, b.starts, b.columns))
    return y
