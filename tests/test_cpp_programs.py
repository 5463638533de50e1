"""The programs of tests/cuda on the emulator: right ones run in silence and print what a GPU prints, wrong ones are
found on the line that they name."""
import json, os, re, shutil, tempfile, warnings
from functools import lru_cache
from pathlib import Path

import pytest

from gridstride import cpp, load_cuda
from gridstride.cpp import emulator
from gridstride.cpp.toolchain.build import CompileError, emulate_rewritten
from gridstride.cpp.toolchain.compilers import compiler, CPP_FOLDER
from gridstride.cpp.toolchain.cache import cpu_key, headers_hash, cached_result
from gridstride.cpp.frontend.edits import NotEmulated
from gridstride.cpp.load import EmulatorModule
from gridstride.cpp.program import run
from gridstride.cpp.rewriters.rewrite import to_cpp
from gridstride.diagnostics.errors import EarlyReturn, KernelError, OutOfMemory, RacecheckError
from gridstride.diagnostics.settings import CHECKS
from exhaustive import mark_exhaustive
from found import finding, warning
from warm import run_python

HERE = Path(__file__).parent/'cuda'
ORDERS = 'forward','reverse','shuffle'
recorded = json.loads((HERE/'h100.json').read_text())

def programs(kind): return [pytest.param(p, id=p.stem) for p in sorted((HERE/kind).glob('*.cu'))]

def name(path): return f'program_{path.stem}'

# Many programs in one compilation, because starting the compiler costs more than most of them

TOGETHER = 16
INCLUDE = re.compile(r'^#include <.*$', re.M)
MAIN = r"""
static int gs_main(int (*main)()) { return main(); }
static int gs_main(int (*main)(int, char **)) {
    char name[] = "program", *argv[] = {name, nullptr}; return main(1, argv);
}
"""

def ended(src):
    "The program with the `return` that only a `main` outside of all namespaces may leave out"
    return re.sub(r'^(int main\(.*\) \{)(.*)\}$|^(int main\(.*\) \{.*\n(?:[^}\n].*\n|\n)*)\}',
                  lambda m: f'{m[1]}{m[2]} return 0; }}' if m[1] else f'{m[3]}return 0; }}', src, flags=re.M)

def joined(paths):
    """The programs as one: each in a namespace, with its own file and lines; what they include comes before them, what
    one defines ends with it"""
    sources = {name(p): to_cpp(ended(p.read_text())) for p in paths}
    text = '\n'.join(dict.fromkeys(INCLUDE.findall('\n'.join(sources.values())))) + MAIN
    for nm,src in sources.items():
        undef = '\n'.join(f'#undef {o}' for o in re.findall(r'^ *# *define +(\w+)', src, re.M))
        text += (f'namespace {nm} {{\n#line 1 "{nm}.cu"\n{INCLUDE.sub("", src)}\n}}\n{undef}\n'
                 f'static int run_{nm}() {{ return gs_main({nm}::main); }}\nGRIDSTRIDE_EXPORT(run_{nm})\n')
    return text

@lru_cache
def compiled(kind, at, checks):
    "Without checks the first ones are optimised, as a user's are, and the others in half of the time that this takes"
    paths = sorted((HERE/kind).glob('*.cu'))[at:at+TOGETHER]
    nm = f'programs_{kind}_{at}'
    less = [] if checks or (kind, at) == ('same', 0) else ['-Og' if compiler().kind == 'gcc' else '-O1']
    asked = [p.read_text() for p in paths], Path(__file__).read_text(), less, checks, nm
    built = cached_result((*asked, compiler(), cpu_key(), headers_hash(CPP_FOLDER/'include')),
                       lambda: emulate_rewritten(joined(paths), nm, checks, less, extensions=('constexpr', 'lambda')))
    assert kind=='wrong' or not (built.folder/'log.txt').exists(), 'the compiler warns of a right program'
    return nm,built

class Programs(EmulatorModule):
    "Compiled programs, of which one is run"
    def __init__(self, built, name, checks, path):
        self.path = path
        super().__init__(built, name, {}, checks)
    def sources(self): return {f'{name(self.path)}.cu': self.path.read_text()}

