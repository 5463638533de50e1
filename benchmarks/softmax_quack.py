"""Softmax by QuACK, which is written in CuTe DSL, compared with `gridstride.kernels.softmax` and a copy, for the row
lengths of softmax.py.

    pip install quack-kernels 'nvidia-cutlass-dsl[cu13]'
    python softmax_quack.py compile DIR     # needs no GPU: one cubin per type and length
    python softmax_quack.py DIR > softmax_quack.txt   # on an H100; QuACK need not be installed there

The cubins are launched with the grid, cluster and shared memory that QuACK's `Softmax` uses; the name of its kernel
contains the rows and columns of a block. Each result is first compared with torch's in float64.
"""
import ctypes, json, os, re, sys, tempfile
from pathlib import Path
from types import SimpleNamespace

import torch
from gridstride.bench import compare
from gridstride.kernels.ladder.ladder import GpuClock

import rows, softmax


# Without a GPU

def compile_kernel(dtype, n):
    "Compile QuACK's kernel for any number of rows of n elements; return (its PTX, its cubin)"
    folder = Path(os.environ['CUTE_DSL_DUMP_DIR'])
    for f in folder.iterdir(): f.unlink()
    import cutlass
    from quack.softmax import Softmax, cute, fake_tensor
    kind, many = dict(float32=cutlass.Float32, bfloat16=cutlass.BFloat16)[dtype], cute.sym_int()
    x, out = (fake_tensor(kind, (many, n), 128//kind.width) for _ in range(2))
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    cute.compile(Softmax(kind, n), x, out, stream, options='--enable-tvm-ffi')
    (ptx,), (cubin,) = folder.glob('*.ptx'), folder.glob('*.cubin')
    return ptx.read_text(), cubin.read_bytes()


def launch_config(ptx, dtype, n):
    "Return the launch configuration of a kernel, read from its PTX"
    name = re.search(r'\.visible \.entry (\w+)\(', ptx)[1]
    block_rows, block_columns = map(int, re.search(r'_(\d+)_(\d+)_TiledCopy', name).groups())
    threads, blocks = int(re.search(r'\.reqntid (\d+)', ptx)[1]), n//block_columns
    size = torch.empty((), dtype=getattr(torch, dtype)).element_size()
    # the rows, a partial result per warp and block, and a barrier
    shared_bytes = block_rows*block_columns*size + threads//32*blocks*8 + 16
    return dict(dtype=dtype, n=n, name=name, rows=block_rows, blocks=blocks, threads=threads,
                shared=-(-shared_bytes//128)*128)


def compile_all(out_folder):
    out_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(CUTE_DSL_ARCH='sm_90a', CUTE_DSL_KEEP_PTX='1', CUTE_DSL_KEEP_CUBIN='1',
                          CUTE_DSL_DUMP_DIR=folder)
        for dtype in ('float32', 'bfloat16'):
            for n in softmax.SHORT + softmax.LONG:
                ptx, cubin = compile_kernel(dtype, n)
                (out_folder/f'{dtype}_{n}.cubin').write_bytes(cubin)
                (out_folder/f'{dtype}_{n}.json').write_text(json.dumps(launch_config(ptx, dtype, n), indent=1) + '\n')


# On a GPU

class Tensor(ctypes.Structure):
    "A matrix with a fixed number of columns, as CuTe DSL passes it to a kernel"
    _fields_ = [('data', ctypes.c_void_p), ('rows', ctypes.c_int), ('stride', ctypes.c_longlong)]


class Attribute(ctypes.Structure):
    "The driver's CUlaunchAttribute"
    _fields_ = [('id', ctypes.c_int), ('pad', ctypes.c_int), ('value', ctypes.c_uint*16)]


class Config(ctypes.Structure):
    "The driver's CUlaunchConfig"
    _fields_ = [('grid', ctypes.c_uint*3), ('block', ctypes.c_uint*3), ('shared', ctypes.c_uint),
                ('stream', ctypes.c_void_p), ('attributes', ctypes.POINTER(Attribute)), ('count', ctypes.c_uint)]


CLUSTER_DIMENSION = 4        # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
MAX_DYNAMIC_SHARED = 8       # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def check_success(code):
    if code: raise RuntimeError(f'expected CUDA_SUCCESS from the CUDA driver, got {code}')


def load_kernel(config, cubin):
    "Load QuACK's kernel; return a function of x that launches it"
    driver, module, function = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p(), ctypes.c_void_p()
    check_success(driver.cuModuleLoadData(ctypes.byref(module), cubin))
    check_success(driver.cuModuleGetFunction(ctypes.byref(function), module, config.name.encode()))
    check_success(driver.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, config.shared))
    def run(x):
        out = torch.empty_like(x)
        arguments = [Tensor(o.data_ptr(), len(o), o.stride(0)) for o in (x, out)]
        cluster = Attribute(CLUSTER_DIMENSION, 0, (ctypes.c_uint*16)(1, config.blocks, 1))
        launch = Config((-(-len(x)//config.rows), config.blocks, 1), (config.threads, 1, 1), config.shared,
                        torch.cuda.current_stream().cuda_stream, ctypes.pointer(cluster), int(config.blocks > 1))
        pointers = (ctypes.c_void_p*2)(*(ctypes.addressof(o) for o in arguments))
        check_success(driver.cuLaunchKernelEx(ctypes.byref(launch), function, pointers, None))
        return out
    return run


def read_kernels(folder):
    for f in sorted(folder.glob('*.json'), key=lambda f: (f.name[0] == 'b', json.loads(f.read_text())['n'])):
        yield SimpleNamespace(**json.loads(f.read_text())), f.with_suffix('.cubin').read_bytes()


def measure(kernel, seconds):
    "Yield the rows of a kernel: ours against QuACK's and against a copy"
    config, cubin = kernel
    x = softmax.inputs(config.n, getattr(torch, config.dtype))
    try:
        launch_quack = load_kernel(config, cubin)
        case = softmax.Case('softmax', x, ('copy',))
        makers = dict(softmax.candidates(case), quack=lambda: lambda: launch_quack(x))
        graphs = {name: rows.capture_graph(maker) for name, maker in makers.items()}
        for name in ('ours', 'quack'): softmax.check_near_float64(case, graphs[name]())
        comparison = compare(graphs, x, baseline='ours', check=lambda got: None, seconds=seconds, clock=GpuClock())
        for other in ('quack', 'copy'): yield rows.comparison_row('softmax', x, comparison, other, None, 2*x.nbytes)
    except Exception as error: yield rows.failed_row('softmax', x, error)


def main(folder):
    run_info = rows.machine()
    print(f"{run_info['gpu']}, {run_info['date']}, torch {torch.__version__}\n{rows.HEAD}\n", flush=True)
    for kernel in read_kernels(folder):
        for r in measure(kernel, .1): print(softmax.format_row(r), flush=True)
        torch.cuda.empty_cache()


if __name__ == '__main__':
    if sys.argv[1] == 'compile': compile_all(Path(sys.argv[2]))
    else: main(Path(sys.argv[1]))
