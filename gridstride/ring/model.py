"""Simulate the ring without GPUs: a discrete-event simulation. A run is a set of tasks. A task starts after the tasks
that it depends on, and occupies its resource, a GPU or a link, for some time."""

import heapq
from collections import defaultdict, deque
from typing import Callable, NamedTuple

from .sharding import check_order, piece
from .timestamps import Stamp


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
    pending = {name: set(task.dependencies) for name, task in tasks.items()}
    dependents, queue, is_free = defaultdict(list), defaultdict(deque), defaultdict(lambda: True)
    times, events = {}, []  # events: a heap of (end, sequence number, name)
    for name, dependencies in pending.items():
        for dependency in dependencies:
            dependents[dependency].append(name)

    def start_next(resource, now):
        if is_free[resource] and queue[resource]:
            is_free[resource], name = False, queue[resource].popleft()
            times[name] = now, now + tasks[name].seconds
            heapq.heappush(events, (times[name][1], len(times), name))

    for name in (task for task, dependencies in pending.items() if not dependencies):
        queue[tasks[name].resource].append(name)
    for resource in list(queue):
        start_next(resource, 0.0)
    while events:
        now, _, finished = heapq.heappop(events)
        is_free[tasks[finished].resource] = True
        for name in dependents[finished]:
            pending[name].discard(finished)
            if not pending[name]:
                queue[tasks[name].resource].append(name)
                start_next(tasks[name].resource, now)
        start_next(tasks[finished].resource, now)
    if blocked := tasks.keys() - times.keys():
        raise ValueError(f'tasks that wait for each other: {sorted(map(str, blocked))[:4]}')
    return times


def _forward_tasks(ranks, compute_time, send_time, overlap):
    "Return the tasks (rank, step, 'attend') and (rank, step, 'send'), which forwards the keys of rank `rank - step`"
    tasks = {}
    for r in range(ranks):
        for s in range(ranks):
            dependencies = [(r, s - 1, 'attend'), ((r - 1) % ranks, s - 1, 'send')] if s else []
            tasks[r, s, 'attend'] = Task(('gpu', r), compute_time(r, s), tuple(dependencies))
        for s in range(ranks - 1):
            right = (r + 1) % ranks
            dependencies = [((r - 1) % ranks, s - 1, 'send')] if s else []
            last = s - 1 if overlap else s  # the step after which one of the two buffers for keys is free
            dependencies += [(rank, last, 'attend') for rank in (r, right) if last >= 0]
            tasks[r, s, 'send'] = Task(('link', r), send_time(r), tuple(dependencies))
    return tasks


def _backward_tasks(ranks, compute_time, send_time, overlap):
    "Return the tasks of the backward pass: half of the work on a rank's own keys is last; owners receive gradients"
    tasks = _forward_tasks(ranks, lambda r, s: compute_time(r, s) / (1 if s else 2), send_time, overlap)
    for r in range(ranks):
        for s in range(1, ranks):
            tasks[r, s, 'home'] = Task(('link', r), send_time(r), ((r, s, 'attend'),))
        tasks[r, ranks, 'attend'] = Task(('gpu', r), compute_time(r, 0) / 2, ((r, ranks - 1, 'attend'),))
    return tasks


class Simulated(NamedTuple):
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
    seconds: Callable,  # (a `Piece`, positions per rank) -> seconds that a GPU takes
    link,  # a `Link`, or a function: rank -> the `Link` to its right
    size: float,  # bytes of the keys and values of a rank
    causal=True,  # each position attends only to itself and earlier positions
    backward=False,  # simulate the backward pass: `seconds` is its time, and gradients of `size` bytes are sent, too
    overlap=True,  # send keys while a rank computes
) -> Simulated:
    """Simulate the time of a ring, and the activities of all ranks.

    Raises ValueError for an unknown order or a length that cannot be split."""
    check_order(order, length, ranks)
    part_length, link_of = length // ranks, link if callable(link) else lambda r: link

    def compute_time(r, s):
        p = piece(order, r, (r - s) % ranks, part_length, causal)
        return seconds(p, part_length) if p else 0.0

    def send_time(r):
        return link_of(r).latency + size / link_of(r).speed

    tasks = (_backward_tasks if backward else _forward_tasks)(ranks, compute_time, send_time, overlap)
    stamps = [[] for _ in range(ranks)]
    for (r, s, activity), (start, end) in run_tasks(tasks).items():
        if end > start:
            stamps[r].append(Stamp('attend' if activity == 'attend' else 'send', s, start, end))
    ideal = sum(t.seconds for t in tasks.values() if t.resource[0] == 'gpu') / ranks
    return Simulated(max(stamp.end for rank_stamps in stamps for stamp in rank_stamps), ideal, stamps)
