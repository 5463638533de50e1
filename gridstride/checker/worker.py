"""Runs one file under one schedule in a separate process, and reports its findings line by line as JSON.

    worker.main(['{"file": "a.py", "report": "found.jsonl", ...}'])

Each finding is written immediately, so that none is lost if the program crashes or ends the process. The last line is
the status: the number of launches, the error that ended the program (unless it is a finding), what the time limit
interrupted, and the modules that the server should import before later jobs."""

import json
import os
import re
import runpy
import signal
import sys
import threading
import traceback
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .finding import relative_path, settings_without
from .recorder import Recorder
from .schedules import parse_schedule

__all__ = ['Job', 'main']

_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_GRACE_SECONDS = 5  # after the time limit: until then the interrupted program must have ended
_LARGE_MODULES = 'numpy', 'torch', 'torch.utils.cpp_extension', 'numba'
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep


@dataclass
class Job:
    "The input of a worker: a file, its arguments, a schedule, and options for CUDA C"

    file: str
    report: str = ''  # the file that the findings are written to
    args: list = field(default_factory=list)  # of the program
    schedule: str = 'forward'
    seconds: float = 300.0  # time limit of a kernel
    time_limit: float | None = None  # of the program, in seconds
    include_folders: list = field(default_factory=list)  # of headers
    macros: list = field(default_factory=list)  # 'NAME' or 'NAME=VALUE'
    other_sources: list = field(default_factory=list)  # files of a CUDA program with several
    launch: str | None = None  # the kernel to launch, for a file without a `main`
    sizes: dict = field(default_factory=dict)  # of that launch: size, block, grid
    launch_args: list = field(default_factory=list)  # 'NAME=VALUE' for its parameters
    disabled_checks: list = field(default_factory=list)  # as `checks_to_disable` returns them

    def to_json(self):
        "Return the job as JSON, the argument of the command"
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text):
        "Return the job that `to_json` wrote"
        return cls(**json.loads(text))


class ProgramFailed(Exception):
    "The program ended with an error that is not a finding; the message describes it"


class TimeLimit:
    """Interrupts the program after some seconds, as Ctrl-C does, so that its kernel and line can be reported.

    A program that does not end is then ended, after a call of `end`. SIGINT, which a shell's background job ignores, is
    handled in the `with` block."""

    def __init__(
        self,
        seconds,  # None: no limit
        recorder,
        end,  # a function without arguments
    ):
        self.seconds, self.recorder, self.end = seconds, recorder, end
        self.is_reached = False
        self.kernel = None  # the name of the kernel that was interrupted, if it is known
        self._timer = None
        self._ignored_signal = False  # whether SIGINT was ignored before the `with` block

    def __enter__(self):
        self._ignored_signal = self.seconds is not None and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        if self._ignored_signal:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._call_later(self.seconds, self._interrupt)
        return self

    def __exit__(self, *exception):
        if self._timer:
            self._timer.cancel()
        if self._ignored_signal:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _call_later(self, seconds, function):
        if seconds is not None:
            self._timer = threading.Timer(seconds, function)
            self._timer.daemon = True
            self._timer.start()

    def _interrupt(self):
        self.is_reached = True
        self.kernel = next((getattr(t.owner, '__name__', None) for t in self.recorder.active_targets[-1:]), None)
        self._call_later(_GRACE_SECONDS, self._end_process)
        os.kill(os.getpid(), signal.SIGINT)

    def _end_process(self):
        self.end()
        os._exit(1)

    def interruption(self, error=None):
        "Describe what was interrupted, by an exception that may be the `KeyboardInterrupt`; None if nothing was"
        if not self.is_reached:
            return None
        if isinstance(error, KeyboardInterrupt) and str(error):  # the emulator's message, with the kernel's line
            return ', '.join(map(str.strip, str(error).splitlines()))
        frames = _program_frames(error) if error else []
        subject = f'the kernel {self.kernel}' if self.kernel else 'the program'
        where = f', {relative_path(frames[-1].filename)}, line {frames[-1].lineno}: {frames[-1].line}' if frames else ''
        return f'{subject} was interrupted{where}'


def _settings_of(job):
    "Return the settings of a job: its schedule, the checks that are enabled, and the races that are allowed"
    return parse_schedule(job.schedule).settings | settings_without([*map(tuple, job.disabled_checks)])


@contextmanager
def _emulated_gpu(job):
    "Emulate a GPU for a program in Python: for Numba and Triton, and for torch if it is installed"
    from .. import as_gpu
    from ..cpp import emulator
    from ..diagnostics.settings import change, settings
    from ..sim import options

    with ExitStack() as stack:
        stack.enter_context(as_gpu.as_gpu(imports_torch=False) if find_spec('torch') else as_gpu.python_kernels())
        stack.enter_context(change(settings, **_settings_of(job)))
        stack.enter_context(emulator.options(seconds=job.seconds))
        stack.enter_context(options(seconds=job.seconds))
        yield


def _run_python(job):
    "Run a program in Python as `__main__`"
    path = Path(job.file).resolve()
    sys.argv = [job.file, *job.args]
    sys.path.insert(0, str(path.parent))
    runpy.run_path(str(path), run_name='__main__')


