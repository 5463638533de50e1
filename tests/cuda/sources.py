"""Sources that somebody refuses: nvcc's verdict goes to nvcc.json, the reader of the emulator must
say the same, or it is known why not.

    python sources.py          # needs nvcc, no GPU
    python sources.py --new    # asks for sources alone that nvcc has not judged yet
"""
import hashlib, json, os, re, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
K = '__global__ void k(float *x, int n) { %s }\n'
GO = K % 'x[threadIdx.x] = n;' + 'void go(float *x) { %s }\n'

# name: the source, as a file of its own
SOURCES = {
    # launches
    'launch': GO % 'k<<<1, 32>>>(x, 1);',
    'launch without arguments': GO % 'k<<<1, 32>>>;',
    'launch that does not close': GO % 'k<<<1, 32(x, 1);',
    'launch without threads': GO % 'k<<<1>>>(x, 1);',
    'launch of a function': 'void k(float *x) {}\n' + 'void go(float *x) { k<<<1, 32>>>(x); }\n',
    'launch with five numbers': GO % 'k<<<1, 32, 0, 0, 0>>>(x, 1);',
    'launch with an argument too few': GO % 'k<<<1, 32>>>(x);',
    'launch with a string': GO % 'k<<<1, 32>>>("x", 1);',
    'launch of a template': 'template <int N> __global__ void k(float *x) { x[N] = 1; }\n'
                            'void go(float *x) { k<4><<<1, 32>>>(x); }\n',
    'launch of a template without its number': 'template <int N> __global__ void k(float *x) { x[N] = 1; }\n'
                                               'void go(float *x) { k<<<1, 32>>>(x); }\n',
    'kernel called like a function': GO % 'k(x, 1);',
    # kernels
    'kernel that returns something': '__global__ int k(float *x) { return 1; }\n',
    'kernel without a type': '__global__ k(float *x) { x[0] = 1; }\n',
    'kernel with a reference': '__global__ void k(float &x) { x = 1; }\n',
    'kernel in a class': 'struct A { __global__ void k(float *x) { x[0] = 1; } };\n',
    'kernel that is static in a class': 'struct A { static __global__ void k(float *x) { x[0] = 1; } };\n',
    'kernel with a default': '__global__ void k(float *x, int n = 3) { x[0] = n; }\n',
    'kernel in a namespace': 'namespace a { __global__ void k(float *x) { x[0] = 1; } }\n',
    'device function called by the host': '__device__ int f(int n) { return n + 1; }\nint go(int n) { return f(n); }\n',
    'always_inline without inline': '__device__ __attribute__((always_inline)) int f(int n) { return n; }\n'
                                    + K % 'x[0] = f(n);',
    'lane masks': K % 'unsigned m; asm("mov.u32 %0, %%lanemask_lt;" : "=r"(m)); x[threadIdx.x] = m;',
    'threadIdx on the host': 'int go() { return threadIdx.x; }\n',
    # memory
    'shared array': K % '__shared__ float s[32]; s[threadIdx.x] = x[0]; x[0] = s[n];',
    'shared array of a size at run time': K % '__shared__ float s[n]; s[0] = x[0]; x[0] = s[0];',
    'shared variable with a value': K % '__shared__ int s = 3; x[0] = s;',
    'shared array with values': K % '__shared__ int s[2] = {1, 2}; x[0] = s[n];',
    'shared member': 'struct A { __shared__ int s; };\n' + K % 'A a; x[0] = a.s;',
    'shared variable on the host': 'int go() { __shared__ int s; s = 1; return s; }\n',
    'extern shared array': K % 'extern __shared__ float s[]; s[threadIdx.x] = x[0]; x[0] = s[n];',
    'constant': '__constant__ float c[2] = {1, 2};\n' + K % 'x[0] = c[n];',
    'constant that is written': '__constant__ float c[2] = {1, 2};\n' + K % 'c[0] = x[0];',
    'device variable': '__device__ int count = 3;\n' + K % 'x[0] = atomicAdd(&count, n);',
    'device variable in a function': K % '__device__ int count; count = n; x[0] = count;',
    'host variable read by a kernel': 'int count = 3;\n' + K % 'x[0] = count;',
    'const of the host read by a kernel': 'const int count = 3;\n' + K % 'x[0] = count;',
    # C
    'brace that is not closed': '__global__ void k(float *x) { x[0] = 1;\n',
    'parenthesis too many': K % 'x[0] = (1 + n));',
    'semicolon that is missing': K % 'x[0] = n\n x[1] = n;',
    'unknown name': K % 'x[0] = m;',
    'unknown intrinsic': K % 'x[0] = __syncthread();',
    'two indexes of a pointer': K % 'x[0][1] = n;',
    'power as in Python': K % 'x[0] = n ** 2;',
    'pointer that is a number': K % 'float *p = 3; x[0] = *p;',
    'const that is written': '__global__ void k(const float *x) { x[0] = 1; }\n',
    'shuffle without a mask': K % 'x[0] = __shfl_down(x[1], 1);',
    'atomic on a double and a float': K % 'atomicAdd(x, 1.0);',
    'atomic on a char': '__global__ void k(char *x) { atomicAdd(x, 1); }\n',
    'exception': K % 'try { x[0] = 1; } catch (...) { }',
    'throw': K % 'if (n) throw 1;',
    'recursion': '__device__ int f(int n) { return n ? n * f(n - 1) : 1; }\n' + K % 'x[0] = f(n);',
    'lambda': K % 'auto f = [=](int i) { return i + n; }; x[0] = f(1);',
    'virtual function': 'struct A { __device__ virtual int f() { return 1; } };\n' + K % 'A a; x[0] = a.f();',
    'printf': '#include <cstdio>\n' + K % 'printf("%d\\n", n);',
    'inline PTX': K % 'int v; asm("add.s32 %0, %1, 1;" : "=r"(v) : "r"(n)); x[0] = v;',
}

