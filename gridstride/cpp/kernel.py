"""`cuda_kernel`: compiles kernels without host code, and launches them from Python."""

import ctypes, os, re, subprocess, time
from collections import Counter
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from . import emulator
from .arguments import SCALARS, argument_tests, check_arguments, dtype_of, format_param, resolve_type, type_names
from .toolchain.build import CompileError, emulate
from .toolchain.compilers import CompilerMissing, nvcc
from .toolchain.cache import build
from .driver import (
    CLUSTER_ATTRIBUTE,
    COOPERATIVE_ATTRIBUTE,
    arch,
    core,
    launch_by_driver,
    ensure_max_dynamic_smem,
    allow_large_clusters,
    forward_printf,
    size_of_parameter,
    warn_unchecked,
)
from .toolchain.includes import current_folder, read_headers
from .launcher import launcher
from .load import EmulatorModule
from .toolchain.nvrtc import FIRST_HEADER, HOST_HEADERS, substitute_headers
from .frontend.reader import functions, kernels
from .rewriters.rewrite import strip_line_directives
from .frontend.tokens import WrongSource, tokens_of
from ..diagnostics.errors import LaunchError
from ..diagnostics.launch_config import (
    ConfiguredKernel,
    argument_error,
    configure,
    launch_error,
    read_brackets,
    require_positional,
)
from ..diagnostics.settings import checks_to_compile, parse_checks
from ..support.parameter_docs import documented
from ..utils import backend, dim3

_NO_CLUSTER = dim3(1)  # blocks per cluster of a launch without clusters
MAX_CACHED_LAUNCHES = 256  # per kernel


class Kernel:
    """A compiled kernel. `k[grid, block, stream, shared](*args)` launches it; stream and shared bytes are optional.

    `k.src` is its CUDA C, `k.params` a list of `Param`."""

    if TYPE_CHECKING:  # `cuda_kernel` may return `Kernels`, whose attributes are kernels

        def __getattr__(self, name: str) -> 'Kernel': ...

    def __init__(self, name, params, run, device, build_result):
        self.__name__ = name
        self.params = params
        self._run = run
        self.device = device
        self.build_result = build_result
        self.handle = getattr(run, 'handle', None)  # the driver's handle, on a GPU
        self._large_clusters = False
        self._argument_tests = argument_tests(params, device)
        # on the emulator, for configurations of integers: the function that launches it, and the validated sizes
        self._launchers, self._configs = {}, {}
        module = self.handle and run.parameters is not None and launcher()
        self._launches = Launches(self, module, run.parameters, run.launch_attributes) if module else None
        self.__doc__ = f'__global__ void {name}({", ".join(map(format_param, params))})'

    def __repr__(self):
        return f'<{self.__doc__}>'

    def __call__(self, *args):
        raise launch_error(self.__name__, 'no_brackets')

    def __getitem__(self, config) -> Any:  # a launch; for type checkers also an item of `Kernels`
        if (launches := self._launches) is not None:
            if launches.are_integers(config) or launches.are_integers(config := with_stream_handle(config)):
                return launches[config]
        elif _has_only_integers(config):
            if (launcher := self._launchers.get(config)) is None:
                brackets = read_brackets(self.__name__, config)
                launcher = ConfiguredKernel(self._launch_from_integers, *brackets)
                if len(self._launchers) < MAX_CACHED_LAUNCHES:
                    self._launchers[config] = launcher
            return launcher
        return self.checking_launcher(config)

    def checking_launcher(self, config):
        "Return a function that checks its arguments and launches the kernel"
        grid, block, stream, shared = read_brackets(self.__name__, config)
        return ConfiguredKernel(self._launch_from_brackets, grid, block, stream, shared)

    def _launch_from_brackets(self, grid, block, stream, shared, /, *args, **named):
        require_positional(self.__name__, named)
        self.launch(args, grid, block, stream, shared)

    def _launch_from_integers(self, grid, block, stream, shared, /, *args, **named):
        require_positional(self.__name__, named)
        if (config := self._configs.get((grid, block, stream, shared))) is None:
            config = configure(self.__name__, grid, block, stream, shared, opts_in=True)
            if len(self._configs) < MAX_CACHED_LAUNCHES:
                self._configs[grid, block, stream, shared] = config
        self._launch_configured(args, config)

    def __reduce__(self):
        "Pickle the kernel as its source: unpickling compiles it, or finds it in the cache"
        return cuda_kernel, (self.src, self.__name__, self.checks)

    def launch(self, args, grid, block, stream=None, shared=0, cluster=None):
        "Check `args` and launch the kernel with them; `cluster`: blocks per cluster"
        config = configure(
            self.__name__, grid, block, stream, shared, cluster, opts_in=True, large_clusters=self._large_clusters
        )
        self._launch_configured(args, config)

    def _launch_configured(self, args, config):
        tests = self._argument_tests
        if len(args) != len(tests) or not all([accepts(x) for accepts, x in zip(tests, args)]):
            check_arguments(self.__name__, self.params, args, self.device)
            args = [np.array(x) if isinstance(x, np.ndarray) and not x.flags.writeable else x for x in args]
        if self.handle:
            ensure_max_dynamic_smem(self, config.shared)
            return self._run(args, *config)
        self._run(args, *config, self._large_clusters)

    def allow_large_clusters(self):
        """Allow clusters of up to 16 blocks, which not every GPU supports, instead of 8, in all later launches.

        It sets cudaFuncAttributeNonPortableClusterSizeAllowed; raises `LaunchError` if the GPU refuses.

            kernel.allow_large_clusters()
            kernel.launch(args, 16, 128, cluster=16)"""
        if self.handle:
            allow_large_clusters(self.handle, self.__name__)
        self._large_clusters = True


