"""`gridstride asm FILE`: the PTX, SASS or resources of a kernel in CUDA C, without a GPU."""

import argparse
import sys

from .command_line import existing_file

__all__ = ['main']


def _parser():
    p = argparse.ArgumentParser(
        prog='gridstride asm',
        description='Show the PTX, the SASS or the resources of a kernel in CUDA C. No GPU is needed.',
        epilog='For kernels in Python: from gridstride import asm; asm.ptx(kernel, *example_arguments)',
    )
    p.add_argument('file', metavar='FILE', type=existing_file, help='a .cu file')
    p.add_argument('--kernel', metavar='NAME', help="the kernel, if the file has several; 'k<float>' for a template")
    p.add_argument('--arch', default='sm_90', help='GPU architecture; default: sm_90')
    p.add_argument(
        '--block', type=int, default=256, help='threads per block, which the occupancy depends on; default: 256'
    )
    g = p.add_mutually_exclusive_group()
    g.add_argument('--ptx', dest='show', action='store_const', const='ptx', default='ptx', help='PTX (default)')
    g.add_argument('--sass', dest='show', action='store_const', const='sass', help='machine code of one architecture')
    g.add_argument(
        '--resources', dest='show', action='store_const', const='resources', help='registers, occupancy, ...'
    )
    return p


def main(argv=None) -> int:  # exit status: 2 if the file cannot be compiled
    "Print the PTX, the SASS or the resources of a kernel"
    options = _parser().parse_args(argv)
    from .. import asm

    source = options.file.read_text(encoding='utf-8-sig')
    block_option = dict(block=options.block) if options.show == 'resources' else {}
    try:
        print(getattr(asm, options.show)(source, name=options.kernel, arch=options.arch, **block_option))
    except (asm.CompileError, asm.CompilerMissing, ValueError) as e:
        print(f'{options.file}: {e}', file=sys.stderr)
        return 2
    return 0
