"""`LessonLadder`: a ladder in a lesson. It compares the measurement of a step with a guess and a count on paper."""

from functools import lru_cache

import numpy as np

from ...asm import CompilerMissing, resources, sass
from ...asm.listing import KINDS
from ...prof.counters import ncu
from ...bench.recording import Unavailable, claim, made_on, recorded
from ...support.tables import Table
from ...utils import backend
from ...bench.variants import VariantComparison, compare_variants
from .ladder import GpuClock, Ladder, Reference, tf32_disabled, inputs, multiply_by_torch, check_matmul
from .rung import H100

__all__ = ['LessonLadder', 'InstructionCounts', 'count_kinds', 'time_matmuls', 'count_quads', 'count_library']


# Nsight Compute counts the work of the load/store pipe in wavefronts, and that of the warp schedulers in issued
# instructions. Both are reported per multiplying instruction of a warp: an FFMA, which is 32 multiply-adds, or a tensor
# core instruction, which is more.
_WAVEFRONTS_METRIC, _INSTRUCTIONS_METRIC = 'l1tex__data_pipe_lsu_wavefronts.sum', 'smsp__inst_executed.sum'
_STALL_TEXTS = dict(
    long_scoreboard='data from global memory',
    short_scoreboard='data from shared memory',
    barrier='the others, at a barrier',
    mio_throttle='the queue to the pipe',
    lg_throttle='the queue to global memory',
    dispatch_stall='dispatch',
    not_selected='nothing: another warp was selected',
)


def _num_multiplying_instructions(shape, multiply_adds=32):
    "Return the number of instructions that a GEMM needs, if each one does `multiply_adds` multiply-adds"
    return float(np.prod(shape, dtype=float)) / multiply_adds


def _count_loop(rung, op='FFMA'):
    "Return ({kind: instructions per multiplying instruction} for the longest loop, name of the compiler)"
    listing = sass(rung.src)
    loop = listing.loop()
    num_multiplying = sum(count for name, count in loop.ops().items() if name.startswith(op))
    if not num_multiplying:
        raise ValueError(f'{rung.name}: its longest loop must have a multiply-add ({op}); none was found')
    return {kind: count / num_multiplying for kind, count in loop.count().items()}, listing.by


