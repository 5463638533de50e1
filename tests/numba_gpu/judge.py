"""Kernels that must end and agree: Numba runs them on a GPU, and what came out goes to h100.json;
the simulator must give the same. numba-cuda-mlir runs them, too: mlir_h200.json.

    python judge.py [FILE]           # needs an NVIDIA GPU, numba and numba-cuda; half a minute. FILE: not h100.json
    python judge.py --mlir [FILE]    # needs numba-cuda-mlir instead. FILE: instead of mlir_h200.json
"""
import hashlib, inspect, json, multiprocessing, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SECONDS = 60  # for one program on a GPU; some could deadlock

def ints(n): return np.zeros(n, np.int32)


# Each takes `cuda`, Numba's or the simulator's, and returns lists of values

def return_before_a_barrier(cuda):
    "Threads past the end return; the others of their block meet at later barriers"
    @cuda.jit
    def reverse(x, out):
        s = cuda.shared.array(64, np.int32)
        t = cuda.threadIdx.x
        if t >= x.size: return
        s[t] = x[t]
        cuda.syncthreads()
        out[t] = s[x.size - 1 - t]
    out = ints(40)
    reverse[1, 64](np.arange(40, dtype=np.int32), out)
    return out

def return_before_barriers_of_a_loop(cuda):
    @cuda.jit
    def summed(x, out):
        s = cuda.shared.array(64, np.int32)
        t = cuda.threadIdx.x
        s[t] = 0
        if t >= x.size: return
        s[t] = x[t]
        half = 32
        while half:
            cuda.syncthreads()
            if t < half and t + half < x.size: s[t] += s[t + half]
            half //= 2
        if t == 0: out[0] = s[0]
    out = ints(1)
    summed[1, 64](np.arange(45, dtype=np.int32), out)
    return out

def whole_warps_return(cuda):
    @cuda.jit
    def shifted(x, out):
        s = cuda.shared.array(128, np.int32)
        t = cuda.threadIdx.x
        if t >= 64: return
        s[t] = x[t]
        cuda.syncthreads()
        out[t] = s[(t + 33) % 64]
    out = ints(64)
    shifted[1, 128](np.arange(64, dtype=np.int32), out)
    return out

def return_before_the_barrier_of_the_grid(cuda):
    "Heat that spreads: threads past the end return, and the others wait for the grid"
    @cuda.jit
    def spread(a, b, steps):
        i = cuda.grid(1)
        if i >= a.size: return
        grid = cuda.cg.this_grid()
        for step in range(steps):
            old, new = a, b
            if step % 2: old, new = b, a
            if i == 0 or i == a.size - 1: new[i] = old[i]
            else: new[i] = (old[i - 1] + 2 * old[i] + old[i + 1]) // 4
            grid.sync()
    a = ints(1001)
    a[500] = 1 << 20
    d, e = cuda.to_device(a), cuda.to_device(a)
    spread[4, 256](d, e, 6)
    return d.copy_to_host()[490:511]

def sessions(cuda):
    "Each event finds the first of its session, to its left, after two barriers of the grid"
    @cuda.jit
    def marked(user, at, out, size):
        i = cuda.grid(1)
        if i >= size: return
        first = 0
        if i == 0: first = 1
        elif user[i] != user[i - 1] or at[i] - at[i - 1] > 10: first = 1
        out[i] = i if first else -1
        cuda.cg.this_grid().sync()
        if first:
            j = i + 1
            while j < size and out[j] == -1:
                out[j] = i
                j += 1
    user, at = np.arange(300, dtype=np.int32) // 70, (np.arange(300, dtype=np.int32) * 7919) % 997
    at.sort()
    out = ints(300)
    marked[3, 128](user, at * 5, out, 300)
    return out

def barrier_of_the_grid(cuda):
    @cuda.jit
    def turned(a, b):
        i, n = cuda.grid(1), cuda.gridsize(1)
        grid = cuda.cg.this_grid()
        a[i] = i
        grid.sync()
        b[i] = a[n - 1 - i]
        grid.sync()
        a[i] = b[(i + 1) % n]
    a, b = ints(640), ints(640)
    turned[10, 64](a, b)
    return np.concatenate([a, b])

def look_back(cuda):
    "Each block waits for the one before"
    @cuda.jit
    def scanned(flags, sums, out):
        total = cuda.shared.array(1, np.int32)
        b, t = cuda.blockIdx.x, cuda.threadIdx.x
        if t == 0: total[0] = 0
        cuda.syncthreads()
        cuda.atomic.add(total, 0, b + t)
        cuda.syncthreads()
        if t == 0:
            before = 0
            if b > 0:
                while cuda.atomic.add(flags, b - 1, 0) == 0: pass
                cuda.threadfence()
                before = sums[b - 1]
            sums[b] = before + total[0]
            cuda.threadfence()
            cuda.atomic.exch(flags, b, 1)
            out[b] = before + total[0]
    out = ints(40)
    scanned[40, 64](ints(40), ints(40), out)
    return out

