"Values between Python and compiled CUDA C: types, errors, references. Host code by g++; a few kernels on the emulator."
import gc, inspect, math, re, shutil, subprocess, sys, threading, weakref
from pathlib import Path

import numpy as np, pytest, torch
import gridstride.cpp
from gridstride.cpp import emulator
from gridstride.cpp.rewriters.rewrite import to_cpp
from gridstride.cpp.values import Library
from once import build_once

HERE = Path(gridstride.cpp.__file__).parent
CXX = shutil.which('g++') or 'clang++'

SRC = r"""
#include <torch/extension.h>
#include <c10/util/Optional.h>

int add(int a, int b) { return a + b; }
int64_t wide(int64_t a) { return a; }
uint8_t narrow(uint8_t a) { return a; }
unsigned unsign(unsigned a) { return a; }
double half_of(double a) { return a / 2; }
float single(float a) { return a; }
bool flip(bool a) { return !a; }
std::string greet(const std::string &name) { return "hello, " + name; }
int64_t length(const char *s) { int64_t n = 0; while (s[n]) n++; return n; }
std::string_view viewed(std::string_view s) { return s; }
void nothing() {}
int defaults(int a, int b = 10, int c = 100) { return a + b + c; }
std::vector<int64_t> doubled(std::vector<int64_t> x) { for (auto &i : x) i *= 2; return x; }
std::vector<std::string> words(const std::vector<std::string> &x) { return x; }
std::vector<std::vector<float>> nested(std::vector<std::vector<float>> x) { return x; }
int64_t total(at::IntArrayRef x) { int64_t s = 0; for (auto i : x) s += i; return s; }
std::tuple<int, float, std::string> three() { return {1, 2.5f, "three"}; }
std::tuple<int, torch::Tensor> in_tuple(std::tuple<torch::Tensor, int> t) { return {std::get<1>(t), std::get<0>(t)}; }
std::pair<int, bool> pair(std::pair<bool, int> p) { return {p.second, p.first}; }
c10::optional<int> maybe(std::optional<int> x) { return x ? c10::optional<int>(*x + 1) : c10::nullopt; }
bool has(c10::optional<torch::Tensor> x) { return x.has_value(); }
bool defined(torch::Tensor x) { return x.defined(); }
torch::Tensor undefined() { return torch::Tensor(); }

std::vector<int64_t> sizes(const torch::Tensor &x) { return x.sizes().vec(); }
std::vector<int64_t> strides(const torch::Tensor &x) { return x.strides().vec(); }
std::string about(torch::Tensor x) {
    return torch::str(x.dtype(), " ", x.dim(), " ", x.numel(), " ", x.element_size(), " ", x.nbytes(), " ", x.device(),
                      " ", x.is_cuda(), x.is_cpu(), x.is_contiguous());
}
int64_t size(torch::Tensor x, int64_t d) { return x.size(d); }
torch::ScalarType type_of(torch::Tensor x) { return x.scalar_type(); }
torch::Tensor made(std::vector<int64_t> sizes, torch::ScalarType type, torch::Device device) {
    return torch::zeros(sizes, torch::dtype(type).device(device));
}
torch::Tensor same(torch::Tensor x) { return x; }
const torch::Tensor &same_reference(const torch::Tensor &x) { return x; }
torch::Tensor by_reference(torch::Tensor &x) { return x; }
void fill(torch::Tensor x, float value) {
    auto a = x.accessor<float, 2>();
    for (int i = 0; i < a.size(0); i++) for (int j = 0; j < a.size(1); j++) a[i][j] = value;
}
float packed_sum(torch::Tensor x) {
    auto a = x.packed_accessor32<float, 3, torch::RestrictPtrTraits>();
    float s = 0;
    for (int i = 0; i < a.size(0); i++)
        for (int j = 0; j < a.size(1); j++)
            for (int k = 0; k < a.size(2); k++) s += a[i][j][k] * (1 + i + 10 * j + 100 * k);
    return s;
}
float first(torch::Tensor x) { return *x.data_ptr<float>(); }
int64_t address(torch::Tensor x) { return reinterpret_cast<int64_t>(x.data_ptr()); }
int64_t raw(const float *x) { return reinterpret_cast<int64_t>(x); }
int64_t raw_int(unsigned *x) { return reinterpret_cast<int64_t>(x); }
int64_t raw_bytes(const char *x) { return reinterpret_cast<int64_t>(x); }

template <class T> torch::Tensor twice_of(torch::Tensor x) {
    auto y = torch::empty_like(x);
    for (int64_t i = 0; i < x.numel(); i++) y.data_ptr<T>()[i] = x.data_ptr<T>()[i] * 2 + x.data_ptr<T>()[i] / T(4);
    return y;
}
torch::Tensor twice(torch::Tensor x) {
    return AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, x.scalar_type(), "twice",
                                           [&] { return twice_of<scalar_t>(x); });
}
int64_t bytes_of_type(torch::Tensor x) {
    return AT_DISPATCH_ALL_TYPES_AND(torch::kBool, x.scalar_type(), "bytes",
                                     ([&] { return int64_t(sizeof(scalar_t)); }));
}
torch::Tensor to_half(torch::Tensor x) {
    auto y = torch::empty(x.sizes(), x.options().dtype(torch::kHalf));
    for (int64_t i = 0; i < x.numel(); i++) y.data_ptr<at::Half>()[i] = x.data_ptr<float>()[i];
    return y;
}
torch::Tensor from_half(torch::Tensor x) {
    auto y = torch::empty(x.sizes(), x.options().dtype(torch::kFloat));
    for (int64_t i = 0; i < x.numel(); i++) y.data_ptr<float>()[i] = x.data_ptr<at::Half>()[i];
    return y;
}
torch::Tensor to_bfloat(torch::Tensor x) {
    auto y = torch::empty(x.sizes(), x.options().dtype(torch::kBFloat16));
    for (int64_t i = 0; i < x.numel(); i++) y.data_ptr<at::BFloat16>()[i] = x.data_ptr<float>()[i];
    return y;
}
float half_operators(float a, float b) { at::Half x = a, y = b; x += y; return x * y + 1; }

std::vector<torch::Tensor> swap(std::vector<torch::Tensor> x) { return {x[1], x[0]}; }
torch::Tensor computed(torch::Tensor x) {
    auto y = (x + 1) * x - x / 2.0 + x.t().contiguous().view({x.size(0), x.size(1)}) + torch::ones_like(x);
    y += 2;
    return torch::relu(-y.sum(1) + 1000).to(torch::kFloat64);
}
std::vector<torch::Tensor> new_tensors(torch::Tensor x) {
    auto f = torch::TensorOptions().dtype(torch::kInt32).device(x.device());
    int n = 3;
    return {torch::zeros({n, 2}, f), torch::ones(n), torch::full({2}, 1.5), torch::arange(4), torch::zeros_like(x),
            torch::rand({2, 2}), torch::randn({5}, torch::kDouble),
            torch::cat({x, x}), torch::stack({x, x}), torch::tensor({1.5, 2.5}), torch::eye(2), torch::zeros({0, 4})};
}
double item(torch::Tensor x) { return x.sum().item<double>() + x[0][1].item().toFloat(); }
void in_place(torch::Tensor x) { x.zero_(); x.fill_(3); x[0].add_(1); }
torch::Tensor impossible(torch::Tensor x) { return x.mm(x); }
int survived(torch::Tensor x) { try { x.mm(x); } catch (const std::exception &e) { return 1; } return 0; }
torch::Tensor two_results(torch::Tensor x) { return x.max(0); }

void check(torch::Tensor x) {
    TORCH_CHECK(x.dim() == 2, "x must have 2 dimensions, it has ", x.dim(), ": ", x.sizes(), " ", x.dtype(), " ", 1.5f,
                ' ', true);
}
void check_plain(int n) { TORCH_CHECK(n > 0); }
void check_equal(int n) { TORCH_CHECK_EQ(n, 3); }
void check_kind(int n) {
    if (n == 1) TORCH_CHECK_VALUE(false, "value");
    if (n == 2) TORCH_CHECK_INDEX(false, "index");
    if (n == 3) TORCH_CHECK_TYPE(false, "type");
    if (n == 4) TORCH_CHECK_NOT_IMPLEMENTED(false, "not implemented");
    if (n == 5) AT_ERROR("at ", n);
    if (n == 6) throw std::out_of_range("range");
    if (n == 7) throw std::invalid_argument("argument");
    if (n == 8) throw std::bad_alloc();
    if (n == 9) throw 3;
    if (n == 10) throw std::overflow_error("over");
    if (n == 11) TORCH_INTERNAL_ASSERT(n == 0, "never");
}
void warn() { TORCH_WARN("mind ", 3); }

static torch::Tensor kept;
void keep(torch::Tensor x) { kept = x; }
torch::Tensor what_was_kept() { return kept; }

struct Unknown { int x; };
int unknown(Unknown u) { return u.x; }
Unknown gives_unknown() { return {1}; }
namespace inner { int f(int a, int b = 2) { return a * b; } }
template <class T> T generic(T a) { return a; }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.doc() = "ignored";
    m.def("add", &add, "adds", pybind11::arg("a"), pybind11::arg("b") = 1);
}
"""
NAMES = '''add wide narrow unsign half_of single flip greet length viewed nothing defaults doubled words nested
total three in_tuple pair maybe has defined undefined sizes strides about size type_of made same
same_reference by_reference fill packed_sum first address raw raw_int raw_bytes twice bytes_of_type
to_half from_half to_bfloat half_operators swap computed new_tensors item in_place impossible survived
two_results check check_plain check_equal check_kind warn keep what_was_kept unknown gives_unknown'''.split()
EXPORTS = (''.join(f'GRIDSTRIDE_EXPORT({o})\n' for o in NAMES)
           + 'GRIDSTRIDE_EXPORT_AS(inner_f, inner::f)\nGRIDSTRIDE_EXPORT_AS(generic_int, generic<int>)\n')
