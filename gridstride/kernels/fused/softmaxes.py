"""`softmax` and `log_softmax` along the last axis, as torch knows them: each row is read once, as long as the registers
or the shared memory of a cluster can keep it."""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch.autograd.function import once_differentiable

from .sources import SIZES, sums_of, whole
from ..operators import operator
from ..ladder.launches import Long
from ..ladder.rung import KernelLaunch, this_device
from ..tool import check_tensor, launch, type_of, vector_of
from ...utils import cdiv

# Registers, forward: bytes of a row that a block keeps, at most -> of these, those of a thread
_HELD = {2**14: 64, 2**15: 32, 2**16: 64}
# Bytes of a number -> of the longest row that a cluster leaves to one block, of what each of its blocks keeps if there
# may be so many, and the threads of a block
_HELD_PARTS = {2: (2**15, 2**14, 256), 4: (2**16, 2**16, 512)}
_MAX_HELD = 8  # packs of a thread of a cluster
# Shared memory, of other rows and backward
_KEPT = 64, 128, 256  # bytes that a thread keeps: of rows up to 32 KiB, up to 64 KiB, and of longer ones
_PART = 2**16  # bytes of a row that a block keeps, and at most, of the longest rows:
_MAX_PART, _PLAIN_PART = 200 * 1024, 2**15  # the second without a Hopper GPU's shared memory
_MAX_BLOCKS = 8  # of a cluster
_MIN_THREADS, _MAX_THREADS = 128, 512  # threads of a block
_SHARE, _PARTS = 2**15, 1024  # bytes of a block, and blocks of a row, where rows are read twice
_STREAM = 2**25  # bytes of a result that is larger than what the caches could keep until it is read


class Shape(NamedTuple):
    "The layout of rows in registers or shared memory"

    packs: int  # of a thread
    group: int  # threads of a block that share a row
    threads: int  # of a block
    blocks: int  # of a cluster, which share a row
    held: bool = False  # in registers, or in shared memory?


def _power_above(n):
    return 1 << max(0, n - 1).bit_length()


