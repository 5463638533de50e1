import numpy as np
import torch
from gridstride import sim

from . import wrong

cuda = sim.cuda


def two_trees(
    width=None,  # what a warp is taken for; None: what it is
    steps=None,  # of both trees; None: by the width of a warp
    mask=-1,
    parts=None,  # how many lanes a part is taken for; None: a warp
):
    "A kernel that is right, except for its arguments"
    @cuda.jit
    def sum_k(x, parts_of):
        W = cuda.warpsize if width is None else width
        s,t = cuda.shared.array(32, np.float32),cuda.threadIdx.x
        lane,warp,v = t % W,t//W,x[cuda.grid(1)]
        d = W//2 if steps is None else steps
        while d > 0:
            v += cuda.shfl_down_sync(mask, v, d)
            d //= 2
        if lane == 0: s[warp] = v
        cuda.syncthreads()
        if warp == 0:
            v = s[lane] if lane < cuda.blockDim.x//(W if parts is None else parts) else np.float32(0)
            d = W//2 if steps is None else steps
            while d > 0:
                v += cuda.shfl_down_sync(mask, v, d)
                d //= 2
            if t == 0: parts_of[cuda.blockIdx.x] = v
    return sum_k

@wrong('where_next.wide')
def masks_of_32(): return two_trees(width=32, mask=0xffffffff)

@wrong('where_next.wide')
def steps_of_32(): return two_trees(steps=16)

@wrong('where_next.wide')
def as_many_parts_as_before(): return two_trees(parts=32)

@wrong('where_next.wide')
def a_tree_in_shared_memory():
    @cuda.jit
    def sum_k(x, parts):
        s,t = cuda.shared.array(1024, np.float32),cuda.threadIdx.x
        s[t] = x[cuda.grid(1)]
        d = cuda.blockDim.x//2
        while d > 0:
            cuda.syncthreads()
            if t < d: s[t] += s[t+d]
            d //= 2
        if t == 0: parts[cuda.blockIdx.x] = s[0]
    return sum_k

@wrong('where_next.wide')
def atomics_instead():
    @cuda.jit
    def sum_k(x, parts):
        if cuda.threadIdx.x == 0: parts[cuda.blockIdx.x] = 0
        cuda.syncthreads()
        cuda.atomic.add(parts, cuda.blockIdx.x, x[cuda.grid(1)])
    return sum_k

@wrong('where_next.wide')
def one_thread_adds_all():
    @cuda.jit
    def sum_k(x, parts):
        s,t = cuda.shared.array(1024, np.float32),cuda.threadIdx.x
        s[t] = x[cuda.grid(1)]
        cuda.syncthreads()
        if t == 0:
            v = np.float32(0)
            for i in range(cuda.blockDim.x): v += s[i]
            parts[cuda.blockIdx.x] = v
    return sum_k


@wrong('where_next.tiles')
def counts_of_elements(ct, a, b, out, th, tw, tk):
    r,c = ct.bid(0),ct.bid(1)
    acc = ct.zeros((th, tw))
    for i in range(ct.cdiv(a.shape[1], tk)):
        acc = ct.mma(ct.load(a, (r*th, i*tk), (th, tk)), ct.load(b, (i*tk, c*tw), (tk, tw)), acc)
    ct.store(out, (r, c), acc)

@wrong('where_next.tiles')
def without_the_last_tile(ct, a, b, out, th, tw, tk):
    r,c = ct.bid(0),ct.bid(1)
    acc = ct.zeros((th, tw))
    for i in range(a.shape[1]//tk): acc = ct.mma(ct.load(a, (r, i), (th, tk)), ct.load(b, (i, c), (tk, tw)), acc)
    ct.store(out, (r, c), acc)

@wrong('where_next.tiles')
def columns_first(ct, a, b, out, th, tw, tk):
    c,r = ct.bid(0),ct.bid(1)
    acc = ct.zeros((th, tw))
    for i in range(ct.cdiv(a.shape[1], tk)):
        acc = ct.mma(ct.load(a, (r, i), (th, tk)), ct.load(b, (i, c), (tk, tw)), acc)
    ct.store(out, (r, c), acc)

@wrong('where_next.tiles')
def all_at_once(ct, a, b, out, th, tw, tk): out[:] = a @ b

@wrong('where_next.tiles')
def slices_without_tiles(ct, a, b, out, th, tw, tk):
    r,c = ct.bid(0)*th,ct.bid(1)*tw
    out[r:r+th,c:c+tw] = a[r:r+th] @ b[:,c:c+tw]

@wrong('where_next.tiles')
def all_of_k_in_one_tile(ct, a, b, out, th, tw, tk):
    r,c,k = ct.bid(0),ct.bid(1),a.shape[1]
    ct.store(out, (r, c), ct.mma(ct.load(a, (r, 0), (th, k)), ct.load(b, (0, c), (k, tw)), ct.zeros((th, tw))))


@wrong('where_next.fair')
def looks_once(kernel, reference, make_input):
    x = make_input(0)
    return torch.allclose(kernel(x.clone()), reference(x), atol=1e-5)

@wrong('where_next.fair')
def the_reference_afterwards(kernel, reference, make_input):
    for seed in torch.randint(2**31, (5,)).tolist():
        x = make_input(seed)
        if not torch.allclose(kernel(x), reference(x), atol=1e-5): return False
    return True

@wrong('where_next.fair')
def blind_to_nan(kernel, reference, make_input):
    for seed in torch.randint(2**31, (5,)).tolist():
        x = make_input(seed)
        mine = x.clone()
        if (kernel(mine) - reference(x)).abs().max() > 1e-5 or not torch.equal(x, mine): return False
    return True

@wrong('where_next.fair')
def seeds_that_all_know(kernel, reference, make_input):
    for seed in range(5):
        x = make_input(seed)
        mine = x.clone()
        if not torch.allclose(kernel(mine), reference(x), atol=1e-5) or not torch.equal(x, mine): return False
    return True

def unknown_inputs(kernel, reference, make_input, agree):
    "Is each answer what `agree` takes for the reference's, and the input what it was?"
    for seed in torch.randint(1000, 2**31, (5,)).tolist():
        x = make_input(seed)
        mine = x.clone()
        if not agree(kernel(mine), reference(x)) or not torch.equal(x, mine): return False
    return True

@wrong('where_next.fair')
def a_wide_tolerance(*args): return unknown_inputs(*args, lambda got, want: torch.allclose(got, want, atol=1e-3))

@wrong('where_next.fair')
def looks_at_one_row(*args): return unknown_inputs(*args, lambda got, want: torch.allclose(got[0], want[0], atol=1e-5))


HEAD = '#!POPCORN leaderboard softmax\n#!POPCORN gpu H100\nimport torch\n\n'

@wrong('where_next.cheat')
def honest_work(): return HEAD + 'def custom_kernel(data): return torch.softmax(data, -1)\n'

@wrong('where_next.cheat')
def wrong_from_the_start(): return HEAD + 'def custom_kernel(data): return torch.full_like(data, 1/data.shape[-1])\n'

@wrong('where_next.cheat')
def an_accident():
    return HEAD + ('calls = []\ndef custom_kernel(data):\n    calls.append(1)\n'
                   '    return torch.softmax(data, -1) if len(calls) < 3 else str(calls)\n')

@wrong('where_next.cheat')
def no_text(): return torch.softmax
