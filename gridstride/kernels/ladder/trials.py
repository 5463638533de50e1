"""Tests and measurements of the kernels for Hopper: correctness on the GPU or the emulator, a ladder with the expected
L2 traffic, timestamps, the effect of a missing wait, and a comparison with the library on many shapes."""

import json
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np

from ... import cpp
from ...support import plots
from ...asm import Resources, sass
from ...asm import resources as _resources
from ...bench.versus import compare
from ...cpp.kernel import cuda_kernel
from ...diagnostics.errors import KernelError
from ...prof.show import Table
from ...bench.recording import claim, recorded_file
from ...utils import cdiv
from ...bench.variants import Contest, contest
from .ladder import Gpu, Ladder, Reference, inputs, multiply_by_torch, check_product
from ..tensor_maps import tensor_map
from .rung import H100, require_hopper, on_hopper

__all__ = [
    'edge_shapes',
    'check_kernel',
    'diagnose',
    'compiler_resources',
    'count_per_engine',
    'HopperLadder',
    'race_with_torch',
    'time_unchecked',
]
__all__ += [
    'with_timestamps',
    'read_timestamps',
    'plot_timestamps',
    'count_wrong_results',
    'plot_speeds',
    'load_comparison',
    'plot_comparison',
]


def edge_shapes(rung) -> list:  # of (h, w, k)
    "Return shapes with a single row; with a few rows and phases more than fit at once; and with many tiles"
    BM, BN, STAGES = (rung.constants[name] for name in ('BM', 'BN', 'STAGES'))
    return [(1, 8, 8), (65, BN + 8, 64 * STAGES + 72), (2 * BM + 1, 3 * BN - 8, 72)]


def check_kernel(
    rung,
    shapes=None,  # (h, w, k) of each; None: `edge_shapes`
    orders=('forward', 'reverse'),  # orders in which the emulator runs threads and blocks
):
    """Check a rung against float64, on a Hopper GPU or else on the emulator with all its checks, and print where.

        check_kernel(rung)

    The last of three shapes, which has many tiles, is checked in the first order only. Raises AssertionError for a
    wrong result, and the findings of the emulator."""
    shapes = shapes or edge_shapes(rung)
    with nullcontext() if on_hopper() else cpp.on_emulator():
        for order in orders:
            with cpp.options(order=order):
                check_product(rung, shapes if order == orders[0] else shapes[:2])
    where = 'this GPU' if on_hopper() else 'the emulator'
    print(f'{rung.name} is right on {where}: h, w, k =', *shapes)


def diagnose(rung, shape=(200, 136, 392)) -> tuple:  # (what is wrong and its hint, the line of the kernel)
    "Return the first finding of the emulator for a rung, in both orders; ('right', '') if there is none"
    for order in ('forward', 'reverse'):
        with cpp.on_emulator(), cpp.options(order=order):
            try:
                check_product(rung, [shape])
            except KernelError as e:
                line = e.called or e.line
                return f'{e.kind}: {e.summary}. {e.hint}', rung.src.splitlines()[line - 1].strip() if line else ''
    return 'right', ''


def compiler_resources(rung) -> Resources:
    "Return registers, spills and occupancy of a rung on Hopper, from the compiler"
    return _resources(rung.src, block=rung.threads[0], shared_bytes=rung.shared, arch='sm_90a')


_ENGINES = {'wgmma': 'HGMMA', 'TMA': 'UTMA', 'barriers': 'SYNCS', 'mma.sync': 'HMMA'}


def count_per_engine(rung) -> dict:
    "Count the instructions per engine in the machine code of a rung"
    ops = sass(rung.src, arch='sm_90a').ops()
    return {name: sum(n for op, n in ops.items() if op.startswith(start)) for name, start in _ENGINES.items()}


class HopperLadder(Ladder):
    "A ladder for bf16 that compares the measured L2 traffic with the traffic expected for the tile size"

    def __init__(self, shape, record, **options):
        super().__init__(
            shape=shape, record=record, metrics={'L2 sectors': 'lts__t_sectors_srcunit_tex_op_read.sum'}, **options
        )

    def from_l2(self, BM, BN, blocks=1) -> int:  # bytes
        "Compute the bytes that the product loads from L2 when `blocks` blocks share each tile of n"
        h, w, k = self.shape
        return int(cdiv(h, BM) * cdiv(w, BN) * (BM + BN / blocks) * 2 * k)

    def measure(self, rung, blocks=1, counters=True):
        "Measure a rung, or read its recording, and print it next to the expected traffic; returns its `Step`"
        before, self.counters = self.counters, self.counters and counters
        try:
            step = self.climb(rung)[rung.name]
        finally:
            self.counters = before
        print(f'{rung.name}: {step.tflops:.0f} TFLOP/s, {step.ratio:.1%} of torch.matmul ({step.made_on})')
        if 'L2 sectors' not in step.counters:
            return step
        want = self.from_l2(rung.constants['BM'], rung.constants['BN'], blocks)
        got, memory = step.counters['L2 sectors'] * 32, step.counters['dram']
        rates = [f'{x / step.seconds / 1e12:.1f} TB/s' for x in (got, memory)]
        print(f'from L2: {want / 1e9:.1f} GB on paper, {got / 1e9:.1f} counted, {rates[0]}')
        print(
            f'memory: {memory / 1e9:.1f} GB, {rates[1]}; tensor cores busy in {step.counters["tensor"]:.0f}% of cycles'
        )
        claim(
            'L2 gave, of what is on paper', 0.7, got / want, 1.1, mark=step.mark
        )  # less if the L2 coalescer merges requests
        return step

    def table(self, aside=(), but='SM clock') -> Table:
        "Return a table of one row per rung, without warnings that contain `but`"
        table = super().table(aside)
        table.note = ';\n'.join(line for line in table.note.splitlines() if but not in line)
        return table


