"""Rewrites the expressions of a kernel for many lanes: loads, operators, conditions and calls.

`rewrite` rewrites the statements around them. The value of an expression has one element per lane. Only `and`, `or`,
comparison chains and `a if c else b` may evaluate an operand under a narrower mask than that of their statement.
"""

import ast
import functools
from collections import namedtuple

from ..diagnostics.errors import NotSimulated
from .arithmetic import EXACT_LIMIT, as_numba
from .constants import fold_integer
from .templates import call_of, expression, fill, template
from .trees import children, walk
from .unsupported_syntax import UNSUPPORTED

__all__ = ['ExpressionRewriter', 'Site']

# A location in a kernel's source. Operations get its index in `sites`, as an argument that is called `site`.
# `uses_value`: whether the expression around a call uses its value; an assignment to a variable does not count.
Site = namedtuple('Site', 'function file line col source uses_value')


def _is_literal(node):
    return isinstance(node, ast.Constant) or isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)


def _has_no_effect(node):
    "Return whether evaluating `node` has no side effect in any lane: no memory access, call or division"
    types_with_effects = ast.Call, ast.Subscript, ast.BoolOp, ast.IfExp, ast.FloorDiv, ast.Mod
    return not any(isinstance(child, types_with_effects) for child in walk(node))


