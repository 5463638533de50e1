"""Test cases for the lesson's exercises. Reading this file spoils them."""

import math
import re

import numpy as np
import torch

from ... import ring
from ..grading import normal, problem
from ...cpp import cuda_kernel, on_emulator
from ...utils import check
from .cuda_c import source, without_comments

__all__ = ['PRELUDE', 'arrival_times', 'run_pull']


def _bits(x):
    return int(np.float32(x).view(np.uint32))


@problem(
    'collectives.words',
    cases=[
        dict(x=x, round=round)
        for x, round in ((1.0, 3), (-0.0, 1), (math.inf, 7), (-math.pi, 2**31), (math.nan, 12), (0.0, 2**32 - 1))
    ],
    hints=[
        '`np.float32(x).view(np.uint32)` returns the bits of the value, and `int(...)` makes them a Python integer.',
        'The upper half is `round << 32`. To unpack, `word >> 32` is the round, and `word & 0xffffffff` are the bits.',
        '`np.uint32(bits).view(np.float32)` converts the bits to a value. Compare the round before you return it.',
    ],
)
def _(fn, rng, x, round):
    functions = fn()
    if not isinstance(functions, (tuple, list)) or len(functions) != 2 or not all(map(callable, functions)):
        raise AssertionError(f'return two functions, pack and unpack; got {functions!r}')
    pack, unpack = functions
    expected = round << 32 | _bits(x)
    word = pack(x, round)
    if not isinstance(word, (int, np.integer)) or int(word) != expected:
        shown_word = hex(int(word)) if isinstance(word, (int, np.integer)) else repr(word)
        raise AssertionError(f'pack({x}, {round}): got {shown_word}; expected {expected:#018x}')
    value = unpack(expected, round)
    if value is None or _bits(value) != _bits(x):
        raise AssertionError(f'unpack({expected:#018x}, {round}): got {value!r}; expected {x!r}, with the same bits')
    for other in (round - 1, (round + 1) % 2**32, 0):  # earlier and later rounds; a word that was never stored
        if other != round and unpack(other << 32 | _bits(x), round) is not None:
            raise AssertionError(f'unpack returned a value for a word of round {other}, but waits for round {round}')


@problem(
    'collectives.crossover',
    cases=[
        dict(ranks=ranks, latency=latency, speed=speed)
        for ranks, latency, speed in (
            (4, 3e-6, 300e9),
            (2, 3e-6, 300e9),
            (8, 2e-6, 370e9),
            (3, 1e-6, 100e9),
            (16, 5e-6, 50e9),
        )
    ],
    hints=[
        'One shot takes `latency + (ranks - 1)*size/speed`. How many bytes does a rank send in two shots?',
        'Two shots take `2*latency + 2*(ranks - 1)/ranks*size/speed`. Find the size for which both times are equal.',
        'The saved transfer time must equal the additional latency: `size*saved/speed == latency`. With two ranks, '
        'no bytes are saved.',
    ],
)
def _(fn, rng, ranks, latency, speed):
    result = fn(ranks, latency, speed)
    saved = (ring.all_reduce_bytes('one_shot', 1, ranks) - ring.all_reduce_bytes('two_shots', 1, ranks)) / speed
    expected = latency / saved if saved > 0 else math.inf
    if not isinstance(result, (int, float, np.number)) or not math.isclose(result, expected, rel_tol=1e-9):
        raise AssertionError(f'{ranks} ranks, {latency:g} s, {speed:g} bytes/s: got {result!r}; expected {expected!r}')


PRELUDE = """
#include <cuda/atomic>
typedef cuda::atomic_ref<int, cuda::thread_scope_system> Flag;

__device__ void signal(int *flag, int value) { Flag(*flag).store(value, cuda::memory_order_release); }
__device__ void await(int *flag, int value) { while (Flag(*flag).load(cuda::memory_order_acquire) < value); }
__device__ void exchange(int *const *flags, int rank, int ranks, int round) {
    __syncthreads();
    int p = threadIdx.x;
    if (p < ranks) {
        signal(flags[p] + blockIdx.x*ranks + rank, round);
        await(flags[rank] + blockIdx.x*ranks + p, round);
    }
    __syncthreads();
}
"""


