"""The torch operator `attention` and its backward pass: check operands, and choose a kernel for the GPU."""

import math
from typing import NamedTuple

import torch
from torch.nn.functional import scaled_dot_product_attention

from . import calls
from .calls import DIMS, AttentionProblem
from .launches import launch_mapped
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
from ..operators import constant, operator
from ..ladder.rung import current_device_properties
from ..common import check_tensor, launch
from ...utils import backend

_DTYPES = 'bfloat16', 'float16', 'float32', 'float64'


class Backend(NamedTuple):
    "The implementation that computes attention; if it is torch, also the reason why none of our kernels does"

    name: str  # our kernels: 'hopper' or 'mma.sync'; torch: 'sdpa' or 'torch'
    reason: str = ''


# `torch.compile` cannot trace queries of the driver, so the functions that query it are marked as constant.
@constant
def _has_hopper():
    "Return whether kernels for Hopper run here"
    return current_device_properties().is_hopper


@constant
def has_ampere():
    "Return whether kernels can use `mma.sync` with bfloat16: on Ampere or later, and on the emulator"
    return backend() != 'gpu' or torch.cuda.get_device_capability() >= (8, 0)


def choose_backend(q):
    "Choose the `Backend` for q"
    if q.dtype != torch.bfloat16:
        return Backend('sdpa', f'our kernels support bfloat16; q is {str(q.dtype)[6:]}')
    if q.shape[-1] not in DIMS:
        return Backend('sdpa', f'our kernels support head dimension {", ".join(map(str, DIMS))}; q has {q.shape[-1]}')
    if _has_hopper():
        return Backend('hopper')
    if q.shape[-1] > 128:
        return Backend('sdpa', 'a head dimension above 128 needs a Hopper GPU here')
    if not has_ampere():
        return Backend('sdpa', 'mma.sync of bfloat16 needs an Ampere GPU')
    return Backend('mma.sync')


# Where SDPA, which calls cuDNN, is faster than our kernels on a Hopper GPU, measured by benchmarks/every_shape.py:
# (head dimension, whether the gradient is computed, whether it is causal) -> largest number of rows of q
_SDPA_MAX_ROWS = {
    (64, False, False): 900,
    (64, False, True): 1500,
    (128, False, False): 1500,
    (128, False, True): 1500,
    (256, False, False): 1000,
    (256, False, True): 1000,
    (64, True, False): 512,
    (64, True, True): 512,
    (256, True, False): 2**31,
    (256, True, True): 2**31,
}


# With gradients and head dimension 64: the largest number of rows that is a multiple of the rows of cuDNN's tiles
_SDPA_MAX_EVEN_ROWS, _SDPA_TILE_ROWS = 1024, 128
_SDPA_CAUSAL_ROWS = range(960, 1041)  # with gradients, a causal mask and head dimension 128


def _is_sdpa_faster(q, causal, has_gradient):
    "Return whether SDPA is faster than our kernel for attention without a window, lengths or a bias"
    rows, dim = q.shape[2:]
    max_rows = _SDPA_MAX_ROWS.get((dim, has_gradient, causal), 0)
    if has_gradient and dim == 64 and rows % _SDPA_TILE_ROWS == 0:
        max_rows = _SDPA_MAX_EVEN_ROWS
    if has_gradient and causal and dim == 128 and rows in _SDPA_CAUSAL_ROWS:
        max_rows = rows
    return q.is_cuda and rows <= max_rows and choose_backend(q).name == 'hopper'


# With gradients and fewer floating-point operations, our kernels finish before the Python code that launches them
_MAX_HOST_BOUND_FLOP = {64: 2e11, 128: 1.6e11, 256: 1.6e11}  # head dimension -> limit


def _is_host_bound(q, k, causal):
    "Return whether Python overhead limits attention with gradients (two GEMMs forward, five backward)"
    pairs = q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] / (1 + causal)
    return 14 * pairs * q.shape[3] <= _MAX_HOST_BOUND_FLOP.get(q.shape[3], 0)


