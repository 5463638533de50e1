"`gridstride nvcc`: nvcc's command line, objects of several files, executables."
import subprocess, sys

import pytest

from gridstride.cpp import program
from gridstride.cpp.nvcc import main, parse


@pytest.mark.parametrize('argv,fields', [
    ('-O3 -std=c++20 -arch=sm_90a -lineinfo -o a a.cu', dict(files=['a.cu'], output='a', flags=('-std=c++20',))),
    ('-c a.cu b.cu -Iinc -I inc2 -isystem inc3 -DN -DM=2 -D K=3', dict(
        files=['a.cu', 'b.cu'], compile_only=True, include=('inc', 'inc2', 'inc3'), defines=('N', 'M=2', 'K=3'))),
    ('-dc --include-path=inc --output-file a.o a.cu', dict(compile_only=True, include=('inc',), output='a.o')),
    ('-gencode arch=compute_90,code=sm_90 -Xcompiler -Wall,-fopenmp,-DX -Xptxas -v a.cu', dict(
        files=['a.cu'], flags=('-fopenmp',), defines=('X',),
        ignored=('-gencode arch=compute_90,code=sm_90', '-Xcompiler -Wall,-fopenmp,-DX', '-Xptxas -v'))),
    ('--expt-relaxed-constexpr -extended-lambda --unchecked a.o -lcublas -L/x b.o -std=c++14 -t4', dict(
        files=['a.o', 'b.o'], extensions=('constexpr', 'lambda'), checked=False,
        ignored=('-lcublas', '-L/x', '-std c++14', '-t4'))),
    ('--fatbin -o k k.cu', dict(module='.fatbin', output='k')), ('-ptx k.cu', dict(module='.ptx', ignored=())),
])
def test_command_lines(argv, fields):
    request = parse(argv.split())
    assert {name: getattr(request, name) for name in fields} == fields


FILES = {
    'main.cu': '#include <cstdio>\n#include <cstdlib>\n#include "scale.h"\n'
               'int main(int argc, char **argv) {\n'
               '    int n = argc > 1 ? atoi(argv[1]) : 4, h[8], *x = make();\n'
               '    scale(x, n);\n    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);\n'
               '    printf("%d %d %d\\n", h[3], twice(3), argc);\n    return n == 5 ? 7 : 0;\n}\n',
    'scale.h': 'int *make();\nvoid scale(int *x, int n);\nint twice(int);\n',
    'scale.cu': '#include "scale.h"\n'
                '__global__ void fill(int *x, int n) {\n'
                '    if (threadIdx.x < n) x[threadIdx.x] = threadIdx.x * SCALE;\n}\n'
                'int *make() { int *x; cudaMalloc(&x, 32); cudaMemset(x, 0, 32); return x; }\n'
                'void scale(int *x, int n) { fill<<<1, 32>>>(x, n); }\n',
    'host.cpp': '#include "scale.h"\nint twice(int n) { return 2 * n; }\n',
}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.takes(20)
def test_a_program_of_several_files_is_compiled_linked_and_run(tmp_path, monkeypatch, capsys):
    "It runs without its sources, and ends with its own status, or with 1 after a finding"
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path/name).write_text(text)
    assert main(['-c', 'scale.cu', '-DSCALE=2', '-o', 'scale.o', '-O3']) == 0
    assert 'ignored: -O3\n' in capsys.readouterr().err
    assert main(['-DSCALE=2', 'main.cu', 'scale.o', 'host.cpp', '-o', 'program', '-lcudart']) == 0, capsys.readouterr()
    for name in FILES:
        (tmp_path/name).unlink()
    assert run('./program') == (0, '6 6 1\n', '') and run('./program', '5') == (7, '6 6 2\n', '')
    status, out, err = run('./program', '9')
    assert status == 1 and err.startswith('MemcheckError') and 'line 3 of scale.cu: if (threadIdx.x < n)' in err


