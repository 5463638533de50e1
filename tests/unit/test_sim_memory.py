"Arrays as a kernel sees them: their addresses."
import numpy as np

from gridstride.sim.memory import make_view


def test_arrays_that_share_memory_share_it_in_a_kernel():
    a, known = np.arange(12.).reshape(3, 4), {}
    v, w = make_view(a[1:, ::2], 'v', known), make_view(a.T, 'w', known)
    assert v.mem is w.mem and v.offset == 4 and v.strides == (4, 2) and w.strides == (1, 4)


def test_what_is_written_to_a_view_is_seen_by_the_caller():
    a = np.arange(12.).reshape(3, 4)
    v = make_view(a[1:, ::2], 'v', {})
    v.mem.data[v.offset] = 99
    assert a[1, 0] == 99


def test_negative_strides():
    a = np.arange(12.).reshape(3, 4)[::-1, ::2]
    u = make_view(a, 'u', {})
    assert ([u.mem.data[u.offset + i * u.strides[0] + j * u.strides[1]] for i in range(3) for j in range(2)]
            == a.ravel().tolist())


def test_memory_that_is_not_numpys():
    r = np.frombuffer(bytearray(48), np.int32)[1::3]
    r[:] = 1, 2, 3, 4
    u = make_view(r, 'r', {})
    assert u.mem.data[u.offset:][::u.strides[0]].tolist() == [1, 2, 3, 4]


def test_a_shadow_is_made_when_it_is_needed():
    v = make_view(np.zeros(5), 'v', {})
    assert 'shadow' not in vars(v.mem) and v.mem.shadow is v.mem.shadow and (v.mem.shadow.write_time == 0).all()
