"""Converts values between Python and compiled CUDA C.

A compiled library is not linked with Python: it is loaded with ctypes, and each value is passed as a sequence of 64-bit
words. The first word is the kind of the value, the following words are its contents;
`include/torch/gridstride/bindings.h` has the C++ code for this. A tensor is passed by reference: as its address, sizes,
strides, dtype and device, and the address of its Python object, which C++ returns if it returns the tensor.
"""

import ctypes, inspect, os, re, struct, sys, threading
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int64, c_void_p
from pathlib import Path

import numpy as np

from .open_libraries import open_library
from ..diagnostics.errors import warn_learner
from ..utils import dim3


# The kinds of values, and PyTorch's codes for element types
NONE, BOOL, INT, FLOAT, STRING, LIST, TENSOR, DTYPE, DEVICE = range(9)
_DTYPES = dict(
    uint8=0, int8=1, int16=2, int32=3, int64=4, float16=5, float32=6, float64=7, complex64=9, complex128=10, bool=11,
    bfloat16=15, float8_e5m2=23, float8_e4m3fn=24, uint16=27, uint32=28, uint64=29,
)  # fmt: skip
_NUMPY = {np.dtype(k): v for k, v in _DTYPES.items() if not k.startswith(('bfloat', 'float8'))}
_DEVICES = dict(cpu=0, cuda=1)


def _dtype_code(dtype):
    "Return the code of a torch dtype"
    name = str(dtype).removeprefix('torch.')
    if name not in _DTYPES:
        raise TypeError(f'a tensor of {name} has no counterpart in C++')
    return _DTYPES[name]


_torch_codes = {}  # torch dtype -> code; filled on demand


def _device_words(device):
    "Return (type code, index) of a torch device"
    if device.type not in _DEVICES:
        problem = f'a tensor on {device.type!r} cannot be passed to C++'
        raise TypeError(f'{problem}: only tensors on the CPU and on CUDA devices can')
    return _DEVICES[device.type], -1 if device.index is None else device.index


# Each of these functions appends a part of the format to `fmt` and values to `out`, which become the arguments of
# `struct.pack`.
def _pack_tensor(x, fmt, out):
    dtype, device = x.dtype, x.device
    code = _torch_codes.get(dtype)
    if code is None:
        code = _torch_codes[dtype] = _dtype_code(dtype)
    if x.layout is not sys.modules['torch'].strided:
        raise TypeError(f'a tensor whose layout is {x.layout} has no address to pass to C++')
    address = x.data_ptr()
    if not address and x.numel() and device.type != 'meta':
        raise TypeError('the tensor has no storage: it was freed, or never allocated, so it has no address')
    kind, i = (0, -1) if device.type == 'cpu' else _device_words(device)
    shape = x.shape
    n = len(shape)
    fmt.append(f'{7 + 2 * n}q')
    out += (TENSOR, id(x), address, code, kind, i, n, *shape, *x.stride())