MODULE = """
__constant__ int factor[2];
extern "C" __global__ void fill(int *x, short n, char c) {
    if (threadIdx.x < n)
        x[threadIdx.x] = factor[1]*threadIdx.x + c;
}
template <class T> __global__ void unused(T *x) { *x = 0; }
namespace a { __global__ void twice(int *x) { x[threadIdx.x] *= 2; } }
"""
DRIVER = r"""
#include <cuda.h>
#include <cstdio>
#include <cstdlib>
#define CHECK(call) if (CUresult e = call; e != CUDA_SUCCESS) { \
    const char *name; cuGetErrorName(e, &name); printf("%d %s\n", __LINE__, name); exit(3); }
int main(int argc, char **argv) {
    CUdevice device; CUcontext context; CUmodule module; CUfunction fill, twice, missing; CUdeviceptr x, factor;
    int h[8] = {}, factors[2] = {1, 3}, major; size_t bytes;
    CHECK(cuInit(0)) CHECK(cuDeviceGet(&device, 0)) CHECK(cuCtxCreate(&context, 0, device))
    CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    CHECK(cuModuleLoad(&module, "k.fatbin"))
    CHECK(cuModuleGetFunction(&fill, module, "fill")) CHECK(cuModuleGetFunction(&twice, module, "_ZN1a5twiceEPi"))
    if (cuModuleGetFunction(&missing, module, "unused") != CUDA_ERROR_NOT_FOUND) return 4;
    if (cuModuleLoadData(&module, "\x7f" "ELF") != CUDA_ERROR_INVALID_IMAGE) return 5;
    CHECK(cuModuleGetGlobal(&factor, &bytes, module, "factor")) CHECK(cuMemcpyHtoD(factor, factors, bytes))
    CHECK(cuMemAlloc(&x, sizeof h)) CHECK(cuMemsetD8(x, 0, sizeof h))
    short n = short(argc > 1 ? atoi(argv[1]) : 8); char c = 1;
    void *parameters[] = {&x, &n, &c};
    CHECK(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr))
    char packed[8]; *(CUdeviceptr *)packed = x; size_t size = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CHECK(cuLaunchKernel(twice, 1, 1, 1, 8, 1, 1, 0, nullptr, nullptr, extra))
    CHECK(cuMemcpyDtoH(h, x, sizeof h))
    printf("%d %d %d\n", h[7], major, int(bytes));
    CHECK(cuMemFree(x)) CHECK(cuModuleUnload(module)) CHECK(cuCtxDestroy(context))
}
"""


@pytest.mark.slow
@pytest.mark.takes(10)
def test_a_program_of_the_driver_api_loads_a_module(tmp_path, monkeypatch, capsys):
    "By its name or its mangled name, with parameters in either form; a finding names the line of the module's source"
    monkeypatch.chdir(tmp_path)
    (tmp_path/'k.cu').write_text(MODULE)
    (tmp_path/'main.cpp').write_text(DRIVER)
    assert main(['-fatbin', '-arch=sm_90', 'k.cu']) == 0, capsys.readouterr()
    assert main(['main.cpp', '-o', 'program', '-lcuda']) == 0, capsys.readouterr()
    assert run('./program') == (0, '44 9 8\n', '')
    status, out, err = run('./program', '9')
    assert status == 1 and err.startswith('MemcheckError') and 'line 5 of k.cu' in err, err


