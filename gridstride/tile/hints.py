"""The types of expressions that no program runs: Triton compiles both branches of an `if`, and one of them runs here.

An expression without effects becomes a text, its hint, and is evaluated where its type is needed. What a `tl.load`
gives is replaced by ones of the right type and shape. Whatever else has an effect, or is not known, has no hint."""

import ast
import copy
from functools import lru_cache

import numpy as np

from .block import broadcast, is_number, tensor
from .types import of_number

__all__ = ['HINTED', 'hint', 'hints', 'returned_hint', 'type_by', 'type_of']

# Functions of `triton.language`, and methods of its values, without effects
_PURE = set(
    'abs add arange argmax argmin broadcast broadcast_to cast cdiv ceil clamp cos cumprod cumsum div_rn dot erf exp '
    'exp2 expand_dims fdiv flip floor fma full join log log2 max maximum min minimum mul num_programs permute '
    'program_id ravel reshape rsqrt sigmoid sin softmax sqrt sqrt_rn sub sum to trans umulhi unsqueeze view where '
    'xor_sum zeros zeros_like'.split()
)
_NODES = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.Slice, ast.Tuple, ast.Attribute,
    ast.Call, ast.keyword, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip
_LONGEST = 2000  # characters of a hint


class _Unknown(Exception):
    "An expression that has no hint"


class _Pure(ast.NodeTransformer):
    "Makes an expression one that can be evaluated without effects"

    def __init__(self, known):
        self.known = known  # {name: the expression that was assigned to it before; None: it is not known}

    def visit(self, node):
        if not isinstance(node, _NODES) or isinstance(node, (ast.Not, ast.In, ast.NotIn)):
            raise _Unknown
        return super().visit(node)

    def visit_Name(self, node):
        value = self.known.get(node.id, node)
        if value is None:
            raise _Unknown
        return value

    def visit_Compare(self, node):
        if len(node.ops) > 1:
            raise _Unknown
        return self.generic_visit(node)

    def visit_Call(self, node):
        name = getattr(node.func, 'attr', None) or getattr(node.func, 'id', '')
        if any(o.arg is None for o in node.keywords) or name not in _PURE | {'load'}:
            raise _Unknown
        hook = _hook('loaded' if name == 'load' else 'pure')
        if name == 'load':
            return ast.Call(hook, list(map(self.visit, node.args[:2])), _mask_of(self, node))
        keywords = [ast.keyword(o.arg, self.visit(o.value)) for o in node.keywords]
        return ast.Call(hook, list(map(self.visit, (node.func, *node.args))), keywords)


def _hook(name):
    return ast.Name(f'__tile_{name}', ast.Load())


def _mask_of(pure, call):
    return [ast.keyword('mask', pure.visit(o.value)) for o in call.keywords if o.arg == 'mask']


def _pure(node, known):
    "The expression without effects, or None"
    try:
        made = _Pure(known).visit(copy.deepcopy(node))
    except _Unknown:
        return _elements(node)
    return made if len(ast.unparse(made)) < _LONGEST else None


def _elements(node):
    "Of a load whose pointer is not known: the names in it, one of which is the pointer"
    if not (isinstance(node, ast.Call) and getattr(node.func, 'attr', '') == 'load' and node.args):
        return None
    names = {o.id for o in ast.walk(node.args[0]) if isinstance(o, ast.Name)}
    return ast.Call(_hook('elements'), [ast.Constant(k) for k in sorted(names)], [])


def _names(node):
    return {o.id for o in ast.walk(node) if isinstance(o, ast.Name)}


def hint(node, known=None, unstable=()):
    "The text of an expression, with no name of `unstable` in it; None if it has effects, or is not known"
    made = None if node is None else _pure(node, known or {})
    return None if made is None or _names(made) & set(unstable) else ast.unparse(made)


def _assigned(nodes):
    return {o.id for n in nodes for o in ast.walk(n) if isinstance(o, ast.Name) and isinstance(o.ctx, ast.Store)}


