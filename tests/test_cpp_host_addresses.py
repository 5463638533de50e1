"""Addresses of host code in kernels, names of the device's variables in host code, kernels that host code calls, and
allocations that have failed: what a GPU would not take is found, and what looks like it runs in silence."""
import warnings

import pytest
import torch

from gridstride import load_cuda
from gridstride.cpp import cuda_kernel
from gridstride.cpp.toolchain.build import CompileError
from gridstride.cpp.frontend.edits import NotEmulated
from gridstride.diagnostics.errors import KernelCrash, KernelError

SRC = r'''
#include <cublasLt.h>
#include <new>
#include <vector>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

// Variables of the device

__device__ float field[16];
__device__ float *into_field = field;
__device__ int counter = 5;
__constant__ int limit = 3;
__managed__ int both = 1;
namespace other { __device__ int counter = 8; }
#define VARIABLE(T, name) __device__ T name;
VARIABLE(int, by_macro)
float host_table[4] = {1, 2, 3, 4};
__host__ __device__ float *where() { return field + 1; }

__global__ void fill(float *x) { x[threadIdx.x] = threadIdx.x; }
__global__ void count() { counter++, other::counter++, both += by_macro++, into_field[2] = 7; }
__global__ void ask_where(float **p) { *p = where(); }
template <class T> int copy_to(T &symbol, const void *from, size_t bytes, size_t offset) {
    return cudaMemcpyToSymbol(symbol, from, bytes, offset);
}

int errors(int which) {
    float h[16] = {1, 2, 3, 4}, *d, *p;
    size_t bytes;
    cudaMalloc(&d, sizeof h);
    const float *const before = d;
    const void *named = &limit;
    int e = -1;
    switch (which) {
        case 0: e = cudaMemcpy(h, field, sizeof h, cudaMemcpyDeviceToHost); break;
        case 1: e = cudaMemcpy(&limit, h, 4, cudaMemcpyHostToDevice); break;
        case 2: e = cudaMemset(field, 0, sizeof field); break;
        case 3: e = cudaMemcpyToSymbol(&limit, h, 4); break;
        case 4: e = cudaMemcpyToSymbol("limit", h, 4); break;
        case 5: e = cudaMemcpyToSymbol(host_table, h, 4); break;
        case 6: e = cudaMemcpyToSymbol(d, h, 4); break;
        case 7: e = cudaMemcpyFromSymbol(h, d, 4); break;
        case 8: e = cudaGetSymbolAddress((void **)&p, host_table); break;
        case 9: e = cudaGetSymbolSize(&bytes, h); break;
        case 10: e = cudaMemcpyToSymbol(field[1], h, 4); break;
        case 11: e = cudaMemcpyToSymbol(field, h, 8, 60); break;
        case 12: e = cudaMemcpyFromSymbol(h, field, 4, ~size_t(0)); break;
        case 13: e = cudaMemcpyToSymbol(field, h, 4, 0, cudaMemcpyDeviceToHost); break;
        case 14: e = cudaMemcpyToSymbol(named, h, 0); break;
        case 15: e = cudaMemcpyToSymbol(both, h, 0); break;
        case 16: e = copy_to(field, h, 4, 60); break;
    }
    const bool kept = d == before && host_table[0] == 1 && host_table[1] == 2;
    cudaGetLastError();
    cudaFree(d);
    return kept ? e : -2;
}
std::vector<int> right_symbols() {
    float *p, h[16], **on_device, *there;
    int c[3];
    size_t bytes;
    cudaGetSymbolAddress((void **)&p, field);
    cudaGetSymbolSize(&bytes, field);
    fill<<<1, 16>>>(p);
    count<<<1, 1>>>();
    cudaMemcpyFromSymbol(h, field, sizeof h);
    cudaMemcpyFromSymbol(&c[0], counter, 4);
    cudaMemcpyFromSymbol(&c[1], other::counter, 4);
    cudaMemcpyFromSymbol(&c[2], by_macro, 4);
    cudaMalloc(&on_device, 8);
    ask_where<<<1, 1>>>(on_device);
    cudaMemcpy(&there, on_device, 8, cudaMemcpyDeviceToHost);
    fill<<<1, 4>>>(there);
    cudaFree(on_device);
    cudaMemcpyFromSymbol(&there, into_field, 8);
    fill<<<1, 4>>>(there);
    cudaDeviceSynchronize();
    both++;
    return {int(bytes), int(h[1]), int(h[2]), c[0], c[1], c[2], there == p, where() == p + 1, both > 0};
}
struct Times { __device__ int operator()(int x) const { return x * limit; } };
int right_symbol_in_thrust() {
    thrust::device_vector<int> x(4, 2);
    thrust::transform(thrust::device, x.begin(), x.end(), x.begin(), Times());
    return thrust::reduce(x.begin(), x.end());
}
void symbol_as_argument() { fill<<<1, 16>>>(field); }
void symbol_by_pointer() { fill<<<1, 1>>>(where()); }
int symbol_read() { return counter; }
void symbol_written() { counter = 3; }

// Functions, and tables of virtual functions

typedef float (*Operation)(float);
__device__ float cube(float x) { return x * x * x; }
__device__ float square(float x) { return x * x; }
__device__ float half_of(float x) { return x / 2; }
__device__ Operation operation = square;
__constant__ Operation operations[2] = {square, half_of}, other_operations[2];
struct Functor {
    Operation f;
    float by;
    __device__ float operator()(float x) const { return f(x) * by; }
};
template <class F> __global__ void map(float *x, F f) { x[threadIdx.x] = f(x[threadIdx.x]); }
template <Operation f> __global__ void map_static(float *x) { x[threadIdx.x] = f(x[threadIdx.x]); }
__global__ void map_through(float *x, const Functor *f) { x[threadIdx.x] = (*f)(x[threadIdx.x]); }
__global__ void map_table(float *x) { x[threadIdx.x] = operations[1](x[threadIdx.x]); }
__global__ void map_other(float *x) { x[threadIdx.x] = other_operations[1](x[threadIdx.x]); }
__global__ void choose(Operation *f) { *f = half_of; }
void right_functions(torch::Tensor t) {
    float *x = t.data_ptr<float>();
    Operation f, *shared;
    cudaMemcpyFromSymbol(&f, operation, sizeof f);
    map<<<1, 4>>>(x, f);
    Functor g{f, 2}, *on_device;
    map<<<1, 4>>>(x, g);
    cudaMalloc(&on_device, sizeof g);
    cudaMemcpy(on_device, &g, sizeof g, cudaMemcpyHostToDevice);
    map_through<<<1, 4>>>(x, on_device);
    cudaFree(on_device);
    map_table<<<1, 4>>>(x);
    map_static<half_of><<<1, 4>>>(x);
    cudaMallocManaged(&shared, 8);
    choose<<<1, 1>>>(shared);
    cudaDeviceSynchronize();
    map<<<1, 4>>>(x, *shared);
    cudaFree(shared);
    cudaDeviceSynchronize();
}
void function_as_argument(torch::Tensor x) { map<<<1, 4>>>(x.data_ptr<float>(), cube); }
void function_in_a_struct(torch::Tensor x) { map<<<1, 4>>>(x.data_ptr<float>(), Functor{cube, 2}); }
__global__ void map_by(float *x, Functor f) { x[threadIdx.x] = f(x[threadIdx.x]); }
void function_in_braces(torch::Tensor x) { map_by<<<1, 4>>>(x.data_ptr<float>(), {cube, 2}); }
void lambda_in_braces(torch::Tensor x) {
    map_by<<<1, 4>>>(x.data_ptr<float>(), {[](float a) { return a + 1; }, 2});
}
__global__ void fill_with(float *x, int n) { x[threadIdx.x] = n; }
int evaluated;
int next_value() { return ++evaluated; }
void right_braces(torch::Tensor x) { fill_with<<<1, 4>>>({x.data_ptr<float>()}, {next_value()}); }
void function_copied(torch::Tensor x) {
    Functor g{cube, 2}, *on_device;
    cudaMalloc(&on_device, sizeof g);
    cudaMemcpy(on_device, &g, sizeof g, cudaMemcpyHostToDevice);
    map_through<<<1, 4>>>(x.data_ptr<float>(), on_device);
}
void function_in_a_table(torch::Tensor x) {
    const Operation both[2] = {cube, cube};
    cudaMemcpyToSymbol(other_operations, both, sizeof both);
    map_other<<<1, 4>>>(x.data_ptr<float>());
}
bool right_round_trip() {
    Functor g{cube, 2}, *on_device;
    cudaMalloc(&on_device, sizeof g);
    cudaMemcpy(on_device, &g, sizeof g, cudaMemcpyHostToDevice);
    g.f = nullptr;
    cudaMemcpy(&g, on_device, sizeof g, cudaMemcpyDeviceToHost);
    cudaFree(on_device);
    return g.f == cube;
}

struct Shape {
    __host__ __device__ virtual float area() const = 0;
    __host__ __device__ virtual ~Shape() {}
};
struct Disc : Shape {
    float r;
    __host__ __device__ Disc(float r) : r(r) {}
    __host__ __device__ float area() const override { return 3 * r * r; }
};
struct Box : Shape {
    float side;
    __host__ __device__ Box(float side) : side(side) {}
    __host__ __device__ float area() const override { return side * side; }
};
__global__ void make(Shape **s) { *s = new Disc(2); }
__global__ void make_at(Disc *d) { new (d + threadIdx.x) Disc(threadIdx.x + 1); }
__global__ void ask(const Shape *const *s, float *out) { *out = (*s)->area(); }
__global__ void ask_all(const Disc *d, float *out) { const Shape &s = d[threadIdx.x]; out[threadIdx.x] = s.area(); }
__global__ void end(Shape **s) { delete *s; }
__global__ void ask_box(const Box *b, float *out) { const Shape *s = b; *out = s->area(); }
void right_objects(torch::Tensor out) {
    Shape **s;
    Disc *d, *copy;
    cudaMalloc(&s, sizeof *s);
    make<<<1, 1>>>(s);
    ask<<<1, 1>>>(s, out.data_ptr<float>());
    end<<<1, 1>>>(s);
    cudaMalloc(&d, 4 * sizeof *d);
    cudaMalloc(&copy, 4 * sizeof *d);
    make_at<<<1, 4>>>(d);
    cudaMemcpy(copy, d, 4 * sizeof *d, cudaMemcpyDeviceToDevice);
    ask_all<<<1, 4>>>(copy, out.data_ptr<float>());
    std::vector<char> bytes(4 * sizeof *d);
    cudaMemcpy(bytes.data(), d, bytes.size(), cudaMemcpyDeviceToHost);
    cudaMemcpy(copy, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
    ask_all<<<1, 4>>>(copy, out.data_ptr<float>());
    cudaFree(s), cudaFree(d), cudaFree(copy);
}
void object_of_the_host(torch::Tensor out) {
    const Box b(3);
    Box *p;
    cudaMalloc(&p, sizeof b);
    cudaMemcpy(p, &b, sizeof b, cudaMemcpyHostToDevice);
    ask_box<<<1, 1>>>(p, out.data_ptr<float>());
}
// Integers that look like addresses of the program: within a function, and within a table
__global__ void subtract(const long long *x, long long first, long long *out) {
    out[threadIdx.x] = x[threadIdx.x] - first;
}
std::vector<int64_t> right_integers(bool in_table) {
    const Disc d(1);
    const long long first = in_table ? *reinterpret_cast<const long long *>(&d) + 8
                                     : reinterpret_cast<long long>(&cube) + 1;
    long long h[3] = {first, first + 1, first + 2}, *x, *y;
    cudaMalloc(&x, sizeof h), cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    subtract<<<1, 3>>>(x, first, y);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    cudaFree(x), cudaFree(y);
    return {h[0], h[1], h[2]};
}
__global__ void sum(const float *t, float *out) { *out = t[0] + t[1]; }
void variable_of_the_host(torch::Tensor out) { sum<<<1, 1>>>(host_table, out.data_ptr<float>()); }
__global__ void is_null(const char *text, float *out) { *out = text == nullptr; }
void right_not_followed(torch::Tensor out) { is_null<<<1, 1>>>("text", out.data_ptr<float>()); }

// Kernels that are called

template <class T> __global__ void scale(T *x, T by) { x[threadIdx.x] *= by; }
template <class F, class... A> void call(F f, A... args) {
    f(args...);                                                           // called
}
void call_template(torch::Tensor x) { call(scale<float>, x.data_ptr<float>(), 2.f); }
void call_pointer(torch::Tensor x) {
    void (*kernel)(float *) = fill;
    fill<<<1, 1>>>(x.data_ptr<float>());
    kernel(x.data_ptr<float>());                                          // called
}
void right_pointer(torch::Tensor x) {
    void (*kernel)(float *) = fill;
    kernel<<<1, 4>>>(x.data_ptr<float>());
    cudaDeviceSynchronize();
}

// Policies

struct Twice { __host__ __device__ float operator()(float x) const { return 2 * x; } };
float right_policies(torch::Tensor t) {
    float h[4] = {3, 1, 2, 4}, *d = t.data_ptr<float>();
    thrust::device_vector<float> v(h, h + 4);
    thrust::host_vector<float> w(4);
    std::vector<float> none;
    thrust::sort(thrust::host, h, h + 4);
    thrust::sort(thrust::device, d, d + 4);
    thrust::sort(thrust::seq, h, h + 4);
    thrust::copy(thrust::device, none.begin(), none.end(), none.begin());
    thrust::transform(thrust::cuda::par.on(nullptr), v.begin(), v.end(), d, Twice());
    thrust::copy(v.begin(), v.end(), w.begin());
    return thrust::reduce(thrust::device, d, d + 4, 0.f);
}
void sort_host_memory() {
    float h[4] = {3, 1, 2, 4};
    thrust::sort(thrust::device, h, h + 4);
}
void copy_to_host_memory() {
    thrust::device_vector<float> v(4);
    thrust::host_vector<float> w(4);
    thrust::copy(thrust::device, v.begin(), v.end(), w.begin());
}
void transform_host_vector(torch::Tensor t) {
    std::vector<float> w(4);
    thrust::transform(thrust::device, w.begin(), w.end(), t.data_ptr<float>(), Twice());
}
void sort_device_memory(torch::Tensor t) {
    float *d = t.data_ptr<float>();
    thrust::sort(thrust::host, d, d + 4);
}

// What is not there

int lt_handle() {
    cublasLtHandle_t handle;
    const int e = cublasLtCreate(&handle);
    cublasLtDestroy(handle);
    return e;
}
void lt_transform() {
    cublasLtMatrixTransformDesc_t transform;
    cublasLtMatrixTransformDescCreate(&transform, CUDA_R_32F);
}
__global__ void write_at(float *x, int i) { x[i] = 1; }
float *lost;
void allocate() { cudaMalloc(&lost, size_t(1) << 45); }                   // allocated
void use_lost(int i) { write_at<<<1, 1>>>(lost, i); }
void use_null_after_a_look() {
    cudaGetLastError();
    write_at<<<1, 1>>>(nullptr, 0);
}
__global__ void large(float *x, int n) {
    float own[1 << 20];
    for (int i = 0; i < n; i++) own[i] = x[i % 4];
    x[0] = own[n / 2];
}
void large_frame(torch::Tensor x) { large<<<1, 4>>>(x.data_ptr<float>(), 1 << 20); }
__global__ void middling(float *x, int n) {
    float own[40000];
    for (int i = 0; i < n; i++) own[i] = i;
    x[threadIdx.x] = own[n / 2];
}
void right_frame(torch::Tensor x) { middling<<<1, 4>>>(x.data_ptr<float>(), 40000); }
template <int N> __global__ void big(float *x) {
    float own[N];
    for (int i = 0; i < N; i++) own[i] = i + x[0];
    x[threadIdx.x + 1] = own[N / 2];
}
void largest_frame(torch::Tensor x) { big<128 * 1024 - 256><<<1, 1>>>(x.data_ptr<float>()); }  // 511 KB
void too_large_frame(torch::Tensor x) { big<200 * 1024><<<1, 1>>>(x.data_ptr<float>()); }  // 800 KB
'''
HOST = ('errors right_symbols right_symbol_in_thrust symbol_as_argument symbol_by_pointer symbol_read symbol_written '
        'right_functions function_as_argument function_in_a_struct function_copied function_in_a_table '
        'function_in_braces lambda_in_braces right_braces '
        'right_round_trip right_objects right_integers object_of_the_host variable_of_the_host right_not_followed '
        'call_template call_pointer right_pointer right_policies sort_host_memory copy_to_host_memory '
        'transform_host_vector sort_device_memory lt_handle lt_transform allocate use_lost use_null_after_a_look '
        'large_frame right_frame largest_frame too_large_frame').split()


