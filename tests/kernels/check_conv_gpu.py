"""What only a GPU can check of `conv2d`, `conv1d` and `conv1d_update`: shapes of models and random ones, against
float64, with gradients, on other streams and in graphs. By hand, from the root of the repository:

    python tests/kernels/check_conv_gpu.py                          # all; a minute. benchmarks/conv.py has the times
"""
import random

import torch
import torch.nn.functional as F
from checking import compiled_together, differs_elsewhere, run
from gridstride.kernels import conv1d, conv1d_update, conv2d, explain_conv2d
from gridstride.kernels.conv import images, implicit_gemm, problems

DTYPES = torch.float32, torch.bfloat16, torch.float16
# (images, channels, height, width), kernel, stride, padding, dilation
DEPTHWISE = [((2, 96, 56, 56), 7, 1, 3, 1), ((5, 300, 7, 7), 7, 1, 3, 1), ((2, 16, 112, 112), 3, 1, 1, 1),
             ((2, 36, 113, 115), 3, 2, 1, 1), ((4, 70, 28, 28), 5, 1, 2, 1), ((1, 3, 224, 225), 5, 2, 0, 1),
             ((2, 8, 65, 67), 3, 1, 4, 4), ((300, 5, 1, 1), 1, 1, 0, 1), ((1, 1, 1, 300), 3, 1, 1, 1)]
ROUNDING = {torch.float32: 2**-22, torch.bfloat16: 2**-8, torch.float16: 2**-10}


def near(what, got, want, rounding, terms):
    "`terms`: the sum of the absolute values of the products, whose rounding adds up in float32"
    error = (got.double() - want).abs() / (rounding * want.abs() + 2**-18 * terms + 1e-30)
    if not error.max() <= 1: yield f'{what}: {error.max():.2f} of the bound'


def shapes():
    random.seed(0)
    yield from DEPTHWISE
    for _ in range(2):
        kernel, dilation = random.randint(1, 7), random.choice((1, 1, 2, 3))
        shape = random.randint(1, 5), random.randint(1, 100), *(int(2**random.uniform(4.4, 6.5)) for _ in range(2))
        yield shape, kernel, random.choice((1, 2)), random.randint(0, dilation*(kernel - 1)), dilation


def depthwise_is_right(*names):
    "Of all dtypes, or of those that are named; by our kernels, even where torch is faster"
    torch.manual_seed(0)
    problems._nhwc_fallback_reason = lambda problem, x, uses_tiles: None
    images._is_host_bound = lambda x, weight: False     # torch rounds a 16-bit result before it adds the bias
    cases = [(dtype, layout, *shape) for dtype in [getattr(torch, name) for name in names] or DTYPES
             for i, shape in enumerate(shapes())
             for layout in [(torch.contiguous_format, torch.channels_last)[(i + DTYPES.index(dtype)) % 2]]]
    conv2d(*(torch.ones(1, 1, 3, 3, device='cuda') for _ in range(2)))       # torch's context, before the threads
    compiled_together(lambda case=case: run_depthwise(*case) for case in cases)
    for case in cases: yield from check_depthwise(*case)


def run_depthwise(dtype, layout, shape, kernel, stride, padding, dilation):
    "Return the operands, whose gradients are computed, the options, the result and its gradient"
    x = torch.randn(shape, device='cuda', dtype=dtype).to(memory_format=layout).requires_grad_()
    weight = torch.randn(shape[1], 1, kernel, kernel, device='cuda', dtype=dtype, requires_grad=True)
    bias = torch.randn(shape[1], device='cuda', dtype=dtype, requires_grad=True)
    options = stride, padding, dilation, shape[1]
    y = conv2d(x, weight, bias, *options)
    dy = torch.randn_like(y)
    y.backward(dy)
    return (x, weight, bias), options, y, dy


def check_depthwise(dtype, layout, shape, *kernel_and_options):
    what = f'{dtype} {shape} {kernel_and_options} {layout}'
    ours, options, y, dy = run_depthwise(dtype, layout, shape, *kernel_and_options)
    exact, sizes = ([f(o.detach().double()).requires_grad_() for o in ours] for f in (torch.clone, torch.abs))
    want, terms = (F.conv2d(*o, *options) for o in (exact, sizes))
    yield from near(what, y, want, ROUNDING[dtype], terms)
    kernel, stride, padding, dilation = kernel_and_options
    is_dilated_nhwc = layout is torch.channels_last and dilation > 1
    if stride > 1 or is_dilated_nhwc or padding > dilation*(kernel - 1): return     # their gradients are cuDNN's
    want.backward(dy.double())
    terms.backward(dy.double().abs())
    for name, a, b, c in zip(('dx', 'dweight', 'dbias'), ours, exact, sizes):
        yield from near(f'{what} {name}', a.grad, b.grad, ROUNDING[dtype], c.grad)


