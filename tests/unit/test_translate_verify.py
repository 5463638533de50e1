"A tree that nothing can be written from is found; those of all kernels here are well formed."
import sys
from pathlib import Path

import numpy as np
import pytest

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS/'translate')]
import record
from cases import arguments, kernel
from test_translate import CASES, MODES

from gridstride import sim
from gridstride.sim import cuda
from gridstride.translate import engine
from gridstride.translate.flow import Variable
from gridstride.translate.kernel import translate
from gridstride.translate.lowering import Unit
from gridstride.translate.c_types import choose_c_types
from gridstride.translate.source import Source
from gridstride.translate.tree import ONE, ZERO, Expr, Buffer, const, statements, tuple_expr
from gridstride.translate.types import BOOL, DOUBLE, FLOAT, INT64, argument_type
from gridstride.translate.verify import MalformedTree, verify, verify_expression
from exhaustive import some
from found import saying

HALF = const(0.5, DOUBLE)


@pytest.fixture(autouse=True)
def verified(monkeypatch):
    monkeypatch.setenv('GRIDSTRIDE_VERIFY', '1')


def lowered(f, *args):
    unit = Unit()
    unit.lower(Source(f), [argument_type(a) for a in args])
    return unit


def scale(x, by):
    i = cuda.grid(1)
    total = 0.
    for j in range(3):
        if i < x.size: total += x[i]*by
    x[i] = total


@pytest.fixture
def unit():
    return lowered(scale, np.zeros(4, 'f4'), 2.)


def find(unit, kind):
    return next(s for s in statements(unit.main.body) if s.kind == kind)


# The corpus

def translated_in_all_ways(k, args, modes=MODES):
    for how in modes: translate(k, args, Unit(**MODES[how]))
    translate(k, args, engine.CheckedUnit(numba_types=True, all_int64=True), engine.CheckedExpressionEmitter)


@pytest.mark.parametrize('name', CASES)
def test_kernels_of_the_tests_are_well_formed(name):
    k, args, *_ = CASES[name]
    translated_in_all_ways(k, args())


@pytest.mark.slow
@pytest.mark.parametrize('at', some(range(4), 4))
def test_recorded_kernels_are_well_formed(at):
    "In the two ways that test_translate_equal, which verifies what it translates, has for none or few of them"
    cases = record.cases()
    assert len(cases) > 400
    for c in cases[at::4]: translated_in_all_ways(kernel(c, sim.cuda), arguments(c)[0], ['wide'])


def test_the_switch_is_off_unless_asked_for(monkeypatch):
    seen = []
    monkeypatch.setattr('gridstride.translate.kernel.verify', lambda *a, **kw: seen.append(kw))
    translate(scale, [np.zeros(4, 'f4'), 2.], Unit())
    monkeypatch.delenv('GRIDSTRIDE_VERIFY')
    translate(scale, [np.zeros(4, 'f4'), 2.], Unit())
    assert seen == [{}, dict(types_are_final=True)]


# Expressions

@pytest.mark.parametrize('e,what', [
    (Expr('plus', INT64, (ONE, ONE)), 'called plus'),
    (Expr('add', INT64, (ONE,)), saying('1 operands', 'same same')),
    (Expr('add', INT64, (ONE, ONE, ONE)), 'has 3 operands'),
    (Expr('add', INT64, (ONE, HALF)), 'float64.*integer'),
    (Expr('add', None, (ONE, ONE)), 'None.*number'),
    (Expr('shl', INT64, (ONE, HALF)), 'expected integer'),
    (Expr('land', BOOL, (ONE, ONE)), 'int64.*bool'),
    (Expr('cmp', BOOL, (ONE, ONE), '<>'), 'rule .*cmp'),
    (Expr('cmp', BOOL, (ONE, ONE)), 'value None'),
    (Expr('cmp', INT64, (ONE, ONE), '<'), 'expected bool'),
    (Expr('var', INT64, value='x'), saying('var', "'x'")),
    (Expr('var', INT64, value=Variable('x')), 'rule .*var'),
    (Expr('builtin', INT64, value='threadIdx.w'), 'rule .*builtin'),
    (Expr('cast', FLOAT, (ONE,), 'float31'), 'rule .*cast'),
    (Expr('load', FLOAT, (ONE, ONE, ONE), Buffer('m', FLOAT, 'param', 2)), 'rule .*load'),
    (Expr('load', FLOAT, (HALF,), Buffer('m', FLOAT, 'param', 1)), 'expected integer'),
    (Expr('math', DOUBLE, (), 'sqrt'), 'rule .*math'),
    (Expr('shuffle', FLOAT, (HALF, ONE), '__shfl_sync'), 'has 2 operands'),
    (Expr('unknown', None, (ONE, ONE)), 'expected unknown'),
])
def test_a_malformed_expression_is_found(e, what):
    with pytest.raises(MalformedTree, match=what): verify_expression(e)


