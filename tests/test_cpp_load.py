"`load_cuda` without a GPU: what it takes and gives, what it says of every mistake, its cache and its compilers."
import os, re, shutil, signal, subprocess, sys, textwrap, time, warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np, pytest, torch

import warm
from gridstride import cpp
from gridstride.cpp.toolchain import build, cache, compilers, runtime_library
from gridstride.cpp import load_cuda
from gridstride.cpp.toolchain.build import CompileError
from gridstride.cpp.toolchain.compilers import CompilerMissing
from gridstride.cpp.lint.compile_errors import CompileWarning
from gridstride.cpp import NotEmulated
from gridstride.sim import cuda
from gridstride.diagnostics.errors import *
from exhaustive import mark_exhaustive
from found import finding, warning
from gridstride.utils import cuda_begin

REPO = Path(__file__).parent.parent
GREY = r'''
__global__ void grey_kernel(unsigned char *x, unsigned char *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 0.2989f * x[i] + 0.5870f * x[i + n] + 0.1140f * x[i + 2 * n];
}

torch::Tensor grey(torch::Tensor input) {
    CHECK_INPUT(input);
    int h = input.size(1), w = input.size(2);
    auto output = torch::empty({h, w}, input.options());
    grey_kernel<<<cdiv(h * w, 256), 256>>>(input.data_ptr<unsigned char>(), output.data_ptr<unsigned char>(), h * w);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return output;
}'''
MISTAKES = r'''
__global__ void past(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[i];
}
__global__ void before(const float *x, float *out) {
    int i = threadIdx.x;
    out[i] = x[i - 1];
}
__global__ void tile_past(float *out, int n) {
    __shared__ float s[4][8];
    int i = threadIdx.x;
    s[i + n][1] = 1;
}
__global__ void neighbour(const float *x, float *out) {
    __shared__ float s[64];
    int i = threadIdx.x;
    s[i] = x[i];
    out[i] = s[63 - i];
}
__global__ void across(float *out) {
    out[threadIdx.x] = blockIdx.x;
}
__global__ void counted(float *out) {
    out[0] += 1;
}
__global__ void hole(float *out) {
    __shared__ float s[4][8];
    int i = threadIdx.x;
    if (i < 31) s[i / 8][i % 8] = 1;
    __syncthreads();
    out[i] = s[i / 8][i % 8];
}
__global__ void copied(const float *x, float *out) {
    out[threadIdx.x] = x[threadIdx.x];
}
__global__ void branch(float *out) {
    if (threadIdx.x < 40)
        __syncthreads();
    out[threadIdx.x] = 1;
}
__global__ void same(float *out) {
    out[0] = 7;
}
__global__ void asserts(const float *x) {
    assert(x[threadIdx.x] >= 0);
}
__global__ void null(float *out) {
    float *p = nullptr;
    p[threadIdx.x] = 1;
}
__device__ int deeper(int n, volatile int *keep) {
    volatile int here[64];
    here[n % 64] = n;
    return n < 0 ? *keep : deeper(n + 1, here) + here[(n + 1) % 64];
}
__global__ void deep(float *out) { out[0] = deeper(0, nullptr); }
__global__ void divides(float *out, int by) {
    if (threadIdx.x == 2) out[0] = 7 / by;
}
__host__ __device__ void stop(int t) {
    if (t == 3) abort();
}
__host__ __device__ void leave(int code) {
    exit(code);
}
__global__ void aborts() {
    stop(threadIdx.x);
}
__global__ void leaves() {
    leave(3);
}
__global__ void endless(float *out) {
    while (((volatile float *)out)[0] == 0) {}
}
__global__ void outer(float *out) { out[threadIdx.x] = threadIdx.x; }
__global__ void lanes(int *out) {
    out[threadIdx.x] = __shfl_sync(0xffff, threadIdx.x, 0);
}
__global__ void orders(int *out) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = t * t;
    __syncthreads();
    atomicAdd(&out[blockIdx.x], s[31 - t]);
    out[2 + t + 32 * blockIdx.x] = __shfl_down_sync(~0u, s[t], 1) + blockIdx.x;
}
__global__ void prints(int n) {
    if (threadIdx.x < n) printf("thread %d\n", threadIdx.x);
}
#define P(x) x.data_ptr<float>()
void go_past(torch::Tensor x, torch::Tensor out) { past<<<2, 64>>>(P(x), P(out), 0); }
void go_before(torch::Tensor x, torch::Tensor out) { before<<<1, 64>>>(P(x), P(out)); }
void go_tile_past(torch::Tensor out, int n) { tile_past<<<1, 4>>>(P(out), n); }
void go_neighbour(torch::Tensor x, torch::Tensor out) { neighbour<<<1, 64>>>(P(x), P(out)); }
void go_across(torch::Tensor out) { across<<<2, 64>>>(P(out)); }
void go_counted(torch::Tensor out) { counted<<<1, 64>>>(P(out)); }
void go_hole(torch::Tensor out) { hole<<<1, 32>>>(P(out)); }
void go_copied(torch::Tensor out) { auto x = torch::empty_like(out); copied<<<1, 32>>>(P(x), P(out)); }
void go_branch(torch::Tensor out) { branch<<<1, 64>>>(P(out)); }
void go_same(torch::Tensor out) { same<<<1, 64>>>(P(out)); }
void go_asserts(torch::Tensor x) { asserts<<<1, 64>>>(P(x)); }
void go_null(torch::Tensor x) { null<<<1, 64>>>(P(x)); }
void go_deep(torch::Tensor x) { deep<<<1, 64>>>(P(x)); }
void go_divides(torch::Tensor x, int by) { divides<<<1, 4>>>(P(x), by); }
void go_aborts() { aborts<<<1, 64>>>(); }
void go_leaves() { leaves<<<1, 64>>>(); }
void go_endless(torch::Tensor x) { endless<<<2, 64>>>(P(x)); }
void go_lanes(torch::Tensor x) { lanes<<<1, 32>>>(x.data_ptr<int>()); }
void go_orders(torch::Tensor x) { orders<<<2, 32>>>(x.data_ptr<int>()); }
void go_prints(int n) { printf("host\n"); prints<<<1, 32>>>(n); cudaDeviceSynchronize(); puts("done"); }
void big_block(torch::Tensor x) { outer<<<1, 2048>>>(P(x)); }
void big_block_checked(torch::Tensor x) { outer<<<1, 2048>>>(P(x)); C10_CUDA_KERNEL_LAUNCH_CHECK(); }
void big_block_seen(torch::Tensor x) {
    outer<<<1, 2048>>>(P(x)); TORCH_CHECK(cudaGetLastError() != cudaSuccess, "no error");
}
void much_shared(torch::Tensor x) { outer<<<1, 32, 100 << 10>>>(P(x)); }
void no_threads(torch::Tensor x) { outer<<<0, 32>>>(P(x)); }
void host_null() { *(volatile int *)0 = 1; }
void host_zero(int by) { volatile int x = 7 / by; }
void host_abort() { abort(); }
void host_exit(int code) { exit(code); }
void host_throws() { throw std::runtime_error("thrown here"); }
void host_reads(torch::Tensor x) { volatile float y = P(x)[0]; }
void refuses(torch::Tensor x) { TORCH_CHECK(x.dim() == 2, "x has ", x.dim(), " dimensions, not 2"); }
'''

