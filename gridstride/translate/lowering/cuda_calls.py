"""Lowers calls of `cuda`: indices, barriers, warp intrinsics, shared and local arrays, atomic operations."""

from ...sim.atomics import atomic_types
from ...sim.constants import UNKNOWN_SIZE, UNKNOWN_SIZE_HINT, constant, outer_values, shape_argument
from ..tree import (
    Expr,
    ONE,
    ZERO,
    Atomic,
    Buffer,
    View,
    view_expr,
    const,
    constant_value,
    contiguous_strides,
    tuple_expr,
)
from ..types import BOOL, INT64, value_type
from . import convert, operators
from .call_table import CALLS, builtin, register, native_call


def _per_axis(fn, node, ndim, make_index):
    "Return `make_index(axis)` for one axis, or a tuple of these indices for two or three axes"
    num_axes = constant_value(ndim)
    if num_axes not in (1, 2, 3):
        raise fn.error(node, 'the number of dimensions must be the literal 1, 2 or 3')
    return make_index('x') if num_axes == 1 else tuple_expr([make_index(axis) for axis in 'xyz'[:num_axes]])


@register('cuda.grid')
def _grid(fn, node, n):
    return _per_axis(
        fn,
        node,
        n,
        lambda axis: Expr(
            'add',
            INT64,
            (
                Expr('mul', INT64, (builtin(f'blockIdx.{axis}'), builtin(f'blockDim.{axis}'))),
                builtin(f'threadIdx.{axis}'),
            ),
        ),
    )


@register('cuda.gridsize')
def _gridsize(fn, node, n):
    return _per_axis(
        fn, node, n, lambda axis: Expr('mul', INT64, (builtin(f'gridDim.{axis}'), builtin(f'blockDim.{axis}')))
    )


def _void_call(name):
    return lambda fn, node: native_call(name, None, result_type='void', has_side_effects=True)


for _name in ('syncthreads', 'threadfence', 'threadfence_block', 'threadfence_system'):
    CALLS[f'cuda.{_name}'] = _void_call(f'__{_name}')


@register('cuda.syncwarp')
def _syncwarp(fn, node, mask=None):
    return native_call('__syncwarp', None, () if mask is None else (mask,), ('unsigned int',), 'void', True)


@register('cuda.syncthreads_count')
def _syncthreads_count(fn, node, predicate):
    return native_call(
        '__syncthreads_count', INT64, (convert.to_condition(predicate),), ('bool',), 'int', True, 0, 1024
    )


def _block_vote(name):
    return lambda fn, node, predicate: Expr(
        'flag', INT64, (native_call(name, INT64, (convert.to_condition(predicate),), ('bool',), 'int', True),)
    )


CALLS['cuda.syncthreads_and'], CALLS['cuda.syncthreads_or'] = (
    _block_vote('__syncthreads_and'),
    _block_vote('__syncthreads_or'),
)


@register('cuda.cg.this_grid')
def _this_grid(fn, node):
    return Expr('object', None, value='cuda.cg.grid')


@register('cuda.cg.grid.sync')
def _grid_sync(fn, node):
    fn.unit.is_cooperative = True
    return native_call('cooperative_groups::this_grid().sync', None, result_type='void', has_side_effects=True)


def _shuffle(name):
    def lower(fn, node, mask, value, lane, width=None):
        value = convert.require_number(value)
        width_operand = () if width is None else (width,)
        return Expr('shuffle', value.type, (value, mask, lane, *width_operand), name)

    return lower


for _name in ('shfl_sync', 'shfl_up_sync', 'shfl_down_sync', 'shfl_xor_sync'):
    CALLS[f'cuda.{_name}'] = _shuffle(f'__{_name}')


def _vote(name):
    return lambda fn, node, mask, predicate: Expr(
        'flag',
        BOOL,
        (native_call(name, INT64, (mask, convert.to_condition(predicate)), ('unsigned int', 'bool'), 'int', True),),
    )


CALLS['cuda.all_sync'], CALLS['cuda.any_sync'] = _vote('__all_sync'), _vote('__any_sync')


@register('cuda.eq_sync')
def _eq_sync(fn, node, mask, predicate):
    return Expr(
        'lor',
        BOOL,
        (
            CALLS['cuda.all_sync'](fn, node, mask, predicate),
            Expr('not', BOOL, (CALLS['cuda.any_sync'](fn, node, mask, predicate),)),
        ),
    )


def _lane_mask_call(name, args=(), parameter_types=()):
    "Return a call of a function that returns a lane mask"
    return native_call(name, INT64, args, parameter_types, 'unsigned int', True, 0, 2**32 - 1)


@register('cuda.ballot_sync')
def _ballot(fn, node, mask, predicate):
    return _lane_mask_call('__ballot_sync', (mask, convert.to_condition(predicate)), ('unsigned int', 'bool'))


