"""Compile kernels of Numba, of the simulator and of Triton for any GPU architecture, without a GPU."""

import contextlib
import dis
import inspect
import io
import os
import re
import types
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from .kernels import CompilerOutput, KernelSource
from .tools import assemble, cached_result, missing_tool, resource_usage, toolkit_folders
from ..support.function_source import SourceMissing, source_of
from ..support.numba_cuda import import_numba_cuda, real_numba_cuda
from ..bench.keys import unwrap_kernel


# Numba and Triton compile a kernel for the types of its arguments, so they need example arguments: arrays of any size,
# scalars, tuples. A Numba signature works as well.
def _layout(x):
    "Return the layout of an array: 'C' for row-major, 'F' for column-major, 'A' if it is not contiguous"
    if hasattr(x, 'is_contiguous'):
        return 'C' if x.is_contiguous() else 'F' if x.T.is_contiguous() else 'A'
    return 'C' if x.flags['C_CONTIGUOUS'] else 'F' if x.flags['F_CONTIGUOUS'] else 'A'


_SCALAR_TYPES = {
    bool: 'boolean',
    int: 'int64',
    float: 'float64',
    complex: 'complex128',
}  # bool before int, its base class


def numba_type(x) -> str:  # in the notation of signatures
    """Return the Numba type of an example argument.

    >>> numba_type(1), numba_type((1, 2.0))
    ('int64', 'Tuple((int64, float64,))')

    Raises TypeError for an unsupported object."""
    for python_type, name in _SCALAR_TYPES.items():
        if isinstance(x, python_type):
            return name
    if isinstance(x, tuple):
        types = [numba_type(item) for item in x]
        return f"Tuple(({', '.join(types)},))" if len(set(types)) > 1 else f'UniTuple({types[0]}, {len(x)})'
    if not hasattr(x, 'dtype'):
        raise TypeError(f'a Numba kernel takes arrays, scalars and tuples of these; got {type(x).__name__}')
    dtype = str(x.dtype).split('.')[-1].replace('bool', 'boolean').replace('boolean_', 'boolean')
    if not len(getattr(x, 'shape', ())):
        return dtype
    other_dims = [':'] * (len(x.shape) - 1)
    dims = {'C': [*other_dims, '::1'], 'F': ['::1', *other_dims], 'A': [*other_dims, ':']}[_layout(x)]
    return f"{dtype}[{', '.join(dims)}]"


def signature(args, function) -> str:  # function: the Python function of the kernel
    "Return the Numba signature of example arguments; a signature is returned as it is. Raises TypeError"
    if len(args) == 1 and isinstance(args[0], str):
        return args[0]
    parameter_names = list(inspect.signature(function).parameters)
    if len(args) != len(parameter_names):
        raise TypeError(
            f"{function.__name__}: expected {len(parameter_names)} example arguments ({', '.join(parameter_names)}), "
            f"got {len(args)}: pass one per argument, "
            "or a signature such as 'void(float32[::1], int64)'"
        )
    return f"void({', '.join(numba_type(arg) for arg in args)})"


# The key of a kernel contains the global constants that it uses and the sources of the functions that it calls.
def _captured_values(function):
    "Return {name: value} of the global and closure variables that a function uses"
    names = set()

    def collect_names(code):
        # without LOAD_ATTR: names of attributes are not globals
        names.update(
            instruction.argval
            for instruction in dis.get_instructions(code)
            if instruction.opname in ('LOAD_GLOBAL', 'LOAD_NAME')
        )
        for const in code.co_consts:
            if isinstance(const, types.CodeType):
                collect_names(const)

    collect_names(function.__code__)
    closure = dict(zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__ or ())))
    return {**{name: function.__globals__[name] for name in sorted(names) if name in function.__globals__}, **closure}


def _key_of_value(value, visited_functions):
    "Return a string that identifies the value of a captured variable"
    function = unwrap_kernel(value)
    if isinstance(function, types.FunctionType):
        return '' if function in visited_functions else _key_of_function(function, visited_functions)
    if isinstance(value, (types.ModuleType, type)):
        return value.__name__.split('.')[-1]  # numba.cuda and the simulator's are both `cuda`
    if hasattr(value, 'tolist') and hasattr(value, 'dtype'):
        return f'{value.tolist()!r} {value.dtype}'
    return (
        repr(value) if isinstance(value, (int, float, complex, str, tuple, bool, type(None))) else type(value).__name__
    )


def _key_of_function(function, visited_functions=()):
    "Return the source of a function, with the values and functions that it captures"
    return '\n'.join(
        [
            _source(function)[0],
            *(
                f'{name} = {_key_of_value(value, (*visited_functions, function))}'
                for name, value in _captured_values(function).items()
            ),
        ]
    )


