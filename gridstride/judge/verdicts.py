"""The verdict on a submission: accepted, or rejected for one reason."""

import unicodedata
from dataclasses import dataclass, field
from statistics import median

REASONS = {  # code -> reason for which a submission is rejected
    'form': 'the file is not a submission',
    'raised': 'it raised an error',
    'died': 'its process crashed',
    'time': 'it exceeded the time limit',
    'type': 'it returned a value of another type or shape',
    'subclass': 'the output is not a plain tensor, so it could compute later, during the comparison',
    'alias': 'the output shares memory with an input',
    'inputs': 'it wrote to its inputs',
    'late': 'it was still computing when it returned',
    'stream': 'it did not wait for work on a side stream',
    'clock': 'the call took longer than its events show',
    'patched': 'it replaced functions of other modules',
    'inspected': 'it inspected objects or frames of its callers',
    'reference': 'it tried to import the reference',
    'fallback': 'its kernels did not compute the output',
    'unwritten': 'parts of the output were never written, or were computed from uninitialized memory',
    'nan': 'parts of the output are NaN, but those of the reference are not',
    'replay': 'the output is that of an earlier call',
    'constant': 'the output does not depend on the inputs',
    'seed': 'the output is that of the public test inputs',
    'wrong later': 'the output is correct at first, but wrong in later calls',
    'shapes': 'the output is correct only for the public sizes',
    'precision': 'the output was accumulated with less precision than the task requires',
    'wrong': 'the output is wrong',
}


def escape_controls(text, lines=False) -> str:
    """Escape text of a submission, so that no character controls a terminal or, unless `lines`, begins a new line.

    >>> print(escape_controls(chr(27) + '[1m'))
    \\x1b[1m"""
    allowed = '\n\t' if lines else ''
    return ''.join(
        c if c in allowed or unicodedata.category(c) not in ('Cc', 'Cf', 'Cs', 'Zl', 'Zp') else ascii(c)[1:-1]
        for c in str(text)
    )


ISOLATION = {  # protection, as in `Verdict.isolation` -> what a verdict reports without it
    'processes': 'other processes were visible to it',
    'files': "this user's files were visible to it",
    'network': 'it had network access',
    'landlock': 'Landlock did not restrict it',
    'seccomp': 'its system calls were not filtered',
    'limits': 'its resources were not limited',
}


def _format_seconds(seconds):
    return f'{seconds * 1e3:.3g} ms' if seconds < 1 else f'{seconds:.3g} s'


@dataclass(frozen=True)
class Verdict:
    "The verdict on a submission: true if it is accepted, else with the reason; prints in a few lines"

    name: str  # of the file
    task: str
    code: str  # 'accepted', or a key of `REASONS`
    reason: str = ''  # the event that caused the rejection, and the call in which it happened
    num_calls: int = 0  # each of them checked, and with new values
    num_sizes: int = 0  # distinct sizes of these calls
    launch_counts: dict = field(default_factory=dict)  # kernel -> launches in one call
    device: str = 'CPU'
    times: tuple = ()  # seconds of each timed call: by events on a GPU, by the judge's clock on a CPU
    reference_times: tuple = ()  # seconds of each call of the reference, interleaved; empty if it was not timed
    log: str = ''  # the end of what the submission printed, to standard output and error
    isolation: tuple = ()  # keys of `ISOLATION`: the active protections; () if it did not run

    def __post_init__(self):
        for name in ('name', 'task', 'reason'):
            object.__setattr__(self, name, escape_controls(getattr(self, name)))
        object.__setattr__(self, 'log', escape_controls(self.log, lines=True))
        object.__setattr__(self, 'launch_counts', {escape_controls(k): v for k, v in self.launch_counts.items()})

    @property
    def accepted(self) -> bool:
        "Whether the submission is accepted"
        return self.code == 'accepted'

    def __bool__(self):
        return self.accepted

    @property
    def seconds(self) -> float:  # None if there are no times
        "The median of `times`"
        return median(self.times) if self.times else None

    @property
    def speedup(self) -> float:  # None without the reference's times
        "The speedup over the reference"
        return median(self.reference_times) / self.seconds if self.times and self.reference_times else None

    def _timing_lines(self):
        "Return a line that states the times, or none"
        if not self.times:
            return []
        clock = "by CUDA events, checked against the judge's clock" if self.device != 'CPU' else "by the judge's clock"
        text = f'{_format_seconds(self.seconds)} per call, {clock}'
        if self.speedup:
            text += f'; speedup over the reference: {self.speedup:.3g}'
        if self.device == 'CPU':
            text += '; measured on the emulator, which says nothing about a GPU'
        return [text]

    def _isolation_lines(self):
        "Return a line that lists the protections that are missing on this system, or none"
        missing_protections = [text for protection, text in ISOLATION.items() if protection not in self.isolation]
        return (
            [f'not isolated on this system: {", ".join(missing_protections)}']
            if missing_protections and self.code != 'form'
            else []
        )

    def __str__(self):
        prefix = f'{self.name}, {self.task}, {self.device}: '
        if not self.accepted:
            return '\n  '.join(
                [f'{prefix}rejected ({self.code}): {REASONS[self.code]}', self.reason, *self._isolation_lines()]
            )
        launches = ', '.join(f'{k} x{n}' for k, n in self.launch_counts.items()) or 'none'
        lines = [
            f'{prefix}accepted',
            f'{self.num_calls} calls with new values and {self.num_sizes} different sizes, all outputs correct',
        ]
        return '\n  '.join([*lines, f'kernels per call: {launches}', *self._timing_lines(), *self._isolation_lines()])

    __repr__ = __str__
