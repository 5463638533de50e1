"""Checks the arguments of a launch against the parameters that a kernel's source declares."""

import ctypes, re, sys
from functools import lru_cache, partial

import numpy as np

from ..diagnostics.launch_config import argument_error, check_argument_count

# A pointer parameter accepts a tensor of its element type; `float4 *` accepts a tensor of floats. A pointer to a struct
# that the source defines accepts any tensor; a parameter that is such a struct accepts its bytes.
_C_NAMES = {
    'bool': 'bool',
    'int8': 'char, signed char, int8_t',
    'uint8': 'unsigned char, uint8_t',
    'int16': 'short, int16_t',
    'uint16': 'unsigned short, uint16_t',
    'int32': 'int, int32_t, signed',
    'uint32': 'unsigned, unsigned int, uint32_t',
    'int64': 'long, long int, long long, long long int, int64_t, ptrdiff_t',
    'uint64': 'unsigned long, unsigned long long, unsigned long long int, uint64_t, size_t',
    'float32': 'float',
    'float64': 'double',
    'float16': 'half, __half, __half2, half2',
    'bfloat16': '__nv_bfloat16, nv_bfloat16, __nv_bfloat162',
}
_DTYPE_OF_C_NAME = {name: dtype for dtype, names in _C_NAMES.items() for name in names.split(', ')}
SCALARS = {
    'bool': ctypes.c_bool,
    'int8': ctypes.c_int8,
    'uint8': ctypes.c_uint8,
    'int16': ctypes.c_int16,
    'uint16': ctypes.c_uint16,
    'int32': ctypes.c_int32,
    'uint32': ctypes.c_uint32,
    'int64': ctypes.c_int64,
    'uint64': ctypes.c_uint64,
    'float32': ctypes.c_float,
    'float64': ctypes.c_double,
}
_VECTOR_TYPE = re.compile(r'(u?)(char|short|int|long|longlong|float|double)([1-4])$')
_DTYPE_OF_ELEMENT = dict(
    char='int8', short='int16', int='int32', long='int64', longlong='int64', float='float32', double='float64'
)
_QUALIFIERS = re.compile(
    r'\b(const|volatile|__restrict__|__restrict|restrict|std::|__grid_constant__)\b|[*&]|\[\w*\]|std::'
)
_INTERCHANGEABLE = {
    'uint8': 'bool',
    'bool': 'uint8',
    'int8': 'uint8',
}  # dtype of a parameter -> a dtype of the same size that is also accepted


@lru_cache  # called by every launch
def dtype_of(
    type: str,  # as C writes it, such as `const float *__restrict__`
):  # (name of the dtype or None, whether it is a pointer)
    "Return (dtype of the elements, whether it is a pointer) of a parameter; None for a type that the source defines"
    is_pointer = '*' in type or '[' in type
    if type.count('*') > 1:  # a table of addresses
        return 'int64', True
    base = ' '.join(_QUALIFIERS.sub(' ', type).split())
    if m := _VECTOR_TYPE.match(base):
        return ('u' if m[1] else '') + _DTYPE_OF_ELEMENT[m[2]], is_pointer
    return _DTYPE_OF_C_NAME.get(base), is_pointer


_ALIAS = re.compile(r'\btypedef\s+([^;{}()]+?)\s*(\w+)\s*;|\busing\s+(\w+)\s*=\s*([^;{}()]+?)\s*;')
_TYPE_PARAMETER = re.compile(r'(?:class|typename)\s+(\w+)')


def type_names(
    code: str,  # CUDA C without comments
    template: str,  # the kernel's template header, or ''
    instantiation: str,  # its name with template arguments, as in `k<float, 4>`
) -> dict:
    """Return the type that each alias and each type parameter of a kernel stands for.

    Aliases that are defined twice, as in the branches of an `#if`, are left out.
    Example: `type_names('typedef float real;', 'template <class T>', 'k<int>') == {'real': 'float', 'T': 'int'}`"""
    aliases = [(m[2] or m[3], m[1] or m[4]) for m in _ALIAS.finditer(code)]
    types = dict(aliases)
    for name in [name for name, type_ in aliases if types[name] != type_]:
        types.pop(name, None)
    arguments = _split_list(instantiation)
    parameters = [_TYPE_PARAMETER.match(p) for p in _split_list(template)]
    return types | {p[1]: argument for p, argument in zip(parameters, arguments) if p}


