"""Evaluates expressions that Numba must know at compile time: integers, and shapes of shared and local arrays.

A size is an integer, a name of an integer outside the kernel, a variable that is assigned one, or a tuple of these. It
cannot be `cuda.blockDim.x` or `x.size`. `TILE + 1` is accepted, as in CUDA C; Numba requires a name for the sum.
"""

import ast
import dis
import math
import operator
import types

import numpy as np

from ..support.function_source import tree_of
from .trees import children, walk

__all__ = [
    'UNKNOWN_SIZE',
    'UNKNOWN_SIZE_HINT',
    'check_constants',
    'constant',
    'fits_64_bits',
    'fold_integer',
    'outer_values',
    'outer_names_read',
    'shape_argument',
    'static_shared_bytes',
]

_UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}
_BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: lambda a, b: a**b if 0 <= b <= 128 else None,
    ast.LShift: lambda a, b: a << b if 0 <= b <= 128 else None,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}

UNKNOWN_SIZE = 'the size of this array must be a compile-time constant'
UNKNOWN_SIZE_HINT = (
    'Use integers, or names of integers outside the kernel; for dynamic shared memory, whose '
    'size is set at launch, pass shape 0: cuda.shared.array(0, dtype).'
)
_LARGE_INTEGER_HINT = 'Numba rejects it, too. Use a float: 1e30 instead of 10**30.'


def outer_values(fn):
    "Return {name: value} of the names that `fn` reads from its globals and its closure"
    value_of_closure_name = {
        name: cell.cell_contents
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ())
        if _is_filled(cell)
    }
    return {**fn.__globals__, **value_of_closure_name}


def outer_names_read(fn):
    "Return the names of the globals and of the closure that `fn` reads; an attribute `.x` does not read a global `x`"
    global_names = {
        instruction.argval
        for instruction in dis.get_instructions(fn)
        if instruction.opname in ('LOAD_GLOBAL', 'LOAD_NAME')
    }
    return global_names.union(fn.__code__.co_freevars)


def _is_filled(cell):
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def _is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


def fits_64_bits(
    value,  # a Python int
) -> bool:
    """Return whether `value` is in the range of int64 or of uint64: -2**63 to 2**64-1.

    >>> fits_64_bits(2**64 - 1), fits_64_bits(2**64)
    (True, False)"""
    return -(2**63) <= value < 2**64


def fold_integer(node, evaluate_operand=None):
    "Return the value of an integer expression, None if it is not constant; `evaluate_operand` evaluates its operands"
    evaluate_operand = evaluate_operand or fold_integer
    if isinstance(node, ast.Constant):
        return node.value if _is_integer(node.value) else None
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        value = evaluate_operand(node.operand)
        return _UNARY[type(node.op)](value) if _is_integer(value) else None
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = evaluate_operand(node.left), evaluate_operand(node.right)
        if not (_is_integer(left) and _is_integer(right)):
            return None
        try:
            return _BINARY[type(node.op)](left, right)
        except (ArithmeticError, ValueError):
            return None


def constant(
    node,  # an expression in `function`
    function,  # the syntax tree of a function
    value_of_name,  # values of names outside the function
):  # an int, a tuple of ints, or None
    "Return the value of an expression that is constant at compile time; None for any other expression"
    if (value := fold_integer(node, lambda operand: constant(operand, function, value_of_name))) is not None:
        return value
    if isinstance(node, ast.Tuple):
        items = tuple(constant(item, function, value_of_name) for item in node.elts)
        return None if None in items else items
    if isinstance(node, ast.Subscript):
        container = constant(node.value, function, value_of_name)
        index = fold_integer(node.slice)
        return (
            container[index]
            if isinstance(container, tuple) and index is not None and -len(container) <= index < len(container)
            else None
        )
    if isinstance(node, ast.Name) and node.id in _local_names(function):
        expression = _last_assigned_expression(function, node)
        return None if expression is None else constant(expression, function, value_of_name)
    value = _outer_value(node, value_of_name)
    is_constant = _is_integer(value) or isinstance(value, tuple) and all(map(_is_integer, value))
    return value if is_constant else None


def _outer_value(node, value_of_name):
    "Return the value of a name, `a` or `a.b`, outside the function; None if it is undefined"
    if isinstance(node, ast.Attribute):
        namespace = _outer_value(node.value, value_of_name)
        return getattr(namespace, node.attr, None) if isinstance(namespace, (types.ModuleType, type)) else None
    return value_of_name.get(node.id) if isinstance(node, ast.Name) else None


