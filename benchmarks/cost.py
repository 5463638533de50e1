"""The cost of a product of 16-bit floats: measure kernels on a Hopper GPU, and fit a cost model to the measurements.

    python cost.py measure            # writes cost.json; a minute; `--most 60` stops after 60 seconds
    python cost.py fit                # reads cost.json, prints the errors of the model and the code for `cost_model.py`
    python cost.py picks              # compares the picks of `matmul` with cublasLt's best, if one run measured both

40 random shapes, with another seed than the tables, are measured with the kernels of the lowest estimated cost and some
random ones, in two columns: in a CUDA graph, and with other memory overwritten before each run.
The model has a dozen physical parameters (`cost_model.CostModel`) and one factor per kernel. It must predict which
kernel is the fastest, so an error that all kernels share in a cell (a shape, layout and column) does not count.
The report has the errors of the predictions, and the time lost by the model's picks compared with the best measured
kernel, for shapes that were not in the fit (5-fold cross-validation) and for all shapes.
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
SEED, NUM_SHAPES, LAYOUTS, NUM_RANDOM, PRIOR_WEIGHT = 1, 40, ('nn',), 3, 2
SMS = 132


def cell_key(row): return row['shape'], row['layout'], row['column']


# The fit: least squares of logarithms by the Levenberg-Marquardt method, with Huber's loss

HUBER_DELTA = .2


def log_errors(rows, model):
    "Return the logarithmic errors of the model, minus their mean in each cell"
    launches = [(row['shape'], row['layout'], row['tile']) for row in rows]
    cycles = {launch: predict_cycles(model, *launch) for launch in set(launches)}  # rows repeat, in columns and weights
    return subtract_cell_means(rows, np.array([math.log(cycles[o]/row['seconds']) for o, row in zip(launches, rows)]))


def subtract_cell_means(rows, values):
    cells = {}
    cell_of_row = np.array([cells.setdefault(cell_key(row), len(cells)) for row in rows])
    return values - (np.bincount(cell_of_row, values)/np.bincount(cell_of_row))[cell_of_row]


def huber_errors(errors):
    "Shrink errors beyond `HUBER_DELTA`, so that their squares grow linearly (Huber's loss)"
    is_large = np.abs(errors) > HUBER_DELTA
    shrunk = np.sign(errors)*np.sqrt(np.maximum(0, 2*HUBER_DELTA*np.abs(errors) - HUBER_DELTA**2))
    return np.where(is_large, shrunk, errors)


def model_from_logs(log_params): return CostModel(*map(float, np.exp(log_params)))


def jacobian(rows, log_params, errors, step=1e-4):
    "Return the derivatives of the errors with respect to the logarithm of each parameter, by finite differences"
    changed_models = (model_from_logs(log_params + change) for change in step*np.eye(len(log_params)))
    return np.array([(huber_errors(log_errors(rows, model)) - errors)/step for model in changed_models]).T


def fit_model(rows, start=CostModel(), max_steps=30, tie=.05):
    "Fit the model to the rows; `tie` pulls each parameter to its start, since some rows do not determine all of them"
    initial = params = np.log(np.array(start))
    def cost(params, errors): return float(errors @ errors + tie*((params - initial)**2).sum())
    damping, errors = 1., huber_errors(log_errors(rows, start))
    for _ in range(max_steps):
        derivatives = jacobian(rows, params, errors)
        gradient = derivatives.T @ errors + tie*(params - initial)
        for _ in range(8):
            normal_matrix = derivatives.T @ derivatives + (tie + damping)*np.eye(len(params))
            new_params = params - np.linalg.solve(normal_matrix, gradient)
            new_errors = huber_errors(log_errors(rows, model_from_logs(new_params)))
            if cost(new_params, new_errors) < cost(params, errors): break
            damping *= 4
        else: return model_from_logs(params)
        improvement = cost(params, errors) - cost(new_params, new_errors)
        params, errors, damping = new_params, new_errors, damping/4
        if improvement < 1e-7*len(rows): break
    return model_from_logs(params)


def correction_factors(rows, model, prior_weight=PRIOR_WEIGHT):
    """Return {tile: measured over predicted time} of the kernels, in the mean. With `prior_weight` rows, the logarithm
    of a factor is halved."""
    logs_of_tile = defaultdict(list)            # the logarithms of measured over predicted times
    errors = np.clip(log_errors(rows, model), -2*HUBER_DELTA, 2*HUBER_DELTA)
    for row, error in zip(rows, errors): logs_of_tile[row['tile']].append(-error)
    return {tile: math.exp(sum(logs)/(len(logs) + prior_weight)) for tile, logs in logs_of_tile.items()}


def predict_seconds(fit, row):
    model, factors = fit
    return predict_cycles(model, row['shape'], row['layout'], row['tile'])*factors.get(row['tile'], 1)


# The clock in Hz for which cycles are printed, near that of an H100 in graphs; the fit does not use it
CLOCK = 1.755e9
CYCLES = [name for name in CostModel._fields if name not in ('unaligned_factor', 'mn_major_factor')]


def to_clock_cycles(rows, model):
    "Convert the parameters of a model to cycles of `CLOCK`"
    reference_rows = [row for row in rows if row['column'] == 'graph'] or rows
    rate = np.median([predict_cycles(model, row['shape'], row['layout'], row['tile'])/row['seconds']
                      for row in reference_rows])
    return model._replace(**{name: getattr(model, name)*CLOCK/float(rate) for name in CYCLES})


def fit_all(rows):
    "Fit a model and a factor per kernel. Ping-pong kernels have half the weight, since they were measured more often"
    weighted_rows = rows + [row for row in rows if not row['tile'].pingpong]
    return (model := to_clock_cycles(rows, fit_model(weighted_rows))), correction_factors(weighted_rows, model)


# Merging several runs

RUN_WEIGHT = .3         # weight of the assumption that runs are equally fast, where a measurement has weight 1


def merge_runs(rows):
    """Return one row per kernel, shape, layout and kind of column. Kernels that several runs measured show how much
    slower one run is than another."""
    cells = defaultdict(list)
    for row in rows: cells[row['shape'], row['layout'], row['column'].split()[0]].append(row)
    return [merged for cell_key, cell_rows in cells.items() for merged in merge_cell(cell_key, cell_rows)]


def number_values(values):
    "Return {value: its number} of the distinct values"
    return {value: i for i, value in enumerate(dict.fromkeys(values))}


def merge_cell(cell_key, rows):
    """Merge the rows of a cell by least squares: the logarithm of a time is the sum of one number per run and one per
    kernel. An equation per run pulls its number to 0."""
    runs, tiles = (number_values(row[field] for row in rows) for field in ('column', 'tile'))
    num_rows, num_runs = len(rows), len(runs)
    matrix, targets = np.zeros((num_rows + num_runs, num_runs + len(tiles))), np.zeros(num_rows + num_runs)
    for i, row in enumerate(rows):
        matrix[i, [runs[row['column']], num_runs + tiles[row['tile']]]] = 1
        targets[i] = math.log(row['seconds'])
    matrix[range(num_rows, num_rows + num_runs), range(num_runs)] = RUN_WEIGHT
    seconds = np.exp(np.linalg.lstsq(matrix, targets, rcond=None)[0])[num_runs:]
    cell_fields = dict(zip(('shape', 'layout', 'column'), cell_key))
    return [dict(cell_fields, tile=tile, seconds=float(seconds[i])) for tile, i in tiles.items()]


# The selection of kernels with factors: those with which the model's picks lose the least time, with the fit to all
# shapes and with fits without a shape. The loss is the logarithm of the time of the pick over the best one.

LARGE_LOSS, LARGE_LOSS_WEIGHT = .06, 3      # the part of a loss above LARGE_LOSS has this additional weight
KERNEL_COST = 3e-5                          # the mean loss that a kernel must save to be selected
UNMEASURED_LOSS = .1                        # of a pick that was not measured for a shape; three times the mean
MIN_CELLS = 4                               # a kernel measured in fewer cells is not selected


def kernel_exists(layout, shape, tile):
    "Return whether a kernel exists for a layout, shape and tile"
    if tile.CK > cdiv(shape[2], 64): return False
    return not hopper_f16.unsupported_reason(tile, layout)


def pick_losses(rows, fit_for):
    """Return (predicted times, losses), arrays [cell, kernel]. The predicted time is inf where there is no kernel; the
    loss is `UNMEASURED_LOSS` where there is no measurement."""
    cells, tiles = number_values(map(cell_key, rows)), number_values(row['tile'] for row in rows)
    def predict(shape, layout, tile):
        if not kernel_exists(layout, shape, tile): return math.inf
        return predict_seconds(fit_for(shape), dict(shape=shape, layout=layout, tile=tile))
    predictions = {key: [predict(*key, tile) for tile in tiles] for key in dict.fromkeys(cell[:2] for cell in cells)}
    predicted = np.array([predictions[shape, layout] for shape, layout, _ in cells])
    log_times = np.full((len(cells), len(tiles)), np.nan)
    for row in rows: log_times[cells[cell_key(row)], tiles[row['tile']]] = math.log(row['seconds'])
    losses = log_times - np.nanmin(log_times, 1, keepdims=True)
    return predicted, np.where(np.isnan(losses), UNMEASURED_LOSS, losses)


def select_kernels(rows, *fits_for, start=()):
    "Select kernels greedily: add or remove the one that reduces the loss of the picks the most, until none does"
    tiles = list(number_values(row['tile'] for row in rows))
    predictions = [pick_losses(rows, fit_for) for fit_for in fits_for]
    eligible = [i for i, tile in enumerate(tiles) if sum(row['tile'] == tile for row in rows) >= MIN_CELLS]
    def total_loss(is_selected):
        total = KERNEL_COST*is_selected.sum()
        for predicted, losses in predictions:
            scores = np.where(is_selected, predicted, np.inf)
            loss = np.where(np.isfinite(scores.min(1)), losses[range(len(scores)), scores.argmin(1)], 1)
            total += np.mean(loss + LARGE_LOSS_WEIGHT*np.maximum(0, loss - LARGE_LOSS))/len(predictions)
        return total
    is_selected = np.array([i in eligible and tile in start for i, tile in enumerate(tiles)])
    best_loss = total_loss(is_selected)
    while True:
        loss, i = min((total_loss(is_selected ^ (np.arange(len(tiles)) == i)), i) for i in eligible)
        if not loss < best_loss - 1e-9: return [tile for tile, selected in zip(tiles, is_selected) if selected]
        best_loss, is_selected[i] = loss, not is_selected[i]


# Evaluation

def cross_validate(rows, folds=5):
    "Cross-validate: return a function that maps a shape to a fit without it"
    shapes = list(dict.fromkeys(row['shape'] for row in rows))
    Random(SEED).shuffle(shapes)
    fold_of_shape = {shape: i%folds for i, shape in enumerate(shapes)}
    fits = [fit_all([row for row in rows if fold_of_shape[row['shape']] != fold]) for fold in range(folds)]
    return lambda shape: fits[fold_of_shape[shape]]


def pick_slowdowns(rows, scores):
    "Return {cell: time of the kernel with the lowest score, over the best time}"
    best, picked = {}, {}
    for row, score in zip(rows, scores):
        cell = cell_key(row)
        best[cell] = min(best.get(cell, math.inf), row['seconds'])
        picked[cell] = min(picked.get(cell, (math.inf, math.inf)), (score, row['seconds']))
    return {cell: picked[cell][1]/best[cell] for cell in best}


def geometric_mean(ratios): return math.exp(sum(map(math.log, ratios))/len(ratios))


def report(rows, fit, fit_without, selected=None):
    """Yield lines with the errors and the losses of the picks, by a fit to all shapes and by `fit_without(shape)`. The
    picks are among the `selected` kernels, by default all."""
    unseen = [predict_seconds(fit_without(row['shape']), row) for row in rows]
    seen = [predict_seconds(fit, row) for row in rows]
    log_ratios = np.log([row['seconds']/predicted for row, predicted in zip(rows, unseen)])
    median, percentile_95 = np.exp(np.percentile(np.abs(subtract_cell_means(rows, log_ratios)), [50, 95])) - 1
    yield (f'{len(rows)} measurements of {len({row["shape"] for row in rows})} products by '
           f'{len({row["tile"] for row in rows})} kernels; '
           f'errors for unseen shapes: half below {median:.1%}, 95% below {percentile_95:.1%}')
    is_selected = [selected is None or row['tile'] in selected for row in rows]
    cells = {cell_key(row) for row, keep in zip(rows, is_selected) if keep}
    for name, predictions in (("the model's pick", unseen), ('the same, seen', seen)):
        scores = [predicted if keep else math.inf for predicted, keep in zip(predictions, is_selected)]
        slowdowns = {cell: slowdown for cell, slowdown in pick_slowdowns(rows, scores).items() if cell in cells}
        for kind in dict.fromkeys(cell[1:] for cell in slowdowns):
            of_kind = [slowdown for cell, slowdown in slowdowns.items() if cell[1:] == kind]
            yield (f'{name:<16} {" ".join(kind)}: {geometric_mean(of_kind):.4f} of the best in the mean, '
                   f'{max(of_kind):.3f} at most')


def read_rows(path):
    "Read the measurements of the kernels of `hopper_f16`, without those of lesson 25 that some runs have"
    rows = [row for row in json.loads(Path(path).read_text())['rows'] if 'seconds' in row]
    return [dict(row, shape=tuple(row['shape']), tile=config) for row in rows if (config := as_config(row['tile']))]


def as_config(tile):
    "Return the `TileConfig` of a recorded tile; None for a kernel of lesson 25, which `matmul` does not pick"
    if tile.get('family', 'gemm_f16') != 'gemm_f16': return None
    return TileConfig(**{field: tile[field] for field in TileConfig._fields if field in tile})


def config_text(config):
    "Format a `TileConfig` as Python code, without default values"
    defaults = TileConfig._field_defaults
    options = {k: v for k, v in config._asdict().items() if k in defaults and v != defaults[k]}
    return f"TileConfig({', '.join([str(config.BM), str(config.BN), *(f'{k}={v!r}' for k, v in options.items())])})"


def fit_main(args):
    rows = merge_runs(read_rows(args.data))
    fit, fit_without = fit_all(rows), cross_validate(rows)
    model, factors = fit
    selected = select_kernels(rows, lambda _: fit, fit_without, start=cost_model.CORRECTION_FACTORS)
    print(*report(rows, fit, fit_without), f'{len(selected)} of them are selected:',
          *report(rows, fit, fit_without, selected), sep='\n')
    print('\nH100_MODEL = CostModel(', *(f'    {k}={v:.4g},' for k, v in model._asdict().items()), ')',
          'CORRECTION_FACTORS = {', sep='\n')
    print(*(f'    {config_text(tile)}: {factors[tile]:.3f},' for tile in sorted(selected)), '}', sep='\n')


# The picks compared with the library, if one run measured both

GOALS = dict(graph=1., read=1.02)       # mean speedup over cublasLt for random shapes, none below 0.9
SQUARE_GOALS = {4096: 1.03, 8192: 1.05} # size -> speedup over torch


def compare_with_library(data, pick):
    "Return {(shape, layout, kind of column): (seconds of the pick, seconds of the run's first kernel, library's row)}"
    cells, comparisons = defaultdict(dict), {}
    for row in data['rows']:
        cells[tuple(row['shape']), row['layout'], row['column']][as_config(row['tile']) or row['name']] = row
    for library in data['library']:
        shape, layout, column = tuple(library['shape']), library['layout'], library['column']
        row_of_kernel = cells[shape, layout, column]
        picked = row_of_kernel.get(pick(*shape, layout))
        first = min(row_of_kernel.values(), key=lambda row: row['rank'])
        if picked: comparisons[shape, layout, column.split()[0]] = picked['seconds'], first['seconds'], library
    return comparisons


def goal_text(goal, speedup, condition, holds=True):
    return f'goal {goal}, {condition}: {"reached" if goal is not None and speedup >= goal and holds else "MISSED"}'


def pick_lines(comparisons):
    "Yield lines with the means of random shapes, then with the squares"
    def is_square(shape): return len(set(shape)) == 1
    kinds = dict.fromkeys((layout, column) for shape, layout, column in comparisons if not is_square(shape))
    for kind in sorted(kinds):
        of_kind = [times for (shape, *other_fields), times in comparisons.items()
                   if tuple(other_fields) == kind and not is_square(shape)]
        now = [library['cublasLt']/seconds for seconds, _, library in of_kind]
        before = [library['cublasLt']/seconds for _, seconds, library in of_kind]
        yield (f'{" ".join(kind)}: {len(of_kind)} products: {geometric_mean(now):.3f} of cublasLt, '
               f'from {min(now):.3f}; what was picked before {geometric_mean(before):.3f}, from {min(before):.3f}; '
               + goal_text(GOALS.get(kind[1]), geometric_mean(now), 'none below 0.9', min(now) >= .9))
    for (shape, layout, column), (seconds, _, library) in sorted(comparisons.items()):
        if is_square(shape):
            over_torch = library['torch']/seconds
            over_cublaslt = library['cublasLt']/seconds
            yield (f'{shape[0]} {layout} {column}: {seconds*1e6:.1f} µs, {over_cublaslt:.3f} of cublasLt, '
                   f'{over_torch:.3f} of torch; {library["mhz"]} MHz; '
                   + goal_text(SQUARE_GOALS.get(shape[0]), over_torch, 'of torch'))


def picks_main(args):
    data = json.loads(Path(args.data).read_text())
    def pick(M, N, K, layout): return cost_model.rank_configs(M, N, K, SMS, layout=layout)[0]

    print(*pick_lines(compare_with_library(data, pick)), sep='\n')


# Measurement

def draw_shapes(n=NUM_SHAPES):
    "Draw shapes in multiples of 8 from 64 to 8192, half of them uniform, half log-uniform"
    rng = Random(SEED)
    def size(i): return round((rng.uniform(64, 8192) if i%2 else math.exp(rng.uniform(*map(math.log, (64, 8192)))))/8)*8
    return [tuple(size(i) for _ in range(3)) for i in range(n)]


def config_of(kernel):
    constants = kernel.constants
    sizes = {name: constants[name] for name in ('BM', 'BN', 'CM', 'CN', 'CK', 'BLOCKS') if name in constants}
    return TileConfig(**sizes, swap_ab=constants['SWAP_AB'], split_n=constants['SPLIT_N'],
                      pingpong=constants['PINGPONG'])


# (BM, split_n): rows of wgmma, and whether two warpgroups split the columns
ROWS = (64, 0), (128, 0), (256, 0), (128, 1), (192, 1), (320, 1)
CLUSTERS = (1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4)


@lru_cache
def gemm_f16_configs(layout):
    "Return configurations of `hopper_f16` in many sizes"
    configs = (TileConfig(BM, BN, CM, CN, CK, blocks, swap_ab, split_n, pingpong)
               for (BM, split_n), BN, (CM, CN), CK, blocks, swap_ab, pingpong
               in product(ROWS, range(24, 257, 8), CLUSTERS, (1, 2, 4), (1, 2), (0, 1), (0, 1)))
    return [config for config in configs if not hopper_f16.unsupported_reason(config, layout)]


def candidates(shape, layout, rng, n=8):
    "Return [(kernel, its configuration, its rank by the current model)]"
    kernels = cost_model.rank_kernels(*shape, SMS, 2*n, 'bfloat16', layout)
    configs = [config for config in gemm_f16_configs(layout) if config.CK <= cdiv(shape[2], 64)]
    configs.sort(key=lambda config: predict_cycles(cost_model.H100_MODEL, shape, layout, config, SMS))
    configs = configs[:n] + rng.sample(configs[n:80], NUM_RANDOM)
    kernels += [hopper_f16.gemm_f16(config, layout=layout) for config in configs]
    return [(kernel, config_of(kernel), rank) for rank, kernel in enumerate(dict.fromkeys(kernels))]


def jobs():
    "Return [(shape, layout, candidates)], with alternating layouts"
    rng = Random(SEED)
    return [(shape, layout, candidates(shape, layout, rng)) for shape in draw_shapes() for layout in LAYOUTS]


def compile_jobs(jobs, deadline):
    "Compile the kernels of all jobs in parallel, until the deadline"
    from contenders import compile_kernels
    kernels = {kernel.name: (kernel, shape) for shape, _, candidates in jobs for kernel, _, _ in candidates}
    return compile_kernels(kernels, deadline)


def measure_candidates(clocks, shape, layout, candidates, seconds):
    "Yield a row per kernel and clock, or one with the error"
    import contenders
    import torch
    m, n, a, b, out = contenders.operands(shape, 'bfloat16', layout)
    want = torch.matmul(a, b).float()
    for kernel, config, rank in candidates:
        row = dict(shape=shape, layout=layout, tile=config._asdict(), rank=rank, name=kernel.name)
        try:
            out.fill_(float('nan'))
            kernel(m, n, out)
            error = float((out.float() - want).norm()/want.norm())
            if not error < 2**-7: raise ValueError(f'expected a relative error below {2**-7:.1e}, got {error:.1e}')
            for column, make_clock in clocks.items():
                yield dict(row, column=column, **time_call(make_clock(), lambda: kernel(m, n, out), seconds))
        except Exception as error: yield dict(row, failed=f'{type(error).__name__}: {error}'.splitlines()[0])


def time_call(clock, call, seconds):
    "Time a call with a clock; return its seconds and the measured clock rate"
    from gridstride.bench.columns import time_run
    rounds, mhz = time_run(clock, {'it': call}, seconds)
    return dict(seconds=float(np.median(rounds['it'])), mhz=mhz)


def measure_main(args):
    import contenders
    from gridstride.bench.columns import InGraph
    from gridstride.bench.recording import machine
    deadline, path = time.time() + args.most, Path(args.data)
    results, all_jobs = dict(made=machine(), rows=[]), jobs()
    compile_jobs(all_jobs, deadline - args.most/2)
    clocks = dict(graph=InGraph, written=contenders.SHARED_CLOCKS['written'])
    for i, job in enumerate(all_jobs):
        if time.time() > deadline: break
        results['rows'] += measure_candidates(clocks, *job, args.seconds)
        if i%10 == 0: path.write_text(json.dumps(results)+'\n')
    path.write_text(json.dumps(results)+'\n')
    print(f"{results['made']['gpu']}: {i + 1} of {len(all_jobs)} products, {len(results['rows'])} rows, "
          f"{sum('failed' in row for row in results['rows'])} failed, in {path}")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('command', choices=['measure', 'fit', 'picks'])
    parser.add_argument('--data', default=HERE/'cost.json', help='file of the measurements')
    parser.add_argument('--most', type=float, default=120, help='seconds to measure for, including compilation')
    parser.add_argument('--seconds', type=float, default=.006, help='per kernel and column')
    args = parser.parse_args(argv)
    dict(measure=measure_main, fit=fit_main, picks=picks_main)[args.command](args)


if __name__ == '__main__': sys.exit(main())
