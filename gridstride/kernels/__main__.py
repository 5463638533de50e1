"""python -m gridstride.kernels export DIR: the kernels as programs of their own, in CUDA C; `tuned` and `forget`: what
`tune` has measured"""

import argparse
import sys

from .gemm import tuning_cache
from ..support.lazy_exports import require


def main(args=None):
    "Read the command line, and do what it says"
    p = argparse.ArgumentParser(prog='python -m gridstride.kernels')
    commands = p.add_subparsers(required=True, dest='command')
    one = commands.add_parser('export', help='write each kernel as one .cu that checks and times itself')
    one.add_argument('folder', metavar='DIR', help='is made if it is not there')
    one.add_argument('--match', default='', help='only kernels with this in their name')
    one.set_defaults(run=_export)
    commands.add_parser('tuned', help='show what `tune` has measured and kept').set_defaults(run=_show_tuned)
    commands.add_parser('forget', help='throw away what `tune` has kept').set_defaults(run=_forget_tuned)
    given = p.parse_args(args)
    return given.run(given)


def _export(given):
    require('torch', 'gridstride.kernels export')
    from .export import export

    try:
        written = export(given.folder, given.match)
    except ValueError as e:
        return str(e)
    print(f'{len(written)} kernels in {given.folder}; to compile and run them: sh {given.folder}/run.sh')
    return 0 if written else f'no kernel has {given.match!r} in its name'


def _show_tuned(given):
    for line in tuning_cache.lines():
        print(line)
    print(f'in {tuning_cache.path()}')


def _forget_tuned(given):
    print(f'{tuning_cache.path()} is gone' if tuning_cache.forget() else f'nothing was kept in {tuning_cache.path()}')


if __name__ == '__main__':
    sys.exit(main())
