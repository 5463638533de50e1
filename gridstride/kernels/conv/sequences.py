"""`conv1d`: depthwise causal convolution of sequences, as in Mamba; `conv1d_update`: one step of it."""

from functools import lru_cache

import torch

from .sources import DTYPE_BYTES, kernel_source
from ..launch_replay import differentiable_once, needs_autograd
from ..common import check_matches, check_tensor, dtype_name, launch, pow2_clamp, reject_gradient, to_contiguous
from ..common import vector_width
from ..ladder import KernelLaunch
from ..ladder.launches import Int64
from ..operators import operator
from ...utils import cdiv

_THREADS = 128
_VECS_PER_THREAD = 2  # vectors per thread, at most; with more, registers spill
_MAX_TAPS = 8
_ACTIVATIONS = None, 'silu'


def _check(op_name, x, weight, bias, activation, dims):
    "Raise `TypeError` or `ValueError` for operands that are not supported; `dims`: axes of x"
    check_tensor(op_name, x, DTYPE_BYTES)
    if x.dim() != dims:
        expected = '(sequences, channels, length)' if dims == 3 else '(sequences, channels)'
        raise ValueError(f'{op_name}: x has shape {tuple(x.shape)}; expected {expected}')
    taps = weight.shape[-1] if hasattr(weight, 'data_ptr') and weight.dim() == 2 else 0
    check_matches(op_name, 'weight', weight, x, (x.shape[1], min(max(2, taps), _MAX_TAPS)))
    if bias is not None:
        check_matches(op_name, 'bias', bias, x, x.shape[1:2])
    if activation not in _ACTIVATIONS:
        raise ValueError(f"{op_name}: activation is {activation!r}; expected None or 'silu'")


# Launches
def _flags(has_bias, silu, state=False, final=False):
    return dict(BIAS=has_bias, SILU=silu, STATE=state, FINAL=final)


