"""The matrix products of the three ladders against NVIDIA's library on a Hopper GPU: the course's goals, 40 random
shapes per type and layout, several seconds at the power limit, and all kernels of the ladders.

    python matmul.py > matmul.txt     # all parts; writes matmul.json
    python matmul.py goals bfloat16   # some parts: goals, skinny, bfloat16, power, float32, tuned, ...
    python matmul.py --seconds .1     # of timing per candidate, in each column and run (0.02)
    python matmul.py --runs 1         # repetitions of each measurement (3)
    python matmul.py --match 'bfloat16 tn'  # only rows whose type, layout and shape contain this
    python matmul.py --to FILE        # write the rows to FILE, and continue after the rows it already has
    python matmul.py --most 200       # start no new measurement after as many seconds
    python matmul.py --show FILE      # print the results in FILE; needs no GPU

Each product is first compared with float64, in an output filled with NaN. Then our kernel, torch's and the fastest of
cublasLt's first eight heuristic results are timed interleaved, in each of five columns: *written*, other memory
overwritten before each run; *read*, other memory read before each run, which fills the L2 cache with clean lines;
*none*, neither; *back to back*, calls from Python one after the other; *graph*, captured once and replayed. Times are
medians, with the 5% and 95% quantiles of the rounds. Ratios (above 1, ours is faster) are medians over the rounds; of
their 95% intervals in all runs, the widest is shown. The clock rate is cycles counted by the SMs over nanoseconds. A
profiler collects the names of the kernels at the end.
float32 does not use TF32. Our float32 kernels with bfloat16 parts are related to 3xTF32 and BF16x9.
A product that fails becomes a row with the error; the others continue, in a new process if the GPU requires one.
"""
import argparse, json, math, os, sys, tempfile, time
from importlib import import_module
from pathlib import Path

import contenders
import numpy as np
import torch
from gridstride.bench.clocks import Sensors
from gridstride.kernels.gemm import tuning_cache
from gridstride.kernels import matmul, plan
from gridstride.kernels.ladder.counters import resources
from gridstride.kernels.ladder.ladder import Reference, Step, inputs, time_rung
from gridstride.kernels.ladder.rung import Rung
from gridstride.bench.recording import machine

HERE = Path(__file__).parent
# (module, (h, w, k))
LADDERS = [('fp32', (4096, 4096, 4096)), ('tensor_cores', (8192, 8192, 8192)), ('hopper', (8192, 8192, 8192))]
GOALS = [('float32', (4096, 4096, 4096), 1.03), ('float32', (8192, 8192, 8192), 1.03),
         ('float32', (5120, 5120, 256), 1.05), ('float32', (50000, 10, 784), 1.5),
         ('bfloat16', (4096, 4096, 4096), 1.03), ('bfloat16', (8192, 8192, 8192), 1.05)]
MEAN_GOALS = dict(read=1.02, graph=1.)  # for random shapes, compared with cublasLt's best
MMA_SYNC_GOAL = .95*.738                # speedup over torch for kernels by `mma.sync`, which can reach 0.738 at most
SEED, NUM_SHAPES = 0, 20
LAYOUTS = 'nn', 'tn', 'nt'
POWER_SECONDS = 1.5                     # per candidate and run: long enough for the clock to settle


def uniform(rng): return rng.uniform(64, 8192)


# draws as many sizes from 64 to 128 as from 4096 to 8192
def log_uniform(rng): return math.exp(rng.uniform(math.log(64), math.log(8192)))


def draw_shapes(dtype, draw):
    """Draw random shapes with sizes from 64 to 8192: in float32 multiples of none of 2, 3, 5 and 7, in 16 bits
    multiples of 8"""
    rng = np.random.default_rng(SEED)
    def size():
        n = round(draw(rng))
        if dtype != 'float32': return round(n/8)*8
        return n if all(n % p for p in (2, 3, 5, 7)) else size()
    return [(size(), size(), size()) for _ in range(NUM_SHAPES)]


