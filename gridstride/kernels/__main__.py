"""The command line of the kernels: `python -m gridstride.kernels export DIR` writes each kernel as a standalone CUDA C
program; `new NAME` writes a project with a kernel as an operator of PyTorch; `tuned` lists the results of `tune`, and
`forget` deletes them."""

import argparse
import sys

from .gemm import tuning_cache
from .project import write_project
from ..support.lazy_exports import require, run_command


def main(args=None):
    "Run a command line; return the exit status, or an error message"
    parser = argparse.ArgumentParser(prog='python -m gridstride.kernels')
    commands = parser.add_subparsers(required=True, dest='command')
    export_parser = commands.add_parser('export', help='write each kernel as a .cu file that checks and times itself')
    export_parser.add_argument('folder', metavar='DIR', help='created if it does not exist')
    export_parser.add_argument('--match', default='', help='export only kernels whose name contains this string')
    export_parser.set_defaults(run=_export)
    new_parser = commands.add_parser('new', help='write a project: a kernel as an operator of PyTorch, with its tests')
    new_parser.add_argument('name', metavar='NAME', help='of the package and of its operators, such as my_norm')
    new_parser.add_argument('--folder', default='.', metavar='DIR', help='where the project is created; default: here')
    new_parser.set_defaults(run=_new_project)
    commands.add_parser('tuned', help='list the results of `tune`').set_defaults(run=_show_tuned)
    commands.add_parser('forget', help='delete the results of `tune`').set_defaults(run=_forget_tuned)
    options = parser.parse_args(args)
    return options.run(options)


def _export(options):
    require('torch', 'gridstride.kernels export')
    from .export import export

    try:
        paths = export(options.folder, options.match)
    except ValueError as e:
        return str(e)
    print(f'{len(paths)} kernels in {options.folder}; to compile and run them: sh {options.folder}/run.sh')
    return 0 if paths else f'no kernel name contains {options.match!r}; omit --match to export all kernels'


def _new_project(options):
    try:
        project = write_project(options.name, options.folder)
    except (ValueError, FileExistsError) as e:
        return str(e)
    print(f'{project}: its README lists the files; to test it without a GPU: cd {project}; pytest --gridstride')


def _show_tuned(options):
    for line in tuning_cache.report_lines():
        print(line)
    print(f'stored in {tuning_cache.path()}')


def _forget_tuned(options):
    path = tuning_cache.path()
    print(f'{path} was deleted' if tuning_cache.clear() else f'{path} does not exist')


if __name__ == '__main__':
    sys.exit(run_command(main))