@pytest.fixture(scope='session')
def modules():
    "The same mistakes, checked and unchecked"
    return {checks: load_cuda(MISTAKES, cuda_begin, name='mistakes', checks=checks) for checks in (True,False)}

@pytest.fixture
def wrong(modules): return modules[True]

@pytest.fixture
def unchecked(modules): return modules[False]

def ramp(n): return torch.arange(float(n))

def line_of(text, src=MISTAKES): return src[:src.index(text)].count('\n')+1

def fails(error, f, *args):
    with pytest.raises(error) as e: f(*args)
    return e.value

# What is loaded

def test_the_lecture():
    m = load_cuda(cuda_begin + GREY)
    x = torch.randint(0, 256, (3,37,41), dtype=torch.uint8)
    want = (0.2989*x[0].float() + 0.5870*x[1].float() + 0.1140*x[2].float()).to(torch.uint8)
    got = m.grey(x)
    assert got.shape==(37,41) and got.dtype==torch.uint8 and (got.int()-want.int()).abs().max() <= 1
    assert m.grey(input=x).equal(got) and list(m.functions)==['grey']
    assert 'torch::Tensor grey(torch::Tensor input)' in m.grey.__doc__
    with pytest.raises(RuntimeError, match='input'): m.grey(x.transpose(1,2))
    with pytest.raises(TypeError, match='grey'): m.grey('x')

def test_packages_that_change_the_shared_python_functions():
    "Numba does so; tensors that C++ makes must be counted all the same"
    code = '''import ctypes, sys
import torch, weakref
from gridstride.cpp import load_cuda
for f in (ctypes.pythonapi.Py_IncRef, ctypes.pythonapi.Py_DecRef): f.argtypes = [ctypes.py_object]
f = load_cuda("#include <torch/extension.h>\\ntorch::Tensor twice(torch::Tensor x) { "
              "auto y = torch::empty_like(x); y.copy_(x + x); return y; }").twice
x = torch.randn(1000)
for _ in range(100):
    y = f(x)
    gone = weakref.ref(y)
    assert torch.equal(y, x+x) and sys.getrefcount(y)==2
    del y
    assert gone() is None
print("counted")'''
    assert said(python(code))=='counted\n'


def test_module():
    m = load_cuda(cuda_begin + GREY)
    assert m.__file__==str(Path(m.build_directory)/'grey.so') and Path(m.__file__).exists() and m.__name__=='grey'
    assert m.sources()['grey.cu']==GREY and '#line 1 "grey.cu"' in m.sources()['grey.cpp']
    assert compilers.compiler().path in m.command and '-c grey.cpp' in m.command and '-fsanitize=thread' in m.command
    assert load_cuda(cuda_begin + GREY).cached and load_cuda(cuda_begin + GREY).seconds==0
    with pytest.raises(AttributeError, match="'gray'.* grey$"): m.gray

def test_declarations_and_names(capsys):
    src = GREY.replace('grey','tone')
    m = load_cuda(src, cuda_begin + 'torch::Tensor tone(torch::Tensor input);', ['tone'], verbose=True, name='toned')
    assert list(m.functions)==['tone'] and m.__file__.endswith('toned.so') and m.sources()['toned.cu']==src
    out = capsys.readouterr().out
    assert '-c toned.cpp' in out and 'toned.so: ' in out
    load_cuda(src, cuda_begin + 'torch::Tensor tone(torch::Tensor input);', ['tone'], verbose=True, name='toned')
    again = capsys.readouterr().out
    assert 'toned.so' in again and not re.search(r'\d s$', again)

SEVERAL = r'''
#include <tuple>
#include <vector>
__global__ void twice(float *x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }
static int hidden(int a) { return a; }
inline int inlined(int a) { return a; }
template <class T> T any(T a) { return a; }
torch::Tensor doubled(torch::Tensor x) {
    auto y = x.clone(); twice<<<1, 32>>>(y.data_ptr<float>(), y.numel()); return y;
}
std::tuple<torch::Tensor, int> both(torch::Tensor x, int n = 5) {
    return {doubled(x), hidden(n) + inlined(0) + any(0)};
}
std::vector<torch::Tensor> many(torch::Tensor x) { return {x, doubled(x), doubled(doubled(x))}; }
int plus(int a, int b) { return a + b; }
'''

def test_several_functions():
    m = load_cuda(cuda_begin + SEVERAL)
    x = ramp(5)
    assert list(m.functions)==['doubled','both','many','plus'] and m.__name__=='doubled'
    y,n = m.both(x)
    assert y.equal(2*x) and n==5 and m.both(x, n=7)[1]==7 and m.plus(2, 3)==5
    assert [o.tolist() for o in m.many(x)]==[(x*k).tolist() for k in (1,2,4)] and isinstance(m.many(x), list)
    with pytest.raises(TypeError, match='plus'): m.plus(1)
    with pytest.raises(TypeError, match="plus.*'c'"): m.plus(1, c=2)

def test_chosen_functions_without_optimisation():
    m = load_cuda('int minus(int a, int b) { return plus(a, -b); }', cuda_begin + SEVERAL, ['minus','plus'], opt=False)
    assert sorted(m.functions)==['minus','plus'] and m.minus(5, 3)==2 and ' -O0 ' in m.command
    one = load_cuda('int minus(int a, int b) { return plus(a, -b); }', cuda_begin + SEVERAL, 'minus', opt=False)
    assert list(one.functions)==['minus'] and one.__name__=='minus'

@pytest.mark.parametrize('src,args,what', [
    (GREY, dict(funcs=['gray']), "'gray'.*: grey$"),
    (GREY, dict(funcs='grey_kernel'), "'grey_kernel'.*kernel"),
    (GREY, dict(name='grey image'), "'grey image'"), ('__global__ void k() {', {}, "'{'(.|\n)*line 1:"),
    ('__global__ void k() {}', {}, 'cuda_kernel'),])
def test_what_cannot_be_loaded(src, args, what):
    with pytest.raises(ValueError, match=what): load_cuda(src, **args)

# What does not compile

BAD = ('\n__global__ void k(float *x) {\n    x[0] = unknown_name;\n}\n'
       'void go(torch::Tensor x) { k<<<1, 1>>>(x.data_ptr<float>()); }\n')

