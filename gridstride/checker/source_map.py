"""Maps lines of compiled source to the files of a program.

CUDA C is compiled from a string in a Python program or from several concatenated files, so a finding refers to a line
of a string that is not a file. Editors and pull requests need the line in a file."""

import json
import os
import re
import sys
from pathlib import Path

__all__ = ['locate_in_files', 'line_in_file', 'program_files']

_CELL = re.compile(r'(.*), cell (\d+)$')  # the name that `worker` gives to the code of a cell
_SKIPPED = {'node_modules', 'site-packages', '__pycache__', 'build', 'dist'}
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_SUFFIXES = '.cu', '.cuh', '.cpp', '.cc', '.cxx', '.h', '.hpp'
_MAX_FOLDERS = 2000  # that are searched for CUDA sources


def line_in_file(
    text,  # of a file
    source,  # the compiled source
    line,  # of `source`
) -> int | None:  # of `text`; None if no line matches, or several match equally well
    """Return the line of a file that a line of compiled source comes from.

    If several lines have the same text, the one with the most matching lines around it is returned; the file may
    contain only part of the compiled source, which may be concatenated from several files.

    >>> line_in_file('import this | // a | x = 1; | y'.replace('|', chr(10)), f'// a{chr(10)}x = 1;', 2)
    3"""
    return _best_match(text, source, line)[1]


def _best_match(text, source, line):
    "Return (number of matching lines, line of the text); (0, None) if no line matches, or several match equally well"
    file_lines, compiled_lines = [[row.strip() for row in t.splitlines()] for t in (text, source)]
    if not 0 < line <= len(compiled_lines) or not compiled_lines[line - 1]:
        return 0, None
    candidates = [i for i, file_line in enumerate(file_lines) if _has_line(file_line, compiled_lines[line - 1])]
    num_matches = {i: _count_matches(file_lines, compiled_lines, i - line + 1) for i in candidates}
    best_offsets = [i for i in candidates if num_matches[i] == max(num_matches.values())]
    return (num_matches[best_offsets[0]], best_offsets[0] + 1) if len(best_offsets) == 1 else (0, None)


def _has_line(file_line, compiled_line):
    "Return whether a line of a file is this line of the compiled source, or contains it, as a quoted string does"
    return file_line == compiled_line or len(compiled_line) > 8 and compiled_line in file_line


def _count_matches(file_lines, compiled_lines, offset):
    "Count the equal lines if line 0 of the compiled source is line `offset` of the file"
    indices = range(max(0, -offset), min(len(compiled_lines), len(file_lines) - offset))
    return sum(file_lines[offset + i] == compiled_lines[i] != '' for i in indices)


def program_files():
    "Return the files of the functions on the stack, innermost first, then of modules in the current folder"
    frame = sys._getframe(1)
    files = {}
    while frame:
        files[frame.f_code.co_filename] = None
        frame = frame.f_back
    current_folder = str(Path.cwd().resolve()) + os.sep
    modules = (getattr(module, '__file__', None) or '' for module in list(sys.modules.values()))
    files |= dict.fromkeys(f for f in modules if f.startswith(current_folder) and not _SKIPPED & set(Path(f).parts))
    return [file for file in files if not file.startswith(_PACKAGE) and os.path.isfile(file)]


def _cuda_files(folder):
    "Yield the files of CUDA C and C++ below a folder, without hidden and generated folders"
    for i, (path, folders, files) in enumerate(os.walk(folder)):
        if i > _MAX_FOLDERS:
            return
        folders[:] = [f for f in folders if not f.startswith('.') and f not in _SKIPPED]
        yield from (os.path.join(path, f) for f in files if f.endswith(_SUFFIXES))


def _read(file):
    "Read a file; return '' if it cannot be read"
    try:
        return Path(file).read_text(encoding='utf-8', errors='replace')
    except OSError:
        return ''


def locate_in_files(
    file,  # file name in the finding; None if unknown
    line,  # of that file
    sources=None,  # {file name: compiled source}
    program=None,  # the file that is checked, to which a finding without a file belongs
) -> tuple:  # (file on the disk, line, cell); the line is None if unknown
    "Find the file and the line of a finding"
    if not file:
        return program, None, None
    if m := _CELL.fullmatch(file):
        return m[1], line, int(m[2])
    if os.path.isfile(file):
        return file, line, None
    text = (sources or {}).get(file, '')
    if text and (found := _find_compiled_line(text, line, program)):
        return found
    return program or file, None, None


def _find_compiled_line(text, line, program):
    "Return (file, line, cell) of a line of compiled source; None if no file has it"
    if program and program.endswith('.ipynb'):
        return _find_in_cells(text, line, program)
    folders = [Path(program).resolve().parent] if program else []
    cuda_files = (path for folder in dict.fromkeys([*folders, Path.cwd()]) for path in _cuda_files(folder))
    for candidates in ([program] if program else [], program_files(), cuda_files):
        matches = [(*_best_match(_read(path), text, line), str(path)) for path in candidates]
        if best := max((match for match in matches if match[1]), default=None):
            return best[2], best[1], None
    return None


def _find_in_cells(text, line, notebook):
    "Return (notebook, line, cell) of a line of compiled source; None if no cell has it"
    cells = json.loads(_read(notebook))['cells']
    matches = [(*_best_match(''.join(cell['source']), text, line), i) for i, cell in enumerate(cells)]
    best = max((match for match in matches if match[1]), default=None)
    return best and (notebook, best[1], best[2])