DECLARED = {'defaults':'int defaults(int a, int b = 10, int c = 100);',
            'fill':'void fill(torch::Tensor x, float value)'}


def build(src, name, *flags):
    compiling = [CXX, '-std=c++17', '-O1', '-fPIC', '-fvisibility=hidden', '-Wall', '-Wextra', '-Werror', *flags,
                 f"-I{HERE/'include'/'torch'}", '-c', f'{name}.cpp', '-o', f'{name}.o']
    linking = [CXX, '-shared', f'{name}.o', '-o', f'{name}.so']
    return build_once(CXX, compiling, linking, sources={f'{name}.cpp': src})/f'{name}.so'

@pytest.fixture(scope='session')
def lib(): return Library(build(SRC + EXPORTS, 'plain'), DECLARED)

def raises(kind, text, f, *args, **kwargs):
    with pytest.raises(kind) as e: f(*args, **kwargs)
    assert type(e.value) is kind and text in str(e.value), str(e.value)
    return str(e.value)


def two_types(kind, wanted, found, f, *args):
    "The message has the type that C++ wants, and after it the one that it found"
    assert re.search(rf'(?<!\w){wanted}(?!\w).*(?<!\w){found}(?!\w)', msg := raises(kind, '', f, *args)), msg


def counts(f, *counted):
    "A call with so many arguments is refused, and the message counts: those the function takes, those given"
    msg = raises(TypeError, f.__doc__, f, *range(counted[-1]))
    assert [int(o) for o in re.findall(r'\b\d+\b', msg.split('\n')[0])] == [*counted], msg