TEXTURES = r"""
#include <cuda.h>
extern "C" __global__ void sample(float *out, CUtexObject rows, CUtexObject bytes, CUsurfObject written) {
    int x = threadIdx.x;
    out[x] = tex2D<float>(rows, (x + 0.5f) / 4, 0.75f);
    out[4 + x] = tex1Dfetch<float>(bytes, x);
    surf2Dwrite(10.0f * x, written, x * 4, 0);
}
"""
LINKS = r"""
#include <cuda.h>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <cstring>
#define CHECK(call) if (CUresult e = call; e != CUDA_SUCCESS) { \
    const char *name; cuGetErrorName(e, &name); printf("%d %s\n", __LINE__, name); exit(3); }
static_assert(cudaErrorApiFailureBase == 10000, "");  // older headers of programs name it
int main() {
    std::ifstream file("k.ptx", std::ios::binary);
    std::string ptx{std::istreambuf_iterator<char>(file), {}};
    if (strlen(ptx.c_str()) != ptx.size()) return 1;             // PTX is text
    CUdevice device; CUcontext context; CUmodule module; CUfunction sample; CUlinkState link;
    CHECK(cuInit(0)) CHECK(cuDeviceGet(&device, 0)) CHECK(cuCtxCreate(&context, 0, device))
    char log[64] = "unchanged"; void *image, *values[] = {log, (void *)sizeof log}; size_t bytes;
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    CHECK(cuLinkCreate(2, options, values, &link))
    char real[] = ".version 8.0";
    if (*log || cuLinkAddData(link, CU_JIT_INPUT_PTX, real, sizeof real, "a", 0, 0, 0) != CUDA_ERROR_INVALID_IMAGE)
        return 2;
    CHECK(cuLinkAddData(link, CU_JIT_INPUT_PTX, &ptx[0], ptx.size() + 1, "k", 0, 0, 0))
    if (cuLinkAddFile(link, CU_JIT_INPUT_PTX, "k.ptx", 0, 0, 0) != CUDA_ERROR_NOT_SUPPORTED) return 3;
    CHECK(cuLinkComplete(link, &image, &bytes)) CHECK(cuModuleLoadData(&module, image)) CHECK(cuLinkDestroy(link))
    CHECK(cuModuleGetFunction(&sample, module, "sample"))

    float texels[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8], written[4];
    unsigned char levels[4] = {0, 51, 102, 255};
    CUDA_ARRAY_DESCRIPTOR shape = {4, 2, CU_AD_FORMAT_FLOAT, 1};
    CUDA_ARRAY3D_DESCRIPTOR writable = {4, 1, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST};
    CUarray array, target; CUdeviceptr x, bytes_at; CUtexObject rows, scaled; CUsurfObject surface;
    CHECK(cuArrayCreate(&array, &shape)) CHECK(cuArray3DCreate(&target, &writable))
    CHECK(cuMemAlloc(&x, sizeof out)) CHECK(cuMemAlloc(&bytes_at, 4)) CHECK(cuMemcpyHtoD(bytes_at, levels, 4))
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = texels, copy.srcPitch = 16;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = array, copy.WidthInBytes = 16, copy.Height = 2;
    CHECK(cuMemcpy2D(&copy))
    CUDA_RESOURCE_DESC resource = {}; CUDA_TEXTURE_DESC texture = {};
    resource.resType = CU_RESOURCE_TYPE_ARRAY, resource.res.array.hArray = array;
    texture.flags = CU_TRSF_NORMALIZED_COORDINATES;
    CHECK(cuTexObjectCreate(&rows, &resource, &texture, nullptr))
    resource.res.array.hArray = target; CHECK(cuSurfObjectCreate(&surface, &resource))
    resource = {}, texture = {};
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = bytes_at, resource.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT8;
    resource.res.linear.numChannels = 1, resource.res.linear.sizeInBytes = 4;
    CHECK(cuTexObjectCreate(&scaled, &resource, &texture, nullptr)) // bytes as floats from 0 to 1
    void *parameters[] = {&x, &rows, &scaled, &surface};
    CHECK(cuLaunchKernel(sample, 1, 1, 1, 4, 1, 1, 0, nullptr, parameters, nullptr))
    CHECK(cuMemcpyDtoH(out, x, sizeof out))
    copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY, copy.srcArray = target;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = written, copy.WidthInBytes = 16, copy.Height = 1;
    CHECK(cuMemcpy2D(&copy))
    for (float v : out) printf("%g ", v);
    printf("%g %g\n", written[1], written[3]);

    CUmemAllocationProp property = {}, granted = {}; CUmemGenericAllocationHandle handle; int compresses = 0;
    property.type = CU_MEM_ALLOCATION_TYPE_PINNED, property.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    property.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
    CHECK(cuDeviceGetAttribute(&compresses, CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED, device))
    CHECK(cuMemCreate(&handle, 2 << 20, &property, 0))
    CHECK(cuMemGetAllocationPropertiesFromHandle(&granted, handle)) CHECK(cuMemRelease(handle))
    CHECK(cuCtxDestroy(context))
    int current = -1; cudaSetDevice(0); CHECK(cuCtxGetDevice(&current))
    printf("%d %d %d\n", compresses, granted.allocFlags.compressionType, current);
}
"""


@pytest.mark.slow
@pytest.mark.takes(10)
def test_a_program_of_the_driver_api_links_ptx_and_reads_textures(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path/'k.cu').write_text(TEXTURES)
    (tmp_path/'main.cpp').write_text(LINKS)
    assert main(['-ptx', 'k.cu']) == 0, capsys.readouterr()
    assert main(['main.cpp', '-o', 'program', '-lcuda']) == 0, capsys.readouterr()
    assert run('./program') == (0, '5 6 7 8 0 0.2 0.4 1 10 30\n1 1 0\n', '')