def start(path, checks=CHECKS):
    "Run a program of `tests/cuda`; what its `main` returned"
    at = sorted(path.parent.glob('*.cu')).index(path)
    nm,built = compiled(path.parent.name, at - at%TOGETHER, bool(checks))
    emulator.load_runtime()
    with tempfile.TemporaryDirectory() as folder:      # a copy, so that its variables are new
        shutil.copy(built.folder/f'{nm}.so', folder)
        return getattr(Programs(built._replace(folder=Path(folder)), nm, checks, path), f'run_{name(path)}')()

def output(path, capfd, order='forward', checks=CHECKS, threads=0):
    "What the program prints; it must end well, without a warning but of too little memory, which some ask for"
    capfd.readouterr()
    with cpp.options(order=order, seed=3, seconds=30, threads=threads), warnings.catch_warnings():
        warnings.simplefilter('error')
        warnings.simplefilter('ignore', OutOfMemory)
        assert start(path, checks)==0
    return capfd.readouterr().out

def on_gpu(path):
    "What the program printed on a GPU"
    got = recorded[f'{path.parent.name}/{path.name}']
    assert got['rc']==0 and got['stable']
    return got['stdout']

@pytest.mark.parametrize('path', programs('same'))
def test_same_as_on_a_gpu(path, capfd):
    want = on_gpu(path)
    assert want
    for order in ORDERS: assert output(path, capfd, order)==want, order

SAME = programs('same')

@pytest.mark.parametrize('path', [*SAME[:TOGETHER], *map(mark_exhaustive, SAME[TOGETHER:])])
def test_without_checks_as_on_a_gpu(path, capfd):
    "Those of the first compilation, which is optimised as a user's are, each time"
    assert output(path, capfd, checks=(), threads=2)==on_gpu(path)

@pytest.mark.parametrize('args,want', json.loads((HERE/'boxes.json').read_text()).items())
def test_boxes_as_on_a_gpu(args, want, capfd):
    """Those that come and go have the same bytes; where the GPU stops with an illegal instruction,
    the emulator says which rule is broken"""
    def go(): return run((HERE/'boxes.cu').read_text(), 'boxes', args.split())  # one program for all, compiled once
    capfd.readouterr()
    if want.endswith('no error'):
        assert go()==0 and capfd.readouterr().out==want+'\n'
    else:
        with finding('memcheck box_misaligned|memcheck box_before'): go()

@pytest.mark.parametrize('path', programs('right'))
def test_right(path, capfd):
    want = on_gpu(path)
    assert 'cudaSuccess' in want
    for order in ORDERS: assert output(path, capfd, order)==want, order

def documented(path): return ''.join(re.findall(r'^//> (.*\n)', path.read_text(), re.M))

@pytest.mark.one_order
@pytest.mark.parametrize('path', programs('documented'))
def test_as_documented(path, order, capfd):
    "What has not run on a GPU yet prints what NVIDIA's documents say, which the first lines have"
    assert documented(path)
    assert output(path, capfd, order)==documented(path)

@pytest.mark.exhaustive
@pytest.mark.parametrize('path', programs('documented'))
def test_without_checks_as_documented(path, capfd): assert output(path, capfd, checks=(), threads=2)==documented(path)

@pytest.mark.slow
def test_kernels_launched_by_addresses_and_products_of_other_types(capfd):
    "Alone, because a kernel registers its address only in programs that launch by addresses"
    src = (HERE/'calls_by_address.cu').read_text()
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert run(src, 'calls_by_address')==0
    assert capfd.readouterr().out == ''.join(re.findall(r'^//> (.*\n)', src, re.M))

CLANG = {'07_misaligned_float4': 'clang does not look at the address of a struct that is copied',
         '87_read_and_not_used': 'clang moves the read after the guard'}

# Not stopped, as a GPU does not stop them: warnings, that name the line
WARNED = {'46_return_before_a_barrier': EarlyReturn, '88_return_before_the_grid': EarlyReturn}

