"""Awkward sources: `get_signature`, `load_cuda` and `cuda_kernel` ask the same reader, which must
find what a compiler finds."""
import subprocess, sys

import pytest, torch

from gridstride.cpp import cuda_kernel, load_cuda
from gridstride.cpp.frontend.reader import host_functions, kernels
from gridstride.cpp.rewriters.branches import record_branches
from gridstride.cpp.rewriters.rewrite import to_cpp
from gridstride.utils import cuda_begin, get_signature

# source, then the declaration of its function `f`
AWKWARD = {
    'branches that open one brace':
        ('#ifdef X\nvoid f() {\n#else\nvoid f(int a) {\n#endif\n  if (1) {} }', 'void f(int a);'),
    'a branch that is defined': ('#define X\n#ifdef X\nvoid f() {\n#else\nvoid f(int a) {\n#endif\n}', 'void f();'),
    'three branches': ('#ifdef Q\nint f() {\n#elif defined(R) || 0\nint f(float a) {\n#else\nint f(int a) {\n#endif\n'
                       'return 1; }', 'int f(int a);'),
    'a value of a macro': ('#define N 4 // wide\n#if N > 3 && !defined(Q)\nint f(int a) { return 1; }\n#else\n'
                           'int f() { return 1; }\n#endif', 'int f(int a);'),
    'an undefined value': ('#if LEVEL >= 2\nint f(int a) {\n#else\nint f() {\n#endif\nreturn 1; }', 'int f();'),
    'a default for a macro': ('#ifndef N\n#define N 8\n#endif\n#if N == 8\nint f(int a) {\n#else\nint f() {\n#endif\n'
                              'return 1; }', 'int f(int a);'),
    'a brace more in one branch': ('#ifdef A\nint g() { if (1) {\n#else\nint g() {\n#endif\n return 1;\n#ifdef A\n}\n'
                                   '#endif\n}\nint f() { return 1; }', 'int f();'),
    'a brace less in one branch': ('#ifdef A\nint g() {\n#else\nint g() { if (1) {\n#endif\n return 1;\n#ifndef A\n}\n'
                                   '#endif\n}\nint f() { return 1; }', 'int f();'),
    'a branch among parameters':
        ('int f(int a,\n#ifdef WIDE\n double b\n#else\n float b\n#endif\n) { return 1; }', 'int f(int a, float b );'),
    'a dead branch that is broken': ('#if 0\nint g() { "\n#endif\nint f() { return 1; }', 'int f();'),
    'an error for the compiler':
        ("void g() {\n#ifndef NEVER\n}\n#else\n#error don't\n#endif\nint f() { return 1; }", 'int f();'),
    'C++ alone':
        ('#ifdef __cplusplus\nextern "C" {\n#endif\nint f() { return 1; }\n#ifdef __cplusplus\n}\n#endif', 'int f();'),
    'a condition that cannot be read':
        ('#if __has_include(<x>) ? 1 : (\nint f() {\n#else\nint f(int a) {\n#endif\n}', 'int f();'),
    'digit separators': ("int g() { return 1'0; }\nint f() { return 1'000'0 + 0x1'0; }", 'int f();'),
    'raw strings': ('const char *s = R"x(} void no() { )" )x";\nint f(const char *t = R"(a{  b)") { return 1; }',
                    'int f(const char *t = R"(a{  b)");'),
    'strings and characters': ('int f(const char *s = "a { \\" ) ;") { puts("}"); return \'{\' + \'\\\'\'; }',
                               'int f(const char *s = "a { \\" ) ;");'),
    'nested templates': ('std::vector<std::pair<int,float>> f(std::map<int,std::vector<int>> m = {}) { return {}; }',
                         'std::vector<std::pair<int,float>> f(std::map<int,std::vector<int>> m = {});'),
    'a comparison in a template':
        ('template <int N = (3>2)> int f(int a) { return N; }', 'template <int N = (3>2)> int f(int a);'),
    'a template in a template': ('template <int N = 3, bool B = (N > 2), class T = A<B<int>>>\nint f(T a) { return N; '
                                 '}', 'template <int N = 3, bool B = (N > 2), class T = A<B<int>>> int f(T a);'),
    'requires': ('template <class T> requires (sizeof(T) > 3) && A<T> T f(T a) requires B<T> { return a; }',
                 'template <class T> requires (sizeof(T) > 3) && A<T> T f(T a) requires B<T>;'),
    'attributes': ('[[nodiscard]] [[gnu::cold]] int f(int a [[maybe_unused]]) { return 1; }',
                   '[[nodiscard]] [[gnu::cold]] int f(int a [[maybe_unused]]);'),
    'attributes of a compiler': ('__attribute__((noinline)) int f(int a) __attribute__((cold)) { return 1; }',
                                 '__attribute__((noinline)) int f(int a) __attribute__((cold));'),
    'comments anywhere': ('int /* { */ f // ( "\n ( /* ) */ int a, // }\n'
                          ' int b /* = \' */ ) /* x */ { return 1; } // {', 'int f ( int a, int b );'),
    'a comment that goes on': ('// int g() { \\\n int h() { \nint f() { return 1; }', 'int f();'),
    'commented-out functions':
        ('/* int f(int a) { return 1; } */\n// int f(float a) { return 1; }\nint f() { return 1; }', 'int f();'),
    'lines that go on, as Windows writes them':
        ('int f(int a, \\\r\n int b)\r\n{\r\n return 1;\r\n}\r\n', 'int f(int a, int b);'),
    'a mark at the beginning': ('\ufeffint f() { return 1; }', 'int f();'),
    'default arguments': ('int f(int a = g(1, (2)), std::function<int(int)> h = [](int x) { return x; }) { return 1; }',
                          'int f(int a = g(1, (2)), std::function<int(int)> h = [](int x) { return x; });'),
    'shifts and comparisons':
        ('int f(int a = 1 << 2, bool b = 3 < 4) { return 1; }', 'int f(int a = 1 << 2, bool b = 3 < 4);'),
    'pointers to functions': ('int f(int (*g)(int, float), void (*h[3])(int)) { return 1; }',
                              'int f(int (*g)(int, float), void (*h[3])(int));'),
    'extern "C"':
        ('extern "C" {\nint g(int a) { return 1; }\n}\nextern "C" int f() { return 1; }', 'extern "C" int f();'),
    'namespaces': ('namespace a::b { namespace { inline namespace c { int f() { return 1; } } } }', 'int f();'),
    'macros like functions': ('#define FN(x) int x() {\n#define CHECK(x) { if (!(x)) abort(); }\nFN(q) return 1; }\n'
                              'PYBIND11_MODULE(name, m) { m.def("f", &f); }\nint f() { return 1; }', 'int f();'),
    'macros like brackets':
        ('#define BEGIN {\n#define END }\nint g() BEGIN return 1; END;\nint f() { return 1; }', 'int f();'),
    'macros like specifiers':
        ('#define API __attribute__((visibility("default")))\nAPI int f(int a) { return 1; }', 'API int f(int a);'),
    'operators': ('struct V { int x; V operator()(int a) const { return *this; } };\nV operator+(V a, V b) { return a; '
                  '}\nS &operator<<(S &o, V v) { return o; } bool operator<(V a, V b) { return 1; } '
                  'V operator""_v(char x) { return {}; }\nint f() { return 1; }', 'int f();'),
    'lambdas': ('auto l = [](int x) { return x; };\n'
                'int f() { auto g = [&](int a) -> int { if (a) { return 1; } return 2; }; return g(1); }', 'int f();'),
    'constructors': ('struct S { int a, b; S(int x) : a(x), b{x} {} ~S() {} };\nS::S(int x) : a(x), b{x} {}\n'
                     'S::~S() {}\nint S::f(int a) { return a; }\nint f() { return 1; }', 'int f();'),
    'friends': ('template <class T> struct A { friend int f(A a) { return 1; } template <class U> int h(U u) { '
                'return 1; } }; int f() { return 1; }', 'int f();'),
    'tables': ('int t[] = {1, 2}; std::vector<int> v{1, 2}; auto m = std::map<int,int>{{1, 2}}; struct { int x; } '
               'anon = { 1 }; enum class E : int { a = (1 > 0) }; int f() { return 1; }', 'int f();'),
    'names of types': ('using namespace std; using F = int (*)(int); typedef int (*G)(int); struct P f(struct P p) { '
                       'return p; }', 'struct P f(struct P p);'),
    'if constexpr': ('int f() { if constexpr (sizeof(int) > 3) { return 1; } else return 2; }', 'int f();'),
    'trailing return types':
        ('auto f(int a) noexcept -> decltype(1 + (2)) { return 1; }', 'auto f(int a) noexcept -> decltype(1 + (2));'),
    'a body that is tried': ('int f() try { return 1; } catch (...) { return 2; }', 'int f();'),
    'static inline': ('static inline int f(int a) { return 1; }', 'static inline int f(int a);'),
    'bodies on one line': ('int g(){return 1;}int f(){return 2;}', 'int f();'),
    'arguments over several lines':
        ('torch::Tensor f(torch::Tensor m,  // rows\n                torch::Tensor n)  // columns\n{ return m; }',
         'torch::Tensor f(torch::Tensor m, torch::Tensor n);'),
    'pointers returned': ('const char *const *f(int **x) { return 0; }', 'const char *const *f(int **x);'),
    'letters beyond ASCII': ('int größe(int ä) { return ä; } int f(int ü) { return ü; } // é', 'int f(int ü);'),
}


