"""Line coverage of kernels and, except for Triton, the branches that warps took.

A line counts as executed if at least one thread executed it. The simulator skips a branch that no thread takes, so
Python's tracing of the rewritten function finds the executed lines; `cuda_coverage` finds those of CUDA C."""

import linecache
import sys
from contextlib import ExitStack, contextmanager, nullcontext

from .cuda_coverage import CudaLines, add_counts
from .finding import relative_path

__all__ = ['LineCoverage']


class _BranchTrace:
    "A trace of the simulator that counts, per branch, the warps that take it, do not take it, and diverge"

    def __init__(self):
        self.counts = {}  # (file, line) -> [warps with a thread that takes it, with one that does not, with both]

    def record_branch(self, ctx, active, taken_lanes, other_lanes, site):
        "Count the warps of a branch"
        source_site = ctx.program.sites[site]
        taken, others = (
            set() if mask is None else {*ctx.group.warp_in_group[mask].tolist()} for mask in (taken_lanes, other_lanes)
        )
        counts = len(taken), len(others), len(taken & others)
        add_counts(self.counts, (source_site.file, source_site.line), counts)

    def record_access(self, *args):
        "Ignore an access"

    def record_barrier(self, *args):
        "Ignore a barrier"


def _runs_kernel(frame):
    "Return whether a frame runs a function that the simulator or `tile` has rewritten"
    names = frame.f_globals  # of `tile.run.KernelGlobals`, or of a rewritten function of `sim`
    return '__gs' in names or any(cls.__name__ == 'KernelGlobals' for cls in type(names).__mro__)


def _body_lines(code):
    "Return the lines of a function's body, without its decorators and its `def`, which always run"
    lines = {line for _, _, line in code.co_lines() if line}
    starts = (n for n in sorted(lines) if linecache.getline(code.co_filename, n).lstrip().startswith('def '))
    start = next(starts, code.co_firstlineno)
    return {line for line in lines if line > start} or {start}


class LineCoverage:
    "Records which lines of kernels are executed, and which branches warps take"

    def __init__(self):
        self.executed_lines = {}  # file -> lines
        self.executable_lines = {}  # file -> lines
        self.branches = {}  # (file, line) -> [warps that take it, warps that do not, divergent warps]
        self._kernel_codes = set()  # code objects of kernels
        self._cuda = CudaLines()
        self._stack = ExitStack()

    def trace_cuda(self):
        "Compile CUDA C so that its lines can be recorded, until `close` is called"
        from ..cpp.toolchain.build import tracing_blocks

        if self._cuda.is_supported:
            self._stack.enter_context(tracing_blocks())

    def missing_dialects(self):
        "Return a message about dialects whose coverage this machine cannot measure; '' if there are none"
        return '' if self._cuda.is_supported else 'no coverage of CUDA C: it requires Linux, and objdump from binutils'

    def close(self):
        "Compile CUDA C without recording its lines again"
        self._stack.close()

    @contextmanager
    def recording(self, target):
        "Record the kernels that the `with` block launches; `target` is a `recorder.LaunchTarget`"
        try:
            with self._recording_python() if target.file else nullcontext():
                yield
        finally:
            if not target.file and self._cuda.is_supported:
                self._cuda.collect(target.sources)

    @contextmanager
    def _recording_python(self):
        from ..sim.kernel import active_traces

        branches = _BranchTrace()
        previous_trace = sys.gettrace()
        active_traces.append(branches)
        sys.settrace(self._on_call)
        try:
            yield
        finally:
            sys.settrace(previous_trace)
            active_traces.remove(branches)
            for site, counts in branches.counts.items():
                add_counts(self.branches, site, counts)

    def _on_call(self, frame, event, arg):
        "Trace the lines of a frame if it runs a kernel, or a function that a kernel calls"
        code = frame.f_code
        if code.co_name == '<module>' or not _runs_kernel(frame):
            return None
        if code not in self._kernel_codes:
            self._kernel_codes.add(code)
            self.executable_lines.setdefault(code.co_filename, set()).update(_body_lines(code))
        executed = self.executed_lines.setdefault(code.co_filename, set())

        def on_line(frame, event, arg):
            executed.add(frame.f_lineno)
            return on_line

        return on_line

    def to_dict(self):
        "Return the coverage as a dictionary that JSON can store: file -> lines and branches"
        python = {
            relative_path(file): dict(
                executable=sorted(lines),
                executed=sorted(lines & self.executed_lines.get(file, set())),
                branches=_branches_in(self.branches, file),
            )
            for file, lines in self.executable_lines.items()
        }
        cuda = {
            relative_path(file): dict(
                executable=sorted(lines),
                executed=sorted(self._cuda.executed_lines.get(file, set())),
                branches=_branches_in(self._cuda.branches, file),
            )
            for file, lines in self._cuda.executable_lines.items()
        }
        return merge_coverages([python, cuda])


def _branches_in(branches, file):
    "Return {line: counts} of the branches in a file; the lines are strings, as in JSON"
    return {str(line): counts for (name, line), counts in branches.items() if name == file}


def merge_coverages(coverages) -> dict:
    "Merge the coverage of several processes, as `to_dict` returns it"
    merged = {}
    for file, file_coverage in (row for coverage in coverages for row in coverage.items()):
        merged_coverage = merged.setdefault(file, dict(executable=[], executed=[], branches={}))
        for name in ('executable', 'executed'):
            merged_coverage[name] = sorted({*merged_coverage[name], *file_coverage[name]})
        for line, counts in file_coverage['branches'].items():
            add_counts(merged_coverage['branches'], line, counts)
    return merged


def ranges(lines) -> str:
    """Format line numbers, with ranges for consecutive ones.

    >>> ranges([3, 5, 6, 7])
    '3, 5-7'"""
    runs = []
    for line in lines:
        if runs and runs[-1][1] == line - 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return ', '.join(f'{first}' if first == last else f'{first}-{last}' for first, last in runs)


def report(coverage: dict):
    "Yield the lines of the report: per file the number of executed lines, the lines not executed, and the branches"
    for file, file_coverage in sorted(coverage.items()):
        missing_lines = sorted({*file_coverage['executable']} - {*file_coverage['executed']})
        count = f'{len(file_coverage["executed"])} of {len(file_coverage["executable"])} lines of kernels'
        yield f'{file}: {count}' + (f'; not executed: {ranges(missing_lines)}' if missing_lines else '')
        for line, counts in sorted(file_coverage['branches'].items(), key=lambda row: int(row[0])):
            if text := _describe_branch(*counts):
                yield f'  line {line}: {text}'


def _describe_branch(num_taken, num_others, num_divergent):
    "Describe a branch that all warps or none take, or in which some diverge; '' for other branches"
    if not num_others:
        return f'all {num_taken} warps take the branch'
    if not num_taken:
        return f'none of {num_others} warps takes the branch'
    return f'{num_divergent} of {num_taken + num_others - num_divergent} warps diverge' if num_divergent else ''
