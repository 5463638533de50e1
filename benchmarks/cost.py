"""What a product of 16-bit floats costs: kernels measured on a Hopper GPU, and a model fitted to that.

    python cost.py measure            # writes cost.json; a minute; `--most 60` ends after so many seconds
    python cost.py fit                # reads it, prints how far the model is off, and what `costs.py` shall hold

Measured are 40 random shapes, of another seed than the tables', each by the kernels that today's estimates like best
and by some drawn at random, in two columns: in a CUDA graph, and with other memory written before each run.
The model has a dozen numbers that stand for something (`costs.Model`), and a factor for each kernel. It is to say which
kernel is the fastest; so what all kernels have in common for a shape in a column, the clock as well, is no error.
How good it is: the errors of its predictions, and what is lost by taking its pick instead of the best that was
measured, for shapes that the fit had not seen (a fifth at a time), beside what today's rule loses.
"""
import argparse, json, math, sys, time
from collections import defaultdict
from functools import lru_cache
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
from gridstride.kernels import costs, halves
from gridstride.kernels.costs import Cut, Model, cycles
from gridstride.utils import cdiv

HERE = Path(__file__).parent
SEED, SHAPES, LAYOUTS, DRAWN, SHY = 1, 40, ('nn',), 3, 2
SMS = 132


def cell(r): return r['shape'], r['layout'], r['column']


# The fit: least squares of logarithms, by Levenberg and Marquardt, where what is far off counts as its distance

FAR = .2


def logs(rows, m):
    "How far the model is off, but for what all kernels of a cell have in common"
    e, cells = np.array([math.log(cycles(m, r['shape'], r['layout'], r['tile'])/r['seconds']) for r in rows]), {}
    at = np.array([cells.setdefault(cell(r), len(cells)) for r in rows])
    return e - (np.bincount(at, e)/np.bincount(at))[at]


def weighed(e):
    "Errors whose squares grow like distances beyond `FAR` (Huber)"
    far = np.abs(e) > FAR
    return np.where(far, np.sign(e)*np.sqrt(np.maximum(0, 2*FAR*np.abs(e) - FAR**2)), e)


def model_of(x): return Model(*map(float, np.exp(x)))


def slopes(rows, x, e, by=1e-4):
    "How errors change with each number of the model"
    steps = by*np.eye(len(x))
    return np.array([(weighed(logs(rows, model_of(x + d))) - e)/by for d in steps]).T


def fitted(rows, start=Model(), tries=30, tie=.05):
    "The model that is nearest to the rows; `tie` pulls each number to where it began, as some rows say nothing of one"
    x0 = x = np.log(np.array(start))
    def cost(x, e): return float(e @ e + tie*((x - x0)**2).sum())
    damp, e = 1., weighed(logs(rows, start))
    for _ in range(tries):
        j = slopes(rows, x, e)
        for _ in range(8):
            a = j.T @ j + (tie + damp)*np.eye(len(x))
            new = x - np.linalg.solve(a, j.T @ e + tie*(x - x0))
            there = weighed(logs(rows, model_of(new)))
            if cost(new, there) < cost(x, e): break
            damp *= 4
        else: return model_of(x)
        won = cost(x, e) - cost(new, there)
        x, e, damp = new, there, damp/4
        if won < 1e-7*len(rows): break
    return model_of(x)


def factors(rows, m, shy=SHY):
    "For each kernel what it takes over what the model says; `shy`: of so many rows half is believed"
    found = defaultdict(list)
    for r, e in zip(rows, np.clip(logs(rows, m), -2*FAR, 2*FAR)): found[r['tile']].append(-e)
    return {t: math.exp(sum(o)/(len(o) + shy)) for t, o in found.items()}


def predicted(fit, r):
    m, by_tile = fit
    return cycles(m, r['shape'], r['layout'], r['tile'])*by_tile.get(r['tile'], 1)


def fit_all(rows):
    """Kernels of `halves`, which are picked most, count twice: lesson 22's were measured more often, in one layout. So
    were those that take turns, which count once"""
    counted = rows + [r for r in rows if r['tile'].family == 'half' and not r['tile'].ping]
    return (m := fitted(counted)), factors(counted, m)


# How good it is

