"""Rewrites a kernel as Triton's compiler reads it, into Python that keeps the learner's names, lines and file.

Triton gives some of Python another meaning, and refuses the rest:

- an assignment makes a value of the kernel: after `half = 0.5` the name is an fp32 scalar;
- `and`, `or` and `not` work elementwise on values of the kernel;
- an `assert` is a `tl.device_assert`;
- a loop-carried variable keeps its type.
"""

import ast
import types
from functools import lru_cache

from ..support.function_source import SourceMissing, source_of
from .block import Unbound, block_of, convert, is_number, tensor
from .hints import HINTED, hint, hints, returned_hint, type_by, type_of
from .run import Names, current, frame_of, refuse
from .hints_and_debug import device_assert
from .types import DTYPES, const

__all__ = ['code_of', 'HOOKS']

_I1 = DTYPES['int1']

# What Triton's compiler cannot compile: the node's name -> what it is called
_REFUSED = dict(
    Try='try', Raise='raise', Delete='del', Lambda='lambda', ClassDef='a class', Global='global', Nonlocal='nonlocal',
    Yield='yield', YieldFrom='yield', Await='await', Dict='a dict', Set='a set', DictComp='a dict', SetComp='a set',
    GeneratorExp='a generator', Break='break', Continue='continue', NamedExpr=':=', AsyncFor='async', Match='match',
    Import='import', ImportFrom='import', AsyncFunctionDef='async', AsyncWith='async',
)  # fmt: skip
_HINTS = {
    'break': 'Put what is done into an `if`, or mask it; a `while` loop ends by its condition.',
    'continue': 'Put the rest of the iteration into an `if`.',
    'lambda': 'Write a function of its own under @triton.jit.',
    'a dict': 'Pass numbers as tl.constexpr arguments; a namedtuple or a tuple can be passed, too.',
}


class _Refusal(Exception):
    "Raised for a construct that cannot be compiled, with its line"


