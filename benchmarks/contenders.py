"""Shared by the benchmarks of products: compute one product by several libraries, check it, time it in five columns,
and list the kernels that each launches."""
import math, os, time
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import torch
from gridstride.bench import reads
from gridstride.bench.columns import COLUMNS, FlushedByReads, FlushedByWrites, by_column
from gridstride.bench.versus import time_interleaved
from gridstride.kernels.gemm import cublaslt
from gridstride.kernels import explain, matmul, tune
from gridstride.kernels.ladder.ladder import Reference, tf32_disabled, inputs
from gridstride.prof import profile
from gridstride.prof.show import short_name

TORCH, BEST, READS, NUM_PICKS = 'torch.matmul', 'cublasLt', 'reading m', 8
SHARED_CLOCKS = {'written': cache(FlushedByWrites), 'read': cache(FlushedByReads)}             # their buffers are large
# (column, name): back to back from Python, each call of cublasLt's pick by ctypes takes longer than the product
EXCLUDED = {('row', BEST)}


def column_clocks(names): return {name: SHARED_CLOCKS.get(name, COLUMNS[name]) for name in names}


def compile_kernels(kernels, deadline=math.inf):
    "Compile {name: (kernel, shape)} in parallel; return {name: error or None}. A launch raises the error again"
    def compile_one(kernel_and_shape):
        if time.time() > deadline: return
        torch.zeros(1, device='cuda')                               # make the GPU's context current in this thread
        kernel, shape = kernel_and_shape
        try: kernel.prepare(*shape, torch.cuda.current_device())
        except Exception as error: return f'{type(error).__name__}: {error}'
    with ThreadPoolExecutor(os.cpu_count()) as pool: return dict(zip(kernels, pool.map(compile_one, kernels.values())))


def operands(shape, dtype, layout, make_inputs=inputs):
    "Return (m, n in their memory layouts, their views a, b with out = a @ b, out filled with NaN)"
    h, w, k = shape
    a, b = make_inputs(h, w, k, dtype, 'cuda')
    m, n = (x.t().contiguous() if order == 't' else x for x, order in zip((a, b), layout))
    a, b = (x.t() if order == 't' else x for x, order in zip((m, n), layout))
    return m, n, a, b, a.new_full((h, w), float('nan'))


def measure_error(function, reference, out, is_ours):
    """Return the error of what `function` writes into `out`; raise `AssertionError` if ours is wrong. The library may
    round partial sums over k, so its errors are reported and not checked."""
    out.fill_(float('nan'))
    function()
    if is_ours: reference(out)
    return reference.relative_error(out)


def best_pick(m, n, out, layout, seconds=.01):
    "Return the fastest of cublasLt's first heuristic results, with other memory read before each run"
    picks = cublaslt.heuristic_kernels(m, n, layout, NUM_PICKS)
    calls = {rank: lambda pick=pick: pick(m, n, out) for rank, pick in enumerate(picks)}
    times = time_interleaved(SHARED_CLOCKS['read'](), calls, seconds)
    return min(picks, key=lambda pick: np.median(sum(times[pick.rank], [])))


def make_candidates(shape, dtype, layout, ours, is_tuned, with_reads):
    "Make the candidates and check their results; return ({name: function}, torch's first; fields of the row)"
    m, n, a, b, out = operands(shape, dtype, layout)
    calls = {TORCH: lambda: torch.matmul(a, b, out=out), 'ours': lambda: ours(a, b, out)}
    if is_tuned: tune(a, b, measure_again=True)
    info = dict(plan=repr(explain(a, b)) if ours is matmul else ours.name)
    try:
        pick = best_pick(m, n, out, layout)
        calls[BEST], info['pick'] = lambda: pick(m, n, out), dict(number=pick.rank, **pick.config)
    except Exception as error: info['no_pick'] = f'{type(error).__name__}: {error}'.splitlines()[0]
    reference = Reference(a, b)
    info['errors'] = {name: measure_error(function, reference, out, name == 'ours') for name, function in calls.items()}
    return calls | ({READS: reads(m)} if with_reads else {}), info


def measure_product(shape, dtype, layout='nn', ours=matmul, is_tuned=False, reading=False, seconds=.1, runs=1,
                    columns=tuple(COLUMNS), **fields):
    """Make the row of one product by `ours` in all columns. `is_tuned` calls `tune` first; `reading` adds a kernel that
    only reads m; `fields` are added to the row."""
    with tf32_disabled():
        calls, info = make_candidates(shape, dtype, layout, ours, is_tuned, reading)
        results = by_column(calls, seconds, runs, column_clocks(columns), EXCLUDED)
    return dict(fields, shape=list(shape), dtype=dtype, layout=layout, columns=results, **info)


# The speedup of ours over another candidate, from the ratios of both to torch in `by_column`

def speedup(row, column, other):
    "Return (speedup of ours over `other`, low, high), or None if either was not timed"
    sides = row['columns'].get(column, {}).get('sides', {})
    if not {'ours', other} <= sides.keys(): return None
    ours, theirs = sides['ours'], sides[other]
    if other == TORCH: return ours['ratio'], ours['low'], ours['high']
    return ours['ratio']/theirs['ratio'], ours['low']/theirs['high'], ours['high']/theirs['low']


# Columns as tables name them
TITLES = {name: name for name in COLUMNS} | {'row': 'back to back'}


def geometric_mean(ratios): return math.exp(sum(math.log(r) for r in ratios)/len(ratios))


