"""Lowers the names of `cuda`: indices, barriers, lanes, shared and local arrays, atomic operations."""

from ...sim.atomics import atomic_types
from ...sim.constants import UNKNOWN_SIZE, UNKNOWN_SIZE_HINT, constant, outer_values, shape_argument
from ..tree import Expr, ONE, ZERO, Atomic, Memory, View, array, const, number, row_strides, tuple_of
from ..types import BOOL, INT, value_type
from . import convert, operators
from .call_table import CALLS, builtin, call, native


def _axes(fn, node, n, one):
    k = number(n)
    if k not in (1, 2, 3):
        raise fn.error(node, 'the number of dimensions must be the literal 1, 2 or 3')
    return one('x') if k == 1 else tuple_of([one(a) for a in 'xyz'[:k]])


@call('cuda.grid')
def _grid(fn, node, n):
    return _axes(
        fn,
        node,
        n,
        lambda a: Expr(
            'add',
            INT,
            (Expr('mul', INT, (builtin(f'blockIdx.{a}'), builtin(f'blockDim.{a}'))), builtin(f'threadIdx.{a}')),
        ),
    )


@call('cuda.gridsize')
def _gridsize(fn, node, n):
    return _axes(fn, node, n, lambda a: Expr('mul', INT, (builtin(f'gridDim.{a}'), builtin(f'blockDim.{a}'))))


def _plain(name):
    return lambda fn, node: native(name, None, result_type='void', has_side_effects=True)


for _n in ('syncthreads', 'threadfence', 'threadfence_block', 'threadfence_system'):
    CALLS[f'cuda.{_n}'] = _plain(f'__{_n}')


@call('cuda.syncwarp')
def _syncwarp(fn, node, mask=None):
    return native('__syncwarp', None, () if mask is None else (mask,), ('unsigned int',), 'void', True)


@call('cuda.syncthreads_count')
def _count(fn, node, p):
    return native('__syncthreads_count', INT, (convert.truth(p),), ('bool',), 'int', True, 0, 1024)


def _flag(name):
    return lambda fn, node, p: Expr('flag', INT, (native(name, INT, (convert.truth(p),), ('bool',), 'int', True),))


CALLS['cuda.syncthreads_and'], CALLS['cuda.syncthreads_or'] = _flag('__syncthreads_and'), _flag('__syncthreads_or')


@call('cuda.cg.this_grid')
def _this_grid(fn, node):
    return Expr('object', None, value='cuda.cg.grid')


@call('cuda.cg.grid.sync')
def _grid_sync(fn, node):
    fn.unit.cooperative = True
    return native('cooperative_groups::this_grid().sync', None, result_type='void', has_side_effects=True)


def _shuffle(name):
    def _f(fn, node, mask, value, other, width=None):
        value = convert.need_number(value)
        more = () if width is None else (width,)
        return Expr('shuffle', value.type, (value, mask, other, *more), name)

    return _f


for _n in ('shfl_sync', 'shfl_up_sync', 'shfl_down_sync', 'shfl_xor_sync'):
    CALLS[f'cuda.{_n}'] = _shuffle(f'__{_n}')


def _vote(name):
    return lambda fn, node, mask, p: Expr(
        'flag', BOOL, (native(name, INT, (mask, convert.truth(p)), ('unsigned int', 'bool'), 'int', True),)
    )


CALLS['cuda.all_sync'], CALLS['cuda.any_sync'] = _vote('__all_sync'), _vote('__any_sync')


@call('cuda.eq_sync')
def _eq(fn, node, mask, p):
    return Expr(
        'lor',
        BOOL,
        (CALLS['cuda.all_sync'](fn, node, mask, p), Expr('not', BOOL, (CALLS['cuda.any_sync'](fn, node, mask, p),))),
    )


def _lanes(name, args=(), parameter_types=()):
    "Return a call whose result is a mask of lanes"
    return native(name, INT, args, parameter_types, 'unsigned int', True, 0, 2**32 - 1)


@call('cuda.ballot_sync')
def _ballot(fn, node, mask, p):
    return _lanes('__ballot_sync', (mask, convert.truth(p)), ('unsigned int', 'bool'))


