"""Real processes, started from a notebook: ranks of a `torch.distributed` group on this machine. If one of
them fails, the failure is reported to the others, and no process is left running."""

import contextlib
import linecache
import marshal
import os
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import contextmanager, redirect_stdout, suppress
from datetime import timedelta
from io import BytesIO, StringIO
from multiprocessing import connection, get_all_start_methods, get_context
from types import CodeType, ModuleType
from typing import NamedTuple

import cloudpickle
import torch
import torch.distributed as dist

_HOST = '127.0.0.1'
_GRACE = 2.0  # seconds in which the other ranks answer after a failure or meet a lost connection, and in which they end
_SETTLE = 0.6  # seconds in which their own errors arrive otherwise
# What ranks need, loaded before they are forked; the last one torch itself loads in each that is given gradients.
_LOADED = (
    *(f'{__package__}.{o}' for o in ('processes', 'passes', 'others', 'stamps')),
    'torch.fx.experimental.symbolic_shapes',
)


class RankError(RuntimeError):
    "A rank raised, died or hangs: which one, why, and where the others were then"

    def __init__(
        self,
        rank,  # whose fault it was
        why,  # what became of it
        others,  # {rank: where it was, or what it raised}
    ):
        self.rank, self.why, self.others = rank, why, others
        lines = [f'rank {rank} {why}', *(f'rank {r} {o}' for r, o in sorted(others.items()))]
        super().__init__('\n  '.join(lines) + '\nAll ranks were ended; none is left.')

    def _render_traceback_(self):
        return f'{type(self).__name__}: {self}'.splitlines()


class PeerError(RuntimeError):
    "A rank timed out waiting for another one"


class _Rank(NamedTuple):
    "A process, and the parent's end of the pipe to it"

    rank: int
    process: object
    pipe: object


# In a rank
def rank_and_ranks() -> tuple:
    "This rank, and how many there are; `RuntimeError` in a process that is not a rank"
    if not dist.is_initialized():
        raise RuntimeError(
            'ring: this process is not a rank, and ranks send each other keys; write a function whose first argument '
            'is the rank, and start it: ring.launch(f, 4)'
        )
    return dist.get_rank(), dist.get_world_size()


_NOT_OWN = os.path.dirname(torch.__file__), os.path.dirname(__file__), contextlib.__file__
_waits = []  # what this rank waits for, in words


@contextmanager
def waiting(
    what,  # 'the keys of rank 1'
    patience,  # in seconds
):
    "For what a rank waits for in the block below: the parent may ask, and gloo's errors become `PeerError`"
    _waits.append(what)
    try:
        yield
    except RuntimeError as e:
        why = f'not within {patience:g} s' if 'Timed out' in str(e) else 'a connection is lost'
        raise PeerError(f'timed out waiting for {what}: {why}') from None
    finally:
        _waits.pop()


def _last_line(tb):
    "The last line of the caller's own code in a traceback or stack, in words"
    own = [f for f in tb if not f.filename.startswith(_NOT_OWN)]
    f = (own or tb)[-1]
    return f'{f.name}, line {f.lineno}: {f.line}' if f.line else f'{f.name}, line {f.lineno}'


def _of_a_peer(said):
    "Translate what gloo reports of a connection; None if it is about something else"
    if 'Timed out waiting' in said:
        return 'timed out waiting for another rank'
    return 'lost its connection to another rank' if 'by peer' in said else None


def _error_text(e):
    "An exception of a rank in words, and where it came from"
    said = (str(e).splitlines() or [''])[0]
    what = said if isinstance(e, PeerError) else _of_a_peer(said) or f'raised {type(e).__name__}: {said}'
    return f'{what}\n    in {_last_line(traceback.extract_tb(e.__traceback__))}'


def _location(thread):
    "The line that a thread is at"
    stack = traceback.extract_stack(sys._current_frames()[thread])
    return f'was {f"waiting for {_waits[-1]}, " if _waits else ""}in {_last_line(stack)}'


def _answer(pipe, thread, send):
    "Answers the parent, which asks where this rank is; ends the process on its order or after its end"
    with suppress(EOFError, OSError):
        while pipe.recv() == 'where':
            send('where', _location(thread), '')
    os._exit(0)


