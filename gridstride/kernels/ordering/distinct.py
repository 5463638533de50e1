"""`unique`: the distinct elements. Those of 1 or 2 bytes are marked in a bitmap, others are sorted and compacted."""

from functools import lru_cache

from .compaction import select_first_of_runs
from .keys import as_bits, check_keys, key_type
from .sorts import sort
from .sources import kernel_source
from ..launch_replay import replay_entry_point, replayable
from ..common import import_torch, launch, vector_width
from ..ladder.launches import Int64
from ..ladder import KernelLaunch, current_device_properties
from ...utils import cdiv

_MARK_THREADS, _LIST_THREADS = 512, 1024
_TORCH_MAX_ELEMENTS = 2**13  # on a GPU, torch takes less time per call for so few elements
_MIN_LOADS = 8  # per thread; with fewer, merging the bitmaps of the blocks would take longer than reading the elements


@lru_cache(1024)
def bitmap_launches(key, size, vec_size, device) -> list:  # of `KernelLaunch`
    "Return the launches that mark the elements in a bitmap, `vec_size` per load, and list the marked ones"
    blocks = max(1, min(2 * device.sms, cdiv(size, _MARK_THREADS * vec_size * _MIN_LOADS)))
    constants = ('V', vec_size), ('MARK_THREADS', _MARK_THREADS), ('LIST_THREADS', _LIST_THREADS)
    src = kernel_source('distinct', key, constants)
    mark_launch = KernelLaunch(src, 'mark_elements', ('x', 'bitmap'), (Int64(size),), (blocks,), (_MARK_THREADS,))
    return [mark_launch, KernelLaunch(src, 'list_elements', ('bitmap', 'out', 'total'), (), (1,), (_LIST_THREADS,))]


def _unique_by_bitmap(x):
    "Return (buffer, count): buffer[:count] are the distinct elements; count is -1 if `x` has NaN"
    torch, key, size = import_torch(), key_type(x), x.numel()
    num_words = 2 ** (8 * key.bytes) // 32
    bitmap = torch.zeros(num_words + 1, dtype=torch.int32, device=x.device).view(torch.uint32)
    out = torch.empty(min(size, 32 * num_words), dtype=as_bits(x).dtype, device=x.device)
    total = torch.empty(1, dtype=torch.int64, device=x.device)
    launches = bitmap_launches(key, size, vector_width(x.data_ptr(), key.bytes, 1, size), current_device_properties())
    launch(launches, as_bits(x), bitmap=bitmap, out=out, total=total)
    return out.view(x.dtype), total


_replayable_bitmap = replayable(_unique_by_bitmap)


def _unique_by_sort(x, with_positions):
    "Return (buffer, count[, indices in sort(x)]): buffer[:count] are the distinct elements"
    out, positions, total = select_first_of_runs(as_bits(sort(x)), key_type(x), with_positions)
    return (out.view(x.dtype), total, positions) if with_positions else (out.view(x.dtype), total)


_replayable_sort = replayable(_unique_by_sort)


def _leave_to_torch(x, return_counts):
    return NotImplemented


def _unique_by_torch(x, return_counts):
    "Call the operator that `torch.unique` calls, without its overhead"
    elements, _, counts = import_torch()._unique2(x, True, False, return_counts)
    return (elements, counts) if return_counts else elements


_unique_small = replayable(_leave_to_torch, _unique_by_torch)


@replay_entry_point(_unique_small, 'x', 'return_counts')
def unique(
    x,  # a tensor of integers or floats
    return_counts=False,  # True: also return how often each element occurs
):  # a sorted 1-D tensor; with `return_counts`: (elements, counts)
    """Return the distinct elements, sorted, as `x.unique()` does. NaNs are not equal to each
    other; 0.0 and -0.0 are equal, and one of them is returned. For small inputs on a GPU, torch computes the result.

        elements, counts = unique(x, return_counts=True)

    The size of the result depends on the elements, so the call waits for the GPU, as torch does.

    Raises TypeError and ValueError for arguments that are not supported."""
    torch = import_torch()
    check_keys('unique', x)
    if x.is_cuda and x.numel() <= _TORCH_MAX_ELEMENTS:
        return _unique_small(x, bool(return_counts))
    x = x.flatten()
    if x.element_size() <= 2 and not return_counts and x.numel():
        elements, total = _replayable_bitmap(x)
        if (num_unique := int(total)) >= 0:
            return elements[:num_unique]
    elements, total, *positions = _replayable_sort(x, bool(return_counts))
    num_unique = int(total)
    if not return_counts:
        return elements[:num_unique]
    starts = positions[0][:num_unique]
    ends = torch.cat([starts[1:], torch.tensor([x.numel()], device=x.device)]) if num_unique else starts
    return elements[:num_unique], ends - starts
