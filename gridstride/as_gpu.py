"""Runs unchanged programs and notebooks that expect a GPU on a machine without one: torch's `.cuda()` and
`device='cuda'`, `load_inline`, `load`, `numba.cuda` and Triton use the emulator, the simulator and `gridstride.tile`.

    python -m gridstride.as_gpu program.py [its arguments]
    python -m gridstride.as_gpu notebook.ipynb         # executed, and saved next to it as notebook.emulated.ipynb
    %load_ext gridstride.as_gpu                        # the first cell of a notebook that you run yourself

Tensors "on the GPU" are copies in CPU memory with the device `cuda:0`: results are real, times are not, and a tensor
that was left on the CPU by mistake is not reported. On a machine with a GPU nothing is changed.

All checks are enabled. `--unchecked`, before the name of the file, disables them: compiled kernels run several times
faster, and their mistakes are no longer reported. In a notebook that you run yourself, write
`from gridstride import as_gpu; as_gpu.enable(unchecked=True)` in the first cell instead. A cell that takes longer than
`--seconds` is interrupted."""

import argparse, atexit, builtins, inspect, os, re, runpy, shutil, sys, types
from contextlib import ExitStack, contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from time import perf_counter

from . import torch_cuda
from .child_processes import emulate_children
from .support.function_source import recorded_sources
from .support.lazy_exports import MissingPackage, paused_garbage_collection, require, run_command
from .support.numba_cuda import replace_modules
from .utils import backend

__all__ = ['as_gpu', 'enable', 'python_kernels', 'simulate_numba', 'load_ipython_extension']


def _as_list(sources):
    return [sources] if isinstance(sources, str) else list(sources or [])


@contextmanager
def _ignore_missing_compiler():
    "Unset `CXX` in the `with` block if its compiler is not installed: programs set it for their author's machine"
    compiler = os.environ.get('CXX')
    if compiler is None or shutil.which(compiler.split()[0]):
        yield
        return
    print(f'gridstride: {compiler} (from the environment variable CXX) is not installed; another compiler is used')
    del os.environ['CXX']
    try:
        yield
    finally:
        os.environ['CXX'] = compiler


def _load_inline(original):
    "Return torch's `load_inline`, which uses the emulator for CUDA sources"
    from .cpp import extension, load_cuda

    signature = inspect.signature(original)  # newer versions of torch have `sycl_sources` before `functions`

    def load_inline(*args, **options):
        arguments = signature.bind(*args, **options).arguments
        if not arguments.get('cuda_sources') or arguments.get('sycl_sources'):
            return original(*args, **options)
        names = list(arguments['functions']) if arguments.get('functions') is not None else None
        cuda_src, cpp_src = ('\n'.join(_as_list(arguments[key])) for key in ('cuda_sources', 'cpp_sources'))
        with _ignore_missing_compiler():
            options = dict(verbose=arguments.get('verbose', False), name=arguments['name'])
            operators = extension.find_operators(cpp_src + cuda_src, arguments['name'])
            if names is not None:
                names += [function.split('::')[-1] for function in extension.functions_of(operators)]
            module = load_cuda(cuda_src, cpp_src or None, names, **options)
            extension.register(operators, module)
            return module

    return load_inline


def _load(original):
    "Return torch's `load`, which uses the emulator for CUDA sources"
    signature = inspect.signature(original)

    def load(*args, **options):
        arguments = signature.bind(*args, **options).arguments
        sources = [Path(source) for source in _as_list(arguments['sources'])]
        if not any(source.suffix == '.cu' for source in sources):
            return original(*args, **options)
        from .cpp.extension import load_files

        with _ignore_missing_compiler():
            include_paths, verbose = arguments.get('extra_include_paths'), arguments.get('verbose', False)
            return load_files(arguments['name'], sources, include_paths, verbose)

    return load


_calls = types.SimpleNamespace(count=0, seconds=0.0)  # calls of compiled code in the current cell


