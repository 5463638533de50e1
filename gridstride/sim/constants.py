"""What Numba must know at compile time: integers of at most 64 bits, and the shapes of shared and local arrays.

A size is a number, a name of one outside the kernel, a variable that is assigned one, or a tuple of these; neither
`cuda.blockDim.x` nor `x.size`. `TILE + 1` is taken, as CUDA C takes it; Numba requires a name for the sum.
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
    'SIZE',
    'SIZE_HINT',
    'check_constants',
    'constant',
    'fits',
    'fold_integer',
    'outside',
    'outer_names_read',
    'shape_of',
]
__all__ += ['static_bytes']

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

SIZE = 'the size of this array is not known when the kernel is compiled'
SIZE_HINT = (
    'Use integers, or names of integers outside the kernel; for a size that an argument gives, '
    'cuda.shared.array(0, dtype).'
)
LARGE_HINT = 'Numba refuses it, too. As a float it is in range: 1e30 rather than 10**30.'


def outside(f):
    "Return {name: value} of the names that `f` reads from its globals and its closure"
    closure = {k: c.cell_contents for k, c in zip(f.__code__.co_freevars, f.__closure__ or ()) if _is_filled(c)}
    return {**f.__globals__, **closure}


def outer_names_read(f):
    "Return the globals, and names of its closure, that `f` reads; an attribute `.x` does not read a global `x`"
    loaded = {
        instruction.argval
        for instruction in dis.get_instructions(f)
        if instruction.opname in ('LOAD_GLOBAL', 'LOAD_NAME')
    }
    return loaded.union(f.__code__.co_freevars)


def _is_filled(cell):
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def _is_integer(v):
    return isinstance(v, int) and not isinstance(v, bool)


def fits(
    v,  # a Python int
) -> bool:
    "Return whether a 64-bit integer can hold `v`: whether it is in -2**63 to 2**64-1"
    return -(2**63) <= v < 2**64


def fold_integer(node, part=None):
    "Evaluate an integer expression of literals and of what `part` knows; returns None for any other expression"
    part = part or fold_integer
    if isinstance(node, ast.Constant):
        return node.value if _is_integer(node.value) else None
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        v = part(node.operand)
        return _UNARY[type(node.op)](v) if _is_integer(v) else None
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        a, b = part(node.left), part(node.right)
        if not (_is_integer(a) and _is_integer(b)):
            return None
        try:
            return _BINARY[type(node.op)](a, b)
        except (ArithmeticError, ValueError):
            return None


def constant(
    node,  # an expression in
    fn,  # the syntax tree of a function
    names,  # the values of its names outside the function
):  # an int, a tuple of such, or None
    "Return the value of an expression that Numba knows at compile time"
    if (v := fold_integer(node, lambda operand: constant(operand, fn, names))) is not None:
        return v
    if isinstance(node, ast.Tuple):
        parts = tuple(constant(part, fn, names) for part in node.elts)
        return None if None in parts else parts
    if isinstance(node, ast.Subscript):
        of = constant(node.value, fn, names)
        i = fold_integer(node.slice)
        return of[i] if isinstance(of, tuple) and i is not None and -len(of) <= i < len(of) else None
    if isinstance(node, ast.Name) and node.id in _local_names(fn):
        given = _last_value(fn, node)
        return None if given is None else constant(given, fn, names)
    v = _outer_value(node, names)
    known = _is_integer(v) or isinstance(v, tuple) and all(map(_is_integer, v))
    return v if known else None


def _outer_value(node, names):
    "Return the value of `a` or `a.b` outside the function; None if it is undefined"
    if isinstance(node, ast.Attribute):
        of = _outer_value(node.value, names)
        return getattr(of, node.attr, None) if isinstance(of, (types.ModuleType, type)) else None
    return names.get(node.id) if isinstance(node, ast.Name) else None


def _local_names(fn):
    "Return the names of a function's parameters and variables"
    stored = {node.id for node in walk(fn) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {arg.arg for arg in fn.args.args}


def _last_value(fn, use):
    "Return the expression last assigned to a variable above its use; None for a loop variable, `n += 1` and the like"
    at = use.lineno, use.col_offset
    stores = [
        node
        for node in walk(fn)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == use.id
    ]
    last = max(
        (node for node in stores if (node.lineno, node.col_offset) < at), key=lambda store: store.lineno, default=None
    )
    for s in walk(fn):
        if isinstance(s, ast.Assign) and last in s.targets or isinstance(s, ast.AnnAssign) and s.target is last:
            return s.value


def _space(call):
    "Return the space of a call: 'shared' for `cuda.shared.array`"
    return getattr(call.func.value, 'attr', getattr(call.func.value, 'id', ''))


def shape_of(node):
    "Return the shape argument of `cuda.shared.array` or `cuda.local.array`; None for any other node"
    if not isinstance(node, ast.Call) or getattr(node.func, 'attr', '') != 'array':
        return None
    space = _space(node)
    given = [*node.args[:1], *(k.value for k in node.keywords if k.arg == 'shape')]
    return given[0] if space in ('shared', 'local') and given else None


def static_bytes(f):
    "Return the bytes of static shared memory that a function allocates, as far as its source determines them"
    if (tree := tree_of(f)) is None:
        return 0
    fn = tree.body[0]
    names = outside(f)
    calls = (call for call in walk(fn) if shape_of(call) and _space(call) == 'shared')
    return sum(_array_bytes(call, constant(shape_of(call), fn, names), names) for call in calls)


def _array_bytes(call, shape, names):
    "Return the bytes of the array that a call makes; 0 if unknown"
    kinds = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == 'dtype')]
    try:
        dtype = np.dtype(eval(compile(ast.Expression(kinds[0]), '<dtype>', 'eval'), dict(names)))
        return math.prod(shape if isinstance(shape, tuple) else (shape,)) * dtype.itemsize
    except (IndexError, NameError, AttributeError, TypeError):
        return 0


def check_constants(
    fn,  # the syntax tree of a kernel, or a device function
    names,  # the values, outside the function, of the names that it reads
    kernel,  # is it a kernel? A device function may get the size as an argument
    fail,  # raises for a node, what is wrong with it, and what to do
):
    "Refuse the numbers, containers and array shapes that Numba would not compile"
    own = _local_names(fn)
    _check_containers(fn, {k: v for k, v in names.items() if k not in own}, fail)
    _check_numbers(fn, {k: v for k, v in names.items() if k not in own}, fail)
    for node in walk(fn):
        shape = shape_of(node)
        for size in shape.elts if isinstance(shape, ast.Tuple) else [shape] if shape else ():
            is_argument = not kernel and isinstance(size, ast.Name) and size.id in own
            if not is_argument and getattr(size, 'attr', '') != 'ndim' and constant(size, fn, names) is None:
                fail(node, SIZE, SIZE_HINT)


_CONTAINERS = list, dict, set, range, bytearray


def _check_containers(fn, names, fail):
    for node in walk(fn):
        v = names.get(node.id) if isinstance(node, ast.Name) else None
        for element in v if isinstance(v, tuple) else [v]:
            if isinstance(element, _CONTAINERS):
                what = f'{node.id}, a {type(element).__name__} outside the kernel, which Numba does not compile'
                fail(node, what, f'Use a tuple, or an array: {node.id} = np.array(...).')


def _check_numbers(node, names, fail):
    v = fold_integer(node)
    if v is None and isinstance(node, ast.Name) and _is_integer(names.get(node.id)):
        v = names[node.id]
    if v is not None and not fits(v):
        fail(node, f'the integer {v} needs more than 64 bits', LARGE_HINT)
    for child in children(node) if v is None else ():
        _check_numbers(child, names, fail)
