"""`conv2d` convolves images, with our kernels or with torch; `explain_conv2d` returns the choice and its reason."""

import torch
import torch.nn.functional as F

from . import implicit_gemm, nhwc_tiles, tiles
from .problems import Convolution, check_conv2d, convolution, depthwise_fallback, is_channels_last, padding_pair, pair
from .problems import plane_fallback_reason
from ..launch_replay import differentiable_once, differentiate_eagerly, replay_entry_point, needs_autograd, replayable
from ..common import Explanation, dtype_name, launch
from ..ladder import current_device_properties
from ..operators import operator

_SIZES = 'SymInt sh, SymInt sw, SymInt ph, SymInt pw, SymInt dh, SymInt dw, SymInt groups'


def _problem(x, weight, sh, sw, ph, pw, dh, dw, groups) -> Convolution:
    "Return the sizes of a call whose pairs are passed as integers, as a torch operator requires"
    return convolution(x, weight, (sh, sw), (ph, pw), (dh, dw), groups)


def _uses_tiles(problem, x, weight) -> bool:
    "Return whether x is stored channels last, and the kernel with tiles in shared memory convolves it"
    addresses = x.data_ptr(), weight.data_ptr()
    return is_channels_last(x) and nhwc_tiles.supports_tiles(
        problem, dtype_name(x), addresses, current_device_properties()
    )


def _fallback_reason(problem, x, weight) -> str:  # None if our kernel computes it
    "Return the reason why torch computes a convolution"
    if problem.is_depthwise:
        reason = depthwise_fallback(problem, x, _uses_tiles(problem, x, weight))
        is_on_gpu = x.is_cuda and not is_channels_last(x)
        return reason or (plane_fallback_reason(problem, x) if is_on_gpu else None)
    if problem.groups > 1:
        return f'{problem.groups} groups of several channels: torch computes a GEMM per group'
    return implicit_gemm.dense_fallback(problem, x, weight, current_device_properties())


def _torch_conv2d(x, weight, bias, sh, sw, ph, pw, dh, dw, groups):
    return F.conv2d(x, weight, bias, (sh, sw), (ph, pw), (dh, dw), groups)


def _empty_result(x, weight, bias, *sizes):
    "Return an empty result, as torch stores it: channels last if x is"
    problem = _problem(x, weight, *sizes)
    shape = problem.images, problem.out_channels, *problem.out_size
    layout = torch.channels_last if is_channels_last(x) else torch.contiguous_format
    return torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=layout)


def _launch_depthwise(problem, x, weight, bias, y, flip=False):
    "Launch a depthwise convolution"
    if not y.numel():
        return
    dtype, has_bias, device = dtype_name(x), bias is not None, current_device_properties()
    addresses = x.data_ptr(), y.data_ptr(), weight.data_ptr()
    if is_channels_last(x):
        launches = nhwc_tiles.nhwc_launches(problem, dtype, addresses, has_bias, flip, device)
        x, y = (tensor.permute(0, 2, 3, 1) for tensor in (x, y))  # contiguous views
    else:
        alignment = tiles.plane_alignment(problem, dtype, addresses[:2])
        launches = tiles.depthwise_launches(problem, dtype, alignment, has_bias, flip, device)
    launch(launches, x, weight=weight, bias=bias if has_bias else weight, y=y)


@operator(f'conv2d(Tensor x, Tensor weight, Tensor? bias, {_SIZES}) -> Tensor', _empty_result, _torch_conv2d)
def _conv2d(x, weight, bias, *sizes):
    problem = _problem(x, weight, *sizes)
    if _fallback_reason(problem, x, weight):
        return NotImplemented
    y = _empty_result(x, weight, bias, *sizes)
    if problem.is_depthwise:
        _launch_depthwise(problem, x, weight, bias, y)
    elif y.numel():
        _launch_dense(problem, x, weight, bias, y)
    return y


def _launch_dense(problem, x, weight, bias, y):
    "Launch a dense convolution, all of whose operands are stored channels last"
    x, weight, y = (tensor.permute(0, 2, 3, 1) for tensor in (x, weight, y))  # contiguous views
    launches = implicit_gemm.dense_launches(problem, bias is not None, current_device_properties())
    launch(launches, x, weight=weight, bias=weight if bias is None else bias, y=y)


_GRADIENTS = '(Tensor, Tensor, Tensor)'


def _empty_gradients(x, weight, dy, *sizes):
    return torch.empty_like(x), torch.empty_like(weight), x.new_empty(weight.shape[0])


