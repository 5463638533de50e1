"""`topk`: the kernel reads each row once, keeps the elements that may be among the first k, and sorts them with a
bitonic network. For a large k, torch selects."""

from functools import lru_cache

from .keys import KeyType, as_bits, check_axis, check_keys, key_type, move_back, move_last, reject_gradients
from .sources import UNSIGNED_TYPES, kernel_source
from ..launch_replay import replay_entry_point, replayable
from ..common import Explanation, import_torch, launch, pow2_clamp, vector_width
from ..ladder import KernelLaunch, current_device_properties
from ...utils import cdiv

_MAX_K = 256  # for a larger k, torch is faster
_ITEMS = 8  # elements per thread and iteration
_MIN_BLOCK_ELEMENTS = 4096  # elements per block of a row that is divided among several blocks


def _fallback_reason(key, k, width):
    "Return the reason why torch selects, or None"
    if key.bytes > 4:
        return 'elements of 64 bits: the kernel has 32 bits for an element and 32 for its index'
    if k > _MAX_K:
        return f'k is {k}: torch is faster for k above {_MAX_K}'
    if width >= 2**31:
        return f'a row has {width:,} elements; the kernel supports fewer than 2^31'


def pow2_at_least(n):
    """Return the smallest power of two that is at least `n`.

    >>> [pow2_at_least(n) for n in (1, 5, 64)]
    [1, 8, 64]"""
    return 1 << (n - 1).bit_length()


def _source(key, k, threads, vec_size, largest, reads_candidates=False, is_final=True, pdl=False):
    "Return (source, bytes of shared memory) of the kernel; `reads_candidates`: it merges those of another launch"
    items = max(vec_size, _ITEMS)
    min_capacity = k + min(k, threads) * items
    capacity = pow2_at_least(min_capacity)
    constants = dict(THREADS=threads, ITEMS=items, V=vec_size, K=k, CAPACITY=capacity)
    constants |= dict(CANDIDATES=reads_candidates, FINAL=is_final)
    constants |= dict(SORT_THRESHOLD=min(max(256, 4 * k), capacity), GROUPS=min(threads, max(32, pow2_at_least(2 * k))))
    constants |= dict(PDL_PRIMARY=pdl and not reads_candidates, PDL_SECONDARY=pdl and reads_candidates)
    loaded_type = ('Loaded', 'unsigned long long' if reads_candidates else UNSIGNED_TYPES[key.bytes])
    return kernel_source('topk', key, tuple(constants.items()), (loaded_type,), largest), 8 * (capacity + threads)


def _threads(width):
    "Return the number of threads of a block that reads `width` elements"
    return pow2_clamp(cdiv(width, 4), 32, 512)


@lru_cache(1024)
def topk_launches(key: KeyType, k, rows, width, largest, vec_size, device) -> tuple:  # (launches, candidates)
    "Return the launches, and the number of candidates per row between them, 0 if one launch is enough"
    blocks = max(1, min(2 * device.sms // rows, cdiv(width, max(_MIN_BLOCK_ELEMENTS, 4 * k))))
    block_elements = cdiv(cdiv(width, blocks), 512 * 8) * 512 * 8 if blocks > 1 else width
    blocks = cdiv(width, block_elements)
    threads, pdl = _threads(block_elements), device.is_hopper and blocks > 1
    arrays = 'x', 'candidates', 'candidates', 'values', 'indices'
    src, shared = _source(key, k, threads, vec_size, largest, is_final=blocks == 1, pdl=pdl)
    scalars = width, width, blocks, block_elements
    first_launch = KernelLaunch(src, 'topk', arrays, scalars, (rows * blocks,), (threads,), shared)
    if blocks == 1:
        return [first_launch], 0
    num_candidates = blocks * k
    threads = _threads(num_candidates)
    src, shared = _source(key, k, threads, 1, largest, reads_candidates=True, pdl=pdl)
    scalars = width, num_candidates, 1, num_candidates
    second_launch = KernelLaunch(src, 'topk', arrays, scalars, (rows,), (threads,), shared, pdl=pdl)
    return [first_launch, second_launch], num_candidates


def _check(x, k, axis):
    "Return the axis from 0; raises `TypeError` or `ValueError` for arguments that are not supported"
    check_keys('topk', x)
    axis = check_axis('topk', x, axis)
    width = x.shape[axis] if x.dim() else 1
    if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k <= width:
        raise ValueError(f'topk: k is {k!r}; expected an integer from 0 to {width}, the number of elements')
    return axis, width


def _topk(x, k, axis, largest):
    "Compute `topk`"
    torch = import_torch()
    axis, width = _check(x, k, axis)
    key = key_type(x)
    if _fallback_reason(key, k, width):
        return NotImplemented
    rows = move_last(x, axis)
    shape = (*rows.shape[:-1], k)
    values = torch.empty(shape, dtype=x.dtype, device=x.device)
    indices = torch.empty(shape, dtype=torch.int64, device=x.device)
    if indices.numel():
        _launch(as_bits(rows), as_bits(values), indices, key, k, width, bool(largest))
    if not x.dim():
        return values.reshape((k,))[0] if k else values, indices.reshape((k,))[0] if k else indices
    return move_back(values, x, axis), move_back(indices, x, axis)


def _topk_by_torch(x, k, axis, largest):
    return tuple(import_torch().topk(x, k, axis, bool(largest)))


def _torch_function(x, k, axis, largest):
    return import_torch().topk if isinstance(largest, bool) else _topk_by_torch


_replayable_topk = replayable(_topk, _topk_by_torch, make_torch_function=_torch_function)


@replay_entry_point(_replayable_topk, 'x', 'k', 'axis', 'largest')
def topk(
    x,  # a tensor of integers or floats
    k,
    axis=-1,
    largest=True,  # False: the smallest elements
):  # (values, indices), sorted; indices are int64
    """Find the k largest elements along an axis and their indices, sorted, as `torch.topk` does: NaN is the largest.
    Ties are broken by index, the lowest first, except for k above 256, where torch selects.

        values, indices = topk(logits, 8)

    Raises TypeError and ValueError for arguments that are not supported."""
    reject_gradients('topk', x)
    return _replayable_topk(x, k, axis, largest)


def _launch(bits, values, indices, key, k, width, largest):
    "Launch the kernels for rows of `as_bits`"
    torch, rows = import_torch(), bits.numel() // width
    vec_size = vector_width(bits.data_ptr(), key.bytes, rows, width)
    kernel_launches, num_candidates = topk_launches(key, k, rows, width, largest, vec_size, current_device_properties())
    candidates = torch.empty(max(1, rows * num_candidates), dtype=torch.int64, device=bits.device)
    launch(kernel_launches, bits, candidates=candidates, values=values, indices=indices)


def explain_topk(
    x,
    k,
    axis=-1,
    largest=True,  # as for `topk`
) -> Explanation:
    """Return the kernels that `topk` launches, or () if torch selects, and the reason.

    explain_topk(x, 8)"""
    _, width = _check(x, k, axis)
    key = key_type(x)
    if reason := _fallback_reason(key, k, width):
        return Explanation((), reason)
    if not x.numel() or not k:
        return Explanation((), 'x is empty' if k else 'k is 0')
    launches, _ = topk_launches(key, k, x.numel() // width, width, bool(largest), 1, current_device_properties())
    blocks = launches[0].scalars[2]
    reason = (
        f'{blocks} blocks read each row, a second launch merges their candidates'
        if blocks > 1
        else ('a block reads each row')
    )
    return Explanation(('topk',) * len(launches), reason)
