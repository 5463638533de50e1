"""Measure how long the front end of CUDA C takes for a megabyte of source of several kinds: to parse it, rewrite it for
the emulator and look for code that nvcc rejects. No compiler runs.

    python front_end.py [BYTES] > front_end.txt
"""
import sys, time

from gridstride.cpp.lint import callers, library
from gridstride.cpp.frontend import code, reader, tokens
from gridstride.cpp.rewriters import launches, rewrite
from gridstride.cpp.lint.compile_errors import _correct_uninitialized
from gridstride.cpp.toolchain.includes import read_headers


def repeat(text, before='', after=''):
    "Return a function of n that makes a source with n copies of `text`, in which @ is the number of the copy"
    return lambda n: before + ''.join(text.replace('@', str(i)) for i in range(n)) + after


def nested(opening, inside, closing, before='', after=''):
    "Return a function of n that makes a source with `inside` nested in n brackets"
    return lambda n: before + opening*n + inside + closing*n + after


BODY = '(float x, int n) {\n    for (int i = 0; i < n; i++) { x += i; }\n    return x;\n}\n'
KERNEL = '__global__ void k(float *x) {\n'
KINDS = {
    'templates': repeat('template <class T> __device__ T t@(T x) { return x < T(@) ? x*@ : x + T(1); }\n'),
    'functions of the host': repeat(f'static float f@{BODY}'),
    'functions of the device': repeat(f'__device__ float f@{BODY}'),
    'kernels': repeat('__global__ void k@(float *x, int n) {\n    __shared__ float s[64];\n    int i = threadIdx.x;\n'
                      '    if (i >= n) return;\n    s[i] = x[i];\n    __syncthreads();\n    x[i] = s[i];\n}\n'),
    'kernels that are launched': repeat('__global__ void k@(float *x) { x[0] = @; }\nvoid r@(float *x) { '
                                        'k@<<<1, 32>>>(x); }\n'),
    'templates of one name': repeat('template <int N> __global__ void k(float *x, int (*p)[@]) { x[0] = N; }\n'),
    'structs': repeat('struct S@ {\n    int a; float b;\n    int get() const { return a; }\n'
                      '    __device__ float both() { return a + b; }\n    S@() : a(0), b(1) {}\n};\n'),
    'members': repeat('  int m@() { return @; } int v@;\n', 'struct S {\n', '};\n'),
    'macros': repeat('#define M@(x) ((x) + @)\n'),
    'macros of specifiers': repeat('#define D@ __device__\nD@ float g@(float x) { return x; }\n'),
    'conditions': repeat('#ifdef A@\nint a@;\n#else\nint b@;\n#endif\n'),
    'nested conditions': lambda n: ''.join(f'#ifdef A{i}\n' for i in range(n)) + 'int a;\n' + '#endif\n'*n,
    'comments': repeat('// number @ with a quote \' and a " in it\n/* block @ */\n', after='int a;\n'),
    'string literals': repeat('    "string @ // no comment {",\n', 'const char *all[] = {\n', '};\n'),
    'launches': repeat('    k<<<@, 32>>>(x);\n', KERNEL + '}\nvoid run(float *x) {\n', '}\n'),
    'variables of the device': repeat('__device__ int v@[4] = {1, 2, 3, @};\n'),
    'extern variables': repeat('extern __device__ int v@;\n__device__ int v@ = 1;\n'),
    'variables of the host': repeat('static int v@ = @;\nconst float w@[2] = {1, 2};\n'),
    'shared variables': repeat('    __shared__ float s@[32]; s@[threadIdx.x] = @;\n', KERNEL, '}\n'),
    'lambdas': repeat('    auto f@ = [=](int i) { s[i] = @; }; f@(0);\n', KERNEL + '    __shared__ float s[32];\n',
                      '}\n'),
    'early returns': repeat('    if (x[0] == @) return;\n', KERNEL, '    __syncthreads();\n}\n'),
    'new, delete, malloc, free': repeat('    int *p@ = new int[4]; delete[] p@; free(malloc(@));\n', KERNEL, '}\n'),
    'inline PTX': repeat('    asm volatile("mov.u32 %0, %1;" : "=r"(y) : "r"(@));\n', KERNEL + '    int y;\n', '}\n'),
    'variables without a value': repeat('    float v@; if (x[0] > @) v@ = 1; else v@ = 2; x[0] += v@;\n', KERNEL,
                                        '}\n'),
    'a table': repeat('@.5f, ', '__constant__ float table[] = {', '};\n'),
    'a long line': repeat('x += @; ', 'int f(int x) { ', 'return x; }\n'),
    'a long condition': repeat('x < @ && ', 'bool f(int x) { return ', 'true; }\n'),
    'a chain of else if': repeat('    else if (x[0] == @) x[1] = @;\n', KERNEL + '    if (x[0]) x[1] = 1;\n', '}\n'),
    'a switch': repeat('    case @: x += @; break;\n', '__device__ int f(int x) { switch (x) {\n', '} return x; }\n'),
    'parentheses in each other': nested('(', '1', ')', 'int f() { return ', '; }\n'),
    'braces in each other': nested('{', 'int a;', '}', 'int f() { ', ' return 1; }\n'),
    'namespaces in each other': nested('namespace a { ', 'int f() { return 1; }', '}'),
    'template arguments in each other': nested('A<', 'int', '>', '', ' x;\n'),
    'blank lines': nested('\n', 'int a;', '\n'),
}


def clear_caches():
    "Empty the caches of the modules that read sources"
    for module in (callers, code, launches, library, reader, rewrite, tokens):
        for value in vars(module).values():
            if hasattr(value, 'cache_clear'): value.cache_clear()


def process(src):
    "Do all the work of the front end on a source, before and after the compiler"
    src = rewrite.strip_line_directives(src)
    reader.functions(src)
    read_headers(src, '.')
    text = rewrite.to_cpp(src)
    callers.mark_host_functions(text, inline_specifiers='inline ')  # as a checked build does
    unit = callers.Unit(text, 'source.cu', src)
    names = library.ProgramNames([text])
    next(library.find_host_uses(unit, names, ()), None)
    list(library.find_host_device_uses(unit, names))
    _correct_uninitialized([], src)


def process_seconds(src):
    clear_caches()
    start = time.process_time()
    process(src)
    return time.process_time() - start


def loop_seconds():
    "Time a fixed loop, for comparison: other work on the machine slows it as much as the front end"
    start, total = time.process_time(), 0
    for i in range(2_000_000):
        total += i
    return time.process_time() - start


def num_copies(make, count):
    "Return how many copies make a source of `count` bytes"
    return max(1, round(count / ((len(make(300)) - len(make(100))) / 200)))


if __name__ == '__main__':
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    python = sys.version.split()[0]
    print(f'Seconds of CPU time for sources of {count/1e6:g} MB and of a quarter of it, Python {python}')
    print('next to each, the time of a loop of 2 million additions')
    print(f'{"":34}{"a quarter":>12}{"all":>9}{"the loop":>11}')
    for kind, make in KINDS.items():
        part, whole = (process_seconds(make(num_copies(make, size))) for size in (count//4, count))
        print(f'{kind:34}{part:12.2f}{whole:9.2f}{loop_seconds():11.3f}', flush=True)