class _Rewriter(ast.NodeTransformer):
    def __init__(self):
        self.loops = []
        self.inner = False
        self.count = 0
        self.known = set()  # names that are assigned above
        self.read = set()  # names that are read anywhere
        self.around, self.passed = [], []  # of each `if` with a return, around this and above: (its name, hints)
        self.often = set()  # names that are assigned more than once: their type may differ elsewhere
        self.last = None  # the hint of what the function's last statement returns

    def visit(self, node):
        what = _REFUSED.get(type(node).__name__)
        if what:
            raise _Refusal(f'{what} in a kernel', _HINTS.get(what, ''), node.lineno)
        return super().visit(node)

    def visit_FunctionDef(self, node):
        if self.inner:
            raise _Refusal('a function inside a kernel', _HINTS['lambda'], node.lineno)
        self.inner = True
        self.known = {arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)}
        self.read = {sub.id for sub in ast.walk(node) if isinstance(sub, ast.Name) and isinstance(sub.ctx, ast.Load)}
        node.decorator_list = []
        node.returns = None
        for a in (*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs):
            a.annotation = None
        stored = [name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)]
        self.often = {name for name in stored if stored.count(name) > 1 or name in self.known}
        self.last = next(iter(returned_hint(node.body, self.often)), None)
        node.args.defaults = [_named('None', default) for default in node.args.defaults]
        node.args.kw_defaults = [default and _named('None', default) for default in node.args.kw_defaults]
        self.generic_visit(node)
        return node

    def visit_Assign(self, node):
        if len(node.targets) > 1:
            raise _Refusal('a = b = ...: two names for one value', 'Assign one after the other.', node.lineno)
        _check_target(node.targets[0])
        self.known |= _assigned_names([node])
        ignored = _is_atomic(node.value) and not _assigned_names([node]) & self.read
        node.value = _call('value', self.visit(node.value))
        return [node, _ignored_statement(node)] if ignored else node

    def visit_AugAssign(self, node):
        _check_target(node.target)
        self.known.add(node.target.id)
        value = ast.copy_location(ast.BinOp(_named(node.target.id, node), node.op, self.visit(node.value)), node)
        return ast.copy_location(ast.Assign([node.target], _call('value', value)), node)

    def visit_AnnAssign(self, node):
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        if not ast.unparse(node.annotation).endswith('constexpr'):
            value = _call('value', self.visit(node.value))
        elif any(self.loops) and not _assigned_names([node]) <= self.known:  # the compiler reads a loop's body once
            value = _call('known', self.visit(node.value))
        else:
            value = _call('defined', self.visit(node.value), ast.Constant(ast.unparse(node.target)))
        self.known |= _assigned_names([node])
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_Expr(self, node):
        self.generic_visit(node)
        return [node, _ignored_statement(node)] if _is_atomic(node.value) else node

    def visit_BoolOp(self, node):
        values = [self.visit(value) for value in node.values]
        kind = 'and' if isinstance(node.op, ast.And) else 'or'
        result = values.pop()
        while values:
            self.count += 1
            name = f'__tile_{self.count}'
            first = ast.copy_location(ast.NamedExpr(ast.Name(name, ast.Store()), values.pop()), node)
            both = _call(kind, _named(name, node), result)
            result = ast.IfExp(_call(f'{kind}_goes_on', first), both, _named(name, node))
            result = ast.copy_location(result, node)
        return result

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        return _call('not', node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node):
        if len(node.ops) > 1:
            raise _Refusal('a < b < c: two comparisons in one', 'Write (a < b) & (b < c).', node.lineno)
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            raise _Refusal('`in`', 'Compare with each, and join with |.', node.lineno)
        return self.generic_visit(node)

    def visit_IfExp(self, node):
        arms = hint(node.body), hint(node.orelse)
        self.generic_visit(node)
        name = self._new_name()
        test = ast.copy_location(ast.NamedExpr(ast.Name(name, ast.Store()), _call('decides', node.test)), node)
        arms = [
            _call('arm', value, _named(name, node), ast.Constant(other))
            for value, other in zip((node.body, node.orelse), reversed(arms))
        ]
        return ast.copy_location(ast.IfExp(test, *arms), node)

    def visit_If(self, node):
        mine, other = _assigned_names(node.body), _assigned_names(node.orelse)
        other_types = (
            tuple(hints(node.body, other - self.known).items()),
            tuple(hints(node.orelse, mine - self.known).items()),
        )
        returned = [returned_hint(branch, self.often) for branch in (node.body, node.orelse)]
        returns = any(isinstance(sub, ast.Return) for sub in ast.walk(node))
        name = self._new_name()
        node.test = self.visit(node.test)
        known = set(self.known)
        node.body, kept = self._branch(node.body, known, (name, returned[1]))
        node.orelse, also = self._branch(node.orelse, known, (name, returned[0]))
        lost = sorted(kept ^ also)
        self.known = known | kept | also
        if returns or not mine | other:
            decided = _call('decides', node.test)
            self.passed.append((name, returned[0] + returned[1]))
            node.test = ast.copy_location(ast.NamedExpr(ast.Name(name, ast.Store()), decided), node)
            return node
        both = ast.Constant(tuple(sorted(mine & other)))
        where = ast.Constant(name)
        begun = _call('if', node.test, where, both, ast.Constant(other_types))
        begin = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], begun), node)
        node.test = ast.copy_location(ast.Attribute(_named(name, node), 'condition', ast.Load()), node)
        after = [ast.copy_location(ast.Expr(ast.Call(_named(name, node), [], [])), node)]
        for lost_name in lost:
            gone = _call('only', _named(name, node), ast.Constant(lost_name), _lambda_of(lost_name))
            after.append(ast.copy_location(ast.Assign([ast.Name(lost_name, ast.Store())], gone), node))
        return [ast.fix_missing_locations(statement) for statement in (begin, node, *after)]

    def _new_name(self):
        self.count += 1
        return f'__tile_{self.count}'

    def _branch(self, statements, known, around):
        "Rewrite a branch of an `if`; returns it and the names it adds to `known`, without those that loops unbind"
        self.known, found, passed = set(known), [], len(self.passed)
        self.around.append(around)
        for statement in statements:
            made = self.visit(statement)
            found += made if isinstance(made, list) else [made]
        self.around.pop()
        del self.passed[passed:]
        return found, self.known - known

    def visit_ListComp(self, node):
        if any(isinstance(generator.iter, ast.Call) for generator in node.generators):
            raise _Refusal('a list of blocks made by a loop', 'A tuple, written out, or tl.join.', node.lineno)
        return self.generic_visit(node)

    def visit_Assert(self, node):
        self.generic_visit(node)
        args = [node.test] + ([node.msg] if node.msg else [])
        return ast.copy_location(ast.Expr(_call('assert', *args)), node)

    def visit_Return(self, node):
        if any(self.loops):
            raise _Refusal('return inside a loop', 'Keep the result in a variable, and return after it.', node.lineno)
        self.generic_visit(node)
        late = [ast.Tuple([_named(k, node), ast.Constant(v)], ast.Load()) for k, v in self.around + self.passed if v]
        if node.value and (late or self.last is not None):
            others = ast.copy_location(ast.Tuple(late, ast.Load()), node)
            node.value = _call('returned', node.value, ast.Constant(self.last), others)
        return node

    def visit_For(self, node):
        if node.orelse:
            raise _Refusal('else after a loop', '', node.lineno)
        if not isinstance(node.iter, ast.Call):
            hint = 'range(...) or tl.static_range(...).'
            raise _Refusal('a loop over something else than a range', hint, node.lineno)
        self.known |= _assigned_names([node.target])
        if not ast.unparse(node.iter.func).endswith('static_range'):
            return self._loop(node)
        self.loops.append(False)
        self.generic_visit(node)
        self.loops.pop()
        return node

    def visit_While(self, node):
        if node.orelse:
            raise _Refusal('else after a loop', '', node.lineno)
        self.count += 1
        name = f'__tile_{self.count}'
        found = self._loop(node)
        begin = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], _call('while', at=node)), node)
        node.test = ast.copy_location(ast.Call(_named(name, node), [node.test], []), node)
        return [ast.fix_missing_locations(begin), *found]

    def _loop(self, node):
        "Rewrite a loop; afterwards the compiler does not know what was first assigned in it"
        known = set(self.known)
        self.loops.append(True)
        self.generic_visit(node)
        self.loops.pop()
        lost = sorted(_assigned_names(node.body) - known)
        self.known = known
        after = [
            ast.Assign([ast.Name(name, ast.Store())], _call('in_loop', ast.Constant(name), at=node)) for name in lost
        ]
        return [node, *(ast.fix_missing_locations(ast.copy_location(statement, node)) for statement in after)]


