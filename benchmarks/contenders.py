"""What benchmarks of products share: one product by several hands, checked, timed in five columns, and named by the
kernels that are launched."""
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

TORCH, BEST, READS, COUNT = 'torch.matmul', 'cublasLt', 'reading m', 8
KEPT = {'written': cache(FlushedByWrites), 'read': cache(FlushedByReads)}             # their buffers are large
# From Python each of cublasLt's picks would be called by ctypes, which costs more than the product
APART = {('row', BEST)}


def columns_of(names): return {o: KEPT.get(o, COLUMNS[o]) for o in names}


def prepare(wanted, until=math.inf):
    "Compile kernels, many at a time: name -> (kernel, a shape). What fails here is reported when it runs"
    def one(o):
        if time.time() > until: return
        torch.zeros(1, device='cuda')                               # the thread enters the GPU's context
        kernel, shape = o
        try: kernel.prepare(*shape, torch.cuda.current_device())
        except Exception as e: return f'{type(e).__name__}: {e}'
    with ThreadPoolExecutor(os.cpu_count()) as pool: return dict(zip(wanted, pool.map(one, wanted.values())))


def operands(shape, dtype, layout, make=inputs):
    "(m, n in their layout in memory, a, b of which the product is computed, out, full of NaN)"
    h, w, k = shape
    a, b = make(h, w, k, dtype, 'cuda')
    m, n = (x.t().contiguous() if o == 't' else x for x, o in zip((a, b), layout))
    a, b = (x.t() if o == 't' else x for x, o in zip((m, n), layout))
    return m, n, a, b, a.new_full((h, w), float('nan'))


def error_of(f, judge, out, is_ours):
    """The error of what `f` writes into `out`; `AssertionError` if ours is wrong. The library may round sums of parts
    of k, so its errors are reported, not judged"""
    out.fill_(float('nan'))
    f()
    if is_ours: judge(out)
    return judge.error(out)


def best_pick(m, n, out, layout, seconds=.01):
    "The fastest of cublasLt's first proposals, other memory read before each run"
    picks = cublaslt.proposed_kernels(m, n, layout, COUNT)
    calls = {i: lambda p=p: p(m, n, out) for i, p in enumerate(picks)}
    times = time_interleaved(KEPT['read'](), calls, seconds)
    return min(picks, key=lambda p: np.median(sum(times[p.rank], [])))


def sides_of(shape, dtype, layout, ours, measured, reading):
    "(calls by name, torch's first; more about them), each checked"
    m, n, a, b, out = operands(shape, dtype, layout)
    calls = {TORCH: lambda: torch.matmul(a, b, out=out), 'ours': lambda: ours(a, b, out)}
    if measured: tune(a, b, fresh=True)
    more = dict(plan=repr(explain(a, b)) if ours is matmul else ours.name)
    try:
        pick = best_pick(m, n, out, layout)
        calls[BEST], more['pick'] = lambda: pick(m, n, out), dict(number=pick.rank, **pick.config)
    except Exception as e: more['no_pick'] = f'{type(e).__name__}: {e}'.splitlines()[0]
    judge = Reference(a, b)
    more['errors'] = {k: error_of(f, judge, out, k == 'ours') for k, f in calls.items()}
    return calls | ({READS: reads(m)} if reading else {}), more


def product(shape, dtype, layout='nn', ours=matmul, measured=False, reading=False, seconds=.1, runs=1,
            columns=tuple(COLUMNS), **more):
    "A row: one product by `ours`, after `tune` if it is `measured`, in all columns; `reading`: and reads of m alone"
    with tf32_disabled():
        calls, about = sides_of(shape, dtype, layout, ours, measured, reading)
        found = by_column(calls, seconds, runs, columns_of(columns), APART)
    return dict(more, shape=list(shape), dtype=dtype, layout=layout, columns=found, **about)


# The speedup of ours over another side, from the ratios of both to torch in `by_column`

def faster(row, column, other):
    "(ratio, low, high) of ours to another side, None if either was not timed"
    sides = row['columns'].get(column, {}).get('sides', {})
    if not {'ours', other} <= sides.keys(): return None
    a, b = sides['ours'], sides[other]
    if other == TORCH: return a['ratio'], a['low'], a['high']
    return a['ratio']/b['ratio'], a['low']/b['high'], a['high']/b['low']


def mean(ratios): return math.exp(sum(math.log(r) for r in ratios)/len(ratios))