def check_qkv(q, k, v):
    "Raise `TypeError` or `ValueError` unless q, k and v have matching shapes and dtypes, on a device where kernels run"
    for name, tensor in dict(q=q, k=k, v=v).items():
        if not torch.compiler.is_compiling():
            check_tensor('attention', tensor, _DTYPES, name, any_strides=True)
        if tensor.dim() != 4:
            raise ValueError(f'attention: {name} has shape {tuple(tensor.shape)}; expected [batch, heads, rows, dim]')
        if tensor.dtype != q.dtype or tensor.device != q.device:
            q_type = f'{q.dtype} on {q.device}'
            raise ValueError(
                f'attention: {name} is {tensor.dtype} on {tensor.device}, and q is {q_type}: use {name}.to(q)'
            )
    if k.shape != v.shape:
        raise ValueError(
            f'attention: k has shape {tuple(k.shape)} and v {tuple(v.shape)}; the two shapes must be the same'
        )
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(
            f'attention: q has shape {tuple(q.shape)} and k {tuple(k.shape)}; batch and dim must be the same'
        )
    if not k.shape[1] or q.shape[1] % k.shape[1]:
        raise ValueError(
            f'attention: q has {q.shape[1]} heads and k {k.shape[1]}; the heads of q must be a multiple of those of k'
        )


def check_scale(q, scale):
    "Return the scale of the scores as a float, by default 1/sqrt(dim); raise `ValueError` unless it is positive"
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if isinstance(scale, str) or not 0 < float(scale) < math.inf:
        raise ValueError(
            f'attention: scale is {scale!r}; it must be positive, because the kernels find the row maximum among '
            'unscaled scores'
        )
    return float(scale)


def _pack_lens(q, k, lens):
    "Convert lengths to the int32 tensor [2, batch] that the kernels take: the rows, then the keys"
    if lens is None:
        return None
    if not isinstance(lens, (tuple, list)):
        if q.shape[2] != k.shape[2]:
            raise ValueError('attention: q and k have different lengths; pass lens as a pair (rows, keys)')
        lens = lens, lens
    if len(lens) != 2:
        raise ValueError(f'attention: lens has {len(lens)} items; expected one tensor, or a pair (rows, keys)')
    for lengths in lens:
        if not hasattr(lengths, 'data_ptr') or lengths.is_floating_point() or lengths.shape != (q.shape[0],):
            raise ValueError(f'attention: lens must be a tensor of {q.shape[0]} integers, one per sequence')
    return torch.stack([lengths.to(device=q.device, dtype=torch.int32) for lengths in lens])


def _check_window(window):
    "Return the window as an integer, 0 for no window"
    if window is None:
        return 0
    if not isinstance(window, int) or window is True or window < 1:
        raise ValueError(f'attention: window is {window!r}; expected a positive integer: |row - key| < window')
    return window


def aligned_rows(tensor):
    "Return the tensor if its rows are contiguous and begin at multiples of 16 bytes, else a contiguous copy"
    strides_are_aligned = all(stride * tensor.element_size() % 16 == 0 for stride in tensor.stride()[:3])
    return (
        tensor if tensor.stride(3) == 1 and tensor.data_ptr() % 16 == 0 and strides_are_aligned else tensor.contiguous()
    )


def empty_out(q):
    "Return an uninitialized tensor like q, with the memory order of q if possible; the emulator needs a contiguous one"
    out = torch.empty_like(q)
    is_supported = out.stride(3) == 1 and q.is_cuda
    return out if is_supported else torch.empty_like(q, memory_format=torch.contiguous_format)


def _allocate_results(q, *other_arguments):
    "Return the output and lse, uninitialized"
    return empty_out(q), q.new_empty(q.shape[:3], dtype=torch.float32)


def attention_problem(q, k, causal, window, lens, bias):
    "Return the `AttentionProblem` of q, k and these options"
    batch, heads, rows, dim = q.shape
    return AttentionProblem(
        batch, heads, heads // k.shape[1], rows, k.shape[2], dim, causal, window, lens is not None, bias
    )