def _operands(shape, device='cuda'):
    m, n = inputs(*shape, 'bfloat16', device)
    return m, n, m.new_empty(shape[:2])


def race_with_torch(
    record,  # CHAPTER_what: the name of the recording that is shown without a GPU
    shape,  # h, w, k
    *rungs,  # with different names
    seconds=0.15,  # time limit per candidate
    title='',
) -> Contest:
    "Check bf16 rungs and `torch.matmul`, then time them interleaved, with the L2 flushed between runs"
    functions = {'torch.matmul': multiply_by_torch, **{r.name: r for r in rungs}}
    cached = {}

    def make_inputs():
        require_hopper('What is timed here')
        cached['reference'] = Reference(*(args := _operands(shape))[:2])
        return args

    return contest(
        record,
        functions,
        make_inputs,
        title=title or '{}x{} @ {}x{}'.format(shape[0], shape[2], shape[2], shape[1]),
        sources={'torch.matmul': 'torch.matmul', **{r.name: (r.launch_plan(*shape, H100), seconds) for r in rungs}},
        check=lambda got: cached['reference'](got),
        writes=True,
        baseline='torch.matmul',
        flops=2 * shape[0] * shape[1] * shape[2],
        seconds=seconds,
        clock=Gpu() if on_hopper() else None,
    )


def time_unchecked(shape, *rungs, seconds=0.4) -> dict:  # name -> speedup over torch
    "Time rungs interleaved with torch on random inputs, without a check, for example rungs that lack a step"
    require_hopper('What is timed here')
    m, n, out = _operands(shape)
    functions = {'torch.matmul': lambda m, n: multiply_by_torch(m, n, out)}
    for r in rungs:
        functions[r.name] = lambda m, n, r=r: r(m, n, out)
    return {k: v[0] for k, v in compare(functions, m, n, out=out, seconds=seconds, clock=Gpu()).ratios.items()}


# A kernel stores the cycle counter of its SM after some of its lines, in one block in the middle of the product.
def with_timestamps(rung, *lines) -> str:
    "Return the source of `rung` with a timestamp after each of three lines of its loop over `ph`, in block (33, 33)"
    src = _replace_once(rung.src, 'int h, int w, int k) {', 'int h, int w, int k, long long *stamps) {')
    for i, line in enumerate(lines):
        here = 'blockIdx.x == 33 && blockIdx.y == 33 && threadIdx.x%128 == 0'
        src = _replace_once(src, line, f'{line} if ({here}) stamps[3*ph + {i}] = clock64();')
    return src


def _replace_once(src, old, new):
    if src.count(old) != 1:
        raise ValueError(f'{old!r} occurs {src.count(old)} times, and must occur once')
    return src.replace(old, new)


def read_timestamps(sources, shape) -> dict:  # name -> cycles of [phase, stamp]
    "Run each rung of `sources`, {rung: its source with stamps}, once; raises `Unavailable` without a Hopper GPU"
    import torch

    require_hopper('What stamps the time')
    m, n, out = _operands(shape)
    res = {}
    for rung, src in sources.items():
        stamps = torch.zeros(cdiv(shape[2], 64), 3, dtype=torch.int64, device=m.device)
        args = [tensor_map(x, *rung.tma_boxes[name]) for name, x in dict(m=m, n=n).items()]
        grid = rung.grid_for(*shape)
        cuda_kernel(src)[grid, rung.threads, None, rung.shared](*args, out, *shape, stamps)
        res[rung.name] = stamps.tolist()
    return res


