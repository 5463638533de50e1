"""Tests and measurements of the kernels for Hopper: correctness on the GPU or the emulator, a ladder with the expected
L2 traffic, timestamps, the effect of a missing wait, and a comparison with the library for many shapes."""

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
from ...bench.variants import VariantComparison, compare_variants
from .ladder import GpuClock, Ladder, Reference, inputs, multiply_by_torch, check_matmul
from ..tensor_maps import tensor_map
from .rung import H100, require_hopper, on_hopper

__all__ = [
    'edge_shapes',
    'check_kernel',
    'diagnose',
    'compiler_resources',
    'count_per_engine',
    'HopperLadder',
    'compare_with_torch',
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
    """Return three shapes: one with a single row, one slightly larger than a tile, and one with many tiles.

    The second one also has more phases than the pipeline has stages."""
    BM, BN, STAGES = (rung.constants[name] for name in ('BM', 'BN', 'STAGES'))
    return [(1, 8, 8), (65, BN + 8, 64 * STAGES + 72), (2 * BM + 1, 3 * BN - 8, 72)]


def check_kernel(
    rung,
    shapes=None,  # (h, w, k) of each; None: `edge_shapes`
    orders=('forward', 'reverse'),  # orders in which the emulator runs threads and blocks
):
    """Check a version against float64 on a Hopper GPU, or else on the emulator with all its checks, and print which.

        check_kernel(rung)

    The last of three shapes, which has many tiles, is checked in the first order only. Raises AssertionError for a
    wrong result, and the findings of the emulator."""
    shapes = shapes or edge_shapes(rung)
    with nullcontext() if on_hopper() else cpp.on_emulator():
        for order in orders:
            with cpp.options(order=order):
                check_matmul(rung, shapes if order == orders[0] else shapes[:2])
    device = 'this GPU' if on_hopper() else 'the emulator'
    print(f'{rung.name} is correct on {device}: h, w, k =', *shapes)


def diagnose(rung, shape=(200, 136, 392)) -> tuple:  # (the finding and its hint, the line of the kernel)
    "Return the first finding of the emulator for a version, in both orders of threads; ('right', '') if there is none"
    for order in ('forward', 'reverse'):
        with cpp.on_emulator(), cpp.options(order=order):
            try:
                check_matmul(rung, [shape])
            except KernelError as e:
                line = e.call_line or e.line
                return f'{e.kind}: {e.summary}. {e.hint}', rung.src.splitlines()[line - 1].strip() if line else ''
    return 'right', ''


def compiler_resources(rung) -> Resources:
    "Compile a kernel for Hopper; returns its registers, spills and occupancy"
    return _resources(rung.src, block=rung.threads[0], shared_bytes=rung.shared, arch='sm_90a')


_OPCODE_PREFIXES = {'wgmma': 'HGMMA', 'TMA': 'UTMA', 'barriers': 'SYNCS', 'mma.sync': 'HMMA'}


def count_per_engine(rung) -> dict:
    "Count the instructions per engine (tensor cores, TMA, barriers) in the machine code of a kernel"
    opcodes = sass(rung.src, arch='sm_90a').ops()
    return {
        engine: sum(count for opcode, count in opcodes.items() if opcode.startswith(prefix))
        for engine, prefix in _OPCODE_PREFIXES.items()
    }


class HopperLadder(Ladder):
    "A ladder of bf16 kernels that compares the measured L2 traffic with the traffic expected for the tile size"

    def __init__(self, shape, record, **options):
        super().__init__(
            shape=shape, record=record, metrics={'L2 sectors': 'lts__t_sectors_srcunit_tex_op_read.sum'}, **options
        )

    def expected_l2_bytes(self, BM, BN, blocks=1) -> int:
        "Compute the bytes that the GEMM loads from L2 if `blocks` blocks share each tile of n"
        h, w, k = self.shape
        return int(cdiv(h, BM) * cdiv(w, BN) * (BM + BN / blocks) * 2 * k)

    def measure(self, rung, blocks=1, counters=True):
        "Measure a rung, or read its recording, and print it next to the expected traffic; returns its `Step`"
        previous_setting, self.counters = self.counters, self.counters and counters
        try:
            step = self.add_step(rung)[rung.name]
        finally:
            self.counters = previous_setting
        print(f'{rung.name}: {step.tflops:.0f} TFLOP/s, {step.ratio:.1%} of torch.matmul ({step.made_on})')
        if 'L2 sectors' not in step.counters:
            return step
        expected_bytes = self.expected_l2_bytes(rung.constants['BM'], rung.constants['BN'], blocks)
        l2_bytes, dram_bytes = step.counters['L2 sectors'] * 32, step.counters['dram']
        rates = [f'{num_bytes / step.seconds / 1e12:.1f} TB/s' for num_bytes in (l2_bytes, dram_bytes)]
        print(f'from L2: {expected_bytes / 1e9:.1f} GB calculated, {l2_bytes / 1e9:.1f} GB counted, {rates[0]}')
        busy = f'tensor cores busy in {step.counters["tensor"]:.0f}% of cycles'
        print(f'DRAM: {dram_bytes / 1e9:.1f} GB, {rates[1]}; {busy}')
        # The fraction is below 1 if the L2 coalescer merges requests.
        claim('bytes from L2, counted / calculated', 0.7, l2_bytes / expected_bytes, 1.1, mark=step.provenance)
        return step

    def table(self, side_branches=(), omit='SM clock') -> Table:
        "Return a table of one row per step, without warnings that contain `omit`"
        table = super().table(side_branches)
        table.note = ';\n'.join(line for line in table.note.splitlines() if omit not in line)
        return table


def _operands(shape, device='cuda'):
    "Return random operands of an h, w, k GEMM, and an array for the result"
    m, n = inputs(*shape, 'bfloat16', device)
    return m, n, m.new_empty(shape[:2])


def compare_with_torch(
    record,  # name of the recording that is shown without a GPU, CHAPTER_TOPIC
    shape,  # h, w, k
    *rungs,  # with different names
    seconds=0.15,  # time limit per candidate
    title='',
) -> VariantComparison:
    "Check bf16 rungs and `torch.matmul`, then time them interleaved, with the L2 flushed between runs"
    functions = {'torch.matmul': multiply_by_torch, **{kernel.name: kernel for kernel in rungs}}
    references = []  # filled with one `Reference` when the inputs are made

    def make_inputs():
        require_hopper('The comparison')
        m, n, out = _operands(shape)
        references[:] = [Reference(m, n)]
        return m, n, out

    return compare_variants(
        record,
        functions,
        make_inputs,
        title=title or '{}x{} @ {}x{}'.format(shape[0], shape[2], shape[2], shape[1]),
        sources={
            'torch.matmul': 'torch.matmul',
            **{kernel.name: (kernel.launch_plan(*shape, H100), seconds) for kernel in rungs},
        },
        check=lambda result: references[0](result),
        writes=True,
        baseline='torch.matmul',
        flops=2 * shape[0] * shape[1] * shape[2],
        seconds=seconds,
        clock=GpuClock() if on_hopper() else None,
    )


def time_unchecked(shape, *rungs, seconds=0.4) -> dict:  # name -> speedup over torch
    "Time kernels interleaved with torch on random inputs, without a check: for kernels that omit part of the work"
    require_hopper('The timing')
    m, n, out = _operands(shape)
    functions = {'torch.matmul': lambda m, n: multiply_by_torch(m, n, out)}
    for kernel in rungs:
        functions[kernel.name] = lambda m, n, kernel=kernel: kernel(m, n, out)
    ratios = compare(functions, m, n, out=out, seconds=seconds, clock=GpuClock()).ratios
    return {name: ratio for name, (ratio, *_) in ratios.items()}


# To show when the engines work, a kernel stores the cycle counter of its SM after some of its lines, in one block.
def with_timestamps(rung, *lines) -> str:
    "Return the source of `rung` in which block (33, 33) stores a timestamp after each of `lines`"
    src = _replace_once(rung.src, 'int h, int w, int k) {', 'int h, int w, int k, long long *stamps) {')
    for i, line in enumerate(lines):
        condition = 'blockIdx.x == 33 && blockIdx.y == 33 && threadIdx.x%128 == 0'
        src = _replace_once(src, line, f'{line} if ({condition}) stamps[3*ph + {i}] = clock64();')
    return src


def _replace_once(src, old, new):
    "Replace a string that occurs exactly once in a source; raises `ValueError` otherwise"
    if src.count(old) != 1:
        raise ValueError(f'{old!r} must occur once in the source; it occurs {src.count(old)} times')
    return src.replace(old, new)


def read_timestamps(sources, shape) -> dict:  # name -> cycles of [phase, stamp]
    "Launch each rung of `sources` {rung: source with timestamps} once; raises `Unavailable` without a Hopper GPU"
    import torch

    require_hopper('A kernel with timestamps')
    m, n, out = _operands(shape)
    cycles = {}
    for rung, src in sources.items():
        stamps = torch.zeros(cdiv(shape[2], 64), 3, dtype=torch.int64, device=m.device)
        args = [tensor_map(x, *rung.tma_boxes[name]) for name, x in dict(m=m, n=n).items()]
        grid = rung.grid_for(*shape)
        cuda_kernel(src)[grid, rung.threads, None, rung.shared](*args, out, *shape, stamps)
        cycles[rung.name] = stamps.tolist()
    return cycles


def plot_timestamps(cycles, stages, title, phases=(20, 48), max_cycles=9000):
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
            for phase in range(*phases):
                issue_cycles, use_cycles, release_cycles = stamps[phase]
                y, is_first = phase % stages[name], phase == phases[0]
                ax.barh(
                    y,
                    use_cycles - issue_cycles,
                    left=issue_cycles,
                    color=plots.COLORS[0],
                    label='ordered' if is_first else None,
                )
                ax.barh(
                    y,
                    release_cycles - use_cycles,
                    left=use_cycles,
                    color=plots.COLORS[5],
                    label='multiplied' if is_first else None,
                )
                ax.text(
                    (use_cycles + release_cycles) / 2,
                    y,
                    phase,
                    ha='center',
                    va='center',
                    fontsize=plots.MIN_FONT_SIZE,
                    clip_on=True,
                )
            rows = range(stages[name])
            ax.set(yticks=rows, yticklabels=[f'stage {stage}' for stage in rows], ylabel=name, xlim=(0, max_cycles))
        axes[-1, 0].set_xlabel('cycles of the SM')
        axes[-1, 0].legend(loc='upper center', bbox_to_anchor=(0.5, -0.25), ncols=2)
        axes[0, 0].set_title(title)
    return fig


def count_wrong_results(
    kernel_of_name, shape=(2048, 2048, 2048), repeats=10
) -> dict:  # name -> [wrong results, wrong elements in them]
    "Count the wrong results of each kernel of {name: kernel} on this GPU; raises `Unavailable` without a Hopper GPU"
    import torch

    require_hopper('Counting wrong results')
    m, n, _ = _operands(shape)
    reference, counts = Reference(m, n), {}
    for name, kernel in kernel_of_name.items():
        wrong_elements = []  # per result
        for _ in range(repeats):
            out = torch.full(shape[:2], torch.nan, dtype=m.dtype, device=m.device)
            kernel(m, n, out)
            is_wrong = (out.double() - reference.expected).abs() > reference.error_bound('bfloat16')
            wrong_elements.append(int(is_wrong.logical_or(out.isnan()).sum()))
        counts[name] = [sum(count > 0 for count in wrong_elements), sum(wrong_elements)]
    return counts


def plot_speeds(panels):
    "Plot one bar per speed in TFLOP/s, one panel per title; returns the figure. `panels`: title -> name -> speed"
    import matplotlib.pyplot as plt

    with plots.styled():
        rows = max(map(len, panels.values()))
        fig, axes = plt.subplots(1, len(panels), figsize=(4.2 * len(panels), 0.9 + 0.3 * rows), squeeze=False)
        for ax, (title, speeds) in zip(axes[0], panels.items()):
            colors = [plots.COLORS[1 if name.startswith('yours') else 0] for name in speeds]
            bars = ax.barh([*speeds], [*speeds.values()], color=colors)
            ax.bar_label(bars, fmt='%.0f', padding=3, fontsize=plots.MIN_FONT_SIZE)
            ax.set(title=title, xlabel='TFLOP/s')
            ax.invert_yaxis()
            ax.margins(x=0.12)
    return fig


class Comparison(NamedTuple):
    "The speeds of our kernels compared with the library's, for many shapes"

    machine: str  # GPU and date
    baseline: str  # the library, and how it was timed
    ratios: dict  # (h, w, k) -> speedup of our kernel over the library


def load_comparison(path) -> Comparison:
    "Read the bfloat16 shapes of a committed run of benchmarks/matmul.py"
    tables = json.loads(recorded_file(path).read_text())
    machine = f'{tables["made"]["gpu"]}, {tables["made"]["date"]}'
    rows = [row for row in tables['bfloat16'] if row['layout'] == 'nn' and 'failed' not in row]
    sides_of_shape = {tuple(row['shape']): row['columns']['read'].get('sides', {}) for row in rows}
    ratios = {
        shape: sides['ours']['ratio'] / sides['cublasLt']['ratio']
        for shape, sides in sides_of_shape.items()
        if {'ours', 'cublasLt'} <= {*sides}
    }
    baseline = "the fastest of cublasLt's first eight heuristic results, with a cold L2 cache"
    return Comparison(machine, baseline, ratios)


def plot_comparison(comparison):
    "Plot one bar per shape, from the library's speed to ours; label the shapes for which the library is faster"
    import matplotlib.pyplot as plt

    with plots.styled():
        sorted_ratios = sorted(comparison.ratios.items(), key=lambda item: item[1])
        ratios = [ratio for _, ratio in sorted_ratios]
        fig, ax = plt.subplots(figsize=(7.5, 1.2 + 0.17 * len(sorted_ratios)))
        colors = [plots.COLORS[5 if ratio < 1 else 0] for ratio in ratios]
        ax.barh(range(len(sorted_ratios)), [ratio - 1 for ratio in ratios], left=1, color=colors)
        slower_shapes = [f'{h}x{k} @ {k}x{w}' for (h, w, k), ratio in sorted_ratios if ratio < 1]
        ax.set_yticks(range(len(slower_shapes)), slower_shapes)
        ax.axvline(1, color=plots.INK, lw=1)
        ax.margins(y=0.01)
        ax.set(
            xlabel="our speed, relative to the library's",
            title=f'{comparison.machine}\ncompared with {comparison.baseline}',
        )
    return fig