# what device code calls that is declared without `__device__`
SIDES = {
    'host function called by a kernel': 'int f(int n) { return n + 1; }\n' + K % 'x[0] = f(n);',
    'constexpr function called by a kernel': 'constexpr int f(int n) { return n + 1; }\n' + K % 'x[0] = f(n);',
    'host template called by a kernel': 'template <class T> T f(T n) { return n + 1; }\n' + K % 'x[0] = f(n);',
    'std::vector': '#include <vector>\n' + K % 'std::vector<float> v(3); x[0] = v[0];',
    'method': 'struct A { float f(float v) { return v; } };\n' + K % 'A a; x[0] = a.f(1);',
    'method via pointer': 'struct A { float f(float v) { return v; } };\n' + K % 'A a; A *p = &a; x[0] = p->f(1);',
    'static method': 'struct A { static float f(float v) { return v; } };\n' + K % 'x[0] = A::f(1);',
    'constructor': 'struct A { float v; A(float v) : v(v) {} };\n' + K % 'A a(1); x[0] = a.v;',
    'constructor by braces': 'struct A { float v; A(float v) : v(v) {} };\n' + K % 'A a{1}; x[0] = a.v;',
    'default constructor': 'struct A { float v; A() : v(0) {} };\n' + K % 'A a; x[0] = a.v;',
    'defaulted constructor': 'struct A { float v; A() = default; };\n' + K % 'A a; a.v = 1; x[0] = a.v;',
    'implicit constructor': 'struct A { float v = 3; };\n' + K % 'A a; x[0] = a.v;',
    "implicit constructor, a member's of the host":
        'struct B { float v; B() : v(0) {} };\nstruct A { B b; };\n'
        + K % 'A a; x[0] = a.b.v;',
    "implicit constructor, a base's of the host":
        'struct B { float v; B() : v(0) {} };\nstruct A : B { };\n'
        + K % 'A a; x[0] = a.v;',
    'copy constructor':
        'struct A { float v; A() = default; A(const A &o) : v(o.v) {} };\n'
        + K % 'A a; a.v = 1; A b = a; x[0] = b.v;',
    'assignment':
        'struct A { float v; A &operator=(const A &o) { v = o.v; return *this; } };\n'
        + K % 'A a, b; a.v = 1; b = a; x[0] = b.v;',
    'destructor': 'struct A { float v; ~A() { v = 0; } };\n' + K % 'A a; a.v = 1; x[0] = a.v;',
    'member operator':
        'struct A { float v; A operator+(const A &o) const { return A{v + o.v}; } };\n'
        + K % 'A a{1}; x[0] = (a + a).v;',
    'free operator':
        'struct A { float v; };\nA operator+(A a, A b) { return A{a.v + b.v}; }\n'
        + K % 'A a{1}; x[0] = (a + a).v;',
    'operator of float4':
        'float4 operator+(float4 a, float4 b) { a.x += b.x; return a; }\n'
        + K % 'float4 a{1}; x[0] = (a + a).x;',
    'conversion operator': 'struct A { float v; operator float() const { return v; } };\n' + K % 'A a{1}; x[0] = a;',
    'index operator':
        'struct A { float v[4]; float &operator[](int i) { return v[i]; } };\n'
        + K % 'A a; a[0] = n; x[0] = a[0];',
    'functor':
        'struct A { float operator()(float v) const { return v; } };\n'
        'template <class F> __global__ void k(float *x, F f) { x[0] = f(1); }\n'
        'void go(float *x) { k<<<1, 32>>>(x, A{}); }\n',
    'functor not launched':
        'struct A { float operator()(float v) const { return v; } };\n'
        'template <class F> __global__ void k(float *x, F f) { x[0] = f(1); }\n',
    'overload int': '__device__ float f(float v) { return v; }\nfloat f(int v) { return v; }\n' + K % 'x[0] = f(1);',
    'overload float':
        '__device__ float f(float v) { return v; }\nfloat f(int v) { return v; }\n'
        + K % 'x[0] = f(1.f);',
    'device template calls host':
        'float f(float v) { return v; }\ntemplate <class T> __device__ T g(T v) { return f(v); }\n'
        + K % 'x[0] = g(1.f);',
    'device template calls host, unused':
        'float f(float v) { return v; }\ntemplate <class T> __device__ T g(T v) { return f(v); }\n'
        + K % 'x[0] = 1;',
    'device function unused calls host':
        'float f(float v) { return v; }\n__device__ float g(float v) { return f(v); }\n'
        + K % 'x[0] = 1;',
    'host device calls host':
        'float f(float v) { return v; }\n__host__ __device__ float g(float v) { return f(v); }\n'
        + K % 'x[0] = g(1);',
    'host device template calls host':
        'template <class T> __host__ __device__ float g(T v) { return v.f(); }\nstruct A { float f() { return 1; } };\n'
        + K % 'x[0] = g(A{});',
    'constexpr as array size':
        'constexpr int f(int n) { return n + 1; }\n'
        + K % 'float a[f(3)]; a[0] = n; x[0] = a[0];',
    'constexpr into constexpr':
        'constexpr int f(int n) { return n + 1; }\n'
        + K % 'constexpr int m = f(3); x[0] = m;',
    'constexpr into const': 'constexpr int f(int n) { return n + 1; }\n' + K % 'const int m = f(3); x[0] = m;',
    'constexpr as template argument':
        'constexpr int f(int n) { return n + 1; }\ntemplate <int N> __device__ int g() { return N; }\n'
        + K % 'x[0] = g<f(3)>();',
    'constexpr method': 'struct A { constexpr float f(float v) const { return v; } };\n' + K % 'A a; x[0] = a.f(1);',
    'constexpr constructor': 'struct A { float v; constexpr A(float v) : v(v) {} };\n' + K % 'A a(n); x[0] = a.v;',
    'constexpr constructor of constant':
        'struct A { float v; constexpr A(float v) : v(v) {} };\n'
        + K % 'A a(1); x[0] = a.v;',
    'constexpr shared size':
        'constexpr int f(int n) { return n + 1; }\n'
        + K % '__shared__ float s[f(3)]; s[0] = n; x[0] = s[0];',
    'static_assert': 'constexpr int f(int n) { return n + 1; }\n' + K % 'static_assert(f(3) == 4); x[0] = 1;',
    'if constexpr': 'constexpr int f(int n) { return n + 1; }\n' + K % 'if constexpr (f(3) == 4) x[0] = 1;',
    'sizeof of a host call': 'int f(int n) { return n + 1; }\n' + K % 'x[0] = sizeof(f(3));',
    'decltype of a host call': 'int f(int n) { return n + 1; }\n' + K % 'decltype(f(3)) m = 3; x[0] = m;',
    'address of host function': 'int f(int n) { return n + 1; }\n' + K % 'int (*p)(int) = f; x[0] = p(3);',
    'lambda in a kernel':
        'int f(int n) { return n + 1; }\n'
        + K % 'auto g = [](int i) { return f(i); }; x[0] = g(3);',
    'lambda of the host':
        'template <class F> __global__ void k(float *x, F f) { x[0] = f(1); }\n'
        'void go(float *x) { k<<<1, 32>>>(x, [](float v) { return v; }); }\n',
    'lambda of the host, device':
        'template <class F> __global__ void k(float *x, F f) { x[0] = f(1); }\n'
        'void go(float *x) { k<<<1, 32>>>(x, [] __device__ (float v) { return v; }); }\n',
    'global lambda': 'auto f = [](float v) { return v; };\n' + K % 'x[0] = f(1);',
    'std::max': '#include <algorithm>\n' + K % 'x[0] = std::max(n, 3);',
    'std::abs': '#include <cmath>\n' + K % 'x[0] = std::abs(x[1]);',
    'std::sqrt': '#include <cmath>\n' + K % 'x[0] = std::sqrt(x[1]);',
    'std::fmax': '#include <cmath>\n' + K % 'x[0] = std::fmax(x[1], x[2]);',
    'std::swap': '#include <utility>\n' + K % 'std::swap(x[0], x[1]);',
    'std::move': '#include <utility>\n' + K % 'x[0] = std::move(n);',
    'std::sort': '#include <algorithm>\n' + K % 'std::sort(x, x + n);',
    'std::numeric_limits': '#include <limits>\n' + K % 'x[0] = std::numeric_limits<float>::max();',
    'std::pair': '#include <utility>\n' + K % 'std::pair<int, int> p(n, 3); x[0] = p.first;',
    'std::array': '#include <array>\n' + K % 'std::array<float, 3> a; a[0] = n; x[0] = a[0];',
    'std::cout': '#include <iostream>\n' + K % 'std::cout << n;',
    'std::complex': '#include <complex>\n' + K % 'std::complex<float> c(1, 2); x[0] = c.real();',
    'rand': '#include <cstdlib>\n' + K % 'x[0] = rand();',
    'exit': '#include <cstdlib>\n' + K % 'exit(1);',
    'strlen': '#include <cstring>\n' + K % 'x[0] = strlen("a");',
    'fprintf': '#include <cstdio>\n' + K % 'fprintf(stderr, "a");',
    'declared device, defined without':
        '__device__ int f(int n);\n'
        + K % 'x[0] = f(n);'
        + 'int f(int n) { return n; }\n',
    'declared without, defined device': 'int f(int n);\n__device__ int f(int n) { return n; }\n' + K % 'x[0] = f(n);',
    'method declared device, defined without':
        'struct A { __device__ float f(float v); };\nfloat A::f(float v) { return v; }\n'
        + K % 'A a; x[0] = a.f(1);',
    'method declared without, defined device':
        'struct A { float f(float v); };\n__device__ float A::f(float v) { return v; }\n'
        + K % 'A a; x[0] = a.f(1);',
    'template class method':
        'template <class T> struct A { T f(T v) { return v; } };\n'
        + K % 'A<float> a; x[0] = a.f(1);',
    'template class constructor':
        'template <class T> struct A { T v; A(T v) : v(v) {} };\n'
        + K % 'A<float> a(1); x[0] = a.v;',
    'new of a host constructor': 'struct A { float v; A() : v(0) {} };\n' + K % 'A *a = new A; x[0] = a->v;',
    'param of class with copy constructor host':
        'struct A { float *p; A(float *p) : p(p) {} A(const A &o) : p(o.p) {} };\n'
        '__global__ void k(A a) { a.p[0] = 1; }\n'
        'void go(float *x) { k<<<1, 1>>>(A(x)); }\n',
    'device fn param copy host':
        'struct A { float v; A() = default; A(const A &o) : v(o.v) {} };\n__device__ float f(A a) { return a.v; }\n'
        + K % 'A a; a.v = 1; x[0] = f(a);',
    'virtual host':
        'struct A { __device__ A() {} virtual float f() { return 1; } };\n'
        + K % 'A a; A *p = &a; x[0] = p->f();',
    'friend operator':
        'struct A { float v; friend A operator+(A a, A b) { return A{a.v + b.v}; } };\n'
        + K % 'A a{1}; x[0] = (a + a).v;',
    'macro method': '#define M float f(float v) { return v; }\nstruct A { M };\n' + K % 'A a; x[0] = a.f(1);',
    'host fn as template arg':
        'float f(float v) { return v; }\n'
        'template <float (*F)(float)> __global__ void k(float *x) { x[0] = F(1); }\n'
        'void go(float *x) { k<f><<<1, 1>>>(x); }\n',
    'default member init host fn': 'float f() { return 3; }\nstruct A { float v = f(); };\n' + K % 'A a; x[0] = a.v;',
    'static member fn template':
        'struct A { template <class T> static T f(T v) { return v; } };\n'
        + K % 'x[0] = A::f(1.f);',
    'using base method': 'struct B { float f() { return 1; } };\nstruct A : B { };\n' + K % 'A a; x[0] = a.f();',
    'device variable initialised by host constructor':
        'struct A { float v; A(float v) : v(v) {} };\n__device__ A a(1);\n'
        + K % 'x[0] = a.v;',
    'shared of class with constructor':
        'struct A { float v; __device__ A() {} };\n'
        + K % '__shared__ A a; a.v = 1; x[0] = a.v;',
    'host constructor default argument in device fn':
        'struct A { float v; A(float v) : v(v) {} };\n__device__ float f(float x, A a = A(1)) { return x; }\n'
        + K % 'x[0] = f(1);',
    'inherited constructor':
        'struct B { float v; B(float v) : v(v) {} };\nstruct A : B { using B::B; };\n'
        + K % 'A a(1); x[0] = a.v;',
    'defaulted copy of member host':
        'struct B { float v; B() = default; B(const B &o) : v(o.v) {} };\nstruct A { B b; };\n'
        + K % 'A a; a.b.v = 1; A c = a; x[0] = c.b.v;',
    'defaulted outside': 'struct A { float v; A(); };\nA::A() = default;\n' + K % 'A a; a.v = 1; x[0] = a.v;',
}
SOURCES |= SIDES


