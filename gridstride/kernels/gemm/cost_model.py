"""A cost model for 16-bit GEMMs, fitted to measurements: it selects the kernel with the lowest estimate.

The kernels are those of `hopper_f16`, for both 16-bit types in each layout. The time of a step (64 elements along K) is
a smooth maximum of three times: those of the tensor cores, of shared memory and of the L2 cache. The time of a tile
is that of its steps, of the epilogue and, with split-K, of the reduction. The time of a kernel is that of its waves of
tiles, but at least that of its DRAM traffic.

`benchmarks/cost.py` measures GEMMs on a GPU and fits the parameters. `benchmarks/cost.json` has the measurements,
and `python cost.py fit` prints how much slower the selected kernels are than the fastest that were measured.
`calls.estimate_cycles`, for GEMMs with an epilogue, in batches or in groups, uses the same model for a step. The lesson
`every_shape` derives an early version, `stream_k.estimate_cycles`.
"""

from functools import lru_cache
from typing import NamedTuple

from ..ladder.stream_k import resident_clusters
from . import hopper_f16
from ...utils import cdiv


class TileConfig(NamedTuple):
    "The tile of a thread block, and how a GEMM is divided among blocks and warpgroups"

    BM: int  # rows of a block's tile, in the GEMM that wgmma computes; with `swap_ab` these are columns of C
    BN: int  # columns of that tile
    CM: int = 1  # blocks of a cluster along BM
    CN: int = 1  # blocks of a cluster along BN
    CK: int = 1  # split-K: blocks of a cluster that split the K of a tile
    BLOCKS: int = 1  # resident blocks per SM
    swap_ab: int = 0  # swapped operands: wgmma computes the transposed product, B^T @ A^T
    split_n: int = 0  # the two warpgroups split BN instead of BM
    pingpong: int = 0  # ping-pong: two warpgroups take turns at tiles, so that one multiplies while the other stores


# The fit uses the logarithms of the parameters, so that they stay positive.
class CostModel(NamedTuple):
    "The parameters of the cost model, in cycles or as factors. A tile has BM x BN elements; a step is 64 elements of K"

    tensor_core_factor: float = 1.0  # the tensor cores' time per step, relative to their peak rate
    smem_cycles: float = 0.74  # shared memory traffic of a step: cycles per 128 bytes
    l2_cycles: float = 128 / 63  # L2 traffic of a step: cycles per 128 bytes
    unaligned_factor: float = 1.67  # of the L2 traffic of rows that do not begin at a cache line
    mn_major_factor: float = 1.0  # of the L2 traffic of an MN-major tile of wgmma's second operand
    dram_cycles: float = 1 / 1500  # DRAM traffic, with A, B and C moved once: cycles per byte
    startup_cycles: float = 6000  # per kernel
    cluster_cycles: float = 1000  # per kernel with clusters
    epilogue_cycles: float = 1000  # per tile
    store_cycles: float = 1 / 16  # per element of a tile
    split_k_cycles: float = 2000  # per tile with split-K
    reduction_cycles: float = 1 / 8  # per element of a tile with split-K
    pingpong_cycles: float = 500  # per tile except the last one, with ping-pong, which hides the epilogue


def smooth_max(*cycles) -> float:
    "Return an approximation of the maximum that is smooth, so that it can be fitted"
    return sum(x**4 for x in cycles) ** 0.25


