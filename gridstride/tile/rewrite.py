"""Rewrites the function of a kernel into Python that behaves like compiled Triton, with the same names and lines.

Some Python constructs have a different meaning in Triton:

- an assignment makes a value of the kernel: after `half = 0.5` the name is an fp32 scalar;
- `and`, `or` and `not` work elementwise on values of the kernel;
- an `assert` is a `tl.device_assert`;
- a loop-carried variable keeps its type;
- both branches of an `if` on a run-time value are compiled, so they must agree in the types of their variables.

Other constructs that the compiler rejects raise errors. Rewritten code calls the functions of `HOOKS`; their names
begin with `__tile_`.
"""

import ast
import types
from functools import lru_cache

from ..support.function_source import SourceMissing, source_of
from .block import Unbound, block_of, convert, is_number, tensor
from .hints import HINT_HOOKS, hint, hints, return_hint, type_of_hint, type_of
from .run import Names, current, learner_frame, compile_error
from .hints_and_debug import device_assert
from .types import DTYPES, const

__all__ = ['code_of', 'HOOKS']

_I1 = DTYPES['int1']

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
            raise _CompileError('a = b = ... assigns one value to two names', 'Write two assignments.', node.lineno)
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
            raise _CompileError('a < b < c chains two comparisons', 'Write (a < b) & (b < c).', node.lineno)
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
            raise _CompileError('a list comprehension calls range', 'Write out a tuple, or use tl.join.', node.lineno)
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
        outer = ast.parse('def outer_function(): pass').body[0]
        outer.args.args = [ast.arg(name) for name in code.co_freevars]
        outer.body = [body[0]]
        body[0] = ast.copy_location(outer, body[0])
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


# Functions that the rewritten code calls


def _as_kernel_value(value):
    if isinstance(value, (int, float)):
        return block_of(value)
    if type(value) is tuple:
        return tuple(map(_as_kernel_value, value))
    return value


def _and_needs_second(value):
    "Return whether `value and b` evaluates `b`"
    return type(value) is tensor or bool(value)


def _or_needs_second(value):
    "Return whether `value or b` evaluates `b`"
    return type(value) is tensor or not value


def _logical_and(a, b):
    if type(a) is not tensor:
        return b
    if type(b) is not tensor:
        return a if b else b
    return a.logical_and(b)


def _logical_or(a, b):
    if type(a) is not tensor:
        return b
    if type(b) is not tensor:
        return b if b else a
    return a.logical_or(b)


def _logical_not(value):
    return ~convert(value, _I1) if type(value) is tensor else not value


def _check_condition(value):
    if type(value) is tensor or value is None or isinstance(value, int):
        return value
    raise compile_error(f'a condition must be a comparison, a bool or an integer; got {type(value).__name__} {value!r}')


class If:
    """An `if` that assigns variables; its condition may be a run-time value.

    If it is, the compiler compiles both branches, but here only one runs. The types of the variables in the other
    branch come from `hints`, and from programs or calls in which that branch has run."""

    def __init__(self, test, if_key, names_of_both_branches, hints):
        self.condition = _check_condition(test)
        self.is_runtime = type(test) is tensor
        self.if_key = if_key
        self.names_of_both_branches = names_of_both_branches
        self.hints = hints
        self.types_at_start = types_of(learner_frame()) if self.is_runtime else {}

    def __call__(self):
        if not self.is_runtime:
            return
        frame = learner_frame()
        types_now = types_of(frame)
        is_true = bool(self.condition.data)
        check_types_kept(self.types_at_start, types_now, 'the if', 'in it')
        if _has_run_often(frame.f_code, self.if_key, is_true):
            return
        for name, type_hint in self.hints[is_true]:  # if the first branch ran, the hints of the `else`
            _check_same_type(
                name,
                types_now[name] if name in types_now else type_of(frame.f_locals.get(name, ...)),
                type_of_hint(type_hint, frame),
            )
        types_by_branch = current().branch_types.setdefault(_compilation_key(frame, self.if_key), {})
        for name, other_type in types_by_branch.setdefault(not is_true, {}).items():
            _check_same_type(name, types_now.get(name), other_type)
        types_by_branch.setdefault(is_true, {name: types_now.get(name) for name in self.names_of_both_branches})


def _has_run_often(*branch):
    "Count an execution of a branch; return whether it has run so often that its types need no more checks"
    counts = current().branch_counts
    counts[branch] = counts.get(branch, 0) + 1
    return counts[branch] > 16


def _compilation_key(frame, name):
    "Return a key of a compilation of an `if`: its function, the compile-time constants, and the call stack"
    calls = [frame.f_code, name]
    constants = tuple((name, value) for name, value in frame.f_locals.items() if is_number(value))
    while frame is not None and isinstance(frame.f_globals, Names):
        calls.append(frame.f_lasti)
        frame = frame.f_back
    return *calls[:2], *calls[3:], constants


