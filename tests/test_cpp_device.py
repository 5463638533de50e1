"""The emulator's device library, compiled by every C++ compiler that is here, against a GPU's
results, NumPy's and PyTorch's."""
import platform, shutil, struct, subprocess

import numpy as np
import pytest
import torch

from gridstride.cpp.toolchain import compilers, runtime_library
from exhaustive import mark_exhaustive
from once import here, build_once, compile_errors

include = compilers.CPP_FOLDER/'include/cuda'
compilers = [c for c in ('g++', 'clang++') if shutil.which(c)]
assert compilers, 'g++ or clang++ is needed, as for the course'
native = '-march=native' if platform.machine() in ('x86_64', 'AMD64') else '-mcpu=native'
modes = {'plain':['-O1'], 'fused':['-O2', '-ffp-contract=fast', native]}  # fused: a*b + c may become one operation
both = [pytest.mark.parametrize('mode', [mark_exhaustive('plain'), 'fused']),
        pytest.mark.parametrize('compiler', compilers)]
def each(f): return both[0](both[1](f))

def command(compiler, *more):
    return [compiler, '-std=c++17', '-Wall', '-Wextra', '-Werror', '-fno-strict-aliasing', f'-I{include}',
            *map(str, more)]

def program(name, compiler, mode, *more):
    "The path of the program that a file of tests/cpp becomes"
    return build_once(compiler, command(compiler, *modes[mode], here/name, '-o', 'program', *more))/'program'

def table(text): return [l.split('\t') for l in text.splitlines()]
def output(path): return table(subprocess.run([path], check=True, capture_output=True, text=True).stdout)
def recorded(name): return table((here/name).read_text())

def test_a_compiler_is_here(): assert compilers

def ulps(a, b, dtype):
    "How many floats are between two of them"
    f,i = {'float':'fi', 'double':'dq'}[dtype]
    def place(x):
        n, = struct.unpack(i, struct.pack(f, float.fromhex(x)))
        return n if n >= 0 else -(n & (1 << 8*struct.calcsize(i)-1) - 1)
    return abs(place(a) - place(b))

@pytest.mark.slow
@each
def test_functions_give_what_a_gpu_gives(compiler, mode):
    got,want = output(program('device_values.cpp', compiler, mode)),recorded('device_values.txt')
    exact = [w for w in want if w[0]=='exact']
    assert len(exact) > 500 and [g[1] for g in got[:len(exact)]] == [w[1] for w in exact]
    assert [g[1] for g,w in zip(got, exact) if g != w] == []

@each
def test_functions_are_as_close_as_they_promise(compiler, mode):
    got,want = ([l for l in t if l[0]=='close']
                for t in (output(program('device_values.cpp', compiler, mode)), recorded('device_values.txt')))
    assert len(want) > 30 and [g[:4] for g in got] == [w[:4] for w in want]
    assert all(len(g)==len(w)==16 for g,w in zip(got, want))
    off = {f'{name} of {dtype}': max(ulps(a, b, dtype) for a,b in zip(g[4:], w[4:])) - int(promised)
           for g,w in zip(got, want) for _,promised,dtype,name in [w[:4]]}
    assert {name:o for name,o in off.items() if o > 1} == {}  # 1: the C library is off by an ulp, too

@pytest.mark.slow
@each
def test_threads_do_together_what_they_do_on_a_gpu(compiler, mode):
    lib = runtime_library.runtime()
    got,want = (output(program('device_threads.cpp', compiler, mode, '-Wno-psabi', lib, f'-Wl,-rpath,{lib.parent}')),
                recorded('device_threads.txt'))
    assert len(want) > 12 and got == want

@pytest.mark.slow
@pytest.mark.parametrize('compiler', compilers)
def test_detectors_find_nothing_where_all_is_right(compiler):
    lib,leave_out = runtime_library.runtime(),'tsan-instrument-func-entry-exit=0'
    watched = ['-fsanitize=thread', *(['-mllvm', f'-{leave_out}'] if 'clang' in compiler else [f'--param={leave_out}'])]
    compiled = command(compiler, '-O2', '-g1', '-DCHECKED', '-Wno-psabi', *watched, '-c', here/'device_threads.cpp',
                       '-o', 'threads.o')
    linked = [compiler, 'threads.o', '-o', 'threads', str(lib), f'-Wl,-rpath,{lib.parent}']
    assert output(build_once(compiler, compiled, linked)/'threads') == recorded('device_threads.txt')

def made(path, kind, operation, data, dtype):
    return np.frombuffer(
        subprocess.run([path, kind, operation], input=data.tobytes(), check=True, capture_output=True).stdout, dtype)
def half(bits): return bits.view(np.float16)
def brain(bits): return torch.from_numpy(bits.view(np.int16).copy()).view(torch.bfloat16)
def to_float(kind, bits): return half(bits).astype(np.float32) if kind=='half' else brain(bits).float().numpy()
def to_bits(kind, x):
    with np.errstate(over='ignore'):
        return (x.astype(np.float16).view(np.uint16) if kind=='half'
                else torch.from_numpy(x).bfloat16().view(torch.int16).numpy().view(np.uint16))
def same(kind, got, want):
    "Equal bits, or neither is a number"
    g,w = to_float(kind, got),to_float(kind, want)
    return np.all((got==want) | (np.isnan(g) & np.isnan(w)))

every = np.arange(65536, dtype=np.uint16)

