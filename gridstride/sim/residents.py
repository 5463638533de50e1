"""Schedules the blocks of a kernel whose blocks wait for each other: one runs until it ends or spins, then the next.

As many blocks are resident as fit on the device. A block that spins is suspended, and resumed when the value that it
polls has changed. If no resident block can proceed, they are in a deadlock. The emulator of CUDA C does the same in
`cpp/runtime/residents.cpp`.
"""

from typing import NamedTuple

__all__ = ['Residents']


class _SpinningBlock(NamedTuple):
    "A suspended block, which spins"

    steps: object  # the generator that runs it
    saved: object  # its state, of `LaunchContext.save_group`
    stuck: bool  # whether it would spin without end if no other block wrote to memory
    last_poll: object  # `LaunchContext.last_poll`: what it polls, and the values that it found

    def has_progress(self):
        "Return whether a value that it polls has changed"
        if self.last_poll is None:
            return False
        data, offsets, values = self.last_poll
        return data[offsets[0]] != values[0] if len(offsets) == 1 else (data[offsets] != values).any()


class Residents:
    "The resident blocks of a launch, of which `waiting` are suspended"

    def __init__(self, ctx):
        self.ctx = ctx
        self.waiting = []

    def start_block(self, steps):
        "Run a new block until it ends or spins, then others until another block fits on the device"
        self.run_block(steps)
        while self.waiting and len(self.waiting) >= self.ctx.resident_limit:
            self.resume_all(False)

    def finish(self):
        "Run all resident blocks to their ends"
        while self.waiting:
            self.resume_all(True)

    def run_block(self, steps):
        "Run a block until it ends or spins"
        self.ctx.last_poll = None
        for stuck in steps:
            self.waiting.append(_SpinningBlock(steps, self.ctx.save_group(), stuck, self.ctx.last_poll))
            return
        self.ctx.detectors.racecheck.raise_deferred(self.ctx, self.ctx.group.all_lanes)

    def resume_all(self, all_started):
        "Resume the blocks whose polled values have changed, else all; record a deadlock if none of them proceeds"
        write_count = self.ctx.write_count
        waiting_count = len(self.waiting)
        if self.resume(_SpinningBlock.has_progress):
            return
        self.resume(lambda block: True)
        if (
            len(self.waiting) == waiting_count
            and self.ctx.write_count == write_count
            and all(block.stuck for block in self.waiting)
        ):
            fields = dict(resident=waiting_count, blocks=self.ctx.grid.size)
            self.ctx.deadlock = ('endless_wait', {}) if all_started else ('not_resident', fields)

    def resume(self, may_resume):
        "Resume the blocks for which `may_resume` is true, in alternating order; returns whether there were any"
        blocks = self.waiting[::-1]
        self.waiting = []
        resumed = False
        for block in blocks:
            if may_resume(block):
                self.ctx.restore_group(block.saved)
                self.run_block(block.steps)
                resumed = True
            else:
                self.waiting.append(block)
        return resumed
