"""Launch `epilogue_gemm.cuh`: check whether it supports the operands, and prepare its launch once per problem.

`stored_a` and `stored_b` are the operands in the layout of their memory: row-major (M, K) and (K, N), but (K, M) for A
with the layout 'tn', and (N, K) for B with 'nt'; or batches of these.
"""

from functools import lru_cache

import torch

from .calls import GemmProblem, choose_tile, is_staged, gemm_launch, column_sum_rows
from .sources import F16_TYPES
from ..ladder.rung import current_device_properties, on_hopper
from ..sparse.launches import launch_prepared, prepare_launch
from ..common import dtype_name


def unsupported_reason(dtype, layout, M, N, K):  # None if it can
    "Return the reason why the kernel cannot multiply matrices of this dtype and these sizes"
    if dtype not in F16_TYPES:
        return f'the kernel multiplies {" and ".join(F16_TYPES)}, not {dtype}'
    if min(M, N, K) < 1:
        return 'a size is 0'
    row_lengths = dict(nn=(K, N), tn=(M, N), nt=(K, N))[layout]
    if unaligned := [length for length in row_lengths if length % 8]:
        return f'rows must be multiples of 16 bytes (8 {dtype} elements); some have {unaligned[0]} elements'


def unsupported_device_reason(x):  # None if the kernel runs there
    "Return the reason why the kernel does not run on the device of `x`; the emulator runs it within `using`"
    if x.is_cuda and not on_hopper():
        return 'the kernel requires a Hopper GPU (compute capability 9.0)'


def stored_layout(a, b):
    "Return (layout, stored_a, stored_b) of two matrices or batches; None if no kernel supports this memory layout"
    if a.is_contiguous() and b.is_contiguous():
        return 'nn', a, b
    if a.mT.is_contiguous() and b.is_contiguous():
        return 'tn', a.mT, b
    if a.is_contiguous() and b.mT.is_contiguous():
        return 'nt', a, b.mT


def stored_operands(a, b):  # matrices, or batches of matrices
    "Return (layout, stored_a, stored_b) for the kernel, or the reason why it cannot multiply these operands"
    M, N, K = a.shape[-2], b.shape[-1], a.shape[-1]
    operands = stored_layout(a, b)
    if operands is None:
        return 'no kernel supports the memory layout of an operand'
    if reason := unsupported_reason(dtype_name(a), operands[0], M, N, K) or unsupported_device_reason(a):
        return reason
    if (a.data_ptr() | b.data_ptr()) & 15:
        return 'an operand begins at an address that is not a multiple of 16'
    return operands


@lru_cache(1024)
def _prepared_launch(problem, scale, tile, device, backend):
    "Return the prepared launch of a problem on a device"
    return prepare_launch(*gemm_launch(problem, scale, current_device_properties(), tile), device)


def _as_batch(x):
    "Return a matrix as a batch of one matrix; return a batch unchanged"
    return x if x.dim() == 3 else x[None]


def run_gemm(
    stored_a,  # (M, K), or (K, M) with 'tn'; or a batch of these
    stored_b,  # (K, N), or (N, K) with 'nt'; or a batch of these
    out=None,  # receives the result, instead of a new tensor: of the same dtype, or float32
    layout='nn',  # 'tn': A is stored transposed; 'nt': B is
    *,
    group_ends=None,  # int32: the ends of the groups of rows of A; `stored_b` has one matrix per group
    bias=None,  # (N,)
    activation=None,  # as for `activation_source`
    multiplier=None,  # like out: the result is multiplied by it elementwise
    addend=None,  # like out: added to the result
    activation_input=None,  # like out: receives the input of the activation
    act_grad=None,  # like out: receives the gradient of the activation instead
    column_sums=False,  # also sum the columns: of the result if there is a multiplier, else of `addend`
    accumulate=False,  # add the result to the contents of a float32 `out`
    scale=1.0,  # factor of A @ B
    tile=None,  # None: that of `calls.choose_tile`
):  # the result; with `column_sums` also the partial column sums, float32 (rows, N)
    "Launch the kernel for operands that were checked by `stored_operands`"
    batch_a = _as_batch(stored_a)
    batch_b = _as_batch(stored_b)
    M, K = batch_a.shape[1:] if layout[0] == 'n' else batch_a.shape[:0:-1]
    N = batch_b.shape[2 if layout[1] == 'n' else 1]
    if out is None:
        out = stored_a.new_empty((batch_b.shape[0], M, N) if stored_a.dim() == 3 else (M, N))
    problem = GemmProblem(
        dtype=dtype_name(stored_a),
        out_dtype=dtype_name(out),
        layout=layout,
        count=batch_b.shape[0],
        M=M,
        N=N,
        K=K,
        is_grouped=group_ends is not None,
        has_bias=bias is not None,
        activation=activation,
        has_multiplier=multiplier is not None,
        has_addend=addend is not None,
        save='input' if activation_input is not None else 'grad' if act_grad is not None else '',
        sum_columns=column_sums,
        accumulate=accumulate,
    )
    tile = tile or choose_tile(problem, current_device_properties().sms)
    num_sum_rows = column_sum_rows(problem, tile) if column_sums else 0
    sums = torch.empty(num_sum_rows, N, dtype=torch.float32, device=stored_a.device)
    saved_or_grad = activation_input if act_grad is None else act_grad
    outputs = [_as_batch(x) for x in (out, out if saved_or_grad is None else saved_or_grad)]
    mapped_outputs = outputs if is_staged(problem) else [batch_a, batch_a]
    # The kernel does not access the operands that this problem lacks, so their arguments may have any address.
    elementwise_operand = addend if multiplier is None else multiplier
    optional = [stored_a if x is None else x for x in (saved_or_grad, bias, elementwise_operand)]
    group_ends = out.view(torch.int32) if group_ends is None else group_ends
    arrays = batch_a, batch_b, *mapped_outputs, out, *optional, sums, group_ends
    launch_prepared(_prepared_launch, (problem, float(scale), tile), stored_a, arrays)
    return (out, sums) if column_sums else out