class LessonLadder:
    "A ladder on which each step is checked, measured, and compared with a guess and a count on paper"

    def __init__(
        self,
        shape,  # h, w, k of the GEMM with which rungs are measured
        record,  # CHAPTER_TOPIC: the prefix of the recordings' names
        bound,  # function: (wavefronts, instructions) per multiplying instruction -> upper bound in TFLOP/s
        seconds=0.3,  # time limit for a rung, and for the library
        folder='recorded',
        unit='multiply-add',  # the multiplying instruction, as the output calls it
        multiply_adds=32,  # per multiplying instruction
        op='FFMA',  # the prefix of its name in machine code
        extra_shapes=(),  # additional shapes (h, w, k) with which a rung is checked
        stall_reasons={},  # additional stall reasons: {name in Nsight Compute: text in the table}
    ):
        self.bound, self.unit, self.op = bound, unit, op
        self.num_multiplying_instructions = _num_multiplying_instructions(shape, multiply_adds)
        self.extra_shapes, self.stall_reasons = list(extra_shapes), {**_STALL_TEXTS, **stall_reasons}
        metrics = dict(pipe=_WAVEFRONTS_METRIC, instructions=_INSTRUCTIONS_METRIC)
        self.ladder = Ladder(shape=shape, record=record, seconds=seconds, metrics=metrics, folder=folder)

    def __call__(
        self,
        rung,
        wavefronts,  # per multiplying instruction, as counted on paper
        guess=None,  # the reader's guess: the speedup over the first rung in `speedups`, or without these, TFLOP/s
        speedups=None,  # the claims of the text: {another rung: (lowest, highest) speedup over it}
        tolerance=0.05,  # the relative error of the count on paper that the text claims
    ):
        """Check a version, measure it or read its recording, and compare the result with the guess, the count on paper
        and the claims.

        For a version without a measurement or recording, such as an edited one without a GPU, print static counts."""
        num_checked = check_matmul(rung)
        if num_checked and self.extra_shapes:
            check_matmul(rung, self.extra_shapes)
        try:
            step = self.ladder.add_step(rung)[rung.name]
        except Unavailable as e:
            status = f'{rung.name} is correct, but not timed' if num_checked else f'{rung.name} is not timed'
            print(f'{status}: {e}.\n{self.static_table(rung, wavefronts)}')
            return
        print(f'{rung.name}: {step.tflops:.2f} TFLOP/s, {step.ratio:.1%} of torch.matmul ({step.made_on})')
        tensor_busy = self._format_tensor_busy(step, ', tensor cores busy {:.0f}%')
        print(f'{step.registers} registers per thread, occupancy {step.occupancy:.0%}{tensor_busy}')
        _print_guess(guess, next(iter(speedups), None) if speedups else None)
        for name, (low, high) in (speedups or {}).items():
            claim(
                f'{rung.name}, speedup over {name}',
                low,
                self._speedup_over(step, name),
                high,
                'x',
                mark=step.provenance,
            )
        self._compare_with_paper(step, wavefronts, tolerance)

    def _speedup_over(self, step, name):
        """Return the speedup over another rung; None if that was not measured. It is the ratio of their speedups over
        the library, because each was timed interleaved with the library, and a hot GPU lowers its clock for both"""
        named_step = next((other for other in self.ladder.steps if other.name == name), None)
        return named_step and step.ratio / named_step.ratio

    def _compare_with_paper(self, step, wavefronts, tolerance):
        "Compare the counts of the hardware with those on paper"
        counted_wavefronts, instructions = self.measured_counts(step.name)
        if counted_wavefronts is None:
            print(f'{wavefronts:.3f} wavefronts per {self.unit} on paper; hardware counters are not available')
            return
        print(
            f'per {self.unit}: {wavefronts:.3f} wavefronts on paper, {counted_wavefronts:.3f} counted; '
            f'{instructions:.2f} instructions; these allow {self.bound(counted_wavefronts, instructions):.1f} TFLOP/s'
        )
        low, high = (1 - tolerance) * wavefronts, (1 + tolerance) * wavefronts
        claim(f'wavefronts per {self.unit}', low, counted_wavefronts, high, mark=step.provenance)

    def __getitem__(self, name):
        "Return the `Step` of a rung"
        return self.ladder[name]

    def measured_counts(self, name) -> tuple:  # both None if nothing was counted
        "Return wavefronts and instructions per multiplying instruction, as the hardware counted them"
        counts = (self.ladder[name].counters.get(metric) for metric in ('pipe', 'instructions'))
        return tuple(None if count is None else count / self.num_multiplying_instructions for count in counts)

    def static_table(self, rung, wavefronts) -> Table:
        "Tabulate registers, occupancy and instructions of a rung, and the speed that they allow, without running it"
        title = f'{rung.name}, without timing'
        try:
            static_resources = resources(rung.src, block=int(np.prod(rung.threads)), shared_bytes=rung.shared)
            per_kind, compiler_name = _count_loop(rung, self.op)
        except CompilerMissing as e:
            return Table((), [[f'wavefronts per {self.unit}, on paper', f'{wavefronts:.3f}']], title, str(e))
        instructions, occupancy = sum(per_kind.values()), static_resources.occupancy
        rows = [
            ['registers per thread', static_resources.registers],
            ['occupancy', f'{occupancy.fraction:.0%}, limited by {", ".join(occupancy.limiter)}'],
            ['spilled', f'{static_resources.spill_stores + static_resources.spill_loads} bytes per thread'],
            [f'wavefronts per {self.unit}, on paper', f'{wavefronts:.3f}'],
            [f'instructions per {self.unit}, in its loop', f'{instructions:.3f}'],
            ['these allow, at most', f'{self.bound(wavefronts, instructions):.1f} TFLOP/s'],
        ]
        return Table((), rows, title, f'[compiled for {static_resources.arch} by {compiler_name}]')

    def stall_table(self, *names) -> Table:
        "Tabulate the stall reasons of some rungs, each as a fraction of all stalls"
        stalls = {name: self.ladder[name].counters.get('stalls') or {} for name in names}
        rows = []
        for reason, text in self.stall_reasons.items():
            fractions = [_stall_fraction(stall_counts, reason) for stall_counts in stalls.values()]
            if max(fractions) >= 0.01:
                rows.append([text, *(f'{fraction:.0%}' for fraction in fractions)])
        machines = ', '.join(dict.fromkeys(self.ladder[name].made_on for name in names))
        return Table(
            ['<waiting for', *names], rows, f'What warps wait for ({machines})', 'fractions below 1% are omitted'
        )

    def table(self) -> Table:
        "Tabulate the speed and the counts of all steps, and the bounds from the counts"
        header = ['<rung', 'TFLOP/s', 'of torch', 'wavefronts', 'instructions', 'these allow', 'registers', 'occupancy']
        rows = [self._row(step) for step in self.ladder.steps]
        if any(column := [self._format_tensor_busy(step, '{:.0f}%') for step in self.ladder.steps]):
            header, rows = [*header, 'tensor cores busy'], [[*row, cell] for row, cell in zip(rows, column)]
        machines = ', '.join(dict.fromkeys(step.made_on for step in self.ladder.steps))
        return Table(header, rows, f'The ladder ({machines})', f'wavefronts and instructions per {self.unit} of a warp')

    def _row(self, step):
        "Return the cells of a step in `table`"
        wavefronts, instructions = self.measured_counts(step.name)
        counts = ['', '', '']
        if wavefronts is not None:
            counts = [f'{wavefronts:.3f}', f'{instructions:.2f}', f'{self.bound(wavefronts, instructions):.1f}']
        speed = [f'{step.tflops:.2f}', f'{step.ratio:.1%}']
        return [step.name, *speed, *counts, step.registers, f'{step.occupancy:.0%}']

    def _format_tensor_busy(self, step, template):
        "Format the percentage of cycles in which tensor cores are busy; empty for FFMA, or if it was not counted"
        percentage = step.counters.get('tensor')
        return template.format(percentage) if percentage and self.op != 'FFMA' else ''

    def plot(self):
        "Plot the ladder as bars; returns the axes"
        return self.ladder.plot()


