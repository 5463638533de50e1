"""What a rewritten kernel calls: all of it, and nothing else, in one object, which kernels access as `__gs`."""

import functools
import inspect
import operator
import sys
import types

import numpy as np

from .arithmetic import (
    COMPARING,
    OPERATORS,
    binary,
    both,
    cast,
    compare,
    contains,
    either,
    join,
    kind_of,
    negate,
    unary,
)
from .intrinsics import Namespace
from .python_functions import FUNCTIONS, print_lanes, widen
from .lanes import UNDEF, Items, Loop, Range, assign, branch, merge, union
from .memory import View, load, store
from .records import Records, attribute, store_attribute
from .types import is_number_type
from ..diagnostics.errors import also_instance_of

__all__ = ['Operations']

_SMALLEST = np.iinfo(np.int64).min


def give_name(v, name):
    "Name an array that has no name yet after the variable it is assigned to"
    if isinstance(v, (View, Records)) and v.name is None:
        v.rename(name)
    return v


def need_parts(v, n):
    "Raise `TypeError` or `ValueError` unless `v` has `n` values, to unpack it to as many names"
    if not isinstance(v, (tuple, list)):
        raise TypeError(f'{n} names are given one value: cuda.grid(2) and .shape are several, cuda.grid(1) is one')
    if len(v) != n:
        raise ValueError(f'{n} names are given {len(v)} values')


def assign_partly(d, m, new, old):
    "Assign as `assign` does, to a variable that other lanes may read unassigned: a number is 0 there, as in Numba"
    if old is UNDEF and isinstance(new, (np.ndarray, np.generic)):
        return merge(m, new, new.dtype.type(0))
    return assign(d, m, new, old)


def assigned(run, m, v, lanes, name, site):
    "Return the value `v` of the variable `name`, which `lanes` have assigned; warns if other lanes of `m` read it"
    if lanes is not None and lanes is not m and (without := m & ~lanes).any():
        run.detectors.initcheck.unassigned(run, without, name, site)
    return v


def fork(run, m, c, site):
    "Split `m` into the lanes where `c` is true and those where it is not, and report the branch to the trace"
    yes, no = branch(m, c)
    if run.trace is not None:
        run.trace.branch(run, m, yes, no, site)
    return yes, no


def again(run, loop, c, site):
    "Return whether a `while` loop has another iteration; raises `SynccheckError` if it spins without progress"
    go = loop.test(c)
    if go:
        run.detectors.synccheck.iterate(run, loop, site, sys._getframe(1))
    return go


def leave(run, kernel, m, value, ret):
    "Execute `return`: in a kernel the lanes become inactive, in a device function they have a value"
    if kernel:
        run.g.live = run.g.live & ~m
        return None
    return value if ret is UNDEF else merge(m, value, ret)


def return_at_end(m, ret):
    "Return a device function's value if the lanes of `m` reach its end without `return`: None, and so 0, there"
    if m is None or not isinstance(ret, (np.ndarray, np.generic)):
        return ret
    return np.where(m, ret.dtype.type(0), ret)


def holds(run, m, c, site, message=None):
    "Execute `assert`; `message` makes the text after the condition, for the lanes where it is false"
    yes, no = branch(m, c)
    if no is None:
        return
    if message is None:
        raise run.finding('assert', 'fails', site, no)
    raise run.finding('assert', 'fails_with', site, no, message=_text(run, no, (message,)))


def _text(run, m, values):
    "Format the text of an exception with these arguments, for the first lane of `m`"
    lane = run.active(m)[0]
    values = [np.asarray(v)[lane if np.ndim(v) else ()].item() if _is_number(v) else v for v in values]
    return str(values[0]) if len(values) == 1 else str(tuple(values)) if values else ''


def _is_number(v):
    return isinstance(v, (np.ndarray, np.generic))


def throw(run, m, kind, values, site):
    "Execute `raise`: the launch ends with the exception of the first lane"
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        raise TypeError(f'a kernel raises {kind!r}, which is not an exception')
    text = _text(run, m, values)
    raised = f'{kind.__name__}: {text}' if text else kind.__name__
    found = run.finding('raise', 'raised', site, m, raised=raised, exception=kind.__name__, message=text)
    raise also_instance_of(found, kind)


def divide(run, m, op, a, b, site):
    "Compute `a op b`; raises `KernelCrash` if `//` or `%` divides an integer by zero, or the smallest one by -1"
    if op in ('FloorDiv', 'Mod') and kind_of(a) in 'biu' and kind_of(b) in 'biu':
        if not np.all(b) and (zero := branch(m, b)[1]) is not None:
            raise run.finding('crash', 'division', site, zero)
        if np.any(np.equal(b, -1)) and (wrong := branch(m, (b == -1) & (a == _SMALLEST))[0]) is not None:
            raise run.finding('crash', 'division_overflows', site, wrong)
    return binary(op, a, b)