def _source(function):
    "Return (the source of a function, its first line)"
    try:
        source = source_of(function)
    except SourceMissing as e:
        raise ValueError(str(e)) from None
    return source.as_written, source.first_line


class _PythonKernelSource(KernelSource):
    "A kernel that is a Python function"

    def __init__(self, function, *key):
        text, first_line = _source(function)
        file = Path(function.__code__.co_filename).name
        lines = dict(enumerate(text.splitlines(), first_line))
        super().__init__(function.__name__, file, lines, (*key, _key_of_function(function)))


# A kernel of the simulator is a kernel of Numba with a different module `cuda`. To compile it, its function is copied
# with Numba's own `cuda`.
def _numba_cuda(name):
    "Return the module `numba.cuda`. Raises CompilerMissing if it is missing or cannot compile"
    try:
        cuda = import_numba_cuda()
        from numba import config

        if hasattr(cuda, 'compile') and not getattr(config, 'ENABLE_CUDASIM', False):
            return cuda
    except ImportError:
        pass
    raise missing_tool('numba-cuda', f'Compiling {name} as Numba does', "'numba-cuda[cu13]'")


def _numba_counterpart(value, cuda):
    "Return Numba's counterpart of a module, function or type of the simulator; None for other objects"
    if isinstance(value, types.ModuleType):
        return (
            cuda
            if value.__name__ == 'gridstride.sim.cuda' or getattr(value, 'simulated', False)
            else _numba_module(value)
        )
    if (
        not hasattr(value, 'lanes')
        and not type(value).__module__.startswith('gridstride.sim')
        and not isinstance(value, type)
    ):
        return None
    for name in 'cuda', 'random', 'libdevice':
        simulator_module = import_module(f'gridstride.sim.{name}')
        for attribute in simulator_module.__all__:
            if getattr(simulator_module, attribute) is value and not hasattr(value, 'py_func'):
                return getattr(cuda if name == 'cuda' else import_module(f'numba.cuda.{name}'), attribute, None)
    return None


def _numba_module(module):
    "Return Numba's counterpart of a module of the simulator; None if there is none"
    name = module.__name__.replace('gridstride.sim.', 'numba.cuda.')
    provided_names = (
        import_module('gridstride.sim.submodules').MODULE_NAMESPACES if name.startswith('numba.cuda.') else ()
    )
    return import_module(name) if name.removeprefix('numba.cuda.') in provided_names else None


def _copy_for_numba(function, cuda, copies=None):
    "Return a copy of a function that uses Numba's `cuda` and such copies of its device functions"
    copies = {} if copies is None else copies
    if function in copies:
        return copies[function]

    def numba_version(value):
        if (counterpart := _numba_counterpart(value, cuda)) is not None:
            return counterpart
        if not hasattr(value, 'py_func'):
            return value
        options = {
            option: value
            for option, value in getattr(value, 'targetoptions', {}).items()
            if option in ('inline', 'forceinline', 'fastmath')
        }
        return cuda.jit(device=True, **options)(_copy_for_numba(value.py_func, cuda, copies))

    new_globals = {
        **function.__globals__,
        **{
            name: numba_version(value)
            for name, value in _captured_values(function).items()
            if name in function.__globals__
        },
    }
    closure = tuple(types.CellType(numba_version(cell.cell_contents)) for cell in function.__closure__ or ()) or None
    copy = types.FunctionType(function.__code__, new_globals, function.__name__, function.__defaults__, closure)
    copy.__module__ = function.__module__
    copies[function] = copy
    return copy


@contextlib.contextmanager
def _with_compute_capability(cc):
    "Make Numba compile device functions for a compute capability in a `with` block"
    from numba.cuda import dispatcher

    original = dispatcher.get_current_device
    device = types.SimpleNamespace(compute_capability=cc)
    dispatcher.get_current_device = lambda: device
    try:
        yield
    finally:
        dispatcher.get_current_device = original