@pytest.mark.parametrize('src,want', AWKWARD.values(), ids=AWKWARD)
def test_signature(src, want):
    assert get_signature('f', src) == want
    f = next(f for f in host_functions(src) if f.name == 'f')
    assert f.signature + ';' == want


@pytest.mark.parametrize('src', [src for src, _ in AWKWARD.values()], ids=AWKWARD)
def test_nothing_to_rewrite(src):
    "No token of a source without kernels changes"
    assert to_cpp(src) == src


KERNELS = {
    'bounds': ('__global__ void __launch_bounds__(256, 2) k(float *x) {}', ['float *']),
    'bounds first': ('__launch_bounds__(256) __global__ void k(int a) {}', ['int']),
    'static': ('__global__ static void k(const int *__restrict__ x) {}', ['const int *']),
    'inlined callee': ('static __device__ __forceinline__ int d() { return 1; }\n__global__ void k() { d(); }', []),
    'in a macro of specifiers':
        ('#define KERNEL extern "C" __global__ void\nKERNEL k(float4 *x, uchar3 c) {}', ['float4 *', 'uchar3']),
    'branches': ('#if defined(HALF)\n__global__ void k(half *x) {\n#else\n__global__ void k(float *x) {\n#endif\n}',
                 ['float *']),
    'bodies in branches': ('#ifndef HALF\n__global__ void k(float *x) {}\n#else\n'
                           '__global__ void k(half *x, int n) {}\n#endif', ['float *']),
    'not for the emulator': ('#ifndef GRIDSTRIDE_EMULATOR\n__global__ void k(half *x) {}\n#else\n'
                             '__global__ void k(int x) {}\n#endif', ['int']),
    'a template': ('template <class T, int N = (4 > 3)>\n'
                   '__global__ void __cluster_dims__(2, 1, 1) k(T (&x)[N], T y[][4]) {}', ['T (&)[N]', 'T (*)[4]']),
    'a header of its own may define anything':
        ('#include "mine.h"\n#ifdef HALF\n__global__ void k(half *x) {}\n#endif', ['half *']),
}


