"""`gemm_f16`: 16-bit GEMMs in each layout, with tiles of many sizes, split-K in a cluster and programmatic
dependent launch.

The kernel extends the last one of the Hopper ladder (`ladder.stream_k`), and reuses some of its source. Its additional
options are transposed operands, both 16-bit types, as many pipeline stages as fit into shared memory, clusters of up to
eight blocks, several blocks per SM, split-K with a reduction through distributed shared memory, and ping-pong: two
warpgroups take turns at tiles, so that one multiplies while the other stores.

Here a and b are the first and the second operand of `wgmma`: A and B, or, with swapped operands, B^T and A^T. The CUDA
source has the names of the lesson: m (h x k) and n (k x w) for A (M x K) and B (K x N).
"""

from functools import cache

from ..ladder.stream_k import resident_clusters, out_box_columns, multicast_src, store_results_src
from ..ladder.hopper import tile_order_src
from ..ptx import PTX, wgmma
from ..ladder.rung import Rung
from ..source_assembly import source_loader
from ...utils import cdiv

_SMEM_PER_SM = 228 * 1024  # bytes
_RESERVED_SMEM_PER_BLOCK = 1024  # bytes
_MAX_STAGES = 16
_PTX_TYPES = dict(bfloat16='bf16', float16='f16')
_LAYOUTS = 'nn', 'tn', 'nt'


def are_mn_major(swap_ab, layout):
    "Return whether wgmma's first and its second tile are MN-major in shared memory, with K as the outer axis"
    is_a_mn_major, is_b_mn_major = layout[0] == 't', layout[1] == 'n'
    return (is_b_mn_major, is_a_mn_major) if swap_ab else (is_a_mn_major, is_b_mn_major)


def box_columns(config):
    "Return the width of the TMA boxes of an MN-major second tile: 64 columns, which is faster, or 32"
    columns = config.BN // 2 if config.split_n else config.BN
    return 32 if columns <= 32 or config.split_n and columns % 64 else 64


def rows_of_b(config, layout):
    "Return the number of rows of wgmma's second tile that TMA loads: whole boxes if MN-major, else a multiple of eight"
    granularity = box_columns(config) if are_mn_major(config.swap_ab, layout)[1] else 8 * config.CM
    return cdiv(config.BN, granularity) * granularity


def stage_bytes(config, layout):
    "Return the bytes of both tiles of a stage, 64 elements along K"
    return 128 * (config.BM + rows_of_b(config, layout))


def stored_columns(config):
    "Return the number of columns of wgmma's result that a warpgroup stores: all, or the block's part with split-K"
    columns, granularity = config.BN // 2 if config.split_n else config.BN, 8 if config.swap_ab else 16
    return columns if config.CK == 1 else cdiv(columns, granularity * config.CK) * granularity


def _num_consumer_warpgroups(config):
    "Return the number of consumer warpgroups of a block"
    return 2 if config.pingpong or config.BM > 64 else 1


def _row_blocks_per_warpgroup(config):
    "Return the number of blocks of 64 rows that a warpgroup multiplies"
    return config.BM // 64 // (1 if config.split_n or config.pingpong else _num_consumer_warpgroups(config))


def _accumulators_per_thread(config):
    "Return the accumulators per thread of a consumer warpgroup"
    return _row_blocks_per_warpgroup(config) * config.BN // (1 + config.split_n) // 2


