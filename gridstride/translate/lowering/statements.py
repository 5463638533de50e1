"""Lowers statements: blocks, branches and loops; iterates over a function until its types stay the same."""

import ast
from types import SimpleNamespace

from ..tree import ONE, ZERO, Expr, number
from ..types import INT, REAL, describe, join_types
from . import convert
from .assignments import Assignments

_MAX_ITERATIONS = 20  # more than enough: a type only becomes wider, and there are few types


def _is_string(stmt):
    return isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant) and isinstance(stmt.value.value, str)


def _is_constant(node, value):
    return isinstance(node, ast.Constant) and node.value is value


class Lowering(Assignments):
    """Lowers a Python function to typed statements: `run()`, then `body`.

    There is one method `lower_...` per kind of Python statement, which appends the lowered statements to `out`; a
    statement without a method is refused.
    """

    def run(self):
        "Lower the body repeatedly until the types of its variables no longer change"
        for _ in range(_MAX_ITERATIONS):
            self.begin()
            self.take_parameters()
            self.body = self.block(self.source.tree.body, top=True)
            if not self.changed:
                break
        self.finish()
        return self

    def take_parameters(self):
        "Make the variables of the parameters, new ones in each iteration"
        self.parameter_exprs = []
        for (_, make), arg in zip(self.params, self.source.tree.args.args):
            v = self.stores[arg]
            e = make(self, v)
            self.parameter_exprs.append(e)
            self.assign(arg, v, e, parameter=True)

    def finish(self):
        "Raise for a variable that has no type, and for a function that returns something on some paths only"
        for node, v in self.reads.items():
            if v is not None and v.type is None and v.memory is None and v.callee is None:
                what = f'{v.name} has no value here'
                raise self.error(node, what, 'Assign a value before this line.')
        tree = self.source.tree
        if self.result is not None and not self.is_kernel and _falls_through(tree.body):
            what = f'{self.source.name} returns {describe(self.result)} on some paths and nothing on others'
            raise self.error(tree, what, 'End it with a return.')

    def block(self, body, top=False):
        "Lower the statements of a block; `top`: it is the function's own, which may begin with a docstring"
        outer, self.out = self.out, []
        self.nesting += 1
        for s in body[1:] if top and body and _is_string(body[0]) else body:
            f = getattr(self, f'lower_{type(s).__name__}', None)
            if f is None:
                raise self.refusal(s)
            try:
                f(s)
            except convert.Misused as e:
                raise self.error(s, f'{e.what()} where a number is needed') from None
        self.out, res = outer, self.out
        self.nesting -= 1
        return res

    def lower_Expr(self, stmt):
        "Lower an expression as a statement: a docstring, `print(...)`, a call"
        if isinstance(stmt.value, ast.Constant):
            return
        if isinstance(stmt.value, ast.Attribute):
            called = ast.unparse(stmt.value)
            self.refuse(stmt, f'{called} without a call does nothing', f'Write {called}().')
        if isinstance(stmt.value, ast.Call) and self.callee_name(stmt.value) == 'print':
            return self.print(stmt, stmt.value)
        self.evaluate(stmt, self.lower(stmt.value))

    def evaluate(self, stmt, expr):
        "Lower `expr` as a statement of its own"
        for operand in expr.args if expr.op == 'tuple' else ():
            self.evaluate(stmt, operand)
        if expr.op not in ('object', 'view', 'tuple'):
            self.emit('expr', stmt, expr=expr)

    def lower_Pass(self, stmt):
        "Lower `pass`"
        self.emit('nothing', stmt)

    lower_Import = lower_ImportFrom = lower_Pass

    def print(self, stmt, call):
        "Lower `print(...)`: string literals are copied, other arguments are numbers"
        options = dict(sep=' ', end='\n')
        for k in call.keywords:
            if k.arg not in options or not isinstance(k.value, ast.Constant):
                raise self.error(stmt, f'print(..., {k.arg}=...) in a kernel')
            options[k.arg] = k.value.value

        def item(a):
            is_text = isinstance(a, ast.Constant) and isinstance(a.value, str)
            return a.value if is_text else convert.need_number(self.lower(a))

        items = [item(a) for a in call.args]
        self.emit('print', stmt, items=items, args=[a for a in items if isinstance(a, Expr)], **options)

    def lower_Assert(self, stmt):
        "Lower `assert ...`"
        self.emit('assert', stmt, test=convert.truth(self.without_statements(stmt, lambda: self.lower(stmt.test))))

    def lower_Return(self, stmt):
        "Lower `return`, with values in a device function"
        e = None if stmt.value is None or _is_constant(stmt.value, None) else self.lower(stmt.value)
        if e is None:
            return self.emit('return', stmt, args=[])
        if self.is_kernel:
            raise self.error(stmt, 'a kernel cannot return a value', 'Write the result into an array.')
        parts = e.args if e.op == 'tuple' else [e]
        if any(p.op in ('view', 'object') for p in parts):
            raise self.error(stmt, 'a device function that returns an array', 'Pass the array in, and return scalars.')
        if not all(map(convert.is_number_like, parts)):
            raise self.error(stmt, 'a device function that returns a tuple inside a tuple', 'Return them in one tuple.')
        self.add_result_type(stmt, tuple(p.type for p in parts) if e.op == 'tuple' else e.type)
        if e.op == 'tuple' and isinstance(stmt.value, ast.Tuple):
            self.fields = [node.id if isinstance(node, ast.Name) else None for node in stmt.value.elts]
        self.emit('return', stmt, args=parts)

    def add_result_type(self, stmt, t):
        "Record that the function returns a value of type `t`"
        new = join_types(self.result, t, self.doubles)
        if new is None:
            raise self.error(
                stmt, f'{self.source.name} returns {describe(t)} here and {describe(self.result)} elsewhere'
            )
        self.changed |= new != self.result
        self.result = new

    def lower_Break(self, stmt):
        "Lower `break`"
        self.emit('break', stmt)

    def lower_Continue(self, stmt):
        "Lower `continue`"
        self.emit('continue', stmt)

    def lower_If(self, stmt):
        "Lower `if`, with `elif` and `else`"
        test = convert.truth(self.lower(stmt.test))
        body, orelse = self.block(stmt.body), self.block(stmt.orelse)
        first = stmt.orelse[0] if len(stmt.orelse) == 1 else None
        chained = isinstance(first, ast.If) and first.col_offset == stmt.col_offset
        self.emit('if', stmt, test=test, body=body, orelse=orelse, chained=chained)

    def lower_While(self, stmt):
        "Lower `while ...`"
        test = convert.truth(self.without_statements(stmt, lambda: self.lower(stmt.test)))
        self.emit('while', stmt, test=test, body=self.block(stmt.body))

    def lower_For(self, stmt):
        "Lower `for`, over `range(...)` or a tuple"
        if isinstance(stmt.iter, ast.Call) and self.callee_name(stmt.iter) in ('range', 'prange'):
            return self.loop_over_range(stmt, stmt.iter)
        items = self.need_tuple(stmt, self.lower(stmt.iter))
        columns = self.columns(stmt, stmt.target, items.args, items.value)
        self.emit('each', stmt, columns=columns, count=len(items.args), body=self.block(stmt.body))

    def loop_over_range(self, stmt, it):
        "Lower `for i in range(...)`"
        start, stop, step = map(convert.as_number, self.bounds(stmt, it))
        if not isinstance(stmt.target, ast.Name):
            raise self.error(stmt, 'the target of a loop over range must be one name')
        v = self.stores[stmt.target]
        self.add_type(stmt, v, INT)
        self.emit('for', stmt, var=v, start=start, stop=stop, step=step, body=self.block(stmt.body))

    def bounds(self, stmt, it):
        "Return (start, stop, step) of `range(...)`"
        if not 1 <= len(it.args) <= 3 or it.keywords:
            raise self.error(stmt, 'range takes one to three arguments')
        args = [convert.need_number(self.lower(a)) for a in it.args]
        for a in args:
            if a.type in REAL:
                raise self.error(stmt, f'range of {describe(a.type)}: it takes integers', 'Use // or int(...).')
        if len(args) == 3 and number(args[2]) == 0:
            raise self.error(stmt, 'a range whose step is 0 never ends')
        return (ZERO, args[0], ONE) if len(args) == 1 else (*args, ONE) if len(args) == 2 else args

    def columns(self, stmt, target, items, name=None):
        "Return, per name of the loop's target, its variable and its value in each iteration"
        if isinstance(target, ast.Name):
            return [self.column(stmt, self.stores[target], items, name)]
        if not isinstance(target, (ast.Tuple, ast.List)):
            raise self.error(stmt, 'the target of a loop must be a name, or a tuple of names')
        for e in items:
            if e.op != 'tuple' or len(e.args) != len(target.elts):
                raise self.error(stmt, f'each item of this loop must be a tuple of {len(target.elts)}')
        return [c for n, t in enumerate(target.elts) for c in self.columns(stmt, t, [e.args[n] for e in items])]

    def column(self, stmt, v, items, name):
        "Return the variable `v` of a loop, the values that it gets, and the name of the tuple of these"
        for e in items:
            if not convert.is_number_like(e):
                what = 'a loop over a tuple of items that are not scalars'
                raise self.error(stmt, what, 'Loop over range(...), or unroll the loop by hand.')
            self.add_type(stmt, v, e.type)
        return SimpleNamespace(var=v, items=items, name=name)


def _falls_through(body):
    "Return whether control can reach the end of `body`"
    return not any(map(_ends, body))


def _ends(stmt):
    "Return whether control never continues after the statement `stmt`"
    if isinstance(stmt, ast.If):
        return bool(stmt.orelse) and not _falls_through(stmt.body) and not _falls_through(stmt.orelse)
    if isinstance(stmt, ast.While):
        is_endless = isinstance(stmt.test, ast.Constant) and stmt.test.value
        return bool(is_endless) and not any(isinstance(node, ast.Break) for node in ast.walk(stmt))
    return isinstance(stmt, (ast.Return, ast.Raise))
