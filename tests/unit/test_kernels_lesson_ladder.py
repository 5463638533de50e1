"""Lesson 16's tools: a rung compared with a guess, a count on paper and a text; what is counted
without a clock; the pictures of a phase."""
from types import SimpleNamespace

import numpy as np
import pytest

from gridstride.asm import CompilerMissing
from gridstride.kernels import Rung, check_matmul
from gridstride.kernels.ladder import lesson_ladder as tools, lecture, on_paper
from gridstride.kernels.ladder.lesson_ladder import LessonLadder, count_library, count_quads, count_kinds, time_matmuls
from gridstride.kernels.ladder.ladder import Ladder
from gridstride.kernels.ladder.pictures import draw_phase, draw_wavefronts
from gridstride.bench.recording import Unavailable
from found import names, saying

SHAPE = 1024, 1024, 512
MULTIPLY_ADDS = 1024*1024*512/32


def naive(name='naive', **more): return Rung(name, lecture.naive_src, threads=(8, 4), BM=4, BN=8, **more)


def bound(wavefronts, instructions=1): return 60*min(.25/wavefronts, 1/instructions)


@pytest.fixture
def climb(monkeypatch, tmp_path):
    "A climb whose figures are made up: 2.02 wavefronts, 4.5 instructions, and twice as fast per additional letter"
    monkeypatch.setattr(tools, 'check_matmul', lambda r: 1)
    def measure(self, r):
        if r.name == 'mine': raise Unavailable('No GPU is here')
        counters = {} if r.name == 'silent' else dict(pipe=2.02*MULTIPLY_ADDS, instructions=4.5*MULTIPLY_ADDS,
                                                      issue=50., stalls=dict(barrier=1., not_selected=3.))
        times = 2**(len(r.name)-5)
        return dict(name=r.name, seconds=.01/times, library=.001, ratio=.1*times, registers=32, occupancy=.75,
                    counters=counters)
    monkeypatch.setattr(Ladder, '_measure', measure)
    return LessonLadder(SHAPE, '99_ladder', bound, folder=tmp_path)


def test_a_guess_the_paper_and_the_text_next_to_the_measurement(climb, capsys):
    climb(naive(), 2, 3.)
    climb(naive('naive2'), 2, ..., {'naive': (1.5, 2.5), 'unknown': (1, 2)})
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith('naive: 0.11 TFLOP/s, 10.0% of torch.matmul (')
    assert names(said[1], '32', '75%') and names(said[2], 'guessed', '3 TFLOP/s')
    assert names(said[3], 'multiply-add', '2.000 wavefronts', '2.020', '4.50 instructions', '7.4 TFLOP/s')
    assert names(said[4], 'wavefronts', '2.02', '1.9 to 2.1')
    assert names(said[7], 'naive2', '2x', '1.5 to 2.5x')
    assert 'not measured' in said[8]
    with pytest.raises(TypeError, match=saying('my_guess', "'much'")):
        climb(naive(), 2, 'much', {'naive': (1, 2)})


def test_tables_of_a_climb_say_where_they_are_from(climb):
    for name in ('naive', 'naive2', 'silent'): climb(naive(name), 2)
    assert climb.measured_counts('silent') == (None, None)
    assert climb.measured_counts('naive') == pytest.approx((2.02, 4.5))
    table, waits = repr(climb.table()), repr(climb.stall_table('naive', 'naive2'))
    for o in ('naive2', '2.020', '4.50', '7.4', '75%'): assert o in table
    for o in ('nothing: another warp was selected', '75%', '25%', 'What warps wait for ('): assert o in waits
    assert 'data from' not in waits, 'a reason that no rung has'


@pytest.mark.slow
def test_a_custom_rung_is_counted_without_a_clock(climb, capsys):
    climb(naive('mine'), 2)
    said = capsys.readouterr().out
    for o in ('mine is correct, but not timed: No GPU is here; and there is no recording', 'registers per thread',
              'instructions per multiply-add, in its loop', 'these allow, at most', 'compiled for sm_90'):
        assert o in said


def test_without_a_compiler_the_paper_is_left(climb, monkeypatch):
    def missing(*args, **kw): raise CompilerMissing('NVRTC is not here')
    monkeypatch.setattr(tools, 'resources', missing)
    assert 'NVRTC is not' in repr(climb.static_table(naive(), 2)) and '2.000' in repr(climb.static_table(naive(), 2))
    monkeypatch.setattr(tools, 'sass', missing)
    with pytest.raises(Unavailable, match=saying('NVRTC', 'no recording')):
        count_kinds(naive(), record='99_kinds')


@pytest.mark.slow
def test_instructions_by_kind():
    found = count_kinds(naive(), lecture.STATIC, record='99_kinds')
    assert found['naive']['float'] == found['static 16']['float'] == 1
    assert found['static 16']['shared'] == pytest.approx(22/16)
    assert found.total('static 16') == pytest.approx(sum(found['static 16'].values())) and 'NVRTC' in repr(found)
    assert 'static 16' in repr(found)


