"""Programs and notebooks that expect a GPU, as they are, where there is none: torch's `.cuda()` and `device='cuda'`,
`load_inline`, and `numba.cuda` are the emulator's and the simulator's.

    python -m gridstride.as_gpu program.py [its arguments]
    python -m gridstride.as_gpu notebook.ipynb         # executed, and kept beside it as notebook.emulated.ipynb
    %load_ext gridstride.as_gpu                        # the first cell of a notebook that you run yourself

Tensors "on the GPU" lie in the CPU's memory, copied as `.cuda()` copies: results are real, times are not, and a tensor
that was forgotten on the CPU is not noticed. On a machine with a GPU nothing is changed.

What a kernel does is looked at, by all detectors, and `--unchecked`, before the file's name, leaves that out: compiled
kernels run several times as fast, and what they do wrong is no longer told. In a notebook that you run yourself
`from gridstride import as_gpu; as_gpu.enable(unchecked=True)` does so in the first cell. A cell that takes longer than
`--seconds` is interrupted."""

import argparse, atexit, inspect, os, re, runpy, shutil, sys, types
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter

from .doors import require
from .utils import backend

__all__ = ['as_gpu', 'enable', 'load_ipython_extension']


def _on_gpu(device):
    "Does this argument of torch's name a GPU?"
    return (
        str(device).split(':')[0] == 'cuda' if isinstance(device, str) or type(device).__name__ == 'device' else False
    )


def _mode():
    "torch's functions, for which the GPU is the CPU's memory"
    import torch
    from torch.overrides import TorchFunctionMode

    def here(x):
        return 'cpu' if _on_gpu(x) else x

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = {k: here(v) if k == 'device' else v for k, v in (kwargs or {}).items()}
            if func is torch.Tensor.cuda:
                return args[0].clone()
            if func is torch.Tensor.to and any(map(_on_gpu, args)):
                return func(*map(here, args), **kwargs).clone()
            return func(*args, **kwargs)

    return Mode()


class _Event:
    "What `torch.cuda.Event` is, by the CPU's clock"

    def __init__(self, *args, **kwargs):
        self.time = None

    def record(self, stream=None):
        self.time = perf_counter()

    def elapsed_time(self, end):  # ms
        return (end.time - self.time) * 1e3

    def synchronize(self):
        pass

    wait, query = synchronize, lambda self: True


def _functions():
    "{name in torch.cuda: what stands for it}"
    return dict(
        is_available=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: 0,
        get_device_name=lambda device=None: 'gridstride, an emulator',
        get_device_capability=lambda device=None: (9, 0),
        set_device=lambda device: None,
        synchronize=lambda device=None: None,
        empty_cache=lambda: None,
        manual_seed=lambda seed: None,
        manual_seed_all=lambda seed: None,
        Event=_Event,
    )


def _listed(sources):
    return [sources] if isinstance(sources, str) else list(sources or [])


@contextmanager
def _compiler_there():
    "Without `CXX` if that names a compiler which is not here: programs set it for nvcc, on their author's machine"
    own = os.environ.get('CXX')
    if own is None or shutil.which(own.split()[0]):
        yield
        return
    print(f'gridstride: {own} (from the variable CXX) is not here; compiled by what is')
    del os.environ['CXX']
    try:
        yield
    finally:
        os.environ['CXX'] = own


def _load_inline(original):
    "torch's `load_inline`, with the emulator for what has CUDA sources"
    from .cpp import load_cuda

    order = inspect.signature(original)  # torch has put `sycl_sources` before `functions` since

    def load_inline(*args, **options):
        given = order.bind(*args, **options).arguments
        if not given.get('cuda_sources') or given.get('sycl_sources'):
            return original(*args, **options)
        names = list(given['functions']) if given.get('functions') is not None else None
        cuda_src, cpp_src = ('\n'.join(_listed(given[o])) for o in ('cuda_sources', 'cpp_sources'))
        with _compiler_there():
            return load_cuda(cuda_src, cpp_src or None, names, verbose=given.get('verbose', False), name=given['name'])

    return load_inline


_calls = types.SimpleNamespace(n=0, seconds=0.0)  # of compiled code, since the cell began