def run_pull(src, x, blocks, threads):
    "Run the kernel `pull` of `src` once per round on emulated devices; return the output [rounds, ranks, n]"
    rounds, ranks, n = x.shape
    with on_emulator(), ring.devices(ranks) as gpus:
        prelude = '' if re.search(r'\bexchange\s*\([^)]*\)\s*\{', without_comments(src)) else PRELUDE
        kernel = cuda_kernel(prelude + src, name='pull')
        inputs, outs = gpus.symmetric((rounds, n), x.dtype), gpus.symmetric((rounds, n), x.dtype)
        for rank in range(ranks):
            inputs[rank].copy_(x[:, rank])
            outs[rank].fill_(torch.nan)
        buffers, flags = gpus.symmetric(2 * n, x.dtype, 'buffer'), gpus.symmetric(blocks * ranks, torch.int32, 'flag')
        tables = gpus.pointers(buffers), gpus.pointers(flags)
        for i in range(rounds):
            for rank in range(ranks):
                with gpus[rank]:
                    kernel[blocks, threads](inputs[rank][i], outs[rank][i], *tables, n, rank, ranks, i + 1)
        gpus.synchronize()
        return torch.stack([out.clone() for out in outs], 1)


@problem(
    'collectives.pull',
    cases=[
        dict(ranks=ranks, n=n, blocks=blocks, rounds=rounds)
        for ranks, n, blocks, rounds in ((2, 40, 1, 1), (3, 100, 2, 3), (4, 7, 3, 4))
    ],
    hints=[
        'Store into `buffers[rank]`, call `exchange`, then add `buffers[r]` for all r in order.',
        'Another rank may still load from this buffer when the next round begins: use two slots of n floats.',
        'The slot is `round % 2*n`. The loops over i begin at `blockIdx.x*blockDim.x + threadIdx.x`, and their step is '
        '`gridDim.x*blockDim.x`.',
    ],
)
def _(fn, rng, ranks, n, blocks, rounds):
    src = source(fn)
    if 'pull' not in without_comments(src):
        raise AssertionError('the source has no kernel called pull')
    x = torch.tensor(normal(rng, rounds, ranks, n))
    out = run_pull(src, x, blocks, 32)
    expected = torch.zeros(rounds, n)
    for rank in range(ranks):
        expected += x[:, rank]
    for rank in range(ranks):
        try:
            check(out[:, rank], expected, rtol=1e-4, atol=1e-4)
        except AssertionError as e:
            raise AssertionError(f'rank {rank} of {ranks}, {blocks} blocks: {e}') from None
        if not torch.equal(out[:, rank], expected):
            differing = (out[:, rank] != expected).sum().item()
            raise AssertionError(
                f'rank {rank} of {ranks}: {differing} sums differ in their last bits from sums in rank order: '
                'start with rank 0 on every rank'
            )


@problem(
    'collectives.partners',
    cases=[dict(ranks=ranks) for ranks in (1, 2, 3, 4, 8)],
    hints=[
        'In step s, rank r multiplies rows of rank `(r + s) % ranks`. Which rank multiplies rows of rank r then?',
        'It is the rank d with `(d + s) % ranks == r`.',
        'd is `(r - s) % ranks`, for s from 1 to `ranks - 1`.',
    ],
)
def _(fn, rng, ranks):
    for rank in range(ranks):
        result = list(fn(rank, ranks))
        expected = [(rank - step) % ranks for step in range(1, ranks)]
        if result != expected:
            step = next((i for i, (a, b) in enumerate(zip(result, expected)) if a != b), min(len(result), ranks - 1))
            raise AssertionError(
                f'rank {rank} of {ranks} sends to {result}; expected {len(expected)} ranks: in step {step + 1}, send '
                f'to the rank that multiplies the rows of rank {rank} in that step'
            )


def arrival_times(transfer, latency, chunks):
    "Return the arrival time of each chunk of rows, which one link sends one after another"
    return [(i + 1) * (latency + transfer / chunks) for i in range(chunks)]


@problem(
    'collectives.finish',
    cases=[
        dict(product=product, transfer=transfer, latency=latency, chunks=chunks)
        for product, transfer, latency, chunks in (
            (2.0, 0.5, 0.0, 1),
            (1.0, 4.0, 0.0, 4),
            (2.0, 2.0, 0.125, 1),
            (2.0, 2.0, 0.125, 8),
            (3.0, 2.0, 0.5, 4),
            (1.0, 1.5, 0.25, 3),
        )
    ],
    hints=[
        'When does chunk i arrive? The link sends the chunks one after another, and each takes '
        '`latency + transfer/chunks`.',
        'A GPU computes one product at a time. The product of a chunk begins when the chunk has arrived and the '
        'previous product has ended.',
        'Start with `t = product`. For every chunk, compute `t = max(t, arrived) + product/chunks`.',
    ],
)
def _(fn, rng, product, transfer, latency, chunks):
    expected = product
    for arrived in arrival_times(transfer, latency, chunks):
        expected = max(expected, arrived) + product / chunks
    result = fn(product, transfer, latency, chunks)
    if not isinstance(result, (int, float, np.number)) or not math.isclose(result, expected, rel_tol=1e-9):
        raise AssertionError(
            f'product {product}, transfer {transfer}, latency {latency}, {chunks} chunks: got {result!r}; '
            f'expected {expected!r}'
        )
