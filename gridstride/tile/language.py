"""The names of `triton.language`, for kernels that run checked on the CPU.

A name that Triton has and this module has not says so when a kernel asks for it."""

import builtins
import functools
import math as _math
import sys
import types

import numpy as np

from . import descriptors, libdevice, memory, randoms
from . import block as _block, types as _types
from .block import (
    block_of,
    broadcast as _broadcast,
    compute,
    convert,
    fused,
    is_number,
    lacking_as,
    made,
    shaped,
    tensor,
)
from .rewrite import keep_types, types_of
from .run import current, finding, frame_of, no_name_of_triton, no_such_name, refuse
from .types import DTYPES, const, named

globals().update(DTYPES)
where = _block.where
dtype, pointer_type, block_type = _types.dtype, _types.pointer_type, _types.block_type
tensor_descriptor = descriptors.Descriptor
tuple, slice, void = builtins.tuple, builtins.slice, None
_I1, _I32, _U32, _I64, _F32 = (DTYPES[o] for o in ('int1', 'int32', 'uint32', 'int64', 'float32'))
_NATIVE = dict(range=builtins.range, min=builtins.min, max=builtins.max, abs=builtins.abs, sum=builtins.sum)
pi32_t = pointer_type(DTYPES['int32'])
TRITON_MAX_TENSOR_NUMEL = 1 << 20


def __getattr__(k):
    if k.startswith('__'):
        raise AttributeError(k)
    theirs = sys.modules.get('triton.language')
    if theirs and not hasattr(theirs, k):
        raise no_name_of_triton(f'tl.{k}', 'A mean is tl.sum(x) / n.' if k == 'mean' else '')
    raise no_such_name(f'tl.{k}')


class PropagateNan:
    "What `tl.maximum` and `tl.minimum` do with NaN"

    NONE, ALL = 0, 0xFFFF


class Constant:
    "A value of the host that kernels may use, as its compiler knows it"

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f'constexpr[{self.value!r}]'


def constexpr(x):
    "A value that the compiler knows: in a kernel itself, outside of one what makes a global variable usable there"
    if frame_of() is not None:
        return const(x)
    return x if isinstance(x, Constant) else Constant(x)


# Programs


def program_id(axis):
    "Which program this is, along an axis of the grid: 0, 1 or 2"
    return _program(current().program, axis)


def num_programs(axis):
    "How many programs there are along an axis of the grid"
    return _program(current().grid, axis)


def _program(sizes, axis):
    if axis not in (0, 1, 2):
        raise refuse(f'axis {axis} of the grid: there are 0, 1 and 2')
    return tensor(np.int32(sizes[axis]), _I32)


def _loop(frame, numbers, t):
    "The numbers of a loop; what a loop carries from round to round keeps its type"
    before = None
    for n, i in enumerate(numbers):
        if n == 0:
            before = types_of(frame)
        elif n < 3:
            keep_types(before, types_of(frame))
        elif n % 1024 == 0:
            current().in_time()
        yield tensor(t.number(i), t)
    if before:
        keep_types(before, types_of(frame))


class range:
    "`range` of a kernel: its numbers are known when the kernel runs; options of Triton's compiler are taken"

    def __init__(self, start, stop=None, step=None, num_stages=None, loop_unroll_factor=None,
                 disallow_acc_multi_buffer=False, flatten=False, warp_specialize=False,
                 disable_licm=False):  # fmt: skip
        start, stop = (0, start) if stop is None else (start, stop)
        bounds = [block_of(o) for o in (start, stop, 1 if step is None else step)]
        for o in bounds:
            if o.data.ndim or not o.dtype.is_int():
                raise refuse(f'range() of {o.type}', 'Its bounds are whole numbers, and no blocks.')
        self.type = next((o.dtype for o in bounds if o.dtype.size == 8), _I32)
        self.numbers = _NATIVE['range'](*(int(o.data) for o in bounds))

    def __iter__(self):
        return _loop(frame_of(), self.numbers, self.type)


class static_range:
    "A loop that the compiler unrolls: its numbers are known then"

    def __init__(self, start, stop=None, step=1):
        start, stop = (0, start) if stop is None else (start, stop)
        if not all(isinstance(o, int) for o in (start, stop, step)):
            raise refuse('tl.static_range of numbers that are known only when the kernel runs', 'Use range(...).')
        self.numbers = _NATIVE['range'](start, stop, step)

    def __iter__(self):
        return map(const, self.numbers)


