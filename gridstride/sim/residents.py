"""Blocks that wait for others: one runs until it is over or looks in vain, then the next one has its turn."""

from typing import NamedTuple

__all__ = ['Residents']


class _Waiting(NamedTuple):
    "A block that has looked in vain"

    steps: object  # the rest of it
    left: object  # what the run has of it
    stuck: bool  # would it wait for ever, were it alone?
    look: object  # what its last look has found, as the run has it

    def sees_news(self):
        "Has that changed?"
        if self.look is None:
            return False
        data, off, found = self.look
        return data[off[0]] != found[0] if len(off) == 1 else (data[off] != found).any()


class Residents:
    "The blocks that are on the device together, as many as it has room for"

    def __init__(self, run):
        self.run, self.waiting = run, []

    def begin(self, steps):
        "A block begins; then there is room for another one"
        self.go_on(steps)
        while self.waiting and len(self.waiting) >= self.run.room:
            self.turn(False)

    def end(self):
        "All blocks have begun: go on until all are over"
        while self.waiting:
            self.turn(True)

    def go_on(self, steps):
        "A block's next steps, until it looks in vain"
        self.run.look = None
        for stuck in steps:
            self.waiting.append(_Waiting(steps, self.run.leave(), stuck, self.run.look))
            return
        self.run.detectors.racecheck.tell_held(self.run, self.run.g.all)

    def turn(self, all_there):
        "A turn for each block that sees news, or for all; a finding, if none ever goes on"
        before, n = self.run.changes, len(self.waiting)
        if self.round(_Waiting.sees_news):
            return
        self.round(lambda block: True)
        if len(self.waiting) == n and self.run.changes == before and all(o.stuck for o in self.waiting):
            fields = dict(resident=n, blocks=self.run.grid.size)
            self.run.never = ('endless_wait', {}) if all_there else ('not_resident', fields)

    def round(self, may):
        "Those go on that `may`, in one direction and then in the other; did any?"
        blocks, self.waiting, any_did = self.waiting[::-1], [], False
        for o in blocks:
            if may(o):
                self.run.enter(o.left)
                self.go_on(o.steps)
                any_did = True
            else:
                self.waiting.append(o)
        return any_did
