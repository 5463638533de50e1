"""The simulator against Numba's simulator: time, peak memory, and time against the number of threads. Requires numba;
takes minutes.

    python sim.py > sim.txt
    python sim.py engines > engine.txt   # engine='lanes' against engine='c', and one kernel per lesson by both;
                                         # requires a compiler
"""
import json, os, platform, resource, statistics, subprocess, sys, tempfile, time

import numpy as np

TPB = 16


def make_kernels(module):
    "Define the kernels with the `cuda` module of either simulator; Numba's requires `cuda` to be a global name"
    global cuda
    cuda = module
    @cuda.jit
    def matmul(m, n, out):
        ms = cuda.shared.array((TPB,TPB), np.float32)
        ns = cuda.shared.array((TPB,TPB), np.float32)
        c,r = cuda.grid(2)
        tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
        o = np.float32(0)
        for ph in range(m.shape[1]//TPB):
            ms[tr,tc] = m[r, ph*TPB+tc]
            ns[tr,tc] = n[ph*TPB+tr, c]
            cuda.syncthreads()
            for i in range(TPB): o += ms[tr,i]*ns[i,tc]
            cuda.syncthreads()
        out[r,c] = o

    @cuda.jit
    def tree(x, out):
        s = cuda.shared.array(256, np.float32)
        t,i = cuda.threadIdx.x,cuda.grid(1)
        s[t] = x[i] if i < x.size else 0
        half = 128
        while half > 0:
            cuda.syncthreads()
            if t < half: s[t] += s[t+half]
            half //= 2
        if t == 0: out[cuda.blockIdx.x] = s[0]

    @cuda.jit
    def add(x, y, out):
        i = cuda.grid(1)
        if i < out.size: out[i] = x[i]+y[i]

    @cuda.jit
    def escape(out, iterations):
        c,r = cuda.grid(2)
        x0,y0 = 3*c/out.shape[1]-2.25,3*r/out.shape[0]-1.5
        x,y,n = 0.,0.,0
        while n < iterations and x*x+y*y < 4: x,y,n = x*x-y*y+x0,2*x*y+y0,n+1
        out[r,c] = n
    return dict(matmul=matmul, tree=tree, add=add, escape=escape)


def make_launch(kind, n, kernels):
    "Return a function that launches the kernel once on random inputs and checks its result"
    rng = np.random.default_rng(0)
    if kind=='matmul':
        m,w = rng.normal(size=(2,n,n)).astype(np.float32)
        out = np.full((n,n), np.nan, np.float32)
        def run():
            kernels['matmul'][(n//TPB,n//TPB), (TPB,TPB)](m, w, out)
            np.testing.assert_allclose(out, m@w, atol=1e-3)
    elif kind=='tree':
        x,out = rng.normal(size=n).astype(np.float32),np.full(n//256, np.nan, np.float32)
        def run():
            kernels['tree'][n//256, 256](x, out)
            np.testing.assert_allclose(out, x.reshape(-1,256).sum(1), atol=1e-3)
    elif kind=='escape':  # each thread runs until its point of the plane escapes
        out,want = np.zeros((n,n), np.int32),escape_counts(n, 200)
        def run():
            kernels['escape'][(n//TPB,n//TPB), (TPB,TPB)](out, 200)
            assert (out!=want).mean() < .01    # rounding decides for some points
    else:
        x,y = rng.normal(size=(2,n)).astype(np.float32)
        out = np.full(n, np.nan, np.float32)
        def run():
            kernels['add'][-(-n//256), 256](x, y, out)
            np.testing.assert_allclose(out, x+y)
    return run


def escape_counts(n, iterations):
    z,c,counts = (np.zeros((n,n), complex),3*np.arange(n)/n-2.25 + 1j*(3*np.arange(n)[:,None]/n-1.5),
                  np.zeros((n,n), np.int32))
    for _ in range(iterations):
        inside = np.abs(z) < 2
        counts += inside
        z[inside] = z[inside]**2 + c[inside]
    return counts


def measure(side, kind, n, repeat):
    "Measure the median seconds and the peak memory of this process"
    if side=='numba':
        from numba import cuda
        run = make_launch(kind, n, make_kernels(cuda))
    else:
        from gridstride import sim
        kernels = make_kernels(sim.cuda)
        launch,compiles = make_launch(kind, n, kernels),side.startswith('c ')
        if compiles:
            from gridstride.cpp import emulator
            import gridstride.translate.engine  # noqa: F401, so that its import is not timed
            emulator.load_runtime()         # compiles the runtime, once for all kernels
        def run():
            with sim.options(checks='none' if side.endswith('unchecked') else 'all',
                             engine='c' if compiles else 'lanes'):
                if side!='traced': return launch()
                with sim.trace(): launch()
        start = time.perf_counter()
        run()                               # rewrites or compiles the kernel
        first = time.perf_counter()-start
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter()-start)
    return dict(seconds=statistics.median(times), first=first if side!='numba' else times[0],
                mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss/1024)


def measure_in_new_process(side, kind, n, repeat=1):
    "Run `measure` in a new process"
    env = dict(os.environ, NUMBA_ENABLE_CUDASIM='1')
    process = subprocess.run([sys.executable, __file__, side, kind, str(n), str(repeat)], env=env,
                             capture_output=True, text=True)
    if process.returncode: sys.exit(process.stderr)
    return json.loads(process.stdout.splitlines()[-1])


def print_machine():
    print(f'{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, '
          f'NumPy {np.__version__}')
    print(f'load of the machine at the start: {os.getloadavg()[0]:.1f}\n')


def print_engines():
    print_machine()
    print("seconds of a launch (median of 9), and how many times faster engine='c' is; "
          "the first launch: translated and compiled, and in another process, from the cache\n")
    print(f"{'kernel':<16}{'checks':<12}{'lanes':>9}{'c':>9}{'times faster':>14}{'first, compiled':>17}"
          f"{'first, cached':>15}")
    with tempfile.TemporaryDirectory() as cache:
        os.environ['GRIDSTRIDE_CACHE'] = cache
        for kind,n in (('matmul',64), ('matmul',128), ('matmul',256), ('tree',16384), ('tree',262144),
                       ('escape',128), ('escape',256)):
            for side in ('unchecked','checked'):
                runs = side, 'c '+side, 'c '+side           # the third finds the kernel of the second in the cache
                lanes,compiled,cached = (measure_in_new_process(run, kind, n, 9) for run in runs)
                name = f'{kind} {n}' if side=='unchecked' else ''
                if kind+side not in compiled_kernels: compiled_kernels.add(kind+side)
                else: compiled['first'] = None
                print(f"{name:<16}{side:<12}{lanes['seconds']:>9.4f}{cached['seconds']:>9.4f}"
                      f"{lanes['seconds']/cached['seconds']:>14.1f}{seconds_text(compiled['first']):>17}"
                      f"{cached['first']:>13.2f} s", flush=True)
        print_lesson_kernels()


def print_lesson_kernels():
    "Print the seconds of both engines for checked kernels of the lessons, interleaved, and the means of the ratios"
    from sim_kernels import CASES
    print(f"\n{'one kernel per lesson, checked':<32}{'lanes':>9}{'c':>9}{'times faster':>14}")
    ratios = []
    for name,case in CASES.items():
        lanes,compiled = time_engines(*case)
        ratios.append(lanes/compiled)
        print(f'{name:<32}{lanes:>9.4f}{compiled:>9.4f}{ratios[-1]:>14.1f}', flush=True)
    print(f"{'mean, geometric mean, median':<50}{statistics.mean(ratios):>14.1f}"
          f'{statistics.geometric_mean(ratios):>8.1f}{statistics.median(ratios):>8.1f}')


def time_engines(kernel, brackets, args, repeat=9):
    "Return the median CPU seconds of a checked launch by each engine; check that their results agree"
    from gridstride import sim
    times,results = dict(lanes=[], c=[]),{}
    for i in range(repeat + 1):         # the first launches compile
        for engine in times:
            args[-1][...] = 0
            start = time.process_time()
            with sim.options(checks='all', engine=engine): kernel[brackets](*args)
            if i: times[engine].append(time.process_time() - start)
            results[engine] = args[-1].copy()
    differ = ~np.isclose(results['lanes'], results['c'], rtol=1e-4, atol=1e-4)
    assert differ.mean() < .01, kernel      # rounding decides for some points of a plane
    return map(statistics.median, times.values())


compiled_kernels = set()   # of earlier measurements, which are in the cache
def seconds_text(seconds): return '' if seconds is None else f'{seconds:.2f} s'


def main():
    print_machine()
    print(f"{'kernel':<16}{'side':<12}{'seconds':>10}{'times faster':>14}{'peak MB':>9}")
    for kind,n in (('matmul',64), ('matmul',128), ('tree',16384)):
        numba = measure_in_new_process('numba', kind, n)
        print(f"{kind+' '+str(n):<16}{'Numba':<12}{numba['seconds']:>10.3f}{1:>14}{numba['mb']:>9.0f}", flush=True)
        for side in ('unchecked','checked','traced'):
            ours = measure_in_new_process(side, kind, n, 5)
            ratio = numba['seconds']/ours['seconds']
            print(f"{'':<16}{side:<12}{ours['seconds']:>10.4f}{ratio:>14,.0f}{ours['mb']:>9.0f}", flush=True)
    print(f"\n{'add, threads':<16}{'unchecked':>12}{'per thread':>12}{'checked':>12}{'per thread':>12}")
    for n in (2**14, 2**16, 2**18, 2**20):
        unchecked,checked = (measure_in_new_process(side, 'add', n, 5)['seconds'] for side in ('unchecked','checked'))
        print(f"{n:<16,}{unchecked:>10.4f} s{unchecked/n*1e9:>9.0f} ns{checked:>10.4f} s{checked/n*1e9:>9.0f} ns",
              flush=True)


if __name__=='__main__':
    if sys.argv[1:]==['engines']: print_engines()
    elif len(sys.argv) > 1: print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    else: main()