def unseen(rows, folds=5):
    "Predictions of each row by a fit that had not seen its shape"
    known = list(dict.fromkeys(r['shape'] for r in rows))
    Random(SEED).shuffle(known)
    fold = {o: i%folds for i, o in enumerate(known)}
    fits = [fit_all([r for r in rows if fold[r['shape']] != i]) for i in range(folds)]
    return [predicted(fits[fold[r['shape']]], r) for r in rows]


def lost(rows, score):
    "For each cell: what the kernel with the lowest score takes, over the best"
    best, picked = {}, {}
    for r, s in zip(rows, score):
        best[cell(r)] = min(best.get(cell(r), math.inf), r['seconds'])
        picked[cell(r)] = min(picked.get(cell(r), (math.inf, 0)), (s, r['seconds']))
    return {o: picked[o][1]/best[o] for o in best}


def mean(ratios): return math.exp(sum(map(math.log, ratios))/len(ratios))


def report(rows):
    "Lines that say how good fit and rule are"
    score, fit = unseen(rows), fit_all(rows)
    off = [dict(r, seconds=r['seconds']/s) for r, s in zip(rows, score)]
    e = np.abs(logs_of_ratio(off))
    half, most = np.exp(np.percentile(e, [50, 95])) - 1
    yield (f'{len(rows)} measurements of {len({r["shape"] for r in rows})} products by '
           f'{len({r["tile"] for r in rows})} kernels; '
           f'errors for unseen shapes: half below {half:.1%}, 95% below {most:.1%}')
    seen = [predicted(fit, r) for r in rows]
    for name, s in (("the model's pick", score), ('the same, seen', seen), ("today's pick", [r['rank'] for r in rows])):
        found = lost(rows, s)
        for kind in dict.fromkeys(o[1:] for o in found):
            over = [v for o, v in found.items() if o[1:] == kind]
            yield f'{name:<16} {" ".join(kind)}: {mean(over):.4f} of the best in the mean, {max(over):.3f} at most'


def logs_of_ratio(rows):
    "Logarithms of `seconds`, less their mean in each cell"
    cells = {}
    at = np.array([cells.setdefault(cell(r), len(cells)) for r in rows])
    e = np.log([r['seconds'] for r in rows])
    return e - (np.bincount(at, e)/np.bincount(at))[at]


def read(path):
    "What was measured, as the fit wants it"
    rows = json.loads(Path(path).read_text())['rows']
    return [dict(r, shape=tuple(r['shape']), tile=Cut(**r['tile'])) for r in rows if 'seconds' in r]


def text_of(cut):
    "A `Cut` as Python has it, without what it would be anyway"
    more = {k: v for k, v in cut._asdict().items() if k in Cut._field_defaults and v != Cut._field_defaults[k]}
    return f"Cut({', '.join([str(cut.BM), str(cut.BN), *(f'{k}={v!r}' for k, v in more.items())])})"


def fit_main(args):
    rows = read(args.data)
    print(*report(rows), sep='\n')
    m, by_tile = fit_all(rows)
    print('\nFITTED = Model(', *(f'    {k}={v:.4g},' for k, v in m._asdict().items()), ')', 'FACTORS = {', sep='\n')
    print(*(f'    {text_of(t)}: {f:.3f},' for t, f in sorted(by_tile.items())), '}', sep='\n')


# What is measured

def drawn(n=SHAPES):
    "Shapes in multiples of 8, half of them uniform from 64 to 8192, half log-uniform"
    rng = Random(SEED)
    def size(i): return round((rng.uniform(64, 8192) if i%2 else math.exp(rng.uniform(*map(math.log, (64, 8192)))))/8)*8
    return [tuple(size(i) for _ in range(3)) for i in range(n)]


def cut_of(kernel):
    c = kernel.constants
    numbers = {o: c[o] for o in ('BM', 'BN', 'CM', 'CN', 'CK', 'BLOCKS') if o in c}
    return Cut(**numbers, turned=c['TURNED'], beside=c['BESIDE'], split=c.get('SPLIT', 0),
               family='half' if 'CK' in c else 'final', ping=c.get('PING', 0))


ROWS = (64, 0), (128, 0), (256, 0), (128, 1), (192, 1), (320, 1)    # of wgmma; are two warpgroups side by side?
SHARING = (1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4)