def test_well_formed_expressions_pass():
    v = Variable('x')
    v.type = FLOAT
    for e in (ZERO, Expr('add', DOUBLE, (ONE, HALF)), Expr('var', FLOAT, value=v), tuple_expr([ONE, HALF])):
        verify_expression(e, types_are_final=True)


def test_a_float_without_a_precision_is_not_settled():
    e = const(0.5, 'weak')
    verify_expression(e)
    with pytest.raises(MalformedTree, match='not resolved'): verify_expression(e, types_are_final=True)


# Statements

def test_a_lowered_kernel_is_well_formed(unit):
    verify(unit)
    choose_c_types(unit)
    verify(unit, types_are_final=True)


@pytest.mark.parametrize('kind,change,what', [
    ('assign', dict(kind='let'), 'called let'),
    ('assign', dict(var=None), saying('var of', 'assign', 'None')),
    ('assign', dict(expr=HALF), 'float64 .*<i: int64>'),
    ('assign', dict(expr=tuple_expr([ONE])), 'expected value'),
    ('assign', dict(color=1), 'assign .*color'),
    ('if', dict(test=ONE), saying('test of', 'if', 'const', 1, 'bool')),
    ('if', dict(body=[ONE]), 'expected block'),
    ('for', dict(step=HALF), saying('step of', 'for', 'integer')),
    ('store', dict(index=[HALF]), 'expected integers'),
    ('store', dict(expr=Expr('add', FLOAT, (ONE,))), 'has 1 operands'),
])
def test_a_malformed_statement_is_found(unit, kind, change, what):
    s = find(unit, kind)
    vars(s).update(change)
    with pytest.raises(MalformedTree, match=rf'scale, line {s.line}: .*{what}'): verify(unit)


def test_a_field_that_is_missing_is_found(unit):
    del find(unit, 'if').orelse
    with pytest.raises(MalformedTree, match='if has no orelse'): verify(unit)


# Order

def test_a_variable_without_a_value_is_found(unit):
    body = unit.main.body
    body.insert(1, body.pop(0))
    verify(unit)                    # `i` and `total` do not need each other
    body.append(body.pop(0))
    with pytest.raises(MalformedTree, match='<total: .*read before'): verify(unit)


def branches(x, n):
    if n: a = 1
    else: a = 2
    while True:
        b = a
        if b > n: break
    for j in range(n): c = j
    x[0] = a + b + c


def test_what_a_branch_or_a_loop_gives_is_there():
    verify(lowered(branches, np.zeros(4), 2))


@pytest.mark.parametrize('kind,part', [('if', 'orelse'), ('while', 'body')])
def test_a_value_that_is_missing_on_one_path_is_found(kind, part):
    unit = lowered(branches, np.zeros(4), 2)
    getattr(find(unit, kind), part).pop(0)
    with pytest.raises(MalformedTree, match='read before'): verify(unit)


def test_what_python_may_read_too_early_is_left_alone():
    unit = lowered(branches, np.zeros(4), 2)
    find(unit, 'for').body.pop(0)
    verify(unit)


def shares(x):
    s = cuda.shared.array(4, np.float32)
    t = s[1:]
    x[0] = s[0] + t[0]


NOT_THERE = dict(alloc=saying('s>', 'declared'), pointer=saying('t>', 'used before'))

@pytest.mark.parametrize('kind,what', NOT_THERE.items())
def test_an_array_that_is_not_there_is_found(kind, what):
    unit = lowered(shares, np.zeros(4, 'f4'))
    verify(unit)
    unit.main.body.remove(find(unit, kind))
    with pytest.raises(MalformedTree, match=what): verify(unit)
