"""The cost of one request of a warp: sectors of global memory, wavefronts of shared memory."""

import numpy as np

__all__ = ['sectors', 'wavefronts']

# The threads of a warp issue one instruction together. Its cost depends on the addresses of the 32 lanes, or of the 64
# lanes of an AMD wavefront:
#
# - **global memory** is fetched in *sectors* of 32 bytes. A request of a warp costs as many sectors as its lanes
#   access; the ideal is as many as their bytes would fill.
# - **shared memory** has 32 *banks*, 4 bytes wide: word `w` is in bank `w % 32`. Lanes that need different words
#   of one bank are served one after the other; each pass is a *wavefront*. Lanes that read the same word share it.


def sectors(warp, byte, size):
    """Count (requests, sectors, ideal sectors) of lanes of `warp` that access `size` bytes at `byte`, a value per lane.

    >>> lane = np.arange(32)
    >>> sectors(0 * lane, 4 * lane, 4), sectors(0 * lane, 8 * lane, 4)  # neighbouring floats, every second float
    ((1, 4, 4), (1, 8, 4))"""
    warp, byte = np.asarray(warp, np.int64), np.asarray(byte, np.int64)
    first = byte // 32
    last = (byte + size - 1) // 32
    touched, _ = _distinct(np.concatenate([warp * 2**40 + first, warp * 2**40 + last]))
    filled = _counts(warp) * size
    return int(np.count_nonzero(filled)), len(touched), int((-(-filled // 32)).sum())


def wavefronts(warp, lane, byte, size, width=32):  # width: lanes of a warp
    """Count (requests, wavefronts, extra wavefronts) of lanes that access `size` bytes of shared memory at `byte`.

    >>> lane = np.arange(32)
    >>> wavefronts(0 * lane, lane, 4 * lane, 4), wavefronts(0 * lane, lane, 8 * lane, 4)  # a stride of two floats
    ((1, 1, 0), (1, 2, 1))"""
    warp, byte = np.asarray(warp, np.int64), np.asarray(byte, np.int64)
    parts = max(1, size // 4)  # 8 bytes: half a warp at a time, 16 bytes: a quarter
    together = 32 // parts  # lanes that 32 banks serve at once: 64 lanes of 4 bytes come in two halves
    part = warp * (width // together) + lane // together
    words, _ = _distinct(np.concatenate([part * 2**40 + byte // 4 + k for k in range(parts)]))  # one word is shared
    groups, which = _distinct(words >> 40)
    load = _counts(which * 32 + words % 32, len(groups) * 32).reshape(-1, 32)
    total = int(load.max(1).sum())
    return int(np.count_nonzero(_counts(warp))), total, total - len(groups)


def _counts(values, least=0):
    "Count how often each value occurs; 32-bit integers, because NumPy counts no longer ones in a browser"
    return np.bincount(values.astype(np.int32), minlength=least)


def _distinct(values):
    "Return (the distinct values, sorted; the index of each sorted value among them)"
    values = np.sort(values, kind='stable')  # fast for values that are almost sorted, as addresses of lanes are
    new = np.ones(len(values), bool)
    new[1:] = values[1:] != values[:-1]
    return values[new], np.cumsum(new) - 1
