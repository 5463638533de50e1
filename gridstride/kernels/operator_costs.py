"""Measure what an operator of PyTorch costs: each layer between a call in Python and a kernel, and a new project's
operator on a GPU. Lesson 19 shows both.

    measure_layers('cpu')     # {'torch.empty_like': 0.9, ...}, in microseconds per call"""

import ctypes
import importlib
import os
import subprocess
import sys
import tempfile
import time
from functools import lru_cache
from pathlib import Path

from ..bench.recording import Unavailable, on_gpu
from ..cpp.toolchain.compilers import compiler, nvcc
from .project import project_files, write_project

# Two operators that only allocate their result, and on a GPU launch a kernel that does nothing. The second gets a
# formula for its gradient.
SOURCE = r'''
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
using torch::stable::Tensor;

#ifdef __CUDACC__
#define DEVICE CUDA
#define LAYERS layers_cuda
__global__ void nothing() {}
extern "C" void launch(void *stream) { nothing<<<1, 32, 0, (cudaStream_t)stream>>>(); }
void *stream_of(const Tensor &x) {
    void *stream = nullptr;
    aoti_torch_get_current_cuda_stream(x.get_device_index(), &stream);
    return stream;
}
#else
#define DEVICE CPU
#define LAYERS layers_cpu
extern "C" void launch(void *) {}
void *stream_of(const Tensor &) { return nullptr; }
#endif

Tensor noop(Tensor x) {
    Tensor out = torch::stable::empty_like(x);
    launch(stream_of(x));
    return out;
}

STABLE_TORCH_LIBRARY(LAYERS, m) {
    m.def("noop(Tensor x) -> Tensor");
    m.def("noop_with_gradient(Tensor x) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(LAYERS, DEVICE, m) {
    m.impl("noop", TORCH_BOX(&noop));
    m.impl("noop_with_gradient", TORCH_BOX(&noop));
}
'''


def build_command(source, library, device) -> list:
    "Return the command that compiles operators of the stable ABI to a library, for 'cpu' or 'cuda'"
    import torch

    root = Path(torch.__file__).parent
    flags = ['-shared', '-O2', '-std=c++17', '-DTORCH_TARGET_VERSION=0x020a000000000000', f'-I{root / "include"}']
    libraries = [f'-L{root / "lib"}', '-ltorch', '-ltorch_cpu', '-lc10']
    if device == 'cpu':
        undefined = ['-undefined', 'dynamic_lookup'] if sys.platform == 'darwin' else []
        return [compiler().path, *flags, '-fPIC', '-o', str(library), str(source), *libraries, *undefined]
    flags += ['-arch=native', '-DUSE_CUDA', '-Xcompiler', '-fPIC']
    return [nvcc(), *flags, '-o', str(library), str(source), *libraries, '-ltorch_cuda', '-lc10_cuda']


@lru_cache
def _compile_layers(device) -> tuple:  # the path of the library, and the seconds that compiling took
    "Compile SOURCE, once per process"
    folder = Path(tempfile.mkdtemp(prefix='layers'))
    source = folder / ('layers.cpp' if device == 'cpu' else 'layers.cu')
    source.write_text(SOURCE)
    start = time.perf_counter()
    subprocess.run(build_command(source, folder / 'layers.so', device), check=True, capture_output=True, text=True)
    return folder / 'layers.so', time.perf_counter() - start


@lru_cache
def load_layers(device) -> tuple:  # the namespace in `torch.ops`, and the seconds that compiling took
    "Compile SOURCE for 'cpu' or 'cuda', and define its operators `noop` and `noop_with_gradient`, once per process"
    import torch

    library, seconds = _compile_layers(device)
    torch.ops.load_library(library)
    namespace = f'layers_{device}'
    for name in ('noop', 'noop_with_gradient'):
        torch.library.register_fake(f'{namespace}::{name}', torch.empty_like)
    torch.library.register_autograd(f'{namespace}::noop_with_gradient', lambda ctx, grad: grad)
    return getattr(torch.ops, namespace), seconds


