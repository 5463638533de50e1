"""`gridstride run FILE`: runs a program that expects a GPU (CUDA C, Python or a notebook) on the CPU."""

import argparse
import sys
from pathlib import Path

__all__ = ['main']

_PYTHON = '.py', '.ipynb'
_CUDA = '.cu', '.cpp', '.cc', '.cxx', '.c'


def main(argv=None):  # exit status
    "Run the program that `argv` names with the command for its file type; returns the program's exit status"
    argv = list(sys.argv[1:] if argv is None else argv)
    suffixes = [suffix for suffix in map(_suffix_of, argv) if suffix in (*_PYTHON, *_CUDA)]
    if not suffixes:
        _parser().parse_args(argv)
        _parser().error(f'FILE must be a program: {", ".join((*_PYTHON, *_CUDA))}')
    if suffixes[0] in _PYTHON:
        from ..as_gpu import main as run_program
    else:
        from ..cpp.__main__ import main as run_program
    return run_program(argv)


def _suffix_of(argument):
    return Path(argument).suffix


def _parser():
    p = argparse.ArgumentParser(
        prog='gridstride run',
        description='Run a program that expects a GPU on the CPU; an error in a kernel ends it with a message.',
        epilog='Options of CUDA C: gridstride cpp --help; of Python and notebooks: gridstride as_gpu --help.',
    )
    p.add_argument(
        'file', metavar='FILE', help='.cu, .py or .ipynb; options precede it, arguments of the program follow it'
    )
    return p