def _check_same_type(name, a, b):
    "Raise `NotCompiled` if a variable has different types in the branches of an `if`: both are compiled"
    if a is not None and b is not None and not b == a:
        raise compile_error(f'{name} is {a} in one branch of the if and {b} in the other', _ONE_TYPE_HINT)


_ONE_TYPE_HINT = (
    'Give both the same type and shape, as in 0.0 for fp32, or convert with .to(...): the compiler compiles both.'
)


def _check_branch_type(value, test, other_hint):
    "Return the value of a branch of `a if c else b`; raises `NotCompiled` if the other branch has another type"
    if type(test) is not tensor:
        return value
    frame = learner_frame()
    value = block_of(value) if is_number(value) else value
    other_type = (
        None if other_hint is None or _has_run_often(frame.f_code, frame.f_lasti) else type_of_hint(other_hint, frame)
    )
    if other_type is not None and (this_type := type_of(value)) is not None and not other_type == this_type:
        raise compile_error(
            f'both values of `a if condition else b` must have the same type; got {this_type} and {other_type}',
            _ONE_TYPE_HINT,
        )
    return value


def _check_return(value, final_return_hint, ifs):
    "Return the returned value; raises `NotCompiled` if another `return` has another type: all are compiled"
    frame = learner_frame()
    this_type = type_of(value)
    if this_type is not None and not _has_run_often(frame.f_code, frame.f_lasti):
        type_hints = [
            final_return_hint,
            *(type_hint for test, if_hints in ifs if type(test) is tensor for type_hint in if_hints),
        ]
        for other_type in (type_of_hint(type_hint, frame) for type_hint in type_hints if type_hint is not None):
            if other_type is not None and not other_type == this_type:
                raise compile_error(f'a function returns {this_type} here and {other_type} elsewhere', _ONE_TYPE_HINT)
    return value


def _define_constexpr(value, name):
    "Return the value of a constexpr variable; raises `NotCompiled` if it is assigned again"
    if not isinstance(learner_frame().f_locals.get(name, Unbound(name)), Unbound):
        raise compile_error(f'{name} is already defined, and a constexpr cannot be assigned again', 'Use another name.')
    return const(value)


def _value_after_if(if_, name, get_value):
    "Return the value of a variable that only one branch assigns; it is unbound if the condition is a run-time value"
    if if_.is_runtime:
        return Unbound(name)
    try:
        return get_value()
    except NameError:
        return Unbound(name)


def _ignore_result():
    "Undo the barrier of the last atomic, because its result is unused, so no thread waits for it"
    ctx = current()
    ctx.unsynced_stores, ctx.barrier_stamp = ctx.state_before_atomic


def _assert(condition, message=''):
    device_assert(condition, message)


def types_of(frame):
    "Return {name: type} of the variables of a frame; the type of a compile-time constant is None"
    return {
        name: value.type if type(value) is tensor else None
        for name, value in frame.f_locals.items()
        if type(value) is tensor or is_number(value)
    }


def check_types_kept(types_at_start, types_now, construct='the loop', location='after an iteration'):
    "Raise `NotCompiled` if the type of a variable changes in an iteration of a loop, or in a branch"
    for name, initial_type in types_at_start.items():
        if name not in types_now or types_now[name] == initial_type:
            continue
        if initial_type is None:
            raise compile_error(
                f'{name} is a compile-time constant, but a loop changes it', f'Start with a copy: {name}_ = {name}.'
            )
        raise compile_error(
            f'{name} is {initial_type} before {construct} and {types_now[name]} {location}',
            f'A variable that {construct} changes must keep its type and shape: convert it with .to(...) there, or '
            'start with the type that it has afterwards: tl.zeros(shape, tl.float32) for fp32, tl.float64 for fp64.',
        )


class While:
    "A `while` loop: decides whether another iteration begins"

    def __init__(self):
        self.types_at_start, self.num_iterations = None, 0

    def __call__(self, condition):
        if type(condition) is not tensor:
            raise compile_error(
                'the condition of a `while` loop is a compile-time constant, so the loop would never end'
            )
        self.num_iterations += 1
        if self.num_iterations == 1:
            self.types_at_start = types_of(learner_frame())
        elif self.num_iterations < 4:
            check_types_kept(self.types_at_start, types_of(learner_frame()))
        elif self.num_iterations % 1024 == 0:
            current().check_deadline()
        return bool(condition)


HOOKS = {
    f'__tile_{name}': function
    for name, function in {
        'kernel_value': _as_kernel_value,
        'constexpr': const,
        'define_constexpr': _define_constexpr,
        'and': _logical_and,
        'or': _logical_or,
        'not': _logical_not,
        'and_needs_second': _and_needs_second,
        'or_needs_second': _or_needs_second,
        'condition': _check_condition,
        'if': If,
        'branch_value': _check_branch_type,
        'value_after_if': _value_after_if,
        'while': While,
        'unbound_after_loop': lambda name: Unbound(name, 'in a loop'),
        'return_value': _check_return,
        'assert': _assert,
        'ignore_result': _ignore_result,
        **HINT_HOOKS,
    }.items()
}
