"""Occupancy: how many blocks of a kernel a multiprocessor holds at once, and what limits that."""

import re
from collections import namedtuple


# A multiprocessor (SM) holds a limited number of warps and blocks, and its registers and its shared memory are
# allocated to blocks as they start. A block starts only when all that it needs is free. So the number of
# resident blocks is the smallest of four quotients, and the resident warps as a fraction of the maximum are the
# **occupancy**.
#
# The limits by architecture are those of the table "Technical Specifications per Compute Capability" in the
# CUDA C++ Programming Guide; how they are rounded follows CUDA's own calculator, the header
# `cuda_occupancy.h`, with which the tests compare this one.
#
# Of shared memory, in bytes: `shared` an SM has, `most` a block gets if it asks, `unit` is how it is handed
# out, `reserved` the system keeps of each block.
SM = namedtuple('SM', 'threads blocks shared most unit reserved shared_barriers')


def _sm(threads, blocks, shared, most=None, barriers=2):
    return SM(threads, blocks, shared * 1024, (most or shared - 1) * 1024, 128, 1024, barriers)


SMS = {
    75: SM(1024, 16, 64 * 1024, 64 * 1024, 256, 0, 2),
    80: _sm(2048, 32, 164),
    86: _sm(1536, 16, 100, barriers=1),
    87: _sm(1536, 16, 164, barriers=1),
    89: _sm(1536, 24, 100, barriers=1),
    90: _sm(2048, 32, 228),
    100: _sm(2048, 32, 228),
    103: _sm(2048, 32, 228),
    110: _sm(1536, 24, 228, barriers=1),
    120: _sm(1536, 24, 100, barriers=1),
    121: _sm(1536, 24, 100, barriers=1),
}

WARP = 32  # threads
PARTITIONS = 4  # schedulers in an SM, each with a quarter of the registers
REGISTERS = 64 * 1024  # 32-bit registers of an SM, and the most a block may have
PER_WARP = 256  # registers are handed out to warps in units of this many
PER_THREAD, PER_BLOCK = 256, 1024  # most registers a thread (compilers use 255 of them), most threads a block


def sm_of(arch: str) -> SM:  # such as 'sm_90' or 'sm_90a'
    "Return what an SM of this architecture has"
    m = re.fullmatch(r'(?:sm_|compute_)?(\d+)[af]?', str(arch))
    if m and int(m[1]) in SMS:
        return SMS[int(m[1])]
    raise ValueError(f"arch is {arch!r}; it must be {', '.join(f'sm_{sm}' for sm in SMS)}")


# Registers are handed out by the warp, in units of 256, and each of the four schedulers hands out its own
# quarter. For shared memory the system keeps 1 KiB of each block for itself since `sm_80`. The SM divides its
# memory between L1 cache and shared memory; as much as it may be is assumed to be shared, as CUDA assumes it
# unless a program says otherwise. Not in here: clusters of blocks, a smaller share of shared memory that a
# program may ask for, and a kernel's own bound on its block size.
def _up(n, unit):
    return -(n // -unit) * unit


def _by_registers(registers, warps):
    "Return how many blocks of `warps` warps the registers are enough for"
    each = _up(registers * WARP, PER_WARP)
    if registers > PER_THREAD or each * _up(warps, PARTITIONS) > REGISTERS:
        return 0  # a launch is checked as if each scheduler had equally many warps
    return REGISTERS // PARTITIONS // each * PARTITIONS // warps if each else None


def _by_shared(shared, sm):
    "Return how many blocks with `shared` bytes each the shared memory is enough for"
    if shared > sm.most:
        return 0
    each = _up(shared + sm.reserved, sm.unit)
    return sm.shared // each if each else None


class Occupancy(namedtuple('Occupancy', 'blocks warps share limiter limits arch block')):
    """Resident `blocks` and `warps` of an SM, the occupancy `share` (0 to 1), the names of what limits it,
    and the blocks that each limit allows"""

    def __str__(self):
        most = sm_of(self.arch).threads // WARP
        if not self.blocks:
            too_much = ', '.join(self.limiter)
            return f'impossible on {self.arch}: a block of {self.block} threads is too much for {too_much}'
        blocks = f"{self.blocks} block{'s' * (self.blocks > 1)} of {self.block} threads"
        warps = f'{self.share:.0%} on {self.arch}: {self.warps} of {most} warps'
        return f"{warps}, {blocks}; limited by {', '.join(self.limiter)}"

    def __repr__(self):
        return str(self)


def _refuse_numbers(block, **others):
    "Raise `ValueError` for what is not a count of threads, registers, bytes or barriers"
    for k, v in others.items():
        if int(v) != v or v < 0:
            raise ValueError(f'{k} is {v!r}; it must be a non-negative integer')
    if int(block) != block or block < 1:
        raise ValueError(f'block is {block!r}; it must be a positive integer')


def occupancy(
    registers: int,  # of a thread
    shared: int = 0,  # bytes of shared memory of a block, static and dynamic together
    block: int = 256,  # threads of a block
    arch='sm_90',  # sm_75 to sm_121
    barriers: int = 1,  # that the kernel uses; 1 is `__syncthreads`
) -> Occupancy:  # with 0 blocks if such a kernel cannot be launched
    """Compute how many blocks are resident on an SM at once, and what limits their number.

    >>> occupancy(registers=64, block=256)
    50% on sm_90: 32 of 64 warps, 4 blocks of 256 threads; limited by registers"""
    _refuse_numbers(block, registers=registers, shared=shared, barriers=barriers)
    sm = sm_of(arch)
    warps = -(block // -WARP)
    limits = {
        'registers': _by_registers(registers, warps),
        'shared memory': _by_shared(shared, sm),
        'warps': 0 if block > PER_BLOCK else sm.threads // WARP // warps,
        'blocks': sm.blocks,
    }
    if barriers > 1 and int(re.search(r'\d+', str(arch))[0]) >= 90:
        limits['barriers'] = sm.blocks * sm.shared_barriers // barriers
    limits = {k: v for k, v in limits.items() if v is not None}
    n = min(limits.values())
    limiter = tuple(k for k, v in limits.items() if v == n)
    return Occupancy(n, n * warps, n * warps * WARP / sm.threads, limiter, limits, str(arch), block)