def random_shapes(dtype): return draw_shapes(dtype, uniform) + draw_shapes(dtype, log_uniform)


def ladder_kernels(module):
    "Return the kernels of a ladder, in order"
    return [v for v in vars(import_module(f'gridstride.kernels.ladder.{module}')).values() if isinstance(v, Rung)]


# The last kernel of the float32 ladder, in lesson 13, uses only FFMA; `matmul` picks the fastest kernel.
IMPLEMENTATIONS = {'matmul': dict(ours=matmul), 'tuned': dict(ours=matmul, is_tuned=True),
                   'lesson 13': dict(ours=ladder_kernels('fp32')[-1])}


# Parts: each returns jobs for `measure_job`

def goals():
    last = IMPLEMENTATIONS['lesson 13']['ours']
    return [dict(shape=shape, dtype=dtype, goal=goal, way=way) for dtype, shape, goal in GOALS
            for way in ['lesson 13']*(dtype == 'float32' and last.supports(*shape)) + ['matmul']]


def power():
    "Return long measurements of large products, which reach the power limit, in one column"
    return [dict(job, seconds=POWER_SECONDS, columns=('none',)) for job in goals()
            if min(job['shape']) >= 4096 and job['way'] == 'matmul']


def skinny():
    "Return products of a tall m and few columns, limited by reading m, with a kernel that only reads m"
    return [dict(shape=(50000, w, 784), dtype='float32', goal=.97, reading=True) for w in (1, 10, 16, 32)]


def layout_jobs(dtype):
    return [dict(shape=shape, dtype=dtype, layout=layout) for layout in LAYOUTS for shape in random_shapes(dtype)]


def bfloat16(): return layout_jobs('bfloat16')


def float16(): return layout_jobs('float16')


def float32(): return [dict(shape=shape, dtype='float32') for shape in random_shapes('float32')]


def tuned_jobs(): return [dict(job, way='tuned') for job in bfloat16()]


def ladders():
    return [dict(shape=shape, dtype=kernel.dtype, ladder=ladder, rung=kernel.name) for ladder, shape in LADDERS
            for kernel in ladder_kernels(ladder) if kernel.supports(*shape)]


PARTS = dict(goals=goals, skinny=skinny, bfloat16=bfloat16, power=power, float32=float32, tuned=tuned_jobs,
             ladders=ladders, float16=float16)


def measure_ladder_kernel(shape, dtype, ladder, rung, seconds, **other_fields):
    "Compare a kernel of a ladder with torch, other memory overwritten before each run; return the fields of its row"
    kernel = next(kernel for kernel in ladder_kernels(ladder) if kernel.name == rung)
    a, b = inputs(*shape, dtype, 'cuda')
    timings = time_rung(kernel, a, b, Reference(a, b), seconds)
    step = Step(shape, **timings)
    return dict(timings, tflops=step.tflops, library_tflops=step.library_tflops, numbers=kernel.constants,
                **resources(kernel))


def measure_job(job, seconds, runs):
    "Return the row of a job, or a row with the error"
    fields = dict(layout='nn', way='matmul') | {k: v for k, v in job.items() if k not in ('seconds', 'columns')}
    job = {k: v for k, v in dict(dict(seconds=seconds), **job).items() if k != 'way'}
    try:
        if 'ladder' in job: return dict(fields, **measure_ladder_kernel(**job))
        return dict(fields, **contenders.measure_product(runs=runs, **IMPLEMENTATIONS[fields['way']], **job))
    except Exception as error: return dict(fields, failed=f'{type(error).__name__}: {error}'.splitlines()[0])


def job_text(job):
    "Return the text that identifies a job and its row"
    implementation = f"{job['ladder']} {job['rung']}" if 'ladder' in job else job.get('way', 'matmul')
    return f"{job['dtype']} {job.get('layout', 'nn')} {list(job['shape'])} {implementation}"


