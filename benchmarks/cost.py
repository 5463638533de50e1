"""The cost of a product of 16-bit floats: kernels measured on a Hopper GPU, and a model fitted to that.

    python cost.py measure            # writes cost.json; a minute; `--most 60` ends after so many seconds
    python cost.py fit                # reads it, prints how far the model is off, and what `cost_model.py` shall hold
    python cost.py picks              # what `matmul` picks compared with cublasLt's best, if one run had both

Measured are 40 random shapes, of another seed than the tables', each by the kernels that today's estimates like best
and by some drawn at random, in two columns: in a CUDA graph, and with other memory written before each run.
The model has a dozen parameters with a meaning (`cost_model.CostModel`), and one factor per kernel. It must predict
which kernel is the fastest; so an error that all kernels have in common for a shape in a column does not count.
How good it is: the errors of its predictions, and what is lost by taking its pick instead of the best that was
measured, for shapes that the fit had not seen (a fifth at a time) and for those that it had.
"""
import argparse, json, math, sys, time
from collections import defaultdict
from functools import lru_cache
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
from gridstride.kernels.gemm import cost_model, hopper_f16
from gridstride.kernels.gemm.cost_model import TileConfig, CostModel, predict_cycles
from gridstride.utils import cdiv

HERE = Path(__file__).parent
SEED, SHAPES, LAYOUTS, DRAWN, SHY = 1, 40, ('nn',), 3, 2
SMS = 132


def cell(r): return r['shape'], r['layout'], r['column']


# The fit: least squares of logarithms, by Levenberg and Marquardt, where what is far off counts as its distance

FAR = .2


def logs(rows, m):
    "How far the model is off, but for what all kernels of a cell have in common"
    e = np.array([math.log(predict_cycles(m, r['shape'], r['layout'], r['tile'])/r['seconds']) for r in rows])
    cells = {}
    at = np.array([cells.setdefault(cell(r), len(cells)) for r in rows])
    return e - (np.bincount(at, e)/np.bincount(at))[at]


def weighed(e):
    "Errors whose squares grow like distances beyond `FAR` (Huber)"
    far = np.abs(e) > FAR
    return np.where(far, np.sign(e)*np.sqrt(np.maximum(0, 2*FAR*np.abs(e) - FAR**2)), e)


def model_of(x): return CostModel(*map(float, np.exp(x)))


def jacobian(rows, x, e, by=1e-4):
    "How errors change with each number of the model"
    steps = by*np.eye(len(x))
    return np.array([(weighed(logs(rows, model_of(x + d))) - e)/by for d in steps]).T


def fitted(rows, start=CostModel(), tries=30, tie=.05):
    "The model that is nearest to the rows; `tie` pulls each number to where it began, as some rows say nothing of one"
    x0 = x = np.log(np.array(start))
    def cost(x, e): return float(e @ e + tie*((x - x0)**2).sum())
    damp, e = 1., weighed(logs(rows, start))
    for _ in range(tries):
        j = jacobian(rows, x, e)
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
    "Per kernel its time over the model's; `shy`: a factor from this many rows is halved towards 1"
    found = defaultdict(list)
    for r, e in zip(rows, np.clip(logs(rows, m), -2*FAR, 2*FAR)): found[r['tile']].append(-e)
    return {t: math.exp(sum(o)/(len(o) + shy)) for t, o in found.items()}


def predicted(fit, r):
    m, by_tile = fit
    return predict_cycles(m, r['shape'], r['layout'], r['tile'])*by_tile.get(r['tile'], 1)


# Cycles are printed for this clock, which is about what an H100 has in graphs; the fit does not use it
CLOCK = 1.755e9
CYCLES = 'tensor', 'shared', 'l2', 'memory', 'begin', 'cluster', 'end', 'store', 'split_k', 'add', 'pingpong'


def on_the_clock(rows, m):
    "The same model, in cycles of `CLOCK`"
    known = [r for r in rows if r['column'] == 'graph'] or rows
    rate = np.median([predict_cycles(m, r['shape'], r['layout'], r['tile'])/r['seconds'] for r in known])
    return m._replace(**{o: getattr(m, o)*CLOCK/float(rate) for o in CYCLES})


def fit_all(rows):
    "Fit a model, and a factor per kernel. Ping-pong kernels count half: they were measured more often than others"
    counted = rows + [r for r in rows if not r['tile'].pingpong]
    return (m := on_the_clock(rows, fitted(counted))), factors(counted, m)


# Several runs as if they were one

SAME = .3               # how much less it says that two runs are the same than that a kernel is


def merged(rows):
    """One row per kernel, shape, layout and kind of column: the rows that runs have in common show how much slower one
    run is than another"""
    cells = defaultdict(list)
    for r in rows: cells[r['shape'], r['layout'], r['column'].split()[0]].append(r)
    return [o for cell, of_cell in cells.items() for o in as_one(cell, of_cell)]


