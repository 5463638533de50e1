"""The operations that a rewritten kernel calls, as attributes of the class `Operations`; kernels access it as `__gs`.

An operation gets `ctx`, the context of the launch (`run`); `active`, the mask of the active lanes (`lanes`); and
`site`, the index of its source location (`rewrite_expressions.Site`).
"""

import functools
import inspect
import operator
import sys
import types

import numpy as np

from .arithmetic import (
    AST_NAME_OF_COMPARISON,
    AST_NAME_OF_OPERATOR,
    binary,
    logical_and,
    cast,
    compare,
    contains,
    logical_or,
    join,
    kind_of,
    logical_not,
    unary,
)
from .array_loops import ItemLoop, apply_to_arrays, enumerate_items, zip_items
from .intrinsics import Namespace
from .python_functions import FUNCTIONS as _SCALAR_FUNCTIONS, print_lanes, widen
from .lanes import UNDEF, Loop, RangeLoop, assign, branch, merge, union
from .memory import View, load, store
from .records import Records, attribute, store_attribute
from .types import is_number_type
from ..diagnostics.errors import as_instance_of

__all__ = ['Operations']

FUNCTIONS = {**_SCALAR_FUNCTIONS, zip: zip_items, enumerate: enumerate_items}
_MIN_INT64 = np.iinfo(np.int64).min


def give_name(value, name):
    "Name an array after the variable to which it is assigned, if it has no name"
    if isinstance(value, (View, Records)) and value.name is None:
        value.rename(name)
    return value


def check_unpack(value, num_names):
    "Raise `TypeError` or `ValueError` unless `value` can be unpacked to `num_names` names"
    if not isinstance(value, (tuple, list)):
        raise TypeError(
            f'cannot unpack one value into {num_names} names: cuda.grid(2) has two values, cuda.grid(1) has one'
        )
    if len(value) != num_names:
        raise ValueError(f'cannot unpack {len(value)} values into {num_names} names')


def assign_partly(diverged, active, new_value, old_value):
    "Assign to a variable that other lanes may read before they assign it: in those lanes it is 0, as in Numba"
    if old_value is UNDEF and isinstance(new_value, (np.ndarray, np.generic)):
        return merge(active, new_value, new_value.dtype.type(0))
    return assign(diverged, active, new_value, old_value)


def read_variable(ctx, active, value, assigned_lanes, name, site):
    "Return `value`, the value of a variable; warns if lanes outside the mask `assigned_lanes` read it"
    if (
        assigned_lanes is not None
        and assigned_lanes is not active
        and (unassigned_lanes := active & ~assigned_lanes).any()
    ):
        ctx.detectors.initcheck.warn_unassigned(ctx, unassigned_lanes, name, site)
    return value


def fork(ctx, active, condition, site):
    "Split `active` by a condition, as `lanes.branch` does, and report the branch to the trace"
    taken_lanes, other_lanes = branch(active, condition)
    if ctx.trace is not None:
        ctx.trace.record_branch(ctx, active, taken_lanes, other_lanes, site)
    return taken_lanes, other_lanes


def continue_loop(ctx, loop, condition, site):
    "Return whether a `while` loop has another iteration; raises `SynccheckError` if it spins without progress"
    has_next_iteration = loop.test(condition)
    if has_next_iteration:
        ctx.detectors.synccheck.check_iteration(ctx, loop, site, sys._getframe(1))
    return has_next_iteration


def return_from(ctx, is_kernel, active, value, result):
    "Execute `return`: ends the lanes of a kernel, or merges `value` into the `result` of a device function"
    if is_kernel:
        ctx.group.live_lanes = ctx.group.live_lanes & ~active
        return None
    return value if result is UNDEF else merge(active, value, result)


def return_at_end(ctx, active, result):
    "Return the result of a device function: 0 in the lanes of `active`, which reach its end without a `return`"
    if active is None or not isinstance(result, (np.ndarray, np.generic)):
        return result
    ctx.detectors.initcheck.warn_no_value(ctx, active)
    return np.where(active, result.dtype.type(0), result)


