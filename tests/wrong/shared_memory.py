import numpy as np

from gridstride.course.runner import run_threads

from . import wrong


@wrong('shared_memory.split')
def copies(shared, na, nb): return shared[:na].copy(), shared[na:na+nb].copy(), shared[na+nb:].copy()

@wrong('shared_memory.split')
def second_too_long(shared, na, nb): return shared[:na], shared[na:], shared[na+nb:]

@wrong('shared_memory.split')
def nb_as_end(shared, na, nb): return shared[:na], shared[na:nb], shared[nb:]

@wrong('shared_memory.split')
def from_the_end(shared, na, nb): return shared[:na], shared[na:na+nb], shared[-nb:]


@wrong('shared_memory.load_tile')
def no_padding(tr, tc, ts, x, h, w, ty, tx, tw):
    r,c = ty*tw+tr, tx*tw+tc
    if r < h and c < w: ts[tr*tw+tc] = x[r*w+c]

@wrong('shared_memory.load_tile')
def repeats_the_edge(tr, tc, ts, x, h, w, ty, tx, tw):
    r,c = min(ty*tw+tr, h-1), min(tx*tw+tc, w-1)
    ts[tr*tw+tc] = x[r*w+c]

@wrong('shared_memory.load_tile')
def guards_the_end_only(tr, tc, ts, x, h, w, ty, tx, tw):
    i = (ty*tw+tr)*w + tx*tw+tc
    ts[tr*tw+tc] = x[i] if i < h*w else 0.

@wrong('shared_memory.load_tile')
def tiles_swapped(tr, tc, ts, x, h, w, ty, tx, tw):
    r,c = tx*tw+tr, ty*tw+tc
    ts[tr*tw+tc] = x[r*w+c] if r < h and c < w else 0.

@wrong('shared_memory.load_tile')
def tile_transposed(tr, tc, ts, x, h, w, ty, tx, tw):
    r,c = ty*tw+tr, tx*tw+tc
    ts[tc*tw+tr] = x[r*w+c] if r < h and c < w else 0.


@wrong('shared_memory.transpose')
def one_step(blockIdx, blockDim, shared, x, out, h, w, tw):
    def step(tr, tc):
        r,c = blockIdx.y*tw+tr, blockIdx.x*tw+tc
        if r < h and c < w: shared[tr*tw+tc] = x[r*w+c]
        r,c = blockIdx.x*tw+tr, blockIdx.y*tw+tc
        if r < w and c < h: out[r*h+c] = shared[tc*tw+tr]
    run_threads(step, blockDim)

@wrong('shared_memory.transpose')
def blocks_stay(blockIdx, blockDim, shared, x, out, h, w, tw):
    def load(tr, tc):
        r,c = blockIdx.y*tw+tr, blockIdx.x*tw+tc
        if r < h and c < w: shared[tr*tw+tc] = x[r*w+c]
    def store(tr, tc):
        r,c = blockIdx.y*tw+tr, blockIdx.x*tw+tc
        if r < w and c < h: out[r*h+c] = shared[tc*tw+tr]
    run_threads(load, blockDim)
    run_threads(store, blockDim)

@wrong('shared_memory.transpose')
def writes_down_the_columns(blockIdx, blockDim, shared, x, out, h, w, tw):
    def load(tr, tc):
        r,c = blockIdx.y*tw+tr, blockIdx.x*tw+tc
        if r < h and c < w: shared[tr*tw+tc] = x[r*w+c]
    def store(tr, tc):
        r,c = blockIdx.y*tw+tr, blockIdx.x*tw+tc
        if r < h and c < w: out[c*h+r] = shared[tr*tw+tc]
    run_threads(load, blockDim)
    run_threads(store, blockDim)

@wrong('shared_memory.transpose')
def tile_not_transposed(blockIdx, blockDim, shared, x, out, h, w, tw):
    def load(tr, tc):
        r,c = blockIdx.y*tw+tr, blockIdx.x*tw+tc
        if r < h and c < w: shared[tr*tw+tc] = x[r*w+c]
    def store(tr, tc):
        r,c = blockIdx.x*tw+tr, blockIdx.y*tw+tc
        if r < w and c < h: out[r*h+c] = shared[tr*tw+tc]
    run_threads(load, blockDim)
    run_threads(store, blockDim)


@wrong('shared_memory.window')
def no_halo(blockIdx, blockDim, shared, x, out, n):
    first,bd = blockIdx.x*blockDim.x, blockDim.x
    def load(tr, tc):
        shared[tc+1] = x[first+tc] if first+tc < n else 0.
        if tc == 0: shared[0],shared[bd+1] = 0.,0.
    def add(tr, tc):
        if first+tc < n: out[first+tc] = shared[tc]+shared[tc+1]+shared[tc+2]
    run_threads(load, blockDim)
    run_threads(add, blockDim)

@wrong('shared_memory.window')
def straight_from_global(blockIdx, blockDim, shared, x, out, n):
    first = blockIdx.x*blockDim.x
    def add(tr, tc):
        i = first+tc
        if i < n: out[i] = (x[i-1] if i > 0 else 0.) + x[i] + (x[i+1] if i+1 < n else 0.)
    run_threads(add, blockDim)

@wrong('shared_memory.window')
def python_wraps(blockIdx, blockDim, shared, x, out, n):
    first,bd = blockIdx.x*blockDim.x, blockDim.x
    def load(tr, tc):
        shared[tc+1] = x[first+tc] if first+tc < n else 0.
        if tc == 0: shared[0],shared[bd+1] = x[first-1],(x[first+bd] if first+bd < n else 0.)
    def add(tr, tc):
        if first+tc < n: out[first+tc] = shared[tc]+shared[tc+1]+shared[tc+2]
    run_threads(load, blockDim)
    run_threads(add, blockDim)

