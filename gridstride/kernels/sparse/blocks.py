"""Multiply by a block-sparse matrix on the tensor cores of a Hopper GPU."""

from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F

from .launches import launch_prepared, prepare_launch
from .sources import F16_TYPES, blocks_source
from ..ladder.rung import KernelLaunch, current_device_properties, require_hopper
from ..common import check_tensor, dtype_name
from ...utils import cdiv

BLOCK_SHAPES = (128, 64), (64, 64)  # (rows, columns) of the blocks that the kernels support
_X_ROWS_PER_BLOCK, _STAGES, _ROWS_PER_STORE = 256, 4, 64  # of x per thread block; of the pipeline; of y per TMA store


class BlockSparseMatrix(NamedTuple):
    "A block-sparse matrix: only the blocks that are not all zeros are stored"

    shape: tuple  # (rows, columns)
    block: tuple  # (rows, columns) of a block
    values: object  # (number of blocks * rows of a block, columns of a block), one block row after the other
    row_offsets: object  # (block rows + 1,) of int32: the index of the first block of each block row
    columns: object  # (number of blocks,) of int32: the block column of each block

    @property
    def nbytes(self):
        "Bytes of values, row offsets and columns"
        return self.values.nbytes + self.row_offsets.nbytes + self.columns.nbytes


def _check_block(op_name, block):
    "Raise ValueError unless the kernels support this block shape"
    if tuple(block) not in BLOCK_SHAPES:
        raise ValueError(f'{op_name}: block is {block!r}; expected {" or ".join(map(str, BLOCK_SHAPES))}')


def _split_into_blocks(w, block):
    "Pad with zeros, and reshape to (block rows, block columns, rows of a block, columns of a block)"
    height, width = block
    w = F.pad(w, (0, -w.shape[1] % width, 0, -w.shape[0] % height))
    return w.view(w.shape[0] // height, height, w.shape[1] // width, width).transpose(1, 2)


def prune_blocks(
    w,  # (rows, columns) of floats
    zeros=0.9,  # fraction of the blocks that become 0
    block=(128, 64),  # (rows, columns) of a block
):  # w's shape
    """Set the blocks with the smallest sums of squares to 0.

        w = prune_blocks(w, zeros=0.9)

    Raises ValueError for an unsupported block shape, a fraction out of [0, 1], or NaN."""
    _check_block('prune_blocks', block)
    if not 0 <= zeros <= 1:
        raise ValueError(f'prune_blocks: zeros is {zeros!r}; expected a fraction from 0 to 1')
    sums = _split_into_blocks(w.detach().float(), block).square().sum((2, 3))
    if sums.isnan().any():
        raise ValueError('prune_blocks: w has a NaN, which has no magnitude: replace it first')
    keep_block_mask = torch.zeros_like(sums, dtype=torch.bool).flatten()
    keep_block_mask[sums.flatten().argsort(descending=True, stable=True)[: round((1 - zeros) * sums.numel())]] = True
    keep_mask = keep_block_mask.view_as(sums).repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)
    return torch.where(keep_mask[: w.shape[0], : w.shape[1]], w, 0)


def to_blocks(
    w,  # (rows, columns) of float16 or bfloat16; both multiples of 8
    block=(128, 64),  # or (64, 64)
) -> BlockSparseMatrix:
    "Convert a dense matrix. Raises TypeError or ValueError for an unsupported matrix or block shape"
    _check_block('to_blocks', block)
    if dtype_name(w) not in F16_TYPES or w.dim() != 2:
        raise TypeError(
            f'to_blocks: w is a {w.dim()}-dimensional {dtype_name(w)} tensor; '
            f'expected a matrix of {" or ".join(F16_TYPES)}'
        )
    if w.shape[0] % 8 or w.shape[1] % 8:
        raise ValueError(f'to_blocks: w is {w.shape[0]}x{w.shape[1]}; expected multiples of 8: pad it with zeros')
    blocks = _split_into_blocks(w.detach(), block)
    is_stored = (blocks != 0).flatten(2).any(-1)
    row_offsets = F.pad(is_stored.sum(1).cumsum(0), (1, 0)).int()
    columns = is_stored.nonzero()[:, 1].int()
    return BlockSparseMatrix(tuple(w.shape), tuple(block), blocks[is_stored].flatten(0, 1), row_offsets, columns)