# Scalars, strings, lists

@pytest.mark.slow
def test_numbers(lib):
    assert lib.add(2, 3)==5 and lib.add(True, -3)==-2 and lib.add(np.int8(3), torch.tensor(4).item())==7
    for x in (0, -1, 2**62, -2**63, 2**63-1): assert lib.wide(x)==x
    assert lib.narrow(255)==255 and lib.unsign(2**32-1)==2**32-1
    assert lib.half_of(3)==1.5 and lib.half_of(np.float64(.1))==.05 and lib.half_of(np.float32(.5))==.25
    assert lib.half_of(math.inf)==math.inf and math.isnan(lib.half_of(math.nan))
    assert lib.single(.1)==float(np.float32(.1)) and lib.single(2)==2
    assert lib.flip(True) is False and lib.flip(np.bool_(False)) is True and lib.nothing() is None

def test_values_that_do_not_fit(lib):
    for f,x in ((lib.add,2**31), (lib.narrow,256), (lib.narrow,-1), (lib.unsign,-1), (lib.unsign,2**32)):
        raises(TypeError, f'argument 1 ({f.parameters[0][0]}', f, *([x,0] if f is lib.add else [x]))
    raises(TypeError, '64', lib.wide, 2**63)
    for f,x in ((lib.wide,1.5), (lib.wide,'1'), (lib.wide,None), (lib.flip,1), (lib.half_of,'x'), (lib.half_of,[1.]),
                (lib.wide,torch.ones(1))):
        raises(TypeError, 'argument 1', f, x)

def test_strings(lib):
    for s in ('', 'x', 'seven77', 'eight888', 'nine 9999', 'größer ☃', 'nul\0inside'):
        assert lib.greet(s)=='hello, '+s and lib.viewed(s)==s
    assert lib.length('gridstride')==10 and lib.length('')==0
    raises(TypeError, 'argument 1', lib.greet, 3)
    raises(TypeError, 'argument 1', lib.greet, None)

