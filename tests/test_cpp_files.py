"Programs of several files, and files as other programs write them: headers, folders, byte order marks."
import os, re, shutil, warnings

import pytest
import torch

from gridstride.cpp import cuda_kernel, emulator, load_cuda
from gridstride.cpp.__main__ import main
from gridstride.cpp.toolchain.compilers import CompilerMissing, compiler
from gridstride.cpp.lint.compile_errors import CompileError
from gridstride.cpp.program import run
from gridstride.cpp.rewriters.rewrite import to_cpp
from gridstride.cpp.rewriters.variables import shared_variables
from gridstride.diagnostics.errors import KernelError
from warm import run_python


def write(folder, **files):
    "Write files whose names have `__` for a dot and `_of_` for a folder's slash"
    for name, text in files.items():
        path = folder/name.replace('_of_', '/').replace('__', '.')
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


DECLARED = 'extern __constant__ int tau; namespace deep { extern __device__ float w[], v[4]; }\n'


@pytest.mark.parametrize('files,want', [
    (dict(a='extern __device__ int x;', b='__device__ int x = 2;'), {'x': ''}),
    (dict(a=DECLARED, b='__constant__ int tau; namespace deep { __device__ float w[] = {1, 2}, v[4]; }'),
     {'tau': '', 'deep::w': '[2]', 'deep::v': '[4]'}),
    (dict(a='extern __device__ int x;', b='extern __device__ int x;'), {}),
    (dict(a='extern __device__ int x;', b='static __device__ int x; namespace { __device__ int x; }'), {}),
    (dict(a='extern __device__ int x; __device__ int x;', b='int y;'), {}),
    (dict(a='extern __device__ int x;', b='namespace other { __device__ int x; }'), {}),
])
def test_variables_that_several_files_share(files, want):
    assert dict(shared_variables(files)) == want


def test_a_file_of_the_host_reads_headers_as_they_are(tmp_path):
    "In the other files `free` of the same header becomes a function of the emulator"
    header = '#pragma once\n#include <cstdlib>\ninline void drop(void *p) { free(p); }\nint made();\n'
    main = '#include "util.h"\nint main() { drop(malloc(4)); return made(); }\n'
    gold = '#include "util.h"\nint made() { drop(malloc(4)); return %s; }\n'
    write(tmp_path, util__h=header)
    assert run(main, 'reads', folder=tmp_path, include=[tmp_path], units={'gold.cpp': gold % '7'}) == 7
    with pytest.raises(CompileError) as e:
        run(main, 'reads', folder=tmp_path, include=[tmp_path], units={'gold.cpp': gold % 'unknown'})
    assert 'gold.cpp, line 2: ' in str(e.value)


def test_a_variable_is_declared_with_the_bounds_of_its_definition():
    assert 'extern float gs_init_w[2]; GRIDSTRIDE_DECLARE_SYMBOL(' in to_cpp(
        'extern __device__ float w[];', shared=(('w', '[2]'),))


@pytest.mark.takes(20)
def test_extern_device_variables_mean_one_variable_in_all_files(tmp_path, capfd):
    "In a header that the defining file includes or not, in a namespace, of an unknown size, and without a header"
    names = '#pragma once\nextern __constant__ int tau;\nextern __constant__ int tau;\n' \
            'namespace deep { extern __device__ float w[]; extern __managed__ int m; }\n' \
            'extern __device__ const float c[2];\n'
    main = '#include <cstdio>\n#include "sub/names.h"\n__constant__ int tau;\n' \
           'extern __device__ int alone; void set();\n' \
           '__device__ float later[2]; __device__ const float c[2] = {7, 8};\n' \
           '__global__ void show() {\n' \
           '    printf("%d %g %d %d %g\\n", tau, deep::w[2], deep::m, alone, later[1]); alone = 9; }\n' \
           'int main() { int t = 3; cudaMemcpyToSymbol(tau, &t, sizeof t); set(); show<<<1, 1>>>();\n' \
           '    cudaDeviceSynchronize(); set(); }\n'
    other = '#include <cstdio>\n#include "sub/names.h"\n__device__ int alone = 4;\n' \
            'namespace deep { __device__ float w[3] = {1, 2, 3}; __managed__ int m; }\n' \
            'extern __device__ float later[2];\n' \
            '__global__ void put() { printf("%d %g %d\\n", tau, c[1], alone); later[1] = 6; }\n' \
            'void set() { deep::m = 5; put<<<1, 1>>>(); cudaDeviceSynchronize(); }\n'
    write(tmp_path, sub_of_names__h=names)
    assert run(main, 'shared', folder=tmp_path, include=[tmp_path], units={'other.cu': other}) == 0
    assert capfd.readouterr().out == '3 8 4\n3 3 5 4 6\n3 8 9\n'


