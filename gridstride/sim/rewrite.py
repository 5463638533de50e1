"""Rewrites a kernel written for one thread to a function for many lanes.

The kernel's syntax tree is rewritten, statement by statement, into one that computes with all lanes under a mask
`__m`. Line numbers do not change, so tracebacks and `pdb` show the lines of the kernel.

| in the kernel | rewritten, simplified |
|---|---|
| `x = e` | `x = assign(__d, __m, e, x)` |
| `x`, if it may be unassigned | `read_variable(ctx, __m, x, the lanes that have assigned it, 'x', site)` |
| `a[i] = e`, `a[i]` | `store(ctx, __m, a, i, e, site)`, `load(ctx, __m, a, i, site)` |
| `if c: ... else: ...` | both branches, each under its own mask, if any lane takes it |
| `for i in range(n): ...` | a loop until no lane is active |
| `for i in range(n): ... else: ...` | a variable that records `break`, and an `if` after the loop (`definition`) |
| `p and q` | `q` only in the lanes where `p` is true |
| `f(x)` | `call(ctx, __m, f, ..., site)`: calls a function of CUDA or Python, or a rewritten device function |

A kernel that waits for other blocks (`spin_wait`) becomes a generator. It yields at each iteration of a loop in which
the block spins; the yielded value is true if the loop never ends unless another block writes to memory.

`__d` is true if there are inactive lanes that become active again later and need their old values (`lanes.assign`).
"""

import ast
import functools
from collections import namedtuple

from ..diagnostics.errors import NotSimulated
from .arithmetic import EXACT_LIMIT, as_numba
from .constants import fold_integer
from .templates import call_of, expression, fill, statements, template
from .trees import children, walk
from .unassigned import maybe_unassigned
from .unsupported_syntax import RETURN_HINT, UNSUPPORTED

__all__ = ['Site', 'rewrite_function', 'rewriter_of']

# A location in a kernel's source. Operations get its index in `sites`, as an argument that is called `site`.
# `uses_value`: whether the expression around a call uses its value; an assignment to a variable does not count.
Site = namedtuple('Site', 'function file line col source uses_value')


def _may_leave(body, statement_types=(ast.Return, ast.Break, ast.Continue)):
    "Return whether a lane can leave `body` before its end, by one of these statements"
    return any(isinstance(node, statement_types) for s in body for node in walk(s))