def _loopback():
    "The name of the network interface of this machine to itself"
    names = [name for _, name in socket.if_nameindex()]
    return next((o for o in ('lo', 'lo0') if o in names), None)


def _join(rank, ranks, port, backend, patience):
    "Become a rank of the group"
    for name, value in dict(GLOO_SOCKET_IFNAME=_loopback(), TORCH_SYMM_MEM_DISABLE_MULTICAST='1').items():
        if value:
            os.environ.setdefault(name, value)
    store = dist.TCPStore(_HOST, port, is_master=False, timeout=timedelta(seconds=60))
    how = {}
    if backend == 'nccl':
        torch.cuda.set_device(rank)
        options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)  # messages go before what computes
        how = dict(device_id=torch.device('cuda', rank), pg_options=options)
    dist.init_process_group(
        backend, store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=patience), **how
    )


def _rank_main(rank, ranks, port, backend, patience, threads, payload, pipe):
    "Run a process from its start to its end"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's, which then ends all ranks
    lock, said = threading.Lock(), StringIO()

    def send(*what):
        with lock, suppress(OSError):
            pipe.send(what)

    watch = threading.Thread(target=_answer, args=(pipe, threading.get_ident(), send), daemon=True)
    watch.start()
    try:
        torch.set_num_threads(threads)
        fn, args, kwargs, texts = cloudpickle.loads(payload)
        linecache.cache.update(texts)
        _join(rank, ranks, port, backend, patience)
        with redirect_stdout(said):
            res = fn(rank, *args, **kwargs)
        send('result', cloudpickle.dumps(res), said.getvalue())
    except BaseException as e:
        send('error', _error_text(e), said.getvalue())
    watch.join()  # until the parent lets go: a rank that leaves early closes the others' connections


# In the parent
class _Pickler(cloudpickle.Pickler):
    "Keeps the names of functions' files, of which cloudpickle 3.1.3 keeps none: errors quote lines of these files"

    def reducer_override(self, obj):
        return (marshal.loads, (marshal.dumps(obj),)) if isinstance(obj, CodeType) else super().reducer_override(obj)


def _pickled(what):
    with BytesIO() as file:
        _Pickler(file).dump(what)
        return file.getvalue()


def _source_of(fn):
    "The source of the function's file, so that ranks can quote the lines of a notebook"
    name = getattr(getattr(fn, '__code__', None), 'co_filename', '')
    lines = linecache.getlines(name)
    return {name: (sum(map(len, lines)), None, lines, name)} if lines else {}


def _context():
    "What starts processes: by forks of one that has imported torch, where that can be had"
    if 'forkserver' not in get_all_start_methods():
        return get_context('spawn')
    context = get_context('forkserver')
    context.set_forkserver_preload(list(_LOADED))
    return context


@contextmanager
def _no_program():
    """Where a process that starts would import the program again, and so start ranks of its own: what ranks need of it
    they are sent"""
    main = sys.modules['__main__']
    sys.modules['__main__'] = ModuleType('__main__')
    try:
        yield
    finally:
        sys.modules['__main__'] = main


def _start(context, rank, *args):
    "Start the process of a rank"
    ours, theirs = context.Pipe()
    process = context.Process(target=_rank_main, args=(rank, *args, theirs), daemon=True, name=f'rank {rank}')
    with _no_program():
        process.start()
    theirs.close()
    return _Rank(rank, process, ours)


def _how_it_ended(process):
    "An exit in words"
    process.join(_GRACE)
    code = process.exitcode
    if code == -signal.SIGABRT:
        return 'died: SIGABRT; gloo does so where ranks call with tensors of different shapes'
    return f'died: {signal.Signals(-code).name}' if code and code < 0 else f'died: it left with exit code {code}'


def _receive(o):
    "Receive what a rank has sent, or None if it is silent; a rank whose connection is closed has 'died'"
    try:
        return o.pipe.recv() if o.pipe.poll() else None
    except (EOFError, OSError):
        return 'died', _how_it_ended(o.process), ''


def _print_output(rank, text):
    "Print what a rank printed"
    for line in text.splitlines():
        print(f'rank {rank}: {line}')