def _has_only_integers(config):
    "Return whether a launch configuration consists of integers and tuples of integers"
    if type(config) is not tuple:
        return False
    for size in config:
        if type(size) is not int and (type(size) is not tuple or any([type(n) is not int for n in size])):
            return False
    return True


def with_stream_handle(config):
    "Return the launch configuration with a torch stream replaced by its handle"
    if isinstance(config, tuple) and len(config) > 2 and (raw := getattr(config[2], 'cuda_stream', None)) is not None:
        return (*config[:2], raw, *config[3:])
    return config


# The compiled launcher falls back to `Kernel.checking_launcher` for arguments of unsupported types, such as a ctypes
# struct, and for a failed launch; `checking_launcher` converts the arguments, and raises the error.
class Launches(dict):
    "The compiled launches of a kernel on a GPU: {configuration (integers or tuples of integers): launch}"

    def __init__(self, kernel, module, parameters, launch_attributes):
        self.kernel = kernel
        self.module = module
        self.parameters = parameters
        self.launch_attributes = launch_attributes
        self.are_integers = module.are_integers

    def __missing__(self, config):
        checking_launcher = self.kernel.checking_launcher(config)
        grid, block, stream, shared = read_brackets(self.kernel.__name__, config)
        try:
            sizes = configure(self.kernel.__name__, grid, block, None, shared, opts_in=True)
            ensure_max_dynamic_smem(self.kernel, sizes.shared)
            size = tuple(sizes.grid), tuple(sizes.block), sizes.shared
            options = self.launch_attributes, self.parameters, checking_launcher
            launch = self.module.Launch(self.kernel.handle, *size, *options)
        except (LaunchError, ValueError):  # `checking_launcher` reports it, or launches a kernel with large parameters
            return checking_launcher
        if len(self) >= MAX_CACHED_LAUNCHES:
            self.clear()
        self[config] = launch if stream is None else launch.on(stream, checking_launcher)
        return self[config]


class Kernels(dict):
    "The kernels of one source, as a dict by name and as attributes"

    def __getattr__(self, k):
        try:
            return self[k]
        except KeyError:
            raise AttributeError(f'no kernel {k!r}; available: {", ".join(self)}') from None

    def __missing__(self, k):
        first = next(iter(self))
        raise KeyError(f'{k!r} is not a kernel; available: {", ".join(self)}. Launch with .{first}[grid, block](...)')


def _quote_source(src):
    "Return a description of a source for messages; a source of one line is quoted, because it may be a path"
    return 'this source' if '\n' in src.strip() else repr(src.strip()[:60])


def _base_name(name):
    "Return the name of a kernel without its namespace and template arguments"
    return name.split('<')[0].split('::')[-1].strip()