def look_ahead(cuda):
    "Each block waits for the next one"
    @cuda.jit
    def scanned(flags, sums, out):
        b = cuda.blockIdx.x
        if cuda.threadIdx.x == 0:
            after = 0
            if b + 1 < cuda.gridDim.x:
                while cuda.atomic.cas(flags, b + 1, 1, 1) == 0: pass
                cuda.threadfence()
                after = sums[b + 1]
            sums[b] = after + b
            cuda.threadfence()
            cuda.atomic.exch(flags, b, 1)
            out[b] = after + b
    out = ints(40)
    scanned[40, 32](ints(40), ints(40), out)
    return out

def places_by_ticket(cuda):
    @cuda.jit
    def scanned(ticket, flags, sums, out):
        place = cuda.shared.array(1, np.int32)
        if cuda.threadIdx.x == 0: place[0] = cuda.atomic.add(ticket, 0, 1)
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            b, before = place[0], 0
            if b > 0:
                while cuda.atomic.add(flags, b - 1, 0) == 0: pass
                cuda.threadfence()
                before = sums[b - 1]
            sums[b] = before + b
            cuda.threadfence()
            cuda.atomic.exch(flags, b, 1)
            out[b] = before + b
    out = ints(50)
    scanned[50, 32](ints(1), ints(50), ints(50), out)
    return out

def last_block(cuda):
    @cuda.jit
    def summed(x, parts, ticket, out):
        last = cuda.shared.array(1, np.int32)
        b, t = cuda.blockIdx.x, cuda.threadIdx.x
        if t == 0:
            parts[b] = x[b]
            cuda.threadfence()
            last[0] = cuda.atomic.add(ticket, 0, 1)
            cuda.threadfence()
        cuda.syncthreads()
        if last[0] == cuda.gridDim.x - 1: cuda.atomic.add(out, 0, parts[t])
    out = ints(1)
    summed[32, 32](np.arange(32, dtype=np.int32), ints(32), ints(1), out)
    return out

def all_wait_for_the_last(cuda):
    "A barrier of the grid, made by hand of a counter"
    @cuda.jit
    def turned(a, count, out):
        b, t, n = cuda.blockIdx.x, cuda.threadIdx.x, cuda.gridDim.x
        a[b * 32 + t] = b
        cuda.threadfence()
        cuda.syncthreads()
        if t == 0:
            cuda.atomic.add(count, 0, 1)
            while cuda.atomic.add(count, 0, 0) < n: pass
            cuda.threadfence()
        cuda.syncthreads()
        out[b * 32 + t] = a[(n - 1 - b) * 32 + t]
    out = ints(20 * 32)
    turned[20, 32](ints(20 * 32), ints(1), out)
    return out

def fix_up(cuda):
    "The last block of each four adds what the others left: stream-K"
    @cuda.jit
    def tiles(flags, part, out):
        b = cuda.blockIdx.x
        part[b] = b + 1
        cuda.threadfence()
        if b % 4 < 3:
            cuda.atomic.exch(flags, b, 1)
            return
        total = part[b]
        for i in range(b - 3, b):
            while cuda.atomic.cas(flags, i, 1, 1) != 1: cuda.nanosleep(20)
            cuda.threadfence()
            total += part[i]
        out[b // 4] = total
    out = ints(8)
    tiles[32, 1](ints(32), ints(32), out)
    return out

def lock(cuda):
    @cuda.jit
    def booked(lock, balance):
        if cuda.threadIdx.x == 0:
            while cuda.atomic.cas(lock, 0, 0, 1) != 0: pass
            cuda.threadfence()
            balance[0] += cuda.blockIdx.x
            cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)
    balance = ints(1)
    booked[30, 32](ints(1), balance)
    return balance

def ping_pong(cuda):
    "Two blocks take turns, twenty times"
    @cuda.jit
    def played(ball, data, out):
        b = cuda.blockIdx.x
        for i in range(20):
            while cuda.atomic.add(ball, 0, 0) % 2 != b: pass
            cuda.threadfence()
            data[0] += b + i
            out[2 * i + b] = data[0]
            cuda.threadfence()
            cuda.atomic.add(ball, 0, 1)
    out = ints(40)
    played[2, 1](ints(1), ints(1), out)
    return out

def exchange_nobody_takes(cuda):
    @cuda.jit
    def cleared(out):
        s = cuda.shared.array(4, np.int32)
        t = cuda.threadIdx.x
        cuda.atomic.exch(s, t % 4, 0)
        cuda.syncthreads()
        cuda.atomic.add(s, t % 4, 1)
        cuda.syncthreads()
        out[t] = s[t % 4]
    out = ints(64)
    cleared[1, 64](out)
    return out

