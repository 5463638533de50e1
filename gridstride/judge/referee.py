"Judge a submission: call it, time the calls, and return a verdict."

from contextlib import ExitStack

import torch

from .calls import CallChecker, Rejection, launch_counts, sizes_text
from .forms import FormError, read_submission
from .wire import ProcessEnded
from .tasks import Task, find_task
from .verdicts import Verdict
from ..utils import backend

_NUM_TIMED_CALLS = 10
# The overhead of a call is its time by the judge's clock minus the time between its CUDA events: mostly the transfer of
# inputs and output between the processes. A submission's overhead may be at most `_MAX_OVERHEAD_RATIO` times that of
# the reference, plus `_OVERHEAD_SLACK_SECONDS`. For 25 honest submissions on an H100, with transfers of 14 to 101 ms,
# the ratio was 0.96 to 1.12; the margin is for busy hosts.
_MAX_OVERHEAD_RATIO, _OVERHEAD_SLACK_SECONDS = 1.5, 1e-3


# Times
def _timed_sizes(task, device):
    "Return the sizes that are timed: large ones on a GPU, the first public ones on a CPU"
    if device == 'cuda' and task.benchmark:
        return task.benchmark
    return {k: v for k, v in task.tests[0].items() if k != 'seed'}


def _duration_getter(device):
    "Return a function that returns the seconds of a call, measured by events on a GPU, else by the judge's clock"
    return lambda call: call.facts['event_seconds'] if device == 'cuda' else call.seconds


def _time_interleaved(checker, reference_checker, sizes):
    """Call submission and reference, interleaved, with the same new inputs; the first call of each is not timed. The
    submission is suspended while the reference runs, so that it cannot slow down the reference"""
    for _ in range(1 + _NUM_TIMED_CALLS):
        data = checker.make_data('new seed', sizes)
        expected_and_scales = checker.compute_expected(data)
        checker.call(data, sizes, expected_and_scales)
        with checker.suspended():
            reference_checker.call(data, sizes, expected_and_scales)


def _timed_calls(checker):
    return checker.calls[-_NUM_TIMED_CALLS:]