@pytest.mark.parametrize('src,cpp_src,line,what', [
    (BAD, cuda_begin, 3, 'unknown_name'),
    (cuda_begin + BAD, None, 3, 'unknown_name'),
    (cuda_begin + BAD, '#include <vector>\n', 3, 'unknown_name'),
    ('int f(torch::Tensor x) {\n    CHECK_INPUT(y);\n    return 1;\n}', cuda_begin, 2, 'y'),
    ('#include <cuda/ptx>\nint f() { return 1; }', None, 1, 'inline PTX'),
    ('\n#include <cusolverDn.h>\nint f() { return 1; }', None, 2, 'cusolver'),
    ('#include "mine.h"\nint f() { return 1; }', None, 1, 'mine.h'),
    ('\n\nint f(torch::Tensor x) { return x.nonesuch(); }', cuda_begin, 3, 'nonesuch'),
    ('int f() {\n    return 1\n}', None, 2, 'expected')])
def test_compile_error(src, cpp_src, line, what):
    e = fails((CompileError,NotEmulated), load_cuda, src, cpp_src)
    assert re.search(what, str(e)) and f'line {line}' in str(e)
    if isinstance(e, CompileError):
        assert e.line==line and src.removeprefix(cuda_begin).splitlines()[line-1] in str(e) and e.log

def test_inline_ptx():
    src = 'int f() { return 1; }\n__global__ void k(int *x) {\n    asm("mov.u32 %0, %%gridid;" : "=r"(x[0]));\n}\n'
    e = fails(NotEmulated, load_cuda, src)
    assert 'inline PTX' in str(e) and '%%gridid' in str(e) and 'line 3' in str(e)
    for args in ((src, cuda_begin), (cuda_begin + src,)): assert str(fails(NotEmulated, load_cuda, *args))==str(e)

def test_a_bracket_counts_its_lines_from_the_learners_first():
    for args in (('int f() {\n  g(;\n}', cuda_begin), (cuda_begin + 'int f() {\n  g(;\n}',)):
        assert 'line 2: g(;' in str(fails(ValueError, load_cuda, *args))

def test_errors_are_not_cached():
    "The second time it is the same error"
    assert str(fails(CompileError, load_cuda, BAD, cuda_begin))==str(fails(CompileError, load_cuda, BAD, cuda_begin))

# What kernels do wrong, as the simulator for Python says it

@cuda.jit
def past(x, out, n):
    i = cuda.grid(1)
    out[i] = x[i]

@cuda.jit
def before(x, out):
    i = cuda.threadIdx.x
    out[i] = x[i - 1]

@cuda.jit
def tile_past(out, n):
    s = cuda.shared.array((4,8), np.float32)
    i = cuda.threadIdx.x
    s[i + n, 1] = 1

