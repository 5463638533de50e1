"""Rewrites a kernel written for one thread to a function for many lanes.

The kernel's syntax tree is rewritten, statement by statement, into one that works on whole lanes under a
mask `__m`. Line numbers stay, so tracebacks and `pdb` show the kernel's own lines.

| in the kernel | rewritten, in outline |
|---|---|
| `x = e` | `x = assign(__d, __m, e, x)` |
| `x` that may be unassigned | `assigned(run, __m, x, the lanes that have assigned it, 'x', site)` |
| `a[i] = e`, `a[i]` | `store(run, __m, a, i, e, site)`, `load(run, __m, a, i, site)` |
| `if c: ... else: ...` | both branches, each under its part of the mask, if any lane takes it |
| `for i in range(n): ...` | a loop until no lane is active |
| `for i in range(n): ... else: ...` | a variable that records `break`, and an `if` after the loop (`definition`) |
| `p and q` | `q` only in the lanes where `p` is true |
| `f(x)` | `call(run, __m, f, ..., site)`: one of CUDA's, one of Python's, or a device function, rewritten |

A kernel that waits for other blocks (`spin_wait`) becomes a generator. It yields where a block spins: whether
it would spin without end if it ran alone.

`__d` says whether there are inactive lanes that become active again later and need their old
values.
"""

import ast
import functools
from collections import namedtuple

from ..diagnostics.errors import NotSimulated
from .arithmetic import EXACT, as_numba
from .constants import fold_integer
from .templates import call_of, expression, fill, statements, template
from .trees import children, walk
from .unassigned import maybe_unassigned
from .unsupported_syntax import REFUSED, RETURNS

__all__ = ['Site', 'rewrite_function', 'rewriter_of']

Site = namedtuple('Site', 'function file line col source')  # a location in a kernel's source


def _leaves(body, kinds=(ast.Return, ast.Break, ast.Continue)):
    "Return whether a lane can leave `body` before its end, by one of `kinds`"
    return any(isinstance(node, kinds) for s in body for node in walk(s))


def _assigned_names(body):
    "Return the names that `body` assigns"
    return {node.id for s in body for node in walk(s) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _number(node):
    return isinstance(node, ast.Constant) or isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)


def _has_no_effect(node):
    "Return whether evaluating `node` has no side effect in any lane: no memory access, call or division"
    kinds = ast.Call, ast.Subscript, ast.BoolOp, ast.IfExp, ast.FloorDiv, ast.Mod
    return not any(isinstance(sub, kinds) for sub in walk(node))


