"""Infers the types of expressions that do not run: Triton compiles both branches of an `if`, but here only one runs.

An expression without side effects becomes a string, its hint, which is evaluated when the type is needed; in a hint, a
`tl.load` evaluates to ones of its type and shape. An expression with side effects or unknown names has no hint."""

import ast
from functools import lru_cache

import numpy as np

from .block import broadcast, is_number, tensor
from .types import dtype_of_number

__all__ = ['HINT_HOOKS', 'hint', 'hints', 'return_hint', 'type_of_hint', 'type_of']

# Functions of `triton.language`, and methods of its values, that have no side effects
_PURE_FUNCTIONS = set(
    'abs add arange argmax argmin broadcast broadcast_to cast cdiv ceil clamp cos cumprod cumsum div_rn dot erf exp '
    'exp2 expand_dims fdiv flip floor fma full join log log2 max maximum min minimum mul num_programs permute '
    'program_id ravel reshape rsqrt sigmoid sin softmax sqrt sqrt_rn sub sum to trans umulhi unsqueeze view where '
    'xor_sum zeros zeros_like'.split()
)
_PURE_NODES = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.Slice, ast.Tuple, ast.Attribute,
    ast.Call, ast.keyword, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip
_MAX_HINT_LENGTH = 2000  # characters


class _NoHint(Exception):
    "Raised for an expression that has no hint"


class _PureTransformer(ast.NodeTransformer):
    "Transforms an expression into one that can be evaluated without side effects"

    def __init__(self, definitions):
        self.definitions = definitions  # name -> the expression that it was assigned last, or None if unknown

    def visit(self, node):
        if not isinstance(node, _PURE_NODES) or isinstance(node, (ast.Not, ast.In, ast.NotIn)):
            raise _NoHint
        return super().visit(node)

    def visit_Name(self, node):
        value = self.definitions.get(node.id, node)
        if value is None:
            raise _NoHint
        return value

    def visit_Compare(self, node):
        if len(node.ops) > 1:
            raise _NoHint
        return self.generic_visit(node)

    def visit_Call(self, node):
        name = getattr(node.func, 'attr', None) or getattr(node.func, 'id', '')
        if any(keyword.arg is None for keyword in node.keywords) or name not in _PURE_FUNCTIONS | {'load'}:
            raise _NoHint
        hook = _hook('loaded' if name == 'load' else 'pure')
        if name == 'load':
            return ast.Call(hook, list(map(self.visit, node.args[:2])), _mask_keyword(self, node))
        keywords = [ast.keyword(keyword.arg, self.visit(keyword.value)) for keyword in node.keywords]
        return ast.Call(hook, list(map(self.visit, (node.func, *node.args))), keywords)


def _hook(name):
    return ast.Name(f'__tile_{name}', ast.Load())


def _mask_keyword(transformer, call):
    "Return the transformed keyword argument `mask` of a call, in a list; [] if there is none"
    return [ast.keyword('mask', transformer.visit(keyword.value)) for keyword in call.keywords if keyword.arg == 'mask']


def _copy_tree(node):
    """Copy a syntax tree.

    `copy.deepcopy` would also follow attributes that other libraries add to nodes: IPython's tracebacks link each node
    to its parent, and all trees share one `Load` node, so it would copy entire modules."""
    if isinstance(node, list):
        return [_copy_tree(item) for item in node]
    if not isinstance(node, ast.AST):
        return node
    copied_fields = {name: _copy_tree(value) for name, value in ast.iter_fields(node)}
    return ast.copy_location(type(node)(**copied_fields), node)


def _without_effects(node, definitions):
    "Transform an expression to one without side effects; None if that is not possible"
    try:
        pure = _PureTransformer(definitions).visit(_copy_tree(node))
    except _NoHint:
        return _pointer_element_hint(node)
    return pure if len(ast.unparse(pure)) < _MAX_HINT_LENGTH else None