def _is_atomic(node):
    "Return whether it is a call such as tl.atomic_add(...)"
    return isinstance(node, ast.Call) and getattr(node.func, 'attr', '').startswith('atomic_')


def _ignored_statement(node):
    "Make the statement that follows an atomic whose result is unused"
    return ast.copy_location(ast.Expr(_call('ignored', at=node)), node)


def _check_target(target):
    "Refuse a target that cannot be assigned to"
    if isinstance(target, ast.Subscript):
        hint = 'Choose with tl.where, or write to memory with tl.store.'
        raise _Refusal('elements of a block are assigned', hint, target.lineno)
    if isinstance(target, (ast.Attribute, ast.Starred)):
        raise _Refusal('an attribute is assigned', 'Values of a kernel have names alone.', target.lineno)
    for element in getattr(target, 'elts', ()):
        _check_target(element)


def _assigned_names(nodes):
    "Return the names that statements assign"
    return {
        node.id for n in nodes for node in ast.walk(n) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _lambda_of(name):
    "Make a function that returns the variable's value, if it has one"
    return ast.parse(f'lambda: {name}', mode='eval').body


def _named(name, at):
    return ast.copy_location(ast.Constant(None) if name == 'None' else ast.Name(name, ast.Load()), at)


def _call(hook, *args, at=None):
    at = at or args[0]
    return ast.copy_location(ast.Call(_named(f'__tile_{hook}', at), list(args), []), at)


@lru_cache(1024)
def _rewrite(code, file):
    "Rewrite the code of a function; returns it unchanged if its source is not available, or a refusal"
    try:
        source = source_of(code)
        indented = source.as_written[:1].isspace()  # columns stay as they are in the file
        tree = ast.parse(('if 1:\n' if indented else '') + source.as_written)
    except (SourceMissing, SyntaxError):
        return code
    body = tree.body[0].body if indented else tree.body
    if not isinstance(body[0], ast.FunctionDef) or body[0].name != code.co_name:
        return code
    ast.increment_lineno(tree, source.first - 1 - indented)
    try:
        body[0] = _Rewriter().visit(body[0])
    except _Refusal as e:
        return e
    return _compile(tree, body, code)


def _compile(tree, body, code):
    "Compile the rewritten function; if it is a closure, inside a function that has its free variables"
    if code.co_freevars:
        names = [ast.arg(name) for name in code.co_freevars]
        around = ast.parse('def around(): pass').body[0]
        around.args.args = names
        around.body = [body[0]]
        body[0] = ast.copy_location(around, body[0])
    ast.fix_missing_locations(tree)
    compiled = compile(tree, code.co_filename, 'exec', dont_inherit=True)
    depth = 2 if code.co_freevars else 1
    for _ in range(depth):
        compiled = next(
            const
            for const in compiled.co_consts
            if isinstance(const, types.CodeType) and const.co_name in (code.co_name, 'around')
        )
    return compiled


def code_of(f):
    "Return the code of a function, rewritten for a kernel; raises an error for what Triton's compiler cannot compile"
    compiled = _rewrite(f.__code__, f.__code__.co_filename)  # codes of two files may compare equal
    if isinstance(compiled, _Refusal):
        what, hint, line = compiled.args
        raise refuse(what, hint, line, f)
    return compiled


# Called by rewritten code


def _value(v):
    if isinstance(v, (int, float)):
        return block_of(v)
    if type(v) is tuple:
        return tuple(map(_value, v))
    return v


def _goes_on_and(v):
    return type(v) is tensor or bool(v)


def _goes_on_or(v):
    return type(v) is tensor or not v


def _both(a, b):
    if type(a) is not tensor:
        return b
    if type(b) is not tensor:
        return a if b else b
    return a.logical_and(b)


def _either(a, b):
    if type(a) is not tensor:
        return b
    if type(b) is not tensor:
        return b if b else a
    return a.logical_or(b)


def _not(v):
    return ~convert(v, _I1) if type(v) is tensor else not v


def _decides(v):
    if type(v) is tensor or v is None or isinstance(v, int):
        return v
    raise refuse(f'a decision by {type(v).__name__} {v!r}', 'A condition is a comparison, a bool, or an integer.')


class If:
    """An `if` that assigns variables and whose condition the compiler does not know.

    The compiler compiles both branches, one of which runs here. `hints` has the types that the other one
    assigns; another program, or call, may run it."""

    def __init__(self, test, where, both, hints):
        self.condition = _decides(test)
        self.late = type(test) is tensor
        self.where = where
        self.both = both
        self.hints = hints
        self.before = types_of(frame_of()) if self.late else {}

    def __call__(self):
        if not self.late:
            return
        f = frame_of()
        now = types_of(f)
        taken = bool(self.condition.data)
        keep_types(self.before, now, 'the if', 'in it')
        if _ran_often(f.f_code, self.where, taken):
            return
        for k, v in self.hints[taken]:  # those of the `else` if the first branch ran
            _one_type(k, now[k] if k in now else type_of(f.f_locals.get(k, ...)), type_by(v, f))
        seen = current().branches.setdefault(_where(f, self.where), {})
        for k, t in seen.setdefault(not taken, {}).items():
            _one_type(k, now.get(k), t)
        seen.setdefault(taken, {k: now.get(k) for k in self.both})


def _ran_often(*branch):
    "Return whether these branches ran often enough for their types to be known"
    branched = current().branched
    branched[branch] = n = branched.get(branch, 0) + 1
    return n > 16


def _where(f, name):
    "Return a key for a position in a function that is compiled once: its constants, and the calls that led there"
    calls = [f.f_code, name]
    known = tuple((k, v) for k, v in f.f_locals.items() if is_number(v))
    while f is not None and isinstance(f.f_globals, Names):
        calls.append(f.f_lasti)
        f = f.f_back
    return *calls[:2], *calls[3:], known


def _one_type(name, a, b):
    "Refuse a variable that has different types in the branches of an `if`, both of which are compiled"
    if a is not None and b is not None and not b == a:
        raise refuse(f'{name} is {a} in one branch of the if and {b} in the other', _ONE_TYPE)


_ONE_TYPE = 'The compiler compiles both: give them one type and shape, as in 0.0 for fp32, or convert with .to(...).'


def _arm(v, test, other):
    "Check that both arms of a conditional expression have one type; `other` is the hint of the other arm"
    if type(test) is not tensor:
        return v
    f = frame_of()
    v = block_of(v) if is_number(v) else v
    t = None if other is None or _ran_often(f.f_code, f.f_lasti) else type_by(other, f)
    if t is not None and (mine := type_of(v)) is not None and not t == mine:
        raise refuse(f'`a if condition else b` of {mine} and {t}', _ONE_TYPE)
    return v


def _check_return(v, last, others):
    "Check that all returns have one type: after an `if` on the kernel's values the compiler compiles each of them"
    f = frame_of()
    mine = type_of(v)
    if mine is not None and not _ran_often(f.f_code, f.f_lasti):
        known = [last, *(value for test, given in others if type(test) is tensor for value in given)]
        for t in (type_by(value, f) for value in known if value is not None):
            if t is not None and not t == mine:
                raise refuse(f'a function returns {mine} here and {t} elsewhere', _ONE_TYPE)
    return v


def _define_constexpr(v, name):
    "Define a named constexpr once: the compiler does not assign it again"
    if not isinstance(frame_of().f_locals.get(name, Unbound(name)), Unbound):
        raise refuse(f'{name} is defined already, and a constexpr is not assigned again', 'Give it another name.')
    return const(v)


def _only(decision, name, value):
    "Return a variable that only one branch assigns: unbound after the `if`, unless the compiler knows the condition"
    if decision.late:
        return Unbound(name)
    try:
        return value()
    except NameError:
        return Unbound(name)


def _ignore_result():
    "Note that the last atomic's result is unused: no thread waits for it, so it is not a barrier"
    run = current()
    run.recent, run.barrier = run.kept


def _assert(condition, message=''):
    device_assert(condition, message)


def types_of(frame):
    "Return the types of a frame's variables; None for a compile-time constant"
    return {
        k: v.type if type(v) is tensor else None for k, v in frame.f_locals.items() if type(v) is tensor or is_number(v)
    }


def keep_types(before, now, what='the loop', where='after a round of it'):
    "Refuse a variable whose type changes in an iteration of a loop, or in a branch"
    for k, t in before.items():
        if k not in now or now[k] == t:
            continue
        if t is None:
            raise refuse(
                f'{k} is known when the kernel is compiled, and a loop changes it', f'Begin with a copy: {k}_ = {k}.'
            )
        raise refuse(
            f'{k} is {t} before {what} and {now[k]} {where}',
            f'What {what} changes keeps its type and shape: convert it with .to(...) there, or begin with the type '
            'that it has afterwards: tl.zeros(shape, tl.float32) for fp32, tl.float64 for fp64.',
        )


class While:
    "A `while` loop: decides whether another iteration begins"

    def __init__(self):
        self.before, self.rounds = None, 0

    def __call__(self, condition):
        if type(condition) is not tensor:
            raise refuse('a `while` loop whose condition is known when the kernel is compiled', 'It would never end.')
        self.rounds += 1
        if self.rounds == 1:
            self.before = types_of(frame_of())
        elif self.rounds < 4:
            keep_types(self.before, types_of(frame_of()))
        elif self.rounds % 1024 == 0:
            current().in_time()
        return bool(condition)


HOOKS = {
    f'__tile_{k}': v
    for k, v in {
        'value': _value, 'known': const, 'and': _both, 'or': _either, 'and_goes_on': _goes_on_and,
        'or_goes_on': _goes_on_or, 'not': _not, 'decides': _decides, 'assert': _assert, 'while': While, 'if': If,
        'ignored': _ignore_result, 'arm': _arm, 'returned': _check_return, 'defined': _define_constexpr, 'only': _only,
        'in_loop': lambda name: Unbound(name, 'in a loop alone'), **HINTED,
    }.items()
}  # fmt: skip
