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

from .rewrite_expressions import ExpressionRewriter
from .templates import call_of, expression, statements
from .trees import walk
from .unassigned import maybe_unassigned
from .unsupported_syntax import RETURN_HINT

__all__ = ['rewrite_function', 'rewriter_of']


def _may_leave(body, statement_types=(ast.Return, ast.Break, ast.Continue)):
    "Return whether a lane can leave `body` before its end, by one of these statements"
    return any(isinstance(node, statement_types) for s in body for node in walk(s))


def _assigned_names(body):
    "Return the names that `body` assigns"
    return {node.id for s in body for node in walk(s) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


class _Rewriter(ExpressionRewriter):
    "Rewrites one function: its statements, and their expressions as `ExpressionRewriter` does"

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
        test, condition = self.visit_separately(node.test)
        self.loops.append(loop)
        yield_if_spinning = f'if {loop}.is_spinning: yield {loop}.is_endless\n' if self.may_spin else ''
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
    initialization = [f'{local_name} = __gs.UNDEF' for local_name in sorted(_locals(fn) - set(params))]
    initialization += [f'__assigned_{local_name} = None' for local_name in sorted(rewriter.maybe_unassigned)]
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
