"""Skinny GEMMs: `SKINNY` multiplies an A of many rows by a B of few columns, as in the last layer of a classifier;
`SKINNY_TN` computes its gradient; `SMALL` multiplies matrices that are too small for large tiles.

A GEMM of 50000x784 by 784x10, one layer for all digits of MNIST at once, computes 0.78 GFLOP on 157 MB: 5 FLOP/byte;
the ridge point of the GPU's roofline is 17 FLOP/byte. So the GEMM is memory-bound, and the kernel must read A once and
keep loads in flight all the time.
"""

from ..ptx import PTX
from .skinny_sources import add_src, multiply_terms_src, pipeline_src, reduce_src, rows_src, small_src, stages_src
from .skinny_sources import terms_src, transposed_src, vector_src
from ..ladder.rung import KernelLaunch, LaunchPlan, GemmKernel, Rung, with_constants
from ...utils import cdiv


# The constants depend on the number of columns, because a thread has R*COLUMNS accumulators in registers; split-K
# depends on the shared memory and the number of SMs. Tensor cores multiply terms: a float32 value is about the sum of
# its three bfloat16 terms.
MAX_SHARED_BYTES = 200 * 1024  # per block, for rows of A and for B
MAX_TERM_BYTES = 226 * 1024  # of shared memory, for the terms of B and the pipelines
FEW_COLUMNS = 16  # up to this many columns, FMAs are as fast as tensor cores
MIN_TERMS_ELEMENTS = 2**24  # of A, for `skinny_terms`, which was not measured with fewer
# whether there are at most FEW_COLUMNS columns -> (minimum K, minimum elements of A) for `skinny_stages`
MIN_STAGES_SIZES = {True: (768, 2**22), False: (256, 1_600_000)}
BYTES_IN_FLIGHT = 50_000  # per SM, of rows that are being copied
MAX_WARPS = 14  # maximum number of warps that split K
LONG_ROW = 1792  # from this K on, few rows fit into shared memory if B has 13 columns or more
_ARRAYS = 'm', 'n', 'out'  # A, B and C, by the names of the ladder's `LaunchPlan`


