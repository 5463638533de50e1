"""Who may call whom: what nvcc refuses is refused, and nothing else. Who calls a function of the host, only a compiler
finds: that is in test_cpp_judge."""
import pytest

from gridstride.cpp.lint.callers import Unit, mark_host_functions, drop_mark_warnings, find_wrong_calls
from gridstride.cpp.frontend.tokens import WrongSource
from gridstride.cpp.rewriters.rewrite import to_cpp

K = '__global__ void k(float *x, int n) { %s }\n'
HOST, DEVICE = 'int f(int n) { return n + 1; }\n', '__device__ int f(int n) { return n + 1; }\n'
TEMPLATE = 'template <class T> T f(T n) { return n; }\n'
CALLS = 'template <%s> __global__ void k(float *x, int n) { x[0] = %s; } '

WRONG = [
    (DEVICE + 'int go(int n) { return f(n); }\n', '^f .*device.*`__host__ __device__`'),
    ('void k(float *x) {}\nvoid go(float *x) { k<<<1, 32>>>(x); }\n', '^k .*`__global__`'),
    ('__device__ void k(float *x) {}\nvoid go(float *x) { k<<<1, 32>>>(x); }\n', '^k .*`__global__`'),
    (K % 'std::cout << n;', 'std::cout .*printf'),
    ('using namespace std;\n' + K % 'cerr << n;', 'cerr .*printf'),
    (K % 'std::vector<std::pair<int, int>> v(n);', 'std::vector .*array'),
    ('__device__ int f(int n) { std::string s = "a"; return n; }\n', 'std::string '),
    *((HOST + CALLS % (f'int (*F)(int){more}', body) + 'void go(float *x) { k<%s><<<1, 1>>>(x, 3); }\n' % given,
       '^f .*host.*`__device__`')
      for more, body, given in (('', 'F(n)', 'f'), (' = nullptr', '1 + F(n)', '&f'), (', int N', 'F(N)', 'f, 2'))),
    ('namespace a { int f(int n); }\n' + CALLS % ('int N, op F', 'F(n)') + 'auto p = k<3, a::f>;\n', 'a::f is a'),
    (HOST + CALLS.replace('__global__ void k', '__device__ void h') % ('auto F', 'F(n)') + K % 'h<f>(x, n);', 'f is a'),
    (K % '' + 'void go(float *x) { k<<<8>>>(x, 1); }\n', '`<<<blocks, threads>>>`'),
    (K % '' + 'void go(float *x) { k<<<1, 2, 3, 4, f(1, 2)>>>(x, 1); }\n', 'stream.*5'),
]
RIGHT = [
    DEVICE + K % 'x[0] = f(n);', HOST + 'int go(int n) { return f(n); }\n',
    '__host__ ' + DEVICE + K % 'x[0] = f(n);' + 'int go(int n) { return f(n); }\n',
    '#define HD __host__ __device__\nHD ' + HOST + K % 'x[0] = f(n);',
    '#include "other.h"\nBOTH ' + HOST + K % 'x[0] = f(n);',
    HOST + DEVICE + K % 'x[0] = f(n);', 'constexpr ' + HOST + K % 'x[0] = f(n);',
    'void go(int n) { std::vector<int> v(n); std::cout << n; }\n' + K % 'x[0] = n;',
    'using namespace std;\n' + K % 'int list = n, map = list << 1; if (map < n) x[0] = map;',
    '__host__ ' + '__device__ int f(int n) { std::vector<int> v(n); return n; }\n',
    '__device__ int f(std::vector<int>::size_type n) { return sizeof(std::vector<int>) + n; }\n',
    'using namespace std;\n' + K % 'x[0] = Some::cout << n; s.list << n;',
    TEMPLATE + 'int go(int n) { return f(n); }\n', '__device__ int g(); ' + TEMPLATE + DEVICE + K % 'x[0] = f(n);',
    HOST + K % 'auto f = [](int i) { return i; }; x[0] = f(n);', HOST + K % 'Some s; x[0] = s.f(n) + Other::f(n);',
    'namespace a { ' + HOST + '}\n' + DEVICE + K % 'x[0] = f(n);', 'int max(int a, int b);\n' + K % 'x[0] = max(n, 1);',
    DEVICE + '#ifdef __CUDACC__\n#else\nint go(int n) { return f(n); }\n#endif\n',
    DEVICE + 'void go(int n) { each([=] __device__ (int i) { return f(i); }); }\n',
    'typedef void kernel(float *, int);\n' + K % '' + 'void go(kernel *p, float *x) { p<<<1, 2, 3, 4>>>(x, 1); }\n',
    DEVICE + '__device__ int (*const table[])(int) = {f};\nint go(int (*h)(int)) { return int(3.f); }\n',
    *(given + CALLS % (takes, body) + 'auto p = k<f>;\n' for given, takes, body in (
        (DEVICE, 'auto F', 'F(n)'), (HOST, 'auto F', 'n'), ('__host__ ' + DEVICE, 'auto F', 'F(n)'),
        (HOST, 'auto F', 'sizeof(F(n))'), (HOST + DEVICE, 'auto F', 'F(n)'),
        ('struct f { int a; };\n', 'class F', 'F(n).a'),
        ('constexpr ' + HOST, 'auto F', 'F(n)'), (HOST + '#define F(n) n\n', 'auto G', 'F(n)'))),
    HOST + CALLS.replace('__global__', '__host__ __device__') % ('auto F', 'F(n)') + 'auto p = k<f>;\n',
    HOST + CALLS % ('auto F', 'F(n)') + 'template <> __global__ void k<f>(float *x, int n) {}\nauto p = k<f>;\n',
    HOST + 'template <auto F> int each(int n) { return F(n); }\nauto p = each<f>;\n',
    '#define CONFIG 1, 32\n' + K % '' + 'void go(float *x) { k<<<CONFIG>>>(x, 1); }\n',
    K % '' + 'void go(float *x) { k<<<dim3(1, 2, 3), pair<int, 4>(), 0>>>(x, 1); }\n',
]

