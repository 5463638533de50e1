"""The record of a finding, for all dialects; all output formats and the pytest plugin use it."""

import re
from dataclasses import asdict, dataclass, fields
from linecache import getline
from pathlib import Path
from typing import Any

__all__ = [
    'Finding',
    'finding_of_error',
    'finding_of_warning',
    'checks_to_disable',
    'page_url',
    'relative_path',
    'require_codes',
    'settings_without',
]


@dataclass
class Finding:
    "A finding: its message, location, thread and remedy; the attributes have the names of the JSON fields"

    kind: str  # 'racecheck', ...
    code: str  # of the message: 'race', ...
    level: str  # 'error', or 'warning' if the kernel continues
    dialect: str  # 'python', 'cuda' or 'triton'
    message: str  # the full text
    summary: str  # the first sentence of the message
    hint: str = ''  # how to fix it
    kernel: str | None = None
    file: str | None = None  # relative to the current folder if it is inside it
    line: int | None = None  # in `file`; None if unknown
    cell: int | None = None  # index of the cell of a notebook; `line` is then a line of the cell
    source: str = ''  # the source line
    block: tuple | None = None  # (x, y, z)
    thread: tuple | None = None  # (x, y, z)
    array: str | None = None
    index: tuple | None = None  # of the element
    other: dict | None = None  # the other access of a data race: file, line, source, block, thread
    page: str = ''  # the URL of the message's page
    schedule: str = 'forward'  # the order of blocks and threads, as `--replay` takes it
    test: str | None = None  # the test that launched the kernel
    launch: str | None = None  # sizes of the launch, as options; only with `--launch`
    compiled_line: int | None = None  # `line` in the source that was compiled; not in reports

    @property
    def key(self):
        "The fields that identify a finding"
        return self.kind, self.code, self.file, self.cell, self.line, self.kernel

    def to_dict(self):
        "Return the finding as a dictionary that JSON can store"
        values = asdict(self)
        del values['compiled_line']
        return values

    @classmethod
    def from_dict(cls, values):
        "Return the finding that `to_dict` stored; ignore fields that this version does not know"
        known_names = {f.name for f in fields(cls)}
        known_values: dict[str, Any] = {name: v for name, v in values.items() if name in known_names}
        return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in known_values.items()})


def relative_path(file):
    "Return a path with slashes, relative to the current folder if it is inside it; None for None"
    if not file:
        return None
    path = Path(file)
    try:
        return path.resolve().relative_to(Path.cwd().resolve()).as_posix()
    except (ValueError, OSError):
        return path.as_posix()


def site_url():
    "Return the URL of the site, from the metadata of the installed package, or from settings.ini next to it"
    from configparser import ConfigParser
    from importlib.metadata import PackageNotFoundError, metadata

    settings = ConfigParser()
    if settings.read(Path(__file__).parents[2] / 'settings.ini', encoding='utf8'):
        return settings.get('DEFAULT', 'site', fallback='')
    try:
        urls = metadata('gridstride').get_all('Project-URL') or []
    except PackageNotFoundError:
        return ''
    return next((url.partition(', ')[2] for url in urls if url.startswith('Documentation, ')), '')


def page_url(kind, code):
    "Return the URL of a message's page; '' for a code that has none"
    from ..diagnostics.messages import MESSAGES

    site = site_url()
    return f'{site}/messages/{kind}-{code}.html' if site and (kind, code) in MESSAGES else ''


def require_codes(codes):
    "Raise `ValueError` for a code that no finding has"
    from ..diagnostics.messages import MESSAGES

    if unknown_codes := {*codes} - {code for _, code in MESSAGES}:
        raise ValueError(f'unknown code {min(unknown_codes)}; in a report, the code follows the slash in [kind/code]')


def _to_ints(xyz):
    "Return an index as a tuple of Python integers; None for None"
    return None if xyz is None else tuple(map(int, xyz))


def _index_to_ints(index):
    "Return the index of an element as a tuple of integers; None if a component is not an integer"
    try:
        return _to_ints(index if isinstance(index, (tuple, list)) or index is None else (index,))
    except (TypeError, ValueError):
        return None


def _message_in_files(error, line, other_line, call_line):
    "Return the message of an error, with line numbers of the program's files instead of those of the compiled source"
    text = str(error)
    for prefix, compiled_line, file_line in (
        ('line', error.line, line),
        ('against line', error.other and error.other.line, other_line),
        ('called on line', error.call_line, call_line),
    ):
        if file_line:
            text = re.sub(rf'^  {prefix} {compiled_line}\b', f'  {prefix} {file_line}', text, flags=re.MULTILINE)
    return text