@wrong('shared_memory.window')
def no_padding_at_the_end(blockIdx, blockDim, shared, x, out, n):
    first,bd = blockIdx.x*blockDim.x, blockDim.x
    def load(tr, tc):
        if first+tc < n: shared[tc+1] = x[first+tc]
        if tc == 0: shared[0],shared[bd+1] = (x[first-1] if first else 0.),(x[first+bd] if first+bd < n else 0.)
    def add(tr, tc):
        if first+tc < n: out[first+tc] = shared[tc]+shared[tc+1]+shared[tc+2]
    run_threads(load, blockDim)
    run_threads(add, blockDim)

@wrong('shared_memory.window')
def one_step_window(blockIdx, blockDim, shared, x, out, n):
    first,bd = blockIdx.x*blockDim.x, blockDim.x
    def step(tr, tc):
        shared[tc+1] = x[first+tc] if first+tc < n else 0.
        if tc == 0: shared[0],shared[bd+1] = (x[first-1] if first else 0.),(x[first+bd] if first+bd < n else 0.)
        if first+tc < n: out[first+tc] = shared[tc]+shared[tc+1]+shared[tc+2]
    run_threads(step, blockDim)

@wrong('shared_memory.split')
def remainder_from_the_end(shared, na, nb): return shared[:na], shared[na:na+nb], shared[-(len(shared)-na-nb):]

@wrong('shared_memory.load_tile')
def loads_all(tr, tc, ts, x, h, w, ty, tx, tw):
    for r in range(ty*tw, ty*tw+tw):
        for c in range(tx*tw, tx*tw+tw): ts[(r-ty*tw)*tw + c-tx*tw] = x[r*w+c] if r < h and c < w else 0.

@wrong('shared_memory.transpose')
def without_shared(blockIdx, blockDim, shared, x, out, h, w, tw):
    def store(tr, tc):
        r,c = blockIdx.x*tw+tr, blockIdx.y*tw+tc
        if r < w and c < h: out[r*h+c] = x[c*w+r]
    run_threads(store, blockDim)

@wrong('shared_memory.window')
def left_halo_at_minus_one(blockIdx, blockDim, shared, x, out, n):
    first,bd = blockIdx.x*blockDim.x, blockDim.x
    def read(i): return x[i] if 0 <= i < n else 0.
    def load(tr, tc):
        shared[tc] = read(first+tc)
        if tc == 0: shared[-1],shared[bd] = read(first-1),read(first+bd)
    def add(tr, tc):
        if first+tc < n: out[first+tc] = shared[tc-1]+shared[tc]+shared[tc+1]
    run_threads(load, blockDim)
    run_threads(add, blockDim)

@wrong('shared_memory.window')
def slides_in_one_step(blockIdx, blockDim, shared, x, out, n):
    first = blockIdx.x*blockDim.x
    def read(i): return x[i] if 0 <= i < n else 0.
    def step(tr, tc):
        if tc == 0: shared[0],shared[1] = read(first-1),read(first)
        shared[tc+2] = read(first+tc+1)
        if first+tc < n: out[first+tc] = shared[tc]+shared[tc+1]+shared[tc+2]
    run_threads(step, blockDim)

@wrong('shared_memory.transpose')
def tile_from_the_end(blockIdx, blockDim, shared, x, out, h, w, tw):
    def load(tr, tc):
        r,c = blockIdx.y*tw + tr, blockIdx.x*tw + tc
        if r < h and c < w: shared[-1-(tr*tw + tc)] = x[r*w+c]
    def store(tr, tc):
        r,c = blockIdx.x*tw + tr, blockIdx.y*tw + tc
        if r < w and c < h: out[r*h + c] = shared[-1-(tc*tw + tr)]
    run_threads(load, blockDim)
    run_threads(store, blockDim)

@wrong('shared_memory.split')
def lists(shared, na, nb): return list(shared[:na]), list(shared[na:na+nb]), list(shared[na+nb:])

@wrong('shared_memory.load_tile')
def pads_all_of_x(tr, tc, ts, x, h, w, ty, tx, tw):
    padded = np.zeros((h+tw, w+tw))
    padded[:h,:w] = x.reshape(h, w)
    ts[tr*tw+tc] = padded[ty*tw+tr, tx*tw+tc]

@wrong('shared_memory.window')
def list_for_shared(blockIdx, blockDim, shared, x, out, n):
    first,own = blockIdx.x*blockDim.x, [0.]*(blockDim.x+2)
    def load(tr, tc):
        for t in [tc]*(tc < blockDim.x) + [blockDim.x, blockDim.x+1]*(tc == 0):
            i = first+t-1
            if 0 <= i < n: own[t] = x[i]
    def add(tr, tc):
        if first+tc < n: out[first+tc] = own[tc]+own[tc+1]+own[tc+2]
    run_threads(load, blockDim)
    run_threads(add, blockDim)

@wrong('shared_memory.window')
def catches_the_end(blockIdx, blockDim, shared, x, out, n):
    first = blockIdx.x*blockDim.x
    def read(i):
        try: return x[i]
        except IndexError: return 0.
    def load(tr, tc):
        shared[tc+1] = read(first+tc)
        if tc == 0: shared[0],shared[blockDim.x+1] = read(first-1),read(first+blockDim.x)
    def add(tr, tc):
        if first+tc < n: out[first+tc] = shared[tc]+shared[tc+1]+shared[tc+2]
    run_threads(load, blockDim)
    run_threads(add, blockDim)