def _assigned_names(body):
    "Return the names that `body` assigns"
    return {node.id for s in body for node in walk(s) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


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
class _Rewriter(ast.NodeTransformer):
    "Rewrites one function; `sites` collects the locations of memory accesses and calls, `constants` the literals"

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
        pending = [tree]
        while pending:
            descendant = pending.pop()
            if descendant._attributes:
                if hasattr(descendant, 'lineno'):
                    continue
                ast.copy_location(descendant, node)
                if node.end_lineno != node.lineno:  # Python locates the call of a method at the end of its attribute
                    descendant.end_lineno, descendant.end_col_offset = descendant.lineno, descendant.col_offset
            pending.extend(children(descendant))
        return tree

    # blocks

    def block(self, body):
        "Rewrite the statements of a body; those after one in which lanes may leave run only if a lane is active"
        rewritten = []
        for i, statement in enumerate(body):
            outer = self.hoisted
            self.hoisted = []
            result = self.visit(statement)
            rewritten += self.hoisted + (result if isinstance(result, list) else [] if result is None else [result])
            self.hoisted = outer
            if i + 1 < len(body) and _may_leave([statement]):
                later = self.block(body[i + 1 :])
                return rewritten + [
                    self.with_location(body[i + 1], ast.If(expression('__m is not None'), later or [ast.Pass()], []))
                ]
        return rewritten

    def generic_visit(self, node):
        if type(node) in UNSUPPORTED:
            construct, hint = UNSUPPORTED[type(node)]
            self.fail(node, f'a kernel cannot use {construct}', hint)
        if isinstance(node, ast.stmt) and not isinstance(node, (ast.Pass, ast.Expr)):
            self.fail(node, f'a kernel cannot use the statement {type(node).__name__.lower()!r}')
        return super().generic_visit(node)

    # statements

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Constant):
            return None
        if isinstance(node.value, ast.Call) and getattr(
            node.value.func, 'id', getattr(node.value.func, 'attr', '')
        ) in ('breakpoint', 'set_trace'):
            return node
        if isinstance(node.value, ast.Attribute):
            function = ast.unparse(node.value)
            self.fail(node, f'{function} without parentheses does nothing', f'Write {function}().')
        return self.with_location(node, ast.Expr(self.visit(node.value)))

    def visit_Pass(self, node):
        return node

    visit_Import = visit_ImportFrom = visit_Pass

    def visit_Assign(self, node):
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self.assign_target(node, node.targets[0], value)
        name = self.fresh_name('v')
        return self.make(node, f'{name} = V__', V__=value) + [
            statement
            for target in node.targets
            for statement in self.assign_target(node, target, ast.Name(name, ast.Load()))
        ]

    def assign_target(self, node, target, value):
        "Make the statements that assign `value` to a target: a name, an element, or a tuple of targets"
        if isinstance(target, ast.Name) and target.id in self.maybe_unassigned:
            name = target.id
            source = f'{name} = __gs.assign_partly(__d, __m, __gs.give_name(V__, {name!r}), {name})'
            return self.make(node, f'{source}\n__assigned_{name} = __gs.union(__assigned_{name}, __m)', V__=value)
        if isinstance(target, ast.Name):
            return self.make(
                node, f'{target.id} = __gs.assign(__d, __m, __gs.give_name(V__, {target.id!r}), {target.id})', V__=value
            )
        if isinstance(target, ast.Subscript):
            return self.make(
                node,
                '__gs.store(__run, __m, A__, I__, V__, S__)',
                A__=self.visit(target.value),
                I__=self.index(target.slice),
                V__=value,
                S__=self.site(target),
            )
        if isinstance(target, (ast.Tuple, ast.List)):
            values_name = self.fresh_name('v')
            assignments = self.make(node, f'{values_name} = V__', V__=value)
            if not isinstance(value, ast.Tuple) or len(value.elts) != len(target.elts):
                assignments += self.make(node, f'__gs.check_unpack({values_name}, {len(target.elts)})')
            for i, element in enumerate(target.elts):
                assignments += self.assign_target(node, element, expression(f'{values_name}[{i}]'))
            return assignments
        if isinstance(target, ast.Attribute):
            return self.make(
                node,
                f'__gs.store_attribute(__run, __m, A__, {target.attr!r}, V__, S__)',
                A__=self.visit(target.value),
                V__=value,
                S__=self.site(target),
            )
        description = {ast.Starred: 'a name with a *'}.get(type(target), type(target).__name__.lower())
        self.fail(node, f'a kernel cannot assign to {description}', 'Assign each value to its own name.')

    def visit_AnnAssign(self, node):
        return self.assign_target(node, node.target, self.visit(node.value)) if node.value else None

    def visit_AugAssign(self, node):
        target = node.target
        if isinstance(target, ast.Name):
            old_value = self.visit(ast.copy_location(ast.Name(target.id, ast.Load()), target))
            return self.assign_target(node, target, self.binop(node, old_value, node.op, self.visit(node.value)))
        if isinstance(target, ast.Attribute):
            array_name = self.fresh_name('a')
            assignments = self.make(node, f'{array_name} = A__', A__=self.visit(target.value))
            old_value = self.make(
                node, f'__gs.attribute(__run, __m, {array_name}, {target.attr!r}, S__)', S__=self.site(target)
            )[0].value
            return assignments + self.make(
                node,
                f'__gs.store_attribute(__run, __m, {array_name}, {target.attr!r}, V__, S__)',
                V__=self.binop(node, old_value, node.op, self.visit(node.value)),
                S__=self.site(target),
            )
        if not isinstance(target, ast.Subscript):
            self.fail(node, f'the target of an augmented assignment cannot be a {type(target).__name__.lower()}')
        if any(
            isinstance(index, ast.Slice)
            for index in (target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice])
        ):
            hint = 'Write a loop over its elements: x[i] += 1.'
            self.fail(node, 'the target of an augmented assignment cannot be a slice of an array', hint)
        array_name, index_name = self.fresh_name('a'), self.fresh_name('i')
        assignments = self.make(
            node, f'{array_name} = A__\n{index_name} = I__', A__=self.visit(target.value), I__=self.index(target.slice)
        )
        old_value = self.make(node, f'__gs.load(__run, __m, {array_name}, {index_name}, S__)', S__=self.site(target))[
            0
        ].value
        return assignments + self.make(
            node,
            f'__gs.store(__run, __m, {array_name}, {index_name}, V__, S__)',
            V__=self.binop(node, old_value, node.op, self.visit(node.value)),
            S__=self.site(target),
        )

    def visit_If(self, node):
        condition = self.visit(node.test)
        prefix = self.fresh_name('')
        assigned_in_one = sorted(_assigned_names(node.body) ^ _assigned_names(node.orelse))
        save = self.make(node, '\n'.join(f'{prefix}o{name} = {name}' for name in assigned_in_one))
        join = self.make(node, '\n'.join(f'{name} = __gs.join({name}, {prefix}o{name})' for name in assigned_in_one))
        outer_diverged = (
            f'{prefix}d or {self.loops[-1]}.has_waiting_lanes()'
            if self.loops and _may_leave([node], (ast.Break, ast.Continue))
            else f'{prefix}d'
        )
        fork = f'{prefix}y, {prefix}n = __gs.fork(__run, __m, C__, S__)'
        saved = f'{prefix}d = __d\n{prefix}e = __d or {prefix}y is not None and {prefix}n is not None'
        rewritten = save + self.make(node, f'{fork}\n{saved}', C__=condition, S__=self.site(node.test))
        for suffix, body in (('y', node.body), ('n', node.orelse)):
            if body:
                rewritten.append(
                    self.with_location(
                        node,
                        ast.If(
                            expression(f'{prefix}{suffix} is not None'),
                            self.make(node, f'__m = {prefix}{suffix}\n__d = {prefix}e')
                            + self.block(body)
                            + self.make(node, f'{prefix}{suffix} = __m'),
                            [],
                        ),
                    )
                )
        return rewritten + join + self.make(node, f'__m = __gs.union({prefix}y, {prefix}n)\n__d = {outer_diverged}')

    def visit_While(self, node):
        loop = self.fresh_name('L')
        outer = self.hoisted
        self.hoisted = []
        condition = self.visit(node.test)
        test = self.hoisted
        self.hoisted = outer
        self.loops.append(loop)
        yield_if_spinning = f'if {loop}.is_spinning: yield {loop}.is_stuck\n' if self.may_spin else ''
        loop_body = (
            self.make(node, f'__m = {loop}.mask\n__d = {loop}.diverged')
            + test
            + self.make(
                node,
                f'if not __gs.continue_loop(__run, {loop}, C__, S__): break\n'
                f'{yield_if_spinning}__m = {loop}.mask\n__d = {loop}.diverged',
                C__=condition,
                S__=self.site(node.test),
            )
        )
        loop_body += self.block(node.body) + self.make(
            node, f'{loop}.end_iteration(__m)\nif {loop}.mask is None: break'
        )
        self.loops.pop()
        return (
            self.make(node, f'{loop} = __gs.Loop(__m, __d)')
            + [self.with_location(node, ast.While(ast.Constant(True), loop_body, []))]
            + self.make(node, f'__m = {loop}.active_after()\n__d = {loop}.diverged_outside')
        )

    def visit_For(self, node):
        iterable = node.iter
        loop = self.fresh_name('L')
        value = self.fresh_name('v')
        function = iterable.func if isinstance(iterable, ast.Call) else None
        if isinstance(function, ast.Name) and function.id in ('range', 'prange'):
            loop_type, args = '__gs.RangeLoop', [self.visit(arg) for arg in iterable.args]
        else:
            loop_type, args = '__gs.ItemLoop', [self.visit(iterable), expression('__run'), self.site(iterable)]
        loop_call = call_of(loop_type, expression('__m'), expression('__d'), *args)
        setup = self.make(node, f'{loop} = V__', V__=loop_call)
        self.loops.append(loop)
        loop_body = (
            self.make(node, f'__m = {loop}.mask\n__d = {loop}.diverged')
            + self.assign_target(node, node.target, ast.Name(value, ast.Load()))
            + self.block(node.body)
            + self.make(node, f'{loop}.end_iteration(__m)')
        )
        self.loops.pop()
        statement = ast.For(ast.Name(value, ast.Store()), ast.Name(loop, ast.Load()), loop_body, [])
        end = self.make(node, f'__m = {loop}.active_after()\n__d = {loop}.diverged_outside')
        return [*setup, self.with_location(node, statement), *end]

    def visit_Break(self, node):
        return self.make(
            node, f'{self.loops[-1]}.break_lanes = __gs.union({self.loops[-1]}.break_lanes, __m)\n__m = None'
        )

    def visit_Continue(self, node):
        loop = self.loops[-1]
        return self.make(node, f'{loop}.continuing_lanes = __gs.union({loop}.continuing_lanes, __m)\n__m = None')

    def visit_Return(self, node):
        value = self.visit(node.value) if node.value else ast.Constant(None)
        if self.is_kernel and not (isinstance(value, ast.Constant) and value.value is None):
            self.fail(node, 'a kernel cannot return a value', RETURN_HINT)
        source = '__ret = __gs.return_from(__run, __kernel, __m, V__, __ret)\n__m = None'
        return self.make(node, source, V__=value)

    def visit_Assert(self, node):
        message = f', {node.msg.value!r}' if isinstance(node.msg, ast.Constant) else ''
        source = f'__gs.check_assert(__run, __m, C__, S__{message})'
        return self.make(node, source, C__=self.visit(node.test), S__=self.site(node))

    def visit_Raise(self, node):
        if node.exc is None or node.cause is not None:
            self.fail(node, '`raise` requires one exception, without `from`', 'Write raise ValueError("...").')
        call = node.exc if isinstance(node.exc, ast.Call) else ast.Call(node.exc, [], [])
        if call.keywords:
            self.fail(node, 'an exception takes positional arguments only', 'Write raise ValueError("...").')
        values = ast.Tuple(self.visit_in_order(call.args), ast.Load())
        source = '__gs.raise_exception(__run, __m, F__, V__, S__)'
        return self.make(node, source, F__=self.visit(call.func), V__=values, S__=self.site(node))

    # expressions

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
        base = node
        while isinstance(base, ast.Attribute):
            base = base.value
        if isinstance(base, ast.Name) and base.id not in self.local_names:  # cuda.threadIdx.x
            return self.generic_visit(node)
        source = '__gs.attribute(__run, __m, V__, K__, S__)'
        value, name = self.visit(node.value), ast.Constant(node.attr)
        return self.make(node, source, V__=value, K__=name, S__=self.site(node))[0].value

    def visit_Name(self, node):
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
        return self.constant_name(node, node.value) if isinstance(node.value, (int, float, complex)) else node

    def constant_name(self, node, value):
        "Make a name for a literal, whose value has Numba's type"
        name = f'__k{len(self.constants)}'
        self.constants[name] = as_numba(value)
        return self.with_location(node, ast.Name(name, ast.Load()))

    def binop(self, node, a, op, b):
        name = ast.Constant(type(op).__name__)
        if isinstance(op, (ast.FloorDiv, ast.Mod)):
            return self.with_location(
                node, call_of('__gs.divide', expression('__run'), expression('__m'), name, a, b, self.site(node))
            )
        return self.with_location(node, call_of('__gs.binary', name, a, b))

    def visit_BinOp(self, node):
        if (v := fold_integer(node)) is not None:
            return self.constant_name(node, v)
        a, b = self.visit_in_order([node.left, node.right])
        return self.binop(node, a, node.op, b)

    def visit_UnaryOp(self, node):
        if isinstance(node.op, ast.Not):
            return self.with_location(node, call_of('__gs.logical_not', self.visit(node.operand)))
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return self.constant_name(node, -node.operand.value)
        return self.with_location(
            node, call_of('__gs.unary', ast.Constant(type(node.op).__name__), self.visit(node.operand))
        )

    def visit_Compare(self, node):
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
        outer = self.hoisted
        self.hoisted = []
        value = self.visit(second_operand)
        hoisted = self.hoisted
        self.hoisted = outer
        body = (
            self.make(node, f'{prefix}m, {prefix}d = __m, __d\n__m = {prefix}{suffix}\n__d = True')
            + hoisted
            + self.make(node, f'{result} = __gs.merge(__m, V__, {result})\n__m, __d = {prefix}m, {prefix}d', V__=value)
        )
        self.hoisted.append(self.with_location(node, ast.If(expression(f'{prefix}{suffix} is not None'), body, [])))
        return ast.Name(result, ast.Load())

    def visit_IfExp(self, node):
        result, prefix = self.fresh_name('e'), self.fresh_name('')
        self.hoisted += self.make(
            node,
            f'{prefix}y, {prefix}n = __gs.branch(__m, C__)\n{prefix}m, {prefix}d, {result} = __m, __d, __gs.UNDEF',
            C__=self.visit(node.test),
        )
        for suffix, branch in (('y', node.body), ('n', node.orelse)):
            outer = self.hoisted
            self.hoisted = []
            value = self.visit(branch)
            hoisted = self.hoisted
            self.hoisted = outer
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
        values = self.visit_in_order([*node.args, *(k.value for k in node.keywords)])
        args = ast.Tuple(values[: len(node.args)], ast.Load())  # may contain starred arguments
        keywords = ast.Dict([ast.Constant(k.arg) for k in node.keywords], values[len(node.args) :])
        call = call_of(
            '__gs.call', expression('__run'), expression('__m'), self.visit(node.func), args, keywords, self.site(node)
        )
        return self.with_location(node, ast.YieldFrom(call_of('__gs.finish_call', call)) if self.may_spin else call)

    def visit_Tuple(self, node):
        return self.with_location(node, ast.Tuple(self.visit_in_order(node.elts), node.ctx))