def dense_is_right():
    "Whatever `conv2d` would choose"
    implicit_gemm.is_faster = lambda problem: True
    random.seed(1)
    for i in range(40):
        n, channels, out_channels = random.randint(1, 6), 8*random.randint(1, 40), 8*random.randint(1, 40)
        shape, kernel = (n, channels, random.randint(7, 60), random.randint(7, 60)), random.choice((1, 2, 3, 5, 7))
        options = random.choice((1, 2)), random.randint(0, kernel - 1), random.choice((1, 1, 2)) if kernel <= 3 else 1
        x, weight = (torch.randn(o, device='cuda', dtype=torch.bfloat16).to(memory_format=torch.channels_last)
                     for o in (shape, (out_channels, channels, kernel, kernel)))
        bias = torch.randn(out_channels, device='cuda', dtype=torch.bfloat16)
        if explain_conv2d(x, weight, bias, *options).kernels != ('dense',): yield f'{shape} {options}: not ours'
        exact = [o.double() for o in (x, weight, bias)]
        terms = F.conv2d(*(o.abs() for o in exact), *options)
        yield from near(f'dense {shape} {out_channels} {kernel} {options}', conv2d(x, weight, bias, *options),
                        F.conv2d(*exact, *options), 2**-8, terms)


def sequence_result(x, weight, bias, state, silu):
    extended = torch.cat([state, x], -1)
    y = F.conv1d(extended, weight[:, None], bias, groups=x.shape[1])
    return F.silu(y) if silu else y, extended[..., x.shape[-1]:]


def sequences_are_right():
    torch.manual_seed(0)
    for dtype in DTYPES:
        for shape in ((2, 1536, 2048), (3, 5120, 64), (1, 7, 4097), (4, 33, 1), (2, 100, 3), (5, 64, 1000)):
            for taps, silu in ((4, True), (3, False), (2, True)):
                def made(*size): return torch.randn(size, device='cuda', dtype=dtype, requires_grad=True)
                ours = made(*shape), made(shape[1], taps), made(shape[1]), made(*shape[:2], taps - 1)
                exact = [o.detach().double().requires_grad_() for o in ours]
                x, weight, bias, state = ours
                y, final = conv1d(x, weight, bias, 'silu' if silu else None, state, True)
                want, want_final = sequence_result(*exact, silu)
                what, rounding, terms = f'{dtype} {shape} {taps} {silu}', ROUNDING[dtype], want.detach().abs() + 8
                yield from near(what, y, want, rounding, terms)
                if not torch.equal(final.double(), want_final): yield f'{what}: the final state'
                dy, dfinal = torch.randn_like(y), torch.randn_like(final)
                torch.autograd.backward((y, final), (dy, dfinal))
                torch.autograd.backward((want, want_final), (dy.double(), dfinal.double()))
                for name, a, b in zip(('dx', 'dweight', 'dbias', 'dstate'), ours, exact):
                    yield from near(f'{what} {name}', a.grad, b.grad, rounding, b.grad.abs().max() + 8)
                with torch.no_grad():
                    steps, at = state.clone(), min(3, shape[2])
                    outs = [conv1d_update(x[..., i].contiguous(), steps, weight, bias, 'silu' if silu else None)
                            for i in range(at)]
                    yield from near(f'{what} steps', torch.stack(outs, -1), want[..., :at], rounding, terms[..., :at])


def on_other_streams():
    x, weight = torch.randn(4, 64, 56, 56, device='cuda'), torch.randn(64, 1, 7, 7, device='cuda')
    assert explain_conv2d(x, weight, padding=3, groups=64).kernels
    yield from differs_elsewhere(lambda x: conv2d(x, weight, padding=3, groups=64), x)
    taps = torch.randn(64, 4, device='cuda')
    yield from differs_elsewhere(lambda x: conv1d(x, taps, activation='silu'), x.view(4, 64, -1))


CHECKS = [depthwise_is_right, dense_is_right, sequences_are_right, on_other_streams]

if __name__ == '__main__': run(CHECKS, {f.__name__: f for f in CHECKS})
