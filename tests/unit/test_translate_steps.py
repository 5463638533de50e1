"The steps from a kernel to C, one by one: its source, its variables, its types, intervals, positions, names and texts."
import ast
import linecache
import math
import operator
from types import SimpleNamespace

import numpy as np
import pytest

from gridstride.sim import cuda
from gridstride.translate import Untranslatable, to_cuda
from gridstride.translate.c_types import choose_c_types
from gridstride.translate.codegen.expressions import ExpressionEmitter
from gridstride.translate.codegen.names import Names
from gridstride.translate.codegen.variables import innermost_block
from gridstride.translate.flow import variables
from gridstride.translate.lowering import Unit
from gridstride.translate.lowering.call_table import table_name
from gridstride.translate.intervals import INTERVAL_ARITHMETIC
from gridstride.translate.source import Source
from gridstride.translate.tree import ONE, Expr, Buffer, View, const, c_index, contiguous_strides
from gridstride.translate.types import (
    BOOL, DOUBLE, FLOAT, INT64, UINT64, WEAK, Array, ArrayArgument, ScalarArgument, arithmetic_type, argument_type,
    join_types, format_type, parse_signature,
)


def function(src):
    "The function that a text defines, with its source where Python looks for it"
    file = f'<{abs(hash(src))}>'
    linecache.cache[file] = len(src), None, src.splitlines(True), file
    space = {'cuda': cuda, 'np': np}
    exec(compile(src, file, 'exec'), space)
    return space[src.split('def ', 1)[1].split('(')[0]]


# Source

SCALE = '''def scale(x, by):
    "Multiply in place"
    i = 3  # where

    # all of it
    x[i] *= by
'''


def test_comments_and_blank_lines_are_known():
    s = Source(function(SCALE))
    assert s.comments == {3: (11, 'where', False), 5: (4, 'all of it', True)} and s.blank_lines == {4}


def test_names_outside_are_looked_up():
    assert Source(function(SCALE)).look_up('len') == (True, len)
    assert Source(function(SCALE)).look_up('nothing_like_this') == (False, None)


def test_an_error_points_into_the_source():
    s = Source(function(SCALE))
    e = s.error(s.tree.body[1], 'this line', 'Write another.')
    assert (e.construct, e.line, e.source, e.kernel) == ('this line', 3, 'i = 3  # where', 'scale')


def test_a_number_is_known_as_it_is_written():
    s = Source(function('def f(x):\n    größe = 0x1F\n'))
    assert s.segment(s.tree.body[0].value) == '0x1F'


# Variables

def test_assignments_that_meet_are_one_variable():
    src = '''def f(n):
    x = 1
    y = x
    if n: x = 0.5
    else: x = 2.5
    for i in range(n): y += x
    return y+i'''
    _, stores = variables(ast.parse(src).body[0])
    by_name = {k: {v for v in stores.values() if v.name == k} for k in 'xyin'}
    assert {k: len(v) for k, v in by_name.items()} == dict(x=2, y=1, i=1, n=1)
    assert [v.is_maybe_uninitialized for v in by_name['i']] == [True]


# Types

@pytest.mark.parametrize('a,b,numba_types,want', [
    (FLOAT, WEAK, False, FLOAT), (FLOAT, INT64, False, FLOAT), (FLOAT, INT64, True, DOUBLE),
    (Array('float32', 1), INT64, False, None),
])
def test_the_type_that_holds_both(a, b, numba_types, want):
    assert join_types(a, b, numba_types) == want


@pytest.mark.parametrize('a,b,want', [
    (BOOL, BOOL, INT64), ('uint8', 'uint16', UINT64), ('uint8', INT64, INT64), ('uint8', FLOAT, FLOAT),
])
def test_the_type_of_a_sum(a, b, want):
    assert arithmetic_type(a, b, True) == want


@pytest.mark.parametrize('x,want', [
    (np.zeros((2, 3), np.float32), ArrayArgument('float32', 2, (False, False), False)),
    (np.zeros((4, 6))[::2, 1:3], ArrayArgument('float64', 2, (True, False), False)),
    (np.arange(5)[::-1], ArrayArgument('int64', 1, (True,), True)),
    ((1, 2.), (ScalarArgument(INT64, 'int', 1), ScalarArgument(WEAK, 'weak'))),
], ids=['contiguous', 'strided', 'backwards', 'tuple'])
def test_what_is_known_of_an_example(x, want):
    assert argument_type(x) == want


def test_what_is_known_of_a_signature():
    assert parse_signature('void(float32[:,::1], i8[:], int64, UniTuple(f4, 2))') == [
        ArrayArgument('float32', 2, (False, False), False), ArrayArgument('int64', 1, (True,), False),
        ScalarArgument(INT64, 'int64'), (ScalarArgument(FLOAT, 'float32'),)*2,
    ]
    assert list(map(format_type, parse_signature('void(float32[:,::1], int64)'))) == ['float32[:,::1]', 'int64']


# Calls

@pytest.mark.parametrize('f,name', [
    (math.sqrt, 'math.sqrt'), (np.sqrt, 'np.sqrt'), (operator.add, 'operator.add'), (abs, 'abs'),
    (cuda, 'cuda'), (cuda.grid, 'cuda.grid'),
    (cuda.atomic.add, 'cuda.atomic.add'), (cuda.threadIdx, 'cuda.threadIdx'), (cuda.shared.array, 'cuda.shared.array'),
])
def test_functions_are_known_however_they_were_imported(f, name):
    assert table_name(f) == name


# Lowering

def lowered(f, *args, **kw):
    return Unit(**kw).lower(Source(f), [argument_type(a) for a in args]).body


def scale(x, by, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i]*by


