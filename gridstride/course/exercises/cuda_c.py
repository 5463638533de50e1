"""Test cases for the lesson's exercises. Reading this file spoils them."""

import re

import numpy as np
import torch

from ...cpp import cuda_kernel, load_cuda, on_emulator
from ..grading import normal, problem
from ...diagnostics.errors import WrongArgument
from ...sim import KernelError
from ...utils import cdiv, check

__all__ = [
    'PAD',
    'source',
    'without_comments',
    'pad',
    'compile_for_emulator',
    'launch',
    'run',
    'check_elements',
    'random_image',
    'check_rejected',
]


# An answer is a function that returns CUDA C. It is compiled once, thanks to the build cache, and runs on
# every case, on the emulator even on a machine with a GPU, because only the emulator reports every out-of-bounds
# access. Arrays have padding on both sides, in case the checks are disabled.
PAD = 256


def source(fn) -> str:  # CUDA C
    "Return the source that the learner's function returns; raises `AssertionError` if it returns something else"
    src = fn()
    if isinstance(src, str):
        return src
    raise AssertionError(f"return the source as a string, as in return r'''...'''; got {type(src).__name__}")


def without_comments(src) -> str:
    "Return CUDA C without its comments"
    return re.sub(r'//[^\n]*|/\*.*?\*/', '', src, flags=re.S)


def pad(
    a,  # a NumPy array, or a tensor
    fill_value,  # the value of the padding
):  # a 1-D tensor
    "Return the elements of `a` with `PAD` elements of padding on both sides"
    a = torch.as_tensor(a).reshape(-1)
    padding = torch.full((PAD,), fill_value, dtype=a.dtype)
    return torch.cat([padding, a, padding])


def compile_for_emulator(fn, name):  # a name, or several
    "Compile one or more kernels of the source that `fn` returns, for the emulator"
    with on_emulator():
        return cuda_kernel(source(fn), name=name)


def launch(
    fn, name, blocks, threads, **args
):  # arguments by the kernel's own names, in order; arrays are NumPy's or tensors
    "Launch kernel `name` of the source that `fn` returns; return `out`; raises `AssertionError` for other writes"
    return run(compile_for_emulator(fn, name), blocks, threads, **args)


def run(kernel, blocks, threads, **args):
    "Launch a compiled kernel as `launch` does"
    actual, name = [p.name for p in kernel.params], kernel.__name__
    if sorted(actual) == sorted(args) and actual != list(args):
        raise AssertionError(f'{name} must take ({", ".join(args)}), in this order; yours takes ({", ".join(actual)})')
    arrays = {k: v for k, v in args.items() if isinstance(v, (np.ndarray, torch.Tensor))}
    initial_arrays = {k: pad(v, 9 if k == 'out' else 7) for k, v in arrays.items()}
    final_arrays = {k: v.clone() for k, v in initial_arrays.items()}
    try:
        kernel[blocks, threads](*[final_arrays[k][PAD:-PAD] if k in final_arrays else v for k, v in args.items()])
    except WrongArgument as e:
        raise AssertionError(f"{e}\n  Copy the kernel's first line from the exercise") from e
    for k in initial_arrays:
        old = initial_arrays[k].cpu()
        new = final_arrays[k].cpu()
        if not (torch.equal(old[:PAD], new[:PAD]) and torch.equal(old[-PAD:], new[-PAD:])):
            raise AssertionError(f'memory next to {k} was written: add a guard for the threads without work')
        if k != 'out' and not torch.equal(old, new):
            raise AssertionError(f'{k} was changed: read from {k}, write to out only')
    return final_arrays['out'][PAD:-PAD].cpu()


def check_elements(fn, name, threads, is_own, **args):  # is_own: whether these threads must write an element of `out`
    "Raise `AssertionError` if a launch of the first block alone, of `threads`, writes elements of other blocks"
    if 'gridDim' in without_comments(source(fn)):
        return  # a grid-stride loop, in which one block computes all elements
    result = launch(fn, name, 1, threads, **args).numpy()
    out = args['out']
    for i in np.flatnonzero((result != out) & ~(np.isnan(result) & np.isnan(out)) & ~is_own.reshape(-1)):
        raise AssertionError(
            f'out[{i}] is written by the first block, but belongs to another: let each thread write its own element'
        )


