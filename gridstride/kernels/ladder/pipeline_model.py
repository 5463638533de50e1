"""A model of a kernel's producer and consumers: mbarriers, a ring buffer of stages, and roles that are generators.

A seed determines the order of roles and engines, so a wrong wait causes a deadlock or an early read. The source is
that of the cells of lessons `tma_and_wgmma` and `producers`; lessons after these cells import this module."""

import random

__all__ = ['Barrier', 'Deadlock', 'EarlyRead', 'Ring', 'consume', 'outcomes', 'produce', 'run_ring', 'run_roles']


class Barrier:
    "A model of an mbarrier: a phase completes after `count` arrivals and all announced bytes"

    def __init__(self, count):
        self.count, self.left, self.bytes, self.phase = count, count, 0, 0

    def arrive(self):
        "Count one arrival"
        self.left -= 1
        self._advance()

    def expect(self, bytes):
        "Announce bytes, and count one arrival"
        self.bytes += bytes
        self.arrive()

    def complete(self, bytes):
        "Count bytes that TMA has written"
        self.bytes -= bytes
        self._advance()

    def _advance(self):
        if self.left == self.bytes == 0:
            self.left, self.phase = self.count, self.phase + 1

    def completed(self, phase):
        "Return whether a phase has completed, by its parity only"
        return self.phase % 2 != phase % 2


class EarlyRead(Exception):
    "The tensor cores read a stage that does not hold the tiles of their phase"


class Ring:
    "Stages of two tiles, their barriers, and the jobs that the two engines have not done yet"

    def __init__(self, stages, consumers):
        self.full, self.empty = [Barrier(1) for _ in range(stages)], [Barrier(consumers) for _ in range(stages)]
        self.shared, self.jobs = [[None, None] for _ in range(stages)], []

    def load(self, s, which, ph):
        "Start to load a tile, as TMA does"

        def job():
            self.shared[s][which] = ph
            self.full[s].complete(100)  # let a tile have 100 bytes

        self.jobs.append(job)

    def multiply(self, s, ph):
        "Start a product, as wgmma does; return a list that is empty until it is done"
        done = []

        def job():
            if self.shared[s] != [ph, ph]:
                raise EarlyRead(f'stage {s} has the tiles of phases {self.shared[s]}, and it is phase {ph}')
            done.append(True)

        self.jobs.append(job)
        return done


def produce(ring, phases, stages, before=1, announced=200):
    "Load two tiles per phase; yield a function that returns whether the wait has ended"
    for ph in range(phases):
        s, uses = ph % stages, ph // stages
        yield lambda: ring.empty[s].completed(uses - before)
        ring.full[s].expect(announced)
        for which in (0, 1):
            ring.load(s, which, ph)


def consume(ring, phases, stages, before=0, waits_for_product=True):
    "Multiply the tiles of each phase; yield a function that returns whether the wait has ended"
    for ph in range(phases):
        s, uses = ph % stages, ph // stages
        yield lambda: ring.full[s].completed(uses - before)
        done = ring.multiply(s, ph)
        if waits_for_product:
            yield lambda: done  # wgmma_wait<0>
        ring.empty[s].arrive()


class Deadlock(Exception):
    "All roles wait, and the engines have no jobs"


def run_roles(ring, roles, seed):
    "Run the roles and the jobs in a random order that `seed` determines"
    rng, waits = random.Random(seed), {role: next(role) for role in roles}
    while waits or ring.jobs:
        ready = [role for role, done in waits.items() if done()] + ring.jobs
        if not ready:
            raise Deadlock(f'{len(waits)} roles wait, and no job is left')
        chosen = rng.choice(ready)
        if chosen in ring.jobs:
            ring.jobs.remove(chosen)
            chosen()
        elif done := next(chosen, None):
            waits[chosen] = done
        else:
            del waits[chosen]


def run_ring(seed, consumers=1, count=None, phases=12, stages=4, produced={}, consumed={}):
    "Run a producer and consumers; `produced` and `consumed` change their arguments"
    ring = Ring(stages, count or consumers)
    run_roles(
        ring,
        [
            produce(ring, phases, stages, **produced),
            *(consume(ring, phases, stages, **consumed) for _ in range(consumers)),
        ],
        seed,
    )


def outcomes(run=run_ring, **changes):
    "Count the outcomes of 200 runs"
    res = dict(right=0, Deadlock=0, EarlyRead=0)
    for seed in range(200):
        try:
            run(seed, **changes)
        except (Deadlock, EarlyRead) as e:
            res[type(e).__name__] += 1
        else:
            res['right'] += 1
    return res