def _add_timer(original):
    "Return `EmulatorModule.call` with a timer that adds to `_calls`"

    def call(self, entry, args):
        start = perf_counter()
        _calls.count += 1
        try:
            return original(self, entry, args)
        finally:
            _calls.seconds += perf_counter() - start

    return call


def _replace_attribute(stack, owner, name, value):
    "Set `owner.name` to `value` until the stack is closed"
    missing = object()
    original = getattr(owner, name, missing)
    setattr(owner, name, value)
    stack.callback(lambda: delattr(owner, name) if original is missing else setattr(owner, name, original))


def _replace_module(stack, name, module):
    "Make `import name` return `module` until the stack is closed"
    original = sys.modules.get(name)
    sys.modules[name] = module
    stack.callback(lambda: sys.modules.pop(name, None) if original is None else sys.modules.update({name: original}))


def _dispatch_by_target(simulated, original):
    "Make a `vectorize` that calls the simulator's if the target is a GPU, else Numba's"

    def decorator(*args, **options):
        return (simulated if options.get('target') == 'cuda' else original)(*args, **options)

    return decorator


def _emulate_numba(stack):
    "Make `from numba import cuda` and `from numba_cuda_mlir import cuda` import the module of the simulator"
    from . import sim
    from .diagnostics.settings import change, settings
    from .sim.submodules import SubmoduleFinder, make_shim, mlir_modules

    stack.enter_context(change(settings, counts_from_end=True))
    stack.enter_context(recorded_sources())
    finder = SubmoduleFinder()
    sys.meta_path.insert(0, finder)
    stack.callback(sys.meta_path.remove, finder)
    for name, module in mlir_modules().items():
        _replace_module(stack, name, module)
    try:
        import numba
    except ImportError:
        return
    stack.callback(replace_modules, replace_modules({'numba.cuda': make_shim()}))
    for name in ('vectorize', 'guvectorize'):
        _replace_attribute(stack, numba, name, _dispatch_by_target(getattr(sim, name), getattr(numba, name)))


class _ShimLoader:
    "Loads substitutes for the modules of Triton if it is not installed"

    is_shim = True

    def create_module(self, spec):
        from .tile import triton_patches

        modules = triton_patches.substitute_modules()
        sys.modules.update(modules)
        return modules['triton']

    def exec_module(self, module):
        pass


class _PatchingFinder:
    "Finds the module `name`, and calls `patch` as soon as it is imported"

    name = ''

    def __init__(self, stack):
        self.stack = stack

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        spec = next(filter(None, (f.find_spec(name, path) for f in sys.meta_path if f is not self)), None)
        if spec:
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (execute(module), self.patch(module))
        return spec

    def install(self):
        "Patch the module, now or when it is imported"
        if self.name in sys.modules:
            return self.patch(sys.modules[self.name])
        sys.meta_path.insert(0, self)
        self.stack.callback(sys.meta_path.remove, self)

    def patch(self, module):
        raise NotImplementedError


class _TorchFinder(_PatchingFinder):
    "Makes torch emulate a GPU"

    name = 'torch'

    def patch(self, torch):
        for name, substitute in torch_cuda.cuda_substitutes().items():
            _replace_attribute(self.stack, torch.cuda, name, substitute)
        _replace_attribute(self.stack, torch, 'compile', torch_cuda.return_model)
        _replace_attribute(self.stack, torch._C, '_cuda_getCurrentRawStream', lambda device: 0)
        for module in (torch.cpu, torch.cuda):
            _replace_attribute(self.stack, module, 'set_stream', lambda stream: None)
        # This module is imported now, because its import queries torch for a GPU.
        from torch.utils import cpp_extension

        _replace_attribute(self.stack, cpp_extension, 'load_inline', _load_inline(cpp_extension.load_inline))
        _replace_attribute(self.stack, cpp_extension, 'load', _load(cpp_extension.load))
        _emulate_devices(self.stack)


