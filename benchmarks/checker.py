"""The simulator of `GRIDSTRIDE_CUDASIM=1` against Numba's simulator, on the kinds of kernels that packages test in CI.

    python checker.py > checker.txt        # requires numba; two minutes on an idle machine

Both sides run the same file in processes of their own. A round runs one kernel on each side, one after the other; times
are the CPU time of the process with all its threads, so a loaded machine changes them little. The first launch, which
reads and rewrites the kernel, is a column of its own: a test often launches a kernel once."""
import json, os, statistics, subprocess, sys, time
from pathlib import Path

import numpy as np

ROUNDS = 5
SIDES = {'Numba': {'NUMBA_ENABLE_CUDASIM': '1'}, 'unchecked': {}, 'checked': {}}


def make_kernels():
    "Define the kernels with `numba.cuda`, of either side; returns name -> (what it is like, kernel, launch, arguments)"
    global cuda
    from numba import cuda
    rng = np.random.default_rng(0)

    @cuda.jit
    def profile(x, m, out):
        for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
            best = np.inf
            for j in range(out.size):
                d = 0.
                for k in range(m): d += (x[i + k] - x[j + k])**2
                if abs(i - j) > m and d < best: best = d
            out[i] = best

    @cuda.jit
    def lists(offsets, values, out):
        i = cuda.grid(1)
        if i < out.size:
            for j in range(offsets[i], offsets[i + 1]): out[i] += values[j]

    @cuda.jit
    def bins(x, counts):
        i = cuda.grid(1)
        if i < x.size: cuda.atomic.add(counts, int(x[i] * counts.size), 1)

    @cuda.jit
    def block_sum(x, out):
        s = cuda.shared.array(256, np.float64)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        s[t] = x[i] if i < x.size else 0
        half = 128
        while half > 0:
            cuda.syncthreads()
            if t < half: s[t] += s[t + half]
            half //= 2
        if t == 0: out[cuda.blockIdx.x] = s[0]

    @cuda.jit
    def trajectories(state, steps, out):
        i = cuda.grid(1)
        if i < state.shape[0]:
            x, y, z = state[i, 0], state[i, 1], state[i, 2]
            for n in range(steps):
                dx, dy, dz = 10*(y - x), x*(28 - z) - y, x*y - 8*z/3
                x, y, z = x + dx*1e-3, y + dy*1e-3, z + dz*1e-3
            out[i] = x

    @cuda.jit
    def stencil(a, out):
        c, r = cuda.grid(2)
        if 0 < r < a.shape[0] - 1 and 0 < c < a.shape[1] - 1:
            out[r, c] = (a[r - 1, c] + a[r + 1, c] + a[r, c - 1] + a[r, c + 1]) / 4

    @cuda.jit(device=True)
    def change(state, out):
        for j in range(3): out[j] = state[(j + 1) % 3] * state[(j + 2) % 3] - state[j]

    @cuda.jit(device=True)
    def advance(state, step, rates, middle):
        change(state, rates)
        for j in range(3): middle[j] = state[j] + step * rates[j] / 2
        change(middle, rates)
        for j in range(3): state[j] += step * rates[j]

    @cuda.jit
    def midpoint(initial, steps, out):
        i = cuda.grid(1)
        if i < initial.shape[0]:
            state = cuda.local.array(3, np.float64)
            rates = cuda.local.array(3, np.float64)
            middle = cuda.local.array(3, np.float64)
            for j in range(3): state[j] = initial[i, j]
            for n in range(steps): advance(state, 1e-2, rates, middle)
            out[i] = state[0]

    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 12, 1000))])
    series = rng.normal(size=120)
    few, many = (rng.normal(size=(n, 3)) for n in (4, 256))
    return {
        'profile': ('matrix profile: a grid-stride loop, 100 windows', profile, (4, 32), (series, 21, np.zeros(100))),
        'lists': ('sums of 1,000 lists of 0 to 11 elements', lists, (8, 128),
                  (offsets, rng.normal(size=offsets[-1]), np.zeros(1000))),
        'bins': ('histogram of 4,096 values by atomics', bins, (16, 256), (rng.random(4096), np.zeros(64, np.int64))),
        'block_sum': ('tree reduction in shared memory, 16 blocks', block_sum, (16, 256),
                      (rng.normal(size=4000), np.zeros(16))),
        'stencil': ('4-point stencil, 64 x 64', stencil, ((4, 4), (16, 16)), (rng.normal(size=(64, 64)),) * 2),
        'stencil 256': ('the same, 128 x 256: 32,768 threads, which run as two groups of blocks', stencil,
                        ((16, 8), (16, 16)), (rng.normal(size=(128, 256)),) * 2),
        'trajectories 256': ('ODE, 256 threads, 200 steps each', trajectories, (8, 32), (many, 200, np.zeros(256))),
        'midpoint 32': ('ODE in local arrays and device functions, 32 threads', midpoint, (1, 32),
                        (many[:32], 50, np.zeros(32))),
        'midpoint 1': ('the same, 1 thread', midpoint, (1, 1), (many[:1], 50, np.zeros(1))),
        'trajectories 4': ('ODE, 4 threads, 200 steps each', trajectories, (1, 32), (few, 200, np.zeros(4))),
    }


def serve(side):
    "Launch the kernels whose names come on stdin; each answer is the CPU time in seconds, and a sum of the results"
    if side != 'Numba':
        from gridstride import as_gpu, sim
        as_gpu.simulate_numba()
        options = sim.options(checks=() if side == 'unchecked' else 'all')
        options.__enter__()  # until this process ends
    kernels = make_kernels()
    for name in map(str.strip, sys.stdin):
        _, kernel, launch, args = kernels[name]
        args = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        start = time.process_time()
        kernel[launch](*args)
        print(json.dumps([time.process_time() - start, float(np.nansum(np.float64(args[-1])))]), flush=True)


def start(side):
    "Start the process of a side"
    root = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get('PYTHONPATH'))))
    env = {**os.environ, 'PYTHONPATH': path, 'PYTHONWARNINGS': 'ignore', **SIDES[side]}
    command = [sys.executable, __file__, side]
    return subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def launch(process, name):
    "Launch a kernel on one side; returns [seconds, sum of the results]"
    print(name, file=process.stdin, flush=True)
    return json.loads(process.stdout.readline())


def main():
    "Print the table"
    print(f'{ROUNDS} rounds, interleaved; CPU time, medians; Python {sys.version.split()[0]}, NumPy {np.__version__}\n')
    print('kernel            first launch, s             later launches, s             speedup')
    print('                  Numba   checked    Numba   unchecked   checked   unchecked   checked   what it is like')
    processes = {side: start(side) for side in SIDES}
    for name, (what, *_) in make_kernels().items():
        rounds = [{side: launch(process, name) for side, process in processes.items()} for _ in range(ROUNDS + 1)]
        for one in rounds: assert np.allclose(*[total for _, total in list(one.values())[::2]]), (name, one)
        first = {side: rounds[0][side][0] for side in SIDES}
        later = {side: statistics.median(one[side][0] for one in rounds[1:]) for side in SIDES}
        speedups = [later['Numba'] / later[side] for side in ('unchecked', 'checked')]
        print(f'{name:17} {first["Numba"]:6.3f}   {first["checked"]:7.3f}   {later["Numba"]:6.3f}   '
              f'{later["unchecked"]:9.4f}   {later["checked"]:7.4f}   {speedups[0]:9.1f}   {speedups[1]:7.1f}   {what}',
              flush=True)
    for process in processes.values(): process.stdin.close()


if __name__ == '__main__': serve(sys.argv[1]) if sys.argv[1:] else main()