def _registers_per_thread(config):
    "Return the registers per thread of the producer and of a consumer after `setmaxnreg`"
    num_consumers = _num_consumer_warpgroups(config)
    registers_at_launch = 65536 // (config.BLOCKS * 128 * (num_consumers + 1)) // 8 * 8
    accumulators, producer = _accumulators_per_thread(config), 56
    if registers_at_launch <= 80 or accumulators > 200:
        producer = 24
    elif accumulators > 176:
        producer = 40
    return dict(
        PRODUCER_REGS=producer,
        CONSUMER_REGS=min(240, (registers_at_launch * (num_consumers + 1) - producer) // num_consumers // 8 * 8),
    )


def _smem_plan(config, layout):
    "Return (stages, columns stored at once, bytes per warpgroup to stage results or to receive partial sums)"
    num_consumers, bytes_per_stage = _num_consumer_warpgroups(config), stage_bytes(config, layout)
    result_columns = stored_columns(config)
    granularity = 8 if config.swap_ab else out_box_columns(result_columns)  # of the columns that are stored together
    mbarrier_bytes = 16 * _MAX_STAGES + 8 * (config.CK > 1)
    available = _SMEM_PER_SM // config.BLOCKS - _RESERVED_SMEM_PER_BLOCK - mbarrier_bytes
    partial_sum_bytes = (config.CK - 1) * 256 * result_columns * _row_blocks_per_warpgroup(config)

    def stages_that_fit(columns):  # `columns`: the columns of results that are stored at once
        return (
            available - num_consumers * max(partial_sum_bytes, 128 * min(result_columns, columns))
        ) // bytes_per_stage

    stages = min(_MAX_STAGES, max(stages_that_fit(128), min(4, stages_that_fit(64))))
    columns = (available - stages * bytes_per_stage) // (num_consumers * 128) // granularity * granularity
    if stages < 1 or columns < granularity:
        return 0, 0, 0
    columns = cdiv(cdiv(result_columns, cdiv(result_columns, columns)), granularity) * granularity
    return stages, columns, max(partial_sum_bytes, 128 * columns)


def unsupported_reason(config, layout):  # None if it has a kernel
    "Return the reason why this configuration has no kernel"
    cluster_size, (a_mn_major, b_mn_major) = config.CM * config.CN * config.CK, are_mn_major(config.swap_ab, layout)
    if cluster_size > 8:
        return 'a cluster has at most eight blocks'
    if not config.swap_ab and stored_columns(config) % 16 or config.BN // (1 + config.split_n) % 8:
        return 'the number of columns is not a multiple of the columns that are stored together'
    box_rows_a, box_rows_b = config.BM // config.CN, rows_of_b(config, layout) // config.CM
    if not a_mn_major and box_rows_a > 256 or not b_mn_major and box_rows_b > 256:
        return 'a TMA box has at most 256 rows'
    if config.split_n and b_mn_major and config.BN // 2 % box_columns(config):
        return 'each of the two warpgroups needs whole TMA boxes'
    if config.split_n and config.BM == 64:
        return 'two warpgroups that split BN need 128 rows or more'
    if config.pingpong and (config.split_n or config.CK > 1 or config.BLOCKS > 1):
        return 'ping-pong needs whole tiles per warpgroup, and one block per SM'
    if not config.split_n and not config.pingpong and config.BM // 64 % _num_consumer_warpgroups(config):
        return 'two warpgroups cannot share the rows evenly'
    columns, accumulators = config.BN // (1 + config.split_n), _accumulators_per_thread(config)
    registers_at_launch = 65536 // (config.BLOCKS * 128 * (_num_consumer_warpgroups(config) + 1)) // 8 * 8
    registers = _registers_per_thread(config)['CONSUMER_REGS']
    if columns > 256 or accumulators + 32 > registers or columns // 2 + 26 > registers_at_launch:
        return 'a thread has too few registers for its accumulators'
    stages, columns, _ = _smem_plan(config, layout)
    if stages < 3 or not columns:
        return 'three stages do not fit into shared memory'
    if config.CK > 1 and accumulators > 96:
        return 'a thread has too few registers for partial sums'


def _smem_bytes(WGS, STAGES, STAGE, BUFFER, CK):
    "Return the bytes of shared memory: stages, a buffer per warpgroup, and mbarriers"
    return STAGES * STAGE + WGS * BUFFER + 16 * STAGES + 8 * (CK > 1)


def _tma_boxes(config, layout, columns):
    "Return the TMA boxes (rows, columns) of m, n and out; the blocks of a cluster multicast parts of the tiles"
    a_mn_major, b_mn_major = are_mn_major(config.swap_ab, layout)
    box_a = (64 // config.CN if a_mn_major else config.BM // config.CN, 64)
    box_b = (
        (64 // config.CM, box_columns(config), 2 * box_columns(config))
        if b_mn_major
        else (rows_of_b(config, layout) // config.CM, 64)
    )
    out_box_width = out_box_columns(stored_columns(config))
    box_out = (columns, 64) if config.swap_ab else (16, out_box_width, 2 * out_box_width)
    return dict(m=box_b, n=box_a, out=box_out) if config.swap_ab else dict(m=box_a, n=box_b, out=box_out)


def _kernel_name(config, dtype, layout, pdl):
    "Return the name of a kernel in tables and messages"
    split_k, blocks = f'split-K {config.CK}' * (config.CK > 1), f'{config.BLOCKS} per SM' * (config.BLOCKS > 1)
    options = [f'{config.CM}x{config.CN}', split_k, blocks, 'PDL' * pdl]
    variant = f' {layout}' * (layout != 'nn') + f' {dtype}' * (dtype != 'bfloat16')
    variant += ' swap-AB' * config.swap_ab + ' split-N' * config.split_n + ' ping-pong' * config.pingpong
    return f'gemm_f16 {config.BM}x{config.BN}{variant}, ' + ', '.join(option for option in options if option)


# With programmatic dependent launch (PDL) a kernel shares the GPU with earlier kernels of its stream: they may still
# write what it reads, read what it writes, or use memory that was freed since and is `out` now. So every thread waits
# (griddepcontrol.wait) before its first access to global memory, a store as well as a load; before that are only
# barriers and shared memory of the cluster, arithmetic on sizes, and prefetches of tensor maps, which are arguments.
# The wait lasts until the previous grid has ended and all its writes are visible. Waiting for one grid is enough: in a
# chain of grids A, B, C with PDL, C may begin while A runs, but B ends only after each of its threads has waited for A,
# so the wait for B includes A. There is no deadlock, because a grid triggers the next one when all its own blocks are
# resident: C takes no SM that a block of A or B still needs. TMA loads and partial sums bypass the L1 cache, so no
# stale line is read after the wait. After a kernel that does not trigger the next one, the launch is an ordinary one.
#
# With CK > 1 there is one cluster per tile. Otherwise the kernel is persistent: as many clusters as fit on the GPU loop
# over the tiles.
def gemm_f16(
    config,  # a `cost_model.TileConfig`
    dtype='bfloat16',
    layout='nn',  # 'tn': A is passed as (K, M); 'nt': B as (N, K)
    pdl=False,  # programmatic dependent launch: it begins before the previous kernel ends
) -> Rung:
    """Return the kernel of a configuration.

        gemm_f16(TileConfig(128, 256, CM=2))(A, B)

    Raises ValueError if the configuration has no kernel."""
    if dtype not in _PTX_TYPES or layout not in _LAYOUTS:
        expected = f'one of {", ".join(_PTX_TYPES)}, and layout one of {", ".join(_LAYOUTS)}'
        raise ValueError(f'gemm_f16: dtype must be {expected}; got {dtype!r} and {layout!r}')
    return _gemm_f16(config, dtype, layout, bool(pdl))


@cache  # so that each kernel is compiled once
def _gemm_f16(config, dtype, layout, pdl):
    if reason := unsupported_reason(config, layout):
        raise ValueError(f'there is no {_kernel_name(config, dtype, layout, pdl)}: {reason}')
    stages, columns, buffer = _smem_plan(config, layout)
    cluster_size = config.CM * config.CN * config.CK

    def grid(h, w, sms):
        cluster_rows, cluster_columns = config.BM * config.CM, config.BN * config.CN
        if config.swap_ab:
            cluster_rows, cluster_columns = cluster_columns, cluster_rows
        num_tiles = cdiv(h, cluster_rows) * cdiv(w, cluster_columns)
        num_resident = max(1, resident_clusters(cluster_size, sms)) * config.BLOCKS
        return (num_tiles if config.CK > 1 else min(num_resident, num_tiles)) * cluster_size, 1

    def supports(h, w, k):
        return cdiv(k, 64) >= config.CK or f'K is too short for {config.CK} blocks'

    columns_per_warpgroup = config.BN // 2 if config.split_n else config.BN
    instructions = (PTX + wgmma(columns_per_warpgroup)).replace('bf16', _PTX_TYPES[dtype])
    constants = {name: getattr(config, name) for name in ('BM', 'BN', 'CM', 'CN', 'CK', 'BLOCKS')}
    flags = dict(SWAP_AB=config.swap_ab, SPLIT_N=config.split_n, PINGPONG=config.pingpong, PDL=pdl)
    flags |= dict(M_TRANSPOSED=layout[0] == 't', N_TRANSPOSED=layout[1] == 't')
    sizes = dict(M=_row_blocks_per_warpgroup(config), N=stored_columns(config), COLUMNS=columns_per_warpgroup)
    src = instructions + multicast_src + tile_order_src + store_results_src + source_loader(__package__)('hopper_f16')
    return Rung(
        _kernel_name(config, dtype, layout, pdl),
        src,
        threads=128 * (_num_consumer_warpgroups(config) + 1),
        shared=_smem_bytes,
        tma_boxes=_tma_boxes(config, layout, columns),
        grid=grid,
        supports=supports,
        dtype=dtype,
        pdl=pdl,
        layout=layout,
        **constants,
        BK=64,
        WGS=_num_consumer_warpgroups(config),
        STAGES=stages,
        STAGE=stage_bytes(config, layout),
        OUT_COLS=columns,
        BUFFER=buffer,
        BOX=box_columns(config),
        GROUP=8,
        **_registers_per_thread(config),
        **sizes,
        **{name: int(flag) for name, flag in flags.items()},
    )