def _torch_gradients(x, weight, dy, sh, sw, ph, pw, dh, dw, groups, has_bias, needs_dx=True):
    "Return the gradients as torch computes them; that of the bias takes long, and is undefined without one"
    pairs, are_needed = ((sh, sw), (ph, pw), (dh, dw)), (needs_dx, True, has_bias)
    dx, dweight, dbias = torch.ops.aten.convolution_backward(
        dy, x, weight, weight.shape[:1], *pairs, False, (0, 0), groups, are_needed
    )
    return dx, dweight, dbias if has_bias else x.new_empty(weight.shape[:1])


@operator(
    f'conv2d_backward(Tensor x, Tensor weight, Tensor dy, {_SIZES}, bool has_bias) -> {_GRADIENTS}',
    _empty_gradients,
    _torch_gradients,
)
def _conv2d_backward(x, weight, dy, *sizes_and_flag):
    *sizes, has_bias = sizes_and_flag
    problem = _problem(x, weight, *sizes)
    gradient = problem.gradient()
    is_dilated_nhwc = is_channels_last(x) and problem.dilation != (1, 1)
    if problem.stride != (1, 1) or min(gradient.padding) < 0 or not x.numel() or is_dilated_nhwc:
        return NotImplemented
    dx, dweight, dbias = _empty_gradients(x, weight, dy, *sizes)
    _launch_depthwise(gradient, dy, weight, None, dx, flip=True)
    if is_channels_last(x) and x.is_cuda and x.element_size() == 2:  # cuDNN was 2 to 5 times faster on an H200
        _, dweight, dbias = _torch_gradients(x, weight, dy, *sizes, has_bias, needs_dx=False)
        return dx, dweight.contiguous(), dbias
    _launch_depthwise_weight(problem, x, dy, dweight, dbias)
    return dx, dweight, dbias


def _launch_depthwise_weight(problem, x, dy, dweight, dbias):
    "Launch the gradients of the weight and of the bias"
    dtype, device = dtype_name(x), current_device_properties()
    if is_channels_last(x):
        launches, splits = tiles.depthwise_nhwc_weight_launches(problem, dtype, device)
        x, dy = (tensor.permute(0, 2, 3, 1) for tensor in (x, dy))  # contiguous views
    else:
        alignment = tiles.plane_alignment(problem, dtype, (x.data_ptr(), dy.data_ptr()))
        launches, splits = tiles.depthwise_weight_launches(problem, dtype, alignment, device)
    size = splits * (dweight.numel() + dbias.numel())
    partials = torch.empty(size, dtype=torch.float32, device=x.device)
    launch(launches, x, dy=dy, partials=partials, dweight=dweight, dbias=dbias)


def _stored_as(dy, x):
    "Return a gradient in the layout of x"
    return dy.contiguous(memory_format=torch.channels_last if is_channels_last(x) else torch.contiguous_format)


class _Conv2d(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, *sizes):
        ctx.save_for_backward(x, weight)
        ctx.sizes, ctx.has_bias = sizes, bias is not None
        return _conv2d(x, weight, bias, *sizes)

    @staticmethod
    @differentiable_once
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dx, dweight, dbias = _conv2d_backward(x, weight, _stored_as(dy, x), *ctx.sizes, ctx.has_bias)
        return dx, dweight, dbias if ctx.has_bias else None, *[None] * len(ctx.sizes)


def _torch_function(x, *_):
    "Return a function that convolves with torch; unless x is contiguous or channels last, it copies x first"
    return torch.conv2d if x.is_contiguous() or is_channels_last(x) else _convolve_copy


def _convolve_copy(x, *args):
    return torch.conv2d(x.contiguous(), *args)


def _convolve_by_torch(*args):
    return _torch_function(*args)(*args)


def _run_without_gradient(*args):
    "Compute `conv2d` without a gradient"
    x, weight, bias, *sizes = _arguments(*args)
    if _fallback_reason(_problem(x, weight, *sizes), x, weight):
        return NotImplemented
    return _conv2d(x, weight, bias, *sizes)


def _has_gradient_kernels(problem, x, weight):
    "Return whether our kernels compute a convolution with its gradients"
    uses_tiles = x.element_size() == 2 and _uses_tiles(problem, x, weight)  # gradients of float32 are not measured
    return problem.is_depthwise and not depthwise_fallback(problem, x, uses_tiles)


def _is_torch_differentiated(*args):
    "Return whether torch computes `conv2d` if a gradient is needed, too"
    x, weight, _, *sizes = _arguments(*args)
    return not _has_gradient_kernels(_problem(x, weight, *sizes), x, weight)


_convolve = replayable(
    _run_without_gradient,
    _convolve_by_torch,
    make_torch_function=_torch_function,
    is_torch_differentiated=_is_torch_differentiated,
)


# With gradients, our kernels finish before our Python code, which takes this many microseconds on an H200. torch's
# kernels take the other times per million elements and tap: (NCHW, channels last)
_PYTHON_US, _TORCH_US, _TORCH_TAP_US = 200, (20, 10), (2.3, 0.5)