@pytest.mark.parametrize('path', programs('wrong'))
def test_wrong(path):
    if path.stem in WARNED: return warned(path, WARNED[path.stem])
    if compiler().kind=='clang' and path.stem in CLANG: pytest.xfail(CLANG[path.stem])
    src = path.read_text()
    kind,lines = re.match(r'// expect: (\w+) line ([\d or]+)$', src.splitlines()[0]).groups()
    for order in ORDERS:
        with cpp.options(order=order, seed=3, seconds=30), pytest.raises(KernelError) as e: start(path)
        assert (e.value.kind, order)==(kind, order), e.value
        assert str(e.value.line) in lines.split(' or '), f'{order}: {e.value}'
        assert src.splitlines()[e.value.line-1].strip() in str(e.value) and e.value.file==f'{name(path)}.cu'

def warned(path, category):
    src = path.read_text()
    line = re.match(r'// expect: \w+ line (\d+)$', src.splitlines()[0])[1]
    for order in ORDERS:
        with cpp.options(order=order, seed=3), pytest.warns(category, match=f'^line {line} of '): assert start(path)==0

@pytest.mark.parametrize('launch,code',
    [('outer<<<1, 1>>>(x)', 'waits_in_kernel'), ('inner<<<1, 2000>>>(x)', 'block_size')])
def test_a_finding_is_reported_if_the_program_calls_exit(launch, code):
    src = ('#include <cstdlib>\n__global__ void inner(int *x) { *x = 1; }\n__global__ void outer(int *x) { '
           'inner<<<1, 1>>>(x); cudaDeviceSynchronize(); }\nint main() { int *x; cudaMalloc(&x, 4); %s; '
           'cudaDeviceSynchronize(); exit(0); }\n')
    with finding(f'launch {code}'): run(src % launch, 'program_exit')


NO_ROOM = '''#include <cstdio>
int main() {
    float *x, *y;
    size_t free, total;
    cudaMemGetInfo(&free, &total);
    cudaError_t e = cudaMalloc(&x, free - 1000), f = cudaMalloc(&y, 1001);
    printf("%s %s ", cudaGetErrorName(e), cudaGetErrorName(f));
    cudaMemGetInfo(&free, &total);
    printf("%zu %zu ", free, total);
    cudaFree(x);
    printf("%s\\n", cudaGetErrorName(cudaMalloc(&y, 1001)));
}
'''
def test_memory_that_the_device_has_not_is_refused(capfd, tmp_path):
    "In a process of its own nothing else is at that address"
    (tmp_path/'room.cu').write_text(NO_ROOM)
    done = run_python('-m', 'gridstride.cpp', tmp_path/'room.cu',
                      env={**os.environ, 'GRIDSTRIDE_DEVICE_MEMORY': '64 MB'})
    assert done.stdout == 'cudaSuccess cudaErrorMemoryAllocation 1000 67108864 cudaSuccess\n', done.stderr
    assert re.search('line 6: .* 1001 .* 67108864, 67107864 ', done.stderr)
    with cpp.options(memory='64M'), warning('out_of_memory', line=6, limit=67108864):
        assert run(NO_ROOM, 'room') == 0
    assert capfd.readouterr().out.split()[3] == '67108864'
    for wrong in '4X', '0', 'all':
        with pytest.raises(ValueError, match='512M'), cpp.options(memory=wrong): pass


LEFT = '''
static float *x;
void take() { cudaMalloc(&x, 4 << 20); }
double left() {
    size_t free, total;
    cudaMemGetInfo(&free, &total);
    return free;
}
void give() { cudaFree(x); }
'''
def test_nothing_is_left_of_a_device_that_has_become_too_small():
    m = load_cuda(LEFT)
    m.take()
    with cpp.options(memory='1M'): assert m.left() == 0
    m.give()


def test_what_the_machine_has_not_is_refused_by_itself(capfd):
    "Without checks the device may have what is free, with them an eleventh of it: the detectors take the rest"
    src = ('int main() { size_t f, t; cudaMemGetInfo(&f, &t); printf("%zu ", t); float *x; '
           'return cudaMalloc(&x, t + 1); }')
    sizes = []
    for checks in True, False:
        with pytest.warns(OutOfMemory): assert run(src, 'all', checks=checks) == 2
        sizes.append(int(capfd.readouterr().out))
    memory = os.sysconf('SC_PHYS_PAGES')*os.sysconf('SC_PAGESIZE')
    assert 2**28 <= sizes[0] <= sizes[1] <= 2**34 and sizes[1] <= memory
    free = sizes[1] if sizes[1] < 2**34 else memory     # no device has more than 16 GiB, however much is free
    assert sizes[0] == 2**28 or sizes[0] < free/8


