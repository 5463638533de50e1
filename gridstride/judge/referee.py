"Judge a submission: call it, time the calls, and return a verdict."

from contextlib import ExitStack

import torch

from .calls import CallChecker, Refusal, launch_counts, sizes_text
from .forms import FormError, read_submission
from .wire import ProcessEnded
from .tasks import Task, find_task
from .verdicts import Verdict
from ..utils import backend

_NUM_TIMED_CALLS = 10
# The time per call outside a submission's events may be at most `_MAX_RATIO` times that of the reference, plus
# `_EXTRA_SECONDS`. For 25 honest submissions on an H100, with transfers of 14 to 101 ms, the ratio was 0.96 to 1.12;
# the margin is for busy hosts.
_MAX_RATIO, _EXTRA_SECONDS = 1.5, 1e-3


# Times
def _timed_sizes(task, device):
    "Return the sizes that are timed: large ones on a GPU, the first public ones on a CPU"
    if device == 'cuda' and task.benchmark:
        return task.benchmark
    return {k: v for k, v in task.tests[0].items() if k != 'seed'}


def _clock(device):
    "Return a function that returns the seconds of a call, measured by events on a GPU, else by the judge's clock"
    return lambda call: call.facts['event'] if device == 'cuda' else call.seconds


def _time_interleaved(checker, reference_checker, sizes):
    """Call submission and reference, interleaved, with the same new inputs; the first call of each is not timed. The
    submission is stopped while the reference runs, so that it cannot slow down the reference"""
    for _ in range(1 + _NUM_TIMED_CALLS):
        data = checker.make_data('new', sizes)
        expected_and_scales = checker.compute_expected(data)
        checker.call(data, sizes, expected_and_scales)
        with checker.stopped():
            reference_checker.call(data, sizes, expected_and_scales)


def _timed_calls(checker):
    return checker.calls[-_NUM_TIMED_CALLS:]