class Skinny(GemmKernel):
    """The GEMM A @ B for a B of at most `MAX_COLUMNS` columns; with the layout 'tn', A is passed transposed, as (K, M).

    SKINNY(A, B)"""

    MAX_COLUMNS = 32
    needs_ampere = True

    def __init__(self, name, layout='nn', **constants):
        self.name, self.layout, self.constants = name, layout, constants

    def __repr__(self):
        return f'<Skinny {self.name!r}>'

    def unsupported_reason(self, M, N, K):  # None if the shape is supported
        "Return the reason why this kernel cannot multiply (M x K) @ (K x N)"
        if not (min(M, N, K) > 0 and N <= self.MAX_COLUMNS):
            return f'B may have 1 to {self.MAX_COLUMNS} columns'

    def pipeline_config(self, N, row_length):
        "Return the constants of the pipeline for N columns and stored rows of `row_length` elements"
        vec = next(width for width in (4, 2, 1) if row_length % width == 0)
        few_columns = dict(LANES=32, R=2, WARPS=16, STAGES=3) if vec == 4 else dict(LANES=32, R=4, WARPS=16, STAGES=6)
        many_columns = dict(LANES=8 if N > 16 or vec < 4 or row_length < LONG_ROW else 32, R=4, WARPS=8, STAGES=4)
        return {'COLUMNS': N, 'VEC': vec, **(few_columns if N <= 12 else many_columns), **self.constants}

    def _allows_hopper_kernels(self, K, device):
        "Return whether the layout and the GPU allow the kernels with bulk copies or tensor cores"
        return self.layout == 'nn' and not self.constants and device.is_hopper and K % 4 == 0

    def rows_config(self, N, K):
        """Return the constants for bulk copies of whole rows. None if rows are not multiples of 16 bytes or too long
        for 4 warps, if B has too many columns, or if the pipeline is faster (long rows and 13 to 16 columns)"""
        R = 4 if K * N <= 2048 and N <= 10 else 2  # rows per warp: more if rows are short and columns few
        WARPS = min(16, (MAX_SHARED_BYTES - K * N * 4) // (R * K * 4))
        if K % 4 == 0 and WARPS >= 4 and N <= 20 and not (12 < N <= 16 and K >= LONG_ROW):
            return dict(COLUMNS=N, VEC=4, LANES=32, R=R, WARPS=WARPS)

    def rows_launch(self, M, N, K, device):
        "Return the launch with bulk copies of whole rows; None if that is unsupported, or there are too few rows"
        config = self._allows_hopper_kernels(K, device) and self.rows_config(N, K)
        if not config or M < device.sms * config['WARPS'] * config['R']:
            return
        src = with_constants(PTX + vector_src + reduce_src + rows_src, config)
        smem_bytes = (config['WARPS'] * config['R'] + N) * K * 4
        return KernelLaunch(src, 'skinny_rows', _ARRAYS, (M, N, K), (device.sms,), (32 * config['WARPS'],), smem_bytes)

    def terms_config(self, M, N, K, device):
        """Return the constants for tensor cores with all terms of B in shared memory; None if they do not fit, or if
        this kernel is not known to be faster"""
        WARPS = 8
        STAGES = (MAX_TERM_BYTES - self._term_bytes(N, K)) // (WARPS * 2048)
        if not (self._allows_hopper_kernels(K, device) and STAGES >= 3):
            return
        if FEW_COLUMNS < N <= self.MAX_COLUMNS and M >= device.sms * WARPS * 16 and M * K >= MIN_TERMS_ELEMENTS:
            return dict(COLUMNS=N, WARPS=WARPS, STAGES=min(STAGES, 7))

    def _term_bytes(self, N, K):
        "Return the bytes of the terms of B"
        return cdiv(K, 32) * cdiv(N, 8) * 1536

    def terms_launch(self, M, N, K, device):
        "Return the launch of `terms_config`, or None"
        if config := self.terms_config(M, N, K, device):
            smem_bytes = config['WARPS'] * config['STAGES'] * 2048 + self._term_bytes(N, K)
            src = with_constants(PTX + terms_src + multiply_terms_src, config)
            return KernelLaunch(
                src, 'skinny_terms', _ARRAYS, (M, N, K), (device.sms,), (32 * config['WARPS'],), smem_bytes
            )

    def stages_config(self, M, N, K, device):
        """Return the constants for tensor cores with stages of eight whole rows, where each warp multiplies a part
        of K; None if K is too long for the warps, or if this kernel is not known to be faster"""
        num_k_steps = cdiv(K, 16)
        PARTS = cdiv(num_k_steps, 4 if num_k_steps <= 4 * MAX_WARPS else 8 if N <= FEW_COLUMNS else 5)
        WARP_GROUPS = max(1, 13 // PARTS)
        K_STEPS = cdiv(num_k_steps, PARTS)
        WORKERS = PARTS * WARP_GROUPS
        STAGES = min(24, (MAX_TERM_BYTES - self._lo_bytes(N, WORKERS, K_STEPS)) // (32 * K))
        config = dict(COLUMNS=N, PARTS=PARTS, K_STEPS=K_STEPS, WARP_GROUPS=WARP_GROUPS)
        config |= dict(REDUCERS=min(2, 15 - WORKERS), STAGES=STAGES)
        min_k, min_elements = MIN_STAGES_SIZES[N <= FEW_COLUMNS]
        if not self._allows_hopper_kernels(K, device) or PARTS > MAX_WARPS:
            return
        if 12 < N <= self.MAX_COLUMNS and K >= min_k and M * K >= min_elements:
            return dict(config, IN_FLIGHT=min(STAGES, max(2, cdiv(BYTES_IN_FLIGHT, 32 * K))))

    def _lo_bytes(self, N, num_workers, num_k_steps):
        "Return the bytes of shared memory for the lo terms of B"
        return num_workers * num_k_steps * cdiv(N, 16) * 512

    def stages_launch(self, M, N, K, device):
        "Return the launch of `stages_config`, or None"
        if config := self.stages_config(M, N, K, device):
            src = with_constants(PTX + terms_src + stages_src, config)
            num_workers = config['PARTS'] * config['WARP_GROUPS']
            smem_bytes = config['STAGES'] * 32 * K + self._lo_bytes(N, num_workers, config['K_STEPS'])
            block = (32 * (num_workers + 1 + config['REDUCERS']),)
            return KernelLaunch(src, 'skinny_stages', _ARRAYS, (M, N, K), (device.sms,), block, smem_bytes)

    def pipeline_launch(self, M, N, K, device):
        "Return (the launch of the kernel with a multistage pipeline, the number of splits of K)"
        is_transposed = self.layout == 'tn'
        config = self.pipeline_config(N, M if is_transposed else K)
        if is_transposed:
            del config['LANES']
            name, kernel_src, partition = 'skinny_transposed', transposed_src, self.partition_transposed
        else:
            name, kernel_src, partition = 'skinny', reduce_src + pipeline_src, self.partition
        blocks_m, split_size, smem_bytes = partition(M, N, K, device.sms, **config)
        src = with_constants(PTX + vector_src + kernel_src, config)
        grid, block = (blocks_m, cdiv(K, split_size)), (32 * config['WARPS'],)
        return KernelLaunch(src, name, _ARRAYS, (M, N, K, split_size), grid, block, smem_bytes), cdiv(K, split_size)

    def launch_plan(self, M, N, K, device):
        "Return one launch, or with split-K a second one that adds the partial sums"
        for make_launch in (self.stages_launch, self.terms_launch, self.rows_launch):
            if launch := make_launch(M, N, K, device):
                return LaunchPlan([launch])
        launch, num_splits = self.pipeline_launch(M, N, K, device)
        if num_splits == 1:
            return LaunchPlan([launch])
        add_launch = KernelLaunch(
            add_src, 'add_splits', ('partials', 'out'), (M * N, num_splits), (cdiv(M * N, 256),), (256,)
        )
        launch = launch._replace(arrays=('m', 'n', 'partials'))
        return LaunchPlan([launch, add_launch], dict(partials=(num_splits * M * N, 'float32')))

    def partition(self, M, N, K, sms, COLUMNS, VEC, LANES, R, WARPS, STAGES):
        """Return (blocks along M, elements of K per split, bytes of shared memory). There are several splits if B does
        not fit into shared memory, or if there are too few rows for all SMs"""
        rows_at_once = 32 // LANES
        padded_lanes = LANES + (8 // rows_at_once if VEC == 4 and rows_at_once > 1 else 0)
        step_elements, num_groups = LANES * VEC, cdiv(M, rows_at_once * R)
        ring_bytes = WARPS * STAGES * rows_at_once * R * padded_lanes * VEC * 4
        max_blocks = cdiv(num_groups, WARPS)
        min_splits = cdiv(K, (MAX_SHARED_BYTES - ring_bytes) // (4 * COLUMNS) - step_elements)
        num_splits = max(min_splits, min(sms // max_blocks, K // (4 * step_elements)), 1)
        split_elements = cdiv(cdiv(K, num_splits), step_elements) * step_elements
        return (
            min(max_blocks, cdiv(sms, cdiv(K, split_elements))),
            split_elements,
            ring_bytes + split_elements * COLUMNS * 4,
        )

    def partition_transposed(self, M, N, K, sms, COLUMNS, VEC, R, WARPS, STAGES):
        "Return the same as `partition` for a transposed A: blocks partition its columns, and splits its rows"
        blocks_m, row_bytes = cdiv(M, 32 * VEC), cdiv(COLUMNS, 4) * 16  # of a padded row of B
        ring_bytes = WARPS * STAGES * R * 32 * VEC * 4
        min_splits = cdiv(K, (MAX_SHARED_BYTES - ring_bytes) // row_bytes - 1)
        num_splits = max(min_splits, min(cdiv(2 * sms, blocks_m), K // (4 * WARPS * R)), 1)
        split_rows = cdiv(K, num_splits)
        return blocks_m, split_rows, max(split_rows * row_bytes + ring_bytes, WARPS * 32 * VEC * COLUMNS * 4)


SKINNY, SKINNY_TN = Skinny('skinny'), Skinny('skinny, transposed', 'tn', R=2, WARPS=8, STAGES=4)
SMALL = Rung(
    'small',
    PTX + small_src,
    threads=lambda BM, BN, TM, TN: BM // TM * (BN // TN),
    BM=32,
    BN=32,
    BK=32,
    TM=4,
    TN=4,
    STAGES=3,
)
