"""`sort` and `argsort`: a stable radix sort. A warp or a block sorts each short row; longer rows take one pass per byte
of the keys, in which blocks find their output positions by decoupled look-back (onesweep)."""

from functools import lru_cache
from typing import NamedTuple

from .keys import KeyType, as_bits, check_axis, check_keys, key_type, move_back, move_last, reject_gradients
from .sources import UNSIGNED_TYPES, dynamic_smem_bytes, kernel_source
from ..launch_replay import replay_entry_point, replayable
from ..common import Explanation, import_torch, launch, vector_width
from ..ladder.launches import Int64
from ..ladder import KernelLaunch, current_device_properties
from ...utils import cdiv

_DIGITS = 256
_MAX_WARP_ROW = 256  # keys of a row that a warp sorts
_MAX_BLOCK_ROW = 8192  # keys of a row that a block sorts
_MAX_KEYS = 2**30 - 1  # keys of a row: a status word has 30 bits for a count
_ROWS_PER_BLOCK = 4  # rows per block that are sorted by a warp each


class SortProblem(NamedTuple):
    "The properties of a sort that determine its kernels"

    key: KeyType
    payload: str  # moved with the keys: 'none', 'values', or 'positions' (the result is the index of each key, no keys)
    value_bytes: int  # of a value: 0, 1, 2, 4 or 8
    rows: int
    width: int  # keys per row
    descending: bool

    @property
    def max_bytes(self):
        "The size of a key or a value, whichever is larger"
        return max(self.key.bytes, self.value_bytes)


# The larger a tile, the longer the runs of keys that its block writes, and the fewer tiles there are. These constants
# were the fastest in measurements.
class Tile(NamedTuple):
    "The tile of a block in a pass"

    threads: int
    items: int  # keys per thread
    min_blocks: int  # resident blocks per SM, for the compiler
    has_separate_values: bool = True  # values have shared memory separate from that of the keys


# payload -> bytes of a key or a value, whichever is larger -> `Tile`
_TILES = {
    'none': {1: Tile(384, 36, 2), 2: Tile(384, 30, 2), 4: Tile(384, 36, 2), 8: Tile(384, 22, 2)},
    'values': dict.fromkeys((1, 2, 4), Tile(384, 32, 2, False)) | {8: Tile(384, 20, 2, False)},
    'positions': {4: Tile(384, 26, 2), 8: Tile(384, 20, 2, False)},
}
_MIN_WAVES = 4  # of tiles; with fewer waves, too many SMs would be idle in the last one
_MEDIUM_TILES = {1: Tile(384, 22, 2), 2: Tile(384, 22, 2), 4: Tile(384, 22, 2), 8: Tile(384, 17, 2, False)}
_SMALL_TILE = Tile(256, 8, 2)  # if medium tiles would leave SMs idle
_PRE_HOPPER_TILE = Tile(256, 11, 2)  # older GPUs have less shared memory, a T4 64 KiB


def _static_bytes(threads):
    "Return an upper bound of the static shared memory of a block: the counters of all warps, and words per digit"
    return threads // 32 * _DIGITS * 4 + 2048


def _tile(problem, device) -> Tile:
    "Return the `Tile` for a problem"
    if not device.is_hopper:
        return _PRE_HOPPER_TILE
    for min_waves, tile in (
        (_MIN_WAVES, _TILES[problem.payload][problem.max_bytes]),
        (1, _MEDIUM_TILES[problem.max_bytes]),
    ):
        wave_keys = tile.min_blocks * device.sms * tile.threads * tile.items
        if problem.rows * problem.width >= min_waves * wave_keys:
            return tile
    return _SMALL_TILE


_PASS_ARRAYS = (
    *('x', 'out', 'out_buffer', 'values', 'out_values', 'values_buffer', 'positions'),
    *('counts', 'status0', 'status1', 'tickets'),
)
_VALUES = {'none': 0, 'positions': 1, 'values': 2}  # payload -> the constant in onesweep.cuh


def _pass_launches(problem, tile, tiles):
    "Return the launches of the passes, from the lowest byte to the highest; `tiles`: per row"
    value_bytes = problem.value_bytes or problem.key.bytes
    constants = dict(THREADS=tile.threads, ITEMS=tile.items, MIN_BLOCKS=tile.min_blocks)
    constants |= dict(VALUES=_VALUES[problem.payload], SEPARATE=tile.has_separate_values)
    types = (('Value', UNSIGNED_TYPES[value_bytes]),)
    src = kernel_source('onesweep', problem.key, tuple(constants.items()), types, problem.descending)
    separate_bytes = problem.key.bytes + problem.value_bytes
    exchanged_bytes = separate_bytes if tile.has_separate_values else problem.max_bytes  # per key
    tile_bytes = tile.threads * tile.items * exchanged_bytes
    shared = dynamic_smem_bytes(tile_bytes, _static_bytes(tile.threads))
    grid, block = (problem.rows * tiles,), (tile.threads,)
    return [
        KernelLaunch(src, 'onesweep', _PASS_ARRAYS, (problem.width, tiles, i), grid, block, shared)
        for i in range(problem.key.bytes)
    ]


