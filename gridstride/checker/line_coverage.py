"""Which lines of kernels were executed, and, of Numba's kernels, which branches warps took.

A line counts as executed if at least one thread executed it. The simulator skips a branch that no thread takes, so
Python's own tracing of the rewritten function gives the lines; `cuda_coverage` has those of CUDA C."""

import linecache
import sys
from contextlib import ExitStack, contextmanager, nullcontext

import numpy as np

from .cuda_coverage import CudaLines
from .finding import relative_path

__all__ = ['LineCoverage']


class _BranchTrace:
    "A trace of the simulator that counts, per branch, the warps that take it, do not take it, and diverge"

    def __init__(self):
        self.counts = {}  # (file, line) -> [warps that take it, warps that do not]; a divergent warp does both

    def branch(self, ctx, active, taken_lanes, other_lanes, site):
        "Count the warps of a branch"
        source_site = ctx.program.sites[site]
        counts = self.counts.setdefault((source_site.file, source_site.line), [0, 0])
        for i, mask in enumerate((taken_lanes, other_lanes)):
            counts[i] += 0 if mask is None else len(np.unique(ctx.group.warp_in_group[mask]))

    def access(self, *args):
        "Ignore an access"

    def barrier(self, *args):
        "Ignore a barrier"


def _runs_kernel(frame):
    "Return whether a frame runs a function that the simulator or `tile` has rewritten"
    names = frame.f_globals
    return '__gs' in names or any(cls.__name__ == 'Names' for cls in type(names).__mro__)  # `tile.run.Names`


def _body_lines(code):
    "Return the lines of a function's body; those of its decorators and its `def` are executed in any case"
    lines = {line for _, _, line in code.co_lines() if line}
    starts = (n for n in sorted(lines) if linecache.getline(code.co_filename, n).lstrip().startswith('def '))
    start = next(starts, code.co_firstlineno)
    return {line for line in lines if line > start} or {start}


class LineCoverage:
    "The lines of kernels that were executed, and the branches that warps took"

    def __init__(self):
        self.executed = {}  # file -> lines
        self.executable = {}  # file -> lines
        self.branches = {}  # (file, line) -> [warps that take it, warps that do not]
        self._known = set()  # code objects of kernels
        self._cuda = CudaLines()
        self._stack = ExitStack()

    def trace_cuda(self):
        "Compile CUDA C so that its lines can be recorded, until `close` is called"
        from ..cpp.toolchain.build import tracing_blocks

        if self._cuda.is_supported:
            self._stack.enter_context(tracing_blocks())

    def missing_dialects(self):
        "Return a sentence about what this machine cannot cover; '' if there is nothing"
        return '' if self._cuda.is_supported else 'CUDA C is not covered: this needs Linux and objdump, of binutils'

    def close(self):
        "Compile CUDA C as before"
        self._stack.close()

    @contextmanager
    def covering(self, target):
        "Record the kernels that the `with` block launches; `target` is a `recorder.LaunchTarget`"
        try:
            with self._covering_python() if target.file else nullcontext():
                yield
        finally:
            if not target.file and self._cuda.is_supported:
                self._cuda.collect(target.sources)

    @contextmanager
    def _covering_python(self):
        from ..sim.kernel import active_traces

        branches = _BranchTrace()
        previous = sys.gettrace()
        active_traces.append(branches)
        sys.settrace(self._on_call)
        try:
            yield
        finally:
            sys.settrace(previous)
            active_traces.remove(branches)
            for key, counts in branches.counts.items():
                self._add_branch(key, counts)

    def _add_branch(self, key, counts):
        known = self.branches.setdefault(key, [0, 0])
        known[:] = [a + b for a, b in zip(known, counts)]

    def _on_call(self, frame, event, arg):
        "Trace the lines of a frame if it runs a kernel, or a function that a kernel calls"
        code = frame.f_code
        if code.co_name == '<module>' or not _runs_kernel(frame):
            return None
        if code not in self._known:
            self._known.add(code)
            self.executable.setdefault(code.co_filename, set()).update(_body_lines(code))
        executed = self.executed.setdefault(code.co_filename, set())

        def on_line(frame, event, arg):
            executed.add(frame.f_lineno)
            return on_line

        return on_line

    def to_dict(self):
        "Return the coverage as a dictionary that JSON can store: file -> lines and branches"
        python = {
            relative_path(file): dict(
                executable=sorted(lines),
                executed=sorted(lines & self.executed.get(file, set())),
                branches={str(line): counts for (name, line), counts in self.branches.items() if name == file},
            )
            for file, lines in self.executable.items()
        }
        cuda = {
            relative_path(file): dict(
                executable=sorted(lines), executed=sorted(self._cuda.executed.get(file, set())), branches={}
            )
            for file, lines in self._cuda.executable.items()
        }
        return merged([python, cuda])


def merged(coverages) -> dict:
    "Merge the dictionaries of several processes"
    out = {}
    for file, one in (row for coverage in coverages for row in coverage.items()):
        known = out.setdefault(file, dict(executable=[], executed=[], branches={}))
        for name in ('executable', 'executed'):
            known[name] = sorted({*known[name], *one[name]})
        for line, counts in one['branches'].items():
            known['branches'][line] = [a + b for a, b in zip(known['branches'].get(line, [0, 0]), counts)]
    return out


def ranges(lines) -> str:
    """Format lines, with ranges of successive ones.

    >>> ranges([3, 5, 6, 7])
    '3, 5-7'"""
    rows = []
    for line in lines:
        if rows and rows[-1][1] == line - 1:
            rows[-1][1] = line
        else:
            rows.append([line, line])
    return ', '.join(f'{first}' if first == last else f'{first}-{last}' for first, last in rows)


def report(coverage: dict):
    "Yield the lines of the report: per file the fraction of lines, those that are missing, and one-sided branches"
    for file, one in sorted(coverage.items()):
        missing = sorted({*one['executable']} - {*one['executed']})
        count = f'{len(one["executed"])} of {len(one["executable"])} lines of kernels'
        yield f'{file}: {count}' + (f'; not executed: {ranges(missing)}' if missing else '')
        for line, (taken, others) in sorted(one['branches'].items(), key=lambda row: int(row[0])):
            if not (taken and others):
                yield f'  line {line}: ' + (
                    f'all {taken} warps take it' if taken else f'none of {others} warps takes it'
                )
