"""The names of `triton.language`, for kernels that run checked on the CPU.

A name of Triton that is missing here raises an error when a kernel uses it."""

import builtins
import sys
import types
from difflib import get_close_matches

import numpy as np

from . import types as _types
from . import elements, libdevice, memory, products, randoms, reductions, shapes, hints_and_debug
from .block import block_of, tensor
from .descriptors import BlockPointer, Descriptor
from .hooks import check_types_unchanged, types_of
from .run import current, learner_frame, unknown_name, unsupported_name, compile_error, warn_of_undefined
from .types import DTYPES, const

globals().update(DTYPES)
for _module in (elements, randoms, reductions, shapes, hints_and_debug):
    globals().update({k: getattr(_module, k) for k in _module.__all__})
dtype, block_type, pointer_type = _types.dtype, _types.block_type, _types.pointer_type
tensor_descriptor = Descriptor
tuple = builtins.tuple
slice = builtins.slice
void = None
_I32, _F32 = DTYPES['int32'], DTYPES['float32']
pi32_t = pointer_type(_I32)
TRITON_MAX_TENSOR_NUMEL = 1 << 20


def __getattr__(k):
    "Raise an error for a name that is missing here: Triton may have it"
    if k.startswith('__'):
        raise AttributeError(k)
    real_module = sys.modules.get('triton.language')
    if real_module and real_module is not sys.modules[__name__] and not hasattr(real_module, k):
        close_matches = get_close_matches(k, dir(real_module), 1, 0.7)
        hint = (
            'Compute a mean as tl.sum(x) / n.'
            if k == 'mean'
            else f'Did you mean tl.{close_matches[0]}?'
            if close_matches
            else ''
        )
        raise unknown_name(f'tl.{k}', hint)
    raise unsupported_name(f'tl.{k}')


class Constant:
    "A value of the host that kernels may use as a compile-time constant"

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f'constexpr[{self.value!r}]'


class constexpr:  # a class, because it annotates parameters
    "Mark a compile-time constant; outside a kernel it makes a global variable usable in kernels"

    def __new__(cls, x):
        if learner_frame() is not None:
            return const(x)
        return x if isinstance(x, Constant) else Constant(x)


# Programs


def program_id(axis):
    "Return this program's index along an axis of the grid: 0, 1 or 2"
    return _index_along(current().program_id, axis)


def num_programs(axis):
    "Return the number of programs along an axis of the grid"
    return _index_along(current().grid, axis)


def _index_along(sizes, axis):
    if axis not in (0, 1, 2):
        raise compile_error(f'axis must be 0, 1 or 2; got {axis}')
    return tensor(np.int32(sizes[axis]), _I32)


def _iterate(frame, values, value_type):
    "Yield the values of a loop's variable; checks that loop-carried variables keep their type"
    types_before = None
    for iteration, value in enumerate(values):
        if iteration == 0:
            types_before = types_of(frame)
        elif iteration < 3:
            check_types_unchanged(types_before, types_of(frame))
        elif iteration % 1024 == 0:
            current().check_deadline()
        yield tensor(value_type.number(value), value_type)
    if types_before:
        check_types_unchanged(types_before, types_of(frame))


class range:
    "The `range` of a kernel, whose bounds may be known at run time only; compiler options are ignored"

    def __init__(self, start, stop=None, step=None, num_stages=None, loop_unroll_factor=None,
                 disallow_acc_multi_buffer=False, flatten=False, warp_specialize=False,
                 disable_licm=False):  # fmt: skip
        start, stop = (0, start) if stop is None else (start, stop)
        bounds = [block_of(bound) for bound in (start, stop, 1 if step is None else step)]
        for bound in bounds:
            if bound.data.ndim or not bound.dtype.is_int():
                raise compile_error(f'the bounds of range() must be scalar integers; got {bound.type}')
            if bound.undef_mask is not None:
                warn_of_undefined('undefined_decision')
        self.type = next((bound.dtype for bound in bounds if bound.dtype.size == 8), _I32)
        self.values = builtins.range(*(int(bound.data) for bound in bounds))

    def __iter__(self):
        return _iterate(learner_frame(), self.values, self.type)


class static_range:
    "A loop that the compiler unrolls: its bounds are known at compile time"

    def __init__(self, start, stop=None, step=1):
        start, stop = (0, start) if stop is None else (start, stop)
        if not all(isinstance(bound, int) for bound in (start, stop, step)):
            raise compile_error('the bounds of tl.static_range must be compile-time constants', 'Use range(...).')
        self.values = builtins.range(start, stop, step)

    def __iter__(self):
        return map(const, self.values)


