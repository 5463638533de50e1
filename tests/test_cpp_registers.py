"setmaxnreg on the emulator: a block has the registers that its launch bounds permit, and may only share them."
import numpy as np
import pytest

from gridstride.cpp import CompileError, cuda_kernel, options
from found import finding

SRC = r'''
template <int n> __device__ void release() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(n)); }
template <int n> __device__ void request() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(n)); }
__global__ void BOUNDS share(int *out) {
    int t = threadIdx.x, group = t / 128;
    if (group == 0) release<DEC>(); else request<INC>();
    MORE
    __syncthreads();
    out[t] = group;
}'''


def share(bounds, dec, inc, more='', threads=384):
    src = SRC
    for name, value in dict(BOUNDS=bounds, DEC=dec, INC=inc, MORE=more).items(): src = src.replace(name, str(value))
    out = np.full(threads, -1, np.int32)
    cuda_kernel(src)[1, threads](out)
    return out.tolist() == [t//128 for t in range(threads)]


# 65536 registers are 168 per thread of a block of 384, a multiple of 8; two blocks leave 80, and 256 is the maximum
@pytest.mark.parametrize('bounds,dec,inc,threads', [
    ('__launch_bounds__(384)', 24, 240, 384), ('__launch_bounds__(384, 1)', 40, 232, 384),
    ('__launch_bounds__(384, 2)', 24, 104, 384), ('__launch_bounds__(512, 1, 2)', 32, 160, 512),
    ('__launch_bounds__(256)', 256, 256, 256), ('__launch_bounds__(128*(2+1))', 56, 224, 384),
    ('', 80, 224, 384)])
def test_registers_that_a_block_has(bounds, dec, inc, threads): assert share(bounds, dec, inc, threads=threads)


@pytest.mark.parametrize('bounds,dec,inc,threads,counts,needed,available,per_thread', [
    ('__launch_bounds__(384)', 80, 224, 384, '80 + 224 + 224', 67584, 64512, 168),
    ('__launch_bounds__(384, 1)', 48, 232, 384, '48 + 232 + 232', 65536, 64512, 168),
    ('__launch_bounds__(384, 2)', 32, 112, 384, '32 + 112 + 112', 32768, 30720, 80),
    ('__launch_bounds__(512)', 128, 136, 512, '128 + 136 + 136 + 136', 68608, 65536, 128),
    ('__launch_bounds__(384)', 120, 224, 256, '120 + 224', 44032, 43008, 168)])
def test_registers_that_a_block_lacks(bounds, dec, inc, threads, counts, needed, available, per_thread):
    with finding('synccheck too_few_registers', counts=counts, needed=needed, available=available,
                 per_thread=per_thread) as e:
        share(bounds, dec, inc, threads=threads)
    assert e.value.line == 3 and e.value.thread[0] >= 128
    with options(checks='no synccheck'): assert share(bounds, dec, inc, threads=threads)


def test_registers_may_be_requested_before_they_are_released():
    "The second warpgroup waits until the third one, and then the first one, has released some"
    later = 'if (group == 1) request<240>(); if (group == 2) release<96>();'
    assert share('__launch_bounds__(384)', 168, 168, later)
    with finding('synccheck too_few_registers', counts='168 + 248 + 96'):
        share('__launch_bounds__(384)', 168, 168, later.replace('240', '248'))
    assert share('__launch_bounds__(384)', 168, 168, later.replace('240', '248') + 'if (group == 0) release<160>();')


def test_threads_that_return_give_their_registers_back():
    assert share('__launch_bounds__(384)', 168, 168, 'if (group == 2) { out[t] = group; return; } '
                 'if (group == 1) request<256>();')


@pytest.mark.parametrize('more,warp', [
    ('if (t >= 352) release<40>();', 8), ('if (t < 352) release<24>();', 11),
    ('if (group == 1 && t/32 % 4 != 3) request<200>();', 7),
    ('if (t/32 == 9) release<48>(); else if (group == 2) release<40>();', None)])
def test_all_warps_of_a_warpgroup_execute_it(more, warp):
    with finding('synccheck setmaxnreg_skipped', **({} if warp is None else dict(warp=warp))) as e:
        share('__launch_bounds__(384)', 24, 168, more)
    assert e.value.line in (2, 3)


def test_releases_are_smaller():
    with finding('synccheck setmaxnreg_direction', registers=176, before=168) as e:
        share('__launch_bounds__(384)', 176, 176)
    assert e.value.line == 2
    with finding('synccheck setmaxnreg_direction', registers=40, before=24):
        share('__launch_bounds__(384)', 24, 168, 'if (group == 0) release<40>();')


def test_a_request_for_fewer_changes_nothing():
    "A GPU executes it, although PTX leaves it undefined"
    assert share('__launch_bounds__(384)', 40, 160)


@pytest.mark.parametrize('count', [16, 28, 264])
def test_counts_are_multiples_of_8(count):
    with pytest.raises(CompileError, match='setmaxnreg'): share('__launch_bounds__(384)', count, 168)
