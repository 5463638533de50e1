"""The matrix products of lessons 13, 21 and 22 against torch.matmul on a Hopper GPU: the course's goals, 20 random
shapes of each type, 20 that are mostly small, and every rung.

    python matmul.py                  # all of it; prints what matmul.txt holds, writes matmul.json
    python matmul.py goals random     # some of it: goals, random, small, ladders; writes nothing
    python matmul.py --seconds 1      # of timing for each side (0.2)

Each product is first compared with float64, written into memory full of NaN; then it and the
library take turns. Figures are medians of GPU time with the L2 overwritten before each run, ratios
medians over the rounds with their 95% interval.
A kernel that fails is a row that says so, and the rest goes on, in a new process if the GPU needs one.
"""
import argparse, json, math, os, sys, tempfile
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from gridstride.bench.clocks import Sensors
from gridstride.kernels.ladder import Reference, Step, inputs, resources, time_rung
from gridstride.kernels import explain, matmul, tune
from gridstride.kernels.rung import Rung
from gridstride.recording import machine

HERE = Path(__file__).parent
# module; h, w, k
LADDERS = [('fp32', (4096, 4096, 4096)), ('tensor_cores', (8192, 8192, 8192)), ('hopper', (8192, 8192, 8192))]
GOALS = [('float32', (4096, 4096, 4096), 1.03), ('float32', (8192, 8192, 8192), 1.03),
         ('float32', (5120, 5120, 256), 1.05), ('float32', (50000, 10, 784), 1.5),
         ('bfloat16', (4096, 4096, 4096), 1.03), ('bfloat16', (8192, 8192, 8192), 1.05)]
MMA_SYNC = .75   # what the best rung of lesson 21 shall reach
SEED, DRAWN = 0, 20


def uniform(rng): return rng.uniform(64, 8192)


# as many from 64 to 128 as from 4096 to 8192
def log_uniform(rng): return math.exp(rng.uniform(math.log(64), math.log(8192)))


def shapes(dtype, draw):
    """The random shapes: sizes of 64 to 8192 as `draw` draws them; float32: multiples of neither 2, 3, 5 nor 7;
    bfloat16: multiples of 8"""
    rng = np.random.default_rng(SEED)
    def size():
        n = round(draw(rng))
        if dtype == 'bfloat16': return round(n/8)*8
        return n if all(n % p for p in (2, 3, 5, 7)) else size()
    return [(size(), size(), size()) for _ in range(DRAWN)]


class Chosen:
    "What `matmul` does, as one candidate"
    name = 'matmul'
    def __call__(self, m, n, out): return matmul(m, n, out)


class Tuned(Chosen):
    "What it does after `tune`"
    name = 'matmul, tuned'


def rungs(module):
    "The rungs of a lesson in the order in which they are climbed"
    return [v for v in vars(import_module(f'gridstride.kernels.{module}')).values() if isinstance(v, Rung)]


# What is measured: (kernel, shape, dtype, more about it)

def goals():
    last = rungs('fp32')[-1]      # it has ordinary arithmetic only; `matmul` takes whatever is fastest
    return [(kernel, shape, dtype, dict(goal=goal)) for dtype, shape, goal in GOALS
            for kernel in [last]*(dtype == 'float32' and last.supports(*shape)) + [Chosen()]]


def drawn(draw):
    return [(kernel, shape, dtype, {})
            for dtype, kernels in (('float32', [Chosen()]), ('bfloat16', [Chosen(), Tuned()])) for kernel in kernels
            for shape in shapes(dtype, draw)]


def random(): return drawn(uniform)


def small(): return drawn(log_uniform)


def ladders():
    return [(r, shape, r.dtype, dict(ladder=module)) for module, shape in LADDERS
            for r in rungs(module) if r.supports(*shape)]


PARTS = dict(goals=goals, random=random, small=small, ladders=ladders)


def measured(kernel, shape, dtype, seconds):
    "Figures of one product"
    h, w, k = shape
    m, n = inputs(h, w, k, dtype, 'cuda')
    if isinstance(kernel, Tuned): tune(m, n, fresh=True)
    fields = time_rung(kernel, m, n, Reference(m, n), seconds)
    step = Step(shape, **fields)
    row = dict(fields, tflops=step.tflops, library_tflops=step.library_tflops,
               gbs=(h*k+k*w+h*w)*m.element_size()/step.seconds/1e9)
    if isinstance(kernel, Rung): row.update(resources(kernel), numbers=kernel.constants)
    if isinstance(kernel, Chosen): row['kernel'] = repr(explain(m, n))
    return row