@pytest.fixture(scope='module')
def module(): return load_cuda(SRC, funcs=HOST)


@pytest.fixture(scope='module')
def unchecked(): return load_cuda(SRC, funcs=HOST, checks=False)


def x(): return torch.tensor([1., 2., 3., 4.])


def finding(f, *args):
    with pytest.raises(KernelError) as e: f(*args)
    return e.value


def line_with(text):
    return next(n for n, line in enumerate(SRC.splitlines(), 1) if text in line)


INVALID, SYMBOL, DIRECTION = 1, 13, 21

@pytest.mark.slow
@pytest.mark.parametrize('which,error', [
    *((o, INVALID) for o in (0, 1, 2, 11, 12)), *((o, SYMBOL) for o in range(3, 11)), (13, DIRECTION),
    (14, 0), (15, 0), (16, 0)])
def test_calls_with_a_symbol_or_without(module, which, error): assert module.errors(which) == error


def test_symbols_that_are_used_rightly(module):
    assert list(module.right_symbols()) == [64, 1, 7, 6, 9, 1, 1, 0, 1]
    assert module.right_symbol_in_thrust() == 24


PLAIN = '''
#define VARIABLE(T, name) __device__ T name
VARIABLE(int, by_macro) = 9;
__constant__ const int known = 4;
struct Owner { __device__ static int member; };
__device__ int Owner::member = 8;
__global__ void change() { Owner::member += by_macro + known; }
int values() {
    int a = 0, b = 0, c = 1;
    cudaMemcpyToSymbol(by_macro, &c, 4);
    change<<<1, 1>>>();
    cudaMemcpyFromSymbol(&a, Owner::member, 4);
    cudaMemcpyFromSymbol(&b, known, 4);
    return 100 * a + b;
}'''