def _run_notebook(job):
    "Run the cells of a notebook; the code of a cell has the file name `NOTEBOOK, cell N`, which `source_map` reads"
    from ..support.lazy_exports import require

    require('IPython', 'gridstride check, for a notebook,')
    from IPython.core.interactiveshell import InteractiveShell

    path = Path(job.file).resolve()
    shell = InteractiveShell.instance(colors='NoColor')
    sys.path.insert(0, str(path.parent))
    os.chdir(path.parent)
    cells = json.loads(path.read_text(encoding='utf-8'))['cells']
    for i, cell in enumerate(cells):
        if cell['cell_type'] == 'code':
            shell.compile.get_code_name = lambda *code, i=i: f'{path}, cell {i}'
            result = shell.run_cell(''.join(cell['source']))
            result.raise_error()


def _run_cuda(job):
    "Run a CUDA program, or launch a kernel of a file without a `main`"
    from ..cpp import emulator
    from ..cpp.program import run
    from ..diagnostics.settings import change, settings

    path = Path(job.file)
    src = path.read_text(encoding='utf-8-sig', errors='replace')
    schedule = parse_schedule(job.schedule)
    with change(settings, **_settings_of(job)), emulator.options(seconds=job.seconds):
        if job.launch:
            return _launch_kernel(job, src, schedule.seed)
        name = ''.join(c if c.isalnum() else '_' for c in path.stem)
        units = {Path(u).name: Path(u).read_text(encoding='utf-8-sig', errors='replace') for u in job.other_sources}
        include = [
            Path(folder).resolve() for folder in (*job.include_folders, *(Path(u).parent for u in job.other_sources))
        ]
        _check_main(job.file, [src, *units.values()])
        sources = dict(folder=path.resolve().parent, include=include, units=units, defines=job.macros)
        if status := run(src, name, job.args, is_host_only=path.suffix != '.cu', **sources):
            raise ProgramFailed(f'the program ended with exit status {status}')


def _check_main(file, sources):
    "Raise `ProgramFailed` if the files, which are not compiled yet, have kernels but no `main`"
    from ..cpp.frontend.reader import kernels

    if any(re.search(r'\bmain\b|^\s*#\s*include\s*"', source, re.M) for source in sources):
        return
    names = [kernel.name for source in sources for kernel in kernels(source)]
    if names:
        raise ProgramFailed(
            'there is no main: check the program that launches these kernels, or launch one with random arguments: '
            f'gridstride check --launch {names[0]} {file}'
        )


def _launch_kernel(job, src, seed):
    from ..cpp.harness import launch, read_values

    sizes: dict[str, Any] = {name: tuple(size) if isinstance(size, list) else size for name, size in job.sizes.items()}
    launch(src, job.launch, read_values(job.launch_args), **sizes, seed=seed, report=print)


def _run(job):
    "Run the file of a job; raises the exceptions of the program"
    suffix = Path(job.file).suffix
    if suffix not in ('.py', '.ipynb'):
        return _run_cuda(job)
    with _emulated_gpu(job):
        (_run_notebook if suffix == '.ipynb' else _run_python)(job)


def _describe_error(error, recorder):
    "Describe the error that ended the program; return None if it is a finding, or the program exited normally"
    if isinstance(error, SystemExit):
        return None if error.code in (None, 0) else f'the program ended with exit status {error.code}'
    if recorder.add_error(error):
        return None
    print(*traceback.format_list(_program_frames(error)), sep='', end='', file=sys.stderr)
    return str(error) if isinstance(error, ProgramFailed) else f'{type(error).__name__}: {error}'


def _program_frames(error):
    "Return the frames of a traceback that belong to the program, without those of this package and of Python itself"
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if not frame.filename.startswith((_PACKAGE, _STANDARD_LIBRARY, '<frozen'))]


def main(argv=None) -> int:  # exit status
    "Run the job in `argv[0]`; returns 0 even if there are findings, which are in the report"
    job = Job.from_json((sys.argv[1:] if argv is None else argv)[0])
    with open(job.report, 'a', encoding='utf-8') as report:

        def write(**line):
            print(json.dumps(line), file=report, flush=True)

        recorder = Recorder(job.file, lambda finding: write(finding=asdict(finding)), job.schedule)
        recorder.disabled_checks = {*map(tuple, job.disabled_checks)}

        def write_status(error=None, description=None):
            status = dict(launches=recorder.num_launches, error=description, interruption=limit.interruption(error))
            write(**status, imported=_imported_modules())

        limit = TimeLimit(job.time_limit, recorder, write_status)
        error = description = None
        with recorder.recording():
            try:
                with limit:
                    _run(job)
            except BaseException as e:
                error, description = e, _describe_error(e, recorder)
        write_status(error, description)
    return 0


def _imported_modules():
    "Return the names of imported modules whose import is slow and has no side effects"
    package_prefix = f'{__package__.partition(".")[0]}.'
    return [name for name in sys.modules if name in _LARGE_MODULES or name.startswith(package_prefix)]


if __name__ == '__main__':
    sys.exit(main())