@operator(
    'attention(Tensor q, Tensor k, Tensor v, bool causal, float scale, int window, Tensor? lens, str bias) '
    '-> (Tensor, Tensor)',
    _allocate_results,
)
def _attention(q, k, v, causal, scale, window, lens, bias):
    q, k, v = map(aligned_rows, (q, k, v))
    out, lse = _allocate_results(q)
    if not q.numel() or not k.numel():
        return out.zero_(), lse.fill_(-math.inf)
    problem, gpu = attention_problem(q, k, causal, window, lens, bias), current_device_properties()
    arrays = dict(q=q, k=k, v=v, out=out, lse=lse, lens=lse.view(torch.int32) if lens is None else lens)
    if gpu.is_hopper:
        kernel_launch, boxes = calls.forward_hopper(problem, scale, out.stride()[:3], gpu)
        launch_mapped(kernel_launch, boxes, q, **arrays)
    else:
        if not q.is_cuda:
            q, k, v = (tensor.contiguous() for tensor in (q, k, v))
        strides = tuple(tensor.stride()[:3] for tensor in (q, k, v, out))
        launch([calls.forward_ampere(problem, scale, strides)], **dict(arrays, q=q, k=k, v=v), x=q)
    return out, lse


def _attention_mask(q, k, causal, window, lens):
    "Return the boolean mask for SDPA, true for the keys that a row attends to; None if all rows attend to all keys"
    if not (causal or window or lens is not None):
        return None
    row, key = (torch.arange(tensor.shape[2], device=q.device) for tensor in (q, k))
    row = row[:, None]
    mask = torch.ones(1, 1, q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
    if causal:
        mask = mask & (key <= row)
    if window:
        mask = mask & (key > row - window) & (key < row + window)
    if lens is not None:
        rows, keys = (tensor[:, None, None, None] for tensor in lens)
        mask = mask & (row < rows) & (key < keys)
    return mask


def _sdpa(q, k, v, causal, scale, window, lens):
    "Compute attention with torch's SDPA; the output of a row that attends to no key is 0"
    gqa_option = dict(enable_gqa=True) if q.shape[1] != k.shape[1] else {}
    if not window and lens is None:
        return scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, **gqa_option)
    mask = _attention_mask(q, k, causal, window, lens)
    out = scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, **gqa_option)
    return torch.where(mask.any(-1, keepdim=True), out, 0)


@operator(
    'attention_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, bool causal, float scale, '
    'int window, Tensor? lens, str bias, str method) -> (Tensor, Tensor, Tensor)',
    lambda dout, q, k, v, *other_arguments: tuple(map(empty_out, (q, k, v))),
)
def _attention_backward(dout, q, k, v, out, lse, causal, scale, window, lens, bias, method):
    fits_grid = q.shape[0] * q.shape[1] < 2**16  # the limit of gridDim.y
    is_supported = current_device_properties().is_hopper and q.shape[3] < 256 and q.numel() and k.numel() and fits_grid
    if method == 'sdpa' or not is_supported:
        if bias or method == 'deterministic':
            option = 'a bias' if bias else 'deterministic=True'
            raise ValueError(f'attention: gradients with {option} need head dimension 64 or 128, and a Hopper GPU')
        return _sdpa_backward(dout, q, k, v, causal, scale, window, lens)
    grads = tuple(map(empty_out, (q, k, v)))
    return kernel_backward(dout, q, k, v, out, lse, causal, scale, window, lens, bias, method, grads)


def kernel_backward(dout, q, k, v, out, lse, causal, scale, window, lens, bias, method, grads):
    "Compute dq, dk and dv with our kernel, and write them to `grads`"
    dq, dk, dv = grads
    backward_pass = BackwardPass(dout, q, out, lse, scale, dq, method == 'deterministic')
    backward_pass.add_keys(k, v, attention_problem(q, k, causal, window, lens, bias), (dk, dv), lens)
    return backward_pass.finish(), dk, dv


