"""The values of a kernel, blocks and scalars: their operators and conversions, with the results of compiled Triton.

A value is a NumPy array or scalar with a Triton type. A pointer is an integer: the offset in elements from the
beginning of the memory that it points into (`region`), or the address in bytes if the region is unknown."""

import numpy as np

from .rounding import float_to_fp8, float_to_int, fmod, fp8e5_to_bf16, int_quotient, round_towards_zero
from .run import finding, compile_error, warn_of_undefined
from .types import DTYPES, block_type, computation_type, const, to_dtype, dtype_of_number

__all__ = [
    'tensor',
    'block_of',
    'convert',
    'bitcast',
    'is_number',
    'broadcast',
    'compute',
    'scalar',
    'to_common_type',
    'with_undef',
    'map_elements',
    'propagate_undef',
    'combine_elements',
    'addresses',
]

_I1, _I32, _I64 = DTYPES['int1'], DTYPES['int32'], DTYPES['int64']
_F32 = DTYPES['float32']


class tensor:
    """A block or a scalar of a kernel: `data`, its `dtype`, and for pointers the `region` that they point into.

    `undef_mask` marks the lanes whose value is undefined because it depends on a lane that was masked out of a load;
    None if there is no such lane."""

    __slots__ = ('data', 'dtype', 'region', 'undef_mask')
    __array_ufunc__ = None  # makes NumPy call the operators of this class if the left operand is a NumPy scalar

    def __init__(self, data, dtype, region=None):
        self.data = data
        self.dtype = dtype
        self.region = region
        self.undef_mask = None

    @property
    def shape(self):
        "Return the size of each axis; () for a scalar"
        return tuple(map(const, self.data.shape))

    @property
    def type(self):
        "Return the type; the type of a block includes its shape"
        return block_type(self.dtype, self.data.shape) if self.data.ndim else self.dtype

    numel = property(lambda self: const(int(self.data.size)))

    def __repr__(self):
        return f'{self.type}: {self.data}'

    def __hash__(self):
        return id(self)

    def __add__(self, other):
        if self.dtype.is_ptr() or type(other) is tensor and other.dtype.is_ptr():
            return _move_pointer(self, other)
        return _arithmetic(self, other, np.add)

    def __radd__(self, other):
        if self.dtype.is_ptr():
            return _move_pointer(self, other)
        return _arithmetic(other, self, np.add)

    def __sub__(self, other):
        if self.dtype.is_ptr():
            return _move_pointer(self, -block_of(other))
        return _arithmetic(self, other, np.subtract)

    def __rsub__(self, other):
        return _arithmetic(other, self, np.subtract)

    def __mul__(self, other):
        return _arithmetic(self, other, np.multiply)

    def __rmul__(self, other):
        return _arithmetic(other, self, np.multiply)

    def __truediv__(self, other):
        return _divide(self, other)

    def __rtruediv__(self, other):
        return _divide(other, self)

    def __floordiv__(self, other):
        return _floor_divide(self, other)

    def __rfloordiv__(self, other):
        return _floor_divide(other, self)

    def __mod__(self, other):
        return _mod(self, other)

    def __rmod__(self, other):
        return _mod(other, self)

    def __and__(self, other):
        return _bitwise(self, other, np.bitwise_and)

    __rand__ = __and__

    def __or__(self, other):
        return _bitwise(self, other, np.bitwise_or)

    __ror__ = __or__

    def __xor__(self, other):
        return _bitwise(self, other, np.bitwise_xor)

    __rxor__ = __xor__

    def __lshift__(self, other):
        return _shift(self, other, np.left_shift)

    def __rlshift__(self, other):
        return _shift(other, self, np.left_shift)

    def __rshift__(self, other):
        return _shift(self, other, np.right_shift)

    def __rrshift__(self, other):
        return _shift(other, self, np.right_shift)

    def __lt__(self, other):
        return _compare(self, other, np.less)

    def __le__(self, other):
        return _compare(self, other, np.less_equal)

    def __gt__(self, other):
        return _compare(self, other, np.greater)

    def __ge__(self, other):
        return _compare(self, other, np.greater_equal)

    def __eq__(self, other):
        return _compare(self, other, np.equal)

    def __ne__(self, other):
        return _compare(self, other, np.not_equal)

    def __neg__(self):
        if self.dtype.is_ptr() or self.dtype is _I1:
            raise compile_error(f'- is not defined for {self.type}', 'Invert a mask with ~.')
        return with_undef(
            np.subtract(self.dtype.number(0), self.data), self.dtype, self
        )  # the result for 0 is 0, not -0

    def __pos__(self):
        return self

    def __invert__(self):
        if not self.dtype.is_int():
            raise compile_error(f'~ is not defined for {self.type}', 'Invert masks or integers only.')
        return with_undef(np.invert(self.data), self.dtype, self)

    def __pow__(self, other):
        raise compile_error('Triton does not support ** for blocks', 'Multiply: x * x, or use tl.exp2 and tl.log2.')

    __rpow__ = __pow__

    def __matmul__(self, other):
        raise compile_error('Triton does not support @ for blocks', 'Multiply two blocks with tl.dot(a, b).')

    def logical_and(self, other):
        "Compute `and` elementwise"
        return convert(self, _I1) & convert(block_of(other), _I1)

    def logical_or(self, other):
        "Compute `or` elementwise"
        return convert(self, _I1) | convert(block_of(other), _I1)

    def __bool__(self):
        if self.data.ndim:
            hint = 'Write & for and, | for or, ~ for not; choose elements with tl.where(condition, a, b).'
            shape = list(map(int, self.shape))
            problem = f'a block of shape {shape} cannot be a condition, because it has a truth value per lane'
            raise compile_error(problem, hint)
        if self.undef_mask is not None:
            warn_of_undefined('undefined_decision')
        return bool(self.data)

    def __index__(self):
        raise compile_error(
            'a value that is known only at run time is used where the compiler needs a constant',
            'Sizes of blocks, for example, must be tl.constexpr arguments.',
        )

    def __iter__(self):
        raise compile_error('a block is not iterable', 'Loop over range(...) or tl.static_range(...).')

    def __len__(self):
        raise compile_error('a block has no len()', 'Read its sizes from .shape.')

    def __float__(self):
        raise compile_error('float() requires a constant; got a value of the kernel', 'Convert with .to(tl.float32).')

    def __int__(self):
        raise compile_error('int() requires a constant; got a value of the kernel', 'Convert with .to(tl.int32).')

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        if not all(i is None or isinstance(i, slice) and i == slice(None) for i in index):
            index_text = ', '.join(map(_format_index, index))
            if self.dtype.is_ptr():
                hint = 'An array argument is the address of its first element: write tl.load(x + i).'
                raise compile_error(f'x[{index_text}]: an address cannot be indexed', hint)
            hint = (
                'Indexing can only add axes, as in x[:, None]; select elements with tl.where and tl.sum, or load them.'
            )
            raise compile_error(f'x[{index_text}]: the elements of a block cannot be indexed', hint)
        if sum(i is not None for i in index) == self.data.ndim:  # the most common case needs one view only
            return map_elements(self, lambda a: np.asarray(a)[index])
        out = self
        for axis, i in enumerate(index):  # as in Triton, there may be fewer indices than axes, or more
            out = out if i is not None else _with_axis(out, axis)
        return out

    def to(self, dtype, fp_downcast_rounding=None, bitcast=False):
        "Convert to another type; `bitcast` keeps the bits"
        return _to(self, dtype, fp_downcast_rounding, bitcast)