class Numba(_PythonKernelSource):
    "A kernel of Numba or of the simulator"

    def __init__(self, kernel, args):
        self.function = getattr(kernel, 'py_func', kernel)
        self.types = signature(args, self.function)
        options = getattr(kernel, 'targetoptions', {})
        self.fastmath, self.max_registers = bool(options.get('fastmath')), options.get('max_registers')
        super().__init__(self.function, 'numba', self.types, self.fastmath, self.max_registers)

    def compile_with_numba(self, cc, **options):  # (PTX or other code, Numba's type of the result)
        "Compile for a compute capability with Numba. Raises CompilerMissing without libNVVM"
        options = dict(device=False, abi='numba', output='ptx', fastmath=self.fastmath) | options
        with real_numba_cuda():
            cuda = _numba_cuda(self.name)
            purpose = f'Compiling {self.name} as Numba does'
            try:
                with _with_compute_capability(cc):
                    return cuda.compile(_copy_for_numba(self.function, cuda), self.types, cc=cc, **options)
            except Exception as e:
                if any((folder / 'nvvm').is_dir() for folder in toolkit_folders()):
                    raise
                raise missing_tool('libNVVM', purpose, "'numba-cuda[cu13]'") from e

    def _run_front_end(self, cc):
        "Return the result of Numba's front end, before libNVVM"
        cuda = _numba_cuda(self.name)
        from numba.cuda import compiler, types
        from numba.cuda.core import sigutils

        args, _ = sigutils.normalize_signature(self.types)
        with _with_compute_capability(cc):
            return compiler.compile_cuda(_copy_for_numba(self.function, cuda), types.void, args, cc=cc)

    def llvm(self, cc) -> str:
        "Return the LLVM IR for a compute capability"
        with real_numba_cuda():
            return self._run_front_end(cc).library.get_llvm_str()

    def annotated_source(self, cc) -> str:
        "Return the source with Numba's types"
        with real_numba_cuda():
            return str(self._run_front_end(cc).type_annotation)

    def compile(self, arch, opt, flags) -> CompilerOutput:
        "Compile to PTX with Numba, and to machine code with nvJitLink. Raises CompilerMissing without a compiler"
        cc = divmod(int(re.search(r'\d+', arch)[0]), 10)
        ptx, _ = self.compile_with_numba(cc, opt=opt, lineinfo=True)
        entry = re.search(r'\.entry\s+([\w$]+)', ptx)[1]
        limit = [f'-maxrregcount={self.max_registers}'] if self.max_registers else []
        cubin, log = assemble(ptx, arch, opt, (*limit, *flags))
        compiler = f"Numba {version('numba')}, numba-cuda {version('numba-cuda')}"
        return CompilerOutput(ptx, entry, cubin, resource_usage(log, cubin, entry, arch), compiler)


# Triton contains its compilers. Constants (`tl.constexpr`) and options such as `num_warps` are passed by name. As for a
# launch, integers and addresses that are multiples of 16 are marked as such, and an integer 1 becomes a constant.
_TRITON_TYPES = {
    'bool': 'i1',
    'int8': 'i8',
    'int16': 'i16',
    'int32': 'i32',
    'int64': 'i64',
    'uint8': 'u8',
    'uint16': 'u16',
    'uint32': 'u32',
    'uint64': 'u64',
    'float16': 'fp16',
    'bfloat16': 'bf16',
    'float32': 'fp32',
    'float64': 'fp64',
    'float8_e4m3fn': 'fp8e4nv',
    'float8_e5m2': 'fp8e5',
}


# Environment variables that affect how Triton compiles
_COMPILER_VARIABLES = re.compile('TRITON_|DISABLE_|LLVM_|MLIR_|PTXAS_')


def triton_type(x):  # (Triton's type, whether `x` is a multiple of 16)
    """Return the Triton type of an example argument, and whether it is a multiple of 16.

    >>> triton_type(32), triton_type(0.5)
    (('i32', True), ('fp32', False))

    Raises TypeError for an unsupported object."""
    if isinstance(x, str):
        return x, False
    if hasattr(x, 'block_shape'):
        return f'tensordesc<{triton_type(x.base)[0][1:]}[{",".join(map(str, x.block_shape))}]>', False
    if isinstance(x, bool):
        return 'i1', False
    if isinstance(x, int):
        return 'i32' if -(2**31) <= x < 2**31 else 'i64', x % 16 == 0
    if isinstance(x, float):
        return 'fp32', False
    if not hasattr(x, 'dtype'):
        raise TypeError(f'a Triton kernel takes tensors and scalars; got {type(x).__name__}')
    address = x.data_ptr() if hasattr(x, 'data_ptr') else x.ctypes.data
    return '*' + _TRITON_TYPES[str(x.dtype).split('.')[-1]], address % 16 == 0


def clean_ttgir(text) -> str:
    "Return TTGIR without source locations"
    lines = (
        re.sub(r' loc\((?:[^()]|\([^()]*\))*\)', '', line) for line in text.splitlines() if not line.startswith('#loc')
    )
    return '\n'.join(line for line in lines if line.strip())


