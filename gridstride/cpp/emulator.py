"""Runs CUDA C on the CPU, and converts findings to exceptions.

The emulator is a small C++ library, `runtime/`, with headers that replace CUDA's, `include/cuda/`.
Each thread of a block is a fiber with its own stack, which switches to the next fiber when it must wait. Threads that
never wait run one after another in a plain loop. In a checked build the compiler instruments every access
(`-fsanitize=thread`, with the runtime's hooks in place of ThreadSanitizer's), and the runtime keeps shadow memory,
which records the last accesses to each word and the threads that made them.
"""

import atexit
import ctypes
import os
import re
import select
import signal
import time
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

from ..diagnostics.accessed_arrays import ExecutedLine
from ..diagnostics.errors import warn_of
from ..diagnostics.source_lines import find_uses
from ..diagnostics.settings import (
    CHECKS,
    ORDERS,
    Settings,
    change,
    check_non_negative,
    parse_checks,
    settings,
    values_of,
)
from ..diagnostics.settings import options as common_options
from ..support.parameter_docs import documented
from . import fourier
from .toolchain.runtime_library import runtime
from .lint.callers import entry_of
from .frontend.edits import NotEmulated
from .finding import CFinding, COptions, RuntimeFinding, check_abi, resolve_hash


# The emulator has the options of the simulator, and these four. `threads`: the number of CPU threads, 0 for all
limits = Settings(threads=0, seconds=60.0, memory=None, devices=None)


@documented
@contextmanager
def options(
    checks=None,  # True or 'all', False or 'none', or some of `CHECKS`
    order=None,  # of blocks and threads: 'forward', 'reverse' or 'shuffle'
    seed=None,  # for the shuffled order
    threads=None,  # CPU threads for unchecked kernels; 0: as many as there are
    seconds=None,  # the time limit per kernel
    memory=None,  # of the device: bytes, or '8G'; None: GRIDSTRIDE_DEVICE_MEMORY, else the free memory of this machine
    devices=None,  # the number of emulated devices, 1 to 8; None: GRIDSTRIDE_DEVICES, else 1
    lang=None,  # language of findings: 'en', 'pt_BR' or 'zh_CN'; by default that of GRIDSTRIDE_LANG, or English
):
    "Set how emulated kernels run, in the `with` block; the first three options and `lang` are those of `sim.options`"
    check_non_negative(threads=threads)
    if seconds is not None and not (isinstance(seconds, (int, float)) and seconds > 0):
        raise ValueError(f'seconds must be a positive number; got {seconds!r}')
    memory = parse_bytes(memory)
    check_num_devices(devices)
    with (
        common_options(checks, order, seed, lang=lang),
        change(limits, threads=threads, seconds=seconds, memory=memory, devices=devices),
    ):
        yield


MAX_DEVICES = 8


def check_num_devices(devices):
    "Raise `ValueError` unless the number of devices is None or 1 to 8"
    if devices is not None and not (isinstance(devices, int) and 1 <= devices <= MAX_DEVICES):
        raise ValueError(f'devices, the number of emulated devices, must be from 1 to {MAX_DEVICES}; got {devices!r}')


def num_devices() -> int:
    "Return the number of emulated devices: that of `options`, of GRIDSTRIDE_DEVICES, or 1"
    devices = values_of(limits)['devices']
    if devices is None and (text := os.environ.get('GRIDSTRIDE_DEVICES')):
        devices = int(text) if text.isdecimal() else text
        check_num_devices(devices)
    return devices or 1


def parse_bytes(size):
    "Parse a size in bytes, an int or a string such as '8G', or None; raises `ValueError` for anything else"
    if size is None:
        return None
    m = re.fullmatch(r'(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?', str(size).strip(), re.I)
    if not m or not (num_bytes := int(float(m[1]) * 1024 ** ' KMG'.index(m[2].upper() or ' '))):
        expected = "a positive number of bytes, or a string such as '512M'"
        raise ValueError(f"the device's memory must be {expected}; got {size!r}")
    return num_bytes


@contextmanager
def _environment(name, value):
    "Set an environment variable in the `with` block, and restore it afterwards"
    old_value = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name, None)
        if old_value is not None:
            os.environ[name] = old_value


