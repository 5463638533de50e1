"""Sources that somebody refuses: nvcc's verdict goes to nvcc.json, the reader of the emulator must
say the same, or it is known why not.

    python sources.py    # needs nvcc, no GPU
"""
import hashlib, json, re, subprocess, sys, tempfile
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
    'host function called by a kernel': 'int f(int n) { return n + 1; }\n' + K % 'x[0] = f(n);',
    'device function called by the host': '__device__ int f(int n) { return n + 1; }\nint go(int n) { return f(n); }\n',
    'constexpr function called by a kernel': 'constexpr int f(int n) { return n + 1; }\n' + K % 'x[0] = f(n);',
    'host template called by a kernel': 'template <class T> T f(T n) { return n + 1; }\n' + K % 'x[0] = f(n);',
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
    'std::vector': '#include <vector>\n' + K % 'std::vector<float> v(3); x[0] = v[0];',
    'recursion': '__device__ int f(int n) { return n ? n * f(n - 1) : 1; }\n' + K % 'x[0] = f(n);',
    'lambda': K % 'auto f = [=](int i) { return i + n; }; x[0] = f(1);',
    'virtual function': 'struct A { __device__ virtual int f() { return 1; } };\n' + K % 'A a; x[0] = a.f();',
    'printf': '#include <cstdio>\n' + K % 'printf("%d\\n", n);',
    'inline PTX': K % 'int v; asm("add.s32 %0, %1, 1;" : "=r"(v) : "r"(n)); x[0] = v;',
}


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
DIFFERS = {
    'launch without threads': 'nvcc takes blocks of one thread; probably the threads were forgotten',
    'kernel in a class': OWN,
    'kernel that is static in a class': OWN,
    'constexpr function called by a kernel': 'right with --expt-relaxed-constexpr, which PyTorch gives',
    'shared member': 'nvcc does as if `__shared__` were not there',
    'shared variable on the host': OWN,
    'device variable in a function': OWN,
    'host variable read by a kernel': 'a variable of the source counts as one of the device',
    'std::vector': 'whatever C++ can do, g++ compiles',
}


def digest(src): return hashlib.sha256(src.encode()).hexdigest()[:16]


def main():
    with ThreadPoolExecutor() as pool: verdicts = list(pool.map(verdict, SOURCES.values()))
    record = {k: dict(source=digest(s), nvcc=v) for (k, s), v in zip(SOURCES.items(), verdicts)}
    (HERE/'nvcc.json').write_text(json.dumps(record, indent=1) + '\n')


if __name__ == '__main__': sys.exit(main())