class _TritonFinder(_PatchingFinder):
    "Makes Triton's kernels run on the CPU, with checks"

    name = 'triton'

    def find_spec(self, name, path=None, target=None):
        spec = super().find_spec(name, path, target)
        return ModuleSpec('triton', _ShimLoader()) if spec is None and name == 'triton' else spec

    def patch(self, triton):
        from .tile import profiler, triton_patches

        triton_patches.patch(triton, lambda *args: _replace_attribute(self.stack, *args))
        profiler_modules = profiler.modules()
        for name, module in profiler_modules.items():
            _replace_module(self.stack, name, module)
        _replace_attribute(self.stack, triton, 'profiler', profiler_modules['triton.profiler'])


def _hide_from_torch(original):
    "Make an `__import__` that hides the substitute for Triton from torch, which would try to compile with it"

    def import_module(name, globals=None, *args, **kwargs):
        if name.partition('.')[0] == 'triton' and (globals or {}).get('__name__', '').startswith('torch.'):
            raise ModuleNotFoundError("No module named 'triton'", name=name)
        return original(name, globals, *args, **kwargs)

    return import_module


def _emulate_triton(stack):
    "Make `import triton` import a Triton whose kernels are checked on the CPU"
    finder = _TritonFinder(stack)
    if 'triton' not in sys.modules and finder.find_spec('triton').loader.__class__ is _ShimLoader:
        _replace_attribute(stack, builtins, '__import__', _hide_from_torch(builtins.__import__))
        stack.callback(_remove_substitutes)
    finder.install()


def _remove_substitutes():
    if getattr(sys.modules.get('triton'), 'is_shim', False):
        for k in [k for k in sys.modules if k.partition('.')[0] == 'triton']:
            del sys.modules[k]


@contextmanager
def as_gpu(
    unchecked=False,  # without checks: faster, and mistakes in kernels are not reported
    imports_torch=True,  # False: torch need not be installed, and emulates a GPU once the program has imported it
):
    "Emulate a GPU for the code in the `with` block; on a machine with a GPU, change nothing"
    if backend() == 'gpu':
        yield
        return
    if imports_torch:
        require('torch', 'gridstride.as_gpu')
        with paused_garbage_collection():
            import torch  # noqa: F401

    from .cpp import emulator, load
    from .diagnostics.settings import change, settings

    with ExitStack() as stack:
        # Work that takes 2 ms on a GPU may take minutes on the emulator, so the time limit is an hour.
        stack.enter_context(emulator.options(False if unchecked else None, seconds=3600))
        stack.enter_context(change(settings, seconds=3600.0))
        _replace_attribute(stack, load.EmulatorModule, 'call', _add_timer(load.EmulatorModule.call))
        _emulate_numba(stack)
        _emulate_triton(stack)
        _TorchFinder(stack).install()
        yield


def _emulate_devices(stack):
    "Make torch's functions accept the emulated GPU as a device"
    import torch

    from .cpp import extension, values
    from .gpu_tensors import GPU, EmulatedDevices

    devices = EmulatedDevices()
    for name in ('set_default_device', 'get_default_device'):
        _replace_attribute(stack, torch, name, getattr(devices, f'make_{name}')(getattr(torch, name)))
    _replace_attribute(stack, values, 'EMULATED_GPU', GPU)
    _replace_attribute(stack, extension, 'inside_operator', devices.inside_operator)
    _replace_attribute(stack, torch, 'Generator', devices.make_generator())
    _replace_attribute(
        stack, torch.autograd, '_engine_run_backward', devices.make_run_backward(torch.autograd._engine_run_backward)
    )
    stack.enter_context(devices)


@contextmanager
def python_kernels():
    "Simulate kernels of Numba and Triton in the `with` block, on any machine; torch is neither needed nor changed"
    with ExitStack() as stack:
        _emulate_numba(stack)
        _emulate_triton(stack)
        yield


