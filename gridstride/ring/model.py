"""Simulate the ring without GPUs: a discrete-event simulation. A task starts when all tasks that it depends on have
ended, and occupies its resource, a GPU or a link, for its duration."""

import heapq
from collections import defaultdict, deque
from typing import Callable, NamedTuple

from .sharding import check_order, score_block
from .timestamps import Activity


class Task(NamedTuple):
    "Work that occupies a resource for some time"

    resource: tuple  # ('gpu', rank) or ('link', rank)
    seconds: float
    dependencies: tuple  # names of tasks that must have finished


class Link(NamedTuple):
    "The link from a rank to its right neighbour"

    latency: float  # seconds per message
    speed: float  # bytes per second


def run_tasks(
    tasks: dict,  # name -> `Task`
) -> dict:  # name -> (start, end), in seconds
    """Simulate tasks: each starts as soon as possible, and a busy resource is first come, first served.

    >>> run_tasks({'a': Task(('gpu', 0), 2.0, ()), 'b': Task(('gpu', 0), 1.0, ('a',))})
    {'a': (0.0, 2.0), 'b': (2.0, 3.0)}

    Raises ValueError for a cycle of dependencies."""
    # name -> the unfinished tasks that it waits for
    unmet_dependencies = {name: set(task.dependencies) for name, task in tasks.items()}
    dependents, queue, is_free = defaultdict(list), defaultdict(deque), defaultdict(lambda: True)
    times, events = {}, []  # events: a heap of (end, sequence number, name)
    for name, dependencies in unmet_dependencies.items():
        for dependency in dependencies:
            dependents[dependency].append(name)

    def start_next(resource, now):
        if is_free[resource] and queue[resource]:
            is_free[resource], name = False, queue[resource].popleft()
            times[name] = now, now + tasks[name].seconds
            heapq.heappush(events, (times[name][1], len(times), name))

    for name in (task for task, dependencies in unmet_dependencies.items() if not dependencies):
        queue[tasks[name].resource].append(name)
    for resource in list(queue):
        start_next(resource, 0.0)
    while events:
        now, _, finished_task = heapq.heappop(events)
        is_free[tasks[finished_task].resource] = True
        for name in dependents[finished_task]:
            unmet_dependencies[name].discard(finished_task)
            if not unmet_dependencies[name]:
                queue[tasks[name].resource].append(name)
                start_next(tasks[name].resource, now)
        start_next(tasks[finished_task].resource, now)
    if blocked_tasks := tasks.keys() - times.keys():
        raise ValueError(f'tasks that depend on each other in a cycle: {sorted(map(str, blocked_tasks))[:4]}')
    return times


def _forward_tasks(ranks, compute_time, send_time, overlap):
    "Return the tasks (rank, step, 'attend') and (rank, step, 'send'), which forwards the keys of rank `rank - step`"
    tasks = {}
    for rank in range(ranks):
        for step in range(ranks):
            dependencies = [(rank, step - 1, 'attend'), ((rank - 1) % ranks, step - 1, 'send')] if step else []
            tasks[rank, step, 'attend'] = Task(('gpu', rank), compute_time(rank, step), tuple(dependencies))
        for step in range(ranks - 1):
            right_rank = (rank + 1) % ranks
            dependencies = [((rank - 1) % ranks, step - 1, 'send')] if step else []
            last_reading_step = step - 1 if overlap else step  # after it, one of the two buffers for keys is free
            dependencies += [
                (attending_rank, last_reading_step, 'attend')
                for attending_rank in (rank, right_rank)
                if last_reading_step >= 0
            ]
            tasks[rank, step, 'send'] = Task(('link', rank), send_time(rank), tuple(dependencies))
    return tasks


def _backward_tasks(ranks, compute_time, send_time, overlap):
    "Return the tasks of the backward pass: owners receive gradients; half of the work on a rank's own keys comes last"
    tasks = _forward_tasks(ranks, lambda rank, step: compute_time(rank, step) / (1 if step else 2), send_time, overlap)
    for rank in range(ranks):
        for step in range(1, ranks):
            tasks[rank, step, 'send gradients'] = Task(('link', rank), send_time(rank), ((rank, step, 'attend'),))
        tasks[rank, ranks, 'attend'] = Task(('gpu', rank), compute_time(rank, 0) / 2, ((rank, ranks - 1, 'attend'),))
    return tasks


class SimulatedRun(NamedTuple):
    "A simulated run of the ring"

    seconds: float  # until the last rank has finished
    ideal: float  # seconds if the work were balanced and no rank waited
    stamps: list  # rank by rank, as `timeline` draws them

    @property
    def efficiency(self) -> float:
        "The ideal time as a fraction of the simulated time"
        return self.ideal / self.seconds


