"""Run the cases of cases.json on a GPU: as the C that `to_cuda` makes, through nvcc, and through
Numba. What came out goes to h100.json.

    python record.py [FILE]    # into FILE instead of h100.json
    python record.py write     # write cases.json again: needs pytest, hypothesis, no GPU

The first needs an NVIDIA GPU of sm_90, nvcc on the PATH, numba and numba-cuda, this repository, and takes some minutes.

For each case and each of 'readable' and 'doubles' (the two ways of `to_cuda`) and 'numba' h100.json holds a digest of
all the arrays' memory, if the case is to be the same bit for bit, else the bytes of the arrays that have changed; or an
error. It also prints what differs from the simulator.
"""
import base64, ctypes, json, os, subprocess, sys, tempfile, time, warnings, zlib
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]
from cases import arguments, as_json, difference, digest, from_json, kernel, launched, memory, simulated

WAYS = dict(readable={}, doubles=dict(numba_types=True))
TOGETHER = 40

def cases(): return [from_json(d) for d in json.loads((HERE/'cases.json').read_text())]


# what is kept

def kept(case, made):
    "A result as JSON"
    if case.compare=='bits': return digest(made)
    before = arguments(case)[1]
    return {str(n): base64.b64encode(zlib.compress(a.tobytes())).decode()
            for n,(a,b) in enumerate(zip(made, before)) if a.tobytes()!=b.tobytes()}

def restored(case, result):
    "The memory that a result stands for, unless it is a digest"
    made = arguments(case)[1]
    for n,text in result.items():
        made[int(n)][:] = np.frombuffer(zlib.decompress(base64.b64decode(text)), made[int(n)].dtype)
    return made

def remark(case, result, want):
    "What is wrong with a recorded result, or None"
    if 'error' in result and isinstance(result, dict): return result['error']
    if case.compare=='bits': return None if result==digest(want) else 'other bits than the simulator'
    return difference(restored(case, result), want, case)


# through nvcc

_HELPERS = '''
extern "C" void *make(size_t n) { void *p = nullptr; return cudaMalloc(&p, n ? n : 1) ? nullptr : p; }
extern "C" int bring(void *to, const void *from, size_t n) { return cudaMemcpy(to, from, n, cudaMemcpyDefault); }
extern "C" int finish(int code) { int e = cudaDeviceSynchronize(); return code ? code : e ? e : cudaGetLastError(); }
extern "C" void drop(void *p) { cudaFree(p); }
'''

def library(translations, folder, name):
    "The translations, compiled by nvcc"
    from gridstride.translate.engine import combine_translations
    (folder/f'{name}.cu').write_text(combine_translations(translations)+_HELPERS)
    done = subprocess.run(['nvcc','-std=c++17','-arch=sm_90','-shared','-Xcompiler','-fPIC','-o',
                           f'{name}.so',f'{name}.cu'], cwd=folder, capture_output=True, text=True)
    if done.returncode: raise RuntimeError(done.stdout+done.stderr)
    dll = ctypes.CDLL(str(folder/f'{name}.so'))
    dll.make.restype,dll.make.argtypes = ctypes.c_void_p,[ctypes.c_size_t]
    dll.bring.argtypes,dll.drop.argtypes = [ctypes.c_void_p,ctypes.c_void_p,ctypes.c_size_t],[ctypes.c_void_p]
    return dll

def compiled(part, folder, name):
    """[(case, library, its number there, translation)] for the cases that nvcc takes; those that it
    does not, with what it says"""
    try:
        dll = library([t for _,t in part], folder, name)
        return [(c, dll, n, t) for n,(c,t) in enumerate(part)]
    except RuntimeError as e:
        if len(part)==1: return [(part[0][0], None, str(e)[-1500:], None)]
        half = len(part)//2
        return compiled(part[:half], folder, name+'a') + compiled(part[half:], folder, name+'b')

def on_gpu(case, dll, n, t):
    "What the memory holds after the compiled kernel ran"
    from gridstride.translate.engine import _as_ctypes
    from gridstride.utils import dim3
    args,made = arguments(case)
    values,there = t.pack(args),[dll.make(a.nbytes) for a in made]
    for p,a in zip(there, made): dll.bring(p, a.ctypes.data, a.nbytes)
    def pointer(v):
        at = v.__array_interface__['data'][0]
        return ctypes.c_void_p(
            next((p+at-a.ctypes.data for p,a in zip(there, made) if a.ctypes.data <= at <= a.ctypes.data+a.nbytes), 0))
    holders = [pointer(v) if p.kind=='array' else _as_ctypes(p.type, v) for p,v in zip(t.params, values)]
    grid,block = dim3(tuple(case.grid)),dim3(tuple(case.block))
    getattr(dll, f'enter_{n}')((ctypes.c_void_p*max(1,len(holders)))(*map(ctypes.addressof, holders)),
                               (ctypes.c_uint*7)(*grid, *block, case.shared))
    code = dll.finish(0)
    if code: raise RuntimeError(f'CUDA error {code}')
    for p,a in zip(there, made): dll.bring(a.ctypes.data, p, a.nbytes); dll.drop(p)
    return made

