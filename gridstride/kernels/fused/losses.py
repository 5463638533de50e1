"""`cross_entropy` of logits, and `linear_cross_entropy`, which materializes only some rows of logits at a time.

A row of logits is long: 128,256 bfloat16 values take 250 KiB, more than one block's shared memory. On Hopper a cluster
of blocks holds the row in distributed shared memory, so the logits are read once and the gradient is written once.
Elsewhere one pass computes the losses and another the gradient.
"""

from functools import lru_cache
from typing import NamedTuple

import torch

from .sources import SIZES, sums_of, whole
from ..operators import untraced
from ..ladder.launches import Long
from ..ladder.rung import KernelLaunch, this_device
from ..tool import LOAD, check_fits, check_tensor, launch, pow2_clamp, type_of, vector
from ...utils import cdiv

# Typically a block of a cluster holds about 64 KiB, so that three share an SM: while one waits for its logits, another
# writes. Very long rows leave fewer blocks per SM.
PARTS = dict(bytes=2**16, threads=512, ahead=2, together=3)  # per block; `together`: blocks per SM
_MAX_PART, _MAX_BLOCKS = 200 * 2**10, 8  # at most: bytes per block; blocks per cluster
_AHEAD = 4  # loads in flight per thread
_SHARE = 2**15  # bytes of a row per block of the gradient kernel
_ONE_BLOCK = 1024  # threads of the single block that reduces all targets or losses
_BUFFER = 2**29  # bytes of the logits buffer of `linear_cross_entropy`
_CLUSTER = 'address', 'cluster_sync', 'cluster_arrive', 'cluster_wait', 'of_block'
REDUCTIONS = 'mean', 'sum', 'none'


# Launches
class LossProblem(NamedTuple):
    "The sizes and type of one cross entropy"

    dtype: str
    rows: int
    width: int  # logits per row
    v: int  # elements per vector load
    ignored: int  # target value to skip


def _threads(packs, ahead=_AHEAD, most=512):
    "Threads per block for this many packs"
    return pow2_clamp(cdiv(packs, ahead), 32, most)


@lru_cache(1024)
def count_call(case, mean) -> KernelLaunch:
    "Computes `scale`, the factor applied to the loss sum"
    src = whole(('cross_entropy_mean',), case.dtype, (('THREADS', _ONE_BLOCK),))
    scalars = case.rows, case.width, int(mean), Long(case.ignored)
    return KernelLaunch(src, 'count_targets', ('target', 'scale'), scalars, (1,), (_ONE_BLOCK,))


@lru_cache(1024)
def add_call(case) -> KernelLaunch:
    "Adds up the losses"
    src = whole(('cross_entropy_mean',), case.dtype, (('THREADS', _ONE_BLOCK),))
    return KernelLaunch(src, 'add_losses', ('loss', 'scale', 'out'), (case.rows,), (1,), (_ONE_BLOCK,))


def _rows_source(case, threads):
    return whole(('cross_entropy',), case.dtype, (('V', case.v), ('THREADS', threads), ('AHEAD', _AHEAD)))