@problem(
    'cuda_c.axpy',
    cases=[
        dict(n=n, blocks=b, threads=t)
        for n, b, t in ((300, 3, 128), (256, 1, 256), (255, 1, 256), (257, 2, 256), (1, 3, 32), (775, 13, 64))
    ]
    + [dict(n=40_000, blocks=313, threads=128)],  # does not fit into 16 bits
    hints=[
        'The lesson’s `square_k` is nearly the answer: take two inputs instead of one, and a scalar.',
        'A kernel is `__global__ void`; the index is `int i = blockIdx.x*blockDim.x + threadIdx.x;`, '
        'and a guard follows.',
        '`if (i < n) out[i] = a*x[i] + y[i];`',
    ],
)
def _(fn, rng, n, blocks, threads):
    a = float(rng.normal())
    x = normal(rng, n)
    y = normal(rng, n)
    empty = np.full(n, np.nan, np.float32)
    out = launch(fn, 'axpy', blocks, threads, a=a, x=x, y=y, out=empty, n=n)
    check(out, (np.float64(np.float32(a)) * x + y).astype(np.float32))
    check_elements(fn, 'axpy', threads, np.arange(n) < threads, a=a, x=x, y=y, out=empty, n=n)


@problem(
    'cuda_c.roll',
    cases=[
        dict(n=n, shift=s)
        for n, s in ((7, 1), (7, -1), (7, 0), (100, 30), (33, -100), (5, 23), (64, -64), (1, 5), (3, 100_000))
    ],
    hints=[
        'Start from the output: which index of `x` does `out[i]` come from?',
        'From `i - shift`, wrapped around. But in C the remainder of a negative integer is negative, or 0.',
        'Take `(i - shift%n) % n`, and add `n` when it is below 0.',
    ],
)
def _(fn, rng, n, shift):
    x = normal(rng, n)
    empty = np.full(n, np.nan, np.float32)
    out = launch(fn, 'roll', cdiv(n, 32) + 1, 32, x=x, out=empty, n=n, shift=shift)
    check(out, np.roll(x, shift))
    check_elements(fn, 'roll', 32, np.arange(n) < 32, x=x, out=empty, n=n, shift=shift)


# A grey value halfway between two bytes may be rounded up or down, so no pixel has one.
def random_image(rng, h, w):
    "Return random pixels, (h, w, 3), and their grey values; the first is white, and no grey value ends in about .5"
    x = rng.integers(0, 256, (h, w, 3), dtype=np.uint8)
    x[0, 0] = 255
    grey = x @ np.array([0.2989, 0.5870, 0.1140])
    x[abs(grey % 1 - 0.5) < 0.01] = 10
    return x, np.rint(x @ np.array([0.2989, 0.5870, 0.1140])).astype(np.uint8)


@problem(
    'cuda_c.grey_bytes',
    cases=[dict(h=h, w=w) for h, w in ((5, 7), (16, 16), (17, 33), (1, 50), (40, 3), (1, 1))],
    hints=[
        'Row, column and guard as in `matmul_k`. Then: at which index do the three bytes of pixel `r*w + c` begin?',
        'At three times that index: `x[3*i]`, `x[3*i+1]` and `x[3*i+2]` are red, green and blue.',
        'To round, add one half and truncate: `... + 0.5f`. `roundf` works, too.',
    ],
)
def _(fn, rng, h, w):
    x, grey = random_image(rng, h, w)
    empty = np.full(h * w, 99, np.uint8)
    is_own = np.zeros((h, w), bool)
    out = launch(fn, 'grey_bytes', (cdiv(w, 16), cdiv(h, 8)), (16, 8), x=x, out=empty, h=h, w=w)
    check(out.reshape(h, w), grey)
    is_own[:8, :16] = True
    check_elements(fn, 'grey_bytes', (16, 8), is_own, x=x, out=empty, h=h, w=w)


