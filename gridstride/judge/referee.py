"Judges a submission: makes its calls, times them, returns a verdict."

from contextlib import ExitStack

import torch

from .bench import Bench, Refused, launch_counts, sizes_text
from .forms import FormError, read_submission
from .processes import Ended
from .tasks import Task, task_named
from .verdicts import Verdict
from ..utils import backend

_ROUNDS = 10  # timed calls
# The time per call outside a submission's events may be this multiple of the reference's, plus some seconds. 25
# honest submissions on an H100, with transfers of 14 to 101 ms, had 0.96 to 1.12; the margin is for busy hosts.
_VARIES, _NOISE = 1.5, 1e-3


# Times
def _timed_sizes(task, device):
    "Return the sizes that are timed: large ones on a GPU, the first public ones on a CPU"
    if device == 'cuda' and task.benchmark:
        return task.benchmark
    return {k: v for k, v in task.tests[0].items() if k != 'seed'}


def _clock(device):
    "Return a function that gives a call's seconds: by its events on a GPU, else by the judge's clock"
    return lambda call: call.facts['event'] if device == 'cuda' else call.seconds


def _compare(bench, base, sizes):
    """Time submission and reference, interleaved, with the same new inputs, in checked calls; the first call of each is
    not timed. The submission is stopped while the reference runs, so that it cannot slow it down"""
    for _ in range(1 + _ROUNDS):
        data = bench.data('new', sizes)
        right = bench.expected(data)
        bench.call(data, sizes, right)
        with bench.stopped():
            base.call(data, sizes, right)


def _last(bench):
    "Return the timed calls"
    return bench.calls[-_ROUNDS:]


def _seconds_outside_events(bench):
    """Return the seconds per call outside its events: transfers, and any hidden work.

    It is the lower quartile of the calls, because a busy machine makes some calls longer."""
    return sorted(c.seconds - c.facts['event'] for c in _last(bench))[_ROUNDS // 4]


def _check_clocks(bench, base):
    "Check that the events of a submission agree with the judge's clock"
    ours, theirs = _seconds_outside_events(bench), _seconds_outside_events(base)
    if ours > _VARIES * theirs + _NOISE:
        said = f'{ours * 1e3:.3g} ms per call outside its events, but {theirs * 1e3:.3g} ms for the reference'
        raise Refused('clock', f"the judge's clock measured {said}")


def _check_kernels(bench, sizes):
    "Profile one call on a GPU and return its kernels; raises `Refused` if the file has kernels and none of them runs"
    names = bench.submission.kernels
    header, blobs = bench.send(bench.data('new', sizes))
    answer, _ = bench.process.ask({**header, 'op': 'kernels'}, blobs)
    counts = launch_counts(answer.get('kernels'))
    if names and not any(n in k for n in names for k in counts):
        raise Refused(
            'fallback', f'none of its kernels ({", ".join(names)}) ran; these did: {", ".join(counts) or "none"}'
        )
    return counts


def _measure(stack, bench, limit):
    "Time a submission and the reference: (times, times of the reference)"
    task = bench.task
    sizes = _timed_sizes(bench.task, bench.device)
    text = bench.task.baseline()
    if text is None:
        return (), ()
    base = Bench(read_submission(text), task, bench.device, limit)
    base.start(stack)
    _compare(bench, base, sizes)
    if bench.device == 'cuda':
        _check_clocks(bench, base)
    seconds = _clock(bench.device)
    return tuple(map(seconds, _last(bench))), tuple(map(seconds, _last(base)))


def _device_name(device):
    return torch.cuda.get_device_name() if device == 'cuda' else 'CPU'


def _decide(bench, timing, limit):
    "Judge a submission and return the fields of its verdict; raises `Refused` or `Ended`"
    with ExitStack() as stack:
        bench.start(stack)
        bench.calls_of_plan()
        first = bench.calls[0].sizes
        times = tuple(c.seconds for c in bench.calls[1:] if c.sizes == first)
        reference = ()
        counts = bench.calls[-1].facts['launches']
        if timing:
            times, reference = _measure(stack, bench, limit)
        if bench.device == 'cuda':
            counts = _check_kernels(bench, first)
        bench.check_idle()
        bench.end()
        return dict(times=times, reference=reference, counts=counts)


def _refusal_for_end(bench, e):
    "Return why a submission is refused whose process ended: for what was noticed before, if anything"
    try:
        bench.look_around()
    except Refused as found:
        return found
    return Refused(e.code, f'{bench.at()} {e.text}')


def _check_options(limit, device):
    "Raise `ValueError` for an invalid limit or device"
    if not (isinstance(limit, (int, float)) and 0 < limit < 1e6):
        raise ValueError(f'limit is {limit!r}; it must be a positive number of seconds')
    if device not in ('cpu', 'cuda'):
        raise ValueError(f"device is {device!r}; it must be 'cpu' or 'cuda'")
    if device == 'cuda' and not torch.cuda.is_available():
        raise ValueError("device is 'cuda', but torch finds no NVIDIA GPU; 'cpu' runs kernels on the emulator")


def judge(
    submission,  # the path of a file, its text (of more than one line), or a `Submission`
    task=None,  # a `Task`, or the name of one in `TASKS`; None: what `#!POPCORN leaderboard NAME` says
    *,
    limit=20.0,  # seconds for the import and per call; 180 if a compiler runs: in the import on a GPU, and on a
    # CPU, for CUDA C, in the import and the first call
    timing=None,  # time it against the reference? None: on a machine with a GPU
    device=None,  # 'cpu' or 'cuda'; None: a GPU if there is one
) -> Verdict:
    """Run a submission in a process of its own and decide whether it is right.

    A file that is not a submission, or is wrong in any way, gets a refused `Verdict`, not an exception; raises
    `ValueError` for an unknown task, or an invalid limit or device."""
    device = device or ('cuda' if backend() == 'gpu' else 'cpu')
    _check_options(limit, device)
    name = str(getattr(submission, 'name', 'submission.py'))
    try:
        submission = read_submission(submission)
    except FormError as e:
        return Verdict(name, str(getattr(task, 'name', task) or '-'), 'form', str(e), device=_device_name(device))
    task = task if isinstance(task, Task) else task_named(task or submission.leaderboard)
    bench = Bench(submission, task, device, limit)
    try:
        found = dict(code='accepted', **_decide(bench, device == 'cuda' if timing is None else timing, limit))
    except Refused as e:
        found = dict(code=e.code, why=e.why)
    except Ended as e:
        e = _refusal_for_end(bench, e)
        found = dict(code=e.code, why=e.why)
    sizes = len({sizes_text(c.sizes) for c in bench.calls})
    found |= dict(
        calls=len(bench.calls),
        sizes=sizes,
        device=_device_name(device),
        printed=bench.printed(),
        isolation=bench.isolation(),
    )
    return Verdict(submission.name, task.name, **found)
