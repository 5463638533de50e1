"""Test cases for the lesson's exercises. Reading this file spoils them."""

import math

import numpy as np
import torch

from ... import sim
from ..grading import normal, problem
from ...utils import cdiv, check
from .reductions import check_is_kernel

__all__ = ['same_padded', 'causal_convolution', 'window_matrix', 'sum_of_neighbours', 'common_subsequence_length']

MAX_SHARED = 2000  # bytes, in `common`


def same_padded(x, f):
    "Return the convolution of `x` with `f`, with zeros outside `x`, in float64"
    r = len(f) // 2
    padded = np.pad(np.asarray(x, np.float64), r)
    return np.array([f @ padded[i : i + len(f)] for i in range(len(x))])


def _loads_of(t, size):
    "Return how many elements of global arrays with `size` elements the threads of a launch have loaded"
    return sum(
        len(a['at'])
        for a in t.accesses
        if a['space'] == 'global' and a['verb'] == 'read' and math.prod(a['shape']) == size
    )


@problem(
    'stencils_and_convolution.same',
    cases=[dict(n=n, taps=taps) for n, taps in ((3, 3), (64, 3), (100, 7), (65, 33), (1, 33), (10, 1), (200, 33))],
    hints=[
        'A block computes 64 results. It needs 64 + 2*r elements of x: r before its first result, r after its last.',
        'Fill the tile in a loop, `for k in range(t, 64 + 2*r, 64)`: s[k] is x[first + k] with first = 64*block - r, '
        'or 0 if this index is out of range. 96 elements are enough for 33 taps.',
        'After a barrier that all threads reach, thread t adds up f[j]*s[t+j]. Guard only the write.',
    ],
)
def _(fn, rng, n, taps):
    kernel = fn()
    check_is_kernel(kernel)
    x, f = normal(rng, n), normal(rng, taps)
    out = torch.full((n,), torch.nan)
    blocks = cdiv(n, 64)
    with sim.trace(10**6) as t:
        kernel[blocks, 64](torch.tensor(x), torch.tensor(f), out)
    check(out, same_padded(x, f).astype(np.float32), rtol=1e-4, atol=1e-4)
    allowed = n + blocks * (taps - 1)
    if n > 2 * taps and (loads := _loads_of(t, n)) > allowed:
        raise AssertionError(
            f'{loads} loads of x by {blocks} blocks; loading each element once per block takes at most {allowed}: '
            'copy the elements and their halo to shared memory first'
        )


def causal_convolution(x, f, state):
    "Return the causal convolution of `x` after `state`, and the state after it, in float64"
    k, rows = len(f), np.concatenate([state, x]).astype(np.float64)
    out = np.stack([(f * rows[t : t + k]).sum(0) for t in range(len(x))])
    return out, rows[len(rows) - (k - 1) :]


@problem(
    'stencils_and_convolution.causal',
    cases=[
        dict(length=length, channels=channels, taps=taps)
        for length, channels, taps in ((1, 1, 3), (8, 32, 4), (2, 40, 4), (1, 33, 4), (3, 5, 4), (7, 3, 2))
    ],
    hints=[
        'Row t + j - k + 1 of x may be negative. Row -1 is the last row of state, which has k-1 rows: which row of '
        'state is row -2?',
        'For a negative row, read state[row + k - 1, c]. The same rule gives the new state: its row j is the row '
        'length + j - k + 1.',
        'If the part has fewer than k-1 rows, some rows of the new state come from the old one: test the sign of the '
        'row there, too.',
    ],
)
def _(fn, rng, length, channels, taps):
    kernel = fn()
    check_is_kernel(kernel)
    x, f, state = normal(rng, length, channels), normal(rng, taps, channels), normal(rng, taps - 1, channels)
    if (length, channels, taps) == (1, 1, 3):  # the example of the text
        x, f, state = (np.array(values, np.float32) for values in ([[3]], [[1], [10], [100]], [[1], [2]]))
    out, last = torch.full((length, channels), torch.nan), torch.full((taps - 1, channels), torch.nan)
    kernel[cdiv(channels, 32), 32](torch.tensor(x), torch.tensor(f), torch.tensor(state), out, last)
    expected, new_state = causal_convolution(x, f, state)
    check(out, expected.astype(np.float32), rtol=1e-4, atol=1e-4)
    try:
        check(last, new_state.astype(np.float32))
    except AssertionError as e:
        raise AssertionError(f'last, the state after {length} rows: {e}') from None


