"""Triton kernels checked without a GPU: right ones run silently and agree with float64, wrong ones are found where they
are marked."""
import importlib.util, sys, warnings
from pathlib import Path

import pytest

pytest.importorskip('triton', reason='the kernels here are under its @triton.jit')

HERE = Path(__file__).parent/'tile'
sys.path.insert(0, str(HERE))
import tile_corpus as corpus

_spec = importlib.util.spec_from_file_location('tile_judge', HERE/'judge.py')
judge = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(judge)

RIGHT = sorted(p.stem for p in (HERE/'right').glob('*.py'))
WRONG = sorted(p.stem for p in (HERE/'wrong').glob('*.py'))


def of_file(side, stem): return [c for c in corpus.cases(side).values() if Path(c.file).stem == stem]


@pytest.mark.slow
@pytest.mark.parametrize('order', ['forward', 'reverse'])
@pytest.mark.parametrize('stem', RIGHT)
def test_right_kernels_are_silent_and_right(stem, order):
    "In whichever order programs run"
    from gridstride import tile
    failed = []
    for case in of_file('right', stem):
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # two programs write the same value; block pointers are deprecated
            with tile.options(order=order, seed=3): what, e = judge.verdict(case, 'checked')
        if what != 'right': failed.append(f'{case.name}: {what}: {judge.said(e)}')
    assert not failed, '\n'.join(failed)


@pytest.mark.parametrize('stem', WRONG)
def test_wrong_kernels_are_found_where_they_are_wrong(stem):
    "What is marked as unseen must stay so: a detector that finds it changes the mark"
    failed = []
    for case in of_file('wrong', stem):
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            what, e = judge.verdict(case, 'checked')
        if judge.is_found(case, what, e): continue
        failed.append(f'{case.name}: {what}, not {corpus.expected(case)}: {judge.said(e)}')
    assert not failed, '\n'.join(failed)


def test_uninitialized_lanes_are_0_without_checks():
    "As in what Triton compiles for an NVIDIA GPU: a register that is 0 in front of the masked load"
    from gridstride import tile
    with tile.options(checks='no initcheck'):
        for name in 'other_missing_then_summed', 'masked_lanes_in_a_dot', 'masked_lanes_stored':
            assert judge.verdict(corpus.cases('wrong')[name], 'checked')[0] == 'right', name


def test_the_corpus_is_what_it_says():
    "Every wrong case is marked, every right one says why its tolerance holds"
    assert all(corpus.expected(c).lines for c in corpus.cases('wrong').values())
    assert all(c.why for c in corpus.cases('right').values())
    assert len(corpus.cases('right')) >= 30 and len(corpus.cases('wrong')) >= 40