class BackwardPass:
    """The backward pass of attention for one q. The constructor computes delta = rowsum(dO * O) per row, `add_keys`
    computes dk and dv of some keys and accumulates their contribution to dq in float32, and `finish` returns dq."""

    def __init__(self, dout, q, out, lse, scale, dq, deterministic=False):
        self.q, self.dout, out = map(aligned_rows, (q, dout, out))
        self.dq, self.scale, self.deterministic = dq, scale, deterministic
        if not q.is_cuda:
            self.dout, out = self.dout.contiguous(), out.contiguous()
        heads, rows = q.shape[0] * q.shape[1], calls.pad_rows(q.shape[2])
        lse_log2, delta, dq_sums = (
            q.new_empty(heads * rows * row_elements, dtype=torch.float32) for row_elements in (1, 1, q.shape[3])
        )
        num_semaphores = calls.count_dq_semaphores(heads, q.shape[2]) if deterministic else 1
        semaphores = q.new_empty(num_semaphores, dtype=torch.int32)
        self.workspaces = dict(lse_log2=lse_log2, delta=delta, dq_sums=dq_sums, semaphores=semaphores)
        strides = tuple(tensor.stride()[:3] for tensor in (out, self.dout, dq))
        prepare_launch, self.finish_launch = calls.pre_and_postprocess_launches(
            attention_problem(q, q, False, 0, None, ''), scale, strides, deterministic
        )
        launch([prepare_launch], q, **self.workspaces, out=out, dout=self.dout, lse=lse)

    def add_keys(self, k, v, problem, grads, lens=None, rows=slice(None)):
        "Compute dk and dv of these keys from some of the rows, write them to `grads`, and add to dq of the rows"
        q, k, v, dout = (aligned_rows(tensor) for tensor in (self.q[:, :, rows], k, v, self.dout[:, :, rows]))
        if not q.is_cuda:
            q, dout = q.contiguous(), dout.contiguous()
        strides, output_rows = (
            tuple(tensor.stride()[:3] for tensor in grads),
            calls.OutputRows(rows.start or 0, self.q.shape[2]),
        )
        kernel_launch, boxes = calls.backward_main_launch(problem, self.scale, strides, self.deterministic, output_rows)
        arrays = dict(self.workspaces, q=q, k=k, v=v, dout=dout, dk=grads[0], dv=grads[1])
        launch_mapped(kernel_launch, boxes, q, **arrays, lens=self.workspaces['semaphores'] if lens is None else lens)

    def finish(self):
        "Convert the accumulated dq to the dtype of q, and return it"
        launch([self.finish_launch], self.q, **self.workspaces, dq=self.dq)
        return self.dq


def _sdpa_backward(dout, q, k, v, *options):
    "Compute the gradients with torch's SDPA, which recomputes the forward pass"
    with torch.enable_grad():
        operands = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
        return torch.autograd.grad(_sdpa(*operands, *options), operands, dout)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, scale, window, lens, bias, method):
        out, lse = _attention(q, k, v, causal, scale, window, lens, bias)
        ctx.save_for_backward(q, k, v, out, lse, lens)
        ctx.mask_options, ctx.kernel_options = (causal, scale, window), (bias, method)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @differentiable_once
    def backward(ctx, dout, _):
        *qkv, lens = ctx.saved_tensors
        return *_attention_backward(dout, *qkv, *ctx.mask_options, lens, *ctx.kernel_options), *[None] * 6


_apply_attention = make_apply(_Attention)


def attention_backend(
    q,  # q, k and v as for `attention`
    k,
    v,
    causal=None,  # as for `attention` with otherwise default options; None: a call with other options
) -> Backend:
    """Return the `Backend` that computes `attention` of these operands: 'hopper', 'mma.sync', or 'sdpa' and the reason.

    attention_backend(q, k, v, causal=True).name"""
    check_qkv(q, k, v)
    has_gradient = needs_autograd(q, k, v)
    if causal is not None and _is_sdpa_faster(q, bool(causal), has_gradient):
        return Backend('sdpa', f'it is faster with head dimension {q.shape[3]} and {q.shape[2]} rows')
    if causal is not None and has_gradient and q.is_cuda and _is_host_bound(q, k, bool(causal)):
        return Backend('sdpa', 'the launch overhead would exceed the time of our kernels; capture them in a CUDA graph')
    return choose_backend(q)


