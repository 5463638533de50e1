"""Triton kernels that a checked run must leave alone, and others in which it must find what is wrong.

Files in `right` and `wrong` are plain Triton. A case is a function that makes its tensors, launches through the `go`
that it is given, and returns what came out beside what should have: pairs of (got, want), the reference in float64.

    @right(rtol=1e-6, why='one product, rounded once')
    def square(go):
        x, out = normal(1000), unwritten(1000)
        go(square_kernel, 8, x, out, 1000, BLOCK=128)
        return [(out, x.double()**2)]

`go(kernel, grid, *args, **meta)` is one of `RUNNERS`: checked, interpreted by Triton, compiled for an H100 and not run,
or run on a GPU. In a wrong case comments mark the lines that a finding may name, and say its kind (or its kinds, where
it depends on who looks first): `# memcheck`, `# racecheck`, `# initcheck`, `# assert`, `# launch`, `# refused` (Triton
does not compile it) and `# unseen: why` (nobody can tell it from what is meant).
"""
import importlib.util, inspect, re, sys, zlib
from functools import cache
from pathlib import Path
from typing import Callable, NamedTuple

import numpy as np, torch

HERE = Path(__file__).resolve().parent
KINDS = 'memcheck racecheck initcheck assert launch refused unseen'.split()
CASES = {'right': {}, 'wrong': {}}


class Case(NamedTuple):
    "One case of the corpus"
    name: str
    run: Callable  # go -> [(got, want), ...]
    file: str
    rtol: float = 0
    atol: float = 0
    why: str = ''  # why this tolerance holds


def right(rtol=0, atol=0, why=''):
    "A kernel that must run silently, its results within the tolerance"
    def keep(f):
        CASES['right'][f.__name__] = Case(f.__name__, f, inspect.getsourcefile(f), rtol, atol, why)
        return f
    return keep


def wrong(f):
    "A kernel in which something must be found: on the lines of its file that are marked, from the last case up to here"
    CASES['wrong'][f.__name__] = Case(f.__name__, f, inspect.getsourcefile(f), 1e-2, 1e-3)
    return f


