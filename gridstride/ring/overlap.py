"""One persistent GEMM that overlaps its communication (`overlap_gemm.cuh`): its source, tile and launch."""

from functools import lru_cache

from ..kernels.common import dtype_name
from ..kernels.gemm.calls import BK, GemmProblem, KernelLaunch, choose_tile, register_split, stage_bytes
from ..kernels.gemm.launches import current_device_properties, unsupported_device_reason, unsupported_reason
from ..kernels.gemm.sources import gemm_source
from ..kernels.sparse.launches import launch_prepared, prepare_launch
from ..kernels.source_assembly import source_loader
from ..utils import cdiv

MAX_CHUNKS = 64  # chunks per rank and call
ring_source = source_loader(__package__)  # ring_source(name) -> the contents of name.cuh
_ARRAYS = 'A', 'B', 'out_map', 'last_map', 'out', 'inbox', 'copy_state'  # parameters of the kernel
_FLAGS = 'BIAS ACTIVATION MULTIPLIED SAVED SAVE_GRAD COLUMN_SUMS ACCUMULATE GROUPED A_TRANSPOSED B_TRANSPOSED'.split()


def fallback_reason(x, w):  # None if the kernel supports them
    "Return why separate kernels compute this product"
    (M, K), N = x.shape, w.shape[1]
    if reason := unsupported_reason(dtype_name(x), 'nn', M, N, K) or unsupported_device_reason(x):
        return reason
    if (x.data_ptr() | w.data_ptr()) & 15:
        return 'an operand begins at an address that is not a multiple of 16'


@lru_cache(1024)
def _tile_of(dtype, is_gather, ranks, M, N, K, sms):
    "Return the tile for M rows per rank"
    return choose_tile(GemmProblem(dtype, dtype, 'nn', 1, ranks * M, N, K, has_addend=not is_gather), sms)


def chunk_ends(K, chunks):
    "Return the column at which each chunk of columns ends: as `chunk_end` in overlap_gemm.cuh"
    steps = cdiv(K, BK)
    chunks = min(chunks, steps.bit_length())  # so that no chunk is empty
    return [BK * (steps - (steps >> c)) for c in range(1, chunks)] + [K]


def chunk_rows(is_gather, M, chunks, tile):
    "Return the rows of a chunk that is sent; all-gather: rows of tiles that are computed together, for the L2 cache"
    cluster_rows = tile.BM * tile.CM
    return 16 * cluster_rows if is_gather else cdiv(cdiv(M, chunks), cluster_rows) * cluster_rows


@lru_cache(64)
def overlap_source(dtype, is_gather, tile):
    "Return the CUDA C of the kernel"
    constants = dict(tile._asdict(), BK=BK, **register_split(tile), **dict.fromkeys(_FLAGS, 0), ADDED=not is_gather)
    constants |= dict(GATHER=is_gather, MAX_COPIES=MAX_CHUNKS)
    source = gemm_source(dtype, dtype, None, tuple(constants.items()))
    source = source[: source.rindex('__global__')]  # its functions, without its kernel
    # what another rank sends arrives while the kernel runs, so it must not be loaded as read-only data
    source = source.replace('__ldg(', '*(')
    return source + ring_source('waits') + ring_source('overlap_gemm')


@lru_cache(1024)
def _prepared_launch(dtype, is_gather, tile, rank, ranks, chunks, rows_per_chunk, M, N, K, device, backend):
    "Return the prepared launch for these sizes"
    cluster_size = tile.CM * tile.CN
    num_tiles = ranks * cdiv(M, tile.BM * tile.CM) * cdiv(N, tile.BN * tile.CN)
    # The kernels that wait for a complete chunk need an SM while this kernel runs.
    resident_clusters = current_device_properties().sms * tile.BLOCKS // cluster_size - (not is_gather)
    grid = cluster_size * min(resident_clusters, num_tiles)
    smem_bytes = tile.STAGES * stage_bytes(tile, False) + tile.WGS * 4 * 4096
    scalars, threads = (rank, ranks, chunks, rows_per_chunk, M, N, K), 128 * (tile.WGS + 1)
    source = overlap_source(dtype, is_gather, tile)
    launch = KernelLaunch(source, 'multiply_overlapped', _ARRAYS, scalars, (grid,), (threads,), smem_bytes)
    box_a, box_b, box_out = (1, tile.BM // tile.CN, BK), (1, BK // tile.CM, 64), (1, 16, 64)
    boxes = box_a, box_b, box_out, box_a if is_gather else box_out
    return prepare_launch(launch, tuple((box, 128) for box in boxes), device)


def all_gather_matmul(
    x,  # [M, K], this rank's rows
    w,  # [K, N]
    out,  # [ranks, M, N]
    inbox,  # [ranks, M, K]: where rows of other ranks arrive
    copy_state,  # the struct `CopyState`
    rank,
    chunks,  # the number of chunks of columns
    tile=None,
):
    "Launch the kernel that multiplies the rows of all ranks"
    (M, K), (ranks, _, N) = x.shape, out.shape
    tile = tile or _tile_of(dtype_name(x), True, ranks, M, N, K, current_device_properties().sms)
    key = dtype_name(x), True, tile, rank, ranks, chunks, chunk_rows(True, M, chunks, tile), M, N, K
    launch_prepared(_prepared_launch, key, x, (x[None], w[None], out, inbox, out, x, copy_state))


def matmul_reduce_scatter(
    x,  # [2 * M, K]
    w,  # [K, N]
    product,  # [M, N]: what the other rank needs
    out,  # [M, N]: the result
    inbox,  # [M, N]: where the product of the other rank arrives
    copy_state,  # the struct `CopyState`
    rank,
    chunks,  # the number of chunks of rows
    tile=None,
):  # the rows of a chunk
    "Launch the kernel that multiplies the rows of both ranks"
    (M, N), K = out.shape, x.shape[1]
    tile = tile or _tile_of(dtype_name(x), False, 2, M, N, K, current_device_properties().sms)
    rows_per_chunk = chunk_rows(False, M, chunks, tile)
    key = dtype_name(x), False, tile, rank, 2, cdiv(M, rows_per_chunk), rows_per_chunk, M, N, K
    arrays = x.view(2, M, K), w[None], product[None], out[None], out, inbox, copy_state
    launch_prepared(_prepared_launch, key, x, arrays)
    return rows_per_chunk