@pytest.mark.slow
def test_the_environment_sets_the_time_limit_of_a_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path/'adds.cu').write_text(
        '__global__ void adds(int *x) { for (long i = 0; i < 1l << 50; i++) x[0] += i; }\n'
        'int main() { int *x; cudaMalloc(&x, 4); cudaMemset(x, 0, 4); adds<<<1, 1>>>(x); cudaDeviceSynchronize(); }\n')
    assert main(['adds.cu', '-o', 'adds']) == 0
    for text, part in ('0.5', 'KernelTimeout'), ('soon', 'GRIDSTRIDE_SECONDS'), ('-1', 'seconds'):
        monkeypatch.setenv('GRIDSTRIDE_SECONDS', text)
        status, _, error = run('./adds')
        assert status == 1 and part in error


@pytest.mark.slow
def test_warnings_name_the_program(tmp_path):
    "Not the module of Python that runs it, whether by the script, by `python -m` or as an executable"
    src = ('__global__ void k(int *x) {\n    if (threadIdx.x == 3) return;\n    __syncthreads();\n'
           '    if (threadIdx.x == 0) x[0] = 1;\n}\n'
           'int main() { int *x; cudaMalloc(&x, 4); k<<<1, 32>>>(x); cudaDeviceSynchronize(); }\n')
    (tmp_path/'early.cu').write_text(src)
    (tmp_path/'gridstride').write_text('import sys\nfrom gridstride.__main__ import console\nsys.exit(console())\n')
    file, program = str(tmp_path/'early.cu'), str(tmp_path/'early')
    assert main([file, '-o', program]) == 0
    ways = [sys.executable, str(tmp_path/'gridstride'), 'cpp', file], [sys.executable, '-m', 'gridstride', 'cpp', file]
    for way in (*ways, [program]):
        assert run(*way)[2].startswith('early.cu:3: EarlyReturn'), way


def test_what_cannot_be_built_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path/'bad.cu').write_text('int main() {\n    return y;\n}\n')
    (tmp_path/'elf.o').write_bytes(b'\x7fELF\xff')
    (tmp_path/'good.cu').write_text('int main() {}\n')
    assert main(['-c', 'bad.cu']) == 1 and capsys.readouterr().err.startswith('CompileError: bad.cu, line 2: ')
    assert not (tmp_path/'bad.o').exists()
    wrong = (['good.cu', 'elf.o'], 'elf.o'), (['none.cu'], 'none.cu'), (['-DN=1', '-DN=2', 'good.cu'], '-D N')
    for argv, name in wrong:
        assert main(argv) == 1 and name in capsys.readouterr().err
    assert main(['-O3']) == 2 and main([]) == 2 and main(['--version']) == 0
    assert 'release 13.0' in capsys.readouterr().out


def test_the_command_runs_as_nvcc(tmp_path):
    assert 'release' in run(sys.executable, '-m', 'gridstride', 'nvcc', '-V')[1]


FLAGS = ['-arch=sm_100a', '--gpu-architecture sm_100a', '-gencode arch=compute_100a,code=sm_100a']


@pytest.mark.parametrize('flags', FLAGS)
def test_a_flag_chooses_blackwell(flags):
    (define,) = parse([*flags.split(), 'a.cu']).defines
    assert define in ('GRIDSTRIDE_ARCH=sm_100a', 'GRIDSTRIDE_ARCH=compute_100a')


ARCHITECTURE = r'''
__global__ void ask(int *x) { *x = __CUDA_ARCH__; }
int main() {
    int *x, arch;
    cudaDeviceProp p;
    cudaMalloc(&x, 4);
    ask<<<1, 1>>>(x);
    cudaMemcpy(&arch, x, 4, cudaMemcpyDeviceToHost);
    cudaFree(x);
    cudaGetDeviceProperties(&p, 0);
#if defined(__CUDA_ARCH_FEAT_SM100_ALL) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
    return arch == 1000 && p.major == 10 ? 0 : 1;
#else
    return arch == 900 && p.major == 9 ? 9 : 2;
#endif
}
'''


@pytest.mark.slow
def test_the_emulator_pretends_to_be_the_architecture_that_is_chosen():
    assert program.run(ARCHITECTURE, 'arch', (), defines=('GRIDSTRIDE_ARCH=sm_100a',)) == 0
    assert program.run(ARCHITECTURE, 'arch', ()) == 9
    with pytest.raises(ValueError, match='sm_75'):
        program.run(ARCHITECTURE, 'arch', (), defines=('GRIDSTRIDE_ARCH=sm_75',))