def simulate_numba():
    """Make `numba.cuda` and `numba_cuda_mlir.cuda` import the simulator until this process ends.

    It corresponds to NUMBA_ENABLE_CUDASIM=1 for Numba's simulator; call it before the first import of either."""
    from .sim import host

    stack = ExitStack()
    _emulate_numba(stack)
    _replace_attribute(stack, host, 'has_numpy_operations', True)
    _report_simulator(stack)
    atexit.register(stack.close)
    emulate_children(False, numba_alone=True)


def _report_simulator(stack):
    "Set `numba.config.ENABLE_CUDASIM`, which packages read to find out whether a GPU is used"
    try:
        from numba.core import config
    except ImportError:
        return
    _replace_attribute(stack, config, 'ENABLE_CUDASIM', 1)


UNCHECKED = 'unchecked: mistakes in kernels are not reported'
_process_context = []  # the context that `enable` entered for the rest of the process


def enable(
    unchecked=False,  # without checks
    quiet=False,  # print nothing
    imports_torch=True,  # as for `as_gpu`
) -> bool:  # whether a GPU is emulated
    """Emulate a GPU for the rest of this process and for Python programs that it starts, and print one line about it.

    On a machine with a GPU, change nothing."""
    if backend() == 'gpu':
        return False
    if not _process_context:
        _process_context.append(as_gpu(unchecked, imports_torch))
        _process_context[0].__enter__()
        # Otherwise Python would close the context after it has unloaded modules that the context needs.
        atexit.register(_process_context[0].__exit__, None, None, None)
        emulate_children(unchecked)
        state = f'emulated, on the CPU{f"; {UNCHECKED}" if unchecked else ""}'
        if not quiet:
            print(f"gridstride: no GPU found; .cuda(), device='cuda', load_inline, numba.cuda and Triton are {state}")
    return True


# Work that takes 2 ms on a GPU may take minutes on the emulator, so it should not be repeated 70 times.
def _time_once(shell):
    "Make %timeit and %%timeit run code once, and print a note"
    original = shell.find_magic('timeit')

    def timeit(line, cell=None):
        line = '' if line is None else re.sub(r'^(\s*-[nr]\s*\d+)+', '', line)
        print('gridstride: emulated, so timed once; the time says nothing about a GPU')
        return original(f'-n1 -r1 {line}', cell)

    shell.register_magic_function(timeit, 'line_cell', 'timeit')


# This helps to estimate how long an interrupted cell would take.
def _count_calls(shell):
    "Make an interrupted cell print how many calls of compiled code it made, and their time"

    def begin(info):
        _calls.count = _calls.seconds = 0

    def end(result):
        if isinstance(result.error_in_exec, KeyboardInterrupt) and _calls.count > 1:
            seconds = _calls.seconds / _calls.count
            print(f'gridstride: in call {_calls.count:,} of compiled code, {seconds:.2g} s each')

    shell.events.register('pre_run_cell', begin)
    shell.events.register('post_run_cell', end)


def load_ipython_extension(shell):
    "Implement `%load_ext gridstride.as_gpu`; `AsGPU.unchecked=True` in IPython's configuration disables the checks"
    if enable('AsGPU' in shell.config and str(shell.config.AsGPU.unchecked) == 'True'):
        _time_once(shell)
        _count_calls(shell)


def execute(
    path,  # of a notebook
    seconds=300,  # time limit of a cell
    unchecked=False,  # without checks
) -> Path:  # of the executed copy, next to it
    "Run all cells of a notebook in a fresh kernel, in the folder of the notebook, even if one fails"
    import nbformat
    from nbclient import NotebookClient

    nb = nbformat.read(path, as_version=4)

    def start(cell, cell_index):
        print(f'\r{path.name}: cell {cell_index + 1} of {len(nb.cells)}', end='', file=sys.stderr, flush=True)

    NotebookClient(
        nb,
        kernel_name='python3',  # this Python, even if the notebook names another kernel
        timeout=seconds,
        startup_timeout=300,  # seconds: the default, 60, is too short on a loaded machine
        interrupt_on_timeout=True,
        allow_errors=True,
        resources=dict(metadata=dict(path=str(path.parent))),
        extra_arguments=[
            '--IPKernelApp.extra_extensions=gridstride.as_gpu',
            f'--AsGPU.unchecked={unchecked}',
            '--IPKernelApp.log_level=ERROR',
        ],
        on_cell_start=start,
    ).execute()
    print(file=sys.stderr)
    output_path = path.with_suffix('.emulated.ipynb')
    nbformat.write(nb, output_path)
    return output_path


