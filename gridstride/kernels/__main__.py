"""python -m gridstride.kernels export DIR: the kernels as programs of their own, in CUDA C"""

import argparse
import sys

from .export import export


def main(args=None):
    "Read the command line, and do what it says"
    p = argparse.ArgumentParser(prog='python -m gridstride.kernels')
    commands = p.add_subparsers(required=True, metavar='COMMAND')
    one = commands.add_parser('export', help='write each kernel as one .cu that checks and times itself')
    one.add_argument('folder', metavar='DIR', help='is made if it is not there')
    one.add_argument('--match', default='', help='only kernels with this in their name')
    given = p.parse_args(args)
    written = export(given.folder, given.match)
    print(f'{len(written)} kernels in {given.folder}; to compile and run them: sh {given.folder}/run.sh')
    return 0 if written else f'no kernel has {given.match!r} in its name'


if __name__ == '__main__':
    sys.exit(main())
