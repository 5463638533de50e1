"""Python's threads for the browser, which has none: each is a stack that is suspended while it waits.

`threading` is written in Python on top of a few functions of `_thread`, which start a thread, make a lock and identify
the current thread. Here they use `run_sync`, which suspends a WebAssembly stack (JSPI) until a future has its result.
Only one thread runs at any time, until it waits. The next one is chosen at random, as an operating system might choose,
so that programs that depend on a lucky schedule fail.
"""

import queue, random, threading
from itertools import count

from pyodide.code import run_js
from pyodide.ffi import can_run_sync, create_once_callable, create_proxy, run_sync

MISSING = (
    'Threads need a browser that can suspend stacks of WebAssembly (JSPI): Chrome or Edge from version 137, or '
    'Firefox from 153. Cells that start no thread still work, as do lessons 01 to 03.'
)

# Calls `f` at once, but every 50 ms gives control to the browser first, which then runs its timers.
soon = run_js("""(last => f => {
    const now = performance.now()
    if (now - last < 50) Promise.resolve().then(() => f())
    else setTimeout(() => { last = performance.now(); f() })
})(0)""")
apart = run_js('f => { Promise.resolve().then(() => f.callPromising()).finally(() => f.destroy()) }')  # on a stack
after = run_js('(seconds, f) => { setTimeout(f, 1000*seconds) }')
chance, ready, ends, idents = random.Random(), [], {}, count(2)
current = 1  # the thread of the cells


def go(resume):
    "Add `resume`, which continues or starts a thread, to those that may run next"
    ready.append(resume)
    soon(chosen)


def choose():
    "Run one of those that may run next, chosen at random"
    ready.pop(chance.randrange(len(ready)))()


chosen = create_proxy(choose)


def start(f, args, kwargs={}):
    "Start a thread, as `_thread.start_new_thread` does"
    ident = next(idents)

    def body():
        global current
        current = ident
        try:
            f(*args, **kwargs)
        finally:
            if ident in ends:
                ends.pop(ident).release()

    if not can_run_sync():
        raise RuntimeError(MISSING)
    go(lambda: apart(create_proxy(body)))
    return ident


def ident():
    return current


def end():
    "Return a lock that is released when this thread ends, as `_thread._set_sentinel` does"
    ends[current] = lock = Lock()
    return lock


class Wait:
    """A future for `run_sync` only. Asyncio's own reports its result through the browser's event loop, which takes five
    iterations per wait."""

    _asyncio_future_blocking = False  # marks a future

    def __init__(self):
        self.ended, self.callback = [], None

    def __await__(self):
        yield self
        return self.result()

    def add_done_callback(self, f):
        self.callback = f
        if self.ended:
            f(self)

    def end(self, result):
        "Resume the waiting stack, where `run_sync` returns `result`"
        self.ended.append(result)
        if self.callback:
            self.callback(self)

    def result(self):
        return self.ended[0]


class Lock:
    "A lock, as `_thread.allocate_lock` makes it"

    def __init__(self):
        self.taken, self.waiting = False, []

    def acquire(self, blocking=True, timeout=-1):
        "Acquire this lock, if necessary after another thread releases it; return False if that takes too long"
        if not self.taken:
            self.taken = True
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
        me, wait = current, Wait()

        def late():
            if wait in self.waiting:
                self.waiting.remove(wait)
                wait.end(False)

        self.waiting.append(wait)
        if timeout > 0:
            after(timeout, create_once_callable(late))
        got = run_sync(wait)
        current = me
        return got

    def release(self):
        "Release this lock, or pass it to a waiting thread"
        if not self.taken:
            raise RuntimeError('release unlocked lock')
        if self.waiting:
            go(lambda wait=self.waiting.pop(0): wait.end(True))
        else:
            self.taken = False

    def locked(self):
        return self.taken

    def _at_fork_reinit(self):
        self.__init__()

    def __enter__(self):
        self.acquire()

    def __exit__(self, *_):
        self.release()


def install():
    "Make `threading` use these"
    threading._start_new_thread, threading._set_sentinel, threading.get_ident = start, end, ident
    threading._allocate_lock = threading.Lock = Lock
    threading._CRLock = None  # then its own, which is made of these
    queue.SimpleQueue = queue._PySimpleQueue  # the other one waits in C; pools of threads use it
    threading.main_thread()._ident = current
    threading._active.clear()
    threading._active[current] = threading.main_thread()
