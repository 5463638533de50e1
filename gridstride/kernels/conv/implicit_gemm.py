"""The launches of dense convolutions, as implicit GEMMs: the im2col matrix (operand A) is gathered tile by tile."""

from functools import lru_cache
from typing import NamedTuple

from .problems import Convolution, is_channels_last
from .sources import kernel_source
from ..common import MAX_LOAD_BYTES, dtype_name
from ..ladder import KernelLaunch
from ...utils import cdiv


class GemmTile(NamedTuple):
    "The tile of a block, and its warps and stages"

    m: int  # output pixels
    n: int  # output channels
    warps_m: int
    warps_n: int
    stages: int = 3

    @property
    def smem_bytes(self):
        "The bytes of dynamic shared memory"
        return self.stages * (self.m + self.n) * 128


REASON = 'a dense convolution, as an implicit GEMM: the im2col matrix (operand A) is gathered tile by tile'
_TILES = GemmTile(128, 128, 2, 4), GemmTile(128, 64, 4, 2), GemmTile(64, 64, 2, 2, 4)


def gemm_tile(problem: Convolution, sms) -> GemmTile:
    "Return the largest tile whose grid has at least one block per SM, or else the smallest tile"
    out_height, out_width = problem.out_size
    pixels = problem.images * out_height * out_width
    candidates = [tile for tile in _TILES if tile.n <= max(64, problem.out_channels)]
    enough = (tile for tile in candidates if cdiv(pixels, tile.m) * cdiv(problem.out_channels, tile.n) >= sms)
    return next(enough, _TILES[-1])


def _allows_vector_copies(x) -> bool:
    "Return whether x is stored channels last at a 16-byte-aligned address, as copies of 8 channels require"
    is_nhwc = is_channels_last(x) or x.is_contiguous() and 1 in (x.shape[1], x.shape[2] * x.shape[3])
    return is_nhwc and x.data_ptr() % MAX_LOAD_BYTES == 0


def dense_fallback(problem: Convolution, x, weight, device) -> str:  # None if our kernel computes it
    "Return the reason why torch computes a dense convolution"
    if dtype_name(x) != 'bfloat16':
        return f'a dense convolution of {dtype_name(x)}: our kernel supports bfloat16'
    if not (_allows_vector_copies(x) and _allows_vector_copies(weight)):
        return 'a dense convolution whose x and weight are not both stored channels last, as our kernel requires'
    if problem.channels % 8 or problem.out_channels % 8:
        return 'a dense convolution whose channel counts are not multiples of 8: a 16-byte copy would span two pixels'
    if len(set(problem.stride)) > 1 or len(set(problem.dilation)) > 1:
        return 'different strides or dilations along the two axes'
    if max(problem.images * problem.out_size[0] * problem.out_size[1], problem.height * problem.width) >= 2**31:
        return '2^31 or more pixels'
    return None if device.is_hopper and is_faster(problem) else _CUDNN_IS_FASTER


_CUDNN_IS_FASTER = 'a dense convolution: cuDNN is faster'


def is_faster(problem: Convolution) -> bool:
    "Return whether our kernel is faster than cuDNN: for 10 layers on an H200 its speedup was only 0.38x to 0.75x"
    return False


@lru_cache(1024)
def dense_launches(problem: Convolution, has_bias, device, tile=None) -> list:  # of `KernelLaunch`
    "Return the launch of a dense bfloat16 convolution, in a list; `tile`: None selects one"
    tile, (out_height, out_width) = tile or gemm_tile(problem, device.sms), problem.out_size
    constants = dict(KH=problem.kernel[0], KW=problem.kernel[1], STRIDE=problem.stride[0], DILATION=problem.dilation[0])
    constants |= dict(PAD_H=problem.padding[0], PAD_W=problem.padding[1], BM=tile.m, BN=tile.n, WARPS_M=tile.warps_m)
    constants |= dict(WARPS_N=tile.warps_n, STAGES=tile.stages, BIAS=has_bias)
    src = kernel_source('dense', 'bfloat16', tuple(constants.items()))
    tiles_n, pixels = cdiv(problem.out_channels, tile.n), problem.images * out_height * out_width
    sizes = problem.images, problem.channels, problem.height, problem.width, problem.out_channels
    scalars, grid = (*sizes, out_height, out_width, tiles_n), (cdiv(pixels, tile.m) * tiles_n,)
    block = (32 * tile.warps_m * tile.warps_n,)
    return [KernelLaunch(src, 'dense', ('x', 'weight', 'bias', 'y'), scalars, grid, block, tile.smem_bytes)]