def as_one(cell, rows):
    runs, tiles = ({o: i for i, o in enumerate(dict.fromkeys(r[key] for r in rows))} for key in ('column', 'tile'))
    n = len(runs)
    a, b = np.zeros((len(rows) + n, n + len(tiles))), np.zeros(len(rows) + n)
    for i, r in enumerate(rows): a[i, [runs[r['column']], n + tiles[r['tile']]]], b[i] = 1, math.log(r['seconds'])
    a[range(len(rows), len(rows) + n), range(n)] = SAME
    seconds = np.exp(np.linalg.lstsq(a, b, rcond=None)[0])[n:]
    return [dict(zip(('shape', 'layout', 'column'), cell), tile=t, seconds=float(seconds[i])) for t, i in tiles.items()]


# Which kernels are named: those by which picks lose the least, by a fit that had seen the shapes and by fits that had
# not. What is picked and was not measured for a shape is taken to lose GUESSED, three times what it loses in the mean

FAR_OFF, MORE = .06, 3          # a loss beyond this counts so much more
EACH, GUESSED = 3e-5, .1        # what a kernel has to win, so that it is named
FEW = 4                         # cells; what was measured in fewer is not named


def fits(layout, shape, tile):
    "Is there such a kernel, for such a product?"
    if tile.CK > cdiv(shape[2], 64): return False
    return not hopper_f16.unsupported_reason(tile, layout)


def losses(rows, fit_for):
    "(scores, losses) by cell and kernel: infinite, and guessed, where there is none"
    cells = {o: i for i, o in enumerate(dict.fromkeys(map(cell, rows)))}
    tiles = {o: i for i, o in enumerate(dict.fromkeys(r['tile'] for r in rows))}
    scores, times, known = np.full((len(cells), len(tiles)), np.inf), np.full((len(cells), len(tiles)), np.nan), {}
    for (shape, layout, _), i in cells.items():
        if (shape, layout) not in known:
            rows_of = [dict(shape=shape, layout=layout, tile=t) for t in tiles]
            known[shape, layout] = [predicted(fit_for(shape), r) if fits(layout, shape, r['tile']) else math.inf
                                    for r in rows_of]
        scores[i] = known[shape, layout]
    for r in rows: times[cells[cell(r)], tiles[r['tile']]] = math.log(r['seconds'])
    over = times - np.nanmin(times, 1, keepdims=True)
    return scores, np.where(np.isnan(over), GUESSED, over)


def chosen(rows, *fits_for, start=()):
    "Kernels, found by naming one more, or one less, by which picks lose the least, as long as there is one"
    tiles, known = list(dict.fromkeys(r['tile'] for r in rows)), [losses(rows, o) for o in fits_for]
    often = [i for i, t in enumerate(tiles) if sum(r['tile'] == t for r in rows) >= FEW]
    def lost_by(mask):
        total = EACH*mask.sum()
        for scores, over in known:
            s = np.where(mask, scores, np.inf)
            loss = np.where(np.isfinite(s.min(1)), over[range(len(s)), s.argmin(1)], 1)
            total += np.mean(loss + MORE*np.maximum(0, loss - FAR_OFF))/len(known)
        return total
    mask = np.array([i in often and t in start for i, t in enumerate(tiles)])
    best = lost_by(mask)
    while True:
        least, i = min((lost_by(mask ^ (np.arange(len(tiles)) == i)), i) for i in often)
        if not least < best - 1e-9: return [t for t, m in zip(tiles, mask) if m]
        best, mask[i] = least, not mask[i]


# How good it is

def unseen(rows, folds=5):
    "Per shape a fit that had not seen it"
    known = list(dict.fromkeys(r['shape'] for r in rows))
    Random(SEED).shuffle(known)
    fold = {o: i%folds for i, o in enumerate(known)}
    found = [fit_all([r for r in rows if fold[r['shape']] != i]) for i in range(folds)]
    return lambda shape: found[fold[shape]]


def lost(rows, score):
    "Per cell: the time of the kernel with the lowest score, over the best"
    best, picked = {}, {}
    for r, s in zip(rows, score):
        best[cell(r)] = min(best.get(cell(r), math.inf), r['seconds'])
        picked[cell(r)] = min(picked.get(cell(r), (math.inf, math.inf)), (s, r['seconds']))
    return {o: picked[o][1]/best[o] for o in best}


def mean(ratios): return math.exp(sum(map(math.log, ratios))/len(ratios))


