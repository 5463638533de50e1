"""`cross_entropy`, and `linear_cross_entropy`, which also computes the logits, in chunks of rows.

A row of logits is long: 128,256 bfloat16 values take 250 KiB, more than the shared memory of a block. On Hopper the
blocks of a cluster keep the row in distributed shared memory, so the logits are read once and the gradient is written
once. On other GPUs one pass computes the losses and a second one the gradient.
"""

from functools import lru_cache
from typing import NamedTuple

import torch

from .sources import DTYPE_BYTES, accumulator_type, kernel_source
from ..launch_replay import (
    ARGUMENTS,
    differentiable_once,
    differentiate_eagerly,
    make_apply,
    needs_autograd,
    replay_entry_point,
    replayable,
    torch_call,
)
from ..operators import untraced
from ..ladder.launches import Int64
from ..ladder.rung import KernelLaunch, current_device_properties
from ..common import (
    MAX_LOAD_BYTES,
    check_matches,
    check_tensor,
    launch,
    pow2_clamp,
    dtype_name,
    is_host_bound,
    to_contiguous,
    vector_width,
)
from ...utils import cdiv

# The single-pass kernel: a block of a cluster typically keeps about 64 KiB of a row, so that three blocks fit on an SM:
# while one waits for its logits, another stores its gradients. With very long rows fewer blocks fit.
SINGLE_PASS = dict(block_bytes=2**16, threads=512, loads_in_flight=2, blocks_per_sm=3)
_MAX_SMEM_BYTES, _MAX_CLUSTER_SIZE = 200 * 2**10, 8  # shared memory per block; blocks per cluster
_LOADS_IN_FLIGHT = 4  # per thread, in the two-pass kernels
_ROW_BYTES_PER_BLOCK = 2**15  # bytes of a row per block of the gradient kernel
_REDUCE_THREADS = 1024  # threads of the single block that reduces all targets or losses
_MAX_LOGITS_BYTES = 2**29  # largest logits buffer of `linear_cross_entropy`
_CLUSTER_PRIMITIVES = 'address', 'cluster_sync', 'cluster_arrive', 'cluster_wait', 'load_from_block'
REDUCTIONS = 'mean', 'sum', 'none'


# Launches
class LossProblem(NamedTuple):
    "The sizes and options of one cross entropy"

    dtype: str
    rows: int
    width: int  # logits per row
    vec_size: int  # elements per load
    ignore_index: int  # rows with this target do not contribute


def _threads_per_block(vectors, loads_in_flight=_LOADS_IN_FLIGHT, max_threads=512):
    "Choose the number of threads of a block that loads `vectors` vectors"
    return pow2_clamp(cdiv(vectors, loads_in_flight), 32, max_threads)


@lru_cache(1024)
def scale_launch(problem, is_mean) -> KernelLaunch:
    "Return the launch that computes `scale`, the factor of the sum of the losses: 1; for the mean, 1 / counted rows"
    src = kernel_source(('mean_loss',), problem.dtype, (('THREADS', _REDUCE_THREADS),))
    scalars = problem.rows, problem.width, int(is_mean), Int64(problem.ignore_index)
    return KernelLaunch(src, 'count_targets', ('target', 'scale'), scalars, (1,), (_REDUCE_THREADS,))


@lru_cache(1024)
def sum_launch(problem) -> KernelLaunch:
    "Return the launch that adds up the losses"
    src = kernel_source(('mean_loss',), problem.dtype, (('THREADS', _REDUCE_THREADS),))
    return KernelLaunch(src, 'add_losses', ('loss', 'scale', 'out'), (problem.rows,), (1,), (_REDUCE_THREADS,))


def _two_pass_source(problem, threads):
    "Return the source of the two-pass kernels, `losses` and `gradients`"
    constants = ('VEC', problem.vec_size), ('THREADS', threads), ('LOADS_IN_FLIGHT', _LOADS_IN_FLIGHT)
    return kernel_source(('cross_entropy',), problem.dtype, constants)