def test_variables_that_the_emulator_leaves_as_they_are(): assert load_cuda(PLAIN).values() == 1304


@pytest.mark.parametrize('name,code,array', [
    ('symbol_as_argument', 'host_symbol', 'field'), ('symbol_by_pointer', 'host_symbol', 'field'),
    ('symbol_read', 'host_reads_symbol', 'counter'), ('symbol_written', 'host_writes_symbol', 'counter')])
def test_host_code_uses_a_symbol(module, name, code, array):
    e = finding(getattr(module, name))
    assert (e.kind, e.code, e.array) == ('memcheck', code, array)


@pytest.mark.slow
def test_without_checks_a_symbol_of_host_code_is_found_too(unchecked):
    e = finding(unchecked.symbol_as_argument)
    assert (e.code, e.array) == ('host_symbol', 'field')


FUNCTIONS = ('function_as_argument', 'function_in_a_struct', 'function_copied', 'function_in_a_table',
             'function_in_braces')

@pytest.mark.parametrize('name', FUNCTIONS)
def test_a_function_of_host_code(module, name):
    e = finding(getattr(module, name), x())
    assert (e.kind, e.code, e.fields['function']) == ('memcheck', 'host_function', 'cube')
    assert 'f(x' in SRC.splitlines()[e.line-1] or 'operations[1](' in SRC.splitlines()[e.line-1]