# New blocks


def _is_power_of_2(n):
    return n > 0 and n & (n - 1) == 0


@functools.lru_cache(256)
def _numbers(start, end):
    a = np.arange(start, end, dtype=np.int32)
    a.flags.writeable = False
    return a


def arange(start, end):
    "The block start, start+1, ..., end-1; how many there are is a power of 2"
    if isinstance(start, float) or isinstance(end, float):
        raise refuse(f'tl.arange({start}, {end}): its bounds are whole numbers', 'Divide with //.')
    if not (isinstance(start, int) and isinstance(end, int)):
        raise refuse('tl.arange with a bound that is known only when the kernel runs',
                     'Its bounds are numbers or tl.constexpr arguments.')  # fmt: skip
    if not _is_power_of_2(end - start):
        raise refuse(f'tl.arange({start}, {end}) has {end - start} elements, which is no power of 2',
                     'Take the next one, triton.next_power_of_2(n), and mask what is too much.')  # fmt: skip
    return tensor(_numbers(int(start), int(end)), _I32)


def _shape(shape):
    "Sizes of a block: powers of 2, known when it is compiled"
    if len(shape) == 1 and not isinstance(shape[0], (int, tensor)):
        shape = shape[0]
    shape = (shape,) if isinstance(shape, (int, tensor)) else tuple(shape)
    for o in shape:
        if not isinstance(o, int):
            raise refuse('the shape of a block is known only when the kernel runs', 'Sizes are tl.constexpr arguments.')
        if not _is_power_of_2(o):
            raise refuse(f'a block of shape {list(map(int, shape))}: {o} is no power of 2',
                         'Take the next one, and mask what is too much.')  # fmt: skip
    if _math.prod(shape) > TRITON_MAX_TENSOR_NUMEL:
        raise refuse(f'a block of {_math.prod(shape)} elements; a block has at most {TRITON_MAX_TENSOR_NUMEL}')
    return shape


def full(shape, value, dtype):
    "A block that holds one value"
    t = named(dtype)
    value = convert(block_of(value), t)
    return tensor(np.full(_shape((shape,)), value.data, t.np), t)


def zeros(shape, dtype):
    "A block of zeros"
    return full(shape, 0, dtype)


def zeros_like(input):
    "Zeros in the shape and type of another block"
    return tensor(np.zeros(input.data.shape, input.dtype.np)[()], input.dtype)


# Shapes


def broadcast_to(input, *shape):
    "The block, repeated along its axes of size 1"
    shape, x = _shape(shape), block_of(input)
    try:
        return shaped(x, lambda a: np.broadcast_to(a, shape))
    except ValueError:
        raise refuse(f'a block of shape {list(x.data.shape)} as {list(map(int, shape))}') from None


def broadcast(input, other):
    "Both blocks in their common shape"
    x, y = block_of(input), block_of(other)
    shape = _broadcast(x, y)[0].shape
    return tuple(shaped(o, lambda a: np.broadcast_to(a, shape)) for o in (x, y))


def expand_dims(input, axis):
    "The block with another axis of size 1, or several"
    x = block_of(input)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return shaped(x, lambda a: np.expand_dims(np.asarray(a), axes))


def unsqueeze(x, dim):
    "The block with another axis of size 1"
    return expand_dims(x, dim)


def squeeze(x, dim):
    "The block without an axis of size 1"
    return shaped(x, lambda a: np.squeeze(a, dim))


def reshape(input, *shape, can_reorder=False):
    "The elements in another shape"
    shape, x = _shape(shape), block_of(input)
    if _math.prod(shape) != x.data.size:
        raise refuse(f'reshape of {x.data.size} elements to {list(map(int, shape))}')
    return shaped(x, lambda a: np.reshape(a, shape))


def view(input, *shape):
    "The elements in another shape"
    return reshape(input, *shape)


def ravel(x, can_reorder=False):
    "The elements along one axis"
    return shaped(x, lambda a: np.reshape(a, -1))


