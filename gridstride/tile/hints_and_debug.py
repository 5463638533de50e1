"""Compiler hints and debugging functions of `triton.language`."""

import numpy as np

from .block import block_of, convert, tensor
from .run import current, finding, compile_error, warn_of_undefined
from .types import DTYPES

__all__ = [
    'multiple_of',
    'max_contiguous',
    'assume',
    'debug_barrier',
    'static_print',
    'static_assert',
    'device_print',
    'device_assert',
    'max_constancy',
]

_I1 = DTYPES['int1']


def multiple_of(input, values):
    "Check that the first value of each contiguous run is a multiple of `values`; for Triton, it is a hint"
    x = block_of(input)
    values = (values,) if isinstance(values, int) else values
    if x.dtype.is_int() and x.data.ndim < 2 and len(values) == 1:
        ints = np.atleast_1d(x.data).astype(np.int64)
        is_run_start = np.append(True, np.diff(ints) != 1)
        violations = ints[is_run_start & (ints % values[0] != 0)]
        if violations.size:
            raise finding('assert', 'multiple', dict(value=int(violations[0]), of=int(values[0])))
    return x


def max_contiguous(input, values):
    "Return `input`: a hint for Triton that runs of `values` elements are contiguous, which is not checked"
    return input


max_constancy = max_contiguous


def _check_defined(cond):
    "Return a condition, after a warning if one of its lanes is undefined"
    if cond.undef_mask is not None and cond.undef_mask.any():
        warn_of_undefined('undefined_decision')
    return cond


def assume(cond):
    "Check that a condition holds; for Triton, it is a hint"
    if not np.all(_check_defined(block_of(cond)).data):
        raise finding('assert', 'device', dict(message='tl.assume: the condition is false'))


def debug_barrier():
    "Synchronize all threads of a program"
    current().fence()


def static_print(*values, sep=' ', end='\n', file=None, flush=False):
    "Print values that are known at compile time, once per launch"
    if current().execution_index == current().first_program:
        print(*values, sep=sep, end=end)


def static_assert(cond, msg=''):
    "Assert a condition that is known at compile time"
    if type(cond) is tensor:
        raise compile_error('tl.static_assert requires a compile-time constant', 'Use tl.device_assert.')
    if not cond:
        raise finding('assert', 'static', dict(message=msg or 'the condition is false'))


def device_print(prefix, *args, hex=False):
    "Print values, a block in one line; a GPU prints one line per lane"
    x, y, z = current().program_id
    values = ', '.join(str(arg.data) if type(arg) is tensor else str(arg) for arg in args)
    print(f'pid ({x}, {y}, {z}) {prefix}{": " if args and not prefix.rstrip().endswith(":") else ""}{values}')


def device_assert(cond, msg='', mask=None):
    "Assert that a condition holds in every lane"
    cond = convert(block_of(cond), _I1)
    if mask is not None:
        cond = cond | ~convert(block_of(mask), _I1)
    if not np.all(_check_defined(cond).data):
        lane = tuple(map(int, np.unravel_index(np.argmin(cond.data), cond.data.shape))) if cond.data.ndim else ()
        raise finding('assert', 'device', dict(message=msg or 'the condition is false'), lane)