HEAP = r"""
#include <cstdio>
#include <cstdlib>
struct Pool {
    int used = 4;
    __host__ __device__ void free(int n) { used -= n; }
    __host__ __device__ void twice() { free(1); this->free(1); }
};
struct Deep : Pool {
    int *p;
    __device__ void more() { free(1); }
    __device__ void out();
};
__device__ void Deep::out() { free(2); }
template <class T> struct Arena {
    T x;
    __device__ T *malloc(int n) { return &x + n; }
    __device__ T *get() { return malloc(0); }
};
namespace ns { __device__ int malloc(int n) { return n + 1; } __device__ int call() { return malloc(2); } }
struct Owner {
    int *p;
    __device__ Owner() { p = (int *)malloc(8); *p = 5; }
    __device__ ~Owner() { free(p); }
};
__device__ int apply(int (*free)(int), int x) { return free(x); }
__device__ int next(int x) { return x + 1; }
__global__ void members(int *out) {
    Pool p, *q = &p; p.free(1); q->free(1); q->Pool::free(1); out[0] = p.used;
    Deep d; d.more(); d.twice(); out[1] = d.used; d.out(); out[2] = d.used;
    Arena<int> a; a.x = 9; out[3] = *a.get(); out[4] = ns::malloc(1) + ns::call();
    { Owner o; out[5] = *o.p; }
    auto free = [=](int i) { return i * 2; }; out[6] = free(4); out[7] = apply(next, 3);
}
__global__ void heap(int *out) {
    int *p = (int *)malloc(4); *p = 3; out[8] = *p; free(p);
    p = (int *)std::malloc(4); *p = 4; out[9] = *p; std::free(p);
    p = (int *)::malloc(4); *p = 5; out[10] = *p; ::free(p);
}
__global__ void malloc(int *out, int n) { out[11] = n; }
__global__ void sin(int *out) { out[12] = 1; }
__global__ void exp(int *out, int n) { out[13] = n + int(exp(0.)); }
__global__ void exit(int *out) { out[14] = 3; }
__global__ void read(int *out) { out[15] = 4; }
__global__ void printf(int *out, int n) { out[16] = n; }
int main() {
    int *d, h[17]; cudaMalloc(&d, sizeof h);
    members<<<1, 1>>>(d); heap<<<1, 1>>>(d); malloc<<<1, 1>>>(d, 6);
    sin<<<1, 1>>>(d); exp<<<1, 1>>>(d, 1); exit<<<1, 1>>>(d); read<<<1, 1>>>(d); printf<<<1, 1>>>(d, 5);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    for (int i : h) printf("%d ", i);
    free(malloc(3)); std::free(std::malloc(3)); ::free(::malloc(3));
}
"""


@pytest.mark.takes(10)
def test_names_of_the_c_library_may_be_the_programs_own(capfd):
    "Members, variables and functions called free or malloc, and kernels that are called like functions of C"
    with emulator.options(order='forward'):
        assert run(HEAP, 'heap') == 0
    assert capfd.readouterr().out == '1 1 -1 9 5 5 8 4 3 4 5 6 1 2 3 4 5 '


ALL = '#pragma once\n#include "sub/inner.cuh"\n'
INNER = """#pragma once
namespace {
template <int T> __device__ void step(float *s) {
    if (threadIdx.x < T) {
        s[threadIdx.x] = 1;
        __syncthreads();
    }
}
}
template <int T> __global__ void k(float *x) {
    __shared__ float s[64];
    step<T>(s); x[threadIdx.x] = s[threadIdx.x];
}
__global__ void divide(int *out, int by) { out[0] = 7 / by; }
__global__ void races(float *x) { __shared__ float t[64]; t[threadIdx.x] = 1; x[threadIdx.x] = t[63 - threadIdx.x]; }
"""
LAUNCHES = {
    'k<32><<<1, 64>>>(x)': ('synccheck', 6, '__syncthreads();', 12),
    'divide<<<1, 1>>>((int *)x, 0)': ('crash', 14, 'out[0] = 7 / by;', None),
    'races<<<1, 64>>>(x)': ('racecheck', 15, '__shared__ float t[64];', None),
}


