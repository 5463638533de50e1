"""What `to_cuda` makes, on the emulator, gives what the simulator gives: for kernels that a generator wrote, which are
recorded, and for those that are there already; with `--all`, for those that the generator writes today, and in every
way."""
import json
import sys
from pathlib import Path

import pytest
from exhaustive import mark_exhaustive

HERE = Path(__file__).parent/'translate'
sys.path.insert(0, str(HERE))
import cases
import corpus
import record
from compare import EXAMPLES, differences, generated, rightly, smallest, described

MODES = {}, dict(numba_types=True), dict(numba_types=True, all_int64=True)
GENERATED = [c for c in record.cases() if c.name.startswith('generated')]

@pytest.fixture(scope='module', params=['recorded', mark_exhaustive('fresh')])
def written(request):
    "What the generator wrote when its kernels were recorded, or what it writes today"
    return GENERATED if request.param == 'recorded' else generated(EXAMPLES)

@pytest.fixture(scope='module')
def fresh(): return generated(EXAMPLES)

@pytest.fixture(scope='module')
def there(): return [c for c in corpus.all_cases() if not corpus.refused(c)]

def test_enough_kernels_of_every_shape(written, there):
    assert len(written) >= 300 and len(there) >= 140
    for what in ('shared.array','local.array','atomic','shfl_','_sync(','while','break','continue','elif','device=True',
                 'range(6, -3, -2)','//','**','>>','cuda.grid(3)','float16','uint8'):
        assert any(what in c.source + json.dumps(c.args) for c in written), what

def test_every_kernel_of_the_lessons_is_here():
    found = set(corpus.lesson_kernels())
    assert found <= set(corpus.RIGHT) | corpus.WRONG and corpus.WRONG <= found

def same(cases, **how):
    got = differences(cases, **how)
    assert not any(got), f'{how}: {described(cases, got)}'

@pytest.mark.takes(12)
@pytest.mark.parametrize('way', range(2))
def test_recorded_kernels_give_the_same(way):
    "A sixteenth of them in each of two ways"
    same(GENERATED[2*way::16], **MODES[way])

@pytest.mark.takes(30)
@pytest.mark.exhaustive
def test_generated_kernels_give_the_same(fresh):
    for how in MODES[:2]:
        got = differences(fresh, **how)
        if any(got): smallest(EXAMPLES, {c.source:d for c,d in zip(fresh, got)}, **how)
        assert not any(got), f'{how}: {described(fresh, got)}'

@pytest.mark.takes(8)
@pytest.mark.parametrize('way', range(3))
def test_kernels_that_are_there_give_the_same(there, way):
    "An eighteenth of them in each way"
    same(there[way::18], **MODES[way])

@pytest.mark.takes(20)
@pytest.mark.exhaustive
@pytest.mark.parametrize('way', range(3))
def test_kernels_that_are_there_give_the_same_in_every_way(there, way): same(there, **MODES[way])

@pytest.mark.slow
@pytest.mark.parametrize('flags', [(), mark_exhaustive((('-O2',),))], ids=['', 'optimised'])
def test_checked_kernels_have_no_findings(flags):
    "Some of the generated kernels once more, under all detectors"
    same(GENERATED[::10], checks=True, flags=flags, numba_types=True)

def test_a_difference_is_seen():
    case = next(c for c in GENERATED if 'out[i] = ' in c.source and c.compare=='bits' and not c.source.count('bool'))
    want = rightly(case)
    wrong = [a.copy() for a in want]
    assert cases.difference(wrong, want, case) is None
    wrong[-1].view('u1')[0] ^= 1
    assert 'differ' in cases.difference(wrong, want, case)
