"""The order of a program's operations in the simulator: launches and copies of several streams, and what the host
does itself with pinned, mapped and managed arrays. Wrong programs, and right ones of the same shape."""
import re

import numpy as np, pytest

from gridstride import sim
from gridstride.diagnostics.errors import RacecheckError
from gridstride.sim import cuda


@cuda.jit
def fill(a):
    i = cuda.grid(1)
    if i < a.size: a[i] = i


@cuda.jit
def twice(a, b):
    i = cuda.grid(1)
    if i < a.size: b[i] = 2*a[i]


@cuda.jit
def bump(a): cuda.atomic.add(a, 0, 1)


@pytest.fixture
def given():
    "Two streams, an event, two arrays on the device and a pinned one"
    cuda.synchronize()
    d, o = cuda.to_device(np.zeros(64)), cuda.to_device(np.zeros(64))
    cuda.synchronize()
    return cuda.stream(), cuda.stream(), cuda.event(), d, o, cuda.pinned_array(64)


def two_kernels(s, t, e, d, o, h):
    fill[2, 32, s](d)
    twice[2, 32, t](d, o)  # kernel reads fill

def write_after_read(s, t, e, d, o, h):
    twice[2, 32, s](d, o)
    fill[2, 32, t](d)  # kernel writes twice

def two_writes(s, t, e, d, o, h):
    d[:] = np.ones(64)
    twice[2, 32, s](d, o)
    fill[2, 32, t](o)  # kernel writes twice

def copy_of_another_stream(s, t, e, d, o, h):
    fill[2, 32, s](d)
    d.copy_to_host(h, stream=t)  # call reads fill

def pageable_copy_of_another_stream(s, t, e, d, o, h):
    fill[2, 32, s](d)
    d.copy_to_host(stream=t)  # call reads fill

def kernel_before_its_copy(s, t, e, d, o, h):
    d.copy_to_device(np.ones(64), stream=s)
    twice[2, 32, t](d, o)  # kernel reads copy_to_device

def new_array_of_another_stream(s, t, e, d, o, h):
    x = cuda.to_device(np.ones(64), stream=s)
    twice[2, 32, t](x, o)  # kernel reads to_device

def copy_over_a_copy(s, t, e, d, o, h):
    d.copy_to_host(h, stream=s)
    o.copy_to_host(h, stream=t)  # call writes copy_to_host

def event_recorded_too_early(s, t, e, d, o, h):
    e.record(s)
    fill[2, 32, s](d)
    e.wait(t)
    twice[2, 32, t](d, o)  # kernel reads fill

def slices_that_overlap(s, t, e, d, o, h):
    fill[2, 32, s](d[:33])
    fill[2, 32, t](d[31:])  # kernel writes fill

def atomic_and_plain(s, t, e, d, o, h):
    bump[2, 32, s](d)
    fill[2, 32, t](d)  # kernel writes bump

def pinned_result(s, t, e, d, o, h):
    d.copy_to_host(h, stream=s)
    h[7]  # host reads copy_to_host

def pinned_result_in_a_sum(s, t, e, d, o, h):
    d.copy_to_host(h, stream=s)
    h.sum()  # host reads copy_to_host

def pinned_result_printed(s, t, e, d, o, h):
    d.copy_to_host(h, stream=s)
    print(h)  # host reads copy_to_host

def pinned_source(s, t, e, d, o, h):
    d.copy_to_device(h, stream=s)
    h[7] = 1  # host writes copy_to_device

def pinned_argument(s, t, e, d, o, h):
    fill[2, 32, s](h)
    h[3] + 1  # host reads fill

def managed_result(s, t, e, d, o, h):
    m = cuda.managed_array(64)
    fill[2, 32](m)
    m[5]  # host reads fill

def managed_written(s, t, e, d, o, h):
    m = cuda.managed_array(64)
    twice[2, 32, s](m, o)
    m += 1  # host writes twice

def mapped_result(s, t, e, d, o, h):
    m = cuda.mapped_array(64)
    fill[2, 32, s](m)
    t.synchronize()
    m[::2].max()  # host reads fill

def list_of_places(s, t, e, d, o, h):
    m = cuda.managed_array(64)
    fill[2, 32, s](m[:32])
    m[[40, 31]]  # host reads fill


WRONG = [two_kernels, write_after_read, two_writes, copy_of_another_stream, pageable_copy_of_another_stream,
         kernel_before_its_copy, new_array_of_another_stream, copy_over_a_copy, event_recorded_too_early,
         slices_that_overlap, atomic_and_plain, pinned_result, pinned_result_in_a_sum, pinned_result_printed,
         pinned_source, pinned_argument, managed_result, managed_written, mapped_result, list_of_places]


def right_event(s, t, e, d, o, h):
    fill[2, 32, s](d); e.record(s); e.wait(t)
    twice[2, 32, t](d, o); e.record(t); e.wait(s)
    o.copy_to_host(h, stream=s); fill[2, 32, s](d)
    s.synchronize(); h[3] += 1

def right_synchronized(s, t, e, d, o, h):
    m = cuda.managed_array(64); m[:] = 3
    fill[2, 32, s](m); s.synchronize(); m[3] += 1
    fill[2, 32, s](m); cuda.synchronize(); m[3] += 1
    fill[2, 32, s](m); e.record(s); e.synchronize(); m[3] += 1
    fill[2, 32, s](m); e.record(s)
    while not e.query(): pass
    assert m.sum() > 0 and str(m)
    with s.auto_synchronize(): fill[2, 32, s](m)
    m -= m
    fill[2, 32, s](m); o.copy_to_host(); m[0] = 1    # a copy of the default stream
    d.copy_to_host(h); h[0] = 2
    fill[2, 32](m); d.copy_to_host(); np.testing.assert_array_equal(m, np.arange(64))

