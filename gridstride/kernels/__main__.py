"""The command line of the kernels: `python -m gridstride.kernels export DIR` writes each kernel as a program of its own
in CUDA C; `tuned` lists the results of `tune`, and `forget` deletes them."""

import argparse
import sys

from .gemm import tuning_cache
from ..support.lazy_exports import require


def main(args=None):
    "Parse the command line and run its command; returns an exit status or an error message"
    parser = argparse.ArgumentParser(prog='python -m gridstride.kernels')
    commands = parser.add_subparsers(required=True, dest='command')
    export_parser = commands.add_parser('export', help='write each kernel as one .cu that checks and times itself')
    export_parser.add_argument('folder', metavar='DIR', help='created if it does not exist')
    export_parser.add_argument('--match', default='', help='only kernels with this in their name')
    export_parser.set_defaults(run=_export)
    commands.add_parser('tuned', help='list the results of `tune`').set_defaults(run=_show_tuned)
    commands.add_parser('forget', help='delete the results of `tune`').set_defaults(run=_forget_tuned)
    options = parser.parse_args(args)
    return options.run(options)


def _export(options):
    require('torch', 'gridstride.kernels export')
    from .export import export

    try:
        written = export(options.folder, options.match)
    except ValueError as e:
        return str(e)
    print(f'{len(written)} kernels in {options.folder}; to compile and run them: sh {options.folder}/run.sh')
    return 0 if written else f'no kernel has {options.match!r} in its name'


def _show_tuned(options):
    for line in tuning_cache.report_lines():
        print(line)
    print(f'stored in {tuning_cache.path()}')


def _forget_tuned(options):
    path = tuning_cache.path()
    print(f'{path} was deleted' if tuning_cache.clear() else f'{path} does not exist')


if __name__ == '__main__':
    sys.exit(main())
