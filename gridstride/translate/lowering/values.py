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
from ..tree import (
    ONE,
    ZERO,
    Expr,
    Literal,
    Buffer,
    View,
    view_expr,
    const,
    mul,
    constant_value,
    contiguous_strides,
    tuple_expr,
)
from ..types import BOOL, C_NAMES, DOUBLE, INT64, UINT64, WEAK, Array, describe_type, join_types, value_type
from . import convert, operators
from .call_table import CALLS, builtin, table_name
from .function import Function

_CONSTANT_MEMORY = 64 * 1024  # bytes
_INDEX_VARIABLES = ('cuda.threadIdx', 'cuda.blockIdx', 'cuda.blockDim', 'cuda.gridDim')
_DTYPE_OF_PYTHON_TYPE = {'int': 'int64', 'float': 'float64', 'bool': 'bool'}

# Python syntax that CUDA C does not have: its name in messages, and remedies
_UNSUPPORTED_SYNTAX = dict(
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
_REMEDIES = dict(
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
    "Return the name of the dtype that an object denotes, such as 'float32' for np.float32; None if it is not one"
    if isinstance(value, str) and value.startswith(('cuda.', 'np.')):
        return None
    if value in (int, float, bool):
        return _DTYPE_OF_PYTHON_TYPE[value.__name__]
    try:
        return str(np.dtype(value)) if not type(value).__module__.startswith('numba') else str(np.dtype(str(value)))
    except TypeError:
        return None


def _is_finite(value):
    return not isinstance(value, float) or math.isfinite(value)


def _integer_type(value):
    "Return the type of the Python int `value`"
    return INT64 if -(2**63) <= value < 2**63 else UINT64


def _is_array(value):
    is_tensor = type(value).__module__.startswith('torch') and hasattr(value, 'numel')
    return isinstance(value, (np.ndarray, list)) or type(value).__name__ == 'DeviceArray' or is_tensor


def _is_number_type(f):
    "Return whether an object is a type that converts numbers, such as np.float32 or numba.float32"
    if is_number_type(f):
        return True
    return type(f).__module__.startswith('numba') and not hasattr(f, 'py_func')


class Values(Function):
    "Lower expressions: one method `lower_...` per kind of Python expression; any other kind raises an error"

    def lower(self, node):
        "Return the expression of a node of Python's syntax tree"
        lower_node = getattr(self, f'lower_{type(node).__name__}', None)
        if lower_node is None:
            raise self.unsupported_syntax(node)
        return lower_node(node)

    def lower_without_statements(self, node, operand):
        "Lower an operand of `node` that may be skipped; raise an error if lowering it emits statements"
        num_statements = len(self.current_block)
        result = self.lower(operand)
        if len(self.current_block) > num_statements:
            message = 'this call needs a separate statement in C, which would run even if Python skips the call'
            raise self.error(node, message, 'Assign the result of the call to a variable first.')
        return result

    def unsupported_syntax(self, node):
        "Return the error for syntax that CUDA C does not have"
        kind = type(node).__name__
        message = f'a kernel cannot use {_UNSUPPORTED_SYNTAX.get(kind, kind.lower())}, because CUDA C has no equivalent'
        return self.error(node, message, _REMEDIES.get(kind, ''))

    # Names and literals
    def lower_Constant(self, node):
        "Lower a number, a bool, a string, `None` or `...`"
        value = node.value
        if isinstance(value, bool):
            return Expr('const', BOOL, value=value)
        if isinstance(value, int):
            expr, text = Expr('const', _integer_type(value), value=value), self.source.segment(node) or ''
            return Literal(expr, text) if text.startswith(('0x', '0X')) else expr
        if isinstance(value, float):
            return self.float_literal(value, self.source.segment(node))
        if isinstance(value, (str, type(None), type(...))):
            return Expr('object', None, value=value)
        raise self.error(node, f'complex numbers such as {value!r} are not supported', 'Compute with two floats.')

    def float_literal(self, value, text=None):
        "Return the expression of a Python float; `text` is its spelling in the source"
        expr = Expr('const', DOUBLE if self.numba_types else WEAK, value=value)
        return Literal(expr, text) if text else expr

    def lower_Name(self, node):
        "Lower a variable of the function, or the value of a name outside it"
        if node in self.reads:
            variable = self.reads[node]
            if variable is None:
                raise self.error(node, f'{node.id} is read before it is assigned')
            return self.variable(node, variable)
        is_defined, value = self.source.look_up(node.id)
        if not is_defined:
            hint = 'Define it before the kernel, or pass it as an argument.'
            raise self.error(node, f'{node.id} is not defined here', hint)
        return self.outer_value(node, value, node.id)

    def variable(self, node, variable):
        "Return the expression of a variable"
        if variable.callee is not None:
            return variable.callee
        if variable.constant is not None:
            return variable.constant
        if variable.alias_of is not None:
            variable = variable.alias_of
        if variable.item_variables is not None:
            return tuple_expr([self.variable(node, p) for p in variable.item_variables])
        if isinstance(variable.type, Array):
            if variable.view is None:
                raise self.error(node, f'{variable.name} is read before an array is assigned to it')
            return view_expr(variable.view)
        return Expr('var', variable.type, value=variable)

    def outer_value(self, node, value, name):
        "Return the expression of an object that is captured from outside the function"
        if isinstance(value, (bool, np.bool_)):
            return self.named_constant(BOOL, name, bool(value))
        if isinstance(value, np.generic) and value.dtype.kind in 'iuf':
            return self.named_constant(value_type(str(value.dtype)), name, value.item())
        if isinstance(value, int):
            return self.named_constant(_integer_type(value), name, value)
        if isinstance(value, float):
            return (
                self.named_constant(DOUBLE if self.numba_types else WEAK, name, value)
                if _is_finite(value)
                else self.float_literal(value)
            )
        if isinstance(value, tuple):
            return Expr(
                'tuple',
                None,
                [self.outer_value(node, item, None) for item in value],
                SimpleNamespace(name=name, value=value),
            )
        if _is_array(value):
            return self.captured_array(node, value, name)
        return Expr('object', None, value=table_name(value) or value)

    def named_constant(self, type, name, value):
        "Return the expression of a captured number, which has a name in C if `name` is not None"
        if name is None or not _is_finite(value):
            return Expr('const', type, value=value)
        return Expr('global', type, value=(name, value))

    def captured_array(self, node, value, name):
        "Return the expression of a captured array, which is stored in constant memory"
        a = np.asarray(getattr(value, 'data', value) if type(value).__name__ == 'DeviceArray' else value)
        if a.dtype.kind not in 'biuf':
            raise self.error(node, f'{name} is an array of {a.dtype}, a type that CUDA C does not have')
        if a.nbytes > _CONSTANT_MEMORY:
            limit = f'arrays captured from outside a kernel are stored in constant memory, which has {_CONSTANT_MEMORY}'
            raise self.error(node, f'{name} has {a.nbytes} bytes; {limit}', 'Pass the array as an argument.')
        m = self.unit.constant(SimpleNamespace(name=name or 'table', value=value), a, self)
        sizes = [const(n) for n in a.shape]
        return view_expr(View(m, sizes, contiguous_strides(sizes), is_contiguous=True))

    def lower_Tuple(self, node):
        "Lower `(a, b)`"
        return tuple_expr([self.lower(inner) for inner in node.elts])

    # Attributes
    def lower_Attribute(self, node):
        "Lower `a.b`: an attribute of an array, a named tuple, a module or another object"
        expr, name = self.lower(node.value), node.attr
        if expr.op == 'view':
            return self.array_attribute(node, expr, name)
        if expr.op == 'tuple' and hasattr(getattr(expr.value, 'value', None), name):
            return self.outer_value(node, getattr(expr.value.value, name), name)
        if expr.op != 'object':
            raise self.error(node, f'{describe_type(expr.type)} has no {name!r} in a kernel')
        if isinstance(expr.value, str) and expr.value.startswith('cuda'):
            return self.cuda_name(node, f'{expr.value}.{name}')
        try:
            value = getattr(expr.value, name)
        except Exception:
            message = f'{ast.unparse(node)} does not exist when the kernel is translated'
            raise self.error(node, message) from None
        if not inspect.ismodule(expr.value):
            return self.outer_value(node, value, name)
        return self.float_literal(value) if isinstance(value, float) else self.outer_value(node, value, None)

    def cuda_name(self, node, path):
        "Return the expression of a dotted name that begins with `cuda.`"
        base, _, axis = path.rpartition('.')
        if base in _INDEX_VARIABLES:
            if axis not in 'xyz':
                raise self.error(node, f'{path}: expected .x, .y or .z')
            return builtin(path[5:])
        if path == 'cuda.laneid':
            return Expr('lane', INT64)
        if path == 'cuda.warpsize':
            return const(32)
        if path in CALLS or path in _INDEX_VARIABLES or any(name.startswith(path + '.') for name in CALLS):
            return Expr('object', None, value=path)
        value = self.source.look_up('cuda')[1]
        for k in path.split('.')[1:]:
            value = getattr(value, k, None)
        if value is not None and dtype_name(value) or hasattr(value, 'py_func'):
            return Expr('object', None, value=value)
        raise self.error(node, f'{path} is not supported by to_cuda')

    def array_attribute(self, node, expr, name):
        "Return the attribute `name` of an array: `x.size`"
        view = expr.value
        if name == 'shape':
            sizes = enumerate(view.sizes)
            return tuple_expr([Expr('size_of', INT64, value=(view, axis)) if s is None else s for axis, s in sizes])
        if name == 'size':
            n = ONE
            for axis in range(view.ndim):
                n = mul(n, self.arrays.size(node, expr, axis))
            return n
        if name == 'ndim':
            return const(view.ndim)
        if name == 'dtype':
            return Expr('object', None, value=np.dtype(view.buffer.dtype))
        if name == 'itemsize':
            return const(np.dtype(view.buffer.dtype).itemsize)
        if name == 'T':
            return self.arrays.transpose(node, expr)
        raise self.error(node, f'an array in a kernel has no {name!r}: work on its elements')

    def dtype_of(self, node, expr):
        "Return the dtype that the expression `expr` denotes, such as np.float32"
        name = dtype_name(expr.value) if expr.op == 'object' else None
        if name is None and expr.op == 'object' and expr.value in ('int', 'float', 'bool'):
            name = _DTYPE_OF_PYTHON_TYPE[expr.value]
        if name not in C_NAMES:
            raise self.error(
                node, f'{ast.unparse(node)} is not an element type', 'Use np.float32, np.int32 or another scalar type.'
            )
        return name

    # Elements of arrays, items of tuples
    def lower_Subscript(self, node):
        "Lower `a[...]`, of an array or a tuple"
        expr = self.lower(node.value)
        return self.tuple_item(node, expr) if expr.op == 'tuple' else self.arrays.subscript(node, expr)

    def tuple_item(self, node, expr):
        "Lower the subscript of a tuple"
        i = self.lower(node.slice)
        k = constant_value(i)
        if k is not None:
            if not -len(expr.args) <= k < len(expr.args):
                raise self.error(node, f'index {k} is out of range for a tuple of {len(expr.args)}')
            return expr.args[k]
        if i.op == 'object':
            raise self.error(node, 'a tuple cannot be sliced')
        return self.indexed_tuple_item(node, expr, convert.bool_to_int(convert.require_number(i)))

    def indexed_tuple_item(self, node, expr, i):
        "Return the item `i` of a tuple of scalars, where `i` is known only at run time: the tuple becomes an array"
        t = None
        for operand in expr.args:
            if not convert.is_number_like(operand):
                message = 'a tuple with items that are not scalars must have a constant index'
                raise self.error(node, message, 'Index the tuple with a literal.')
            t = join_types(t, operand.type, self.numba_types)
        if expr.value and all(constant_value(operand) is not None for operand in expr.args):
            m = self.unit.constant(expr.value, np.array([constant_value(operand) for operand in expr.args]), self)
        else:
            m = Buffer('items', t, 'local', 1, [const(len(expr.args))])
            m.items = expr.args
            self.emit('alloc', node, buffer=m, args=expr.args)
        m.is_used = True
        return Expr('load', t, [i], m)

    # Operators
    def lower_BinOp(self, node):
        "Lower a binary operator: `a + b`"
        return operators.binary(self, node, type(node.op).__name__, self.lower(node.left), self.lower(node.right))

    def lower_UnaryOp(self, node):
        "Lower `-a`, `+a`, `~a`, `not a`"
        if isinstance(node.op, ast.Not):
            return Expr('not', BOOL, (convert.to_condition(self.lower(node.operand)),))
        return operators.unary(self, node, operators.UNARY_OPS[type(node.op)], self.lower(node.operand))

    def lower_Compare(self, node):
        "Lower a comparison: `a < b`, `a < b < c` or `a in b`"
        left, comparisons = self.lower(node.left), []
        for n, (op, right) in enumerate(zip(node.ops, node.comparators)):
            b = self.lower(right)
            if isinstance(op, (ast.In, ast.NotIn)):
                comparisons.append(operators.contains(self, node, left, b, isinstance(op, ast.NotIn)))
                continue
            is_last, symbol = n + 1 == len(node.ops), operators.COMPARISONS[type(op)]
            if is_last or operators.is_cheap(b):
                comparisons.append(operators.compare(self, node, symbol, left, b))
                left = b
                continue
            variable = self.new_variable(
                node, 'middle', b.type, has_unique_name=True
            )  # the middle of a < b < c is computed once
            comparisons.append(operators.compare(self, node, symbol, left, Expr('let', b.type, (b,), variable)))
            left = Expr('var', b.type, value=variable)
        return operators.conjunction(comparisons)

    def lower_BoolOp(self, node):
        "Lower `a and b`, `a or b`"
        result = self.lower(node.values[0])
        op = 'land' if isinstance(node.op, ast.And) else 'lor'
        for n in node.values[1:]:
            result = operators.and_or(self, node, op, result, self.lower_without_statements(node, n))
        return result

    def lower_IfExp(self, node):
        "Lower `a if test else b`"
        test = self.lower(node.test)
        a, b = (self.lower_without_statements(node, branch) for branch in (node.body, node.orelse))
        return operators.conditional(self, node, test, a, b)

    # Calls: of functions in the table `CALLS`, of types, and of device functions
    def callee_name(self, node):
        "Return 'print', 'range' or 'prange' for a call of these, else None"
        name = node.func
        if not isinstance(name, ast.Name) or name in self.reads:
            return None
        value = self.source.look_up(name.id)[1]
        return getattr(value, '__name__', None) if value in (print, range) or name.id == 'prange' else None

    def lower_Call(self, node):
        "Lower `f(...)`"
        callee = self.lower(node.func)
        if callee.op != 'object':
            raise self.error(node, f'{ast.unparse(node.func)} cannot be called: it is {describe_type(callee.type)}')
        starred = [a for a in node.args if isinstance(a, ast.Starred)]
        if starred:
            raise self.unsupported_syntax(starred[0])
        if any(k.arg is None for k in node.keywords):
            raise self.error(node, 'a call in a kernel cannot have a ** argument')
        args = [self.lower(a) for a in node.args]
        keywords = {k.arg: self.lower(k.value) for k in node.keywords}
        return self.call(node, callee.value, args, keywords)

    def call(self, node, callee, args, keywords):
        "Return a call of the object `callee`, or of the function registered in `CALLS` under the name `callee`"
        if isinstance(callee, str) and callee in CALLS:
            return self.table_call(node, callee, args, keywords)
        if callee == 'zip' or callee == 'enumerate':
            return self.lower_zip(node, callee, args, keywords)
        if callee == 'range':
            return tuple_expr([const(i) for i in range(*(self.require_constant(node, a) for a in args))])
        if isinstance(callee, str):
            raise self.error(node, f'a kernel cannot call {ast.unparse(node.func)}')
        dtype = dtype_name(callee) if _is_number_type(callee) else None
        if dtype in C_NAMES:
            return convert.cast(dtype, convert.require_number(args[0]) if args else ZERO)
        if isinstance(callee, type) and issubclass(callee, tuple):
            return Expr('tuple', None, args, SimpleNamespace(name=None, value=None))
        return self.device_call(node, callee, args, keywords)

    def table_call(self, node, callee, args, keywords):
        "Return a call of the function registered in `CALLS` under the name `callee`"
        try:
            return CALLS[callee](self, node, *args, **keywords)
        except convert.NotANumber as e:
            raise self.error(node, f'{callee} does not take {e.description()}', 'Pass scalars.') from None
        except TypeError as e:
            if 'argument' not in str(e) and str(e):
                raise
            raise self.error(node, f'{callee} does not take these arguments') from None

    def require_constant(self, node, expr):
        "Return the value of `expr`; raise an error if it is not known at compile time"
        if constant_value(expr) is None:
            raise self.error(
                node, 'range() outside a for loop needs bounds that are known at compile time', 'Use it in a for loop.'
            )
        return constant_value(expr)

    def lower_zip(self, node, callee, args, keywords):
        "Lower `zip(...)` and `enumerate(...)`, of tuples"
        if callee == 'zip':
            return tuple_expr(
                [tuple_expr(list(group)) for group in zip(*(self.require_tuple(node, a).args for a in args))]
            )
        start = self.require_constant(node, keywords.get('start', args[1] if len(args) > 1 else ZERO))
        items = self.require_tuple(node, args[0]).args
        return tuple_expr([tuple_expr([const(i), item]) for i, item in enumerate(items, start)])

    def device_call(self, node, callee, args, keywords):
        "Return a call of a device function"
        if isinstance(callee, types.FunctionType):
            message = f'a kernel cannot call {callee.__name__}, because it is a plain Python function'
            raise self.error(node, message, device_function_hint(callee))
        py_func = python_function(callee)
        if not isinstance(py_func, types.FunctionType):
            raise self.error(node, f'a kernel cannot call {getattr(callee, "__name__", callee)!r}')
        if type(callee).__name__ == 'Kernel':
            hint = 'Put @cuda.jit(device=True) above it.'
            raise self.error(node, f'a kernel can only call device functions, and {callee.__name__} is a kernel', hint)
        return self.unit.call(self, node, py_func, args, keywords)