# Only the emulator has detectors, so a machine with a GPU needs this to check a kernel.
@contextmanager
def on_emulator():
    "Compile CUDA C in the `with` block for the emulator, even on a machine with a GPU; its tensors are on the CPU"
    with _environment('GRIDSTRIDE_BACKEND', 'sim'):
        yield


_PRINT_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)
_WARN_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.POINTER(CFinding))


def print_text(text):
    "Print the output of a kernel or a program; an error of `print` is raised after the call"
    try:
        print(text, end='', flush=True)
    except Exception as e:  # a stdout that is closed or full
        _pending_errors.append(e)


@_PRINT_CALLBACK
def _print(text, n):
    print_text(ctypes.string_at(text, n).decode(errors='replace'))


def _file_of_warning(finding, sources):
    "Return the learner's file that a warning is about; the runtime may know only the line"
    if file := resolve_hash(finding.file, sources):
        return _learners_file(file, sources)
    if finding.code == 'out_of_memory':
        names = (name for name in sources if not name.endswith('.cpp'))
        allocating_files = [name for name in names if 'lloc' in _line_text(sources, name, finding.line)]
        return (allocating_files or [_learners_file('', sources)])[0]
    return _defining_file(finding.kernel, sources) or _learners_file('', sources)


# The sources of the current call: only one thread uses the device at a time
_current_call = SimpleNamespace(sources=dict)
# Calls whose launches are in the queue of several devices: their sources and arguments, and the checks of the last call
_deferred = SimpleNamespace(sources=None, arguments=[], checks=())


def deferred_calls():
    "Return the `sources` functions and the arguments of deferred calls, and the `checks` of the last one"
    return _deferred


def defer_arguments(args):
    "Keep the arguments of a launch until it has run, in a `deferring_calls` block"
    if _deferred.sources is not None:
        _deferred.arguments.append(args)


def defer_call(sources, checks):
    "Store the `sources` function and the checks of a call, in a `deferring_calls` block"
    if _deferred.sources is not None:
        _deferred.checks = checks
        if sources not in _deferred.sources:
            _deferred.sources.append(sources)


@contextmanager
def deferring_calls():
    "Collect the calls in the `with` block, whose kernels run later"
    _deferred.sources = []
    try:
        yield
    finally:
        _deferred.sources = None
        _deferred.arguments.clear()


_pending_errors = []  # warnings that a filter turned into errors, and errors of `print`; C++ cannot propagate them


@_WARN_CALLBACK
def _warn(finding):
    warn_of_finding(RuntimeFinding(finding.contents))


def warn_of_finding(finding):
    "Issue the warning of a `RuntimeFinding`; if a filter turns it into an error, store it until the call has ended"
    try:
        warn_of(
            finding.code,
            'cuda',
            dict(finding.fields, line=finding.line, kernel=finding.kernel),
            _file_of_warning(finding, _current_call.sources()),
        )
    except Warning as e:
        _pending_errors.append(e)


def raise_pending_error():
    "Raise the first warning since `prepare` that a filter turned into an error, or the first error of `print`"
    if _pending_errors:
        raise _pending_errors[0]


@fourier.CALLBACK
def _transform(request):
    try:
        fourier.compute(request.contents)
    except Exception as e:  # not enough memory
        _pending_errors.append(e)


@lru_cache
def load_runtime():
    "Load the runtime, cached; modules that are loaded later are linked to it"
    # Idle OpenMP threads must sleep, because threads that spin between launches would slow down other programs.
    with _environment('OMP_WAIT_POLICY', os.environ.get('OMP_WAIT_POLICY', 'passive')):
        lib = ctypes.CDLL(str(runtime()), mode=ctypes.RTLD_GLOBAL)
    check_abi(lib)
    lib.gridstride_take_executed_blocks.restype = lib.gridstride_take_branches.restype = ctypes.c_long
    lib.gridstride_finding.restype = ctypes.POINTER(CFinding)
    lib.gridstride_send_output_to(_print)
    lib.gridstride_send_warnings_to(_warn)
    lib.gridstride_transform_with(_transform)
    for to_python in (lib.gridstride_send_output_to, lib.gridstride_send_warnings_to, lib.gridstride_transform_with):
        atexit.register(to_python, None)  # destructors of modules may print after the interpreter has ended
    return lib


class _ExecutedBlock(ctypes.Structure):
    "`ExecutedBlock` of runtime/coverage.cpp"

    _fields_ = [('library', ctypes.c_char_p), ('offset', ctypes.c_size_t)]


