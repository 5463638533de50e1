"""Python's threads in the browser, where there are none: each is a stack that is laid aside while it waits.

`threading` is written in Python over a few functions of `_thread`: those to start a thread, to make a lock and to tell
which thread this is. They are made here of `run_sync`, which suspends a stack of WebAssembly (JSPI) until a future has
its result. Only one thread runs at any time, up to where it waits; who goes on then is left to chance, as it is to a
system, so that a schedule that was only lucky shows.
"""

import random, threading
from itertools import count

from pyodide.code import run_js
from pyodide.ffi import can_run_sync, create_once_callable, create_proxy, run_sync

MISSING = (
    'Threads need a browser that can suspend stacks of WebAssembly (JSPI): Chrome or Edge from version 137, or '
    'Firefox from 153. The cells that start no thread work here, too, as do lessons 01 to 03.'
)

# At once, but for one call in 50 ms, before which the browser has its turn: what is to come after a time comes then.
soon = run_js("""(last => f => {
    const now = performance.now()
    if (now - last < 50) Promise.resolve().then(() => f())
    else setTimeout(() => { last = performance.now(); f() })
})(0)""")
apart = run_js('f => { Promise.resolve().then(() => f.callPromising()).finally(() => f.destroy()) }')  # on a stack
after = run_js('(seconds, f) => { setTimeout(f, 1000*seconds) }')
chance, ready, ends, idents = random.Random(), [], {}, count(2)
current = 1  # the thread of the cells


def go(turn):
    "Let the thread or the start `turn` go on, when the chance falls on it"
    ready.append(turn)
    soon(chosen)


def choose():
    "Call one of those that can go on"
    ready.pop(chance.randrange(len(ready)))()


chosen = create_proxy(choose)


def start(f, args, kwargs={}):
    "`_thread.start_new_thread`"
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
    "`_thread._set_sentinel`: a lock that is released when this thread ends"
    ends[current] = lock = Lock()
    return lock


class Turn:
    """A future for `run_sync` alone. Asyncio's own tells of its result by way of the browser's event loop, which goes
    around five times for each wait."""

    _asyncio_future_blocking = False  # by this a future is known

    def __init__(self):
        self.ended, self.tell = [], None

    def __await__(self):
        yield self
        return self.result()

    def add_done_callback(self, f):
        self.tell = f
        if self.ended:
            f(self)

    def end(self, result):
        "Let the stack that waits go on, where `run_sync` returns `result`"
        self.ended.append(result)
        if self.tell:
            self.tell(self)

    def result(self):
        return self.ended[0]


class Lock:
    "`_thread.allocate_lock`"

    def __init__(self):
        self.taken, self.waiting = False, []

    def acquire(self, blocking=True, timeout=-1):
        "Take this lock, if need be when another thread releases it; False when that came too late"
        if not self.taken:
            self.taken = True
        elif not blocking or timeout == 0:
            return False
        else:
            return self.wait(timeout)
        return True

    def wait(self, timeout):
        "Lay this stack aside until the lock is handed over, or for `timeout` seconds"
        global current
        if not can_run_sync():
            raise RuntimeError(MISSING)
        me, turn = current, Turn()

        def late():
            if turn in self.waiting:
                self.waiting.remove(turn)
                turn.end(False)

        self.waiting.append(turn)
        if timeout > 0:
            after(timeout, create_once_callable(late))
        got = run_sync(turn)
        current = me
        return got

    def release(self):
        "Hand this lock over, or leave it open"
        if not self.taken:
            raise RuntimeError('release unlocked lock')
        if self.waiting:
            go(lambda turn=self.waiting.pop(0): turn.end(True))
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
    threading.main_thread()._ident = current
    threading._active.clear()
    threading._active[current] = threading.main_thread()
