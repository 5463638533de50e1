"""Rewrites the function of a kernel into Python that behaves like compiled Triton, with the same names and lines.

Some Python constructs have a different meaning in Triton:

- an assignment makes a value of the kernel: after `half = 0.5` the name is an fp32 scalar;
- `and`, `or` and `not` work elementwise on values of the kernel;
- an `assert` is a `tl.device_assert`;
- a loop-carried variable keeps its type;
- both branches of an `if` on a run-time value are compiled, so they must agree in the types of their variables.

Other constructs that the compiler rejects raise errors. Rewritten code calls the functions of `hooks.HOOKS`; their
names begin with `__tile_`.
"""

import ast
import types
from functools import lru_cache

from ..support.function_source import SourceMissing, source_of
from .hints import hint, hints, return_hint
from .run import compile_error

__all__ = ['code_of']

# The syntax that Triton's compiler rejects: class of the node -> its name in messages
_UNSUPPORTED = dict(
    Try='try', Raise='raise', Delete='del', Lambda='lambda', ClassDef='a class', Global='global', Nonlocal='nonlocal',
    Yield='yield', YieldFrom='yield', Await='await', Dict='a dict', Set='a set', DictComp='a dict', SetComp='a set',
    GeneratorExp='a generator', Break='break', Continue='continue', NamedExpr=':=', AsyncFor='async', Match='match',
    Import='import', ImportFrom='import', AsyncFunctionDef='async', AsyncWith='async',
)  # fmt: skip
_HINT_OF_CONSTRUCT = {
    'break': 'Put the work into an `if`, or mask it; end a `while` loop by its condition.',
    'continue': 'Put the remaining statements of the iteration into an `if`.',
    'lambda': 'Write a separate function and decorate it with @triton.jit.',
    'a dict': 'Pass numbers as tl.constexpr arguments, or a tuple or namedtuple.',
}


class _CompileError(Exception):
    "Raised for a construct that cannot be compiled: (problem, hint, line)"