def _is_host_bound(x, weight):
    "Return whether torch computes a depthwise convolution with its gradients before our Python code has launched ours"
    taps, layout = weight.shape[2] * weight.shape[3], is_channels_last(x)
    return x.is_cuda and x.numel() * (_TORCH_US[layout] + _TORCH_TAP_US[layout] * taps) <= 1e6 * _PYTHON_US


def _convolve_with_kernels(*args):
    "Compute `conv2d` with our depthwise kernels and autograd"
    return _Conv2d.apply(*_arguments(*args))


def _differentiable_conv2d(*args):
    "Compute `conv2d` with autograd; the table stores that torch does, where it does"
    x, weight, bias, *sizes = _arguments(*args)
    if _has_gradient_kernels(_problem(x, weight, *sizes), x, weight):
        if x.numel() and _is_host_bound(x, weight):
            return differentiate_eagerly(_convolve, _convolve_with_kernels, _torch_function, *args)
        return _convolve_with_kernels(*args)
    if not torch.compiler.is_compiling() and (table := _convolve.table_for(*args)) is not None:
        table.use_function(_torch_function(*args), args, True)
    return _convolve_by_torch(*args)


@replay_entry_point(_convolve, 'x', 'weight', 'bias', 'stride', 'padding', 'dilation', 'groups')
def conv2d(
    x,  # (images, channels, height, width) of float32, float16 or bfloat16; contiguous or channels last, else copied
    weight,  # (out_channels, channels per group, height, width), of the same dtype
    bias=None,  # (out_channels,)
    stride=1,  # an integer, or a pair for (height, width); likewise below
    padding=0,  # zeros on each side; or 'valid' (none), or 'same' (the result is as large as x, with a stride of 1)
    dilation=1,  # the distance between taps
    groups=1,  # channels: a depthwise convolution, whose weight is (channels, 1, height, width)
):  # (images, out_channels, height, width), stored as x is; accumulated in float32
    """Convolve images with small filters, as `F.conv2d` does; differentiable. Our kernels compute the depthwise
    convolutions for which they are faster (differentiable once); torch (cuDNN) computes all other convolutions, and all
    gradients of dense ones. With a gradient, torch also computes small depthwise convolutions, except in CUDA graphs,
    because our Python code would take longer than the kernels. `explain_conv2d` returns the implementation, and the
    reason.

        conv2d(x, weight, padding=3, groups=x.shape[1])

    Raises TypeError and ValueError for arguments that are not supported."""
    args = x, weight, bias, stride, padding, dilation, groups
    if not torch.compiler.is_dynamo_compiling():
        if (y := _convolve.fast(*args)) is not None:
            return y
    return _differentiable_conv2d(*args) if needs_autograd(x, weight, bias) else _convolve(*args)


def _arguments(x, weight, bias, stride, padding, dilation, groups) -> tuple:
    "Return the checked arguments, with pairs as separate integers, and x contiguous or channels last"
    check_conv2d(x, weight, bias, groups)
    stride, dilation = pair('stride', stride, 1), pair('dilation', dilation, 1)
    padding = padding_pair(padding, tuple(weight.shape[2:]), dilation)
    convolution(x, weight, stride, padding, dilation, groups)
    x = x if is_channels_last(x) else x.contiguous()
    return x, weight.contiguous() if groups > 1 else weight, bias, *stride, *padding, *dilation, groups


def explain_conv2d(
    x,
    weight,
    bias=None,
    stride=1,
    padding=0,
    dilation=1,
    groups=1,  # as for `conv2d`
) -> Explanation:
    """Return the kernels that `conv2d` launches, or () if torch computes the result, and the reason.

    explain_conv2d(x, weight, padding=1, groups=x.shape[1])"""
    x, weight, bias, *sizes = _arguments(x, weight, bias, stride, padding, dilation, groups)
    problem = _problem(x, weight, *sizes)
    if reason := _fallback_reason(problem, x, weight):
        return Explanation((), reason)
    if not problem.is_depthwise:
        return Explanation(('dense',), implicit_gemm.REASON)
    if needs_autograd(x, weight, bias) and _is_host_bound(x, weight) and not torch.cuda.is_current_stream_capturing():
        return Explanation((), 'the launch overhead would exceed the time of our kernels; capture them in a CUDA graph')
    if _uses_tiles(problem, x, weight):
        return Explanation(('depthwise_nhwc_tile',), 'a depthwise convolution, channels last: tiles in shared memory')
    if is_channels_last(x):
        return Explanation(('depthwise_nhwc',), 'a depthwise convolution, channels last: one thread per two channels')
    return Explanation(('depthwise',), 'a depthwise convolution, NCHW: each element of x is loaded once per tile')
