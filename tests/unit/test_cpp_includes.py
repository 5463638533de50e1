"Headers of the learner's own: which are found, and that what was built without the newest of them is built again."
import re

import pytest

from gridstride.cpp import cuda_kernel
from gridstride.cpp.__main__ import main
from gridstride.cpp.program import run
from gridstride.cpp.toolchain.build import headers_of
from gridstride.cpp.toolchain.includes import read_headers
from gridstride.diagnostics.errors import KernelError

import torch


def write(folder, **files):
    for name, text in files.items():
        path = folder/name.replace('__', '/').replace('_h', '.h')
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_headers_are_found_through_each_other(tmp_path):
    write(tmp_path, a_h='#include "sub/b.h"\n#include <vector>',
          sub__b_h='#include "c.h"\n#include "../d.h"\n#include "a.h"', sub__c_h='// c', d_h='/* never closed')
    headers = read_headers('// #include "no.h"\n#if 0\n#include "e.h"\n#endif\n#include "a.h"\n'
                           '#include "missing.h"', tmp_path)
    assert set(headers.own_texts) == {'a.h', 'sub/b.h', 'sub/c.h', 'd.h'}
    assert not headers.other_texts and not headers.redirected_paths


@pytest.mark.parametrize('include', [[], ['shared'], ['.']])
def test_headers_in_a_folder_above_are_found(tmp_path, include):
    "By `..`, with and without -I; the compiler finds them under the name that `redirect` writes"
    write(tmp_path, program__x='', shared__a_h='#include "../more/b.h"', more__b_h='int b;')
    src = '#include "../shared/a.h"  // a.h\n'
    headers = read_headers(src, tmp_path/'program', [tmp_path/folder for folder in include])
    name = next(name for name in headers.own_texts if name.endswith('a.h'))
    assert headers.own_texts[name] == '#include "../more/b.h"' and 'int b;' in headers.own_texts.values()
    assert headers.redirect(src) == f'#include "{name}"  // a.h\n'
    redirected = headers.redirect(headers.own_texts[name], name)
    assert re.fullmatch('#include "(.*)"', redirected)[1] in (*headers.own_texts, '../more/b.h')


def test_headers_of_an_inactive_branch_are_not_read(tmp_path):
    "As macros of a header, of the compiler and of the command line determine, and `#undef` ends"
    write(tmp_path, config_h='#define LEVEL 2\n#undef OTHER\n', old_h='', new_h='', given_h='', ended_h='', arch_h='')
    src = ('#include "config.h"\n#if LEVEL > 1\n#include "new.h"\n#else\n#include "old.h"\n#endif\n'
           '#if GIVEN\n#include "given.h"\n#endif\n#ifdef OTHER\n#include "ended.h"\n#endif\n'
           '#if __CUDA_ARCH__ >= 900\n#include "arch.h"\n#endif\n#ifdef USE_NCCL\n#include <nccl.h>\n#endif\n')
    for defines, more in (((), set()), (('GIVEN=1', 'OTHER'), {'given.h'})):
        assert {*headers_of([src], tmp_path, defines=defines).own_texts} == {'config.h', 'new.h', 'arch.h'} | more


@pytest.mark.slow
def test_a_finding_in_a_folder_above_names_the_header(tmp_path):
    write(tmp_path, program__x='',
          shared__a_h='#pragma once\ninline void crash() {\n    int *p = nullptr;\n    *p = 3;\n}\n')
    with pytest.raises(KernelError) as e:
        run('#include "../shared/a.h"\nint main() { crash(); }\n', 'above', folder=tmp_path/'program')
    assert (e.value.file, e.value.line) == ('shared/a.h', 4) and '*p = 3;' in str(e.value)


def test_headers_that_the_environment_names(tmp_path, monkeypatch):
    write(tmp_path, there__e_h='int e;')
    monkeypatch.setenv('CPATH', str(tmp_path/'there'))
    for name in '<e.h>', '"e.h"', f'"{tmp_path}/there/e.h"':
        assert [*read_headers(f'#include {name}', tmp_path/'here').other_texts.values()] == ['int e;']


def test_a_changed_header_is_compiled_again(tmp_path, monkeypatch):
    "It may hold CUDA C, too"
    monkeypatch.setenv('GRIDSTRIDE_BACKEND', 'sim')
    monkeypatch.chdir(tmp_path)
    src = '#include "mine.h"\n__global__ void k(float *x) { fill(x); }'
    for by in 2, 3:
        write(tmp_path, mine_h=f'#pragma once\n__device__ void fill(float *x) {{\n  __shared__ float s[4]; '
                               f'int i = threadIdx.x;\n  s[i] = {by}; __syncthreads();\n  x[i] = s[3 - i];\n}}')
        cuda_kernel(src)[1, 4](x := torch.zeros(4))
        assert x.tolist() == [by]*4


def test_a_header_of_another_folder_counts_too(tmp_path, monkeypatch):
    "The first folder still has its header"
    monkeypatch.setenv('GRIDSTRIDE_BACKEND', 'sim')
    for by in 2, 3:
        monkeypatch.setenv('CPATH', str(tmp_path/f'there{by}'))
        write(tmp_path, **{f'there{by}__value_h': f'constexpr float value = {by};'})
        cuda_kernel('#include <value.h>\n__global__ void k(float *x) { x[0] = value; }')[1, 1](x := torch.zeros(1))
        assert x.item() == by


def test_a_changed_header_elsewhere_counts_too(tmp_path, monkeypatch):
    monkeypatch.setenv('GRIDSTRIDE_BACKEND', 'sim')
    monkeypatch.setenv('CPATH', str(tmp_path/'there'))
    for by in 2, 3:
        write(tmp_path, there__value_h=f'constexpr float value = {by};')
        cuda_kernel('#include <value.h>\n__global__ void k(float *x) { x[0] = value; }')[1, 1](x := torch.zeros(1))
        assert x.item() == by


def test_a_program_has_its_headers_next_to_it(tmp_path, capsys):
    write(tmp_path, mine_h='#define STATUS 3\n')
    (tmp_path/'main.cu').write_text('#include "mine.h"\nint main() { return STATUS; }')
    assert main([str(tmp_path/'main.cu')]) == 3, capsys.readouterr()
