"""Simulate the ring without GPUs, by discrete events. A run is a set of tasks; each task occupies its resource, a GPU
or a link, for some time, after the tasks that it depends on."""

import heapq
from collections import defaultdict, deque
from typing import Callable, NamedTuple

from .sharding import check_order, piece
from .timestamps import Stamp


class Task(NamedTuple):
    "Work that occupies a resource for some time"

    resource: tuple  # ('gpu', rank) or ('link', rank)
    seconds: float
    after: tuple  # names of tasks that must have finished


class Link(NamedTuple):
    "The link from a rank to its right neighbour"

    latency: float  # seconds per message
    speed: float  # bytes per second


def run_tasks(
    tasks: dict,  # name -> `Task`
) -> dict:  # name -> (start, end), in seconds
    """Run each task as soon as possible, first come, first served if its resource is busy; return when each one ran.

    >>> run_tasks({'a': Task(('gpu', 0), 2.0, ()), 'b': Task(('gpu', 0), 1.0, ('a',))})
    {'a': (0.0, 2.0), 'b': (2.0, 3.0)}

    Raises ValueError for tasks that wait for each other."""
    pending = {name: set(t.after) for name, t in tasks.items()}
    dependents, queue, is_free, times, events = defaultdict(list), defaultdict(deque), defaultdict(lambda: True), {}, []
    for name, before in pending.items():
        for earlier in before:
            dependents[earlier].append(name)

    def begin(resource, now):
        if is_free[resource] and queue[resource]:
            is_free[resource], name = False, queue[resource].popleft()
            times[name] = now, now + tasks[name].seconds
            heapq.heappush(events, (times[name][1], len(times), name))

    for name in (task for task, before in pending.items() if not before):
        queue[tasks[name].resource].append(name)
    for resource in list(queue):
        begin(resource, 0.0)
    while events:
        now, _, done = heapq.heappop(events)
        is_free[tasks[done].resource] = True
        for name in dependents[done]:
            pending[name].discard(done)
            if not pending[name]:
                queue[tasks[name].resource].append(name)
                begin(tasks[name].resource, now)
        begin(tasks[done].resource, now)
    if blocked := tasks.keys() - times.keys():
        raise ValueError(f'tasks that wait for each other: {sorted(map(str, blocked))[:4]}')
    return times


def _forward_tasks(ranks, compute, send, overlap):
    "Return the tasks (rank, step, 'attend') and (rank, step, 'send'), which forwards the keys of `rank - step`"
    tasks = {}
    for r in range(ranks):
        for s in range(ranks):
            needs = [(r, s - 1, 'attend'), ((r - 1) % ranks, s - 1, 'send')] if s else []
            tasks[r, s, 'attend'] = Task(('gpu', r), compute(r, s), tuple(needs))
        for s in range(ranks - 1):
            right = (r + 1) % ranks
            needs = [((r - 1) % ranks, s - 1, 'send')] if s else []
            last = s - 1 if overlap else s  # when this step has ended, one of the two buffers for keys is free
            needs += [(o, last, 'attend') for o in (r, right) if last >= 0]
            tasks[r, s, 'send'] = Task(('link', r), send(r), tuple(needs))
    return tasks


def _backward_tasks(ranks, compute, send, overlap):
    "Return the tasks of the backward pass: half of a rank's own work comes last, and gradients go to their owners"
    tasks = _forward_tasks(ranks, lambda r, s: compute(r, s) / (1 if s else 2), send, overlap)
    for r in range(ranks):
        for s in range(1, ranks):
            tasks[r, s, 'home'] = Task(('link', r), send(r), ((r, s, 'attend'),))
        tasks[r, ranks, 'attend'] = Task(('gpu', r), compute(r, 0) / 2, ((r, ranks - 1, 'attend'),))
    return tasks


class Simulated(NamedTuple):
    "A simulated run of the ring"

    seconds: float  # until the last rank has finished
    ideal: float  # the time if the work were balanced, and no rank waited
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
    """Simulate how long a ring takes, in seconds, and which rank computes what when. Raises ValueError for an unknown
    order or a length that cannot be split"""
    check_order(order, length, ranks)
    part_length, link_of = length // ranks, link if callable(link) else lambda r: link

    def compute(r, s):
        p = piece(order, r, (r - s) % ranks, part_length, causal)
        return seconds(p, part_length) if p else 0.0

    def send(r):
        return link_of(r).latency + size / link_of(r).speed

    tasks = (_backward_tasks if backward else _forward_tasks)(ranks, compute, send, overlap)
    stamps = [[] for _ in range(ranks)]
    for (r, s, what), (start, end) in run_tasks(tasks).items():
        if end > start:
            stamps[r].append(Stamp('attend' if what == 'attend' else 'send', s, start, end))
    ideal = sum(t.seconds for t in tasks.values() if t.resource[0] == 'gpu') / ranks
    return Simulated(max(stamp.end for noted in stamps for stamp in noted), ideal, stamps)
