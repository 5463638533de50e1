"What rewritten kernels call, and the resulting values."
import inspect, re

import numpy as np
import pytest

from gridstride.diagnostics.errors import NotSimulated
from gridstride.sim import program, rewrite, rewrite_expressions
from gridstride.sim.arithmetic import binary, contains, join, as_numba, unary, widen_integers
from gridstride.sim.operations import Operations


def test_a_rewritten_kernel_finds_everything_that_it_calls():
    source = inspect.getsource(rewrite) + inspect.getsource(rewrite_expressions)
    called = set(re.findall(r'__gs\.(\w+)', source)) | {'logical_and', 'logical_or'}
    assert called == {o for o in vars(Operations) if not o.startswith('__')}


def test_a_rewritten_kernel_knows_the_operations_as_one_object():
    def k(x): x[0] = 1 + 2
    made = program.Program(k, is_kernel=True)
    assert made.lane_function.__globals__['__gs'] is Operations
    assert not {'load', 'store', 'merge'} & set(made.lane_function.__globals__)


def test_integers_of_python_are_64_bits_wide():
    assert (as_numba(3) * np.float32(2)).dtype == np.float64
    assert ([as_numba(v).dtype.name for v in (True, 3, 2**63, 1., 1j)]
            == ['bool', 'int64', 'uint64', 'float64', 'complex128'])


def test_small_integers_are_computed_with_64_bits():
    assert widen_integers(np.array([250], np.uint8)).dtype == np.uint64
    with np.errstate(over='ignore'): assert binary('Sub', np.uint8(1), np.uint8(2)) == np.uint64(2**64 - 1)
    assert binary('Add', np.int8(127), np.int64(1)) == 128


def test_a_variable_of_two_integer_types_is_of_the_wider_one():
    assert join(np.array([250], np.uint8), np.int64(0)).dtype == np.int64


def test_operators_with_rules_of_their_own():
    assert binary('Pow', np.float32(3), np.int64(2)).dtype == np.float32
    assert binary('Pow', np.int64(2), np.int64(-1)) == .5
    assert binary('BitAnd', np.bool_(True), np.bool_(False)).dtype == bool
    assert unary('USub', np.bool_(True)) == -1 and unary('Invert', np.bool_(True)) == np.False_


def test_what_has_no_rule_is_not_simulated():
    with pytest.raises(NotSimulated, match='the operator MatMult'): binary('MatMult', 1, 2)
    with pytest.raises(NotSimulated, match='`in`.*list'): contains(1, [1])