def attention(
    q,  # [batch, heads, rows, dim], with any strides, on a device where kernels run
    k,  # [batch, heads, keys, dim]; with fewer heads than q, consecutive heads of q share a head of k and v (GQA)
    v,  # like k
    causal=False,  # row i attends only to keys 0 to i
    scale=None,  # of q @ k^T; None: 1/sqrt(dim)
    window=None,  # a row attends only to keys with |row - key| < window
    lens=None,  # integers [batch]: rows and keys of each sequence that are not padding; or a pair (rows, keys)
    bias='',  # CUDA C expression of batch, head, row and key (ints), added to the scaled scores; it has no gradient
    lse=False,  # also return the log-sum-exp of each row's scores, which has no gradient
    gradients='kernel',  # our kernel for head dimension 64 or 128 on a Hopper GPU, else SDPA; 'sdpa': always SDPA
    deterministic=False,  # our gradients are the same in each run, bit for bit, but blocks must wait for each other
):  # like q; with `lse`, a pair (out, float32 [batch, heads, rows])
    """Compute softmax(q @ k^T * scale) @ v per head, as `F.scaled_dot_product_attention` does, without storing the
    matrix of scores; differentiable once. The output of a row that attends to no key is 0.

        attention(q, k, v, causal=True)
        attention(q, k, v, bias='-exp2f(-head - 1)*(row - key)')  # ALiBi of 8 heads

    Our kernels support bfloat16 with head dimension 64, 128 or 256; torch's SDPA computes all other cases. Without a
    window, lengths, a bias and lse, SDPA also computes the cases for which it is faster, such as short sequences, and,
    with gradients outside CUDA graphs, those in which our kernels would take less time than our Python code.
    `attention_backend` returns the implementation. With `gradients='sdpa'` the backward pass recomputes the forward
    pass. Values of `lens` are clamped to the sizes.

    Raises TypeError or ValueError for unsupported operands or options. Sources: Dao, FlashAttention-2 (2023); Shah and
    others, FlashAttention-3 (2024)."""
    if lens is None and not (lse or torch.compiler.is_dynamo_compiling()):
        out = _attend.fast(q, k, v, causal, scale, window, bias, gradients, deterministic)
        if out is not None:
            return out
    has_gradient = needs_autograd(q, k, v)
    if lens is None and not lse and not has_gradient:
        return _attend(q, k, v, causal, scale, window, bias, gradients, deterministic)
    is_plain = lens is None and window is None and not (lse or bias or deterministic) and gradients == 'kernel'
    if is_plain and getattr(q, 'is_cuda', False):
        return _attend_with_gradient(q, k, v, causal, scale, window, bias, gradients, deterministic)
    return _checked_attention(q, k, v, causal, scale, window, lens, bias, lse, gradients, deterministic)


def _check_options(q, scale, window, bias, gradients, deterministic):
    "Return (scale, window) as Python scalars; raise `TypeError` or `ValueError` for invalid options"
    if not isinstance(bias, str):
        raise TypeError(
            "attention: bias must be a string with an expression in CUDA C, such as '-0.5f*(row - key)'; "
            f'got a {type(bias).__name__}'
        )
    if gradients not in ('sdpa', 'kernel'):
        raise ValueError(f"attention: gradients is {gradients!r}; expected 'sdpa' or 'kernel'")
    if deterministic and gradients == 'sdpa':
        raise ValueError("attention: SDPA does not support deterministic=True: use gradients='kernel'")
    return check_scale(q, scale), _check_window(window)