def from_blocks(w: BlockSparseMatrix):  # (rows, columns)
    "Convert to a dense matrix"
    (rows, columns), (height, width) = w.shape, w.block
    dense_blocks = w.values.new_zeros(cdiv(rows, height), cdiv(columns, width), height, width)
    block_row = torch.arange(len(dense_blocks), device=w.values.device).repeat_interleave(w.row_offsets.diff())
    dense_blocks[block_row, w.columns.long()] = w.values.view(-1, height, width)
    return dense_blocks.transpose(1, 2).reshape(len(dense_blocks) * height, -1)[:rows, :columns].contiguous()


@lru_cache(1024)
def blocks_launch(
    dtype,
    rows,  # of w
    n,  # rows of x
    block_rows,  # rows of a block
    gpu,  # a `Device`
) -> tuple:  # a `KernelLaunch`, and the (box, swizzle) of values, x and y
    "Return the launch of the SpMM with a block-sparse matrix, and the boxes of its tensor maps"
    wgmma_columns = _X_ROWS_PER_BLOCK if block_rows == 128 else _X_ROWS_PER_BLOCK // 2
    constants = dict(BR=block_rows, STAGES=_STAGES, M=1, N=wgmma_columns, OUT=_ROWS_PER_STORE, BIAS=False)
    src, row_blocks = blocks_source(dtype, tuple(constants.items()), wgmma_columns), cdiv(rows, block_rows)
    smem_bytes = _STAGES * (block_rows + _X_ROWS_PER_BLOCK) * 128 + 2 * 256 * _ROWS_PER_STORE
    arrays = 'values', 'x', 'y', 'row_offsets', 'columns'
    grid = (min(gpu.sms, row_blocks * cdiv(n, _X_ROWS_PER_BLOCK)),)
    kernel_launch = KernelLaunch(src, 'multiply_blocks', arrays, (row_blocks, n), grid, (384,), smem_bytes)
    return kernel_launch, (((block_rows, 64), 128), ((_X_ROWS_PER_BLOCK, 64), 128), ((_ROWS_PER_STORE, 64), 128))


@lru_cache(1024)
def _prepare(problem, device, backend):  # `backend` is only part of the cache key
    "Prepare the launch for `problem`, the arguments of `blocks_launch` without the `Device`"
    return prepare_launch(*blocks_launch(*problem, current_device_properties()), device)


def multiply_blocks(
    x,  # (n, columns), contiguous, with the dtype of the matrix
    w,  # `BlockSparseMatrix`
):  # (n, rows)
    """Compute x @ w.T for a block-sparse matrix w, with float32 accumulators.

        multiply_blocks(x, to_blocks(w))

    Raises TypeError or ValueError for unsupported operands, Unavailable on a GPU other than Hopper."""
    check_tensor('multiply_blocks', x, [dtype_name(w.values)])
    if x.dim() != 2 or x.shape[1] != w.shape[1]:
        raise ValueError(f'multiply_blocks: x has shape {tuple(x.shape)}; expected (n, {w.shape[1]})')
    for name, array in zip(BlockSparseMatrix._fields[2:], w[2:]):
        check_tensor('multiply_blocks', array, [dtype_name(array)], name)
        if array.device != x.device:
            raise ValueError(f'multiply_blocks: {name} is on {array.device} and x on {x.device}: move it with .to(...)')
    require_hopper('multiply_blocks', emulated=True)
    y = x.new_empty(x.shape[0], w.shape[0])
    if not y.numel():
        return y
    if not len(w.columns):
        return y.zero_()
    x, problem = x.clone() if x.data_ptr() % 16 else x, (dtype_name(x), w.shape[0], x.shape[0], w.block[0])
    launch_prepared(_prepare, (problem,), x, (w.values, x, y, w.row_offsets, w.columns))
    return y
