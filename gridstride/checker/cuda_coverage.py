"""Line coverage of CUDA C, and the branches that warps took.

The compiler inserts a call at the beginning of each basic block (`-fsanitize-coverage=trace-pc`), and the emulator's
runtime records the blocks that executed it. `objdump` lists the lines of each block, from the debug information. In an
inlined function a condition may be constant, and its line then has no instructions; so all lines of a function's first
block count as executed if any line of the function was. Branches are counted by calls inserted into their conditions
(`cpp/rewriters/branches.py`)."""

import re
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from .source_map import locate_in_files

__all__ = ['CudaLines', 'blocks_of']

_FUNCTION = re.compile(r'[0-9a-f]+ <(.*)>:$')
_LINE = re.compile(r'(\S.*):(\d+)(?: \(discriminator \d+\))?$')
_INSTRUCTION = re.compile(r' +([0-9a-f]+):\t(.*)')
_BLOCK_CALL = '__sanitizer_cov_trace_pc'
_BRACES = frozenset('{};) ')


def blocks_of(
    listing: str,  # the output of `objdump -dlC`
) -> list:  # of (symbol of the function, offset of the return address, {(file, line)})
    """List the basic blocks of a library, with their lines. Instructions before a function's first block belong to it.

    >>> rows = ['0 <f(int)>:', '/a.cu:2', '   0:\\tpush', '   1:\\tcall <__sanitizer_cov_trace_pc>', '   6:\\tret']
    >>> blocks_of(chr(10).join(rows))
    [('f(int)', 6, {('/a.cu', 2)})]"""
    blocks, lines, line, symbol, is_new = [], set(), None, '', False
    for row in listing.splitlines():
        if m := _FUNCTION.match(row):
            symbol, line, lines = m[1], None, set()
        elif m := _LINE.match(row):
            line = m[1], int(m[2])
        elif m := _INSTRUCTION.match(row):
            if is_new:
                blocks.append((symbol, int(m[1], 16), lines))
            if is_new := _BLOCK_CALL in m[2]:
                is_first = not blocks or blocks[-1][0] != symbol
                lines = lines if is_first else set()
            lines.update([line] if line else ())
    return blocks


def _device_functions(sources):
    "Return the functions of CUDA C that run on the GPU: {file: {name: line of its definition}}"
    from ..cpp.frontend.reader import functions
    from ..cpp.frontend.tokens import WrongSource

    lines_of_file = {}
    for file, text in sources.items():
        try:
            device_functions = (f for f in functions(text) if f.specifiers & {'__global__', '__device__'})
            lines_of_file[file] = {f.name: f.line for f in device_functions}
        except WrongSource:  # host code that the parser does not support
            continue
    return lines_of_file


def _base_name(symbol):
    "Return the name of a function without return type, namespace, parameters and template arguments"
    return re.split(r'[<(]', symbol.replace('(anonymous namespace)::', ''))[0].split(' ')[-1].split('::')[-1]


def _source_of(path, sources):
    "Return the name in `sources` of a file that the compiler recorded; None if it has none"
    matching = [name for name in sources if path == name or path.endswith(f'/{name}')]
    return max(matching, key=len, default=None)


class CudaLines:
    "Collects the executed lines and branches of the modules whose kernels are launched"

    def __init__(self):
        self._blocks = {}  # path of a library -> {offset: {(file, line)}}
        self._functions = []  # ((file, line) of each statement, those of the first block) per function
        self.executable_lines = {}  # file -> lines
        self.executed_lines = {}  # file -> lines
        self.branches = {}  # (file, line) -> [warps that take it, warps that do not, divergent warps]
        self.is_supported = sys.platform == 'linux' and bool(shutil.which('objdump'))

    def collect(self, sources):
        """Add the blocks and branches that were executed since the last call.

        `sources`: a function that returns {file name: text}"""
        from ..cpp.emulator import take_branches, take_executed_blocks

        if branches := take_branches():
            self._add_branches(branches, sources())
        for path, offsets in take_executed_blocks().items():
            if path not in self._blocks:
                self._blocks[path] = self._read(path, sources())
            for offset in offsets & self._blocks[path].keys():
                _add(self.executed_lines, self._blocks[path][offset])
        for statements, first_block in self._functions:
            if any(line in self.executed_lines.get(file, ()) for file, line in statements):
                _add(self.executed_lines, first_block)

    def _add_branches(self, branches, sources):
        for (path, line), counts in branches.items():
            if name := _source_of(path, sources):
                add_counts(self.branches, _location_in_files(name, line, sources[name]), counts)

    def _read(self, path, sources):
        "Return {offset: lines} of a library's blocks, located in the program's files; add them to `executable_lines`"
        command = ['objdump', '-dlC', '--no-show-raw-insn', path]
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        locations = _Locations(sources)
        blocks = [block for block in blocks_of(listing) if _base_name(block[0]) in locations.function_names]
        for symbol in dict.fromkeys(symbol for symbol, _, _ in blocks):
            lines_of_blocks = [locations.find_all(lines, symbol) for name, _, lines in blocks if name == symbol]
            self._functions.append((set().union(*lines_of_blocks), lines_of_blocks[0]))
        lines_at = {offset: locations.find_all(lines) for _, offset, lines in blocks}
        for lines in lines_at.values():
            _add(self.executable_lines, lines)
        return lines_at


@lru_cache(4096)  # each launch reports its branches
def _location_in_files(name, line, text):
    "Return (file, line) of the program for a line of a source"
    file, found_line, _ = locate_in_files(name, line, {name: text})
    return (str(Path(file)), found_line) if found_line else (name, line)


def add_counts(branches, site, counts):
    "Add the counts of a branch to those of its site in `branches`"
    branches[site] = [a + b for a, b in zip(branches.get(site, [0, 0, 0]), counts)]


def _add(lines_of_file, locations):
    for file, line in locations:
        lines_of_file.setdefault(file, set()).add(line)


class _Locations:
    "Locates lines of a module in the program's files, and caches the locations"

    def __init__(self, sources):
        self.sources, self._found = sources, {}
        self._functions = _device_functions(sources)
        self.function_names = {name for functions in self._functions.values() for name in functions}

    def find_all(self, lines, symbol=None):
        "Return {(file, line)} of the statements among these lines; with a symbol, only those of that function's source"
        function_lines = (line for line in lines if symbol is None or self._is_in(symbol, *line))
        return {location for line in function_lines if (location := self.find(*line))}

    def _is_in(self, symbol, path, line):
        "Return whether a line is in the source of a function, and not inlined from another one"
        first_lines = self._functions.get(_source_of(path, self.sources), {})
        preceding = {name: first_line for name, first_line in first_lines.items() if first_line <= line}
        return bool(preceding) and max(preceding, key=preceding.get) == _base_name(symbol)

    def find(self, path, line):
        "Return (file, line) of a statement; None for a function's first line, a brace, and in this package's headers"
        if (path, line) not in self._found:
            self._found[path, line] = self._find(_source_of(path, self.sources), line)
        return self._found[path, line]

    def _find(self, name, line):
        if name is None or line in self._functions.get(name, {}).values():
            return None
        rows = self.sources[name].splitlines()
        if not 0 < line <= len(rows) or not {*rows[line - 1]} - _BRACES:
            return None
        return _location_in_files(name, line, self.sources[name])
