"""Kernels as cases: source text, arguments and a launch, which run in the simulator, as C and in Numba alike.

An array is described by its memory (`size` elements, filled by a formula or given as bytes), its shape,
its strides and the offset of its first element, in elements. So a case is JSON, and the same on every machine.
"""
import base64, hashlib, linecache, math, os, pickle, re, sys, tempfile
from collections import namedtuple

import numpy as np

# compare: 'bits', 'ulps' of each element, or of the largest: 'scale'
Case = namedtuple('Case', 'name source args grid block shared compare')

# A function of CUDA's library is off by 4 ulps at most (CUDA C++ Programming Guide, mathematical
# functions); such a kernel nests three, none of which enlarges an error by more than 4; a fused multiply-add rounds
# once where two operations round twice.
ULPS = 4+4*4+4*4*4


def values(n, seed, low, high, scale):
    """`n` values from `low*2**scale` to `high*2**scale` in steps of `2**scale`, which look random
    and are always the same"""
    h = (np.arange(1, n+1, dtype=np.uint64) + np.uint64(1000003*(seed+1)))*np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(31)))*np.uint64(0xBF58476D1CE4E5B9)
    return (low + ((h ^ (h >> np.uint64(29))) % np.uint64(high-low+1)).astype(np.int64))*2.**scale

def layout(shape, how):
    "Strides, offset, and elements of memory for an array of `shape`"
    n = len(shape)
    order = range(n) if how!='F' else range(n)[::-1]
    step = 2 if how=='strided' else 1
    strides,size = [0]*n,step
    for ax in reversed(order): strides[ax],size = size,size*(shape[ax]+(how=='padded'))
    if how=='reversed': return [-s for s in strides],sum((d-1)*s for d,s in zip(shape, strides)),size
    return strides,3*(how=='padded'),size+3*(how=='padded')

def array(dtype, shape, how='C', fill=None):
    "The description of an array; `fill`: seed, lowest, highest, power of two"
    strides,offset,size = layout(shape, how)
    return dict(dtype=dtype, shape=list(shape), strides=strides, offset=offset, size=size, fill=fill or [0,0,0,0])

def described(a):
    "The description of an argument that is there: an array of any layout, a number, a tuple"
    if isinstance(a, (tuple,list)): return dict(tuple=[described(o) for o in a])
    if not isinstance(a, np.ndarray):
        return dict(number=type(a).__name__, value=a.item() if isinstance(a, np.generic) else a)
    low = a[(*(slice(None,None,-1) if s<0 else slice(None) for s in a.strides), ...)]      # a view, also of no axis
    size = 1+sum((n-1)*s for n,s in zip(low.shape,low.strides))//a.itemsize if a.size else 0
    flat = np.lib.stride_tricks.as_strided(low, (size,), (a.itemsize,))
    offset = (a.__array_interface__['data'][0]-low.__array_interface__['data'][0])//a.itemsize
    return dict(dtype=a.dtype.name, shape=list(a.shape), strides=[s//a.itemsize for s in a.strides], offset=offset,
                size=size, bytes=base64.b64encode(flat.tobytes()).decode())

def memory(d):
    "The memory of an array that is described"
    if 'bytes' in d: return np.frombuffer(base64.b64decode(d['bytes']), d['dtype']).copy()
    return values(d['size'], *d['fill']).astype(d['dtype'])

def view(flat, d):
    "The array that is described, in `flat`"
    size = flat.itemsize
    return np.lib.stride_tricks.as_strided(flat[d['offset']:], d['shape'], [s*size for s in d['strides']])

NUMBERS = dict(int=int, float=float, bool=bool, bool_=np.bool_)
def argument(d, made):
    "The argument that is described; `made` collects the memory of its arrays"
    if 'tuple' in d: return tuple(argument(o, made) for o in d['tuple'])
    if 'number' in d: return NUMBERS.get(d['number'], getattr(np, d['number'], None))(d['value'])
    made.append(memory(d))
    return view(made[-1], d)

def arguments(case):
    "Arguments, and the memory of the arrays among them"
    made = []
    return [argument(d, made) for d in case.args],made

def kernel(case, cuda, **names):
    "The kernel, made from its text by the module `cuda`; inspect finds the text"
    file = f'<{case.name}>'
    linecache.cache[file] = len(case.source),None,case.source.splitlines(True),file
    space = {'cuda':cuda, 'np':np, 'math':math, **names}
    exec(compile(case.source, file, 'exec'), space)
    return space[function(case)]

def function(case):
    "The name of the kernel, which is the last function of the text"
    return re.findall(r'^ *def (\w+)', case.source, re.M)[-1]

def launched(k, case, args): return k[tuple(case.grid), tuple(case.block), 0, case.shared](*args)

# The recorded GPU gave the right sum, as GPUs nearly always do; but no fence orders what is read after the counter.
UNORDERED = {'sim_113_k'}

def simulated(case):
    "What the memory of the arrays holds after the simulator ran the case"
    from gridstride import sim
    args,made = arguments(case)
    with sim.options(checks='no racecheck' if case.name in UNORDERED else 'all'):
        launched(kernel(case, sim.cuda), case, args)
    return made

def digest(arrays): return hashlib.sha256(b''.join(a.tobytes() for a in arrays)).hexdigest()[:32]

def coarsest(case):
    "The float of fewest bits that the kernel meets"
    types = [d['dtype'] for d in case.args if 'dtype' in d] + re.findall(r'float\d\d', case.source)
    return next((t for t in ('float16','float32') if t in types), 'float64')

def difference(got, want, case):
    "What differs, as text, or None; integers must be the same bit for bit, NaN is equal to NaN"
    for n,(g,w) in enumerate(zip(got, want)):
        same = (g==w) | ((g!=g) & (w!=w))
        if w.dtype.kind=='f' and case.compare!='bits' and w.size:
            size = np.abs(w) if case.compare=='ulps' else np.abs(w[np.isfinite(w)]).max(initial=0)
            same |= (np.abs(g.astype(np.float64)-w)
                     <= ULPS*np.spacing(np.asarray(size).astype(coarsest(case))).astype(np.float64))
        at = int(np.argmin(same)) if w.size else 0
        if not same.all():
            return f'array {n} at {at}: {g[at]!r}, not {w[at]!r} ({np.count_nonzero(~same)} of {len(w)} differ)'

def kept(name, decides, make):
    "What `make()` returns, if that is slow: it stays in the cache until one of the texts it depends on changes"
    from gridstride.cpp.toolchain.cache import lock_entry
    from gridstride.utils import cache_dir
    key = hashlib.sha256(repr((decides, sys.version_info, np.__version__)).encode()).hexdigest()[:20]
    path = cache_dir()/name/f'{key}.pickle'
    with lock_entry(path):
        if not path.exists():
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as f: pickle.dump(make(), f)
            os.replace(f.name, path)
    return pickle.loads(path.read_bytes())

def as_json(case): return case._asdict()
def from_json(d): return Case(**d)