def test_a_lambda_of_host_code_in_braces(module):
    e = finding(module.lambda_in_braces, x())
    assert (e.kind, e.code) == ('memcheck', 'host_function') and 'f(x' in SRC.splitlines()[e.line-1]


def test_the_host_evaluates_an_argument_in_braces_once(module):
    out = x()
    module.right_braces(out)
    first = out[0].item()
    assert (out == first).all()
    module.right_braces(out)
    assert (out == first + 1).all()


def test_functions_of_the_device(module):
    t = x()
    module.right_functions(t)
    assert t.isfinite().all()
    assert module.right_round_trip()


def test_objects_of_the_device(module):
    out = torch.zeros(4)
    module.right_objects(out)
    assert out.tolist() == [3, 12, 27, 48]


@pytest.mark.parametrize('in_table', [False, True])
def test_integers_that_look_like_addresses_are_copied_as_they_are(module, in_table):
    assert module.right_integers(in_table) == [0, 1, 2]


@pytest.mark.parametrize('which', ['module', 'unchecked'])
def test_an_object_of_host_code(which, request):
    e = finding(request.getfixturevalue(which).object_of_the_host, torch.zeros(1))
    assert (e.code, e.line) == ('host_virtual', line_with('ask_box(const'))


def test_a_variable_of_host_code(module):
    assert finding(module.variable_of_the_host, torch.zeros(1)).code == 'kernel_reads_host'
    out = torch.ones(1)
    module.right_not_followed(out)
    assert out.item() == 0