# Names that begin with `__` belong to the rewritten code: `__m` is the mask of the active lanes; `__d` is true if
# inactive lanes become active again later and need their old values; `__gs` has the operations. A condition
# splits the mask (`fork`); each branch runs under its own mask, and afterwards the two masks are merged. For the third
# condition, `__3y` and `__3n` are the masks of the lanes where it is true and false (yes, no), `__3m` and `__3d` save
# `__m` and `__d`, and `__3e` is the `__d` of both branches. In a template, names such as `C__` are placeholders for
# expressions.
#
# An expression of the kernel may need statements: `p and q` evaluates `q` under a mask. The visitor of
# the expression appends them to `hoisted`, and `block` puts them before the statement that contains the expression.
class ExpressionRewriter(ast.NodeTransformer):
    """Rewrites the expressions of one function.

    `sites` collects the locations of memory accesses and calls, `constants` the literals."""

    def __init__(self, name, file, lines, offset, may_spin, is_kernel):
        self.name = name
        self.file = file
        self.lines = lines
        self.offset = offset
        self.may_spin = may_spin
        self.is_kernel = is_kernel
        self.local_names = frozenset()  # parameters and variables
        self.maybe_unassigned = frozenset()  # variables that some lanes may read unassigned
        self.sites = []
        self.unused_calls = set()  # calls whose value is not used
        self.constants = {}  # name in the rewritten code -> value of a literal
        self.num_fresh_names = 0
        self.hoisted = None  # statements that run before the current one
        self.loops = []  # names of the enclosing loops, the innermost last

    def fail(self, node, problem, hint=''):
        "Raise `NotSimulated` at the line of `node`"
        line = node.lineno
        location = dict(kernel=self.name, file=self.file, line=line + self.offset, source=self._source(line))
        raise NotSimulated(problem, hint, **location)

    def _source(self, line):
        return self.lines[line - 1].strip() if line <= len(self.lines) else ''

    def site(self, node):
        "Add the location of `node` to the sites, and return its index as an expression"
        self.sites.append(
            Site(
                *(self.name, self.file, node.lineno + self.offset, node.col_offset, self._source(node.lineno)),
                uses_value=node not in self.unused_calls,
            )
        )
        return ast.Constant(len(self.sites) - 1)

    def fresh_name(self, prefix):
        "Return a new name for the rewritten code"
        self.num_fresh_names += 1
        return f'__{prefix}{self.num_fresh_names}'

    def make(self, node, source, **values):
        "Make statements from `source` at the line of `node`; `values` maps placeholders to expressions"
        values = {name: self.with_location(node, value) for name, value in values.items()}
        location = {k: getattr(node, k, None) for k in ast.expr._attributes}
        if location['end_lineno'] != location['lineno']:  # report a call that spans several lines at its first
            location |= dict(end_lineno=location['lineno'], end_col_offset=location['col_offset'])
        return [fill(tree, values, location) for tree in template(source)]

    def with_location(self, node, tree):
        "Copy the location of `node` to the nodes of `tree` that have none, and return `tree`"
        pending_nodes = [tree]
        while pending_nodes:
            descendant = pending_nodes.pop()
            if descendant._attributes:
                if hasattr(descendant, 'lineno'):
                    continue
                ast.copy_location(descendant, node)
                if node.end_lineno != node.lineno:  # Python locates the call of a method at the end of its attribute
                    descendant.end_lineno, descendant.end_col_offset = descendant.lineno, descendant.col_offset
            pending_nodes.extend(children(descendant))
        return tree

    def generic_visit(self, node):
        "Rewrite the children of a node; fails if the simulator does not support it"
        if type(node) in UNSUPPORTED:
            construct, hint = UNSUPPORTED[type(node)]
            self.fail(node, f'a kernel cannot use {construct}', hint)
        if isinstance(node, ast.stmt) and not isinstance(node, (ast.Pass, ast.Expr)):
            self.fail(node, f'a kernel cannot use the statement {type(node).__name__.lower()!r}')
        return super().generic_visit(node)

    def visit_in_order(self, nodes):
        """Visit expressions so that they are evaluated from left to right.

        If one of them hoists statements, those before it are assigned to variables ahead of these statements."""
        values = []
        for node in nodes:
            num_hoisted = len(self.hoisted)
            value = self.visit(node.value if isinstance(node, ast.Starred) else node)
            if len(self.hoisted) > num_hoisted:
                for position, earlier_node in enumerate(nodes[: len(values)]):
                    if self.is_pure(earlier_node):
                        continue
                    name = self.fresh_name('t')
                    self.hoisted[num_hoisted:num_hoisted] = self.make(
                        earlier_node, f'{name} = V__', V__=values[position]
                    )
                    num_hoisted = num_hoisted + 1
                    values[position] = ast.Name(name, ast.Load())
            values.append(value)
        return [ast.Starred(v, ast.Load()) if isinstance(n, ast.Starred) else v for n, v in zip(nodes, values)]

    def index(self, node):
        "Rewrite an index: an expression, a slice, or a tuple of these"
        if isinstance(node, ast.Tuple):
            return ast.Tuple([self.index(index) for index in node.elts], ast.Load())
        if isinstance(node, ast.Slice):
            return ast.Call(
                ast.Name('slice', ast.Load()),
                [self.visit(bound) if bound else ast.Constant(None) for bound in (node.lower, node.upper, node.step)],
                [],
            )
        return self.visit(node)

    def visit_Subscript(self, node):
        "Rewrite `a[i]` to a load"
        return self.with_location(
            node,
            call_of(
                '__gs.load',
                expression('__run'),
                expression('__m'),
                self.visit(node.value),
                self.index(node.slice),
                self.site(node),
            ),
        )

    def visit_Attribute(self, node):
        "Rewrite an attribute of a value of the kernel; a name such as `cuda.threadIdx.x` remains"
        base = node
        while isinstance(base, ast.Attribute):
            base = base.value
        if isinstance(base, ast.Name) and base.id not in self.local_names:  # cuda.threadIdx.x
            return self.generic_visit(node)
        source = '__gs.attribute(__run, __m, V__, K__, S__)'
        value, name = self.visit(node.value), ast.Constant(node.attr)
        return self.make(node, source, V__=value, K__=name, S__=self.site(node))[0].value

    def visit_Name(self, node):
        "Rewrite a variable that may be unassigned to a checked read"
        if node.id not in self.maybe_unassigned or not isinstance(node.ctx, ast.Load):
            return node
        source = f'__gs.read_variable(__run, __m, {node.id}, __assigned_{node.id}, {node.id!r}, S__)'
        return self.make(node, source, S__=self.site(node))[0].value

    def is_pure(self, node):
        "Return whether evaluating `node` has no side effect in any lane, even where a variable is unassigned"
        return _has_no_effect(node) and not any(
            isinstance(child, ast.Name) and child.id in self.maybe_unassigned for child in walk(node)
        )

    def visit_Constant(self, node):
        "Replace a number by the name of a constant of Numba's type"
        return self.constant_name(node, node.value) if isinstance(node.value, (int, float, complex)) else node

    def constant_name(self, node, value):
        "Make a name for a literal, whose value has Numba's type"
        name = f'__k{len(self.constants)}'
        self.constants[name] = as_numba(value)
        return self.with_location(node, ast.Name(name, ast.Load()))

    def binop(self, node, a, op, b):
        "Make the operation `a op b`"
        name = ast.Constant(type(op).__name__)
        if isinstance(op, (ast.FloorDiv, ast.Mod)):
            return self.with_location(
                node, call_of('__gs.divide', expression('__run'), expression('__m'), name, a, b, self.site(node))
            )
        return self.with_location(node, call_of('__gs.binary', name, a, b))

    def visit_BinOp(self, node):
        "Rewrite an operation of two operands; constant integers are folded"
        if (v := fold_integer(node)) is not None:
            return self.constant_name(node, v)
        a, b = self.visit_in_order([node.left, node.right])
        return self.binop(node, a, node.op, b)

    def visit_UnaryOp(self, node):
        "Rewrite `not`, `-`, `+` or `~`"
        if isinstance(node.op, ast.Not):
            return self.with_location(node, call_of('__gs.logical_not', self.visit(node.operand)))
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return self.constant_name(node, -node.operand.value)
        return self.with_location(
            node, call_of('__gs.unary', ast.Constant(type(node.op).__name__), self.visit(node.operand))
        )

    def visit_Compare(self, node):
        "Rewrite a comparison, a chain of comparisons, or `in`"
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            contains = call_of('__gs.contains', self.visit(node.left), self.visit(node.comparators[0]))
            return self.with_location(
                node, contains if isinstance(node.ops[0], ast.In) else call_of('__gs.logical_not', contains)
            )
        if len(node.ops) > 1 and not all(
            map(self.is_pure, node.comparators)
        ):  # a < b < c as a < b and b < c, which short-circuits
            operands = node.left, *node.comparators
            links = zip(operands, node.ops, operands[1:])
            pairs = [ast.copy_location(ast.Compare(a, [op], [b]), node) for a, op, b in links]
            return self.visit_BoolOp(ast.copy_location(ast.BoolOp(ast.And(), pairs), node))
        if len(node.ops) == 1:
            a, b = self.visit_in_order([node.left, node.comparators[0]])
            return self.with_location(node, _comparison(node.left, a, node.ops[0], node.comparators[0], b))
        names = [self.fresh_name('c') for _ in node.comparators]
        comparisons = []
        left_source = node.left  # in the kernel; `left` is rewritten
        left = self.visit(node.left)
        for name, op, right in zip(names, node.ops, node.comparators):  # a < b < c: b once, then two comparisons
            self.hoisted += self.make(node, f'{name} = V__', V__=self.visit(right))
            comparisons.append(_comparison(left_source, left, op, right, ast.Name(name, ast.Load())))
            left_source = right
            left = ast.Name(name, ast.Load())
        return self.with_location(node, functools.reduce(lambda a, b: call_of('__gs.logical_and', a, b), comparisons))

    def visit_BoolOp(self, node):
        "Rewrite `and` or `or`: an operand with side effects is evaluated only in the lanes that need it"
        operation = 'logical_and' if isinstance(node.op, ast.And) else 'logical_or'
        result = self.visit(node.values[0])
        for operand in node.values[1:]:
            if self.is_pure(operand):
                result = call_of(f'__gs.{operation}', result, self.visit(operand))
            else:
                result = self.short_circuit(node, result, operand, operation)
        return self.with_location(node, result)

    def short_circuit(self, node, first_value, second_operand, operation):
        "Make `first and second` or `first or second`: the second is evaluated only in the lanes that need it"
        result = self.fresh_name('e')
        prefix = self.fresh_name('')
        suffix = 'y' if operation == 'logical_and' else 'n'
        self.hoisted += self.make(
            node, f'{result} = V__\n{prefix}y, {prefix}n = __gs.branch(__m, {result})', V__=first_value
        )
        hoisted, value = self.visit_separately(second_operand)
        body = (
            self.make(node, f'{prefix}m, {prefix}d = __m, __d\n__m = {prefix}{suffix}\n__d = True')
            + hoisted
            + self.make(node, f'{result} = __gs.merge(__m, V__, {result})\n__m, __d = {prefix}m, {prefix}d', V__=value)
        )
        self.hoisted.append(self.with_location(node, ast.If(expression(f'{prefix}{suffix} is not None'), body, [])))
        return ast.Name(result, ast.Load())

    def visit_separately(self, node):
        "Rewrite an expression; return (the statements that must run before it, its value)"
        outer, self.hoisted = self.hoisted, []
        value = self.visit(node)
        hoisted, self.hoisted = self.hoisted, outer
        return hoisted, value

    def visit_IfExp(self, node):
        "Rewrite `a if c else b`: each lane evaluates one of the two"
        result, prefix = self.fresh_name('e'), self.fresh_name('')
        self.hoisted += self.make(
            node,
            f'{prefix}y, {prefix}n = __gs.branch(__m, C__)\n{prefix}m, {prefix}d, {result} = __m, __d, __gs.UNDEF',
            C__=self.visit(node.test),
        )
        for suffix, branch in (('y', node.body), ('n', node.orelse)):
            hoisted, value = self.visit_separately(branch)
            body = (
                self.make(node, f'__m = {prefix}{suffix}\n__d = True')
                + hoisted
                + self.make(node, f'{result} = __gs.merge(__m, V__, {result})', V__=value)
            )
            self.hoisted.append(self.with_location(node, ast.If(expression(f'{prefix}{suffix} is not None'), body, [])))
        self.hoisted += self.make(node, f'__m, __d = {prefix}m, {prefix}d')
        for branch in (node.body, node.orelse):
            if _is_literal(branch):
                self.hoisted += self.make(node, f'{result} = __gs.join({result}, V__)', V__=self.visit(branch))
        return self.with_location(node, ast.Name(result, ast.Load()))

    def visit_Call(self, node):
        "Rewrite a call; the function gets the mask, too"
        values = self.visit_in_order([*node.args, *(k.value for k in node.keywords)])
        args = ast.Tuple(values[: len(node.args)], ast.Load())  # may contain starred arguments
        keywords = ast.Dict([ast.Constant(k.arg) for k in node.keywords], values[len(node.args) :])
        call = call_of(
            '__gs.call', expression('__run'), expression('__m'), self.visit(node.func), args, keywords, self.site(node)
        )
        return self.with_location(node, ast.YieldFrom(call_of('__gs.finish_call', call)) if self.may_spin else call)

    def visit_Tuple(self, node):
        "Rewrite the elements of a tuple from left to right"
        return self.with_location(node, ast.Tuple(self.visit_in_order(node.elts), node.ctx))


def _comparison(a_source, a, op, b_source, b):
    """Make the comparison `a op b`; `a_source` and `b_source` are the kernel's expressions for `a` and `b`.

    If one of them is a small constant, NumPy compares as Numba does, and no call is needed."""
    if any(
        (v := fold_integer(operand)) is not None and -EXACT_LIMIT < v < EXACT_LIMIT for operand in (a_source, b_source)
    ):
        return ast.Compare(a, [op], [b])
    return call_of('__gs.compare', ast.Constant(type(op).__name__), a, b)
