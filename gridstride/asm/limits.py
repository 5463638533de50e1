"""Compute occupancy: how many blocks of a kernel are resident on an SM, and what limits their number."""

import re
from collections import namedtuple


# A multiprocessor (SM) holds a limited number of warps and blocks, and allocates registers and shared memory to blocks
# as they start. A block starts only when all of its resources are free. So the number of resident blocks is the
# smallest of four quotients, and the resident warps as a fraction of the maximum are the **occupancy**.
#
# The limits are those of the table "Technical Specifications per Compute Capability" in the CUDA C++ Programming Guide;
# the rounding is that of CUDA's header `cuda_occupancy.h`, with which the tests compare.
#
# Bytes of shared memory: `shared` per SM, at most `most` per block, allocated in units of `unit`; the system reserves
# `reserved` per block.
SM = namedtuple('SM', 'threads blocks shared most unit reserved shared_barriers')


def _sm(threads, blocks, shared, most=None, barriers=2):
    "Return the `SM` of an architecture from sm_80 on; shared memory in KiB"
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
PARTITIONS = 4  # schedulers per SM, each with a quarter of the registers
REGISTERS = 64 * 1024  # 32-bit registers per SM, and at most per block
PER_WARP = 256  # registers are allocated to warps in units of this many
PER_THREAD, PER_BLOCK = 256, 1024  # at most: registers per thread (compilers use 255), threads per block


def sm_of(arch: str) -> SM:  # such as 'sm_90' or 'sm_90a'
    "Return the limits of an SM of this architecture"
    m = re.fullmatch(r'(?:sm_|compute_)?(\d+)[af]?', str(arch))
    if m and int(m[1]) in SMS:
        return SMS[int(m[1])]
    raise ValueError(f"arch is {arch!r}; it must be {', '.join(f'sm_{sm}' for sm in SMS)}")


# Registers are allocated per warp, in units of 256, and each of the four schedulers has its own quarter. Since `sm_80`
# the system reserves 1 KiB of shared memory per block. An SM divides its memory between L1 cache and shared memory;
# this model assumes the largest shared memory, as CUDA does by default. Not modelled: clusters, a smaller shared memory
# that a program requests, and launch bounds of a kernel.
def _round_up(n, unit):
    return -(n // -unit) * unit


def _by_registers(registers, warps):
    "Return how many blocks of `warps` warps the registers allow; None for no limit"
    each = _round_up(registers * WARP, PER_WARP)
    if registers > PER_THREAD or each * _round_up(warps, PARTITIONS) > REGISTERS:
        return 0  # a launch check assumes equally many warps per scheduler
    return REGISTERS // PARTITIONS // each * PARTITIONS // warps if each else None


def _by_shared(shared, sm):
    "Return how many blocks with `shared` bytes each the shared memory allows; None for no limit"
    if shared > sm.most:
        return 0
    each = _round_up(shared + sm.reserved, sm.unit)
    return sm.shared // each if each else None


class Occupancy(namedtuple('Occupancy', 'blocks warps share limiter limits arch block')):
    """Resident `blocks` and `warps` per SM, the occupancy `share` (0 to 1), the names of the resources that limit it,
    and the blocks that each resource allows"""

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


def _check_counts(block, **others):
    "Raise ValueError unless all of these are valid counts"
    for k, v in others.items():
        if int(v) != v or v < 0:
            raise ValueError(f'{k} is {v!r}; it must be a non-negative integer')
    if int(block) != block or block < 1:
        raise ValueError(f'block is {block!r}; it must be a positive integer')


def occupancy(
    registers: int,  # per thread
    shared: int = 0,  # bytes of shared memory per block, static and dynamic
    block: int = 256,  # threads per block
    arch='sm_90',  # sm_75 to sm_121
    barriers: int = 1,  # barriers that the kernel uses; 1 is `__syncthreads`
) -> Occupancy:  # 0 blocks if such a kernel cannot be launched
    """Compute how many blocks are resident on an SM at once, and what limits their number.

    >>> occupancy(registers=64, block=256)
    50% on sm_90: 32 of 64 warps, 4 blocks of 256 threads; limited by registers"""
    _check_counts(block, registers=registers, shared=shared, barriers=barriers)
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