def a_view_shares(cuda):
    "What a kernel writes through `as_cuda_array` is in the array that it was made of"
    @cuda.jit
    def numbered(x): x[cuda.threadIdx.x] = cuda.threadIdx.x + 1
    d = cuda.to_device(ints(16))
    numbered[1, 4](cuda.as_cuda_array(d))
    numbered[1, 5](cuda.as_cuda_array(d[8:]))
    numbered[1, 2](d[14:])
    return d.copy_to_host()

def host_arrays_are_copied_back(cuda):
    "A host array is copied to the GPU and back; a slice of it with gaps, too"
    @cuda.jit
    def numbered(x): x[cuda.threadIdx.x] = cuda.threadIdx.x + 1
    a = ints(16)
    numbered[1, 4](a[:4])
    numbered[1, 4](a[8::2])
    return a


# Launches that are refused: each gives the name of the error, or 'runs'

def launches(cuda):
    @cuda.jit
    def one(x): x[0] = 1
    @cuda.jit
    def two(x, n): x[0] = n
    wrong = {
        'negative shared memory': lambda: one[1, 32, 0, -4](ints(1)),
        'a fraction of shared memory': lambda: one[1, 32, 0, 1.5](ints(1)), 'no blocks': lambda: one[0, 32](ints(1)),
        'no threads': lambda: one[1, 0](ints(1)), 'too many threads': lambda: one[1, 2048](ints(1)),
        'a fraction of a block': lambda: one[1.5, 32](ints(1)), 'four axes': lambda: one[(1, 1, 1, 1), 32](ints(1)),
        'too much shared memory': lambda: one[1, 32, 0, 1 << 20](ints(1)), 'no brackets': lambda: one(ints(1)),
        'one argument too few': lambda: two[1, 32](ints(1)), 'one too many': lambda: one[1, 32](ints(1), 2),
        'a list': lambda: one[1, 32]([0]), 'a read-only array': lambda: one[1, 32](np.frombuffer(bytes(4), np.int32)),
        'a number for an array': lambda: one[1, 32](3), 'an array for a number': lambda: two[1, 32](ints(1), ints(1)),
    }
    return {name: said(call, cuda) for name,call in wrong.items()}

def said(call, cuda):
    try:
        call()
        cuda.synchronize()
    except BaseException as e: return type(e).__name__
    return 'runs'


PROGRAMS = [return_before_a_barrier, return_before_barriers_of_a_loop, whole_warps_return,
            return_before_the_barrier_of_the_grid, sessions, barrier_of_the_grid, look_back, look_ahead,
            places_by_ticket, last_block, all_wait_for_the_last, fix_up, lock, ping_pong, exchange_nobody_takes,
            a_view_shares, host_arrays_are_copied_back, launches]

def digest(program):
    "Hash a program's code, without its docstring and however it is laid out"
    code = inspect.getsource(program).replace(f'"{program.__doc__}"', '', 1)
    return hashlib.sha256(''.join(code.split()).encode()).hexdigest()[:16]

def recorded(file='h100.json'): return json.loads((HERE/file).read_text())

def plain(got): return got if isinstance(got, dict) else [int(o) for o in got]

def dialect(mlir):
    if mlir:
        from numba_cuda_mlir import cuda
        return cuda
    sys.path.insert(0, str(HERE.parents[1]))
    from gridstride.support.numba_cuda import import_numba_cuda
    return import_numba_cuda()

def on_gpu(n, mlir, pipe):
    try: pipe.send(plain(PROGRAMS[n](dialect(mlir))))
    except BaseException as e: pipe.send(f'{type(e).__name__}: {str(e)[:300]}')

def judged(n, mlir):
    "Run a program on the GPU, in a process of its own"
    ours, theirs = multiprocessing.get_context('spawn').Pipe()
    p = multiprocessing.get_context('spawn').Process(target=on_gpu, args=(n, mlir, theirs))
    p.start()
    got = ours.recv() if ours.poll(SECONDS) else 'does not end'
    p.join(5)
    p.kill()
    return got

def main(*args):
    mlir = '--mlir' in args
    files = [o for o in args if o != '--mlir'] or [HERE/('mlir_h200.json' if mlir else 'h100.json')]
    with ThreadPoolExecutor(8) as pool: got = list(pool.map(lambda n: judged(n, mlir), range(len(PROGRAMS))))
    Path(files[0]).write_text(as_json({p.__name__: dict(source=digest(p), gives=g) for p,g in zip(PROGRAMS, got)}))
    for p,g in zip(PROGRAMS, got): print(f'{p.__name__}: {str(g)[:150]}')

def as_json(record):
    "A program per line"
    return '{\n' + ',\n'.join(f' {json.dumps(k)}: {json.dumps(v)}' for k,v in record.items()) + '\n}\n'

if __name__=='__main__': main(*sys.argv[1:])