def _split_list(text):
    "Return the items of the list in angle brackets that `text` contains; [] if there is none"
    depth, items = 0, ['']
    for c in text.partition('<')[2].rpartition('>')[0]:
        depth += (c in '<([') - (c in '>)]')
        if c == ',' and not depth:
            items.append('')
        else:
            items[-1] += c
    return [item.strip() for item in items if item.strip()]


_MAX_ALIAS_DEPTH = 8  # of aliases of aliases


def resolve_type(type: str, types: dict) -> str:
    "Replace aliases in a type: `resolve_type('const T *', {'T': 'float'}) == 'const float *'`"
    for _ in range(_MAX_ALIAS_DEPTH):
        resolved = re.sub(r'(?<!::)\b[A-Za-z_]\w*\b', lambda m: types.get(m[0], m[0]), type)
        if resolved == type:
            break
        type = resolved
    return type


@lru_cache
def format_param(p) -> str:
    "Format a `Param` for messages: `const float * x`"
    return f'{p.type} {p.name}'


def _is_array(x):
    return hasattr(x, 'dtype') and hasattr(x, 'shape') and not isinstance(x, np.generic)


def _is_struct(x):
    return isinstance(x, (bytes, ctypes.Structure, ctypes.Array)) or hasattr(type(x), '__bytes__') and not _is_array(x)


def _conversion_hint(x, dtype, points_to_const):
    """Suggest how to convert an array to `dtype`, or to a contiguous array if `dtype` is None.

    For a parameter that `points_to_const`, a copy may be passed."""
    conversion = f'.astype(np.{dtype})' if dtype else 'np.ascontiguousarray(...)'
    if not isinstance(x, np.ndarray):
        conversion = f'.to(torch.{dtype})' if dtype else '.contiguous()'
    return f'with {conversion}' if points_to_const else f'beforehand with {conversion}, because the kernel writes to it'


def _dtype_name(x):
    return str(x.dtype).removeprefix('torch.')


def _check_value(x, dtype, make_error):
    "Raise an error unless `x` can be passed by value; `make_error(message)` makes the exception"
    type_name = type(x).__name__
    if _is_struct(x):
        if dtype:
            raise make_error('must be a number; got a struct')
        return
    if _is_array(x):
        hint = 'use .item() for a tensor with one element'
        raise make_error(f'must be a number; got a {type_name} of shape {tuple(x.shape)}; {hint}')
    if not isinstance(x, (bool, int, float, np.generic)):
        raise make_error(f'must be a number; got a {type_name}')
    is_integer = dtype and 'int' in dtype
    if is_integer and isinstance(x, (float, np.floating)):
        raise make_error(f'must be an integer; got {x!r}; use int(...) or //')
    if is_integer and dtype in SCALARS and SCALARS[dtype](int(x)).value != int(x):
        raise make_error(f'cannot hold {x}')


def _check_array(x, dtype, make_error, device, points_to_const):
    "Raise an error unless `x` is an array whose address can be passed"
    if getattr(x, 'is_nested', False):  # it has no shape
        raise make_error(
            'is a nested tensor, whose rows differ in length; pass its .values(), and its .offsets() as another array'
        )
    if not _is_array(x):
        hint = '; create one with torch.tensor(...) or np.array(...)' if isinstance(x, (list, tuple)) else ''
        raise make_error(f'must be a tensor or an array; got a {type(x).__name__}{hint}')
    if dtype and _dtype_name(x) != dtype and _INTERCHANGEABLE.get(dtype) != _dtype_name(x):
        noun = 'array' if isinstance(x, np.ndarray) else 'tensor'
        raise make_error(
            f'must be {dtype}, but the {noun} is {_dtype_name(x)};'
            f' convert it {_conversion_hint(x, dtype, points_to_const)}'
        )
    if isinstance(x, np.ma.MaskedArray):
        hint = 'pass its .filled(...), and the mask as an array'
        raise make_error(f'is a masked array, which kernels do not support; {hint}')
    if isinstance(x, np.ndarray) and not x.flags.writeable and not points_to_const:
        raise make_error('is read-only, but the kernel may write to it; pass a copy, np.array(...)')
    device_type = str(getattr(x, 'device', 'cpu')).split(':')[0]
    if device_type != device:
        raise make_error(f'is on {device_type}, but the kernel runs on {device}; move it with .to({device!r})')
    if not isinstance(x, np.ndarray) and (view_description := _describe_lazy_view(x)):
        raise make_error(view_description)
    is_contiguous = x.is_contiguous() if hasattr(x, 'is_contiguous') else x.flags.c_contiguous
    if not is_contiguous:
        if str(getattr(x, 'layout', 'torch.strided')) != 'torch.strided':
            raise make_error('is sparse, not strided; pass its .to_dense()')
        problem = 'is not contiguous: the kernel would read its elements in a different order'
        if _is_expanded(x):
            problem = 'is expanded (stride 0), so not contiguous: several of its elements share one address'
        raise make_error(f'{problem}; make a copy {_conversion_hint(x, None, points_to_const)}')