@pytest.mark.parametrize('which', ['module', 'unchecked'])
def test_a_kernel_that_is_called(which, request):
    m, calls = request.getfixturevalue(which), [n for n, line in enumerate(SRC.splitlines(), 1) if '// called' in line]
    for name, kernel in dict(call_template='scale', call_pointer='fill').items():
        e = finding(getattr(m, name), x())
        assert (e.kind, e.code, e.kernel) == ('launch', 'not_launched', kernel)
        assert e.line in calls or which == 'unchecked' and e.line is None   # the compiler has made a jump of the call
    t = torch.zeros(4)
    m.right_pointer(t)
    assert t.tolist() == [0, 1, 2, 3]


def test_policies_of_thrust(module):
    assert module.right_policies(x()) == 20
    for f in (module.sort_host_memory, module.copy_to_host_memory):
        assert finding(f).code == 'host_memory_given'
    assert finding(module.transform_host_vector, x()).fields == dict(algorithm='transform')
    assert finding(module.sort_device_memory, x()).code == 'device_memory_given'


def test_cublaslt_is_there_and_transforms_nothing(module):
    assert module.lt_handle() == 0
    with pytest.raises(NotEmulated) as e: module.lt_transform()
    assert isinstance(e.value, KernelCrash) and e.value.fields == dict(function='cublasLtMatrixTransformDescCreate')
    assert SRC.splitlines()[e.value.line-1].strip().startswith('cublasLtMatrixTransformDescCreate')