def test_an_earlier_access_of_ptx_is_in_its_own_file(tmp_path):
    "Such an access is recorded without a code address"
    (tmp_path/'store.cuh').write_text("""#pragma once
__device__ inline void store(void *to, const void *from) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 16;"
                 :: "l"(to), "r"((unsigned)__cvta_generic_to_shared(from)) : "memory");
}
""")
    src = """#include "store.cuh"
__global__ void k(float *out) {
    __shared__ alignas(16) float s[4];
    for (int i = 0; i < 4; i++) s[i] = 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    store(out, s);
    asm volatile("cp.async.bulk.commit_group;");
}
int main() {
    float *out;
    cudaMalloc(&out, 16);
    k<<<1, 1>>>(out);
    return cudaDeviceSynchronize();
}"""
    with finding('racecheck store_not_awaited') as e: run(src, 'late', folder=tmp_path)
    assert (Path(e.value.file).name, e.value.line) == ('store.cuh', 3)


def test_a_program_starts_without_the_error_of_an_earlier_one():
    src = """int main(int n, char **) {
    void *p;
    return n > 1 ? cudaMalloc(&p, 1ull << 60) != cudaSuccess : cudaGetLastError();
}"""
    with pytest.warns(OutOfMemory): assert run(src, 'error_left', ['fail']) == 1
    assert run(src, 'error_left') == 0


def test_headers_see_that_the_runtime_is_included(tmp_path, capfd):
    "As those of NVIDIA's samples do, which declare their own helpers only then"
    (tmp_path/'helper.h').write_text('#ifdef __DRIVER_TYPES_H__\n#define SEEN 1\n#endif\n')
    src = '''#include <cuda_profiler_api.h>
#include "helper.h"
int main() {
    int mode = 7, major = 0;
    cudaProfilerStart();
    cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, 0);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    printf("%d %d %d\\n", SEEN, mode == cudaComputeModeDefault, major);
}
'''
    assert run(src, 'seen', folder=tmp_path) == 0
    assert capfd.readouterr().out.split() == ['1', '1', '9']


def test_pools_priorities_and_peers_as_on_one_gpu(capfd):
    src = '''__global__ void twice(int *x) { x[threadIdx.x] *= 2; }
void CUDART_CB add(void *p) { *static_cast<int *>(p) += 1; }
int main() {
    cudaMemPool_t pool;
    cudaStream_t s;
    int least, greatest, priority, can, x[] = {1, 2}, *d, calls = 0;
    unsigned long long threshold = 123, kept;
    cudaDeviceGetDefaultMemPool(&pool, 0);
    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold);
    cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept);
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest - 7);
    cudaStreamGetPriority(s, &priority);
    cudaMallocFromPoolAsync(&d, sizeof x, pool, s);
    cudaMemcpyAsync(d, x, sizeof x, cudaMemcpyHostToDevice, s);
    twice<<<1, 2, 0, s>>>(d);
    cudaMemcpyAsync(x, d, sizeof x, cudaMemcpyDeviceToHost, s);
    cudaLaunchHostFunc(s, add, &calls);
    cudaFreeAsync(d, s);
    cudaDeviceCanAccessPeer(&can, 0, 0);
    printf("%llu %d %d %d %d %d %d %d %s\\n", kept, least, greatest, priority, x[0], x[1], calls, can,
           cudaGetErrorName(cudaDeviceEnablePeerAccess(1, 0)));
    cudaGetLastError();                                     // or the next test in this process would see it
}
'''
    assert run(src, 'pools') == 0
    assert capfd.readouterr().out.split() == '123 0 -5 -5 2 4 1 0 cudaErrorInvalidDevice'.split()