def finding_of_error(
    error,  # a `KernelError`
    locate=lambda file, line: (file, line, None),  # maps a line of the compiled source to (file, line, cell)
) -> Finding:
    "Return the `Finding` of an error that stopped a kernel"
    file, line, cell = locate(error.file, error.line)
    code = error.code or error.kind.replace(' ', '_')
    other: dict[str, Any] | None = None
    other_line = call_line = None
    if error.call_line:
        _, call_line, _ = locate(error.file, error.call_line)
    if error.other:
        other_file, other_line, _ = locate(error.other.file or error.file, error.other.line)
        other = dict(file=relative_path(other_file), line=other_line, source=error.other.source)
        other.update(block=_to_ints(error.other.block), thread=_to_ints(error.other.thread))
    return Finding(
        error.kind,
        code,
        'error',
        error.dialect,
        _message_in_files(error, line, other_line, call_line),
        error.summary,
        error.hint,
        kernel=error.kernel,
        file=relative_path(file),
        line=line,
        cell=cell,
        source=error.source,
        block=_to_ints(error.block),
        thread=_to_ints(error.thread),
        array=error.array,
        index=_index_to_ints(error.index),
        other=other,
        page=page_url(error.kind, code),
        compiled_line=error.line,
    )


def finding_of_warning(
    warning,  # the warning that `warn_of` issued
    file=None,  # of the kernel, if the warning does not name one
    locate=lambda file, line: (file, line, None),  # as for `finding_of_error`
) -> Finding:
    "Return the `Finding` of a warning"
    file, line, cell = locate(warning.file or file, warning.line)
    source = getline(str(file), line).strip() if file and line and cell is None else ''
    return Finding(
        warning.kind,
        warning.code,
        'warning',
        warning.dialect,
        f'{warning.kind}: {warning}',
        warning.summary,
        warning.hint,
        kernel=warning.fields.get('kernel'),
        file=relative_path(file),
        line=line,
        cell=cell,
        source=source,
        array=warning.fields.get('array'),
        index=_index_to_ints(warning.fields.get('index')),
        block=_index_to_ints(warning.fields.get('in_block')),
        thread=_index_to_ints(warning.fields.get('thread')),
        page=page_url(warning.kind, warning.code),
    )


def checks_to_disable(
    findings,  # of a run
    allowed,  # an `AllowedFindings`
    disabled,  # the checks that were disabled in this run, as this function returns them
) -> set:  # of (kind, kernel, code, line), (kind, kernel) and (kind, None), for all kernels
    """Return the checks without which a program must run again, because their allowed findings ended it.

    An allowed finding stops its kernel, so the remainder of the program has not run. If a kernel can continue after the
    finding, it is not reported again on its line. Otherwise, its check is disabled in the kernel; in a program of CUDA
    C, whose kernels are not launched by Python, in all kernels. A program that also has other findings is not run
    again."""
    from ..diagnostics.settings import CHECKS

    if not all(f in allowed for f in findings):
        return set()
    errors = [f for f in findings if f.level == 'error' and f.kind in CHECKS]
    exclusions = [next((e for e in _possible_exclusions(f) if e not in disabled), None) for f in errors]
    return {*filter(None, exclusions)}


# dialect of kernels in Python -> codes of findings after which they can continue
_CAN_CONTINUE = {
    'python': {
        *('race', 'race_of_blocks', 'race_of_cluster', 'race_of_devices', 'race_of_volatiles', 'flag_not_acquired'),
        *('fence_of_block', 'scope_of_device', 'atomic_of_block', 'atomic_of_device', 'unordered_operations'),
        *('unwritten', 'unwritten_shared', 'unwritten_local'),
        *('before', 'outside', 'outside_dynamic', 'no_dynamic', 'constant'),
        *('diverged', 'grid_diverged', 'thread_not_in_mask', 'lane_in_other_branch', 'source_lane'),
    },
    'triton': {
        *('programs', 'programs_atomic', 'lanes', 'lanes_update', 'unwritten_program'),
        *('outside_program', 'outside_masked', 'outside_single', 'outside_before', 'outside_expanded'),
        *('null_pointer', 'foreign_pointer', 'misaligned_pointer', 'box_misaligned', 'box_before'),
    },
}


def _may_continue(finding):
    """Return whether a kernel may continue after a finding.

    In CUDA C, some instructions end the kernel nevertheless; then the finding is there again in the next run."""
    if not finding.kernel or not finding.compiled_line:
        return False
    if finding.dialect == 'cuda':
        return finding.kind != 'synccheck' or finding.code in ('diverged', 'skipped')  # others wait for each other
    return finding.code in _CAN_CONTINUE[finding.dialect]


def _possible_exclusions(finding):
    "Yield what to disable so that an allowed finding does not end a run, from the most specific"
    if _may_continue(finding):
        yield finding.kind, finding.kernel, finding.code, finding.compiled_line
    yield finding.kind, None if finding.dialect == 'cuda' else finding.kernel
    yield finding.kind, None


def settings_without(
    disabled,  # as `checks_to_disable` returns it
) -> dict:
    """Return the settings that disable checks in all kernels, and allow findings.

    >>> settings_without([('racecheck', 'k', 'race', 3)])['allowed_findings']
    frozenset({('race', 'k', 3)})"""
    from ..diagnostics.settings import settings

    checks = tuple(check for check in settings.checks if (check, None) not in disabled)
    findings = frozenset((code, kernel, line) for _, kernel, code, line in (o for o in disabled if len(o) == 4))
    return dict(checks=checks, allowed_findings=findings)
