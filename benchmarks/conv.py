"""`gridstride.kernels.conv2d`, `conv1d` and `conv1d_update` against torch's (cuDNN), on a GPU: layers of public models,
and random shapes.

    python conv.py > conv.txt            # all parts, in a minute; writes conv.json
    python conv.py depthwise causal      # some parts; writes nothing
    python conv.py --seconds .3          # of timing per candidate (0.05)

Each result is first compared with torch's; the candidates are then timed interleaved. Times are medians of GPU time
with the L2 cache overwritten before each run; ratios are medians over the rounds, with their 95% interval. GB/s count
the bytes that must be read and written. `ours` is our kernel even where `conv2d` calls torch, which (torch) in a row's
name shows.
"""
import contextlib, functools, math, random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import torch.nn.functional as F
from gridstride import kernels
from gridstride.bench import compare
from gridstride.kernels.conv import images as conv_images
from gridstride.kernels.conv import implicit_gemm, problems
from gridstride.kernels.ladder.ladder import GpuClock

import rows

HERE = Path(__file__).parent
FLOAT, BFLOAT = torch.float32, torch.bfloat16
ROUNDING = {FLOAT: 1e-4, BFLOAT: 2e-2}

# model, images, channels, height and width, kernel, stride
DEPTHWISE = [('ConvNeXt-T 1', 64, 96, 56, 7, 1), ('ConvNeXt-T 2', 64, 192, 28, 7, 1),
             ('ConvNeXt-T 3', 64, 384, 14, 7, 1), ('ConvNeXt-T 4', 64, 768, 7, 7, 1),
             ('MobileNetV2', 64, 32, 112, 3, 1), ('MobileNetV2', 64, 96, 112, 3, 2),
             ('MobileNetV2', 64, 144, 56, 3, 1), ('MobileNetV2', 64, 384, 14, 3, 1), ('MobileNetV2', 64, 960, 7, 3, 1),
             ('EfficientNet-B0', 64, 144, 56, 5, 2), ('EfficientNet-B0', 64, 240, 28, 5, 1),
             ('EfficientNet-B0', 64, 672, 14, 5, 1), ('MobileNetV2', 1, 144, 56, 3, 1),
             ('ConvNeXt-T 3', 1, 384, 14, 7, 1)]
# model, images, channels, height and width, out_channels, kernel, stride, padding
DENSE = [('ResNet-50 stem', 64, 3, 224, 64, 7, 2, 3), ('ResNet-50', 64, 64, 56, 64, 3, 1, 1),
         ('ResNet-50', 64, 128, 28, 128, 3, 1, 1), ('ResNet-50', 64, 256, 14, 256, 3, 1, 1),
         ('ResNet-50', 64, 512, 7, 512, 3, 1, 1), ('ResNet-50', 64, 256, 56, 64, 1, 1, 0),
         ('ResNet-50', 64, 1024, 14, 256, 1, 1, 0), ('ResNet-50', 1, 256, 14, 256, 3, 1, 1),
         ('ViT-B patches', 64, 3, 224, 768, 16, 16, 0), ('VAE', 1, 128, 512, 128, 3, 1, 1),
         ('VAE', 1, 512, 64, 512, 3, 1, 1), ('VAE', 1, 512, 128, 256, 3, 1, 1)]
# model, sequences, channels, length, taps
CAUSAL = [('Mamba-130M', 8, 1536, 2048, 4), ('Mamba-370M', 8, 2048, 2048, 4), ('Mamba-790M', 4, 3072, 2048, 4),
          ('Mamba-1.4B', 4, 4096, 2048, 4), ('Mamba-2.8B', 2, 5120, 2048, 4), ('Mamba-2.8B', 1, 5120, 512, 4)]


def normal(dtype, *shape): return torch.randn(shape, device='cuda').to(dtype)


LAYOUTS = dict(nchw=torch.contiguous_format, nhwc=torch.channels_last)


CHOICES = (problems, '_nhwc_fallback_reason'), (implicit_gemm, 'is_faster'), (conv_images, '_is_host_bound')
CHOSEN = [getattr(*choice) for choice in CHOICES]
OURS = (lambda problem, x, uses_tiles: None), (lambda problem: True), (lambda x, weight: False)


def choose(*functions):
    "Set by what `conv2d` chooses between our kernels and torch"
    for choice, function in zip(CHOICES, functions): setattr(*choice, function)


def explain(*operands, **options):
    "What `conv2d` chooses; what is measured is ours"
    choose(*CHOSEN)
    try: return kernels.explain_conv2d(*operands, **options)
    finally: choose(*OURS)