@problem(
    'cuda_c.fix',
    cases=[dict(h=h, w=w) for h, w in ((31, 2), (33, 3), (32, 5), (70, 4), (1, 9), (6, 1))],
    hints=[
        'Two mistakes are about indices: which rows may pass the guard, and where does row `r` begin?',
        'Two are about integers: what happens to the fraction of a float in an `int`, and what is `1/w`?',
        'The guard is `r >= h`, a row begins at `r*w`, `total` is a float, and the mean is `total/w`.',
    ],
)
def _(fn, rng, h, w):
    x = normal(rng, h, w)
    empty = np.full(h, np.nan, np.float32)
    out = launch(fn, 'row_mean', cdiv(h, 32), 32, x=x, out=empty, h=h, w=w)
    check(out, x.astype(np.float64).mean(1).astype(np.float32))
    check_elements(fn, 'row_mean', 32, np.arange(h) < 32, x=x, out=empty, h=h, w=w)


# The layer is called as a user would call it, also with invalid inputs. The last case has more than 1024 blocks: an
# answer that swaps blocks and threads fails there. An error of the emulator's detectors does not count as a rejection.
def check_rejected(f, reason, *args, other_result=None):  # other_result: a result that is also accepted
    "Raise `AssertionError`, which states `reason`, unless `f` rejects `args`"
    try:
        result = f(*args)
    except KernelError as e:
        raise AssertionError(f'the inputs were not rejected, although {reason}: {type(e).__name__}: {e}') from e
    except Exception:
        return
    if other_result is None:
        raise AssertionError(f'no error was raised, although {reason}')
    try:
        check(result, other_result, atol=1e-4)
    except AssertionError as e:
        raise AssertionError(f'no error was raised, although {reason}, and the result is wrong: {e}') from e


@problem(
    'cuda_c.linear',
    cases=[
        dict(h=h, w=w, k=k) for h, w, k in ((5, 9, 3), (16, 16, 16), (17, 33, 5), (40, 3, 20), (1, 1, 1), (520, 520, 1))
    ],
    hints=[
        'Start from the lesson’s `matmul`. The product with the second matrix transposed was '
        'blocks_and_threads.matmul_nt: '
        '`weight[c*k + i]`.',
        'Start the sum from `bias[c]`. In the host function, `w` is `weight.size(0)`.',
        '`CHECK_INPUT` per input, `TORCH_CHECK(weight.size(1) == k, ...)`, `TORCH_CHECK(bias.numel() == w, '
        '...)`; `data_ptr<float>()` rejects other types.',
    ],
)
def _(fn, rng, h, w, k):
    src = source(fn)
    if '__global__' not in (code := without_comments(src)):
        raise AssertionError('the source has no kernel: write a __global__ one that computes the sums, and launch it')
    if re.search(r'<<<\s*1\s*,', code):
        raise AssertionError(
            'the source launches one block for all results: launch enough blocks to cover them, as in the lesson'
        )
    with on_emulator():
        linear = load_cuda(src).linear
    x, weight, bias = normal(rng, h, k), normal(rng, w, k), normal(rng, w)
    expected = torch.tensor((x.astype(np.float64) @ weight.T + bias).astype(np.float32))
    x, weight, bias = map(torch.tensor, (x, weight, bias))
    check(linear(x, weight, bias), expected, atol=1e-4)  # at most 20 rounding errors of values around 5
    check_rejected(linear, 'a row of weight is longer than one of x', x, torch.tensor(normal(rng, w, k + 1)), bias)
    check_rejected(linear, 'a row of weight is shorter than one of x', x, weight[:, 1:].contiguous(), bias)
    check_rejected(linear, 'bias has one element too many', x, weight, torch.tensor(normal(rng, w + 1)))
    check_rejected(linear, 'bias has one element too few', x, weight, bias[1:].contiguous())
    if w != k:
        check_rejected(linear, 'weight is (k, w), not (w, k)', x, weight.t().contiguous(), bias)
    check_rejected(linear, 'x holds doubles', x.double(), weight, bias)
    check_rejected(linear, 'weight holds doubles', x, weight.double(), bias)
    check_rejected(linear, 'bias holds doubles', x, weight, bias.double())
    check_rejected(linear, 'weight is not contiguous', x, weight.t().contiguous().t(), bias, other_result=expected)
    check_rejected(linear, 'x is not contiguous', x.t().contiguous().t(), weight, bias, other_result=expected)
    check_rejected(linear, 'bias is not contiguous', x, weight, bias.repeat_interleave(2)[::2], other_result=expected)
