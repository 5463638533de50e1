"Occupancy at the edges that the units of registers, warps and shared memory make."
import pytest
from gridstride.asm.limits import occupancy

KIB = 1024


def test_registers_are_handed_out_in_units_of_256_a_warp():
    assert [occupancy(r).blocks for r in (64, 65, 72, 73)] == [4, 3, 3, 3]


@pytest.mark.parametrize('block,limiter', [(1024, ('registers', 'warps')), (32, ('blocks',))])
def test_what_limits_is_named(block, limiter): assert occupancy(32, block=block).limiter == limiter


def test_small_blocks_leave_half_of_the_warps_free(): assert occupancy(32, block=32)[:3] == (32, 32, .5)


@pytest.mark.parametrize(
    'kw',
    [
        dict(registers=255, block=512),
        dict(registers=16, shared=227 * KIB + 1),
        dict(registers=16, shared=100 * KIB, arch='sm_86'),
        dict(registers=16, block=1025),
    ],
)
def test_what_cannot_be_launched_has_no_blocks(kw):
    assert occupancy(**kw).blocks == 0 and 'impossible' in str(occupancy(**kw))


@pytest.mark.parametrize('kw', [dict(shared=227*KIB), dict(shared=64*KIB, arch='sm_75')])
def test_the_largest_shared_memory_fits_once(kw):
    o = occupancy(16, **kw)
    assert o.blocks == 1 and o.limiter == ('shared memory',)


def test_an_unknown_architecture_is_refused():
    with pytest.raises(ValueError, match='sm_90'): occupancy(16, arch='sm_20')