def test_lists(lib):
    assert lib.doubled([1,2,3])==[2,4,6] and lib.doubled(())==[] and lib.doubled(torch.Size([2,3]))==[4,6]
    assert lib.total([1,2,3])==6 and lib.total(())==0
    assert lib.words(['a','','longerthaneight'])==['a','','longerthaneight']
    assert lib.nested([[1,2],[],[.5]])==[[1,2],[],[.5]]
    assert lib.three()==(1,2.5,'three') and lib.pair((True,3))==(3,True) and lib.pair([False,0])==(0,False)
    x = torch.ones(2)
    n,y = lib.in_tuple((x,5))
    assert n==5 and y is x
    raises(TypeError, 'argument 1', lib.pair, (1,2,3))
    raises(TypeError, 'argument 1', lib.doubled, [1,'a'])
    raises(TypeError, 'argument 1', lib.doubled, 3)

def test_optional(lib):
    assert lib.maybe(None) is None and lib.maybe(1)==2
    assert lib.has(None) is False and lib.has(torch.ones(1)) is True
    assert lib.defined(None) is False and lib.defined(torch.ones(1)) is True and lib.undefined() is None


# Calls

def test_defaults_and_names(lib):
    assert lib.defaults(1)==111 and lib.defaults(1,2)==103 and lib.defaults(1,2,3)==6 and lib.defaults(1, b=5)==106
    assert lib.defaults(c=1, a=1, b=1)==3
    counts(lib.defaults, 1, 3, 0)
    counts(lib.defaults, 1, 3, 4)
    counts(lib.add, 2, 1)
    counts(lib.nothing, 0, 1)
    raises(TypeError, "'d'", lib.defaults, 1, d=3)
    raises(TypeError, "'a' twice", lib.defaults, 1, a=3)
    raises(TypeError, "argument 'b'", lib.defaults, 1, c=3)
    assert lib.inner_f(3)==6 and lib.inner_f(3,4)==12 and lib.generic_int(5)==5

def test_what_a_function_says_of_itself(lib):
    assert lib.defaults.__name__=='defaults' and lib.defaults.__doc__=='int defaults(int a, int b = 10, int c = 100)'
    assert str(inspect.signature(lib.defaults))=="(a: 'int', b: 'int' = 10, c: 'int' = 100)"
    assert lib.add.__doc__=='int add(int, int)' and 'std::string greet(const std::string' in lib.greet.__doc__
    assert lib.__file__.endswith('plain.so') and lib.__name__=='plain' and 'defaults' in repr(lib)
    assert list(lib.functions)[:2]==['add','wide']
    msg = raises(AttributeError, "'nope'", lambda: lib.nope)
    assert msg.startswith('plain ') and ' add, wide' in msg

def test_types_that_cannot_cross(lib):
    raises(TypeError, 'bytes', lib.unknown, 1)
    raises(TypeError, 'cannot pass', lib.gives_unknown)
    raises(TypeError, ' bytes', lib.wide, b'bytes')
    for x in ({}, object(), {1}, 1j): raises(TypeError, f' {type(x).__name__}', lib.wide, x)

def test_a_wrong_argument_is_named(lib):
    msg = raises(TypeError, 'fill(): argument 2 (float ', lib.fill, torch.ones(2,2), 'three')
    assert ' str' in msg and msg.endswith('void fill(torch::Tensor x, float value)')
    msg = raises(TypeError, 'argument 1 (torch::Tensor x) ', lib.fill, [1,2], 3)
    assert 'list [1, 2]' in msg
    msg = raises(TypeError, ' float64 ', lib.wide, np.ones(2))
    assert 'ndarray' in msg and '(2,)' in msg


# Tensors

def test_metadata(lib):
    for x in (torch.ones(2,3), torch.ones(4,6)[::2,1::2], torch.ones(()), torch.ones(0,5), torch.ones(3,1).expand(3,4),
              torch.ones(2,3,4).permute(2,0,1)):
        assert lib.sizes(x)==list(x.shape) and lib.strides(x)==list(x.stride()) and lib.address(x)==x.data_ptr()
        assert lib.about(x)==f'Float {x.dim()} {x.numel()} 4 {x.numel()*4} cpu 01{int(x.is_contiguous())}'
    assert lib.size(torch.ones(2,3), -1)==3
    raises(IndexError, '[-2, 1]', lib.size, torch.ones(2,3), 2)