def trans(input, *dims):
    "The block with its last two axes exchanged, or all of them in the order `dims`"
    dims = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    if not dims:
        if input.data.ndim < 2:
            raise refuse(f'tl.trans of a block of shape {list(input.data.shape)}: it has no two axes')
        return shaped(input, lambda a: np.swapaxes(a, -1, -2))
    return permute(input, *dims)


def permute(input, *dims):
    "The block with its axes in another order"
    dims = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    if sorted(dims) != list(_NATIVE['range'](input.data.ndim)):
        raise refuse(f'the order {list(dims)} of the axes of a block of shape {list(input.data.shape)}')
    return shaped(input, lambda a: np.transpose(a, tuple(map(int, dims))))


def cat(input, other, can_reorder=False, dim=0):
    "Two blocks, one behind the other; with `can_reorder` Triton may mix them"
    return _stacked(input, other, lambda a, b: np.concatenate([a, b], dim))


def join(a, b):
    "Two blocks along a new last axis"
    x, y = broadcast(block_of(a), block_of(b))
    if x.dtype is not y.dtype:
        raise refuse(f'tl.join of {x.dtype} and {y.dtype}')
    return _stacked(x, y, lambda a, b: np.stack([a, b], -1))


def split(a):
    "The two halves of a block along its last axis, whose size is 2"
    if not a.data.ndim or a.data.shape[-1] != 2:
        raise refuse(f'tl.split of a block of shape {list(a.data.shape)}', 'Its last axis has size 2.')
    return shaped(a, lambda o: o[..., 0][()]), shaped(a, lambda o: o[..., 1][()])


def interleave(a, b):
    "The elements of two blocks in turn, along the last axis"
    c = join(a, b)
    return shaped(c, lambda o: o.reshape(*o.shape[:-2], -1))


def flip(x, dim=None):
    "The elements along an axis in reverse order"
    axis = _axis(x, -1 if dim is None else dim, 'tl.flip')
    return shaped(x, lambda a: np.flip(a, axis))


def gather(src, index, axis):
    "Elements of a block by their index along an axis"
    at = index.data.astype(np.int64)
    return shaped(src, lambda a: np.take_along_axis(a, at, axis))


# Memory


def load(pointer, mask=None, other=None, boundary_check=(), padding_option='', cache_modifier='', eviction_policy='',
         volatile=False):  # fmt: skip
    "What pointers point to; `mask` and `other` for those that do not take part"
    if hasattr(pointer, 'load_block'):
        return pointer.load_block(mask, other, boundary_check, padding_option)
    _no_boundary('tl.load', boundary_check, padding_option)
    return memory.load(pointer, mask, other, volatile)


def store(pointer, value, mask=None, boundary_check=(), cache_modifier='', eviction_policy=''):
    "Write through pointers, where the mask is true"
    if hasattr(pointer, 'store_block'):
        return pointer.store_block(value, mask, boundary_check)
    _no_boundary('tl.store', boundary_check)
    return memory.store(pointer, value, mask)


def _no_boundary(what, *given):
    if any(given):
        raise refuse(f'{what} with boundary_check or padding_option, which belong to block pointers', 'Use a mask.')


def _atomic(name):
    def f(pointer, val, mask=None, sem=None, scope=None):
        _ordering(sem, scope)
        return memory.atomic(name, pointer, val, mask, sem=sem)

    f.__name__, f.__doc__ = f'atomic_{name}', f'Atomic {name} through pointers; gives what was there before'
    return f


def _ordering(sem, scope):
    for name, given, may in (('sem', sem, 'acquire release acq_rel relaxed'), ('scope', scope, 'gpu cta sys')):
        if given is not None and given not in may.split():
            raise refuse(f"{name} is {given!r}; it may be {', '.join(may.split())}")


for _name in 'add max min and or xor xchg'.split():
    globals()[f'atomic_{_name}'] = _atomic(_name)


def atomic_cas(pointer, cmp, val, sem=None, scope=None):
    "Write `val` where `cmp` stands; gives what was there before"
    _ordering(sem, scope)
    return memory.atomic('cas', pointer, val, expected=cmp, sem=sem)


# Arithmetic


def cdiv(x, div):
    "x/div, rounded up"
    return (x + div - 1) // div


def swizzle2d(i, j, size_i, size_j, size_g):
    "The position (i, j) of a grid walked by rows, in a walk by groups of `size_g` rows"
    at = i * size_j + j
    group = at // (size_g * size_j) * size_g
    rows, at = minimum(size_i - group, size_g), at % (size_g * size_j)
    return group + at % rows, at // rows