def plot_timestamps(cycles, stages, title, phases=(20, 48), span=9000):
    """Plot one row per pipeline stage: when its TMA loads were issued, and when its tiles were used and released;
    returns the figure. `cycles`: name -> [phase, stamp]; `stages`: name -> number of stages"""
    import matplotlib.pyplot as plt

    with plots.styled():
        fig, axes = plt.subplots(
            len(cycles),
            1,
            figsize=(8, 1.2 + 0.55 * sum(stages.values())),
            height_ratios=[*stages.values()],
            sharex=True,
            squeeze=False,
        )
        for ax, (name, stamps) in zip(axes[:, 0], cycles.items()):
            stamps = np.array(stamps) - stamps[phases[0] + 4][0]
            for ph in range(*phases):
                issued, used, released = stamps[ph]
                y, first = ph % stages[name], ph == phases[0]
                ax.barh(y, used - issued, left=issued, color=plots.COLORS[0], label='ordered' if first else None)
                ax.barh(y, released - used, left=used, color=plots.COLORS[5], label='multiplied' if first else None)
                ax.text((used + released) / 2, y, ph, ha='center', va='center', fontsize=plots.SMALLEST, clip_on=True)
            rows = range(stages[name])
            ax.set(yticks=rows, yticklabels=[f'stage {s}' for s in rows], ylabel=name, xlim=(0, span))
        axes[-1, 0].set_xlabel('cycles of the SM')
        axes[-1, 0].legend(loc='upper center', bbox_to_anchor=(0.5, -0.25), ncols=2)
        axes[0, 0].set_title(title)
    return fig


def count_wrong_results(
    rungs, shape=(2048, 2048, 2048), times=10
) -> dict:  # name -> [wrong results, wrong elements in them]
    "Count how often each rung of {name: rung} is wrong on this GPU; raises `Unavailable` without a Hopper GPU"
    import torch

    require_hopper('What counts wrong results')
    m, n, _ = _operands(shape)
    reference, res = Reference(m, n), {}
    for name, rung in rungs.items():
        bad = []
        for _ in range(times):
            out = torch.full(shape[:2], torch.nan, dtype=m.dtype, device=m.device)
            rung(m, n, out)
            far = (out.double() - reference.want).abs() > reference.bound('bfloat16')
            bad.append(int(far.logical_or(out.isnan()).sum()))
        res[name] = [sum(b > 0 for b in bad), sum(bad)]
    return res


def plot_speeds(panels):
    "Plot one bar per speed in TFLOP/s, one panel per title; returns the figure. `panels`: title -> name -> speed"
    import matplotlib.pyplot as plt

    with plots.styled():
        rows = max(map(len, panels.values()))
        fig, axes = plt.subplots(1, len(panels), figsize=(4.2 * len(panels), 0.9 + 0.3 * rows), squeeze=False)
        for ax, (title, speeds) in zip(axes[0], panels.items()):
            colours = [plots.COLORS[1 if name.startswith('yours') else 0] for name in speeds]
            bars = ax.barh([*speeds], [*speeds.values()], color=colours)
            ax.bar_label(bars, fmt='%.0f', padding=3, fontsize=plots.SMALLEST)
            ax.set(title=title, xlabel='TFLOP/s')
            ax.invert_yaxis()
            ax.margins(x=0.12)
    return fig


class Comparison(NamedTuple):
    "The speeds of our kernels compared with the library's, on many shapes"

    made: str  # GPU and date
    against: str  # the baseline, and how it was timed
    ratios: dict  # (h, w, k) -> speedup of our kernel over the library


def load_comparison(path) -> Comparison:
    "Read the bfloat16 shapes of a committed run of benchmarks/matmul.py"
    cached = json.loads(recorded_file(path).read_text())
    made = f'{cached["made"]["gpu"]}, {cached["made"]["date"]}'
    rows = [r for r in cached['bfloat16'] if r['layout'] == 'nn' and 'failed' not in r]
    sides = {tuple(r['shape']): r['columns']['read'].get('sides', {}) for r in rows}
    ratios = {k: o['ours']['ratio'] / o['cublasLt']['ratio'] for k, o in sides.items() if {'ours', 'cublasLt'} <= {*o}}
    against = "the fastest of cublasLt's first eight proposals, other memory read before each run"
    return Comparison(made, against, ratios)


def plot_comparison(comparison):
    "Plot one bar per shape, from the library's speed to ours; shapes on which the library is faster are named"
    import matplotlib.pyplot as plt

    with plots.styled():
        ranked = sorted(comparison.ratios.items(), key=lambda item: item[1])
        ratios = [ratio for _, ratio in ranked]
        fig, ax = plt.subplots(figsize=(7.5, 1.2 + 0.17 * len(ranked)))
        colours = [plots.COLORS[5 if ratio < 1 else 0] for ratio in ratios]
        ax.barh(range(len(ranked)), [ratio - 1 for ratio in ratios], left=1, color=colours)
        slower = [f'{h}x{k} @ {k}x{w}' for (h, w, k), ratio in ranked if ratio < 1]
        ax.set_yticks(range(len(slower)), slower)
        ax.axvline(1, color=plots.INK, lw=1)
        ax.margins(y=0.01)
        ax.set(xlabel='our speed, in units of the library\'s', title=f'{comparison.made}\nbeside {comparison.against}')
    return fig
