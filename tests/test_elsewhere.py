"What other compilers made of a kernel, read; and what is said where they are not."
import ctypes
import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from exhaustive import some
from gridstride.asm import elsewhere
from gridstride.asm.languages import LANGUAGES
from gridstride.asm.tools import assemble, registers_used
from gridstride.cpp import driver
from gridstride.bench.recording import Unavailable
from found import names, saying

GFX90A = '''\t.text
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"
\t.globl\tadd_k
add_k:                                  ; @add_k
; %bb.0:
\ts_load_dwordx4 s[0:3], s[6:7], 0x0
\tv_lshlrev_b32_e32 v1, 2, v0
\ts_waitcnt lgkmcnt(0)
\tglobal_load_dword v2, v1, s[0:1]        ; 4 bytes a lane
.LBB0_1:
\tds_bpermute_b32 v3, v1, v2
\tds_write_b32 v1, v2
\ts_barrier
\ts_cbranch_execz .LBB0_1
\tv_add_f32_e32 v2, v2, v3
\tglobal_store_dword v1, v2, s[2:3]
\ts_endpgm
\t.section\t.rodata,#alloc
\t\t.amdhsa_group_segment_fixed_size 256
    .group_segment_fixed_size: 256
    .sgpr_count:     8
    .vgpr_count:     4
'''


def test_a_listing_of_amd_is_read():
    listing = elsewhere.read_amd(GFX90A, 'hipcc 5.2')
    assert listing.instructions[3] == 'global_load_dword v2, v1, s[0:1]' and len(listing.instructions) == 11
    assert listing.splitlines()[4] == '.LBB0_1:' and listing.splitlines()[-1] == '\ts_endpgm'
    assert listing.resources == dict(vgprs=4, sgprs=8, lds=256) and listing.by == 'hipcc 5.2'
    assert listing.count() == Counter({'vector': 2, 'scalar': 2, 'scalar load': 1, 'wait': 1, 'load': 1, 'store': 1,
                                       'shuffle': 1, 'LDS': 1, 'barrier': 1})
    assert listing.count('v2') == 6


def test_instructions_are_counted_without_their_predicates():
    sass = ['@P0 LDG.E R0, [R2]', '@!UP1 BAR.SYNC 0x0', 'LDG.E.128 R4, [R2]']
    made = elsewhere.TileKernel('x 1', '', sass, 8, 'sm_90')
    assert made.ops() == {'LDG.E': 1, 'BAR.SYNC': 1, 'LDG.E.128': 1}
    assert made.count('LDG') == 2 and names(repr(made), 'x 1: 3 instructions', 'sm_90', '8 registers')


@pytest.mark.slow
def test_ptx_becomes_instructions():
    ptx = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) {
    .reg .b64 %a; .reg .f32 %f;
    ld.param.u64 %a, [p];
    ld.global.f32 %f, [%a];
    ex2.approx.f32 %f, %f;
    st.global.f32 [%a], %f;
    ret;
}
"""
    made = elsewhere.disassemble_output('x 1', {'.ptx': ptx}, 'sm_90')
    said = re.search(r'Used (\d+) registers', assemble(ptx.decode())[1])
    assert made.written == ptx.decode() and made.registers == int(said[1])
    assert [made.count(o) for o in ('LDG', 'MUFU.EX2', 'STG', 'EXIT')] == [1, 1, 1, 1]


@pytest.mark.parametrize('make,says', [
    (lambda: elsewhere.run_program('no-such-language', 'pass'), saying('pip install', 'no-such-language')),
    (lambda: elsewhere.hip('__global__ void k() {}'), 'hipcc'),
    (lambda: elsewhere.compile_with_kittens(''), 'THUNDERKITTENS_ROOT'),
], ids=['language', 'hipcc', 'ThunderKittens'])
def test_a_missing_compiler_is_reported(make, says, monkeypatch):
    monkeypatch.setenv('PATH', '/nowhere')
    for name in ('GRIDSTRIDE_LANGUAGES', 'THUNDERKITTENS_ROOT'): monkeypatch.delenv(name, raising=False)
    with pytest.raises(Unavailable, match=says): make()


def test_a_language_may_have_a_python_of_its_own(tmp_path, monkeypatch):
    python = tmp_path/'other-language'/'bin'/'python'
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\ncase "$1" in -c) echo 1.2;; *) echo it ran; exit 3;; esac\n')
    python.chmod(0o755)
    monkeypatch.setenv('GRIDSTRIDE_LANGUAGES', str(tmp_path))
    with pytest.raises(RuntimeError, match=saying('other-language 1.2', 'it ran')):
        elsewhere.run_program('other-language', 'pass')


RECORDED = Path(__file__).parents[1]/'nbs'/'recorded'

@pytest.mark.slow
@pytest.mark.parametrize('name', some(['cutile', 'tilelang', 'cute', 'mojo', 'kittens', 'tvm'], 3))
def test_what_is_recorded_is_machine_code_and_its_listing(name):
    made = elsewhere.from_json(json.loads((RECORDED/f'where_next_{name}.json').read_text())['data'])
    assert elsewhere.kernel_sass(made.cubin) == made.sass and registers_used(made.cubin) == made.registers
    assert elsewhere.from_json(json.loads(json.dumps(elsewhere.to_json(made)))) == made


def test_machine_code_for_a_gpu_is_not_run_without_one(monkeypatch):
    def no_driver(): raise OSError('no libcuda.so.1')
    monkeypatch.setattr(driver, 'driver', no_driver)
    made = elsewhere.from_json(json.loads((RECORDED/'where_next_mojo.json').read_text())['data'])
    with pytest.raises(Unavailable, match='mojo 1.2.0 .*sm_90a .*libcuda'):
        made.kernel(32)


def test_arguments_of_machine_code_are_where_the_driver_expects_them(monkeypatch):
    "A tensor is an address, an integer has 32 bits, a struct is its bytes"
    seen = []
    def launch(handle, name, grid, block, shared, stream, places):
        address, number, struct = (ctypes.string_at(p, n) for p, n in zip(places, (8, 4, 3)))
        at = int.from_bytes(address, 'little')
        seen.append((handle, name, grid, block, shared, stream, at, int.from_bytes(number, 'little'), struct))
    monkeypatch.setattr(elsewhere, 'load_machine_code', lambda code, name: 7)
    monkeypatch.setattr(elsewhere, 'set_max_dynamic_smem', lambda handle, name, shared: seen.append((handle, shared)))
    monkeypatch.setattr(elsewhere, 'launch_by_driver', launch)
    monkeypatch.setattr(torch.cuda, 'current_stream', lambda: SimpleNamespace(cuda_stream=5))
    kept, x = json.loads((RECORDED/'where_next_tilelang.json').read_text()), torch.zeros(4)
    made = elsewhere.from_json(kept['data'])
    made.kernel(128, 512)(3, x, 65536, b'abc')
    assert seen == [(7, 512), (7, 'softmax_kernel', (3, 1, 1), (128, 1, 1), 512, 5, x.data_ptr(), 65536, b'abc')]


def test_a_kernel_is_compiled_as_a_whole_program():
    program = LANGUAGES['cuda.tile'].program('\n@ct.kernel\ndef softmax(x): ...\n')
    compile(program, 'program.py', 'exec')
    assert program.index('cuda.tile as ct') < program.index('def softmax') < program.index('export_kernel(softmax')