def _local_names(function):
    "Return the names of a function's parameters and variables"
    assigned_names = {
        node.id for node in walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return assigned_names | {arg.arg for arg in function.args.args}


def _last_assigned_expression(function, use):
    "Return the expression of the last assignment to a variable before `use`; None if it is not a plain assignment"
    use_position = use.lineno, use.col_offset
    stores = [
        node
        for node in walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == use.id
    ]
    last_store = max(
        (node for node in stores if (node.lineno, node.col_offset) < use_position),
        key=lambda store: store.lineno,
        default=None,
    )
    for statement in walk(function):
        if (
            isinstance(statement, ast.Assign)
            and last_store in statement.targets
            or isinstance(statement, ast.AnnAssign)
            and statement.target is last_store
        ):
            return statement.value


def _memory_space(call):
    "Return the memory space of a call: 'shared' for `cuda.shared.array`"
    return getattr(call.func.value, 'attr', getattr(call.func.value, 'id', ''))


def shape_argument(node):
    "Return the shape argument of `cuda.shared.array` or `cuda.local.array`; None for any other node"
    if not isinstance(node, ast.Call) or getattr(node.func, 'attr', '') != 'array':
        return None
    space = _memory_space(node)
    shapes = [*node.args[:1], *(k.value for k in node.keywords if k.arg == 'shape')]
    return shapes[0] if space in ('shared', 'local') and shapes else None


def static_shared_bytes(fn):
    "Return the bytes of static shared memory that a function allocates; arrays whose size is unknown count as 0"
    if (tree := tree_of(fn)) is None:
        return 0
    function = tree.body[0]
    value_of_name = outer_values(fn)
    calls = (call for call in walk(function) if shape_argument(call) and _memory_space(call) == 'shared')
    return sum(
        _array_bytes(call, constant(shape_argument(call), function, value_of_name), value_of_name) for call in calls
    )


def _array_bytes(call, shape, value_of_name):
    "Return the bytes of the array that a call allocates; 0 if unknown"
    dtypes = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == 'dtype')]
    try:
        dtype = np.dtype(eval(compile(ast.Expression(dtypes[0]), '<dtype>', 'eval'), dict(value_of_name)))
        return math.prod(shape if isinstance(shape, tuple) else (shape,)) * dtype.itemsize
    except (IndexError, NameError, AttributeError, TypeError):
        return 0


def check_constants(
    function,  # the syntax tree of a kernel, or a device function
    value_of_name,  # values of names outside the function
    is_kernel,  # whether it is a kernel; a device function may take a size as an argument
    fail,  # a function of (node, problem, hint), which raises
):
    "Call `fail` for integers, containers and array shapes that Numba would not compile"
    local_names = _local_names(function)
    _check_containers(function, {name: value for name, value in value_of_name.items() if name not in local_names}, fail)
    _check_integers(function, {name: value for name, value in value_of_name.items() if name not in local_names}, fail)
    for node in walk(function):
        shape = shape_argument(node)
        for size in shape.elts if isinstance(shape, ast.Tuple) else [shape] if shape else ():
            is_argument = not is_kernel and isinstance(size, ast.Name) and size.id in local_names
            if (
                not is_argument
                and getattr(size, 'attr', '') != 'ndim'
                and constant(size, function, value_of_name) is None
            ):
                fail(node, UNKNOWN_SIZE, UNKNOWN_SIZE_HINT)


_CONTAINERS = list, dict, set, range, bytearray


def _check_containers(function, value_of_name, fail):
    for node in walk(function):
        value = value_of_name.get(node.id) if isinstance(node, ast.Name) else None
        for element in value if isinstance(value, tuple) else [value]:
            if isinstance(element, _CONTAINERS):
                problem = f'a kernel cannot use the global variable {node.id}, because it is a {type(element).__name__}'
                fail(node, problem, f'Use a tuple, or an array: {node.id} = np.array(...).')


def _check_integers(node, value_of_name, fail):
    value = fold_integer(node)
    if value is None and isinstance(node, ast.Name) and _is_integer(value_of_name.get(node.id)):
        value = value_of_name[node.id]
    if value is not None and not fits_64_bits(value):
        fail(node, f'the integer {value} needs more than 64 bits', _LARGE_INTEGER_HINT)
    for child in children(node) if value is None else ():
        _check_integers(child, value_of_name, fail)