def images(what, dtype, layout, n, channels, size, out_channels, kernel, stride, padding, groups):
    "Yield a job of one layer"
    x = normal(dtype, n, channels, *size).to(memory_format=LAYOUTS[layout])
    weight = (normal(dtype, out_channels, channels//groups, kernel, kernel)/kernel).to(memory_format=LAYOUTS[layout])
    options = dict(stride=stride, padding=padding, groups=groups)
    def by_torch(): return F.conv2d(x, weight, **options)
    y, why = by_torch(), explain(x, weight, **options)
    name = f'{what} {layout} {kernel}x{kernel}{f"/{stride}" if stride > 1 else ""}'
    yield name + ('' if why.kernels else ' (torch)'), x, dict(
        ours=lambda: kernels.conv2d(x, weight, **options), torch=by_torch), x.nbytes + y.nbytes


def compiled(jobs):
    "Return a function that yields the jobs of `jobs`, whose kernels were compiled in parallel"
    def first(job):
        with contextlib.suppress(Exception): job[2]['ours']()       # the error is raised again when it is measured
    @functools.wraps(jobs)
    def run():
        made = list(jobs())
        with ThreadPoolExecutor(16) as pool: list(pool.map(first, made))
        while made: yield made.pop(0)
    return run


@compiled
def depthwise():
    for dtype in (FLOAT, BFLOAT):
        for layout in LAYOUTS:
            for what, n, channels, size, kernel, stride in DEPTHWISE:
                yield from images(what, dtype, layout, n, channels, (size, size), channels, kernel, stride, kernel//2,
                                  channels)


@compiled
def dense():
    for what, n, channels, size, out_channels, kernel, stride, padding in DENSE:
        yield from images(what, BFLOAT, 'nhwc', n, channels, (size, size), out_channels, kernel, stride, padding, 1)


def log_uniform(low, high): return int(2**random.uniform(math.log2(low), math.log2(high)))


@compiled
def random_depthwise():
    random.seed(15)
    for i in range(24):
        n, channels, height, width = (log_uniform(*o) for o in ((1, 128), (16, 1024), (7, 128), (7, 128)))
        while n*channels*height*width > 2**28: n = -(-n//2)
        kernel = random.choice((3, 5, 7))
        yield from images('random', (FLOAT, BFLOAT)[i % 2], ('nchw', 'nhwc')[i//2 % 2], n, channels, (height, width),
                          channels, kernel, random.choice((1, 1, 2)), kernel//2, channels)


def sequence(what, dtype, n, channels, length, taps):
    "Yield the jobs of one layer: forward, and forward with backward"
    x, weight, bias = normal(dtype, n, channels, length), normal(dtype, channels, taps), normal(dtype, channels)
    def by_torch(x, weight, bias):
        return F.silu(F.conv1d(x, weight[:, None], bias, padding=taps - 1, groups=channels)[..., :length])
    def ours(x, weight, bias): return kernels.conv1d(x, weight, bias, 'silu')
    calls = {name: lambda f=f: f(x, weight, bias) for name, f in (('ours', ours), ('torch', by_torch))}
    yield f'{what} W={taps}', x, calls, 2*x.nbytes
    given, dy = [o.detach().requires_grad_() for o in (x, weight, bias)], torch.randn_like(x)
    runs = {name: rows.capture_graph(lambda f=f: rows.make_backward(f, given, dy))
            for name, f in (('ours', ours), ('torch', by_torch))}
    yield f'{what} W={taps} backward', x, runs, 3*x.nbytes


def causal():
    for dtype in (FLOAT, BFLOAT):
        for layer in CAUSAL: yield from sequence(layer[0], dtype, *layer[1:])
    for i in range(8):
        random.seed(100 + i)
        yield from sequence('random', (FLOAT, BFLOAT)[i % 2], log_uniform(1, 16), log_uniform(256, 5120),
                            log_uniform(64, 8192), random.randint(2, 4))


def update():
    for dtype in (FLOAT, BFLOAT):
        for what, n, channels, _, taps in CAUSAL[::2]:
            x, weight, bias = normal(dtype, 64, channels), normal(dtype, channels, taps), normal(dtype, channels)
            state = normal(dtype, 64, channels, taps - 1)
            states = [state, state.clone()]
            def by_torch():
                window = torch.cat([states[0], x[..., None]], -1)
                states[0].copy_(window[..., 1:])
                return F.silu((window*weight).sum(-1) + bias)
            yield f'{what} W={taps} step', x, dict(
                ours=lambda: kernels.conv1d_update(x, states[1], weight, bias, 'silu'), torch=by_torch), \
                2*x.nbytes + 2*state.nbytes


def backward():
    for dtype, layout in ((FLOAT, 'nchw'), (BFLOAT, 'nchw'), (BFLOAT, 'nhwc')):
        for what, n, channels, size, kernel, stride in DEPTHWISE[:12]:
            if stride > 1: continue
            x = normal(dtype, n, channels, size, size).to(memory_format=LAYOUTS[layout]).requires_grad_()
            weight, dy = normal(dtype, channels, 1, kernel, kernel).requires_grad_(), torch.randn_like(x)
            runs = {name: rows.capture_graph(lambda f=f: rows.make_backward(
                lambda x, w: f(x, w, padding=kernel//2, groups=channels), (x, weight), dy))
                for name, f in (('ours', kernels.conv2d), ('torch', F.conv2d))}
            yield f'{what} {layout} {kernel}x{kernel} backward', x, runs, 3*x.nbytes


PARTS = dict(depthwise=depthwise, random=random_depthwise, causal=causal, update=update, backward=backward, dense=dense)


def check(candidates):
    "Raise unless ours is near torch's; of several results, each"
    got, want = ([*o] if isinstance(o, tuple) else [o] for o in (candidates['ours'](), candidates['torch']()))
    for a, b in zip(got, want):
        bound = ROUNDING[b.dtype]
        torch.testing.assert_close(a.float(), b.float(), rtol=bound, atol=bound*max(1., b.float().abs().max().item()/4))


def measure(job, seconds):
    "Yield the rows of a job, or one row with the error"
    what, x, candidates, size = job
    goal = None if '(torch)' in what or 'backward' in what else 1.2
    try:
        check(candidates)
        functions = {name: lambda _, f=f: f() for name, f in candidates.items()}
        comparison = compare(functions, x, baseline='ours', check=lambda got: None, seconds=seconds, clock=GpuClock())
        for other in candidates:
            if other != 'ours':
                yield rows.comparison_row(what, x, comparison, other, goal if other == 'torch' else None, size)
    except Exception as error: yield rows.failed_row(what, x, error)


def format_row(row): return rows.format_row(row, tool=30, dtype=9, shape=16, other=6, us=7, gbs=5)


if __name__ == '__main__':
    choose(*OURS)
    rows.run(__doc__, PARTS, measure, format_row, HERE/'conv.json', .05)