def _resolve_kernels(src, name):
    "Return (requested name, `Function`) per requested kernel; raises `WrongSource` if a kernel does not exist"
    if not isinstance(src, str):
        hint = ': pass its .read_text()' if hasattr(src, 'read_text') else ''
        raise TypeError(f'src must be a string of CUDA C, not {type(src).__name__}{hint}')
    all_kernels = kernels(src)
    kernel_of_name = {k.name: k for k in all_kernels}
    if not kernel_of_name:
        raise WrongSource(f'no __global__ function in {_quote_source(src)}: a kernel begins with `__global__ void`')
    num_definitions = Counter(
        (function.scope, function.name) for function in functions(src) if '__global__' in function.specifiers
    )
    if repeated_name := next((name for (_, name), n in num_definitions.items() if n > 1), None):
        problem = f'{repeated_name} is the name of several kernels, which cuda_kernel cannot distinguish'
        raise WrongSource(f'{problem}: give each a different name, or launch them from host code with load_cuda')
    names = (
        [name]
        if isinstance(name, str)
        else list(name)
        if name
        else [k for k, f in kernel_of_name.items() if not f.template]
    )
    if not names:
        example = f"cuda_kernel(src, name='{next(iter(kernel_of_name))}<float>')"
        problem = f'all kernels of this source are templates ({", ".join(kernel_of_name)}): name the arguments of one'
        raise WrongSource(f'{problem}, as in {example}')
    for requested_name in names:
        if _base_name(requested_name) not in kernel_of_name:
            raise WrongSource(f'no kernel {requested_name!r} in this source; available: {", ".join(kernel_of_name)}')
        if kernel_of_name[_base_name(requested_name)].template and '<' not in requested_name:
            raise WrongSource(
                f"{requested_name} is a template: name its arguments, as in name='{requested_name}<float>'"
            )
    kernel_of_scoped_name = {f'{k.scope}::{k.name}': k for k in all_kernels}
    requests = [
        (
            requested_name,
            kernel_of_scoped_name.get(requested_name.split('<')[0].strip(), kernel_of_name[_base_name(requested_name)]),
        )
        for requested_name in names
    ]
    for _, k in requests:
        _reject_parameters(k)
    code = ' '.join(tokens_of(src).texts)
    return [(requested_name, _with_resolved_types(code, requested_name, k)) for requested_name, k in requests]


# A scalar is converted to its parameter's type, so the type of `real eps` must be known before the launch.
def _with_resolved_types(code, requested_name, kernel):
    "Return the kernel with aliases and type parameters resolved in the types of its parameters"
    types = type_names(code, kernel.template, requested_name)
    return kernel._replace(params=[_with_resolved_type(p, types) for p in kernel.params])


def _with_resolved_type(param, types):
    """Return a `Param` with its alias resolved. A pointer to an alias of an integer, such as `Bits` or `Word`, keeps
    the alias and accepts arrays of any type, because it often points to the bits of other types"""
    resolved = resolve_type(param.type, types)
    dtype, is_pointer = dtype_of(resolved)
    is_integer = dtype is not None and 'int' in dtype
    return param if is_pointer and is_integer else param._replace(type=resolved)


def _reject_parameters(kernel):
    "Raise `WrongSource` if the kernel has a parameter that Python cannot pass"
    for p in kernel.params:
        if p.type.endswith('&'):
            description = f'a reference parameter, {p.type} {p.name}, which Python cannot pass'
            raise WrongSource(f'{kernel.name} has {description}: declare a value, or a pointer to an array')
        if re.match(r'(const )?std::(vector|string|array)\b', p.type):
            description = f'a parameter {p.type} {p.name}, a type that exists only on the host'
            raise WrongSource(f'{kernel.name} has {description}: declare a pointer to an array and its size')
        if re.match(r'(const )?(CUt|T)ensorMap$', p.type) and not p.is_grid_constant:
            remedy = f'declare it `const __grid_constant__ {p.type.removeprefix("const ")} {p.name}`'
            raise WrongSource(f'TMA cannot read the parameter {p.type} {p.name} of {kernel.name}: {remedy}')


def _to_identifier(name):
    return re.sub(r'\W+', '_', name).strip('_')


def _module_name(requests):
    return _to_identifier(requests[0][1].name)


