"`cuda_kernel`, `%%cuda` and `python -m gridstride.cpp` without a GPU."
import os, platform, re, sys, warnings
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np, pytest, torch

from gridstride import cpp
from gridstride.cpp import cuda_kernel, driver, kernel
from gridstride.cpp.toolchain.build import CompileError
from gridstride.cpp.lint.compile_errors import CompileWarning
from gridstride.cpp.frontend.tokens import WrongSource
from gridstride.cpp.kernel import Kernel, Kernels
from gridstride.diagnostics.errors import *
from found import finding
from gridstride.utils import check, dim3
from warm import run_python

REPO = Path(__file__).parent.parent
SRC = r'''
#include <cuda_fp16.h>
#include <stdint.h>
__device__ float squared(float x) { return x * x; }
__global__ void square(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = squared(x[i]);
}
__global__ void where(int *out) {
    int w = gridDim.x * blockDim.x, r = blockIdx.y * blockDim.y + threadIdx.y,
        c = blockIdx.x * blockDim.x + threadIdx.x;
    out[r * w + c] = 1000 * blockIdx.y + 100 * blockIdx.x + 10 * threadIdx.y + threadIdx.x;
}
template <typename T, int k> __global__ void times(T *x, int n) {
    int i = threadIdx.x;
    if (i < n) x[i] *= k;
}
__global__ void quads(const float4 *x, float4 *out) {
    float4 q = x[threadIdx.x];
    out[threadIdx.x] = make_float4(q.w, q.z, q.y, q.x);
}
__global__ void halves(const __half *x, half *out) { out[threadIdx.x] = __hadd(x[threadIdx.x], x[threadIdx.x]); }
__global__ void kinds(double *out, bool b, signed char i8, uint8_t u8, short i16, unsigned u32, long long i64, size_t n,
                      float f, double d) {
    double v[] = {double(b), double(i8), double(u8), double(i16), double(u32), double(i64), double(n), f, d};
    for (int i = 0; i < 9; i++) out[i] = v[i];
}
__global__ void turned(float *x) {
    extern __shared__ float s[];
    int n = blockDim.x, t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    x[t] = s[n - 1 - t];
}
__global__ void farthest(int *out, int n) {
    extern __shared__ int ints[];
    ints[n - 1] = 7;
    out[0] = ints[n - 1];
}
__global__ void next_to(int *out, int n) {
    __shared__ int own;
    extern __shared__ int t[];
    own = 7;
    t[n - 1] = own;
    out[0] = t[n - 1];
}
__global__ void maybe(const float *x, int *out) { out[0] = x == nullptr; }
__global__ void bytes(const unsigned char *x, bool *out) { out[threadIdx.x] = x[threadIdx.x] > 1; }
__global__ void off_by_one(const float *x, float *out, int n) {
    int i = threadIdx.x;
    if (i <= n) out[i] = x[i];
}
__global__ void races(float *out) { out[0] += threadIdx.x; }
struct Pair { double a, b; };
struct Item { int key; Pair pair; };
__global__ void structs(double *out) {
    __shared__ Item items[4];
    Item item = {1, {2, 3}};
    items[threadIdx.x] = item;
    Pair p = items[threadIdx.x].pair;     // 16 bytes at a multiple of 8
    out[threadIdx.x] = p.a + p.b;
}
extern __shared__ int of_the_file[];
__shared__ float tile_of_the_file[2][4];
__global__ void at_file_scope(int *out, int n) {
    of_the_file[threadIdx.x] = threadIdx.x;
    tile_of_the_file[threadIdx.x / 4][threadIdx.x % 4] = 1;
    __syncthreads();
    out[threadIdx.x] = of_the_file[n - threadIdx.x] + int(tile_of_the_file[1][n - 4]);
}
'''

@pytest.fixture(scope='session')
def k():
    plain = cuda_kernel(SRC, name=['square','where','quads','halves','kinds','turned','farthest','next_to','maybe',
                                   'bytes','off_by_one','races','structs','at_file_scope',
                                   'times<float, 3>','times<int, -2>'])
    assert isinstance(plain, Kernels)
    return plain

def fails(error, f, *args, **kwargs):
    with pytest.raises(error) as e: f(*args, **kwargs)
    return e.value

# What becomes of a source

def test_kernels_of_two_namespaces_have_their_own_parameters():
    k = cuda_kernel("""namespace a { __global__ void one(int *out) { *out = 1; } }
                       namespace b { __global__ void one(float *out, float x) { *out = x; } }""", ['a::one', 'b::one'])
    n, x = np.zeros(1, 'i4'), np.zeros(1, 'f4')
    k['a::one'][1,1](n)
    k['b::one'][1,1](x, 2.5)
    assert (n[0], x[0]) == (1, 2.5)

def test_one_kernel_and_several():
    one = cuda_kernel('__global__ void one(int *x) { x[threadIdx.x] = threadIdx.x; }')
    x = torch.zeros(4, dtype=torch.int32)
    one[1,4](x)
    assert isinstance(one, Kernel) and one.__name__=='one' and one.__doc__.startswith('__global__ void one(')
    assert x.tolist()==[0,1,2,3]
    two = cuda_kernel('__global__ void a(int *x) { x[0] = 1; }\n'
                      'namespace n { __global__ void name(int *x) { x[0] = 2; } }')
    two.a[1,1](x)
    two['name'][1,1](x[1:])
    assert list(two)==['a','name'] and x.tolist()==[1,2,2,3]
    assert re.search("'c'.* a, name", str(fails(AttributeError, lambda: two.c)))
    assert re.search(r'\(1, 1\).* a, name.*\.a\[grid, block\]', str(fails(KeyError, lambda: two[1,1])))
    assert 'NoneType' in str(fails(TypeError, cuda_kernel, None))

@pytest.mark.slow
def test_templates(k):
    x,i = torch.arange(4.),torch.arange(4, dtype=torch.int32)
    k['times<float, 3>'][1,4](x, 3)
    k['times<int, -2>'][1,4](i, 4)
    assert x.tolist()==[0,3,6,3] and i.tolist()==[0,-2,-4,-6]

@pytest.mark.parametrize('src,name,what', [
    ('int f() { return 1; }', None, '^no __global__ '),
    ('template <class T> __global__ void k(T *x) {}', None, r"name='k<float>'"),
    ('template <class T> __global__ void k(T *x) {}', 'k', r"^k .*name='k<float>'"),
    ('__global__ void k(int *x) {}', 'j', "'j'.*: k|'j'.* k$"),
    ('sums.cu', None, "'sums.cu'.*`__global__ void`")])
def test_what_is_not_a_kernel(src, name, what):
    with pytest.raises(ValueError, match=what): cuda_kernel(src, name)

def test_compile_error():
    e = fails(CompileError, cuda_kernel, '\n__global__ void k(float *x) {\n    x[0] = y;\n}')
    assert e.line==3 and str(e).startswith('k.cu, line 3:') and 'x[0] = y;' in str(e)

def test_not_to_be_called(k):
    assert 'square[grid, block](...)' in str(fails(LaunchError, k.square, 1))
    for wrong in (1, (1,2,3,4,5)): assert fails(LaunchError, lambda: k.square[wrong]).code=='brackets'

# Arguments

