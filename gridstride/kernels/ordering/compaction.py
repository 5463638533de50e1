"""`compact`: stream compaction in one pass, by decoupled look-back; `select_first_of_runs` keeps the first of each run
of equal elements."""

from functools import lru_cache
from typing import NamedTuple

from .keys import KeyType, as_bits, check_keys, key_type, reject_gradients
from .sources import dynamic_smem_bytes, kernel_source
from ..launch_replay import replayable
from ..common import MAX_LOAD_BYTES, import_torch, launch
from ..ladder.launches import Int64
from ..ladder import KernelLaunch, current_device_properties
from ...utils import cdiv

_THREADS = {1: 512, 2: 512, 4: 512, 8: 512}  # bytes per element -> threads of a block
_SMALL_THREADS = 256  # if larger tiles would leave SMs idle
_ITEMS_PER_THREAD = 16  # elements per thread, as in compact.cuh
_VEC_SIZE = 4  # elements per load, as in compact.cuh


# On a Hopper GPU, for inputs of a few rounds: all blocks are resident, and bulk copies prefetch their tiles
class Bulk(NamedTuple):
    "The tiling of compact_bulk.cuh"

    threads: int
    vecs_per_thread: int  # loads of `_VEC_SIZE` elements per thread and tile, at most four
    stages: int
    blocks_per_sm: int

    def smem_bytes(self, element_bytes):
        "Return the bytes of the stages and of the elements that threads exchange"
        tile_elements = self.threads * self.vecs_per_thread * _VEC_SIZE
        return tile_elements * (self.stages * (element_bytes + 1) + element_bytes) + MAX_LOAD_BYTES


# bytes per element -> the fastest of about ten tilings for 2^28 elements on an H200: large tiles need few rounds
_BULK = {1: Bulk(1024, 4, 6, 1), 2: Bulk(1024, 4, 3, 1), 4: Bulk(992, 3, 3, 1), 8: Bulk(768, 2, 3, 1)}
_MIN_BULK_BYTES = 2**22  # smaller inputs have too few tiles for all SMs


def _bulk_launches(key, size, device) -> tuple:  # (launches, tiles)
    "Return the launch that writes the elements that flags select on a Hopper GPU, and the number of its tiles"
    bulk = _BULK[key.bytes]
    blocks, tiles = device.sms * bulk.blocks_per_sm, cdiv(size, bulk.threads * bulk.vecs_per_thread * _VEC_SIZE)
    constants = dict(THREADS=bulk.threads, VECS_PER_THREAD=bulk.vecs_per_thread, STAGES=bulk.stages, BLOCKS=blocks)
    src = kernel_source('compact_bulk', KeyType(key.bytes, 0), tuple(constants.items()))
    arrays, sizes = ('x', 'keep', 'out', 'total', 'status'), (Int64(size), tiles)
    shared = bulk.smem_bytes(key.bytes)
    bulk_launch = KernelLaunch(src, 'compact_bulk', arrays, sizes, (blocks,), (bulk.threads,), shared)
    return [bulk_launch._replace(cooperative=True)], tiles


# For larger inputs: the warps of resident blocks count several rounds ahead, which has a higher startup cost
class Resident(NamedTuple):
    "The constants of compact_resident.cuh"

    warps: int  # that write elements
    vectors: int  # 512 elements of a warp's chunk
    stages: int  # chunks in shared memory per warp, or 0: elements are loaded to registers
    load_distance: int  # rounds between loading elements to registers and writing them
    count_distance: int  # rounds between counting and writing
    sum_lag: int  # rounds that are counted before the counts of the first of them are summed

    @property
    def tile(self):
        "Return the elements of a tile, which a block processes in a round"
        return 512 * self.warps * self.vectors

    def smem_bytes(self, element_bytes):
        "Return the bytes of the stages"
        return self.stages * self.tile * element_bytes


# bytes per element -> the fastest of about ten candidates for 2^28 elements on an H200
_RESIDENT = {
    1: Resident(16, 4, 4, 1, 4, 2),
    2: Resident(16, 2, 6, 1, 4, 2),
    4: Resident(18, 1, 0, 2, 6, 3),
    8: Resident(10, 1, 0, 2, 4, 2),
}
_MIN_RESIDENT_BYTES = 2**24


def _resident_launches(key, size, device) -> tuple:  # (launches, tiles)
    "Return the launch that writes the elements that flags select on a Hopper GPU, and the number of its tiles"
    resident = _RESIDENT[key.bytes]
    tiles = cdiv(size, resident.tile)
    constants = {name.upper(): value for name, value in resident._asdict().items()} | dict(BLOCKS=device.sms)
    src = kernel_source('compact_resident', KeyType(key.bytes, 0), tuple(constants.items()))
    arrays, sizes = ('x', 'keep', 'out', 'total', 'status'), (Int64(size), tiles)
    block, smem_bytes = (32 * (resident.warps + 2),), resident.smem_bytes(key.bytes)
    resident_launch = KernelLaunch(src, 'compact_resident', arrays, sizes, (device.sms,), block, smem_bytes)
    return [resident_launch._replace(cooperative=True)], tiles


