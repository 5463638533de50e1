"""Resident blocks, which wait for others: one runs until it ends or spins, then the next one runs.

The emulator of CUDA C does the same in `cpp/runtime/residents.cpp`.
"""

from typing import NamedTuple

__all__ = ['Residents']


class _Waiting(NamedTuple):
    "A block that spins"

    steps: object  # the remaining steps of it
    left: object  # what the run has of it
    stuck: bool  # would it be in a deadlock if it were alone?
    polled: object  # what its last poll has found, as the run has it

    def has_progress(self):
        "Return whether the value that it polls has changed"
        if self.polled is None:
            return False
        data, off, found = self.polled
        return data[off[0]] != found[0] if len(off) == 1 else (data[off] != found).any()


class Residents:
    "The resident blocks: those that are on the device at once, as many as it can hold"

    def __init__(self, run):
        self.run = run
        self.waiting = []

    def begin(self, steps):
        "Begin a block; afterwards the device can hold another one"
        self.go_on(steps)
        while self.waiting and len(self.waiting) >= self.run.resident:
            self.resume_all(False)

    def end(self):
        "Run all resident blocks until they have ended"
        while self.waiting:
            self.resume_all(True)

    def go_on(self, steps):
        "Run a block's next steps, until it spins"
        self.run.polled = None
        for stuck in steps:
            self.waiting.append(_Waiting(steps, self.run.leave(), stuck, self.run.polled))
            return
        self.run.detectors.racecheck.report_held(self.run, self.run.g.all)

    def resume_all(self, all_there):
        "Resume the blocks that have progress, or else all; a deadlock if none of them ever proceeds"
        before = self.run.changes
        n = len(self.waiting)
        if self.resume(_Waiting.has_progress):
            return
        self.resume(lambda block: True)
        if len(self.waiting) == n and self.run.changes == before and all(block.stuck for block in self.waiting):
            fields = dict(resident=n, blocks=self.run.grid.size)
            self.run.never = ('endless_wait', {}) if all_there else ('not_resident', fields)

    def resume(self, may):
        "Resume the blocks that `may` continue, in one direction and then in the other; returns whether any did"
        blocks = self.waiting[::-1]
        self.waiting = []
        any_did = False
        for block in blocks:
            if may(block):
                self.run.enter(block.left)
                self.go_on(block.steps)
                any_did = True
            else:
                self.waiting.append(block)
        return any_did
