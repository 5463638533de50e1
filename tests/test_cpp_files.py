"Programs of several files, and files as other programs write them: headers, folders, byte order marks."
import pytest

from gridstride.cpp import emulator
from gridstride.cpp.program import run
from gridstride.cpp.rewrite import to_cpp
from gridstride.cpp.variables import shared_variables


def write(folder, **files):
    "Write files whose names have `__` for a dot and `_of_` for a folder's slash"
    for name, text in files.items():
        path = folder/name.replace('_of_', '/').replace('__', '.')
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


DECLARED = 'extern __constant__ int tau; namespace deep { extern __device__ float w[], v[4]; }\n'


@pytest.mark.parametrize('files,want', [
    (dict(a='extern __device__ int x;', b='__device__ int x = 2;'), {'x': ''}),
    (dict(a=DECLARED, b='__constant__ int tau; namespace deep { __device__ float w[] = {1, 2}, v[4]; }'),
     {'tau': '', 'deep::w': '[2]', 'deep::v': '[4]'}),
    (dict(a='extern __device__ int x;', b='extern __device__ int x;'), {}),
    (dict(a='extern __device__ int x;', b='static __device__ int x; namespace { __device__ int x; }'), {}),
    (dict(a='extern __device__ int x; __device__ int x;', b='int y;'), {}),
    (dict(a='extern __device__ int x;', b='namespace other { __device__ int x; }'), {}),
])
def test_variables_that_several_files_share(files, want):
    assert dict(shared_variables(files)) == want


def test_a_variable_is_declared_with_the_bounds_of_its_definition():
    assert 'extern float gs_init_w[2]; GRIDSTRIDE_DECLARE_SYMBOL(' in to_cpp(
        'extern __device__ float w[];', shared=(('w', '[2]'),))


@pytest.mark.takes(20)
def test_extern_device_variables_mean_one_variable_in_all_files(tmp_path, capfd):
    "In a header that the defining file includes or not, in a namespace, of an unknown size, and without a header"
    names = '#pragma once\nextern __constant__ int tau;\nextern __constant__ int tau;\n' \
            'namespace deep { extern __device__ float w[]; extern __managed__ int m; }\n' \
            'extern __device__ const float c[2];\n'
    main = '#include <cstdio>\n#include "sub/names.h"\n__constant__ int tau;\n' \
           'extern __device__ int alone; void set();\n__device__ float later[2]; __device__ const float c[2] = {7, 8};\n' \
           '__global__ void show() {\n' \
           '    printf("%d %g %d %d %g\\n", tau, deep::w[2], deep::m, alone, later[1]); alone = 9; }\n' \
           'int main() { int t = 3; cudaMemcpyToSymbol(tau, &t, sizeof t); set(); show<<<1, 1>>>();\n' \
           '    cudaDeviceSynchronize(); set(); }\n'
    other = '#include <cstdio>\n#include "sub/names.h"\n__device__ int alone = 4;\n' \
            'namespace deep { __device__ float w[3] = {1, 2, 3}; __managed__ int m; }\nextern __device__ float later[2];\n' \
            '__global__ void put() { printf("%d %g %d\\n", tau, c[1], alone); later[1] = 6; }\n' \
            'void set() { deep::m = 5; put<<<1, 1>>>(); cudaDeviceSynchronize(); }\n'
    write(tmp_path, sub_of_names__h=names)
    assert run(main, 'shared', folder=tmp_path, include=[tmp_path], units={'other.cu': other}) == 0
    assert capfd.readouterr().out == '3 8 4\n3 3 5 4 6\n3 8 9\n'


HEAP = r"""
#include <cstdio>
#include <cstdlib>
struct Pool {
    int used = 4;
    __host__ __device__ void free(int n) { used -= n; }
    __host__ __device__ void twice() { free(1); this->free(1); }
};
struct Deep : Pool {
    int *p;
    __device__ void more() { free(1); }
    __device__ void out();
};
__device__ void Deep::out() { free(2); }
template <class T> struct Arena { T x; __device__ T *malloc(int n) { return &x + n; } __device__ T *get() { return malloc(0); } };
namespace ns { __device__ int malloc(int n) { return n + 1; } __device__ int call() { return malloc(2); } }
struct Owner {
    int *p;
    __device__ Owner() { p = (int *)malloc(8); *p = 5; }
    __device__ ~Owner() { free(p); }
};
__device__ int apply(int (*free)(int), int x) { return free(x); }
__device__ int next(int x) { return x + 1; }
__global__ void members(int *out) {
    Pool p, *q = &p; p.free(1); q->free(1); q->Pool::free(1); out[0] = p.used;
    Deep d; d.more(); d.twice(); out[1] = d.used; d.out(); out[2] = d.used;
    Arena<int> a; a.x = 9; out[3] = *a.get(); out[4] = ns::malloc(1) + ns::call();
    { Owner o; out[5] = *o.p; }
    auto free = [=](int i) { return i * 2; }; out[6] = free(4); out[7] = apply(next, 3);
}
__global__ void heap(int *out) {
    int *p = (int *)malloc(4); *p = 3; out[8] = *p; free(p);
    p = (int *)std::malloc(4); *p = 4; out[9] = *p; std::free(p);
    p = (int *)::malloc(4); *p = 5; out[10] = *p; ::free(p);
}
__global__ void malloc(int *out, int n) { out[11] = n; }
__global__ void sin(int *out) { out[12] = 1; }
__global__ void exp(int *out, int n) { out[13] = n + int(exp(0.)); }
__global__ void exit(int *out) { out[14] = 3; }
__global__ void read(int *out) { out[15] = 4; }
__global__ void printf(int *out, int n) { out[16] = n; }
int main() {
    int *d, h[17]; cudaMalloc(&d, sizeof h);
    members<<<1, 1>>>(d); heap<<<1, 1>>>(d); malloc<<<1, 1>>>(d, 6);
    sin<<<1, 1>>>(d); exp<<<1, 1>>>(d, 1); exit<<<1, 1>>>(d); read<<<1, 1>>>(d); printf<<<1, 1>>>(d, 5);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    for (int i : h) printf("%d ", i);
    free(malloc(3)); std::free(std::malloc(3)); ::free(::malloc(3));
}
"""


@pytest.mark.takes(10)
def test_names_of_the_c_library_may_be_the_programs_own(capfd):
    "Members, variables and functions called free or malloc, and kernels that are called like functions of C"
    with emulator.options(order='forward'):
        assert run(HEAP, 'heap') == 0
    assert capfd.readouterr().out == '1 1 -1 9 5 5 8 4 3 4 5 6 1 2 3 4 5 '