def _pointer_element_hint(node):
    "Make an expression for the element type of a load with an unknown address, from the pointers among its names"
    if not (isinstance(node, ast.Call) and getattr(node.func, 'attr', '') == 'load' and node.args):
        return None
    names = sorted(_names(node.args[0]))
    return ast.Call(_hook('elements'), [ast.Constant(name) for name in names], [])


def _names(node):
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def hint(node, definitions=None, unstable_names=()):
    "Return the hint of an expression; None if it has side effects, is unknown, or contains a name of `unstable_names`"
    pure = None if node is None else _without_effects(node, definitions or {})
    return None if pure is None or _names(pure) & set(unstable_names) else ast.unparse(pure)


def _assigned_names(nodes):
    return {
        node.id for n in nodes for node in ast.walk(n) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _assignments(statement):
    "Return (name, expression) pairs of a plain assignment; None for another statement"
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        old_value = ast.Name(statement.target.id, ast.Load())
        return [(statement.target.id, ast.BinOp(old_value, statement.op, statement.value))]
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
    expression_of_name = {name: _without_effects(expression, definitions) for name, expression in pairs}
    return definitions | {
        name: expression and ast.Call(_hook('kernel_value'), [expression], [])
        for name, expression in expression_of_name.items()
    }


def hints(statements, unstable_names):
    "Return {name: hint} of the variables that statements assign"
    definitions = {}
    for statement in statements:
        definitions = _update_definitions(statement, definitions)
    return {
        name: ast.unparse(expression)
        for name, expression in definitions.items()
        if expression is not None and not _names(expression) & set(unstable_names)
    }


def return_hint(statements, unstable_names):
    "Return the hint of the value that statements return, as a tuple; an empty tuple if there is none"
    definitions = {}
    for statement in statements:
        if isinstance(statement, ast.Return):
            value_hint = hint(statement.value or ast.Constant(None), definitions, unstable_names)
            return () if value_hint is None else (value_hint,)
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


class _FrameVariables(dict):
    "The variables of a frame, with all lanes marked as defined"

    def __init__(self, frame):
        super().__init__(__tile_elements=lambda *names: _element_type(frame, names))
        self.locals, self.globals = frame.f_locals, frame.f_globals

    def __missing__(self, name):
        value = self.locals[name] if name in self.locals else self.globals[name]
        return tensor(value.data, value.dtype, value.region) if type(value) is tensor else value


def _element_type(frame, names):
    "Return the only element type of the pointers among these variables; `...` if there are several, or none"
    values = (frame.f_locals.get(name) for name in names)
    element_types = {value.dtype.element_ty for value in values if type(value) is tensor and value.dtype.is_ptr()}
    return ElementType(*element_types) if len(element_types) == 1 else Ellipsis


def _load_ones(p, mask=None):
    "Return ones of the type and shape that a load would return"
    shape = p.data.shape if type(mask) is not tensor else broadcast(p, mask)[0].shape
    return tensor(np.ones(shape, p.dtype.element_ty.np)[()], p.dtype.element_ty)


def _call_pure(f, *args, **keywords):
    "Call a function of Triton's language or a method of a value; raises `TypeError` for any other function"
    owner = getattr(f, '__self__', None)
    if type(owner) is not tensor and not getattr(f, '__module__', '').startswith('gridstride.tile.'):
        raise TypeError(f'{f} may have side effects')
    return f(*args, **keywords)


HINT_HOOKS = dict(loaded=_load_ones, pure=_call_pure)


@lru_cache(4096)
def _compile_hint(text):
    return compile(text, '<hint>', 'eval')


def type_of_hint(text, frame):
    "Evaluate a hint in a frame and return its type; None if that is unknown"
    try:
        return type_of(eval(_compile_hint(text), frame.f_globals, _FrameVariables(frame)))
    except Exception:  # the expression cannot be evaluated here: its type is unknown
        return None


def type_of(value):
    "Return the type of a value: a tuple of types for a tuple, `_NOTHING` for None; None for an object of the host"
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
    "The type of None"

    def __repr__(self):
        return 'None'


_NOTHING = _Nothing()