def item(input):
    "The one element of a block"
    if input.data.size != 1:
        raise refuse(f'.item() of a block of shape {list(input.data.shape)}')
    return shaped(input, lambda a: np.reshape(a, ())[()])


def condition(arg1, disable_licm=False):
    "The condition of a `while` loop; options of the compiler are taken"
    return arg1


def map_elementwise(scalar_fn, *args, pack=1):
    "A function of scalars, for each element"
    if pack != 1:
        raise no_such_name(f'tl.map_elementwise with pack={pack}')
    blocks = [block_of(o) for o in args]
    columns = [np.ravel(o) for o in _broadcast(*blocks)]
    rows = [
        scalar_fn(*(tensor(c[i], o.dtype) for c, o in zip(columns, blocks))) for i in _NATIVE['range'](columns[0].size)
    ]
    shape, several = _broadcast(*blocks)[0].shape, type(rows[0]) is tuple
    found = [r if several else (r,) for r in rows]
    out = tuple(tensor(np.array([o.data for o in c]).reshape(shape), c[0].dtype) for c in zip(*found))
    return out if several else out[0]


def next_power_of_2(n):
    "The smallest power of 2 that is at least n, a number that the compiler knows"
    return const(1 << (n - 1).bit_length())


def cast(input, dtype, fp_downcast_rounding=None, bitcast=False):
    "The value as another type"
    return block_of(input).to(dtype, fp_downcast_rounding, bitcast)


def to_tensor(x):
    "A value of the kernel for a number"
    return block_of(x)


def add(x, y, sanitize_overflow=True):
    "x + y"
    return block_of(x) + y


def sub(x, y, sanitize_overflow=True):
    "x - y"
    return block_of(x) - y


def mul(x, y, sanitize_overflow=True):
    "x * y"
    return block_of(x) * y


def _extreme(x, y, propagate_nan, ignoring, propagating):
    a, b = (block_of(o) if is_number(x) and is_number(y) else o for o in (x, y))
    return compute(a, b, propagating if propagate_nan == PropagateNan.ALL else ignoring)


def minimum(x, y, propagate_nan=PropagateNan.NONE):
    "The smaller of two, element by element; a number rather than NaN"
    return _extreme(x, y, propagate_nan, np.fmin, np.minimum)


def maximum(x, y, propagate_nan=PropagateNan.NONE):
    "The larger of two, element by element; a number rather than NaN"
    return _extreme(x, y, propagate_nan, np.fmax, np.maximum)


def clamp(x, min, max, propagate_nan=PropagateNan.NONE):
    "x, but at least `min` and at most `max`; floating numbers only"
    if not block_of(x).dtype.is_floating():
        raise refuse(f'tl.clamp of {x.dtype}', 'Whole numbers: tl.minimum(tl.maximum(x, low), high).')
    return minimum(maximum(x, min, propagate_nan), max, propagate_nan)


def builtin_min(*args):
    "`min` of a kernel"
    return _chosen(args, minimum, _NATIVE['min'])


def builtin_max(*args):
    "`max` of a kernel"
    return _chosen(args, maximum, _NATIVE['max'])


def _chosen(args, f, native):
    return functools.reduce(f, args) if any(type(o) is tensor for o in args) else native(*args)


def abs(x):
    "|x|"
    if is_number(x):
        return _NATIVE['abs'](x)
    return made(np.abs(x.data), x.dtype, x)


def _of_floats(f, name, narrow=True):
    "A function of fp32 and fp64, as Triton has them"

    def g(x):
        x = block_of(x)
        if x.dtype.name not in ('float32', 'float64'):
            raise refuse(f'tl.{name} of {x.dtype}', 'It takes fp32 and fp64: convert with .to(tl.float32).')
        return made(f(x.data), x.dtype, x)

    g.__name__, g.__doc__ = name, f'{name}(x) of each element'
    return g


def _erf(x):
    "The error function; SciPy's is not needed for it"
    return np.vectorize(_math.erf, otypes=[x.dtype])(x)[()]


def _flushed(x):
    "fp32 numbers, those too small for its full precision as 0: so rounding to whole numbers takes them on a GPU"
    return np.where(np.abs(x) < 2.0**-126, x * 0, x)[()] if x.dtype == np.float32 else x