@pytest.mark.parametrize('index', [0, 100000])
def test_memory_that_was_not_given(module, index):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        module.allocate()
    e = finding(module.use_lost, index)
    assert (e.code, e.fields['bytes'], e.fields['alloc_line']) == ('failed_alloc', 1 << 45, line_with('// allocated'))


def test_after_a_look_at_the_error_null_is_null(module):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        module.allocate()
    assert finding(module.use_null_after_a_look).code == 'null_written'


@pytest.mark.parametrize('which', ['module', 'unchecked'])
def test_local_arrays(which, request):
    m, t = request.getfixturevalue(which), x()
    m.right_frame(t)
    assert t.tolist() == [20000]*4
    t = torch.zeros(2)
    m.largest_frame(t)
    assert t.tolist() == [0, 64*1024 - 128]
    for f in m.large_frame, m.too_large_frame:
        e = finding(f, x())
        assert (e.kind, e.code) == ('crash', 'stack') and e.fields['kilobytes'] == 644


TWO = '''__global__ void a(float *x) { extern __shared__ float s[]; s[0] = x[0]; }
__global__ void b(%s *x) { extern __shared__ %s s[]; s[0] = x[0]; }'''
TEMPLATE = '''template <class T> __device__ void set(T x) { extern __shared__ T s[]; s[0] = x; }
__global__ void a(float *x, %s *y) { set(x[0]), set(y[0]); }'''

@pytest.mark.parametrize('src', [TWO % ('double', 'double'), TWO % ('float', 'volatile float'), TEMPLATE % 'int'])
def test_two_types_of_one_dynamic_array(src):
    with pytest.raises(CompileError) as e: cuda_kernel(src, 'a', checks=False)
    assert 'incompatible' in e.value.errors[0].message and '"s"' in e.value.errors[0].message


def test_one_type_of_a_dynamic_array():
    cuda_kernel(TWO % ('float', 'float __align__(16)') + '\nnamespace other { __device__ void c() '
                '{ extern __shared__ int s[]; s[0] = 1; } }', 'a', checks=False)