def window_matrix(channels, h, w, k, stride, padding):
    "Return {(row, column): (channel, y, x), or None} of the matrix of windows, from `torch.nn.functional.unfold`"
    indices = torch.arange(1.0, channels * h * w + 1).view(1, channels, h, w)
    matrix = torch.nn.functional.unfold(indices, k, padding=padding, stride=stride)[0].long()
    return {
        (i, p): None if e == 0 else ((e - 1) // (h * w), (e - 1) // w % h, (e - 1) % w)
        for i, row in enumerate(matrix.tolist())
        for p, e in enumerate(row)
    }


@problem(
    'stencils_and_convolution.window',
    cases=[
        dict(h=h, w=w, k=k, stride=stride, padding=padding)
        for h, w, k, stride, padding in (
            (4, 4, 3, 1, 1),
            (5, 7, 3, 1, 1),
            (6, 5, 3, 1, 0),
            (7, 9, 3, 2, 1),
            (8, 8, 5, 3, 2),
        )
    ],
    hints=[
        'Row i is a channel and a tap: the channel is i//(k*k), the tap is in row i//k%k and column i%k of the filter.',
        'Column p is a pixel of the result. Divide it by the number of columns of the result, '
        '(w + 2*padding - k)//stride + 1.',
        'The row in the image is (row of the result)*stride + (row of the tap) - padding; the column likewise. Outside '
        'of 0 to h-1 and 0 to w-1 return None.',
    ],
)
def _(fn, rng, h, w, k, stride, padding):
    for (i, p), expected in window_matrix(3, h, w, k, stride, padding).items():
        result = fn(i, p, h, w, k, stride, padding)
        result = result if result is None else tuple(int(index) for index in result)
        if result != expected:
            raise AssertionError(
                f'row {i}, column {p}: got {result}, expected {expected}, for h={h}, w={w}, k={k}, stride={stride}, '
                f'padding={padding}'
            )


@problem(
    'stencils_and_convolution.passes',
    cases=[
        dict(tile=tile, depth=depth, radius=radius, steps=steps)
        for tile, depth, radius, steps in (
            (32, 64, 1, 2),
            (32, 64, 1, 1),
            (16, 8, 1, 3),
            (32, 16, 4, 1),
            (32, 128, 2, 3),
            (16, 64, 4, 2),
            (8, 4, 1, 5),
        )
    ],
    hints=[
        'Information travels radius cells per step: the halo is radius*steps cells wide, on both sides of all three '
        'axes.',
        'A block loads tile*tile*(depth + 2*halo) cells, and has (tile - 2*halo)**2 * depth results.',
        'Add one store of 4 bytes per result, divide by the number of steps, and return math.inf if tile - 2*halo is '
        'not positive.',
    ],
)
def _(fn, rng, tile, depth, radius, steps):
    halo = radius * steps
    results = max(0, tile - 2 * halo) ** 2 * depth
    expected = 4 * (tile**2 * (depth + 2 * halo) / results + 1) / steps if results else math.inf
    result = fn(tile, depth, radius, steps)
    if not isinstance(result, (int, float)) or not math.isclose(result, expected, rel_tol=1e-9):
        raise AssertionError(
            f'tile={tile}, depth={depth}, radius={radius}, steps={steps}: got {result}, expected {expected}'
        )


def sum_of_neighbours(u):
    "Return the sums of the four neighbours of the inner cells; cells on the border are copied"
    out = u.copy()
    out[1:-1, 1:-1] = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return out


@problem(
    'stencils_and_convolution.rows',
    cases=[dict(h=h, w=w) for h, w in ((3, 3), (5, 62), (4, 63), (6, 130), (3, 124), (9, 1))],
    hints=[
        'Thread t has column 62*block + t - 1. Threads 0 and 63 only load: their columns are results of the '
        'neighbouring blocks.',
        'Three registers hold the cell above, the cell itself and the cell below; in each iteration they shift, and '
        'only the one below is loaded.',
        'Store the cell of the thread in shared memory, wait, read s[t-1] and s[t+1], and wait again before the next '
        'row overwrites s.',
    ],
)
def _(fn, rng, h, w):
    kernel = fn()
    check_is_kernel(kernel)
    u = normal(rng, h, w)
    out = torch.full((h, w), torch.nan)
    blocks = cdiv(w, 62)
    with sim.trace(10**6) as t:
        kernel[blocks, 64](torch.tensor(u), out)
    check(out, sum_of_neighbours(u), rtol=1e-5, atol=1e-5)
    allowed = h * (w + 2 * (blocks - 1))
    if (loads := _loads_of(t, h * w)) > allowed:
        raise AssertionError(
            f'{loads} loads of u; loading each cell once per block takes at most {allowed}: keep the cells above, at '
            "and below a thread's cell in registers, and get its left and right neighbours from shared memory"
        )


def common_subsequence_length(a, b):
    "Return the length of the longest common subsequence"
    row = [0] * (len(b) + 1)
    for x in a:
        previous_row, row = row, [0]
        for j, y in enumerate(b):
            row.append(previous_row[j] + 1 if x == y else max(previous_row[j + 1], row[j]))
    return row[-1]


@problem(
    'stencils_and_convolution.common',
    cases=[
        dict(n=n, m=m, distinct=distinct)
        for n, m, distinct in ((4, 4, 4), (1, 1, 1), (20, 24, 4), (127, 127, 4), (5, 120, 3), (120, 5, 3), (64, 32, 1))
    ],
    hints=[
        'Thread i computes the cells c[i, j], one per iteration: in iteration d, j is d - i, if this is from 0 to m.',
        'A cell of diagonal d needs diagonal d-1 at the indices i and i-1, and diagonal d-2 at i-1. Keep diagonal d in '
        's[d%3], so that three rows of 128 are enough.',
        'One barrier at the end of each iteration, outside all conditions. At the end, thread n has the answer in '
        's[(n+m)%3, n].',
    ],
)
def _(fn, rng, n, m, distinct):
    kernel = fn()
    check_is_kernel(kernel)
    a, b = (rng.integers(0, distinct, size).astype(np.int32) for size in (n, m))
    out = torch.full((1,), -1, dtype=torch.int32)
    with sim.trace() as t:
        kernel[1, 128](torch.tensor(a), torch.tensor(b), out)
    if (expected := common_subsequence_length(a.tolist(), b.tolist())) != int(out[0]):
        raise AssertionError(f'got {int(out[0])}, expected {expected}: a = {a[:9].tolist()}, b = {b[:9].tolist()}')
    if (writes := sum(len(a['at']) for a in t.accesses if a['space'] == 'global' and a['verb'] != 'read')) > 1:
        raise AssertionError(f'{writes} stores to global memory: only the result goes to out[0], once')
    shapes = {a['array']: a['shape'] for a in t.accesses if a['space'] == 'shared'}
    if (used := 4 * sum(math.prod(shape) for shape in shapes.values())) > MAX_SHARED:
        raise AssertionError(f'{used} bytes of shared memory are used; three diagonals of 128 integers need only 1536')
    allowed = 2 * (n + m + 1) * cdiv(max(n, m) + 1, 32) + 16  # twice what three diagonals need
    if (requests := t.stats.shared_store_requests) > allowed:
        raise AssertionError(
            f'{requests} store requests to shared memory for {n} and {m} elements: compute all cells of an '
            'anti-diagonal in one iteration'
        )
