"""Schedules blocks that wait for each other: a block runs until it ends or spins, and then the next one runs.

As many blocks are resident as fit on the device. A block that spins is suspended, and resumed when the value that it
polls has changed. If no resident block can proceed, they are deadlocked. The emulator of CUDA C does the same in
`cpp/runtime/residents.cpp`.
"""

from typing import NamedTuple

__all__ = ['Residents']


class _SpinningBlock(NamedTuple):
    "A suspended block that spins"

    steps: object  # the generator that runs it
    state: object  # from `LaunchContext.save_group`
    is_endless: bool  # whether it never stops spinning unless another block writes to memory
    last_poll: object  # `LaunchContext.last_poll`: the elements that it polled last, and the values that it read

    def has_polled_value_changed(self):
        "Return whether an element that it polls has a new value"
        if self.last_poll is None:
            return False
        data, offsets, values = self.last_poll
        return data[offsets[0]] != values[0] if len(offsets) == 1 else (data[offsets] != values).any()


class Residents:
    "The resident blocks of a launch; `waiting_blocks` are suspended"

    def __init__(self, ctx):
        self.ctx = ctx
        self.waiting_blocks = []

    def start_block(self, steps):
        "Run a new block until it ends or spins, then the waiting blocks until another block fits on the device"
        self.run_block(steps)
        while self.waiting_blocks and len(self.waiting_blocks) >= self.ctx.max_resident_blocks:
            self.resume_all(False)

    def finish(self):
        "Run all resident blocks until they end"
        while self.waiting_blocks:
            self.resume_all(True)

    def run_block(self, steps):
        "Run a block until it ends or spins"
        self.ctx.last_poll = None
        for is_endless in steps:
            self.waiting_blocks.append(_SpinningBlock(steps, self.ctx.save_group(), is_endless, self.ctx.last_poll))
            return
        self.ctx.detectors.racecheck.raise_deferred(self.ctx, self.ctx.group.all_lanes)

    def resume_all(self, all_started):
        "Resume the blocks whose polled values have changed, or all if none have; record a deadlock if none proceeds"
        progress_count = self.ctx.progress_count
        num_waiting = len(self.waiting_blocks)
        if self.resume(_SpinningBlock.has_polled_value_changed):
            return
        self.resume(lambda block: True)
        if (
            len(self.waiting_blocks) == num_waiting
            and self.ctx.progress_count == progress_count
            and all(block.is_endless for block in self.waiting_blocks)
        ):
            fields = dict(resident=num_waiting, blocks=self.ctx.grid.size)
            self.ctx.deadlock = ('endless_wait', {}) if all_started else ('not_resident', fields)

    def resume(self, may_resume):
        "Resume the blocks for which `may_resume` is true, in reverse order; returns whether any was resumed"
        blocks = self.waiting_blocks[::-1]
        self.waiting_blocks = []
        has_resumed = False
        for block in blocks:
            if may_resume(block):
                self.ctx.restore_group(block.state)
                self.run_block(block.steps)
                has_resumed = True
            else:
                self.waiting_blocks.append(block)
        return has_resumed
