"""The functions that rewritten kernels call: assignments, conditions, `and`, `or`, `not`, `if`, `while` and `return`.

`rewrite` inserts the calls. These functions see the values, so they check what depends on run-time values and types: a
condition is a scalar, a loop-carried variable keeps its type, and both branches of an `if` agree in their types.
"""

from .block import Unbound, block_of, convert, is_number, tensor
from .hints import HINT_HOOKS, type_of_hint, type_of
from .hints_and_debug import device_assert
from .run import KernelGlobals, current, learner_frame, compile_error
from .types import DTYPES, const

__all__ = ['HOOKS', 'check_types_unchanged', 'types_of']

_I1 = DTYPES['int1']


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
        check_types_unchanged(self.types_at_start, types_now, 'the if', 'in it')
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
    while frame is not None and isinstance(frame.f_globals, KernelGlobals):
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


def check_types_unchanged(types_at_start, types_now, construct='the loop', location='after an iteration'):
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
            check_types_unchanged(self.types_at_start, types_of(learner_frame()))
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
