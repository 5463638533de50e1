"""Test cases for the lesson's exercises. Reading this file spoils them."""

import math

import numpy as np
import torch

from ... import sim
from ..grading import problem
from ...utils import check
from .reductions import check_is_kernel, check_no_atomics

__all__ = ['CountedReads', 'merged_from_a']

_SPECIALS = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1.0, -1.0], np.float32)


def _describe(x):
    "Format a float and its bits"
    return f'{x} (0x{x.view(np.uint32):08x})'


def _check_pair(x, keys, i, j):
    "Raise `AssertionError` unless the keys of two floats have the order of the floats"
    a, b = x[i], x[j]
    comes_first = not np.isnan(a) and (np.isnan(b) or a < b)
    if comes_first and not keys[i] < keys[j]:
        raise AssertionError(
            f'{_describe(a)} comes before {_describe(b)}, but their keys are 0x{keys[i]:08x} and 0x{keys[j]:08x}'
        )
    if (a == b or np.isnan(a) and np.isnan(b)) and keys[i] != keys[j]:
        raise AssertionError(
            f'{_describe(a)} and {_describe(b)} are equal, but their keys are 0x{keys[i]:08x} and 0x{keys[j]:08x}'
        )


@problem(
    'scan_sort_select.order',
    cases=[dict(floats=floats) for floats in ([1.0, 2.0], [-1.0, 1.0], [-2.0, -1.0], [-0.0, 0.0], [1.0, np.nan], None)],
    hints=[
        'The bits of positive floats, as integers, already have the order of the floats. Set their sign '
        'bit, so that they come after the negative ones.',
        'The bits of negative floats have the reverse order. Subtracting from 0 (or 2^32) reverses the order of '
        'unsigned integers; what does this make of the bits of -0.0, and of 0.0 with the sign bit set?',
        'A float is NaN if its bits without the sign are larger than those of infinity, 0x7f800000. '
        '`np.where(condition, a, b)` chooses per element; compute with np.uint32, which wraps around.',
    ],
)
def _(fn, rng, floats):
    x = np.array(floats, np.float32) if floats else np.concatenate([_SPECIALS, rng.normal(size=90).astype(np.float32)])
    bits = x.view(np.uint32)
    keys = np.asarray(fn(bits.copy()))
    if keys.shape != x.shape:
        raise AssertionError(f'the keys have shape {keys.shape}, the bits {x.shape}: return a key per float')
    if keys.dtype != np.uint32:
        raise AssertionError(f'the keys are {keys.dtype}; expected uint32, as the bits are')
    for i in range(len(x)):
        for j in range(len(x)):
            _check_pair(x, keys, i, j)


class CountedReads:
    "A sorted sequence that counts how often an element is read, and rejects indices that are out of range"

    def __init__(self, values, name, reads):
        self.values, self.name, self.reads = values, name, reads

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        if not isinstance(index, (int, np.integer)) or not 0 <= index < len(self.values):
            raise AssertionError(f'{self.name}[{index}] is out of range: {self.name} has {len(self.values)} elements')
        self.reads.append(self.name)
        return self.values[index]


def merged_from_a(a, b, d):
    "Return how many of the first `d` elements of the merged sequence come from `a`, whose elements precede equal ones"
    pairs = sorted([(value, 0) for value in a] + [(value, 1) for value in b])
    return sum(origin == 0 for _, origin in pairs[:d])


@problem(
    'scan_sort_select.diagonal',
    cases=[
        dict(n=n, m=m, distinct=distinct)
        for n, m, distinct in (
            (3, 3, 9),
            (1, 8, 9),
            (8, 1, 9),
            (0, 5, 9),
            (5, 0, 9),
            (40, 60, 5),
            (64, 64, 1),
            (1000, 7, 99),
        )
    ],
    hints=[
        'If i of the first d elements come from a, then d - i come from b. So i is at least d - len(b) and 0, and at '
        'most d and len(a): search in this range.',
        'For a trial i in the middle, compare a[i] with b[d - 1 - i], the last element that b would give. If a[i] is '
        'not larger, it comes before that element, so more than i elements come from a.',
        '`low, high = max(0, d - len(b)), min(d, len(a))`; while low < high, `i = (low + high)//2`; then either '
        '`low = i + 1` or `high = i`.',
    ],
)
def _(fn, rng, n, m, distinct):
    a, b = (sorted(rng.integers(0, distinct, size).tolist()) for size in (n, m))
    for d in range(n + m + 1) if n + m < 200 else rng.integers(0, n + m + 1, 20).tolist():
        reads = []
        result = fn(CountedReads(a, 'a', reads), CountedReads(b, 'b', reads), d)
        expected = merged_from_a(a, b, d)
        if result != expected:
            raise AssertionError(
                f'{expected} of the first {d} elements come from a, but the result is {result}: '
                f'a = {a[:9]}, b = {b[:9]}'
            )
        limit = 2 * (math.ceil(math.log2(min(n, m) + 1)) + 1)
        if len(reads) > limit:
            raise AssertionError(
                f'{len(reads)} reads of a and b; a binary search in the right range needs at most {limit}: '
                f'{n} and {m} elements, d = {d}'
            )


@problem(
    'scan_sort_select.partition',
    cases=[
        dict(n=n, odd=odd) for n, odd in ((8, 0.5), (128, 0.5), (1, 1.0), (100, 0.1), (33, 0.0), (64, 1.0), (127, 0.9))
    ],
    hints=[
        'An even element goes to the number of even elements before it. An odd one goes after all even elements: '
        'its index is their number, plus the number of odd elements before it.',
        'One scan is enough: element t has t elements before it, so if e of them are even, t - e are odd.',
        'Scan the flags "is even" in shared memory, inclusively, as in reductions.keep; a thread past the end of x has '
        'flag 0. With s the scan, the even element t goes to s[t] - 1, the odd one to s[127] + t - s[t].',
    ],
)
def _(fn, rng, n, odd):
    kernel = fn()
    check_is_kernel(kernel)
    x = (2 * rng.integers(0, 1000, n) + (rng.random(n) < odd)).astype(np.int32)
    expected = np.concatenate([x[x % 2 == 0], x[x % 2 == 1]])
    out = torch.full((n,), -1, dtype=torch.int32)
    with sim.trace() as t:
        try:
            kernel[1, 128](torch.tensor(x), out)
        finally:
            check_no_atomics(t)  # before any other error, which they may have caused
    check(out, expected)
    if n > 64 and t.stats.global_load_requests > 32:
        raise AssertionError(
            f'{t.stats.global_load_requests} requests for x: let each thread load its own element, in 4 requests; a '
            'scan of flags gives the positions'
        )
    if n > 64 and t.stats.shared_load_requests > 160:
        raise AssertionError(
            f'{t.stats.shared_load_requests} load requests to shared memory: scan in steps 1, 2, 4, ..., which takes '
            'about 70 requests for four warps'
        )
