"""Helpers of the commands: `existing_file` parses a file argument, `module_command` makes a worker's command line."""

import argparse
import sys
from pathlib import Path

__all__ = ['existing_file', 'module_command']

# The module is imported from this package's folder, even if another version is installed. After that, neither this
# folder nor the current one precedes the standard library, so that a program's `string.py` does not shadow a module.
_START = """import sys
from importlib import import_module
sys.path[0] = root = sys.argv[1]
main = import_module(sys.argv[2]).main
sys.path[:1] = []
sys.path.append(root)
sys.exit(main(sys.argv[3:]))"""


def module_command(module, *args):
    "Return the command of a Python process that calls `main(args)` of a module of this package"
    return [sys.executable, '-c', _START, str(Path(__file__).parents[2]), f'{__package__}.{module}', *args]


def existing_file(text) -> Path:
    "Parse an argument that must be the path of a file"
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f'{text}: No such file')
    return path
