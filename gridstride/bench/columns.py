"""`by_column`: time a call in five ways that answer different questions, and measure the clock rate by counting cycles.

- `written`: other memory is overwritten before each run, so the L2 cache holds none of the operands and is full of
  dirty lines, which are written back as the run starts.
- `read`: other memory is read before each run, so that the cache is full of clean lines.
- `none`: runs follow each other directly. Operands that fit into the cache are still there from the previous run.
- `row`: wall-clock time of many back-to-back calls from Python, until the GPU finishes the last one; if launching takes
  longer than the kernel, this measures launch overhead.
- `graph`: calls are captured as a CUDA graph and replayed, without Python and without a flush.
"""

import numpy as np

from . import clocks
from .stats import summary
from .versus import median_speedup, time_interleaved

# Each SM stores its cycle counter and the GPU's nanosecond timer before and after a batch. The differences give the
# mean clock rate over the batch, while a sensor reports the rate at one instant.
_COUNTERS_SRC = r'''
__global__ void read_counters_k(long long *counters) {                      // two values per SM
    if (threadIdx.x > 0) return;
    unsigned sm;
    long long ns;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns) :: "memory");
    *(longlong2 *)(counters + 2*sm) = make_longlong2(clock64(), ns);
}
'''
MAX_SMS = 1024  # more than any GPU has today


def clock_rate_between(before, after):  # arrays of (cycles, nanoseconds) per SM, 0 for an SM that stored none
    "Return the median clock rate in MHz of the SMs that stored both; None if there is none"
    elapsed = (after - before)[(before[:, 1] > 0) & (after[:, 1] > before[:, 1])]
    return float(np.median(elapsed[:, 0] / elapsed[:, 1])) * 1000 if len(elapsed) else None


class SmClocks:
    "The cycle and nanosecond counters of all SMs of the current GPU, before and after a batch, read in stream order"

    def __init__(self):
        import torch
        from ..cpp.kernel import cuda_kernel

        num_sms = torch.cuda.get_device_properties().multi_processor_count
        self.kernel = cuda_kernel(_COUNTERS_SRC)
        self.blocks = 4 * num_sms
        self.counters = torch.zeros(2, MAX_SMS, 2, dtype=torch.int64, device='cuda')

    def queue_read(self, i):  # i: 0 before, 1 after
        "Queue a kernel in which each SM stores its counters"
        self.kernel[self.blocks, 32](self.counters[i])

    def mhz(self):
        "Wait for both reads, and return the clock rate between them in MHz"
        mhz = clock_rate_between(*self.counters.cpu().numpy())
        self.counters.zero_()
        return mhz


class FlushedByWrites(clocks.Events):
    "CUDA events, with other memory overwritten before each run; `mhz` has the clock rate of each batch"

    flush = True

    def __init__(self):
        super().__init__(self.flush)
        self.sm_clocks = SmClocks()
        self.mhz = []

    def begin_batch(self):
        "Queue the read before the first run of a batch"
        self.sm_clocks.queue_read(0)

    def end_batch(self):
        "Queue the read after the last run of a batch"
        self.sm_clocks.queue_read(1)

    def times(self, fn, n):
        "Time `n` calls as `Events.times` does, and record the batch's clock rate"
        seconds = super().times(fn, n)
        self.mhz.append(self.sm_clocks.mhz())
        return seconds

    def handle_all_late(self, times):
        "Raise `RuntimeError`: a table must not contain CPU times"
        problem = f'in each of {clocks.MAX_TRIES} attempts the CPU queued all {len(times)} runs too late'
        raise RuntimeError(f'{problem}, so their times would include CPU time')


class FlushedByReads(FlushedByWrites):
    "CUDA events, with other memory read before each run"

    flush = 'read'


class NotFlushed(FlushedByWrites):
    "CUDA events, without a flush between runs"

    flush = False