def row_of(kernel, shape, dtype, more, seconds):
    "One row of the results, whatever happens"
    row = dict(more, name=kernel.name, shape=list(shape), dtype=dtype)
    try: return dict(row, **measured(kernel, shape, dtype, seconds))
    except Exception as e: return dict(row, failed=f'{type(e).__name__}: {e}'.splitlines()[0])


def broken():
    "Whether the GPU refuses to go on in this process"
    try: torch.cuda.synchronize()
    except Exception: return True


def line(r):
    "A row as text"
    h, w, k = r['shape']
    head = f"{r['name']:<26} {r['dtype']:<8} {f'{h}x{k} @ {k}x{w}':<24}"
    goal = f"  goal {r['goal']}: {'reached' if r.get('ratio', 0) >= r['goal'] else 'MISSED'}" if 'goal' in r else ''
    if 'failed' in r: return f"{head} FAILED {r['failed']}{goal}"
    clock = f"{r['mhz']:.0f} MHz" if r['mhz'] else ''
    return (f"{head} {r['seconds']*1e6:>9.1f} µs {r['tflops']:>7.2f} TFLOP/s {r['library_tflops']:>7.2f} library  "
            f"{r['ratio']:.3f} ({r['low']:.3f} to {r['high']:.3f})"
            f"  errors {r['error']:.1e} {r['library_error']:.1e}  {clock} {r.get('kernel', '')}{goal}").rstrip()


def verdicts(part, rows):
    "Lines below the rows of a part"
    if part in ('random', 'small'):
        for dtype, name in dict.fromkeys((r['dtype'], r['name']) for r in rows):
            ratios = [r.get('ratio') for r in rows if (r['dtype'], r['name']) == (dtype, name)]
            mean = math.exp(np.mean(np.log(ratios))) if all(ratios) else 0
            goal = f"; goal 1.0: {'reached' if mean >= 1 else 'MISSED'}" if part == 'random' else ''
            yield f"{dtype}, {name}: geometric mean of {len(ratios)} shapes {mean:.3f}{goal}"
    if part == 'ladders':
        best = max((r.get('ratio', 0) for r in rows if r['ladder'] == 'tensor_cores'), default=0)
        yield (f"the best of tensor_cores: {best:.3f} of the library; "
               f"goal {MMA_SYNC}: {'reached' if best >= MMA_SYNC else 'MISSED'}")


def begun():
    "What is known before anything is measured"
    here = Sensors(torch.cuda.get_device_properties().uuid).read()
    made = dict(machine(), most_mhz=here.most if here else None, seed=SEED)
    print(f"{made['gpu']}, at most {made['most_mhz']} MHz, {made['date']}, "
          f"{', '.join(f'{k} {v}' for k, v in made['versions'].items())}\n"
          "µs and TFLOP/s; the library's TFLOP/s; the ratio and its interval; "
          "errors against float64, ours and the library's; the SM clock", flush=True)
    return dict(made=made)


def keep(res, path): path.write_text(json.dumps(res, indent=1, ensure_ascii=False)+'\n')


def run(parts, seconds, res, path):
    "Measure what is not in `res` yet, and keep it after each row; False if the GPU needs another process"
    for part in parts:
        done = res.setdefault(part, [])
        if not done: print(f'\n{part}', flush=True)
        for job in PARTS[part]()[len(done):]:
            done.append(row_of(*job, seconds))
            print(line(done[-1]), flush=True)
            keep(res, path)
            if 'failed' in done[-1] and broken(): return False
        print(*verdicts(part, done), sep='\n', flush=True)
    return True


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('parts', nargs='*', choices=[*PARTS, []], default=[])
    p.add_argument('--seconds', type=float, default=.2)
    p.add_argument('--resume', type=Path, help=argparse.SUPPRESS)
    args = p.parse_args()
    path = args.resume or Path(tempfile.mkdtemp())/'rows.json' if args.parts else HERE/'matmul.json'
    res = json.loads(args.resume.read_text()) if args.resume else begun()
    if not run(args.parts or list(PARTS), args.seconds, res, path):
        os.execv(sys.executable,
                 [sys.executable, __file__, *args.parts, '--seconds', str(args.seconds), '--resume', str(path)])


if __name__ == '__main__': main()
