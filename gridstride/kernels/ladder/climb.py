"""`Climb`: a ladder climbed rung by rung in a lesson: a guess first, then what paper, compiler and hardware count."""

from functools import lru_cache

import numpy as np

from ...asm import CompilerMissing, resources, sass
from ...asm.listing import KINDS
from ...prof.counters import ncu
from ...bench.recording import Unavailable, claim, made_on, recorded
from ...support.tables import Table
from ...utils import backend
from ...bench.variants import Contest, contest
from .ladder import Gpu, Ladder, Reference, exact, inputs, library, right
from .rung import H100

__all__ = ['Climb', 'Kinds', 'kinds', 'race', 'count_quads', 'count_library']


# The pipe for loads and stores counts what it does in wavefronts, the schedulers what they issue in instructions of a
# warp. Both are counted per instruction that multiplies: a multiply-add of a warp, which is 32 of them, or one of a
# tensor core, which is more.
_PIPE, _ISSUED = 'l1tex__data_pipe_lsu_wavefronts.sum', 'smsp__inst_executed.sum'
_REASONS = dict(
    long_scoreboard='data from global memory',
    short_scoreboard='data from shared memory',
    barrier='the others, at a barrier',
    mio_throttle='the queue to the pipe',
    lg_throttle='the queue to global memory',
    dispatch_stall='dispatch',
    not_selected='nothing: another warp was selected',
)


def _instructions(shape, multiply_adds=32):
    "Instructions of so many multiply-adds in a product"
    return float(np.prod(shape, dtype=float)) / multiply_adds


def _loop(rung, op='FFMA'):
    "(instructions for one that multiplies in the rung's longest loop, by kind; who compiled it)"
    listing = sass(rung.src)
    loop = listing.loop()
    multiply = sum(n for o, n in loop.ops().items() if o.startswith(op))
    if not multiply:
        raise ValueError(f'{rung.name}: there is no multiply-add ({op}) in its longest loop')
    return {kind: n / multiply for kind, n in loop.count().items()}, listing.by


