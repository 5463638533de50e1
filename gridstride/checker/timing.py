"""`gridstride bench FILE --launch KERNEL`: times a kernel in CUDA C with random arguments."""

import argparse
import sys

from .command_line import existing_file

__all__ = ['main']


def _parser():
    p = argparse.ArgumentParser(
        prog='gridstride bench',
        description='Time a kernel in CUDA C with random arguments: on the GPU, or on the emulator if there is none. '
        'Times on the emulator say nothing about a GPU.',
        epilog='For other kernels: from gridstride import bench; bench.bench(function, *arguments)',
    )
    p.add_argument('file', metavar='FILE', type=existing_file, help='a .cu file')
    p.add_argument('--launch', metavar='KERNEL', required=True, help="the kernel, 'k<float>' for a template")
    p.add_argument('--size', type=int, default=1 << 20, help='size of arrays and value of integers; default: 1048576')
    p.add_argument('--block', type=int, default=256, help='threads per block; default: 256')
    p.add_argument('--arg', action='append', default=[], metavar='NAME=VALUE', help='a number, 32x48, or x.npy')
    return p


def main(argv=None) -> int:  # exit status: 2 if the kernel cannot be launched
    "Print the time of the kernel"
    options = _parser().parse_args(argv)
    from ..cpp.toolchain.build import CompileError
    from ..cpp.toolchain.compilers import CompilerMissing
    from ..diagnostics.errors import KernelError

    try:
        print(_time(options))
    except KernelError as e:
        print(f'{options.file}: {e}', file=sys.stderr)
        return 1
    except (CompileError, CompilerMissing, ValueError) as e:
        print(f'{options.file}: {e}', file=sys.stderr)
        return 2
    return 0


def _time(options):
    "Return the `Timing` of the kernel; print a note if it runs on the emulator"
    from ..bench.timing import bench
    from ..cpp.harness import make_arguments, read_values
    from ..cpp.kernel import cuda_kernel
    from ..utils import backend, cdiv

    kernel = cuda_kernel(options.file.read_text(encoding='utf-8-sig'), options.launch, checks=False)
    arguments = make_arguments(kernel.params, read_values(options.arg), options.size)
    if backend() == 'gpu':
        import torch

        arguments = [torch.as_tensor(a, device='cuda') if hasattr(a, 'shape') else a for a in arguments]
    else:
        print('gridstride: no GPU found; the time is that of the emulator, and says nothing about a GPU')
    grid = cdiv(options.size, options.block)
    return bench(lambda *args: kernel[grid, options.block](*args), *arguments, name=options.launch)
