"Headers of the learner's own: which are found, and that what was built without the newest of them is built again."
from gridstride.cpp import cuda_kernel
from gridstride.cpp.__main__ import main
from gridstride.cpp.toolchain.includes import read_headers

import torch


def write(folder, **files):
    for name, text in files.items():
        path = folder/name.replace('__', '/').replace('_h', '.h')
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_headers_are_found_through_each_other(tmp_path):
    write(tmp_path, a_h='#include "sub/b.h"\n#include <vector>',
          sub__b_h='#include "c.h"\n#include "../d.h"\n#include "a.h"', sub__c_h='// c', d_h='/* never closed')
    own, others = read_headers('// #include "no.h"\n#if 0\n#include "d.h"\n#endif\n#include "a.h"\n'
                               '#include "missing.h"', tmp_path)
    assert set(own) == {'a.h', 'sub/b.h', 'sub/c.h'} and [p.name for p in others] == ['d.h']


def test_headers_that_the_environment_names(tmp_path, monkeypatch):
    write(tmp_path, there__e_h='int e;')
    monkeypatch.setenv('CPATH', str(tmp_path/'there'))
    for name in '<e.h>', '"e.h"', f'"{tmp_path}/there/e.h"':
        assert [*read_headers(f'#include {name}', tmp_path/'here')[1].values()] == ['int e;']


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
