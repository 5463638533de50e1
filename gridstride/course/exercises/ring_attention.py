"""Test cases for the lesson's exercises. Reading this file spoils them."""

import inspect
from functools import wraps

import numpy as np
import torch

from ... import ring
from ..grading import problem
from ...utils import check

__all__ = ['attend', 'lockstep', 'merge', 'gradients', 'slowest_rank_scores', 'check_exchanges']


@problem(
    'ring_attention.positions',
    cases=[
        dict(order=order, ranks=ranks, length=length)
        for order in ('striped', 'zigzag')
        for ranks, length in ((1, 4), (2, 8), (2, 12), (4, 16), (3, 30), (8, 64))
    ],
    hints=[
        'Striped: a position is `ranks*i + rank`. Which two operations invert that?',
        'Zigzag: a part has `length//(2*ranks)` positions. Part `p` belongs to rank `p` in the first half, and to rank '
        '`2*ranks - 1 - p` in the second.',
        "In its rank the second part is stored after the first: add a part's length to the index.",
    ],
)
def _(fn, rng, order, ranks, length):
    for rank in range(ranks):
        for i, position in enumerate(ring.positions(order, length, ranks, rank).tolist()):
            result = fn(order, position, length, ranks)
            if tuple(np.ravel(result)) != (rank, i):
                raise AssertionError(
                    f'{order}, length {length}, {ranks} ranks: position {position} is index {i} of rank {rank}, so '
                    f'({rank}, {i}); got {result!r}'
                )


def slowest_rank_scores(owners, ranks):
    """Return the sum over the steps of the scores that the slowest rank computes, in a causal ring in which position i
    belongs to rank owners[i]"""
    positions_of_rank = [np.flatnonzero(np.asarray(owners) == r) for r in range(ranks)]
    work = np.array([[(a[:, None] >= b).sum() for b in positions_of_rank] for a in positions_of_rank])
    return sum(max(work[r, (r - step) % ranks] for r in range(ranks)) for step in range(ranks))


@problem(
    'ring_attention.idle',
    cases=[
        dict(kind=kind, ranks=ranks, rows=rows)
        for kind, ranks, rows in (
            ('all of one', 1, 5),
            ('uneven', 3, 2),
            ('contiguous', 2, 3),
            ('contiguous', 4, 8),
            ('striped', 4, 8),
            ('zigzag', 4, 8),
            ('zigzag', 3, 6),
            ('shuffled', 4, 10),
            ('shuffled', 5, 7),
        )
    ],
    hints=[
        'First make a table: how many scores do the rows of rank `a` have with the keys of rank `b`? Row `i` and '
        'key `j` have a score if `j <= i`.',
        'In step `s` rank `r` works with the keys of rank `(r - s) % ranks`, and the step lasts as long as its slowest '
        'rank.',
        'The efficiency is the number of all scores, divided by `ranks` times the sum of the steps.',
    ],
)
def _(fn, rng, kind, ranks, rows):
    n = ranks * rows
    owners = np.empty(n, int)
    for r in range(ranks):
        owners[ring.positions(kind if kind in ring.ORDERS else 'contiguous', n, ranks, r)] = r
    if kind == 'uneven':
        owners = np.array([1, 1, 2, 0, 0, 2])  # the rank with the most work overall is not the slowest of each step
    owners = rng.permutation(owners) if kind == 'shuffled' else owners
    expected = n * (n + 1) / 2 / ranks / slowest_rank_scores(owners, ranks)
    result = fn(owners.tolist(), ranks)
    if not (isinstance(result, (int, float, np.number)) and abs(result - expected) < 1e-9):
        raise AssertionError(
            f'{ranks} ranks, {_format_owners(owners.tolist())}: got {_format_number(result)}; expected {expected:.6f}'
        )


def _format_number(x):
    "Format a number, without its type"
    return f'{float(x):.6f}' if isinstance(x, (int, float, np.number)) else repr(x)


def _format_owners(owners):
    "Format the rank that owns each position, for the first 24 positions"
    return f'owners {str(owners[:24])[:-1]}{", ..." if len(owners) > 24 else ""}]'


def _times(rows, heads, kv_heads, d, flops, latency, speed):
    "Return the seconds of a zigzag step of `rows` rows, and those of its message"
    return 4 * d * heads * rows * rows / 2 / flops, latency + 2 * kv_heads * d * rows * 2 / speed


def _is_message_hidden(rows, **case):
    "Return whether a zigzag step of `rows` rows takes at least as long as its message"
    step, message = _times(rows, **case)
    return step >= message


