"Products of 16-bit floats in each layout: tiles, clusters, parts of k; what is ahead of the wait of an early one."
import re

import pytest
import torch
from exhaustive import included_values, mark_exhaustive
from gridstride import cpp
from gridstride.cpp import on_emulator
from gridstride.kernels.gemm.cost_model import TileConfig as Tile
from gridstride.kernels.gemm.hopper_f16 import (
    _smem_plan, box_columns, gemm_f16, are_mn_major, rows_of_b, stage_bytes, stored_columns, unsupported_reason)
from gridstride.kernels.ladder.ladder import check_matmul
from found import names, saying
from one_unit import one_unit

# Of each kind: swapped operands, columns split among warpgroups, shared along rows, columns and k, several per SM; all
# with ragged columns
CONFIGS = [
    (Tile(64, 24, 1, 4, swap_ab=1), 'nn'), (Tile(64, 152, 4, swap_ab=1), 'nn'),
    (Tile(64, 80, 2, 4, swap_ab=1), 'tn'),
    (Tile(64, 72, CK=2, swap_ab=1), 'nt'), (Tile(64, 88, 1, 2, 4, swap_ab=1), 'nn'), (Tile(64, 96, 2, 1, 2), 'nn'),
    (Tile(64, 48, CK=3, BLOCKS=2), 'nt'), (Tile(128, 128, CM=2, CK=2), 'tn'), (Tile(64, 80, BLOCKS=2), 'tn'),
    (Tile(192, 160, 1, 2, swap_ab=1, split_n=1), 'nn'), (Tile(128, 256, 2, swap_ab=1, split_n=1), 'tn'),
    (Tile(256, 160, swap_ab=1), 'nt'), (Tile(128, 192, 2, 2), 'nt'),
    (Tile(64, 32, 2, 4, swap_ab=1), 'tn'), (Tile(192, 192, 1, 2, swap_ab=1, split_n=1), 'tn')]     # boxes of 32 columns
ORDERS = 'forward', 'reverse', 'shuffle'
ALWAYS = 0, 3, 5, 6, 9, 10, 12, 13  # each kind, layout, type and order, with PDL and without


KINDS = [i if i in ALWAYS else mark_exhaustive(i) for i in range(len(CONFIGS))]
SMALL = Tile(64, 32, swap_ab=1), Tile(64, 32, 2, 2, swap_ab=1)


@pytest.fixture(scope='module', autouse=True)
def at_once(request):
    "All kernels are compiled in one unit"
    kinds = [kernel_of_kind(i) for i, in included_values(request, KINDS)]
    with one_unit(request, [], [*kinds, *map(small_kernel, SMALL)]): yield


def kernel_of_kind(i):
    config, layout = CONFIGS[i]
    return gemm_f16(config, 'float16' if i % 3 == 1 else 'bfloat16', layout, pdl=bool(i % 2))


def small_kernel(config): return gemm_f16(config, layout='tn', pdl=True)


@pytest.mark.slow
@pytest.mark.parametrize('i', KINDS)
def test_each_kind_is_right_in_any_order(i):
    config = CONFIGS[i][0]
    with on_emulator(), cpp.options(order=ORDERS[i % 3], seed=i):
        shapes = [(8, 8, 64*config.CK), (136, 72, 264), (72, 264, 328)][:3 - (config.BM > 128)]
        assert check_matmul(kernel_of_kind(i), shapes)


@pytest.mark.slow
def test_tiles_beyond_the_first_take_turns():
    "More tiles than blocks: the emulator has eight SMs"
    for config in SMALL:
        with on_emulator(): assert check_matmul(small_kernel(config), [(200, 328, 136)])


@pytest.mark.parametrize('config,layout', CONFIGS)
def test_a_block_has_memory_for_its_stages(config, layout):
    r = gemm_f16(config, layout=layout)
    c, most = r.constants, 228*1024//config.BLOCKS - 1024
    assert 3 <= c['STAGES'] <= 16 and r.shared <= most
    assert c['STAGES'] == 16 or r.shared + 2*stage_bytes(config, layout) > most
    assert c['OUT_COLS'] <= c['N'] == stored_columns(config)
    assert config.CK*stored_columns(config) >= config.BN//(1 + config.split_n)
    assert (c['STAGES'], c['OUT_COLS'], c['BUFFER']) == _smem_plan(config, layout)
    threads, each = r.threads[0], 65536//(config.BLOCKS*r.threads[0])//8*8
    registers = 128*(c['PRODUCER_REGS'] + c['WGS']*c['CONSUMER_REGS'])
    assert registers <= each*threads, 'a warpgroup would deadlock on registers'


