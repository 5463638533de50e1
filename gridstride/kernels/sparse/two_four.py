"""Products with a 2:4 sparse matrix: by `wgmma.sp` on a Hopper GPU, by `mma.sp` on others from Ampere on."""

from functools import lru_cache
from typing import NamedTuple

import torch

from .formats import Compressed, compress, from_words, spread, to_words
from .launches import launch_on, ready
from .sources import HALVES, hopper_source, warps_source, wgmma_sp
from ..ladder.rung import KernelLaunch, this_device, need_bfloat16, runs_hopper
from ..tool import check_fits, check_tensor, type_of
from ...utils import cdiv


class TwoFour(NamedTuple):
    "A 2:4 sparse matrix as `multiply_24` reads it"

    shape: tuple  # (rows, columns)
    values: object  # (rows, columns/2)
    words: object  # of positions, as of `formats.to_words`

    @property
    def nbytes(self):
        "Bytes of both"
        return self.values.nbytes + self.words.nbytes


def why_not_24(rows, columns):  # None if it can
    "Why the kernels cannot have a matrix of these sizes, in a few words"
    if columns % 16 or rows % 8:
        return f'it is {rows}x{columns}, and the kernels need rows in eights and columns in sixteens'


def pack_24(
    w,  # (rows, columns) of float16 or bfloat16: two at most of each four are not 0
) -> TwoFour:
    "A matrix as `multiply_24` reads it; `prune` of `formats` makes one of any. `ValueError` says what does not fit"
    values, metadata = compress(w)
    if type_of(w) not in HALVES:
        raise TypeError(f'pack_24: w is {type_of(w)}, and it may be {", ".join(HALVES)}; convert it with .to(...)')
    if why := why_not_24(*w.shape):
        raise ValueError(f'pack_24: {why}')
    return TwoFour(tuple(w.shape), values.contiguous(), to_words(metadata))


def unpack_24(p: TwoFour):  # (rows, columns)
    "The matrix with its zeros"
    return spread(Compressed(p.values, from_words(p.words, *p.shape)))


class Tile(NamedTuple):
    "The tile of a product on a Hopper GPU"

    BM: int  # rows of w for a block
    BN: int  # rows of x
    STAGES: int
    CM: int  # blocks of a cluster that share x
    CN: int  # and that share w
    OUT: int  # rows of y that are stored at once, twice per warpgroup
    GROUP: int  # rows of tiles that are visited together


# A tile: its measured time on an H100, in units of what `cost` says without it
TILES = {
    Tile(128, 256, 5, 2, 1, 32, 8): 0.94,
    Tile(256, 192, 5, 2, 1, 48, 8): 1,
    Tile(256, 160, 5, 2, 1, 80, 8): 0.985,
    Tile(256, 128, 6, 2, 1, 64, 8): 1,
    Tile(256, 64, 8, 2, 1, 32, 8): 1,
    Tile(128, 128, 8, 2, 1, 64, 8): 1,
    Tile(128, 64, 8, 2, 1, 32, 8): 1,
}
_WGS = 2  # warpgroups that multiply
_STEP = 64  # k of a step