def _rsqrt(x):
    return (1 / np.sqrt(x.astype(np.float64))).astype(x.dtype)


for _name, _f in dict(
    exp=np.exp, exp2=np.exp2, log=np.log, log2=np.log2, sin=np.sin, cos=np.cos, sqrt=np.sqrt, rsqrt=_rsqrt,
    floor=lambda x: np.floor(_flushed(x)), ceil=lambda x: np.ceil(_flushed(x)), erf=_erf,
).items():  # fmt: skip
    globals()[_name] = _of_floats(_f, _name)
sqrt_rn = globals()['sqrt']


def fma(x, y, z):
    "x*y + z, rounded once"
    t = compute(compute(x, y, np.multiply), z, np.add).dtype
    a, b, c = (convert(block_of(o), t) for o in (x, y, z))
    return made(fused(*_broadcast(a, b, c)), t, a, b, c)


def fdiv(x, y, ieee_rounding=False):
    "x / y of floating numbers"
    return block_of(x) / y


div_rn = fdiv


def umulhi(x, y):
    "The upper half of the product of two whole numbers"
    x, y = block_of(x), block_of(y)
    a, b = _broadcast(x, y)
    n = x.dtype.int_bitwidth
    if n == 32:
        return tensor(
            ((a.astype(np.uint32).astype(np.uint64) * b.astype(np.uint32)) >> np.uint64(32)).astype(x.dtype.np), x.dtype
        )
    product = a.astype(np.uint64).astype(object) * b.astype(np.uint64).astype(object)
    return tensor(np.asarray(product >> 64).astype(np.uint64).astype(x.dtype.np)[()], x.dtype)


def sigmoid(x):
    "1 / (1 + exp(-x))"
    return 1 / (1 + globals()['exp'](-x))


def softmax(x, dim=None, keep_dims=False, ieee_rounding=False):
    "Softmax along an axis, the first one unless it is given"
    axis = 0 if dim is None else dim
    z = x - max(x, axis, keep_dims=True)
    num = globals()['exp'](z)
    return num / sum(num, axis, keep_dims=True)


# Reductions and scans


def _any(lacks, axis, keep_dims):
    return np.any(lacks, axis=axis, keepdims=keep_dims)


def _stacked(a, b, f):
    "A block of two others' elements, by a function of two arrays"
    out = tensor(f(a.data, b.data), a.dtype)
    if a.lacks is not None or b.lacks is not None:
        out.lacks = f(*(np.zeros(o.data.shape, bool) if o.lacks is None else o.lacks for o in (a, b)))
    return out


def _axis(x, axis, what):
    if axis is None:
        return None
    if not -x.data.ndim <= axis < x.data.ndim:
        raise refuse(f'{what} along axis {axis} of a block of shape {list(x.data.shape)}')
    return int(axis) % x.data.ndim


def _reduced(x, f, axis, keep_dims, what):
    x = block_of(x)
    if not x.data.ndim:
        raise refuse(f'{what} of a scalar')
    axis = _axis(x, axis, what)
    got = f(x.data, axis=axis)
    if keep_dims:
        got = np.reshape(got, [1 if axis in (None, i) else n for i, n in enumerate(x.data.shape)])
    return lacking_as(tensor(np.asarray(got, x.dtype.np)[()], x.dtype), x, lambda a: _any(a, axis, keep_dims))


def sum(input, axis=None, keep_dims=False, dtype=None):
    "The sum along an axis, or of all; whole numbers of less than 32 bits are added as 32"
    x = block_of(input)
    t = named(dtype) if dtype is not None else x.dtype
    if dtype is None and t.is_int() and t.int_bitwidth < 32:
        t = _U32 if t.is_int_unsigned() else _I32
    x = convert(x, t)
    return _reduced(x, lambda a, axis: np.add.reduce(a, axis=axis, dtype=t.np), axis, keep_dims, 'tl.sum')


def xor_sum(input, axis=None, keep_dims=False):
    "The exclusive or along an axis"
    return _reduced(input, np.bitwise_xor.reduce, axis, keep_dims, 'tl.xor_sum')


def reduce_or(input, axis, keep_dims=False):
    "The or along an axis"
    return _reduced(input, np.bitwise_or.reduce, axis, keep_dims, 'tl.reduce_or')


