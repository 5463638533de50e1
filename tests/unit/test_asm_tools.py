"NVIDIA's compilers, asked one by one."
import re
from pathlib import Path

import pytest
from gridstride.asm import tools
from gridstride.asm.tools import assemble, disassemble, nvrtc, find_program, resource_usage
from gridstride.cpp.toolchain.build import CompileError
from gridstride.cpp.toolchain.compilers import CompilerMissing
from gridstride.cpp.kernel import _substitute_headers_folder
from gridstride.cpp.toolchain.nvrtc import substitute_headers

HALF = '''template<class T> __global__ void half_k(T *x, int n) {
    __shared__ T s[256];
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : T(0);
    __syncthreads();
    for (int j = 0; j < n; j++) s[threadIdx.x] += 0.5f*s[(threadIdx.x+j)%256];
    if (i < n) x[i] = s[threadIdx.x];
}'''


def test_a_program_is_found_or_what_brings_it_is_said():
    assert Path(find_program('nvdisasm', 'This')).is_file()
    with pytest.raises(CompilerMissing, match='Reading SASS requires nvdisasembler'):
        find_program('nvdisasembler', 'Reading SASS')


def test_host_headers_are_replaced_and_cudas_are_not():
    assert list(substitute_headers('#include <cstdio>\n  # include "mine.h"\n#include <mma.h>', [])) == [
        'gridstride_start.h',
        'cstdio',
    ]
    assert {'torch/extension.h', 'stdint.h'} <= set(
        substitute_headers('#include <torch/extension.h>\n#include <stdint.h>\n#include <cuda_fp16.h>', [])
    )


def test_cuda_kernel_lets_nvrtc_find_those_of_the_host_and_no_others():
    folder = Path(_substitute_headers_folder('#include <cstdio>\n#include <mine.h>\n#include <cuda_fp16.h>', []))
    assert {o.name for o in folder.iterdir()} - {'sums.json'} == {'gridstride_start.h', 'cstdio'}
    assert 'INFINITY' in (folder/'gridstride_start.h').read_text()


@pytest.fixture(scope='module')
def made(): return nvrtc(HALF, 'half_k<float>')


def test_entries_that_a_cache_has_lost_are_requested_again(monkeypatch, tmp_path):
    """The driver's cache, which is there on a machine with a GPU, keeps machine code without what
    the assembler said of it; ours keeps both"""
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path))
    asked, options = [], tools._nvrtc_options
    monkeypatch.setattr(tools, '_nvrtc_options', lambda arch, opt, folders, flags: asked.append(flags)
                        or [o for o in options(arch, opt, folders, flags) if flags or 'ptxas' not in o])
    _, cubin, said, entry = nvrtc(HALF, 'half_k<float>')
    assert asked == [(), ('--no-cache',)] and resource_usage(said, cubin, entry)['registers'] > 0
    assert nvrtc(HALF, 'half_k<float>')[2] == said and asked[2:] == [()]


def test_so_they_are_when_ptx_is_linked(monkeypatch, made):
    linked, asked = tools._run_jitlink, []
    def without_words(ptx, arch, opt, flags):
        asked.append(flags)
        cubin, said = linked(ptx, arch, opt, flags)
        return cubin, said if '--no-cache' in flags else ''
    monkeypatch.setattr(tools, '_run_jitlink', without_words)
    cubin, said = assemble(made[0], flags=('-maxrregcount=32',))
    assert asked == [('-maxrregcount=32',), ('-maxrregcount=32', '--no-cache')]
    assert resource_usage(said, cubin, made[3])['registers'] > 0
    monkeypatch.setattr(tools, '_run_jitlink', lambda *o: asked.append(o) or linked(*o))
    assert assemble(made[0])[1] and len(asked) == 3        # words that are there are not asked for again


@pytest.mark.slow
def test_nvrtc_gives_ptx_machine_code_and_the_linkers_name(made):
    ptx, cubin, _, entry = made
    assert entry == '_Z6half_kIfEvPT_i' and '.target sm_90' in ptx and cubin.startswith(b'\x7fELF')
    assert 'FFMA' in disassemble(cubin)


SWITCH = '__global__ void switch_k(float *x, int n) {\n    switch (n) {\n' + ''.join(
    f'    case {i}: x[{7*i}] = x[{i}]/(x[0] + {i}); break;\n' for i in range(24)) + '    }\n}'


@pytest.mark.slow
def test_the_targets_of_indirect_branches_are_named():
    _, cubin, _, _ = nvrtc(SWITCH, 'switch_k')
    branches = [line for line in disassemble(cubin).splitlines() if re.search(r'\bBRX', line)]
    assert branches and all('BRANCH_TARGETS .L_x_' in line for line in branches)


def test_an_error_says_its_line():
    with pytest.raises(CompileError, match='line 2: .*"x"'):
        nvrtc('__global__ void k() {\n  x = 1;\n}', 'k')
    with pytest.raises(CompileError) as e:  # ptxas, whose lines NVRTC appends after a zero
        nvrtc('__global__ void k(float *x) { __shared__ float s[16384]; s[threadIdx.x] = *x; *x = s[9]; }', 'k')
    assert 'ptxas' in str(e.value) and '\0' not in str(e.value)


def test_ptx_that_is_linked_takes_what_nvrtc_says(made):
    ptx, cubin, said, entry = made
    again, said_again = assemble(ptx)
    one, other = resource_usage(said, cubin, entry), resource_usage(said_again, again, entry)
    assert one['shared'] == 1024 and {**one, 'registers': 0} == {**other, 'registers': 0}


@pytest.mark.parametrize('arch', ['sm_75', 'sm_80', 'sm_90', 'sm_100'])
def test_shared_memory_is_what_the_assembler_says(arch):
    _, cubin, said, entry = nvrtc(HALF, 'half_k<double>', arch)
    assert resource_usage(said, cubin, entry, arch)['shared'] == int(re.search(r'(\d+) bytes smem', said)[1]) == 2048