class Climb:
    "A ladder on which each rung is checked, measured, and held against a guess and a count on paper"

    def __init__(
        self,
        shape,  # h, w, k of the product on which rungs are measured
        record,  # NN_what: the first part of the names of the recordings
        bound,  # (wavefronts, instructions) for a multiply-add -> the TFLOP/s that they allow
        seconds=0.3,  # of timing, for a rung and for the library
        folder='recorded',
        unit='a multiply-add',  # the instruction that multiplies, as a text calls it
        multiply_adds=32,  # in one of these
        op='FFMA',  # its name in machine code begins so
        also=(),  # shapes h, w, k on which a rung is tested besides those around its tile
        reasons={},  # more that warps may wait for: {Nsight Compute's word: the text's}
    ):
        self.bound, self.units, self.unit, self.op = bound, _instructions(shape, multiply_adds), unit, op
        self.also, self.reasons = list(also), {**_REASONS, **reasons}
        metrics = dict(pipe=_PIPE, instructions=_ISSUED)
        self.ladder = Ladder(shape=shape, record=record, seconds=seconds, metrics=metrics, folder=folder)

    def __call__(
        self,
        rung,
        wavefronts,  # for a multiply-add, as counted on paper
        guess=None,  # the reader's: the speedup over the first in `times`; without these, TFLOP/s
        times=None,  # the text's claims: {another rung: (lowest, highest) speedup}
        within=0.05,  # how far what is counted may be from the paper
    ):
        """Check a rung, measure it or read what was recorded of it, and print how far guess, paper and text hold.

        What was neither measured nor recorded, such as a rung of one's own without a GPU, is counted without a clock.
        """
        tried = right(rung)
        if tried and self.also:
            right(rung, self.also)
        try:
            step = self.ladder.climb(rung)[rung.name]
        except Unavailable as e:
            found = f'{rung.name} is right. It is not timed' if tried else f'{rung.name} is not timed'
            print(f'{found}: {e}.\n{self.count(rung, wavefronts)}')
            return
        print(f'{rung.name}: {step.tflops:.2f} TFLOP/s, {step.ratio:.1%} of torch.matmul ({step.made_on})')
        busy = self._busy(step, ', tensor cores busy {:.0f}%')
        print(f'{step.registers} registers of a thread, occupancy {step.occupancy:.0%}{busy}')
        _print_guess(guess, next(iter(times), None) if times else None)
        for name, (low, high) in (times or {}).items():
            claim(f'{rung.name}, speedup over {name}', low, self._times(step, name), high, mark=step.mark)
        self._hold_paper(step, wavefronts, within)

    def _times(self, step, name):
        """The speedup over another rung, from their ratios to the library, with which each was timed interleaved: a hot
        GPU lowers its clock for both. None if the other was not measured"""
        other = next((s for s in self.ladder.steps if s.name == name), None)
        return other and step.ratio / other.ratio

    def _hold_paper(self, step, wavefronts, within):
        "The counts, compared with those of the paper model"
        counted, instructions = self.counts(step.name)
        if counted is None:
            print(f'{wavefronts:.3f} wavefronts for {self.unit} on paper; the hardware was not asked')
            return
        print(
            f'for {self.unit}: {wavefronts:.3f} wavefronts on paper, {counted:.3f} counted; '
            f'{instructions:.2f} instructions; these allow {self.bound(counted, instructions):.1f} TFLOP/s'
        )
        low, high = (1 - within) * wavefronts, (1 + within) * wavefronts
        claim(f'wavefronts for {self.unit}', low, counted, high, mark=step.mark)

    def __getitem__(self, name):
        "The measurements of a rung: a `Step`"
        return self.ladder[name]

    def counts(self, name) -> tuple:  # both None where nothing was counted
        "Wavefronts and instructions for a multiply-add, as the hardware counted them"
        found = (self.ladder[name].counters.get(o) for o in ('pipe', 'instructions'))
        return tuple(None if v is None else v / self.units for v in found)

    def count(self, rung, wavefronts) -> Table:
        "What can be said of a rung without a clock: registers, occupancy, instructions, and what they allow at most"
        title = f'{rung.name}, without a clock'
        try:
            takes = resources(rung.src, block=int(np.prod(rung.threads)), shared_bytes=rung.shared)
            found, by = _loop(rung, self.op)
        except CompilerMissing as e:
            return Table((), [[f'wavefronts for {self.unit}, on paper', f'{wavefronts:.3f}']], title, str(e))
        instructions = sum(found.values())
        rows = [
            ['registers of a thread', takes.registers],
            ['occupancy', f'{takes.occupancy.share:.0%}, limited by {", ".join(takes.occupancy.limiter)}'],
            ['spilled', f'{takes.spill_stores + takes.spill_loads} bytes of a thread'],
            [f'wavefronts for {self.unit}, on paper', f'{wavefronts:.3f}'],
            [f'instructions for {self.unit}, in its loop', f'{instructions:.3f}'],
            ['these allow, at most', f'{self.bound(wavefronts, instructions):.1f} TFLOP/s'],
        ]
        return Table((), rows, title, f'[compiled for {takes.arch} by {by}]')

    def waits(self, *names) -> Table:
        "Tabulate the stall reasons of some rungs, each as a fraction of all waiting"
        stalls = {o: self.ladder[o].counters.get('stalls') or {} for o in names}
        rows = {words: [_share(s, reason) for s in stalls.values()] for reason, words in self.reasons.items()}
        shown = [[k, *(f'{v:.0%}' for v in row)] for k, row in rows.items() if max(row) >= 0.01]
        made = ', '.join(dict.fromkeys(self.ladder[o].made_on for o in names))
        return Table(['<waiting for', *names], shown, f'What warps wait for ({made})', 'what is below 1% is left out')

    def table(self) -> Table:
        "All rungs: speed, counts, and the bounds from the counts"
        head = ['<rung', 'TFLOP/s', 'of torch', 'wavefronts', 'instructions', 'these allow', 'registers', 'occupancy']
        rows = [self._row(s) for s in self.ladder.steps]
        if any(busy := [self._busy(s, '{:.0f}%') for s in self.ladder.steps]):
            head, rows = [*head, 'tensor cores busy'], [[*r, b] for r, b in zip(rows, busy)]
        made = ', '.join(dict.fromkeys(s.made_on for s in self.ladder.steps))
        return Table(head, rows, f'The ladder ({made})', f'wavefronts and instructions for {self.unit} of a warp')

    def _row(self, s):
        w, i = self.counts(s.name)
        counted = ['', '', ''] if w is None else [f'{w:.3f}', f'{i:.2f}', f'{self.bound(w, i):.1f}']
        return [s.name, f'{s.tflops:.2f}', f'{s.ratio:.1%}', *counted, s.registers, f'{s.occupancy:.0%}']

    def _busy(self, step, text):
        "The fraction of cycles in which tensor cores are busy, as text; empty for FFMA, or if it was not counted"
        busy = step.counters.get('tensor')
        return text.format(busy) if busy and self.op != 'FFMA' else ''

    def plot(self):
        "The ladder as bars; returns the axes"
        return self.ladder.plot()


def _share(stalls, reason):
    "One reason among all waiting, 0 to 1"
    return stalls.get(reason, 0) / (sum(stalls.values()) or 1)


