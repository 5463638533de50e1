"""The memory-bound operators: `sum`, `argmax`, `scan`, `histogram`, `transpose`.

Each operator has two functions: NAME takes a tensor, allocates the workspaces and the result, and launches the kernels;
NAME_launches returns these launches for a dtype and a size, for NAME and for `export`.
"""

import math
from functools import lru_cache
from inspect import signature
from operator import attrgetter
from typing import NamedTuple

from .sources import TYPES, kernel_source
from ..ladder.launches import Int64
from ..ladder.rung import KernelLaunch, current_device_properties
from ..common import (
    MAX_LOAD_BYTES,
    check_tensor,
    launch,
    pow2_clamp,
    reject_gradient,
    to_contiguous,
    import_torch,
    dtype_name,
    vector_width,
    tensor_vector_width,
)
from ...utils import cdiv

FLOATS = 'float32', 'float16', 'bfloat16'
DTYPE_BYTES = dict(float32=4, float16=2, bfloat16=2, int32=4, int16=2, uint8=1)  # dtype -> bytes per element
MAX_BINS = 8192


@lru_cache
def _replayable(function, run, *options):
    """Wrap `run`, which computes what the public function `function` does, so that later calls replay its launches
    (`launch_replay`); `options`: (name, value) pairs for `replayable`. This imports torch"""
    from ..launch_replay import entry_point, replayable

    call = replayable(run, **dict(options))
    call.entry_points.append(entry_point(function, *signature(function).parameters))
    return call


def _call(function, run, x, *constants, torch_operator=None, **options):
    """Replay the recorded launches of a public function if its table has an entry for such a call; else call `run` with
    a contiguous `x`. Under autocast, `x` is converted to the dtype that autocast selects for `torch_operator`."""
    replayable_run, op_name = _replayable(function, run, *options.items()), function.__name__
    if (result := replayable_run.fast(x, *constants)) is not None:
        return result
    reject_gradient(op_name, x)
    x = _under_autocast(torch_operator, x) if torch_operator else x
    return replayable_run(to_contiguous(x), *constants)


def _under_autocast(torch_operator, x):
    "Convert `x` to the dtype that autocast selects for an operator of torch"
    from ..autocast import autocast_operands, is_autocast_enabled

    return autocast_operands(torch_operator, x)[0] if is_autocast_enabled(x) else x


def _torch_sum(x):
    return x.sum()


def _torch_scan(x):
    return x.cumsum(-1)


# Checks of operands


def _rows_and_width(op_name, x, axis):
    "Return (number of rows, elements per row) of `x` along an axis; raises `ValueError` unless it is the last or None"
    if axis is None or x.dim() == 0 and axis == -1:
        return 1, x.numel()
    if axis not in (-1, x.dim() - 1) or isinstance(axis, bool):
        last_axis = f'-1 or {x.dim() - 1}' if x.dim() > 1 else '-1'
        raise ValueError(f'{op_name}: axis is {axis!r}; expected the last axis, {last_axis}, or None for all elements')
    return math.prod(x.shape[:-1]), x.shape[-1]


# DRAM bandwidth is highest with many short-lived blocks, each of which reads some consecutive KiB: an SM that finishes
# early gets the next block. A long row is divided among several blocks. Their results are combined by a second launch
# or, if the blocks form a cluster, by one of the blocks. Small inputs use small blocks, so that each SM gets some.
# These constants were the fastest in measurements.
class LoadPlan(NamedTuple):
    "How a kernel distributes the loads of its input among blocks and threads"

    block_bytes: int  # bytes that each block reads of a row that is divided among several blocks
    max_threads: int  # per block
    loads_in_flight: int  # per thread


_LARGE_BYTES = 2**27  # inputs of at least this size use `_LARGE_PLAN`
_LARGE_PLAN = LoadPlan(2**16, 1024, 2)
_SMALL_PLAN = LoadPlan(2**14, 256, 4)
_LONG_ROW_BYTES, _LONG_ROW_PLAN = 2**16, LoadPlan(2**16, 1024, 4)  # rows of 64 to 256 KiB: one block per row
_PARTIALS_PLAN = LoadPlan(2**17, 512, 16)  # one block per row reads the partial results, with more loads in flight
_CLUSTER_PLAN = LoadPlan(2**16, 512, 4)  # the blocks of a row form a cluster
_MAX_BLOCKS_PER_ROW = 2**16
_MAX_CLUSTER_SIZE = 8  # blocks