@cuda.jit
def neighbour(x, out):
    s = cuda.shared.array(64, np.float32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    out[i] = s[63 - i]

@cuda.jit
def across(out):
    out[cuda.threadIdx.x] = cuda.blockIdx.x

@cuda.jit
def counted(out):
    out[0] += 1

@cuda.jit
def hole(out):
    s = cuda.shared.array((4,8), np.float32)
    i = cuda.threadIdx.x
    if i < 31: s[i//8, i%8] = 1
    cuda.syncthreads()
    out[i] = s[i//8, i%8]

@cuda.jit
def copied(x, out):
    out[cuda.threadIdx.x] = x[cuda.threadIdx.x]

@cuda.jit
def branch(out):
    if cuda.threadIdx.x < 40:
        cuda.syncthreads()
    out[cuda.threadIdx.x] = 1


# name -> (Python's kernel, its grid and block, arguments, C's arguments, the line in C)
FOUND = dict(
    past=(past, (2,64), lambda: (np.arange(100, dtype='f4'), np.zeros(200, 'f4'), 0),
          lambda: (ramp(100), torch.zeros(200)), 'out[i] = x[i];'),
    before=(before, (1,64), lambda: (np.arange(64, dtype='f4'), np.zeros(64, 'f4')),
            lambda: (ramp(64), torch.zeros(64)), 'out[i] = x[i - 1];'),
    tile_past=(tile_past, (1,4), lambda: (np.zeros(64, 'f4'), 2), lambda: (torch.zeros(64), 2), 's[i + n][1] = 1;'),
    neighbour=(neighbour, (1,64), lambda: (np.arange(64, dtype='f4'), np.zeros(64, 'f4')),
               lambda: (ramp(64), torch.zeros(64)), ('s[i] = x[i];', 'out[i] = s[63 - i];')),
    across=(across, (2,64), lambda: (np.zeros(64, 'f4'),), lambda: (torch.zeros(64),),
            ('out[threadIdx.x] = blockIdx.x;',)*2),
    counted=(counted, (1,64), lambda: (np.zeros(1, 'f4'),), lambda: (torch.zeros(1),), ('out[0] += 1;',)*2),
    hole=(hole, (1,32), lambda: (np.zeros(32, 'f4'),), lambda: (torch.zeros(32),), 'out[i] = s[i / 8][i % 8];'),
    copied=(copied, (1,32), lambda: (cuda.device_array(32, 'f4'), cuda.to_device(np.zeros(32, 'f4'))),
            lambda: (torch.zeros(32),), 'out[threadIdx.x] = x[threadIdx.x];'),
    branch=(branch, (1,64), lambda: (np.zeros(64, 'f4'),), lambda: (torch.zeros(64),), '__syncthreads();'))

def text_of(line): return MISTAKES.splitlines()[line-1].strip()

def wording(e):
    "What happened, in the words that C and Python share"
    return re.sub(r'\W+', ' ', re.sub(r'\[(\d+), (\d+)\]', r'[\1][\2]', str(e).splitlines()[0]))

@pytest.mark.parametrize('name', FOUND)
def test_found_as_by_the_simulator(name, wrong):
    kernel,config,args,c_args,where = FOUND[name]
    want,got = fails(KernelError, kernel[config], *args()),fails(KernelError, getattr(wrong, f'go_{name}'), *c_args())
    assert (type(got),got.kind,got.kernel,got.array)==(type(want),want.kind,want.kernel,want.array)
    assert got.file=='mistakes.cu'
    assert str(got).splitlines()[1]==f'  line {got.line}: {text_of(got.line)}'
    if want.other: return compare_races(want, got, where)
    assert text_of(got.line)==where and got.other is None
    assert (got.block,got.thread)==(want.block,want.thread)
    # the compiler names one index
    if name=='tile_past':
        assert got.index==want.index[:1]==(4,) and re.search(r'float ?\[4\]\[8\]', got.fields['type'])
    elif name=='branch': assert wording(got).split(' is in ')[0].split(' has ')[0]==wording(want).split(' is in ')[0]
    else: assert got.index==want.index and wording(got)==wording(want)

def compare_races(want, got, where):
    "The same line; which of the racing threads are named depends on which runs first"
    assert sorted((text_of(got.line), text_of(got.other.line)))==sorted(where)
    assert sorted((got.block,got.other.block))==sorted((want.block,want.other.block))
    assert len(got.index)==len(want.index)
    assert (got.block,got.thread)!=(got.other.block,got.other.thread) and got.code==want.code
    assert f'against line {got.other.line}' in str(got)

def test_same_value_is_a_warning(wrong):
    with warning('same_value', line=line_of('out[0] = 7'), kernel='same', array='out', index=(0,)) as w:
        wrong.go_same(torch.zeros(2))
    assert len(w)==1 and w[0].filename==__file__

def test_a_warning_may_be_an_error(wrong):
    "Which cannot be raised through C++: it was lost, and Python wrote of an exception that it ignored"
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        with pytest.raises(SameValueRace): wrong.go_same(torch.zeros(2))
    with pytest.warns(SameValueRace): wrong.go_same(torch.zeros(2))

def test_assertion(wrong, unchecked):
    x = ramp(64)
    x[5] = -1
    for m in (wrong,unchecked):
        e = fails(DeviceAssert, m.go_asserts, x)
        assert 'x[threadIdx.x] >= 0' in str(e) and (e.thread,text_of(e.line))==((5,0,0), 'assert(x[threadIdx.x] >= 0);')
        m.go_asserts(ramp(64))

def test_lanes_and_masks(wrong):
    e = fails(SynccheckError, wrong.go_lanes, torch.zeros(32, dtype=torch.int32))
    assert '0xffff' in str(e) and e.thread==(16,0,0) and '__shfl_sync' in text_of(e.line)

CRASHES = [('go_null', (torch.zeros(64),), 'memcheck null_written|memcheck fault_null', 'p[threadIdx.x] = 1;'),
           ('go_deep', (torch.zeros(64),), 'crash stack', None),
           ('go_divides', (torch.zeros(4), 0), 'crash division', 'if (threadIdx.x == 2) out[0] = 7 / by;'),
           ('go_aborts', (), 'crash trap abort_called', 'if (t == 3) abort();'),
           ('go_leaves', (), 'crash exits|crash exits_in_kernel', 'exit(code);'),
           ('host_null', (), 'crash host_memory', None), ('host_zero', (0,), 'crash host_division', None),
           ('host_abort', (), 'crash trap abort_called', None), ('host_exit', (4,), 'crash exits', None)]

@pytest.mark.parametrize('checks', [True,False])
@pytest.mark.parametrize('name,args,want,where', CRASHES, ids=[o[0] for o in CRASHES])
def test_crash(name, args, want, where, checks, modules):
    with finding(want) as found: getattr(modules[checks], name)(*args)
    e = found.value
    assert text_of(e.line)==where if where else name not in ('host_null','host_exit') or name in text_of(e.line)
    assert (e.block is None)==name.startswith('host')
    assert modules[checks].go_same.__name__ and modules[checks].go_asserts(ramp(64)) is None # and life goes on

def test_host_errors(wrong, unchecked):
    for m in (wrong,unchecked):
        with pytest.raises(RuntimeError, match='thrown here'): m.host_throws()
        with pytest.raises(RuntimeError, match='^x .*1 .*2$'): m.refuses(ramp(3))
        with pytest.raises(RuntimeError, match='Float .*Double'):
            m.go_same(ramp(3).double())
    e = fails(MemcheckError, wrong.host_reads, ramp(3))
    assert e.code=='host_reads' and 'host_reads' in text_of(e.line)

def test_endless_loop(wrong, unchecked):
    for m in (wrong,unchecked):
        with cpp.options(seconds=.3): e = fails(KernelTimeout, m.go_endless, torch.zeros(3))
        assert isinstance(e, TimeoutError) and e.kernel=='endless' and '0.3 s' in str(e)
        assert text_of(e.line).startswith('while')
        m.go_asserts(ramp(64))

@pytest.mark.parametrize('name,code,facts', [
    ('big_block', 'block_size', dict(threads=2048)), ('big_block_checked', 'block_size', dict(threads=2048)),
    ('much_shared', 'dynamic_size', dict(bytes=102400)), ('no_threads', 'empty', dict(grid=(0,1,1)))])
def test_impossible_launch(name, code, facts, modules):
    for m in modules.values():
        x = torch.zeros(64)
        with finding(f'launch {code}', kernel='outer', **facts) as found: getattr(m, name)(x)
        e = found.value
        assert name in text_of(e.line)
        assert not x.any()
        assert isinstance(e, ValueError) and isinstance(e, RuntimeError)
        m.big_block_seen(x)         # reading the error clears it

# How it runs

def test_results_are_the_same_in_every_order(wrong, unchecked):
    t = np.arange(32)
    down = np.append(t[1:]**2, 31**2)
    want = np.concatenate([[(t**2).sum()]*2, down, down+1])
    for order in ('forward','reverse','shuffle'):
        for m in (wrong,unchecked):
            x = torch.zeros(66, dtype=torch.int32)
            with cpp.options(order=order, seed=5, threads=2): m.go_orders(x)
            np.testing.assert_array_equal(x, want)

def test_detectors_can_be_chosen(wrong):
    x = torch.zeros(64)
    with cpp.options(checks='none', threads=1): wrong.go_across(x)        # concurrent blocks may see zeros
    assert x.equal(torch.ones(64))
    with cpp.options(checks='memcheck,initcheck'):
        wrong.go_across(x)
        fails(MemcheckError, wrong.go_before, ramp(64), x)
    fails(RacecheckError, wrong.go_across, x)

def test_unchecked_code_cannot_harm(unchecked):
    x = torch.full((64,), np.nan)
    unchecked.go_across(x)                                  # blocks run concurrently, and which is last is random
    assert set(x.tolist()) <= {0, 1}
    unchecked.go_past(ramp(128), torch.zeros(128))

@pytest.mark.parametrize('args,what',
    [(dict(order='backward'), "order .*'backward'"), (dict(checks='memcheck,speed'), "checks .*'memcheck,speed'"),
     (dict(checks=''), "checks .*''"), (dict(threads=-1), 'threads .*-1'), (dict(seconds=0), r'seconds .*\b0'),
     (dict(seconds='long'), "seconds .*'long'"), (dict(seed=1.5), r'seed .*1\.5')])
def test_wrong_options(args, what):
    with pytest.raises(ValueError, match=what):
        with cpp.options(**args): pass

def test_options_end_with_their_block():
    def now():
        return [getattr(o, k) for o,k in ((cpp.emulator.settings, 'checks'), (cpp.emulator.settings, 'order'),
            (cpp.emulator.settings, 'seed'), (cpp.emulator.limits, 'threads'), (cpp.emulator.limits, 'seconds'))]
    before = now()
    with pytest.raises(ZeroDivisionError), cpp.options(order='reverse', checks='none', seconds=2, threads=1, seed=9):
        1/0
    assert now()==before

def test_printf_comes_in_order(wrong, capsys):
    print('before')
    wrong.go_prints(3)
    print('after')
    threads = [f'thread {i}' for i in range(3)]
    assert capsys.readouterr().out.split('\n')==['before', 'host', *threads, 'done', 'after', '']

def test_two_threads_of_python(wrong, unchecked):
    def work(m):
        for _ in range(40):
            x = torch.zeros(66, dtype=torch.int32)
            m.go_orders(x)
            fails(MemcheckError, m.go_null, torch.zeros(3))
            assert x[:2].tolist()==[10416]*2
        return True
    with ThreadPoolExecutor(2) as pool: assert all(pool.map(work, (wrong,unchecked)))

def python(code, **env):
    "Run `code` in a process of its own, with MISTAKES and GREY at hand"
    (env := {**os.environ, 'GRIDSTRIDE_BACKEND':'sim',
             'PYTHONPATH':os.pathsep.join([str(REPO), str(Path(__file__).parent)]), **env})
    code = 'from test_cpp_load import *\n' + textwrap.dedent(code)
    return warm.python('-c', code, env=env)

def said(process, timeout=600):
    out,err = process.communicate(timeout=timeout)
    assert process.returncode==0, err
    return out

@pytest.mark.parametrize('checks', [True,False])
def test_ctrl_c(checks, modules):
    p = python(f"""
        m = load_cuda(MISTAKES, cuda_begin, name='mistakes', checks={checks})
        m.go_asserts(ramp(64))
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        try:
            print('ready', flush=True)
            m.go_endless(torch.zeros(3))
        except KeyboardInterrupt: print('interrupted')
        m.go_asserts(ramp(64))
        print('and on')
        import time
        try:
            print('waiting', flush=True)
            time.sleep(60)
        except KeyboardInterrupt: print('again')""")
    for word in ('ready','waiting'):
        while (line := p.stdout.readline().strip())!=word: assert p.poll() is None or line
        time.sleep(.3) # for the kernel to start
        p.send_signal(signal.SIGINT)
    assert said(p)=='again\n'

ENDLESS = r'''
#include <torch/extension.h>
#include <chrono>
#include <thread>
#include <unistd.h>
__global__ void once(float *x) { x[0] += 1; }
int spins() {
    for (volatile int i = 0; ; ) i = i + 1;
}
int sleeps() {
    while (true) sleep(100);
}
int joins() {
    std::thread([] { while (true) std::this_thread::sleep_for(std::chrono::seconds(900)); }).join();
    return 0;
}
int prints() {
    while (true) printf(".");
}
int launches(torch::Tensor x) {
    while (true) once<<<1, 1>>>(x.data_ptr<float>());
}
int asks(torch::Tensor x) {
    while (true) x = x + x;
}
int ends() { return 7; }
'''

@pytest.mark.takes(15)
def test_ctrl_c_ends_host_code():
    "In the learner's own code, in a system call, in Python, between launches; then the process goes on"
    p = python("""
        import io, threading, time
        from contextlib import redirect_stdout
        sys.stdout.reconfigure(line_buffering=True)
        m, x = load_cuda(ENDLESS, checks=False), torch.zeros(3)
        def interrupt():
            global sent
            time.sleep(.3)
            sent = time.time()
            os.kill(os.getpid(), signal.SIGINT)
        def interrupted(name):
            try:
                threading.Thread(target=interrupt).start()
                with redirect_stdout(io.StringIO()): getattr(m, name)(*[x]*(name in ('launches', 'asks')))
            except KeyboardInterrupt as e: return str(e)
        for name in 'spins sleeps joins prints launches asks'.split():
            while not (message := interrupted(name)): pass      # the interrupt was too early: the call had not begun
            what, where = message.splitlines()
            print(name, what, where.split(': ')[0].strip(), time.time() - sent < 60, m.ends())
        os._exit(0) # without waiting for the thread that never ends""")
    want = dict(spins=8, sleeps=11, joins=14, prints=18, launches=21, asks=24)
    out = [f'{k} the host code was interrupted spins.cu, line {n} True 7' for k, n in want.items()]
    assert said(p).splitlines()==out

def test_ctrl_c_ends_a_program(tmp_path):
    main = 'int main() {\n    puts("ready");\n    for (volatile int i = 0; ; ) i = i + 1;\n}'
    (tmp_path/'endless.cu').write_text('#include <cstdio>\n' + main)
    command = [sys.executable, '-u', '-m', 'gridstride.cpp', str(tmp_path/'endless.cu')]
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPO)
    while (line := p.stdout.readline().strip())!='ready': assert p.poll() is None or line
    time.sleep(.3)
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=300)[1]
    assert p.returncode==130 and 'endless.cu, line 4' in err and 'Traceback' not in err

@pytest.mark.parametrize('checks', [True, mark_exhaustive(False)])
def test_a_process_that_is_forked_while_another_thread_launches(checks, modules):
    "The child launches, too, and ends; so does one that is forked while a long launch runs"
    p = python(f"""
        import threading
        m = load_cuda(MISTAKES, cuda_begin, name='mistakes', checks={checks})
        over = False
        def launches():
            x = torch.zeros(66, dtype=torch.int32)
            while not over: m.go_orders(x)
        def endless():
            with cpp.options(seconds=3):
                try: m.go_endless(torch.zeros(3))
                except KernelTimeout: pass
        def child():
            pid = os.fork()
            if pid: return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            signal.alarm(60)                                # a deadlock ends by this signal
            for _ in range(2): m.go_orders(x := torch.zeros(66, dtype=torch.int32))
            os._exit(x[0].item() != 10416)
        m.go_orders(torch.zeros(66, dtype=torch.int32))
        for f, n in ((launches, 12), (endless, 1)):
            t = threading.Thread(target=f)
            t.start()
            time.sleep(.3)
            print([child() for _ in range(n)])
            over = True
            t.join()""")
    assert said(p).splitlines()==[str([0]*12), '[0]']

# The cache and the compilers

@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    "A cache with nothing in it but the precompiled headers of the usual one, which has the runtime, too"
    runtime_library.runtime()
    headers = cache.cache_dir()/'headers'
    headers.mkdir(exist_ok=True)
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path/'cache'))
    (tmp_path/'cache').mkdir()
    (tmp_path/'cache/headers').symlink_to(headers)
    return tmp_path/'cache'

