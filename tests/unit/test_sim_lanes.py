"Threads as lanes: their indices, branches, loops."
import numpy as np
import pytest

from gridstride.sim.lanes import Group, RangeLoop, assign, branch
from gridstride.utils import dim3

MASK = np.array([True, True, False, True])


@pytest.fixture
def group(): return Group(dim3(3), dim3(4, 2), 1, 2)    # blocks 1 and 2 of three


def test_lanes_are_numbered_as_cuda_numbers_threads(group):
    assert group.index('thread', 'y').tolist() == [0, 0, 0, 0, 1, 1, 1, 1] * 2
    assert group.position(13) == ((2, 0, 0), (1, 1, 0)) == group.position_of_thread(group.thread_ids[13])


def test_a_partial_warp_has_lanes_without_a_thread(group):
    assert group.lanes_by_warp()[1, :9].tolist() == [8, 9, 10, 11, 12, 13, 14, 15, -1]


def test_a_branch_splits_the_active_lanes():
    yes, no = branch(MASK, np.array([1, 0, 1, 1]))
    assert (yes.tolist(), no.tolist()) == ([True, False, False, True], [False, True, False, False])


def test_a_branch_that_all_take_splits_nothing():
    assert branch(MASK, True) == (MASK, None)
    yes, no = branch(MASK, np.array([0, 0, 1, 0]))
    assert yes is None and no is MASK


def test_other_lanes_keep_their_values():
    yes = np.array([True, False, False, True])
    assert assign(True, yes, np.arange(4), np.int64(9)).tolist() == [0, 9, 9, 3]


def test_a_loop_continues_until_no_lane_is_active():
    loop, seen = RangeLoop(np.ones(3, bool), False, np.array([1, 0, 3])), []
    for _ in loop:
        seen.append(loop.mask.tolist())
        loop.end_iteration(loop.mask)
    assert seen == [[True, False, True], [False, False, True], [False, False, True]]
    assert loop.active_after().tolist() == [True] * 3