def _at_least_32(x):
    "Narrow numbers as those of 32 bits, as max and min take them"
    if x.dtype.primitive_bitwidth >= 32:
        return x
    return convert(x, _F32 if x.dtype.is_floating() else _I32)


def _extremes(input, axis, return_indices, left, keep_dims, f, first, what):
    x = _at_least_32(block_of(input))
    best = _reduced(x, f, axis, keep_dims, what)
    if not return_indices:
        return best
    return best, _argument(x, axis, left, keep_dims, first, what)


def _argument(x, axis, left, keep_dims, first, what):
    axis = _axis(x, axis, what)
    filled = (
        np.where(np.isnan(x.data), -np.inf if first is np.argmax else np.inf, x.data) if x.dtype.rank == 2 else x.data
    )
    if left or axis is None:
        at = first(filled, axis=axis)
    else:
        at = filled.shape[axis] - 1 - first(np.flip(filled, axis), axis=axis)
    if keep_dims:
        at = np.reshape(at, [1 if axis in (None, i) else n for i, n in enumerate(x.data.shape)])
    return lacking_as(tensor(np.asarray(at, np.int32)[()], _I32), x, lambda a: _any(a, axis, keep_dims))


def max(input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False):
    "The largest along an axis, or of all; with `return_indices` also where it is"
    return _extremes(input, axis, return_indices, return_indices_tie_break_left, keep_dims, np.fmax.reduce, np.argmax,
                     'tl.max')  # fmt: skip


def min(input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False):
    "The smallest along an axis, or of all; with `return_indices` also where it is"
    return _extremes(input, axis, return_indices, return_indices_tie_break_left, keep_dims, np.fmin.reduce, np.argmin,
                     'tl.min')  # fmt: skip


def argmax(input, axis, tie_break_left=True, keep_dims=False):
    "Where the largest is along an axis"
    return max(input, axis, True, tie_break_left, keep_dims)[1]


def argmin(input, axis, tie_break_left=True, keep_dims=False):
    "Where the smallest is along an axis"
    return min(input, axis, True, tie_break_left, keep_dims)[1]


def _parts(input):
    return (input,) if type(input) is tensor else tuple(input)


def _combined(f, a, b):
    got = f(*a, *b)
    return (got,) if type(got) is tensor else tuple(got)


def _sliced(values, axis, s):
    index = (slice(None),) * axis + (s,)
    return tuple(shaped(o, lambda a: a[index]) for o in values)


def reduce(input, axis, combine_fn, keep_dims=False):
    "Elements along an axis, combined by a function of two (or of two tuples)"
    values = _parts(input)
    if axis is None:
        values, axis = tuple(ravel(o) for o in values), 0
    axis = _axis(values[0], axis, 'tl.reduce')
    n = values[0].data.shape[axis]
    while n > 1:
        n //= 2
        values = _combined(combine_fn, _sliced(values, axis, slice(0, n)), _sliced(values, axis, slice(n, 2 * n)))
    if not keep_dims:
        values = tuple(shaped(o, lambda a: a[(slice(None),) * axis + (0,)][()]) for o in values)
    return values[0] if type(input) is tensor else values


def associative_scan(input, axis, combine_fn, reverse=False):
    "Elements along an axis, each combined with all before it"
    values = _parts(input)
    axis = _axis(values[0], axis, 'tl.associative_scan')
    if reverse:
        values = tuple(flip(o, axis) for o in values)
    n, step = values[0].data.shape[axis], 1
    while step < n:
        new = _combined(combine_fn, _sliced(values, axis, slice(0, n - step)), _sliced(values, axis, slice(step, n)))
        kept = _sliced(values, axis, slice(0, step))
        values = tuple(_stacked(a, b, lambda x, y: np.concatenate([x, y], axis)) for a, b in zip(kept, new))
        step *= 2
    if reverse:
        values = tuple(flip(o, axis) for o in values)
    return values[0] if type(input) is tensor else values


