"""Test cases for the lesson's exercises. Reading this file spoils them."""

import re
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch.autograd.gradcheck import GradcheckError, gradcheck

from ... import tile
from .triton import launch, count_reads
from ..grading import normal, problem
from ...utils import cdiv, check

__all__ = ['count_passes', 'chunks_of']


def random_tensor(rng, *shape):
    "Make a float32 tensor of normal random values"
    return torch.tensor(normal(rng, *shape))


def nan_tensor(*shape):
    "Make a tensor of NaNs, which shows the elements that are never written"
    return torch.full(shape, torch.nan)


@contextmanager
def explain_falling_scores(
    score_drop,  # from each part to the next
    part,  # the noun for a part: 'tile', 'block' or 'page'
):
    "Explain an `AssertionError` in the `with` block if the scores fall from part to part"
    try:
        yield
    except AssertionError as e:
        if not score_drop:
            raise
        cause = f'the scores of each {part} are {score_drop} lower than those of the previous {part}'
        reason = f'{cause}: keep the running maximum'
        raise AssertionError(f'{e}\n  {reason}') from None


def count_passes(ops, returned):
    "Return the number of passes over memory: (operator by operator, fused)"
    inputs, produced = set(), set()
    for reads, writes in ops:
        inputs |= set(reads) - produced
        produced |= {writes}
    return sum(len(set(reads)) + 1 for reads, _ in ops), len(inputs) + len(produced & set(returned))


def in_place_note(ops):
    "Return a note on the first tensor that is read and then written; '' if there is none"
    tensors_read = set()
    for reads, writes in ops:
        tensors_read |= set(reads)
        if writes in tensors_read:
            return f'; {writes} is written in place: it existed before and is read from memory first'
    return ''


GELU = (
    (('x',), 'a'), (('a', 'x'), 'b'), (('b', 'x'), 'c'), (('x', 'c'), 'd'), (('d',), 'e'), (('e',), 'f'),
    (('f',), 'g'), (('x',), 'h'), (('h', 'g'), 'y'),
)  # fmt: skip


@problem(
    'fusion.passes',
    cases=[
        dict(ops=list(ops), wanted=wanted)
        for ops, wanted in (
            (((('x',), 'y'),), ('y',)),
            (((('a', 'b'), 'c'),), ('c',)),
            (((('x', 'x'), 'y'),), ('y',)),
            (((('x', 'r'), 'h'), (('h',), 'y')), ('h', 'y')),
            (((('x', 'r'), 'h'), (('h',), 'y')), ('y',)),
            (GELU, ('y',)),
            (((('x',), 'u'), (('u', 'g'), 'v'), (('v', 'x'), 'y')), ('y', 'x')),
            (((('x',), 'u'), (('x',), 'v')), ('v',)),
            (((('m', 'g'), 'm'), (('p', 'm'), 'p')), ('m', 'p')),  # in place
        )
    ],
    hints=[
        'One after the other: each operator reads each of its tensors once, and writes one.',
        'Fused: a tensor that no operator has produced is read from memory; a tensor that is produced and returned '
        'is written there.',
        'Go through `ops` with a set `produced` of the tensors produced so far. `set(reads) - produced` is read '
        'from memory.',
    ],
)
def _(fn, rng, ops, wanted):
    result = fn(list(ops), wanted)
    expected_results = count_passes(ops, wanted)
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise AssertionError(f'return two values, (one after the other, fused); got {result!r}')
    for name, actual, expected in zip(('one after the other', 'fused'), result, expected_results):
        if actual != expected:
            raise AssertionError(f'{name}: got {actual} passes; expected {expected}{in_place_note(ops)}')


