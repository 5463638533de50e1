"""The commands of the package: `gridstride COMMAND ...`, or `python -m gridstride COMMAND ...`.

`gridstride cpp program.cu` does the same as `python -m gridstride.cpp program.cu`: a command is the function `main` of
a module, called with the arguments after the command. The exit status is 0 without findings, 1 with findings (of a
kernel, in a rejected submission, or something that `doctor` would fix), and 2 for a wrong command line or an
input that cannot be used; `run`, `cpp` and `as_gpu` end with the exit status of the program, or 1 after a finding.
"""

import os
import sys
from importlib import import_module

import gridstride
from gridstride.support.lazy_exports import run_command

COMMANDS = {  # name -> (module, {arguments: description})
    'check': (
        'gridstride.checker.check',
        {'FILE ...': 'check programs (.cu, .py, .ipynb) without a GPU, under one or many schedules'},
    ),
    'explain': ('gridstride.checker.pages', {'CODE': 'explain a message, with a wrong kernel and a right one'}),
    'run': ('gridstride.checker.run', {'FILE': 'run a program that expects a GPU, without one'}),
    'asm': ('gridstride.checker.assembly', {'FILE': 'show PTX, SASS or resources of a kernel in CUDA C'}),
    'bench': ('gridstride.checker.timing', {'FILE': 'time a kernel in CUDA C'}),
    'mcp': (
        'gridstride.checker.mcp_server',
        {'': 'offer check, explain, asm, bench and judge to a coding agent, confined'},
    ),
    'cpp': ('gridstride.cpp.__main__', {'program.cu': 'compile and run a CUDA program, checked if there is no GPU'}),
    'nvcc': (
        'gridstride.cpp.nvcc',
        {'-o PROGRAM a.cu': "build a CUDA program with nvcc's flags, to run without a GPU"},
    ),
    'as_gpu': ('gridstride.as_gpu', {'program.py': 'run Python, or a notebook, that expects a GPU, without one'}),
    'judge': (
        'gridstride.judge.__main__',
        {
            'submission.py': 'judge a kernel: accept it, or reject it with the reason',
            'submit kernel.py': 'write a submission from a kernel, and judge it',
        },
    ),
    'kernels': (
        'gridstride.kernels.__main__',
        {
            'export DIR': 'write each kernel as one .cu that checks and times itself',
            'tuned': 'show what `tune` has measured; `kernels forget` deletes it',
        },
    ),
    'lessons': (
        'gridstride.course.lessons',
        {'run 01': 'execute lessons', 'progress': 'show which exercises are solved'},
    ),
    'doctor': (
        'gridstride.course.doctor',
        {'': 'show what is installed, what is missing, and the command that fixes it'},
    ),
}


def print_commands():
    "Print a line per command"
    print(f'gridstride {gridstride.__version__}\n')
    for name, (_, usages) in COMMANDS.items():
        for arguments, description in usages.items():
            print(f'gridstride {f"{name} {arguments}":<23} {description}')
    print("\nIn the shell: gridstride COMMAND --help, or python -m gridstride COMMAND. In Python: help('gridstride')")


def main(
    argv=(),  # name of a command and its arguments
):  # exit status, or an error message for `sys.exit`
    "Run a command; without one, print all commands"
    if argv and argv[0] in COMMANDS:
        return run_command(import_module(COMMANDS[argv[0]][0]).main, list(argv[1:]))
    print_commands()
    if argv and argv[0] not in ('-h', '--help', 'help'):
        return f'Unknown command {argv[0]!r}'


def console():
    "Run the command of this process, and end it: with status 2 after an error, quietly if its reader ends first"
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # `gridstride check ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    if isinstance(status, str):
        print(status, file=sys.stderr)
    sys.exit(2 if isinstance(status, str) else status)


if __name__ == '__main__':
    console()
