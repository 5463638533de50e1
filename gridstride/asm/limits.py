"""Compute occupancy: how many blocks of a kernel are resident on an SM, and which resource limits their number."""

import re
from collections import namedtuple


# A multiprocessor (SM) supports a limited number of warps and blocks, and allocates registers and shared memory to a
# block when it starts. A block starts only when all of its resources are free. So the number of resident blocks is the
# smallest of four quotients, and **occupancy** is the number of resident warps as a fraction of the maximum.
#
# The limits are those of the table "Technical Specifications per Compute Capability" in the CUDA C++ Programming Guide;
# the rounding is that of CUDA's header `cuda_occupancy.h`, with which the tests compare.
#
# Bytes of shared memory: `shared` per SM, at most `max_shared` per block, allocated in multiples of `shared_unit`; the
# system reserves `reserved` per block. An SM has `blocks * barriers_per_block` named barriers.
SM = namedtuple('SM', 'threads blocks shared max_shared shared_unit reserved barriers_per_block')


def _sm_from_80(threads, blocks, shared, barriers=2):
    "Return the limits of an SM of sm_80 or later; `shared` is in KiB"
    return SM(threads, blocks, shared * 1024, (shared - 1) * 1024, 128, 1024, barriers)


SM_LIMITS = {
    75: SM(1024, 16, 64 * 1024, 64 * 1024, 256, 0, 2),
    80: _sm_from_80(2048, 32, 164),
    86: _sm_from_80(1536, 16, 100, barriers=1),
    87: _sm_from_80(1536, 16, 164, barriers=1),
    89: _sm_from_80(1536, 24, 100, barriers=1),
    90: _sm_from_80(2048, 32, 228),
    100: _sm_from_80(2048, 32, 228),
    103: _sm_from_80(2048, 32, 228),
    110: _sm_from_80(1536, 24, 228, barriers=1),
    120: _sm_from_80(1536, 24, 100, barriers=1),
    121: _sm_from_80(1536, 24, 100, barriers=1),
}

WARP_SIZE = 32  # threads
NUM_SCHEDULERS = 4  # per SM, each with a quarter of the registers
REGISTERS_PER_SM = 64 * 1024  # 32-bit registers per SM, and at most per block
REGISTER_UNIT = 256  # registers are allocated to a warp in multiples of this number
MAX_REGISTERS_PER_THREAD = 256  # compilers use at most 255
MAX_THREADS_PER_BLOCK = 1024


def sm_of(arch: str) -> SM:  # such as 'sm_90' or 'sm_90a'
    "Return the limits of an SM of this architecture"
    match = re.fullmatch(r'(?:sm_|compute_)?(\d+)[af]?', str(arch))
    if match and int(match[1]) in SM_LIMITS:
        return SM_LIMITS[int(match[1])]
    raise ValueError(f"arch must be one of {', '.join(f'sm_{sm}' for sm in SM_LIMITS)}; got {arch!r}")


# Registers are allocated per warp, in units of 256, and each of the four schedulers has its own quarter. Since `sm_80`
# the system reserves 1 KiB of shared memory per block. An SM divides its memory between L1 cache and shared memory;
# this model assumes the largest shared memory, as CUDA does by default. It does not model clusters, a smaller shared
# memory that a program requests, or launch bounds of a kernel.
def _round_up(count, unit):
    "Return the smallest multiple of `unit` that is at least `count`"
    return -(count // -unit) * unit


def _max_blocks_by_registers(registers, warps):
    "Return how many blocks of `warps` warps the registers of an SM allow; None for no limit"
    registers_per_warp = _round_up(registers * WARP_SIZE, REGISTER_UNIT)
    if registers > MAX_REGISTERS_PER_THREAD or registers_per_warp * _round_up(warps, NUM_SCHEDULERS) > REGISTERS_PER_SM:
        return 0  # a launch assumes the same number of warps per scheduler
    return (
        REGISTERS_PER_SM // NUM_SCHEDULERS // registers_per_warp * NUM_SCHEDULERS // warps
        if registers_per_warp
        else None
    )


def _max_blocks_by_shared_memory(shared, sm):
    "Return how many blocks with `shared` bytes the shared memory of an SM allows; None for no limit"
    if shared > sm.max_shared:
        return 0
    bytes_per_block = _round_up(shared + sm.reserved, sm.shared_unit)
    return sm.shared // bytes_per_block if bytes_per_block else None


class Occupancy(namedtuple('Occupancy', 'blocks warps fraction limiter limits arch block')):
    """Resident `blocks` and `warps` per SM, and the occupancy as a `fraction` of the maximum.

    `limits` maps each resource to the number of blocks that it allows; `limiter` names the resources with the minimum.
    """

    def __str__(self):
        max_warps = sm_of(self.arch).threads // WARP_SIZE
        if not self.blocks:
            exceeded_limits = ', '.join(self.limiter)
            return f'impossible on {self.arch}: a block of {self.block} threads exceeds the limits of {exceeded_limits}'
        blocks = f"{self.blocks} block{'s' * (self.blocks > 1)} of {self.block} threads"
        warps = f'{self.fraction:.0%} on {self.arch}: {self.warps} of {max_warps} warps'
        return f"{warps}, {blocks}; limited by {', '.join(self.limiter)}"

    def __repr__(self):
        return str(self)


def _check_counts(block, **counts):
    "Raise ValueError unless `block` is a positive integer, and the others are non-negative integers"
    for name, count in counts.items():
        if int(count) != count or count < 0:
            raise ValueError(f'{name} must be a non-negative integer; got {count!r}')
    if int(block) != block or block < 1:
        raise ValueError(f'block must be a positive integer; got {block!r}')


def occupancy(
    registers: int,  # per thread
    shared: int = 0,  # bytes of shared memory per block, static and dynamic
    block: int = 256,  # threads per block
    arch='sm_90',  # sm_75 to sm_121
    barriers: int = 1,  # named barriers per block; 1: only that of `__syncthreads`
) -> Occupancy:  # 0 blocks if such a kernel cannot be launched
    """Compute how many blocks are resident on an SM at the same time, and which resource limits their number.

    >>> occupancy(registers=64, block=256)
    50% on sm_90: 32 of 64 warps, 4 blocks of 256 threads; limited by registers"""
    _check_counts(block, registers=registers, shared=shared, barriers=barriers)
    sm = sm_of(arch)
    warps = -(block // -WARP_SIZE)
    limits = {
        'registers': _max_blocks_by_registers(registers, warps),
        'shared memory': _max_blocks_by_shared_memory(shared, sm),
        'warps': 0 if block > MAX_THREADS_PER_BLOCK else sm.threads // WARP_SIZE // warps,
        'blocks': sm.blocks,
    }
    if barriers > 1 and int(re.search(r'\d+', str(arch))[0]) >= 90:
        limits['barriers'] = sm.blocks * sm.barriers_per_block // barriers
    limits = {resource: limit for resource, limit in limits.items() if limit is not None}
    blocks = min(limits.values())
    limiter = tuple(resource for resource, limit in limits.items() if limit == blocks)
    fraction = blocks * warps * WARP_SIZE / sm.threads
    return Occupancy(blocks, blocks * warps, fraction, limiter, limits, str(arch), block)