def verdict(src):
    "The first error of nvcc, or an empty string"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder)/'k.cu'
        file.write_text(src)
        done = subprocess.run(['nvcc', '-std=c++17', '-arch=sm_90', '-c', '-o', file.with_suffix('.o'), file],
                              capture_output=True, text=True)
    said = re.search(r'error\s*:? *(?:#\S+ )?:? *(.*)', done.stdout + done.stderr)
    assert bool(said) == bool(done.returncode), done
    return said[1] if said else ''


# Where the emulator says something else than nvcc, and why
OWN = 'where a function is declared is not looked at: it runs as on a GPU, if it were where it belongs'
STD = 'types of pairs and numbers are taken wherever they stand'
DIFFERS = {
    'launch without threads': 'nvcc takes blocks of one thread; probably the threads were forgotten',
    'kernel in a class': OWN,
    'kernel that is static in a class': OWN,
    'shared member': 'nvcc does as if `__shared__` were not there',
    'shared variable on the host': OWN,
    'device variable in a function': OWN,
    'host variable read by a kernel': 'a variable of the source counts as one of the device',
    'global lambda': 'what a lambda outside of functions is for is not looked at',
    'std::pair': STD,
    'std::array': STD,
    'std::complex': STD,
    'macro method': 'a function that a macro makes may be for both',
    'default member init host fn': "g++ tells of it where the class stands, not the kernel that makes an object of it",
    'device variable initialised by host constructor': 'variables of the device may begin as a constructor says',
}


def digest(src): return hashlib.sha256(src.encode()).hexdigest()[:16]


def main():
    file = HERE/'nvcc.json'
    known = {v['source']: v['nvcc'] for v in json.loads(file.read_text()).values()} if '--new' in sys.argv else {}
    asked = [s for s in SOURCES.values() if digest(s) not in known]
    with ThreadPoolExecutor(os.cpu_count()) as pool: known |= zip(map(digest, asked), pool.map(verdict, asked))
    record = {k: dict(source=digest(s), nvcc=known[digest(s)]) for k, s in SOURCES.items()}
    file.write_text(json.dumps(record, indent=1) + '\n')


if __name__ == '__main__': sys.exit(main())