def _stall_fraction(stalls, reason):
    "Return one stall reason as a fraction of all stalls"
    return stalls.get(reason, 0) / (sum(stalls.values()) or 1)


def _print_guess(guess, baseline):
    """Print the reader's guess, if there is one: the speedup over the rung `baseline`, or if that is None, TFLOP/s.
    Raises `TypeError` unless it is a number or ..."""
    if guess is None:
        return
    unit = f'the speedup over {baseline}' if baseline else 'TFLOP/s'
    if isinstance(guess, (int, float)):
        print(f'you guessed {guess:g}x over {baseline}' if baseline else f'you guessed {guess:g} TFLOP/s')
    elif guess is not ...:
        raise TypeError(f'my_guess must be a number, {unit}; got {guess!r}')


# A comparison of GEMM kernels for one shape, with the library among the candidates and the error of each result in the
# table.
def time_matmuls(
    record,  # name of the recording that is shown without a GPU, CHAPTER_TOPIC
    h,
    w,
    k,  # of h x k @ k x w
    *kernels,  # rungs, or other hand-written GEMMs
    seconds=0.3,  # time limit per candidate
) -> VariantComparison:  # with a column `error`: the norm of the error, relative to the norm of the result
    "Check hand-written GEMMs and `torch.matmul`, then time them interleaved"

    @lru_cache
    def inputs_and_reference():
        m, n = inputs(h, w, k, 'float32', 'cuda')
        return m, n, m.new_empty((h, w)), Reference(m, n)

    def multiply(m, n, out):
        with tf32_disabled():
            return multiply_by_torch(m, n, out)

    functions = {'torch.matmul': multiply, **{kernel.name: kernel for kernel in kernels}}

    def relative_error(name):
        m, n, out, reference = inputs_and_reference()
        return f'{reference.relative_error(functions[name](m, n, out)):.1e}'

    return compare_variants(
        record,
        functions,
        lambda: inputs_and_reference()[:3],
        title=f'{h}x{k} @ {k}x{w}',
        sources={
            'torch.matmul': 'torch.matmul',
            **{kernel.name: kernel.launch_plan(h, w, k, H100) for kernel in kernels},
        },
        check=lambda result: inputs_and_reference()[3](result),
        writes=True,
        baseline='torch.matmul',
        flops=2 * h * w * k,
        columns=dict(error=relative_error),
        seconds=seconds,
        clock=GpuClock() if backend() == 'gpu' else None,
    )