@pytest.mark.parametrize('src,params', KERNELS.values(), ids=KERNELS)
def test_kernels(src, params): assert [(k.name, [p.type for p in k.params]) for k in kernels(src)] == [('k', params)]


def test_overloads_each_get_a_line():
    assert (get_signature('f', 'int f(int a) { return a; }\nint g() { return f(1); }\nint f(float a) { return a; }')
            == 'int f(int a);\nint f(float a);')


@pytest.mark.parametrize('name,says',
    [('k', "^'k' .*kernel"), ('d', "^'d' .*kernel"),
    ('mat', "^'mat' .*: matmul, both$"),
    ('S', "^'S' .*: matmul, both$")])
def test_what_has_no_signature(name, says):
    src = ('__global__ void k() {}\n__device__ int d() { return 1; }\nstruct S { int mat() { return 1; } };\n'
           'int matmul() { return 1; }\n__host__ __device__ int both() { return 1; }\nint declared();')
    with pytest.raises(ValueError, match=says): get_signature(name, src)


@pytest.mark.parametrize('src,line',
    [('int f() {', 1), ('int g() { return 1; }\nint f() {\n  g(;\n}', 3), ('int f() { return 1; }\n/* why', 2)])
def test_what_never_closes_is_named(src, line):
    with pytest.raises(ValueError, match=f'line {line}: '): get_signature('f', src)


