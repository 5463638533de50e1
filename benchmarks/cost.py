"""What a product of 16-bit floats costs: kernels measured on a Hopper GPU, and a model fitted to that.

    python cost.py measure            # writes cost.json; a minute; `--most 60` ends after so many seconds
    python cost.py fit                # reads it, prints how far the model is off, writes cost_fit.json; needs no GPU

Measured are 40 random shapes in each layout, of another seed than the tables', each by the kernels that today's
estimates like best and by some drawn at random: cycles, by the counted clock, with other memory read before each run.
The model has a dozen numbers that stand for something (`Model`), and a factor for each kernel that was seen often.
How good it is: the errors of its predictions, and what is lost by taking its pick instead of the best that was
measured, for shapes that the fit had not seen (a fifth at a time), beside what today's rule loses.
"""
import argparse, json, math, sys, time
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).parent
SEED, SHAPES, LAYOUTS, DRAWN = 1, 40, ('nn', 'tn', 'nt'), 1
SMS = 132


def cdiv(a, b): return -(-a//b)


# A kernel, however it is written. `turned`: the product of the transposes; `beside`: two warpgroups side by side
class Tile(NamedTuple):
    BM: int
    BN: int
    CM: int = 1
    CN: int = 1
    CK: int = 1         # blocks that share k
    BLOCKS: int = 1     # of an SM
    turned: int = 0
    beside: int = 0
    family: str = 'final'


# The model. All numbers are positive: what is fitted are their logarithms

class Model(NamedTuple):
    "Cycles; where they are of a block's tile, it has BM x BN numbers"
    tensor: float = 1.      # the tensor cores' time for a step of 64 k, over what they take at best
    shared: float = .74     # what shared memory moves in a step: cycles for 128 bytes
    l2: float = 128/63      # what the L2 cache gives in a step: cycles for 128 bytes
    lines: float = 1.67     # rows that do not begin with a line, over those that do
    memory: float = 1/1500  # all that is read and written once: cycles for a byte
    begin: float = 6000     # once
    cluster: float = 3000   # once, with clusters
    end: float = 1000       # for each tile
    store: float = 1/16     # for each number of a tile
    share: float = 2000     # for each tile whose k is shared
    add: float = 1/8        # for each number of such a tile


def smooth(*xs): return sum(x**4 for x in xs)**.25


def step_cycles(m, shape, layout, t):
    "Cycles of 64 k for a block that has its SM alone"
    (h, w, k), (ta, tb) = shape, (o == 't' for o in layout)
    a_row, b_row = h if ta else k, k if tb else w
    if t.turned: a_row, b_row = b_row, a_row
    straight = t.turned or tb                                           # does n lie along k in shared memory?
    loaded = t.BN if straight else cdiv(t.BN, 64)*64
    def rows(n, length): return n*(m.lines if length%64 else 1)
    shared = max(1, t.BM//64)*4*(16*(1 + t.beside) + t.BN/4) + t.BM + loaded
    l2 = rows(t.BM/t.CN, a_row) + rows(loaded/t.CM, b_row)
    return smooth(m.tensor*t.BM*t.BN/32, m.shared*shared, m.l2*l2)


def cycles(m, shape, layout, t):
    "What the model says of a product"
    h, w, k = shape
    size = t.CM*t.CN*t.CK
    high, wide = (t.BN*t.CN, t.BM*t.CM) if t.turned else (t.BM*t.CM, t.BN*t.CN)
    tiles, at_once = cdiv(h, high)*cdiv(w, wide), SMS*t.BLOCKS
    slots = at_once//size if size < 4 else at_once*10//11//size
    numbers = t.BM*t.BN
    step = step_cycles(m, shape, layout, t)*min(t.BLOCKS, cdiv(tiles*size, SMS))
    end = m.end + m.store*numbers + (t.CK > 1)*(m.share + m.add*numbers)
    computed = cdiv(tiles, slots)*(cdiv(cdiv(k, 64), t.CK)*step + end)
    return m.begin + m.cluster*(size > 1) + smooth(computed, m.memory*2*(h*k + k*w + h*w))


# The fit: least squares of logarithms, by Levenberg and Marquardt, where what is far off counts as its distance

FAR = .2


def logs(rows, m): return np.array([math.log(cycles(m, r['shape'], r['layout'], r['tile'])/r['cycles']) for r in rows])


def weighed(e):
    "Errors whose squares grow like distances beyond `FAR` (Huber)"
    far = np.abs(e) > FAR
    return np.where(far, np.sign(e)*np.sqrt(np.maximum(0, 2*FAR*np.abs(e) - FAR**2)), e)


def model_of(x): return Model(*map(float, np.exp(x)))


def slopes(rows, x, e, by=1e-4):
    "How errors change with each number of the model"
    steps = by*np.eye(len(x))
    return np.array([(weighed(logs(rows, model_of(x + d))) - e)/by for d in steps]).T


def fitted(rows, start=Model(), tries=30, tie=.02):
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


def factors(rows, m, shy=4):
    "For each kernel what it takes over what the model says; `shy`: of so many rows half is believed"
    found = defaultdict(list)
    for r, e in zip(rows, logs(rows, m)): found[r['tile']].append(-e)
    return {t: math.exp(sum(o)/(len(o) + shy)) for t, o in found.items()}


def predicted(fit, r):
    m, by_tile = fit
    return cycles(m, r['shape'], r['layout'], r['tile'])*by_tile.get(r['tile'], 1)


def fit_all(rows): return (m := fitted(rows)), factors(rows, m)


# How good it is

def shapes_of(rows): return list(dict.fromkeys((r['shape'], r['layout']) for r in rows))


def unseen(rows, folds=5):
    "Predictions of each row by a fit that had not seen its shape"
    known = shapes_of(rows)
    Random(SEED).shuffle(known)
    fold = {o: i%folds for i, o in enumerate(known)}
    def of(r): return fold[r['shape'], r['layout']]
    fits = [fit_all([r for r in rows if of(r) != i]) for i in range(folds)]
    return [predicted(fits[of(r)], r) for r in rows]


def lost(rows, score):
    "For each shape: what the kernel with the lowest score takes, over the best"
    best, picked = {}, {}
    for r, s in zip(rows, score):
        key = r['shape'], r['layout']
        best[key] = min(best.get(key, math.inf), r['cycles'])
        picked[key] = min(picked.get(key, (math.inf, 0)), (s, r['cycles']))
    return [picked[o][1]/best[o] for o in best]


def mean(ratios): return math.exp(sum(map(math.log, ratios))/len(ratios))


def report(rows):
    "Lines that say how good fit and rule are"
    score = unseen(rows)
    e = np.abs([math.log(s/r['cycles']) for s, r in zip(score, rows)])
    half, most = np.exp(np.percentile(e, [50, 95])) - 1
    yield (f'{len(rows)} measurements of {len(shapes_of(rows))} products by {len({r["tile"] for r in rows})} kernels; '
           f'errors for unseen shapes: half below {half:.1%}, 95% below {most:.1%}')
    for name, s in ("the model's pick", score), ("today's pick", [r['rank'] for r in rows]):
        for layout in LAYOUTS:
            o = [i for i, r in enumerate(rows) if r['layout'] == layout]
            if not o: continue
            over = lost([rows[i] for i in o], [s[i] for i in o])
            yield f'{name:<16} {layout}: {mean(over):.4f} of the best in the mean, {max(over):.3f} at most'


def read(path):
    "What was measured, as the fit wants it"
    rows = json.loads(Path(path).read_text())['rows']
    return [dict(r, shape=tuple(r['shape']), tile=Tile(**r['tile'])) for r in rows if 'cycles' in r]


def fit_main(args):
    rows = read(args.data)
    print(*report(rows), sep='\n')
    m, by_tile = fit_all(rows)
    for name, now, was in zip(Model._fields, m, Model()): print(f'    {name:<8} {now:.5g} (began at {was:.5g})')
    made = dict(made=json.loads(Path(args.data).read_text())['made'], model=m._asdict(),
                factors=[dict(t._asdict(), factor=f) for t, f in by_tile.items()])
    Path(args.to or HERE/'cost_fit.json').write_text(json.dumps(made, indent=1)+'\n')


# What is measured

def drawn(n=SHAPES):
    "Shapes in multiples of 8, half of them uniform from 64 to 8192, half log-uniform"
    rng = Random(SEED)
    def size(i): return round((rng.uniform(64, 8192) if i%2 else math.exp(rng.uniform(*map(math.log, (64, 8192)))))/8)*8
    return [tuple(size(i) for _ in range(3)) for i in range(n)]


def of_final(kernel):
    c = kernel.constants
    return Tile(c['BM'], c['BN'], c['CM'], c['CN'], turned=c['TURNED'], beside=c['BESIDE'])


def of_tiled(kernel):
    t = kernel.tile
    return Tile(t.BM, t.BN, t.CM, t.CN, t.CK, t.BLOCKS, family='tiled')


def candidates(shape, layout, rng, n=4):
    "(kernel, its tile, its rank by today's rules: those of lesson 22 first, as `matmul` has them)"
    from gridstride.kernels import hopper
    from gridstride.kernels.products import tiled
    known = []
    if layout == 'nn':
        every = [o for o in hopper.ranked(*shape, SMS, len(hopper.FINAL)) if not o.constants['SPLIT']]
        known += [(o, of_final(o)) for o in every[:n] + rng.sample(every[n:], DRAWN)]
    every = tiled.ranked(*shape, SMS, 40, 'bfloat16', layout)
    known += [(o, of_tiled(o)) for o in every[:n] + rng.sample(every[n:], DRAWN)]
    return [(kernel, tile, rank) for rank, (kernel, tile) in enumerate(known)]


def jobs():
    "(shape, layout, kernels), the layouts in turns"
    rng = Random(SEED)
    return [(shape, layout, candidates(shape, layout, rng)) for shape in drawn() for layout in LAYOUTS]


def compiled(wanted, until):
    "Compile kernels, many at a time, as far as there is time for it"
    from beside import prepare
    return prepare({o.name: (o, shape) for shape, _, known in wanted for o, _, _ in known}, until)


def measured(clock, shape, layout, known, seconds):
    "A row for each kernel, or one that says why there is none"
    import beside
    import torch
    from gridstride.bench.columns import one_run
    m, n, a, b, out = beside.operands(shape, 'bfloat16', layout)
    want = torch.matmul(a, b).float()
    for kernel, tile, rank in known:
        row = dict(shape=shape, layout=layout, tile=tile._asdict(), rank=rank, name=kernel.name)
        try:
            out.fill_(float('nan'))
            kernel(m, n, out)
            far = float((out.float() - want).norm()/want.norm())
            if not far < 2**-7: raise ValueError(f"the result is {far:.1e} from torch's")
            rounds, mhz = one_run(clock, {'it': lambda: kernel(m, n, out)}, seconds)
            took = float(np.median(rounds['it']))
            yield dict(row, seconds=took, mhz=mhz, cycles=took*mhz*1e6)
        except Exception as e: yield dict(row, failed=f'{type(e).__name__}: {e}'.splitlines()[0])


def measure_main(args):
    from beside import KEPT
    from gridstride.recording import machine
    until, path = time.time() + args.most, Path(args.data)
    res, wanted = dict(made=machine(), rows=[]), jobs()
    compiled(wanted, until - args.most/2)
    clock = KEPT['read']()
    for i, job in enumerate(wanted):
        if time.time() > until: break
        res['rows'] += measured(clock, *job, args.seconds)
        if i%10 == 0: path.write_text(json.dumps(res)+'\n')
    path.write_text(json.dumps(res)+'\n')
    print(f"{res['made']['gpu']}: {i + 1} of {len(wanted)} products, {len(res['rows'])} rows, "
          f"{sum('failed' in r for r in res['rows'])} failed, in {path}")


def main(given=None):
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('what', choices=['measure', 'fit'])
    p.add_argument('--data', default=HERE/'cost.json', help='what was measured')
    p.add_argument('--to', help='where the fit goes')
    p.add_argument('--most', type=float, default=120, help='seconds to measure for, compiling included')
    p.add_argument('--seconds', type=float, default=.006, help='for each kernel')
    args = p.parse_args(given)
    (measure_main if args.what == 'measure' else fit_main)(args)


if __name__ == '__main__': sys.exit(main())