@lru_cache
def halves_for(layout):
    "Cuts of `halves` in many sizes"
    every = (Cut(BM, BN, CM, CN, CK, blocks, turned, beside, family='half', ping=ping)
             for (BM, beside), BN, (CM, CN), CK, blocks, turned, ping
             in product(ROWS, range(24, 257, 8), SHARING, (1, 2, 4), (1, 2), (0, 1), (0, 1)))
    return [o for o in every if not halves.why_not(o, layout)]


def candidates(shape, layout, rng, n=8):
    "(kernel, its cut, its rank by today's rules)"
    from gridstride.kernels import finals
    known = costs.ranked(*shape, SMS, 2*n, 'bfloat16', layout)
    if layout == 'nn':
        every = finals.ranked(*shape, SMS, len(finals.FINAL) - 1)           # without what is not made for the shape
        known += every[:n] + rng.sample(every[n:-1], DRAWN)
    every = [o for o in halves_for(layout) if o.CK <= cdiv(shape[2], 64)]
    every.sort(key=lambda o: cycles(costs.FITTED, shape, layout, o, SMS))
    known += [halves.half(o, layout=layout) for o in every[:n] + rng.sample(every[n:80], DRAWN)]
    return [(o, cut_of(o), rank) for rank, o in enumerate(dict.fromkeys(known))]


def jobs():
    "(shape, layout, kernels), the layouts in turns"
    rng = Random(SEED)
    return [(shape, layout, candidates(shape, layout, rng)) for shape in drawn() for layout in LAYOUTS]


def compiled(wanted, until):
    "Compile kernels, many at a time, as far as there is time for it"
    from beside import prepare
    return prepare({o.name: (o, shape) for shape, _, known in wanted for o, _, _ in known}, until)


def measured(clocks, shape, layout, known, seconds):
    "A row for each kernel and clock, or one that says why there is none"
    import beside
    import torch
    m, n, a, b, out = beside.operands(shape, 'bfloat16', layout)
    want = torch.matmul(a, b).float()
    for kernel, cut, rank in known:
        row = dict(shape=shape, layout=layout, tile=cut._asdict(), rank=rank, name=kernel.name)
        try:
            out.fill_(float('nan'))
            kernel(m, n, out)
            far = float((out.float() - want).norm()/want.norm())
            if not far < 2**-7: raise ValueError(f"the result is {far:.1e} from torch's")
            for column, make in clocks.items():
                yield dict(row, column=column, **timed(make(), lambda: kernel(m, n, out), seconds))
        except Exception as e: yield dict(row, failed=f'{type(e).__name__}: {e}'.splitlines()[0])


def timed(clock, call, seconds):
    "A call's time on a clock, and the clock rate that was counted"
    from gridstride.bench.columns import one_run
    rounds, mhz = one_run(clock, {'it': call}, seconds)
    return dict(seconds=float(np.median(rounds['it'])), mhz=mhz)


def measure_main(args):
    import beside
    from gridstride.bench.columns import InGraph
    from gridstride.recording import machine
    until, path = time.time() + args.most, Path(args.data)
    res, wanted = dict(made=machine(), rows=[]), jobs()
    compiled(wanted, until - args.most/2)
    clocks = dict(graph=InGraph, written=beside.KEPT['written'])
    for i, job in enumerate(wanted):
        if time.time() > until: break
        res['rows'] += measured(clocks, *job, args.seconds)
        if i%10 == 0: path.write_text(json.dumps(res)+'\n')
    path.write_text(json.dumps(res)+'\n')
    print(f"{res['made']['gpu']}: {i + 1} of {len(wanted)} products, {len(res['rows'])} rows, "
          f"{sum('failed' in r for r in res['rows'])} failed, in {path}")


def main(given=None):
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('what', choices=['measure', 'fit'])
    p.add_argument('--data', default=HERE/'cost.json', help='what was measured')
    p.add_argument('--most', type=float, default=120, help='seconds to measure for, compiling included')
    p.add_argument('--seconds', type=float, default=.006, help='for each kernel and column')
    args = p.parse_args(given)
    (measure_main if args.what == 'measure' else fit_main)(args)


if __name__ == '__main__': sys.exit(main())