@lru_cache(1024)
def onesweep_launches(problem: SortProblem, vec_size, device) -> tuple:  # (launches, tiles per row)
    "Return the launch that counts the digits of all passes, with `vec_size` keys per load, and those of the passes"
    tile, threads, rows, width = _tile(problem, device), 256, problem.rows, problem.width
    tiles = cdiv(width, tile.threads * tile.items)
    blocks = max(1, min(cdiv(4 * device.sms, rows), cdiv(width, threads * 16)))
    constants = ('THREADS', threads), ('V', vec_size)
    src = kernel_source('count_digits', problem.key, constants, (), problem.descending)
    arrays, scalars = ('x', 'counts', 'status0'), (Int64(width), blocks, tiles)
    count_launch = KernelLaunch(src, 'count_digits', arrays, scalars, (rows * blocks,), (threads,))
    return [count_launch, *_pass_launches(problem, tile, tiles)], tiles


def _sort_long(problem, x, arrays):
    "Sort rows with onesweep; `arrays`: `out`, and with a payload `values` and `out_values`"
    torch, key = import_torch(), problem.key
    vec_size = vector_width(x.data_ptr(), key.bytes, problem.rows, problem.width)
    kernel_launches, tiles = onesweep_launches(problem, vec_size, current_device_properties())
    options = dict(dtype=torch.int32, device=x.device)
    status = torch.empty(2, problem.rows * tiles * _DIGITS, **options)
    num_counts, num_tickets = problem.rows * key.bytes * _DIGITS, problem.rows * key.bytes
    counts = torch.zeros(num_counts + num_tickets, **options).view(torch.uint32)
    unused = dict(values=x, out_values=x, values_buffer=x, positions=status.flatten().view(torch.int64))
    arrays = unused | arrays
    status = status.view(torch.uint32)
    arrays |= dict(status0=status[0], status1=status[1], counts=counts[:num_counts], tickets=counts[num_counts:])
    arrays |= dict(out_buffer=torch.empty_like(x))
    if problem.payload == 'values':
        arrays['values_buffer'] = torch.empty_like(arrays['out_values'])
    if problem.payload == 'positions':  # of 32 bits until the last pass; half of the result is one of their buffers
        positions = arrays['out_values']
        half, buffer = positions.view(torch.int32).view(2, -1)[0], torch.empty(x.numel(), **options)
        arrays |= dict(positions=positions, values=half, out_values=half, values_buffer=buffer)
    launch(kernel_launches, x, **arrays)


