"""The matrix products of the three ladders against NVIDIA's library on a Hopper GPU: the course's goals, 40 random
shapes per type and layout, those in float32, several seconds at the power limit, and every rung of the ladders.

    python matmul.py                  # all of it; prints what matmul.txt holds, writes matmul.json
    python matmul.py goals bfloat16   # some of it: goals, thin, bfloat16, power, float32, tuned, ...
    python matmul.py --seconds .1     # of timing per side, in each column and run (0.02)
    python matmul.py --runs 1         # one after the other, in this process (3)
    python matmul.py --match 'bfloat16 tn'  # rows whose text has that
    python matmul.py --to FILE        # keep the rows of a part there, and go on where it ends
    python matmul.py --most 200       # seconds after which nothing more is begun
    python matmul.py --show FILE      # print what such a file holds; needs no GPU

Each product is first compared with float64, written into memory full of NaN; then it, torch's, and the fastest of
cublasLt's first eight proposals take turns, in each of five columns: *written*, other memory overwritten before each
run; *read*, other memory read before each run, which leaves the L2 cache as full but clean; *none*; *row*, calls one
after the other from Python; *graph*, captured once. Figures are medians, with the times that 5 and 95% of the rounds
are below; ratios (above 1, ours is faster) medians over the rounds with their 95% interval, the widest of all runs. The
clock is counted: cycles that SMs counted over nanoseconds. A profiler collects the names of the kernels at the end.
float32 is without TF32; what is done there with bfloat16 has relatives by other names: 3xTF32, BF16x9.
A product that fails is a row with the error, and the others continue, in a new process if the GPU needs one.
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
# module; h, w, k
LADDERS = [('fp32', (4096, 4096, 4096)), ('tensor_cores', (8192, 8192, 8192)), ('hopper', (8192, 8192, 8192))]
GOALS = [('float32', (4096, 4096, 4096), 1.03), ('float32', (8192, 8192, 8192), 1.03),
         ('float32', (5120, 5120, 256), 1.05), ('float32', (50000, 10, 784), 1.5),
         ('bfloat16', (4096, 4096, 4096), 1.03), ('bfloat16', (8192, 8192, 8192), 1.05)]
MEANS = dict(read=1.02, graph=1.)       # of the random shapes, compared with cublasLt's best
MMA_SYNC = .95*.738                     # of torch, what the best by `mma.sync` shall reach: 0.738 is the instruction's
SEED, DRAWN = 0, 20
LAYOUTS = 'nn', 'tn', 'nt'
POWER = 1.5                             # seconds per side and run: long enough for the clock to settle


def uniform(rng): return rng.uniform(64, 8192)


# as many from 64 to 128 as from 4096 to 8192
def log_uniform(rng): return math.exp(rng.uniform(math.log(64), math.log(8192)))


def shapes(dtype, draw):
    """The random shapes: sizes of 64 to 8192 as `draw` draws them; float32: multiples of neither 2, 3, 5 nor 7;
    16 bits: multiples of 8"""
    rng = np.random.default_rng(SEED)
    def size():
        n = round(draw(rng))
        if dtype != 'float32': return round(n/8)*8
        return n if all(n % p for p in (2, 3, 5, 7)) else size()
    return [(size(), size(), size()) for _ in range(DRAWN)]


def random(dtype): return shapes(dtype, uniform) + shapes(dtype, log_uniform)


def rungs(module):
    "The rungs of a lesson in the order in which they are climbed"
    return [v for v in vars(import_module(f'gridstride.kernels.ladder.{module}')).values() if isinstance(v, Rung)]


# the last rung of the float32 ladder, once lesson 13, has ordinary arithmetic only; `matmul` takes whatever is fastest
WAYS = {'matmul': dict(ours=matmul), 'tuned': dict(ours=matmul, measured=True),
        'lesson 13': dict(ours=rungs('fp32')[-1])}


# What is measured: each is what `row_of` is called with

def goals():
    last = WAYS['lesson 13']['ours']
    return [dict(shape=shape, dtype=dtype, goal=goal, way=way) for dtype, shape, goal in GOALS
            for way in ['lesson 13']*(dtype == 'float32' and last.supports(*shape)) + ['matmul']]


def power():
    "What the power limit holds back, with one flush only"
    return [dict(o, seconds=POWER, columns=('none',)) for o in goals()
            if min(o['shape']) >= 4096 and o['way'] == 'matmul']


def thin():
    "A long m and a few columns, which is limited by reading m: compared with a kernel that only reads it"
    return [dict(shape=(50000, w, 784), dtype='float32', goal=.97, reading=True) for w in (1, 10, 16, 32)]


def layouts(dtype): return [dict(shape=shape, dtype=dtype, layout=o) for o in LAYOUTS for shape in random(dtype)]


def bfloat16(): return layouts('bfloat16')


def float16(): return layouts('float16')


def float32(): return [dict(shape=shape, dtype='float32') for shape in random('float32')]


def of_tune(): return [dict(o, way='tuned') for o in bfloat16()]


def ladders():
    return [dict(shape=shape, dtype=r.dtype, ladder=module, rung=r.name) for module, shape in LADDERS
            for r in rungs(module) if r.supports(*shape)]


PARTS = dict(goals=goals, thin=thin, bfloat16=bfloat16, power=power, float32=float32, tuned=of_tune, ladders=ladders,
             float16=float16)


def climbed(shape, dtype, ladder, rung, seconds, **more):
    "A row of a ladder: a rung compared with torch, other memory overwritten before each run"
    kernel = next(r for r in rungs(ladder) if r.name == rung)
    m, n = inputs(*shape, dtype, 'cuda')
    fields = time_rung(kernel, m, n, Reference(m, n), seconds)
    step = Step(shape, **fields)
    return dict(fields, tflops=step.tflops, library_tflops=step.library_tflops, numbers=kernel.constants,
                **resources(kernel))


def row_of(job, seconds, runs):
    "One row of the results, whatever happens"
    shown = dict(layout='nn', way='matmul') | {k: v for k, v in job.items() if k not in ('seconds', 'columns')}
    job = {k: v for k, v in dict(dict(seconds=seconds), **job).items() if k != 'way'}
    try:
        if 'ladder' in job: return dict(shown, **climbed(**job))
        return dict(shown, **contenders.product(runs=runs, **WAYS[shown['way']], **job))
    except Exception as e: return dict(shown, failed=f'{type(e).__name__}: {e}'.splitlines()[0])


def text_of(o):
    "What a job and its row have in common"
    by = f"{o['ladder']} {o['rung']}" if 'ladder' in o else o.get('way', 'matmul')
    return f"{o['dtype']} {o.get('layout', 'nn')} {list(o['shape'])} {by}"


def kernels_of(jobs):
    "The kernels by which `matmul` would multiply: name -> (kernel, a shape)"
    plans = [(plan(*o['shape'], o['dtype'], layout=o.get('layout', 'nn')).kernel, o['shape']) for o in jobs
             if 'ladder' not in o]
    return {kernel.name: (kernel, shape) for kernel, shape in plans if kernel}


def broken():
    "Whether the GPU refuses to go on in this process"
    try: torch.cuda.synchronize()
    except Exception: return True


def rung_line(r):
    "A row of a ladder as text"
    h, w, k = r['shape']
    head = f"{r['rung']:<26} {r['dtype']:<8} {f'{h}x{k} @ {k}x{w}':<24}"
    if 'failed' in r: return f"{head} FAILED {r['failed']}"
    return (f"{head} {r['seconds']*1e6:>9.1f} µs {r['tflops']:>7.2f} TFLOP/s {r['library_tflops']:>7.2f} library  "
            f"{r['ratio']:.3f} ({r['low']:.3f} to {r['high']:.3f})  errors {r['error']:.1e} {r['library_error']:.1e}")


def lines(r):
    "A row as text"
    if 'ladder' in r: return [rung_line(r)]
    return contenders.lines(r) + goal_lines(r)


def goal_lines(r):
    "Whether a row reaches its goal, compared with torch, in each column that flushes or has no flush"
    if 'goal' not in r or 'failed' in r: return []
    other = contenders.READS if r.get('reading') else contenders.TORCH
    found = {c: f[0] for c in r['columns'] if (f := contenders.faster(r, c, other)) and c not in ('row', 'graph')}
    said = ', '.join(f"{c} {'reached' if v >= r['goal'] else 'MISSED'}" for c, v in found.items())
    return [f"    goal {r['goal']} of {other}: {said}"]


def verdicts(part, rows):
    "What all rows of a part say together"
    def kind_of(o): return o['dtype'], o.get('layout', 'nn')
    if part in ('bfloat16', 'float16', 'float32', 'tuned'):
        for kind in dict.fromkeys(map(kind_of, rows)):
            yield ' '.join(kind)
            of_kind, all_of_it = ([o for o in known if kind_of(o) == kind] for known in (rows, PARTS[part]()))
            for other in (contenders.TORCH, contenders.BEST):
                for c in contenders.COLUMNS:
                    if (c, other) in contenders.APART: continue
                    goal = MEANS.get(c) if other == contenders.BEST else None
                    yield '    ' + contenders.verdict(of_kind, c, other, goal, len(all_of_it))
    if part == 'ladders':
        best = max((r.get('ratio', 0) for r in rows if r['ladder'] == 'tensor_cores'), default=0)
        yield (f"the best of tensor_cores: {best:.3f} of the library; "
               f"goal {MMA_SYNC:.3f}: {'reached' if best >= MMA_SYNC else 'MISSED'}")


def begun():
    "What is known before anything is measured"
    here = Sensors(torch.cuda.get_device_properties().uuid).read()
    return dict(made=dict(machine(), most_mhz=here.max_mhz if here else None, seed=SEED))


def head(made):
    "The lines above the table"
    print(f"{made['gpu']}, at most {made['most_mhz']} MHz, {made['date']}, "
          f"{', '.join(f'{k} {v}' for k, v in made['versions'].items())}\n"
          "ours: µs, and from what 5% to what 95% of the rounds are below; how many times faster than the others, and "
          "the interval;\nthe clock, counted; errors against float64: torch's, ours, cublasLt's", flush=True)


def keep(res, path):
    "Write what was measured, one line per row"
    def text(o): return json.dumps(o, ensure_ascii=False)
    def rows(o): return '[\n' + ',\n'.join(map(text, o)) + ']' if isinstance(o, list) else text(o)
    path.write_text('{' + ',\n'.join(f'{text(k)}: {rows(v)}' for k, v in res.items()) + '}\n')


def run(parts, args, res, path):
    "Measure what is not in `res` yet, and keep it after each row; False if the GPU needs another process"
    for part in parts:
        done = res.setdefault(part, [])
        known, every = set(map(text_of, done)), [o for o in PARTS[part]() if args.match in text_of(o)]
        jobs = [o for o in every if text_of(o) not in known]
        if not done: print(f'\n{part}', flush=True)
        if time.time() < args.until: contenders.prepare(kernels_of(jobs))
        for i, job in enumerate(jobs):
            if time.time() > args.until:
                print(f'{len(jobs) - i} of {len(every)} were not begun: the time was over')
                break
            done.append(row_of(job, args.seconds, args.runs))
            print(*lines(done[-1]), sep='\n', flush=True)
            keep(res, path)
            if 'failed' in done[-1] and broken(): return False
        print(*verdicts(part, done), sep='\n', flush=True)
    return True


def named(res, path):
    "Ask which kernels were launched, and print it"
    try: contenders.name_kernels([r for r in products(res) if 'kernels' not in r])
    except Exception as e: print(f'\nkernels of this run: not known: {type(e).__name__}: {e}', flush=True)
    keep(res, path)
    show_kernels(res)


def products(res): return [r for part in PARTS if part != 'ladders' for r in res.get(part, [])]


def show_kernels(res):
    "Which kernels each side launched"
    print('\nkernels', flush=True)
    for r in products(res):
        for side, names in r.get('kernels', {}).items():
            h, w, k = r['shape']
            print(f"{r['dtype']:<8} {r['layout']} {f'{h}x{k} @ {k}x{w}':<24} {side:<12} {', '.join(names)}", flush=True)


def show(res):
    "All that was kept, as text"
    head(res['made'])
    for part in (o for o in PARTS if o in res):
        print(f'\n{part}', *verdicts(part, res[part]), *(o for r in res[part] for o in lines(r)), sep='\n')
    show_kernels(res)


def arguments(given=None):
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('parts', nargs='*', choices=[*PARTS, []], default=[])
    p.add_argument('--seconds', type=float, default=.02)
    p.add_argument('--runs', type=int, default=3)
    p.add_argument('--match', default='', help='only rows whose type, layout and shape have this')
    p.add_argument('--to', type=Path, help='where to keep the rows; what is there is not measured again')
    p.add_argument('--most', type=float, default=math.inf, help='seconds after which nothing more is begun')
    p.add_argument('--until', type=float, help=argparse.SUPPRESS)
    p.add_argument('--show', type=Path, help='print what such a file holds')
    args = p.parse_args(given)
    args.until = args.until or time.time() + args.most
    return args


def main():
    args = arguments()
    if args.show: return show(json.loads(args.show.read_text()))
    some = args.parts or args.match
    path = args.to or (Path(tempfile.mkdtemp())/'rows.json' if some else HERE/'matmul.json')
    res = json.loads(path.read_text()) if args.to and path.exists() else begun()
    head(res['made'])
    away = tempfile.mkdtemp()
    tuning_cache.path = lambda: Path(away)/'tuned.json'                     # what is tuned here is not for later runs
    if not run([o for o in PARTS if o in args.parts or not args.parts], args, res, path):
        os.execv(sys.executable, [sys.executable, __file__, *sys.argv[1:], f'--to={path}', f'--until={args.until}'])
    named(res, path)


if __name__ == '__main__': main()