def _seconds_outside_events(checker):
    """Return the seconds per call outside its events: transfers, and any hidden work.

    It is the lower quartile of the calls, because a busy machine makes some calls longer."""
    return sorted(call.seconds - call.facts['event'] for call in _timed_calls(checker))[_NUM_TIMED_CALLS // 4]


def _check_clocks(checker, reference_checker):
    "Raise `Refusal` if a submission spends much more time per call outside its CUDA events than the reference does"
    seconds, reference_seconds = _seconds_outside_events(checker), _seconds_outside_events(reference_checker)
    if seconds > _MAX_RATIO * reference_seconds + _EXTRA_SECONDS:
        comparison = f'{seconds * 1e3:.3g} ms per call outside the CUDA events, but {reference_seconds * 1e3:.3g} ms'
        raise Refusal('clock', f"the judge's clock measured {comparison} for the reference")


def _check_kernels(checker, sizes):
    "Profile one call on a GPU and return its kernels; raises `Refusal` if the file has kernels and none of them runs"
    names = checker.submission.kernels
    header, blobs = checker.call_message(checker.make_data('new', sizes))
    answer, _ = checker.process.request({**header, 'op': 'kernels'}, blobs)
    counts = launch_counts(answer.get('kernels'))
    if names and not any(name in kernel for name in names for kernel in counts):
        raise Refusal(
            'fallback',
            f'none of the kernels of the submission ({", ".join(names)}) ran; these did: {", ".join(counts) or "none"}',
        )
    return counts


def _measure(stack, checker, limit):  # (times of the submission, times of the reference)
    "Time a submission and the reference; return empty tuples if the reference has no source"
    source = checker.task.baseline()
    if source is None:
        return (), ()
    reference_checker = CallChecker(read_submission(source), checker.task, checker.device, limit)
    reference_checker.start(stack)
    _time_interleaved(checker, reference_checker, _timed_sizes(checker.task, checker.device))
    if checker.device == 'cuda':
        _check_clocks(checker, reference_checker)
    seconds_of = _clock(checker.device)
    return tuple(map(seconds_of, _timed_calls(checker))), tuple(map(seconds_of, _timed_calls(reference_checker)))


def _device_name(device):
    return torch.cuda.get_device_name() if device == 'cuda' else 'CPU'


def _compute_verdict(checker, timing, limit):
    "Judge a submission and return the fields of its verdict; raises `Refusal` or `ProcessEnded`"
    with ExitStack() as stack:
        checker.start(stack)
        checker.run_plan()
        first_sizes = checker.calls[0].sizes
        times = tuple(call.seconds for call in checker.calls[1:] if call.sizes == first_sizes)
        reference_times = ()
        counts = checker.calls[-1].facts['launches']
        if timing:
            times, reference_times = _measure(stack, checker, limit)
        if checker.device == 'cuda':
            counts = _check_kernels(checker, first_sizes)
        checker.check_kernels_needed()
        checker.end()
        return dict(times=times, reference_times=reference_times, launch_counts=counts)


def _refusal_for_end(checker, process_ended):
    "Return the `Refusal` for a process that ended: the first report that it sent, or else how it ended"
    try:
        checker.check_reports()
    except Refusal as refusal:
        return refusal
    return Refusal(process_ended.code, f'{checker.call_label()} {process_ended.text}')


def _check_options(limit, device):
    "Raise `ValueError` for an invalid limit or device"
    if not (isinstance(limit, (int, float)) and 0 < limit < 1e6):
        raise ValueError(f'limit must be a positive number of seconds, less than 1,000,000; got {limit!r}')
    if device not in ('cpu', 'cuda'):
        raise ValueError(f"device must be 'cpu' or 'cuda'; got {device!r}")
    if device == 'cuda' and not torch.cuda.is_available():
        raise ValueError("device is 'cuda', but torch finds no NVIDIA GPU; 'cpu' runs kernels on the emulator")


def judge(
    submission,  # the path of a file, its source (of more than one line), or a `Submission`
    task=None,  # a `Task`, or a key of `TASKS`; None: NAME of the line `#!POPCORN leaderboard NAME`
    *,
    limit=20.0,  # seconds for the import, and per call. At least 180 if a compiler may run: in the import on a GPU, and
    # in the import and the first call on a CPU, for CUDA C
    timing=None,  # whether to time submission and reference; None: if the device is 'cuda'
    device=None,  # 'cpu' or 'cuda'; None: a GPU if there is one
) -> Verdict:
    """Run a submission in a separate process, and accept it if its answers are correct, else refuse it.

    A file that is not a submission, or is wrong in any way, gets a refused `Verdict`, not an exception. Raises
    `ValueError` for an unknown task, and for an invalid limit or device."""
    device = device or ('cuda' if backend() == 'gpu' else 'cpu')
    _check_options(limit, device)
    name = str(getattr(submission, 'name', 'submission.py'))
    try:
        submission = read_submission(submission)
    except FormError as e:
        return Verdict(name, str(getattr(task, 'name', task) or '-'), 'form', str(e), device=_device_name(device))
    task = task if isinstance(task, Task) else find_task(task or submission.leaderboard)
    checker = CallChecker(submission, task, device, limit)
    try:
        fields = dict(
            code='accepted', **_compute_verdict(checker, device == 'cuda' if timing is None else timing, limit)
        )
    except Refusal as refusal:
        fields = dict(code=refusal.code, reason=refusal.reason)
    except ProcessEnded as ended:
        refusal = _refusal_for_end(checker, ended)
        fields = dict(code=refusal.code, reason=refusal.reason)
    fields |= dict(
        num_calls=len(checker.calls),
        num_sizes=len({sizes_text(call.sizes) for call in checker.calls}),
        device=_device_name(device),
        output=checker.output(),
        isolation=checker.isolation(),
    )
    return Verdict(submission.name, task.name, **fields)