@documented
def cuda_kernel(
    src: str,  # CUDA C with `__global__` functions, and the functions that they call
    name=None,  # of the kernel, or a list of names; `'k<float>'` for a template; None: all kernels
    checks=None,  # True, False, 'racecheck, memcheck', or a list; None: all, if `options` enable any
) -> Union[Kernel, 'Kernels']:  # `Kernels` if there are several
    """Compile kernels without host code; raises `CompileError` with the lines, `WrongSource` for a missing kernel.

    Example: `k = cuda_kernel(src); k[grid, block](x, out, n)`"""
    requests, checks = _resolve_kernels(src, name), parse_checks(checks)
    src = src.removeprefix('\ufeff')  # a byte order mark
    compiled = (_compile_for_gpu if backend() == 'gpu' else _compile_for_emulator)(src, requests, checks)
    for k in compiled.values():
        k.src, k.checks = src, checks
    return compiled[requests[0][0]] if len(requests) == 1 else compiled


def _export(name, f):
    "Return C++ code that exports the kernel that was requested as `name`"
    return (
        f'GRIDSTRIDE_KERNEL_AS({_to_identifier(name)}, {f.scope + "::" if f.scope and "::" not in name else ""}{name})'
    )


def _compile_for_emulator(src, requests, checks):
    checks = checks_to_compile(checks)
    exports = ' '.join(_export(instantiation, f) for instantiation, f in requests)
    file = _module_name(requests)
    options = dict(original=src, extensions=('std', 'lambda'), suffix=f'\n{exports}\n')
    build_result = emulate(strip_line_directives(src), file, bool(checks), **options)
    emulator.load_runtime()
    module = EmulatorModule(build_result, file, {}, checks, src)

    def run(name, args, grid, block, stream, shared, cluster=_NO_CLUSTER, large_clusters=False):
        emulator.defer_arguments(args)
        module.launch(name, grid, block, args, shared, cluster=cluster, large_clusters=large_clusters)

    run_of_kernel = {name: partial(run, _to_identifier(name)) for name, _ in requests}
    return Kernels({name: Kernel(name, f.params, run_of_kernel[name], 'cpu', build_result) for name, f in requests})


# NVRTC, the compiler of device code as a library, is faster than nvcc, which also compiles host code.
def _compile_for_gpu(src, requests, checks):
    if checks:
        warn_unchecked()
    learners_headers, other_headers, *_ = read_headers(src, current_folder())
    headers = (
        (str(current_folder()), *learners_headers.items(), *other_headers.items())
        if learners_headers or other_headers
        else ()
    )
    module, seconds = _compile_by_nvrtc(src, tuple(name for name, _ in requests), _module_name(requests), headers)
    run_of_kernel = {name: _make_launcher(module.get_kernel(name), name, f.params, src) for name, f in requests}
    return Kernels({name: Kernel(name, f.params, run_of_kernel[name], 'cuda', seconds) for name, f in requests})


def _native_arch():
    "Return the architecture-specific target of this GPU: for Hopper sm_90a, which has wgmma and setmaxnreg"
    return 'sm_90a' if arch() == 'sm_90' else arch()


@lru_cache
def _compile_by_nvrtc(src, names, file, headers):
    """Compile and load the kernels `names`; returns the module and the time, in seconds.

    `headers`: the folder of the learner's headers, then (name, text) of each header; () for none."""
    import torch

    torch.cuda.current_stream()  # makes torch's context the current one
    start = time.perf_counter()
    core().Device(torch.cuda.current_device()).set_current()
    folders = [*_toolkit_includes(), *headers[:1]]
    folders.append(_substitute_headers_folder('\n'.join([src, *(text for _, text in headers[1:])]), folders))
    options = dict(std='c++17', arch=_native_arch(), name=f'{file}.cu', lineinfo=True, include_path=folders)
    try:
        program = core().Program(src, 'c++', core().ProgramOptions(**options, pre_include=FIRST_HEADER))
        return program.compile('cubin', name_expressions=names), time.perf_counter() - start
    except Exception as e:
        if 'error' not in str(e):
            raise
        raise CompileError(src, f'{file}.cu', str(e)) from None


# Each set of headers needs its own folder, because the key of NVRTC's cache contains the folder's path, not the texts.
def _substitute_headers_folder(src, folders):
    "Return a folder with substitutes for the host's headers that `src` includes, and those that nvcc itself includes"
    texts = {k: v for k, v in substitute_headers(src, folders).items() if k == FIRST_HEADER or k in HOST_HEADERS}
    return str(build(texts, [], section='nvrtc', shared=True).folder)