def step_cycles(model, shape, layout, config) -> float:
    "Estimate the cycles per step (64 elements along K) of a block that is alone on its SM"
    (M, N, K), (is_a_transposed, is_b_transposed) = shape, (operand_layout == 't' for operand_layout in layout)
    a_row_length, b_row_length = M if is_a_transposed else K, K if is_b_transposed else N  # elements per row in memory
    if config.swap_ab:
        a_row_length, b_row_length = b_row_length, a_row_length
    is_b_mn_major = is_a_transposed if config.swap_ab else not is_b_transposed  # then its tile has whole TMA boxes
    box = hopper_f16.box_columns(config)
    loaded_columns = cdiv(config.BN, box) * box if is_b_mn_major else config.BN

    def l2_traffic(rows, row_length):
        return rows * (model.unaligned_factor if row_length % 64 else 1)

    shared_traffic = (
        max(1, config.BM // 64) * 4 * (16 * (1 + config.split_n) + config.BN / 4) + config.BM + loaded_columns
    )
    l2_traffic_a = l2_traffic(config.BM / config.CN, a_row_length)
    mn_major_factor = model.mn_major_factor if is_b_mn_major else 1
    l2_traffic_b = l2_traffic(loaded_columns / config.CM, b_row_length) * mn_major_factor
    return smooth_max(
        model.tensor_core_factor * config.BM * config.BN / 32,
        model.smem_cycles * shared_traffic,
        model.l2_cycles * (l2_traffic_a + l2_traffic_b),
    )


def predict_cycles(model, shape, layout, config, sms=132) -> float:
    "Predict the cycles of a GEMM of `shape`, (M, N, K); infinite if the configuration does not suit it"
    M, N, K = shape
    cluster_size = config.CM * config.CN * config.CK
    cluster_rows, cluster_columns = config.BM * config.CM, config.BN * config.CN
    if config.swap_ab:
        cluster_rows, cluster_columns = cluster_columns, cluster_rows
    num_tiles = cdiv(M, cluster_rows) * cdiv(N, cluster_columns)  # of a cluster
    num_resident = resident_clusters(cluster_size, sms) * config.BLOCKS
    elements = config.BM * config.BN
    steps = cdiv(cdiv(K, 64), config.CK)
    cycles_per_step = step_cycles(model, shape, layout, config) * min(
        config.BLOCKS, cdiv(num_tiles * cluster_size, sms)
    )
    epilogue = model.epilogue_cycles + model.store_cycles * elements
    reduction = (config.CK > 1) * (model.split_k_cycles + model.reduction_cycles * elements)
    tile_cycles = steps * cycles_per_step + epilogue + reduction
    waves = cdiv(num_tiles, num_resident)
    if config.pingpong and waves == 1:
        return float('inf')  # one of the two warpgroups would have no tile
    compute_cycles = waves * tile_cycles - (waves - 1) * (epilogue - model.pingpong_cycles) * config.pingpong
    dram_cycles = model.dram_cycles * 2 * (M * K + K * N + M * N)
    return model.startup_cycles + model.cluster_cycles * (cluster_size > 1) + smooth_max(compute_cycles, dram_cycles)


# The fit for an H100, in cycles at 1,755 MHz. `CORRECTION_FACTORS` lists the configurations that may be selected, each
# with the ratio of its measured time to the model's prediction. A factor with only two measurements is moved halfway to
# 1. The factors of 128x160 and 128x256 were also fitted to measurements on an H200.
H100_MODEL = CostModel(
    tensor_core_factor=0.8895,
    smem_cycles=0.7403,
    l2_cycles=2.543,
    unaligned_factor=1.409,
    mn_major_factor=1.151,
    dram_cycles=0.000588,
    startup_cycles=6161,
    cluster_cycles=156.7,
    epilogue_cycles=127.4,
    store_cycles=0.07275,
    split_k_cycles=947.4,
    reduction_cycles=0.1437,
    pingpong_cycles=730.8,
)
CORRECTION_FACTORS = {
    TileConfig(64, 32, CN=4, swap_ab=1): 0.976,
    TileConfig(64, 48, CM=2, CN=2, swap_ab=1): 0.984,
    TileConfig(64, 64, CM=2, CN=2, CK=2, swap_ab=1): 0.944,
    TileConfig(64, 64, CM=2, CN=4): 0.985,
    TileConfig(64, 64, CM=4, CN=2): 1.017,
    TileConfig(64, 80, CN=4, swap_ab=1): 0.952,
    TileConfig(64, 80, CM=2, BLOCKS=2, swap_ab=1): 1.003,
    TileConfig(64, 80, CM=2, CN=4, swap_ab=1): 0.964,
    TileConfig(64, 96, CM=4, CK=2, swap_ab=1): 0.920,
    TileConfig(64, 136, CM=2, CN=4, swap_ab=1, pingpong=1): 0.958,
    TileConfig(64, 144, CM=4, CK=2): 0.942,
    TileConfig(64, 160, CM=4, CN=2): 0.986,
    TileConfig(64, 168, CM=4, CN=2, swap_ab=1): 0.988,
    TileConfig(128, 64, CN=4): 0.921,
    TileConfig(128, 128, CM=4, CN=2, swap_ab=1): 0.921,
    TileConfig(128, 144, CM=4, CN=2): 1.036,
    TileConfig(128, 160, CM=4, swap_ab=1): 0.952,
    TileConfig(128, 160, CM=4, CN=2, pingpong=1): 0.990,
    TileConfig(128, 176, CM=2, CN=2): 0.987,
    TileConfig(128, 176, CM=4, CN=2): 1.044,
    TileConfig(128, 184, CM=4, CN=2, swap_ab=1, pingpong=1): 0.997,
    TileConfig(128, 192, CM=2, swap_ab=1, pingpong=1): 0.995,
    TileConfig(128, 192, CM=2, CN=2, pingpong=1): 0.958,
    TileConfig(128, 192, CM=2, CN=4): 0.988,
    TileConfig(128, 208, CM=2, swap_ab=1, pingpong=1): 1.002,
    TileConfig(128, 208, CM=4, CN=2, swap_ab=1, pingpong=1): 1.011,
    TileConfig(128, 224, CM=2): 1.012,
    TileConfig(128, 224, CM=4, swap_ab=1): 0.967,
    TileConfig(128, 256, CM=2): 0.983,
    TileConfig(128, 272, CM=2, swap_ab=1, split_n=1): 1.008,
    TileConfig(192, 136, CM=2, CN=4, swap_ab=1, pingpong=1): 1.003,
    TileConfig(192, 160, CN=2, swap_ab=1, split_n=1): 0.926,
    TileConfig(192, 192, CN=2, swap_ab=1, split_n=1): 0.962,
    TileConfig(192, 224, CM=2, split_n=1): 1.026,
    TileConfig(256, 144, CN=2, swap_ab=1): 0.999,
    TileConfig(256, 152, CN=2, swap_ab=1): 1.006,
    TileConfig(256, 160, CN=2): 1.013,
    TileConfig(256, 176, CN=2, swap_ab=1): 1.023,
    TileConfig(256, 184, CN=2, swap_ab=1): 0.994,
    TileConfig(256, 192, CN=2, swap_ab=1): 0.995,
    TileConfig(256, 192, CM=2, CN=2): 1.010,
    TileConfig(256, 200, CN=2, swap_ab=1): 1.007,
    TileConfig(256, 200, CM=2, swap_ab=1): 1.014,
}


# Kernels with a lower estimate use programmatic dependent launch: they begin before the previous kernel ends (see
# `hopper_f16`). In CUDA graphs on an H100 the mean speedup is 1.29 for eight GEMMs below 10,000 cycles, 1.16
# up to 15,000 and 1.09 up to 25,000; above, it is 1.02 or less (`benchmarks/pdl.txt`). Before the measurement, the
# results of chains of such kernels were compared bit by bit.
PDL_MAX_CYCLES = 35_000


def build_kernel(config, pdl=False, dtype='bfloat16', layout='nn'):
    "Build the kernel of a `TileConfig`; `pdl`: with programmatic dependent launch"
    return hopper_f16.gemm_f16(config, dtype, layout, pdl)


@lru_cache
def available_configs(dtype='bfloat16', layout='nn') -> tuple:
    "Return the configurations that have a kernel for a dtype and a layout"
    return tuple(config for config in CORRECTION_FACTORS if not hopper_f16.unsupported_reason(config, layout))


def estimate_cycles(M, N, K, config, sms=132, layout='nn') -> float:
    "Estimate the cycles of a kernel for (M x K) @ (K x N)"
    return CORRECTION_FACTORS[config] * predict_cycles(H100_MODEL, (M, N, K), layout, config, sms)


@lru_cache(4096)
def rank_configs(M, N, K, sms=132, dtype='bfloat16', layout='nn') -> list:
    "Return the configurations for (M x K) @ (K x N), sorted by estimate"
    configs = [config for config in available_configs(dtype, layout) if config.CK <= cdiv(K, 64)]
    return sorted(configs, key=lambda config: estimate_cycles(M, N, K, config, sms, layout))


def rank_kernels(M, N, K, sms=132, count=6, dtype='bfloat16', layout='nn') -> list:
    "Return the `count` kernels with the lowest estimates for (M x K) @ (K x N), the lowest first"
    configs = rank_configs(M, N, K, sms, dtype, layout)[:count]
    uses_pdl = [estimate_cycles(M, N, K, config, sms, layout) < PDL_MAX_CYCLES for config in configs]
    return [build_kernel(config, pdl, dtype, layout) for config, pdl in zip(configs, uses_pdl)]


def choose(M, N, K, sms=132, dtype='bfloat16', layout='nn'):
    "Return the kernel with the lowest estimate for (M x K) @ (K x N)"
    return rank_kernels(M, N, K, sms, 1, dtype, layout)[0]