def cost(
    tile,  # of `TILES`
    rows,  # of w
    n,  # rows of x
    k,
    sms=132,
) -> float:
    "About how many cycles the product takes: a step as long as its slowest part, and a bit more"
    blocks = tile.CM * tile.CN
    tiles = cdiv(rows, tile.BM * tile.CM) * cdiv(n, tile.BN * tile.CN)
    tensor = tile.BM * tile.BN / 64
    # read by each 64 rows of w, 32 k at once, and written: 128 bytes a cycle
    shared = 0.74 * (tile.BM / 32 * (16 + tile.BN / 2) + tile.BM / 2 + tile.BN)
    copies = (tile.BM * 64 / tile.CN + tile.BN * 128 / tile.CM) / 63
    step = (tensor**4 + shared**4 + copies**4) ** 0.25
    return TILES[tile] * (6000 + cdiv(tiles, sms // blocks) * (cdiv(k, 4 * _STEP) * 4 * step + 2500))


@lru_cache(1024)
def choose(rows, n, k, sms=132) -> Tile:
    "The tile with the lowest estimate"
    return min(TILES, key=lambda tile: cost(tile, rows, n, k, sms))


_ARRAYS = 'values', 'x', 'y', 'words'


def _with_bias(bias):
    "Names of arrays: x stands for a bias that is not there"
    return *_ARRAYS, 'bias' if bias else 'x'


@lru_cache(1024)
def hopper_call(
    dtype,
    rows,  # of w
    n,  # rows of x
    k,
    bias,  # is there one?
    on,  # a `Device`
    tile=None,  # that of `choose`
) -> tuple:  # a `KernelLaunch`, and the (box, swizzle) of values, x and y
    "The launch on a Hopper GPU"
    tile = tile or choose(rows, n, k, on.sms)
    constants = dict(tile._asdict(), BK=_STEP, WGS=_WGS, M=tile.BM // 64 // _WGS, N=tile.BN, BIAS=bias)
    src = hopper_source(('two_four',), dtype, wgmma_sp(tile.BN), tuple(constants.items()))
    blocks, tiles = tile.CM * tile.CN, cdiv(rows, tile.BM * tile.CM) * cdiv(n, tile.BN * tile.CN)
    shared = tile.STAGES * _STEP * (tile.BM + 2 * tile.BN) + _WGS * 256 * tile.OUT
    grid, block = (blocks * min(on.sms // blocks, tiles),), (128 * (_WGS + 1),)
    call = KernelLaunch(src, 'multiply_24', _with_bias(bias), (rows, n, k), grid, block, shared)
    return call, (((tile.BM // tile.CN, _STEP // 2), 64), ((tile.BN // tile.CM, _STEP), 128), ((tile.OUT, 64), 128))


_WARPS_STAGES = 3  # of 28 KiB, which fit into 100 KiB


@lru_cache(1024)
def warps_call(dtype, rows, n, k, bias) -> KernelLaunch:
    "The launch on another GPU"
    src, shared = warps_source(dtype, (('STAGES', _WARPS_STAGES), ('BIAS', bias))), _WARPS_STAGES * 128 * 224
    return KernelLaunch(
        src, 'multiply_24', _with_bias(bias), (rows, n, k), (cdiv(rows, 128), cdiv(n, 128)), (256,), shared
    )


@lru_cache(1024)
def _ready(sizes, by_warps, tile, device, backend):
    "Return the prepared launch for sizes on a device, cached"
    if runs_hopper() and not by_warps:
        return ready(*hopper_call(*sizes, this_device(), tile), device)
    return ready(warps_call(*sizes), (), device)


def run_24(x, p, bias=None, by_warps=False, tile=None):
    "`multiply_24` of operands that are known to fit"
    y = x.new_empty(x.shape[0], p.shape[0])
    if not y.numel():
        return y
    x, words = x.clone() if x.data_ptr() % 16 else x, p.words if x.is_cuda else p.words.view(torch.uint32)
    sizes = type_of(x), p.shape[0], *x.shape, bias is not None
    launch_on(_ready, (sizes, by_warps, tile), x, (p.values, x, y, words, x if bias is None else bias))
    return y


def multiply_24(
    x,  # (n, columns) of the type of the matrix, contiguous
    p,  # a `TwoFour`
    bias=None,  # (rows,)
    by_warps=False,  # by `mma.sp`, even on a Hopper GPU
):  # (n, rows)
    """Compute x @ w.T (+ bias) for a packed 2:4 sparse matrix w, summed in float32.

        multiply_24(x, pack_24(prune(w)))

    Raises TypeError and ValueError for operands that do not fit, Unavailable on a GPU older than Ampere."""
    check_tensor('multiply_24', x, [type_of(p.values)])
    if x.dim() != 2 or x.shape[1] != p.shape[1]:
        raise ValueError(f'multiply_24: x has the shape {tuple(x.shape)}, and (any, {p.shape[1]}) is needed')
    for name, o in (('values', p.values), ('words', p.words)):
        check_tensor('multiply_24', o, [type_of(o)], name)
        if o.device != x.device:
            raise ValueError(f'multiply_24: {name} is on {o.device} and x on {x.device}; move it with .to(...)')
    if bias is not None:
        check_fits('multiply_24', 'bias', bias, x, (p.shape[0],))
    need_bfloat16('multiply_24')
    return run_24(x, p, bias, by_warps)