def verdict(rows, column, other, goal=None, wanted=0):
    "The geometric mean of some of `wanted` rows in a column, the least, and how many are below 0.9"
    found = [r for r in (faster(o, column, other) for o in rows if 'failed' not in o) if r]
    ratios = [r for r, _, _ in found]
    if not ratios: return f'{column:<8} vs {other:<12} not measured'
    said = f'{column:<8} vs {other:<12} {mean(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}'
    low = sum(r < .9 for r in ratios)
    missing = max(wanted, len(rows)) - len(found)
    reached = not missing and goal and mean(ratios) >= goal and not low
    return (f"{said}, {low} of {len(ratios)} below 0.9" + f', {missing} without a figure'*bool(missing)
            + (f"; goal {goal}, none below 0.9: {'reached' if reached else 'MISSED'}" if goal else ''))


def spread(side): return f"{side['seconds']*1e6:.1f} µs ({side['fast']*1e6:.1f} to {side['slow']*1e6:.1f})"


def column_line(row, column):
    "A column as text: our time and its spread, the ratios to the others, the counted clock"
    c = row['columns'][column]
    if 'failed' in c: return f'    {column:<8} FAILED {c["failed"]}'
    res = [f"    {column:<8} {spread(c['sides']['ours']):<32}"]
    for other in (o for o in c['sides'] if o != 'ours'):
        r, low, high = faster(row, column, other)
        each = c['sides']['ours']['runs']
        runs = ' runs ' + ' '.join(f'{o:.3f}' for o in each) if other == TORCH and len(each) > 1 else ''
        res.append(f'{r:.3f} of {other} ({low:.3f} to {high:.3f}){runs}')
    return '  '.join([*res, clock_text(c['mhz'])])


def clock_text(mhz):
    if not mhz: return 'clock not counted'
    low, high = (round(o) for o in mhz)
    return f'{low} MHz' if low == high else f'{low} to {high} MHz'


def head_line(row):
    "What was multiplied, by whom, how well"
    h, w, k = row['shape']
    head = f"{row['dtype']:<8} {row['layout']} {f'{h}x{k} @ {k}x{w}':<24}"
    if 'failed' in row: return f"{head} FAILED {row['failed']}"
    errors = ' '.join(f'{e:.1e}' for e in row['errors'].values())
    first = next((c for c in row['columns'].values() if 'sides' in c), None)
    flops = f"{2*h*w*k/first['sides']['ours']['seconds']/1e12:.2f} TFLOP/s" if first else ''
    pick = f"the library's best is number {row['pick']['number']}" if 'pick' in row else row['no_pick']
    return f"{head} {flops}  {row['plan']}; {pick}; errors {errors}"


def lines(row):
    "A row as text"
    if 'failed' in row: return [head_line(row)]
    return [head_line(row), *(column_line(row, o) for o in row['columns'])]


# Names of kernels. The profiler stays attached to the process and slows launches, so it comes last; a kernel that
# fills a byte is launched before and after each call.
MARK = 'FillFunctor<signed char>'


def split_by(names, mark):
    "The names of each call: those between the first mark and the second, the third and the fourth, ..."
    res = [[]]
    for o in names:
        if mark in o: res.append([])
        else: res[-1].append(o)
    return res[1::2]


def zeros(h, w, k, dtype, device):
    return [torch.zeros(s, dtype=getattr(torch, dtype), device=device) for s in ((h, k), (k, w))]


def launch_all(rows, byte):
    "Each row's sides once, on zeros; gives (row, name of the side) in the order of the calls"
    done = []
    for row in rows:
        m, n, a, b, out = operands(row['shape'], row['dtype'], row['layout'], zeros)
        calls = {TORCH: lambda: torch.matmul(a, b, out=out), 'ours': lambda: matmul(a, b, out)}
        if 'pick' in row:
            pick = cublaslt.proposed_kernels(m, n, row['layout'], COUNT)[row['pick']['number']]
            calls[BEST] = lambda: pick(m, n, out)
        for name, f in calls.items():
            byte.fill_(1)
            f()
            byte.fill_(1)
            done.append((row, name))
    return done


def name_kernels(rows):
    "Note in each row which kernels its sides launch"
    rows, done = [r for r in rows if 'failed' not in r and r.get('way') == 'matmul'], []
    byte = torch.zeros(1, dtype=torch.int8, device='cuda')
    def run(): done[:] = launch_all(rows, byte)
    with tf32_disabled(): seen = profile(run)
    names = [s.name for s in sorted((s for s in seen.spans if s.kind == 'gpu'), key=lambda s: s.start)]
    found = split_by(names, MARK)
    if len(found) != len(done): raise RuntimeError(f'{len(found)} calls in the trace of {len(done)}')
    for (row, side), kernels in zip(done, found): row.setdefault('kernels', {})[side] = [short_name(o) for o in kernels]