@pytest.mark.parametrize('numba_types,want', [(False, FLOAT), (True, DOUBLE)])
def test_statements_and_types_of_a_kernel(numba_types, want):
    x = np.zeros(4, np.float32)
    first, second = lowered(scale, x, 2., x, numba_types=numba_types)
    assert (first.kind, second.kind, second.body[0].kind) == ('assign', 'if', 'store')
    assert second.line == first.line+1 and second.body[0].expr.type == want


def test_a_name_may_hold_different_functions_in_no_kernel():
    src = 'def k(x):\n    f = abs\n    if x[0] > 1: f = %s\n    x[0] = f(x[0])\n'
    assert 'fabsf(x[0])' in to_cuda(function(src % 'abs'), np.zeros(1, 'f4'))
    with pytest.raises(Untranslatable, match='f refers to .*functions'):
        to_cuda(function(src % 'bool'), np.zeros(1, 'f4'))


# Positions

def test_an_element_of_a_matrix_is_a_row_and_a_column():
    h, w, r, c = (Expr('var', INT64, value=k) for k in 'hwrc')
    v = View(Buffer('m', 'float32', 'param', 2), (h, w), contiguous_strides((h, w)), is_contiguous=True)
    assert repr(c_index(v, (r, c))[0]) == 'add(mul(var[r](), var[w]()), var[c]())'


# Intervals

@pytest.mark.parametrize('op,a,b,want', [
    ('mul', (-2, 3), (0, 5), (-10, 15)), ('mod', (-5, 5), (1, 7), (0, 6)), ('floordiv', (0, 1023), (32, 32), (0, 31)),
    ('and', (-1, 100), (0, 31), (0, 31)), ('pow', (0, 3), (2, 2), (0, 9)), ('pow', (-3, 2), (3, 3), (-27, 27)),
])
def test_intervals_of_operations(op, a, b, want):
    assert INTERVAL_ARITHMETIC[op](a, b) == want


def stride(x, out, n):
    i = cuda.grid(1)
    h = cuda.blockDim.x//2
    total = seed = 0
    while h > 0: h //= 2
    while i < n:
        seed = seed*1103515245 + 12345 & 0x7fffffff
        total += x[i]
        i += cuda.gridsize(1)
    out[0] = total + seed + h


@pytest.mark.parametrize('all_int64,want', [
    (False, dict(n='int', i='int', h='int', total='long long', seed='int')),
    (True, dict.fromkeys(['n', 'i', 'h', 'total', 'seed'], 'long long')),
])
def test_variables_get_the_narrowest_type_that_holds_them(all_int64, want):
    unit = Unit(all_int64=all_int64)
    f = unit.lower(Source(stride), [argument_type(a) for a in (np.zeros(4, np.int32), np.zeros(4, int), 5)])
    choose_c_types(unit)
    assert {v.name: v.c_type for v in f.variables if v.c_type} == want


# Texts

TWO, THREE = const(2), const(3)
LESS = Expr('cmp', BOOL, (ONE, TWO), '<')


@pytest.mark.parametrize('e,want', [
    (Expr('mul', INT64, (Expr('add', INT64, (ONE, TWO)), THREE)), '(1 + 2)*3'),
    (Expr('shl', INT64, (Expr('add', INT64, (ONE, TWO)), THREE)), '(1 + 2) << 3'),
    (Expr('mul', FLOAT, (Expr('const', FLOAT, value=0.5), TWO)), '0.5f*2'),
    (Expr('truediv', DOUBLE, (TWO, THREE)), '2.0/3'),
    (const(2**40), '1099511627776LL'),
    (Expr('land', BOOL, (Expr('lor', BOOL, (LESS, LESS)), Expr('not', BOOL, (LESS,)))), '(1 < 2 || 1 < 2) && 1 >= 2'),
], ids=lambda o: o if isinstance(o, str) else '')
def test_texts_have_the_parentheses_that_c_needs(e, want):
    ranges = SimpleNamespace(nodes={}, recorded_interval=lambda e: (0, 100))
    emitter = ExpressionEmitter(SimpleNamespace(all_int64=False, numba_types=False), ranges)
    assert emitter.text(e) == want


# Names

@pytest.mark.parametrize('name,want', [('x', 'x'), ('float', 'float_'), ('_', '_'), ('größe', 'gruf6udfe')])
def test_names_keep_their_spelling_where_c_allows_it(name, want):
    assert Names().unused_name(name) == want


def test_names_that_are_taken():
    assert Names().take_at_file_scope('y0') == 'y0_'
    assert [Names().unused_name('x', {'x'}), Names().unused_name('x2', {'x2'})] == ['x2', 'x2_2']


def test_the_innermost_block_of_several_positions():
    a, b = [('block', 0), ('body', 1)], [('block', 0), ('body', 3)]
    assert innermost_block([a, b]) == ('block', 'body')
    assert innermost_block([a, [('block', 2), ('other', 0)]]) == ('block',)


# The whole

def doubled(x, out):
    i = cuda.grid(1)
    out[i] = x[i]*0.1 + x[i]*0.5
    out[i+1] = x[i]*0.5


def text(**how):
    x = np.zeros(4, np.float32)
    return to_cuda(doubled, x, x, **how)


def test_python_floats_take_the_precision_of_the_array():
    assert 'out[i] = x[i]*0.1f + x[i]*0.5f;' in text() and 'int i' in text()


def test_numbas_doubles_are_left_out_where_the_bits_are_the_same():
    t = text(numba_types=True)
    assert 'out[i] = (float)(x[i]*0.1 + x[i]*0.5);' in t and 'out[i + 1] = x[i]*0.5f;' in t


def test_wide_indices():
    assert 'long long i' in text(all_int64=True)