def compiled(folder): return [p for p in folder.iterdir() if p.name not in ('headers', 'includes', 'known')]

@pytest.mark.parametrize('folder', ["o'neil $(touch oh) `touch oh`", '/'.join(['x'*200]*8)])
def test_a_finding_has_its_line_wherever_the_cache_is(folder, own_cache, monkeypatch, tmp_path):
    "No shell reads the folder's name, and none is too long"
    monkeypatch.chdir(tmp_path)
    cache_of_that_name = tmp_path/folder
    cache_of_that_name.mkdir(parents=True)
    (cache_of_that_name/'headers').symlink_to((own_cache/'headers').resolve())
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(cache_of_that_name))
    src = f"""__device__ float at(float *x, int i) {{ return x[i]; }}   // {len(folder)}
__global__ void past(float *x) {{
    x[0] = at(x, 99);
}}"""
    with pytest.raises(MemcheckError) as e: cpp.cuda_kernel(src)[1,1](torch.zeros(3))
    assert e.value.line==1 and 'line 3' in str(e.value) and not (tmp_path/'oh').exists()

TINY = 'int tiny() { return 1; }'

def test_cache(own_cache):
    first = load_cuda(TINY)
    assert not first.cached and first.seconds>0 and first.build_directory.startswith(str(own_cache))
    second = load_cuda(TINY)
    assert second.cached and second.build_directory==first.build_directory and len(compiled(own_cache))==1
    other = load_cuda(TINY.replace('1', '2'))
    assert not other.cached and (first.tiny(),second.tiny(),other.tiny())==(1,1,2)
    assert not load_cuda(TINY, checks=False).cached and not load_cuda(TINY, opt=False).cached
    # nothing half done is left
    assert fails(CompileError, load_cuda, BAD, cuda_begin).line==3
    assert not [o for o in own_cache.iterdir() if '.' in o.name]