def _describe_lazy_view(x):
    "Describe a lazy view, whose memory does not hold the tensor's values; None for any other tensor"
    for name, state in (('is_neg', 'negated'), ('is_conj', 'conjugated')):
        if (is_lazy := getattr(x, name, None)) and is_lazy():
            return f'is a {state} view: its memory holds the original values; pass its .resolve_{name[3:]}()'


def _is_expanded(x):
    strides = x.stride() if hasattr(x, 'stride') else x.strides
    return any(not stride and size > 1 for stride, size in zip(strides, x.shape))


@lru_cache
def is_const_pointer(type: str) -> bool:
    "Return whether a type is a pointer to const, such as `const float *`, but not `float *const`"
    return bool(re.search(r'\bconst\b[^*]*\*', type))


def check_argument(
    x,  # the argument
    p,  # the `Param` that receives it
    make_error,  # a function that makes the exception for a message
    device: str,  # where the kernel runs: 'cpu' or 'cuda'
):
    "Raise an error if `x` cannot be passed for the parameter `p`"
    dtype, is_pointer = dtype_of(p.type)
    if not is_pointer:
        _check_value(x, dtype, make_error)
    elif x is not None:
        _check_array(x, dtype, make_error, device, is_const_pointer(p.type))


def _accepts_float(x):
    return type(x) is float


def _make_integer_test(dtype):
    "Return a function of an argument: whether it is an integer that fits into `dtype`"
    bits = 8 * ctypes.sizeof(SCALARS[dtype])
    least = 0 if dtype.startswith('uint') else -(1 << bits - 1)
    end = least + (1 << bits)

    def accepts_integer(x):
        return type(x) is int and least <= x < end

    return accepts_integer


def _make_array_test(dtype, device):
    "Return a function of an argument: whether it is a tensor, or an array, that can be passed for a pointer"
    on_gpu = device == 'cuda'

    def accepts_array(x):
        torch = sys.modules.get('torch')
        if torch is not None and type(x) is torch.Tensor:
            return (
                (dtype is None or x.dtype is getattr(torch, dtype, None))
                and (x.is_cuda if on_gpu else x.is_cpu)
                and x.layout is torch.strided
                and not x.is_nested
                and x.is_contiguous()
                and not (x.is_neg() or x.is_conj())
            )
        is_array = type(x) is np.ndarray and not on_gpu
        has_dtype = is_array and (dtype is None or (x.dtype.name == dtype and x.dtype.isnative))
        return has_dtype and x.flags.c_contiguous and x.flags.writeable

    return accepts_array


def argument_tests(params: list, device: str) -> list:
    """Return a function per parameter, which takes an argument and returns whether `check_argument` accepts it, for the
    arguments that most launches have; False is inconclusive"""
    tests = []
    for p in params:
        dtype, is_pointer = dtype_of(p.type)
        if is_pointer:
            tests.append(_make_array_test(dtype, device))
        elif dtype in ('float32', 'float64'):
            tests.append(_accepts_float)
        elif dtype in SCALARS and 'int' in dtype:
            tests.append(_make_integer_test(dtype))
        else:
            tests.append(lambda x: False)
    return tests


def check_arguments(kernel: str, params: list, args, device: str):
    "Raise `LaunchError` for a wrong number of arguments, `TypeError` for an argument that cannot be passed"
    check_argument_count(kernel, [format_param(p) for p in params], len(args))
    for i, (x, p) in enumerate(zip(args, params)):
        check_argument(x, p, partial(argument_error, kernel, i, format_param(p)), device)
