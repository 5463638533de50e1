"""The tasks for submissions: input generator, reference, and the scale of the allowed error.

A submission names its task in the line `#!POPCORN leaderboard NAME`."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..support.function_source import SourceMissing, source_of
from .tolerance import default_error_scale


@dataclass(frozen=True)
class Task:
    """A task in the leaderboards' format. `generate_input(seed=..., **sizes)` returns the data: a tensor, or a tuple of
    tensors and scalars. `ref_kernel(data)` returns the output: a tensor, or a tuple of tensors. The judge
    calls `ref_kernel` with all floats converted to float64, so it should not specify dtypes."""

    name: str
    generate_input: Callable
    ref_kernel: Callable
    tests: tuple  # dicts of public sizes and a public seed
    draw_hidden_sizes: Callable  # draw_hidden_sizes(rng) -> sizes that are not public; rng is a `random.Random`
    reduction_length: Callable = lambda **sizes: 1  # reduction_length(**sizes) -> number of products per sum
    # error_scale(data, output), in float64: the sum of the products' magnitudes, per element
    error_scale: Callable = default_error_scale
    dtype: str = 'float32'  # of the output; sums accumulate in this dtype, or in float32 if this dtype is narrower
    writable_inputs: tuple = ()  # indices of the items of `data` that a submission may write to, and return
    check_implementation: Callable = None  # an additional check: (data, output) -> (is_correct, reason)
    benchmark: dict = None  # sizes that are timed on a GPU; None: the first of `tests`
    init: tuple = ()  # arguments of the constructor of a KernelBench `ModelNew`

    def baseline(self) -> str:  # None if its source is not available
        "Return the reference as the source of a submission, so that it can be timed in the same way"
        try:
            text = source_of(self.ref_kernel).text
        except SourceMissing:
            return None
        name = self.ref_kernel.__name__
        return f'import math, torch\n\n\n{text}\n\ncustom_kernel = {name}\n' if name.isidentifier() else None


def _normal(seed, *shape):
    "Return normally distributed values (mean 0, standard deviation 1)"
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# Grayscale conversion, lesson 01
def _grey_input(h, w, seed):
    return _normal(seed, 3, h, w).abs()


def grey(data):
    "Convert an RGB image of shape (3, h, w) to grayscale, shape (h, w)"
    r, g, b = data
    return 0.2989 * r + 0.5870 * g + 0.1140 * b


# Vector addition. In the leaderboards' other format, which `add_into` has, the data includes a preallocated output.
def _add_input(n, seed):
    return _normal(seed, n), _normal(seed + 1, n)


def add(data):
    "Return the sum of two vectors of n elements"
    a, b = data
    return a + b


def _add_into_input(n, seed):
    # All bits are ones: a NaN that no arithmetic produces marks the elements that were never written
    return (*_add_input(n, seed), torch.full((n,), -1, dtype=torch.int32).view(torch.float32))


def add_into(data):
    "Write the sum of two vectors of n elements to the third one, and return it"
    a, b, out = data
    out[...] = a + b
    return out


# The matrix product
def _matmul_input(m, n, k, seed):
    return _normal(seed, m, k), _normal(seed + 1, k, n)


def matmul(data):
    "Return the product of a (m, k) and b (k, n)"
    a, b = data
    return a @ b


def _matmul_error_scale(data, output):
    return data[0].abs() @ data[1].abs()


# Sums and softmax, lessons 13 and 20
def _sum_input(n, seed):
    return _normal(seed, n)


def vector_sum(data):
    "Return the sum of a vector of n elements, as a tensor of shape (1,)"
    return data.sum().reshape(1)


def _sum_error_scale(data, output):
    return data.abs().sum().reshape(1)


def _softmax_input(rows, n, seed):
    return 3 * _normal(seed, rows, n)


def softmax(data):
    "Return the softmax of each row of (rows, n)"
    return torch.softmax(data, -1)


def _softmax_error_scale(data, output):
    "Return the error scale; the rounding error of x - max grows with the magnitude of x - max"
    return output * (1 + (data.amax(-1, keepdim=True) - data))


# Hidden sizes
def _draw_vector_sizes(rng):
    odd = 2 * rng.randrange(1, 127) + 1
    return dict(n=rng.choice([1, 2, odd, 2 * odd, 1023 + 2 * rng.randrange(20)]))


def _draw_image_sizes(rng):
    return dict(h=rng.randrange(1, 40), w=rng.choice([1, 33, rng.randrange(2, 70)]))


def _draw_matmul_sizes(rng):
    return dict(zip('mnk', (rng.randrange(1, 50) for _ in range(3))))


def _draw_row_sizes(rng):
    return dict(rows=rng.randrange(1, 9), n=rng.choice([1, 31, rng.randrange(2, 300)]))


def _public_tests(*sizes):
    "Return the public sizes, each with a public seed"
    return tuple(dict(size, seed=seed) for seed, size in zip((1234, 42, 0), sizes))


_VECTOR_TESTS = _public_tests(dict(n=1000), dict(n=256))
TASKS = {
    t.name: t
    for t in (
        Task('grey', _grey_input, grey, _public_tests(dict(h=37, w=64), dict(h=16, w=16)), _draw_image_sizes,
             lambda h, w: 3, benchmark=dict(h=2048, w=2048)),
        Task('add', _add_input, add, _VECTOR_TESTS, _draw_vector_sizes, benchmark=dict(n=1 << 24)),
        Task('add_into', _add_into_input, add_into, _VECTOR_TESTS, _draw_vector_sizes, writable_inputs=(2,),
             benchmark=dict(n=1 << 24)),
        Task('matmul', _matmul_input, matmul, _public_tests(dict(m=37, n=50, k=64), dict(m=32, n=32, k=32)),
             _draw_matmul_sizes, lambda m, n, k: k, _matmul_error_scale, benchmark=dict(m=2048, n=2048, k=2048)),
        Task('sum', _sum_input, vector_sum, _VECTOR_TESTS, _draw_vector_sizes, lambda n: n, _sum_error_scale,
             benchmark=dict(n=1 << 24)),
        Task('softmax', _softmax_input, softmax, _public_tests(dict(rows=7, n=100), dict(rows=4, n=256)),
             _draw_row_sizes, lambda rows, n: n, _softmax_error_scale, benchmark=dict(rows=4096, n=4096)),
    )
}  # fmt: skip


def find_task(name: str) -> Task:
    "Return the task called `name`; raises `ValueError`, whose message lists all tasks, if there is none"
    if name not in TASKS:
        if name:
            problem = f'there is no task {name!r}'
        else:
            problem = 'the task is unknown, because the file has no line #!POPCORN leaderboard NAME'
        raise ValueError(f'{problem}; available tasks: {", ".join(TASKS)}')
    return TASKS[name]