@lru_cache(1024)
def compact_launches(key: KeyType, size, is_unique, alignment, with_positions, device) -> tuple:  # (launches, tiles)
    "Return the launch that writes the selected elements, and the number of its tiles"
    if device.is_hopper and not is_unique and alignment == MAX_LOAD_BYTES and size * key.bytes >= _MIN_BULK_BYTES:
        is_large = size * key.bytes >= _MIN_RESIDENT_BYTES
        return (_resident_launches if is_large else _bulk_launches)(key, size, device)
    threads = _THREADS[key.bytes]
    threads = threads if size >= 2 * device.sms * threads * _ITEMS_PER_THREAD else _SMALL_THREADS
    constants = dict(THREADS=threads, UNIQUE=is_unique, ALIGNED=alignment > 1, WITH_POSITIONS=with_positions)
    key = key if is_unique else KeyType(key.bytes, 0)  # `compact` only moves elements
    src, tiles = kernel_source('compact', key, tuple(constants.items())), cdiv(size, threads * _ITEMS_PER_THREAD)
    arrays = 'x', 'keep', 'out', 'positions', 'total', 'status', 'ticket'
    shared = dynamic_smem_bytes(threads * _ITEMS_PER_THREAD * (key.bytes + 2 * with_positions), 1024)
    return [KernelLaunch(src, 'compact', arrays, (Int64(size), tiles), (tiles,), (threads,), shared)], tiles


def _alignment(bits, keep):
    "Return `MAX_LOAD_BYTES` if the arrays are aligned to it, `_VEC_SIZE` if to a vector, else 1"
    load_bytes = min(MAX_LOAD_BYTES, _VEC_SIZE * bits.element_size())
    address, flags_address = bits.data_ptr(), 0 if keep is None else keep.data_ptr()
    if address % MAX_LOAD_BYTES == 0 and flags_address % MAX_LOAD_BYTES == 0:
        return MAX_LOAD_BYTES
    return _VEC_SIZE if address % load_bytes == 0 and flags_address % _VEC_SIZE == 0 else 1


def _select(bits, key, keep, with_positions):
    """Return (selected elements, their positions or None, their number), in buffers of the size of `bits`. If `keep` is
    None, the first of each run of equal elements is selected."""
    torch, size = import_torch(), bits.numel()
    out, total = torch.empty_like(bits), torch.empty(1, dtype=torch.int64, device=bits.device)
    positions = torch.empty(size, dtype=torch.int64, device=bits.device) if with_positions else None
    if not size:
        return out, positions, total.zero_()
    launches, tiles = compact_launches(
        key, size, keep is None, _alignment(bits, keep), with_positions, current_device_properties()
    )
    words = torch.uint32 if launches[0].name == 'compact_resident' else torch.int64
    status = torch.zeros(tiles + 1, dtype=torch.int64, device=bits.device).view(words)
    unused = torch.empty(1, dtype=torch.int64, device=bits.device) if positions is None else positions
    flags = keep if keep is not None else bits.view(torch.uint8)
    arrays = dict(keep=flags, out=out, positions=unused, total=total, status=status[1:], ticket=status[:1])
    launch(launches, bits, **arrays)
    return out, positions, total


def select_first_of_runs(bits, key, with_positions=False):
    """Return (the first element of each run of equal elements, their positions or None, their number), in buffers of
    the size of `bits`, as `torch.unique_consecutive` selects them"""
    return _select(bits, key, None, with_positions)


def _compact(x, keep):
    "Return (a tensor of `x.numel()` elements that begins with the selected ones, their number)"
    check_keys('compact', x)
    check_keys('compact', keep, 'keep', ['bool'])
    if keep.shape != x.shape or keep.device != x.device:
        raise ValueError(
            f'compact: keep has shape {tuple(keep.shape)} and is on {keep.device}; expected shape {tuple(x.shape)} '
            f'on {x.device}, as x'
        )
    flags = keep.contiguous().view(import_torch().uint8).flatten()
    out, _, total = _select(as_bits(x.contiguous()).flatten(), key_type(x), flags, False)
    return out.view(x.dtype), total


_replayable_compact = replayable(_compact)


def compact(
    x,  # a tensor with a dtype of 1, 2, 4 or 8 bytes
    keep,  # a bool tensor of its shape
    padded=False,  # True: do not wait for the GPU; return (a tensor of x.numel() elements, the number of selected ones)
):  # a 1-D tensor
    """Return the elements of `x` where `keep` is True, in their order, as `x[keep]` does (stream compaction).

        compact(x, x > 0)

    The size of the result depends on the elements, so the call waits for the GPU, as torch does, unless `padded`.

    Raises TypeError and ValueError for arguments that are not supported."""
    reject_gradients('compact', x)
    out, total = _replayable_compact(x, keep)
    return (out, total) if padded else out[: int(total)]