def test_boxes_are_wide_but_for_few_columns():
    def loaded(config, layout='tn'): return box_columns(config), rows_of_b(config, layout)
    assert [loaded(Tile(64, o, swap_ab=1)) for o in (24, 32, 48, 72)] == [(32, 32), (32, 32), (64, 64), (64, 128)]
    assert loaded(Tile(192, 192, swap_ab=1, split_n=1)) == (32, 192) and rows_of_b(Tile(64, 72, swap_ab=1), 'nn') == 72
    assert loaded(Tile(192, 128, swap_ab=1, split_n=1)) == (64, 128)


def test_which_way_k_goes():
    "In row-major order k goes along the rows of m and down the columns of n"
    assert are_mn_major(0, 'nn') == (False, True) and are_mn_major(1, 'nn') == (True, False)
    assert are_mn_major(0, 'tn') == are_mn_major(1, 'tn') == (True, True)
    assert are_mn_major(0, 'nt') == are_mn_major(1, 'nt') == (False, False)


@pytest.mark.parametrize('config,layout,why', [
    (Tile(64, 64, 4, 4), 'nn', 'eight blocks'), (Tile(64, 72), 'nn', 'not a multiple'),
    (Tile(320, 96, swap_ab=1, split_n=1), 'nt', '256 rows'),
    (Tile(192, 160, swap_ab=1, split_n=1), 'tn', 'whole TMA boxes'),
    (Tile(192, 128, swap_ab=1), 'nn', 'two warpgroups'),
    (Tile(256, 256), 'nn', 'few registers'), (Tile(128, 256, CK=2), 'nn', 'partial sums'),
    (Tile(64, 200, BLOCKS=2, swap_ab=1), 'tn', 'three stages')])
def test_what_there_is_no_kernel_for(config, layout, why):
    assert why in unsupported_reason(config, layout)
    with pytest.raises(ValueError, match=why): gemm_f16(config, layout=layout)


def test_a_type_or_a_layout_that_there_is_none_for():
    with pytest.raises(ValueError, match="bfloat16, float16.*'float32' .*'nn'"):
        gemm_f16(Tile(64, 64), 'float32')
    with pytest.raises(ValueError, match=saying('nn, tn, nt', "'tt'")):
        gemm_f16(Tile(64, 64), layout='tt')


def test_a_k_that_is_too_short_to_share():
    r = gemm_f16(Tile(64, 64, CK=4, swap_ab=1))
    assert names(r.unsupported_reason(64, 64, 192), 'too short', '4 blocks') and r.supports(64, 64, 200)


@pytest.mark.parametrize('config,layout', CONFIGS)
def test_a_kernel_with_pdl_waits_before_all_global_memory(config, layout):
    "The wait is of every thread; ahead of it matrices are named for the prefetch of their maps alone"
    r = gemm_f16(config, layout=layout, pdl=True)
    before, after = r.src[r.src.index('gemm_f16_k('):].split('griddepcontrol.wait', 1)
    body = before.split('{', 1)[1].replace('prefetch(m); prefetch(n); prefetch(out);', '', 1)
    assert r.pdl and r.constants['PDL'] and 'griddepcontrol' not in after
    assert not re.search(r'\b(m|n|out)\b|\b(return|break|goto)\b', body), body
    assert re.search(r'else __syncthreads\(\);\n    if \(PDL\) \{.*\n.*launch_dependents.*\n.*$', before)
    assert 'PDL' in r.name and not gemm_f16(config, layout=layout).pdl
    assert gemm_f16(config, layout=layout, pdl=True) is r


def test_one_source_for_all():
    "But for instructions, which name their registers and their type"
    def own(r): return r.src[r.src.index('__device__ void load_box('):]
    kernels = [gemm_f16(config, dtype, layout, pdl) for config, layout in CONFIGS[:5]
               for dtype in ('bfloat16', 'float16') for pdl in (False, True)]
    assert len({own(r) for r in kernels}) == 1 and len({r.src for r in kernels}) == len({r.name for r in kernels}) == 20


@pytest.mark.slow
def test_parts_of_k_are_added_in_one_order():
    "Twice the same bits, and near those of the kernel that shares nothing"
    torch.manual_seed(0)
    m, n = torch.randn(72, 520).bfloat16(), torch.randn(520, 88).bfloat16()
    with on_emulator():
        configs = Tile(64, 72, swap_ab=1), *[Tile(64, 72, CK=4, swap_ab=1)]*2
        one, *got = (gemm_f16(config, layout='nn')(m, n) for config in configs)
    assert torch.equal(*got) and (one.float() - got[0].float()).abs().max() <= one.abs().max()*2**-7