@problem(
    'ring_attention.hidden',
    cases=[
        dict(heads=heads, kv_heads=kv_heads, d=d, flops=flops, latency=latency, speed=speed)
        for heads, kv_heads, d, flops, latency, speed in (
            (16, 16, 128, 650e12, 0.0, 281e9),
            (16, 16, 128, 650e12, 20e-6, 281e9),
            (16, 2, 128, 650e12, 20e-6, 50e9),
            (64, 8, 64, 300e12, 1e-3, 25e9),
            (16, 16, 128, 650e12, 20e-6, 1e15),
            (32, 1, 128, 2e15, 5e-6, 900e9),
            (16, 16, 128, 2.0**50, 0.0, 2.0**40),  # 2048 rows take as long as their message
        )
    ],
    hints=[
        'A step computes `rows*rows/2` scores per head, `4*d` FLOPs per score; its message has `2*kv_heads*d*rows` '
        'elements of 2 bytes.',
        'Find the smallest integer `rows` with `a*rows**2 >= latency + b*rows`. A quadratic has two roots; one is '
        'negative.',
        '`(b + sqrt(b*b + 4*a*latency))/(2*a)`, rounded up. Rounding may move a root that is an integer: check its '
        'neighbours.',
    ],
)
def _(fn, rng, **case):
    result = fn(**case)
    if not isinstance(result, (int, np.integer)) or result < 1:
        raise AssertionError(f'return a positive integer; got {result!r}')
    step, message = (f'{t * 1e6:.6g} us' for t in _times(result, **case))
    if not _is_message_hidden(result, **case):
        raise AssertionError(f'with {result} rows the step takes {step}, but its message takes longer: {message}')
    if result > 1 and _is_message_hidden(result - 1, **case):
        raise AssertionError(
            f'{result} rows, whose step takes {step}, hide their message of {message}, but fewer rows do, too'
        )


def _first_message(g):
    "Return the first message of a rank"
    try:
        return next(g)
    except StopIteration:
        raise AssertionError('a rank returns before its first `yield`: send something first') from None


def lockstep(
    generators,  # a generator per rank, which yields the tensors to send to its right neighbour
    before_receive=None,  # called with (rank, number of exchanges) before the rank receives
):  # (result of each rank, number of exchanges)
    "Run the ranks of a ring in lockstep: each receives what its left neighbour yielded"
    sent = [_first_message(g) if inspect.isgenerator(g) else None for g in generators]
    rounds = 0
    if None in sent:
        raise AssertionError('write a generator: a function with a `yield`')
    results = [None] * len(generators)
    while any(result is None for result in results):
        rounds += 1
        messages = [sent[r - 1] for r in range(len(generators))]
        sent = [None] * len(generators)
        for r, g in enumerate(generators):
            if before_receive:
                before_receive(r, rounds)
            try:
                sent[r] = g.send(messages[r])
            except StopIteration as e:
                results[r] = e.value if e.value is not None else ()
        if any(result is None for result in results) and not all(result is None for result in results):
            waiting_ranks = [r for r, result in enumerate(results) if result is None]
            raise AssertionError(
                f'deadlock: after {rounds} exchanges some ranks have finished, but rank {waiting_ranks[0]} still waits'
            )
        if rounds > 3 * len(generators):
            raise AssertionError(f'livelock: {rounds} exchanges among {len(generators)} ranks, and none has finished')
    return results, rounds


def check_exchanges(rounds, expected):
    "Raise `AssertionError` unless the number of exchanges is the smallest possible"
    if rounds != expected:
        problem = f'{rounds} exchange was' if rounds == 1 else f'{rounds} exchanges were'
        raise AssertionError(
            f'{problem} made, but {expected} {"would be enough" if rounds > expected else "are needed"}'
        )


def attend(q, k, v):
    "Return (out, lse) for rows (n, d), as in the lesson"
    return ring.plain.attend(q, k, v, False, q.shape[-1] ** -0.5)


def merge(a, b):
    "Merge two pairs (out, lse), as in the lesson"
    lse = torch.logaddexp(a[1], b[1])
    return a[0] * (a[1] - lse).exp()[..., None] + b[0] * (b[1] - lse).exp()[..., None], lse


def gradients(q, k, v, dout, out, lse):
    "Return the contribution of these keys to dq, and their dk and dv, as in the lesson"
    return ring.plain.gradients(dout, q, k, v, out, lse, False, q.shape[-1] ** -0.5)


def _make_recording_attend(parts, ranks_seen):
    "Return `attend`, which appends to `ranks_seen` the rank whose keys it gets, or None"

    @wraps(attend)
    def recording_attend(q, k, v):
        result = attend(q, k, v)
        ranks_seen.append(next((r for r, x in enumerate(parts) if torch.equal(x, k)), None))
        return result

    return recording_attend


def _make_checking_gradients(rows_of_rank, r):
    "Return `gradients` for rank `r`, which raises `AssertionError` for the rows of another rank"

    @wraps(gradients)
    def checking_gradients(q, *arguments):
        for rank, rows in enumerate(rows_of_rank):
            if rank != r and torch.equal(rows, q):
                raise AssertionError(
                    f'rank {r} of {len(rows_of_rank)} computes with rows of rank {rank}: keep `q`, and pass the keys '
                    'on with their gradients'
                )
        return gradients(q, *arguments)

    return checking_gradients