def _run_attention(q, k, v, causal, scale, window, bias, gradients, deterministic):
    "Compute `attention` without lengths and gradients with our kernels; return NotImplemented if torch must compute it"
    check_qkv(q, k, v)
    _check_options(q, scale, window, bias, gradients, deterministic)
    is_plain = window is None and not bias and not deterministic
    if not bias and choose_backend(q).name == 'sdpa' or is_plain and _is_sdpa_faster(q, bool(causal), False):
        return NotImplemented
    return _checked_attention(q, k, v, causal, scale, window, None, bias, False, gradients, deterministic)


def _kernel_attention(q, k, v, causal, scale, *other_options):
    "Compute `attention` with default options with our kernels, if they support it"
    return _checked_attention(q, k, v, causal, scale, None, None, '', False, 'kernel', False)


def _attend_with_gradient(q, k, v, causal, scale, *other_options):  # the arguments of `_attend`
    "Compute `attention` with gradients and default options, with the fastest implementation"
    check_qkv(q, k, v)
    check_scale(q, scale)
    args, is_traced = (q, k, v, causal, scale, *other_options), torch.compiler.is_compiling()
    if choose_backend(q).name == 'sdpa' or _is_sdpa_faster(q, bool(causal), True):
        table = None if is_traced else _attend.table_for(*args)
        if table is not None:
            table.use_function(_make_torch_attention(*args), args, True)
        return _torch_attention(*args)
    if not is_traced and _is_host_bound(q, k, bool(causal)):
        return differentiate_eagerly(_attend, _kernel_attention, _make_torch_attention, *args)
    return _kernel_attention(*args)


def _torch_attention(q, k, v, causal, scale, window=None, *unused_options):
    "Compute `attention` without lengths, with torch"
    return _sdpa(q, k, v, bool(causal), check_scale(q, scale), _check_window(window), None)


def _make_torch_attention(q, k, v, causal, scale, window=None, *unused_options):
    "Return a function of such q, k and v, and of ignored options, that calls SDPA with little overhead"
    if window is not None:
        return _torch_attention
    is_gqa = q.size(1) != k.size(1)
    # Parsing options takes some microseconds, so those with their defaults are not passed.
    positional = (None, 0.0, bool(causal)) if causal or is_gqa or scale is not None else ()
    options = dict(scale=scale) if scale is not None else {}
    options |= dict(enable_gqa=True) if is_gqa else {}
    return torch_call(scaled_dot_product_attention, *ARGUMENTS[:3], *positional, **options)


def _is_torch_differentiated(q, k, v, causal, scale, window, bias, gradients, deterministic):
    "Return whether torch computes such a call if a gradient is needed, too"
    is_plain = window is None and gradients == 'kernel'
    return choose_backend(q).name == 'sdpa' or is_plain and _is_sdpa_faster(q, bool(causal), True)


_attend = replayable(
    _run_attention,
    _torch_attention,
    make_torch_function=_make_torch_attention,
    is_torch_differentiated=_is_torch_differentiated,
)
_ATTEND_PARAMETERS = 'q', 'k', 'v', 'causal', 'scale', 'window', 'bias', 'gradients', 'deterministic'
replay_entry_point(_attend, *_ATTEND_PARAMETERS)(attention)


def _checked_attention(q, k, v, causal, scale, window, lens, bias, lse, gradients, deterministic):
    "Compute `attention` after checks of all operands and options"
    check_qkv(q, k, v)
    scale, window = _check_options(q, scale, window, bias, gradients, deterministic)
    lens = _pack_lens(q, k, lens)
    if choose_backend(q).name != 'sdpa':
        has_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (q, k, v))
        if bias and gradients == 'sdpa' and has_gradient:
            raise ValueError("attention: SDPA does not support a bias in C: use gradients='kernel'")
        method = 'deterministic' if deterministic else gradients
        out_and_lse = _apply_attention(q, k, v, bool(causal), scale, window, lens, bias, method)
        return out_and_lse if lse else out_and_lse[0]
    for name, option in dict(bias=bias, lse=lse).items():
        if option:
            reason = choose_backend(q).reason
            raise ValueError(
                f'attention: {name} needs the kernels of this package, but SDPA computes this call: {reason}'
            )
    return _sdpa(q, k, v, bool(causal), scale, window, lens)
