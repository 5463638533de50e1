"""`bmm`: a batch of GEMMs in one launch. `grouped_mm`: a grouped GEMM, in which each group of rows is multiplied by
its own matrix, as in a mixture of experts."""

from functools import lru_cache

import torch
from torch.autograd.function import once_differentiable

from .launches import stored_layout, stored_operands, run_gemm, unsupported_device_reason
from . import plan, bf16x6
from .calls import GemmProblem, choose_tile, estimate_cycles
from ..ladder.rung import PreparedLaunches, current_device_properties
from ..sparse.launches import launch_prepared
from ..launch_replay import replay_entry_point, needs_autograd, replayable
from ..common import make_context_current_once, dtype_name


def _fallback_reason(a, b):
    "Return the reason why no kernel can multiply these batches; None if one may"
    if a.dim() != 3 or b.dim() != 3 or a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        return 'the shapes are not (count, M, K) and (count, K, N)'
    return plan.fallback_reason(a[0], b[0]) if len(a) else 'the batch is empty'


def _float32_operands(a, b):
    "Return (layout, stored_a, stored_b, kernel) for float32 batches, or the reason why torch must multiply them"
    operands = stored_layout(a, b)
    (count, M, K), N = a.shape, b.shape[2]
    if operands is None:
        return 'no kernel supports the memory layout of an operand'
    if reason := unsupported_device_reason(a):
        return reason
    if min(count, M, N, K) < 1 or count > 65535:
        return 'a size is 0, or the batch size is above 65,535'
    if (a.data_ptr() | b.data_ptr()) & 15:
        return 'an operand begins at an address that is not a multiple of 16'
    kernel = bf16x6.choose_batch(count, M, N, K, current_device_properties().sms, operands[0])
    return kernel if isinstance(kernel, str) else (*operands, kernel)


def _kernel_operands(a, b):
    "Return (layout, stored_a, stored_b), for float32 also the kernel, or the reason why torch must multiply"
    if reason := _fallback_reason(a, b):
        return reason
    return _float32_operands(a, b) if dtype_name(a) == 'float32' else stored_operands(a, b)


@lru_cache(256)
def _prepared_launches(kernel, count, M, N, K, device, backend):
    "Return the prepared launches of a float32 kernel for a batch, cached: a function of (arrays, stream)"
    launches = PreparedLaunches(kernel.launch_plan(M, N, K, current_device_properties(), count))
    return lambda arrays, stream=None: launches(*arrays, stream)


def _run_bmm(a, b):
    "Compute `bmm` without a gradient with a kernel, or return NotImplemented if torch must multiply"
    operands = _kernel_operands(a, b)
    if isinstance(operands, str):
        return NotImplemented
    layout, stored_a, stored_b, *kernel = operands
    if not kernel and a.is_cuda and _is_long(a, b):
        return NotImplemented
    if not kernel:
        return run_gemm(stored_a, stored_b, None, layout)
    out = a.new_empty(a.shape[0], a.shape[1], b.shape[2])
    launch_prepared(_prepared_launches, (*kernel, *out.shape, a.shape[2]), a, (stored_a, stored_b, out))
    return out


# torch multiplies 16-bit batches whose kernel is estimated to take longer than this, in microseconds, because its
# kernels are 3% faster on average (benchmarks/every_shape.py). It multiplies smaller batches only in CUDA graphs:
# elsewhere launch overhead is the limiter, and torch has the larger one.
_MAX_LAUNCH_BOUND_US, _CYCLES_PER_US = 28, 1750


def _is_long(a, b):
    "Return whether the kernel of 16-bit batches is estimated to take longer than the launch overhead of torch"
    problem = GemmProblem(dtype_name(a), dtype_name(a), 'nn', a.shape[0], a.shape[1], b.shape[2], a.shape[2])
    sms = current_device_properties().sms
    return estimate_cycles(choose_tile(problem, sms), problem, sms) > _MAX_LAUNCH_BOUND_US * _CYCLES_PER_US


_bmm_forward = replayable(
    _run_bmm,
    torch.bmm,
    use_torch_in_graphs=lambda a, b: a.dtype is not torch.float32,
    is_torch_differentiated=lambda a, b: True,
)


class _Bmm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return _bmm_forward(a, b)

    @staticmethod
    def backward(ctx, grad_out):
        if grad_out.is_cuda:
            make_context_current_once()
        a, b = ctx.saved_tensors
        return (
            bmm(grad_out, b.mT) if ctx.needs_input_grad[0] else None,
            bmm(a.mT, grad_out) if ctx.needs_input_grad[1] else None,
        )


@replay_entry_point(_bmm_forward, 'a', 'b')
def bmm(
    a,  # (count, M, K)
    b,  # (count, K, N)
):  # (count, M, N)
    """Compute a[i] @ b[i] for all i, as `torch.bmm` does; differentiable.

        bmm(a, b)

    One kernel multiplies 16-bit floats on a Hopper GPU, and tensor cores multiply float32, as in `matmul`. torch
    multiplies 16-bit batches in CUDA graphs, batches that take longer than its launch overhead, and all other operands;
    it raises for shapes or dtypes that do not match."""
    if not torch.compiler.is_dynamo_compiling() and (result := _bmm_forward.fast(a, b)) is not None:
        return result
    if not needs_autograd(a, b):
        return _bmm_forward(a, b)
    if not isinstance(_kernel_operands(a, b), str):
        return _Bmm.apply(a, b)
    if not torch.compiler.is_compiling() and (table := _bmm_forward.table_for(a, b)) is not None:
        table.use_function(torch.bmm, (a, b), True)
    return torch.bmm(a, b)