@lru_cache
def _python_operators(device):
    "Define the same operator in Python, in three ways; return the library, which must stay alive, and the operators"
    import torch

    def noop(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        launch(x)
        return out

    launch = _launcher(device)
    namespace = f'layers_in_python_{device}'
    library = torch.library.Library(namespace, 'FRAGMENT')
    library.define('implemented(Tensor x) -> Tensor')
    library.impl('implemented', noop, 'CompositeExplicitAutograd')
    plain, with_gradient = (
        torch.library.custom_op(f'{namespace}::{name}', noop, mutates_args=()) for name in ('plain', 'gradient')
    )
    with_gradient.register_autograd(lambda ctx, grad: grad)
    return library, getattr(torch.ops, namespace).implemented.default, plain, with_gradient


def _launcher(device):
    "Return a function that calls the C function `launch` for the current stream of a tensor"
    import torch

    launch = ctypes.CDLL(str(_compile_layers(device)[0])).launch
    launch.argtypes, launch.restype = (ctypes.c_void_p,), None
    if device == 'cpu':
        return lambda x: launch(None)
    return lambda x: launch(torch._C._cuda_getCurrentRawStream(x.get_device()))


def microseconds(call, x, calls=100, repeats=50) -> float:
    "Measure the shortest mean time of `calls` calls of `call(x)`; on a GPU until the last kernel has ended"
    import torch

    def wait():
        if x.is_cuda:
            torch.cuda.synchronize()

    def run():
        wait()
        start = time.perf_counter()
        for _ in range(calls):
            call(x)
        wait()
        return (time.perf_counter() - start) / calls * 1e6

    run()
    return min(run() for _ in range(repeats))


def measure_layers(device) -> dict:  # layer -> microseconds per call
    "Measure each layer between a call in Python and a kernel that does nothing"
    import torch

    operators, _ = load_layers(device)
    x = torch.zeros(4, device=device)
    needs_gradient = torch.zeros(4, device=device, requires_grad=True)
    noop, noop_with_gradient = operators.noop, operators.noop_with_gradient.default
    _, implemented, plain, with_gradient = _python_operators(device)
    compiled = torch.compile(lambda x: noop(x), backend='aot_eager', fullgraph=True)
    layers = {
        'launch from C, by ctypes': (_launcher(device), x),
        'torch.empty_like': (torch.empty_like, x),
        'operator in C++, .default': (noop.default, x),
        'operator in C++': (noop, x),
        'with a gradient formula, not needed': (noop_with_gradient, x),
        'with a gradient formula, needed': (noop_with_gradient, needs_gradient),
        'Library.impl of a Python function': (implemented, x),
        'custom_op': (plain, x),
        'custom_op, gradient needed': (with_gradient, needs_gradient),
        'torch.compile': (compiled, x),
    }
    times = {name: microseconds(*layer) for name, layer in layers.items()}
    with torch.inference_mode():
        times['with a gradient formula, inference_mode'] = microseconds(noop_with_gradient, x)
    if device == 'cuda':
        times['CUDA graph of 20 calls, per call'] = _graph_microseconds(noop, x)
    return times


def _graph_microseconds(call, x, calls=20):
    "Measure the time per call of a CUDA graph of `calls` calls"
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call(x)
    return microseconds(lambda x: graph.replay(), x, calls=100) / calls


def _import_project(name, folder, change=()):
    "Write a new project with a changed source, import its package, and return it with the seconds that this took"
    project = write_project(name, folder)
    source = project / name / 'csrc' / f'{name}.cu'
    if change:
        text = source.read_text()
        if change[0] not in text:
            raise ValueError(f'{source} does not contain {change[0]!r}')
        source.write_text(text.replace(*change))
    sys.path.insert(0, str(project))
    start = time.perf_counter()
    return importlib.import_module(name), time.perf_counter() - start


def _by_operators(x, residual, weight):
    "Compute the same with PyTorch operators"
    import torch

    total = x + residual
    return torch.nn.functional.rms_norm(total, weight.shape, weight, 1e-6), total


def _stale_elements(package):
    "Return which fraction of the result is wrong if the input is written on a side stream just before the call"
    import torch

    x, residual = torch.zeros(2, 8192, 1024, device='cuda')
    weight = torch.ones(1024, device='cuda')
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # the input is late
        x.fill_(1)
        out, _ = package.add_rms_norm(x, residual, weight)
    torch.cuda.synchronize()
    return float((out != package.add_rms_norm(x, residual, weight)[0]).float().mean())


def _capture_error(package):
    "Return the first line of the first error of a capture in a CUDA graph; '' if there is none"
    import torch

    args = *torch.zeros(2, 8, 1024, device='cuda'), torch.ones(1024, device='cuda')
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            package.add_rms_norm(*args)
    except RuntimeError as e:
        while isinstance(e.__context__, RuntimeError):
            e = e.__context__
        return str(e).partition('\n')[0]
    return ''


def measure_project() -> dict:
    "Measure the operator of a new project on a GPU, and the same with launches that ignore the current stream"
    import torch

    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault('TORCH_EXTENSIONS_DIR', folder)
        package, seconds = _import_project('lesson_norm', folder)
        change = 'THREADS, 0, current_stream(x)>>>', 'THREADS, 0, 0>>>'
        default_stream, _ = _import_project('default_stream_norm', folder, change)
        compiled = torch.compile(_by_operators)
        times = {}
        for rows in (8, 8192):
            x, residual = torch.randn(2, rows, 1024, device='cuda')
            weight = torch.randn(1024, device='cuda')
            variants = {'operators': _by_operators, 'torch.compile': compiled, 'add_rms_norm': package.add_rms_norm}
            times[str(rows)] = {
                name: microseconds(lambda x: variant(x, residual, weight), x, calls=200)
                for name, variant in variants.items()
            }
        return dict(
            seconds=seconds,
            times=times,
            stale=[_stale_elements(package), _stale_elements(default_stream)],
            capture=[_capture_error(package), _capture_error(default_stream)],
        )


def measure_layers_on_gpu() -> dict:
    "Return `measure_layers('cuda')`"
    return measure_layers('cuda')


def layers_on_gpu(folder='recorded') -> dict:
    "Return `measure_layers('cuda')`, recorded if there is no GPU. Raises Unavailable"
    return on_gpu('custom_ops_layers', measure_layers_on_gpu, measure_layers, SOURCE, folder=folder)


def project_on_gpu(folder='recorded') -> dict:
    "Return `measure_project()`, recorded if there is no GPU. Raises Unavailable"
    name = 'lesson_norm'
    kernel = project_files(name)[f'{name}/csrc/{name}.cu']
    return on_gpu('custom_ops_project', measure_project, kernel, folder=folder)


def figures(name) -> dict:  # None if there are none
    "Return the recording `name`, or measure it on a GPU; print the reason if neither is possible"
    try:
        return dict(custom_ops_layers=layers_on_gpu, custom_ops_project=project_on_gpu)[name]()
    except Unavailable as e:
        print(e)