def verdict(rows, column, other, goal=None, num_expected=0):
    "Format the geometric mean and range of the speedups in a column, how many are below 0.9, and the verdict"
    speedups = [r for r in (speedup(row, column, other) for row in rows if 'failed' not in row) if r]
    ratios = [r for r, _, _ in speedups]
    title = f'{TITLES[column]:<12} vs {other:<12}'
    if not ratios: return f'{title} not measured'
    summary = f'{title} {geometric_mean(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}'
    num_slow = sum(r < .9 for r in ratios)
    num_missing = max(num_expected, len(rows)) - len(speedups)
    reached = not num_missing and goal and geometric_mean(ratios) >= goal and not num_slow
    return (f"{summary}, {num_slow} of {len(ratios)} below 0.9" + f', {num_missing} without a figure'*bool(num_missing)
            + (f"; goal {goal}, none below 0.9: {'reached' if reached else 'MISSED'}" if goal else ''))


def time_with_spread(side): return f"{side['seconds']*1e6:.1f} µs ({side['fast']*1e6:.1f} to {side['slow']*1e6:.1f})"


def column_line(row, column):
    "Format a column: our time and its spread, the speedups over the others, the measured clock"
    column_results = row['columns'][column]
    if 'failed' in column_results: return f'    {TITLES[column]:<12} FAILED {column_results["failed"]}'
    parts = [f"    {TITLES[column]:<12} {time_with_spread(column_results['sides']['ours']):<32}"]
    for other in column_results['sides']:
        if other == 'ours': continue
        ratio, low, high = speedup(row, column, other)
        run_ratios = column_results['sides']['ours']['runs']
        is_shown = other == TORCH and len(run_ratios) > 1
        runs = ' runs ' + ' '.join(f'{r:.3f}' for r in run_ratios) if is_shown else ''
        parts.append(f'{ratio:.3f} of {other} ({low:.3f} to {high:.3f}){runs}')
    return '  '.join([*parts, clock_text(column_results['mhz'])])


def clock_text(mhz):
    if not mhz: return 'clock not counted'
    low, high = (round(frequency) for frequency in mhz)
    return f'{low} MHz' if low == high else f'{low} to {high} MHz'


def head_line(row):
    "Format the product, its kernel, its speed and the errors"
    h, w, k = row['shape']
    head = f"{row['dtype']:<8} {row['layout']} {f'{h}x{k} @ {k}x{w}':<24}"
    if 'failed' in row: return f"{head} FAILED {row['failed']}"
    errors = ' '.join(f'{error:.1e}' for error in row['errors'].values())
    first = next((results for results in row['columns'].values() if 'sides' in results), None)
    flops = f"{2*h*w*k/first['sides']['ours']['seconds']/1e12:.2f} TFLOP/s" if first else ''
    pick = f"the library's best is number {row['pick']['number']}" if 'pick' in row else row['no_pick']
    return f"{head} {flops}  {row['plan']}; {pick}; errors {errors}"


def row_lines(row):
    "Format a row as a list of lines"
    if 'failed' in row: return [head_line(row)]
    return [head_line(row), *(column_line(row, column) for column in row['columns'])]


# Names of kernels. The profiler stays attached to the process and slows launches, so it runs last. To mark each call in
# the trace, a kernel that fills a byte is launched before and after it.
MARK = 'FillFunctor<signed char>'


def split_calls(names, mark):
    "Return the names of each call: those between the first and the second mark, the third and the fourth, ..."
    calls = [[]]
    for name in names:
        if mark in name: calls.append([])
        else: calls[-1].append(name)
    return calls[1::2]


def zeros(h, w, k, dtype, device):
    return [torch.zeros(shape, dtype=getattr(torch, dtype), device=device) for shape in ((h, k), (k, w))]


def launch_candidates(rows, marker):
    "Call each candidate of each row once, on zeros; return [(row, name of the candidate)] in call order"
    launches = []
    for row in rows:
        m, n, a, b, out = operands(row['shape'], row['dtype'], row['layout'], zeros)
        calls = {TORCH: lambda: torch.matmul(a, b, out=out), 'ours': lambda: matmul(a, b, out)}
        if 'pick' in row:
            pick = cublaslt.heuristic_kernels(m, n, row['layout'], NUM_PICKS)[row['pick']['number']]
            calls[BEST] = lambda: pick(m, n, out)
        for name, function in calls.items():
            marker.fill_(1)
            function()
            marker.fill_(1)
            launches.append((row, name))
    return launches


def add_kernel_names(rows):
    "Add to each row the names of the kernels that its candidates launch"
    rows, launches = [r for r in rows if 'failed' not in r and r.get('way') == 'matmul'], []
    marker = torch.zeros(1, dtype=torch.int8, device='cuda')
    def run(): launches[:] = launch_candidates(rows, marker)
    with tf32_disabled(): trace = profile(run)
    spans = sorted((span for span in trace.spans if span.kind == 'gpu'), key=lambda span: span.start)
    kernels_of_launches = split_calls([span.name for span in spans], MARK)
    if len(kernels_of_launches) != len(launches):
        raise RuntimeError(f'expected {len(launches)} calls in the trace, got {len(kernels_of_launches)}')
    for (row, candidate), kernels in zip(launches, kernels_of_launches):
        row.setdefault('kernels', {})[candidate] = [short_name(kernel) for kernel in kernels]