@problem(
    'fusion.swiglu',
    cases=[dict(n=n, scale=scale) for n, scale in ((1, 1), (63, 1), (64, 1), (65, 1), (200, 1), (100, 200))],
    hints=[
        'Begin as in `gelu_k`: `i` is `tl.program_id(0)*BLOCK + tl.arange(0, BLOCK)`, and each load and store has '
        'its mask.',
        'Load `a` once: `v = tl.load(a + i, mask=i < n)`, and `v*tl.sigmoid(v)` is the first half.',
        '`@triton.jit` above `def swiglu_k(a, b, out, n, BLOCK: tl.constexpr)`, inside your function; return it.',
    ],
)
def _(fn, rng, n, scale):
    a = scale * random_tensor(rng, n)
    b = random_tensor(rng, n)
    out = nan_tensor(n)
    launch(fn, cdiv(n, 64), a, b, out, n, BLOCK=64)
    check(out, F.silu(a) * b, rtol=1e-5, atol=1e-6)


def gated_function(answer):
    "Return `silu(a)*b` as a differentiable function whose gradients the kernel of `answer` computes"

    class Gated(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return F.silu(a) * b

        @staticmethod
        def backward(ctx, dout):
            a, b = ctx.saved_tensors
            da, db = torch.full_like(a, torch.nan), torch.full_like(b, torch.nan)
            launch(answer, cdiv(a.numel(), 16), a, b, dout.contiguous(), da, db, a.numel(), BLOCK=16)
            return da, db

    return Gated.apply


@problem(
    'fusion.gradient',
    cases=[dict(n=n) for n in (1, 5, 16, 17, 20)],
    hints=[
        'With `s = sigmoid(a)`: `out = a*s*b`. The gradient of `b` is easy: `dout*a*s`.',
        'The derivative of `a*s` is `s + a*(derivative part s)`, and the derivative of the sigmoid is `s*(1 - s)`.',
        '`da = dout*b*(s + a*s*(1 - s))`. Both need `a`: load it once.',
    ],
)
def _(fn, rng, n):
    a, b = (torch.tensor(rng.normal(0, 2, n), requires_grad=True) for _ in range(2))
    try:
        gradcheck(gated_function(fn), (a, b))
    except GradcheckError as e:
        match = re.search('respect to input ([01])', str(e))
        input_name = 'ab'[int(match[1])] if match else 'a or b'
        raise AssertionError(
            f'n = {n}: the gradient of {input_name} differs from the numerical gradient (finite differences) of '
            'gradcheck'
        ) from None


@problem(
    'fusion.layer_norm',
    cases=[
        dict(h=h, w=w, mean=mean, eps=eps)
        for h, w, mean, eps in (
            (3, 64, 0, 1e-5),
            (1, 1, 0, 1e-5),
            (5, 33, 2, 1e-5),
            (4, 127, -3, 1e-5),
            (2, 100, 1e4, 1e-5),
            (3, 40, 1, 0.5),
        )
    ],
    hints=[
        'The mean is `tl.sum(v)/n`, with `other=0` for the lanes past the row. Then the distances, `v - mean`.',
        'What are the distances past the end of the row? `0 - mean`! Mask them: `tl.where(c < n, ..., 0)`.',
        'The mean of the squares minus the square of the mean fails for a mean of 10,000 (lesson 13): square the '
        'distances. `s = 1/tl.sqrt(tl.sum(d*d)/n + eps)`.',
    ],
)
def _(fn, rng, h, w, mean, eps):
    x = random_tensor(rng, h, w) + mean
    weight = random_tensor(rng, w)
    bias = random_tensor(rng, w)
    out = nan_tensor(h, w)
    BLOCK = 1 << (w - 1).bit_length()
    launch(fn, h, x, weight, bias, out, w, eps, BLOCK=BLOCK)
    expected = F.layer_norm(x.double(), (w,), weight.double(), bias.double(), eps)
    # a mean near 10,000 is known to half of its last bit, .0005, and the distances are about 1
    check(out, expected.float(), rtol=1e-4, atol=1e-4 if mean < 1000 else 5e-3)


@problem(
    'fusion.loss',
    cases=[
        dict(h=h, w=w, scale=scale, shift=shift, score_drop=score_drop)
        for h, w, scale, shift, score_drop in (
            (2, 32, 1, 0, 0),
            (1, 1, 1, 0, 0),
            (3, 100, 3, 0, 0),
            (4, 33, 1, 0, 0),
            (2, 150, 1000, 0, 0),
            (3, 70, 1, -150, 0),  # exp is 0 for all of them
            (2, 90, 1, 0, 200),
        )
    ],
    hints=[
        'Keep two values in the loop: `top`, the largest logit so far, and `total`, the sum of `exp(v - top)`.',
        'If a block has a larger one, `total` must be rescaled: it becomes `total*tl.exp(top - new)`.',
        'The loop is `for first in range(0, w, BLOCK)`, with `other=-float("inf")`. At the end '
        '`top + tl.log(total)`, minus the logit of the answer, which is loaded with `mask=at >= 0`.',
    ],
)
def _(fn, rng, h, w, scale, shift, score_drop):
    logits = scale * random_tensor(rng, h, w) + shift
    loss = nan_tensor(h)
    logits[0] = logits[0].sort().values  # every block has a larger logit than the block before
    logits -= score_drop * (torch.arange(w) // 32)  # each block is lower than the block before
    answer = torch.tensor(rng.integers(0, w, h))
    answer[0] = 0  # not a padding index
    if h > 1:
        answer[rng.integers(1, h)] = -100
    with tile.trace() as t:
        launch(fn, h, logits, answer, loss, w, BLOCK=32)
    with explain_falling_scores(score_drop, 'block'):
        check(loss, F.cross_entropy(logits.double(), answer, reduction='none').float(), rtol=1e-5, atol=1e-5)
    if (num_reads := count_reads(t, 'logits')) > h * w + h:
        raise AssertionError(
            f'{num_reads} logits are read; expected at most {h * w + h}, the {h}x{w} logits and one class index per '
            'row: make one pass'
        )


def chunks_of(sizes, chunk):
    "Return a row per program: the index of its tensor, and its first element"
    rows = [[t, first] for t, n in enumerate(sizes) for first in range(0, n, chunk)]
    return torch.tensor(rows)


@problem(
    'fusion.momentum',
    cases=[
        dict(sizes=list(sizes), CHUNK=CHUNK, BLOCK=BLOCK)
        for sizes, CHUNK, BLOCK in (
            ((16,), 16, 16),
            ((5, 40, 3), 32, 16),
            ((64, 65, 63), 64, 32),
            ((100, 1, 48), 24, 16),
            ((70, 33), 20, 32),
        )
    ],
    hints=[
        'Begin with `adamw_many_k`: the tables are read in the same way, and there are four columns now.',
        'Where does a chunk end? At the end of its tensor, or where the next chunk begins, whichever is first: '
        '`tl.minimum(n, start + CHUNK)`.',
        'The new `m` is `beta*m + g`, stored, and `p` changes by `-lr` times the *new* `m`.',
    ],
)
def _(fn, rng, sizes, CHUNK, BLOCK):
    chunks = chunks_of(sizes, CHUNK)
    p, g, m = ([random_tensor(rng, n) for n in sizes] for _ in range(3))
    initial_gradients = [grad.clone() for grad in g]
    lr, beta = (float(value) for value in rng.uniform(0.1, 0.9, 2))
    new = [beta * m_.double() + g_.double() for m_, g_ in zip(m, g)]
    expected_results = [p_.double() - lr * m_ for p_, m_ in zip(p, new)]
    table = torch.tensor([[*(tensor.data_ptr() for tensor in three), len(three[0])] for three in zip(p, g, m)])
    launch(fn, len(chunks), table, chunks, lr, beta, CHUNK=CHUNK, BLOCK=BLOCK)
    for i, n in enumerate(sizes):
        for name, result, expected in (
            ('m', m[i], new[i]),
            ('p', p[i], expected_results[i]),
            ('g', g[i], initial_gradients[i]),
        ):
            try:
                check(result, expected.float(), rtol=1e-5, atol=1e-6)
            except AssertionError as e:
                raise AssertionError(f'{name} of tensor {i}, with {n} elements, after one step: {e}') from None
