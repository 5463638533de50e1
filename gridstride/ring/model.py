"""The ring without its GPUs: a discrete-event simulator. A run is a set of tasks; each takes its time at its resource,
a GPU or a link, one at a time, after the tasks that it needs."""

import heapq
from collections import defaultdict, deque
from typing import Callable, NamedTuple

from .sharding import check_order, piece
from .timestamps import Stamp


class Task(NamedTuple):
    "Something that takes time at a resource"

    resource: tuple  # ('gpu', rank) or ('link', rank)
    seconds: float
    after: tuple  # names of tasks that must be done before


class Link(NamedTuple):
    "From a rank to its right neighbour"

    latency: float  # seconds for any message
    speed: float  # bytes a second


def run_tasks(
    tasks: dict,  # name -> `Task`
) -> dict:  # name -> (start, end), in seconds
    "When each task runs: as soon as it can, and first come, first served if its resource is busy"
    needs = {name: set(t.after) for name, t in tasks.items()}
    then, queue, free, times, events = defaultdict(list), defaultdict(deque), defaultdict(lambda: True), {}, []
    for name, before in needs.items():
        for o in before:
            then[o].append(name)

    def begin(resource, now):
        if free[resource] and queue[resource]:
            free[resource], name = False, queue[resource].popleft()
            times[name] = now, now + tasks[name].seconds
            heapq.heappush(events, (times[name][1], len(times), name))

    for name in (o for o, before in needs.items() if not before):
        queue[tasks[name].resource].append(name)
    for resource in list(queue):
        begin(resource, 0.0)
    while events:
        now, _, done = heapq.heappop(events)
        free[tasks[done].resource] = True
        for name in then[done]:
            needs[name].discard(done)
            if not needs[name]:
                queue[tasks[name].resource].append(name)
                begin(tasks[name].resource, now)
        begin(tasks[done].resource, now)
    if missing := tasks.keys() - times.keys():
        raise ValueError(f'tasks that wait for each other: {sorted(map(str, missing))[:4]}')
    return times


def _forward_tasks(ranks, compute, send, overlap):
    "(rank, step, 'attend') and (rank, step, 'send'): what rank - step began with goes on to the next rank"
    tasks = {}
    for r in range(ranks):
        for s in range(ranks):
            needs = [(r, s - 1, 'attend'), ((r - 1) % ranks, s - 1, 'send')] if s else []
            tasks[r, s, 'attend'] = Task(('gpu', r), compute(r, s), tuple(needs))
        for s in range(ranks - 1):
            right = (r + 1) % ranks
            needs = [((r - 1) % ranks, s - 1, 'send')] if s else []
            last = s - 1 if overlap else s  # one of the two buffers for keys is free when that has ended
            needs += [(o, last, 'attend') for o in (r, right) if last >= 0]
            tasks[r, s, 'send'] = Task(('link', r), send(r), tuple(needs))
    return tasks


def _backward_tasks(ranks, compute, send, overlap):
    "The same with half of the rank's own work last, and with gradients that are sent to their owners"
    tasks = _forward_tasks(ranks, lambda r, s: compute(r, s) / (1 if s else 2), send, overlap)
    for r in range(ranks):
        for s in range(1, ranks):
            tasks[r, s, 'home'] = Task(('link', r), send(r), ((r, s, 'attend'),))
        tasks[r, ranks, 'attend'] = Task(('gpu', r), compute(r, 0) / 2, ((r, ranks - 1, 'attend'),))
    return tasks


class Simulated(NamedTuple):
    "A simulated run of the ring"

    seconds: float  # until the last rank is through
    ideal: float  # the same if all of the work were spread evenly, and no rank waited
    stamps: list  # rank by rank, as `timeline` draws them

    @property
    def efficiency(self) -> float:
        "The fraction of the time that is work"
        return self.ideal / self.seconds


def simulate(
    order: str,  # which positions a rank has: 'contiguous', 'striped' or 'zigzag'
    length: int,  # of the sequence
    ranks: int,  # how many GPUs
    seconds: Callable,  # (a `Piece`, its length) -> how long a GPU takes for it
    link,  # a `Link`, or a function: rank -> the `Link` to its right
    size: float,  # bytes of the keys and values of a rank
    causal=True,  # does each position attend only to itself and earlier positions?
    backward=False,  # gradients? Then `seconds` is of these, and as many bytes go home
    overlap=True,  # are keys sent while a rank computes?
) -> Simulated:
    """Simulate how long a ring takes, in seconds, and which rank computes what when; `ValueError` for an order or a
    length that does not fit"""
    check_order(order, length, ranks)
    each, link_of = length // ranks, link if callable(link) else lambda r: link

    def compute(r, s):
        p = piece(order, r, (r - s) % ranks, each, causal)
        return seconds(p, each) if p else 0.0

    def send(r):
        return link_of(r).latency + size / link_of(r).speed

    tasks = (_backward_tasks if backward else _forward_tasks)(ranks, compute, send, overlap)
    stamps = [[] for _ in range(ranks)]
    for (r, s, what), (start, end) in run_tasks(tasks).items():
        if end > start:
            stamps[r].append(Stamp('attend' if what == 'attend' else 'send', s, start, end))
    ideal = sum(t.seconds for t in tasks.values() if t.resource[0] == 'gpu') / ranks
    return Simulated(max(o.end for noted in stamps for o in noted), ideal, stamps)