def test_what_a_source_became_is_looked_up(own_cache, monkeypatch):
    "Unless that is gone, or a warning must be repeated, or a header that is not ours may have changed"
    first,real,rewritten = load_cuda(TINY),build.to_cpp,[]
    monkeypatch.setattr(build, 'to_cpp', lambda src, **kw: rewritten.append(src) or real(src, **kw))
    again = load_cuda(TINY)
    assert again.cached and again.command==first.command and again.tiny()==1 and not rewritten
    for note in (own_cache/'known').iterdir(): note.write_text('half')
    assert load_cuda(TINY).cached and len(rewritten)==1
    shutil.rmtree(first.build_directory)
    assert not load_cuda(TINY).cached and len(rewritten)==2
    for n in (3,4):
        with pytest.warns(CompileWarning): load_cuda(DOUBTFUL, cuda_begin)
        assert len(rewritten)==n
    monkeypatch.chdir(own_cache)
    for n in (5,6):
        Path('mine.h').write_text(f'#define MINE {n}')
        assert load_cuda('#include "mine.h"\nint tiny() { return MINE; }').tiny()==n

def test_a_damaged_module_and_a_damaged_runtime_are_made_again(own_cache):
    "Loading what was cut off ended the process (SIGBUS)"
    runtime = runtime_library.runtime().parent
    shutil.copytree(runtime, own_cache/runtime.name)
    program = f"m = load_cuda({TINY!r}); print(m.tiny(), m.cached, m.__file__)"
    out = said(python(program, GRIDSTRIDE_CACHE=str(own_cache)))
    for cached in False, True:
        assert out.startswith(f'1 {cached} {own_cache}')
        if cached: os.truncate(out.split()[-1], 4096)
        out = said(python(program, GRIDSTRIDE_CACHE=str(own_cache)))
    assert out.startswith(f'1 False {own_cache}')
    again = 'from gridstride.cpp.toolchain import runtime_library; print(runtime_library.runtime().stat().st_size)'
    size = (own_cache/runtime.name/'libgridstride.so').stat().st_size
    (own_cache/runtime.name/'libgridstride.so').write_bytes(bytes(size))
    done = subprocess.run([sys.executable, '-c', f'{MAKES_ONE_COPY.format(str(runtime))}\n{again}'],
                          env=os.environ | dict(GRIDSTRIDE_CACHE=str(own_cache)), capture_output=True, text=True)
    assert (done.stdout, done.stderr)==(f'{size}\n', '')

MAKES_ONE_COPY = '''import shutil
from gridstride.cpp.toolchain import runtime_library
def copied(command, folder):
    shutil.copy({!r} + '/libgridstride.so', folder)
    return 0, ''
runtime_library._run_in_package = copied'''

def test_two_processes_fill_the_cache(own_cache):
    runtime = runtime_library.runtime().parent
    shutil.copytree(runtime, own_cache/runtime.name)
    both = [python("m = load_cuda(cuda_begin + GREY); print(int(m.grey(torch.full((3,4,4), "
                   "100, dtype=torch.uint8))[0,0]))", GRIDSTRIDE_CACHE=str(own_cache)) for _ in range(2)]
    assert [said(p) for p in both]==['99\n']*2
    assert len(compiled(own_cache))==2 # the runtime and the module

def test_what_many_need_is_made_by_one_while_others_wait(own_cache):
    make = ['sh', '-c', 'echo once >> ../log; sleep 1; echo all > made']
    code = ('from gridstride.cpp.toolchain.cache import build\n'
            f"print((build({{}}, [{make}], shared=True).folder/'made').read_text())")
    both = [subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)]
    assert [said(p) for p in both]==['all\n\n']*2 and (own_cache/'log').read_text()=='once\n'

def test_cache_that_cannot_be_written(tmp_path, monkeypatch, capfd):
    "Temporary files replace it; if these cannot be written either, an error reports it"
    monkeypatch.delenv('GRIDSTRIDE_QUIET')
    monkeypatch.setattr(cache.tempfile, 'tempdir', str(tmp_path))
    cache._reported_problems.cache_clear()
    (tmp_path/'file').write_text('')
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path/'file/cache'))
    done = cache.build({'a': 'b'}, [['cp', 'a', 'c']])
    assert (done.folder/'c').read_text()=='b' and done.folder.is_relative_to(tmp_path)
    assert 'file/cache' in capfd.readouterr().err
    def refused(**_): raise PermissionError(13, 'Permission denied')
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path))
    monkeypatch.setattr(cache.tempfile, 'mkdtemp', refused)
    with pytest.raises(RuntimeError, match='Permission denied.*GRIDSTRIDE_CACHE'):
        load_cuda(TINY)

@pytest.mark.parametrize('full', ['compiler', 'source'])
def test_a_full_disk_leaves_nothing_and_names_the_disk(tmp_path, monkeypatch, full):
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path/'cache'))
    monkeypatch.setattr(cache.tempfile, 'tempdir', str(tmp_path/'temporary'))
    (tmp_path/'temporary').mkdir()
    def no_space(*_): raise OSError(28, 'No space left on device')
    if full=='source': monkeypatch.setattr(Path, 'write_text', no_space)
    said = ['sh', '-c', 'echo "cc1plus: error: x.o: No space left on device"; exit 1']
    with pytest.raises(RuntimeError, match=f'{tmp_path}/cache.*GRIDSTRIDE_CACHE.*TMPDIR'):
        cache.build({'a': 'b'}, [said], fail=CompileError)
    assert [p for p in tmp_path.rglob('*') if p.is_file()]==[]

def test_a_compiler_that_is_too_old(tmp_path):
    old = tmp_path/'g++'
    old.write_text('#!/bin/sh\necho 4.8.5\n')
    old.chmod(0o755)
    out = said(python('try: load_cuda(TINY)\nexcept CompilerMissing as e: print(e)', PATH=str(tmp_path), CXX=''))
    assert re.search(rf'{re.escape(str(old))} .*\b4\b.*C\+\+17.*\b8\b', out)