@pytest.mark.takes(15)
@pytest.mark.parametrize('in_units', [False, True])
def test_a_finding_in_a_header_names_the_header_and_its_own_line(tmp_path, in_units):
    "Also in a folder below, and with the lines as they were written"
    calls = ' '.join(f'if (n == {n}) {o};' for n, o in enumerate(LAUNCHES))
    launch = f'#include "all.cuh"\nvoid go(float *x, int n) {{ {calls} cudaDeviceSynchronize(); }}\n'
    main = ('#include <cstdlib>\nvoid go(float *, int);\nint main(int, char **argv) {\n'
            '    float *x; cudaMalloc(&x, 256); go(x, atoi(argv[1])); }\n')
    write(tmp_path, all__cuh=ALL, sub_of_inner__cuh=INNER)
    units = {'go.cu': launch} if in_units else {}
    for n, (kind, line, text, called) in enumerate(LAUNCHES.values()):
        with pytest.raises(KernelError) as e:
            run(main + ('' if in_units else launch), 'main', [str(n)], folder=tmp_path, include=[tmp_path], units=units)
        e = e.value
        assert (e.kind, e.file, e.line, e.call_line) == (kind, 'sub/inner.cuh', line, called)
        said = str(e)
        assert f'line {line} of inner.cuh: ' in said and text in said and 'gridstride::' not in said
        assert called is None or f'line {called} of inner.cuh: step<T>(s)' in said


def test_a_line_of_the_only_file_has_no_file_in_front():
    with pytest.raises(KernelError) as e:
        run('__global__ void k(int *x) { x[0] = 1 / x[1]; }\n'
            'int main() { k<<<1, 1>>>(nullptr); return cudaDeviceSynchronize(); }', 'alone')
    assert e.value.file == 'alone.cu' and 'line 1: ' in str(e.value)


def test_an_error_in_a_header_is_reported_at_its_line(tmp_path):
    bad = '#pragma once\n\nstatic float f(float x) { return x; }\nstatic missing_type_t table;\n'
    write(tmp_path, sub_of_bad__cuh=bad)
    with pytest.raises(CompileError) as e:
        run('#include <cstdio>\n\n#include "sub/bad.cuh"\nint main() {}\n', 'main', folder=tmp_path)
    assert (e.value.file, e.value.line) == ('sub/bad.cuh', 4) and 'static missing_type_t table;' in str(e.value)


SET_BY_CUDA = r"""
#include <cstdio>
#include "doubtful.h"
#define NEW(p, n) cudaMalloc(&p, n)
#define OK(x) if (x) return 1
struct Times { float ms; };
__device__ int symbol;
__global__ void k(float *x) {}
int main(int argc, char **) {
    float *a, *b; NEW(a, 4); OK(cudaMalloc((void **)&b, 4)); k<<<1, 1>>>(a); k<<<1, 1>>>(b);
    Times s; float ms; cudaEvent_t e, f; cudaEventCreate(&e); cudaEventCreate(&f);
    cudaEventRecord(e); cudaEventRecord(f); cudaEventElapsedTime(&s.ms, e, f); cudaEventElapsedTime(&(ms), e, f);
    int n, low, high, v, blocks; cudaGetDeviceCount(&n); size_t free, all; cudaMemGetInfo(&free, &all);
    cudaDeviceGetStreamPriorityRange(&low, &high); cudaDeviceGetAttribute(&v, cudaDevAttrWarpSize, 0);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, 32, 0);
    void *at; cudaGetSymbolAddress(&at, symbol);
    cudaArray_t array; cudaChannelFormatDesc d = cudaCreateChannelDesc<float>(); cudaMallocArray(&array, &d, 8, 8);
    float h[64] = {}; cudaMemcpy2DToArray(array, 0, 0, h, 32, 32, 8, cudaMemcpyHostToDevice); cudaFreeArray(array);
    return s.ms < 0 || ms < 0 || n < 1 || low < high || v != 32 || blocks < 1 || !at || free > all;
}
"""


@pytest.mark.takes(10)
def test_variables_that_cuda_sets_are_not_warned_of(tmp_path):
    write(tmp_path, doubtful__h='#pragma once\n')
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert run(SET_BY_CUDA, 'quiet', folder=tmp_path) == 0


@pytest.mark.takes(10)
def test_warnings_of_unset_variables_have_file_and_line(tmp_path):
    "By `python -m gridstride.cpp`, which no line of Python led to; the header's lines are named as such"
    own = 'static void fill(int *p, int n) { if (n > 3) *p = n; }\n'
    main = SET_BY_CUDA.replace('__global__ void k', f'{own}__global__ void k').replace(
        '    return s.ms', '    int y; fill(&y, argc); int z; n += z;\n    return y == 77 || s.ms')
    write(tmp_path, doubtful__h='#pragma once\ninline int g(int x) {\n    if (x = 3) return 1;\n    return 2;\n}\n',
          main__cu=main)
    ran = run_python('-m', 'gridstride.cpp', tmp_path/'main.cu')
    first = next(o for o in ran.stderr.splitlines() if 'CompileWarning' in o)
    line = main[: main.index('int y;')].count('\n') + 1
    said = re.findall(r'(\w+\.\w+), line (\d+): (.*)', ran.stderr)
    assert first.startswith(f'main.cu:{line}: ') and '<frozen' not in ran.stderr
    places = {(file, int(n)) for file, n, _ in said}
    assert ('main.cu', line) in places and ('doubtful.h', 3) in places
    assert all("'y'" in what or "'z'" in what for file, _, what in said if file == 'main.cu')