def _comparison(a_source, a, op, b_source, b):
    """Make the comparison `a op b`; `a_source` and `b_source` are the kernel's expressions for `a` and `b`.

    If one of them is a small constant, NumPy compares as Numba does, and no call is needed."""
    if any(
        (v := fold_integer(operand)) is not None and -EXACT_LIMIT < v < EXACT_LIMIT for operand in (a_source, b_source)
    ):
        return ast.Compare(a, [op], [b])
    return call_of('__gs.compare', ast.Constant(type(op).__name__), a, b)


def rewriter_of(
    name,  # of the function
    file,
    lines,  # of its source
    offset,  # number of lines of the file before it
    may_spin,  # whether it waits for other blocks
    is_kernel,  # whether it is a kernel, not a device function
):
    "Make the rewriter of a function; its `sites` and `constants` belong to the rewritten code"
    return _Rewriter(name, file, lines, offset, may_spin, is_kernel)


def _unused_calls(fn):
    """Return the calls in a function that ignores, returns or assigns their value, or compares it with None.

    A condition counts as a comparison, because None is false."""
    values = [value for node in walk(fn) for value in _unused_values(node)]
    return {value for value in values if isinstance(value, ast.Call)}


def _unused_values(node):
    if isinstance(node, (ast.Expr, ast.Return, ast.AnnAssign)):
        return [node.value]
    if isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets):
        return [node.value]
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        return [node.test]
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        return [node.left]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [node.operand]
    return node.values if isinstance(node, ast.BoolOp) else []