def test_no_compiler(tmp_path, monkeypatch):
    out = said(python('try: load_cuda(TINY)\nexcept CompilerMissing as e: print(e)', PATH=str(tmp_path), CXX=''))
    assert 'CUDA C needs a C++ compiler' in out and ('apt install g++' in out or 'xcode-select' in out)
    monkeypatch.setenv('CXX', 'nonesuch++')
    with pytest.raises(CompilerMissing, match='nonesuch.*CXX'): load_cuda(TINY)

@pytest.mark.skipif(sys.platform == 'darwin', reason="macOS's linker does not link C++'s library by itself")
@pytest.mark.parametrize('there,shared', [('/usr/lib/libstdc++.so', True), ('libstdc++.so', False)])
def test_who_brings_the_library_of_cpp(tmp_path, monkeypatch, there, shared):
    "A compiler with no more than an archive of it put pieces into the runtime: a kernel that needs others did not load"
    script = f'#!/bin/sh\ncase "$*" in -print-file-name=libstdc++.so) echo {there};; *) exec g++ "$@";; esac\n'
    (tmp_path/'mine++').write_text(script)
    (tmp_path/'mine++').chmod(0o755)
    monkeypatch.setenv('CXX', str(tmp_path/'mine++'))
    assert ('-nodefaultlibs' in compilers.link_flags()) == shared

@pytest.mark.skipif(sys.platform == 'darwin', reason="macOS has no archive of C++'s library")
def test_pieces_of_an_archive_stay_inside(tmp_path, monkeypatch):
    "The runtime is open to all modules: its pieces of C++'s library made a later `import matplotlib` fail"
    mine = tmp_path/'mine++'
    mine.write_text('#!/bin/sh\ncase "$*" in -print-file-name=libstdc++.so) echo libstdc++.so;;\n'
                    '*-shared*) exec g++ "$@" -static-libstdc++ -static-libgcc;; *) exec g++ "$@";; esac\n')
    mine.chmod(0o755)
    made = runtime_library.runtime().parent  # compiled as it is here: only the linker differs
    monkeypatch.setenv('CXX', str(mine))
    _, (_, link), *_ = runtime_library._build_arguments('-fopenmp')
    for o in made.glob('*.o'): (tmp_path/o.name).symlink_to(o)
    status, log = runtime_library._run_in_package(link, tmp_path)
    assert not status, log
    lib = tmp_path/runtime_library._LIBRARY
    def names(*how): return subprocess.check_output(['nm', *how, '--defined-only', lib], text=True)
    assert '__cxa_throw' in names() and 'gridstride_finding' in names('-D') and '__cxa_throw' not in names('-D')

@pytest.mark.skipif(not sys.platform.startswith('linux') or not shutil.which('readelf'), reason='asks readelf')
def test_what_a_kernel_calls_and_looks_at_most_is_bound_when_it_is_loaded():
    "Without a version `expf` is the oldest, which sets errno; each look at threadIdx was a call"
    m = load_cuda('__global__ void k(float *x) { __syncwarp(); x[threadIdx.x] = expf(x[threadIdx.x]); }\n'
                  'void go(torch::Tensor x) { k<<<1, 32>>>(x.data_ptr<float>()); }', checks=False)
    def said(how): return subprocess.check_output(['readelf', how, '-W', m.__file__], text=True)
    assert re.search(r'\bexpf@GLIBC', said('--dyn-syms')) or not re.search('GLIBC', said('--dyn-syms'))
    looks = [o for o in said('-r').splitlines() if re.search(r'\bthreadIdx\b', o)]
    assert looks and not [o for o in looks if 'DTPMOD' in o or 'TLSDESC' in o], looks