class _Rewriter(ast.NodeTransformer):
    "Rewrites one function; `loops` has a bool per enclosing loop: False if the compiler unrolls it"

    def __init__(self):
        self.loops = []
        self.is_in_function = False
        self.num_temporaries = 0  # variables that the rewritten code adds
        self.assigned_names = set()  # names that are assigned on all paths to the current statement
        self.names_read = set()  # names that the function reads
        # Each `if` with a `return`, as (name of its condition, hints of the values that it returns): those around the
        # current statement, and those before it.
        self.enclosing_ifs = []
        self.earlier_ifs = []
        self.reassigned_names = set()  # names that are assigned more than once, so that their type may vary
        self.final_return_hint = None  # the hint of the value that the last statement of the function returns

    def visit(self, node):
        construct = _UNSUPPORTED.get(type(node).__name__)
        if construct:
            raise _CompileError(f'a kernel cannot use {construct}', _HINT_OF_CONSTRUCT.get(construct, ''), node.lineno)
        return super().visit(node)

    def visit_FunctionDef(self, node):
        if self.is_in_function:
            raise _CompileError('a kernel cannot define a function', _HINT_OF_CONSTRUCT['lambda'], node.lineno)
        self.is_in_function = True
        self.assigned_names = {arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)}
        self.names_read = {
            name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)
        }
        node.decorator_list = []
        node.returns = None
        for parameter in (*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs):
            parameter.annotation = None
        stores = [name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)]
        self.reassigned_names = {name for name in stores if stores.count(name) > 1 or name in self.assigned_names}
        self.final_return_hint = next(iter(return_hint(node.body, self.reassigned_names)), None)
        node.args.defaults = [_name_at('None', default) for default in node.args.defaults]
        node.args.kw_defaults = [default and _name_at('None', default) for default in node.args.kw_defaults]
        self.generic_visit(node)
        return node

    def visit_Assign(self, node):
        if len(node.targets) > 1:
            raise _CompileError(
                'a kernel cannot assign one value to two names (a = b = ...)', 'Write two assignments.', node.lineno
            )
        _check_target(node.targets[0])
        self.assigned_names |= _assigned_names([node])
        is_ignored = _is_atomic(node.value) and not _assigned_names([node]) & self.names_read
        node.value = _call('kernel_value', self.visit(node.value))
        return [node, _ignore_result_statement(node)] if is_ignored else node

    def visit_AugAssign(self, node):
        _check_target(node.target)
        self.assigned_names.add(node.target.id)
        value = ast.copy_location(ast.BinOp(_name_at(node.target.id, node), node.op, self.visit(node.value)), node)
        return ast.copy_location(ast.Assign([node.target], _call('kernel_value', value)), node)

    def visit_AnnAssign(self, node):
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        if not ast.unparse(node.annotation).endswith('constexpr'):
            value = _call('kernel_value', self.visit(node.value))
        elif (
            any(self.loops) and not _assigned_names([node]) <= self.assigned_names
        ):  # the compiler reads a loop's body once
            value = _call('constexpr', self.visit(node.value))
        else:
            value = _call('define_constexpr', self.visit(node.value), ast.Constant(ast.unparse(node.target)))
        self.assigned_names |= _assigned_names([node])
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_Expr(self, node):
        self.generic_visit(node)
        return [node, _ignore_result_statement(node)] if _is_atomic(node.value) else node

    def visit_BoolOp(self, node):
        values = [self.visit(value) for value in node.values]
        operator = 'and' if isinstance(node.op, ast.And) else 'or'
        result = values.pop()
        while values:
            name = self._new_name()
            first = ast.copy_location(ast.NamedExpr(ast.Name(name, ast.Store()), values.pop()), node)
            combined_test = _call(operator, _name_at(name, node), result)
            result = ast.IfExp(_call(f'{operator}_needs_second', first), combined_test, _name_at(name, node))
            result = ast.copy_location(result, node)
        return result

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        return _call('not', node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node):
        if len(node.ops) > 1:
            raise _CompileError(
                'a kernel cannot chain comparisons (a < b < c)', 'Write (a < b) & (b < c).', node.lineno
            )
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            raise _CompileError(
                'a kernel cannot use `in`', 'Compare with each element, and combine the results with |.', node.lineno
            )
        return self.generic_visit(node)

    def visit_IfExp(self, node):
        branch_hints = hint(node.body), hint(node.orelse)
        self.generic_visit(node)
        name = self._new_name()
        test = ast.copy_location(ast.NamedExpr(ast.Name(name, ast.Store()), _call('condition', node.test)), node)
        branches = [
            _call('branch_value', value, _name_at(name, node), ast.Constant(other_hint))
            for value, other_hint in zip((node.body, node.orelse), reversed(branch_hints))
        ]
        return ast.copy_location(ast.IfExp(test, *branches), node)

    def visit_If(self, node):
        body_names, else_names = _assigned_names(node.body), _assigned_names(node.orelse)
        hints_of_other_branch = (
            tuple(hints(node.body, else_names - self.assigned_names).items()),
            tuple(hints(node.orelse, body_names - self.assigned_names).items()),
        )
        return_hints = [return_hint(branch, self.reassigned_names) for branch in (node.body, node.orelse)]
        has_return = any(isinstance(inner, ast.Return) for inner in ast.walk(node))
        name = self._new_name()
        node.test = self.visit(node.test)
        names_before = set(self.assigned_names)
        node.body, new_body_names = self._rewrite_branch(node.body, names_before, (name, return_hints[1]))
        node.orelse, new_else_names = self._rewrite_branch(node.orelse, names_before, (name, return_hints[0]))
        names_of_one_branch = sorted(new_body_names ^ new_else_names)
        self.assigned_names = names_before | new_body_names | new_else_names
        if has_return or not body_names | else_names:
            condition = _call('condition', node.test)
            self.earlier_ifs.append((name, return_hints[0] + return_hints[1]))
            node.test = ast.copy_location(ast.NamedExpr(ast.Name(name, ast.Store()), condition), node)
            return node
        common_names = ast.Constant(tuple(sorted(body_names & else_names)))
        key = ast.Constant(name)
        if_call = _call('if', node.test, key, common_names, ast.Constant(hints_of_other_branch))
        statement_before = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], if_call), node)
        node.test = ast.copy_location(ast.Attribute(_name_at(name, node), 'condition', ast.Load()), node)
        statements_after = [ast.copy_location(ast.Expr(ast.Call(_name_at(name, node), [], [])), node)]
        for variable in names_of_one_branch:
            value = _call('value_after_if', _name_at(name, node), ast.Constant(variable), _getter_of(variable))
            statements_after.append(ast.copy_location(ast.Assign([ast.Name(variable, ast.Store())], value), node))
        return [ast.fix_missing_locations(statement) for statement in (statement_before, node, *statements_after)]

    def _new_name(self):
        self.num_temporaries += 1
        return f'__tile_{self.num_temporaries}'

    def _rewrite_branch(self, statements, names_before, enclosing_if):
        "Rewrite a branch of an `if`; returns (statements, the names that are first assigned in it)"
        self.assigned_names, rewritten, num_earlier_ifs = set(names_before), [], len(self.earlier_ifs)
        self.enclosing_ifs.append(enclosing_if)
        for statement in statements:
            new_statements = self.visit(statement)
            rewritten += new_statements if isinstance(new_statements, list) else [new_statements]
        self.enclosing_ifs.pop()
        del self.earlier_ifs[num_earlier_ifs:]
        return rewritten, self.assigned_names - names_before

    def visit_ListComp(self, node):
        if any(isinstance(generator.iter, ast.Call) for generator in node.generators):
            raise _CompileError(
                'a list comprehension cannot iterate over the result of a call, such as range(n)',
                'Write out a tuple, or use tl.join.',
                node.lineno,
            )
        return self.generic_visit(node)

    def visit_Assert(self, node):
        self.generic_visit(node)
        args = [node.test] + ([node.msg] if node.msg else [])
        return ast.copy_location(ast.Expr(_call('assert', *args)), node)

    def visit_Return(self, node):
        if any(self.loops):
            raise _CompileError(
                'a loop cannot contain return',
                'Keep the result in a variable, and return it after the loop.',
                node.lineno,
            )
        self.generic_visit(node)
        runtime_ifs = [
            ast.Tuple([_name_at(name, node), ast.Constant(type_hint)], ast.Load())
            for name, type_hint in self.enclosing_ifs + self.earlier_ifs
            if type_hint
        ]
        if node.value and (runtime_ifs or self.final_return_hint is not None):
            ifs = ast.copy_location(ast.Tuple(runtime_ifs, ast.Load()), node)
            node.value = _call('return_value', node.value, ast.Constant(self.final_return_hint), ifs)
        return node

    def visit_For(self, node):
        if node.orelse:
            raise _CompileError('a loop cannot have an else', '', node.lineno)
        if not isinstance(node.iter, ast.Call):
            hint = 'Use range(...) or tl.static_range(...).'
            raise _CompileError('a loop can only iterate over a range', hint, node.lineno)
        self.assigned_names |= _assigned_names([node.target])
        if not ast.unparse(node.iter.func).endswith('static_range'):
            return self._rewrite_loop(node)
        self.loops.append(False)
        self.generic_visit(node)
        self.loops.pop()
        return node

    def visit_While(self, node):
        if node.orelse:
            raise _CompileError('a loop cannot have an else', '', node.lineno)
        name = self._new_name()
        loop = self._rewrite_loop(node)
        statement_before = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], _call('while', node=node)), node)
        node.test = ast.copy_location(ast.Call(_name_at(name, node), [node.test], []), node)
        return [ast.fix_missing_locations(statement_before), *loop]

    def _rewrite_loop(self, node):
        "Rewrite a loop; variables that are first assigned in its body are unbound after it"
        names_before = set(self.assigned_names)
        self.loops.append(True)
        self.generic_visit(node)
        self.loops.pop()
        first_assigned_in_loop = sorted(_assigned_names(node.body) - names_before)
        self.assigned_names = names_before
        statements_after = [
            ast.Assign([ast.Name(name, ast.Store())], _call('unbound_after_loop', ast.Constant(name), node=node))
            for name in first_assigned_in_loop
        ]
        return [
            node,
            *(ast.fix_missing_locations(ast.copy_location(statement, node)) for statement in statements_after),
        ]


