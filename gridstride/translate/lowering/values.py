"""Lowers expressions: names, literals, operators and calls.

A name that the function assigns is a variable; any other name is looked up at translation, and its value becomes a
constant, as in Numba.
"""

import ast
import inspect
import math
import types
from types import SimpleNamespace

import numpy as np

from ...sim.operations import device_function_hint
from ...sim.types import is_number_type
from ..source import python_function
from ..tree import ONE, ZERO, Expr, Literal, Memory, View, array, const, mul, number, row_strides, tuple_of
from ..types import BOOL, C_NAMES, DOUBLE, INT, UINT, WEAK, Array, describe, join_types, value_type
from . import convert, operators
from .call_table import CALLS, builtin, name_of
from .function import Function

_CONSTANT = 64 * 1024  # bytes of constant memory
_INDICES = ('cuda.threadIdx', 'cuda.blockIdx', 'cuda.blockDim', 'cuda.gridDim')
_TYPES = {'int': 'int64', 'float': 'float64', 'bool': 'bool'}  # what Python's types mean as a dtype

# Syntax of Python that CUDA C does not have, and what to write instead
_REFUSED = dict(
    ListComp='a list comprehension',
    SetComp='a set comprehension',
    DictComp='a dict comprehension',
    GeneratorExp='a generator',
    Lambda='a lambda',
    Dict='a dict',
    Set='a set',
    List='a list',
    JoinedStr='an f-string',
    NamedExpr='the operator :=',
    Starred='an argument with *',
    Await='await',
    Yield='yield',
    YieldFrom='yield',
    Try='try',
    With='with',
    Raise='raise',
    ClassDef='a class',
    FunctionDef='a function inside a kernel',
    Global='global',
    Nonlocal='nonlocal',
    Delete='del',
    Match='match',
    AsyncFor='async for',
    AsyncWith='async with',
    TryStar='try',
)
_INSTEAD = dict(
    Try='A GPU has no exceptions: test the condition with `if`.',
    Raise='A GPU has no exceptions: write an error code into an array.',
    With='There are no context managers on a GPU.',
    Dict='Use an array.',
    List='Use a tuple, or cuda.local.array.',
    ListComp='Write a loop.',
    JoinedStr='Pass the values to print one by one.',
    NamedExpr='Assign in a separate statement.',
    FunctionDef='Define it outside, with @cuda.jit(device=True).',
    Lambda='Define a function with @cuda.jit(device=True).',
)


def dtype_name(value):
    "Return the name of the dtype that the object `value` means; None if it means none"
    if isinstance(value, str) and value.startswith(('cuda.', 'np.')):
        return None
    if value in (int, float, bool):
        return _TYPES[value.__name__]
    try:
        return str(np.dtype(value)) if not type(value).__module__.startswith('numba') else str(np.dtype(str(value)))
    except TypeError:
        return None


def _is_finite(value):
    return not isinstance(value, float) or math.isfinite(value)


def _integer_type(value):
    "Return the type of the Python int `value`"
    return INT if -(2**63) <= value < 2**63 else UINT


def _is_array(value):
    is_tensor = type(value).__module__.startswith('torch') and hasattr(value, 'numel')
    return isinstance(value, (np.ndarray, list)) or type(value).__name__ == 'DeviceArray' or is_tensor


def _is_number_type(f):
    "Return whether calling the object `f` converts a number, like np.float32 and numba.float32"
    if is_number_type(f):
        return True
    return type(f).__module__.startswith('numba') and not hasattr(f, 'py_func')


