"""The ladder of the chapter `matmul_ladder` on paper: the bound of a kernel from its counts, wavefronts of a load, and
`climb_to`, with which a session resumes where the previous one ended."""

from contextlib import redirect_stdout
from io import StringIO

import numpy as np

from ...bench.variants import changed
from ...utils import backend
from . import fp32
from .lesson_ladder import LessonLadder

shapes = dict(square=(4096, 4096, 4096), lecture=(5120, 5120, 256), skinny=(50000, 10, 784))  # h, w, k
peak = 132 * 128 * 2 * 1.98e9  # operations per second of an H100; a multiply-add is two
lane = np.arange(32)


def bound(wavefronts, instructions=1):
    "Return the highest possible TFLOP/s with this many wavefronts and instructions per multiply-add"
    return peak / 1e12 * min(0.25 / wavefronts, 1 / instructions)


def line_of(trace, text):
    "Return the line number of `text` in a traced kernel"
    return next(line_number for line_number, line in trace.source.items() if text in line)


def owners(version, result='o[y][x];', **constants):
    "Return the index of the thread that computes each result of a tile, as the kernel writes it"
    signed_version = changed(version, {result: 'threadIdx.x + blockDim.x*threadIdx.y;'}, name='signed', **constants)
    h, w = signed_version.constants['BM'], signed_version.constants['BN']
    import torch

    device = 'cuda' if backend() == 'gpu' else 'cpu'
    return signed_version(torch.ones(h, 1, device=device), torch.ones(1, w, device=device)).int().cpu().numpy()


def wavefronts(quad):
    """Return the wavefronts that serve a load of four floats per lane, each as {quad: lanes}; lane `i` loads from index
    `4*quad[i]` on"""
    all_wavefronts = []
    for half in lane.reshape(2, 16):
        are_paired = any((quad[half] == quad[half ^ i]).all() for i in (1, 2))
        for part in [half] if are_paired else [half[:8], half[8:]]:
            lanes_of = {index: part[quad[part] == index] for index in np.unique(quad[part])}
            # Quads whose indices differ by a multiple of 8 are in the same banks.
            conflicts = {
                index: sum(other % 8 == index % 8 for other in lanes_of if other < index) for index in lanes_of
            }
            for num_conflicts in range(max(conflicts.values()) + 1):
                all_wavefronts.append(
                    {index: lanes for index, lanes in lanes_of.items() if conflicts[index] == num_conflicts}
                )
    return all_wavefronts


def inner(row, col, TM=8, TN=8):
    "Return the wavefronts per multiply-add in the inner loop, if lanes load quads `row` of `ms` and `col` of `ns`"
    return (TM / 4 * len(wavefronts(row)) + TN / 4 * len(wavefronts(col))) / (TM * TN)


def _versions_so_far():
    "Return {name: (wavefronts per multiply-add, as counted in the lesson, expected speedups)}"
    patch = 2 * len(wavefronts(lane % 16 * 2)) + 8 * 2
    fetch = 16 + 4  # wide loads: from 16 rows of A, from 4 lines of B
    row, col = lane % 2 + lane // 16 * 2, lane // 2 % 8
    return {
        'naive': (32 + 1, None),
        'coalesced': (2, {'naive': (10, 15)}),
        'shared': (1.5 + 4 / 32, {'coalesced': (1.3, 1.6)}),
        'column': ((4 * 1 + 8 * 2) / 32 + (4 + 1 + 1 + 1) / 64, {'shared': (1.7, 2.1)}),
        'patch': (patch / 64 + 4 * 7 / 512, {'column': (1.35, 1.6)}),
        'wide': (inner(lane // 16 * 2, lane % 16 * 2) + (fetch + 4 * 2 + 4) / 512, {'patch': (1.15, 1.3)}),
        'banked': (inner(lane // 16, lane % 16) + (fetch + 4 * 1 + 4) / 512, {'wide': (1.05, 1.2)}),
        'warps': (inner(row, col) + (fetch + 4 * 1 + 4) / 512, {'banked': (1.02, 1.08)}),
        'staged': (inner(row, col) + 8 * (2 + 2 + 1 + 1) / 1024, {'warps': (1.04, 1.1)}),
    }


def climb_to(last, record):
    """Return the ladder with all versions up to the one called `last`, checked and measured without output;
    raises KeyError for an unknown name"""
    versions = _versions_so_far()
    if last not in versions:
        raise KeyError(f'no version {last!r}; available: {", ".join(versions)}')
    climb = LessonLadder(shapes['square'], record=record, bound=bound)
    for name in list(versions)[: list(versions).index(last) + 1]:
        with redirect_stdout(StringIO()):
            climb(getattr(fp32, name), versions[name][0], ..., versions[name][1])
    return climb