class RowPartition(NamedTuple):
    "How a row is distributed among blocks and threads. A vector is the elements of one load"

    threads: int  # per block
    loads_in_flight: int  # per thread
    blocks: int  # per row
    block_vectors: int  # vectors per block


def _plan_for(rows, width, element_bytes):
    "Return the `LoadPlan` for an input of `rows` x `width` elements"
    return _LARGE_PLAN if rows * width * element_bytes >= _LARGE_BYTES else _SMALL_PLAN


def _sum_plan_for(rows, width, element_bytes):
    """Return the `LoadPlan` of a sum. Long rows of small inputs have one large block each, because a second launch
    would take longer than the sum."""
    plan = _plan_for(rows, width, element_bytes)
    is_long_row = _LONG_ROW_BYTES <= width * element_bytes < 4 * _LONG_ROW_BYTES
    return _LONG_ROW_PLAN if plan is _SMALL_PLAN and is_long_row else plan


def _partition(
    width,  # elements per row
    vec_size,  # elements per load
    element_bytes,
    plan,  # a `LoadPlan`
    max_blocks=None,  # per row; None: as the plan implies
) -> RowPartition:
    "Apply a plan to rows of `width` elements"
    vectors, row_bytes = cdiv(width, vec_size), width * element_bytes
    threads = min(vectors, plan.block_bytes // (vec_size * element_bytes)) // plan.loads_in_flight
    threads = pow2_clamp(threads, 32, plan.max_threads)
    loads_in_flight = pow2_clamp(vectors // threads, 1, plan.loads_in_flight)
    if max_blocks is None:
        is_short = row_bytes < 4 * plan.block_bytes
        max_blocks = 1 if is_short else min(_MAX_BLOCKS_PER_ROW, cdiv(row_bytes, plan.block_bytes))
    # Round up to complete iterations of the loop in the kernel.
    block_vectors = cdiv(cdiv(vectors, max_blocks), threads * loads_in_flight) * threads * loads_in_flight
    return RowPartition(threads, loads_in_flight, cdiv(vectors, block_vectors), block_vectors)


# Sum
def _sum_types(dtype):
    "Return the C type of the accumulators, and the dtypes of the partial sums and of the result"
    return ('float', 'float32', dtype) if dtype in FLOATS else ('long long', 'int64', 'int64')


def _sum_rows_launch(c_types, arrays, rows, width, vec_size, partition, is_primary=False, is_secondary=False):
    """Return a launch of `sum_rows`. `c_types`: the C types of elements, accumulators and results; `is_primary` or
    `is_secondary`: this is the primary or the secondary kernel of a programmatic dependent launch"""
    types = tuple(zip(('Elem', 'Sum', 'Out'), c_types))
    constants = dict(V=vec_size, THREADS=partition.threads, IN_FLIGHT=partition.loads_in_flight)
    constants |= dict(PDL_PRIMARY=is_primary, PDL_SECONDARY=is_secondary)
    src = kernel_source('sum', types, tuple(constants.items()))
    grid = (rows * partition.blocks,)
    scalars = Int64(width), Int64(partition.block_vectors), partition.blocks
    return KernelLaunch(src, 'sum_rows', arrays, scalars, grid, (partition.threads,), pdl=is_secondary)


def _add_partials_launch(dtype, rows, partials, device):
    "Return the launch that adds `partials` partial sums per row"
    accumulator, partial_dtype, out_dtype = _sum_types(dtype)
    element_bytes = 8 if partial_dtype == 'int64' else 4
    vec_size = vector_width(0, element_bytes, rows, partials)
    partition = _partition(partials, vec_size, element_bytes, _PARTIALS_PLAN, max_blocks=1)
    c_types = accumulator, accumulator, TYPES[out_dtype][0] if out_dtype in TYPES else accumulator
    arrays = 'partials', 'out'
    return _sum_rows_launch(c_types, arrays, rows, partials, vec_size, partition, is_secondary=device.is_hopper)


_MIN_UNALIGNED_ROW_BYTES = 1024  # shorter rows are loaded element by element if they are not 16-byte aligned


def _unaligned_sum_launch(dtype, rows, width):
    "Return the launch that sums rows that are not 16-byte aligned, with vectorized loads; None if it is unsuitable"
    element_bytes, (accumulator, _, out_dtype) = DTYPE_BYTES[dtype], _sum_types(dtype)
    vec_size = MAX_LOAD_BYTES // element_bytes
    partition = _partition(width, vec_size, element_bytes, _sum_plan_for(rows, width, element_bytes))
    if partition.blocks > 1 or width * element_bytes < _MIN_UNALIGNED_ROW_BYTES:
        return None
    result_type = TYPES[out_dtype][0] if out_dtype in TYPES else accumulator
    types = ('Elem', TYPES[dtype][0]), ('Sum', accumulator), ('Out', result_type)
    constants = dict(V=vec_size, THREADS=partition.threads, IN_FLIGHT=partition.loads_in_flight)
    constants |= dict(PDL_PRIMARY=0, PDL_SECONDARY=0)
    src = kernel_source('sum_unaligned', types, tuple(constants.items()))
    return KernelLaunch(src, 'sum_unaligned_rows', ('x', 'out'), (Int64(width),), (rows,), (partition.threads,))


# Many short rows: at least so many, each of at most so many bytes; threads per block. A row gets a whole warp if it has
# more than about so many vectors per half of a warp. Measured on an H200: 128 to 16,384 rows of 33 to 4,096 elements
_MIN_SHORT_ROWS, _MAX_SHORT_ROW_BYTES, _SHORT_ROW_THREADS, _SHORT_ROW_VECTORS = 128, 2**13, 128, 8


def _short_rows_sum_launch(dtype, rows, width, is_aligned):
    "Return the launch that sums many short rows, at most a warp per row"
    accumulator, _, out_dtype = _sum_types(dtype)
    vec_size = MAX_LOAD_BYTES // DTYPE_BYTES[dtype]
    vectors = cdiv(width, vec_size)
    row_threads = 2 * pow2_clamp(vectors // _SHORT_ROW_VECTORS, 2, 16)
    types = ('Elem', TYPES[dtype][0]), ('Sum', accumulator)
    types += (('Out', TYPES[out_dtype][0] if out_dtype in TYPES else accumulator),)
    constants = dict(V=vec_size, THREADS=_SHORT_ROW_THREADS, IN_FLIGHT=1, PDL_PRIMARY=0, PDL_SECONDARY=0)
    constants |= dict(ROW_THREADS=row_threads, VECS_PER_THREAD=cdiv(vectors, row_threads), UNALIGNED=not is_aligned)
    src = kernel_source('sum_short_rows', types, tuple(constants.items()))
    grid = (cdiv(rows, _SHORT_ROW_THREADS // row_threads),)
    return KernelLaunch(src, 'sum_short_rows', ('x', 'out'), (Int64(rows), width), grid, (_SHORT_ROW_THREADS,))


@lru_cache(1024)
def sum_launches(dtype, rows, width, vec_size, device) -> tuple:  # (launches, partial sums per row; 0 for one launch)
    "Return the launches that sum rows of `width` elements on a `Device`, with `vec_size` elements per load"
    is_aligned = vec_size * DTYPE_BYTES[dtype] == MAX_LOAD_BYTES
    if rows >= _MIN_SHORT_ROWS and width * DTYPE_BYTES[dtype] <= _MAX_SHORT_ROW_BYTES:
        return [_short_rows_sum_launch(dtype, rows, width, is_aligned)], 0
    if not is_aligned and (unaligned_launch := _unaligned_sum_launch(dtype, rows, width)):
        return [unaligned_launch], 0
    c_type, (accumulator, _, out_dtype), element_bytes = TYPES[dtype][0], _sum_types(dtype), DTYPE_BYTES[dtype]
    partition = _partition(width, vec_size, element_bytes, _sum_plan_for(rows, width, element_bytes))
    if partition.blocks == 1:
        c_types = c_type, accumulator, TYPES[out_dtype][0] if out_dtype in TYPES else accumulator
        return [_sum_rows_launch(c_types, ('x', 'out'), rows, width, vec_size, partition)], 0
    c_types, arrays = (c_type, accumulator, accumulator), ('x', 'partials')
    first_launch = _sum_rows_launch(c_types, arrays, rows, width, vec_size, partition, is_primary=device.is_hopper)
    return [first_launch, _add_partials_launch(dtype, rows, partition.blocks, device)], partition.blocks


def _sum(x, axis, make_launches):
    "Compute `sum` with the launches that `make_launches` returns: `sum_launches` or `bulk_sum_launches`"
    check_tensor('sum', x, DTYPE_BYTES)
    torch, (rows, width) = import_torch(), _rows_and_width('sum', x, axis)
    _, partial_dtype, out_dtype = _sum_types(dtype_name(x))
    shape = () if axis is None else x.shape[:-1]
    options = dict(dtype=getattr(torch, out_dtype), device=x.device)
    if not x.numel():
        return torch.zeros(shape, **options)
    out = torch.empty(shape, **options)
    vec_size = tensor_vector_width(x, rows, width)
    kernel_launches, partials_per_row = make_launches(dtype_name(x), rows, width, vec_size, current_device_properties())
    partials = torch.empty(rows * partials_per_row, dtype=getattr(torch, partial_dtype), device=x.device)
    launch(kernel_launches, x, partials=partials, out=out)
    return out


def sum(
    x,  # a tensor of float32, float16, bfloat16, int32, int16 or uint8; if it is not contiguous, it is copied first
    axis=None,  # -1: along the last axis; None: of all elements
):  # a tensor with the dtype of `x` for floats, accumulated in float32; int64 for integers, as in torch
    """Compute the sum, as `x.sum()` or `x.sum(-1)` does. The result is deterministic (bitwise reproducible), because
    the order of the additions is fixed. Under autocast on a GPU, the sum of 16-bit floats is float32, as in torch.

        sum(x, axis=-1)

    Raises TypeError and ValueError for an `x` or `axis` that is not supported."""
    return _call(sum, _run_sum, x, axis, torch_operator=_torch_sum)


def _run_sum(x, axis):
    return _sum(x, axis, sum_launches)


# On a Hopper GPU bulk copies can fill the stages of a pipeline in shared memory. This is faster than loads in a loop,
# but slower than many short-lived blocks. Only lesson 13 uses this version.
BULK = dict(THREADS=512, VECS_PER_THREAD=4, STAGES=6)  # VECS_PER_THREAD: 16-byte vectors per thread and stage


@lru_cache(1024)
def bulk_sum_launches(dtype, rows, width, vec_size, device) -> tuple:  # as for `sum_launches`
    "Return the launches that sum `width` elements with bulk copies, or those of `sum_launches` where unsupported"
    if rows > 1 or not device.is_hopper or vec_size * DTYPE_BYTES[dtype] < MAX_LOAD_BYTES:
        return sum_launches(dtype, rows, width, vec_size, device)
    src = kernel_source('sum_bulk', (('Elem', TYPES[dtype][0]), ('Sum', _sum_types(dtype)[0])), tuple(BULK.items()))
    smem_bytes = MAX_LOAD_BYTES * BULK['THREADS'] * BULK['VECS_PER_THREAD'] * BULK['STAGES']
    arrays, block = ('x', 'partials'), (BULK['THREADS'],)
    first_launch = KernelLaunch(src, 'sum_bulk', arrays, (Int64(width),), (device.sms,), block, smem_bytes)
    return [first_launch, _add_partials_launch(dtype, 1, device.sms, device)], device.sms


def multistage_sum(
    x,  # as for `sum`
):  # as for `sum`
    "Compute the sum of all elements as `sum` does, on a Hopper GPU with a pipeline of bulk copies"
    return _call(multistage_sum, _run_bulk_sum, x)


def _run_bulk_sum(x):
    return _sum(x, None, bulk_sum_launches)


# Argmax
def _argmax_partition(rows, width, vec_size, element_bytes, device):
    "Return (`RowPartition`, whether the blocks of a row form a cluster)"
    plan = _plan_for(rows, width, element_bytes)
    partition = _partition(width, vec_size, element_bytes, plan)
    if not device.is_hopper or not 1 < partition.blocks <= _MAX_CLUSTER_SIZE:
        return partition, False
    plan = _CLUSTER_PLAN if plan == _LARGE_PLAN else plan
    return _partition(width, vec_size, element_bytes, plan, partition.blocks), True


def _argmax_source(dtype, vec_size, threads, loads_in_flight, pdl, cluster=False):
    "Return the source of the argmax kernels; `pdl`: the second one uses programmatic dependent launch"
    types = ('Elem', TYPES[dtype][0]), ('Value', TYPES[dtype][1])
    constants = ('V', vec_size), ('THREADS', threads), ('IN_FLIGHT', loads_in_flight), ('PDL', pdl)
    return kernel_source('argmax', types, constants, cluster)


@lru_cache(1024)
def argmax_launches(dtype, rows, width, vec_size, device) -> tuple:  # (launches, partial results per row)
    "Return the launches that find the largest element of each row on a `Device`, with `vec_size` elements per load"
    (threads, loads_in_flight, blocks, block_vectors), is_cluster = _argmax_partition(
        rows, width, vec_size, DTYPE_BYTES[dtype], device
    )
    needs_second_launch = blocks > 1 and not is_cluster
    pdl = device.is_hopper and needs_second_launch
    second_threads = pow2_clamp(blocks, 32, 1024)
    src = _argmax_source(dtype, vec_size, threads, loads_in_flight, pdl, is_cluster)
    arrays = 'x', 'out', 'values', 'indices'
    first_launch = KernelLaunch(
        src, 'argmax_rows', arrays, (width, block_vectors, blocks), (rows * blocks,), (threads,)
    )
    if not needs_second_launch:
        return [first_launch._replace(cluster=(blocks, 1, 1)) if is_cluster else first_launch], 1
    src = _argmax_source(dtype, 1, second_threads, 1, pdl)
    arrays = 'values', 'indices', 'out'
    return [
        first_launch,
        KernelLaunch(src, 'argmax_partials', arrays, (blocks,), (rows,), (second_threads,), pdl=pdl),
    ], blocks


def argmax(
    x,  # as for `sum`
    axis=None,  # -1: along the last axis; None: among all elements
):  # an int64 tensor
    """Return the index of the largest element, as `x.argmax()` or `x.argmax(-1)` does; for ties, the lowest index.
    NaN counts as the largest.

        argmax(x, axis=-1)

    Raises TypeError and ValueError for an `x` or `axis` that is not supported."""
    return _call(argmax, _run_argmax, x, axis)


def _run_argmax(x, axis):
    check_tensor('argmax', x, DTYPE_BYTES)
    torch = import_torch()
    rows, width = _rows_and_width('argmax', x, axis)
    dtype = dtype_name(x)
    out = torch.empty(() if axis is None else x.shape[:-1], dtype=torch.int64, device=x.device)
    if not width:
        raise ValueError('argmax: x has no elements along the axis; expected at least one')
    if width >= 2**31:
        raise ValueError(f'argmax: a row has {width:,} elements; expected at most 2^31 - 1')
    if not rows:
        return out
    kernel_launches, partials_per_row = argmax_launches(
        dtype, rows, width, tensor_vector_width(x, rows, width), current_device_properties()
    )
    value_dtype = torch.float32 if dtype in FLOATS else torch.int32
    values = torch.empty(rows * partials_per_row if partials_per_row > 1 else 0, dtype=value_dtype, device=x.device)
    launch(kernel_launches, x, out=out, values=values, indices=torch.empty_like(values, dtype=torch.int32))
    return out


# Scan
_MIN_BULK_BYTES = 2**22  # smaller inputs have too few tiles for all SMs
SCAN = dict(THREADS=256, VECS_PER_THREAD=6, MIN_BLOCKS=5)  # VECS_PER_THREAD: loads per thread
SCAN_BULK = dict(THREADS=1024, STAGES=3)  # one block per SM


def _bulk_scan_launches(dtype, types, width, device):
    "Return the launch that scans `width` elements with bulk copies on a Hopper GPU, and the number of tiles"
    vectors_per_thread = 4 if DTYPE_BYTES[dtype] > 1 else 2
    tile_elements = SCAN_BULK['THREADS'] * vectors_per_thread * MAX_LOAD_BYTES // DTYPE_BYTES[dtype]
    num_tiles = cdiv(width, tile_elements)
    smem_bytes = SCAN_BULK['STAGES'] * tile_elements * DTYPE_BYTES[dtype]
    constants = *SCAN_BULK.items(), ('VECS_PER_THREAD', vectors_per_thread), ('BLOCKS', device.sms)
    src = kernel_source('scan_bulk', types, constants)
    arrays, scalars, block = ('x', 'out', 'status'), (Int64(width), num_tiles), (SCAN_BULK['THREADS'],)
    return [
        KernelLaunch(src, 'scan_bulk', arrays, scalars, (device.sms,), block, smem_bytes, cooperative=True)
    ], num_tiles


_MAX_SHORT_ROW_WARPS = 8  # per block; each warp scans one row


def _short_rows_scan_launch(types, rows, width, vec_size, max_vectors_per_lane, device):
    "Return the launch that scans short rows, one warp per row; each lane loads at most `max_vectors_per_lane` vectors"
    threads = 32 * pow2_clamp(rows // device.sms, 1, _MAX_SHORT_ROW_WARPS)
    vectors_per_lane = next(n for n in (1, 2, 3, 4, max_vectors_per_lane) if width <= 32 * n * vec_size)
    constants = ('V', vec_size), ('THREADS', threads), ('VECS_PER_THREAD', vectors_per_lane), ('MIN_BLOCKS', 1)
    src = kernel_source('scan_short_rows', types, constants)
    grid = (cdiv(rows, threads // 32),)
    return KernelLaunch(src, 'scan_short_rows', ('x', 'out'), (Int64(rows), width), grid, (threads,))


@lru_cache(1024)
def scan_launches(dtype, rows, width, vec_size, device) -> tuple:  # (launches, tiles per row)
    "Return the launches that scan rows of `width` elements on a `Device`, with `vec_size` elements per load"
    types = ('Elem', TYPES[dtype][0]), ('Sum', TYPES[dtype][1])
    if (
        device.is_hopper
        and rows == 1
        and width * DTYPE_BYTES[dtype] >= _MIN_BULK_BYTES
        and vec_size * DTYPE_BYTES[dtype] == MAX_LOAD_BYTES
    ):
        return _bulk_scan_launches(dtype, types, width, device)
    vectors_per_thread = max(1, SCAN['VECS_PER_THREAD'] * 4 // max(vec_size, 4))
    if rows > 1 and width <= 32 * vectors_per_thread * vec_size:
        return [_short_rows_scan_launch(types, rows, width, vec_size, vectors_per_thread, device)], 1
    threads = min(SCAN['THREADS'], 32 * cdiv(width, 32 * vectors_per_thread * vec_size))
    num_tiles = cdiv(width, threads * vectors_per_thread * vec_size)
    min_blocks = SCAN['MIN_BLOCKS'] if threads == SCAN['THREADS'] else 1
    src = kernel_source(
        'scan',
        types,
        (('V', vec_size), ('THREADS', threads), ('VECS_PER_THREAD', vectors_per_thread), ('MIN_BLOCKS', min_blocks)),
    )
    arrays, scalars = ('x', 'out', 'status', 'ticket'), (Int64(width), num_tiles)
    return [KernelLaunch(src, 'scan_rows', arrays, scalars, (rows * num_tiles,), (threads,))], num_tiles


def scan(
    x,  # as for `sum`
    axis=-1,  # along the last axis; None: along all elements, row-major
):  # a tensor like `x`
    """Compute an inclusive scan (running sums), as `x.cumsum(-1)` does. The result has the dtype of `x`: integers wrap
    around. 16-bit floats are added in float32, and under autocast on a GPU the result is float32, as in torch. For
    floats the result is not deterministic: its last bits may differ from run to run.

        scan(x)

    Raises TypeError and ValueError for an `x` or `axis` that is not supported."""
    return _call(scan, _run_scan, x, axis, torch_operator=_torch_scan)


def _run_scan(x, axis):
    check_tensor('scan', x, DTYPE_BYTES)
    torch = import_torch()
    rows, width = _rows_and_width('scan', x, axis)
    out = torch.empty_like(x)
    if not x.numel():
        return out
    kernel_launches, tiles_per_row = scan_launches(
        dtype_name(x), rows, width, tensor_vector_width(x, rows, width), current_device_properties()
    )
    # Decoupled look-back needs a status word per tile, initially 0 ("not ready"), and a counter from which blocks take
    # their tiles (the ticket). Kernels for rows with a single tile use neither.
    has_status = tiles_per_row > 1 or kernel_launches[0].name == 'scan_bulk'
    status = torch.zeros(rows * tiles_per_row + 1 if has_status else 0, dtype=torch.int64, device=x.device)
    launch(kernel_launches, x, out=out, status=status[1:], ticket=status[:1])
    return out


# Histogram
_MAX_COUNTERS = 8192  # per block: 32 KiB of shared memory


@lru_cache(1024)
def histogram_launches(dtype, num_elements, bins, low, high, vec_size, device) -> list:  # of `KernelLaunch`
    "Return the launch that counts `num_elements` elements on a `Device`, with `vec_size` elements per load"
    threads = 1024 if num_elements >= 2**16 else 128
    constants = dict(V=vec_size, THREADS=threads, BINS=bins, COPIES=max(1, min(threads // 32, _MAX_COUNTERS // bins)))
    src = kernel_source('histogram', (('Elem', TYPES[dtype][0]),), (*constants.items(), ('FLOATS', dtype in FLOATS)))
    blocks = max(1, min(2 * device.sms, cdiv(num_elements, threads * vec_size)))
    scalars = Int64(num_elements), low, high, bins / (high - low)
    return [KernelLaunch(src, 'histogram', ('x', 'out'), scalars, (blocks,), (threads,))]


def histogram(
    x,  # as for `sum`
    bins=256,  # number of bins, at most 8192
    low=None,  # for floats: lower bound of the first bin
    high=None,  # for floats: upper bound of the last bin, which includes it
):  # int64 (bins,)
    """Count the elements per bin: integers from 0 to bins - 1, floats in equal intervals from `low` to `high`. Elements
    out of range and NaN are not counted.

        histogram(bytes_, 256)

    Raises TypeError and ValueError for unsupported arguments."""
    return _call(histogram, _run_histogram, x, bins, low, high)


def _run_histogram(x, bins, low, high):
    check_tensor('histogram', x, DTYPE_BYTES)
    if isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins <= MAX_BINS:
        raise ValueError(f'histogram: bins is {bins!r}; expected an integer from 1 to {MAX_BINS}')
    if dtype_name(x) not in FLOATS:
        if (low, high) != (None, None):
            raise ValueError(f'histogram: low and high are only for floats; x is {dtype_name(x)}: omit low and high')
        low, high = 0.0, float(bins)
    elif low is None or high is None or not -math.inf < low < high < math.inf:
        raise ValueError(f'histogram: low is {low} and high is {high}; expected finite floats with low < high')
    torch = import_torch()
    out = torch.zeros(bins, dtype=torch.int64, device=x.device)
    if x.numel():
        kernel_launches = histogram_launches(
            dtype_name(x),
            x.numel(),
            bins,
            float(low),
            float(high),
            tensor_vector_width(x, 1, x.numel()),
            current_device_properties(),
        )
        launch(kernel_launches, x, out=out)
    return out


# Transpose
_INTEGER_DTYPES = {1: 'uint8', 2: 'int16', 4: 'int32', 8: 'int64'}  # bytes per element -> dtype of the copied words
_INTEGER_C_TYPES = dict(uint8='unsigned char', int16='short', int32='int', int64='long long')
TILE = 64
_FEW_ROWS, _FEW_ROWS_THREADS = 32, 256  # with so few rows, most threads of a 64x64 tile would be idle


def _few_rows_launch(element_bytes, num_matrices, rows, columns):
    "Return the launch that transposes matrices of few rows"
    is_small = num_matrices * rows * columns < 2**20
    elements_per_thread = 4 if is_small else 16  # few for small inputs, so that each SM gets a block
    width = max(32, _FEW_ROWS_THREADS * elements_per_thread // rows // 32 * 32)
    constants = dict(HEIGHT=rows, WIDTH=width, THREADS=_FEW_ROWS_THREADS, PAD=max(1, 4 // element_bytes))
    c_type = _INTEGER_C_TYPES[_INTEGER_DTYPES[element_bytes]]
    src = kernel_source('transpose_few_rows', (('Elem', c_type),), tuple(constants.items()))
    grid = (num_matrices * cdiv(columns, width),)
    return KernelLaunch(src, 'transpose_few_rows', ('x', 'out'), (columns,), grid, (_FEW_ROWS_THREADS,))


@lru_cache(1024)
def transpose_launches(element_bytes, num_matrices, rows, columns, device) -> list:  # of `KernelLaunch`
    "Return the launch that transposes matrices on a `Device`"
    if rows <= _FEW_ROWS < columns:
        return [_few_rows_launch(element_bytes, num_matrices, rows, columns)]
    constants = dict(TILE=TILE, THREADS=512, PAD=max(1, 4 // element_bytes))
    c_type = _INTEGER_C_TYPES[_INTEGER_DTYPES[element_bytes]]
    src = kernel_source('transpose', (('Elem', c_type),), tuple(constants.items()))
    grid = num_matrices * cdiv(rows, TILE) * cdiv(columns, TILE)
    return [KernelLaunch(src, 'transpose', ('x', 'out'), (rows, columns), (grid,), (constants['THREADS'],))]


def transpose(
    x,  # a tensor of two axes or more, of any dtype of 1, 2, 4 or 8 bytes; if it is not contiguous, it is copied first
):  # a tensor with the dtype of `x`
    """Transpose the last two axes, as `x.mT.contiguous()` does. The result is a new tensor, unless x has a single row
    or column.

        transpose(x)  # (..., rows, columns) -> (..., columns, rows)

    Raises TypeError and ValueError for an `x` that is not supported."""
    return _call(transpose, _run_transpose, x, **_TRANSPOSE_OPTIONS)


def _torch_transpose(x):
    return x.mT.contiguous()


def _torch_view(x):
    "Return a function that transposes a contiguous tensor with a single row or column: the view is contiguous, too"
    return attrgetter('mT')


_TORCH_MAX_ELEMENTS = 2**16


def _are_small_matrices(x):
    "Return whether torch's kernel is faster, although its call has more overhead; see benchmarks/every_shape.py"
    return x.shape[-2] <= _FEW_ROWS and x.numel() <= _TORCH_MAX_ELEMENTS


_TRANSPOSE_OPTIONS = dict(
    torch_fallback=_torch_transpose, use_torch_in_graphs=_are_small_matrices, make_torch_function=_torch_view
)


def _run_transpose(x):
    torch = import_torch()
    is_supported = hasattr(x, 'data_ptr') and x.element_size() in _INTEGER_DTYPES
    check_tensor('transpose', x, [dtype_name(x)] if is_supported else DTYPE_BYTES)
    if x.dim() < 2:
        raise ValueError(f'transpose: x has shape {tuple(x.shape)}; expected at least two axes')
    (rows, columns), num_matrices = x.shape[-2:], math.prod(x.shape[:-2])
    if max(rows, columns) >= 2**31:
        raise ValueError(f'transpose: x has shape {tuple(x.shape)}; expected fewer than 2^31 rows and columns')
    if 1 in (rows, columns):
        return NotImplemented
    out = torch.empty(*x.shape[:-2], columns, rows, dtype=x.dtype, device=x.device)
    if x.numel():
        word_dtype = getattr(torch, _INTEGER_DTYPES[x.element_size()])
        kernel_launches = transpose_launches(x.element_size(), num_matrices, rows, columns, current_device_properties())
        launch(kernel_launches, x.view(word_dtype), out=out.view(word_dtype))
    return out