def _format_index(i):
    "Format an index for a message"
    return ':' if isinstance(i, slice) else '...' if i is Ellipsis else str(getattr(i, 'type', i))


def _with_axis(x, axis):
    "Insert an axis of size 1 at `axis`; a scalar becomes a block of one element"
    axis = axis if x.data.ndim else 0
    if axis > x.data.ndim:
        shape = list(map(int, x.shape))
        raise compile_error(f'a new axis of a block of shape {shape} must be at 0 to {x.data.ndim}; got {axis}')
    return map_elements(x, lambda a: np.expand_dims(np.asarray(a), axis))


def with_undef(data, dtype, *operands, region=None):
    "Make the result of an operation on `operands`; a lane that is undefined in any operand is undefined in the result"
    out = tensor(data, dtype, region)
    for operand in operands:
        if type(operand) is tensor and operand.undef_mask is not None:
            undef_mask = operand.undef_mask if out.undef_mask is None else out.undef_mask | operand.undef_mask
            out.undef_mask = np.broadcast_to(undef_mask, out.data.shape)
    return out


def map_elements(x, move):
    "Apply `move`, a function of arrays that moves elements, to the data of `x` and to its `undef_mask`"
    out = tensor(move(x.data), x.dtype, x.region)
    if x.undef_mask is not None:
        out.undef_mask = move(x.undef_mask)
    return out