def take_executed_blocks() -> dict:  # path of a library -> offsets of the return addresses of the blocks' calls
    "Return the basic blocks executed since the last call, of modules that were compiled in `build.tracing_blocks`"
    blocks, offsets_of_library = (_ExecutedBlock * 4096)(), {}
    while num_taken := load_runtime().gridstride_take_executed_blocks(blocks, len(blocks)):
        if num_taken < 0:
            raise NotEmulated('coverage supports at most 250,000 basic blocks per kernel')
        for block in blocks[:num_taken]:
            offsets_of_library.setdefault(os.fsdecode(block.library), set()).add(block.offset)
    return offsets_of_library


class _BranchCounts(ctypes.Structure):
    "`BranchCounts` of runtime/coverage.cpp"

    _fields_ = [
        ('file', ctypes.c_char_p),
        *((name, ctypes.c_long) for name in ('line', 'taken', 'not_taken', 'divergent')),
    ]


def take_branches() -> dict:  # (file, line) -> [taken, not taken, divergent]
    """Return, per branch, how many warps took it since the last call, how many did not, and how many diverged.
    A divergent warp counts as both, a branch in a loop once per iteration. Only modules that were compiled in
    `build.tracing_blocks` are counted."""
    rows = ctypes.POINTER(_BranchCounts)()
    num_rows = load_runtime().gridstride_take_branches(ctypes.byref(rows))
    return {(os.fsdecode(row.file), row.line): [row.taken, row.not_taken, row.divergent] for row in rows[:num_rows]}


@lru_cache(64)  # called by every launch
def _detector_mask(compiled, enabled):
    "Return the bit mask of the detectors that are compiled in and enabled"
    return sum(1 << 1 + i for i, check in enumerate(CHECKS) if check in compiled and check in enabled)


# The runtime compares an address with the nearest array, which may be another one, or one that was freed;
# `Finding.name_array` then stores one of the keys.
_CODES_OF_NEAREST = dict.fromkeys(
    ('outside', 'overflowed', 'overflowed_among'), ('outside', 'overflowed', 'before', 'freed', 'no_array')
)


@lru_cache(64)  # called by every launch
def _allowed_findings(findings):
    "Return the findings that are not reported as the runtime reads them"
    rows = [
        f'{runtime_code} {kernel} {line}\n'
        for code, kernel, line in findings
        for runtime_code in _CODES_OF_NEAREST.get(code, (code,))
    ]
    return ''.join(rows).encode()


_prepared = None  # what the runtime's options depend on, at the last call of `prepare`


def prepare(
    checks,  # the detectors that the kernels were compiled for, as `cuda_kernel` takes them
    seconds=None,  # the time limit per kernel; None: that of `options`
    sources=dict,  # a function that returns {file name -> the learner's source}, for the files of warnings
):
    """Set the runtime's options for the next launch; a detector runs if it is in `checks` and `options` enables it.

    Raises `NotEmulated` under `sim.options(warp=64)`: the emulator has no other warp size."""
    global _prepared
    _pending_errors.clear()
    _current_call.sources = sources
    current_settings = values_of(settings)
    current_limits = values_of(limits)
    environment = os.environ.get('GRIDSTRIDE_DEVICE_MEMORY'), os.environ.get('GRIDSTRIDE_DEVICES')
    inputs = load_runtime(), checks, seconds, current_settings, current_limits, environment
    if inputs == _prepared:
        return
    if current_settings['warp'] != 32:
        raise NotEmulated(
            f'the emulator of CUDA C does not support warps of {current_settings["warp"]} threads\n'
            '  sim.options(warp=64) applies only to kernels in Python; CUDA C has warps of 32 threads.'
        )
    compiled = checks if isinstance(checks, tuple) else parse_checks(checks)
    mask = _detector_mask(compiled, tuple(current_settings['checks']))
    memory = current_limits['memory'] or parse_bytes(os.environ.get('GRIDSTRIDE_DEVICE_MEMORY') or None) or 0
    order = ORDERS.index(current_settings['order'])
    seconds = seconds or current_limits['seconds']
    seed, threads = current_settings['seed'], current_limits['threads']
    c_options = COptions(mask, order, seed, threads, seconds, memory, num_devices())
    load_runtime().gridstride_set_options(ctypes.byref(c_options))
    load_runtime().gridstride_limit_swaps(current_settings['swaps'])
    load_runtime().gridstride_allow_findings(_allowed_findings(current_settings['allowed_findings']))
    _prepared = inputs