@call('cuda.match_any_sync')
def _match(fn, node, mask, v):
    return _lanes('__match_any_sync', (mask, convert.need_number(v)), ('unsigned int', None))


@call('cuda.match_all_sync')
def _match_all(fn, node, mask, v):
    same = fn.temporary(node, 'same', 'int32', Expr('const', 'int32', value=1), low=0, high=1)
    args = mask, convert.need_number(v), Expr('pointer_to', INT, (same,))
    found = _lanes('__match_all_sync', args, ('unsigned int', None, None))
    return tuple_of([fn.temporary(node, 'match', INT, found), convert.truth(same)])


@call('cuda.activemask')
def _activemask(fn, node):
    return _lanes('__activemask')


@call('cuda.lanemask_lt')
def _lanemask_lt(fn, node):
    return Expr('sub', INT, (Expr('shl', INT, (const(1), Expr('lane', INT))), ONE))


def _dims(fn, node, shape):
    sizes = shape.args if shape.op == 'tuple' else [shape]
    if None not in map(number, sizes):
        return sizes
    known = constant(
        shape_argument(node), fn.source.tree, outer_values(fn.source.f)
    )  # the shape may come from a variable
    if known is None:
        raise fn.error(node, UNKNOWN_SIZE, UNKNOWN_SIZE_HINT)
    return [const(n) for n in (known if isinstance(known, tuple) else (known,))]


def _allocate(fn, node, space, shape, dtype):
    sizes, dtype = _dims(fn, node, shape), fn.dtype(node, dtype)
    dynamic = space == 'shared' and len(sizes) == 1 and number(sizes[0]) == 0
    if dynamic and dtype in fn.dynamic:
        return array(fn.dynamic[dtype].view)  # one array per dtype has all dynamic shared memory
    m = Memory(None, dtype, 'dynamic' if dynamic else space, len(sizes), None if dynamic else sizes)
    fn.emit('alloc', node, memory=m)
    if dynamic and fn.nesting == 1:
        fn.dynamic[dtype] = m
    m.view = View(m, (None,) if dynamic else sizes, row_strides(sizes) if not dynamic else (ONE,), plain=True)
    return array(m.view)


@call('cuda.shared.array')
def _shared(fn, node, shape, dtype):
    return _allocate(fn, node, 'shared', shape, dtype)


@call('cuda.local.array')
def _local(fn, node, shape, dtype):
    return _allocate(fn, node, 'local', shape, dtype)


@call('cuda.const.array_like')
def _constant(fn, node, a):
    return a


# An atomic operation returns the old value.
def _atomic(op, values=1):
    def _f(fn, node, ary, idx, *args):
        if len(args) != values:
            raise TypeError
        view = fn.arrays.need_view(node, ary)
        if (dtype := view.memory.dtype) not in atomic_types(op):
            what = f'cuda.atomic.{op} on {dtype}, which Numba does not compile'
            raise fn.error(node, what, f'It takes {", ".join(atomic_types(op))}.')
        at = fn.arrays.element_index(node, view, idx.args if idx.op == 'tuple' else [idx])
        view.memory.write()
        operands = [*at, *map(convert.need_number, args)]
        return Expr('atomic', value_type(dtype), operands, Atomic(op.strip('_'), view.memory, len(at)))

    return _f


for _n in 'add sub max min nanmax nanmin and_ or_ xor inc dec exch'.split():
    CALLS[f'cuda.atomic.{_n}'] = _atomic(_n)


CALLS['cuda.atomic.cas'] = _atomic('cas', 2)


CALLS['cuda.atomic.compare_and_swap'] = lambda fn, node, ary, old, val: CALLS['cuda.atomic.cas'](
    fn, node, ary, ZERO, old, val
)


@call('cuda.selp')
def _selp(fn, node, c, a, b):
    return operators.choose(fn, node, c, a, b)


def _bits(op):
    def _f(fn, node, a):
        a = convert.as_number(convert.need_number(a))
        return Expr(
            'bits',
            INT if op != 'brev' else 'int32' if a.type in ('int8', 'int16', 'uint8', 'uint16') else a.type,
            (a,),
            op,
        )

    return _f


for _n in ('popc', 'clz', 'brev', 'ffs'):
    CALLS[f'cuda.{_n}'] = _bits(_n)
