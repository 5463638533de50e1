"""Replaces parts of `import triton` for a program that runs under `gridstride.as_gpu`.

The kernels of the program run checked, Triton's driver reports an H100, and Triton's benchmarks call each function
once. Kernels of torch and of Triton itself are not replaced."""

import sys
import types
from time import perf_counter

from . import language, libdevice, profiler, triton_shim
from .rebind import unwrap

__all__ = ['patch', 'substitute_modules', 'do_bench']

_TARGET = ('cuda', 90, 32)  # backend, architecture, threads per warp: an H100
_PROPERTIES = dict(
    multiprocessor_count=132, max_shared_mem=232448, max_num_regs=65536, warpSize=32, sm_clock_rate=1980000,
    mem_clock_rate=2619000, mem_bus_width=5120,
)  # fmt: skip
_NOT_REPLACED = 'torch.', 'triton.'  # modules whose kernels Triton launches


class _Utils:
    "The utilities of Triton's driver: properties of the GPU"

    @staticmethod
    def get_device_properties(device=0):
        "Return the properties of an H100"
        return dict(_PROPERTIES)


class _Driver:
    "A Triton driver without a GPU: it reports an H100, and device memory is CPU memory"

    utils = _Utils()

    def get_current_target(self):
        try:
            from triton.backends.compiler import GPUTarget
        except ImportError:
            return types.SimpleNamespace(**dict(zip(('backend', 'arch', 'warp_size'), _TARGET)))
        return GPUTarget(*_TARGET)

    def get_active_torch_device(self):
        import torch

        return torch.device('cuda', self.get_current_device())

    def get_device_interface(self):
        import torch

        return torch.cuda

    def get_device_capability(self, device=None):
        return _TARGET[1] // 10, _TARGET[1] % 10

    def get_empty_cache_for_benchmark(self):
        return None

    def get_benchmarker(self):
        return do_bench

    get_current_device = get_current_stream = lambda self, *device: 0
    set_current_device = clear_cache = lambda self, *args: None


_printed_lines = set()


def _print_once(line):
    if line not in _printed_lines:
        _printed_lines.add(line)
        print(f'gridstride: {line}')


def do_bench(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode='mean', **options):
    "Time one call on the CPU, in ms"
    _print_once('benchmarks call each function once; times on a CPU say nothing about a GPU')
    start = perf_counter()
    fn()
    ms = (perf_counter() - start) * 1e3
    if quantiles is not None:
        return [ms] * len(quantiles) if len(quantiles) > 1 else ms
    return [ms] if return_mode == 'all' else ms


class _PerfReport:
    "A benchmark made by `triton.testing.perf_report`: it runs the first size only, because all would take too long"

    def __init__(self, fn, benchmarks):
        self.fn, self.benchmarks = fn, benchmarks

    def _measure_first(self, bench, options):
        "Return the results of a benchmark at its first size, as a row {column: value}"
        first_size = next(iter(bench.x_vals))
        names = list(bench.x_names)
        sizes = dict(zip(names, first_size if isinstance(first_size, (list, tuple)) else [first_size] * len(names)))
        row = dict(sizes)
        for value, name in zip(bench.line_vals, bench.line_names):
            result = self.fn(**sizes, **{bench.line_arg: value}, **bench.args, **options)
            row[f'{name} ({bench.ylabel})'] = result[0] if isinstance(result, (list, tuple)) else result
        return row

    def run(self, show_plots=False, print_data=False, save_path='', return_df=False, **options):
        "Run each benchmark at its first size"
        is_single = not isinstance(self.benchmarks, (list, tuple))
        rows = []
        for bench in [self.benchmarks] if is_single else self.benchmarks:
            rows.append(self._measure_first(bench, options))
            size = ', '.join(f'{k}={rows[-1][k]}' for k in bench.x_names)
            num_others = len(bench.x_vals) - 1
            print(
                f'gridstride: {bench.plot_name or self.fn.__name__} ran at {size}; {num_others} more sizes are skipped'
            )
        if not return_df:
            return None
        import pandas

        frames = [pandas.DataFrame([row]) for row in rows]
        return frames[0] if is_single else frames


def perf_report(benchmarks):
    "Decorate a function: return a benchmark of it"
    return lambda fn: _PerfReport(fn, benchmarks)


class _CublasLt:
    "A substitute for cuBLASLt's matrix products, with which Triton's tutorials compare their own"

    def __init__(self, workspace):
        pass

    def matmul(self, a, b, c):
        "Compute c = a @ b.T"
        c.copy_(a.float() @ b.float().T)

    def gemm(self, a, b, c, d, alpha, beta):
        "Compute d = alpha * a @ b.T + beta * c"
        d.copy_(alpha * (a.float() @ b.float().T) + beta * c.float())


