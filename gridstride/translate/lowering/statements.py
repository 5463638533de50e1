"""Lowers statements: blocks, branches and loops; iterates over a function until its types stay the same."""

import ast
from types import SimpleNamespace

from ..tree import ONE, ZERO, Expr, number
from ..types import INT, REAL, describe, join_types
from . import convert
from .assignments import Assignments

_MOST_ITERATIONS = 20  # a type can only become wider, and there are few


def _is_text(s):
    return isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant) and isinstance(s.value.value, str)


def _is_constant(node, value):
    return isinstance(node, ast.Constant) and node.value is value


class Lowering(Assignments):
    """Lowers a Python function to typed statements: `run()`, then `body`.

    There is one method `lower_...` per kind of Python statement, which appends the lowered statements to `out`; a
    statement without a method is refused.
    """

    def run(self):
        "Lower the body again and again until the types of its variables stay"
        for _ in range(_MOST_ITERATIONS):
            self.begin()
            self.take_parameters()
            self.body = self.block(self.source.tree.body, top=True)
            if not self.changed:
                break
        self.finish()
        return self

    def take_parameters(self):
        "Make the parameters again, in each iteration"
        self.parameter_exprs = []
        for (_, make), arg in zip(self.params, self.source.tree.args.args):
            v = self.stores[arg]
            e = make(self, v)
            self.parameter_exprs.append(e)
            self.assign(arg, v, e, parameter=True)

    def finish(self):
        "Raise for a variable that has no type, and for a function that returns something on some paths only"
        for node, v in self.reads.items():
            if v is not None and v.type is None and v.memory is None and v.bound is None:
                what = f'{v.name} has no value that could be computed here'
                raise self.error(node, what, 'Give it one before this line.')
        tree = self.source.tree
        if self.result is not None and not self.is_kernel and _falls_through(tree.body):
            what = f'{self.source.name} returns {describe(self.result)} on some ways and nothing on others'
            raise self.error(tree, what, 'End it with a return.')

    def block(self, body, top=False):
        "Lower the statements of a block; `top`: it is the function's own, which may begin with a docstring"
        outer, self.out = self.out, []
        self.nesting += 1
        for s in body[1:] if top and body and _is_text(body[0]) else body:
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

    def lower_Expr(self, s):
        "Lower an expression as a statement: a docstring, `print(...)`, a call"
        if isinstance(s.value, ast.Constant):
            return
        if isinstance(s.value, ast.Attribute):
            called = ast.unparse(s.value)
            self.refuse(s, f'naming {called} and not calling it does nothing', f'Write {called}().')
        if isinstance(s.value, ast.Call) and self.callee_name(s.value) == 'print':
            return self.print(s, s.value)
        self.evaluate(s, self.lower(s.value))

    def evaluate(self, s, e):
        "Lower `e` as a statement of its own"
        for operand in e.args if e.op == 'tuple' else ():
            self.evaluate(s, operand)
        if e.op not in ('object', 'view', 'tuple'):
            self.emit('expr', s, expr=e)

    def lower_Pass(self, s):
        "Lower `pass`"
        self.emit('nothing', s)

    lower_Import = lower_ImportFrom = lower_Pass

    def print(self, s, call):
        "Lower `print(...)`: strings as they are, and values"
        how = dict(sep=' ', end='\n')
        for k in call.keywords:
            if k.arg not in how or not isinstance(k.value, ast.Constant):
                raise self.error(s, f'print(..., {k.arg}=...) in a kernel')
            how[k.arg] = k.value.value

        def item(a):
            is_text = isinstance(a, ast.Constant) and isinstance(a.value, str)
            return a.value if is_text else convert.need_number(self.lower(a))

        items = [item(a) for a in call.args]
        self.emit('print', s, items=items, args=[a for a in items if isinstance(a, Expr)], **how)

    def lower_Assert(self, s):
        "Lower `assert ...`"
        self.emit('assert', s, test=convert.truth(self.without_statements(s, lambda: self.lower(s.test))))

    def lower_Return(self, s):
        "Lower `return`, with values in a device function"
        e = None if s.value is None or _is_constant(s.value, None) else self.lower(s.value)
        if e is None:
            return self.emit('return', s, args=[])
        if self.is_kernel:
            raise self.error(s, 'a kernel returns nothing', 'Write the result into an array.')
        parts = e.args if e.op == 'tuple' else [e]
        if any(p.op in ('view', 'object') for p in parts):
            raise self.error(s, 'a device function that returns an array', 'Pass the array in, and return scalars.')
        if not all(map(convert.is_number_like, parts)):
            raise self.error(s, 'a device function that returns a tuple inside a tuple', 'Return them in one tuple.')
        self.note_result(s, tuple(p.type for p in parts) if e.op == 'tuple' else e.type)
        if e.op == 'tuple' and isinstance(s.value, ast.Tuple):
            self.fields = [node.id if isinstance(node, ast.Name) else None for node in s.value.elts]
        self.emit('return', s, args=parts)

    def note_result(self, s, t):
        "Note that the function returns a value of type `t`, too"
        new = join_types(self.result, t, self.doubles)
        if new is None:
            raise self.error(s, f'{self.source.name} returns {describe(t)} here and {describe(self.result)} elsewhere')
        self.changed |= new != self.result
        self.result = new

    def lower_Break(self, s):
        "Lower `break`"
        self.emit('break', s)

    def lower_Continue(self, s):
        "Lower `continue`"
        self.emit('continue', s)

    def lower_If(self, s):
        "Lower `if`, with `elif` and `else`"
        test = convert.truth(self.lower(s.test))
        body, orelse = self.block(s.body), self.block(s.orelse)
        first = s.orelse[0] if len(s.orelse) == 1 else None
        chained = isinstance(first, ast.If) and first.col_offset == s.col_offset
        self.emit('if', s, test=test, body=body, orelse=orelse, chained=chained)

    def lower_While(self, s):
        "Lower `while ...`"
        test = convert.truth(self.without_statements(s, lambda: self.lower(s.test)))
        self.emit('while', s, test=test, body=self.block(s.body))

    def lower_For(self, s):
        "Lower `for`, over `range(...)` or a tuple"
        if isinstance(s.iter, ast.Call) and self.callee_name(s.iter) in ('range', 'prange'):
            return self.loop_over_range(s, s.iter)
        items = self.need_tuple(s, self.lower(s.iter))
        columns = self.columns(s, s.target, items.args, items.value)
        self.emit('each', s, columns=columns, count=len(items.args), body=self.block(s.body))

    def loop_over_range(self, s, it):
        "Lower `for i in range(...)`"
        start, stop, step = map(convert.as_number, self.bounds(s, it))
        if not isinstance(s.target, ast.Name):
            raise self.error(s, 'the target of a loop over range is one name')
        v = self.stores[s.target]
        self.note_type(s, v, INT)
        self.emit('for', s, var=v, start=start, stop=stop, step=step, body=self.block(s.body))

    def bounds(self, s, it):
        "Return (start, stop, step) of `range(...)`"
        if not 1 <= len(it.args) <= 3 or it.keywords:
            raise self.error(s, 'range takes one to three arguments')
        args = [convert.need_number(self.lower(a)) for a in it.args]
        for a in args:
            if a.type in REAL:
                raise self.error(s, f'range of {describe(a.type)}: it takes integers', 'Use // or int(...).')
        if len(args) == 3 and number(args[2]) == 0:
            raise self.error(s, 'a range whose step is 0 never ends')
        return (ZERO, args[0], ONE) if len(args) == 1 else (*args, ONE) if len(args) == 2 else args

    def columns(self, s, target, items, name=None):
        "Return, per name of the loop's target, its variable and its value in each iteration"
        if isinstance(target, ast.Name):
            return [self.column(s, self.stores[target], items, name)]
        if not isinstance(target, (ast.Tuple, ast.List)):
            raise self.error(s, 'the target of a loop is a name, or a tuple of names')
        for e in items:
            if e.op != 'tuple' or len(e.args) != len(target.elts):
                raise self.error(s, f'each item of this loop must be a tuple of {len(target.elts)}')
        return [c for n, t in enumerate(target.elts) for c in self.columns(s, t, [e.args[n] for e in items])]

    def column(self, s, v, items, name):
        "Return the variable `v` of a loop, the values that it gets, and the name of the tuple of these"
        for e in items:
            if not convert.is_number_like(e):
                what = 'a loop over a tuple of items that are not scalars'
                raise self.error(s, what, 'Loop over range(...), or write the rounds out.')
            self.note_type(s, v, e.type)
        return SimpleNamespace(var=v, items=items, name=name)


def _falls_through(body):
    "Return whether control can reach the end of `body`"
    return not any(map(_ends, body))


def _ends(s):
    "Return whether control never continues after the statement `s`"
    if isinstance(s, ast.If):
        return bool(s.orelse) and not _falls_through(s.body) and not _falls_through(s.orelse)
    if isinstance(s, ast.While):
        is_endless = isinstance(s.test, ast.Constant) and s.test.value
        return bool(is_endless) and not any(isinstance(node, ast.Break) for node in ast.walk(s))
    return isinstance(s, (ast.Return, ast.Raise))