def propagate_undef(out, x, map_mask=None):
    "Mark lanes of `out` that depend on undefined lanes of `x`; `map_mask` converts the mask of `x` to that of `out`"
    if x.undef_mask is not None:
        out.undef_mask = map_mask(x.undef_mask) if map_mask else x.undef_mask
    return out


def combine_elements(a, b, combine):
    "Combine the elements of two blocks by `combine`, a function of two arrays"
    out = tensor(combine(a.data, b.data), a.dtype)
    if a.undef_mask is not None or b.undef_mask is not None:
        out.undef_mask = combine(
            *(
                np.zeros(operand.data.shape, bool) if operand.undef_mask is None else operand.undef_mask
                for operand in (a, b)
            )
        )
    return out


def addresses(p):
    "Return the byte addresses of pointers"
    return p.data if p.region is None else p.data * p.region.itemsize + p.region.address


def is_number(x):
    "Return whether `x` is a number that is known at compile time"
    return isinstance(x, (int, float)) and not isinstance(x, tensor)


def scalar(x, dtype=None):
    "Convert a number to a scalar of the kernel; by default, of the type that Triton gives it"
    dtype = dtype or dtype_of_number(x)
    return tensor(dtype.number(x), dtype)


class Unbound:
    "An unbound variable: only one branch of an `if`, or the body of a loop, assigns it"

    def __init__(self, name, scope='in one branch of an `if`'):
        self.name, self.scope = name, scope


def block_of(x):
    "Return `x` as a value of the kernel; raises `NotCompiled` unless it is a value of the kernel or a number"
    if type(x) is tensor:
        return x
    if isinstance(x, (int, float, np.bool_)):
        return scalar(x)
    if type(x) is Unbound:
        raise compile_error(f'{x.name} is assigned only {x.scope}', 'Assign it before that, too.')
    raise compile_error(f'{_describe(x)} is used where a value is expected')


def _describe(x):
    if isinstance(x, np.ndarray) or type(x).__module__.startswith('torch'):
        return 'a host array'
    return 'None' if x is None else f'the string {str(x)!r}' if isinstance(x, str) else f'{type(x).__name__} {x!r}'


def to_common_type(a, b, is_division=False):
    "Convert two operands to their common type; returns (data, data, type)"
    type_a, type_b = (dtype_of_number(x) if is_number(x) else block_of(x).dtype for x in (a, b))
    if type_a.is_ptr() or type_b.is_ptr():
        problem = f'unsupported operand types {type_a} and {type_b}'
        raise compile_error(problem, 'Pointers support +, - and comparisons.')
    try:
        common_type = computation_type(type_a, type_b, is_number(a), is_number(b), is_division)
    except TypeError as e:
        raise compile_error(str(e)) from None
    return _convert_operand(a, common_type), _convert_operand(b, common_type), common_type