def _assignments(statement):
    "(name, expression) pairs of a plain assignment; None for another statement"
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        old = ast.Name(statement.target.id, ast.Load())
        return [(statement.target.id, ast.BinOp(old, statement.op, statement.value))]
    if not isinstance(statement, ast.Assign) or len(statement.targets) > 1:
        return None
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Name):
        return [(target.id, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        if all(isinstance(o, ast.Name) for o in target.elts):
            return [(o.id, v) for o, v in zip(target.elts, value.elts)]
    return None


def _follow(statement, known):
    "What `known` is after a statement"
    pairs = _assignments(statement)
    if pairs is None:
        return known | dict.fromkeys(_assigned([statement]))
    made = {k: _pure(v, known) for k, v in pairs}
    return known | {k: v and ast.Call(_hook('value'), [v], []) for k, v in made.items()}


def hints(statements, unstable):
    "{name: hint} of what statements assign"
    known = {}
    for o in statements:
        known = _follow(o, known)
    return {k: ast.unparse(v) for k, v in known.items() if v is not None and not _names(v) & set(unstable)}


def returned_hint(statements, unstable):
    "The hint of what statements return, as a tuple; an empty one if there is none"
    known = {}
    for o in statements:
        if isinstance(o, ast.Return):
            found = hint(o.value or ast.Constant(None), known, unstable)
            return () if found is None else (found,)
        known = _follow(o, known)
    return ()


# What hints evaluate to


class Elements:
    "The type of a value whose shape is not known"

    def __init__(self, dtype):
        self.dtype = dtype

    def __eq__(self, other):
        return self.dtype is getattr(other, 'scalar', None)

    def __repr__(self):
        return repr(self.dtype)


class _Names(dict):
    "The names of a frame: its values, all lanes of them defined"

    def __init__(self, f):
        super().__init__(__tile_elements=lambda *names: _elements_of(f, names))
        self.local, self.outer = f.f_locals, f.f_globals

    def __missing__(self, k):
        v = self.local[k] if k in self.local else self.outer[k]
        return tensor(v.data, v.dtype, v.region) if type(v) is tensor else v


def _elements_of(f, names):
    found = (f.f_locals.get(o) for o in names)
    found = {o.dtype.element_ty for o in found if type(o) is tensor and o.dtype.is_ptr()}
    return Elements(*found) if len(found) == 1 else Ellipsis


def _loaded(p, mask=None):
    "What stands for the elements that a load would give"
    shape = p.data.shape if type(mask) is not tensor else broadcast(p, mask)[0].shape
    return tensor(np.ones(shape, p.dtype.element_ty.np)[()], p.dtype.element_ty)


def _called(f, *args, **named):
    "A call, of a function of Triton's language or a method of a value alone"
    owner = getattr(f, '__self__', None)
    if type(owner) is not tensor and not getattr(f, '__module__', '').startswith('gridstride.tile.'):
        raise TypeError(f'{f} may have effects')
    return f(*args, **named)


HINTED = dict(loaded=_loaded, pure=_called)


@lru_cache(4096)
def _code(text):
    return compile(text, '<hint>', 'eval')


def type_by(text, f):
    "The type of a hint in a frame; None if it cannot be told"
    try:
        return type_of(eval(_code(text), f.f_globals, _Names(f)))
    except Exception:  # whatever the expression lacks here: its type is not known
        return None


def type_of(v):
    "The type of a value: a tuple of types for a tuple, `_Nothing` for None; None if it is not a value of the kernel"
    if type(v) is tensor:
        return v.type
    if isinstance(v, Elements):
        return v
    if is_number(v):
        return of_number(v)
    if type(v) is tuple:
        found = tuple(map(type_of, v))
        return None if None in found else found
    return _NOTHING if v is None else None


class _Nothing:
    def __repr__(self):
        return 'None'


_NOTHING = _Nothing()