# Memory


def load(pointer, mask=None, other=None, boundary_check=(), padding_option='', cache_modifier='', eviction_policy='',
         volatile=False):  # fmt: skip
    "Load elements through pointers; lanes whose `mask` is false get `other`"
    if hasattr(pointer, 'load_block'):
        return pointer.load_block(mask, other, boundary_check, padding_option)
    _check_no_boundary_check('tl.load', boundary_check, padding_option)
    return memory.load(pointer, mask, other, volatile)


def store(pointer, value, mask=None, boundary_check=(), cache_modifier='', eviction_policy=''):
    "Store `value` through pointers, where `mask` is true"
    if hasattr(pointer, 'store_block'):
        return pointer.store_block(value, mask, boundary_check)
    _check_no_boundary_check('tl.store', boundary_check)
    return memory.store(pointer, value, mask)


def _check_no_boundary_check(function, *options):
    "Raise `NotCompiled` for options of block pointers in a call with other pointers"
    if any(options):
        raise compile_error(
            f'{function} supports boundary_check and padding_option only for block pointers', 'Use a mask.'
        )


def _make_atomic(name):
    "Make the function `tl.atomic_<name>`"

    def atomic_function(pointer, val, mask=None, sem=None, scope=None):
        _check_ordering(sem, scope)
        return memory.atomic(name, pointer, val, mask, sem=sem)

    atomic_function.__name__ = f'atomic_{name}'
    atomic_function.__doc__ = f'Update elements through pointers by an atomic {name}; returns the old values'
    return atomic_function


def _check_ordering(sem, scope):
    "Raise `NotCompiled` for an unknown memory ordering or scope"
    for name, option, allowed_values in (
        ('sem', sem, 'acquire release acq_rel relaxed'),
        ('scope', scope, 'gpu cta sys'),
    ):
        if option is not None and option not in allowed_values.split():
            raise compile_error(f"{name} must be one of {', '.join(allowed_values.split())}; got {option!r}")


atomic_add, atomic_max, atomic_min, atomic_and, atomic_or, atomic_xor, atomic_xchg = map(
    _make_atomic, 'add max min and or xor xchg'.split()
)


def atomic_cas(pointer, cmp, val, sem=None, scope=None):
    "Compare and swap: write `val` where the element equals `cmp`; returns the old value"
    _check_ordering(sem, scope)
    return memory.atomic('cas', pointer, val, expected=cmp, sem=sem)


# Products


def dot(input, other, acc=None, input_precision=None, allow_tf32=None, max_num_imprecise_acc=None, out_dtype=_F32):
    "Compute input @ other + acc; fp32 operands are rounded to tf32 unless `input_precision` is 'ieee'"
    return products.dot(input, other, acc, input_precision, allow_tf32, out_dtype)


# Block pointers and descriptors


def make_block_ptr(base, shape, strides, offsets, block_shape, order):
    "Make a pointer to a block of an array; `tl.advance` moves it"
    return BlockPointer(base, shape, strides, offsets, block_shape, order)


def advance(base, offsets):
    "Return the block pointer, advanced by `offsets` elements along each axis"
    return base.advance(offsets)


def make_tensor_descriptor(base, shape, strides, block_shape, padding_option='zero'):
    "Make a descriptor of an array: it loads and stores blocks of one shape as TMA does"
    return Descriptor(base, shape, strides, block_shape, padding_option)


def load_tensor_descriptor(desc, offsets):
    "Load the block at `offsets`"
    return desc.load(offsets)


def store_tensor_descriptor(desc, offsets, value):
    "Store `value` to the block at `offsets`"
    desc.store(offsets, value)


# The methods of blocks

_METHODS = (
    'broadcast_to trans permute split view reshape expand_dims cast store advance atomic_cas atomic_xchg atomic_add '
    'atomic_max atomic_min atomic_and atomic_or atomic_xor exp log cos sin sqrt rsqrt abs reduce associative_scan '
    'gather histogram cdiv sigmoid softmax ravel max argmax min argmin sum xor_sum reduce_or cumsum cumprod sort flip '
    'exp2 log2 floor ceil erf item sqrt_rn'
)
for _name in _METHODS.split():
    setattr(tensor, _name, globals()[_name])
tensor.T = property(globals()['trans'], doc='The block with its two axes exchanged')
math = core = standard = random = sys.modules[__name__]
extra = types.SimpleNamespace(libdevice=libdevice, cuda=types.SimpleNamespace(libdevice=libdevice))