def _convert_operand(a, dtype):
    "Return the data of an operand, a value or a number, converted to a type"
    if is_number(a):
        return _convert_number(a, dtype)
    return a.data if a.dtype is dtype else convert(a, dtype).data


def _convert_number(a, dtype):
    "Convert a compile-time number to a type; raises `NotCompiled` if it is out of range"
    if dtype.rank == 1:
        limits = np.iinfo(dtype.np)
        if a < 0 and limits.min == 0:
            hint = 'Convert the block to a signed type.'
            raise compile_error(f'{a} is negative, but the block is of type {dtype}', hint)
        if not limits.min <= a <= limits.max:
            raise compile_error(f'{a} does not fit into {dtype}', 'Convert the block to a wider type.')
    return dtype.number(a)


def _apply_broadcast(operation, a, b):
    "Compute `operation(a, b)` of two arrays; raises `NotCompiled` if they cannot be broadcast"
    try:
        return operation(a, b)
    except ValueError:
        shapes = ' and '.join(str(list(block.shape)) for block in (a, b))
        raise compile_error(
            f'blocks of shapes {shapes} cannot be broadcast to a common shape',
            'The sizes along each axis must be equal, or one of them must be 1; x[:, None] and x[None, :] add an axis.',
        ) from None


def compute(a, b, operation, is_division=False):
    "Apply `operation` to two operands in their common type"
    if type(a) is tensor and type(b) is tensor and a.dtype is b.dtype and not is_division and not a.dtype.is_ptr():
        x, y, dtype = a.data, b.data, a.dtype
    else:
        x, y, dtype = to_common_type(a, b, is_division)
    return with_undef(_apply_broadcast(operation, x, y), dtype, a, b)


def _arithmetic(a, b, operation):
    if type(b) is tensor and type(a) is tensor and a.dtype is b.dtype:
        x, y, dtype = a.data, b.data, a.dtype
    else:
        x, y, dtype = to_common_type(a, b)
    if dtype.is_special:
        return _compute_int1(x, y, dtype, operation, a, b)
    if x.shape == y.shape:
        return with_undef(operation(x, y), dtype, a, b)
    return with_undef(_apply_broadcast(operation, x, y), dtype, a, b)


def _compute_int1(x, y, dtype, operation, a, b):
    "Compute with int1, which has one bit; raises `NotCompiled` if `dtype` is fp8"
    if dtype.is_fp8():
        raise compile_error(f'Triton has no arithmetic for {dtype}', 'Convert first: x.to(tl.float32).')
    return with_undef((_apply_broadcast(operation, np.uint8(x), np.uint8(y)) & 1).astype(bool), dtype, a, b)


def _move_pointer(a, b):
    "Add an offset in elements to a pointer"
    if type(a) is not tensor or not a.dtype.is_ptr():
        a, b = b, a
    b = block_of(b)
    if not b.dtype.is_int():
        raise compile_error(f'{b.dtype} cannot be added to a pointer', 'Offsets must be integers.')
    offset = b.data if b.dtype is _I64 else b.data.astype(np.int64)
    if a.region is None:
        offset = offset * a.dtype.element_ty.size
    return with_undef(_apply_broadcast(np.add, a.data, offset), a.dtype, a, b, region=a.region)