def array_at(line, column):
    """Return the name of the array that is indexed at `column` of the line of CUDA C; '' if none is found.

    g++ reports the column of the bracket that closes the index, clang the column of the array's name."""
    prefix = line[: max(column - 1, 0)]
    if line[len(prefix) : column] != ']':
        return re.match(r'(\w*)\s*\[|', line[len(prefix) :])[1] or ''
    prefix += ']'
    while prefix.endswith(']'):
        prefix = prefix[: _find_opening_bracket(prefix)].rstrip()
    return re.search(r'\w*$', prefix)[0]


_IS_ASSIGNED = re.compile(r'(\s*\.\w+)*\s*=(?!=)')  # matches the source after an element
_IS_REFERENCED = re.compile(r'&\s*(\w+\s*=\s*)?$')  # matches the source before an element


def access_at(line, column):
    """Return the kind of access to the element indexed at `column` of a line of CUDA C: 'read', 'write' or 'access'.

    The result is 'access' if the line takes a reference, or cannot be parsed, and 'read' for `x[i] += 1`, which reads
    first."""
    name = array_at(line, column)
    for start, end, _ in find_uses(line, name) if name else ():
        if start < column <= end and not _IS_REFERENCED.search(line[:start]):
            return 'write' if _IS_ASSIGNED.match(line, end) else 'read'
    return 'access'


def _find_opening_bracket(text):
    "Return the index of the bracket that matches the one at the end of `text`; 0 if there is none"
    depth = 0
    for i in reversed(range(len(text))):
        depth += (text[i] == ']') - (text[i] == '[')
        if not depth:
            return i
    return 0


def _learners_column(finding, line):
    "Return a finding's column in the learner's line; the compiled line has an inserted check after a kernel's `{`"
    return finding.column - ('__global__' in line and len(entry_of(finding.kernel or '')))


def _learners_file(file, sources):
    "Return the name in `sources` of a file that the runtime reports; its own name if `sources` does not have it"
    file = resolve_hash(file, sources) or next((name for name in sources if name.endswith('.cu')), '')
    path = os.path.normpath(file)
    matching = [name for name in sources if path == name or path.endswith(f'/{name}')]
    return max(matching, key=len) if matching else Path(file).name if Path(file).name in sources else file


def _is_in_multi_file_program(file, sources):
    "Return whether the program has several files, so that a message must name the file of a line"
    main_file = next((path for path in sources if path.endswith('.cu')), file)
    return file in sources and file != main_file or sum(path.endswith('.cu') for path in sources) > 1


def _defining_file(kernel, sources):
    "Return the file that defines a kernel; None if no file does"
    declaration_part = r'(?:[^;{}]|\{\})*'  # launch bounds may have `Shape{}`
    pattern = rf'__global__{declaration_part}\b{re.escape(kernel or "")}\s*\({declaration_part}\{{'
    # a `.cpp` is generated from a `.cu`
    original_sources = ((path, text) for path, text in sources.items() if not path.endswith('.cpp'))
    return next((name for name, text in original_sources if kernel and re.search(pattern, text)), None)


def _line_text(sources, file, n):
    "Return line `n` of a file; '' if it has no such line"
    return next(iter(sources.get(file, '').splitlines()[n - 1 : n]), '').strip() if n else ''


def try_to_load(
    path,  # of a module whose source may have static constructors
    sources,  # a function that returns {file name -> the learner's source}
):
    "Load a module in a child process first, and raise its finding, if any: a crash in this process would end Python"
    child = ctypes.c_int(-1)
    pipe = load_runtime().gridstride_load_in_child(os.fsencode(path), ctypes.byref(child))
    if pipe < 0:
        return
    report = b''
    try:
        report = _read_within(pipe, _TRIAL_SECONDS)
    finally:
        os.close(pipe)
        if child.value > 0:
            _reap_child(child.value, is_late=len(report) < ctypes.sizeof(CFinding))
    if len(report) == ctypes.sizeof(CFinding):
        finding = RuntimeFinding(CFinding.from_buffer_copy(report))
        if finding.kind != 'nothing':
            raise _make_exception(finding, sources())