WARNED = r'''
#include "same.cuh"
__global__ void absent(int *out) {
    if (threadIdx.x < 16) {
        int v = __shfl_down_sync(0xffff, (int)threadIdx.x, 16);   // UndefinedLanes
        out[threadIdx.x] = v;
    }
}
__global__ void shifts(int *out, int by) {
    out[1] = 1 << by;                                             // UndefinedBehaviour
}
__global__ void sums(int *x) {
    int i = threadIdx.x;
    if (i >= 32) return;
    x[i] += 1;
    __syncthreads();                                              // EarlyReturn
    x[i] += 1;
}
int main() {
    int *p, *q;
    cudaMalloc(&p, 400);
    cudaMemset(p, 0, 400);
    cudaMalloc(&q, size_t(1) << 42);                              // OutOfMemory
    cudaGetLastError();
    same<<<1, 2>>>(p);
    absent<<<1, 32>>>(p);
    shifts<<<1, 1>>>(p, 40);
    sums<<<1, 64>>>(p);
    cudaDeviceSynchronize();
}
'''
SHOW_WARNINGS = '''import runpy, sys, warnings
warnings.showwarning = lambda message, category, file, line, *_: print(file, line, category.__name__)
runpy.run_module('gridstride.cpp', run_name='__main__')
'''
SAME = r'''#pragma once
__global__ void same(int *out) {
    out[0] = 1;                                                   // SameValueRace
}
'''


@pytest.mark.takes(10)
@pytest.mark.parametrize('outside', [False, True])
def test_warnings_of_a_program_name_its_file_and_line(tmp_path, outside):
    "Wherever it is run"
    write(tmp_path, warned__cu=WARNED, same__cuh=SAME)
    want = {('same.cuh' if 'SameValueRace' in text else 'warned.cu', n, text.split()[-1])
            for source in (WARNED, SAME) for n, text in enumerate(source.splitlines(), 1) if ' // ' in text}
    ran = run_python('-c', SHOW_WARNINGS, tmp_path/'warned.cu', cwd=None if outside else tmp_path)
    rows = [row.split() for row in ran.stdout.splitlines()]
    assert {(file, int(n), name) for file, n, name in rows} == want and len(want) == 5


MARKED = '\ufeff__global__ void put(int *x) {\r\n    x[0] = 1; \\\r\n}\r\n'
HOST = 'void go(torch::Tensor x) {\r\n    put<<<1, 1>>>(x.data_ptr<int>());\r\n}\r\n'


@pytest.mark.takes(15)
def test_byte_order_marks_and_line_ends_of_windows(tmp_path, capfd):
    "In a program, its headers and its other files, and in sources from Python"
    program = ('\ufeff#include <cstdio>\r\n#include "put.cuh"\r\nint three();\r\n'
               '#define PUT(x) \\\r\n    put<<<1, 1>>>(x)\r\n'
               'int main() {\r\n    int *d, h; cudaMalloc(&d, 4); PUT(d);\r\n'
               '    cudaMemcpy(&h, d, 4, cudaMemcpyDeviceToHost);\r\n'
               '    printf("%d %d\\n", h, three());\r\n}\r\n')
    write(tmp_path, put__cuh=MARKED, main__cu=program, more__cpp='\ufeffint three() { return 3; }\r\n')
    assert main([str(tmp_path/'main.cu'), str(tmp_path/'more.cpp')]) == 0
    assert capfd.readouterr().out == '1 3\n'
    with emulator.on_emulator():
        for launch in (cuda_kernel(MARKED)[1, 1], load_cuda(MARKED + HOST).go, load_cuda(HOST, MARKED).go):
            x = torch.zeros(1, dtype=torch.int32)
            launch(x)
            assert x.item() == 1


@pytest.mark.skipif(not (shutil.which('gcc') and shutil.which('g++')), reason='no gcc and g++ here')
def test_a_c_compiler_in_cxx_selects_the_cpp_compiler_next_to_it(monkeypatch):
    for name in ('gcc', shutil.which('gcc')):
        monkeypatch.setenv('CXX', name)
        assert os.path.basename(compiler().path) == 'g++'


def test_a_c_compiler_without_a_cpp_compiler_is_refused(monkeypatch, tmp_path):
    for name in ('gcc-99', 'clang'):
        (tmp_path/name).write_text('#!/bin/sh\necho 99')
        (tmp_path/name).chmod(0o755)
        monkeypatch.setenv('CXX', str(tmp_path/name))
        with pytest.raises(CompilerMissing, match=name): compiler()
