"""Softmax by QuACK, which is written in CuTe DSL, compared with `gridstride.kernels.softmax` and a copy, by the length
of the rows, as softmax.py has them.

    pip install quack-kernels 'nvidia-cutlass-dsl[cu13]'
    python softmax_quack.py compile DIR     # needs no GPU: one cubin per type and length
    python softmax_quack.py DIR > softmax_quack.txt   # on an H100; QuACK need not be installed there

The cubins are launched as QuACK launches them: grid, cluster and shared memory are those of its `Softmax`, whose
kernel name contains rows and columns of a block. Each result is first compared with torch's in float64.
"""
import ctypes, json, os, re, sys, tempfile
from pathlib import Path
from types import SimpleNamespace

import torch
from gridstride.bench import compare
from gridstride.kernels.ladder.ladder import Gpu

import rows, softmax


# Without a GPU

def compiled(dtype, n):
    "QuACK's kernel for any number of rows of n elements: (its PTX, its cubin)"
    folder = Path(os.environ['CUTE_DSL_DUMP_DIR'])
    for f in folder.iterdir(): f.unlink()
    import cutlass
    from quack.softmax import Softmax, cute, fake_tensor
    kind, many = dict(float32=cutlass.Float32, bfloat16=cutlass.BFloat16)[dtype], cute.sym_int()
    x, out = (fake_tensor(kind, (many, n), 128//kind.width) for _ in range(2))
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    cute.compile(Softmax(kind, n), x, out, stream, options='--enable-tvm-ffi')
    (ptx,), (cubin,) = folder.glob('*.ptx'), folder.glob('*.cubin')
    return ptx.read_text(), cubin.read_bytes()


def described(ptx, dtype, n):
    "How a kernel is launched"
    name = re.search(r'\.visible \.entry (\w+)\(', ptx)[1]
    tall, wide = map(int, re.search(r'_(\d+)_(\d+)_TiledCopy', name).groups())
    threads, blocks = int(re.search(r'\.reqntid (\d+)', ptx)[1]), n//wide
    size = torch.empty((), dtype=getattr(torch, dtype)).element_size()
    shared = tall*wide*size + threads//32*blocks*8 + 16                 # the rows; a part of each warp; a barrier
    return dict(dtype=dtype, n=n, name=name, rows=tall, blocks=blocks, threads=threads, shared=-(-shared//128)*128)


def compile_all(to):
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(CUTE_DSL_ARCH='sm_90a', CUTE_DSL_KEEP_PTX='1', CUTE_DSL_KEEP_CUBIN='1',
                          CUTE_DSL_DUMP_DIR=folder)
        for dtype in ('float32', 'bfloat16'):
            for n in softmax.SHORT + softmax.LONG:
                ptx, cubin = compiled(dtype, n)
                (to/f'{dtype}_{n}.cubin').write_bytes(cubin)
                (to/f'{dtype}_{n}.json').write_text(json.dumps(described(ptx, dtype, n), indent=1) + '\n')


# On a GPU

class Tensor(ctypes.Structure):
    "As CuTe DSL gives a matrix of a fixed number of columns to a kernel"
    _fields_ = [('at', ctypes.c_void_p), ('rows', ctypes.c_int), ('stride', ctypes.c_longlong)]


class Attribute(ctypes.Structure):
    "The driver's CUlaunchAttribute"
    _fields_ = [('id', ctypes.c_int), ('pad', ctypes.c_int), ('value', ctypes.c_uint*16)]


class Config(ctypes.Structure):
    "The driver's CUlaunchConfig"
    _fields_ = [('grid', ctypes.c_uint*3), ('block', ctypes.c_uint*3), ('shared', ctypes.c_uint),
                ('stream', ctypes.c_void_p), ('attributes', ctypes.POINTER(Attribute)), ('count', ctypes.c_uint)]


CLUSTER, MOST_SHARED = 4, 8                             # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, CU_FUNC_ATTRIBUTE_...


def ok(code):
    if code: raise RuntimeError(f'the CUDA driver returns {code}')


def loaded(k, cubin):
    "A function of x that launches QuACK's kernel"
    driver, module, f = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p(), ctypes.c_void_p()
    ok(driver.cuModuleLoadData(ctypes.byref(module), cubin))
    ok(driver.cuModuleGetFunction(ctypes.byref(f), module, k.name.encode()))
    ok(driver.cuFuncSetAttribute(f, MOST_SHARED, k.shared))
    def run(x):
        out = torch.empty_like(x)
        given = [Tensor(o.data_ptr(), len(o), o.stride(0)) for o in (x, out)]
        cluster = Attribute(CLUSTER, 0, (ctypes.c_uint*16)(1, k.blocks, 1))
        c = Config((-(-len(x)//k.rows), k.blocks, 1), (k.threads, 1, 1), k.shared,
                   torch.cuda.current_stream().cuda_stream, ctypes.pointer(cluster), int(k.blocks > 1))
        pointers = (ctypes.c_void_p*2)(*(ctypes.addressof(o) for o in given))
        ok(driver.cuLaunchKernelEx(ctypes.byref(c), f, pointers, None))
        return out
    return run


def pieces(folder):
    for f in sorted(folder.glob('*.json'), key=lambda f: (f.name[0] == 'b', json.loads(f.read_text())['n'])):
        yield SimpleNamespace(**json.loads(f.read_text())), f.with_suffix('.cubin').read_bytes()


def measure(piece, seconds):
    "The rows of a kernel: ours against QuACK's and against a copy"
    k, cubin = piece
    x = softmax.inputs(k.n, getattr(torch, k.dtype))
    try:
        theirs = loaded(k, cubin)
        ways = dict(softmax.sides(softmax.Case('softmax', x, ('copy',))), quack=lambda: lambda: theirs(x))
        ways = {name: rows.graphed(f) for name, f in ways.items()}
        for name in ('ours', 'quack'): softmax.check(softmax.Case('softmax', x, ()), ways[name]())
        c = compare(ways, x, baseline='ours', check=lambda got: None, seconds=seconds, clock=Gpu())
        for other in ('quack', 'copy'): yield rows.row('softmax', x, c, other, None, 2*x.nbytes)
    except Exception as e: yield rows.failed('softmax', x, e)


def main(folder):
    made = rows.machine()
    print(f"{made['gpu']}, {made['date']}, torch {torch.__version__}\n{rows.HEAD}\n", flush=True)
    for piece in pieces(folder):
        for r in measure(piece, .1): print(softmax.line(r), flush=True)
        torch.cuda.empty_cache()


if __name__ == '__main__':
    if sys.argv[1] == 'compile': compile_all(Path(sys.argv[2]))
    else: main(Path(sys.argv[1]))
