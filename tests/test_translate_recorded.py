"""Kernels that ran on an NVIDIA H100, as the C that `to_cuda` makes (through nvcc, two ways) and through Numba, gave
what the simulator and the emulator give."""
import json
import sys
from collections import Counter
from pathlib import Path

import pytest
from exhaustive import mark_exhaustive

HERE = Path(__file__).parent/'translate'
sys.path.insert(0, str(HERE))
import corpus
import record
from compare import EXAMPLES, differences, generated, others, rightly, described

RECORDED = json.loads((HERE/'h100.json').read_text())
cases = record.cases()

# what numba.cuda (0.30.4) does otherwise than the simulator, and the recorded kernels that show it
NUMBA = {
    'math.floor and math.ceil give a float64, which is no index, and no integer for an atomic operation':
        [f'generated_{n}' for n in (83,84,85,86,107,148,149,150,214,310,311,331,332,341,342)],
    'the shape of a shared array is one number or name for each dimension, and no sum of them':
        ['sim_10_k','sim_11_k','sim_12_k','sim_14_k'],
    'a mask of lanes is an int32, so one that holds lane 31 is negative': ['sim_63_k'],
    'an array without dimensions that comes through as_cuda_array is not written': ['sim_57_k0'],
    'these kernels name the simulator itself': ['sim_139_k','sim_140_k','sim_141_k']}

def test_enough_was_recorded():
    kinds = Counter(c.name.split('_')[0] for c in cases)
    assert kinds['generated'] >= 300 and kinds['lesson'] >= 5 and kinds['sim'] >= 130 and kinds['ncu'] >= 5
    assert {c.name for c in cases} | {'about'} == set(RECORDED)

def remarks(way, cases):
    "{name: what differs} between what was recorded and what the simulator gives"
    every = {c.name: record.remark(c, RECORDED[c.name][way], rightly(c)) for c in cases}
    return {n: why for n,why in every.items() if why}

GENERATED = [c for c in cases if c.name.startswith('generated')]
SOME = [c for c in cases if c not in GENERATED[1::2]]  # what test_translate_equal simulates each time, too

some_cases = pytest.mark.parametrize(
    'chosen', [pytest.param(SOME, id='some'), mark_exhaustive(pytest.param(cases, id='all'))])

@pytest.mark.slow
@some_cases
@pytest.mark.parametrize('way', ['readable','doubles'])
def test_the_c_gives_the_same_on_a_gpu(way, chosen): assert remarks(way, chosen) == {}

@some_cases
def test_numba_gives_the_same_but_for_what_is_known(chosen):
    known = {n for names in NUMBA.values() for n in names}
    assert set(remarks('numba', chosen)) == known & {c.name for c in chosen}
    rounded = next(iter(NUMBA.values()))
    assert all('math.floor' in c.source or 'math.ceil' in c.source for c in cases if c.name in rounded)

@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_same_on_the_emulator():
    """Those that test_translate_equal does not run: none, while the generator and the tests'
    kernels are those that were recorded"""
    rest = others(cases, [*generated(EXAMPLES), *corpus.all_cases()])
    got = differences(rest, numba_types=True)
    assert not any(got), described(rest, got)

def test_another_result_is_seen():
    case = next(c for c in cases if c.compare=='bits')
    other = next(r['numba'] for n,r in RECORDED.items() if n!='about' and n!=case.name and isinstance(r['numba'], str)
                 and r['numba']!=RECORDED[case.name]['numba'])
    assert record.remark(case, other, rightly(case))