@lru_cache(1024)
def losses_call(case) -> KernelLaunch:
    "Computes the losses and saves each row's max and sum for the gradient"
    threads = _threads(case.width // case.v)
    arrays, scalars = ('x', 'target', 'loss', 'kept'), (case.width, Long(case.ignored))
    return KernelLaunch(_rows_source(case, threads), 'losses', arrays, scalars, (case.rows,), (threads,))


@lru_cache(1024)
def gradients_call(case, each) -> KernelLaunch:
    "Computes the gradient from the saved row statistics; `each`: is the upstream gradient one value per row?"
    packs = max(1, case.width // case.v)
    share = min(packs, _SHARE // (case.v * SIZES[case.dtype]))
    blocks, threads = cdiv(packs, share), _threads(share)
    # A row is split over `blocks` blocks, so the grid is rows * blocks.
    scalars = case.width, share, blocks, int(each), Long(case.ignored)
    arrays = 'x', 'target', 'kept', 'upstream', 'scale', 'gradient'
    return KernelLaunch(_rows_source(case, threads), 'gradients', arrays, scalars, (case.rows * blocks,), (threads,))


@lru_cache(1024)
def once_call(case, on):  # a `KernelLaunch`, or None if unsupported
    "Computes losses and gradient together, on a Hopper GPU"
    size, packs = SIZES[case.dtype], max(1, case.width // case.v)
    # Rounds the count of 64 KiB parts to an integer, and that up to a power of two: several blocks of 36 to 96 KiB, or
    # one for a shorter row
    blocks = pow2_clamp(2 * case.width * size // PARTS['bytes'] - 1, 1, _MAX_BLOCKS)
    share = cdiv(packs, blocks)
    shared = share * case.v * size
    # In float16, small gradients would underflow before the upstream gradient scales them.
    if not on.hopper or case.dtype not in ('float32', 'bfloat16') or shared > _MAX_PART:
        return None
    threads = _threads(share, PARTS['ahead'], PARTS['threads'])
    constants = dict(V=case.v, THREADS=threads, AHEAD=PARTS['ahead'], MIN_BLOCKS=PARTS['together'], CLUSTER=blocks)
    src = whole(('cross_entropy', 'cross_entropy_single_pass'), case.dtype, tuple(constants.items()), _CLUSTER)
    arrays, scalars = ('x', 'target', 'scale', 'loss', 'gradient'), (case.width, share, Long(case.ignored))
    grid, cluster = (case.rows, blocks), (1, blocks, 1)
    return KernelLaunch(src, 'loss_and_gradient', arrays, scalars, grid, (threads,), shared, cluster=cluster)


@lru_cache(1024)
def multiply_call(dtype, size, v, on) -> KernelLaunch:
    "The launch that multiplies `size` elements by a factor, unless that is 1"
    src = whole(('multiply',), dtype, (('V', v), ('THREADS', 512)))
    blocks = max(1, min(4 * on.sms, cdiv(size, 512 * v)))
    return KernelLaunch(src, 'multiply', ('x', 'factor'), (Long(size),), (blocks,), (512,))


# Argument checks
def _check_targets(tool, target, x, rows):
    if not hasattr(target, 'data_ptr'):
        raise TypeError(f'{tool}: target must be an int64 torch tensor; got a {type(target).__name__}')
    if target.is_floating_point():
        what = 'must have one class index per row (int64), not probabilities'
        raise TypeError(f'{tool}: target {what}; got {type_of(target)}')
    check_tensor(tool, target, ['int64'], 'target')
    if target.shape != (rows,):
        what = f'must have shape {(rows,)}, one class per row'
        raise ValueError(f'{tool}: target {what}; got {tuple(target.shape)}')
    if target.device != x.device:
        raise ValueError(f'{tool}: target must be on {x.device}; got {target.device}: move it with .to(...)')


def _check_options(tool, reduction, reductions, ignore_index):
    if reduction not in reductions:
        raise ValueError(f'{tool}: reduction must be one of {", ".join(map(repr, reductions))}; got {reduction!r}')
    if isinstance(ignore_index, bool) or not isinstance(ignore_index, int):
        raise TypeError(f'{tool}: ignore_index must be an integer; got {ignore_index!r}')


def _check_rows(tool, x, name, columns):
    check_tensor(tool, x, SIZES, name)
    if x.dim() != 2:
        what = f'must have shape (rows, {columns})'
        raise ValueError(f'{tool}: {name} {what}; got {tuple(x.shape)}: use .view(-1, {columns})')
    if not 0 < x.shape[1] < 2**31 or x.shape[0] >= 2**24:
        what = 'must have at most 2^24 - 1 rows, of 1 to 2^31 - 1 elements'
        raise ValueError(f'{tool}: {name} {what}; got the shape {tuple(x.shape)}')


def _check_in_place(tool, x):
    if x.requires_grad and x.is_leaf and torch.is_grad_enabled():
        raise ValueError(
            f'{tool}: in_place overwrites the logits with their gradient, but they are a leaf tensor whose values may '
            'still be needed: pass a computed tensor, or omit in_place'
        )


# Computation
def _problem(x, ignored, in_place):
    """Describe the problem. The kernels peel the head of each row, so that vector loads of the logits are aligned. A
    gradient in new memory is aligned like the logits only if they begin at a multiple of 16 bytes; else `v` is 1"""
    rows, width = x.shape
    v = LOAD // x.element_size() if in_place or x.data_ptr() % LOAD == 0 else 1
    return LossProblem(type_of(x), rows, width, v, ignored)


def _in_sums(x, *shape):
    "An empty tensor of the accumulator dtype"
    return torch.empty(shape, dtype=getattr(torch, sums_of(type_of(x))), device=x.device)


def _count(x, target, case, reduction):
    "Compute the scale of the loss sum on the device"
    scale = _in_sums(x)
    launch([count_call(case, reduction == 'mean')], target, target=target, scale=scale)
    return scale


def _losses(x, target, case, loss):
    "Compute the losses; return each row's max and sum"
    kept = _in_sums(x, case.rows, 2)
    launch([losses_call(case)], x, target=target, loss=loss, kept=kept)
    return kept


def _once(x, target, case, scale, loss, to):
    "Compute the losses, and the gradient into `to`"
    launch([once_call(case, this_device())], x, target=target, scale=scale, loss=loss, gradient=to)


def _second(x, target, case, kept, upstream, scale, to):
    "Compute the gradient from the saved row statistics, into `to`"
    arrays = dict(target=target, kept=kept, upstream=upstream, scale=scale, gradient=to)
    launch([gradients_call(case, upstream.dim() == 1)], x, **arrays)


def _add(loss, scale, case):
    "The sum of the losses, scaled"
    out = torch.empty_like(scale)
    launch([add_call(case)], loss, loss=loss, scale=scale, out=out)
    return out


def _multiply(x, factor):
    "`x *= factor` on the device, without a host sync"
    if x is not None and x.numel():
        v = vector(x.data_ptr(), x.element_size(), 1, x.numel())
        launch([multiply_call(type_of(x), x.numel(), v, this_device())], x, factor=factor)


def _gone(tool):
    return RuntimeError(
        f'{tool}: the gradient was computed in the forward pass and already used: call backward only once'
    )


class _CrossEntropy(torch.autograd.Function):
    "Saves the gradient if the forward pass computed it, else the row statistics"

    @staticmethod
    def forward(ctx, x, target, ignored, reduction, in_place):
        ctx.case = case = _problem(x, ignored, in_place)
        loss, ctx.scale = _in_sums(x, case.rows), _count(x, target, case, reduction)
        ctx.in_place, ctx.gradient, ctx.kept, ctx.taken = in_place, None, None, False
        if reduction != 'none' and once_call(case, this_device()):
            ctx.gradient = x.detach() if in_place else torch.empty_like(x)
            _once(x, target, case, ctx.scale, loss, ctx.gradient)
        else:
            ctx.kept = _losses(x, target, case, loss)
        if in_place and ctx.kept is None:
            # Makes autograd raise if other code saved the logits for its backward pass
            torch.autograd.graph.increment_version(x)
            ctx.save_for_backward(target)
        else:
            ctx.save_for_backward(target, x)
        return loss if reduction == 'none' else _add(loss, ctx.scale, case)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, upstream):
        upstream, gradient = upstream.to(ctx.scale.dtype).contiguous(), ctx.gradient
        if ctx.taken and ctx.in_place:
            raise _gone('cross_entropy with in_place')
        if gradient is not None:
            _multiply(gradient, upstream)
        else:
            gradient = _CrossEntropy.second(ctx, upstream)
        ctx.gradient, ctx.taken = None, True
        return gradient, None, None, None, None

    @staticmethod
    def second(ctx, upstream):
        "Compute the gradient in a second pass"
        target, x = ctx.saved_tensors
        if ctx.kept is None:  # the fused gradient has already been returned: recompute
            ctx.kept = _losses(x, target, ctx.case, _in_sums(x, ctx.case.rows))
        to = x.detach() if ctx.in_place else torch.empty_like(x)
        _second(x, target, ctx.case, ctx.kept, upstream, ctx.scale, to)
        if ctx.in_place:
            torch.autograd.graph.increment_version(x)
        return to


@untraced
def cross_entropy(
    logits,  # a contiguous tensor (rows, classes) of float32, bfloat16, float16 or float64
    target,  # an int64 tensor (rows,): the class of each row
    ignore_index=-100,  # rows with this target are ignored
    reduction='mean',  # mean over the rows not ignored; 'sum', or 'none': one loss per row
    in_place=False,  # may the gradient overwrite the logits?
):  # the loss, float32 (of float64: float64)
    """Compute logsumexp(logits) - logits[target] per row, as `F.cross_entropy` does, in float32; differentiable once.

        cross_entropy(logits, target, in_place=True)

    On a Hopper GPU logits of float32 and bfloat16 are read once, and their gradient is computed with the loss;
    elsewhere, for float16, and for `reduction='none'`, the gradient is a second pass. With `in_place` the gradient
    overwrites the logits, which halves memory: after the call (or the second pass) their values are lost. Autograd
    raises for operations that have saved them, and `in_place` raises for a leaf. A gradient that was computed with the
    loss is multiplied by the upstream gradient, and rounded again unless the factor is 1. An out-of-range target
    triggers a device-side assertion. Raises TypeError or ValueError for other unsupported operands."""
    _check_rows('cross_entropy', logits, 'logits', 'classes')
    _check_targets('cross_entropy', target, logits, len(logits))
    _check_options('cross_entropy', reduction, REDUCTIONS, ignore_index)
    if in_place:
        _check_in_place('cross_entropy', logits)
    if not len(logits):
        return torch.nn.functional.cross_entropy(logits, target, reduction=reduction).to(_in_sums(logits).dtype)
    if logits.requires_grad and torch.is_grad_enabled():
        return _CrossEntropy.apply(logits, target, ignore_index, reduction, in_place)
    case, logits = _problem(logits, ignore_index, True), logits.detach()
    scale, loss = _count(logits, target, case, reduction), _in_sums(logits, case.rows)
    _losses(logits, target, case, loss)
    return loss if reduction == 'none' else _add(loss, scale, case)


# The logits are a matrix product, and so are both gradients. All three can be computed chunk by chunk, so the buffer
# bounds the number of logits in memory.
class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, target, ignored, reduction, at_once):
        dx, dw = (torch.empty_like(o) if need else None for o, need in zip((x, weight), ctx.needs_input_grad))
        logits, loss = x.new_empty(min(at_once, len(x)), len(weight)), _in_sums(x, len(x))
        full_problem = _problem(logits, ignored, True)._replace(rows=len(x))
        ctx.scale = _count(x, target, full_problem, reduction)
        one = torch.ones_like(ctx.scale)
        # float16 gradients would underflow: apply the scale last
        ctx.late = x.dtype is torch.float16
        for i in range(0, len(x), at_once):
            rows = slice(i, i + at_once)
            part = torch.mm(x[rows], weight.t(), out=logits[: len(x[rows])])
            chunk = part, target[rows], full_problem._replace(rows=len(part))
            if dx is None and dw is None:
                _losses(*chunk, loss[rows])
                continue
            # With scale 1 for float16, the real scale arrives in `backward`.
            _loss_to_gradient(*chunk, one if ctx.late else ctx.scale, loss[rows], one)
            if dx is not None:
                torch.mm(part, weight, out=dx[rows])
            if dw is not None:
                torch.addmm(dw, part.t(), x[rows], beta=float(i > 0), out=dw)
        ctx.made = dx, dw
        return _add(loss, ctx.scale, full_problem)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, upstream):
        if ctx.made is None:
            raise _gone('linear_cross_entropy')
        made, ctx.made = ctx.made, None
        factor = upstream.to(ctx.scale.dtype)
        for o in made:
            _multiply(o, factor * ctx.scale if ctx.late else factor)
        return *made, None, None, None, None


def _loss_to_gradient(x, target, case, scale, loss, one):
    "Compute the losses and overwrite the logits with their gradient"
    if once_call(case, this_device()):
        return _once(x, target, case, scale, loss, x)
    _second(x, target, case, _losses(x, target, case, loss), one, scale, x)


@untraced
def linear_cross_entropy(
    x,  # a contiguous tensor (rows, features)
    weight,  # a contiguous tensor (classes, features) of the type of `x`
    target,  # as for `cross_entropy`
    ignore_index=-100,  # as for `cross_entropy`
    reduction='mean',  # or 'sum'
    at_once=None,  # rows of logits per chunk; None: as many as fit in 512 MiB, at least 128
):  # the loss, float32 (of float64: float64)
    """Compute `cross_entropy(x @ weight.T, target)` without all logits in memory: for `at_once` rows at a time torch
    computes the logits, `cross_entropy` their gradient in place, and torch the gradients of `x` and `weight`;
    differentiable once.

        linear_cross_entropy(x, model.head.weight, target)

    The weight gradient accumulates in the weight's dtype, with one rounding per chunk, as with gradient accumulation
    over batches. Raises TypeError or ValueError for unsupported operands."""
    tool = 'linear_cross_entropy'
    _check_rows(tool, x, 'x', 'features')
    classes = weight.shape[0] if hasattr(weight, 'dim') and weight.dim() else 0
    check_fits(tool, 'weight', weight, x, (classes, x.shape[1]))
    _check_targets(tool, target, x, len(x))
    _check_options(tool, reduction, REDUCTIONS[:2], ignore_index)
    if not len(x) or not len(weight):
        raise ValueError(f'{tool}: needs at least one row and one class; got {len(x)} rows and {len(weight)} classes')
    if at_once is None:
        at_once = pow2_clamp(_BUFFER // (len(weight) * x.element_size()), 128, 2**20)
    if isinstance(at_once, bool) or not isinstance(at_once, int) or at_once < 1:
        raise ValueError(f'{tool}: at_once must be a positive integer; got {at_once!r}')
    if not torch.is_grad_enabled():
        x, weight = x.detach(), weight.detach()
    return _LinearCrossEntropy.apply(x, weight, target, ignore_index, reduction, at_once)