@pytest.mark.skipif(not shutil.which('clang++'), reason='clang++ is not installed')
def test_clang():
    "The detectors, the crashes and some programs once more, with the other compiler"
    some = ('found_as or crash or assertion or same_value or endless or impossible or every_order or compile_error or '
            '16_tile or 27_bit or 34_relaxed or 47_not or 30_last or 37_never or 68_n_body or 21_half or '
            '30_cuda_barrier or 73_control or 19_release')
    here = Path(__file__).parent
    done = subprocess.run([sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', '-p', 'no:xdist', '-k',
                           f'({some}) and not clang', here/'test_cpp_load.py', here/'test_cpp_programs.py'],
                          env={**os.environ, 'CXX':'clang++', 'PYTHONPATH':str(REPO)}, cwd=REPO, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode==0 and int(re.search(r'(\d+) passed', done.stdout)[1]) >= 45, done.stdout[-4000:]


def test_a_function_may_be_called_at():
    m = load_cuda('__device__ int at(int i) { return 2*i; }\n__global__ void k(int *x) { '
                  'x[threadIdx.x] = at(threadIdx.x); }\nvoid f(torch::Tensor x) { k<<<1, 4>>>(x.data_ptr<int>()); }')
    x = torch.zeros(4, dtype=torch.int32)
    m.f(x)
    assert x.tolist() == [0, 2, 4, 6]
    assert load_cuda('at::Tensor same(at::Tensor x) { return x; }').same(x) is x

def test_special_functions_of_the_standard_library():
    "Which most sources are compiled without"
    m = load_cuda('double zeta(double s) { return std::riemann_zeta(s); }')
    assert m.zeta(2.) == pytest.approx(np.pi**2/6, rel=1e-14)  # a sum of a few dozen terms

WIDE = r"""std::string wide(int n) {
    std::wstring s = std::to_wstring(n) + L" " + std::to_wstring(2.5) + L" " + std::to_wstring(7ull);
    size_t end = 0;
    int sum = std::stoi(L"12") + std::stoll(L"-2") + (int)std::stod(L"1.5");
    sum += std::stoul(std::wstring(L"ff x"), &end, 16);
    return std::string(s.begin(), s.end()) + " " + std::to_string(sum + end);
}"""

def test_conversions_from_and_to_wide_strings():
    "By functions without which most sources are compiled"
    assert load_cuda(WIDE).wide(-5) == '-5 2.500000 7 268'

# What compiles, and is probably wrong

DOUBTFUL = '''__device__ int sign(int n) { if (n < 0) return -1; }
__global__ void k(float *x, int n) {
    float sum;
    if (n = 3) x[0] = 1;
    sum += sign(n);
    x[1] = sum;
}
void go(torch::Tensor x) { k<<<1, 1>>>(x.data_ptr<float>(), 3); }
'''

def test_suspicious_lines_are_reported_once():
    with pytest.warns(CompileWarning) as w: load_cuda(DOUBTFUL, cuda_begin, name=f'doubtful_{time.time_ns()}')
    said = '\n'.join(str(o.message) for o in w)
    assert [int(o) for o in re.findall(r'line (\d+): ', said)]==[1, 4, 5] and 'float sum;' not in said
    assert w[0].filename==__file__

def test_right_lines_are_not_reported():
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        load_cuda(GREY, cuda_begin, name=f'grey_{time.time_ns()}')


def test_names_of_functions_are_not_a_source():
    with pytest.raises(TypeError,
                       match=r"cpp_src .*list.*funcs=\['f', 'g'\]"):
        load_cuda('int f() { return 1; }', ['f'])
    with pytest.raises(TypeError, match='cuda_src .*list'): load_cuda(['int f() { return 1; }'])


BRACES = r'''
struct S { int a; float b; };
struct Q { int a[2]; };
static int calls;
int f() { return ++calls; }
template <class T> __global__ void k(T x, S s, T *out) { out[threadIdx.x] = x + s.a + s.b; }
namespace n { template <class T, int N = 2> __global__ void later(T *out, Q q); }
template <class T, int N> __global__ void n::later(T *out, Q q) { out[threadIdx.x] = q.a[0]*10 + q.a[1] + N; }
__global__ void o(S s, int *out) { out[threadIdx.x] = s.a; }
__global__ void o(S s, float *out) { out[threadIdx.x] = -s.a; }
template <class... T> __global__ void v(S s, int *out, T... more) { out[threadIdx.x] = s.a + (more + ... + 0); }
template <class T> void of_template(T *p, int m) { k<<<1, 3>>>(T(m), {f(), 2}, p); }
int run(int which) {
    int *p, res[3] = {};
    float *q;
    cudaMalloc(&p, 12);
    cudaMalloc(&q, 12);
    calls = 0;
    if (which == 0) k<<<1, 3>>>(5, {f(), 2}, p);
    if (which == 1) k<float><<<1, 3>>>(5, {f(), 2}, q), o<<<1, 3>>>({f(), 1}, p);
    if (which == 2) n::later<<<1, 3>>>(p, {{f(), f()}});
    if (which == 3) n::later<int, 7><<<1, 3>>>(p, {f()});
    if (which == 4) o<<<1, 3>>>({f(), 1}, q), o<<<1, 3>>>({f(), 1}, p);
    if (which == 5) v<<<1, 3>>>({f()}, p, 100, 1000);
    if (which == 6) of_template(p, 4);
    cudaMemcpy(res, p, 12, cudaMemcpyDeviceToHost);
    return res[0] == res[1] && res[1] == res[2] ? calls*10000 + res[2] : -1;
}
'''

def test_an_argument_in_braces_is_evaluated_once_per_launch():
    "As in C++, not once per thread, for a template or an overloaded kernel, too"
    run = load_cuda(BRACES).run
    assert [run(which) for which in range(7)] == [10008, 20002, 20014, 10017, 20002, 11101, 10007]


LARGE = r'''
__device__ float *kept;
__global__ void add_k(const float *x, float *y, int n) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i < n) y[i] += x[i];
}
__global__ void set_k(float *x, int i) { x[i] = 7; }
__global__ void keep_k(float *x) { kept = x; }
__global__ void use_k(float *out) { out[0] = kept[0]; }
void add(torch::Tensor x, torch::Tensor y) {
    int n = x.numel();
    add_k<<<cdiv(n, 256), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
}
void set(torch::Tensor x, int i) { set_k<<<1, 1>>>(x.data_ptr<float>(), i); }
void clear(torch::Tensor x) { cudaMemset(x.data_ptr<float>(), 0, 4 * x.numel()); }
void keep(torch::Tensor x) { keep_k<<<1, 1>>>(x.data_ptr<float>()); }
void use(torch::Tensor out) { use_k<<<1, 1>>>(out.data_ptr<float>()); }
void release(torch::Tensor x) { cudaFree(x.data_ptr<float>()); }
void share(torch::Tensor x) {
    cudaIpcMemHandle_t handle;
    cudaIpcGetMemHandle(&handle, x.data_ptr<float>());      // maps a file over its pages
    set_k<<<1, 1>>>(x.data_ptr<float>(), 1);
}
'''
LARGE_SIZE = (4 << 20) // 4 + 5              # elements, so that pages are guarded, and taken over by the next array


@pytest.mark.parametrize('checks', [False, True])
def test_large_arrays_contain_what_the_kernel_has_written(checks):
    m = load_cuda(cuda_begin + LARGE, checks=checks)
    for seed in range(3):                   # the pages of the first call are taken over by the second
        torch.manual_seed(seed)
        x,y = torch.randn(LARGE_SIZE),torch.randn(LARGE_SIZE)
        want,old = x + y,x.clone()
        m.add(x, y)
        assert y.equal(want) and x.equal(old)
    m.set(x, LARGE_SIZE - 1)                # one element of the last page
    assert x[-1] == 7 and x[:-1].equal(old[:-1])
    m.set(y[3:], 0)                         # through a view
    assert y[3] == 7 and y[:3].equal(want[:3]) and y[4:].equal(want[4:])
    m.clear(x)
    assert not x.any()


READ_ONLY = f'''
import mmap, sys, warnings
import torch
from gridstride.cpp import load_cuda
from gridstride.utils import cuda_begin
warnings.simplefilter('ignore')             # torch warns that the buffer is read-only
n = {LARGE_SIZE}
x,y = torch.frombuffer(mmap.mmap(-1, 4*n, prot=mmap.PROT_READ), dtype=torch.float32),torch.ones(n)
load_cuda(cuda_begin + {LARGE!r}, checks=sys.argv[1]=='True').add(x, y)
print(int(y.sum())==n and not x.any())
'''

@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='mmap.PROT_READ, and the way in which tests start')
@pytest.mark.parametrize('checks', [False, True])
def test_a_large_array_to_which_no_kernel_writes_is_not_copied_back(checks):
    "A copy to read-only memory would end the process"
    done = warm.run_python('-c', READ_ONLY, str(checks))
    assert done.stdout == 'True\n', done.stderr[-2000:]


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='memory is shared on Linux only')
def test_large_arrays_that_other_processes_may_open_are_copied_back():
    x = torch.zeros(LARGE_SIZE)
    load_cuda(cuda_begin + LARGE, checks=False).share(x)
    assert x[1] == 7 and x.count_nonzero() == 1


@pytest.mark.parametrize('index', [LARGE_SIZE + 64, -(1 << 16)])
def test_large_arrays_have_unmapped_gaps(index):
    "The first write to an array must not make more than its pages writable"
    m,x = load_cuda(cuda_begin + LARGE, checks=False),torch.zeros(LARGE_SIZE)
    with finding('memcheck'): m.set(x, index)
    assert not x.any()
    m.set(x, 0)
    assert x[0] == 7


@pytest.mark.parametrize('n', [5, LARGE_SIZE])
def test_a_tensor_whose_memory_host_code_frees_remains_unchanged(n):
    m,x = load_cuda(cuda_begin + LARGE, checks=False),torch.ones(n)
    m.release(x)
    assert bool((x == 1).all())


def test_freed_copies_of_large_arrays_are_inaccessible():
    m,x = load_cuda(cuda_begin + LARGE, checks=False),torch.zeros(LARGE_SIZE)
    m.keep(x)
    with finding('memcheck'): m.use(x)      # the address of the first call
    m.keep(x)
    m.add(torch.zeros(LARGE_SIZE), x)       # takes over the pages
    with finding('memcheck'): m.use(torch.zeros(1))