def check_assert(ctx, active, condition, site, message=None):
    "Execute `assert condition, message`; raises a finding if the condition is false in an active lane"
    _, failing = branch(active, condition)
    if failing is None:
        return
    if message is None:
        raise ctx.finding('assert', 'fails', site, failing)
    text = _format_first_lane(ctx, failing, (message,))
    raise ctx.finding('assert', 'fails_with', site, failing, message=text)


def _format_first_lane(ctx, active, values):
    "Format `values`, the arguments of an exception, in the first lane of `active`"
    lane = ctx.active_lanes(active)[0]
    values = [
        np.asarray(value)[lane if np.ndim(value) else ()].item() if _is_number(value) else value for value in values
    ]
    return str(values[0]) if len(values) == 1 else str(tuple(values)) if values else ''


def _is_number(value):
    return isinstance(value, (np.ndarray, np.generic))


def raise_exception(ctx, active, exception_type, values, site):
    "Execute `raise`: the launch ends with the exception of the first lane"
    if not (isinstance(exception_type, type) and issubclass(exception_type, Exception)):
        raise TypeError(f'a kernel raises {exception_type!r}, which is not an exception')
    text = _format_first_lane(ctx, active, values)
    name = exception_type.__name__
    raised_text = f'{name}: {text}' if text else name
    finding = ctx.finding('raise', 'raised', site, active, raised=raised_text, exception=name, message=text)
    raise as_instance_of(finding, exception_type)


def divide(ctx, active, op, a, b, site):
    "Compute `a op b`; raises `KernelCrash` if `//` or `%` divides an integer by zero, or the smallest one by -1"
    is_positive = type(b) is np.int64 and b > 0
    if op in ('FloorDiv', 'Mod') and not is_positive and kind_of(a) in 'biu' and kind_of(b) in 'biu':
        if not np.all(b) and (dividing_by_zero := branch(active, b)[1]) is not None:
            raise ctx.finding('crash', 'division', site, dividing_by_zero)
        if np.any(np.equal(b, -1)) and (overflowing := branch(active, (b == -1) & (a == _MIN_INT64))[0]) is not None:
            raise ctx.finding('crash', 'division_overflows', site, overflowing)
    return binary(op, a, b)


def call(ctx, active, function, args, keywords, site):
    "Call a function in a kernel: a CUDA intrinsic, a function of Python or NumPy, or a device function"
    if is_number_type(function):  # first, because conversions are frequent
        return cast(function, *args)
    if hasattr(function, 'lane_function'):
        try:
            return function.lane_function(ctx, active, site, *args, **keywords)
        except TypeError as error:
            if error.__traceback__.tb_next is None:  # raised by the call itself: the arguments do not fit
                raise _argument_error(function, error, args, keywords) from None
            raise
    if not callable(function):
        raise _not_callable(function)
    if function is divmod:
        return tuple(divide(ctx, active, op, *args, site) for op in ('FloorDiv', 'Mod'))
    if isinstance(getattr(function, 'py_func', None), types.FunctionType):
        return _njit_program(function.py_func).call(ctx, active, site, args, keywords)
    if isinstance(function, np.ufunc) and any(isinstance(a, View) for a in args):
        return apply_to_arrays(ctx, active, function, args, site)
    if function in FUNCTIONS:
        return FUNCTIONS[function](*args, **keywords)
    if function is print:
        return print_lanes(ctx, active, site, *args, **keywords)
    if function in AST_NAME_OF_OPERATOR:
        return divide(ctx, active, AST_NAME_OF_OPERATOR[function], *args, site)
    if function in AST_NAME_OF_COMPARISON:
        return compare(AST_NAME_OF_COMPARISON[function], *args)
    if isinstance(function, np.ufunc) or getattr(operator, getattr(function, '__name__', ''), None) is function:
        return function(*map(widen, args), **keywords)
    if type(function).__module__.startswith('numba.'):
        return cast(np.dtype(str(function)), *args)  # one of Numba's types
    if isinstance(function, type) and issubclass(function, tuple):
        return function(*args, **keywords)
    if getattr(function, '__name__', '') == 'conjugate' and isinstance(
        function.__self__, (np.ndarray, np.number, complex)
    ):
        return function()
    raise unsupported_call(ctx, active, function, site)