def test_the_same_object_comes_back(lib):
    x = torch.ones(3)
    assert lib.same(x) is x and lib.same_reference(x) is x and lib.by_reference(x) is x
    p = torch.nn.Parameter(torch.ones(3))
    assert lib.same(p) is p
    a = np.ones(3)
    assert lib.same(a) is a
    assert all(o is x for o in lib.swap([x,x]))

def test_writes_reach_the_caller(lib):
    x = torch.zeros(4,4)
    lib.fill(x[1:3,::2], 7)
    want = torch.zeros(4,4); want[1:3,::2] = 7
    assert torch.equal(x, want)
    a = np.zeros((3,4), np.float32)
    lib.fill(a.T, 2)
    assert (a==2).all()
    x = torch.arange(24.).view(2,3,4)
    i,j,k = torch.meshgrid(*map(torch.arange, (4,2,3)), indexing='ij')
    assert lib.packed_sum(x.permute(2,0,1))==(x.permute(2,0,1)*(1+i+10*j+100*k)).sum().item()

def test_wrong_types_of_elements(lib):
    two_types(RuntimeError, 'Float', 'Double', lib.first, torch.ones(1).double())
    two_types(RuntimeError, 'Float', 'Int', lib.first, np.ones(1, np.int32))
    assert re.search(r'\b2 dim.*\b1\b', raises(RuntimeError, '', lib.fill, torch.ones(3), 1))
    raises(RuntimeError, 'undefined', lib.first, None)

def test_pointers(lib):
    x = torch.ones(3)
    assert lib.raw(x)==x.data_ptr() and lib.raw(None)==0
    for t in (torch.int32, torch.uint32): assert lib.raw_int(y := torch.ones(3).to(t))==y.data_ptr()
    for t in (torch.int8, torch.uint8, torch.bool): assert lib.raw_bytes(y := torch.ones(3).to(t))==y.data_ptr()
    two_types(TypeError, 'Float', 'Double', lib.raw, x.double())
    two_types(TypeError, 'UInt32', 'Float', lib.raw_int, x)
    raises(TypeError, 'argument 1', lib.raw_bytes, x)

def test_every_dtype(lib):
    for t in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32,
              torch.float64, torch.bool, torch.bfloat16, torch.uint16, torch.uint32, torch.uint64, torch.complex64,
              torch.float8_e5m2, torch.float8_e4m3fn):
        assert lib.type_of(torch.empty(1, dtype=t)) is t
    for t in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x = torch.randn(50).to(t)
        torch.testing.assert_close(lib.twice(x), x*2+x/4)
    for t in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64, torch.bool):
        assert lib.bytes_of_type(torch.ones(1).to(t))==t.itemsize
    two_types(NotImplementedError, '"twice"', "'Int'", lib.twice, torch.ones(2).int())
    x = lib.made([2,0,3], torch.int16, torch.device('cpu'))
    assert x.shape==(2,0,3) and x.dtype==torch.int16

