"Modules whose source runs code while they are loaded: a crash there is a finding, and does not end Python"
import subprocess, sys

import pytest
from warm import run_python

from gridstride.cpp.lint.static_initialization import runs_when_loaded

RUN = [
    'struct A { A() {} }; static A a;', 'struct A { int x; A(int); } a(3);', 'struct A { A(); } a;',
    'class B {}; B b{};', 'Thing t("x");', 'static A table[] = { A(1), A(2) };', 'std::vector<int> v(3);',
    'std::vector<int> v;', 'namespace n { static std::string s = "x"; }', 'int f(); int x = f();', 'static int n{g()};',
    'const float big = powf(2, 3);', 'int *p; int x = *p;', 'int x = p->x;', 'int zero; int x = 3 / zero;',
    '__attribute__((constructor)) void f() { }',
    'struct A { A(int *); }; int *p; A a(p);', 'struct A { A(int); }; static int n; static const A a(n), b(n);',
    'int n; struct A { A(int); } a(n);', 'int n; std::vector<int> v(n);', 'char *text; std::string s(text);',
    'struct A { A(int); }; struct B { int n; } b; A a(b.n);', 'struct A { A(int); }; int *p; A a(*p);',
    'struct A { A(int *); }; int n; A a(&n);', 'struct A { A(int); }; int n; A a(n + n);',
    'struct A { A(int, int); }; int n; A a(n, n);', 'class A {}; using B = A; int n; B b(n);',
    'struct A { A(int); }; enum { some }; A a(some);', 'struct A { A(int); }; typedef A B; int n; B b(n);',
]
RUN_NOTHING = [
    '__global__ void k(int *x) { x[0] = f(3); }', '__device__ int n = 3; __constant__ float c[3];',
    'const int N = 1024; const int M = N / T; static float *p = nullptr;\n#define X f(3)\n', 'constexpr int n = f(3);',
    'int f(int a, float *b = nullptr); void g();', 'struct A { int x; A() {} };\n__device__ A a;',
    'template <class T> struct B { T f() { return T(3); } };', 'using F = float (*)(int);',
    'static int counts[3] = {1, 2, 3}; double y = 1.5f * 3 / 2;', 'typedef std::vector<int> V;', 'enum E { a, b = 3 };',
    'extern int x; extern "C" int f(int);', 'cudaStream_t s; dim3 g;', 'template <> int f<3>(int x) { return g(x); }',
    '#include <vector>\nvoid go(torch::Tensor x) { k<<<1, 1>>>(x.data_ptr<int>()); }', 'int broken = (;',
    'static int a, b; unsigned long long n = 0xffull;', 'union U { int a; float b; };', 'float4 x; int y[N][M];',
    'struct A {}; struct B {}; A f(B); A g(B, int), h(B &); A f(const B &b, int n);', 'struct A {}; A f(A a, A *b);',
    'struct A {}; typedef A T; using U = A; A f(T); A g(U, T);', 'struct A {}; A f(size_t); A g(float4, dim3);',
    'torch::Tensor f(torch::Tensor); torch::Tensor g(torch::Tensor x, int64_t n);', 'struct A {}; A f(void); A g();',
    'struct A {}; A f(cudaStream_t, unsigned); A g(std::vector<float>); A h(int...); int n;',
]


@pytest.mark.parametrize('src', RUN)
def test_a_source_that_runs_code_when_it_is_loaded_is_recognized(src): assert runs_when_loaded(src)


@pytest.mark.parametrize('src', RUN_NOTHING)
def test_ordinary_sources_run_nothing_when_they_are_loaded(src): assert not runs_when_loaded(src)


PROGRAM = r'''
from gridstride import cpp
from gridstride.cpp.toolchain.build import CONSTRUCTORS_MARKER
from gridstride.diagnostics.errors import KernelCrash

HEAD = '#include <cstdio>\n#include <cstdlib>\n#include <cstring>\n#include <stdexcept>\n#include <vector>\n'
KERNEL = '__global__ void k(int *x) { x[0] = 7; }\nint go() { return 7; }\n'
CASES = dict(
    null='struct Init { Init() { *(volatile int *)nullptr = 1; } };\nstatic Init init;',
    in_library='const char *volatile text = (const char *)8;\n'
               'size_t length_of(const char *s) { return strlen(s) + 1; }\nsize_t length = length_of(text);',
    divides='static int zero;\nint divided(int by) { return 7 / by; }\nint value = divided(zero);',
    throws='struct Init {\n    Init() { throw std::runtime_error("no"); }\n} init;',
    exits='struct Init { Init() { exit(3); } } init;',
    by_name='struct Init { Init(int *p) { *(volatile int *)p = 1; } };\nint *nowhere;\nInit init(nowhere);',
    by_two='struct Init { int n; Init(int a, int b) { n = a / b; } };\nint zero, one = 1;\nInit init(one, zero);',
    right_by_name='struct Init { Init(int n) { printf("%d\\n", n); fflush(stdout); } };\nint n = 3;\nInit init(n);',
    right='static std::vector<int> v(3, 1);\nstruct Init { Init() { puts("once"); fflush(stdout); } } init;',
    plain='const int n = 3;',
)
for name, text in CASES.items():
    try:
        m = cpp.load_cuda(HEAD + text + '\n' + KERNEL, name=name, checks=False)
        print(name, m.go(), (m.build_result.folder/CONSTRUCTORS_MARKER).exists(), flush=True)
    except KernelCrash as e: print(name, e.code, e.line, flush=True)
'''


@pytest.mark.slow
def test_a_crash_of_a_static_constructor_is_a_finding_with_its_line(tmp_path):
    "The process goes on; what a right constructor prints is there once"
    (tmp_path/'program.py').write_text(PROGRAM)
    ran = run_python(tmp_path/'program.py')
    assert ran.stdout.splitlines() == [
        'null host_memory 6', 'in_library host_memory 7', 'divides host_division 7', 'throws host 7', 'exits exits 6',
        'by_name host_memory 6', 'by_two host_division 6', '3', 'right_by_name 7 True',
        'once', 'right 7 True', 'plain 7 False'], ran.stderr


DESTRUCTS = r'''#include <cstdio>
struct Log {
    Log() { puts("begin"); }
    ~Log() { puts("end"); }
};
static Log around;
int main() { puts("main"); }
'''


@pytest.mark.slow
def test_a_static_destructor_prints_after_python_has_ended(tmp_path):
    (tmp_path/'log.cu').write_text(DESTRUCTS)
    command = [sys.executable, '-m', 'gridstride.cpp', tmp_path/'log.cu']  # a warm Python would leave out its own end
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.splitlines()) == (0, ['begin', 'main', 'end']), ran.stderr