def _not_callable(value):
    "Make the `TypeError` for a call of an object that is not a function"
    if isinstance(value, Namespace):
        return TypeError(
            f'{value} is not a function, but a namespace of functions: {", ".join(f"{value}.{k}" for k in vars(value))}'
        )
    descriptions = dict(View='an array', Records='an array of records')
    description = 'a number' if _is_number(value) else descriptions.get(type(value).__name__, repr(value))
    return TypeError(f'{description} cannot be called like a function; index an array with square brackets: x[i]')


def _argument_error(function, error, args, keywords):
    "Make the `TypeError` for arguments that do not fit a CUDA intrinsic"
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **keywords)
    except TypeError as bind_error:
        return TypeError(f'cuda.{function.__name__}{signature}: {bind_error}')
    return error


@functools.lru_cache
def _njit_program(py_func):
    "Return the program of a function decorated with Numba's `@njit`, which kernels may call"
    return sys.modules[f'{__package__}.program'].Program(py_func)


def finish_call(value):
    "Return the value of a call; yields while the called device function waits for other blocks"
    return (yield from value) if isinstance(value, types.GeneratorType) else value


def device_function_hint(function):
    "Return a hint on how to make a plain Python function a device function"
    name = function.__name__
    return f'Put @cuda.jit(device=True) above it; if it is not yours: {name} = cuda.jit(device=True)({name})'


def unsupported_call(ctx, active, function, site):
    "Make the `NotSimulated` error for a call of `function`"
    if isinstance(function, types.FunctionType):
        problem = f'a kernel cannot call {function.__name__}, because it is a plain Python function'
        return ctx.unsupported_error(site, active, problem, device_function_hint(function))
    name = getattr(function, '__name__', function)
    return ctx.unsupported_error(
        site, active, f'a kernel cannot call {name!r}', _HINT_OF_FUNCTION.get(name, _CALLABLE_HINT)
    )


_ALLOCATE_HINT = (
    'Use cuda.local.array(size, dtype) for an array per thread, cuda.shared.array(size, dtype) for one per block.'
)
_LOOP_HINT = 'A thread computes with scalars: write a loop over the elements.'
_RANDOM_HINT = 'Pass the kernel an array of random numbers, or use cuda.random.'
_CALLABLE_HINT = (
    "A kernel may call functions of cuda and math, NumPy's scalar functions, and @cuda.jit(device=True) functions."
)
_HINT_OF_FUNCTION = {
    **dict.fromkeys(
        ('append', 'array', 'empty', 'full', 'list', 'ones', 'zeros'), _ALLOCATE_HINT
    ),  # NumPy's and torch's
    **dict.fromkeys(
        'all any argmax argmin cumsum dot matmul max mean min prod sort sorted std sum'.split(), _LOOP_HINT
    ),
    **dict.fromkeys('choice normal rand randint randn random uniform'.split(), _RANDOM_HINT),
}


_OPERATIONS = (
    assign,
    assign_partly,
    read_variable,
    merge,
    union,
    branch,
    join,
    Loop,
    RangeLoop,
    ItemLoop,
)  # lanes and loops
_OPERATIONS += (binary, unary, logical_not, logical_and, logical_or, compare, contains)  # numbers
_OPERATIONS += (load, store, attribute, store_attribute, give_name, check_unpack)  # arrays
_OPERATIONS += (
    fork,
    continue_loop,
    return_from,
    return_at_end,
    check_assert,
    raise_exception,
    divide,
    call,
    finish_call,
)  # operations that use the context of the launch
Operations = type('Operations', (), dict(UNDEF=UNDEF, **{f.__name__: f for f in _OPERATIONS}))
