"""Lowers statements: blocks, branches and loops. A function is lowered again until its types no longer change."""

import ast
from types import SimpleNamespace

from ..tree import ONE, ZERO, Expr, constant_value
from ..types import INT64, FLOATS, describe_type, join_types
from . import convert
from .assignments import Assignments

_MAX_ITERATIONS = 20  # more than necessary: a type only becomes wider, and there are few types


def _is_string(stmt):
    return isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant) and isinstance(stmt.value.value, str)


def _is_constant(node, value):
    return isinstance(node, ast.Constant) and node.value is value


class Lowering(Assignments):
    """Lowers a Python function to typed statements: `run()`, then `body`.

    There is one method `lower_...` per kind of Python statement, which appends the lowered statements to
    `current_block`; a statement without a method raises an error.
    """

    def run(self):
        "Lower the body repeatedly until the types of its variables no longer change"
        for _ in range(_MAX_ITERATIONS):
            self.begin_iteration()
            self.lower_parameters()
            self.body = self.lower_block(self.source.tree.body, is_function_body=True)
            if not self.have_types_changed:
                break
        self.require_complete()
        return self

    def lower_parameters(self):
        "Create the expressions of the parameters, new ones in each iteration"
        self.parameter_exprs = []
        for (_, make_expr), arg in zip(self.params, self.source.tree.args.args):
            variable = self.stores[arg]
            expr = make_expr(self, variable)
            self.parameter_exprs.append(expr)
            self.assign(arg, variable, expr, is_parameter=True)

    def require_complete(self):
        "Raise an error for a variable without a type, or a device function that returns a value only on some paths"
        for node, variable in self.reads.items():
            if variable is not None and variable.type is None and variable.buffer is None and variable.callee is None:
                message = f'{variable.name} is read before it is assigned'
                raise self.error(node, message, 'Assign a value before this line.')
        tree = self.source.tree
        if self.result_type is not None and not self.is_kernel and _falls_through(tree.body):
            message = (
                f'{self.source.name} returns {describe_type(self.result_type)} on some paths and nothing on others'
            )
            raise self.error(tree, message, 'End the function with a return.')

    def lower_block(self, body, is_function_body=False):
        "Return the lowered statements of a block; the body of a function may begin with a docstring"
        enclosing_block, self.current_block = self.current_block, []
        self.nesting_depth += 1
        for stmt in body[1:] if is_function_body and body and _is_string(body[0]) else body:
            lower_stmt = getattr(self, f'lower_{type(stmt).__name__}', None)
            if lower_stmt is None:
                raise self.unsupported_syntax(stmt)
            try:
                lower_stmt(stmt)
            except convert.NotANumber as e:
                raise self.error(stmt, f'expected a number, got {e.description()}') from None
        self.current_block, lowered_block = enclosing_block, self.current_block
        self.nesting_depth -= 1
        return lowered_block

    def lower_Expr(self, stmt):
        "Lower an expression as a statement: a docstring, `print(...)`, a call"
        if isinstance(stmt.value, ast.Constant):
            return
        if isinstance(stmt.value, ast.Attribute):
            name = ast.unparse(stmt.value)
            self.raise_error(stmt, f'{name} without parentheses does nothing', f'Write {name}().')
        if isinstance(stmt.value, ast.Call) and self.callee_name(stmt.value) == 'print':
            return self.lower_print(stmt, stmt.value)
        self.emit_expression(stmt, self.lower(stmt.value))

    def emit_expression(self, stmt, expr):
        "Emit `expr` as a statement, or the items of a tuple"
        for operand in expr.args if expr.op == 'tuple' else ():
            self.emit_expression(stmt, operand)
        if expr.op not in ('object', 'view', 'tuple'):
            self.emit('expr', stmt, expr=expr)

    def lower_Pass(self, stmt):
        "Lower `pass`"
        self.emit('pass', stmt)

    lower_Import = lower_ImportFrom = lower_Pass

    def lower_print(self, stmt, call):
        "Lower `print(...)`: string literals are copied, other arguments must be scalars"
        options = dict(sep=' ', end='\n')
        for keyword in call.keywords:
            if keyword.arg not in options or not isinstance(keyword.value, ast.Constant):
                raise self.error(stmt, f'print in a kernel does not take {keyword.arg}')
            options[keyword.arg] = keyword.value.value

        def lower_print_argument(argument):
            is_string = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            return argument.value if is_string else convert.require_number(self.lower(argument))

        items = [lower_print_argument(argument) for argument in call.args]
        self.emit(
            'print', stmt, items=items, args=[argument for argument in items if isinstance(argument, Expr)], **options
        )

    def lower_Assert(self, stmt):
        "Lower `assert ...`"
        self.emit('assert', stmt, test=convert.to_condition(self.lower_without_statements(stmt, stmt.test)))

    def lower_Return(self, stmt):
        "Lower `return`, which may return values in a device function"
        expr = None if stmt.value is None or _is_constant(stmt.value, None) else self.lower(stmt.value)
        if expr is None:
            return self.emit('return', stmt, args=[])
        if self.is_kernel:
            raise self.error(stmt, 'a kernel cannot return a value', 'Write the result into an array.')
        results = expr.args if expr.op == 'tuple' else [expr]
        if any(result.op in ('view', 'object') for result in results):
            raise self.error(
                stmt, 'a device function cannot return an array', 'Pass the array as an argument, and return scalars.'
            )
        if not all(map(convert.is_number_like, results)):
            raise self.error(stmt, 'a device function cannot return a nested tuple', 'Return them in one tuple.')
        self.add_result_type(stmt, tuple(result.type for result in results) if expr.op == 'tuple' else expr.type)
        if expr.op == 'tuple' and isinstance(stmt.value, ast.Tuple):
            self.result_names = [node.id if isinstance(node, ast.Name) else None for node in stmt.value.elts]
        self.emit('return', stmt, args=results)

    def add_result_type(self, stmt, new_type):
        "Record that the function returns a value of type `new_type`"
        joined_type = join_types(self.result_type, new_type, self.numba_types)
        if joined_type is None:
            types = f'{describe_type(new_type)} here and {describe_type(self.result_type)} elsewhere'
            raise self.error(stmt, f'{self.source.name} returns {types}')
        self.have_types_changed |= joined_type != self.result_type
        self.result_type = joined_type

    def lower_Break(self, stmt):
        "Lower `break`"
        self.emit('break', stmt)

    def lower_Continue(self, stmt):
        "Lower `continue`"
        self.emit('continue', stmt)

    def lower_If(self, stmt):
        "Lower `if`, with `elif` and `else`"
        test = convert.to_condition(self.lower(stmt.test))
        body, orelse = self.lower_block(stmt.body), self.lower_block(stmt.orelse)
        only_statement = stmt.orelse[0] if len(stmt.orelse) == 1 else None
        has_elif = isinstance(only_statement, ast.If) and only_statement.col_offset == stmt.col_offset
        self.emit('if', stmt, test=test, body=body, orelse=orelse, has_elif=has_elif)

    def lower_While(self, stmt):
        "Lower `while ...`"
        test = convert.to_condition(self.lower_without_statements(stmt, stmt.test))
        self.emit('while', stmt, test=test, body=self.lower_block(stmt.body))

    def lower_For(self, stmt):
        "Lower `for`, over `range(...)` or a tuple"
        if isinstance(stmt.iter, ast.Call) and self.callee_name(stmt.iter) in ('range', 'prange'):
            return self.lower_range_loop(stmt, stmt.iter)
        items = self.require_tuple(stmt, self.lower(stmt.iter))
        targets = self.loop_targets(stmt, stmt.target, items.args, items.value)
        self.emit('for_tuple', stmt, targets=targets, num_iterations=len(items.args), body=self.lower_block(stmt.body))

    def lower_range_loop(self, stmt, range_call):
        "Lower `for i in range(...)`"
        start, stop, step = map(convert.bool_to_int, self.range_bounds(stmt, range_call))
        if not isinstance(stmt.target, ast.Name):
            raise self.error(stmt, 'the target of a loop over range must be one name')
        variable = self.stores[stmt.target]
        self.add_type(stmt, variable, INT64)
        self.emit('for', stmt, var=variable, start=start, stop=stop, step=step, body=self.lower_block(stmt.body))

    def range_bounds(self, stmt, range_call):
        "Return (start, stop, step) of `range(...)`"
        if not 1 <= len(range_call.args) <= 3 or range_call.keywords:
            raise self.error(stmt, 'range takes one to three arguments')
        args = [convert.require_number(self.lower(argument)) for argument in range_call.args]
        for argument in args:
            if argument.type in FLOATS:
                raise self.error(
                    stmt,
                    f'the arguments of range must be integers; got {describe_type(argument.type)}',
                    'Use // or int(...).',
                )
        if len(args) == 3 and constant_value(args[2]) == 0:
            raise self.error(stmt, 'the step of range must not be 0')
        return (ZERO, args[0], ONE) if len(args) == 1 else (*args, ONE) if len(args) == 2 else args

    def loop_targets(self, stmt, target, items, name=None):
        "Return a `loop_target` per name in the target of a loop"
        if isinstance(target, ast.Name):
            return [self.loop_target(stmt, self.stores[target], items, name)]
        if not isinstance(target, (ast.Tuple, ast.List)):
            raise self.error(stmt, 'the target of a loop must be a name, or a tuple of names')
        for expr in items:
            if expr.op != 'tuple' or len(expr.args) != len(target.elts):
                raise self.error(
                    stmt, f'each item that this loop iterates over must be a tuple of {len(target.elts)} elements'
                )
        return [
            loop_target
            for n, element in enumerate(target.elts)
            for loop_target in self.loop_targets(stmt, element, [expr.args[n] for expr in items])
        ]

    def loop_target(self, stmt, variable, items, name):
        "Return a target of a loop: its variable, its values in `items`, one per iteration, and the name of their tuple"
        for expr in items:
            if not convert.is_number_like(expr):
                message = 'a loop cannot iterate over a tuple with items that are not scalars'
                raise self.error(stmt, message, 'Loop over range(...), or unroll the loop by hand.')
            self.add_type(stmt, variable, expr.type)
        return SimpleNamespace(var=variable, items=items, name=name)


def _falls_through(body):
    "Return whether control can reach the end of `body`"
    return not any(map(_never_completes, body))


def _never_completes(stmt):
    "Return whether control never reaches the end of the statement `stmt`"
    if isinstance(stmt, ast.If):
        return bool(stmt.orelse) and not _falls_through(stmt.body) and not _falls_through(stmt.orelse)
    if isinstance(stmt, ast.While):
        is_endless = isinstance(stmt.test, ast.Constant) and stmt.test.value
        return bool(is_endless) and not any(isinstance(node, ast.Break) for node in ast.walk(stmt))
    return isinstance(stmt, (ast.Return, ast.Raise))