def call(run, m, f, args, kw, site):
    "Call a function in a kernel: one of CUDA's, one of Python's, or a device function"
    if hasattr(f, 'lanes'):
        try:
            return f.lanes(run, m, site, *args, **kw)
        except TypeError as e:
            if e.__traceback__.tb_next is None:  # it did not start
                raise _wrong_call(f, e, args, kw) from None
            raise
    if not callable(f):
        raise _no_function(f)
    if f is divmod:
        return tuple(divide(run, m, op, *args, site) for op in ('FloorDiv', 'Mod'))
    if isinstance(getattr(f, 'py_func', None), types.FunctionType):
        return _helper(f.py_func).call(run, m, site, args, kw)
    if f in FUNCTIONS:
        return FUNCTIONS[f](*args, **kw)
    if f is print:
        return print_lanes(run, m, site, *args, **kw)
    if f in OPERATORS:
        return divide(run, m, OPERATORS[f], *args, site)
    if f in COMPARING:
        return compare(COMPARING[f], *args)
    if isinstance(f, np.ufunc) or getattr(operator, getattr(f, '__name__', ''), None) is f:
        return f(*map(widen, args), **kw)
    if is_number_type(f):
        return cast(f, *args)
    if type(f).__module__.startswith('numba.'):
        return cast(np.dtype(str(f)), *args)  # one of Numba's types
    if isinstance(f, type) and issubclass(f, tuple):
        return f(*args, **kw)
    if getattr(f, '__name__', '') == 'conjugate' and isinstance(f.__self__, (np.ndarray, np.number, complex)):
        return f()
    raise refusal(run, m, f, site)


def _no_function(v):
    "Make the `TypeError` for a call of an object that is not a function"
    if isinstance(v, Namespace):
        return TypeError(f'{v} is not a function, but has some: {", ".join(f"{v}.{k}" for k in vars(v))}')
    what = dict(View='an array', ndarray='a number', Records='an array of records').get(type(v).__name__, f'{v!r}')
    return TypeError(f'{what} is called, as if it were a function; an element is x[i], in square brackets')


def _wrong_call(f, error, args, kw):
    "Make the error for arguments that one of CUDA's functions does not take, in its own words"
    signature = inspect.signature(f)
    try:
        signature.bind(*args, **kw)
    except TypeError as e:
        return TypeError(f'cuda.{f.__name__}{signature}: {e}')
    return error


@functools.lru_cache
def _helper(f):
    "Return the program of a function under Numba's `@njit`, which kernels may call"
    return sys.modules[f'{__package__}.program'].Program(f)


def finish(v):
    "Return the value of a finished call; a device function that waits for other blocks yields until then"
    return (yield from v) if isinstance(v, types.GeneratorType) else v


def for_kernels(f):
    "Mark a Python function as one that kernels may call, as a decorator"
    name = f.__name__
    return f'Put @cuda.jit(device=True) above it; if it is not yours: {name} = cuda.jit(device=True)({name})'


def refusal(run, m, f, site):
    "Make the `NotSimulated` error for a call of `f`"
    if isinstance(f, types.FunctionType):
        what = f'{f.__name__} is a plain Python function, which Numba does not compile'
        return run.refusal(site, m, what, for_kernels(f))
    name = getattr(f, '__name__', f)
    return run.refusal(site, m, f'calling {name!r} in a kernel', _HINTS.get(name, _CALLED_BY_KERNELS))


_OWN_ARRAYS = 'A thread has cuda.local.array(size, dtype), and a block cuda.shared.array(size, dtype).'
_LOOP = 'A thread computes with numbers: write a loop over the elements.'
_RANDOM = 'Give the kernel an array of random numbers.'
_CALLED_BY_KERNELS = "A kernel calls what cuda and math have, NumPy's functions of numbers, and @cuda.jit(device=True)."
_HINTS = {
    **dict.fromkeys(('append', 'array', 'empty', 'full', 'list', 'ones', 'zeros'), _OWN_ARRAYS),  # NumPy's and torch's
    **dict.fromkeys('all any argmax argmin cumsum dot matmul max mean min prod sort sorted std sum'.split(), _LOOP),
    **dict.fromkeys('choice normal rand randint randn random uniform'.split(), _RANDOM),
}


_CALLED = (assign, assign_partly, assigned, merge, union, branch, join, Loop, Range, Items)  # lanes and loops
_CALLED += (binary, unary, negate, both, either, compare, contains)  # numbers
_CALLED += (load, store, attribute, store_attribute, give_name, need_parts)  # arrays
_CALLED += (fork, again, leave, return_at_end, holds, throw, divide, call, finish)  # what asks the run
Operations = type('Operations', (), dict(UNDEF=UNDEF, **{f.__name__: f for f in _CALLED}))