BEYOND = '''#include <stdlib.h>
__global__ void outside(cudaSurfaceObject_t s) {
    surf2Dwrite(1.0f, s, 4 * threadIdx.x, 0);
}
__global__ void unwritten(cudaTextureObject_t t, float *out) {
    *out = tex1Dfetch<float>(t, 3);
}
__global__ void racing(cudaTextureObject_t t, float *x) {
    x[threadIdx.x] = threadIdx.x;
    if (threadIdx.x == 40) x[41] += tex1Dfetch<float>(t, 0);
}
__global__ void between_blocks(cudaTextureObject_t t, float *x, unsigned reader) {
    if (blockIdx.x == reader)
        x[threadIdx.x + 32] = tex1Dfetch<float>(t, threadIdx.x);
    else
        x[threadIdx.x] = 1;
}
__global__ void replaced(cudaTextureObject_t t, float *x) {
    x[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x);
}
int main(int, char **argv) {
    float *x, h[64] = {};
    cudaMalloc(&x, sizeof h);
    if (atoi(argv[1]) >= 2) cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    cudaResourceDesc r = {};
    cudaTextureDesc how = {};
    cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
    cudaMallocArray(&r.res.array.array, &desc, 4, 1, cudaArraySurfaceLoadStore);
    cudaSurfaceObject_t s;
    cudaTextureObject_t t;
    cudaCreateSurfaceObject(&s, &r);
    r = {};
    r.resType = cudaResourceTypeLinear, r.res.linear.devPtr = x, r.res.linear.sizeInBytes = sizeof h;
    r.res.linear.desc = desc;
    cudaCreateTextureObject(&t, &r, &how, nullptr);
    switch (atoi(argv[1])) {
        case 0: outside<<<1, 5>>>(s); break;
        case 1: unwritten<<<1, 1>>>(t, x); break;
        case 2: racing<<<1, 64>>>(t, x); break;
        case 3: try { outside<<<1, 5>>>(s); } catch (...) { abort(); }
            break;
        case 4: between_blocks<<<2, 32>>>(t, x, 0); break;
        case 5: between_blocks<<<2, 32>>>(t, x, 1); break;
        case 6: replaced<<<2, 32>>>(t, x); break;
        case 7: replaced<<<1, 64>>>(t, x);
    }
}
'''

@pytest.mark.parametrize('which,want,line',
    [(0, 'memcheck outside', 3), (1, 'initcheck', 6), (2, 'racecheck', 10),
     (3, 'memcheck outside', 3)])                        # even if the program catches it and aborts
def test_textures_and_surfaces_are_checked(which, want, line):
    with finding(want, line=line): run(BEYOND, 'beyond', [str(which)])


@pytest.mark.parametrize('which,lines', [(4, (16, 14)), (5, (14, 16)), (6, (19, 19))])
def test_races_with_texels_name_both_lines(which, lines):
    with pytest.raises(RacecheckError) as e: run(BEYOND, 'beyond', [str(which)])
    assert e.value.code == 'race_of_blocks' and (e.value.line, e.value.other.line) == lines


def test_a_thread_may_replace_the_texel_that_it_has_read():
    assert run(BEYOND, 'beyond', ['7']) == 0


@pytest.mark.parametrize('line,says', [
    ('cudaExternalMemory_t memory;', ' cudaExternalMemory_t: '),
    ('CUmodule module;', ' CUmodule: '),
    ('auto s = cuda::counting_semaphore<2>(1);', ' cuda::counting_semaphore'),
    # as most call their groups; g++ names the alias, clang what that stands for
    ('namespace cg = cuda; auto s = cg::annotated_ptr<int>();',
     {'gcc': ' cg::annotated_ptr', 'clang': ' cuda::annotated_ptr'}[compiler().kind]),
])
def test_what_is_missing_is_named_with_its_line(line, says):
    src = f'#include <cuda/pipeline>\nint main() {{\n    {line}\n}}\n'
    with pytest.raises(NotEmulated, match=says) as e: run(src, 'missing')
    assert f'line 3: {line}' in str(e.value)


def test_a_typo_is_not_a_missing_feature():
    with pytest.raises(CompileError, match='cudaMalloc'): run('int main() { int *p; cudaMaloc(&p, 4); }', 'slip')