def _timed(original):
    "`Emulated.call`, which notes in `_calls` what it took"

    def call(self, entry, args):
        start = perf_counter()
        _calls.n += 1
        try:
            return original(self, entry, args)
        finally:
            _calls.seconds += perf_counter() - start

    return call


def _swap(stack, owner, name, new):
    "`owner.name` is `new` until the stack ends"
    missing = object()
    old = getattr(owner, name, missing)
    setattr(owner, name, new)
    stack.callback(lambda: delattr(owner, name) if old is missing else setattr(owner, name, old))


def _for_a_gpu(simulated, original):
    "`vectorize`: the simulator's where the target is a GPU, else Numba's own"

    def decorator(*args, target='cpu', **how):
        return (simulated if target == 'cuda' else original)(*args, target=target, **how)

    return decorator


def _numba(stack):
    "`from numba import cuda` is the simulator's"
    try:
        import numba
    except ImportError:
        return
    from . import sim
    from .sim import cuda

    module = types.ModuleType('numba.cuda', cuda.__doc__)
    vars(module).update({k: getattr(cuda, k) for k in cuda.__all__})
    old = {k: m for k, m in sys.modules.items() if k.split('.')[:2] == ['numba', 'cuda']}
    for k in old:
        del sys.modules[k]
    sys.modules['numba.cuda'] = module
    stack.callback(lambda: (sys.modules.pop('numba.cuda', None), sys.modules.update(old)))
    _swap(stack, numba, 'cuda', module)
    for name in ('vectorize', 'guvectorize'):
        _swap(stack, numba, name, _for_a_gpu(getattr(sim, name), getattr(numba, name)))


@contextmanager
def as_gpu(
    unchecked=False,  # without detectors: faster, and what a kernel does wrong is not told
):
    "Inside of the `with` block the program finds a GPU: the emulator. With a real one nothing is changed"
    if backend() == 'gpu':
        yield
        return
    require('torch', 'gridstride.as_gpu')
    import torch

    from .cpp import emulator, load

    with ExitStack() as stack:
        # what a GPU does in 2 ms takes minutes, and is not endless
        stack.enter_context(emulator.options(False if unchecked else None, seconds=3600))
        for name, new in _functions().items():
            _swap(stack, torch.cuda, name, new)
        # asks torch for a GPU, when it is imported: torch would start CUDA to know, or say that there is none
        from torch.utils import cpp_extension

        _swap(stack, cpp_extension, 'load_inline', _load_inline(cpp_extension.load_inline))
        _swap(stack, load.Emulated, 'call', _timed(load.Emulated.call))
        _numba(stack)
        stack.enter_context(_mode())
        yield


UNCHECKED = 'unchecked: what a kernel does wrong is not told'
_entered = []  # what `enable` entered, left when the process ends


def enable(
    unchecked=False,  # without detectors
) -> bool:  # is it the emulator?
    "From now on this process finds a GPU: the emulator, told in one line. With a real one nothing is changed"
    if backend() == 'gpu':
        return False
    if not _entered:
        _entered.append(as_gpu(unchecked))
        _entered[0].__enter__()
        atexit.register(_entered[0].__exit__, None, None, None)  # Python would close it among modules that are gone
        how = f'emulated, on the CPU{f"; {UNCHECKED}" if unchecked else ""}'
        print(f"gridstride: no GPU is here; .cuda(), device='cuda', load_inline and numba.cuda are {how}")
    return True


# What takes a GPU 2 ms takes minutes here, and 70 times that is of no use to anybody
def _timed_once(shell):
    "%timeit and %%timeit run once, and say so"
    original = shell.find_magic('timeit')

    def timeit(line, cell=None):
        line = '' if line is None else re.sub(r'^(\s*-[nr]\s*\d+)+', '', line)
        print('gridstride: emulated, so timed once; it says nothing of a GPU')
        return original(f'-n1 -r1 {line}', cell)

    shell.register_magic_function(timeit, 'line_cell', 'timeit')