# Where compilers are installed, instructions are counted without a GPU.
class InstructionCounts(dict):
    "Instruction counts, name -> {kind: instructions per multiply-add}; a notebook shows them as a table"

    def __init__(self, counts, compiler_name):
        super().__init__(counts)
        self.compiler_name = compiler_name

    def total(self, name) -> float:
        "Return the total of a rung, in instructions per multiply-add"
        return sum(self[name].values())

    def table(self) -> Table:
        "Return a table of one row per rung and one column per kind"
        kinds = [kind for kind in KINDS if any(kind in counts for counts in self.values())]
        rows = [
            [name, *(f'{counts.get(kind, 0):.3f}' for kind in kinds), f'{self.total(name):.3f}']
            for name, counts in self.items()
        ]
        title = f'Instructions in the longest loop, per multiply-add ({self.compiler_name})'
        return Table(['<', *kinds, 'all'], rows, title)

    def __repr__(self):
        return repr(self.table())

    def _repr_html_(self):
        return self.table()._repr_html_()


def count_kinds(
    *rungs,
    record,  # name of the recording that is shown without compilers, CHAPTER_TOPIC
) -> InstructionCounts:
    "Count the instructions in the longest loop of each rung, by kind, per multiply-add"

    def count_loops():
        try:
            loops = {kernel.name: _count_loop(kernel) for kernel in rungs}
        except CompilerMissing as e:
            raise Unavailable(str(e)) from None
        return {name: counts for name, (counts, _) in loops.items()}, next(iter(loops.values()))[1]

    def from_recording(data, provenance):
        return data, provenance.partition(' (')[0]

    sources = [kernel.src for kernel in rungs]
    counts, compiler_name = recorded(record, count_loops, *sources, save=lambda result: result[0], load=from_recording)
    return InstructionCounts(counts, compiler_name)


_QUADS_SCRIPT = '''
import torch
from gridstride.cpp import cuda_kernel
lanes_k = cuda_kernel("""
__global__ void lanes_k(const int *quad, float4 *out) {{
    __shared__ float4 s[64];
    for (int i = threadIdx.x; i < 64; i += 32) s[i] = make_float4(i, i, i, i);
    __syncthreads();
    out[threadIdx.x] = s[quad[threadIdx.x]];
}}""")
for quad in {patterns}:
    lanes_k[1,32](torch.tensor(quad, dtype=torch.int32, device='cuda'), torch.empty(32,4, device='cuda'))
torch.cuda.synchronize()
'''


def count_quads(
    patterns,  # name -> 32 indices from 0 to 63: the group of four floats that each lane loads
    record,  # name of the recording that is shown without a GPU, CHAPTER_TOPIC
) -> dict:  # name -> wavefronts
    "Count the wavefronts of a warp whose lanes load four floats each from shared memory with one instruction"
    metric = 'l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum'
    script = _QUADS_SCRIPT.format(patterns=[list(map(int, quads)) for quads in patterns.values()])
    report = ncu(script, sections=[], metrics=[metric], kernel='lanes_k', record=record)
    return {name: int(launch[metric]) for name, launch in zip(patterns, report.kernels, strict=True)}


_LIBRARY_SCRIPT = """
import torch
torch.backends.cuda.matmul.allow_tf32 = False
m, n = (torch.randn(size, device='cuda') for size in (({h}, {k}), ({k}, {w})))
torch.matmul(m, n)
torch.cuda.synchronize()
"""


def count_library(
    h,
    w,
    k,  # of h x k @ k x w
    record,  # name of the recording that is shown without a GPU, CHAPTER_TOPIC
) -> dict:  # issue: fraction of issue slots used; instructions: per multiply-add; name: of the kernel; made: where
    "Count events while torch.matmul multiplies two matrices of floats"
    issue_metric = 'smsp__issue_active.avg.pct_of_peak_sustained_active'
    script = _LIBRARY_SCRIPT.format(h=h, w=w, k=k)
    report = ncu(script, sections=[], metrics=[issue_metric, _INSTRUCTIONS_METRIC], kernel='gemm', record=record)
    launch = report.kernels[-1]
    instructions = float(launch[_INSTRUCTIONS_METRIC]) / _num_multiplying_instructions((h, w, k))
    return dict(issue=float(launch[issue_metric]) / 100, instructions=instructions, name=launch.name, made=made_on())