def by_nvcc(todo, way, folder):
    "{name: result}"
    from gridstride.sim import cuda
    from gridstride.translate import to_cuda
    pairs = [(c, to_cuda(kernel(c, cuda), *arguments(c)[0], **WAYS[way])) for c in todo]
    parts = [pairs[i:i+TOGETHER] for i in range(0, len(pairs), TOGETHER)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(lambda n: compiled(parts[n], folder, f'{way}{n}'), range(len(parts))))
    return {c.name: attempt(lambda: kept(c, on_gpu(c, dll, n, t))) if dll else dict(error=f'nvcc: {n}') for part in made
            for c,dll,n,t in part}

def attempt(f):
    try: return f()
    except Exception as e: return dict(error=f'{type(e).__name__}: {str(e)[-300:]}')


# through Numba

class Placed:
    "An array on the GPU, of any layout, as Numba takes it"
    def __init__(self, pointer, d):
        size = np.dtype(d['dtype']).itemsize
        self.__cuda_array_interface__ = dict(shape=tuple(d['shape']), strides=tuple(s*size for s in d['strides']),
            typestr=np.dtype(d['dtype']).str, data=(pointer+d['offset']*size, False), version=3)

def by_numba(case):
    "(name, result)"
    from numba import cuda
    warnings.simplefilter('ignore')      # small grids: it would rather have large ones
    there = []
    def given(d):
        if 'tuple' in d: return tuple(map(given, d['tuple']))
        if 'number' in d: return arguments(case._replace(args=[d]))[0][0]
        flat = memory(d)
        there.append(cuda.to_device(flat))
        return cuda.as_cuda_array(Placed(there[-1].__cuda_array_interface__['data'][0] or 0, d))
    def run():
        launched(kernel(case, cuda), case, [given(d) for d in case.args])
        cuda.synchronize()
        return kept(case, [a.copy_to_host() for a in there])
    return case.name,attempt(run)


def write():
    import corpus
    from compare import generated
    todo = [c for c in corpus.all_cases() if not corpus.refused(c)] + generated(700)
    (HERE/'cases.json').write_text('[\n' + ',\n'.join(json.dumps(as_json(c)) for c in todo) + '\n]\n')
    print(len(todo), 'cases', Counter(c.name.split('_')[0] for c in todo))

def main(out):
    start,todo = time.time(),cases()
    def log(what): print(f'{time.time()-start:6.1f} s  {what}', flush=True)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for way in WAYS:
            results[way] = by_nvcc(todo, way, Path(folder))
            log(f'{way}: {len(todo)} kernels through nvcc')
    with ProcessPoolExecutor(6, get_context('spawn')) as pool:
        results['numba'] = dict(pool.map(by_numba, todo, chunksize=8))
    log(f'{len(todo)} kernels through Numba')
    bad = Counter()
    for c in todo:
        want = simulated(c)
        for way,r in results.items():
            if why := remark(c, r[c.name], want):
                bad[way] += 1
                print(f'{c.name}, {way}: {why}')
    from importlib.metadata import version
    import numba
    about = dict(device=device(),
                 nvcc=subprocess.run(['nvcc','--version'], capture_output=True, text=True).stdout.split('\n')[-2],
                 numba=numba.__version__, numba_cuda=version('numba-cuda'))
    lines = [json.dumps(c.name)+': '+json.dumps({way:r[c.name] for way,r in results.items()}) for c in todo]
    Path(out).write_text('{"about": ' + json.dumps(about) + ',\n' + ',\n'.join(lines) + '\n}\n')
    log(f'{len(todo)} cases, {len(todo)*len(results)} results, differing from the simulator: {dict(bad) or "none"}')

def device():
    from numba import cuda
    name = cuda.get_current_device().name
    return name.decode() if isinstance(name, bytes) else name

if __name__=='__main__': write() if sys.argv[1:]==['write'] else main(*sys.argv[1:] or [HERE/'h100.json'])