# For who asks how long a cell would take that was interrupted
def _count_calls(shell):
    "A cell that is interrupted tells how many calls of compiled code it made, and what they took"

    def begin(info):
        _calls.n = _calls.seconds = 0

    def end(result):
        if isinstance(result.error_in_exec, KeyboardInterrupt) and _calls.n > 1:
            print(f'gridstride: in call {_calls.n:,} of compiled code, {_calls.seconds / _calls.n:.2g} s each')

    shell.events.register('pre_run_cell', begin)
    shell.events.register('post_run_cell', end)


def load_ipython_extension(shell):
    "`%load_ext gridstride.as_gpu`; `AsGPU.unchecked=True` in IPython's configuration is `--unchecked`"
    if enable('AsGPU' in shell.config and str(shell.config.AsGPU.unchecked) == 'True'):
        _timed_once(shell)
        _count_calls(shell)


def execute(
    path,  # a notebook
    seconds=300,  # after which a cell is interrupted
    unchecked=False,  # without detectors
) -> Path:  # the executed copy, beside it
    "Run a notebook in a fresh kernel, its folder the current one, all its cells even if one fails"
    import nbformat
    from nbclient import NotebookClient

    nb = nbformat.read(path, as_version=4)

    def start(cell, cell_index):
        print(f'\r{path.name}: cell {cell_index + 1} of {len(nb.cells)}', end='', file=sys.stderr, flush=True)

    NotebookClient(
        nb,
        kernel_name='python3',  # this Python, whatever the notebook's own was called
        timeout=seconds,
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
    out = path.with_suffix('.emulated.ipynb')
    nbformat.write(nb, out)
    return out


def _too_long(outputs, seconds, unchecked):
    "What is told of a cell that was interrupted"
    printed = ''.join(o.text for o in outputs if o.output_type == 'stream')
    calls = re.search(r'^gridstride: (in call .* each)$', printed, re.M)
    faster = '' if unchecked else '; --unchecked is faster'
    where = f'{calls[1]}: how many are there to be' if calls else 'does it launch a kernel many times, to time it'
    return f'interrupted after {seconds:g} s (--seconds){"," if calls else ";"} {where}?{faster}'


def _failures(cells, seconds, unchecked):
    "(number of a cell, what went wrong in words) for each that failed"
    for i, c in enumerate(cells):
        for o in c.get('outputs', []):
            if o.output_type == 'error' and o.ename == 'KeyboardInterrupt':
                yield i, _too_long(c.outputs, seconds, unchecked)
            elif o.output_type == 'error':
                yield i, f'{o.ename}: {next(iter(o.evalue.splitlines()), "")}'


def _report(path, seconds, unchecked):
    "Print what became of an executed notebook; the number of cells that failed"
    import nbformat

    cells = nbformat.read(path, as_version=4).cells
    failed = list(_failures(cells, seconds, unchecked))
    n = sum(c.cell_type == 'code' and bool(c.source.strip()) for c in cells)
    print(f'{path}: {len(failed)} of {n} cells failed{f"; {UNCHECKED}" if unchecked else ""}')
    for i, why in failed:
        print(f'cell {i}: {why}')
    return len(failed)


def main(argv=None) -> int:  # exit status
    "What the command does: the program's own status, or the number of cells that failed"
    p = argparse.ArgumentParser(prog='python -m gridstride.as_gpu', description='Run a program that expects a GPU.')
    p.add_argument('--seconds', type=float, default=300, help='after which a cell of a notebook is interrupted')
    p.add_argument('--unchecked', action='store_true', help='do not look for races and stray accesses: faster')
    p.add_argument('file', type=Path, help='a Python program, or a notebook')
    p.add_argument('args', nargs=argparse.REMAINDER, help="the program's own arguments")
    a = p.parse_args(argv)
    if not a.file.is_file():
        p.error(f'{a.file} is no file')
    if a.file.suffix == '.ipynb':
        return min(_report(execute(a.file, a.seconds, a.unchecked), a.seconds, a.unchecked), 125)
    enable(a.unchecked)
    sys.argv = [str(a.file), *a.args]
    sys.path.insert(0, str(a.file.resolve().parent))
    runpy.run_path(str(a.file), run_name='__main__')
    return 0


if __name__ == '__main__':
    sys.exit(main())