def test_the_macros_of_the_lecture():
    assert (get_signature('cdiv', cuda_begin)
            == '__host__ __device__ inline unsigned int cdiv(unsigned int a, unsigned int b);')


def test_the_reader_needs_the_standard_library_alone():
    code = ("import sys; from gridstride.utils import get_signature; import numpy; had = set(sys.modules); "
            "get_signature('f', 'int f() {}'); print(*sorted({o.split('.')[0] for o in set(sys.modules) - had}))")
    out = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout.split()
    assert set(out) <= {'gridstride', *sys.stdlib_module_names} and 'ctypes' not in out


TOGETHER = r'''
#ifdef HALF_OF_THEM
__global__ void fill(float *x) {
#else
__global__ static void __launch_bounds__(1'024, 1) fill(float *x, int n) {
#endif
    int i = threadIdx.x;  // {
    if (i < n) x[i] = 1'000 + i;
}
const char *text() { return R"x(} int no() { <<<1, 2>>> )" )x"; }
torch::Tensor /* ( */ filled // )
    (torch::Tensor x, int n = (3 > 2) ? 2 : 4) {
    auto go = [&](int m) { fill<<<1, 3'2>>>(x.data_ptr<float>(), m); };
    if constexpr (sizeof(int) > 3) { go(n); } else { }
    return x;
}
'''


def test_a_compiler_agrees(monkeypatch):
    monkeypatch.setenv('GRIDSTRIDE_BACKEND', 'sim')
    m = load_cuda(TOGETHER, cuda_begin)
    assert [*m.functions] == ['text', 'filled'] and m.filled(torch.zeros(3)).tolist() == [1000, 1001, 0]
    assert m.text() == '} int no() { <<<1, 2>>> )" '
    assert (m.filled.__doc__ == get_signature('filled', TOGETHER).rstrip(';')
            == 'torch::Tensor filled (torch::Tensor x, int n = (3 > 2) ? 2 : 4)')
    k = cuda_kernel(TOGETHER[:TOGETHER.index('const char')])
    k[1, 32](x := torch.zeros(3), 2)
    assert x.tolist() == [1000, 1001, 0]


def test_conditions_of_device_code_are_recorded():
    recorded = ('if (a = b)', 'if (*p)', 'if (int n = 2; n < a)', 'while (a, b)', 'for (; a++, b < a;)',
                'if (f(x = 2))')
    left = ('if (int n = a)', 'if (auto &n = a)', 'if (int n{a})', 'while (true)', 'for (;;)', 'for (int i : list)',
            'if constexpr (n > 2)')
    for statement in recorded + left:
        code = f'{statement} a++;'
        for_host = f'void g() {{ {code} }}'
        assert record_branches(for_host) == for_host
        for function in ('__device__ void g() {', 'struct S { __device__ void g() {'):
            text = f'{function} {code} }}' + '};' * ('struct' in function)
            assert record_branches(text).count('took_branch') == (statement in recorded), statement