def _print_guess(guess, than):
    "The reader's guess, above the line that has what was measured"
    if guess is None:
        return
    unit = f'times as fast as {than}' if than else 'TFLOP/s'
    if guess is ...:
        print('your guess: none yet')
    elif isinstance(guess, (int, float)):
        print(f'your guess: {guess:g} {unit}')
    else:
        raise TypeError(f'my_guess is {guess!r}; it is a number: how many {unit}')


# A race is a contest on one product, with the library in it and the error of each result in the table.
def race(
    record,  # NN_what: the name of the recording that is shown without a GPU
    h,
    w,
    k,  # of h x k @ k x w
    *kernels,  # rungs, or other products by hand
    seconds=0.3,  # to measure each for at most
) -> Contest:  # with a column `error`: the length of the error in units of the result's length
    "Hand-written products and `torch.matmul`, each checked, then timed interleaved"

    @lru_cache
    def case():
        m, n = inputs(h, w, k, 'float32', 'cuda')
        return m, n, m.new_empty((h, w)), Reference(m, n)

    def multiply(m, n, out):
        with exact():
            return library(m, n, out)

    ways = {'torch.matmul': multiply, **{kernel.name: kernel for kernel in kernels}}

    def error(name):
        m, n, out, judge = case()
        return f'{judge.error(ways[name](m, n, out)):.1e}'

    return contest(
        record,
        ways,
        lambda: case()[:3],
        title=f'{h}x{k} @ {k}x{w}',
        sources={
            'torch.matmul': 'torch.matmul',
            **{kernel.name: kernel.launch_plan(h, w, k, H100) for kernel in kernels},
        },
        check=lambda got: case()[3](got),
        writes=True,
        baseline='torch.matmul',
        flops=2 * h * w * k,
        columns=dict(error=error),
        seconds=seconds,
        clock=Gpu() if backend() == 'gpu' else None,
    )


# Where compilers are, instructions are counted without a GPU.
class Kinds(dict):
    "name -> {kind of instruction: how many for a multiply-add}; shows itself as a table"

    def __init__(self, found, made):
        super().__init__(found)
        self.made = made

    def all(self, name) -> float:
        "All instructions of a rung for one multiply-add"
        return sum(self[name].values())

    def table(self) -> Table:
        "One row per rung, one column per kind"
        every = [kind for kind in KINDS if any(kind in o for o in self.values())]
        rows = [[k, *(f'{o.get(e, 0):.3f}' for e in every), f'{self.all(k):.3f}'] for k, o in self.items()]
        title = f'Instructions in the longest loop, for one multiply-add ({self.made})'
        return Table(['<', *every, 'all'], rows, title)

    def __repr__(self):
        return repr(self.table())

    def _repr_html_(self):
        return self.table()._repr_html_()


def kinds(
    *rungs,
    record,  # NN_what: the name of the recording that is shown where compilers are missing
) -> Kinds:
    "The instructions in the longest loop of each rung, by kind, per multiply-add"

    def make():
        try:
            loops = {r.name: _loop(r) for r in rungs}
        except CompilerMissing as e:
            raise Unavailable(str(e)) from None
        return {k: o for k, (o, _) in loops.items()}, next(iter(loops.values()))[1]

    def load(data, mark):
        return data, f'{mark.partition(" (")[0]}'

    found, by = recorded(record, make, *[r.src for r in rungs], save=lambda o: o[0], load=load)
    return Kinds(found, by)


_QUADS = '''
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
    patterns,  # name -> 32 indices, from 0 to 63: which four floats each lane of a warp loads
    record,  # NN_what: the name of the recording that is shown without a GPU
) -> dict:  # name -> wavefronts
    "Count the wavefronts that the hardware takes when each lane loads four floats of shared memory by one instruction"
    metric = 'l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum'
    script = _QUADS.format(patterns=[list(map(int, p)) for p in patterns.values()])
    asked = ncu(script, sections=[], metrics=[metric], kernel='lanes_k', record=record)
    return {name: int(k[metric]) for name, k in zip(patterns, asked.kernels, strict=True)}


_LIBRARY = """
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
    record,  # NN_what: the name of the recording that is shown without a GPU
) -> dict:  # issue: share of the issue slots that are used; instructions: for one multiply-add; name: of the kernel
    "Count events while torch.matmul multiplies two matrices of floats"
    issue = 'smsp__issue_active.avg.pct_of_peak_sustained_active'
    asked = ncu(_LIBRARY.format(h=h, w=w, k=k), sections=[], metrics=[issue, _ISSUED], kernel='gemm', record=record)
    found = asked.kernels[-1]
    each = float(found[_ISSUED]) / _instructions((h, w, k))
    return dict(issue=float(found[issue]) / 100, instructions=each, name=found.name, made=made_on())