# Short rows
@lru_cache(1024)
def row_launches(problem: SortProblem) -> list:  # of `KernelLaunch`
    "Return the launch that sorts each row by a warp or by a block"
    key, width, rows = problem.key, problem.width, problem.rows
    constants = dict(WITH_VALUES=problem.payload == 'values', WITH_POSITIONS=problem.payload == 'positions')
    types = (('Stored', UNSIGNED_TYPES[problem.value_bytes if problem.payload == 'values' else key.bytes]),)
    is_short = width <= _MAX_WARP_ROW
    threads = 32 * _ROWS_PER_BLOCK if is_short else 256 if width <= 2048 else 512
    items = 1 << (cdiv(width, 32 if is_short else threads) - 1).bit_length()
    constants |= dict(THREADS=threads, ITEMS=items)
    name = 'sort_short_rows' if is_short else 'sort_rows'
    src = kernel_source(name, key, tuple(constants.items()), types, problem.descending)
    arrays = 'x', 'out', 'values', 'out_values', 'positions'
    if is_short:
        return [KernelLaunch(src, name, arrays, (width, Int64(rows)), (cdiv(rows, _ROWS_PER_BLOCK),), (threads,))]
    shared = dynamic_smem_bytes(threads * items * (key.bytes + 2) + threads // 32 * _DIGITS * 4, 1024)
    return [KernelLaunch(src, name, arrays, (width,), (rows,), (threads,), shared)]


def _sort_short(problem, x, arrays):
    "Sort each row with a warp or a block; `arrays` as for `_sort_long`"
    unused = import_torch().empty(1, dtype=import_torch().int64, device=x.device)
    used = dict(out=x, values=x, out_values=x, positions=unused) | arrays
    if problem.payload == 'positions':
        used |= dict(positions=arrays['out_values'], out_values=x)
    launch(row_launches(problem), x, **used)


# The operators
def _fallback_reason(problem):
    "Return the reason why torch sorts, or None"
    if problem.width > _MAX_KEYS:
        return f'a row has {problem.width:,} keys; the kernels support up to {_MAX_KEYS:,}'


def _problem(x, axis, payload, value_bytes, descending):
    "Return the `SortProblem` of a tensor"
    width = x.shape[axis] if x.dim() else 1
    return SortProblem(key_type(x), payload, value_bytes, x.numel() // max(1, width), width, bool(descending))


def _run(problem, x, values=None):
    "Sort rows of `as_bits`; returns (keys, values), one of which may be None"
    torch = import_torch()
    arrays = dict(out=torch.empty_like(x))
    if problem.payload == 'values':
        arrays |= dict(values=values, out_values=torch.empty_like(values))
    if problem.payload == 'positions':
        arrays |= dict(out_values=torch.empty(x.shape, dtype=torch.int64, device=x.device))
    if x.numel():
        (_sort_short if problem.width <= _MAX_BLOCK_ROW else _sort_long)(problem, x, arrays)
    return arrays['out'], arrays.get('out_values')


def _check_values(x, values):
    "Raise `TypeError` or `ValueError` unless `values` can be moved with the keys `x`"
    check_keys('sort', values, 'values')
    if values.shape != x.shape or values.device != x.device:
        raise ValueError(
            f'sort: values has shape {tuple(values.shape)} and is on {values.device}; expected shape {tuple(x.shape)} '
            f'on {x.device}, as x'
        )


def _sort(x, values, axis, descending):
    "Compute `sort`"
    check_keys('sort', x)
    axis = check_axis('sort', x, axis)
    if values is not None:
        _check_values(x, values)
    problem = _problem(x, axis, 'none' if values is None else 'values', _element_bytes(values), descending)
    if _fallback_reason(problem):
        keys, order = import_torch().sort(x, dim=axis, descending=bool(descending), stable=True)
        return keys if values is None else (keys, values.gather(axis, order) if x.dim() else values.clone())
    payload = None if values is None else as_bits(move_last(values, axis))
    keys, payload = _run(problem, as_bits(move_last(x, axis)), payload)
    keys = move_back(keys.view(x.dtype), x, axis)
    return keys if values is None else (keys, move_back(payload.view(values.dtype), x, axis))


_replayable_sort = replayable(_sort)


@replay_entry_point(_replayable_sort, 'x', 'values', 'axis', 'descending')
def sort(
    x,  # a tensor of integers or floats
    values=None,  # a tensor of integers or floats with the shape of `x`, which is permuted like `x`
    axis=-1,  # along which to sort
    descending=False,
):  # the sorted tensor; with `values`: (the sorted tensor, the permuted values)
    """Sort along an axis, stably, in torch's order: NaN is the largest element, -0.0 equals 0.0.

        sort(x)
        keys, values = sort(keys, values)

    Raises TypeError and ValueError for arguments that are not supported."""
    reject_gradients('sort', x, values)
    return _replayable_sort(x, values, axis, descending)


def _element_bytes(values):
    "Return the size of a value in bytes, 0 if there are none"
    return 0 if values is None else values.element_size()


def _argsort(x, axis, descending):
    "Compute `argsort`"
    check_keys('argsort', x)
    axis = check_axis('argsort', x, axis)
    problem = _problem(x, axis, 'positions', 4, descending)
    if _fallback_reason(problem):
        return import_torch().argsort(x, dim=axis, descending=bool(descending), stable=True)
    return move_back(_run(problem, as_bits(move_last(x, axis)))[1], x, axis)


_replayable_argsort = replayable(_argsort)


@replay_entry_point(_replayable_argsort, 'x', 'axis', 'descending')
def argsort(
    x,  # as for `sort`
    axis=-1,
    descending=False,
):  # int64, with the shape of `x`
    """Return the indices that sort `x` along an axis, as `x.argsort(axis, stable=True)` does.

        argsort(x)

    Raises TypeError and ValueError for arguments that are not supported."""
    reject_gradients('argsort', x)
    return _replayable_argsort(x, axis, descending)


def explain_sort(
    x,
    values=None,
    axis=-1,
    descending=False,  # as for `sort`
) -> Explanation:
    """Return the kernels that `sort` launches, in order, or () if torch sorts, and the reason.

    explain_sort(x)"""
    check_keys('sort', x)
    axis = check_axis('sort', x, axis)
    problem = _problem(x, axis, 'none' if values is None else 'values', _element_bytes(values), descending)
    if reason := _fallback_reason(problem):
        return Explanation((), reason)
    if not x.numel():
        return Explanation((), 'x is empty')
    if problem.width <= _MAX_WARP_ROW:
        return Explanation(('sort_short_rows',), f'a warp sorts each row of up to {_MAX_WARP_ROW} keys')
    if problem.width <= _MAX_BLOCK_ROW:
        return Explanation(('sort_rows',), f'a block sorts each row of up to {_MAX_BLOCK_ROW} keys')
    kernels = 'count_digits', *['onesweep'] * problem.key.bytes
    return Explanation(kernels, f'one launch counts all digits; then a pass per byte of a key, {problem.key.bytes}')