def report(rows, fit, others, named=None):
    """Lines that say how good a fit is, and how good fits are that had not seen a shape (`others`); picks are among all
    kernels, or those that are `named`"""
    score, seen = [predicted(others(r['shape']), r) for r in rows], [predicted(fit, r) for r in rows]
    e = np.abs(logs_of_ratio([dict(r, seconds=r['seconds']/s) for r, s in zip(rows, score)]))
    half, most = np.exp(np.percentile(e, [50, 95])) - 1
    yield (f'{len(rows)} measurements of {len({r["shape"] for r in rows})} products by '
           f'{len({r["tile"] for r in rows})} kernels; '
           f'errors for unseen shapes: half below {half:.1%}, 95% below {most:.1%}')
    there = [named is None or r['tile'] in named for r in rows]
    cells = {cell(r) for r, o in zip(rows, there) if o}
    for name, s in (("the model's pick", score), ('the same, seen', seen)):
        found = lost(rows, [x if o else math.inf for x, o in zip(s, there)])
        found = {o: v for o, v in found.items() if o in cells}
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
    "Read the measurements of the kernels of `hopper_f16`; runs with the library have some of lesson 25, too"
    rows = [r for r in json.loads(Path(path).read_text())['rows'] if 'seconds' in r]
    return [dict(r, shape=tuple(r['shape']), tile=config) for r in rows if (config := as_config(r['tile']))]


def as_config(tile):
    "Return the `TileConfig` of a recorded tile; None for a kernel of lesson 25, which `matmul` does not pick"
    if tile.get('family', 'half') == 'half': return TileConfig(**{o: tile[o] for o in TileConfig._fields if o in tile})


def text_of(config):
    "A `TileConfig` as Python has it, without the fields that have their defaults"
    usual = TileConfig._field_defaults
    more = {k: v for k, v in config._asdict().items() if k in usual and v != usual[k]}
    return f"TileConfig({', '.join([str(config.BM), str(config.BN), *(f'{k}={v!r}' for k, v in more.items())])})"


def fit_main(args):
    rows = merged(read(args.data))
    (m, by_tile), others = fit = fit_all(rows), unseen(rows)
    named = chosen(rows, lambda _: fit[0], others, start=cost_model.CORRECTION_FACTORS)
    print(*report(rows, *fit), f'{len(named)} of them are named:', *report(rows, *fit, named), sep='\n')
    print('\nH100_MODEL = CostModel(', *(f'    {k}={v:.4g},' for k, v in m._asdict().items()), ')',
          'CORRECTION_FACTORS = {', sep='\n')
    print(*(f'    {text_of(t)}: {by_tile[t]:.3f},' for t in sorted(named)), '}', sep='\n')


# The picks compared with the library, if both were measured in the same run

GOALS = dict(graph=1., read=1.02)       # of cublasLt, in the mean of random shapes, none below 0.9
SQUARES = {4096: 1.03, 8192: 1.05}      # of torch


def compared_with_library(data, pick):
    "(shape, layout, kind of column) -> (seconds of what is picked, of the first kernel of the run, of the library)"
    runs, found = defaultdict(dict), {}
    for r in data['rows']: runs[tuple(r['shape']), r['layout'], r['column']][as_config(r['tile']) or r['name']] = r
    for o in data['library']:
        of_run = runs[(shape := tuple(o['shape'])), o['layout'], o['column']]
        mine, first = of_run.get(pick(*shape, o['layout'])), min(of_run.values(), key=lambda r: r['rank'])
        if mine: found[shape, o['layout'], o['column'].split()[0]] = mine['seconds'], first['seconds'], o
    return found


def goal_line(goal, found, more, holds=True):
    return f'goal {goal}, {more}: {"reached" if goal is not None and found >= goal and holds else "MISSED"}'


def lines_of_picks(found):
    "The means of random shapes, then the squares"
    def is_square(shape): return len(set(shape)) == 1
    kinds = dict.fromkeys((layout, kind) for shape, layout, kind in found if not is_square(shape))
    for of_kind in sorted(kinds):
        known = [v for (shape, *o), v in found.items() if tuple(o) == of_kind and not is_square(shape)]
        now, before = ([o['cublasLt']/v[i] for *v, o in known] for i in range(2))
        yield (f'{" ".join(of_kind)}: {len(known)} products: {mean(now):.3f} of cublasLt, from {min(now):.3f}; '
               f'what was picked before {mean(before):.3f}, from {min(before):.3f}; '
               + goal_line(GOALS.get(of_kind[1]), mean(now), 'none below 0.9', min(now) >= .9))
    for (shape, layout, kind), (seconds, _, o) in sorted(found.items()):
        if is_square(shape):
            yield (f'{shape[0]} {layout} {kind}: {seconds*1e6:.1f} µs, {o["cublasLt"]/seconds:.3f} of cublasLt, '
                   f'{o["torch"]/seconds:.3f} of torch; {o["mhz"]} MHz; '
                   + goal_line(SQUARES.get(shape[0]), o['torch']/seconds, 'of torch'))