class Triton(_PythonKernelSource):
    "A kernel of Triton"

    def __init__(self, kernel, args, options):
        while not hasattr(kernel, 'arg_names'):
            kernel = kernel.fn  # the kernel in an autotuned kernel
        self.kernel = kernel
        parameter_names = kernel.arg_names
        values = {
            **dict(zip(parameter_names, args)),
            **{name: value for name, value in options.items() if name in parameter_names},
        }
        if missing_names := [name for name in parameter_names if name not in values]:
            raise TypeError(
                f"{kernel.fn.__name__} needs example arguments for {', '.join(missing_names)}: "
                'pass tensors and scalars in order, constants by name'
            )
        constant_names = {
            parameter
            for parameter, value in inspect.signature(kernel.fn).parameters.items()
            if 'const' in str(value.annotation)
        }
        self.constants = {
            name: value
            for name, value in values.items()
            if name in constant_names or (type(value) is int and value == 1) or value is None
        }
        type_and_multiple = {name: triton_type(value) for name, value in values.items() if name not in self.constants}
        self.types = {
            name: 'constexpr' if name in self.constants else type_and_multiple[name][0] for name in parameter_names
        }
        self.multiples_of_16 = [
            i for i, name in enumerate(parameter_names) if name in type_and_multiple and type_and_multiple[name][1]
        ]
        self.options = {name: value for name, value in options.items() if name not in parameter_names}
        key = (self.types, self.constants, self.multiples_of_16, sorted(self.options.items()))
        super().__init__(kernel.fn, 'triton', *map(str, key))

    def _source(self, triton):
        "Return the `ASTSource` for Triton's compiler: the kernel with the types of its arguments"
        from triton.compiler import ASTSource

        is_jitted = type(self.kernel).__name__ == 'JITFunction'  # an interpreted kernel is not
        fn = self.kernel if is_jitted else triton.runtime.jit.JITFunction(self.kernel.fn)
        constants = {
            (i,): self.constants[name] for i, name in enumerate(self.kernel.arg_names) if name in self.constants
        }
        return ASTSource(fn, self.types, constants, {(i,): [['tt.divisibility', 16]] for i in self.multiples_of_16})

    def compile(self, arch, opt, flags) -> CompilerOutput:
        "Compile with Triton. Raises CompilerMissing without it"
        try:
            import triton
        except ImportError:
            raise missing_tool('Triton', f'Compiling {self.name}', 'triton') from None
        with _environment(DISABLE_PTXAS_OPT='' if opt else '1'), _unchecked_functions(self.kernel.fn.__globals__):
            source = self._source(triton)
            environment = sorted((name, value) for name, value in os.environ.items() if _COMPILER_VARIABLES.match(name))
            key = [
                triton.__version__,
                source.hash(),
                self.name,
                self.file,
                arch,
                sorted(self.options.items()),
                environment,
            ]
            return cached_result('triton', lambda: self._compile(triton, source, arch), *map(str, key))

    def _compile(self, triton, source, arch):
        "Compile without Triton's own cache, which does not store the log of ptxas"
        from triton.backends.compiler import GPUTarget

        log = io.StringIO()
        target = GPUTarget('cuda', int(re.search(r'\d+', arch)[0]), 32)
        with _environment(TRITON_DUMP_PTXAS_LOG='1', TRITON_ALWAYS_COMPILE='1'), contextlib.redirect_stdout(log):
            kernel = triton.compile(source, target=target, options=self.options)
        ptx = kernel.asm['ptx']
        cubin = kernel.asm['cubin']
        entry = kernel.metadata.name
        chosen_by_triton = {'dynamic': kernel.metadata.shared, 'threads': 32 * kernel.metadata.num_warps}
        resources = {**resource_usage(log.getvalue(), cubin, entry, arch), **chosen_by_triton}
        return CompilerOutput(
            ptx, entry, cubin, resources, f'Triton {triton.__version__}', clean_ttgir(kernel.asm['ttgir'])
        )


@contextlib.contextmanager
def _unchecked_functions(namespace):
    "Replace checked functions among a kernel's globals with those of Triton in a `with` block"
    checked_functions = {name: function for name, function in namespace.items() if hasattr(function, 'jitted')}
    namespace.update({name: function.jitted for name, function in checked_functions.items()})
    try:
        yield
    finally:
        namespace.update(checked_functions)


@contextlib.contextmanager
def _environment(**values):
    "Set environment variables in a `with` block; '' removes a variable"
    previous_values = {name: os.environ.pop(name, None) for name in values}
    os.environ.update({name: value for name, value in values.items() if value})
    try:
        yield
    finally:
        for name in values:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in previous_values.items() if value is not None})