def _interruption_message(outputs, seconds, unchecked):
    "Return the message for an interrupted cell"
    printed_text = ''.join(output.text for output in outputs if output.output_type == 'stream')
    calls = re.search(r'^gridstride: (in call .* each)$', printed_text, re.M)
    hint = '' if unchecked else '; --unchecked is faster'
    cause = f', {calls[1]}; reduce the number of calls' if calls else '; it may launch a kernel many times, to time it'
    return f'interrupted after {seconds:g} s (--seconds){cause}{hint}'


def _failed_cells(cells, seconds, unchecked):
    "Yield (index, message) of each failed cell"
    for i, c in enumerate(cells):
        for output in c.get('outputs', []):
            if output.output_type == 'error' and output.ename == 'KeyboardInterrupt':
                yield i, _interruption_message(c.outputs, seconds, unchecked)
            elif output.output_type == 'error':
                yield i, f'{output.ename}: {next(iter(output.evalue.splitlines()), "")}'


def _print_report(path, seconds, unchecked):
    "Print the result of an executed notebook; return the number of failed cells"
    import nbformat

    cells = nbformat.read(path, as_version=4).cells
    failures = list(_failed_cells(cells, seconds, unchecked))
    num_cells = sum(c.cell_type == 'code' and bool(c.source.strip()) for c in cells)
    print(f'{path}: {len(failures)} of {num_cells} cells failed{f"; {UNCHECKED}" if unchecked else ""}')
    for i, message in failures:
        print(f'cell {i}: {message}')
    return len(failures)


def _run_program(path):
    "Run a program; print an error that ends it, without the frames of this module; return the exit status"
    try:
        runpy.run_path(str(path), run_name='__main__')
    except MissingPackage:
        raise
    except Exception as e:
        e.__traceback__ = _traceback_of_program(e.__traceback__, str(path))
        sys.excepthook(type(e), e, e.__traceback__)
        return 1
    return 0


def _traceback_of_program(traceback, file):
    "Return the traceback from the program's first frame on; None for a `SyntaxError`, which has no such frame"
    while traceback and traceback.tb_frame.f_code.co_filename != file:
        traceback = traceback.tb_next
    return traceback


def main(argv=None) -> int:  # exit status
    "Run the command; return the exit status of a program, or the number of failed cells of a notebook"
    parser = argparse.ArgumentParser(
        prog='python -m gridstride.as_gpu', description='Run a program that expects a GPU.'
    )
    parser.add_argument('--seconds', type=float, default=300, help='time limit of a notebook cell')
    parser.add_argument('--unchecked', action='store_true', help='disable all checks: faster')
    parser.add_argument('file', type=Path, help='a Python program, or a notebook')
    parser.add_argument('args', nargs=argparse.REMAINDER, help='arguments of the program')
    options = parser.parse_args(argv)
    if not options.file.is_file():
        parser.error(f'{options.file} is not a file')
    if options.file.suffix == '.ipynb':
        require('nbclient', 'gridstride.as_gpu, for a notebook,')
        return min(
            _print_report(
                execute(options.file, options.seconds, options.unchecked), options.seconds, options.unchecked
            ),
            125,
        )
    require('torch', 'gridstride.as_gpu')
    enable(options.unchecked)
    sys.argv = [str(options.file), *options.args]
    sys.path.insert(0, str(options.file.resolve().parent))
    return _run_program(options.file)


if __name__ == '__main__':
    sys.exit(run_command(main))