def picks_main(args):
    data = json.loads(Path(args.data).read_text())
    def pick(M, N, K, layout): return cost_model.rank_configs(M, N, K, SMS, layout=layout)[0]

    print(*lines_of_picks(compared_with_library(data, pick)), sep='\n')


# What is measured

def drawn(n=SHAPES):
    "Shapes in multiples of 8, half of them uniform from 64 to 8192, half log-uniform"
    rng = Random(SEED)
    def size(i): return round((rng.uniform(64, 8192) if i%2 else math.exp(rng.uniform(*map(math.log, (64, 8192)))))/8)*8
    return [tuple(size(i) for _ in range(3)) for i in range(n)]


def config_of(kernel):
    c = kernel.constants
    constants = {o: c[o] for o in ('BM', 'BN', 'CM', 'CN', 'CK', 'BLOCKS') if o in c}
    return TileConfig(**constants, swap_ab=c['SWAP_AB'], split_n=c['SPLIT_N'], pingpong=c['PINGPONG'])


ROWS = (64, 0), (128, 0), (256, 0), (128, 1), (192, 1), (320, 1)    # of wgmma; do two warpgroups split the columns?
SHARING = (1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4)


@lru_cache
def halves_for(layout):
    "Configurations of `hopper_f16` in many sizes"
    every = (TileConfig(BM, BN, CM, CN, CK, blocks, swap_ab, split_n, pingpong)
             for (BM, split_n), BN, (CM, CN), CK, blocks, swap_ab, pingpong
             in product(ROWS, range(24, 257, 8), SHARING, (1, 2, 4), (1, 2), (0, 1), (0, 1)))
    return [o for o in every if not hopper_f16.unsupported_reason(o, layout)]


def candidates(shape, layout, rng, n=8):
    "(kernel, its configuration, its rank by today's rules)"
    known = cost_model.rank_kernels(*shape, SMS, 2*n, 'bfloat16', layout)
    every = [o for o in halves_for(layout) if o.CK <= cdiv(shape[2], 64)]
    every.sort(key=lambda o: predict_cycles(cost_model.H100_MODEL, shape, layout, o, SMS))
    known += [hopper_f16.gemm_f16(o, layout=layout) for o in every[:n] + rng.sample(every[n:80], DRAWN)]
    return [(o, config_of(o), rank) for rank, o in enumerate(dict.fromkeys(known))]


def jobs():
    "(shape, layout, kernels), the layouts alternating"
    rng = Random(SEED)
    return [(shape, layout, candidates(shape, layout, rng)) for shape in drawn() for layout in LAYOUTS]


def compiled(wanted, until):
    "Compile kernels, many at a time, as far as there is time for it"
    from contenders import prepare
    return prepare({o.name: (o, shape) for shape, _, known in wanted for o, _, _ in known}, until)


def measured(clocks, shape, layout, known, seconds):
    "One row per kernel and clock, or one with the reason why there is none"
    import contenders
    import torch
    m, n, a, b, out = contenders.operands(shape, 'bfloat16', layout)
    want = torch.matmul(a, b).float()
    for kernel, config, rank in known:
        row = dict(shape=shape, layout=layout, tile=config._asdict(), rank=rank, name=kernel.name)
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
    from gridstride.bench.columns import time_run
    rounds, mhz = time_run(clock, {'it': call}, seconds)
    return dict(seconds=float(np.median(rounds['it'])), mhz=mhz)


def measure_main(args):
    import contenders
    from gridstride.bench.columns import InGraph
    from gridstride.bench.recording import machine
    until, path = time.time() + args.most, Path(args.data)
    res, wanted = dict(made=machine(), rows=[]), jobs()
    compiled(wanted, until - args.most/2)
    clocks = dict(graph=InGraph, written=contenders.KEPT['written'])
    for i, job in enumerate(wanted):
        if time.time() > until: break
        res['rows'] += measured(clocks, *job, args.seconds)
        if i%10 == 0: path.write_text(json.dumps(res)+'\n')
    path.write_text(json.dumps(res)+'\n')
    print(f"{res['made']['gpu']}: {i + 1} of {len(wanted)} products, {len(res['rows'])} rows, "
          f"{sum('failed' in r for r in res['rows'])} failed, in {path}")


def main(given=None):
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('what', choices=['measure', 'fit', 'picks'])
    p.add_argument('--data', default=HERE/'cost.json', help='what was measured')
    p.add_argument('--most', type=float, default=120, help='seconds to measure for, compiling included')
    p.add_argument('--seconds', type=float, default=.006, help='per kernel and column')
    args = p.parse_args(given)
    dict(measure=measure_main, fit=fit_main, picks=picks_main)[args.what](args)


if __name__ == '__main__': sys.exit(main())
