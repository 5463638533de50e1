"What lesson 25 tries its kernels with: the shapes, the verdicts, the bytes on paper, the stamps."
import json, sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from gridstride.diagnostics.errors import RacecheckError
from gridstride.kernels.ladder import fp32, hopper, trials
from gridstride.kernels.ladder.listing import change, edit, listing
from gridstride.diagnostics.settings import settings
from gridstride.bench.recording import Unavailable
from found import names, saying


ROOT = Path(__file__).resolve().parents[2]


def test_shapes_go_around_the_tile_and_the_ring():
    shapes = trials.edge_shapes(hopper.ring)
    assert shapes == [(1, 8, 8), (65, 136, 64*4 + 72), (2*128 + 1, 3*128 - 8, 72)]
    assert all(hopper.ring.supports(*o) for o in shapes)


def test_each_order_is_tried(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(trials, 'check_matmul', lambda rung, shapes: seen.append(settings.order))
    trials.check_kernel(hopper.ring, [(8, 8, 8)])
    assert seen == ['forward', 'reverse']
    assert names(capsys.readouterr().out, 'ring is correct', '(8, 8, 8)')


def test_a_verdict_says_what_is_wrong_and_where(monkeypatch):
    line = 1 + next(i for i, o in enumerate(hopper.ring.src.splitlines()) if 'multiply(d, a +' in o)
    def wrong(rung, shapes):
        raise RacecheckError('x is read', hint='Wait for it.', line=3, source='asm',
                             call_site=(line, 'multiply'))
    monkeypatch.setattr(trials, 'check_matmul', wrong)
    assert trials.diagnose(hopper.ring) == ('racecheck: x is read. Wait for it.',
                                           'multiply(d, a + s*A_BYTES, b + s*B_BYTES, ph > 0);')
    monkeypatch.setattr(trials, 'check_matmul', lambda rung, shapes: len(shapes))
    assert trials.diagnose(hopper.ring) == ('right', '')


def test_a_listing_is_the_kernel_alone_with_its_line_numbers():
    lines = repr(listing(hopper.stored, old=hopper.pairs)).splitlines()
    first = hopper.stored.src.splitlines().index('__global__ void __cluster_dims__(2) __launch_bounds__(384, 1)') + 1
    assert names(lines[0], 'stored', '384 threads', '212,992 bytes', 'BM=128, BN=256, BK=64, STAGES=4, GROUP=8',
                 'pairs')
    assert lines[1].split()[0] == str(first)
    marked = [o for o in lines if o[5:6] == '>']
    assert any('store_by_tma' in o for o in marked) and not any('multiply' in o for o in marked)


def test_a_change_has_the_lines_that_are_gone_and_the_new_ones():
    lines = repr(change(fp32.coalesced, fp32.naive)).splitlines()
    assert names(lines[0], 'coalesced', '32x32 threads', 'BM=32, BN=32', 'naive')
    gone, new = ([o[7:] for o in lines[1:] if o[5:6] == mark] for mark in '-+')
    assert all(o in fp32.naive.src for o in gone) and all(o in fp32.coalesced.src for o in new)
    assert any('threadIdx.x, c' in o for o in gone) and any('threadIdx.y, c' in o for o in new)


def test_an_edited_copy_goes_into_a_new_cell(monkeypatch):
    cells, names = [], {'_': fp32.naive, 'mine': fp32.naive}
    shell = SimpleNamespace(user_ns=names, set_next_input=cells.append)
    monkeypatch.setattr('IPython.get_ipython', lambda: shell)
    edit(fp32.naive)
    exec(cells[0].replace('o += m', 'o -= m'), names)
    assert names['mine'].src == fp32.naive.src.replace('o += m', 'o -= m') and names['mine'].threads == (32, 32)


def test_bytes_from_l2():
    ladder = trials.HopperLadder((8192, 8192, 8192), 'none')
    assert ladder.expected_l2_bytes(64, 64) == 4*ladder.expected_l2_bytes(128, 256, 2) == 8192**3//16
    assert trials.HopperLadder((100, 100, 8), 'none').expected_l2_bytes(64, 64) == 2*2*128*2*8


def test_a_climb_without_counters_leaves_the_ladder_as_it_was(monkeypatch, capsys):
    ladder, seen = trials.HopperLadder((64, 64, 64), 'none'), []
    def climb(rung):
        seen.append(ladder.counters)
        raise Unavailable('no GPU')
    monkeypatch.setattr(ladder, 'add_step', climb)
    for counters in (True, False):
        with pytest.raises(Unavailable): ladder.measure(hopper.ring, counters=counters)
    assert seen == [True, False] and ladder.counters


def test_stamps_are_after_their_lines():
    src = trials.with_timestamps(hopper.ring, 'barrier_wait(empty + 8*s, phase-1);', 'barrier_wait(full + 8*s, phase);',
                         'wgmma_wait<0>();')
    assert src.count('clock64()') == 3 and 'wgmma_wait<0>(); if (' in src and 'long long *stamps' in src
    with pytest.raises(ValueError, match=saying("'nothing like it'", '0 times')):
        trials.with_timestamps(hopper.ring, 'nothing like it')
    fig = trials.plot_timestamps({'a': np.arange(150).reshape(50, 3)*50}, dict(a=2), 'here')
    assert [t.get_text() for t in fig.axes[0].get_yticklabels()] == ['stage 0', 'stage 1']
    assert fig.axes[0].get_title() == 'here'


@pytest.mark.parametrize('measure',
    [lambda: trials.read_timestamps({}, (64, 64, 64)), lambda: trials.count_wrong_results({}),
     lambda: trials.time_unchecked((64, 64, 64))])
def test_what_only_a_hopper_gpu_can_measure_is_refused(measure):
    with pytest.raises(Unavailable, match='Hopper GPU'): measure()


def test_a_contest_belongs_to_its_kernels(tmp_path):
    with pytest.raises(Unavailable, match='no recording'):
        trials.compare_with_torch('hopper_gemm_none', (64, 64, 64), hopper.ring, seconds=.1)


@pytest.mark.slow
def test_machine_code_is_counted_by_engine():
    from gridstride.cpp.toolchain.compilers import CompilerMissing
    try: counted = trials.count_per_engine(hopper.larger)
    except CompilerMissing as e:
        if sys.platform == 'linux': raise       # there the course installs NVRTC
        pytest.skip(str(e))
    assert counted['wgmma'] and counted['wgmma'] % 8 == 0 == counted['mma.sync']
    assert trials.compiler_resources(hopper.larger).registers > 128


def _row(shape, layout='nn', **sides):
    return dict(shape=shape, layout=layout, columns=dict(read=dict(sides={k: dict(ratio=r) for k, r in sides.items()})))
KEPT = dict(made=dict(gpu='an H100', date='2026-11-24'),
            bfloat16=[_row([8, 8, 8], ours=.5, cublasLt=1.), _row([16, 8, 8], ours=3., cublasLt=2.),
                      _row([8, 16, 8], ours=2.), _row([8, 8, 8], 'tn', ours=9., cublasLt=1.),
                      dict(_row([24, 8, 8]), failed='no memory'),
                      dict(shape=[32, 8, 8], layout='nn', columns=dict(read=dict(failed='no')))])


def test_a_committed_run_compares_ours_with_the_library(tmp_path):
    (tmp_path/'matmul.json').write_text(json.dumps(KEPT))
    beside = trials.load_comparison(tmp_path/'matmul.json')
    assert beside.ratios == {(8, 8, 8): .5, (16, 8, 8): 1.5} and beside.machine == 'an H100, 2026-11-24'
    assert names(beside.baseline, 'fastest of', 'cublasLt')
    ax, = trials.plot_comparison(beside).axes
    assert [t.get_text() for t in ax.get_yticklabels()] == ['8x8 @ 8x8']                    # the library is faster here
    assert [(p.get_x(), p.get_width()) for p in ax.patches] == [(1, -.5), (1, .5)]


def test_the_committed_run_has_forty_shapes():
    assert len(trials.load_comparison(ROOT/'benchmarks/matmul_bfloat16.json').ratios) == 40


def test_speeds_are_bars_in_panels():
    first, second = trials.plot_speeds({'forward': {'torch': 600, 'yours': 700}, 'both': {'torch': 5}}).axes
    assert [p.get_width() for p in first.patches] == [600, 700] and second.get_title() == 'both'
    assert first.patches[0].get_facecolor() != first.patches[1].get_facecolor()