def simulate(
    order: str,  # which positions a rank has: 'contiguous', 'striped' or 'zigzag'
    length: int,  # of the sequence
    ranks: int,  # the number of GPUs
    seconds: Callable,  # (a `ScoreBlock`, positions per rank) -> seconds that a GPU takes
    link,  # a `Link`, or a function: rank -> the `Link` to its right
    size: float,  # bytes of the keys and values of one rank
    causal=True,  # each position attends only to itself and earlier positions
    backward=False,  # simulate the backward pass: `seconds` is its time, and gradients of `size` bytes are sent, too
    overlap=True,  # send keys while a rank computes
) -> SimulatedRun:
    """Simulate the time of a ring, and the activities of all ranks.

    Raises ValueError for an unknown order or a length that cannot be split."""
    check_order(order, length, ranks)
    part_length, link_of = length // ranks, link if callable(link) else lambda rank: link

    def compute_time(rank, step):
        part = score_block(order, rank, (rank - step) % ranks, part_length, causal)
        return seconds(part, part_length) if part else 0.0

    def send_time(rank):
        return link_of(rank).latency + size / link_of(rank).speed

    tasks = (_backward_tasks if backward else _forward_tasks)(ranks, compute_time, send_time, overlap)
    stamps = [[] for _ in range(ranks)]
    for (rank, step, activity), (start, end) in run_tasks(tasks).items():
        if end > start:
            stamps[rank].append(Activity('attend' if activity == 'attend' else 'send', step, start, end))
    ideal = sum(task.seconds for task in tasks.values() if task.resource[0] == 'gpu') / ranks
    return SimulatedRun(max(stamp.end for rank_stamps in stamps for stamp in rank_stamps), ideal, stamps)


# All-reduce: what a rank sends, as a multiple of the array; and the steps in which data crosses a link.
_SENT_AND_STEPS = {
    'words': lambda ranks: (2 * (ranks - 1), 1),  # half of each word is a flag
    'one_shot': lambda ranks: (ranks - 1, 1),
    'two_shots': lambda ranks: (2 * (ranks - 1) / ranks, 2),
}


def all_reduce_bytes(
    algorithm: str,  # 'words', 'one_shot' or 'two_shots'
    size: float,  # bytes of the array
    ranks: int,
) -> float:
    """Return the bytes that each rank sends in an all-reduce, to all other ranks together.

    >>> all_reduce_bytes('two_shots', 1000, 4)
    1500.0

    Raises ValueError for an unknown algorithm."""
    return _sent_and_steps(algorithm, ranks)[0] * size


def _sent_and_steps(algorithm, ranks):
    if algorithm not in _SENT_AND_STEPS:
        raise ValueError(f'unknown algorithm {algorithm!r}; expected one of {", ".join(_SENT_AND_STEPS)}')
    return _SENT_AND_STEPS[algorithm](ranks)


def all_reduce_seconds(
    algorithm: str,  # 'words', 'one_shot' or 'two_shots'
    size: float,  # bytes of the array
    ranks: int,
    link: Link,  # its latency is that of one step
) -> float:
    """Model the time of an all-reduce as latency * steps + bytes sent / speed.

    >>> all_reduce_seconds('one_shot', 1000, 3, Link(2.0, 1000.0))
    4.0

    Raises ValueError for an unknown algorithm."""
    sent, steps = _sent_and_steps(algorithm, ranks)
    return link.latency * steps + sent * size / link.speed


def fit_link(
    times: dict,  # bytes -> seconds
) -> Link:
    """Fit latency + bytes / speed to measurements by least squares of the relative errors.

    >>> round(fit_link({0: 1.0, 10: 2.0, 20: 3.0}).speed, 6)
    10.0

    Raises ValueError for fewer than two sizes."""
    if len(times) < 2:
        raise ValueError(f'fitting a latency and a speed needs at least two sizes; got {len(times)}')
    sizes, seconds = map(list, zip(*times.items()))
    # with weights w = 1 / seconds: minimize the sum of (w * latency + w * size / speed - 1) ** 2
    ww, ws, ss = (sum(size**k / second**2 for size, second in zip(sizes, seconds)) for k in range(3))
    w, s = sum(1 / second for second in seconds), sum(size / second for size, second in zip(sizes, seconds))
    determinant = ww * ss - ws * ws
    per_byte = (ww * s - ws * w) / determinant
    return Link(latency=(w * ss - s * ws) / determinant, speed=1 / per_byte if per_byte > 0 else float('inf'))