def _scanned(input, axis, reverse, dtype, f, what):
    x = block_of(input)
    t = named(dtype) if dtype is not None else x.dtype
    if dtype is None and t.is_int() and t.int_bitwidth < 32:
        t = _U32 if t.is_int_unsigned() else _I32
    if dtype is None and t.name == 'bfloat16':
        t = _F32
    x, axis = convert(x, t), _axis(x, axis, what)
    a = np.flip(x.data, axis) if reverse else x.data
    a = f(a, axis=axis, dtype=t.np)
    return lacking_as(tensor(np.flip(a, axis) if reverse else a, t), x, lambda o: _any(o, axis, True) & np.ones_like(o))


def cumsum(input, axis=0, reverse=False, dtype=None):
    "Sums of all up to each element"
    return _scanned(input, axis, reverse, dtype, np.add.accumulate, 'tl.cumsum')


def cumprod(input, axis=0, reverse=False):
    "Products of all up to each element"
    return _scanned(input, axis, reverse, None, np.multiply.accumulate, 'tl.cumprod')


def sort(x, dim=None, descending=False):
    "The elements along the last axis in order"
    if dim not in (None, -1, x.data.ndim - 1):
        raise refuse(f'tl.sort along axis {dim}', 'It sorts along the last one.')
    a = np.sort(x.data, -1)
    out = tensor(np.flip(a, -1) if descending else a, x.dtype)
    return lacking_as(out, x, lambda o: _any(o, x.data.ndim - 1, True) & np.ones_like(o))


def topk(x, k, dim=None):
    "The k largest along the last axis, the largest first"
    return shaped(sort(x, dim, True), lambda a: a[..., : int(k)])


def histogram(input, num_bins, mask=None):
    "How often each of 0, 1, ..., num_bins-1 stands in a block"
    if input.data.ndim != 1 or not input.dtype.is_int():
        raise refuse(f'tl.histogram of {input.type}', 'It counts the whole numbers of a block with one axis.')
    a = input.data if mask is None else input.data[np.broadcast_to(mask.data, input.data.shape)]
    a = a.astype(np.int64)
    return tensor(np.bincount(a[(a >= 0) & (a < num_bins)], minlength=num_bins).astype(np.int32), _I32)


# Products


def dot(input, other, acc=None, input_precision=None, allow_tf32=None, max_num_imprecise_acc=None, out_dtype=_F32):
    "The product of two blocks, plus `acc`; fp32 goes through the tensor cores as tf32 unless 'ieee' is asked for"
    from .products import dot

    return dot(input, other, acc, input_precision, allow_tf32, out_dtype)


# Block pointers and descriptors


def make_block_ptr(base, shape, strides, offsets, block_shape, order):
    "A block of an array, that moves over it by `tl.advance`"
    return descriptors.BlockPointer(base, shape, strides, offsets, block_shape, order)


def advance(base, offsets):
    "The block, moved by so many elements along each axis"
    return base.advance(offsets)


def make_tensor_descriptor(base, shape, strides, block_shape, padding_option='zero'):
    "An array that blocks of one shape are loaded from and stored to, as the copy engine does it"
    return descriptors.Descriptor(base, shape, strides, block_shape, padding_option)


def load_tensor_descriptor(desc, offsets):
    "The block at `offsets`"
    return desc.load(offsets)


def store_tensor_descriptor(desc, offsets, value):
    "Write the block at `offsets`"
    desc.store(offsets, value)


# Random numbers


def philox(seed, c0, c1, c2, c3, n_rounds=10):
    "Four blocks of random bits for a seed and a counter of four blocks"
    seed = block_of(seed).data.astype(np.uint64)
    c = [block_of(o) for o in (c0, c1, c2, c3)]
    return randoms.philox(seed, _broadcast(*c), c[0].dtype, n_rounds)


def randint4x(seed, offset, n_rounds=10):
    "Four blocks of random int32, one number of each for each offset"
    offset = block_of(offset)
    low = offset.to(_U32)
    zero = low * 0
    high = (offset >> 32).to(_U32) if offset.dtype.primitive_bitwidth > 32 else zero
    return philox(seed, low, high, zero, zero, n_rounds)


def randint(seed, offset, n_rounds=10):
    "A block of random numbers of 32 bits"
    return randint4x(seed, offset, n_rounds)[0]


def uint_to_uniform_float(x):
    "Random bits as numbers in [0, 1)"
    wide = x.dtype.primitive_bitwidth == 64
    x = x.to(_I64 if wide else _I32, bitcast=True)
    return where(x < 0, -x - 1, x) * (1.0842020432385337e-19 if wide else 4.6566127342e-10)