def _random(rng, *shape):
    return torch.tensor(rng.normal(0, 1.5, shape))


@problem(
    'ring_attention.ring',
    cases=[dict(ranks=ranks, n=n, d=d) for ranks, n, d in ((2, 3, 2), (3, 4, 4), (4, 2, 8), (5, 3, 2))],
    hints=[
        'One `attend` for your own keys; then `ranks - 1` times: exchange, `attend`, `merge`.',
        '`kv = yield kv`: send next time what you received. Otherwise every rank gets the keys of its '
        'left neighbour again and again.',
        '`merge` takes and returns pairs `(out, lse)`. Return the first of the pair, once, at the end.',
    ],
)
def _(fn, rng, ranks, n, d):
    q, k, v = (_random(rng, ranks, n, d) for _ in range(3))
    ranks_seen = [[] for _ in range(ranks)]
    generators = [
        fn(r, ranks, q[r], (k[r], v[r]), _make_recording_attend(k, ranks_seen[r]), merge) for r in range(ranks)
    ]

    def before_receive(r, rounds):
        num_waiting_parts = rounds + 1 - len(ranks_seen[r])  # its own part and those that have arrived
        if num_waiting_parts > 2:
            raise AssertionError(
                f'rank {r} of {ranks} keeps {num_waiting_parts} parts of the keys: '
                'attend to each part before the next one arrives'
            )

    expected, _ = ring.plain.attend(*(x.reshape(1, 1, -1, d) for x in (q, k, v)), False, d**-0.5)
    results, rounds = lockstep(generators, before_receive)
    for r, result in enumerate(results):
        if isinstance(result, tuple):
            description = (
                f'{len(result)} values; return only `out`' if result else 'nothing; `return` its `out` at the end'
            )
            raise AssertionError(f'rank {r} of {ranks} returned {description}')
        if None in ranks_seen[r]:
            raise AssertionError(
                f'rank {r} of {ranks} gave `attend` keys that are not those of one rank: attend to each part '
                'separately, and merge the results'
            )
        if sorted(map(str, ranks_seen[r])) != [str(rank) for rank in range(ranks)]:
            raise AssertionError(
                f'rank {r} of {ranks} attended to the keys of ranks {ranks_seen[r]}: attend to each once'
            )
        try:
            check(result, expected.view(ranks, n, d)[r], rtol=1e-9, atol=1e-9)
        except AssertionError as e:
            raise AssertionError(f'rank {r} of {ranks} had the right keys, but: {e}') from None
    check_exchanges(rounds, ranks - 1)


def _are_close(a, b):
    "Return whether two tensors differ only by rounding"
    return isinstance(a, torch.Tensor) and a.shape == b.shape and torch.allclose(a, b, rtol=1e-9, atol=1e-9)


@problem(
    'ring_attention.home',
    cases=[dict(ranks=ranks, n=n, d=d) for ranks, n, d in ((2, 3, 2), (3, 4, 4), (4, 2, 8))],
    hints=[
        'Pass on `(k, v, dk, dv)`, where the last two start as zeros. Every rank adds its gradients to them before '
        'it passes all four on.',
        'After `ranks - 1` exchanges the sums are complete, but each rank has the gradients of the next one: exchange '
        'once more.',
        '`lse`, `out` and `dout` belong to the rank\'s own rows and never change. `dq` stays, and accumulates.',
    ],
)
def _(fn, rng, ranks, n, d):
    q, k, v, dout = (_random(rng, ranks, n, d) for _ in range(4))
    full_sequence = [x.reshape(1, 1, -1, d) for x in (q, k, v)]
    out, lse = ring.plain.attend(*full_sequence, False, d**-0.5)
    expected_results = ring.plain.gradients(dout.reshape(1, 1, -1, d), *full_sequence, out, lse, False, d**-0.5)
    out = out.view(ranks, n, d)
    lse = lse.view(ranks, n)
    results, rounds = lockstep(
        [fn(r, ranks, q[r], k[r], v[r], dout[r], out[r], lse[r], _make_checking_gradients(q, r)) for r in range(ranks)]
    )
    for r, result in enumerate(results):
        if not isinstance(result, (tuple, list)) or len(result) != 3:
            description = f'{len(result)} values' if isinstance(result, (tuple, list)) else type(result).__name__
            raise AssertionError(f'return (dq, dk, dv); got {description}')
        for name, actual, expected in zip(('dq', 'dk', 'dv'), result, expected_results):
            expected = expected.view(ranks, n, d)
            try:
                check(actual, expected[r], rtol=1e-9, atol=1e-9)
            except AssertionError as e:
                owners = (rank for rank in range(ranks) if name != 'dq' and _are_close(actual, expected[rank]))
                reason = next(
                    (
                        f'it belongs to the keys of rank {rank}: one more exchange sends it to that rank'
                        for rank in owners
                    ),
                    e,
                )
                raise AssertionError(f'{name} of rank {r} of {ranks}: {reason}') from None
    check_exchanges(rounds, ranks)