def _compare(a, b, operation):
    if b is None:
        return operation is np.not_equal
    if type(b) is tensor and a.dtype.is_ptr() != b.dtype.is_ptr():
        hint = 'An array argument is an address: pass a number, such as n.item(), or load the element.'
        raise compile_error(f'{a.dtype} cannot be compared with {b.dtype}', hint)
    if type(b) is tensor and a.dtype.is_ptr():
        return with_undef(_apply_broadcast(operation, addresses(a), addresses(b)), _I1, a, b)
    if not (type(b) is tensor or is_number(b)):
        raise compile_error(f'a value of the kernel cannot be compared with {_describe(b)}')
    if type(b) is tensor and a.dtype is b.dtype:
        return with_undef(_apply_broadcast(operation, a.data, b.data), _I1, a, b)
    x, y, _ = to_common_type(a, b)
    return with_undef(_apply_broadcast(operation, x, y), _I1, a, b)


def _divide(a, b):
    x, y, dtype = to_common_type(a, b, is_division=True)
    if dtype.rank < 2:
        x = x.astype(np.float32)
        y = y.astype(np.float32)
        dtype = _F32
    if dtype.is_special:
        return _compute_int1(x, y, dtype, np.divide, a, b)
    return with_undef(_apply_broadcast(np.divide, x, y), dtype, a, b)


def _check_divisible(x, y):
    "Raise a finding for a division of scalars by 0, or one that overflows; a mask may discard the lanes of a block"
    if y.ndim == 0 and y == 0:
        raise finding('crash', 'division')
    if x.ndim == 0 == y.ndim and x.dtype.kind == 'i' and y == -1 and x == np.iinfo(x.dtype).min:
        raise finding('crash', 'division_overflows')


def _floor_divide(a, b):
    x, y, dtype = to_common_type(a, b, is_division=True)
    if dtype.rank == 2:
        raise compile_error('`//` needs integer operands', 'Divide with /, then tl.floor(...).')
    _check_divisible(x, y)
    return with_undef(_apply_broadcast(int_quotient, x, y), dtype, a, b)


def _mod(a, b):
    x, y, dtype = to_common_type(a, b, is_division=True)
    if dtype.rank == 2:
        return with_undef(_apply_broadcast(fmod, x, y), dtype, a, b)
    _check_divisible(x, y)
    return with_undef(_apply_broadcast(np.fmod, x, y), dtype, a, b)


def _bitwise(a, b, operation):
    if type(a) is tensor and type(b) is tensor and a.dtype is b.dtype:
        x, y, dtype = a.data, b.data, a.dtype
    else:
        x, y, dtype = to_common_type(a, b)
    if not dtype.is_int():
        name = {np.bitwise_and: '&', np.bitwise_or: '|'}.get(operation, '^')
        raise compile_error(f'the operands of {name} must be integers or masks; got {dtype}')
    return with_undef(_apply_broadcast(operation, x, y), dtype, a, b)


def _shift(a, b, operation):
    x, y, dtype = to_common_type(a, b)
    if not dtype.is_int():
        raise compile_error(f'{dtype} cannot be shifted', 'Shift integers only.')
    num_bits = dtype.int_bitwidth
    if y.dtype.kind == 'i' and np.any(y < 0) or np.any(y >= num_bits):
        is_too_far = (y < 0) | (y >= num_bits)
        fill = (
            np.where(x < 0, -1, 0).astype(dtype.np)
            if operation is np.right_shift and dtype.is_int_signed()
            else dtype.number(0)
        )
        return with_undef(
            np.where(is_too_far, fill, operation(x, np.where(is_too_far, 0, y).astype(dtype.np))), dtype, a, b
        )
    return with_undef(_apply_broadcast(operation, x, y), dtype, a, b)


def broadcast(*values):
    "Return the data of the values, broadcast to their common shape"
    shapes = [block.data.shape for block in values]
    if all(shape == shapes[0] for shape in shapes):
        return [block.data for block in values]
    try:
        return np.broadcast_arrays(*(block.data for block in values))
    except ValueError:
        shape_list = ', '.join(str(list(shape)) for shape in shapes)
        raise compile_error(
            f'blocks of shapes {shape_list} cannot be broadcast to a common shape',
            'The sizes along each axis must be equal, or one of them must be 1; x[:, None] and x[None, :] add an axis.',
        ) from None