def _module_name_of(fn):
    return getattr(unwrap(fn), '__module__', None) or ''


def _choose_by_module(checked_decorator, triton_decorator):
    "Make a decorator that applies Triton's to functions of torch and Triton, and the checked one to all others"

    def decorator(fn):
        is_triton = _module_name_of(fn).startswith(_NOT_REPLACED)
        return (triton_decorator if is_triton else checked_decorator)(fn)

    return decorator


def _jit(triton_jit):
    "Make a `jit` that calls Triton's for functions of torch and Triton"

    def jit(fn=None, **options):
        "Decorate a kernel, or a function that kernels call"
        decorator = _choose_by_module(
            triton_shim.jit if not options else triton_shim.jit(**options), lambda f: triton_jit(f, **options)
        )
        return decorator if fn is None else decorator(fn)

    return jit


def _kernel_wrapper(checked_wrapper, triton_wrapper):
    "Make `autotune` or `heuristics`: Triton's for kernels of torch and Triton, the checked one for others"

    def decorator(*args, **options):
        return _choose_by_module(
            lambda fn: checked_wrapper(*args, **options)(fn), lambda fn: triton_wrapper(*args, **options)(fn)
        )

    return decorator


def patch(triton, swap):
    "Replace the launches, the driver and the benchmarks of an installed Triton; `swap(owner, name, value)` sets them"
    runtime, testing = triton.runtime, triton.testing
    swap(triton_shim, 'original_jit', triton.jit)
    decorators = dict(
        jit=_jit(triton.jit),
        autotune=_kernel_wrapper(triton_shim.autotune, triton.autotune),
        heuristics=_kernel_wrapper(triton_shim.heuristics, triton.heuristics),
    )
    for owner in (triton, runtime, runtime.jit, runtime.autotuner):
        for name, decorator in decorators.items():
            if callable(vars(owner).get(name)) and not isinstance(vars(owner)[name], types.ModuleType):
                swap(owner, name, decorator)
    swap(runtime.driver, '_active', _Driver())
    for name, function in dict(do_bench=do_bench, do_bench_cudagraph=do_bench, perf_report=perf_report).items():
        swap(testing, name, function)
    if cublas := getattr(getattr(sys.modules.get('triton._C.libtriton'), 'nvidia', None), 'cublas', None):
        swap(cublas, 'CublasLt', _CublasLt)


# Modules for a program that imports Triton where it is not installed


def _make_module(name, **names):
    "Make a module with these names"
    module = types.ModuleType(name)
    module.__path__ = []
    module.is_shim = True
    vars(module).update(names)
    return module


class _Benchmark:
    "A substitute for `triton.testing.Benchmark`"

    def __init__(self, x_names, x_vals, line_arg, line_vals, line_names, plot_name='', args=None, ylabel='', **options):
        self.x_names = x_names
        self.x_vals = x_vals
        self.line_arg = line_arg
        self.line_vals = line_vals
        self.line_names = line_names
        self.plot_name = plot_name
        self.args = args or {}
        self.ylabel = ylabel


def substitute_modules():
    "Return {name: module} of the modules of Triton that programs import, for a machine without Triton"
    tensor_descriptor = _make_module('triton.tools.tensor_descriptor', TensorDescriptor=triton_shim.TensorDescriptor)
    testing = _make_module(
        'triton.testing', do_bench=do_bench, do_bench_cudagraph=do_bench, perf_report=perf_report, Benchmark=_Benchmark
    )
    driver = types.SimpleNamespace(active=_Driver(), set_active=lambda driver: None)
    runtime = _make_module(
        'triton.runtime', driver=driver, Config=triton_shim.Config, JITFunction=triton_shim.JITFunction
    )
    triton = triton_shim.module()
    triton.testing = testing
    triton.runtime = runtime
    triton.__path__ = []
    triton.__version__ = '3.7.1'
    extra = _make_module('triton.language.extra', libdevice=libdevice)
    tools = _make_module('triton.tools', tensor_descriptor=tensor_descriptor)
    profiler_modules = profiler.modules()
    triton.tools = tools
    triton.profiler = profiler_modules['triton.profiler']
    return {
        'triton': triton, 'triton.language': language, 'triton.testing': testing, 'triton.runtime': runtime,
        'triton.language.extra': extra, 'triton.language.extra.libdevice': libdevice,
        'triton.language.extra.cuda': _make_module('triton.language.extra.cuda', libdevice=libdevice),
        'triton.language.extra.cuda.libdevice': libdevice, 'triton.tools': tools,
        'triton.tools.tensor_descriptor': tensor_descriptor, **profiler_modules,
    }  # fmt: skip