@lru_cache(1024)
def losses_launch(problem) -> KernelLaunch:
    "Return the launch that computes the losses, and saves the max and sum of each row for the gradient"
    threads = _threads_per_block(problem.width // problem.vec_size)
    arrays, scalars = ('x', 'target', 'loss', 'row_stats'), (problem.width, Int64(problem.ignore_index))
    return KernelLaunch(_two_pass_source(problem, threads), 'losses', arrays, scalars, (problem.rows,), (threads,))


@lru_cache(1024)
def gradients_launch(problem, is_per_row) -> KernelLaunch:
    "Return the launch that computes the gradient from row statistics; `is_per_row`: each row has an upstream gradient"
    row_vectors = max(1, problem.width // problem.vec_size)
    block_vectors = min(row_vectors, _ROW_BYTES_PER_BLOCK // (problem.vec_size * DTYPE_BYTES[problem.dtype]))
    blocks_per_row, threads = cdiv(row_vectors, block_vectors), _threads_per_block(block_vectors)
    scalars = problem.width, block_vectors, blocks_per_row, int(is_per_row), Int64(problem.ignore_index)
    arrays = 'x', 'target', 'row_stats', 'upstream', 'scale', 'grad'
    src, grid = _two_pass_source(problem, threads), (problem.rows * blocks_per_row,)
    return KernelLaunch(src, 'gradients', arrays, scalars, grid, (threads,))


@lru_cache(1024)
def single_pass_launch(problem, gpu):  # a `KernelLaunch`, or None if unsupported
    "Return the launch that computes the losses and the gradient in a single pass, on a Hopper GPU"
    element_bytes, row_vectors = DTYPE_BYTES[problem.dtype], max(1, problem.width // problem.vec_size)
    # The cluster size is row bytes / 64 KiB, rounded to the nearest integer and then up to a power of two. Each block
    # then keeps 36 to 96 KiB; a short row needs one block.
    cluster_size = 2 * problem.width * element_bytes // SINGLE_PASS['block_bytes'] - 1
    cluster_size = pow2_clamp(cluster_size, 1, _MAX_CLUSTER_SIZE)
    block_vectors = cdiv(row_vectors, cluster_size)
    smem_bytes = block_vectors * problem.vec_size * element_bytes
    # In float16, small gradients would underflow before the upstream gradient scales them.
    if not gpu.is_hopper or problem.dtype not in ('float32', 'bfloat16') or smem_bytes > _MAX_SMEM_BYTES:
        return None
    in_flight = SINGLE_PASS['loads_in_flight']
    threads = _threads_per_block(block_vectors, in_flight, SINGLE_PASS['threads'])
    constants = dict(VEC=problem.vec_size, THREADS=threads, LOADS_IN_FLIGHT=in_flight)
    constants |= dict(BLOCKS_PER_SM=SINGLE_PASS['blocks_per_sm'], CLUSTER=cluster_size)
    file_names = 'cross_entropy', 'cross_entropy_single_pass'
    src = kernel_source(file_names, problem.dtype, tuple(constants.items()), _CLUSTER_PRIMITIVES)
    arrays = 'x', 'target', 'scale', 'loss', 'grad'
    scalars = problem.width, block_vectors, Int64(problem.ignore_index)
    grid, cluster = (problem.rows, cluster_size), (1, cluster_size, 1)
    return KernelLaunch(src, 'loss_and_gradient', arrays, scalars, grid, (threads,), smem_bytes, cluster=cluster)


@lru_cache(1024)
def multiply_launch(dtype, num_elements, vec_size, gpu) -> KernelLaunch:
    "Return the launch that multiplies `num_elements` elements by a factor in device memory, unless the factor is 1"
    threads = 512
    src = kernel_source(('multiply',), dtype, (('VEC', vec_size), ('THREADS', threads)))
    blocks = max(1, min(4 * gpu.sms, cdiv(num_elements, threads * vec_size)))
    return KernelLaunch(src, 'multiply', ('x', 'factor'), (Int64(num_elements),), (blocks,), (threads,))


# Argument checks
def _check_targets(op_name, target, x, rows):
    "Raise `TypeError` or `ValueError` unless target is an int64 tensor (rows,) on the device of x"
    if not hasattr(target, 'data_ptr'):
        raise TypeError(f'{op_name}: target must be an int64 torch tensor; got a {type(target).__name__}')
    if target.is_floating_point():
        raise TypeError(f'{op_name}: target is {dtype_name(target)}; expected int64 class indices, not probabilities')
    check_tensor(op_name, target, ['int64'], 'target')
    if target.shape != (rows,):
        raise ValueError(f'{op_name}: target has shape {tuple(target.shape)}; expected {(rows,)}, one class per row')
    if target.device != x.device:
        raise ValueError(f'{op_name}: target is on {target.device}; expected {x.device}: move it with .to(...)')


def _check_options(op_name, reduction, reductions, ignore_index):
    "Raise `TypeError` or `ValueError` unless the options are valid"
    if reduction not in reductions:
        raise ValueError(f'{op_name}: reduction is {reduction!r}; expected one of {", ".join(map(repr, reductions))}')
    if isinstance(ignore_index, bool) or not isinstance(ignore_index, int):
        raise TypeError(f'{op_name}: ignore_index is {ignore_index!r}; expected an integer')


def _check_matrix(op_name, x, name, columns):
    "Raise `TypeError` or `ValueError` unless x is a matrix whose sizes the kernels support"
    check_tensor(op_name, x, DTYPE_BYTES, name)
    if x.dim() != 2:
        expected = f'(rows, {columns})'
        raise ValueError(f'{op_name}: {name} has shape {tuple(x.shape)}; expected {expected}: use .view(-1, {columns})')
    if not 0 < x.shape[1] < 2**31 or x.shape[0] >= 2**24:
        expected = 'at most 2^24 - 1 rows of 1 to 2^31 - 1 elements'
        raise ValueError(f'{op_name}: {name} has shape {tuple(x.shape)}; expected {expected}')


def _check_cross_entropy(logits, target, ignore_index, reduction):
    "Raise `TypeError` or `ValueError` unless the arguments of `cross_entropy` are valid"
    _check_matrix('cross_entropy', logits, 'logits', 'classes')
    _check_targets('cross_entropy', target, logits, len(logits))
    _check_options('cross_entropy', reduction, REDUCTIONS, ignore_index)


def _check_in_place(op_name, x):
    "Raise `ValueError` if the gradient may not overwrite the logits"
    if x.requires_grad and x.is_leaf and torch.is_grad_enabled():
        raise ValueError(
            f'{op_name}: in_place overwrites the logits, but they are a leaf tensor, whose values may still be needed: '
            'pass a computed tensor, or omit in_place'
        )


# Computation
def _loss_problem(x, ignore_index, in_place):
    """Return the `LossProblem` of these logits.

    The kernels load the unaligned elements at the start of each row one by one, so that all vector loads are aligned. A
    gradient in new memory has the same alignment as the logits only if the logits begin at a multiple of 16 bytes;
    otherwise all loads have one element."""
    rows, width = x.shape
    vec_size = MAX_LOAD_BYTES // x.element_size() if in_place or x.data_ptr() % MAX_LOAD_BYTES == 0 else 1
    return LossProblem(dtype_name(x), rows, width, vec_size, ignore_index)


def _empty_accumulator(x, *shape):
    "Return an uninitialized tensor of the accumulator dtype"
    return torch.empty(shape, dtype=getattr(torch, accumulator_type(dtype_name(x))), device=x.device)


def _compute_scale(x, target, problem, reduction):
    "Compute the factor of the sum of the losses, in device memory"
    scale = _empty_accumulator(x)
    launch([scale_launch(problem, reduction == 'mean')], target, target=target, scale=scale)
    return scale


def _run_losses(x, target, problem, loss):
    "Compute the losses; return the row statistics: the max and sum of each row"
    row_stats = _empty_accumulator(x, problem.rows, 2)
    launch([losses_launch(problem)], x, target=target, loss=loss, row_stats=row_stats)
    return row_stats


def _run_single_pass(x, target, problem, scale, loss, grad):
    "Compute the losses, and write the gradient to `grad`, in a single pass"
    launch(
        [single_pass_launch(problem, current_device_properties())], x, target=target, scale=scale, loss=loss, grad=grad
    )


def _run_gradients(x, target, problem, row_stats, upstream, scale, grad):
    "Compute the gradient from the saved row statistics, and write it to `grad`"
    arrays = dict(target=target, row_stats=row_stats, upstream=upstream, scale=scale, grad=grad)
    launch([gradients_launch(problem, upstream.dim() == 1)], x, **arrays)


def _sum_losses(loss, scale, problem):
    "Compute the sum of the losses, multiplied by the scale"
    out = torch.empty_like(scale)
    launch([sum_launch(problem)], loss, loss=loss, scale=scale, out=out)
    return out


@replayable
def _multiply_in_place(x, factor):
    "Multiply `x` by a factor in device memory, without a host synchronization"
    if x.numel():
        vec_size = vector_width(x.data_ptr(), x.element_size(), 1, x.numel())
        launch([multiply_launch(dtype_name(x), x.numel(), vec_size, current_device_properties())], x, factor=factor)
    return ()


def _already_used_error(op_name):
    "Return the error of a second backward pass"
    return RuntimeError(
        f'{op_name}: the forward pass computed the gradient, and a backward pass has used it: call backward only once'
    )


@replayable
def _run_forward(
    x,
    target,
    ignore_index,
    reduction,
    in_place,
    computes_gradient,  # whether one kernel computes the losses and the gradient, which overwrites x if `in_place`
):  # the loss, the scale; and the gradient, unless it is in x, or the row statistics
    "Compute the loss, and the state that the backward pass needs"
    _check_cross_entropy(x, target, ignore_index, reduction)
    problem = _loss_problem(x, ignore_index, in_place)
    scale, loss = _compute_scale(x, target, problem, reduction), _empty_accumulator(x, problem.rows)
    if computes_gradient:
        saved = [] if in_place else [torch.empty_like(x)]
        _run_single_pass(x, target, problem, scale, loss, x if in_place else saved[0])
    else:
        saved = [_run_losses(x, target, problem, loss)]
    return loss if reduction == 'none' else _sum_losses(loss, scale, problem), scale, *saved


@replayable
def _run_loss(x, target, ignore_index, reduction):
    "Compute the loss alone; all intermediate results share one workspace"
    return _run_forward(x, target, ignore_index, reduction, True, False)[0]


@lru_cache(1024)
def _computes_gradient(dtype, shape, is_aligned, gpu):
    "Return whether one kernel computes the losses and the gradient of such logits"
    vec_size = MAX_LOAD_BYTES // dtype.itemsize if is_aligned else 1
    problem = LossProblem(str(dtype).removeprefix('torch.'), *shape, vec_size, 0)
    return single_pass_launch(problem, gpu) is not None


class _CrossEntropy(torch.autograd.Function):
    "Cross entropy for autograd; saves the gradient if the forward pass computes it, else the row statistics"

    @staticmethod
    def forward(ctx, x, target, ignore_index, reduction, in_place):
        is_aligned = in_place or x.data_ptr() % MAX_LOAD_BYTES == 0
        is_single_pass = reduction != 'none' and _computes_gradient(
            x.dtype, x.shape, is_aligned, current_device_properties()
        )
        loss, ctx.scale, *saved = _run_forward(x, target, ignore_index, reduction, in_place, is_single_pass)
        ctx.options, ctx.was_used, ctx.row_stats = (ignore_index, in_place), False, None
        if not is_single_pass:
            ctx.grad, (ctx.row_stats,) = None, saved
        else:
            ctx.grad = x.detach() if in_place else saved[0]
        if in_place and is_single_pass:
            # Autograd then raises if another operation saved the logits for its backward pass.
            torch.autograd.graph.increment_version(x)
            ctx.save_for_backward(target)
        else:
            ctx.save_for_backward(target, x)
        return loss

    @staticmethod
    @differentiable_once
    def backward(ctx, upstream):
        grad = ctx.grad
        if upstream.dtype is not ctx.scale.dtype or not upstream.is_contiguous():
            upstream = upstream.to(ctx.scale.dtype).contiguous()
        if ctx.was_used and ctx.options[1]:
            raise _already_used_error('cross_entropy with in_place')
        if grad is not None:
            _multiply_in_place(grad, upstream)
        else:
            grad = _CrossEntropy.compute_gradient(ctx, upstream)
        ctx.grad, ctx.was_used = None, True
        return grad, None, None, None, None

    @staticmethod
    def compute_gradient(ctx, upstream):
        "Compute the gradient in a second pass over the logits"
        (target, x), (_, in_place) = ctx.saved_tensors, ctx.options
        problem = _loss_problem(x, *ctx.options)
        if ctx.row_stats is None:  # an earlier backward pass has used the gradient of the single pass
            ctx.row_stats = _run_losses(x, target, problem, _empty_accumulator(x, problem.rows))
        grad = x.detach() if in_place else torch.empty_like(x)
        _run_gradients(x, target, problem, ctx.row_stats, upstream, ctx.scale, grad)
        if in_place:
            torch.autograd.graph.increment_version(x)
        return grad


_apply_cross_entropy = make_apply(_CrossEntropy)


# Up to this many bytes, torch computes the loss with its gradient faster, except in CUDA graphs (see
# `common.is_host_bound`). Only for float32: torch rounds the losses of 16-bit logits to 16 bits.
_MAX_HOST_BOUND_BYTES = 2**25
_TORCH_REDUCTIONS = {'none': 0, 'mean': 1, 'sum': 2}  # reduction -> its code in torch


def _torch_function(logits, target, ignore_index, reduction):
    "Return a function of such arguments that computes the loss with torch, with little overhead"
    options = None, _TORCH_REDUCTIONS[reduction], ignore_index, 0.0
    return torch_call(torch._C._nn.cross_entropy_loss, *ARGUMENTS[:2], *options)


def _apply_to_copy(logits, target, ignore_index, reduction):
    return _apply_cross_entropy(logits, target, ignore_index, reduction, False)


@replay_entry_point(_run_loss, 'logits', 'target', 'ignore_index', 'reduction')
def cross_entropy(
    logits,  # a tensor (rows, classes) of float32, bfloat16, float16 or float64; with `in_place` it must be contiguous
    target,  # an int64 tensor (rows,): the class of each row
    ignore_index=-100,  # rows with this target are ignored
    reduction='mean',  # 'mean' over the rows that are not ignored, 'sum', or 'none': one loss per row
    in_place=False,  # let the gradient overwrite the logits
):  # the loss, float32 (of float64: float64)
    """Compute logsumexp(logits) - logits[target] per row, as `F.cross_entropy` does, in float32; differentiable once.

        cross_entropy(logits, target, in_place=True)

    On a Hopper GPU, float32 and bfloat16 logits are read once, and the forward pass computes the gradient, too. On
    other GPUs, for float16, and for `reduction='none'`, the backward pass reads the logits again. With a gradient,
    torch computes up to 32 MiB of float32, except in CUDA graphs: our Python code would take longer. With `in_place`
    the gradient overwrites the logits, which halves the memory; autograd then raises for other operations that have
    saved the logits, and a leaf tensor is not allowed. The backward pass multiplies a gradient of the forward pass by
    the upstream gradient, which rounds it again unless the factor is 1. A target that is out of range triggers a
    device-side assertion. Raises TypeError or ValueError for other unsupported operands."""
    if not (in_place or torch.compiler.is_dynamo_compiling()):
        if (loss := _run_loss.fast(logits, target, ignore_index, reduction)) is not None:
            return loss
    return _compute_cross_entropy(logits, target, ignore_index, reduction, in_place)


@untraced
def _compute_cross_entropy(logits, target, ignore_index, reduction, in_place):
    "Compute `cross_entropy`, with autograd only if a gradient is needed"
    logits, target = logits if in_place else to_contiguous(logits), to_contiguous(target)
    is_filled_matrix = hasattr(logits, 'data_ptr') and logits.dim() == 2 and len(logits) > 0
    if in_place or not is_filled_matrix:  # `_run_forward` checks all others, once per shape
        _check_cross_entropy(logits, target, ignore_index, reduction)
    if in_place:
        _check_in_place('cross_entropy', logits)
    if not len(logits):
        return torch.nn.functional.cross_entropy(logits, target, reduction=reduction).to(
            _empty_accumulator(logits).dtype
        )
    if not needs_autograd(logits):
        return _run_loss(logits.detach(), target, ignore_index, reduction)
    if in_place:
        return _apply_cross_entropy(logits, target, ignore_index, reduction, True)
    return _differentiate_copy(logits, target, ignore_index, reduction)


def _differentiate_copy(logits, target, *options):
    "Compute the loss with autograd, with torch or with our kernels; the table stores the decision"
    args = logits, target, *options
    if is_host_bound(logits, ['float32'], _MAX_HOST_BOUND_BYTES):
        _check_cross_entropy(*args)
        return differentiate_eagerly(_run_loss, _apply_to_copy, _torch_function, *args)
    loss = _apply_to_copy(*args)
    if (table := _run_loss.table_for(*args)) is not None:
        table.use_function(torch_call(_apply_cross_entropy, *ARGUMENTS[:4], False), args, True)
    return loss


# The logits are a matrix product, and so are the gradients of both of its operands. All three products are computed per
# chunk of rows, so that only the logits of one chunk are in memory.
class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, target, ignore_index, reduction, chunk_rows):
        dx = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        dweight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        logits, loss = x.new_empty(min(chunk_rows, len(x)), len(weight)), _empty_accumulator(x, len(x))
        full_problem = _loss_problem(logits, ignore_index, True)._replace(rows=len(x))
        ctx.scale = _compute_scale(x, target, full_problem, reduction)
        unit_scale = torch.ones_like(ctx.scale)
        # Scaled float16 gradients would underflow, so the backward pass applies the scale.
        ctx.scale_in_backward = x.dtype is torch.float16
        for i in range(0, len(x), chunk_rows):
            rows = slice(i, i + chunk_rows)
            chunk_logits = torch.mm(x[rows], weight.t(), out=logits[: len(x[rows])])
            chunk = chunk_logits, target[rows], full_problem._replace(rows=len(chunk_logits))
            if dx is None and dweight is None:
                _run_losses(*chunk, loss[rows])
                continue
            scale = unit_scale if ctx.scale_in_backward else ctx.scale
            _overwrite_with_gradient(*chunk, scale, loss[rows], unit_scale)
            if dx is not None:
                torch.mm(chunk_logits, weight, out=dx[rows])
            if dweight is not None:
                torch.addmm(dweight, chunk_logits.t(), x[rows], beta=float(i > 0), out=dweight)
        ctx.grads = dx, dweight
        return _sum_losses(loss, ctx.scale, full_problem)

    @staticmethod
    @differentiable_once
    def backward(ctx, upstream):
        if ctx.grads is None:
            raise _already_used_error('linear_cross_entropy')
        grads, ctx.grads = ctx.grads, None
        factor = upstream.to(ctx.scale.dtype)
        for grad in grads:
            if grad is not None:
                _multiply_in_place(grad, factor * ctx.scale if ctx.scale_in_backward else factor)
        return *grads, None, None, None, None


def _overwrite_with_gradient(x, target, problem, scale, loss, unit_scale):
    "Compute the losses, and overwrite the logits with their gradient"
    if single_pass_launch(problem, current_device_properties()):
        return _run_single_pass(x, target, problem, scale, loss, x)
    _run_gradients(x, target, problem, _run_losses(x, target, problem, loss), unit_scale, scale, x)


@untraced
def linear_cross_entropy(
    x,  # a tensor (rows, features); operands that are not contiguous are copied first
    weight,  # a tensor (classes, features) of the dtype of `x`
    target,  # as for `cross_entropy`
    ignore_index=-100,  # as for `cross_entropy`
    reduction='mean',  # or 'sum'
    chunk_rows=None,  # rows of logits per chunk; None: as many as fit in 512 MiB, at least 128
):  # the loss, float32 (of float64: float64)
    """Compute `cross_entropy(x @ weight.T, target)` without storing all logits; differentiable once. Per chunk of rows,
    torch computes the logits, our kernels overwrite them with their gradient, and torch computes the gradients of `x`
    and `weight`.

        linear_cross_entropy(x, model.head.weight, target)

    The weight gradient accumulates in the dtype of the weight, with one rounding per chunk, as in gradient accumulation
    over batches. Raises TypeError or ValueError for unsupported operands."""
    op_name = 'linear_cross_entropy'
    x, weight, target = map(to_contiguous, (x, weight, target))
    _check_matrix(op_name, x, 'x', 'features')
    num_classes = weight.shape[0] if hasattr(weight, 'dim') and weight.dim() else 0
    check_matches(op_name, 'weight', weight, x, (num_classes, x.shape[1]))
    _check_targets(op_name, target, x, len(x))
    _check_options(op_name, reduction, REDUCTIONS[:2], ignore_index)
    if not len(x) or not len(weight):
        raise ValueError(
            f'{op_name}: expected at least one row and one class; got {len(x)} rows and {len(weight)} classes'
        )
    if chunk_rows is None:
        chunk_rows = pow2_clamp(_MAX_LOGITS_BYTES // (len(weight) * x.element_size()), 128, 2**20)
    if isinstance(chunk_rows, bool) or not isinstance(chunk_rows, int) or chunk_rows < 1:
        raise ValueError(f'{op_name}: chunk_rows is {chunk_rows!r}; expected a positive integer')
    if not torch.is_grad_enabled():
        x, weight = x.detach(), weight.detach()
    return _LinearCrossEntropy.apply(x, weight, target, ignore_index, reduction, chunk_rows)