def _held_by_block(
    packs,  # of a row
    size,  # bytes of a pack
) -> Shape:  # None where the row is too long
    "Return the `Shape` of rows in registers of a block"
    row = _power_above(packs) * size
    of_thread = next((o for most, o in _HELD.items() if row <= most), None)
    if of_thread is None:
        return None
    group = max(row // of_thread, 1)
    return Shape(row // size // group, group, group if group > 32 else _MIN_THREADS, 1, True)


def _held_by_cluster(
    packs,  # of a row
    size,  # bytes of a pack
    dtype,
) -> Shape:  # None where the row is too long, too short, or does not give all threads as much
    "Return the `Shape` of rows in registers of a cluster"
    if SIZES[dtype] not in _HELD_PARTS:
        return None
    left, part, threads = _HELD_PARTS[SIZES[dtype]]
    blocks = min(_MAX_BLOCKS, _power_above(cdiv(packs * size, part)))
    of_thread, remainder = divmod(packs, blocks * threads)
    if packs * size <= left or remainder or of_thread > _MAX_HELD:
        return None
    return Shape(of_thread, threads, threads, blocks, True)


def _registers(elements, dtype, blocks):
    "Registers of a thread that keeps so many elements: as few as suffice"
    if dtype == 'float64':
        return 64
    return 32 if elements <= 16 else 80 if elements > 32 else 56 if blocks == 1 else 48


def shape_of(
    packs,  # of a row
    size,  # bytes of a pack, or of one of each input where two are kept
    on,  # a `Device`
    dtype=None,  # of one input; None where registers keep nothing
) -> Shape:  # None where nothing keeps a row
    "Return the `Shape` of rows in registers or in shared memory"
    if dtype and on.hopper and (shape := _held_by_cluster(packs, size, dtype)):
        return shape
    if dtype and (shape := _held_by_block(packs, size)):
        return shape
    row = packs * size
    blocks = min(_MAX_BLOCKS, _power_above(cdiv(row, _PART))) if on.hopper else 1
    if row > blocks * (_MAX_PART if on.hopper else _PLAIN_PART):
        return None
    part = cdiv(packs, blocks)
    group = _power_above(cdiv(part * size, _KEPT[(row > _PART // 2) + (row > _PART)]))
    group = min(group, _power_above(part), _MAX_THREADS)
    threads = max(group, _MIN_THREADS)
    group = threads if group > 32 or blocks > 1 else group
    return Shape(cdiv(part, group), group, threads, blocks)


def _text(of, how, dtype, v, threads, blocks, **constants):
    "The source of softmax (`of` 'softmax' or 'softmax_backward') whose rows are read in one of three ways (`how`)"
    cluster = 'join_by_mbarrier' if how == 'softmax_registers' else 'join_in_cluster'
    names = 'pack', 'softmax_part', cluster if blocks > 1 else 'join_in_block', of, how
    constants = dict(V=v, THREADS=threads, **constants)
    needs = ['address', 'copy_async', 'copies_wait_all'] if how == 'softmax_shared' else []
    if blocks > 1:
        constants['CLUSTER'] = blocks
        needs += ['rank', 'cluster_arrive_relaxed', 'cluster_wait']
        mbarrier = ['address', 'barrier_init', 'barriers_ready', 'barrier_expect', 'barrier_wait', 'store_async']
        needs += mbarrier if how == 'softmax_registers' else ['cluster_sync', 'into_block']
    return whole(names, dtype, tuple(constants.items()), tuple(needs))


@lru_cache(1024)
def softmax_calls(
    of,  # 'softmax', or 'softmax_backward': its gradient
    dtype,
    rows,
    width,  # a multiple of `v`
    v,
    log,  # is it of the logarithm?
    on,
) -> tuple:  # ([`KernelLaunch`], elements of the workspace between two of them)
    "The launches of softmax of rows of `width` elements on the `Device` `on`, `v` per load"
    size, arrays = v * SIZES[dtype] * (1 + (of == 'softmax_backward')), ('x', 'dy', 'out')
    kind = dict(LOG=log, STREAM=rows * width * SIZES[dtype] > _STREAM)
    if shape := shape_of(width // v, size, on, dtype if of == 'softmax' else None):
        packs, group, threads, blocks, held = shape
        scalars, shared, kind['GROUP'] = (Long(rows), width), 0, group
        if held:
            kind |= dict(HELD=packs, BLOCKS=2**16 // (threads * _registers(packs * v, dtype, blocks)), STREAM=False)
        else:
            kind['ASYNC'], scalars, shared = on.hopper, (*scalars, packs), threads * packs * size
        src = _text(of, 'softmax_registers' if held else 'softmax_shared', dtype, v, threads, blocks, **kind)
        grid = (blocks * cdiv(rows, threads // group),)
        return [KernelLaunch(src, 'keep_rows', arrays, scalars, grid, (threads,), shared, cluster=(blocks, 1, 1))], 0
    parts = min(_PARTS, cdiv(width // v * size, _SHARE))
    src = _text(of, 'softmax_split', dtype, v, _MAX_THREADS, 1, **kind)
    scalars, grid = (Long(width), Long(cdiv(width // v, parts)), parts), (rows * parts,)
    first = KernelLaunch(src, 'find_parts', ('x', 'dy', 'parts'), scalars, grid, (_MAX_THREADS,))
    return [
        first,
        KernelLaunch(src, 'finish_rows', ('x', 'dy', 'parts', 'out'), scalars, grid, (_MAX_THREADS,)),
    ], 2 * rows * parts


def _run(of, x, dy, log):
    out, dtype = torch.empty_like(x), type_of(x)
    if not x.numel():
        return out
    width = x.shape[-1]
    v = min(vector_of(o, 2, width) for o in (x, dy, out))
    found, parts = softmax_calls(of, dtype, x.numel() // width, width, v, log, this_device())
    parts = torch.empty(parts, dtype=getattr(torch, sums_of(dtype)), device=x.device)
    launch(found, x, dy=dy, parts=parts, out=out)
    return out


@operator('softmax(Tensor x, bool log) -> Tensor', lambda x, log: torch.empty_like(x))
def _softmax(x, log):
    tool = 'log_softmax' if log else 'softmax'
    check_tensor(tool, x, SIZES)
    if not x.dim():
        raise ValueError(f'{tool}: x is one number, and it goes along the last axis')
    if x.shape[-1] >= 2**31:
        raise ValueError(f'{tool}: a row has {x.shape[-1]:,} scalars, and the kernel counts up to 2^31 - 1')
    return _run('softmax', x, x, log)


@operator('softmax_backward(Tensor y, Tensor dy, bool log) -> Tensor', lambda y, dy, log: torch.empty_like(y))
def _softmax_backward(y, dy, log):
    return _run('softmax_backward', y, dy.contiguous(), log)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, log):
        y, ctx.log = _softmax(x, log), log
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        return _softmax_backward(*ctx.saved_tensors, dy, ctx.log), None


def softmax(
    x,  # a contiguous tensor of float32, float16, bfloat16 or float64
):  # a tensor like `x`
    """Compute exp(x - max(x)) / sum(exp(x - max(x))) along the last axis, as `x.softmax(-1)` does; differentiable once.
    16-bit types are computed in float32.

        softmax(scores)

    Raises TypeError and ValueError for an `x` that is not supported."""
    return _Softmax.apply(x, False)


def log_softmax(
    x,  # as for `softmax`
):  # a tensor like `x`
    """Compute x - logsumexp(x) along the last axis, as `x.log_softmax(-1)` does: exact even if softmax(x) underflows to
    0"""
    return _Softmax.apply(x, True)