def kernels_to_compile(jobs):
    "Return {name: (kernel, shape)} of the kernels that `matmul` picks for the jobs"
    plans = [(plan(*job['shape'], job['dtype'], layout=job.get('layout', 'nn')).kernel, job['shape']) for job in jobs
             if 'ladder' not in job]
    return {kernel.name: (kernel, shape) for kernel, shape in plans if kernel}


def is_gpu_broken():
    "Return whether the GPU can no longer be used in this process"
    try: torch.cuda.synchronize()
    except Exception: return True


def ladder_line(row):
    "Format the row of a kernel of a ladder"
    h, w, k = row['shape']
    name = f"{row['rung']:<26} {row['dtype']:<8} {f'{h}x{k} @ {k}x{w}':<24}"
    if 'failed' in row: return f"{name} FAILED {row['failed']}"
    return (f"{name} {row['seconds']*1e6:>9.1f} µs {row['tflops']:>7.2f} TFLOP/s "
            f"{row['library_tflops']:>7.2f} library  {row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f})  "
            f"errors {row['error']:.1e} {row['library_error']:.1e}")


def row_lines(row):
    "Format a row as a list of lines"
    if 'ladder' in row: return [ladder_line(row)]
    return contenders.row_lines(row) + goal_lines(row)


def goal_lines(row):
    "Say whether a row reaches its goal, compared with torch, in each of the columns *written*, *read* and *none*"
    if 'goal' not in row or 'failed' in row: return []
    baseline = contenders.READS if row.get('reading') else contenders.TORCH
    columns = [column for column in row['columns'] if column not in ('row', 'graph')]
    speedups = {column: found[0] for column in columns if (found := contenders.speedup(row, column, baseline))}
    verdicts = ', '.join(f"{column} {'reached' if value >= row['goal'] else 'MISSED'}"
                         for column, value in speedups.items())
    return [f"    goal {row['goal']} of {baseline}: {verdicts}"]


def summary_lines(part, rows):
    "Yield the lines that summarize the rows of a part"
    def dtype_and_layout(item): return item['dtype'], item.get('layout', 'nn')
    if part in ('bfloat16', 'float16', 'float32', 'tuned'):
        for kind in dict.fromkeys(map(dtype_and_layout, rows)):
            yield ' '.join(kind)
            kind_rows, kind_jobs = ([item for item in items if dtype_and_layout(item) == kind]
                                    for items in (rows, PARTS[part]()))
            for other in (contenders.TORCH, contenders.BEST):
                for column in contenders.COLUMNS:
                    if (column, other) in contenders.EXCLUDED: continue
                    goal = MEAN_GOALS.get(column) if other == contenders.BEST else None
                    yield '    ' + contenders.verdict(kind_rows, column, other, goal, len(kind_jobs))
    if part == 'ladders':
        best = max((row.get('ratio', 0) for row in rows if row['ladder'] == 'tensor_cores'), default=0)
        yield (f"the best of tensor_cores: {best:.3f} of the library; "
               f"goal {MMA_SYNC_GOAL:.3f}: {'reached' if best >= MMA_SYNC_GOAL else 'MISSED'}")


def initial_results():
    "Return the results with the machine and the seed, before any measurement"
    state = Sensors(torch.cuda.get_device_properties().uuid).read()
    return dict(made=dict(machine(), most_mhz=state.max_mhz if state else None, seed=SEED))


def print_head(run_info):
    "Print the lines above the table"
    print(f"{run_info['gpu']}, at most {run_info['most_mhz']} MHz, {run_info['date']}, "
          f"{', '.join(f'{k} {v}' for k, v in run_info['versions'].items())}\n"
          "ours: µs, and from what 5% to what 95% of the rounds are below; how many times faster than the others, and "
          "the interval;\nthe clock, counted; errors against float64: torch's, ours, cublasLt's", flush=True)


