"The tables of operations and statements: every pass over the tree has a rule per row, and for nothing else."
import pytest

from gridstride.translate import c_types, intervals, tree
from gridstride.translate.codegen import arithmetic, control_flow, expressions, simple_statements
from gridstride.translate.codegen.body import BodyEmitter
from gridstride.translate.codegen.expressions import ExpressionEmitter
from gridstride.translate.engine import CheckedExpressionEmitter
from gridstride.translate.lowering import arrays, operators
from gridstride.translate.operations import LOWERED_AWAY, OPERATIONS, STATEMENTS
from gridstride.translate.ranges import RangeAnalysis
from gridstride.translate.verify import _operand_kinds

WRITTEN = OPERATIONS.keys() - LOWERED_AWAY
KINDS = set('integer float bool number void tuple array object same any unknown'.split())


def rules(cls, prefix):
    return {n.removeprefix(prefix) for n in dir(cls) if n.startswith(prefix)}


def test_every_operation_can_be_written():
    assert rules(CheckedExpressionEmitter, '_expr_') == WRITTEN


def test_only_checked_indices_need_another_writer():
    assert rules(ExpressionEmitter, '_expr_') == WRITTEN - {'checked_offset'}


def test_every_operation_has_an_interval():
    assert rules(RangeAnalysis, '_range_') == OPERATIONS.keys() - {'unknown'}


def test_every_statement_can_be_written_and_followed():
    assert rules(BodyEmitter, '_stmt_') == rules(RangeAnalysis, '_run_') == set(STATEMENTS)


@pytest.mark.parametrize('names', [
    tree._CONSTANT_OPERATIONS, arithmetic._OPERATORS, expressions._TAKE_LOW_BITS_ONLY, control_flow.INVARIANT_OPS,
    simple_statements.COMPOUND_OPERATORS,
    intervals.INTERVAL_ARITHMETIC, c_types._MODULAR_OPS,
    arrays._PURE_OPS, operators._BINARY.values(), operators._EXPENSIVE_OPS,
], ids=lambda o: type(o).__name__)
def test_sets_of_operations_name_what_there_is(names):
    assert set(names) <= OPERATIONS.keys()


@pytest.mark.parametrize('op', OPERATIONS)
def test_kinds_are_known(op):
    o = OPERATIONS[op]
    assert {k.rstrip('*?') for k in o.operand_kinds.split()} | set(o.result_kinds.split()) <= KINDS
    assert all(k[-1] not in '*?' for k in o.operand_kinds.split()[:-1])


@pytest.mark.parametrize('kinds,n,want', [
    ('', 0, []), ('integer integer', 2, ['integer']*2), ('integer integer', 1, None),
    ('number*', 0, []), ('number*', 3, ['number']*3),
    ('number integer?', 1, ['number']), ('number integer?', 2, ['number', 'integer']),
    ('number integer?', 3, None), ('number integer?', 0, None),
])
def test_operand_counts(kinds, n, want):
    assert _operand_kinds(kinds.split(), n) == want
