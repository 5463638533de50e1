"""One call, timed in five ways that answer different questions, and by counted cycles: the columns of a table.

- `written`: other memory was overwritten before each run. The L2 cache holds nothing of the operands, but is full of
  lines that have to be written back while the run begins.
- `read`: other memory was read before each run, so that the cache is as full, and clean.
- `none`: nothing was done between runs. What fits into the cache is there from the run before.
- `row`: calls one after the other from Python, on the wall clock until the GPU has done the last: where a launch
  takes longer than the work, it is what is seen.
- `graph`: calls captured once as a CUDA graph, and replayed: no Python, no flush.
"""

import numpy as np

from . import clocks
from .stats import summary
from .versus import ratio, time_interleaved

# An SM counts its cycles, and the GPU nanoseconds. Each SM notes both before and after a batch; the difference
# gives the clock rate of the batch, not the one that a sensor saw at some moment of it.
_STAMP = r'''
__global__ void stamp_k(long long *at) {                            // two values per SM
    if (threadIdx.x > 0) return;
    unsigned sm;
    long long ns;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns) :: "memory");
    *(longlong2 *)(at + 2*sm) = make_longlong2(clock64(), ns);
}
'''
SLOTS = 1024  # more than a GPU has SMs


def clock_between(before, after):  # arrays of (cycles, nanoseconds) by SM, zeros where none was noted; None: no SM
    "Return the clock in MHz between two notes: the median of the SMs that made both"
    d = (after - before)[(before[:, 1] > 0) & (after[:, 1] > before[:, 1])]
    return float(np.median(d[:, 0] / d[:, 1])) * 1000 if len(d) else None


class Stamps:
    "Notes of cycles and nanoseconds, by all SMs of the current GPU, in the order of the stream"

    def __init__(self):
        import torch
        from ..cpp.kernel import cuda_kernel

        sms = torch.cuda.get_device_properties().multi_processor_count
        self.kernel = cuda_kernel(_STAMP)
        self.blocks = 4 * sms
        self.at = torch.zeros(2, SLOTS, 2, dtype=torch.int64, device='cuda')

    def note(self, i):  # i: 0 before, 1 after
        "Have each SM note where its counters are"
        self.kernel[self.blocks, 32](self.at[i])

    def mhz(self):
        "Return the clock between both notes, once the GPU has made them"
        found = clock_between(*self.at.cpu().numpy())
        self.at.zero_()
        return found


class Written(clocks.Events):
    "CUDA events, other memory overwritten before each run; `mhz` has the counted clock of each batch"

    flush = True

    def __init__(self):
        super().__init__(self.flush)
        self.stamps = Stamps()
        self.mhz = []

    def begin_batch(self):
        "Queue what comes before the first run of a batch"
        self.stamps.note(0)

    def end_batch(self):
        "Called after the last run of a batch"
        self.stamps.note(1)

    def times(self, fn, n):
        "Return how long each of `n` calls takes, in seconds"
        res = super().times(fn, n)
        self.mhz.append(self.stamps.mhz())
        return res

    def all_late(self, times):
        "A table has no row whose times are the CPU's"
        raise RuntimeError(f'in {clocks.TRIES} tries the GPU started all {len(times)} runs before they were queued')


class Read(Written):
    "CUDA events, other memory read before each run"

    flush = 'read'


class Untouched(Written):
    "CUDA events, with no flush in between runs"

    flush = False


class InARow(Untouched):
    "The wall clock of calls one after the other; a batch is one time"

    most = 1000

    def times(self, fn, n):
        "Return a list with the seconds of one call"
        self.begin_batch()
        self.torch.synchronize()
        start = self.now()
        for _ in range(n):
            fn()
        self.torch.synchronize()
        spent = self.now() - start
        self.end_batch()
        self.mhz.append(self.stamps.mhz())
        return [spent / n]


CALLS = 20  # in a graph


class InGraph(Untouched):
    "CUDA events around graphs of `CALLS` calls"

    def __init__(self):
        super().__init__()
        self.graphs = {}

    def times(self, fn, n):
        "Return how long a call takes in each of `n` graphs, in seconds"
        if fn not in self.graphs:
            self.graphs[fn] = clocks.capture(fn, CALLS)
        return [t / CALLS for t in super().times(self.graphs[fn], n)]


COLUMNS = dict(written=Written, read=Read, none=Untouched, row=InARow, graph=InGraph)


def one_run(clock, calls, seconds) -> tuple:  # (name -> seconds by round, MHz or None)
    "Time calls interleaved on one clock"
    rounds = {
        k: [float(np.median(batch)) for batch in v] for k, v in time_interleaved(clock, calls, seconds, seconds).items()
    }
    mhz = [
        rate for rate in clock.mhz[-sum(map(len, rounds.values())) :] if rate
    ]  # not of the warm-up, whose batches are short
    return rounds, float(np.median(mhz)) if mhz else None


def summarize_runs(name, runs, base) -> dict:
    "Return the result of several runs for one candidate, compared with the baseline `base`"
    rounds = [s for r, _ in runs for s in r[name]]
    ratios = [ratio([[t] for t in r[base]], [[u] for u in r[name]]) for r, _ in runs]
    low, high = np.percentile(rounds, [5, 95])
    return dict(
        seconds=summary(rounds).median,
        fast=float(low),
        slow=float(high),
        ratio=float(np.median([r for r, _, _ in ratios])),
        low=min(low for _, low, _ in ratios),
        high=max(high for _, _, high in ratios),
        runs=[r for r, _, _ in ratios],
    )


def by_column(
    calls,  # name -> function without arguments; the first is the baseline of the others
    seconds=0.2,  # to measure for, per candidate, run and column
    runs=1,  # how often all is measured, one run after the other
    columns=COLUMNS,  # name -> what makes its clock
    apart=(),  # (column, name) of those that are left out, as what is slow from Python alone
) -> dict:  # column -> dict(mhz, sides={name: what `said` says}), or dict(failed=why)
    """Time in each column: medians in seconds, times that 5 and 95% of the rounds are below, how many times faster than
    the first, the least and the largest bound of its 95% interval, and this ratio in each run"""
    res = {}
    for column, make in columns.items():
        known = {k: f for k, f in calls.items() if (column, k) not in apart}
        try:
            clock = make()
            found = [one_run(clock, known, seconds) for _ in range(runs)]
        except Exception as e:  # such as a graph that cannot be captured
            res[column] = dict(failed=f'{type(e).__name__}: {e}'.splitlines()[0])
            continue
        mhz = [m for _, m in found if m]
        sides = {k: summarize_runs(k, found, next(iter(calls))) for k in known}
        res[column] = dict(mhz=[min(mhz), max(mhz)] if mhz else None, sides=sides)
    return res
