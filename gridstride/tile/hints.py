"""Finds the types of expressions that do not run: Triton compiles both branches of an `if`, but only one runs here.

An expression without side effects becomes a string, its hint, which is evaluated when its type is needed; a `tl.load`
evaluates to ones of its type and shape. An expression with side effects, or with unknown names, has no hint."""

import ast
import copy
from functools import lru_cache

import numpy as np

from .block import broadcast, is_number, tensor
from .types import dtype_of_number

__all__ = ['HINT_HOOKS', 'hint', 'hints', 'returned_hint', 'type_of_hint', 'type_of']

# Functions of `triton.language`, and methods of its values, that have no side effects
_PURE = set(
    'abs add arange argmax argmin broadcast broadcast_to cast cdiv ceil clamp cos cumprod cumsum div_rn dot erf exp '
    'exp2 expand_dims fdiv flip floor fma full join log log2 max maximum min minimum mul num_programs permute '
    'program_id ravel reshape rsqrt sigmoid sin softmax sqrt sqrt_rn sub sum to trans umulhi unsqueeze view where '
    'xor_sum zeros zeros_like'.split()
)
_PURE_NODES = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.Slice, ast.Tuple, ast.Attribute,
    ast.Call, ast.keyword, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip
_MAX_LENGTH = 2000  # characters of a hint


class _Unknown(Exception):
    "Raised for an expression that has no hint"


class _Pure(ast.NodeTransformer):
    "Transform an expression into one that can be evaluated without side effects"

    def __init__(self, definitions):
        self.definitions = definitions  # {name: the expression that was last assigned to it, or None if unknown}

    def visit(self, node):
        if not isinstance(node, _PURE_NODES) or isinstance(node, (ast.Not, ast.In, ast.NotIn)):
            raise _Unknown
        return super().visit(node)

    def visit_Name(self, node):
        value = self.definitions.get(node.id, node)
        if value is None:
            raise _Unknown
        return value

    def visit_Compare(self, node):
        if len(node.ops) > 1:
            raise _Unknown
        return self.generic_visit(node)

    def visit_Call(self, node):
        name = getattr(node.func, 'attr', None) or getattr(node.func, 'id', '')
        if any(keyword.arg is None for keyword in node.keywords) or name not in _PURE | {'load'}:
            raise _Unknown
        hook = _hook('loaded' if name == 'load' else 'pure')
        if name == 'load':
            return ast.Call(hook, list(map(self.visit, node.args[:2])), _mask_of(self, node))
        keywords = [ast.keyword(keyword.arg, self.visit(keyword.value)) for keyword in node.keywords]
        return ast.Call(hook, list(map(self.visit, (node.func, *node.args))), keywords)


def _hook(name):
    return ast.Name(f'__tile_{name}', ast.Load())


def _mask_of(pure, call):
    return [ast.keyword('mask', pure.visit(keyword.value)) for keyword in call.keywords if keyword.arg == 'mask']


def _pure(node, definitions):
    "Transform an expression to one without side effects; None if that is not possible"
    try:
        pure = _Pure(definitions).visit(copy.deepcopy(node))
    except _Unknown:
        return _pointer_element_hint(node)
    return pure if len(ast.unparse(pure)) < _MAX_LENGTH else None


def _pointer_element_hint(node):
    "Make an expression for the element type of a load whose address is unknown: one of its names is the pointer"
    if not (isinstance(node, ast.Call) and getattr(node.func, 'attr', '') == 'load' and node.args):
        return None
    names = {sub.id for sub in ast.walk(node.args[0]) if isinstance(sub, ast.Name)}
    return ast.Call(_hook('elements'), [ast.Constant(k) for k in sorted(names)], [])


def _names(node):
    return {sub.id for sub in ast.walk(node) if isinstance(sub, ast.Name)}


def hint(node, definitions=None, unstable=()):
    "Return the hint of an expression, without names of `unstable`; None if it has side effects or is unknown"
    pure = None if node is None else _pure(node, definitions or {})
    return None if pure is None or _names(pure) & set(unstable) else ast.unparse(pure)