@pytest.mark.slow
def test_a_kernel_without_multiply_adds():
    src = lecture.naive_src.replace('o += m[r*k + i] * n[i*w + c]', 'o += m[r*k + i]')
    with pytest.raises(ValueError, match=saying('multiply-add', 'FFMA')):
        count_kinds(Rung('sum', src, threads=32, BM=4, BN=8), record='99_kinds')


@pytest.mark.slow
def test_lesson_06_again():
    for o in (lecture.NAIVE, lecture.DYNAMIC, lecture.STATIC, lecture.STATIC32): assert check_matmul(o) == 6
    loops = {o.name: count_kinds(o, record='99_kinds')[o.name]['shared']
             for o in (lecture.DYNAMIC, lecture.STATIC, lecture.STATIC32)}
    assert (loops['dynamic'] == 2 and loops['static 16'] == 20/16 + 2/16
            and loops['static 32'] == 40/32 + 2/32), 'LDS, LDS.128, and the stores'


def test_what_the_hardware_is_asked(monkeypatch):
    asked = []
    def ncu(script, **how):
        asked.append((script, how))
        compile(script, 'script', 'exec')
        return SimpleNamespace(kernels=[Counted(n) for n in (2, 8)])
    class Counted:
        name = 'a gemm'
        def __init__(self, n): self.n = n
        def __getitem__(self, metric):
            return 87.5 if 'issue' in metric else 1.125*MULTIPLY_ADDS if 'inst' in metric else self.n
    monkeypatch.setattr(tools, 'ncu', ncu)
    assert count_quads({'same': np.zeros(32, int), 'second': np.arange(32)*2}, '99_quads') == dict(same=2, second=8)
    found = count_library(*SHAPE, record='99_library')
    assert (found['issue'], found['instructions'], found['name']) == (.875, 1.125, 'a gemm')
    assert '(1024, 512), (512, 1024)' in asked[1][0] and asked[0][1]['record'] == '99_quads'


def test_no_product_is_timed_without_a_gpu(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unavailable, match='NVIDIA GPU'):
        time_matmuls('99_race', 64, 64, 64, naive())


def test_wavefronts_as_a_picture():
    svg = draw_wavefronts([{0: np.arange(16)}, {9: np.array([17])}], 'quads').svg
    assert 'quads: 2 wavefronts' in svg and 'wavefront 1' in svg and svg.count('<rect ') >= 16
    assert svg.index('>0-15<') < svg.index('>17<'), 'quad 9 is in the second four banks'


def test_a_phase_as_a_picture():
    who = np.arange(64).reshape(8, 8).repeat(2, 0).repeat(2, 1)       # two warps, 2 x 2 results a thread
    svg = draw_phase(who, 32, 48, 16, k_start=4, BK=4, block=(1, 1), warp=1, lane=13, size=10).svg
    orange = '#d55e00'
    assert svg.count(orange) == 4, 'three matrices and the legend'
    spots = [o.split('"/>')[0].split('fill=')[0] for o in svg.split('<rect ')[1:] if orange in o]
    assert spots[0].startswith('x="40.0" y="260.0" width="40.0" height="20.0"'), ('of m: two rows (block row 1, '
                                                                                  'patch row 5), four steps from 4 on')
    assert spots[1].startswith('x="260.0" y="40.0" width="20.0" height="40.0"'), 'of n: two columns, the same steps'
    assert spots[2].startswith('x="260.0" y="260.0" width="20.0" height="20.0"')


# The ladder on paper, on which later sittings build

@pytest.mark.parametrize('quad,wanted', [
    (on_paper.lane, 4), (on_paper.lane*0, 2), (on_paper.lane//2, 2), (on_paper.lane % 8, 4), (on_paper.lane*2, 8)])
def test_a_wide_load_takes_the_wavefronts_that_were_counted(quad, wanted):
    served = on_paper.wavefronts(quad)
    assert len(served) == wanted
    assert sorted(lane for wave in served for lanes in wave.values() for lane in lanes) == list(range(32))


def test_the_pipe_or_the_instructions_limit_a_product():
    assert on_paper.bound(.25) == on_paper.bound(.125) == on_paper.peak/1e12 == 2*on_paper.bound(.25, 2)
    assert on_paper.inner(on_paper.lane//16, on_paper.lane % 16) == 12/64


def test_a_sitting_begins_where_the_last_one_ended(monkeypatch):
    climbed = []
    monkeypatch.setattr(on_paper, 'LessonLadder', lambda *args, **how: lambda step, *more: climbed.append(step.name))
    on_paper.climb_to('shared', 'x')
    assert climbed == ['naive', 'coalesced', 'shared']
    with pytest.raises(KeyError, match='naive'): on_paper.climb_to('tuned', 'x')
    assert len(climbed) == 3