class Values(Function):
    "Lower expressions: one method `lower_...` per kind of Python; any other kind raises an error"

    def lower(self, node):
        "Return the expression of a node of Python's syntax tree"
        f = getattr(self, f'lower_{type(node).__name__}', None)
        if f is None:
            raise self.refusal(node)
        return f(node)

    def refusal(self, node):
        "Return the error for syntax that CUDA C does not have"
        kind = type(node).__name__
        what = f'{_REFUSED.get(kind, kind.lower())} in a kernel cannot be written in CUDA C'
        return self.error(node, what, _INSTEAD.get(kind, ''))

    # Names and literals
    def lower_Constant(self, node):
        "Lower a number, a truth value, a text, `None` or `...`"
        v = node.value
        if isinstance(v, bool):
            return Expr('const', BOOL, value=v)
        if isinstance(v, int):
            e, text = Expr('const', _integer_type(v), value=v), self.source.segment(node) or ''
            return Literal(e, text) if text.startswith(('0x', '0X')) else e
        if isinstance(v, float):
            return self.float(v, self.source.segment(node))
        if isinstance(v, (str, type(None), type(...))):
            return Expr('object', None, value=v)
        raise self.error(node, f'{v!r}: complex numbers are not supported', 'Compute with two floats.')

    def float(self, value, text=None):
        "Return a Python float; `text`: as it is written in the source"
        e = Expr('const', DOUBLE if self.doubles else WEAK, value=value)
        return Literal(e, text) if text else e

    def lower_Name(self, node):
        "Lower a variable of the function, or the value of a name outside it"
        if node in self.reads:
            v = self.reads[node]
            if v is None:
                raise self.error(node, f'{node.id} is read before it has a value')
            return self.variable(node, v)
        known, value = self.source.look_up(node.id)
        if not known:
            hint = 'Define it before the kernel, or pass it as an argument.'
            raise self.error(node, f'{node.id} is not defined here', hint)
        return self.outer_value(node, value, node.id)

    def variable(self, node, v):
        "Return the expression of the variable `v`"
        if v.callee is not None:
            return v.callee
        if v.constant is not None:
            return v.constant
        if v.alias_of is not None:
            v = v.alias_of
        if v.parts is not None:
            return tuple_of([self.variable(node, p) for p in v.parts])
        if isinstance(v.type, Array):
            if v.view is None:
                raise self.error(node, f'{v.name} is read before it is an array')
            return array(v.view)
        return Expr('var', v.type, value=v)

    def outer_value(self, node, value, name):
        "Return the expression of an object outside the function"
        if isinstance(value, (bool, np.bool_)):
            return self.name_number(BOOL, name, bool(value))
        if isinstance(value, np.generic) and value.dtype.kind in 'iuf':
            return self.name_number(value_type(str(value.dtype)), name, value.item())
        if isinstance(value, int):
            return self.name_number(_integer_type(value), name, value)
        if isinstance(value, float):
            return (
                self.name_number(DOUBLE if self.doubles else WEAK, name, value)
                if _is_finite(value)
                else self.float(value)
            )
        if isinstance(value, tuple):
            return Expr(
                'tuple',
                None,
                [self.outer_value(node, item, None) for item in value],
                SimpleNamespace(name=name, value=value),
            )
        if _is_array(value):
            return self.freeze(node, value, name)
        return Expr('object', None, value=name_of(value) or value)

    def name_number(self, t, name, value):
        "Return a constant that has a name outside the function"
        if name is None or not _is_finite(value):
            return Expr('const', t, value=value)
        return Expr('global', t, value=(name, value))

    def freeze(self, node, value, name):
        "Return an array outside the function: constant memory"
        a = np.asarray(getattr(value, 'data', value) if type(value).__name__ == 'DeviceArray' else value)
        if a.dtype.kind not in 'biuf':
            raise self.error(node, f'{name} is an array of {a.dtype}, which CUDA C does not have')
        if a.nbytes > _CONSTANT:
            limit = f'variables captured from outside a kernel are stored in constant memory, which has {_CONSTANT}'
            raise self.error(node, f'{name} has {a.nbytes} bytes; {limit}', 'Pass it as an argument.')
        m = self.unit.constant(SimpleNamespace(name=name or 'table', value=value), a, self)
        sizes = [const(n) for n in a.shape]
        return array(View(m, sizes, row_strides(sizes), plain=True))

    def lower_Tuple(self, node):
        "Lower `(a, b)`"
        return tuple_of([self.lower(inner) for inner in node.elts])

    # Attributes
    def lower_Attribute(self, node):
        "Lower `a.b`: of an array, of a tuple with names, of a module"
        e, k = self.lower(node.value), node.attr
        if e.op == 'view':
            return self.attribute(node, e, k)
        if e.op == 'tuple' and hasattr(getattr(e.value, 'value', None), k):
            return self.outer_value(node, getattr(e.value.value, k), k)
        if e.op != 'object':
            raise self.error(node, f'{describe(e.type)} has no {k!r} in a kernel')
        if isinstance(e.value, str) and e.value.startswith('cuda'):
            return self.cuda_name(node, f'{e.value}.{k}')
        try:
            v = getattr(e.value, k)
        except Exception:
            what = f'{ast.unparse(node)} does not exist when the kernel is translated'
            raise self.error(node, what) from None
        if not inspect.ismodule(e.value):
            return self.outer_value(node, v, k)
        return self.float(v) if isinstance(v, float) else self.outer_value(node, v, None)

    def cuda_name(self, node, path):
        "Return what the dotted name `path`, which begins with `cuda.`, means"
        base, _, axis = path.rpartition('.')
        if base in _INDICES:
            if axis not in 'xyz':
                raise self.error(node, f'{path}: axes are x, y and z')
            return builtin(path[5:])
        if path == 'cuda.laneid':
            return Expr('lane', INT)
        if path == 'cuda.warpsize':
            return const(32)
        if path in CALLS or path in _INDICES or any(name.startswith(path + '.') for name in CALLS):
            return Expr('object', None, value=path)
        v = self.source.look_up('cuda')[1]
        for k in path.split('.')[1:]:
            v = getattr(v, k, None)
        if v is not None and dtype_name(v) or hasattr(v, 'py_func'):
            return Expr('object', None, value=v)
        raise self.error(node, f'{path} is not supported by to_cuda')

    def attribute(self, node, expr, k):
        "Return the attribute `k` of an array: `x.size`"
        view = expr.value
        if k == 'shape':
            sizes = enumerate(view.sizes)
            return tuple_of([Expr('size_of', INT, value=(view, d)) if s is None else s for d, s in sizes])
        if k == 'size':
            n = ONE
            for d in range(view.ndim):
                n = mul(n, self.arrays.size(node, expr, d))
            return n
        if k == 'ndim':
            return const(view.ndim)
        if k == 'dtype':
            return Expr('object', None, value=np.dtype(view.memory.dtype))
        if k == 'itemsize':
            return const(np.dtype(view.memory.dtype).itemsize)
        if k == 'T':
            return self.arrays.transpose(node, expr)
        raise self.error(node, f'an array in a kernel has no {k!r}: work on its elements')

    def dtype(self, node, expr):
        "Return the dtype that an expression means"
        name = dtype_name(expr.value) if expr.op == 'object' else None
        if name is None and expr.op == 'object' and expr.value in ('int', 'float', 'bool'):
            name = _TYPES[expr.value]
        if name not in C_NAMES:
            raise self.error(node, 'this is not an element type', 'Use np.float32, np.int32 or another scalar type.')
        return name

    # Parts of arrays and tuples
    def lower_Subscript(self, node):
        "Lower `a[...]`, of an array or a tuple"
        e = self.lower(node.value)
        return self.part(node, e) if e.op == 'tuple' else self.arrays.subscript(node, e)

    def part(self, node, expr):
        "Return the item of a tuple"
        i = self.lower(node.slice)
        k = number(i)
        if k is not None:
            if not -len(expr.args) <= k < len(expr.args):
                raise self.error(node, f'a tuple of {len(expr.args)} has no item {k}')
            return expr.args[k]
        if i.op == 'object':
            raise self.error(node, 'a slice of a tuple')
        return self.choose(node, expr, convert.as_number(convert.need_number(i)))

    def choose(self, node, expr, i):
        "Return the item `i` of a tuple of values, where `i` is known only at run time"
        t = None
        for operand in expr.args:
            if not convert.is_number_like(operand):
                what = 'a tuple of items that are not scalars, indexed by a variable'
                raise self.error(node, what, 'Index it with a number.')
            t = join_types(t, operand.type, self.doubles)
        if expr.value and all(number(operand) is not None for operand in expr.args):
            m = self.unit.constant(expr.value, np.array([number(operand) for operand in expr.args]), self)
        else:
            m = Memory('items', t, 'local', 1, [const(len(expr.args))])
            m.items = expr.args
            self.emit('alloc', node, memory=m, args=expr.args)
        m.used = True
        return Expr('load', t, [i], m)

    # Operators
    def lower_BinOp(self, node):
        "Lower `a + b` and the like"
        return operators.binary(self, node, type(node.op).__name__, self.lower(node.left), self.lower(node.right))

    def lower_UnaryOp(self, node):
        "Lower `-a`, `+a`, `~a`, `not a`"
        if isinstance(node.op, ast.Not):
            return Expr('not', BOOL, (convert.truth(self.lower(node.operand)),))
        return operators.unary(self, node, operators.UNARY[type(node.op)], self.lower(node.operand))

    def lower_Compare(self, node):
        "Lower `a < b`, also `a < b < c` and `a in b`"
        left, parts = self.lower(node.left), []
        for n, (op, right) in enumerate(zip(node.ops, node.comparators)):
            b = self.lower(right)
            if isinstance(op, (ast.In, ast.NotIn)):
                parts.append(operators.contains(self, node, left, b, isinstance(op, ast.NotIn)))
                continue
            last, sign = n + 1 == len(node.ops), operators.COMPARE[type(op)]
            if last or operators.is_cheap(b):
                parts.append(operators.compare(self, node, sign, left, b))
                left = b
                continue
            v = self.new_variable(node, 'middle', b.type, unique_name=True)  # the middle of a < b < c is computed once
            parts.append(operators.compare(self, node, sign, left, Expr('let', b.type, (b,), v)))
            left = Expr('var', b.type, value=v)
        return operators.all_of(parts)

    def lower_BoolOp(self, node):
        "Lower `a and b`, `a or b`"
        res = self.lower(node.values[0])
        op = 'land' if isinstance(node.op, ast.And) else 'lor'
        for n in node.values[1:]:
            res = operators.connect(self, node, op, res, self.without_statements(node, lambda: self.lower(n)))
        return res

    def lower_IfExp(self, node):
        "Lower `a if test else b`"
        test = self.lower(node.test)
        a, b = (self.without_statements(node, lambda: self.lower(branch)) for branch in (node.body, node.orelse))
        return operators.choose(self, node, test, a, b)

    # Calls: the table of `calls` has what CUDA and Python offer; a device function is lowered once per set of
    # types that it is called with.
    def callee_name(self, node):
        "Return 'print', 'range' or 'prange' for a call of these, else None"
        f = node.func
        if not isinstance(f, ast.Name) or f in self.reads:
            return None
        value = self.source.look_up(f.id)[1]
        return getattr(value, '__name__', None) if value in (print, range) or f.id == 'prange' else None

    def lower_Call(self, node):
        "Lower `f(...)`, with arguments that are written out"
        f = self.lower(node.func)
        if f.op != 'object':
            raise self.error(node, f'{ast.unparse(node.func)} cannot be called: it is {describe(f.type)}')
        f, starred = f.value, [a for a in node.args if isinstance(a, ast.Starred)]
        if starred:
            raise self.refusal(starred[0])
        if any(k.arg is None for k in node.keywords):
            raise self.error(node, 'an argument with ** in a kernel')
        args = [self.lower(a) for a in node.args]
        kw = {k.arg: self.lower(k.value) for k in node.keywords}
        return self.call(node, f, args, kw)

    def call(self, node, f, args, kw):
        "Return a call of the object `f`, or of what the table of calls has under the name `f`"
        if isinstance(f, str) and f in CALLS:
            return self.known_call(node, f, args, kw)
        if f == 'zip' or f == 'enumerate':
            return self.pair(node, f, args, kw)
        if f == 'range':
            return tuple_of([const(i) for i in range(*(self.need_fixed(node, a) for a in args))])
        if isinstance(f, str):
            raise self.error(node, f'{ast.unparse(node.func)} in a kernel')
        dtype = dtype_name(f) if _is_number_type(f) else None
        if dtype in C_NAMES:
            return convert.cast(dtype, convert.need_number(args[0]) if args else ZERO)
        if isinstance(f, type) and issubclass(f, tuple):
            return Expr('tuple', None, args, SimpleNamespace(name=None, value=None))
        return self.device_call(node, f, args, kw)

    def known_call(self, node, f, args, kw):
        "Return a call of what the table has under the name `f`"
        try:
            return CALLS[f](self, node, *args, **kw)
        except convert.Misused as e:
            raise self.error(node, f'{f} of {e.what()}', 'Pass scalars.') from None
        except TypeError as e:
            if 'argument' not in str(e) and str(e):
                raise
            raise self.error(node, f'{f} does not take these arguments') from None

    def need_fixed(self, node, expr):
        "Return the number that `expr` is, which must be known at compile time"
        if number(expr) is None:
            raise self.error(
                node, 'range() outside a for loop needs bounds that are known at compile time', 'Use it in a for loop.'
            )
        return number(expr)

    def pair(self, node, f, args, kw):
        "Lower `zip(...)` and `enumerate(...)`, of tuples"
        if f == 'zip':
            return tuple_of([tuple_of(list(group)) for group in zip(*(self.need_tuple(node, a).args for a in args))])
        start = self.need_fixed(node, kw.get('start', args[1] if len(args) > 1 else ZERO))
        items = self.need_tuple(node, args[0]).args
        return tuple_of([tuple_of([const(i), item]) for i, item in enumerate(items, start)])

    def device_call(self, node, f, args, kw):
        "Return a call of a device function"
        if isinstance(f, types.FunctionType):
            what = f'{f.__name__} is a plain Python function, which Numba does not compile'
            raise self.error(node, what, device_function_hint(f))
        g = python_function(f)
        if not isinstance(g, types.FunctionType):
            raise self.error(node, f'calling {getattr(f, "__name__", f)!r} in a kernel')
        if type(f).__name__ == 'Kernel':
            hint = 'Put @cuda.jit(device=True) above it.'
            raise self.error(node, f'{f.__name__} is a kernel; a kernel calls device functions only', hint)
        return self.unit.call(self, node, g, args, kw)
