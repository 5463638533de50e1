"Ladders: the reference, the shapes on which a rung is checked, the table of its results."
import pytest
from gridstride.cpp import on_emulator
from gridstride.kernels.ladder.counters import main_stall_reason
from gridstride.kernels.ladder.ladder import Ladder, Reference, inputs, check_matmul
from gridstride.kernels.ladder.rung import Rung
from gridstride.bench.recording import Unavailable
from test_kernels_rung import NAIVE


def naive(name='naive', src=NAIVE): return Rung(name, src, threads=(8, 8), BM=8, BN=8, BK=4)


@pytest.fixture(autouse=True)
def emulated():
    with on_emulator(): yield


def test_a_reference_takes_what_is_rounded_and_refuses_what_is_wrong():
    m, n = inputs(40, 30, 500)
    judge = Reference(m, n)
    judge(m@n)
    judge((m.double()@n.double()).bfloat16())
    with pytest.raises(AssertionError, match='wrong'): judge(m@n - m[:, -1:]*n[-1:])
    lost = m@n
    lost[39, 29] = float('nan')
    with pytest.raises(AssertionError, match=r'\[39, 29\]'): judge(lost)
    assert judge.relative_error(1.01*(m@n)) == pytest.approx(.01, abs=1e-4)


def test_a_rung_is_tried_around_its_tile():
    assert check_matmul(naive()) == 6
    with pytest.raises(AssertionError, match='wrong, 1x1 @ 1x1: 1 of 1'):
        check_matmul(naive('wrong', NAIVE.replace('c >= w', 'c >= w-1')))
    with pytest.raises(AssertionError, match='late, 9x5 @ 5x7'):
        check_matmul(naive('late', NAIVE.replace('i = 0', 'i = k > 4')))


def test_what_warps_waited_for():
    assert main_stall_reason(dict(stalls=dict(long_scoreboard=3., wait=1.))) == 'global memory (75%)'
    assert main_stall_reason({}) == ''


class Made(Ladder):
    "A ladder whose figures are made up"

    def _measure(self, rung):
        return dict(name=rung.name, seconds=.02/len(rung.name), library=.00266, ratio=.00266*len(rung.name)/.02, low=.2,
                    high=.3, registers=40, occupancy=.75,
                    counters=dict(sectors=4., stalls=dict(long_scoreboard=2., wait=2.)))


class Elsewhere(Ladder):
    "A ladder where there is no GPU"

    def _measure(self, rung): raise Unavailable('No GPU')


def test_the_table():
    made = Made(naive(), naive('coalesced'), baseline='a library')
    made.plot()
    assert [s.name for s in made.steps] == ['naive', 'coalesced']
    assert made['naive'].tflops == pytest.approx(2*4096**3/(.02/5)/1e12)
    assert all(o in repr(made) for o in ('1.80x', 'a library', 'global memory (50%)')) and 'rounds' not in repr(made)
    with pytest.raises(KeyError, match='naive, coalesced'): made['tiled']
    assert made.json()['steps'][1]['registers'] == 40


def test_a_rung_that_is_climbed_again_comes_last():
    made = Made(naive(), naive('coalesced'))
    made.add_step(naive())
    assert [s.name for s in made.steps] == ['coalesced', 'naive']


def test_a_recorded_ladder_belongs_to_its_source_and_shape(tmp_path, monkeypatch):
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    made = Made(naive(), record='99_made', folder=tmp_path)
    monkeypatch.delenv('GRIDSTRIDE_RECORD')
    again = Elsewhere(naive(), record='99_made', folder=tmp_path)
    assert again['naive'].tflops == pytest.approx(made['naive'].tflops) and 'recorded' in again['naive'].provenance
    assert '[recorded' in repr(again)
    with pytest.raises(Unavailable, match='another source'): again.add_step(naive().variant(BM=16))
    with pytest.raises(Unavailable, match='other arguments'):
        Elsewhere(naive(), record='99_made', shape=(8, 8, 8), folder=tmp_path)