# A grouped GEMM: consecutive rows of `a` form groups, and each group has its own matrix of `b`.
def _group_bounds(group_ends, rows):
    "Return the bounds of the groups on the host; raise `ValueError` unless each row is in one group"
    bounds = [0, *group_ends.tolist()]
    if bounds != sorted(bounds) or bounds[-1] != rows:
        raise ValueError(
            f'grouped_mm: ends must be non-decreasing, and the last one must be the number of rows, {rows}; '
            f'got {bounds[1:]}'
        )
    return bounds


def _check_groups(a, b, group_ends):
    "Raise `TypeError` or `ValueError` for invalid operands"
    if not isinstance(group_ends, torch.Tensor):
        expected = 'a tensor, such as torch.tensor(ends, dtype=torch.int32)'
        raise TypeError(f'grouped_mm: ends must be {expected}; got a {type(group_ends).__name__}')
    if a.dim() != 2 or b.dim() != 3 or a.shape[1] != b.shape[1] or a.dtype != b.dtype:
        received = f'{dtype_name(a)}{tuple(a.shape)} and {dtype_name(b)}{tuple(b.shape)}'
        raise ValueError(f'grouped_mm: a must be (rows, K) and b (groups, K, N), of the same dtype; got {received}')
    if group_ends.dtype != torch.int32 or group_ends.shape != b.shape[:1] or not group_ends.is_contiguous():
        layout = '' if group_ends.is_contiguous() else ', not contiguous'
        received = f'{dtype_name(group_ends)}{tuple(group_ends.shape)}{layout}'
        expected = f'int32({b.shape[0]},) and contiguous, one end per group'
        raise ValueError(f'grouped_mm: ends must be {expected}; got {received}')
    if not a.device == b.device == group_ends.device:
        received = f'{a.device}, {b.device} and {group_ends.device}'
        raise ValueError(f'grouped_mm: a, b and ends must be on one device; got {received}')
    if group_ends.device.type == 'cpu':
        _group_bounds(group_ends, len(a))


def _grouped_kernel_operands(a, b):
    "Return (layout, stored_a, stored_b) for the kernel, or the reason why torch must multiply"
    if reason := plan.fallback_reason(a, b[0]) if len(b) else 'there are no groups':
        return reason
    if not a.is_contiguous():
        return 'a is not contiguous'
    return stored_operands(a[None], b)


def _torch_grouped_mm(a, b, group_ends):
    "Multiply the groups one after the other with torch"
    bounds = _group_bounds(group_ends, len(a))
    if not len(b):
        return a.new_empty(0, b.shape[2])
    return torch.cat([a[start:end] @ matrix for start, end, matrix in zip(bounds, bounds[1:], b)])


def _grouped_mm_forward(a, b, group_ends):
    "Compute `grouped_mm` without a gradient"
    operands = _grouped_kernel_operands(a, b)
    if isinstance(operands, str):
        return _torch_grouped_mm(a, b, group_ends)
    layout, stored_a, stored_b = operands
    return run_gemm(stored_a[0], stored_b, None, layout, group_ends=group_ends)


class _GroupedMm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, group_ends):
        ctx.save_for_backward(a, b, group_ends)
        return _grouped_mm_forward(a, b, group_ends)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        if grad_out.is_cuda:
            make_context_current_once()
        a, b, group_ends = ctx.saved_tensors
        grad_out = grad_out.contiguous()
        da = _grouped_mm_forward(grad_out, b.mT, group_ends) if ctx.needs_input_grad[0] else None
        return da, _group_gradients(a, grad_out, group_ends) if ctx.needs_input_grad[1] else None, None


def _torch_has_kernel(a, grad_out):
    "Return whether torch can multiply all groups with one kernel, which needs bfloat16 and 16-byte aligned rows"
    is_aligned = not ((a.shape[1] | grad_out.shape[1]) % 8 or (a.data_ptr() | grad_out.data_ptr()) & 15)
    is_supported = grad_out.is_cuda and a.dtype is torch.bfloat16 and a.is_contiguous() and len(a)
    return is_supported and is_aligned and hasattr(torch, '_grouped_mm')


def _group_gradients(a, grad_out, group_ends):
    "Compute the gradient of each group's matrix with torch"
    if _torch_has_kernel(a, grad_out):
        return torch._grouped_mm(a.t(), grad_out, group_ends)
    bounds = _group_bounds(group_ends, len(a))
    gradients = [a[start:end].t() @ grad_out[start:end] for start, end in zip(bounds, bounds[1:])]
    return torch.stack(gradients) if gradients else a.new_empty(0, a.shape[1], grad_out.shape[1])


def grouped_mm(
    a,  # (rows, K)
    b,  # (groups, K, N), or a transpose of (groups, N, K)
    ends,  # int32 (groups,): one past the last row of each group; the last one is `rows`
):  # (rows, N)
    """Multiply each group of rows by its own matrix, as for tokens sorted by their experts; groups may be empty.
    Differentiable once: torch computes the gradient of b.

        grouped_mm(tokens, experts, ends)

    One kernel multiplies 16-bit floats on a Hopper GPU. It does not check `ends`: an end beyond `rows` writes out of
    bounds, and rows past the last end are not written. For other operands torch multiplies one group after the other;
    the host then waits for `ends` and checks it. Raises TypeError and ValueError for invalid operands."""
    _check_groups(a, b, ends)
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return _GroupedMm.apply(a, b, ends)
    return _grouped_mm_forward(a, b, ends)