def _pack_array(x, fmt, out):
    if x.dtype not in _NUMPY:
        raise TypeError(f'an array of {x.dtype} has no counterpart in C++')
    if not x.flags.writeable:
        raise TypeError('the array is read-only, but C++ could write to it; pass a copy')
    size = x.itemsize
    if any(stride % size or stride < 0 for stride in x.strides) and x.size:
        raise TypeError(
            'the strides are negative or not multiples of the element size; copy the array with np.ascontiguousarray'
        )
    fmt.append(f'{7 + 2 * x.ndim}q')
    address = x.ctypes.data if x.size else 0  # as for an empty tensor
    out += (TENSOR, id(x), address, _NUMPY[x.dtype], 0, -1, x.ndim, *x.shape, *(stride // size for stride in x.strides))


def _pack_string(x, fmt, out):
    text_bytes = x.encode()
    fmt.append(f'2q{(len(text_bytes) + 7) // 8 * 8}s')
    out += (STRING, len(text_bytes), text_bytes)


def _pack_struct(x, fmt, out):
    "Pack the bytes of a struct; for a tensor map, also pack the tensor that the map describes"
    struct_bytes = bytes(x)
    if (mapped_tensor := getattr(x, 'tensor', None)) is not None:
        fmt.append('2q')
        out += (LIST, 2)
    fmt.append(f'2q{(len(struct_bytes) + 7) // 8 * 8}s')
    out += (STRING, len(struct_bytes), struct_bytes)
    if mapped_tensor is not None:
        pack(mapped_tensor, fmt, out)


def _pack_list(x, fmt, out):
    fmt.append('2q')
    out += (LIST, len(x))
    for item in x:
        pack(item, fmt, out)


def _pack_scalar(kind, fmt):
    return lambda x, f, out: (f.append(fmt), out.extend((kind, x)))


_PACK = {
    type(None): lambda x, fmt, out: (fmt.append('q'), out.append(NONE)),
    bool: _pack_scalar(BOOL, '2q'),
    int: _pack_scalar(INT, '2q'),
    float: _pack_scalar(FLOAT, 'qd'),
    str: _pack_string,
    list: _pack_list,
    tuple: _pack_list,
    np.ndarray: _pack_array,
}


def pack(x, fmt, out):
    """Append the format and the values with which `struct.pack` writes `x` as words to the lists `fmt` and `out`.

    Raises `TypeError` if C++ has no such type."""
    packer = _PACK.get(type(x))
    if packer is None:
        packer = _PACK[type(x)] = _choose_packer(x)
    packer(x, fmt, out)


# `pack` adds a type to `_PACK` at its first use. A subclass is packed as its base class, an object with `__index__` as
# an integer.
def _choose_packer(x):
    "Return the function that packs values of the type of `x`"
    torch = sys.modules.get('torch')
    if torch:
        if isinstance(x, torch.Tensor):
            return _pack_tensor
        if isinstance(x, torch.dtype):
            return lambda x, fmt, out: (fmt.append('2q'), out.extend((DTYPE, _dtype_code(x))))
        if isinstance(x, torch.device):
            return lambda x, fmt, out: (fmt.append('3q'), out.extend((DEVICE, *_device_words(x))))
    for type_, packer in (
        (np.ndarray, _pack_array),
        (str, _pack_string),
        ((list, tuple), _pack_list),
        ((ctypes.Structure, ctypes.Array, bytes), _pack_struct),
    ):
        if isinstance(x, type_):
            return packer
    if isinstance(x, np.bool_):
        return lambda x, fmt, out: _PACK[bool](bool(x), fmt, out)
    if hasattr(type(x), '__index__'):
        return lambda x, fmt, out: _PACK[int](x.__index__(), fmt, out)
    if hasattr(type(x), '__float__'):
        return lambda x, fmt, out: _PACK[float](float(x), fmt, out)
    if hasattr(type(x), '__bytes__'):
        return _pack_struct
    raise TypeError(f'C++ has no counterpart for {type(x).__name__}')


def to_words(xs):
    "Pack all values of `xs`; returns the words as bytes"
    fmt, out = [], []
    for x in xs:
        pack(x, fmt, out)
    return struct.pack(''.join(fmt), *out)


# `unpack` reads the words that C++ returns. A tensor is returned as the address of its Python object. The result of a
# function owns a reference, because C++ may have held the last one; `unpack` takes it over.
# ctypes.pythonapi is not used here, because all packages share its functions, and Numba sets other argument types.
_api = ctypes.PyDLL(None)
_decref = _api.Py_DecRef
_decref.argtypes, _decref.restype = [c_void_p], None
_incref = _api.Py_IncRef
_incref.argtypes, _incref.restype = [c_void_p], None


def _python_object(address, owns_reference):
    x = ctypes.cast(address, ctypes.py_object).value
    if owns_reference:
        _decref(address)
    return x


def _dtype(code):
    import torch

    return getattr(torch, next(k for k, v in _DTYPES.items() if v == code))


EMULATED_GPU = 'cpu'  # the device of the emulator's tensors; `as_gpu` replaces it
_EMULATED = -2  # the index of this device in C++


def _device(kind, i):
    import torch

    if i == _EMULATED:
        return torch.device(EMULATED_GPU)
    return torch.device(next(k for k, v in _DEVICES.items() if v == kind), None if i < 0 else i)


def unpack(words, i=0, owns_references=False):
    "Unpack the value at `words[i]`; returns (value, next index). `owns_references`: take over a reference per tensor"
    kind = words[i]
    if kind == TENSOR:
        return _python_object(words[i + 1], owns_references), i + 2
    if kind == NONE:
        return None, i + 1
    if kind == INT:
        return words[i + 1], i + 2
    if kind == BOOL:
        return bool(words[i + 1]), i + 2
    if kind == FLOAT:
        return struct.unpack('d', struct.pack('q', words[i + 1]))[0], i + 2
    if kind == DTYPE:
        return _dtype(words[i + 1]), i + 2
    if kind == DEVICE:
        return _device(words[i + 1], words[i + 2]), i + 3
    n = words[i + 1]
    if kind == STRING:
        text = ctypes.string_at(ctypes.addressof(words.contents) + 8 * (i + 2), n)
        return text.decode(errors='replace'), i + 2 + (n + 7) // 8
    items, i = [], i + 2
    for _ in range(n if n >= 0 else -n - 1):  # a tuple has -1 minus its length
        x, i = unpack(words, i, owns_references)
        items.append(x)
    return (items if n >= 0 else tuple(items)), i


# C++ calls Python to create tensors and to compute with them (`torch::zeros`, `x.sum()`). PyTorch executes these
# operations here. An exception cannot propagate through C++, so it is stored and raised after the call.
_last_operation = threading.local()  # .error: its exception; .result_words: keeps the words of its result alive
_FACTORIES = {'empty', 'zeros', 'ones', 'rand', 'randn', 'full', 'randint', 'arange', 'linspace', 'eye', 'tensor'}
_OPERATORS = dict(zip('+ - * / < <= > >= == !='.split(), 'add sub mul truediv lt le gt ge eq ne'.split()))


def _make_tensor(op, torch, args):
    "Make a new tensor; `args` are the arguments of torch's function, then dtype, device and requires_grad"
    *args, dtype, device, grad = args
    return getattr(torch, op)(*args, dtype=dtype, device=device, requires_grad=grad)


def _as_torch(x):
    "Convert an array, or each array in a list, to a tensor that shares its memory"
    import torch

    if isinstance(x, list):
        return [_as_torch(item) for item in x]
    return torch.from_numpy(x) if isinstance(x, np.ndarray) else x


def _compute(op, args):
    "Compute the operation `op` on tensors, for a call from C++"
    if op == 'warn':
        text, file, line = args
        return warn_learner(UserWarning(text), Path(file).name, line)
    import operator, torch

    if op == 'stream':
        return torch.cuda.current_stream(args[0]).cuda_stream
    x, *other_arguments = args = [_as_torch(arg) for arg in args]
    if op in _FACTORIES:
        return _make_tensor(op, torch, args)
    if op in _OPERATORS:
        return getattr(operator, _OPERATORS[op])(x, *other_arguments)
    if op == 'to':
        return x.to(other_arguments[0], other_arguments[1], copy=other_arguments[2])
    if op == 'requires_grad':
        return x.requires_grad
    if op == 'print':
        return print(x)
    result = getattr(x, op)(*other_arguments) if hasattr(x, op) else getattr(torch, op)(x, *other_arguments)
    if isinstance(result, tuple):
        problem = f'Tensor::{op} returns several tensors here, which the emulator does not support'
        raise NotImplementedError(f'{problem}; for max and min along a dimension, use amax, argmax, amin and argmin')
    return result


def _add_references(x):
    "Add a reference to each tensor in `x`; C++ releases it"
    if isinstance(x, (list, tuple)):
        for item in x:
            _add_references(item)
    elif not isinstance(x, (str, int, float, type(None))):
        _incref(id(x))


@CFUNCTYPE(c_int64, c_char_p, POINTER(c_int64), c_int64, POINTER(c_void_p))
def _callback(op, words, n, result_address):
    "Run an operation for C++; returns 0, or 1 after storing the exception"
    try:
        i, args = 0, []
        for _ in range(n):
            x, i = unpack(words, i)
            args.append(x)
        result = _compute(op.decode(), args)
        _last_operation.result_words = to_words([result])
        _add_references(result)
        result_address[0] = ctypes.cast(c_char_p(_last_operation.result_words), c_void_p).value
        return 0
    except BaseException as e:  # including Ctrl-C
        _last_operation.error = e
        return 1


class _Python(ctypes.Structure):
    "The Python functions that a library calls: the callback, acquiring and releasing the GIL, and reference counting"

    _fields_ = [(field, c_void_p) for field in ('call', 'initialized', 'lock', 'unlock', 'retain', 'release')]


_LOCK = _api.PyGILState_Ensure, _api.PyGILState_Release
_FUNCTIONS = _callback, _api.Py_IsInitialized, *_LOCK, _api.Py_IncRef, _api.Py_DecRef
_python = _Python(*(ctypes.cast(f, c_void_p).value for f in _FUNCTIONS))


# A library contains only the types of parameters; their names are read from the declaration in the source.
def split_at_commas(text: str) -> list:
    "Split `text` at commas outside brackets; strip the items, and drop empty ones"
    parts, depth = [''], 0
    for c in text:
        depth += (c in '(<[{') - (c in ')>]}')
        if c == ',' and not depth:
            parts.append('')
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def parse_parameters(
    declaration: str,  # such as `torch::Tensor blur(torch::Tensor x, int radius = 3)`
) -> list:  # of (type, name, default); name and default are None if the declaration has none
    "Parse the parameters of a C++ function from its declaration"
    i = declaration.index('(')
    return [
        _parse_parameter(part)
        for part in split_at_commas(declaration[i + 1 : declaration.rindex(')')])
        if part != 'void'
    ]


def _parse_parameter(declaration):
    declaration, _, default = (part.strip() for part in declaration.partition('='))
    m = re.fullmatch(r'(.*?[\s*&>])(\w+)((?:\[\w*\])*)', declaration)
    if not m or m[2] in ('int', 'char', 'long', 'short', 'double', 'float', 'bool', 'unsigned', 'signed', 'const'):
        return declaration, None, default or None
    return m[1].strip() + m[3], m[2], default or None


def _format_declaration(name, types):
    "Return the declaration of a function, given its type as the compiler writes it"
    text = re.sub(r'std::(__cxx11|__1)::basic_string<char[^<>]*>', 'std::string', types.decode())
    ret, args = re.search(r'F = (.*?) ?\((.*)\)\]', text).groups()
    return f'{ret} {name}({args})'


# A library exports a linked list of functions, each with its name and type. A function takes the address of a `_Call`.
class _Call(ctypes.Structure):
    "A call of an exported function, as in `bindings.h`: its arguments as words, its stream and its configuration"

    _fields_ = [
        ('args', c_char_p),
        ('n', c_int64),
        ('stream', c_void_p),
        ('device', c_int64),
        ('grid', c_int64 * 3),
        ('block', c_int64 * 3),
        ('shared', c_int64),
        ('cluster', c_int64 * 3),
        ('result', POINTER(c_int64)),
        ('message', c_char_p),
        ('argument', c_int64),
        ('large_clusters', c_int64),
    ]


class _ExportedFunction(ctypes.Structure):
    "A function that a library exports, as in `export.h`, and the next one"


_ExportedFunction._fields_ = [
    ('name', c_char_p),
    ('call', CFUNCTYPE(c_int64, c_void_p)),
    ('types', CFUNCTYPE(c_char_p)),
    ('kernel', c_int64),
    ('next', POINTER(_ExportedFunction)),
]

_EXCEPTIONS = {
    1: RuntimeError,
    3: TypeError,
    4: ValueError,
    5: IndexError,
    6: MemoryError,
    7: NotImplementedError,
    8: OverflowError,
}
PYTHON_ERROR, TYPE_ERROR, FINDING = 2, 3, 9


def _current_stream():
    "Return torch's current stream and device; 0 and -1 if it uses none"
    torch = sys.modules.get('torch')
    if torch is None or not torch.cuda.is_initialized():
        return 0, -1
    return torch.cuda.current_stream().cuda_stream, torch.cuda.current_device()


def _describe(x):
    "Format `x` for an error message"
    if hasattr(x, 'shape') and hasattr(x, 'dtype'):
        return f"a {str(x.dtype).removeprefix('torch.')} {type(x).__name__} of shape {tuple(x.shape)}"
    text = repr(x)
    return f'{type(x).__name__} {text if len(text) < 60 else text[:57] + "..."}'


# `run` packs the arguments, calls C++ and unpacks the result. Most other methods of `Function` describe errors.
class Function:
    "A function of a compiled library; its docstring is its C++ declaration"

    def __init__(self, exported, library, declaration=None):
        self.__name__ = self.__qualname__ = exported.name.decode()
        self.__doc__ = (declaration or _format_declaration(self.__name__, exported.types())).rstrip(';')
        self.__module__ = library.__name__
        self.library = library
        self._call = exported.call
        self.parameters = parse_parameters(self.__doc__)
        names = [parameter[1] for parameter in self.parameters]
        if all(name and name.isidentifier() for name in names) and len({*names}) == len(names):
            python_parameters = [self._to_python_parameter(*parameter) for parameter in self.parameters]
            self.__signature__ = inspect.Signature(python_parameters)

    @staticmethod
    def _to_python_parameter(type, name, default):
        return inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            annotation=type,
            default=inspect.Parameter.empty if default is None else _CppExpression(default),
        )

    def __repr__(self):
        return f'<{self.__doc__}, in {Path(self.library.__file__).name}>'

    def __call__(self, *args, **kwargs):
        return self.run(self._positional(args, kwargs) if kwargs else args)

    def run(
        self, args, grid=(0, 0, 0), block=(0, 0, 0), shared=0, stream=None, cluster=(1, 1, 1), large_clusters=False
    ):
        "Call the function with `args`; the other parameters are for kernels"
        try:
            words = to_words(args)
        except (TypeError, struct.error):
            raise self._unpackable_error(args) from None
        current_stream, device = (0, 0) if self.library.emulated else _current_stream()
        stream = current_stream if stream is None else stream
        call = _Call(words, len(args), stream, device, grid, block, shared, cluster, large_clusters=large_clusters)
        code = self.library.call(self._call, call)
        if code:
            raise self._error(code, call, args)
        return unpack(call.result, 0, True)[0] if call.result else None

    def _positional(self, args, kwargs):
        "Return `args` and the keyword arguments `kwargs` in the order of the parameters"
        names = [parameter[1] for parameter in self.parameters]
        for k in kwargs:
            if k not in names:
                raise TypeError(f'{self.__name__}() has no parameter {k!r}\n  {self.__doc__}')
            if names.index(k) < len(args):
                raise TypeError(f'{self.__name__}() got {k!r} twice\n  {self.__doc__}')
        last = max(map(names.index, kwargs))
        for name in names[len(args) : last]:
            if name not in kwargs:
                problem = f'{self.__name__}() is missing the argument {name!r}, before the last one that was passed'
                raise TypeError(f'{problem}\n  {self.__doc__}')
        return (*args, *(kwargs[name] for name in names[len(args) : last + 1]))

    def _argument_error(self, i, x, reason=''):
        "Return the `TypeError` for argument `i`, with indices from 1"
        type_, name, _ = self.parameters[i - 1] if i <= len(self.parameters) else ('?', None, None)
        argument = f'{i} ({type_} {name})' if name else f'{i} ({type_})'
        message = f'{self.__name__}(): argument {argument} cannot take {_describe(x)}{reason and f": {reason}"}'
        return TypeError(f'{message}\n  {self.__doc__}')

    def _unpackable_error(self, args):
        "Return the `TypeError` for the first argument that cannot be packed"
        for i, x in enumerate(args):
            try:
                to_words([x])
            except TypeError as e:
                return self._argument_error(i + 1, x, str(e))
            except struct.error:
                return self._argument_error(i + 1, x, 'the value does not fit into 64 bits')

    def _error(self, code, call, args):
        "Return the exception for the status `code` of a call"
        if code == PYTHON_ERROR:
            return _last_operation.__dict__.pop('error')
        if code == FINDING:
            return self.library.error_of_finding(self)
        message = (call.message or b'').decode(errors='replace')
        if code != TYPE_ERROR:
            return _EXCEPTIONS[code](message)
        if call.argument:
            return self._argument_error(call.argument, args[call.argument - 1], message)
        return TypeError(f'{self.__name__}(): {message}\n  {self.__doc__}')


class _CppExpression(str):
    "A C++ expression that is a default value; a signature shows it without quotes"

    def __repr__(self):
        return str(self)


class Library:
    """A compiled library: the functions that it exports are its attributes.

    Arguments are strings, scalars, None, lists, tuples, dtypes, devices, torch tensors and NumPy arrays; tensors and
    arrays are passed by reference. A failed `TORCH_CHECK` raises `RuntimeError`, a wrong argument `TypeError` with the
    declaration."""

    def __init__(
        self,
        path,  # of the shared library
        declarations=None,  # dict: name -> declaration, for docstrings and keyword arguments
        emulated=False,  # whether it runs on the emulated device
        name=None,  # of the library; None: the name of its file
    ):
        self.__file__ = os.path.abspath(path)
        self.__name__ = name or re.sub(r'\W', '_', Path(path).name.split('.')[0])
        self.emulated = emulated
        self._open_library = open_library(self.__file__, emulated)
        self._dll = self._open_library.dll
        self._dll.gs_connect(ctypes.byref(_python))
        self._dll.gs_exports.restype = POINTER(_ExportedFunction)
        functions, kernels = {}, {}
        for exported in self._exported_functions():
            f = Function(exported, self, (declarations or {}).get(exported.name.decode()))
            (kernels if exported.kernel else functions)[f.__name__] = f
        # the linked list begins with the last function of the source
        self.functions = dict(reversed(functions.items()))
        self.kernels = dict(reversed(kernels.items()))
        self.__dict__.update(self.functions)

    def _exported_functions(self):
        "Yield each `_ExportedFunction` of the library's linked list"
        node = self._dll.gs_exports()
        while node:
            yield node.contents
            node = node.contents.next

    def __repr__(self):
        return f"<{self.__name__}: {', '.join(self.functions) or 'no functions'}, in {Path(self.__file__).name}>"

    def __getattr__(self, k):
        if k.startswith('__'):
            raise AttributeError(k)
        raise AttributeError(f"{self.__name__} has no function {k!r}. It has {', '.join(self.functions) or 'none'}")

    def launch(self, kernel, grid, block, args, shared=0, stream=None, cluster=(1, 1, 1), large_clusters=False):
        "Launch an exported kernel by its name; `grid` and `block` as for `dim3`"
        if not type(grid) is type(block) is type(cluster) is dim3:
            grid, block, cluster = map(dim3, (grid, block, cluster))
        return self.kernels[kernel].run(args, grid, block, shared, stream, cluster, large_clusters)

    def call(self, entry, call):
        """Run the compiled function `entry` with the `_Call` `call`; returns its status, 0 for success.

        Subclasses extend it."""
        return entry(ctypes.addressof(call))

    def error_of_finding(self, function):
        "Return the exception for the emulator's finding in a call of `function`; overridden by subclasses"
        return RuntimeError(f'the emulator stopped {function.__name__}')
