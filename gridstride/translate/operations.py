"""The tables of the intermediate representation: all operations of expressions, and all kinds of statements.

Each pass over the tree has one rule per row: `codegen` emits an operation with the method `_expr_<name>` and
a statement with `_stmt_<kind>`; `ranges` computes intervals with `_range_<name>` and `_run_<kind>`.
Tests compare these methods with the tables, and `verify` compares a lowered kernel with them.
"""

from typing import Callable, NamedTuple

from .flow import Variable
from .tree import Atomic, Call, Buffer, View
from .types import C_NAMES, WEAK

BUILTINS = {f'{name}.{a}' for name in ('threadIdx', 'blockIdx', 'blockDim', 'gridDim') for a in 'xyz'}
COMPARISONS = ('<', '<=', '>', '>=', '==', '!=')
SWAPPED_COMPARISON = {'<': '>', '<=': '>=', '>': '<', '>=': '<=', '==': '==', '!=': '!='}  # `a < b` is `b > a`
NEGATED_COMPARISON = {'<': '>=', '<=': '>', '>': '<=', '>=': '<', '==': '!=', '!=': '=='}


class Operation(NamedTuple):
    """An operation of expressions.

    `operand_kinds`: one kind of type per operand; `*` after a kind means any number of operands, `?` an optional one.
    `result_kinds`: the kinds of type that the result may have.
    The kinds are: integer (bool included), float, bool, number (all of these), void, tuple, array, object. An operand
    may also be `any`, or `same`: an integer if the result is an integer, else any number.
    `value`: the class of the attribute `value` of the expression; None if it has none.
    `rule`: a predicate that such an expression must satisfy.
    """

    operand_kinds: str
    result_kinds: str
    value: object = None
    rule: Callable = lambda e: True


_arithmetic = Operation('same same', 'number')
_integer_operation = Operation('integer integer', 'integer')
_dimension = tuple  # (buffer, dimension)

OPERATIONS = {
    # Leaves
    'const': Operation('', 'number', (bool, int, float)),
    'global': Operation('', 'number', tuple, lambda e: len(e.value) == 2 and isinstance(e.value[0], str)),
    'var': Operation('', 'number tuple', Variable, lambda e: e.type == e.value.type),
    'builtin': Operation('', 'integer', str, lambda e: e.value in BUILTINS),
    'lane': Operation('', 'integer'),
    'size': Operation('', 'integer', _dimension, lambda e: isinstance(e.value[0], Buffer)),
    'stride': Operation('', 'integer', _dimension, lambda e: isinstance(e.value[0], Buffer)),
    'start': Operation('', 'integer', Buffer),
    'size_of': Operation(
        '', 'integer', _dimension, lambda e: isinstance(e.value[0], View)
    ),  # of an array whose size C does not know
    # Arithmetic
    'add': _arithmetic,
    'sub': _arithmetic,
    'mul': _arithmetic,
    'truediv': Operation('number number', 'float'),
    'floordiv': _arithmetic,  # Python's, rounded down
    'mod': _arithmetic,  # Python's, with the sign of the divisor
    'cmod': _arithmetic,  # C's, with the sign of the dividend
    'pow': _arithmetic,
    'neg': Operation('same', 'number'),
    'abs': Operation('integer', 'integer'),
    'min': _arithmetic,
    'max': _arithmetic,
    'fmin': Operation('number number', 'float'),
    'fmax': Operation('number number', 'float'),
    'shl': _integer_operation,
    'shr': _integer_operation,
    'and': _integer_operation,
    'or': _integer_operation,
    'xor': _integer_operation,
    'invert': Operation('integer', 'integer'),
    'bits': Operation('integer', 'integer', str, lambda e: e.value in ('popc', 'clz', 'brev', 'ffs')),
    # Conversions: `value` is the dtype
    'cast': Operation('number', 'number', str, lambda e: e.value in C_NAMES or e.value == WEAK),
    # Truth
    'truth': Operation('number', 'bool'),
    'not': Operation('bool', 'bool'),
    'land': Operation('bool bool', 'bool'),
    'lor': Operation('bool bool', 'bool'),
    'value_land': Operation('number number', 'number', (Variable, type(None))),
    'value_lor': Operation('number number', 'number', (Variable, type(None))),
    'cmp': Operation('number number', 'bool', str, lambda e: e.value in COMPARISONS),
    'select': Operation('bool same same', 'number'),
    'let': Operation('number', 'number', Variable),
    'flag': Operation('integer', 'integer'),
    # Memory
    'load': Operation('integer*', 'number', Buffer, lambda e: len(e.args) in (1, e.value.ndim)),
    'address': Operation('integer*', 'void', Buffer),
    # The offset of an element, with a check of its index: n indices, n sizes, n strides
    'checked_offset': Operation('integer*', 'integer', tuple, lambda e: len(e.args) % 3 == 0),
    'pointer_to': Operation('number', 'integer', None, lambda e: e.args[0].op == 'var'),
    'atomic': Operation('number*', 'number', Atomic, lambda e: len(e.args) - e.value.num_indices in (1, 2)),
    # Functions
    'math': Operation('number*', 'float', str, lambda e: 1 <= len(e.args) <= 3),
    'test_float': Operation('float', 'bool', str, lambda e: e.value in ('isnan', 'isinf', 'isfinite')),
    'call': Operation('number*', 'number void', Call),
    'shuffle': Operation('number integer integer integer?', 'number', str),
    'device_call': Operation(
        'any*', 'number tuple void', object, lambda e: len(e.args) == len(e.value.parameter_exprs)
    ),
    'field': Operation('tuple', 'number', int, lambda e: e.args[0].value.result_of is not None),
    # Not scalars: lowering decomposes them, except arguments of device functions
    'view': Operation('', 'array', View),
    'tuple': Operation('any*', 'tuple void', object),
    'object': Operation('', 'void', object),
    # An operation on an operand without a type; lowering iterates until none is left
    'unknown': Operation('any any', 'unknown'),
}
LOWERED_AWAY = {'tuple', 'object', 'unknown'}  # operations that lowering removes

# The fields of each kind of statement: name -> kind of value (`verify._IS_VALID_FIELD`). A `symbol` is the operator of
# a statement such as `a[i] += 1`, or None. A field whose kind ends in `?` may be missing.
STATEMENTS = {
    'assign': dict(var='variable', expr='value', aug_op='symbol'),
    'pointer': dict(var='variable', buffer='buffer', address='address'),
    'alloc': dict(buffer='buffer', args='scalars?'),  # args: the initial items
    'store': dict(buffer='buffer', index='integers', expr='number', aug_op='symbol'),
    'expr': dict(expr='value'),
    'if': dict(test='bool', body='block', orelse='block', has_elif='flag'),
    'while': dict(test='bool', body='block'),
    'for': dict(var='variable', start='integer', stop='integer', step='integer', body='block'),
    'for_tuple': dict(targets='targets', num_iterations='count', body='block'),
    'break': {},
    'continue': {},
    'return': dict(args='scalars'),
    'print': dict(items='items', args='scalars', sep='text', end='text'),
    'assert': dict(test='bool'),
    'pass': {},
}