def _is_atomic(node):
    "Return whether a node is a call such as tl.atomic_add(...)"
    return isinstance(node, ast.Call) and getattr(node.func, 'attr', '').startswith('atomic_')


def _ignore_result_statement(node):
    "Make the statement that follows an atomic with an unused result"
    return ast.copy_location(ast.Expr(_call('ignore_result', node=node)), node)


def _check_target(target):
    "Raise `_CompileError` for a target that cannot be assigned to"
    if isinstance(target, ast.Subscript):
        hint = 'Select with tl.where, or write to memory with tl.store.'
        raise _CompileError('elements of a block cannot be assigned', hint, target.lineno)
    if isinstance(target, (ast.Attribute, ast.Starred)):
        raise _CompileError('attributes cannot be assigned', 'Assign to a variable.', target.lineno)
    for element in getattr(target, 'elts', ()):
        _check_target(element)


def _assigned_names(nodes):
    "Return the names that statements assign"
    return {
        node.id for n in nodes for node in ast.walk(n) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _getter_of(name):
    "Make a `lambda` that returns the value of a variable"
    return ast.parse(f'lambda: {name}', mode='eval').body


def _name_at(name, node):
    "Make an expression for a name, or for None, at the location of a node"
    return ast.copy_location(ast.Constant(None) if name == 'None' else ast.Name(name, ast.Load()), node)


def _call(hook, *args, node=None):
    "Make a call of a hook at the location of `node`, or of the first argument"
    node = node or args[0]
    return ast.copy_location(ast.Call(_name_at(f'__tile_{hook}', node), list(args), []), node)


@lru_cache(1024)
def _rewrite(code, file):
    "Rewrite the code of a function; returns it unchanged if it has no source, or a `_CompileError`"
    try:
        source = source_of(code)
        is_indented = source.as_written[:1].isspace()  # columns stay as they are in the file
        tree = ast.parse(('if 1:\n' if is_indented else '') + source.as_written)
    except (SourceMissing, SyntaxError):
        return code
    body = tree.body[0].body if is_indented else tree.body
    if not isinstance(body[0], ast.FunctionDef) or body[0].name != code.co_name:
        return code
    ast.increment_lineno(tree, source.first_line - 1 - is_indented)
    try:
        body[0] = _Rewriter().visit(body[0])
    except _CompileError as e:
        return e
    return _compile(tree, body, code)


def _compile(tree, body, code):
    "Compile the rewritten function; a closure is compiled inside a function that defines its free variables"
    if code.co_freevars:
        outer_function = ast.parse('def outer_function(): pass').body[0]
        outer_function.args.args = [ast.arg(name) for name in code.co_freevars]
        outer_function.body = [body[0]]
        body[0] = ast.copy_location(outer_function, body[0])
    ast.fix_missing_locations(tree)
    result = compile(tree, code.co_filename, 'exec', dont_inherit=True)
    depth = 2 if code.co_freevars else 1
    for _ in range(depth):
        result = next(
            const
            for const in result.co_consts
            if isinstance(const, types.CodeType) and const.co_name in (code.co_name, 'outer_function')
        )
    return result


def code_of(fn):
    "Return the code of a function, rewritten for a kernel; raises `NotCompiled` if Triton cannot compile it"
    code = _rewrite(fn.__code__, fn.__code__.co_filename)  # codes of two files may compare equal
    if isinstance(code, _CompileError):
        problem, hint, line = code.args
        raise compile_error(problem, hint, line, fn)
    return code