def _ask_all(crew, done, settle):
    "Where the ranks are that have not reported anything yet; or what they raise or become in the meantime"
    said, pending = {}, {o.rank: o for o in crew if o.rank not in done}
    for o in pending.values():
        with suppress(OSError):
            o.pipe.send('where')
    begin = time.monotonic()
    while pending and (left := begin + (settle if set(said) >= set(pending) else _GRACE) - time.monotonic()) > 0:
        for pipe in connection.wait([o.pipe for o in pending.values()], left):
            o = next(o for o in pending.values() if o.pipe is pipe)
            what, value, _ = _receive(o)
            said[o.rank] = 'had finished' if what == 'result' else value
            if what != 'where':
                del pending[o.rank]
    return said | {r: 'gave no answer' for r in pending if r not in said}


def _cause_rank(text):
    "How likely an outcome is the root cause: the lower, the more likely it is the cause, and not an effect"
    order = 'died', 'raised', 'did not finish', 'gave no answer', 'was in', 'was waiting'
    return next((i for i, o in enumerate(order) if text.startswith(o)), len(order))


def _failure(crew, done, rank, why):
    "The `RankError` for the first reported failure: its root cause is a rank that died, not one that waited for it"
    late = why.startswith('did not finish')
    others = _ask_all(crew, done if late else {*done, rank}, _GRACE if why.startswith('died') else _SETTLE)
    everyone = {**{r: 'had finished' for r in done}, **others}
    everyone[rank] = f'{why}: it {everyone[rank]}' if late else why
    root_cause = min(everyone, key=lambda r: (_cause_rank(everyone[r]), r != rank, r))
    return RankError(root_cause, everyone.pop(root_cause), everyone)


def _collect(crew, patience):
    "The results of all ranks; `RankError` as soon as one fails, or if the last ones do not come"
    done, end = {}, None
    while pending := [o for o in crew if o.rank not in done]:
        left = None if end is None else max(0, end - time.monotonic())
        if not connection.wait([o.pipe for o in pending], left):
            raise _failure(crew, done, pending[0].rank, f'did not finish within {patience:g} s of the first that did')
        for o in pending:
            what, value, text = _receive(o) or (None, None, '')
            _print_output(o.rank, text)
            if what == 'result':
                done[o.rank], end = cloudpickle.loads(value), end or time.monotonic() + patience
            elif what:
                raise _failure(crew, done, o.rank, value)
    return [done[o.rank] for o in crew]


def _end(crew):
    "No process is left after this"
    for o in crew:
        with suppress(OSError):
            o.pipe.send('end')
    limit = time.monotonic() + _GRACE
    for o in crew:
        o.process.join(max(0, limit - time.monotonic()))
        if o.process.is_alive():
            o.process.kill()
            o.process.join()
        o.process.close()
        o.pipe.close()


def launch(
    fn,  # called as `fn(rank, *args, **kwargs)` in each process; may be defined in a notebook
    ranks: int,  # how many processes; with the backend 'nccl' each has a GPU of its own
    *args,  # of `fn`, like `kwargs`
    backend=None,  # of `torch.distributed`; None: 'nccl' if there is one GPU per rank, else 'gloo'
    patience=10.0,  # seconds that a rank waits for another one, and the caller for the last ones after the first
    threads=1,  # of torch in each process
    **kwargs,
) -> list:  # what `fn` returned, rank by rank
    """Run `fn` in `ranks` processes of this machine that can send each other tensors by `torch.distributed`.

    What a rank prints is printed here. If one raises, dies or hangs, all are ended, and `RankError` says who, why,
    and what the others were waiting for. An interrupt ends them, too."""
    if not callable(fn):
        raise TypeError(f'launch: fn is {fn!r}, and it needs to be a function of the rank: launch(fn, ranks)')
    if not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f'launch: ranks is {ranks!r}, and it must be an integer from 1 on')
    backend = backend or ('nccl' if torch.cuda.device_count() >= ranks else 'gloo')
    if backend == 'nccl' and torch.cuda.device_count() < ranks:
        raise ValueError(f"launch: {ranks} ranks need as many GPUs for 'nccl'; give backend='gloo', or fewer ranks")
    payload = _pickled((fn, args, kwargs, _source_of(fn)))
    store = dist.TCPStore(_HOST, 0, is_master=True, wait_for_workers=False)
    context, crew = _context(), []
    try:
        for rank in range(ranks):
            crew.append(_start(context, rank, ranks, store.port, backend, patience, threads, payload))
        return _collect(crew, patience)
    finally:
        _end(crew)
