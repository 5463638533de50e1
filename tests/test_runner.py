"The runners: what lessons 01 to 04 build, on the edges."
import threading

import numpy as np
import pytest
import torch

from gridstride.course.runner import (Barrier, Watch, positions, run_barrier, run_blocks, run_kernel, run_shared,
                                      run_threads)
from gridstride.utils import dim3
from found import saying

ORDERS = [None, 'forward', 'reverse', 'shuffle']


def test_positions_run_x_fastest():
    assert positions(dim3(2,2,2))[:3] == [(0,0,0), (1,0,0), (0,1,0)]
    assert len(positions((3,4))) == 12 and positions(0) == []

def test_run_kernel_takes_an_order():
    seen = []
    run_kernel(lambda i, out: out.append(i), 4, seen)
    run_kernel(lambda i, out: out.append(i), 4, seen, order=[3,1])
    assert seen == [0,1,2,3, 3,1]

def test_run_blocks_covers_all_three_dimensions():
    seen = []
    run_blocks(lambda b,t,d,out: out.append((b,t,d)), dim3(2,1,2), dim3(1,3,2), seen)
    assert len(seen) == len(set(seen)) == 4*6 and {d for _,_,d in seen} == {(1,3,2)}

def test_shared_memory_is_new_and_nan_in_each_block():
    def f(blockIdx, blockDim, shared, fresh):
        fresh.append(bool(np.isnan(shared).all()) and len(shared)==3)
        shared[:] = 1.
    fresh = []
    run_shared(f, 3, 1, 3, fresh)
    assert fresh == [True]*3

def test_run_threads_gives_row_and_column():
    seen = []
    run_threads(lambda tr,tc: seen.append((tr,tc)), dim3(3,2))
    assert seen == [(0,0),(0,1),(0,2),(1,0),(1,1),(1,2)]

def test_watch():
    w = Watch([1,2,3])
    w[1] = w[0]+w[2]
    assert (w.a, w.reads, w.writes, len(w)) == ([1,4,3], [0,2], [1], 3)


@pytest.mark.parametrize('order', ORDERS)
def test_barrier_separates_the_steps(order):
    def f(b, t, d, shared, syncb, log):
        for step in range(3):
            log.append(step)
            syncb.wait()
    log = []
    run_barrier(f, (1,2), (4,2), 0, log, order=order)
    assert log == ([0]*8+[1]*8+[2]*8)*2

@pytest.mark.parametrize('order,want', [('forward',[0,1,2,3]), ('reverse',[3,2,1,0])])
def test_a_chosen_order_is_kept(order, want):
    def f(b, t, d, shared, syncb, log):
        log.append(t.x)
        syncb.wait()
        log.append(t.x)
    log = []
    run_barrier(f, 1, 4, 0, log, order=order)
    assert log == want*2

def test_a_shuffle_follows_its_seed():
    def f(b, t, d, shared, syncb, log):
        for _ in range(4):
            log.append(t.x)
            syncb.wait()
    def run(seed):
        log = []
        run_barrier(f, 1, 6, 0, log, order='shuffle', seed=seed)
        return log
    assert run(1) == run(1) != run(2)

@pytest.mark.parametrize('order', ORDERS)
def test_who_leaves_early_is_named(order):
    def f(b, t, d, shared, syncb):
        if (t.x,t.y) == (1,2): return
        syncb.wait()
    with pytest.raises(RuntimeError,
            match=saying('thread (1,2) of block (0,0)', '11 wait', 'thread (0,0) of block (0,0)')):
        run_barrier(f, 1, (3,4), 0, order=order)
    def g(b, t, d, shared, syncb):
        if t.y < 3: syncb.wait()
    with pytest.raises(RuntimeError, match=saying('thread (0,3) of block (0,0)', '2 more', '9 wait')):
        run_barrier(g, 1, (3,4), 0, order=order)

@pytest.mark.parametrize('order', ORDERS)
@pytest.mark.parametrize('when', [0,1,2])
def test_the_raising_thread_is_named_and_no_thread_hangs(order, when):
    def f(b, t, d, shared, syncb):
        for i in range(3):
            if i==when and t.x==2: raise KeyError('lost')
            syncb.wait()
    before = threading.active_count()
    with pytest.raises(RuntimeError, match=saying('thread (2,0) of block (1,0)', 'KeyError:', "'lost'")) as e:
        run_barrier(lambda b,*a: f(b,*a) if b.x else None, 3, 5, 0, order=order)
    assert isinstance(e.value.__cause__, KeyError) and threading.active_count() == before

@pytest.mark.parametrize('order', ORDERS)
def test_all_threads_may_leave_together(order):
    run_barrier(lambda *a: None, 2, 5, 0, order=order)
    run_barrier(lambda b,t,d,s,syncb: syncb.wait(), 1, 1, 0, order=order)

def test_a_block_has_1_to_1024_threads():
    for run in (lambda t: run_blocks(print, 1, t), lambda t: run_shared(print, 1, t, 0),
                lambda t: run_barrier(print, 1, t, 0)):
        for size in (1025, (64,32), 0):
            with pytest.raises(ValueError, match='1 to 1024'): run(size)

def test_tensors_and_arrays_are_written_in_place():
    def f(b, t, d, shared, syncb, out, also):
        shared[t.x] = t.x
        syncb.wait()
        out[t.x] = also[t.x] = shared[t.x]
    out,also = torch.zeros(3),np.zeros(3)
    run_barrier(f, 1, 3, 3, out, also)
    assert out.tolist() == also.tolist() == [0,1,2]

def test_unknown_order():
    with pytest.raises(ValueError, match="'sideways'"): Barrier('sideways')

def test_shared_is_shared_and_a_wait_is_enough():
    def f(b, t, d, shared, syncb, out):
        shared[t.x] = float(t.x)
        syncb.wait()
        out[t.x] = shared.sum()
    out = torch.full((9,), torch.nan)
    run_barrier(f, 1, 9, 9, out)
    assert out.tolist() == [36.]*9
