"""The cost of one request of a warp: sectors of global memory, wavefronts of shared memory."""

import numpy as np

__all__ = ['sectors', 'wavefronts']

# The threads of a warp issue one instruction together. Its cost depends on the addresses of the 32 lanes, or of the 64
# lanes of an AMD wavefront:
#
# - **global memory** is fetched in *sectors* of 32 bytes. A request of a warp costs as many sectors as its lanes
#   access; the ideal is the number of sectors that their bytes would fill if they were contiguous.
# - **shared memory** has 32 *banks*, 4 bytes wide: word `w` is in bank `w % 32`. Lanes that need different words
#   of one bank are served one after the other; each pass is a *wavefront*. Lanes that read the same word share it.


def sectors(warp, byte, size):
    """Count (requests, sectors, ideal sectors); lane i is in warp `warp[i]` and accesses `size` bytes at `byte[i]`.

    >>> lane = np.arange(32)
    >>> sectors(0 * lane, 4 * lane, 4), sectors(0 * lane, 8 * lane, 4)  # neighbouring floats, every second float
    ((1, 4, 4), (1, 8, 4))"""
    warp, byte = np.asarray(warp, np.int64), np.asarray(byte, np.int64)
    first_sector = byte // 32
    last_sector = (byte + size - 1) // 32
    sectors, _ = _distinct(np.concatenate([warp * 2**40 + first_sector, warp * 2**40 + last_sector]))
    num_bytes = _counts(warp) * size  # per warp
    return int(np.count_nonzero(num_bytes)), len(sectors), int((-(-num_bytes // 32)).sum())


def wavefronts(warp, lane, byte, size, width=32):  # width: lanes of a warp
    """Count (requests, wavefronts, extra wavefronts) of lanes that access `size` bytes of shared memory at `byte`.

    >>> lane = np.arange(32)
    >>> wavefronts(0 * lane, lane, 4 * lane, 4), wavefronts(0 * lane, lane, 8 * lane, 4)  # a stride of two floats
    ((1, 1, 0), (1, 2, 1))"""
    warp, byte = np.asarray(warp, np.int64), np.asarray(byte, np.int64)
    words_per_lane = max(1, size // 4)
    # The 32 banks serve 32 lanes of 4 bytes at once, half as many of 8 bytes, and a quarter of 16 bytes.
    lanes_per_group = 32 // words_per_lane
    group = warp * (width // lanes_per_group) + lane // lanes_per_group
    # Lanes of a group that read the same word share it.
    words, _ = _distinct(np.concatenate([group * 2**40 + byte // 4 + k for k in range(words_per_lane)]))
    groups, group_of_word = _distinct(words >> 40)
    words_per_bank = _counts(group_of_word * 32 + words % 32, len(groups) * 32).reshape(-1, 32)
    num_wavefronts = int(words_per_bank.max(1).sum())
    return int(np.count_nonzero(_counts(warp))), num_wavefronts, num_wavefronts - len(groups)


def _counts(values, min_length=0):
    "Count how often each value occurs, in 32-bit integers: in a browser, NumPy cannot count 64-bit ones"
    return np.bincount(values.astype(np.int32), minlength=min_length)


def _distinct(values):
    "Return (the distinct values, sorted; the index of each sorted value among them)"
    values = np.sort(values, kind='stable')  # fast for values that are almost sorted, as addresses of lanes are
    is_first = np.ones(len(values), bool)
    is_first[1:] = values[1:] != values[:-1]
    return values[is_first], np.cumsum(is_first) - 1