def _assigned_names(nodes):
    return {
        node.id for n in nodes for node in ast.walk(n) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _assignments(statement):
    "Return (name, expression) pairs of a plain assignment; None for another statement"
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        old = ast.Name(statement.target.id, ast.Load())
        return [(statement.target.id, ast.BinOp(old, statement.op, statement.value))]
    if not isinstance(statement, ast.Assign) or len(statement.targets) > 1:
        return None
    target = statement.targets[0]
    value = statement.value
    if isinstance(target, ast.Name):
        return [(target.id, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        if all(isinstance(name, ast.Name) for name in target.elts):
            return [(name.id, v) for name, v in zip(target.elts, value.elts)]
    return None


def _update_definitions(statement, definitions):
    "Return `definitions` after a statement"
    pairs = _assignments(statement)
    if pairs is None:
        return definitions | dict.fromkeys(_assigned_names([statement]))
    exprs = {name: _pure(expression, definitions) for name, expression in pairs}
    return definitions | {
        name: expression and ast.Call(_hook('value'), [expression], []) for name, expression in exprs.items()
    }


def hints(statements, unstable):
    "Return {name: hint} of the variables that statements assign"
    definitions = {}
    for statement in statements:
        definitions = _update_definitions(statement, definitions)
    return {
        name: ast.unparse(expression)
        for name, expression in definitions.items()
        if expression is not None and not _names(expression) & set(unstable)
    }


def returned_hint(statements, unstable):
    "Return the hint of what statements return, as a tuple; empty if there is none"
    definitions = {}
    for statement in statements:
        if isinstance(statement, ast.Return):
            returned = hint(statement.value or ast.Constant(None), definitions, unstable)
            return () if returned is None else (returned,)
        definitions = _update_definitions(statement, definitions)
    return ()


# Evaluating hints


class ElementType:
    "The type of a value whose shape is unknown"

    def __init__(self, dtype):
        self.dtype = dtype

    def __eq__(self, other):
        return self.dtype is getattr(other, 'scalar', None)

    def __repr__(self):
        return repr(self.dtype)


class _Names(dict):
    "The variables of a frame, with all of their lanes defined"

    def __init__(self, f):
        super().__init__(__tile_elements=lambda *names: _elements_of(f, names))
        self.local, self.outer = f.f_locals, f.f_globals

    def __missing__(self, name):
        value = self.local[name] if name in self.local else self.outer[name]
        return tensor(value.data, value.dtype, value.region) if type(value) is tensor else value


def _elements_of(frame, names):
    element_types = (frame.f_locals.get(value) for value in names)
    element_types = {
        value.dtype.element_ty for value in element_types if type(value) is tensor and value.dtype.is_ptr()
    }
    return ElementType(*element_types) if len(element_types) == 1 else Ellipsis


def _load_ones(p, mask=None):
    "Return ones of the type and shape that a load would return"
    shape = p.data.shape if type(mask) is not tensor else broadcast(p, mask)[0].shape
    return tensor(np.ones(shape, p.dtype.element_ty.np)[()], p.dtype.element_ty)


def _call(f, *args, **named):
    "Call a function of Triton's language or a method of a value; raises `_Unknown` for any other function"
    owner = getattr(f, '__self__', None)
    if type(owner) is not tensor and not getattr(f, '__module__', '').startswith('gridstride.tile.'):
        raise TypeError(f'{f} may have side effects')
    return f(*args, **named)


HINT_HOOKS = dict(loaded=_load_ones, pure=_call)


@lru_cache(4096)
def _compiled_hint(text):
    return compile(text, '<hint>', 'eval')


def type_of_hint(text, frame):
    "Evaluate a hint in a frame and return its type; None if that is unknown"
    try:
        return type_of(eval(_compiled_hint(text), frame.f_globals, _Names(frame)))
    except Exception:  # the expression cannot be evaluated here: its type is unknown
        return None


def type_of(value):
    "Return the type of a value: a tuple of types for a tuple, `_Nothing` for None; None if it is not a kernel's value"
    if type(value) is tensor:
        return value.type
    if isinstance(value, ElementType):
        return value
    if is_number(value):
        return dtype_of_number(value)
    if type(value) is tuple:
        types = tuple(map(type_of, value))
        return None if None in types else types
    return _NOTHING if value is None else None


class _Nothing:
    def __repr__(self):
        return 'None'


_NOTHING = _Nothing()