@register('cuda.match_any_sync')
def _match_any(fn, node, mask, value):
    return _lane_mask_call('__match_any_sync', (mask, convert.require_number(value)), ('unsigned int', None))


@register('cuda.match_all_sync')
def _match_all(fn, node, mask, value):
    all_equal = fn.temporary(node, 'same', 'int32', Expr('const', 'int32', value=1), low=0, high=1)
    args = mask, convert.require_number(value), Expr('pointer_to', INT64, (all_equal,))
    lanes = _lane_mask_call('__match_all_sync', args, ('unsigned int', None, None))
    return tuple_expr([fn.temporary(node, 'match', INT64, lanes), convert.to_condition(all_equal)])


@register('cuda.activemask')
def _activemask(fn, node):
    return _lane_mask_call('__activemask')


@register('cuda.lanemask_lt')
def _lanemask_lt(fn, node):
    return Expr('sub', INT64, (Expr('shl', INT64, (const(1), Expr('lane', INT64))), ONE))


def _constant_sizes(fn, node, shape):
    "Return the expressions of the sizes in `shape`, which must be constants"
    sizes = shape.args if shape.op == 'tuple' else [shape]
    if None not in map(constant_value, sizes):
        return sizes
    # the shape may be a variable with a constant value
    value = constant(shape_argument(node), fn.source.tree, outer_values(fn.source.function))
    if value is None:
        raise fn.error(node, UNKNOWN_SIZE, UNKNOWN_SIZE_HINT)
    return [const(n) for n in (value if isinstance(value, tuple) else (value,))]


def _allocate(fn, node, space, shape, dtype):
    sizes, dtype = _constant_sizes(fn, node, shape), fn.dtype_of(node, dtype)
    is_dynamic = space == 'shared' and len(sizes) == 1 and constant_value(sizes[0]) == 0
    if is_dynamic and dtype in fn.dynamic_arrays:
        return view_expr(fn.dynamic_arrays[dtype].view)  # all dynamic shared memory is one array per dtype
    buffer = Buffer(None, dtype, 'dynamic' if is_dynamic else space, len(sizes), None if is_dynamic else sizes)
    fn.emit('alloc', node, buffer=buffer)
    if is_dynamic and fn.nesting_depth == 1:
        fn.dynamic_arrays[dtype] = buffer
    strides = (ONE,) if is_dynamic else contiguous_strides(sizes)
    buffer.view = View(buffer, (None,) if is_dynamic else sizes, strides, is_contiguous=True)
    return view_expr(buffer.view)


@register('cuda.shared.array')
def _shared(fn, node, shape, dtype):
    return _allocate(fn, node, 'shared', shape, dtype)


@register('cuda.local.array')
def _local(fn, node, shape, dtype):
    return _allocate(fn, node, 'local', shape, dtype)


@register('cuda.const.array_like')
def _const_array_like(fn, node, a):
    return a


# An atomic operation returns the old value.
def _atomic(op, num_values=1):
    def lower(fn, node, ary, idx, *args):
        if len(args) != num_values:
            raise TypeError
        view = fn.arrays.require_view(node, ary)
        if (dtype := view.buffer.dtype) not in atomic_types(op):
            construct = f'Numba has no cuda.atomic.{op} for {dtype}'
            raise fn.error(node, construct, f'Supported types: {", ".join(atomic_types(op))}.')
        index = fn.arrays.element_index(node, view, idx.args if idx.op == 'tuple' else [idx])
        view.buffer.mark_written()
        operands = [*index, *map(convert.require_number, args)]
        return Expr('atomic', value_type(dtype), operands, Atomic(op.strip('_'), view.buffer, len(index)))

    return lower


for _name in 'add sub max min nanmax nanmin and_ or_ xor inc dec exch'.split():
    CALLS[f'cuda.atomic.{_name}'] = _atomic(_name)


CALLS['cuda.atomic.cas'] = _atomic('cas', 2)


CALLS['cuda.atomic.compare_and_swap'] = lambda fn, node, ary, old, val: CALLS['cuda.atomic.cas'](
    fn, node, ary, ZERO, old, val
)


@register('cuda.selp')
def _selp(fn, node, c, a, b):
    return operators.conditional(fn, node, c, a, b)


def _bit_operation(op):
    def lower(fn, node, a):
        a = convert.bool_to_int(convert.require_number(a))
        return Expr(
            'bits',
            INT64 if op != 'brev' else 'int32' if a.type in ('int8', 'int16', 'uint8', 'uint16') else a.type,
            (a,),
            op,
        )

    return lower


for _name in ('popc', 'clz', 'brev', 'ffs'):
    CALLS[f'cuda.{_name}'] = _bit_operation(_name)