# Time limit for a child process that loads a module: a constructor may wait for a thread that exists only in the parent
_TRIAL_SECONDS = 20


def _read_within(pipe, seconds):
    "Read a pipe to its end, or until `seconds` have passed"
    deadline, received = time.monotonic() + seconds, b''
    while select.select([pipe], [], [], max(0, deadline - time.monotonic()))[0] and (chunk := os.read(pipe, 1 << 16)):
        received += chunk
    return received


def _reap_child(process, is_late):
    "Wait until a child process has ended; if it `is_late`, kill it first"
    with suppress(OSError):
        if is_late:
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def last_finding() -> RuntimeFinding:
    "Return the finding that stopped the last call"
    return RuntimeFinding(load_runtime().gridstride_finding().contents)


def last_exception(
    sources: dict,  # file name -> the learner's source
) -> Exception:
    "Return the exception for the finding that stopped the last call"
    return _make_exception(last_finding(), sources)


def _make_exception(finding, sources):
    "Return the exception for a `RuntimeFinding`"
    file = resolve_hash(finding.file, sources) or _defining_file(finding.kernel, sources) or ''
    file = _learners_file(file, sources)
    finding.name_calls(lambda call: _with_source_line(call, sources))
    lines = dict(enumerate(sources.get(file, '').splitlines(), 1))
    if finding.code == 'outside_type':
        _name_local(finding, lines.get(finding.line, ''))
    finding.name_array(_lines_of_calls(finding, file, sources))
    finding.order_race(lambda line: lines.get(line, '').strip())
    if finding.is_in_other_file():
        other_file = _learners_file(finding.other_file, sources)
        finding.other = finding.other._replace(
            file=other_file, source=_line_text(sources, other_file, finding.other.line)
        )
    kernel_file = _defining_file(finding.kernel, sources) or file
    call_text = _line_text(sources, kernel_file, finding.call_line)
    is_other_line = (kernel_file, finding.call_line) != (file, finding.line)
    call_site = (finding.call_line, call_text, kernel_file) if call_text and is_other_line else None
    location_fields = dict(
        preceding_lines=_preceding_lines(lines, finding.line), following_lines=_following_lines(lines, finding.line)
    )
    location_fields['has_several_files'] = _is_in_multi_file_program(file, sources)
    return finding.exception(
        'cuda', file=file, source=lines.get(finding.line, '').strip(), call_site=call_site, **location_fields
    )


def _lines_of_calls(finding, file, sources):
    "Return the `ExecutedLine` of a finding, and of the calls that led to it"
    calls = [(finding.calls[0].function if finding.calls else finding.kernel, file, finding.line)]
    calls += [call[:3] for call in finding.calls[1:]]
    lines_of_file = {name: dict(enumerate(text.splitlines(), 1)) for name, text in sources.items()}
    rows = [(function, lines_of_file.get(name, {}), n) for function, name, n in calls]
    return [ExecutedLine(function, lines.get(n, ''), _preceding_lines(lines, n)) for function, lines, n in rows]


def _name_local(finding, line):
    "Set the array whose index is out of bounds, and the kind of access, from the source line"
    column = _learners_column(finding, line)
    finding.fields = dict(finding.fields, access=access_at(line, column))
    if array := array_at(line, column):
        finding.code, finding.fields = 'outside_named', dict(finding.fields, array=array)


def _with_source_line(call, sources):
    "Return a `Call` with the learner's file name and source line"
    file = _learners_file(call.file, sources)
    return call._replace(file=file, source=_line_text(sources, file, call.line))


_FUNCTION_START = '__(global|device)__'


def _preceding_lines(lines, n):
    "Return the lines of a function before its line `n`"
    first = next((i for i in range(n or 0, 0, -1) if re.search(_FUNCTION_START, lines.get(i, ''))), n or 1)
    return '\n'.join(lines.get(i, '') for i in range(first, n or 1))


def _following_lines(lines, n):
    "Return line `n`, and the lines of the function after it"
    if not n:
        return ''
    end = next(
        (i for i in range(n + 1, max(lines, default=n) + 1) if re.search(_FUNCTION_START, lines[i])), len(lines) + 1
    )
    return '\n'.join(lines.get(i, '') for i in range(n, end))
