"""Python's threads for the browser, which has none: each is a stack that is suspended while it waits.

`threading` is written in Python on top of a few functions of `_thread`, which start a thread, make a lock and identify
the current thread. Here they use `run_sync`, which suspends a WebAssembly stack (JSPI) until a future has its result.
Only one thread runs at any time, until it waits. The next one is chosen at random, because an operating system may
choose any: programs that depend on a lucky schedule fail.
"""

import queue, random, threading
from itertools import count

from pyodide.code import run_js
from pyodide.ffi import can_run_sync, create_once_callable, create_proxy, run_sync

MISSING = (
    'Threads need a browser that can suspend stacks of WebAssembly (JSPI): Chrome or Edge from version 137, or '
    'Firefox from 153. Cells that start no thread still work, as do lessons 01 to 03.'
)

# Calls `f` in a microtask, but every 50 ms in a timer, so that the browser runs its other timers, too.
call_soon = run_js("""(last => f => {
    const now = performance.now()
    if (now - last < 50) Promise.resolve().then(() => f())
    else setTimeout(() => { last = performance.now(); f() })
})(0)""")
call_on_new_stack = run_js('f => { Promise.resolve().then(() => f.callPromising()).finally(() => f.destroy()) }')
call_later = run_js('(seconds, f) => { setTimeout(f, 1000*seconds) }')
rng, ready, end_locks, idents = random.Random(), [], {}, count(2)
current = 1  # the identifier of the thread that runs: at first that of the cells


def make_ready(resume):
    "Add `resume`, which resumes or starts a thread, to `ready`"
    ready.append(resume)
    call_soon(run_next_proxy)


def run_next():
    "Resume or start a thread of `ready`, chosen at random"
    ready.pop(rng.randrange(len(ready)))()


run_next_proxy = create_proxy(run_next)


def start_thread(f, args, kwargs={}):
    "Start a thread, as `_thread.start_new_thread` does"
    ident = next(idents)

    def body():
        global current
        current = ident
        try:
            f(*args, **kwargs)
        finally:
            if ident in end_locks:
                end_locks.pop(ident).release()

    if not can_run_sync():
        raise RuntimeError(MISSING)
    make_ready(lambda: call_on_new_stack(create_proxy(body)))
    return ident


def get_ident():
    "Return the identifier of the current thread, as `_thread.get_ident` does"
    return current


def make_end_lock():
    "Return a lock that is released when the current thread ends, as `_thread._set_sentinel` does"
    end_locks[current] = lock = Lock()
    return lock


class Future:
    """A future for `run_sync` only. Asyncio's own reports its result through the browser's event loop, which takes five
    iterations per wait."""

    _asyncio_future_blocking = False  # marks a future

    def __init__(self):
        self.results, self.callback = [], None  # `results` has one item once the future is done

    def __await__(self):
        yield self
        return self.result()

    def add_done_callback(self, f):
        self.callback = f
        if self.results:
            f(self)

    def set_result(self, result):
        "Resume the waiting stack, where `run_sync` returns `result`"
        self.results.append(result)
        if self.callback:
            self.callback(self)

    def result(self):
        return self.results[0]


class Lock:
    "A lock, as `_thread.allocate_lock` makes it"

    def __init__(self):
        self.is_locked, self.waiting = False, []

    def acquire(self, blocking=True, timeout=-1):
        "Acquire this lock, if necessary after another thread releases it; return False if that takes too long"
        if not self.is_locked:
            self.is_locked = True
        elif not blocking or timeout == 0:
            return False
        else:
            return self.wait(timeout)
        return True

    def wait(self, timeout):
        "Suspend this stack until the lock is handed over, or for `timeout` seconds"
        global current
        if not can_run_sync():
            raise RuntimeError(MISSING)
        ident, future = current, Future()

        def time_out():
            if future in self.waiting:
                self.waiting.remove(future)
                future.set_result(False)

        self.waiting.append(future)
        if timeout > 0:
            call_later(timeout, create_once_callable(time_out))
        is_acquired = run_sync(future)
        current = ident
        return is_acquired

    def release(self):
        "Release this lock, or pass it to a waiting thread"
        if not self.is_locked:
            raise RuntimeError('release unlocked lock')
        if self.waiting:
            make_ready(lambda future=self.waiting.pop(0): future.set_result(True))
        else:
            self.is_locked = False

    def locked(self):
        return self.is_locked

    def _at_fork_reinit(self):
        self.__init__()

    def __enter__(self):
        self.acquire()

    def __exit__(self, *_):
        self.release()


def install():
    "Make `threading` use these functions and `Lock`"
    threading._start_new_thread, threading._set_sentinel, threading.get_ident = start_thread, make_end_lock, get_ident
    threading._allocate_lock = threading.Lock = Lock
    threading._CRLock = None  # so that it uses its own, which is based on `Lock`
    queue.SimpleQueue = queue._PySimpleQueue  # the default waits in C; thread pools use it
    threading.main_thread()._ident = current
    threading._active.clear()
    threading._active[current] = threading.main_thread()