@pytest.mark.slow
@pytest.mark.parametrize('kind', ['half', 'bfloat16'])
@each
def test_half_conversions(compiler, mode, kind):
    path = program('device_halves.cpp', compiler, mode)
    x,want = made(path, kind, 'widen', every, np.float32),to_float(kind, every)
    assert len(x)==65536 and np.all((x.view(np.int32)==want.view(np.int32)) | (np.isnan(x) & np.isnan(want)))
    x = np.unique(want[np.isfinite(want)].astype(np.float64))
    ties = ((x[1:] + x[:-1])/2).astype(np.float32)  # exact, and what rounding must decide on
    floats = np.concatenate([want, ties, np.nextafter(ties, np.float32(np.inf)),
        np.nextafter(ties, np.float32(-np.inf)), np.float32([65519.99, 65520, 1e-45, 3.4e38, -3.4e38, np.nan])])
    assert same(kind, made(path, kind, 'narrow', floats, np.uint16), to_bits(kind, floats))
    near = np.nextafter(ties.astype(np.float64), np.inf)  # a double that a float would take for the tie
    up = np.copysign(x[1:], near).astype(np.float32)
    assert same(kind, made(path, kind, 'narrow_double', near, np.uint16), to_bits(kind, up))

@pytest.mark.parametrize('kind', ['half', 'bfloat16'])
@each
def test_half_arithmetic_rounds_after_each_operation(compiler, mode, kind):
    pairs = np.random.default_rng(0).integers(0, 65536, (200_000, 2), dtype=np.uint16)
    pairs[::2, 1] = pairs[::2, 0] + pairs[::2, 1] % 4096  # of about the same size
    a,b = (to_float(kind, p.copy()) for p in pairs.T)
    with np.errstate(all='ignore'): want = {'add':a + b, 'sub':a - b, 'mul':a*b, 'div':a/b}
    for op,x in want.items():
        assert same(kind, made(program('device_halves.cpp', compiler, mode), kind, op, pairs, np.uint16),
                    to_bits(kind, x)), op

@pytest.mark.parametrize('source, says', [
    ('int f(int x) { return __shfl(x, 0); }', '__shfl_sync(mask, ...)'),
    ('int f(int x) { return __shfl_down(x, 1); }', '__shfl_down_sync(mask, ...)'),
    ('int f(int x) { return __ballot(x) + __any(x) + __all(x); }', '__ballot_sync(mask, ...)'),
    ('#include <cooperative_groups.h>\nvoid f() { '
     'cooperative_groups::tiled_partition<64>(cooperative_groups::this_thread_block()); }', ' warps'),
    ('#include <cuda/barrier>\nvoid f(cuda::barrier<cuda::thread_scope_device> &b) { b.arrive_and_wait(); }',
     'thread_scope_block'),
    ('struct S { float x[3]; }; float f(const S *s) { return __ldg(s).x[0]; }', '__ldg reads'),
    ('float f(float x) { return max(x, 0); }', 'ambiguous'),  # as nvcc finds it
    ('#include <cuda_fp16.h>\nfloat f(half x, float y) { return x * y; }', 'ambiguous'),
    ('float f(float *p) { return atomicMax(p, 1.0f); }', 'atomicMax'),
])
@pytest.mark.parametrize('compiler', compilers)
def test_missing_names_raise_a_clear_error(compiler, source, says):
    assert says in compile_errors(compiler, source)

headers = sorted(p for p in include.rglob('*') if p.is_file() and p.suffix in ('', '.h', '.hpp', '.cuh'))

@pytest.mark.slow
@pytest.mark.parametrize('compiler', compilers)
def test_headers_compile_together(compiler):
    there = [p for p in headers if '#error' not in p.read_text()]
    assert len(there) > 40
    names = [str(p.relative_to(include)) for p in there]
    sources = {f'{k}.cpp': ''.join(f'#include <{n}>\n' for n in v) for k, v in
               dict(forward=names, reverse=names[::-1]).items()}
    build_once(compiler, [command(compiler, '-fsyntax-only', o) for o in sources], sources=sources)

accesses = '''
#include <cuda_fp16.h>
extern "C" float reads(const float *p) { return __ldg(p); }
extern "C" void writes(float *p, float v) { __stcg(p, v); }
extern "C" void writes_two(float x, float *s, float *c) { sincosf(x, s, c); }
extern "C" void updates(half *p, half x) { *p += x; }
extern "C" void atomics(int *p) { atomicAdd(p, 1); }
extern "C" float shuffles(float x) { return __shfl_xor_sync(~0u, x, 1); }
'''

@pytest.mark.parametrize('compiler', compilers)
def test_detectors_see_the_accesses_that_are_the_callers(compiler):
    run = subprocess.run(command(compiler, '-O2', '-fsanitize=thread', '-S', '-x', 'c++', '-', '-o', '-'),
                         input='#include "emulator.h"\n' + accesses, capture_output=True, text=True, check=True)
    def calls(name):
        return (run.stdout.split(f'\n{name}:')[1].split(f'.size\t{name}')[0].count('__tsan_read'),
                run.stdout.split(f'\n{name}:')[1].split(f'.size\t{name}')[0].count('__tsan_write'))
    assert {name: calls(name) for name in ('reads', 'writes', 'writes_two', 'updates', 'atomics', 'shuffles')} == {
        'reads':(1,0), 'writes':(0,1), 'writes_two':(0,2), 'updates':(1,1), 'atomics':(0,0), 'shuffles':(0,0)}