class BackToBack(NotFlushed):
    "Wall-clock time of many back-to-back calls; a batch's time is the mean per call"

    max_batch = 1000

    def times(self, fn, n):
        "Return a list with the mean seconds per call"
        self.begin_batch()
        self.torch.synchronize()
        start = self.now()
        for _ in range(n):
            fn()
        self.torch.synchronize()
        elapsed = self.now() - start
        self.end_batch()
        self.mhz.append(self.sm_clocks.mhz())
        return [elapsed / n]


CALLS_PER_GRAPH = 20


class InGraph(NotFlushed):
    "CUDA events around graphs of `CALLS_PER_GRAPH` calls"

    def __init__(self):
        super().__init__()
        self.graphs = {}

    def times(self, fn, n):
        "Time `n` graphs; return the seconds per call of each"
        if fn not in self.graphs:
            self.graphs[fn] = clocks.capture(fn, CALLS_PER_GRAPH)
        return [t / CALLS_PER_GRAPH for t in super().times(self.graphs[fn], n)]


COLUMNS = dict(written=FlushedByWrites, read=FlushedByReads, none=NotFlushed, row=BackToBack, graph=InGraph)


def time_run(clock, calls, seconds) -> tuple:  # (name -> seconds per round, MHz or None)
    "Time calls interleaved on one clock"
    batches = time_interleaved(clock, calls, seconds, seconds)
    rounds = {name: [float(np.median(batch)) for batch in name_batches] for name, name_batches in batches.items()}
    num_rounds = sum(map(len, rounds.values()))
    mhz = [rate for rate in clock.mhz[-num_rounds:] if rate]  # without the batches of the warm-up
    return rounds, float(np.median(mhz)) if mhz else None


def summarize_runs(name, runs, base) -> dict:
    "Summarize several runs of a candidate, compared with the baseline `base`"
    all_rounds = [seconds for rounds, _ in runs for seconds in rounds[name]]
    ratios = [median_speedup([[t] for t in rounds[base]], [[t] for t in rounds[name]]) for rounds, _ in runs]
    low, high = np.percentile(all_rounds, [5, 95])
    return dict(
        seconds=summary(all_rounds).median,
        fast=float(low),
        slow=float(high),
        ratio=float(np.median([r for r, _, _ in ratios])),
        low=min(low for _, low, _ in ratios),
        high=max(high for _, _, high in ratios),
        runs=[r for r, _, _ in ratios],
    )


def by_column(
    calls,  # name -> function without arguments; the first is the baseline
    seconds=0.2,  # duration of the measurement, per candidate, run and column
    runs=1,  # repetitions of the whole measurement
    columns=COLUMNS,  # name -> function that returns a clock
    skipped=(),  # (column, name) pairs to leave out
) -> dict:  # column -> dict(mhz, sides={name: `summarize_runs`}), or dict(failed=reason)
    """Time calls in each column. The keys of a call's result are:

    - `seconds`: the median
    - `fast`, `slow`: the 5% and 95% quantiles of the rounds
    - `ratio`: the speedup over the first call
    - `low`, `high`: the 95% interval of the speedup; with runs > 1, the widest extent of the runs' 95% intervals
    - `runs`: the speedup in each run

        by_column({'mine': f, 'torch': g})

    Raises ValueError if a column skips the baseline."""
    base = next(iter(calls), None)
    if columns_without_base := [column for column in columns if (column, base) in skipped]:
        raise ValueError(f'column {columns_without_base[0]!r} skips {base!r}, but its speedups are relative to it')
    results = {}
    for column, make_clock in columns.items():
        timed_calls = {name: f for name, f in calls.items() if (column, name) not in skipped}
        try:
            clock = make_clock()
            measured_runs = [time_run(clock, timed_calls, seconds) for _ in range(runs)]
        except Exception as e:  # such as a graph that cannot be captured
            results[column] = dict(failed=f'{type(e).__name__}: {e}'.splitlines()[0])
            continue
        mhz = [rate for _, rate in measured_runs if rate]
        candidates = {name: summarize_runs(name, measured_runs, base) for name in timed_calls}
        results[column] = dict(mhz=[min(mhz), max(mhz)] if mhz else None, sides=candidates)
    return results
