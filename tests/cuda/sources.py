"""Sources that a compiler refuses: nvcc's verdict goes to nvcc.json, the reader of the emulator must
agree, or the difference is explained.

    python sources.py          # needs nvcc, no GPU
    python sources.py --new    # only those that nvcc has not judged yet, all in one unit
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

# of libraries, variables, classes in functions, lambdas, heads of kernels
SIDES |= {
    'host variable read by a kernel': 'int count = 3;\n' + K % 'x[0] = count;',
    'local class method': K % 'struct A { float f(float v) { return v; } }; A a; x[0] = a.f(1);',
    'local class constructor': K % 'struct A { float v; A(float v) : v(v) {} }; A a(1); x[0] = a.v;',
    'local class device method': K % 'struct A { __device__ float f(float v) { return v; } }; A a; x[0] = a.f(1);',
    'local class operator': K % 'struct A { float operator()(float v) const { return v; } }; x[0] = A{}(1);',
    'local class static method': K % 'struct A { static float f(float v) { return v; } }; x[0] = A::f(1);',
    'local class member initialiser': K % 'struct A { float v = 3; }; A a; x[0] = a.v;',
    'local class of a device function':
        '__device__ float g() { struct A { float f() { return 1; } }; return A().f(); }\n'
        + K % 'x[0] = g();',
    'local class of the host':
        'template <class F> __global__ void k(float *x, F f) { x[0] = f(1); }\n'
        'void go(float *x) { struct A { __device__ float operator()(float v) const { return v; } }; '
        'k<<<1, 1>>>(x, A{}); }\n',
    'macro method of both':
        '#define HD __host__ __device__\n'
        'struct A { HD float f(float v) { return v; } };\n'
        + K % 'A a; x[0] = a.f(1);'
        + '#undef HD\n',
    'macro inline':
        '#define INLINE inline __attribute__((always_inline))\n'
        'INLINE float f(float v) { return v; }\n'
        + K % 'x[0] = f(1);'
        + '#undef INLINE\n',
    'macro that makes a function':
        '#define F(name) float name(float v) { return v; }\n'
        'F(f)\n'
        + K % 'x[0] = f(1);'
        + '#undef F\n',
    'macro that makes a device function':
        '#define F(name) __device__ float name(float v) { return v; }\n'
        'F(f)\n'
        + K % 'x[0] = f(1);'
        + '#undef F\n',
    'macro that makes an operator':
        'struct V { float v; };\n'
        '#define OP(o) V operator o(V a, V b) { return V{a.v o b.v}; }\n'
        'OP(+)\n'
        + K % 'V a{1}; x[0] = (a + a).v;'
        + '#undef OP\n',
    'macro qualifier that is empty':
        '#define DEV\n'
        'DEV float f(float v) { return v; }\n'
        + K % 'x[0] = f(1);'
        + '#undef DEV\n',
    'std::pair as a parameter':
        '#include <utility>\n'
        '__global__ void k(float *x, std::pair<int, int> p) { x[0] = p.first + p.second; }\n'
        'void go(float *x) { k<<<1, 1>>>(x, std::make_pair(1, 2)); }\n',
    'std::pair default': '#include <utility>\n' + K % 'std::pair<int, int> p; p.first = n; x[0] = p.first;',
    'std::pair by braces': '#include <utility>\n' + K % 'std::pair<int, int> p{n, 3}; x[0] = p.first;',
    'std::make_pair': '#include <utility>\n' + K % 'auto p = std::make_pair(n, 3); x[0] = p.first;',
    'std::pair copied':
        '#include <utility>\n'
        '__global__ void k(float *x, std::pair<int, int> p) { auto q = p; x[0] = q.first; }\n',
    'std::pair compared':
        '#include <utility>\n'
        '__global__ void k(float *x, std::pair<int, int> p) { x[0] = p == p; }\n',
    'std::pair returned by a device function':
        '#include <utility>\n'
        '__device__ std::pair<int, int> f(int n) { return {n, n}; }\n'
        + K % 'x[0] = f(n).first;',
    'std::array only declared': '#include <array>\n' + K % 'std::array<float, 3> a = {1, 2, 3}; x[0] = sizeof(a);',
    'std::array as a parameter':
        '#include <array>\n'
        '__global__ void k(float *x, std::array<float, 3> a) { x[0] = sizeof(a); }\n',
    'std::array index of a parameter':
        '#include <array>\n'
        '__global__ void k(float *x, std::array<float, 3> a) { x[0] = a[0]; }\n',
    'std::array data':
        '#include <array>\n'
        '__global__ void k(float *x, std::array<float, 3> a) { x[0] = a.data()[0]; }\n',
    'std::array size':
        '#include <array>\n'
        '__global__ void k(float *x, std::array<float, 3> a) { x[0] = a.size(); }\n',
    'std::array ranged for':
        '#include <array>\n'
        '__global__ void k(float *x, std::array<float, 3> a) { for (float v : a) x[0] += v; }\n',
    'std::array get':
        '#include <array>\n'
        '__global__ void k(float *x, std::array<float, 3> a) { x[0] = std::get<0>(a); }\n',
    'std::array size as a constant':
        '#include <array>\n'
        + K % 'constexpr std::array<int, 3> a = {1, 2, 3}; float b[a.size()]; b[0] = n; x[0] = b[0];',
    'std::complex product':
        '#include <complex>\n'
        '__global__ void k(std::complex<float> *x) { x[0] = x[1] * x[2]; }\n',
    'std::complex real of a pointer':
        '#include <complex>\n'
        '__global__ void k(std::complex<float> *x, float *y) { y[0] = x[1].real(); }\n',
    'std::complex assigned': '#include <complex>\n' '__global__ void k(std::complex<float> *x) { x[0] = x[1]; }\n',
    'std::tuple': '#include <tuple>\n' + K % 'std::tuple<int, float> t(n, 1.f); x[0] = std::get<0>(t);',
    'std::tuple as a parameter':
        '#include <tuple>\n'
        '__global__ void k(float *x, std::tuple<int, float> t) { x[0] = std::get<1>(t); }\n',
    'std::tie': '#include <tuple>\n' + K % 'int a; float b; std::tie(a, b) = std::make_tuple(n, 1.f); x[0] = a;',
    'std::optional': '#include <optional>\n' + K % 'std::optional<int> o = n; x[0] = *o;',
    'std::string_view': '#include <string_view>\n' + K % 'std::string_view s("abc"); x[0] = s.size();',
    'std::initializer_list': '#include <initializer_list>\n' + K % 'for (int i : {1, 2, 3}) x[i] = n;',
    'std::function':
        '#include <functional>\n'
        + K % 'std::function<int(int)> f = [](int i) { return i; }; x[0] = f(n);',
    'std::plus': '#include <functional>\n' + K % 'x[0] = std::plus<float>()(x[1], x[2]);',
    'std::less': '#include <functional>\n' + K % 'x[0] = std::less<float>{}(x[1], x[2]);',
    'std::unique_ptr': '#include <memory>\n' + K % 'std::unique_ptr<int> p(new int(n)); x[0] = *p;',
    'std::numeric_limits infinity': '#include <limits>\n' + K % 'x[0] = -std::numeric_limits<float>::infinity();',
    'std::numeric_limits constexpr':
        '#include <limits>\n'
        + K % 'constexpr float big = std::numeric_limits<float>::max(); x[0] = big;',
    'std::numeric_limits digits': '#include <limits>\n' + K % 'x[0] = std::numeric_limits<float>::digits;',
    'std::numeric_limits default argument':
        '#include <limits>\n'
        '__device__ float f(float v = std::numeric_limits<float>::max()) { return v; }\n'
        + K % 'x[0] = f();',
    'std::numeric_limits in a host constexpr':
        '#include <limits>\n'
        'constexpr float big = std::numeric_limits<float>::max();\n'
        + K % 'x[0] = big;',
    'std::numeric_limits static constexpr member':
        '#include <limits>\n'
        'struct L { static constexpr float big = std::numeric_limits<float>::lowest(); };\n'
        + K % 'x[0] = L::big;',
    'std::forward':
        '#include <utility>\n'
        'template <class T> __device__ float f(T &&v) { return v; }\n'
        'template <class T> __device__ float g(T &&v) { return f(std::forward<T>(v)); }\n'
        + K % 'x[0] = g(n);',
    'std::exchange': '#include <utility>\n' + K % 'x[0] = std::exchange(n, 3);',
    'std::integral_constant':
        '#include <type_traits>\n'
        + K % 'x[0] = std::integral_constant<int, 3>::value + std::integral_constant<int, 3>();',
    'std::integral_constant called': '#include <type_traits>\n' + K % 'x[0] = std::integral_constant<int, 3>()();',
    'std::min': '#include <algorithm>\n' + K % 'x[0] = std::min(n, 3);',
    'std::max of a list': '#include <algorithm>\n' + K % 'x[0] = std::max({n, 3, 4});',
    'using std::min': '#include <algorithm>\n' 'using std::min;\n' + K % 'x[0] = min(n, 3);',
    'using namespace std': '#include <algorithm>\n' 'using namespace std;\n' + K % 'x[0] = max(n, 3);',
    'using namespace std, swap': '#include <algorithm>\n' 'using namespace std;\n' + K % 'swap(x[0], x[1]);',
    'using namespace std, numeric_limits':
        '#include <limits>\n'
        'using namespace std;\n'
        + K % 'x[0] = numeric_limits<float>::max();',
    'using namespace std, vector':
        '#include <vector>\n'
        'using namespace std;\n'
        + K % 'vector<float> v(3); x[0] = v[0];',
    'using namespace std, sort': '#include <algorithm>\n' 'using namespace std;\n' + K % 'sort(x, x + n);',
    'std::clamp': '#include <algorithm>\n' + K % 'x[0] = std::clamp(n, 0, 3);',
    'std::midpoint': '#include <numeric>\n' + K % 'x[0] = std::gcd(n, 3);',
    'std::accumulate': '#include <numeric>\n' + K % 'x[0] = std::accumulate(x, x + n, 0.f);',
    'assert': '#include <cassert>\n' + K % 'assert(n > 0);',
    'printf of a std::string':
        '#include <cstdio>\n'
        '#include <string>\n'
        '__global__ void k(float *x, int n) { std::string s("a"); printf("%s", s.c_str()); }\n',
    'constexpr variable by value': 'constexpr float c = 3;\n' + K % 'x[0] = c;',
    'constexpr variable by reference':
        'constexpr float c = 3;\n'
        '__device__ float f(const float &v) { return v; }\n'
        + K % 'x[0] = f(c);',
    'constexpr variable by address': 'constexpr float c = 3;\n' + K % 'const float *p = &c; x[0] = *p;',
    'constexpr array at a constant': 'constexpr float c[2] = {1, 2};\n' + K % 'x[0] = c[1];',
    'constexpr array at an index': 'constexpr float c[2] = {1, 2};\n' + K % 'x[0] = c[n];',
    'const array at an index': 'const float c[2] = {1, 2};\n' + K % 'x[0] = c[n];',
    'const float of the host': 'const float c = 3;\n' + K % 'x[0] = c;',
    'const double of the host': 'const double c = 3;\n' + K % 'x[0] = c;',
    'const int of a function': 'int f() { return 3; }\n' 'const int c = f();\n' + K % 'x[0] = c;',
    'const int by address': 'const int c = 3;\n' + K % 'const int *p = &c; x[0] = *p;',
    'const struct of the host': 'struct A { int v; };\n' 'const A c = {3};\n' + K % 'x[0] = c.v;',
    'constexpr struct of the host': 'struct A { int v; };\n' 'constexpr A c = {3};\n' + K % 'x[0] = c.v;',
    'constexpr struct method':
        'struct A { int v; constexpr int f() const { return v; } };\n'
        'constexpr A c = {3};\n'
        + K % 'x[0] = c.f();',
    'constexpr struct method constant':
        'struct A { int v; constexpr int f() const { return v; } };\n'
        'constexpr A c = {3};\n'
        + K % 'constexpr int m = c.f(); x[0] = m;',
    'static const int of the host': 'static const int c = 3;\n' + K % 'x[0] = c;',
    'static int of the host': 'static int c = 3;\n' + K % 'x[0] = c;',
    'host array': 'int c[2] = {1, 2};\n' + K % 'x[0] = c[n];',
    'host array written': 'int c[2] = {1, 2};\n' + K % 'c[0] = n;',
    'host pointer': 'float *p;\n' + K % 'p[0] = n;',
    'sizeof of a host array': 'int c[2] = {1, 2};\n' + K % 'x[0] = sizeof(c);',
    'host variable in a template':
        'int c = 3;\n'
        'template <class T> __global__ void k(T *x) { x[0] = c; }\n'
        'void go(float *x) { k<<<1, 1>>>(x); }\n',
    'host variable of a namespace': 'namespace b { int c = 3; }\n' + K % 'x[0] = b::c;',
    'host variable in a host device function':
        'int c = 3;\n'
        '__host__ __device__ int f() { return c; }\n'
        + K % 'x[0] = f();',
    'host variable in a device function that is unused': 'int c = 3;\n' '__device__ int f() { return c; }\n',
    'const char pointer': 'const char *s = "abc";\n' + K % 'x[0] = s[0];',
    'const char array': 'const char s[] = "abc";\n' + K % 'x[0] = s[n];',
    'constexpr template': 'template <class T> constexpr T f(T n) { return n + 1; }\n' + K % 'x[0] = f(n);',
    'constexpr of a constant argument': 'constexpr int f(int n) { return n + 1; }\n' + K % 'x[0] = f(3);',
    'constexpr lambda': K % 'constexpr auto f = [](int i) { return i + 1; }; x[0] = f(n);',
    'constexpr calls constexpr':
        'constexpr int f(int n) { return n + 1; }\n'
        'constexpr int g(int n) { return f(n); }\n'
        + K % 'x[0] = g(n);',
    'host device constexpr': '__host__ __device__ constexpr int f(int n) { return n + 1; }\n' + K % 'x[0] = f(n);',
    'host device calls constexpr':
        'constexpr int f(int n) { return n + 1; }\n'
        '__host__ __device__ int g(int n) { return f(n); }\n'
        + K % 'x[0] = g(n);',
    'case label': 'constexpr int f(int n) { return n + 1; }\n' + K % 'switch (n) { case f(3): x[0] = 1; }',
    'static local': K % 'static int c = 3; c += n; x[0] = c;',
    'static const local': K % 'static const int c[2] = {1, 2}; x[0] = c[n];',
    'static constexpr local': K % 'static constexpr int c[2] = {1, 2}; x[0] = c[n];',
    'static local of a run-time value': K % 'static int c = n; x[0] = c;',
    'static shared': K % 'static __shared__ int c; c = n; x[0] = c;',
    'static member': 'struct A { static int c; };\n' 'int A::c = 3;\n' + K % 'x[0] = A::c;',
    'static const member': 'struct A { static const int c = 3; };\n' + K % 'x[0] = A::c;',
    'static constexpr member': 'struct A { static constexpr float c = 3; };\n' + K % 'x[0] = A::c;',
    'static constexpr member by reference':
        'struct A { static constexpr float c = 3; };\n'
        '__device__ float f(const float &v) { return v; }\n'
        + K % 'x[0] = f(A::c);',
    'static constexpr array member': 'struct A { static constexpr float c[2] = {1, 2}; };\n' + K % 'x[0] = A::c[n];',
    'static constexpr array member at a constant':
        'struct A { static constexpr float c[2] = {1, 2}; };\n'
        + K % 'x[0] = A::c[1];',
    'static inline member': 'struct A { static inline int c = 3; };\n' + K % 'x[0] = A::c;',
    'static device member':
        'struct A { static __device__ int c; };\n'
        '__device__ int A::c = 3;\n'
        + K % 'x[0] = A::c;',
    'static device method': 'struct A { static __device__ int f() { return 3; } };\n' + K % 'x[0] = A::f();',
    'thread_local': K % 'thread_local int c = 3; x[0] = c;',
    'virtual device':
        'struct A { __device__ virtual float f() { return 1; } };\n'
        'struct B : A { __device__ float f() override { return 2; } };\n'
        + K % 'B b; A *a = &b; x[0] = a->f();',
    'virtual host called': 'struct A { virtual float f() { return 1; } };\n' + K % 'A a; x[0] = a.f();',
    'virtual host overridden for the device':
        'struct A { virtual float f() { return 1; } };\n'
        'struct B : A { __device__ float f() override { return 2; } };\n'
        + K % 'B b; x[0] = b.f();',
    'virtual device overridden for the host':
        'struct A { __device__ virtual float f() { return 1; } };\n'
        'struct B : A { float f() override { return 2; } };\n'
        + K % 'B b; A *a = &b; x[0] = a->f();',
    'virtual destructor':
        'struct A { virtual ~A() {} __device__ float f() { return 1; } };\n'
        + K % 'A a; x[0] = a.f();',
    'virtual device destructor':
        'struct A { __device__ virtual ~A() {} __device__ float f() { return 1; } };\n'
        + K % 'A a; x[0] = a.f();',
    'dynamic_cast':
        'struct A { __device__ virtual float f() { return 1; } };\n'
        'struct B : A { };\n'
        + K % 'B b; A *a = &b; x[0] = dynamic_cast<B *>(a) != nullptr;',
    'host template with a lambda':
        'template <class F> __global__ void k(float *x, F f) { x[0] = f(1); }\n'
        'template <class T> void go(T *x) { k<<<1, 1>>>(x, [] __device__ (float v) { return v; }); }\n'
        'void start(float *x) { go(x); }\n',
    'lambda passed to a device function':
        'template <class F> __device__ float apply(F f) { return f(1); }\n'
        + K % 'x[0] = apply([=](float v) { return v + n; });',
    'lambda in a device function':
        '__device__ float g(float v) { auto f = [&](float w) { return v + w; }; return f(1); }\n'
        + K % 'x[0] = g(1);',
    'lambda that calls the host':
        'float h(float v) { return v; }\n'
        'template <class F> __device__ float apply(F f) { return f(1); }\n'
        + K % 'x[0] = apply([](float v) { return h(v); });',
    'lambda with a capture of a host variable':
        'int c = 3;\n'
        + K % 'auto f = [&](float v) { return v + c; }; x[0] = f(1);',
    'host lambda calls device':
        '__device__ float d(float v) { return v; }\n'
        'void go() { auto f = [](float v) { return d(v); }; f(1); }\n',
    'lambda default argument':
        '__device__ float g(float v, float (*f)(float) = [](float w) { return w; }) { return f(v); }\n'
        + K % 'x[0] = g(1);',
    'default argument': '__device__ float f(float v = 3) { return v; }\n' + K % 'x[0] = f();',
    'default argument that calls the host':
        'float h() { return 3; }\n'
        '__device__ float f(float v = h()) { return v; }\n'
        + K % 'x[0] = f();',
    'default argument that calls the host, given':
        'float h() { return 3; }\n'
        '__device__ float f(float v = h()) { return v; }\n'
        + K % 'x[0] = f(1);',
    'default argument of a kernel':
        '__global__ void k(float *x, int n = 3) { x[0] = n; }\n'
        'void go(float *x) { k<<<1, 1>>>(x); }\n',
    'default argument of a kernel that calls the host':
        'int h() { return 3; }\n'
        '__global__ void k(float *x, int n = h()) { x[0] = n; }\n'
        'void go(float *x) { k<<<1, 1>>>(x); }\n',
    'default template argument':
        'template <class T = float, int N = 4> __global__ void k(T *x) { x[0] = N; }\n'
        'void go(float *x) { k<<<1, 1>>>(x); }\n',
    'operator of an enum class':
        'enum class E { a = 1, b = 2 };\n'
        'E operator|(E p, E q) { return E(int(p) | int(q)); }\n'
        + K % 'x[0] = int(E::a | E::b);',
    'device operator of an enum class':
        'enum class E { a = 1, b = 2 };\n'
        '__device__ E operator|(E p, E q) { return E(int(p) | int(q)); }\n'
        + K % 'x[0] = int(E::a | E::b);',
    'constexpr operator of an enum class':
        'enum class E { a = 1, b = 2 };\n'
        'constexpr E operator|(E p, E q) { return E(int(p) | int(q)); }\n'
        + K % 'x[0] = int(E::a | E::b);',
    'constexpr operator of an enum class in a constant':
        'enum class E { a = 1, b = 2 };\n'
        'constexpr E operator|(E p, E q) { return E(int(p) | int(q)); }\n'
        + K % 'constexpr E e = E::a | E::b; x[0] = int(e);',
    'operator new of a class':
        '#include <cstdlib>\n'
        'struct A { float v; void *operator new(size_t n) { return malloc(n); } };\n'
        + K % 'A *a = new A; x[0] = a->v;',
    'placement new': '#include <new>\n' 'struct A { float v; };\n' + K % 'A *a = new (x) A; a->v = n;',
    'constant by address on the host': '__constant__ float c[2] = {1, 2};\n' 'float *go() { return c; }\n',
    'constant copied to by symbol':
        '__constant__ float c[2];\n'
        'void go(float *x) { cudaMemcpyToSymbol(c, x, 8); }\n'
        + K % 'x[0] = c[n];',
    'constant copied to plainly':
        '__constant__ float c[2];\n'
        'void go(float *x) { cudaMemcpy(c, x, 8, cudaMemcpyHostToDevice); }\n'
        + K % 'x[0] = c[n];',
    'constant read by the host': '__constant__ float c = 3;\n' 'float go() { return c; }\n' + K % 'x[0] = c;',
    'constant array read by the host':
        '__constant__ float c[2] = {1, 2};\n'
        'float go() { return c[1]; }\n'
        + K % 'x[0] = c[n];',
    'device variable read by the host': '__device__ int c = 3;\n' 'int go() { return c; }\n',
    'device variable written by the host': '__device__ int c = 3;\n' 'void go() { c = 4; }\n',
    'device variable by address on the host': '__device__ int c = 3;\n' 'int *go() { return &c; }\n',
    'device variable read by a host template':
        '__device__ int c = 3;\n'
        'template <class T> T go() { return c; }\n'
        'int start() { return go<int>(); }\n',
    'device variable read by a host device function':
        '__device__ int c = 3;\n'
        '__host__ __device__ int f() { return c; }\n'
        + K % 'x[0] = f();',
    'managed variable read by the host': '__managed__ int c = 3;\n' 'int go() { return c; }\n' + K % 'c = n;',
    'constant with a value of a function': 'float f() { return 3; }\n' '__constant__ float c = f();\n',
    'constant of a class with a constructor':
        'struct A { float v; __device__ A() : v(1) {} };\n'
        '__constant__ A c;\n',
    'constant in a function': K % '__constant__ float c = 3; x[0] = c;',
    'constant member': 'struct A { __constant__ float c; };\n',
    'constant that is const': 'const __constant__ float c = 3;\n' + K % 'x[0] = c;',
    'constexpr device variable': '__device__ constexpr float c[2] = {1, 2};\n' + K % 'x[0] = c[n];',
    'constexpr constant': 'constexpr __constant__ float c[2] = {1, 2};\n' + K % 'x[0] = c[n];',
    'constexpr device variable read by the host': '__device__ constexpr float c = 3;\n' 'float go() { return c; }\n',
    'const device integer read by the host': '__device__ const int c = 3;\n' 'int go() { return c; }\n',
    'shared at file scope': '__shared__ float s[4];\n' + K % 's[0] = n; x[0] = s[0];',
    'extern C kernel':
        'extern "C" __global__ void c_k(float *x) { x[0] = 1; }\n'
        'void go(float *x) { c_k<<<1, 1>>>(x); }\n',
    'extern C host function called':
        'extern "C" int c_f(int n) { return n; }\n'
        '__global__ void c_k(float *x, int n) { x[0] = c_f(n); }\n',
    'kernel of an anonymous namespace':
        'namespace { __global__ void k(float *x) { x[0] = 1; } }\n'
        'void go(float *x) { k<<<1, 1>>>(x); }\n',
    'template kernel of an anonymous namespace':
        'namespace { template <class T> __global__ void k(T *x) { x[0] = 1; } }\n'
        'void go(float *x) { k<<<1, 1>>>(x); }\n',
    'host function of an anonymous namespace': 'namespace { int f(int n) { return n; } }\n' + K % 'x[0] = f(n);',
    'constexpr kernel': 'constexpr __global__ void k(float *x) { x[0] = 1; }\n',
    'kernel that is static in a class, launched':
        'struct A { static __global__ void k(float *x) { x[0] = 1; } };\n'
        'void go(float *x) { A::k<<<1, 1>>>(x); }\n',
    'kernel that is a friend': 'struct A { friend __global__ void k(float *x) { x[0] = 1; } };\n',
    'kernel with a variadic template':
        'template <class... T> __global__ void k(float *x, T... n) { x[0] = (n + ...); }\n'
        'void go(float *x) { k<<<1, 1>>>(x, 1, 2); }\n',
    'kernel with an ellipsis': '__global__ void k(float *x, ...) { x[0] = 1; }\n',
    'kernel with host and global': '__host__ __global__ void k(float *x) { x[0] = 1; }\n',
    'kernel with device and global': '__device__ __global__ void k(float *x) { x[0] = 1; }\n',
    'kernel with a reference to a class':
        'struct A { int v; };\n'
        '__global__ void k(float *x, const A &a) { x[0] = a.v; }\n',
    'kernel with an rvalue reference': '__global__ void k(float *x, int &&a) { x[0] = a; }\n',
    'kernel with a std::string': '#include <string>\n' '__global__ void k(float *x, std::string s) { x[0] = 1; }\n',
    'kernel with a std::vector':
        '#include <vector>\n'
        '__global__ void k(float *x, std::vector<int> s) { x[0] = 1; }\n',
    'kernel with a std::initializer_list':
        '#include <initializer_list>\n'
        '__global__ void k(float *x, std::initializer_list<int> s) { x[0] = 1; }\n',
    'kernel that launches': '__global__ void j(float *x) {}\n' + K % 'j<<<1, 1>>>(x);',
    'template kernel of a private type':
        'template <class T> __global__ void k(T *x) { x[0].v = 1; }\n'
        'class C { struct A { int v; }; public: void go() { A *a = nullptr; k<<<1, 1>>>(a); } };\n',
    'launch bounds behind': '__global__ void k(float *x) __launch_bounds__(128) { x[0] = 1; }\n',
    'launch bounds of a device function': '__device__ __launch_bounds__(128) void f(float *x) { x[0] = 1; }\n',
    'device method on the host':
        'struct A { __device__ float f(float v) { return v; } };\n'
        'float go() { A a; return a.f(1); }\n',
    'device constructor on the host':
        'struct A { float v; __device__ A(float v) : v(v) {} };\n'
        'float go() { A a(1); return a.v; }\n',
    'device operator on the host':
        'struct A { float v; };\n'
        '__device__ A operator+(A a, A b) { return A{a.v + b.v}; }\n'
        'float go() { A a{1}; return (a + a).v; }\n',
    'device template on the host':
        'template <class T> __device__ T f(T v) { return v; }\n'
        'float go() { return f(1.f); }\n',
    'device function in a host lambda':
        '__device__ int f(int n) { return n; }\n'
        'int go() { return [] { return f(1); }(); }\n',
    'device function in a global initialiser': '__device__ int f(int n) { return n; }\n' 'int c = f(3);\n',
    'device function pointer on the host':
        '__device__ int f(int n) { return n; }\n'
        'void *go() { return (void *)f; }\n',
    'cudaMalloc in a kernel': K % 'int *p; cudaMalloc(&p, 4);',
    'cudaDeviceSynchronize in a kernel': K % 'cudaDeviceSynchronize();',
    'cudaMemcpy in a kernel': K % 'cudaMemcpy(x, x + 1, 4, cudaMemcpyDeviceToDevice);',
    'variable length array': K % 'float a[n]; a[0] = 1; x[0] = a[0];',
    'operator comma of the host':
        'struct A { int v; };\n'
        'A operator,(A a, A b) { return b; }\n'
        + K % 'A a{1}, b{2}; x[0] = (a, b).v;',
    'compare operator of the host':
        'struct A { int v; bool operator<(const A &o) const { return v < o.v; } };\n'
        + K % 'A a{1}, b{2}; x[0] = a < b;',
    'increment of the host':
        'struct A { int v; A &operator++() { v++; return *this; } };\n'
        + K % 'A a{1}; ++a; x[0] = a.v;',
    'iterator of the host':
        'struct R { float *b, *e; float *begin() const { return b; } float *end() const { return e; '
        '} };\n'
        '__global__ void k(R r) { for (float &v : r) v = 1; }\n',
    'host method of a template class, explicit':
        'template <class T> struct A { T v; T get() const { return v; } };\n'
        '__global__ void k(float *x, A<float> a) { x[0] = a.get(); }\n',
    'nested class method': 'struct O { struct A { float f() { return 1; } }; };\n' + K % 'O::A a; x[0] = a.f();',
    'method of a class in a namespace':
        'namespace b { struct A { float f() { return 1; } }; }\n'
        + K % 'b::A a; x[0] = a.f();',
    'method by using':
        'struct B { float f(float v) { return v; } };\n'
        'struct A : B { using B::f; };\n'
        + K % 'A a; x[0] = a.f(1);',
    'member function pointer':
        'struct A { __device__ float f() { return 1; } };\n'
        + K % 'A a; float (A::*p)() = &A::f; x[0] = (a.*p)();',
    'friend function of the host':
        'struct A { float v; friend float get(const A &a) { return a.v; } };\n'
        + K % 'A a{1}; x[0] = get(a);',
    'class in a template function':
        'template <class T> __global__ void k(T *x) { struct A { T f() { return 1; } }; x[0] = '
        'A().f(); }\n'
        'void go(float *x) { k<<<1, 1>>>(x); }\n',
    'constexpr array into constexpr': 'constexpr int c[2] = {1, 2};\n' + K % 'constexpr int m = c[1]; x[0] = m;',
    'constexpr array as an array size':
        'constexpr int c[2] = {1, 2};\n'
        + K % 'float a[c[1]]; a[0] = n; x[0] = a[0];',
    'constexpr array as a template argument':
        'constexpr int c[2] = {1, 2};\n'
        'template <int N> __device__ int g() { return N; }\n'
        + K % 'x[0] = g<c[1]>();',
    'constexpr array in if constexpr': 'constexpr int c[2] = {1, 2};\n' + K % 'if constexpr (c[1] == 2) x[0] = 1;',
    'constexpr array in static_assert': 'constexpr int c[2] = {1, 2};\n' + K % 'static_assert(c[1] == 2); x[0] = 1;',
    'constexpr array in an enum': 'constexpr int c[2] = {1, 2};\n' + K % 'enum { m = c[1] }; x[0] = m;',
    'constexpr array in a constexpr of a template':
        'constexpr int c[2] = {1, 2};\n'
        'template <int N> __device__ int g() { constexpr int m = c[N]; return m; }\n'
        + K % 'x[0] = g<1>();',
    'static constexpr array member into constexpr':
        'struct A { static constexpr int c[2] = {1, 2}; };\n'
        + K % 'constexpr int m = A::c[1]; x[0] = m;',
    'const struct of the host, method':
        'struct A { int v; __device__ int f() const { return v; } };\n'
        'const A c = {3};\n'
        + K % 'x[0] = c.f();',
    'const pointer': 'const char *const s = "abc";\n' + K % 'x[0] = s[0];',
    'constexpr pointer': 'constexpr const char *s = "abc";\n' + K % 'x[0] = s[0];',
    'host variable as a default argument':
        'int c = 3;\n'
        '__device__ int f(int n = c) { return n; }\n'
        + K % 'x[0] = f(1);',
    'host variable as a default argument of a kernel':
        'int c = 3;\n'
        '__global__ void k(float *x, int n = c) { x[0] = n; }\n'
        'void go(float *x) { k<<<1, 1>>>(x); }\n',
    'host variable in decltype': 'int c = 3;\n' + K % 'decltype(c) v = n; x[0] = v;',
    'host struct variable': 'struct A { int v; };\n' 'A c = {3};\n' + K % 'x[0] = c.v;',
    'extern host variable': 'extern int c;\n' + K % 'x[0] = c;',
    'host reference': 'int b = 3;\n' 'int &c = b;\n' + K % 'x[0] = c;',
    'host function pointer variable':
        '__device__ float f(float v) { return v; }\n'
        'float (*p)(float) = f;\n'
        + K % 'x[0] = p(1);',
    'device function pointer variable':
        '__device__ float f(float v) { return v; }\n'
        '__device__ float (*p)(float) = f;\n'
        + K % 'x[0] = p(1);',
    'host variable of a template': 'template <class T> T c = 3;\n' + K % 'x[0] = c<int>;',
    'constexpr variable of a template': 'template <class T> constexpr T c = 3;\n' + K % 'x[0] = c<int>;',
    'static member of a class template':
        'template <class T> struct A { static constexpr T c = 3; };\n'
        + K % 'x[0] = A<int>::c;',
    'static member written': 'struct A { static int c; };\n' 'int A::c;\n' + K % 'A::c = n;',
    'static const float member':
        'struct A { static const float c; };\n'
        'const float A::c = 3;\n'
        + K % 'x[0] = A::c;',
    'static const int member defined outside':
        'struct A { static const int c; };\n'
        'const int A::c = 3;\n'
        + K % 'x[0] = A::c;',
    'host variable shadowed': 'int c = 3;\n' + K % 'int c = n; x[0] = c;',
    'host variable shadowed by a parameter': 'int n = 3;\n' + K % 'x[0] = n;',
    'volatile const int': 'const volatile int c = 3;\n' + K % 'x[0] = c;',
    'const bool': 'const bool c = true;\n' + K % 'x[0] = c;',
    'const int brace': 'const int c{3};\n' + K % 'x[0] = c;',
    'const int by typedef': 'typedef const int ci;\n' 'ci c = 3;\n' + K % 'x[0] = c;',
    'const int by using': 'using ci = int const;\n' 'typedef ci cj;\n' 'cj c = 3;\n' + K % 'x[0] = c;',
    'int by typedef': 'typedef int plain;\n' 'plain c = 3;\n' + K % 'x[0] = c;',
    'pointer to const by typedef': 'typedef const char *cs;\n' 'cs c = "abc";\n' + K % 'x[0] = c[0];',
    'array of const by typedef': 'typedef const int ci;\n' 'ci c[2] = {1, 2};\n' + K % 'x[0] = c[n];',
    'const size_t of sizeof': 'const size_t c = sizeof(float) * 4;\n' + K % 'x[0] = c;',
    'const int of sqrt': '#include <cmath>\n' 'const int c = sqrt(9.0);\n' + K % 'x[0] = c;',
    'const float max': 'const int a = 3, b = 4;\n' 'const float c = a * b / 2.f;\n' + K % 'x[0] = c;',
    'const float by reference':
        'const float c = 3;\n'
        '__device__ float f(const float &v) { return v; }\n'
        + K % 'x[0] = f(c);',
    'const int to max by reference': 'const int c = 3;\n' + K % 'x[0] = max(c, n);',
    'const int captured': 'const int c = 3;\n' + K % 'auto f = [=](int v) { return v + c; }; x[0] = f(n);',
    'const array of const char': 'const char *const s[2] = {"a", "b"};\n' + K % 'x[0] = s[n][0];',
    'variable length array of the host': 'int go(int n) { float a[n]; a[0] = n; return a[0]; }\n',
    'static local of a device function': '__device__ int f() { static int c; return c++; }\n' + K % 'x[0] = f();',
    'std::array assigned':
        '#include <array>\n'
        '__global__ void k(float *x, std::array<float, 3> a) { auto b = a; x[0] = sizeof(b); }\n',
    'std::complex default': '#include <complex>\n' + K % 'std::complex<float> c; x[0] = 1;',
    'std::complex in shared memory': '#include <complex>\n' + K % '__shared__ std::complex<float> c[4]; x[0] = 1;',
    'std::complex cast':
        '#include <complex>\n'
        '__global__ void k(std::complex<float> *x) { float *y = reinterpret_cast<float *>(x); y[0] = '
        '1; }\n',
    'std::vector unused parameter':
        '#include <vector>\n'
        '__global__ void k(float *x, std::vector<int> s) { x[0] = 1; }\n',
    'std::vector parameter index':
        '#include <vector>\n'
        '__global__ void k(float *x, std::vector<int> s) { x[0] = s[0]; }\n',
    'std::vector parameter size':
        '#include <vector>\n'
        '__global__ void k(float *x, std::vector<int> s) { x[0] = s.size(); }\n',
    'std::vector reference to a device function':
        '#include <vector>\n'
        '__device__ float f(const std::vector<int> &s) { return s[0]; }\n',
    'runtime cudaMemcpy': K % 'cudaMemcpy(x, x, 4, cudaMemcpyDeviceToDevice);',
    'runtime cudaDeviceSynchronize': K % 'cudaDeviceSynchronize();',
    'runtime cudaSetDevice': K % 'cudaSetDevice(0);',
}

# functions of C's library, and what the program itself calls like those
SIDES |= {
    'sleep': '#include <unistd.h>\n' + K % 'sleep(1); x[0] = n;',
    'sleep in a lambda': '#include <unistd.h>\n' + K % 'auto f = [] { usleep(1); }; f(); x[0] = n;',
    'sleep by a pointer': '#include <unistd.h>\n' + K % 'unsigned (*f)(unsigned) = sleep; x[0] = f(1);',
    'sleep in a macro': '#include <unistd.h>\n#define NAP usleep(1)\n' + K % 'NAP; x[0] = n;' + '#undef NAP\n',
    'sleep of this thread': '#include <thread>\n' + K % 'std::this_thread::yield(); x[0] = n;',
    'write to a file': '#include <unistd.h>\n' + K % '::write(1, "x", 1); x[0] = n;',
    'unlink': '#include <unistd.h>\n' + K % 'unlink("a"); x[0] = n;',
    'close': '#include <unistd.h>\n' + K % 'close(0); x[0] = n;',
    'fork': '#include <unistd.h>\n' + K % 'x[0] = fork();',
    'raise': '#include <csignal>\n' + K % 'raise(10); x[0] = n;',
    'std::_Exit': '#include <cstdlib>\n' + K % 'std::_Exit(4); x[0] = n;',
    '_exit': '#include <unistd.h>\n' + K % '_exit(4); x[0] = n;',
    'pthread_exit': '#include <pthread.h>\n' + K % 'pthread_exit(nullptr); x[0] = n;',
    'random': '#include <cstdlib>\n' + K % 'x[0] = n * random();',
    'fesetround': '#include <cfenv>\n' + K % 'fesetround(0); x[0] = n;',
    'errno': '#include <cerrno>\n' + K % 'x[0] = errno;',
    'std::terminate': '#include <exception>\n' + K % 'std::terminate(); x[0] = n;',
    'std::atomic': '#include <atomic>\n' + K % 'std::atomic<int> a; a = n; x[0] = n;',
    'std::mutex': '#include <mutex>\n' + K % 'std::mutex m; m.lock(); x[0] = n;',
    'std::atomic_thread_fence':
        '#include <atomic>\n'
        + K % 'std::atomic_thread_fence(std::memory_order_seq_cst); x[0] = n;',
    'sleep in a template':
        '#include <unistd.h>\n'
        'template <class T> __device__ T nap(T v) { sleep(1); return v; }\n'
        + K % 'x[0] = nap(n);',
    'sleep in a template that nothing uses':
        '#include <unistd.h>\n'
        'template <class T> __device__ T unused_nap(T v) { sleep(1); return v; }\n'
        + K % 'x[0] = n;',
    'sleep in a host device function':
        '#include <unistd.h>\n'
        '__host__ __device__ int nap(int n) { sleep(1); return n; }\n'
        + K % 'x[0] = n;',
    'sleep on the host': '#include <unistd.h>\n' + K % 'x[0] = n;' + 'void go() { sleep(1); }\n',
    'own function called access': '__device__ float access(float v) { return v; }\n' + K % 'x[0] = access(n);',
    'own method called dup':
        'struct A { __device__ float dup(float v) { return v; } __device__ float f() { return dup(1); } };\n'
        + K % 'A a; x[0] = a.f() + a.dup(n);',
    'own parameter called select':
        'template <class F> __device__ float apply(F select, float v) { return select(v); }\n'
        + K % 'x[0] = apply([](float v) { return v; }, n);',
    'own lambda called accept': K % 'auto accept = [](int v) { return v; }; x[0] = accept(n);',
    'own variables called read and link': K % 'float read, link = n; read = link; x[0] = read;',
    'own template called bind':
        'namespace b { template <class T> __device__ T *bind(T *v) { return v; } }\n'
        + K % 'using b::bind; bind(x)[0] = n; b::bind(x)[0] = n;',
    'functions of C for both sides':
        '#include <cstring>\n#include <cmath>\n#include <cstdio>\n'
        + K % 'std::memcpy(x, x + 1, 4); memset(x, 0, n); x[0] = clock() + labs(n) + ldexp(x[1], 2); std::printf("a");',
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
MACRO = 'a function that a macro makes may be for both'
STD = 'operators, and names without `std::`, are taken wherever they stand; g++ runs them'
VALUE = 'a constant of the host is taken, whatever is asked of it beside its value'
DEFAULT = 'default arguments are not looked at: who gives the argument does not evaluate them'
BEGINS = 'variables of the device may begin as a constructor or a function says'
OVERRIDES = 'who overrides whom is not looked at'
TEMPLATE = 'a type is taken for a template, whose ever it is'
BOUNDS = 'where `__launch_bounds__` stands is not looked at'
REFERENCE = 'what a variable that is declared elsewhere, a reference or a pointer to a function leads to is not known'
HOST = 'of what is for the GPU alone only plain functions are looked for in code of the host'
BOTH = 'what is for both sides may be called by the host alone'
DIFFERS = {
    'launch without threads': 'nvcc takes blocks of one thread; probably the threads were forgotten',
    'shared member': 'nvcc does as if `__shared__` were not there',
    'shared variable on the host': OWN,
    'device variable in a function': OWN,
    'global lambda': 'what a lambda outside of functions is for is not looked at',
    'macro method': MACRO,
    'default member init host fn': "g++ tells of it where the class stands, not the kernel that makes an object of it",
    'device variable initialised by host constructor': BEGINS,
    'macro that makes a function': MACRO,
    'macro that makes an operator': MACRO,
    'macro qualifier that is empty': MACRO,
    'std::pair compared': STD,
    'std::pair returned by a device function': STD,
    'std::array ranged for': STD,
    'std::complex product': STD,
    'std::complex real of a pointer': STD,
    'std::complex in shared memory': STD,
    'std::optional': STD,
    'std::plus': STD,
    'std::less': STD,
    'std::integral_constant': STD,
    'std::integral_constant called': STD,
    'using std::min': STD,
    'using namespace std, swap': STD,
    'using namespace std, numeric_limits': STD,
    'using namespace std, sort': STD,
    'constexpr variable by reference': VALUE,
    'constexpr variable by address': VALUE,
    'constexpr array at a constant': VALUE,
    'const int of a function': VALUE,
    'const int of sqrt': VALUE,
    'const int by address': VALUE,
    'const float by reference': VALUE,
    'const pointer': VALUE,
    'const struct of the host, method': VALUE,
    'static constexpr member by reference': VALUE,
    'volatile const int': VALUE,
    'host constructor default argument in device fn': DEFAULT,
    'default argument that calls the host': DEFAULT,
    'constant with a value of a function': BEGINS,
    'constant of a class with a constructor': BEGINS,
    'static local of a run-time value': BEGINS,
    'virtual host overridden for the device': OVERRIDES,
    'virtual device overridden for the host': OVERRIDES,
    'local class of the host': TEMPLATE,
    'template kernel of a private type': TEMPLATE,
    'launch bounds behind': BOUNDS,
    'launch bounds of a device function': BOUNDS,
    'extern host variable': REFERENCE,
    'host reference': REFERENCE,
    'host function pointer variable': REFERENCE,
    'host variable of a template': REFERENCE,
    'host variable in a host device function': BOTH,
    'kernel that is a friend': OWN,
    'static device member': OWN,
    'kernel that launches': 'nvcc takes it with -rdc=true',
    'device method on the host': HOST,
    'device template on the host': HOST,
    'device operator on the host': HOST,
    'device constructor on the host': HOST,
    'cudaDeviceSynchronize in a kernel': 'the emulator says it when a kernel waits for kernels',
    'runtime cudaDeviceSynchronize': 'the emulator says it when a kernel waits for kernels',
}


INCLUDE = re.compile(r'^#include <.*$', re.M)
ERROR = re.compile(r'^\S+/k\.cu\((\d+)\): error(?: #\S+)?: (.*)', re.M)


def verdicts(srcs):
    """nvcc's first error per source: all in one unit, each in a namespace, then again without those that have one

    A source with `extern "C"` keeps its names, which no other source may have."""
    found, left = {}, list(srcs)
    while True:
        text, of_line = '\n'.join(dict.fromkeys(INCLUDE.findall('\n'.join(left)))) + '\n', {}
        for n, src in enumerate(left):
            first = text.count('\n')
            text += f'namespace n{n} {{\n{INCLUDE.sub("", src)}\n}}\n'
            of_line |= dict.fromkeys(range(first, text.count('\n') + 1), src)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder)/'k.cu'
            file.write_text(text)
            done = subprocess.run(['nvcc', '-std=c++17', '-arch=sm_90', '-Xcudafe', '--error_limit=10000', '-c', '-o',
                                   file.with_suffix('.o'), file], capture_output=True, text=True)
        said = {}
        for line, what in ERROR.findall(done.stdout + done.stderr):
            said.setdefault(of_line[int(line)], re.sub(r'\b(::)?n\d+::', '', what))
        assert bool(said) == bool(done.returncode), done
        found |= said
        if not said: return {o: found.get(o, '') for o in srcs}
        left = [o for o in left if o not in said]


def digest(src): return hashlib.sha256(src.encode()).hexdigest()[:16]


def main():
    file = HERE/'nvcc.json'
    known = {v['source']: v['nvcc'] for v in json.loads(file.read_text()).values()} if '--new' in sys.argv else {}
    asked = [s for s in SOURCES.values() if digest(s) not in known]
    if '--new' in sys.argv: known |= {digest(s): said for s, said in verdicts(asked).items()}
    else:
        with ThreadPoolExecutor(os.cpu_count()) as pool: known |= zip(map(digest, asked), pool.map(verdict, asked))
    record = {k: dict(source=digest(s), nvcc=known[digest(s)]) for k, s in SOURCES.items()}
    file.write_text(json.dumps(record, indent=1) + '\n')


if __name__ == '__main__': sys.exit(main())