def rewrite_function(fn, rewriter):
    "Vectorize a `def` over lanes: adds parameters for the context and the mask, and defines all variables at the start"
    if fn.args.vararg or fn.args.kwarg or fn.args.kwonlyargs:
        construct = 'a kernel cannot have *args, **kwargs or keyword-only arguments'
        rewriter.fail(fn, construct, 'Name its parameters one by one.')
    rewriter.local_names = _locals(fn).union(arg.arg for arg in fn.args.args)
    rewriter.maybe_unassigned = maybe_unassigned(fn)
    rewriter.unused_calls = _unused_calls(fn)
    body = rewriter.block(fn.body)
    params = [arg.arg for arg in fn.args.args]
    initialization = [f'{local} = __gs.UNDEF' for local in sorted(_locals(fn) - set(params))]
    initialization += [f'__assigned_{local} = None' for local in sorted(rewriter.maybe_unassigned)]
    rewritten = statements(f'def {fn.name}({", ".join(["__run", "__m", "__kernel", *params])}): pass')[0]
    rewritten.body = [
        *statements('\n'.join(['__d = False', '__ret = __gs.UNDEF', *initialization])),
        *body,
        *statements('return __gs.return_at_end(__run, __m, __ret)'),
    ]
    return ast.Module([rewriter.with_location(fn, rewritten)], [])


def _locals(fn):
    "Return the names that the function assigns"
    return {node.id for node in walk(fn) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