def write_results(results, path):
    "Write the results as JSON, one line per row"
    def text(value): return json.dumps(value, ensure_ascii=False)
    def rows(value): return '[\n' + ',\n'.join(map(text, value)) + ']' if isinstance(value, list) else text(value)
    path.write_text('{' + ',\n'.join(f'{text(k)}: {rows(v)}' for k, v in results.items()) + '}\n')


def measure_parts(parts, args, results, path):
    "Measure the jobs that have no row yet, and write each row; return False if the GPU needs a new process"
    for part in parts:
        rows = results.setdefault(part, [])
        measured, jobs_of_part = set(map(job_text, rows)), [o for o in PARTS[part]() if args.match in job_text(o)]
        jobs = [o for o in jobs_of_part if job_text(o) not in measured]
        if not rows: print(f'\n{part}', flush=True)
        if time.time() < args.until: contenders.compile_kernels(kernels_to_compile(jobs))
        for i, job in enumerate(jobs):
            if time.time() > args.until:
                print(f'{len(jobs) - i} of {len(jobs_of_part)} were not begun: the time was over')
                break
            rows.append(measure_job(job, args.seconds, args.runs))
            print(*row_lines(rows[-1]), sep='\n', flush=True)
            write_results(results, path)
            if 'failed' in rows[-1] and is_gpu_broken(): return False
        print(*summary_lines(part, rows), sep='\n', flush=True)
    return True


def find_kernels(results, path):
    "Find out which kernels were launched, and print their names"
    try: contenders.add_kernel_names([r for r in product_rows(results) if 'kernels' not in r])
    except Exception as e: print(f'\nkernels of this run: not known: {type(e).__name__}: {e}', flush=True)
    write_results(results, path)
    print_kernels(results)


def product_rows(results): return [row for part in PARTS if part != 'ladders' for row in results.get(part, [])]


def print_kernels(results):
    "Print the kernels that each candidate launched"
    print('\nkernels', flush=True)
    for row in product_rows(results):
        for candidate, names in row.get('kernels', {}).items():
            h, w, k = row['shape']
            print(f"{row['dtype']:<8} {row['layout']} {f'{h}x{k} @ {k}x{w}':<24} {candidate:<12} {', '.join(names)}",
                  flush=True)


def print_results(results):
    "Print results as they were printed when measured"
    print_head(results['made'])
    for part in PARTS:
        if part not in results: continue
        lines = [line for row in results[part] for line in row_lines(row)]
        print(f'\n{part}', *summary_lines(part, results[part]), *lines, sep='\n')
    print_kernels(results)


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('parts', nargs='*', choices=[*PARTS, []], default=[])
    parser.add_argument('--seconds', type=float, default=.02)
    parser.add_argument('--runs', type=int, default=3)
    parser.add_argument('--match', default='', help='only rows whose type, layout and shape contain this')
    parser.add_argument('--to', type=Path, help='file for the rows; its rows are not measured again')
    parser.add_argument('--most', type=float, default=math.inf, help='start no new measurement after as many seconds')
    parser.add_argument('--until', type=float, help=argparse.SUPPRESS)
    parser.add_argument('--show', type=Path, help='print the results in such a file')
    args = parser.parse_args(argv)
    args.until = args.until or time.time() + args.most
    return args


def main():
    args = parse_arguments()
    if args.show: return print_results(json.loads(args.show.read_text()))
    is_partial = args.parts or args.match
    path = args.to or (Path(tempfile.mkdtemp())/'rows.json' if is_partial else HERE/'matmul.json')
    results = json.loads(path.read_text()) if args.to and path.exists() else initial_results()
    print_head(results['made'])
    tuning_folder = tempfile.mkdtemp()
    tuning_cache.path = lambda: Path(tuning_folder)/'tuned.json'            # later runs must not use its results
    if not measure_parts([o for o in PARTS if o in args.parts or not args.parts], args, results, path):
        os.execv(sys.executable, [sys.executable, __file__, *sys.argv[1:], f'--to={path}', f'--until={args.until}'])
    find_kernels(results, path)


if __name__ == '__main__': main()