def right_default_stream(s, t, e, d, o, h):
    fill[2, 32, s](d)
    twice[2, 32](d, o)                               # after all other streams
    fill[2, 32, t](o)                                # after the default stream
    o[3] = 1; assert o[3] == 1 and np.asarray(o)[3] == 1

def right_default_stream_between(s, t, e, d, o, h):
    sim.happens_before.stream_order.has_host_arrays = False
    fill[2, 32, s](d)
    bump[1, 32](o)                                   # orders t after s
    twice[2, 32, t](d, o)

def right_reads_only(s, t, e, d, o, h):
    twice[2, 32, s](d, o)
    twice[2, 32, t](d, cuda.device_array(64))
    d.copy_to_host(h, stream=t)

def right_halves(s, t, e, d, o, h):
    for k, stream in enumerate((s, t)):
        half = slice(32*k, 32*k+32)
        d[half].copy_to_device(h[half], stream=stream)
        fill[1, 32, stream](d[half])
        d[half].copy_to_host(h[half], stream=stream)
    cuda.synchronize(); assert h[40] == 8

def right_columns(s, t, e, d, o, h):
    x = cuda.device_array((8, 8))
    x[:, :4].copy_to_device(np.ones((8, 4)), stream=s)
    x[:, 4:].copy_to_device(np.ones((8, 4)), stream=t)
    with pytest.raises(RacecheckError): x[:, 3:5].copy_to_device(np.ones((8, 2)), stream=t)

def right_other_half_of_managed(s, t, e, d, o, h):
    m = cuda.managed_array(64)
    fill[1, 32, s](m[:32])
    m[32:] = 4; assert m[40] == 4 and m[32:].max() == 4 and m[[40, 50]].tolist() == [4, 4]

def right_double_buffer(s, t, e, d, o, h):
    buffers, filled, used = (d, o), (cuda.event(), cuda.event()), (cuda.event(), cuda.event())
    out = cuda.device_array((4, 64))
    for i in range(4):
        k = i % 2
        if i > 1: used[k].wait(s)
        buffers[k].copy_to_device(h, stream=s); filled[k].record(s); filled[k].wait(t)
        twice[2, 32, t](buffers[k], out[i]); used[k].record(t)
    t.synchronize()

def right_atomics(s, t, e, d, o, h):
    bump[2, 32, s](d)
    bump[2, 32, t](d)

def right_plain_arrays(s, t, e, d, o, h):
    x = np.zeros(64)
    fill[2, 32, s](x); assert x[5] == 5              # copied there and back
    fill[2, 32, t](x)
    fill[2, 32](h); assert h[5] == 5                 # so is a pinned one, by the default stream

def right_same_value(s, t, e, d, o, h):
    fill[2, 32, s](d)
    fill[2, 32, t](d)

def right_many(s, t, e, d, o, h):
    for _ in range(600): fill[1, 1, s](d)
    assert len(sim.happens_before.stream_order.pending_operations) < 300


RIGHT = [f for name, f in list(globals().items()) if name.startswith('right_')]


@pytest.mark.parametrize('program', WRONG, ids=lambda f: f.__name__)
def test_operations_without_an_order_are_found(program, given):
    import inspect
    lines, start = inspect.getsourcelines(program)
    at, said = next((start+i, m) for i, line in enumerate(lines)
                    if (m := re.search(r'  # (\w+) (\w+) (\w+)$', line)))
    who, now, first = said.groups()
    with pytest.raises(RacecheckError) as e: program(*given)
    e = e.value
    assert e.code == ('host_race' if who == 'host' else 'unordered_operations'), e
    assert e.fields['now'] == now and e.fields['first'].fields['name'] == first, e
    assert (e.fields['second'].fields['line'] if who != 'host' else e.line) == at, e
    assert (e.block is not None) == (who == 'kernel') and e.index is not None
    if who == 'kernel' and e.fields['first'].code == 'kernel_on': assert e.other.line, e
    cuda.synchronize()


@pytest.mark.parametrize('program', RIGHT, ids=lambda f: f.__name__)
def test_operations_in_order_are_left_alone(program, given):
    program(*given)
    cuda.synchronize()


def test_without_racecheck_no_order_is_required(given):
    with sim.options(checks='no racecheck'): two_kernels(*given), managed_result(*given)


def test_arrays_of_the_host_are_arrays():
    m = cuda.managed_array((2, 3), np.float32)
    assert isinstance(m, np.ndarray) and m.shape == (2, 3) and m.T.shape == (3, 2) and (m+1).sum() == 6
    assert cuda.pinned_array_like(np.zeros((2, 2), order='F')).flags.f_contiguous
    m[0], m[1, 2] = 5, 7
    np.add.at(m, (0, 0), 1)
    assert m.tolist() == [[6, 5, 5], [0, 0, 7]] and repr(m[1]) == repr(np.array([0, 0, 7], np.float32))
    c = m.copy(); c[0] = 0
    assert m[0, 1] == 5 and float(m[0, 0]) == 6 and [float(x) for x in m[1]] == [0, 0, 7] and m[m > 5].size == 2
