"""Maps lines of compiled source to the files of a program.

CUDA C is compiled from a string of a Python program or from several concatenated files, so a finding names a line of a
text that is not a file. An editor or a pull request needs the line in a file."""

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
_MAX_FOLDERS = 2000  # that are searched for files of CUDA C


def line_in_file(
    text,  # of a file
    source,  # the compiled text
    line,  # of `source`
) -> int | None:  # of `text`; None if it is not there, or if several lines fit equally well
    """Return the line of a file from which a line of compiled source originates.

    The file may contain the text only in part, as with several files that were joined, so the lines around it vote.

    >>> line_in_file('import this | // a | x = 1; | y'.replace('|', chr(10)), f'// a{chr(10)}x = 1;', 2)
    3"""
    return _vote(text, source, line)[1]


def _vote(text, source, line):
    "Return (votes, line of the text); (0, None) if the line is not there, or if several fit equally well"
    in_file, compiled = [[row.strip() for row in t.splitlines()] for t in (text, source)]
    if not 0 < line <= len(compiled) or not compiled[line - 1]:
        return 0, None
    fits = [i for i, row in enumerate(in_file) if _fits(row, compiled[line - 1])]
    votes = {i: _count_matches(in_file, compiled, i - line + 1) for i in fits}
    best = [i for i in fits if votes[i] == max(votes.values())]
    return (votes[best[0]], best[0] + 1) if len(best) == 1 else (0, None)


def _fits(row, compiled_row):
    "Return whether a row of a file has this row of the compiled text, which the quotes of a string may surround"
    return row == compiled_row or len(compiled_row) > 8 and compiled_row in row


def _count_matches(in_file, compiled, offset):
    "Count the rows of the compiled text that a file has, if row 0 of the text is row `offset` of the file"
    rows = range(max(0, -offset), min(len(compiled), len(in_file) - offset))
    return sum(in_file[offset + i] == compiled[i] != '' for i in rows)


def program_files():
    "Return the files of the functions on the stack, innermost first, then of modules in the current folder"
    frame = sys._getframe(1)
    files = {}
    while frame:
        files[frame.f_code.co_filename] = None
        frame = frame.f_back
    here = str(Path.cwd().resolve()) + os.sep
    modules = (getattr(module, '__file__', None) or '' for module in list(sys.modules.values()))
    files |= dict.fromkeys(f for f in modules if f.startswith(here) and not _SKIPPED & set(Path(f).parts))
    return [file for file in files if not file.startswith(_PACKAGE) and os.path.isfile(file)]


def _cuda_files(folder):
    "Yield the files of CUDA C and C++ below a folder, without hidden and generated folders"
    for i, (path, folders, files) in enumerate(os.walk(folder)):
        if i > _MAX_FOLDERS:
            return
        folders[:] = [f for f in folders if not f.startswith('.') and f not in _SKIPPED]
        yield from (os.path.join(path, f) for f in files if f.endswith(_SUFFIXES))


def _read(file):
    "Return the text of a file; '' if it cannot be read"
    try:
        return Path(file).read_text(encoding='utf-8', errors='replace')
    except OSError:
        return ''


def locate_in_files(
    file,  # as the finding names it; None if it is unknown
    line,  # in the text of that file
    sources=None,  # {file name: compiled text}
    program=None,  # the file that is checked, to which a finding without a file belongs
) -> tuple:  # (file on the disk, line, cell); the line is None if it is unknown
    "Find the file and the line of a finding"
    if not file:
        return program, None, None
    if m := _CELL.fullmatch(file):
        return m[1], line, int(m[2])
    if os.path.isfile(file):
        return file, line, None
    text = (sources or {}).get(file, '')
    if text and (found := _find_text(text, line, program)):
        return found
    return program or file, None, None


def _find_text(text, line, program):
    "Return (file, line, cell) of a line of a compiled text; None if no file has it"
    if program and program.endswith('.ipynb'):
        return _find_in_cells(text, line, program)
    folders = [Path(program).resolve().parent] if program else []
    cuda_files = (path for folder in dict.fromkeys([*folders, Path.cwd()]) for path in _cuda_files(folder))
    for candidates in ([program] if program else [], program_files(), cuda_files):
        votes = [(*_vote(_read(path), text, line), str(path)) for path in candidates]
        if best := max((vote for vote in votes if vote[1]), default=None):
            return best[2], best[1], None
    return None


def _find_in_cells(text, line, notebook):
    "Return (notebook, line, cell) of a line of a compiled text; None if no cell has it"
    cells = json.loads(_read(notebook))['cells']
    votes = [(*_vote(''.join(cell['source']), text, line), i) for i, cell in enumerate(cells)]
    best = max((vote for vote in votes if vote[1]), default=None)
    return best and (notebook, best[1], best[2])