def _seconds_outside_events(checker):
    """Return the overhead of a call in seconds, outside its events: transfers, and any hidden work.

    The result is the lower quartile of all timed calls, because a busy host lengthens some calls."""
    return sorted(call.seconds - call.facts['event_seconds'] for call in _timed_calls(checker))[_NUM_TIMED_CALLS // 4]


def _check_time_outside_events(checker, reference_checker):
    "Raise `Rejection` if a submission spends much more time per call outside its CUDA events than the reference does"
    seconds, reference_seconds = _seconds_outside_events(checker), _seconds_outside_events(reference_checker)
    if seconds > _MAX_OVERHEAD_RATIO * reference_seconds + _OVERHEAD_SLACK_SECONDS:
        times = f'{seconds * 1e3:.3g} ms per call were spent outside the CUDA events (reference: '
        times += f'{reference_seconds * 1e3:.3g} ms)'
        raise Rejection(
            'clock',
            f'{times}: the events do not measure all work of the submission. Do all work of a call on its current '
            'stream, before it returns',
        )


def _check_kernels(checker, sizes):
    """Profile one call on a GPU and return the number of launches per kernel; raises `Rejection` if the submission has
    kernels and none of them runs"""
    names = checker.submission.kernels
    header, blobs = checker.call_message(checker.make_data('new seed', sizes))
    reply, _ = checker.process.request({**header, 'op': 'kernels'}, blobs)
    counts = launch_counts(reply.get('kernels'))
    if names and not any(name in kernel for name in names for kernel in counts):
        raise Rejection(
            'fallback',
            f'none of the kernels of the submission ({", ".join(names)}) ran; these did: {", ".join(counts) or "none"}',
        )
    return counts


def _measure(stack, checker, timeout):  # (times of the submission, times of the reference)
    "Time a submission and the reference; return empty tuples if the reference has no source"
    source = checker.task.baseline()
    if source is None:
        return (), ()
    reference_checker = CallChecker(read_submission(source), checker.task, checker.device, timeout)
    reference_checker.start(stack)
    _time_interleaved(checker, reference_checker, _timed_sizes(checker.task, checker.device))
    if checker.device == 'cuda':
        _check_time_outside_events(checker, reference_checker)
    seconds_of = _duration_getter(checker.device)
    return tuple(map(seconds_of, _timed_calls(checker))), tuple(map(seconds_of, _timed_calls(reference_checker)))


def _device_name(device):
    return torch.cuda.get_device_name() if device == 'cuda' else 'CPU'


def _compute_verdict(checker, timing, timeout):
    "Judge a submission and return the fields of its verdict; raises `Rejection` or `ProcessEnded`"
    with ExitStack() as stack:
        checker.start(stack)
        checker.run_test_calls()
        first_sizes = checker.calls[0].sizes
        times = tuple(call.seconds for call in checker.calls[1:] if call.sizes == first_sizes)
        reference_times = ()
        counts = checker.calls[-1].facts['launches']
        if timing:
            times, reference_times = _measure(stack, checker, timeout)
        if checker.device == 'cuda':
            counts = _check_kernels(checker, first_sizes)
        checker.check_output_depends_on_kernels()
        checker.end()
        return dict(times=times, reference_times=reference_times, launch_counts=counts)


def _rejection_after_exit(checker, process_ended):
    "Return the `Rejection` for a process that exited: its first reported violation, otherwise how it exited"
    try:
        checker.check_reports()
    except Rejection as rejection:
        return rejection
    return Rejection(process_ended.code, f'{checker.call_label()} {process_ended.text}')


def _check_options(timeout, device):
    "Raise `ValueError` for an invalid timeout or device"
    if not (isinstance(timeout, (int, float)) and 0 < timeout < 1e6):
        raise ValueError(f'timeout must be a positive number of seconds, less than 1,000,000; got {timeout!r}')
    if device not in ('cpu', 'cuda'):
        raise ValueError(f"device must be 'cpu' or 'cuda'; got {device!r}")
    if device == 'cuda' and not torch.cuda.is_available():
        raise ValueError("device is 'cuda', but torch finds no NVIDIA GPU; 'cpu' runs kernels on the emulator")


def judge(
    submission,  # a path, source code (recognized by its newline), or a `Submission`
    task=None,  # a `Task`, or a key of `TASKS`; None: NAME of the line `#!POPCORN leaderboard NAME`
    *,
    timeout=20.0,  # seconds for the import, and per call; raised to at least 180 for a step that may compile: on a
    # GPU the import, on a CPU the import and the first call of a submission with CUDA C
    timing=None,  # whether to time submission and reference; None: if the device is 'cuda'
    device=None,  # 'cpu' or 'cuda'; None: a GPU if there is one
) -> Verdict:
    """Run a submission in a separate process, and accept it if its outputs are correct, otherwise reject it.

    A file that is not a submission, or is wrong in any way, yields a `Verdict` with the reason, not an exception.
    Raises `ValueError` for an unknown task, and for an invalid timeout or device."""
    device = device or ('cuda' if backend() == 'gpu' else 'cpu')
    _check_options(timeout, device)
    name = str(getattr(submission, 'name', 'submission.py'))
    try:
        submission = read_submission(submission)
    except FormError as e:
        return Verdict(name, str(getattr(task, 'name', task) or '-'), 'form', str(e), device=_device_name(device))
    task = task if isinstance(task, Task) else find_task(task or submission.leaderboard)
    checker = CallChecker(submission, task, device, timeout)
    try:
        fields = dict(
            code='accepted', **_compute_verdict(checker, device == 'cuda' if timing is None else timing, timeout)
        )
    except Rejection as rejection:
        fields = dict(code=rejection.code, reason=rejection.reason)
    except ProcessEnded as ended:
        rejection = _rejection_after_exit(checker, ended)
        fields = dict(code=rejection.code, reason=rejection.reason)
    fields |= dict(
        num_calls=len(checker.calls),
        num_sizes=len({sizes_text(call.sizes) for call in checker.calls}),
        device=_device_name(device),
        log=checker.log(),
        isolation=checker.isolation(),
    )
    return Verdict(submission.name, task.name, **fields)
