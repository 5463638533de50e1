"The judge: a submission's calls, its times, a verdict."

from contextlib import ExitStack

import torch

from .bench import Bench, Refused, launch_counts, sizes_text
from .forms import FormError, read_submission
from .processes import Ended
from .tasks import Task, task_named
from .verdicts import Verdict
from ..utils import backend

_ROUNDS = 10  # timed calls
# What the judge's clock may see in a call: so many times what it sees in one of the reference's, and seconds more.
# 25 honest ones on an H100, whose transfers took 14 to 101 ms, were at 0.96 to 1.12; the margin is for busy hosts.
_VARIES, _NOISE = 1.5, 1e-3


# Times
def _timed_sizes(task, device):
    "Return the sizes that are timed: large ones on a GPU, the first public ones on an emulator"
    if device == 'cuda' and task.benchmark:
        return task.benchmark
    return {k: v for k, v in task.tests[0].items() if k != 'seed'}


def _clock(device):
    "Return what a call took: by its events on a GPU, else by the judge's clock"
    return lambda call: call.facts['event'] if device == 'cuda' else call.seconds


def _compare(bench, base, sizes):
    """Times of both, interleaved, with the same new inputs, in checked calls; the first is not timed. The submission is
    stopped while the reference runs, so that it cannot make it slow"""
    for _ in range(1 + _ROUNDS):
        data = bench.data('new', sizes)
        right = bench.expected(data)
        bench.call(data, sizes, right)
        with bench.stopped():
            base.call(data, sizes, right)


def _last(bench):
    "Return the timed calls"
    return bench.calls[-_ROUNDS:]


def _unseen(bench):
    """Seconds of a call that the judge's clock sees and the events do not: transfers, and all that was hidden.

    The lower quartile of the calls: a busy machine makes some of them longer, in which nothing was hidden."""
    return sorted(c.seconds - c.facts['event'] for c in _last(bench))[_ROUNDS // 4]


def _look_at_clocks(bench, base):
    "Check that the events of a submission agree with the judge's clock"
    ours, theirs = _unseen(bench), _unseen(base)
    if ours > _VARIES * theirs + _NOISE:
        said = f'{ours * 1e3:.3g} ms a call that its events do not show, {theirs * 1e3:.3g} ms of the reference'
        raise Refused('clock', f"the judge's clock saw {said}")


def _look_at_kernels(bench, sizes):
    "Return the kernels of one call on a GPU, by the profiler; raises `Refused` if the file has some and none runs"
    names = bench.submission.kernels
    header, blobs = bench.send(bench.data('new', sizes))
    answer, _ = bench.process.ask({**header, 'op': 'kernels'}, blobs)
    counts = launch_counts(answer.get('kernels'))
    if names and not any(n in k for n in names for k in counts):
        raise Refused('fallback', f'none of its kernels ({", ".join(names)}) ran, but {", ".join(counts) or "nothing"}')
    return counts


def _measure(stack, bench, limit):
    "Time a submission against the reference, on the bench of its own: (times, the reference's times)"
    task = bench.task
    sizes = _timed_sizes(bench.task, bench.device)
    text = bench.task.baseline()
    if text is None:
        return (), ()
    base = Bench(read_submission(text), task, bench.device, limit)
    base.start(stack)
    _compare(bench, base, sizes)
    if bench.device == 'cuda':
        _look_at_clocks(bench, base)
    seconds = _clock(bench.device)
    return tuple(map(seconds, _last(bench))), tuple(map(seconds, _last(base)))


def _device_name(device):
    return torch.cuda.get_device_name() if device == 'cuda' else 'CPU'


def _decide(bench, timing, limit):
    "Return what there is to say of an accepted submission; raises `Refused` or `Ended`"
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
            counts = _look_at_kernels(bench, first)
        bench.look_at_idle()
        bench.end()
        return dict(times=times, reference=reference, counts=counts)


def _refusal_for_end(bench, e):
    "Return why a process that ended is refused: for what was noticed before, if anything was"
    try:
        bench.look_around()
    except Refused as found:
        return found
    return Refused(e.code, f'{bench.at()} {e.text}')


def _look_at_options(limit, device):
    "Raise `ValueError` for what is not a limit, or not a device here"
    if not (isinstance(limit, (int, float)) and 0 < limit < 1e6):
        raise ValueError(f'limit is {limit!r}; it is a number of seconds above 0')
    if device not in ('cpu', 'cuda'):
        raise ValueError(f"device is {device!r}; it is 'cpu' or 'cuda'")
    if device == 'cuda' and not torch.cuda.is_available():
        raise ValueError("device is 'cuda', and torch finds no NVIDIA GPU here; 'cpu' runs kernels emulated")


def judge(
    submission,  # the path of a file, its text (of more than one line), or a `Submission`
    task=None,  # a `Task`, or the name of one in `TASKS`; None: what `#!POPCORN leaderboard NAME` says
    *,
    limit=20.0,  # seconds that the import, and each call, may take; where compilers run, these are 180: in an import on
    # a GPU, and on a CPU, for CUDA C, in the import and the first call
    timing=None,  # time it against the reference? None: on a machine with a GPU
    device=None,  # 'cpu' or 'cuda'; None: a GPU if there is one
) -> Verdict:
    """Run a submission in a process of its own and decide: right or not, and why.

    A file that is not a submission, or is wrong in any way, gets a refused `Verdict`, not an exception; `ValueError` if
    the task is not known, or limit or device are none."""
    device = device or ('cuda' if backend() == 'gpu' else 'cpu')
    _look_at_options(limit, device)
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