@lru_cache
def _toolkit_includes():
    "Return the folders of the toolkit's headers and of libcu++; [] without a toolkit, so that NVRTC uses pip's headers"
    try:
        include = _toolkit_folder(nvcc()) / 'include'
    except CompilerMissing:
        return []
    return [str(folder) for folder in (include, include / 'cccl') if folder.is_dir()]


# The nvcc on the path may be a script that calls the real nvcc, which reports the folder of its toolkit.
def _toolkit_folder(compiler):
    "Return the folder of an nvcc's toolkit"
    log = subprocess.run([compiler, '--dryrun', '-x', 'cu', '-c', os.devnull], capture_output=True, text=True).stderr
    toolkit_line = re.search(r'^#\$ TOP=(.+?)\s*$', log, re.M)
    return Path(toolkit_line[1] if toolkit_line else Path(compiler).resolve().parent.parent).resolve()


# The compiled launcher identifies scalar types by formats of Python's `struct`, element types by DLPack's codes.
_FORMATS = dict(int8='b', uint8='B', int16='h', uint16='H', int32='i', uint32='I', int64='q', uint64='Q')
_FORMATS.update(float32='f', float64='d', bool='?')
_KINDS = dict(int=0, uint=1, float=2, bfloat=4)  # DLDataTypeCode
_ELEMENT_CODES = {f'{kind}{bits}': (code, bits) for kind, code in _KINDS.items() for bits in (8, 16, 32, 64)}
_ELEMENT_CODES.update({'bool': (6, 8), None: (0, 0)})


def _to_ctypes(x, dtype, is_pointer):
    "Convert an argument to ctypes"
    if is_pointer:
        return ctypes.c_void_p(0 if x is None else x.data_ptr())
    if dtype in SCALARS:
        return SCALARS[dtype](x)
    if dtype in ('float16', 'bfloat16'):
        return ctypes.c_uint16(_half_bits(x, dtype))
    if isinstance(x, (ctypes.Structure, ctypes.Array)):
        return x
    return ctypes.create_string_buffer(bytes(x), len(bytes(x)))


def _half_bits(x, dtype):
    "Convert a number to float16 or bfloat16, and return its bits as an integer"
    import torch

    return int(torch.tensor(float(x), dtype=getattr(torch, dtype)).view(torch.int16)) & 0xFFFF


def _parameter_formats(types, struct_sizes):
    "Return the types of a kernel's parameters as codes for `launcher.cpp`; None if it does not support one of them"
    formats = [('*', *_ELEMENT_CODES[dtype]) if is_pointer else (_FORMATS.get(dtype),) for dtype, is_pointer in types]
    for i, size in struct_sizes.items():
        formats[i] = 'V', 0, 0, bytes(size)
    return formats if all(format_[0] for format_ in formats) else None


def _make_launcher(kernel, name, params, src):
    """Return a function (arguments, grid, block, stream, bytes of shared memory, blocks per cluster) that launches a
    kernel of `cuda.core`.

    If the source uses a grid-wide barrier, launches are cooperative."""
    import torch

    has_printf = 'printf' in src
    launch_attributes = [(COOPERATIVE_ATTRIBUTE, (1, 0, 0))] if 'this_grid' in src else []

    types = [dtype_of(p.type) for p in params]
    handle = int(getattr(kernel, 'handle', None) or kernel._handle)
    struct_indices = [i for i, (dtype, is_pointer) in enumerate(types) if not (dtype or is_pointer)]
    struct_sizes = {i: size_of_parameter(handle, i) for i in struct_indices}

    def run(args, grid, block, stream, shared, cluster):
        stream = torch.cuda.current_stream() if stream is None else stream
        values = [_to_ctypes(x, *t) for x, t in zip(args, types)]
        for i, n in struct_sizes.items():
            if ctypes.sizeof(values[i]) != n:
                problem = f'has {n} bytes, got {ctypes.sizeof(values[i])}'
                raise argument_error(name, i, format_param(params[i]), problem)
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        with forward_printf(has_printf):
            stream_handle = int(getattr(stream, 'cuda_stream', stream) or 0)
            attributes = launch_attributes + [(CLUSTER_ATTRIBUTE, cluster)] * (cluster.size > 1)
            launch_by_driver(handle, name, grid, block, shared, stream_handle, pointers, attributes)

    run.handle, run.kernel = handle, kernel  # the handle is valid as long as the kernel object exists
    run.launch_attributes = launch_attributes
    run.parameters = None if has_printf else _parameter_formats(types, struct_sizes)
    return run
