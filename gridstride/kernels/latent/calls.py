"""The launches of decoding with a latent cache for given sizes: kernels with their constants and grids."""

import math
from functools import lru_cache
from typing import NamedTuple

from .sources import DIM, PAGE, VALUES, ampere_source, hopper_source, merge_source
from ..ladder.rung import KernelLaunch
from ...utils import cdiv


class DecodeProblem(NamedTuple):
    "The sizes of one decode step"

    dtype: str  # 'bfloat16' or 'float16'
    batch: int
    rows: int  # of q per sequence: heads times new tokens
    heads: int
    pages: int  # of the cache
    wide: int  # columns of the table


SCALE = 192**-0.5  # of head dimension 128 + 64 (RoPE), before absorption
_TALL, _STEP = 32, 32  # of `mma.sync`: rows of q in a block, keys of a step
_STAGES = 2  # pages in shared memory, on a Hopper GPU
_PAGES, _PARTS = 4, 32  # a part has so many pages, if there are more than so many parts: measured on an H100
_WHOLE = 256  # pages of a part that is not cut, at most: faster for batch 128, context 8,192, slower for 32,768
_ALONE = 1024  # pages in all, at most, that each block copies for itself: 1 to 8% faster, and none from 2,048 on
_ARRAYS = 'q', 'cache', 'table', 'lens', 'out', 'lse', 'part_out', 'part_lse'


def _scalars(c, parts):
    return *c[1:], parts


def parts_of(
    c,  # a `DecodeProblem`
    splits,  # as `latent_attention` has it
    tall,  # rows of q in a block
    at_once,  # blocks that run at the same time
) -> int:
    """Choose into how many parts all pages are cut (split-K): as many as blocks run at once per tile of rows, but not
    so many that a part has less than a few pages, unless there are few parts. If hardly fewer parts have one or more
    whole sequences each, those: then, if all have one length, nothing is cut, and nothing merged. With many pages the
    merge costs less than idle SMs"""
    fit, pages = max(1, at_once // cdiv(c.rows, tall)), max(1, c.batch * c.wide)
    whole = c.batch / cdiv(c.batch, fit)
    if not splits and whole.is_integer() and whole >= 0.95 * fit and pages <= _WHOLE * whole:
        return int(whole)
    return splits or min(fit, pages, max(_PARTS, cdiv(pages, _PAGES)))


def _factor(scale):
    "The factor of scores in base 2: exp2 takes less time than exp"
    return scale / math.log(2)


@lru_cache(1024)
def decode_ampere(
    c,
    scale,  # of scores
    splits,
    on,  # a `Device`
) -> tuple:  # `KernelLaunch`, parts
    "The decode launch by `mma.sync`, two blocks per SM"
    parts = parts_of(c, splits, _TALL, 2 * on.sms)
    src = ampere_source(c.dtype, (('BM', _TALL), ('BN', _STEP)))
    shared = 2 * DIM * (_TALL + _STEP) + _TALL * (4 * (_STEP + 4) + 2 * (_STEP + 8) + 4)
    given = _factor(scale), *_scalars(c, parts)
    return KernelLaunch(src, 'decode', _ARRAYS, given, (cdiv(c.rows, _TALL), parts), (128,), shared), parts


@lru_cache(1024)
def decode_hopper(c, scale, splits, on) -> tuple:  # `KernelLaunch`, boxes of q and of the cache, parts
    """The decode launch on a Hopper GPU, one block per SM. Two blocks whose rows of q attend to the same pages share
    the copies by multicast, unless pages are few: then waiting for each other costs more"""
    tiles, parts = cdiv(c.rows, 64), parts_of(c, splits, 64, on.sms)
    cluster = 1 if tiles % 2 or c.batch * c.wide <= _ALONE else 2
    src = hopper_source(c.dtype, (('STAGES', _STAGES), ('CLUSTER', cluster)))
    shared = (1 + _STAGES) * (2 * DIM * PAGE + 4 * 64) + 8 * (4 + 7 * _STAGES)
    given = _factor(scale), *_scalars(c, parts)
    call = KernelLaunch(src, 'decode', _ARRAYS, given, (tiles, parts), (512,), shared, cluster=(cluster, 1, 1))
    return call, ((64, 64), (PAGE // cluster, 64)), parts


def merge(c, parts, on) -> KernelLaunch:
    "The launch that merges the parts into results"
    arrays = 'out', 'lse', 'part_out', 'part_lse', 'lens'
    split = 4 if c.batch * c.rows // 8 <= on.sms else 1
    src, grid = merge_source(c.dtype, on.hopper, split), (c.batch, c.rows // 8, split)
    return KernelLaunch(src, 'merge_parts', arrays, _scalars(c, parts), grid, (256,), pdl=on.hopper)


def workspaces(c, parts) -> dict:  # name -> float32 elements
    "Workspaces for partial results: of the first sequence of each part, and of its last"
    return dict(part_out=2 * parts * c.rows * VALUES, part_lse=2 * parts * c.rows)