@lru_cache(1024)
def causal_launches(dtype, rows, channels, length, taps, vec_size, flags) -> list:  # of `KernelLaunch`
    "Return the launch for `rows` rows of `length` elements; `flags`: the items of the dict that `_flags` returns"
    vectors = cdiv(length, vec_size)
    vecs_per_thread = pow2_clamp(cdiv(vectors, 32), 1, _VECS_PER_THREAD)
    row_threads = pow2_clamp(2 * cdiv(vectors, vecs_per_thread) - 1, 1, _THREADS)
    constants = dict(W=taps, V=vec_size, ROW_THREADS=row_threads, VECS_PER_THREAD=vecs_per_thread, THREADS=_THREADS)
    constants |= dict(flags)
    chunks = cdiv(length, row_threads * vecs_per_thread * vec_size)
    arrays, scalars = ('x', 'weight', 'bias', 'state', 'y', 'final_state'), (Int64(rows), channels, length, chunks)
    src, grid = (
        kernel_source('causal', dtype, tuple(constants.items())),
        (cdiv(rows, _THREADS // row_threads) * chunks,),
    )
    return [KernelLaunch(src, 'causal', arrays, scalars, grid, (_THREADS,))]


@lru_cache(1024)
def causal_backward_launches(dtype, sequences, channels, length, taps, vec_size, flags) -> list:  # of `KernelLaunch`
    "Return the launch of the gradients"
    threads = pow2_clamp(2 * cdiv(sequences * length, vec_size) - 1, 32, 256)
    constants = dict(W=taps, V=vec_size, THREADS=threads, **dict(flags))
    src = kernel_source('causal_backward', dtype, tuple(constants.items()))
    arrays = 'x', 'weight', 'bias', 'state', 'dy', 'dfinal', 'dx', 'dweight', 'dbias', 'dstate'
    return [KernelLaunch(src, 'causal_backward', arrays, (sequences, channels, length), (channels,), (threads,))]


@lru_cache(1024)
def causal_update_launches(dtype, rows, channels, taps, has_bias, silu) -> list:  # of `KernelLaunch`
    "Return the launch of one step"
    constants = dict(W=taps, THREADS=_THREADS, BIAS=has_bias, SILU=silu)
    src = kernel_source('causal_update', dtype, tuple(constants.items()))
    arrays = 'x', 'state', 'weight', 'bias', 'y'
    return [KernelLaunch(src, 'causal_update', arrays, (rows, channels), (cdiv(rows, _THREADS),), (_THREADS,))]


# Operators
def _empty_results(x, weight, bias, state, silu):
    return torch.empty_like(x), x.new_empty(*x.shape[:2], weight.shape[1] - 1)


def _vector_width(*tensors):
    return min(vector_width(x.data_ptr(), x.element_size(), 2, x.shape[-1]) for x in tensors)


@operator('conv1d(Tensor x, Tensor weight, Tensor? bias, Tensor? state, bool silu) -> (Tensor, Tensor)', _empty_results)
def _conv1d(x, weight, bias, state, silu):
    y, final_state = _empty_results(x, weight, bias, state, silu)
    sequences, channels, length = x.shape
    if y.numel():
        flags = tuple(_flags(bias is not None, silu, state is not None, True).items())
        args = dtype_name(x), sequences * channels, channels, length, weight.shape[1], _vector_width(x, y), flags
        others = dict(bias=weight if bias is None else bias, state=x if state is None else state)
        launch(causal_launches(*args), x, weight=weight, y=y, final_state=final_state, **others)
    elif final_state.numel():
        final_state.copy_(state) if state is not None else final_state.zero_()
    return y, final_state


def _empty_gradients(x, weight, bias, state, dy, dfinal, silu):
    history = weight.shape[1] - 1
    dstate = x.new_empty(*x.shape[:2], history if state is not None else 0)
    return torch.empty_like(x), torch.empty_like(weight), x.new_empty(x.shape[1] if bias is not None else 0), dstate


@operator(
    'conv1d_backward(Tensor x, Tensor weight, Tensor? bias, Tensor? state, Tensor dy, Tensor? dfinal, bool silu)'
    ' -> (Tensor, Tensor, Tensor, Tensor)',
    _empty_gradients,
)
def _conv1d_backward(x, weight, bias, state, dy, dfinal, silu):
    dx, dweight, dbias, dstate = _empty_gradients(x, weight, bias, state, dy, dfinal, silu)
    sequences, channels, length = x.shape
    if not x.numel():
        return dx, dweight.zero_(), dbias.zero_(), dstate.zero_() if dfinal is None else dstate.copy_(dfinal)
    flags = tuple(_flags(bias is not None, silu, state is not None, dfinal is not None).items())
    args = dtype_name(x), sequences, channels, length, weight.shape[1], _vector_width(x, dy, dx), flags
    optional = dict(bias=bias, state=state, dfinal=dfinal)
    others = {name: x if tensor is None else tensor for name, tensor in optional.items()}
    results = dict(dx=dx, dweight=dweight, dbias=dbias, dstate=dstate)
    launch(causal_backward_launches(*args), x, weight=weight, dy=dy, **others, **results)
    return dx, dweight, dbias, dstate


class _Conv1d(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, state, silu):
        ctx.save_for_backward(x, weight, bias, state)
        ctx.silu = silu
        ctx.set_materialize_grads(False)
        return _conv1d(x, weight, bias, state, silu)

    @staticmethod
    @differentiable_once
    def backward(ctx, dy, dfinal):
        x, weight, bias, state = ctx.saved_tensors
        dy = torch.zeros_like(x) if dy is None else dy.contiguous()
        dfinal = None if dfinal is None else dfinal.contiguous()
        dx, dweight, dbias, dstate = _conv1d_backward(x, weight, bias, state, dy, dfinal, ctx.silu)
        return dx, dweight, None if bias is None else dbias, None if state is None else dstate, None


def conv1d(
    x,  # (sequences, channels, length) of float32, float16 or bfloat16; if it is not contiguous, it is copied first
    weight,  # (channels, taps), 2 to 8 taps
    bias=None,  # (channels,)
    activation=None,  # 'silu': y * sigmoid(y)
    initial_state=None,  # (sequences, channels, taps - 1): the elements before x; None: zeros
    return_final_state=False,  # True: return (y, the last taps - 1 elements), from which the next call continues
):  # a tensor like x
    """Convolve each channel of the sequences causally with its own filter, as Mamba's layers do: y[t] = bias + the sum
    of weight[k] * x[t - (taps - 1) + k]; differentiable once, accumulated in float32.

        y, state = conv1d(x, weight, bias, 'silu', return_final_state=True)

    Raises TypeError and ValueError for arguments that are not supported."""
    x, weight = to_contiguous(x), to_contiguous(weight)
    _check('conv1d', x, weight, bias, activation, 3)
    if initial_state is not None:
        initial_state = to_contiguous(initial_state)
        check_matches('conv1d', 'initial_state', initial_state, x, (*x.shape[:2], weight.shape[1] - 1))
    args = x, weight, bias, initial_state, activation == 'silu'
    run = _Conv1d.apply if needs_autograd(*args[:4]) else _conv1d.eager
    y, final_state = run(*args)
    return (y, final_state) if return_final_state else y


@operator(
    'conv1d_update(Tensor x, Tensor(a!) state, Tensor weight, Tensor? bias, bool silu) -> Tensor',
    lambda x, state, weight, bias, silu: torch.empty_like(x),
)
def _conv1d_update(x, state, weight, bias, silu):
    y = torch.empty_like(x)
    if y.numel():
        args = dtype_name(x), x.numel(), x.shape[1], weight.shape[1], bias is not None, silu
        launch(causal_update_launches(*args), x, state=state, weight=weight, bias=weight if bias is None else bias, y=y)
    return y


def conv1d_update(
    x,  # (sequences, channels): one element per channel
    state,  # (sequences, channels, taps - 1), contiguous: the elements before x; x is appended, in place
    weight,  # this and the next are as for `conv1d`
    bias=None,
    activation=None,
):  # a tensor like x
    """Continue `conv1d` by one step, as in decoding.

        y = conv1d_update(x, state, weight, bias, 'silu')

    Raises TypeError and ValueError for arguments that are not supported, and for those that require a gradient."""
    x, weight = to_contiguous(x), to_contiguous(weight)
    _check('conv1d_update', x, weight, bias, activation, 2)
    check_matches('conv1d_update', 'state', state, x, (*x.shape, weight.shape[1] - 1))
    for tensor in (x, state, weight, bias):
        reject_gradient('conv1d_update', tensor)
    return _conv1d_update.eager(x, state, weight, bias, activation == 'silu')