# Names that begin with `__` belong to the rewritten code: `__m` is the mask of the active lanes; `__d` says whether
# lanes that are inactive now become active again and need their old values; `__gs` has the operations. A condition
# splits the mask (`fork`); each branch runs under its part, and afterwards the parts are united.
class _Rewriter(ast.NodeTransformer):
    "A rewriter of one function; `sites` collects the locations of memory accesses and calls"

    def __init__(self, name, file, lines, offset, may_spin, kernel):
        self.name = name
        self.file = file
        self.lines = lines
        self.offset = offset
        self.may_spin = may_spin
        self.kernel, self.own = kernel, frozenset()  # own: names of parameters and variables
        self.partly = frozenset()  # variables that some lanes may read unassigned
        self.sites = []
        self.consts = {}
        self.n = 0
        self.pre = None
        self.loops = []

    def fail(self, node, what, hint=''):
        line = node.lineno
        where = dict(kernel=self.name, file=self.file, line=line + self.offset, source=self._source(line))
        raise NotSimulated(what, hint, **where)

    def _source(self, line):
        return self.lines[line - 1].strip() if line <= len(self.lines) else ''

    def site(self, node):
        self.sites.append(
            Site(self.name, self.file, node.lineno + self.offset, node.col_offset, self._source(node.lineno))
        )
        return ast.Constant(len(self.sites) - 1)

    def fresh(self, what):
        self.n += 1
        return f'__{what}{self.n}'

    def make(self, node, src, **parts):
        "Make statements from `src`, replacing its names in `parts` by expressions; they get the line of `node`"
        parts = {name: self.at(node, value) for name, value in parts.items()}
        where = {k: getattr(node, k, None) for k in ast.expr._attributes}
        if where['end_lineno'] != where['lineno']:  # a call over several lines is reported at its first line
            where |= dict(end_lineno=where['lineno'], end_col_offset=where['col_offset'])
        return [fill(tree, parts, where) for tree in template(src)]

    def at(self, node, new):
        "Give the parts of `new` without a line the line of `node`; parts that have one were here before"
        todo = [new]
        while todo:
            part = todo.pop()
            if part._attributes:
                if hasattr(part, 'lineno'):
                    continue
                ast.copy_location(part, node)
            todo.extend(children(part))
        return new

    # blocks

    def block(self, body):
        "Rewrite the statements of a body; those after one where lanes may leave run only if a lane is left"
        res = []
        for i, s in enumerate(body):
            outer = self.pre
            self.pre = []
            new = self.visit(s)
            new = new if isinstance(new, list) else [] if new is None else [new]
            res += self.pre + new
            self.pre = outer
            if i + 1 < len(body) and _leaves([s]):
                later = self.block(body[i + 1 :])
                return res + [self.at(body[i + 1], ast.If(expression('__m is not None'), later or [ast.Pass()], []))]
        return res

    def generic_visit(self, node):
        if type(node) in REFUSED:
            what, hint = REFUSED[type(node)]
            self.fail(node, f'{what} in a kernel', hint)
        if isinstance(node, ast.stmt) and not isinstance(node, (ast.Pass, ast.Expr)):
            self.fail(node, f'the statement {type(node).__name__.lower()} in a kernel')
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
            called = ast.unparse(node.value)
            self.fail(node, f'naming {called} and not calling it, which does nothing', f'Write {called}().')
        return self.at(node, ast.Expr(self.visit(node.value)))

    def visit_Pass(self, node):
        return node

    visit_Import = visit_ImportFrom = visit_Pass

    def visit_Assign(self, node):
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self.bind(node, node.targets[0], value)
        v = self.fresh('v')
        return self.make(node, f'{v} = V__', V__=value) + [
            s for t in node.targets for s in self.bind(node, t, ast.Name(v, ast.Load()))
        ]

    def bind(self, node, target, value):
        "Make the statements that assign `value` to a target: a name, an element, or a tuple of targets"
        if isinstance(target, ast.Name) and target.id in self.partly:
            name = target.id
            code = f'{name} = __gs.assign_partly(__d, __m, __gs.give_name(V__, {name!r}), {name})'
            return self.make(node, f'{code}\n__of_{name} = __gs.union(__of_{name}, __m)', V__=value)
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
            v = self.fresh('v')
            res = self.make(node, f'{v} = V__', V__=value)
            if not isinstance(value, ast.Tuple) or len(value.elts) != len(target.elts):
                res += self.make(node, f'__gs.need_parts({v}, {len(target.elts)})')
            for i, t in enumerate(target.elts):
                res += self.bind(node, t, expression(f'{v}[{i}]'))
            return res
        if isinstance(target, ast.Attribute):
            return self.make(
                node,
                f'__gs.store_attribute(__run, __m, A__, {target.attr!r}, V__, S__)',
                A__=self.visit(target.value),
                V__=value,
                S__=self.site(target),
            )
        what = {ast.Starred: 'a name with a *'}.get(type(target), type(target).__name__.lower())
        self.fail(node, f'assigning to {what}', 'Give each value a name of its own.')

    def visit_AnnAssign(self, node):
        return self.bind(node, node.target, self.visit(node.value)) if node.value else None

    def visit_AugAssign(self, node):
        t = node.target
        if isinstance(t, ast.Name):
            old = self.visit(ast.copy_location(ast.Name(t.id, ast.Load()), t))
            return self.bind(node, t, self.binop(node, old, node.op, self.visit(node.value)))
        if isinstance(t, ast.Attribute):
            a = self.fresh('a')
            res = self.make(node, f'{a} = A__', A__=self.visit(t.value))
            old = self.make(node, f'__gs.attribute(__run, __m, {a}, {t.attr!r}, S__)', S__=self.site(t))[0].value
            return res + self.make(
                node,
                f'__gs.store_attribute(__run, __m, {a}, {t.attr!r}, V__, S__)',
                V__=self.binop(node, old, node.op, self.visit(node.value)),
                S__=self.site(t),
            )
        if not isinstance(t, ast.Subscript):
            self.fail(node, f'changing {type(t).__name__.lower()} in place')
        if any(
            isinstance(index, ast.Slice) for index in (t.slice.elts if isinstance(t.slice, ast.Tuple) else [t.slice])
        ):
            hint = 'Write a loop over its elements: x[i] += 1.'
            self.fail(node, 'changing a part of an array in place, which Numba does not compile', hint)
        a, i = self.fresh('a'), self.fresh('i')
        res = self.make(node, f'{a} = A__\n{i} = I__', A__=self.visit(t.value), I__=self.index(t.slice))
        old = self.make(node, f'__gs.load(__run, __m, {a}, {i}, S__)', S__=self.site(t))[0].value
        return res + self.make(
            node,
            f'__gs.store(__run, __m, {a}, {i}, V__, S__)',
            V__=self.binop(node, old, node.op, self.visit(node.value)),
            S__=self.site(t),
        )

    def visit_If(self, node):
        c = self.visit(node.test)
        n = self.fresh('')
        here = sorted(_assigned_names(node.body) ^ _assigned_names(node.orelse))
        before = self.make(node, '\n'.join(f'{n}o{nm} = {nm}' for nm in here))
        after = self.make(node, '\n'.join(f'{nm} = __gs.join({nm}, {n}o{nm})' for nm in here))
        back = (
            f'{n}d or {self.loops[-1]}.split()'
            if self.loops and _leaves([node], (ast.Break, ast.Continue))
            else f'{n}d'
        )
        fork = f'{n}y, {n}n = __gs.fork(__run, __m, C__, S__)'
        kept = f'{n}d = __d\n{n}e = __d or {n}y is not None and {n}n is not None'
        res = before + self.make(node, f'{fork}\n{kept}', C__=c, S__=self.site(node.test))
        for part, body in (('y', node.body), ('n', node.orelse)):
            if body:
                res.append(
                    self.at(
                        node,
                        ast.If(
                            expression(f'{n}{part} is not None'),
                            self.make(node, f'__m = {n}{part}\n__d = {n}e')
                            + self.block(body)
                            + self.make(node, f'{n}{part} = __m'),
                            [],
                        ),
                    )
                )
        return res + after + self.make(node, f'__m = __gs.union({n}y, {n}n)\n__d = {back}')

    def visit_While(self, node):
        L = self.fresh('L')
        outer = self.pre
        self.pre = []
        c = self.visit(node.test)
        test = self.pre
        self.pre = outer
        self.loops.append(L)
        spin = f'if {L}.spinning: yield {L}.stuck\n' if self.may_spin else ''
        inner = (
            self.make(node, f'__m = {L}.m\n__d = {L}.d')
            + test
            + self.make(
                node,
                f'if not __gs.again(__run, {L}, C__, S__): break\n{spin}__m = {L}.m\n__d = {L}.d',
                C__=c,
                S__=self.site(node.test),
            )
        )
        inner += self.block(node.body) + self.make(node, f'{L}.end(__m)\nif {L}.m is None: break')
        self.loops.pop()
        return (
            self.make(node, f'{L} = __gs.Loop(__m, __d)')
            + [self.at(node, ast.While(ast.Constant(True), inner, []))]
            + self.make(node, f'__m = {L}.out()\n__d = {L}.d0')
        )

    def visit_For(self, node):
        it = node.iter
        L = self.fresh('L')
        v = self.fresh('v')
        if isinstance(it, ast.Call) and isinstance(it.func, ast.Name) and it.func.id in ('range', 'prange'):
            make = ast.Call(
                expression('__gs.Range'), [expression('__m'), expression('__d'), *(self.visit(a) for a in it.args)], []
            )
        else:
            make = ast.Call(expression('__gs.Items'), [expression('__m'), expression('__d'), self.visit(it)], [])
        res = self.make(node, f'{L} = V__', V__=make)
        self.loops.append(L)
        inner = (
            self.make(node, f'__m = {L}.m\n__d = {L}.d')
            + self.bind(node, node.target, ast.Name(v, ast.Load()))
            + self.block(node.body)
            + self.make(node, f'{L}.end(__m)')
        )
        self.loops.pop()
        loop = self.at(node, ast.For(ast.Name(v, ast.Store()), ast.Name(L, ast.Load()), inner, []))
        return res + [loop] + self.make(node, f'__m = {L}.out()\n__d = {L}.d0')

    def visit_Break(self, node):
        return self.make(node, f'{self.loops[-1]}.brk = __gs.union({self.loops[-1]}.brk, __m)\n__m = None')

    def visit_Continue(self, node):
        return self.make(node, f'{self.loops[-1]}.cont = __gs.union({self.loops[-1]}.cont, __m)\n__m = None')

    def visit_Return(self, node):
        value = self.visit(node.value) if node.value else ast.Constant(None)
        if self.kernel and not (isinstance(value, ast.Constant) and value.value is None):
            self.fail(node, 'a kernel that returns something', RETURNS)
        code = '__ret = __gs.leave(__run, __kernel, __m, V__, __ret)\n__m = None'
        return self.make(node, code, V__=value)

    def visit_Assert(self, node):
        message = f', {node.msg.value!r}' if isinstance(node.msg, ast.Constant) else ''
        code = f'__gs.holds(__run, __m, C__, S__{message})'
        return self.make(node, code, C__=self.visit(node.test), S__=self.site(node))

    def visit_Raise(self, node):
        if node.exc is None or node.cause is not None:
            self.fail(node, 'raise without an exception, or from another one', 'Write raise ValueError("...").')
        call = node.exc if isinstance(node.exc, ast.Call) else ast.Call(node.exc, [], [])
        if call.keywords:
            self.fail(node, 'an exception with arguments by name', 'Write raise ValueError("...").')
        values = ast.Tuple(self.in_order(call.args), ast.Load())
        code = '__gs.throw(__run, __m, F__, V__, S__)'
        return self.make(node, code, F__=self.visit(call.func), V__=values, S__=self.site(node))

    # expressions

    def in_order(self, nodes):
        "Visit expressions; one before another that needs statements of its own is evaluated before those"
        res = []
        for node in nodes:
            n = len(self.pre)
            v = self.visit(node)
            if len(self.pre) > n:
                for j, part in enumerate(nodes[: len(res)]):
                    if self.quick(part):
                        continue
                    t = self.fresh('t')
                    self.pre[n:n] = self.make(part, f'{t} = V__', V__=res[j])
                    n = n + 1
                    res[j] = ast.Name(t, ast.Load())
            res.append(v)
        return res

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
        return self.at(
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
        of = node
        while isinstance(of, ast.Attribute):
            of = of.value
        if isinstance(of, ast.Name) and of.id not in self.own:  # cuda.threadIdx.x
            return self.generic_visit(node)
        get = '__gs.attribute(__run, __m, V__, K__, S__)'
        value, name = self.visit(node.value), ast.Constant(node.attr)
        return self.make(node, get, V__=value, K__=name, S__=self.site(node))[0].value

    def visit_Name(self, node):
        if node.id not in self.partly or not isinstance(node.ctx, ast.Load):
            return node
        code = f'__gs.assigned(__run, __m, {node.id}, __of_{node.id}, {node.id!r}, S__)'
        return self.make(node, code, S__=self.site(node))[0].value

    def quick(self, node):
        "Return whether evaluating `node` has no side effect in any lane, even where a variable is unassigned"
        return _has_no_effect(node) and not any(
            isinstance(sub, ast.Name) and sub.id in self.partly for sub in walk(node)
        )

    def visit_Constant(self, node):
        return self.const(node, node.value) if isinstance(node.value, (int, float, complex)) else node

    def const(self, node, value):
        "Make a name for a number, typed as in Numba"
        nm = f'__k{len(self.consts)}'
        self.consts[nm] = as_numba(value)
        return self.at(node, ast.Name(nm, ast.Load()))

    def binop(self, node, a, op, b):
        name = ast.Constant(type(op).__name__)
        if isinstance(op, (ast.FloorDiv, ast.Mod)):
            return self.at(
                node, call_of('__gs.divide', expression('__run'), expression('__m'), name, a, b, self.site(node))
            )
        return self.at(node, call_of('__gs.binary', name, a, b))

    def visit_BinOp(self, node):
        if (v := fold_integer(node)) is not None:
            return self.const(node, v)
        a, b = self.in_order([node.left, node.right])
        return self.binop(node, a, node.op, b)

    def visit_UnaryOp(self, node):
        if isinstance(node.op, ast.Not):
            return self.at(node, call_of('__gs.negate', self.visit(node.operand)))
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return self.const(node, -node.operand.value)
        return self.at(node, call_of('__gs.unary', ast.Constant(type(node.op).__name__), self.visit(node.operand)))

    def visit_Compare(self, node):
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            found = call_of('__gs.contains', self.visit(node.left), self.visit(node.comparators[0]))
            return self.at(node, found if isinstance(node.ops[0], ast.In) else call_of('__gs.negate', found))
        if len(node.ops) > 1 and not all(
            map(self.quick, node.comparators)
        ):  # a < b < c as a < b and b < c, which short-circuits
            sides = [node.left, *node.comparators]
            pairs = [ast.copy_location(ast.Compare(a, [op], [b]), node) for a, op, b in zip(sides, node.ops, sides[1:])]
            return self.visit_BoolOp(ast.copy_location(ast.BoolOp(ast.And(), pairs), node))
        if len(node.ops) == 1:
            a, b = self.in_order([node.left, node.comparators[0]])
            return self.at(node, _comparison(node.left, a, node.ops[0], node.comparators[0], b))
        names = [self.fresh('c') for _ in node.comparators]
        res = []
        before = node.left
        left = self.visit(node.left)
        for nm, op, right in zip(names, node.ops, node.comparators):  # a < b < c: b once, then two comparisons
            self.pre += self.make(node, f'{nm} = V__', V__=self.visit(right))
            res.append(_comparison(before, left, op, right, ast.Name(nm, ast.Load())))
            before = right
            left = ast.Name(nm, ast.Load())
        return self.at(node, functools.reduce(lambda a, b: call_of('__gs.both', a, b), res))

    def visit_BoolOp(self, node):
        which = 'both' if isinstance(node.op, ast.And) else 'either'
        res = self.visit(node.values[0])
        for v in node.values[1:]:
            if self.quick(v):
                res = call_of(f'__gs.{which}', res, self.visit(v))
            else:
                res = self.short_circuit(node, res, v, which)
        return self.at(node, res)

    def short_circuit(self, node, first, second, which):
        "Make `first and second`, or `or`: the second is evaluated only in the lanes where it matters"
        e = self.fresh('e')
        n = self.fresh('')
        part = 'y' if which == 'both' else 'n'
        self.pre += self.make(node, f'{e} = V__\n{n}y, {n}n = __gs.branch(__m, {e})', V__=first)
        outer = self.pre
        self.pre = []
        value = self.visit(second)
        inner = self.pre
        self.pre = outer
        body = (
            self.make(node, f'{n}m, {n}d = __m, __d\n__m = {n}{part}\n__d = True')
            + inner
            + self.make(node, f'{e} = __gs.merge(__m, V__, {e})\n__m, __d = {n}m, {n}d', V__=value)
        )
        self.pre.append(self.at(node, ast.If(expression(f'{n}{part} is not None'), body, [])))
        return ast.Name(e, ast.Load())

    def visit_IfExp(self, node):
        e, n = self.fresh('e'), self.fresh('')
        self.pre += self.make(
            node,
            f'{n}y, {n}n = __gs.branch(__m, C__)\n{n}m, {n}d, {e} = __m, __d, __gs.UNDEF',
            C__=self.visit(node.test),
        )
        for part, v in (('y', node.body), ('n', node.orelse)):
            outer = self.pre
            self.pre = []
            value = self.visit(v)
            inner = self.pre
            self.pre = outer
            body = (
                self.make(node, f'__m = {n}{part}\n__d = True')
                + inner
                + self.make(node, f'{e} = __gs.merge(__m, V__, {e})', V__=value)
            )
            self.pre.append(self.at(node, ast.If(expression(f'{n}{part} is not None'), body, [])))
        self.pre += self.make(node, f'__m, __d = {n}m, {n}d')
        for v in (node.body, node.orelse):
            if _number(v):
                self.pre += self.make(node, f'{e} = __gs.join({e}, V__)', V__=self.visit(v))
        return self.at(node, ast.Name(e, ast.Load()))

    def visit_Call(self, node):
        values = self.in_order([*node.args, *(k.value for k in node.keywords)])
        args = ast.Tuple(values[: len(node.args)], ast.Load())
        kw = ast.Dict([ast.Constant(k.arg) for k in node.keywords], values[len(node.args) :])
        call = call_of(
            '__gs.call', expression('__run'), expression('__m'), self.visit(node.func), args, kw, self.site(node)
        )
        return self.at(node, ast.YieldFrom(call_of('__gs.finish', call)) if self.may_spin else call)

    def visit_Tuple(self, node):
        return self.at(node, ast.Tuple(self.in_order(node.elts), node.ctx))


def _comparison(before, a, op, after, b):
    "Make `a op b` from what was `before op after`: next to a small constant NumPy compares as Numba does"
    if any((v := fold_integer(operand)) is not None and -EXACT < v < EXACT for operand in (before, after)):
        return ast.Compare(a, [op], [b])
    return call_of('__gs.compare', ast.Constant(type(op).__name__), a, b)


def rewriter_of(
    name,  # of the function
    file,
    lines,  # of its source
    offset,  # number of lines of the file before it
    may_spin,  # does it wait for other blocks?
    kernel,  # is it a kernel, and not a device function?
):
    "Make the rewriter of a function: its `fail` refuses a node, its `sites` and `consts` belong to the rewritten code"
    return _Rewriter(name, file, lines, offset, may_spin, kernel)


def rewrite_function(fn, rewriter):
    "Rewrite a `def` for lanes: its parameters follow the run and the mask, and all variables exist from the start"
    if fn.args.vararg or fn.args.kwarg or fn.args.kwonlyargs:
        rewriter.fail(fn, 'a kernel with *args, **kwargs or keyword-only arguments', 'Name its parameters one by one.')
    rewriter.own = _locals(fn).union(arg.arg for arg in fn.args.args)
    rewriter.partly = maybe_unassigned(fn)
    body = rewriter.block(fn.body)
    params = [arg.arg for arg in fn.args.args]
    start = [f'{local} = __gs.UNDEF' for local in sorted(_locals(fn) - set(params))]
    start += [f'__of_{local} = None' for local in sorted(rewriter.partly)]
    new = statements(f'def {fn.name}({", ".join(["__run", "__m", "__kernel", *params])}): pass')[0]
    new.body = [
        *statements('\n'.join(['__d = False', '__ret = __gs.UNDEF', *start])),
        *body,
        *statements('return __gs.return_at_end(__m, __ret)'),
    ]
    return ast.Module([rewriter.at(fn, new)], [])


def _locals(fn):
    "Return the names that the function assigns"
    return {node.id for node in walk(fn) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