@pytest.mark.parametrize('src,says', WRONG)
def test_wrong_sides(src, says):
    with pytest.raises(WrongSource, match=f'(?s){says}.*line [12]'): to_cpp(src)

@pytest.mark.parametrize('src', RIGHT)
def test_right_sides(src): to_cpp(src)


PTX = DEVICE.replace('{', '{ asm("add.s32 %0, %0, 1;" : "+r"(n));')
OWN = [  # source, the lines of private functions
    (PTX + K % 'x[0] = f(n);', [1]), (PTX + PTX.replace('int n', 'int n, int m'), [1, 2]), ('__host__ ' + PTX, [1]),
    ('__device__ int g(int n);\n' + PTX + PTX.replace('f(', 'g('), [2]), (DEVICE + K % 'x[0] = f(n);', []),
    ('struct S { friend int f(int n); };\n' + PTX, []), ('#define GPU __device__\nGPU ' + PTX[11:], []),
    ('template <class T> ' + PTX, []), ('struct S {\n' + PTX + '};\n', []), ('extern "C" ' + PTX, []),
    ('namespace a {\n' + PTX + '}\nnamespace b {\n' + PTX + '}\n', [2, 5]), (PTX.replace('f(', 'max('), []),
    *((f'{o} {PTX}', []) for o in ('inline', 'static', '__forceinline__', 'constexpr', 'extern')),
    ('__global__ void k(int n) { asm("add.s32 %0, %0, 1;" : "+r"(n)); }\n', []),
]

@pytest.mark.parametrize('src,lines', OWN)
def test_a_private_function_in_ptx_is_this_sources_own(src, lines):
    text = to_cpp(src)
    own = mark_host_functions(text, 'OWN ')
    assert [n for n, line in enumerate(own.splitlines(), 1) if 'OWN' in line] == lines
    assert own.replace('OWN ', '') == mark_host_functions(text) and 'OWN' not in mark_host_functions(text)


@pytest.mark.parametrize('said', [
    "variable length array 'a' is used [-Wvla]", 'variable length arrays are a C99 feature [-Wvla-extension]',
    'variable length arrays in C++ are a Clang extension [-Wvla-cxx-extension]'])
def test_an_array_of_unknown_length_is_reported_whatever_the_compiler_calls_it(said):
    src = K % 'float a[n]; a[0] = 1; x[0] = a[0];'
    log = f'k.cu:1:47: warning: {said}\n{src}'
    text = f'#line 1 "k.cu"\n{to_cpp(src)}'
    found = list(find_wrong_calls(log, [Unit(text, 'k.cu', src)], (), 1))
    assert len(found) == 1 and 'run time' in str(found[0]) and 'k.cu, line 1' in str(found[0])
    assert 'warning' not in drop_mark_warnings(log)


@pytest.mark.parametrize('named', ['int f(int)', 'f', 'T f(T) [with T = int]', 'f<int>'])
def test_a_use_of_the_hosts_function_is_reported_however_the_compiler_names_it(named):
    src = HOST + K % 'x[0] = f(n);'
    log = f"k.cu:2:45: warning: '{named}' is deprecated: gridstride, host [-Wdeprecated-declarations]\n{src}"
    text = f'#line 1 "k.cu"\n{to_cpp(src)}'
    said = [str(o).splitlines() for o in find_wrong_calls(log, [Unit(text, 'k.cu', src)], (), 1)]
    what = named.partition(' [with')[0]
    assert len(said) == 1 and said[0][1:] == ['  k.cu, line 2: __global__ void k(float *x, int n) { x[0] = f(n); }']
    assert said[0][0].startswith(f'{what} ') and '`__device__`' in said[0][0]
    assert 'warning' not in drop_mark_warnings(log)


def test_deprecations_of_clangs_library_are_not_reported():
    log = ('In file included from <built-in>:1:\nIn file included from /usr/include/c++/12/algorithm:61:\n'
           "/usr/include/c++/12/bits/stl_tempbuf.h:263:8: warning: 'get_temporary_buffer<int>' is deprecated "
           '[-Wdeprecated-declarations]\n  263 |  std::get_temporary_buffer<value_type>(_M_original_len));\n'
           "k.cu:1:36: note: in instantiation of function template specialization 'std::stable_sort<int *>' requested "
           'here\n')
    warning = "k.cu:2:5: warning: format specifies type 'int' but the argument has type 'float' [-Wformat]\n"
    assert drop_mark_warnings(log) == '' and drop_mark_warnings(log + warning) == warning
