"""Multiply by a block-sparse matrix on the tensor cores of a Hopper GPU."""

from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F

from .launches import launch_prepared, prepare_launch
from .sources import F16_TYPES, blocks_source
from ..ladder.rung import KernelLaunch, this_device, require_hopper
from ..common import check_tensor, dtype_name
from ...utils import cdiv

BLOCKS = (128, 64), (64, 64)  # (rows, columns) of a block
_TILE_X_ROWS, _STAGES, _STORE_ROWS = 256, 4, 64  # rows of x per thread block; pipeline stages; rows of y per TMA store


class Blocks(NamedTuple):
    "A block-sparse matrix: only the blocks that are not all zeros are stored"

    shape: tuple  # (rows, columns)
    block: tuple  # (rows, columns) of a block
    values: object  # (blocks * block rows, block columns): the blocks, one row of blocks after the other
    starts: object  # (rows of blocks + 1,) of int32: the index of the first block of each row of blocks
    columns: object  # (blocks,) of int32: the column of each block, in units of blocks

    @property
    def nbytes(self):
        "Bytes of values, starts and columns"
        return self.values.nbytes + self.starts.nbytes + self.columns.nbytes


def _check_block(op_name, block):
    "Raise ValueError unless the kernels support this block"
    if tuple(block) not in BLOCKS:
        raise ValueError(f'{op_name}: block is {block!r}; it must be {" or ".join(map(str, BLOCKS))}')


def _split_into_blocks(w, block):
    "Reshape to (rows of blocks, blocks per row, block rows, block columns), padded with zeros"
    block_rows, block_columns = block
    w = F.pad(w, (0, -w.shape[1] % block_columns, 0, -w.shape[0] % block_rows))
    return w.view(w.shape[0] // block_rows, block_rows, w.shape[1] // block_columns, block_columns).transpose(1, 2)


def prune_blocks(
    w,  # (rows, columns) of floats
    zeros=0.9,  # fraction of the blocks that become 0
    block=(128, 64),  # (rows, columns) of a block
):  # w's shape
    """Set the blocks with the smallest sums of squares to 0.

        w = prune_blocks(w, zeros=0.9)

    Raises ValueError for an unsupported block, a fraction out of [0, 1], or NaN."""
    _check_block('prune_blocks', block)
    if not 0 <= zeros <= 1:
        raise ValueError(f'prune_blocks: zeros is {zeros!r}; it must be a fraction from 0 to 1')
    energies = _split_into_blocks(w.detach().float(), block).square().sum((2, 3))
    if energies.isnan().any():
        raise ValueError('prune_blocks: w has a NaN, whose magnitude is undefined')
    keep = torch.zeros_like(energies, dtype=torch.bool).flatten()
    keep[energies.flatten().argsort(descending=True, stable=True)[: round((1 - zeros) * energies.numel())]] = True
    keep = keep.view_as(energies).repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)
    return torch.where(keep[: w.shape[0], : w.shape[1]], w, 0)


def to_blocks(
    w,  # (rows, columns) of float16 or bfloat16; both multiples of 8
    block=(128, 64),  # or (64, 64)
) -> Blocks:
    "Convert a dense matrix to `Blocks`. Raises TypeError or ValueError for an unsupported matrix or block"
    _check_block('to_blocks', block)
    if dtype_name(w) not in F16_TYPES or w.dim() != 2:
        raise TypeError(
            f'to_blocks: w is a {w.dim()}-dimensional {dtype_name(w)} tensor; '
            f'expected a matrix of {" or ".join(F16_TYPES)}'
        )
    if w.shape[0] % 8 or w.shape[1] % 8:
        raise ValueError(f'to_blocks: w is {w.shape[0]}x{w.shape[1]}, but the kernel needs multiples of 8')
    blocks = _split_into_blocks(w.detach(), block)
    nonzero = (blocks != 0).flatten(2).any(-1)
    starts = F.pad(nonzero.sum(1).cumsum(0), (1, 0)).int()
    return Blocks(tuple(w.shape), tuple(block), blocks[nonzero].flatten(0, 1), starts, nonzero.nonzero()[:, 1].int())


def from_blocks(b: Blocks):  # (rows, columns)
    "Convert to a dense matrix"
    (rows, columns), (block_rows, block_columns) = b.shape, b.block
    res = b.values.new_zeros(cdiv(rows, block_rows), cdiv(columns, block_columns), block_rows, block_columns)
    row = torch.arange(len(res), device=b.values.device).repeat_interleave(b.starts.diff())
    res[row, b.columns.long()] = b.values.view(-1, block_rows, block_columns)
    return res.transpose(1, 2).reshape(len(res) * block_rows, -1)[:rows, :columns].contiguous()


@lru_cache(1024)
def blocks_call(
    dtype,
    rows,  # of w
    n,  # rows of x
    block_rows,  # rows of a block
    gpu,  # a `Device`
) -> tuple:  # a `KernelLaunch`, and the (box, swizzle) of values, x and y
    "Return the launch of the product with a block-sparse matrix"
    products_n = _TILE_X_ROWS if block_rows == 128 else _TILE_X_ROWS // 2  # columns per wgmma
    constants = dict(BR=block_rows, STAGES=_STAGES, M=1, N=products_n, OUT=_STORE_ROWS, BIAS=False)
    src, row_blocks = blocks_source(dtype, tuple(constants.items()), products_n), cdiv(rows, block_rows)
    shared = _STAGES * (block_rows + _TILE_X_ROWS) * 128 + 2 * 256 * _STORE_ROWS
    arrays, grid = ('values', 'x', 'y', 'starts', 'columns'), (min(gpu.sms, row_blocks * cdiv(n, _TILE_X_ROWS)),)
    call = KernelLaunch(src, 'multiply_blocks', arrays, (row_blocks, n), grid, (384,), shared)
    return call, (((block_rows, 64), 128), ((_TILE_X_ROWS, 64), 128), ((_STORE_ROWS, 64), 128))


@lru_cache(1024)
def _prepare(problem, device, backend):
    "Return the prepared launch for these arguments of `blocks_call` on a device, cached"
    return prepare_launch(*blocks_call(*problem, this_device()), device)


def multiply_blocks(
    x,  # (n, columns) of the type of the matrix, contiguous
    b,  # `Blocks`
):  # (n, rows)
    """Compute x @ w.T for a block-sparse matrix w, with float32 accumulators.

        multiply_blocks(x, to_blocks(w))

    Raises TypeError or ValueError for unsupported operands, Unavailable on a GPU other than Hopper."""
    check_tensor('multiply_blocks', x, [dtype_name(b.values)])
    if x.dim() != 2 or x.shape[1] != b.shape[1]:
        raise ValueError(f'multiply_blocks: x has shape {tuple(x.shape)}; expected (any, {b.shape[1]})')
    for name, array in zip(Blocks._fields[2:], b[2:]):
        check_tensor('multiply_blocks', array, [dtype_name(array)], name)
        if array.device != x.device:
            raise ValueError(f'multiply_blocks: {name} is on {array.device} and x on {x.device}; move it with .to(...)')
    require_hopper('multiply_blocks', emulated=True)
    y = x.new_empty(x.shape[0], b.shape[0])
    if not y.numel():
        return y
    if not len(b.columns):
        return y.zero_()
    x, problem = x.clone() if x.data_ptr() % 16 else x, (dtype_name(x), b.shape[0], x.shape[0], b.block[0])
    launch_prepared(_prepare, (problem,), x, (b.values, x, y, b.starts, b.columns))
    return y