# Conversions


def _to(x, dtype, rounding=None, keep_bits=False):
    "Implement `tensor.to`"
    try:
        target_type = to_dtype(dtype)
    except TypeError as e:
        raise compile_error(str(e)) from None
    target_type = target_type.scalar
    if keep_bits:
        return bitcast(x, target_type)
    narrows = x.dtype.rank == target_type.rank == 2 and target_type.primitive_bitwidth < x.dtype.primitive_bitwidth
    if x.dtype is target_type:
        return x
    if rounding is not None and not narrows:
        raise compile_error('fp_downcast_rounding is only for conversions to a narrower floating type')
    if rounding == 'rtz':
        return with_undef(round_towards_zero(x.data, target_type), target_type, x)
    if rounding not in (None, 'rtne'):
        raise compile_error(f"fp_downcast_rounding must be 'rtne' or 'rtz'; got {rounding!r}")
    if x.dtype.is_fp8() and target_type.is_int() or x.dtype.is_int() and target_type.is_fp8():
        raise compile_error(
            f'{x.dtype} cannot be converted to {target_type}', 'Convert to fp32 first: x.to(tl.float32).'
        )
    return convert(x, target_type)


def convert(x, dtype):
    "Convert a value to another type, with the rounding of the hardware"
    return x if x.dtype is dtype else propagate_undef(_convert(x, dtype), x)


def _convert(x, target_type):
    source_type = x.dtype
    if source_type.is_ptr() or target_type.is_ptr():
        return _convert_pointer(x, target_type)
    if target_type is _I1:
        return tensor(x.data != 0, target_type)
    if (source_type.is_fp8() or target_type.is_fp8()) and 'float64' in (source_type.name, target_type.name):
        raise compile_error(
            f'{source_type} cannot be converted to {target_type}', 'Convert to fp32 first: x.to(tl.float32).'
        )
    if source_type.rank == 2 and target_type.rank == 1:
        return tensor(float_to_int(x.data, target_type), target_type)
    if target_type.is_fp8():
        return tensor(float_to_fp8(x.data, target_type), target_type)
    if (source_type.name, target_type.name) == ('float8e5', 'bfloat16'):
        return tensor(fp8e5_to_bf16(x.data).astype(target_type.np), target_type)
    if (
        source_type.is_fp8()
        or source_type.name == 'bfloat16'
        and target_type.name != 'float32'
        or source_type.name == 'float16'
        and target_type.name == 'bfloat16'
    ):
        return tensor(x.data.astype(np.float32).astype(target_type.np), target_type)
    return tensor(x.data.astype(target_type.np), target_type)


def _convert_pointer(x, target_type):
    source_type = x.dtype
    if source_type.is_ptr() and target_type.is_ptr():
        size = source_type.element_ty.size
        if x.region is not None and size == target_type.element_ty.size:
            return tensor(x.data, target_type, x.region)
        return tensor(addresses(x), target_type)
    if target_type.is_ptr() and source_type.is_int():
        return tensor(x.data.astype(np.int64), target_type)
    if target_type in (_I64, DTYPES['uint64']):
        return tensor(addresses(x).astype(target_type.np), target_type)
    if target_type is _I1:
        return tensor(addresses(x) != 0, target_type)
    raise compile_error(f'{source_type} cannot be converted to {target_type}', 'Convert a pointer to tl.int64.')


def bitcast(x, target_type):
    "Reinterpret the bits of a value as another type of the same size"
    source_type = x.dtype
    if source_type.is_ptr() or target_type.is_ptr():
        return convert(x, target_type)
    if source_type.primitive_bitwidth != target_type.primitive_bitwidth:
        raise compile_error(f'bitcast requires types of the same size; got {source_type} and {target_type}')
    return with_undef(np.ascontiguousarray(x.data).reshape(x.data.shape).view(target_type.np)[()], target_type, x)