@cache
def cases(side):
    "The cases of `right` or `wrong`, by name, in the order of files and lines"
    if str(HERE) not in sys.path: sys.path.insert(0, str(HERE))
    for path in sorted((HERE/side).glob('*.py')):
        spec = importlib.util.spec_from_file_location(f'tile_{side}_{path.stem}', path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    return CASES[side]


@cache
def marks(file):
    "(line, kinds, note) of the marked lines of a file"
    kind = f'(?:{"|".join(KINDS)})'
    found = enumerate(re.findall(rf'^.*?(?:# ({kind}(?: {kind})*)(?:: (.*))?)?$', Path(file).read_text(), re.M), 1)
    return [(n, set(kinds.split()), note) for n, (kinds, note) in found if kinds]


class Expected(NamedTuple):
    "What must be found in a wrong case"
    kinds: set
    lines: set
    note: str  # why no detector can see it


@cache
def ends(file):
    "name -> the line after each wrong case of a file, in their order"
    sources = {c.name: inspect.getsourcelines(c.run) for c in cases('wrong').values() if c.file == file}
    return {name: start + len(source) for name, (source, start) in sources.items()}


def expected(case):
    "What the marks above the case's end say"
    end = ends(case.file)[case.name]
    begin = max((e for e in ends(case.file).values() if e < end), default=0)
    mine = [m for m in marks(case.file) if begin <= m[0] < end]
    return Expected(set().union(*(m[1] for m in mine)), {m[0] for m in mine}, mine[0][2])


# Inputs and outputs

def seed(case): torch.manual_seed(zlib.crc32(case.name.encode()))

def normal(*shape, dtype=torch.float32): return torch.randn(*shape).to(dtype)

def unwritten(*shape, dtype=torch.float32):
    "An output: NaN, or a value that is never computed, so that an unwritten element shows"
    return torch.full(shape, float('nan') if dtype.is_floating_point else 77, dtype=dtype)

f16, bf16 = torch.float16, torch.bfloat16

def zeros(*shape, dtype=torch.float32): return torch.zeros(*shape, dtype=dtype)

def whole(high, *shape, dtype=torch.int32): return torch.randint(0, high, shape, dtype=dtype)

def cdiv(a, b): return -(a//-b)


def compare(case, pairs):
    "`AssertionError` that says where, if a result is not what it should be; what is whole must be equal"
    from gridstride.utils import check
    for got, want in pairs:
        if want.dtype.is_floating_point: check(got.double(), want.double(), rtol=case.rtol, atol=case.atol)
        else: check(got, want.to(got.dtype))


# Who runs a kernel

def grid_of(grid): return grid if isinstance(grid, tuple) or callable(grid) else (grid,)


def checked(kernel, grid, *args, **meta):
    "On the CPU, with every check"
    from gridstride import tile
    tile.checked(kernel)[grid_of(grid)](*args, **meta)


def interpreted(kernel, grid, *args, **meta):
    "By Triton's interpreter: in a process that was started with TRITON_INTERPRET=1"
    kernel[grid_of(grid)](*args, **meta)


def compiled(kernel, grid, *args, **meta):
    "Compiled for an H100 by Triton, to the cubin, and not run"
    pretend_an_h100()
    kernel.warmup(*args, grid=grid_of(grid), **meta)


def on_gpu(kernel, grid, *args, **meta):
    "By Triton on a GPU; tensors that share memory do so there, too"
    there = {}
    def moved(o):
        if hasattr(o, 'block_shape'): return type(o)(moved(o.base), o.shape, o.strides, o.block_shape)
        if isinstance(o, tuple): return tuple(map(moved, o))
        if not isinstance(o, torch.Tensor): return o
        s = o.untyped_storage()
        if s.data_ptr() not in there: there[s.data_ptr()] = s, s.cuda()
        gone, empty = there[s.data_ptr()][1], torch.empty(0, dtype=o.dtype, device='cuda')
        return empty.set_(gone, o.storage_offset(), o.size(), o.stride())
    kernel[grid_of(grid)](*map(moved, args), **{k: moved(v) for k, v in meta.items()})
    torch.cuda.synchronize()
    for here, gone in there.values(): here.copy_(gone.cpu())


RUNNERS = dict(checked=checked, interpreted=interpreted, compiled=compiled, cuda=on_gpu)


@cache
def pretend_an_h100():
    "Triton compiles for sm_90, without a driver"
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver
    driver.set_active(NoDriver(GPUTarget('cuda', 90, 32)))


class NoDriver:
    "What Triton asks of a driver before it compiles"
    def __init__(self, target): self.target = target
    def get_current_target(self): return self.target
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0
    def get_device_interface(self): return None
    def get_active_torch_device(self): return torch.device('cpu')
    def get_benchmarker(self): return lambda call, quantiles: (call(), [1., 1., 1.])[1]


# Triton's random generator, for references

def philox(seed, offset, word=0):
    "The 32 bits that `tl.randint4x(seed, offset)[word]` gives: Philox 4x32, 10 rounds (Salmon et al., 2011)"
    mask = np.uint64(0xffffffff)
    c = [np.asarray(offset, np.uint64) & mask, *(np.zeros(np.shape(offset), np.uint64) for _ in range(3))]
    k = [np.uint64(seed & 0xffffffff), np.uint64(seed >> 32)]
    for _ in range(10):
        b, a = c[2]*np.uint64(0xCD9E8D57), c[0]*np.uint64(0xD2511F53)
        c = [(b >> np.uint64(32)) ^ c[1] ^ k[0], b & mask, (a >> np.uint64(32)) ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + np.uint64(0x9E3779B9)) & mask, (k[1] + np.uint64(0xBB67AE85)) & mask]
    return c[word].astype(np.uint32)


def uniform(seed, offset):
    "What `tl.rand(seed, offset)` gives, in float32"
    i = philox(seed, offset).view(np.int32)
    return np.where(i < 0, -i - 1, i).astype(np.float32) * np.float32(4.6566127342e-10)