@pytest.mark.parametrize('n', [1,31,32,33,103])
def test_arrays_and_tensors(k, n):
    x = torch.randn(n)
    out,array = torch.full((n,), torch.nan),np.full(n, np.nan, np.float32)
    k.square[-(-n//32),32](x, out, n)
    k.square[-(-n//32),32](x.numpy(), array, np.int32(n))
    check(out, x*x)
    check(array, (x*x).numpy())

def test_vectors_and_halves(k):
    x = torch.arange(8.)
    out = torch.zeros(8)
    k.quads[1,2](x, out)
    assert out.tolist()==[3,2,1,0,7,6,5,4]
    h = torch.arange(4.).half()
    twice = torch.zeros(4, dtype=torch.half)
    k.halves[1,4](h, twice)
    k.halves[1,4](twice.numpy(), h.numpy())
    assert twice.tolist()==[0,2,4,6] and h.tolist()==[0,4,8,12]

def test_numbers(k):
    out = torch.zeros(9, dtype=torch.float64)
    values = [True, -128, 255, -32768, 2**32-1, -2**40, 2**40, .5, 1e300]
    k.kinds[1,1](out, *values)
    assert out.tolist()==values
    k.kinds[1,1](out, np.bool_(False), np.int8(5), np.uint8(6), 7, 8, np.int64(9), 10, 3, np.float32(.25))
    assert out.tolist()==[0,5,6,7,8,9,10,3,.25]

def test_none_and_bytes(k):
    out = torch.zeros(1, dtype=torch.int32)
    k.maybe[1,1](None, out)
    assert out.item()==1
    truth = torch.zeros(3, dtype=torch.bool)
    k.bytes[1,3](torch.tensor([0,2,1], dtype=torch.uint8), truth)
    assert truth.tolist()==[False,True,False]

X,F64,T = torch.zeros(4),torch.zeros(4, dtype=torch.float64),torch.zeros(4,4).t()
@pytest.mark.parametrize('name,args,what', [
    ('square', (X,X), 'arguments for square.*expected 3, got 2'),
    ('square', (X,F64,4),
     r'argument 2, .*out.*float32.*float64.*\.to\(torch\.float32\)'),
    ('square', (np.zeros(4),X,4),
     r'argument 1, .*x.*float32.*float64.*\.astype\(np\.float32\)$'),
    ('square', (X,torch.zeros(4,4)[:,:2],4), r'argument 2, .*contiguous.*\.contiguous\(\)'),
    ('square', (X,np.zeros((4,4),'f4').T[1:],4), r'argument 2, .*contiguous.*np\.ascontiguousarray'),
    ('square', (X.to_sparse(),X,4), r'argument 1, .*sparse.*\.to_dense\(\)'),
    ('square', (np.ma.zeros(4, 'f4'),X,4), r'argument 1, .*masked.*\.filled'),
    ('square', (X,np.zeros(4,'>f4'),4), r'argument 2, .*float32.*>f4'),
    ('square', (X,torch._neg_view(X),4), r'argument 2, .*negated.*\.resolve_neg\(\)'),
    ('square', (X,[1.,2.],2), r'argument 2, .* list\b.*torch.tensor'),
    ('square', (X,3,2), r'argument 2, .* int\b'),
    ('square', (X,X,4.), r'argument 3, int n, .*4\.0.*int\(\.\.\.\).*//'),
    ('square', (X,X,2**31), 'argument 3, int n, .*2147483648'),
    ('square', (X,X,torch.tensor(4)), r'argument 3, .*Tensor.*\(\).*\.item\(\)'),
    ('square', (X,X,'4'), r'argument 3, .* str\b'),
    ('square', (X,X,None), r'argument 3, .* NoneType\b'),
    ('square', (X.to('meta'),X,4), r"argument 1, .*meta.*\.to\('cpu'\)"),
    ('kinds', (F64,True,200,0,0,0,0,0,0,0), 'argument 3, .*i8, .*200'),
    ('kinds', (F64,True,0,-1,0,0,0,0,0,0), 'argument 4, .*u8, .*-1')])
def test_wrong_arguments(k, name, args, what):
    assert re.search(what, str(fails(LaunchError if 'arguments' in what else TypeError, k[name][1,4], *args)))
    assert not X.any()

@pytest.mark.parametrize('wrong', [(1.,32), (1,32.), ((1.,1),32), (1,(32,1.))])
def test_a_float_is_not_a_size_even_if_an_equal_integer_was_one(k, wrong):
    k.square[1,32](X, torch.zeros(4), 4)
    k.square[(1,1),(32,1)](X, torch.zeros(4), 4)
    assert fails(LaunchError, k.square[wrong], X, torch.zeros(4), 4).code=='sizes'

@pytest.mark.parametrize('params,what', [
    ('float &x', '^k .*float & x, .*pointer'),
    ('const float &x, int n', '^k .*const float & x.*pointer'),
    ('int n, std::vector<float> x', '^k .*std::vector<float> x, .*pointer'),
    ('const CUtensorMap x', 'CUtensorMap x of k.*const __grid_constant__ CUtensorMap x')])
def test_parameters_that_python_cannot_give(params, what):
    src = f'#include <vector>\n__global__ void k({params}) {{}}'
    assert re.search(what, str(fails(ValueError, cpp.cuda_kernel, src)))

@pytest.mark.parametrize('src', [
    '__global__ void k() {', '__global__ void k( {}', '__global__ void k() {} /* no end', 'int f() { return 1; }',
    'template <class T> __global__ void k(T *x) {}', '__global__ void k(float &x) {}',
    '__global__ void k() {}\n__global__ void k() {}'])
def test_a_wrong_source_is_shown_without_the_packages_inside(src):
    with pytest.raises(WrongSource) as e: cpp.cuda_kernel(src)
    assert hasattr(e.value, '_render_traceback_')

def test_a_path_is_not_a_source(tmp_path):
    assert '.read_text()' in str(fails(TypeError, cpp.cuda_kernel, tmp_path/'k.cu'))

# Launches

@pytest.mark.parametrize('grid,block',
    [((2,3),(4,2)), (dim3(2,3),dim3(4,2)), ((2,3,1),(4,2,1)), ([2,3],[4,2]), (torch.Size((2,3)),(4,2))])
def test_grid_and_block(k, grid, block):
    out = torch.full((6,8), -1, dtype=torch.int32)
    k.where[grid, block](out)
    r,c = np.indices((6,8))
    np.testing.assert_array_equal(out, 1000*(r//2) + 100*(c//4) + 10*(r%2) + c%4)

def test_integers_for_grid_and_block(k):
    out = torch.full((8,), -1, dtype=torch.int32)
    k.where[2, 4](out)
    k.where[np.int64(2), 4, None](out)
    k.where[2, 4, None, 0](out)
    assert out.tolist()==[0,1,2,3,100,101,102,103]

@pytest.mark.parametrize('next_to',
    ['', '__shared__ int one;', '__shared__ __align__(128) float row[64]; row[threadIdx.x] = 0;'])
def test_dynamic_shared_memory_that_the_launch_forgot(next_to):
    "Whatever other arrays the block has: no index of theirs is named"
    k = cuda_kernel(f'__global__ void k(int *out) {{ extern __shared__ int all[]; {next_to} all[threadIdx.x] = 1; '
                    f'out[threadIdx.x] = all[threadIdx.x]; }}')
    for bytes,code,index in (0, 'no_dynamic', None),(64, 'outside_dynamic', (16,)):
        with finding(f'memcheck {code}', index=index) as e: k[1,32,None,bytes](torch.zeros(32, dtype=torch.int32))
        assert '<<<grid, block, bytes>>>' in e.value.hint

def test_dynamic_shared_memory(k):
    x = torch.arange(70.)
    k.turned[1,70,None,70*4](x)
    assert x.equal(torch.arange(70.).flip(0))
    e = fails(MemcheckError, k.turned[1,70,None,69*4], torch.arange(70.))
    assert (e.code,e.array,e.index,e.thread)==('outside_dynamic', 's', (69,), (69,0,0))
    fails(MemcheckError, k.turned[1,70], x)

def test_shared_memory_at_file_scope(k):
    "A second launch meets it, too"
    out = torch.zeros(8, dtype=torch.int32)
    for order in ('forward','reverse'):
        with cpp.options(order=order): k.at_file_scope[1,8,None,32](out.zero_(), 7)
        assert out.tolist()==[8,7,6,5,4,3,2,1]
        e = fails(MemcheckError, k.at_file_scope[1,8,None,32], out, 8)
        assert e.array in ('of_the_file','tile_of_the_file') and e.code.startswith('outside')

def test_structs_of_doubles(k):
    k.structs[1,4](out := torch.zeros(4, dtype=torch.float64))
    assert out.tolist()==[5]*4

def test_much_shared_memory(k):
    out = torch.zeros(1, dtype=torch.int32)
    for kb in (48,49,100,227):
        k.farthest[1,1,None,kb*1024](out.zero_(), kb*256)
        assert out.item()==7
    k.next_to[1,1,None,48*1024](out.zero_(), 48*256)         # with static memory more than what needs no leave
    assert out.item()==7
    e = fails(LaunchError, k.farthest[1,1,None,227*1024+4], out, 1)
    assert e.code.startswith('dynamic') and e.fields['bytes']==227*1024+4

@pytest.mark.parametrize('grid,block,code',
    [(1,1025,'block_size'), ((1,1,65536),1,'grid_size'), (1,(1,1,65),'block_size'), (0,1,'empty'), (1,-1,'empty'),
     ('a',1,'sizes'), (1,(1,2,3,4),'sizes')])
def test_impossible_launch(k, grid, block, code):
    e = fails(LaunchError, k.farthest[grid,block], torch.zeros(1, dtype=torch.int32), 1)
    assert (e.code, e.kernel)==(code, 'farthest')

def test_detectors(k):
    e = fails(MemcheckError, k.off_by_one[1,8], torch.zeros(4), torch.zeros(8), 4)
    assert (e.kernel,e.array,e.index,e.thread,e.file)==('off_by_one', 'x', (4,), (4,0,0), 'square.cu')
    assert SRC.splitlines()[e.line-1].strip()=='if (i <= n) out[i] = x[i];'
    assert fails(RacecheckError, k.races[1,8], torch.zeros(1)).array=='out'
    loose = cuda_kernel('__global__ void races(float *out) { out[0] += threadIdx.x; }', checks=False)
    loose[1,8](x := torch.zeros(1))
    assert x.item()==28 and '-fsanitize=thread' not in str(loose.build_result.commands)
    with cpp.options(checks='none'): k.races[1,8](x.zero_())
    assert x.item()==28

# %%cuda

@pytest.fixture
def shell(ipython):
    ipython.run_line_magic('load_ext', 'gridstride.cpp')
    return ipython

def test_magic_kernels(shell):
    shell.run_cell_magic('cuda', '', '__global__ void add(int *x, int n) { x[threadIdx.x] += n; }\n'
                                     '__global__ void sub(int *x, int n) { x[threadIdx.x] -= n; }')
    shell.user_ns.update(x=torch.zeros(3, dtype=torch.int32))
    assert shell.run_cell('add[1,3](x, 5); sub[1,2](x, 1)').success and shell.user_ns['x'].tolist()==[4,4,5]

def test_magic_host_functions(shell):
    cell = ('__global__ void twice(float *x) { x[threadIdx.x] *= 2; }\ntorch::Tensor doubled(torch::Tensor x) { '
            'CHECK_INPUT(x); auto y = x.clone(); twice<<<1, x.numel()>>>(y.data_ptr<float>()); return y; }')
    shell.run_cell_magic('cuda', '', cell)
    assert shell.user_ns['doubled'](torch.ones(3)).tolist()==[2,2,2]
    shell.run_cell_magic('cuda', 'mine', cell)
    assert shell.user_ns['mine'].doubled(torch.ones(3)).tolist()==[2,2,2] and shell.user_ns['mine'].__name__=='mine'

def test_magic_program(shell, capsys):
    cell = ('#include <cstdio>\n__device__ int n = 1;\n__global__ void k() { n++; printf("n is %d\\n", n); }\n'
            'int main() { puts("hello"); k<<<1, 1>>>(); cudaDeviceSynchronize(); return 3; }')
    for _ in range(2): # each time with variables as new
        assert shell.run_cell_magic('cuda', '', cell)==3
        assert capsys.readouterr().out=='hello\nn is 2\n'

def test_magic_unchecked(shell):
    cell = '__global__ void races(float *out) { out[0] += threadIdx.x; }'
    shell.user_ns.update(x=torch.zeros(1))
    shell.run_cell_magic('cuda', '', cell)
    assert isinstance(shell.run_cell('races[1,8](x)').error_in_exec, RacecheckError)
    shell.run_cell_magic('cuda', '--unchecked', cell)
    assert shell.run_cell('races[1,8](x)').success

@pytest.mark.parametrize('cell', ['int f(torch::Tensor x) {\n\n    return y;\n}',
    '__global__ void f(int *x) {\n\n    x[0] = y;\n}', '#include <cstdio>\nint main() {\n    return y;\n}'])
def test_magic_shows_the_cells_line(shell, cell):
    e = fails(CompileError, shell.run_cell_magic, 'cuda', '', cell)
    assert e.line==3 and cell.splitlines()[2] in str(e)

def test_magic_finding_shows_the_cells_line(shell):
    shell.run_cell_magic('cuda', '', '__global__ void k(int *x) {\n    x[threadIdx.x] = 1;\n}\n'
                                     'void go(torch::Tensor x) { k<<<1, 9>>>(x.data_ptr<int>()); }')
    e = fails(MemcheckError, shell.user_ns['go'], torch.zeros(8, dtype=torch.int32))
    assert e.line==2 and 'line 2: x[threadIdx.x] = 1;' in str(e)

def test_magic_wrong_option(shell):
    assert ('--fast'
            in str(fails(ValueError, shell.run_cell_magic, 'cuda', '--fast', 'int f() { return 1; }')))

# python -m gridstride.cpp

PROGRAM = r'''
#include <cstdio>
#include <cstdlib>
#include <cstring>
__global__ void k(int *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = threadIdx.x; }
__global__ void who() { printf("%d", threadIdx.x); }
__global__ void races(int *x) { x[0] += threadIdx.x; }
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) printf("%s|", argv[i]);
    int *d, n = argc > 1 ? atoi(argv[1]) : 0;
    cudaMalloc(&d, 16);
    cudaMemset(d, 0, 16);
    k<<<1, 32>>>(d, n);
    who<<<1, 3>>>();
    if (argc > 2 && !strcmp(argv[2], "races")) races<<<1, 32>>>(d);
    if (argc > 2 && !strcmp(argv[2], "exits")) exit(5);
    printf("\n");
    return n;
}
'''

@pytest.fixture(scope='session')
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp('program')/'my program.cu'
    path.write_text(PROGRAM)
    return path

def command(*args):
    done = run_python('-m', 'gridstride.cpp', *args, cwd=REPO)
    return done.returncode,done.stdout,done.stderr

@pytest.mark.slow
@pytest.mark.parametrize('args,want',
    [((), (0,'012\n','')), (('3','--x','a b'), (3,'3|--x|a b|012\n','')), (('4','exits'), (5,'4|exits|012',''))])
def test_command(program, args, want): assert command(program, *args)==want

def test_command_order(program): assert command('--order', 'reverse', program)==(0, '210\n', '')

@pytest.mark.slow
def test_command_finds(program):
    status,out,err = command(program, 5)
    assert status==1
    assert err.startswith('MemcheckError: memcheck: out-of-bounds') and '\n  line 5: __global__ void k' in err
    assert 'Traceback' not in err
    assert command(program, 0, 'races')[0]==1 and command('--unchecked', program, 0, 'races')==(0, '0|races|012\n', '')

def test_command_takes_files_that_begin_as_editors_of_windows_write_them(tmp_path):
    "By a mark of their encoding, which a compiler passes over at the beginning of a file alone"
    src = ('#include "half.h"\n#include <cstdio>\n__global__ void k() { printf("%d\\n", N); }\n'
           'int main() { k<<<1,1>>>(); }\n')
    for name, text in (('main.cu', src), ('half.h', '#define N 7\n')): (tmp_path/name).write_text(text, 'utf-8-sig')
    assert command(tmp_path/'main.cu')==(0, '7\n', '')

def test_command_without_a_file(tmp_path):
    status,out,err = command(tmp_path/'none.cu')
    assert status==2 and f'none.cu: {os.strerror(2)}' in err
    assert command()[0]==2 and command('--order', 'sideways', 'x.cu')[0]==2

PARTS = {
    'inc/scale.cuh': '#pragma once\n__device__ T scaled(T x) { return FACTOR*x; }\n'
        '__global__ void scale_k(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = scaled(x[threadIdx.x]); }\n',
    'main.cu': '#include <scale.cuh>\nvoid show(const float *); static int which() { return 1; }\n'
        'int main(int argc, char **argv) {\n'
        '    float h[2] = {1, 2}, *d, *e;\n    cudaMalloc(&d, sizeof h);\n    cudaMalloc(&e, 100); cudaFree(e);\n'
        '    cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);\n    scale_k<<<1, 32>>>(d, 2 + (argc > 2));\n'
        '    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);\n    show(h);\n    return argc - which();\n}\n',
    'more/show.cpp': '#include <cstdio>\nstatic unsigned umin(unsigned, unsigned) { return 0; }\n'
        'static int which() { return umin(1, 2); }\n'
        'void show(const float *x) { printf("%g %g\\n", x[which()], x[1]); }\n'}

@pytest.mark.slow
def test_command_of_several_files_macros_and_leaks(tmp_path):
    for k,v in PARTS.items():
        (tmp_path/k).parent.mkdir(exist_ok=True)
        (tmp_path/k).write_text(v)
    how = '-I',tmp_path/'inc','-D','FACTOR=3','-D','T=float'  # a name that our headers have, too, as others do
    files = tmp_path/'main.cu',tmp_path/'more'/'show.cpp'
    assert command(*how, *files)==(0, '3 6\n', '')
    leak = '8 bytes are never freed; line 5: cudaMalloc(&d, sizeof h);\n'
    assert command(*how, '--leaks', *files)==(1, '3 6\n', leak)
    assert command(*how, *files, '--', 'a.cu')==(1, '3 6\n', '')
    status,out,err = command(*how, *files, '--', 'a.cu', 'b')
    assert status==1 and err.startswith('MemcheckError') and 'line 3 of scale.cuh: __global__ void scale_k' in err
    status,out,err = command('--checks', 'no memcheck', '-I', tmp_path/'nothing', *files)
    assert status==2 and f'nothing: {os.strerror(2)}' in err
    files[1].write_text('\nint show() { return y; }\n')
    status,out,err = command(*how, *files)
    assert status==1 and err.startswith(f'CompileError: {files[1]}, line 2:') and 'int show() { return y; }' in err

@pytest.mark.slow
def test_command_of_files_in_different_folders(tmp_path):
    "A header by its path from one file, by its name from another; limits without a header; who compiles, as of nvcc"
    (tmp_path/'util').mkdir()
    files = {'main.cu': '#include <cstdio>\n#include "./util/count.h"\n'
                        'int main() { printf("%d %d\\n", count(), std::numeric_limits<short>::max() < INT_MAX); }\n',
             'util/count.cu': '#include "count.h"\nint twice();\nint count() { return COUNT + twice(); }\n',
             'util/twice.cpp': '#include "count.h"\nint twice() { return 2 * COUNT; }\n',
             'util/count.h': '#ifdef __CUDACC__\n#define COUNT 7\n#else\n#define COUNT 100\n#endif\nint count();\n'}
    for k, v in files.items(): (tmp_path/k).write_text(v)
    util = tmp_path/'util/count.cu', tmp_path/'util/twice.cpp'
    assert command(tmp_path/'main.cu', *util)==(0, '207 1\n', '')
    status, out, err = command(tmp_path/'main.cu')
    assert status==1 and err.startswith('ValueError: ') and 'count()' in err and 'Traceback' not in err

OF_THE_HOST = {
    'main.cu': '#include <cstdio>\n#include "own.h"\n'
               '__global__ void k(float4 *x) { x[threadIdx.x].w = 4; printf("kernel "); }\n'
               'int main(int argc, char **argv) {\n    float4 *d;\n    cudaMalloc(&d, sizeof(float4));\n'
               '    k<<<1, 1>>>(d);\n    cudaDeviceSynchronize();\n    float x;\n'
               '    cudaMemcpy(&x, &d->w, sizeof x, cudaMemcpyDeviceToHost);\n'
               '    return show(argc > 1 ? (float *)d : &x);\n}\n',
    'own.h': 'int show(const float *x);\n',
    'host.cpp': '#include "own.h"\n#include <cassert>\n#include <cstdio>\n#include <cstdlib>\n'
                'typedef struct { char x, y; } uchar4;\nstruct dim3 { int n; };\nenum { warpSize = 7 };\n'
                'static int threadIdx = sizeof(uchar4);\ntemplate <class T> T min(T a, T b) { return a < b ? a : b; }\n'
                'int show(const float *x) {\n    assert(threadIdx == 2);\n'
                '    printf("host %g %d\\n", *x, min(dim3{5}.n, int(warpSize)));\n    exit(3);\n}\n'}

@pytest.mark.slow
def test_a_file_without_cuda_is_the_host_compilers(tmp_path):
    "It has names that are CUDA's elsewhere; what it prints and how it ends is seen as in all others, its access, too"
    for k, v in OF_THE_HOST.items(): (tmp_path/k).write_text(v)
    files = tmp_path/'main.cu', tmp_path/'host.cpp'
    assert command(*files)==(3, 'kernel host 4 5\n', '')
    assert command('--unchecked', *files)==(3, 'kernel host 4 5\n', '')
    status, out, err = command(*files, '--', 'device')
    assert status==1 and err.startswith('MemcheckError') and 'line 12 of host.cpp: printf("host' in err
    files[1].write_text(OF_THE_HOST['host.cpp'].replace('<cassert>', '<cuda_runtime.h>'))
    status, out, err = command(*files)
    assert status==1 and err.startswith(f'CompileError: {files[1]}, line 5: ')
    files[1].write_text(OF_THE_HOST['host.cpp'].replace('<cassert>', '<cusolverDn.h>'))
    status, out, err = command(*files)
    assert status==1 and re.match('NotEmulated: .* cusolverDn.h: .*torch.linalg', err), err

def test_command_compile_error(tmp_path):
    (tmp_path/'bad.cu').write_text('int main() {\n    return y;\n}\n')
    status,out,err = command(tmp_path/'bad.cu')
    assert status==1 and err.startswith(f'CompileError: {tmp_path/"bad.cu"}, line 2:') and 'return y;' in err
    assert 'Traceback' not in err


def test_a_finding_in_a_function_names_the_kernels_line_too():
    src = '''__device__ void put(float *x, int i) {
    x[i] = i;
}
__device__ __noinline__ void twice(float *x, int i) { put(x, i); put(x, i + 1); }
__global__ void k(float *x) {
    put(x, threadIdx.x);
    if (threadIdx.x == 3)
        twice(x, threadIdx.x);
}'''
    with cpp.on_emulator():
        with finding('memcheck outside', index=(4,)) as e:
            cuda_kernel(src)[1,4](torch.zeros(4))
        assert (e.value.line, e.value.call_line) == (2, 8)
        assert '  line 2: x[i] = i;\n  called on line 8: twice' in str(e.value)
        with pytest.raises(MemcheckError) as e: cuda_kernel(src)[1,4](torch.zeros(2))
        assert (e.value.line, e.value.call_line) == (2, 6)
        with pytest.raises(MemcheckError) as e:
            cuda_kernel('__global__ void k(float *x) { x[threadIdx.x] = 1; }')[1,4](torch.zeros(2))
        assert e.value.call_line is None and 'called' not in str(e.value)


@pytest.mark.slow
@pytest.mark.parametrize('ends, kind', [
    ('x[i] = i / (n - 4);', KernelCrash), ('*(volatile int *)((size_t)x[i] * 64) = 1;', MemcheckError),
    ('printf("%s", (const char *)(size_t)(64 + x[i]));', MemcheckError),
    ('while (*(volatile int *)x == 0);', KernelTimeout), ('while (atomicCAS(x, 1, 1) != 1);', KernelTimeout)])
def test_what_a_signal_ends_in_a_function_names_both_lines(ends, kind):
    src = f'''__device__ __noinline__ void f(int *x, int n, int i) {{
    {ends}
}}
__global__ void k(int *x, int n) {{
    if (n < 4) f(x, n, 0);
    auto g = [&](int i) {{ f(x, n, i); }};
    g(3);
}}'''
    with cpp.on_emulator(), cpp.options(seconds=0.5):
        with pytest.raises(kind) as e: cuda_kernel(src)[1,1](torch.zeros(4, dtype=torch.int32), 4)
    assert (e.value.line, e.value.call_line) == (2, 7)


@pytest.mark.slow
def test_variables_of_the_device_are_as_before_once_a_finding_has_ended_a_launch():
    src = '''
__device__ int count = 3, table[4] = {1, 2, 3, 4};
__device__ char bytes[1000];
__managed__ int shown = 2;
__global__ void k(int *x, int i, bool spin) {
    const int t = threadIdx.x;
    table[t] += t, bytes[t] = 1;
    if (t == 0) shown++;
    atomicAdd(&count, 1);
    __syncthreads();
    if (t == 1) x[i] = 1;
    while (spin) { }
}
__global__ void look(int *x) { x[0] = count, x[1] = table[3], x[2] = bytes[3], x[3] = shown; }
'''
    with cpp.on_emulator(), cpp.options(seconds=.5):
        kernels, x = cuda_kernel(src), torch.zeros(4, dtype=torch.int32)

        def look():
            kernels['look'][1, 1](x)
            return x.tolist()

        for error, i, spin in ((MemcheckError, 4, False), (KernelTimeout, 0, True)):
            with pytest.raises(error): kernels['k'][1, 4](x, i, spin)
            assert look() == [3, 4, 0, 2]
        kernels['k'][1, 4](x, 0, False)
        assert look() == [7, 7, 1, 3]
        with pytest.raises(MemcheckError): kernels['k'][1, 4](x, 4, False)
        assert look() == [7, 7, 1, 3]


@pytest.mark.parametrize('waits, next_to', [
    ('__syncthreads();', ''), ('cooperative_groups::this_thread_block().sync();', ''),
    ('x[i] = __shfl_xor_sync(0xffffffff, i, 1);', '__syncwarp();'),
    ('x[i] = __shfl_sync(0xffffffff, i, 0);', 'else __syncthreads();')])
def test_a_barrier_in_a_function_that_not_all_reach_names_both_lines(waits, next_to):
    src = f'''#include <cooperative_groups.h>
__device__ void meet(int *x, int i) {{
    {waits}
}}
__global__ void k(int *x) {{
    if (threadIdx.x % 32 < 16)
        meet(x, threadIdx.x);
    {next_to}
}}'''
    with cpp.on_emulator(), pytest.raises(SynccheckError) as e: cuda_kernel(src)[1,64](torch.zeros(64).int())
    assert (e.value.line, e.value.call_line, e.value.thread) == (3, 7, (0, 0, 0))


def test_a_finding_in_a_function_in_ptx_names_both_lines():
    "Even if that is the first function, before which others are not compiled, as they are never called"
    f = '''__device__ void %s(float *x, int i) {
    asm("add.s32 %%0, %%0, 1;" : "+r"(i));
    x[i] = 1;
}
'''
    with cpp.on_emulator():
        for before in ('', f%'unused', f%'unused' + f%'other'):
            src = before + f%'put' + '__global__ void k(float *x) {\n    put(x, threadIdx.x);\n}'
            with pytest.raises(MemcheckError) as e: cuda_kernel(src)[1,4](torch.zeros(2))
            assert (e.value.line, e.value.call_line) == (before.count('\n') + 3, before.count('\n') + 6)
            assert f'line {e.value.line}: x[i] = 1;' in str(e.value)


TILES = '''__global__ void k(float *x, int n) {
    __shared__ float ms[2][4], ns[2][4];
    int c = threadIdx.x;
    auto fill = [&](int buf, int i) {
        ms[buf][c] = x[i + c];     // here
        ns[buf][c] = x[i + c];
    };
    fill(0, 1);     // called
    for (int i = 0, buf = 0; i < n; i += 4, buf = 1 - buf) {
        __syncthreads();
        if (i + 4 < n) fill(1 - buf, i + 4);
        x[c] = ms[buf][c] + ns[buf][c];
    }
}'''
EACH = '''template <class F> __device__ void twice(F f, int i) {
    f(i);
    f(i + 1);
}
__global__ void k(float *x, int n) {
    twice([&](int j) {     // called
        if (j <= n)
            x[j] = 1;     // here
    }, threadIdx.x + 1);
}'''
FUNCTOR = '''struct Put {
    float *x;
    __device__ void operator()(int i) const {
        auto put = [&](auto j) {
            x[j] = 1;     // here
        };
        put(i);
        put(short(i));
    }
};
__global__ void k(float *x, int n) {
    Put{x}(threadIdx.x + 1);     // called
}'''
TEMPLATE = '''template <class T> __global__ void k(T *x, int n) {
    auto put = [=](int j) { x[j] = 1; };     // here
    put(threadIdx.x);
    put(threadIdx.x + 1);     // called
}'''
INDEX = '''__global__ void k(float *x, int n) {
    __shared__ float s[4];
    auto put = [&](int j) {
        s[j] = x[j & 3];     // here
    };
    put(threadIdx.x + 1);     // called
    put(threadIdx.x);
}'''
WMMA = '''#include <mma.h>
__global__ void k(float *x, int n) {
    using namespace nvcuda;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    auto load = [&](int i) {
        wmma::load_matrix_sync(c, x + i, 16, wmma::mem_row_major);     // here
    };
    load(0);     // called
    load(1);
}'''

@pytest.mark.slow
@pytest.mark.parametrize('src', [TILES, EACH, FUNCTOR, TEMPLATE, INDEX, WMMA])
def test_a_finding_in_a_lambda_names_both_lines(src):
    "Even if it is compiled before its kernel, as a function that is called twice may be"
    lines = [next(n for n, o in enumerate(src.splitlines(), 1) if o.endswith(f'// {w}')) for w in ('here', 'called')]
    with cpp.on_emulator(), pytest.raises(MemcheckError) as e:
        cuda_kernel(src, 'k<float>' if src is TEMPLATE else None)[1,32 if src is WMMA else 4](torch.ones(4), 4)
    assert [e.value.line, e.value.call_line] == lines
    assert f'line {lines[0]}: {src.splitlines()[lines[0]-1].strip()}' in str(e.value)


@pytest.mark.parametrize('order', ['forward', 'reverse'])
def test_a_race_with_a_fragment_names_both_lines(order):
    "Contiguous elements are copied at once, which is one access with the line of the call"
    src = '''#include <mma.h>
__global__ void k(float *out) {
    using namespace nvcuda;
    __shared__ alignas(32) float tile[256];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;
    wmma::fill_fragment(f, 1.f);
    wmma::store_matrix_sync(tile, f, 16, wmma::mem_row_major);
    out[threadIdx.x] = tile[threadIdx.x];
}'''
    with cpp.on_emulator(), cpp.options(order=order), pytest.raises(RacecheckError) as e:
        cuda_kernel(src)[1,32](torch.zeros(32))
    assert (e.value.line, e.value.other.line) == (8, 7)


def test_lines_of_two_files_are_reported_with_their_files(tmp_path, monkeypatch):
    "A header that is included: its line 4, and lines 4 and 5 of the source"
    monkeypatch.chdir(tmp_path)
    (tmp_path/'put.h').write_text(
        '// one\n// two\n// three\n__device__ void put(float *s, float v) { s[threadIdx.x] = v; }\n')
    src = '''#include "put.h"
__global__ void flip(const float *x, float *out) {
    __shared__ float s[64];
    put(s, x[threadIdx.x]);
    out[threadIdx.x] = s[63 - threadIdx.x];
}'''
    with cpp.on_emulator(), pytest.raises(RacecheckError) as e: cuda_kernel(src)[1,64](torch.zeros(64), torch.zeros(64))
    lines, there = str(e.value).splitlines(), r'of \w+\.cu'
    assert lines[1] == '  line 4 of put.h: __device__ void put(float *s, float v) { s[threadIdx.x] = v; }'
    assert re.fullmatch(rf'.* line 4 {there}: put\(s, x\[threadIdx.x\]\);', lines[2])
    assert re.match(rf'  against line 5 {there}, block', lines[4]) and e.value.other.file.endswith('.cu')


@pytest.mark.parametrize('head', ['void __launch_bounds__(64, 2) k', '__launch_bounds__(64) void k',
                                  'void __launch_bounds__(2*WARP) k'])
@pytest.mark.parametrize('checks', [True, False])
def test_no_block_is_larger_than_the_kernels_bound(head, checks):
    with cpp.on_emulator():
        src = f'constexpr int WARP = 32;\n__global__ {head}(int *x) {{ x[threadIdx.y*blockDim.x + threadIdx.x] = 1; }}'
        k, x = cuda_kernel(src, checks=checks), torch.zeros(128).int()
        k[1,(8,8)](x)
        assert x.sum() == 64
        with finding('launch launch_bounds', threads=65, limit=64): k[2,(13,5)](x)
        assert x.sum() == 64


def test_a_bound_that_says_nothing_is_the_compilers():
    with cpp.on_emulator(), pytest.raises(cpp.CompileError, match='line 1'):
        cuda_kernel('__global__ void __launch_bounds__() k(int *x) { x[0] = 1; }')


@pytest.mark.slow
@pytest.mark.parametrize('body, refused', [
    ('int a[2] = {2, 1}; std::sort(a, a + 2); x[0] = a[0];', 'sort'),
    ('x[0] = *std::make_unique<int>(1);', 'make_unique'),
    ('int a[2] = {2, 1}; x[0] = std::accumulate(a, a + 2, 0);', 'accumulate'),
    ('std::function<int()> f = [] { return 1; }; x[0] = f();', 'function'),
    ('std::array<int, 2> a{1, 2}; x[0] = std::min(a[0], std::get<0>(std::make_tuple(1)));', None)])
def test_what_nvrtc_has_of_the_standard_library(body, refused):
    "As in <cuda/std/...>, which replaces the host's headers there"
    headers = ''.join(f'#include <{o}>\n' for o in 'algorithm array functional memory numeric tuple'.split())
    with cpp.on_emulator():
        make = lambda: cuda_kernel(f'{headers}__global__ void k(int *x) {{ {body} }}')
        if not refused: return make()[1,1](torch.zeros(1).int())
        with pytest.raises(WrongSource, match=f'std::{refused} '): make()


@pytest.mark.parametrize('call, instead', [
    ('sleep(1)', '__nanosleep'), ('write(1, "x", 1)', 'printf'), ('std::_Exit(4)', '__trap'), ('raise(10)', '__trap'),
    ('pthread_exit(nullptr)', '__trap'), ('getenv("HOME")', 'argument'), ('x[0] = 2 * rand()', 'curand_kernel'),
    ('time(nullptr)', 'clock64'), ('execl("/bin/true", "true", nullptr)', 'host code'), ('NAP', '__nanosleep'),
    ('auto f = &fork; f()', 'host code'), ('[&] { x[0] = open("a", 0); }()', 'host code')])
def test_host_functions_in_device_code_are_refused(call, instead):
    "With the line, and with what to write instead"
    src = f'#include <unistd.h>\n#define NAP usleep(1)\n__global__ void k(int *x) {{\n    {call};\n}}'
    with cpp.on_emulator(), pytest.raises(WrongSource) as e: cuda_kernel(src)
    what, where = str(e.value).splitlines()
    assert '__host__' in what and instead in what
    assert where.strip() == f'k.cu, line 4: {call};'


def test_a_lambda_for_the_gpu_calls_no_host_function_either():
    lambdas = '__global__ void put(F f) { f(1); }\nvoid go() { put<<<1, 1>>>([=] __device__ (int i) { sleep(i); }); }'
    with cpp.on_emulator(), pytest.raises(WrongSource, match='^[^\n]*sleep .*__host__'):
        cpp.load_cuda(f'#include <unistd.h>\ntemplate <class F> {lambdas}', funcs='go')


def test_a_host_device_function_that_calls_a_host_function_is_warned_of():
    src = ('#include <unistd.h>\n__host__ __device__ void nap(int n) { if (n) usleep(1); }\n'
           '__global__ void k(int *x) { nap(0); x[0] = 1; }\nvoid own() { nap(1); }')
    with cpp.on_emulator(), pytest.warns(CompileWarning, match='usleep .*__host__ .*\n.*k.cu, line 2'):
        k, x = cuda_kernel(src), torch.zeros(1).int()
    k[1,1](x)
    assert x.item() == 1


BOTH = '''#include <unistd.h>
#include <string.h>
#include <cstdlib>
__host__ __device__ int both(int what) {
    if (what == 5) _exit(7);
    if (what == 6) return ::atoi("6");
    if (what == 7) return std::atoi("7");
    if (what == 8) return int(strlen(getenv("HOME")));
    if (what == 9) { const time_t now = time(nullptr); return now > 0; }
    return sizeof(rand());
}
__global__ void k(int *x, int what) { x[0] = both(what); }
void go(torch::Tensor x, int what) { k<<<1, 1>>>(x.data_ptr<int>(), what); cudaDeviceSynchronize(); }
int host(int what) { return both(what); }'''


def test_device_code_that_gets_to_a_host_function_is_found():
    "None of them is called; host code calls them all, and an uncalled function is not a finding"
    with cpp.on_emulator(), pytest.warns(CompileWarning):
        m, x = cpp.load_cuda(BOTH, name='both'), torch.zeros(1).int()
    for line, name in enumerate(('_exit', 'atoi', 'atoi', 'strlen', 'time'), 5):
        with pytest.raises(KernelCrash) as info: m.go(x, line)
        e = info.value
        assert (e.kind, e.code, e.fields['function'], e.line) == ('crash', 'host_called', name, line)
    m.go(x, 0)
    assert x.item() == 4 and [m.host(i) for i in (6, 7, 9)] == [6, 7, 1] and m.host(8) == len(os.environ['HOME'])


@pytest.mark.parametrize('empty', [np.zeros(0, np.float32), np.zeros((0, 4), np.float32), torch.zeros(0)])
def test_an_array_without_elements(empty):
    "It has no address, as on a GPU; a use of it is reported"
    with cpp.on_emulator():
        k = cuda_kernel('__global__ void k(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1; }')
    k[1, 4](empty, 0)
    with pytest.raises(MemcheckError) as e: k[1, 4](empty, 1)
    assert e.value.code == 'null_written'


def test_a_tensor_whose_storage_was_freed_is_refused():
    with cpp.on_emulator():
        k, x = cuda_kernel('__global__ void k(int *x) { x[0] = 1; }'), torch.zeros(4).int()
        k[1,1](x)
        x.untyped_storage().resize_(0)
        with pytest.raises(TypeError, match='argument 1 .*storage'): k[1,1](x)


@pytest.mark.parametrize('n, line', [(4, None), (8, 9), (12, 9), (40000, 3)])
def test_a_local_array_that_is_written_past_its_end(n, line):
    "By a pointer: what its type forbids is found at once"
    src = f'''__device__ void fill(int *p, int n) {{
    for (int i = 0; i < n; i++)
        p[i] = i;
}}
__global__ void k(int *x) {{
    int a[4];
    fill(a, {n});
    x[threadIdx.x] = a[threadIdx.x % 4];
}}'''
    with cpp.on_emulator():
        k, x = cuda_kernel(src), torch.zeros(8).int()
        if line is None:
            k[1,8](x)
            check(x, torch.arange(8).int() % 4)
            return
        with finding('crash local_array') as e: k[1,8](x)
    assert e.value.line == line


@pytest.mark.parametrize('use, access', [('x[t] = *p;', 'read'), ('*p = t; x[t] = mine;', 'write'),
                                         ('if (t == 0) x[t] = *p;', None)])
def test_a_local_variable_of_another_thread(use, access):
    src = f'''__global__ void k(int *x) {{
    int t = threadIdx.x, mine = t;
    __shared__ int *p;
    if (t == 0) p = &mine;
    __syncthreads();
    {use}
}}'''
    with cpp.on_emulator():
        k = cuda_kernel(src)
        if not access: return k[1,8](torch.zeros(8).int())
        with finding('memcheck local_of_other', access=access) as e:
            k[1,8](torch.zeros(8).int())
    assert (e.value.line, e.value.thread) == (6, (1, 0, 0))


@pytest.mark.skipif(sys.platform == 'darwin' or platform.machine() != 'x86_64', reason='Arm returns by a register')
@pytest.mark.parametrize('body', ['p[n] = 7;', 'for (int i = 0; i < 8; i++) p[n*i] = i;'])
def test_a_local_array_that_is_written_before_its_beginning(body):
    "There is the return address of the writing function"
    src = f'''__device__ __noinline__ void put(float *p, int n) {{
    {body}
}}
__global__ void k(float *x, int n) {{
    float a[4] = {{}};
    put(a, n);
    x[threadIdx.x] = a[0];
}}'''
    with cpp.on_emulator(), finding('crash local_array') as e:
        cuda_kernel(src)[1,8](torch.zeros(8), -1)
    assert e.value.line in (2, 3)


@pytest.mark.parametrize('value, says', [
    ('1 << n', dict(bits=32, distance=40)), ('-8ll >> 2*n', dict(bits=64, distance=80)),
    ('1ll << n', None), ('int(1e9f*n)', dict(type="'int'")), ('int(sqrtf(-n))', dict(type="'int'")),
    ('(unsigned char)(-1.f*n)', dict(value='-40', type="'unsigned char'")), ('(unsigned char)(10.f*n)', None),
    ('__float2int_rz(1e9f*n)', None), ('unsigned(-.01f*n)', None)])
def test_arithmetic_of_which_a_gpu_s_result_is_another(value, says):
    "It is undefined in C++; a char is the lower bits of an int on both"
    src = f'__global__ void k(long long *x, int n) {{\n    x[threadIdx.x] = {value};\n}}'
    with cpp.on_emulator(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        cuda_kernel(src)[1,8](torch.zeros(8).long(), 40)
    if not says:
        assert not caught
        return
    assert len(caught) == 1 and issubclass(caught[0].category, UndefinedBehaviour)
    found = caught[0].message
    assert str(found).startswith('line 2 of k: ') and says.items() <= found.fields.items()


SHARED = [('__shared__ float s[64];', 's[i]'), ('extern __shared__ float s[];', 's[i]'),
          ('__shared__ float s[8][9];', 's[i/8][i%8]'),
          ('struct P { int n; float v[2]; }; __shared__ P s[64];', 's[i].v[1]')]
PUTS = ['auto put = PUT; put(t, x[t]);', '[](auto put, int t, float v) { put(t, v); }(PUT, t, x[t]);',
        'auto f = [=] { auto put = PUT; put(t, x[t]); }; f();']


LAMBDAS = {f'{"right" if barrier else "race"}_{i}_{j}': (declared, element, put, barrier)
           for i, (declared, element) in enumerate(SHARED) for j, put in enumerate(PUTS)
           for barrier in ('__syncthreads();', '')}


def with_lambdas(name, declared, element, put, barrier):
    put = put.replace('PUT', f'[=](int i, float v) mutable {{ {element} = v; }}')
    return f'''__global__ void {name}(const float *x, float *out) {{
    int t = threadIdx.x; {declared}
    {put}
    {barrier}
    auto get = [=] {{ return {element.replace('i', '(63-t)')}; }};
    out[t] = get();
}}
'''


@cache
def lambdas(checks):
    sources = [with_lambdas(name, *parts) for name, parts in LAMBDAS.items()]
    with cpp.on_emulator(): return cuda_kernel(''.join(sources), checks=checks)


@pytest.mark.parametrize('checks', [True, False])
@pytest.mark.parametrize('name', [o for o in LAMBDAS if 'right' in o])
def test_lambdas_use_shared_memory_itself(name, checks):
    "As on a GPU, where it is static, and `[=]` copies it not"
    lambdas(checks)[name][1,64,0,256](x := torch.rand(64), out := torch.zeros(64))
    assert torch.equal(out, x.flip(0))


@pytest.mark.parametrize('name', [o for o in LAMBDAS if 'race' in o])
def test_a_race_between_lambdas_has_both_lines(name):
    with pytest.raises(RacecheckError) as e: lambdas(True)[name][1,64,0,256](torch.rand(64), torch.zeros(64))
    first_line = 7*[*LAMBDAS].index(name)
    assert {e.value.line - first_line, e.value.other.line - first_line} == {3, 5}


def test_a_lambda_uses_shared_memory_by_a_macro():
    src = '''#define S(i) s[i]
__global__ void k(float *out) {
    __shared__ float s[32];
    auto put = [=](int i) mutable { S(i) = i; };
    put(threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = s[31 - threadIdx.x];
}'''
    with cpp.on_emulator(): cuda_kernel(src)[1,32](out := torch.zeros(32))
    assert torch.equal(out, torch.arange(32.).flip(0))


@pytest.mark.slow
def test_a_kernel_is_in_the_file_that_defines_it(tmp_path):
    "Not in another that declares it"
    main, other = tmp_path/'main.cu', tmp_path/'other.cu'
    main.write_text('''__global__ void k(float *x, int n);
int main() {
    float *x;
    cudaMalloc(&x, 16);
    k<<<1, 8>>>(x, 4);
    return cudaDeviceSynchronize();
}''')
    other.write_text('''__global__ void k(float *x, int n) {
    auto put = [=](int i) {
        x[i] = 1;
    };
    put(threadIdx.x);
    put(threadIdx.x + n);
}''')
    for files in ((main, other), (other, main)):
        _, _, err = command(*files)
        assert 'line 3 of other.cu: x[i] = 1;\n  called on line 6 of other.cu: put(threadIdx.x + n);' in err


def test_the_toolkit_is_where_nvcc_says(tmp_path):
    "What is called nvcc may be a script that calls it elsewhere"
    nvcc = tmp_path/'nvcc'
    nvcc.write_text('#!/bin/sh\necho "#$ _HERE_=/x" >&2; echo "#$ TOP=/opt/cuda-13/bin/.." >&2\n')
    nvcc.chmod(0o755)
    assert kernel._toolkit_folder(str(nvcc)) == Path('/opt/cuda-13')
    nvcc.write_text('#!/bin/sh\n')
    assert kernel._toolkit_folder(str(nvcc)) == tmp_path.parent.resolve()


@pytest.mark.parametrize('src,cluster,attributes', [
    ('void k() {}', 1, []),
    ('void k() { cooperative_groups::this_grid().sync(); }', 1, [(driver.COOPERATIVE_ATTRIBUTE, 1, 0, 0)]),
    ('void k() {}', 2, [(driver.CLUSTER_ATTRIBUTE, 2, 1, 1)])])
def test_the_driver_gets_the_attributes_of_a_launch(monkeypatch, src, cluster, attributes):
    launched = []
    class Driver:
        def cuLaunchKernelEx(self, config, handle, pointers, extra):
            c = config._obj
            launched.append((handle, (c.gx, c.gy, c.gz), (c.bx, c.by, c.bz), c.shared, c.stream))
            assert [(a.id, *a.values[:3]) for a in c.attributes[:c.num_attributes]] == attributes
            return 0
    monkeypatch.setattr(driver, 'driver', Driver)
    run = kernel._make_launcher(SimpleNamespace(handle=7), 'k', [], src)
    run([], dim3(4, 2), dim3(32), 5, 64, dim3(cluster))
    assert launched == [(7, (4, 2, 1), (32, 1, 1), 64, 5)]


ENDS = '''#include <array>
#include <stdexcept>
struct Told {
    int n;
    __host__ __device__ int at(int i) { return i < n ? i : throw std::runtime_error("far"); }
};
__global__ void throws(float *x) {
    Told t{3};
    x[threadIdx.x] = t.at(threadIdx.x);
}
__global__ void library(float *x) {
    std::array<float, 3> a{};
    x[threadIdx.x] = a.at(threadIdx.x);
}
__global__ void child(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
__global__ void parent(const float *x, float *y, int n) {
    if (threadIdx.x == 0) child<<<(n + 31) / 32, 32>>>(x, y, n);
}
'''
def test_exceptions_and_children_of_kernels_of_python():
    "A thrown value was in the host's memory, so a kernel that throws was reported to write there"
    k, rng = cuda_kernel(ENDS), np.random.default_rng(2)
    x = torch.zeros(8)
    with finding('crash trap exception_thrown') as e: k.throws[1, 8](x)
    assert (e.value.line, e.value.thread) == (5, (3, 0, 0))
    # where C++'s library comes of an archive, its throw is seen like one's own
    with finding('crash aborts|crash trap exception_thrown') as e: k.library[1, 8](x)
    assert 'line 13' in str(e.value) and e.value.thread == (3, 0, 0)
    for n in 1, 31, 32, 33, 100:
        a, y = rng.standard_normal(n).astype(np.float32), np.full(n, np.nan, np.float32)
        k.parent[1, 32](a, y, n)
        check(y, 2*a)


PUBLIC = '''
#include <stdint.h>
typedef float (*op)(float);
__device__ float doubled(float x) { return 2 * x; }
__device__ float squared(float x) { return x * x; }
__device__ const op ops[2] = {doubled, squared};
__global__ void apply(float *x, op f) { x[threadIdx.x] = f(x[threadIdx.x]); }
__global__ void both(float *x) {
    if (threadIdx.x < 2) apply<<<1, 4>>>(x + 4 * threadIdx.x, ops[threadIdx.x]);
}
__global__ void places(uint32_t *out, uint64_t *time) {
    uint32_t sm, sms, warps;
    uint64_t a, b;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(a));
    asm("mov.u32 %0, %%smid; mov.u32 %1, %%nsmid;" : "=r"(sm), "=r"(sms));
    asm("mov.u32 %0, WARP_SZ;" : "=r"(warps));
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(b));
    out[blockIdx.y * gridDim.x + blockIdx.x] = 1000000 * warps + 1000 * sms + sm;
    if (blockIdx.x + blockIdx.y == 0) time[0] = b - a;
}
'''
def test_function_pointers_and_special_registers_of_public_programs():
    k = cuda_kernel(PUBLIC)
    x, out, time = np.arange(1, 9, dtype=np.float32), np.zeros((3, 50), np.uint32), np.zeros(1, np.uint64)
    k.both[1, 32](x)
    assert x.tolist() == [2, 4, 6, 8, 25, 36, 49, 64]
    k.places[(50, 3), 1](out, time)
    assert (out.flatten() == 32132000 + np.arange(150)%132).all() and time[0] < 10**9


def test_kernels_of_one_name_are_ambiguous():
    two = '__global__ void k(float *x) { x[0] = 1; }\n__global__ void k(int *x) { x[0] = 2; }'
    with pytest.raises(ValueError, match='^k '): cuda_kernel(two)
    cpp.kernel._resolve_kernels('__global__ void k(float *x);\n' + two.splitlines()[0], None)


NUMBERS = r'''#include <stdint.h>
__global__ void numbers(const uint32_t *a, const uint32_t *b, uint32_t *out, unsigned long long *wide, float *f) {
    const uint32_t i = threadIdx.x, x = a[i], y = b[i];
    uint32_t *r = out + 16 * i, s = y % 40;
    asm("add.u32 %0, %1, %2;" : "=r"(r[0]) : "r"(x), "r"(y));
    asm("sub.s32 %0, %1, %2;" : "=r"(r[1]) : "r"(x), "r"(y));
    asm("mul.lo.u32 %0, %1, %2;" : "=r"(r[2]) : "r"(x), "r"(y));
    asm("mad.lo.s32 %0, %1, %2, %3;" : "=r"(r[3]) : "r"(x), "r"(y), "r"(7));
    asm("and.b32 %0, %1, %2; xor.b32 %0, %0, 255;" : "=r"(r[4]) : "r"(x), "r"(y));
    asm("or.b32 %0, %1, %2;" : "=r"(r[5]) : "r"(x), "r"(y));
    asm("not.b32 %0, %1;" : "=r"(r[6]) : "r"(x));
    asm("shl.b32 %0, %1, %2;" : "=r"(r[7]) : "r"(x), "r"(s));
    asm("shr.u32 %0, %1, %2;" : "=r"(r[8]) : "r"(x), "r"(s));
    asm("shr.s32 %0, %1, %2;" : "=r"(r[9]) : "r"(x), "r"(s));
    asm("min.s32 %0, %1, %2;" : "=r"(r[10]) : "r"(x), "r"(y));
    asm("max.u32 %0, %1, %2;" : "=r"(r[11]) : "r"(x), "r"(y));
    asm("popc.b32 %0, %1;" : "=r"(r[12]) : "r"(x));
    asm("clz.b32 %0, %1;" : "=r"(r[13]) : "r"(x));
    asm("brev.b32 %0, %1;" : "=r"(r[14]) : "r"(x));
    asm("bfind.u32 %0, %1;" : "=r"(r[15]) : "r"(x));
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(wide[2 * i]) : "r"(x), "r"(y));
    asm("mul.wide.s32 %0, %1, %2;" : "=l"(wide[2 * i + 1]) : "r"(x), "r"(y));
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(f[i]) : "f"(x * 1e-9f), "f"(1.5f), "f"(-2.0f));
}
'''
def test_constants_in_inline_ptx():
    "Shifts by 32 and more give what is left of the number, as PTX says, and not what C++ leaves open"
    rng = np.random.default_rng(4)
    a, b = rng.integers(0, 2**32, (2, 256), np.uint64).astype(np.uint32)
    a[:3] = 0, 1, 2**31
    out, wide, f = np.zeros((256, 16), np.uint32), np.zeros((256, 2), np.uint64), np.zeros(256, np.float32)
    cuda_kernel(NUMBERS)[1, 256](a, b, out, wide, f)
    for x, y, got, two in zip(a.tolist(), b.tolist(), out.tolist(), wide.tolist()):
        s, sx, sy = y % 40, x - (x >> 31 << 32), y - (y >> 31 << 32)
        want = [x+y, x-y, x*y, x*y+7, x & y ^ 255, x | y, ~x, x << s, x >> s, sx >> s, min(sx, sy), max(x, y),
                x.bit_count(), 32-x.bit_length(), int(f'{x:032b}'[::-1], 2), x.bit_length()-1]
        assert got == [o % 2**32 for o in want] and two == [x*y, sx*sy % 2**64]
    small = a.astype(np.float32)*np.float32(1e-9)
    assert (f == (small.astype(float)*1.5-2).astype(np.float32)).all()       # exact in double, then rounded once


WHO_CALLS_WHOM = """#include "pair.h"
constexpr int twice(int n) { return 2 * n; }
template <class F> __global__ void k(int *x, F f) { x[0] = f(%s); }
int main() {
    int *x;
    cudaMallocManaged(&x, 4);
    k<<<1, 1>>>(x, [] __device__ (int n) { return n + 1; });
    cudaDeviceSynchronize();
    return x[0];
}
"""


@pytest.mark.slow
@pytest.mark.parametrize('given, flags, said', [
    ('3', ['--extended-lambda'], 4), ('3', [], 'k.cu, line 7|--extended-lambda'),
    ('twice(3)', ['--extended-lambda', '-expt-relaxed-constexpr'], 7),
    ('twice(3)', ['--extended-lambda'], 'k.cu, line 3|twice|--expt-relaxed-constexpr|__device__'),
    ('std::max(3, 4)', ['--extended-lambda'], 'line 3|constexpr.*std::max.*`max`'),
    ('Pair{3, 4}.sum()', ['--extended-lambda'], 'k.cu, line 3|sum(\\(\\))? .*`__device__`'),
    ('Pair{3, 4}.first()', ['--extended-lambda'], 'pair.h, line 3|sum(\\(\\))? .*`__device__`')])
def test_command_refuses_what_nvcc_refuses_without_its_flags(given, flags, said, tmp_path):
    "With the same words when it is found in the cache"
    first = '__device__ int first() { return sum() - b; }' if 'first' in given else ''
    sums = f'    int a, b;\n    {first}\n    int sum() {{ return a + b; }}\n'
    (tmp_path/'pair.h').write_text(f'struct Pair {{\n{sums}}};\n')
    (tmp_path/'k.cu').write_text(WHO_CALLS_WHOM % given)
    for _ in range(2):
        status, out, err = command(*flags, tmp_path/'k.cu')
        if isinstance(said, int): assert (status, err) == (said, '')
        else: assert status == 1 and all(re.search(o, err) for o in said.split('|')), err


def test_what_the_compilers_of_load_cuda_and_cuda_kernel_take():
    src = ('constexpr int twice(int n) { return 2 * n; }\n'
           '__global__ void k(int *x) { x[0] = std::max(1, 2) + %s; }\n'
           'void go(torch::Tensor x) { k<<<1, 1>>>(x.data_ptr<int>()); }\n')
    x = torch.zeros(1, dtype=torch.int32)
    cpp.load_cuda(src % 'twice(3)').go(x)
    assert x.item() == 8
    cuda_kernel(src.split('\n')[1] % '3')[1, 1](x)                            # NVRTC has a std of its own
    assert x.item() == 5
    kernel_alone = src.rsplit('void go', 1)[0] % 'twice(3)'
    with pytest.raises(WrongSource, match='twice.*__device__'): cuda_kernel(kernel_alone)


ALIASES = '''typedef float real; using weight = real;  // typedef double real;
template <class T, int N, typename S>
__global__ void k(T *x, S a, real b, const weight *__restrict__ c, Pair::real d) {}
#if defined(WIDE)
using wide = double;
#else
using wide = float;
#endif
__global__ void w(wide a, real b) {}'''


def test_the_types_of_parameters_are_those_that_aliases_and_template_arguments_stand_for():
    (_, k), (_, w) = cpp.kernel._resolve_kernels(ALIASES, ['k<double, 4, unsigned>', 'w'])
    assert [p.type.replace(' ', '') for p in k.params] == [
        'double*', 'unsigned', 'float', 'constfloat*', 'Pair::real']
    assert [p.type for p in w.params] == ['wide', 'float']  # which branch is compiled is not known


def test_a_pointer_to_an_alias_of_an_integer_takes_integers_of_either_sign():
    "As the kernels that order the bits of keys do"
    k = cuda_kernel('typedef unsigned Bits;\n__global__ void k(Bits *x) { x[0] += 1; }')
    for dtype in (np.int32, np.uint32):
        x = np.full(1, 2**31 - 1, dtype)
        k[1,1](x)
        assert x.view(np.uint32)[0] == 2**31


def test_an_argument_of_another_type_than_the_alias_is_refused():
    k = cuda_kernel('typedef float real;\n__global__ void k(real *x, real a) { x[0] = a; }')
    with pytest.raises(TypeError, match='float32'): k[1,1](np.zeros(1), 1.5)
    x = np.zeros(1, np.float32)
    k[1,1](x, 1.5)
    assert x[0] == 1.5