def rand4x(seed, offsets, n_rounds=10):
    "Four blocks of random numbers in [0, 1)"
    return tuple(map(uint_to_uniform_float, randint4x(seed, offsets, n_rounds)))


def rand(seed, offset, n_rounds=10):
    "A block of random numbers in [0, 1)"
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


def pair_uniform_to_normal(u1, u2):
    "Two blocks of normal numbers from two uniform ones, by Box and Muller"
    u1 = maximum(1.0e-7, u1)
    angle, radius = 6.283185307179586 * u2, (-2.0 * globals()['log'](u1)).sqrt()
    return radius * angle.cos(), radius * angle.sin()


def randn4x(seed, offset, n_rounds=10):
    "Four blocks of normal numbers"
    a, b, c, d = rand4x(seed, offset, n_rounds)
    return *pair_uniform_to_normal(a, b), *pair_uniform_to_normal(c, d)


def randn(seed, offset, n_rounds=10):
    "A block of normal numbers"
    return randn4x(seed, offset, n_rounds)[0]


# What the compiler is told, and what is told to the reader


def multiple_of(input, values):
    "Tells the compiler that numbers, or the first ones of rows of neighbours, are multiples; here it is checked"
    x = block_of(input)
    values = (values,) if isinstance(values, int) else values
    if x.dtype.is_int() and x.data.ndim < 2 and len(values) == 1:
        numbers = np.atleast_1d(x.data).astype(np.int64)
        first = np.append(True, np.diff(numbers) != 1)
        bad = numbers[first & (numbers % values[0] != 0)]
        if bad.size:
            raise finding('assert', 'multiple', dict(value=int(bad[0]), of=int(values[0])))
    return x


def max_contiguous(input, values):
    "Tells the compiler that so many numbers are neighbours"
    return input


max_constancy = max_contiguous


def assume(cond):
    "Tells the compiler that a condition holds; here it is checked"
    if not np.all(block_of(cond).data):
        raise finding('assert', 'device', dict(message='tl.assume was told what is not so'))


def debug_barrier():
    "All threads of a program meet"
    current().recent = []


def static_print(*values, sep=' ', end='\n', file=None, flush=False):
    "Print when the kernel is compiled; here, in the first program"
    if current().number == current().first:
        print(*values, sep=sep, end=end)


def static_assert(cond, msg=''):
    "A condition on what is known when the kernel is compiled"
    if type(cond) is tensor:
        raise refuse('tl.static_assert of what is known only when the kernel runs', 'tl.device_assert checks it then.')
    if not cond:
        raise finding('assert', 'static', dict(message=msg or 'the condition is false'))


def device_print(prefix, *args, hex=False):
    "Print values, each lane's in a line of its own on a GPU; here a block in one line"
    x, y, z = current().program
    shown = ', '.join(str(o.data) if type(o) is tensor else str(o) for o in args)
    print(f'pid ({x}, {y}, {z}) {prefix}{": " if args and not prefix.rstrip().endswith(":") else ""}{shown}')


def device_assert(cond, msg='', mask=None):
    "A condition that must hold in every lane"
    c = convert(block_of(cond), _I1)
    if mask is not None:
        c = c | ~convert(block_of(mask), _I1)
    if not np.all(c.data):
        lane = tuple(map(int, np.unravel_index(np.argmin(c.data), c.data.shape))) if c.data.ndim else ()
        raise finding('assert', 'device', dict(message=msg or 'the condition is false'), lane)


_MEMBERS = (
    'broadcast_to trans permute split view reshape expand_dims cast store advance atomic_cas atomic_xchg atomic_add '
    'atomic_max atomic_min atomic_and atomic_or atomic_xor exp log cos sin sqrt rsqrt abs reduce associative_scan '
    'gather histogram cdiv sigmoid softmax ravel max argmax min argmin sum xor_sum reduce_or cumsum cumprod sort flip '
    'exp2 log2 floor ceil erf item sqrt_rn'
)
for _name in _MEMBERS.split():
    if _name in globals():
        setattr(tensor, _name, globals()[_name])
math = core = standard = random = sys.modules[__name__]
extra = types.SimpleNamespace(libdevice=libdevice, cuda=types.SimpleNamespace(libdevice=libdevice))