def test_half_rounds_as_torch_does(lib):
    every = torch.arange(-2**15, 2**15).to(torch.int16).view(torch.float16)
    wide = lib.from_half(every)
    torch.testing.assert_close(wide, every.float(), rtol=0, atol=0, equal_nan=True)
    bits = torch.cat([torch.randint(-2**31, 2**31, (20000,)).to(torch.int32).view(torch.float32),
                      torch.randn(20000)*1e-6, torch.randn(20000)*100, wide[:-1]+(wide[1:]-wide[:-1])/2,
                      torch.tensor([65519.,65520,65536,2**-25,2**-24*1.5,math.inf,-math.inf,math.nan,-0.])])
    torch.testing.assert_close(lib.to_half(bits), bits.half(), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(lib.to_bfloat(bits), bits.bfloat16(), rtol=0, atol=0, equal_nan=True)
    a,b = torch.tensor(1.2345).half(),torch.tensor(.777).half()
    assert lib.half_operators(1.2345, .777)==((a+b)*b+1).item()

def test_arrays(lib):
    raises(TypeError, 'read-only', lib.same, np.broadcast_to(np.ones(1), 3))
    raises(TypeError, 'strides', lib.same, np.ones(3)[::-1])
    raises(TypeError, ' object', lib.same, np.array([{}]))
    raises(TypeError, ' >f4', lib.same, np.ones(2, '>f4'))
    a = np.arange(4, dtype=np.float32).reshape(2,2)
    assert lib.item(a)==7 and lib.sizes(a)==[2,2]
    lib.in_place(a)
    assert (a==[[4,4],[3,3]]).all()

def test_tensors_without_an_address(lib):
    raises(TypeError, "on 'meta'", lib.same, torch.empty(3, device='meta'))
    raises(TypeError, 'sparse', lib.same, torch.eye(3).to_sparse())


# What Python computes for C++

def test_new_tensors(lib):
    x = torch.arange(6.).view(2,3)
    z,o,f,r,l,u,n,c,s,t,e,empty = lib.new_tensors(x)
    assert z.dtype==torch.int32 and z.shape==(3,2) and not z.any() and torch.equal(o, torch.ones(3))
    assert torch.equal(f, torch.full((2,), 1.5)) and torch.equal(r, torch.arange(4))
    assert torch.equal(l, torch.zeros(2,3)) and u.shape==(2,2) and 0<=u.min() and u.max()<1 and n.dtype==torch.float64
    assert n.shape==(5,)
    assert torch.equal(c, torch.cat([x,x])) and torch.equal(s, torch.stack([x,x])) and t.tolist()==[1.5,2.5]
    assert torch.equal(e, torch.eye(2)) and empty.shape==(0,4)

def test_computing(lib):
    x = torch.randn(3,3)
    y = (x+1)*x-x/2+x.t().contiguous().view(3,3)+1+2
    torch.testing.assert_close(lib.computed(x), torch.relu(1000-y.sum(1)).double())
    assert lib.item(torch.tensor([[1.,2],[3,4]]))==12
    lib.in_place(x)
    assert torch.equal(x, torch.tensor([[4.]*3,[3.]*3,[3.]*3]))

def test_errors_of_python_pass_through(lib):
    x = torch.ones(2,3)
    raises(RuntimeError, 'mat1', lib.impossible, x)
    assert lib.survived(x)==1 and lib.add(1,1)==2
    raises(NotImplementedError, 'amax, argmax', lib.two_results, x)

def test_warnings(lib):
    with pytest.warns(UserWarning, match='mind 3'): lib.warn()


# Errors

def test_checks(lib):
    assert raises(RuntimeError, '', lib.check, torch.ones(3).int()).endswith(' 1: [3] Int 1.5 1')
    assert lib.check(torch.ones(3,1)) is None
    raises(RuntimeError, ' n > 0 ', lib.check_plain, 0)
    raises(RuntimeError, 'n == 3 (4 vs. 3)', lib.check_equal, 4)

def test_kinds_of_errors(lib):
    kinds = {1:ValueError, 2:IndexError, 3:TypeError, 4:NotImplementedError, 5:RuntimeError, 6:IndexError, 7:ValueError,
             8:MemoryError, 9:RuntimeError, 10:OverflowError, 11:RuntimeError}
    for i,kind in kinds.items(): raises(kind, '', lib.check_kind, i)
    raises(RuntimeError, 'at 5', lib.check_kind, 5)
    raises(RuntimeError, 'INTERNAL ASSERT FAILED', lib.check_kind, 11)


# References

def test_nothing_leaks(lib, freeze_gc):
    x = torch.ones(2,2)
    def work():
        lib.same(x); lib.swap([x,x]); lib.item(x); lib.computed(x); lib.in_place(x); lib.new_tensors(x); lib.has(x)
        for f in (lib.impossible, lib.check, lib.first):
            try: f(torch.ones(2,3,1).double())
            except RuntimeError: pass
    work()
    gc.collect()
    n,before = sys.getrefcount(x),sum(type(o) is torch.Tensor for o in gc.get_objects())
    for _ in range(20): work()
    gc.collect()
    assert sys.getrefcount(x)==n and sum(type(o) is torch.Tensor for o in gc.get_objects())==before

def test_results_are_freed(lib):
    y = lib.twice(torch.ones(3))
    r = weakref.ref(y)
    del y
    assert r() is None

def test_what_c_keeps_lives(lib):
    x = torch.arange(3.)
    r,n = weakref.ref(x),sys.getrefcount(x)
    lib.keep(x)
    assert sys.getrefcount(x)==n+1 and lib.what_was_kept() is x
    del x
    assert r() is not None and lib.what_was_kept().tolist()==[0,1,2]
    lib.keep(None)
    assert r() is None

def test_threads(lib):
    wrong = []
    def work(i):
        for k in range(200):
            x = torch.full((4,), float(i))
            if lib.twice(x).tolist() != [2.25*i]*4 or lib.add(i,k) != i+k: wrong.append(i)
            try: lib.check(torch.full((i+1,), 0.))
            except RuntimeError as e:
                if f'[{i+1}]' not in str(e): wrong.append(e)
    ts = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in ts: t.start()
    for t in ts: t.join()
    assert not wrong

@pytest.mark.slow
def test_an_end_with_a_tensor_kept(lib):
    "A static torch::Tensor outlives the interpreter"
    code = (f'import torch; from gridstride.cpp.values import Library; lib = Library({lib.__file__!r}); '
            'lib.keep(torch.ones(3)); print(lib.what_was_kept().sum().item())')
    r = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert r.returncode==0 and r.stdout=='3.0\n', r.stderr

def test_arrays_need_no_torch(lib):
    code = ('import sys; sys.modules["torch"] = None; import numpy as np; from gridstride.cpp.values import Library; '
            f'a = np.zeros((2,2), np.float32); Library({lib.__file__!r}).fill(a, 2); print(a.sum())')
    r = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert r.returncode==0 and r.stdout=='8.0\n', r.stderr


# On the emulated device

KERNELS = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
__global__ void copy(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void scale(const float4 *x, float4 *y, float by, int n) {
    int i = threadIdx.x; if (i < n) y[i] = float4{x[i].x * by, x[i].y * by, x[i].z * by, x[i].w * by};
}
__global__ void mark(unsigned *x, const char *s, bool yes, double d) { if (yes) x[threadIdx.x] = s[0] + unsigned(d); }
template <class T> __global__ void set(torch::PackedTensorAccessor32<T, 2, torch::RestrictPtrTraits> a, T value) {
    a[blockIdx.x][threadIdx.x] = value;
}
template <class T> __global__ void plain(T *x, T value) { x[threadIdx.x] = value; }

std::string about(torch::Tensor x) {
    return torch::str(x.device(), " ", x.is_cuda(), x.is_cpu(), x.options().device().is_cuda());
}
torch::Tensor copied(torch::Tensor x) {
    const at::cuda::OptionalCUDAGuard guard(device_of(x));
    auto y = torch::empty_like(x);
    copy<<<1, x.numel(), 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
torch::Tensor moved(torch::Tensor x, torch::Tensor y) {
    copy<<<1, x.numel()>>>(x.data_ptr<float>(), y.data_ptr<float>()); return y.sum();
}
torch::Tensor filled(torch::Tensor x, double value) {
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "filled", [&] {
        set<scalar_t><<<x.size(0), x.size(1)>>>(x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
                                                scalar_t(value));
    });
    return x;
}
torch::Tensor back_and_forth(torch::Tensor x) {
    auto t = torch::empty_like(x);
    float *p = t.data_ptr<float>();
    t.fill_(7);
    copy<<<1, 4>>>(p, x.data_ptr<float>());
    TORCH_CHECK(x.sum().item<float>() == 28, "the host sees ", x.sum().item<float>());
    x.mul_(2);
    copy<<<1, 4>>>(x.data_ptr<float>(), p);
    return t;
}
torch::Tensor fresh(torch::Tensor x) { return moved(torch::empty_like(x), x); }
torch::Tensor cleared(torch::Tensor x) { auto t = torch::empty_like(x); t.zero_(); return moved(t, x); }
void thrown(torch::Tensor x) {
    copy<<<1, 4>>>(torch::ones_like(x).data_ptr<float>(), x.data_ptr<float>()); TORCH_CHECK(false, "thrown");
}
std::string places(torch::Tensor x) {
    auto t = torch::zeros({4});
    return torch::str(t.is_cuda(), x.cpu().is_cuda(), t.cuda().is_cuda(), t.to(torch::kCUDA).is_cuda(),
                      (x + 1).is_cuda(), torch::zeros({1}, x.options()).is_cuda(), t.to(x.device()).is_cuda());
}
int crash() { volatile int *p = (int *)16; return *p; }
"""
KERNEL_NAMES = 'about copied moved filled back_and_forth fresh cleared thrown places crash'.split()
KERNEL_EXPORTS = (''.join(f'GRIDSTRIDE_EXPORT({o})\n' for o in KERNEL_NAMES)
                  + 'GRIDSTRIDE_KERNEL(copy)\nGRIDSTRIDE_KERNEL(scale)\nGRIDSTRIDE_KERNEL(mark)\n'
                    'GRIDSTRIDE_KERNEL_AS(plain_double, plain<double>)\n')

class Stopped(Exception): pass

class Emulated(Library):
    def error_of_finding(self, function): return Stopped(function.__name__)

@pytest.fixture(scope='session')
def emu():
    emulator.load_runtime()     # a process has one runtime: a second one would take the findings of all other tests
    emulator.prepare(True)
    src = '#include "emulator.h"\n' + to_cpp(KERNELS) + '\n#include <gridstride/tensor.h>\n' + KERNEL_EXPORTS
    flags = '-fsanitize=thread', '-Wno-tsan', f"-I{HERE/'include'/'cuda'}"
    return Emulated(build(src, 'kernels', *flags), emulated=True)

@pytest.mark.slow
def test_emulated_tensors_are_on_the_device(emu):
    assert emu.about(torch.ones(3))=='cuda:0 101' and emu.about(np.ones(3))=='cuda:0 101'
    assert emu.places(torch.ones(4))=='0011111'

def test_emulated_functions(emu):
    x = torch.randn(4)
    assert torch.equal(emu.copied(x), x) and torch.equal(emu.copied(x.numpy()), x)
    for t in (torch.float32, torch.float64, torch.float16):
        y = torch.zeros(6,8, dtype=t)
        assert emu.filled(y[1::2,::2], 1.5) is not y
        want = torch.zeros(6,8, dtype=t); want[1::2,::2] = 1.5
        assert torch.equal(y, want)
    a = np.zeros((2,3), np.float32)
    assert emu.filled(a, 4) is a and (a==4).all()
    raises(Stopped, 'filled', emu.filled, torch.zeros(0,3), 1)  # no GPU takes a grid of 0 blocks
    assert torch.equal(emu.copied(x), x)

def test_views_share_memory_on_the_emulated_device(emu):
    x = torch.arange(8.)
    assert emu.moved(x[:4], x[4:]).item()==6 and x.tolist()==[0,1,2,3]*2

def test_the_rest_of_a_storage_is_out_of_reach(emu):
    x = torch.arange(8.)
    raises(Stopped, 'moved', emu.moved, x[:5], torch.zeros(4))
    emu.moved(x[:4], torch.zeros(4))
    y = torch.zeros(4)
    raises(Stopped, 'moved', emu.moved, y[:3], y[2:])  # they overlap: one thread reads what another writes

def test_the_host_and_the_emulated_device_see_each_other(emu):
    x = torch.zeros(4)
    assert emu.back_and_forth(x).tolist()==[14]*4 and x.tolist()==[14]*4

def test_uninitialized_memory(emu):
    raises(Stopped, 'fresh', emu.fresh, torch.ones(4))
    assert emu.cleared(torch.ones(4)).item()==0

def test_what_was_written_before_an_error_stays(emu):
    x = torch.zeros(4)
    raises(RuntimeError, 'thrown', emu.thrown, x)
    assert x.tolist()==[1]*4

def test_a_crash_of_host_code(emu):
    raises(Stopped, 'crash', emu.crash)
    assert emu.moved(torch.ones(4), torch.zeros(4)).item()==4

def test_kernels(emu):
    x,y = torch.arange(8.),torch.zeros(8)
    emu.launch('scale', 1, 2, (x,y,3,2))
    assert torch.equal(y, 3*x) and list(emu.kernels)==['copy','scale','mark','plain_double']
    assert 'copy' not in emu.functions
    u = torch.zeros(3, dtype=torch.int32)
    emu.launch('mark', (1,1), (3,), (u,torch.tensor([65], dtype=torch.uint8),True,2))
    assert u.tolist()==[67]*3
    d = torch.zeros(4, dtype=torch.float64)
    emu.launch('plain_double', 1, 4, (d,1))
    assert d.tolist()==[1]*4
    two_types(TypeError, 'Float', 'Int', emu.launch, 'scale', 1, 2, (x.int(),y,3,2))
    assert 'float 2.5' in raises(TypeError, 'argument 4 (int) ', emu.launch, 'scale', 1, 2, (x,y,3,2.5))
    assert re.search('4 .*3', raises(TypeError, 'scale', emu.launch, 'scale', 1, 2, (x,y,3)))
    raises(Stopped, 'scale', emu.launch, 'scale', 1, 4, (x,y,3,4))

def test_nothing_leaks_on_the_emulated_device(emu, freeze_gc):
    x = torch.ones(4)
    def work():
        emu.copied(x); emu.moved(x, torch.zeros(4)); emu.back_and_forth(torch.zeros(4))
        try: emu.thrown(x)
        except RuntimeError: pass
    work()
    gc.collect()
    n,before = sys.getrefcount(x),sum(type(o) is torch.Tensor for o in gc.get_objects())
    for _ in range(20): work()
    gc.collect()
    assert sys.getrefcount(x)==n and sum(type(o) is torch.Tensor for o in gc.get_objects())==before
