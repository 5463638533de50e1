"""Start processes from a notebook as the ranks of a `torch.distributed` group on this machine. If one rank fails, the
error says where all ranks were, and no process is left running."""

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
_GRACE = 2.0  # seconds for other ranks to answer after a failure, to notice a lost connection, and to end
_SETTLE = 0.6  # seconds for other errors to arrive after a failure
# Modules that ranks need, imported once before they are forked; torch imports the last one when it computes gradients.
_LOADED = (
    *(f'{__package__}.{module}' for module in ('processes', 'passes', 'ulysses_and_tree', 'timestamps')),
    'torch.fx.experimental.symbolic_shapes',
)


class RankError(RuntimeError):
    "A rank raised, died or hung: which one, why, and where the other ranks were"

    def __init__(
        self,
        rank,  # the root cause
        why,  # what happened to it
        others,  # {rank: where it was, or what it raised}
    ):
        self.rank, self.why, self.others = rank, why, others
        lines = [f'rank {rank} {why}', *(f'rank {r} {text}' for r, text in sorted(others.items()))]
        super().__init__('\n  '.join(lines) + '\nAll ranks were ended; none is left.')

    def _render_traceback_(self):
        return f'{type(self).__name__}: {self}'.splitlines()


class PeerError(RuntimeError):
    "A rank timed out waiting for another rank"


class _Rank(NamedTuple):
    "The process of a rank, and the parent's end of the pipe to it"

    rank: int
    process: object
    pipe: object


# In a rank
def rank_and_ranks() -> tuple:
    "Return (this rank, the number of ranks). Raises RuntimeError in a process that is not a rank"
    if not dist.is_initialized():
        raise RuntimeError(
            'ring: this process is not a rank, and ranks send each other keys; write a function whose first argument '
            'is the rank, and start it: ring.launch(f, 4)'
        )
    return dist.get_rank(), dist.get_world_size()


_INTERNAL_FOLDERS = os.path.dirname(torch.__file__), os.path.dirname(__file__), contextlib.__file__
_wait_stack = []  # descriptions of what this rank waits for, the innermost last


@contextmanager
def waiting(
    what,  # 'the keys of rank 1'
    patience,  # the timeout, in seconds
):
    "Record what this rank waits for in a `with` block, so that the parent can ask; gloo's errors become `PeerError`"
    _wait_stack.append(what)
    try:
        yield
    except RuntimeError as e:
        why = f'not within {patience:g} s' if 'Timed out' in str(e) else 'a connection is lost'
        raise PeerError(f'timed out waiting for {what}: {why}') from None
    finally:
        _wait_stack.pop()


def _last_line(tb):
    "Return the function and line of the innermost frame in the caller's own code"
    own = [f for f in tb if not f.filename.startswith(_INTERNAL_FOLDERS)]
    f = (own or tb)[-1]
    return f'{f.name}, line {f.lineno}: {f.line}' if f.line else f'{f.name}, line {f.lineno}'


def _describe_gloo_error(message):
    "Describe an error of gloo that is about a connection; None for other errors"
    if 'Timed out waiting' in message:
        return 'timed out waiting for another rank'
    return 'lost its connection to another rank' if 'by peer' in message else None


def _error_text(e):
    "Describe an exception of a rank, and where it was raised"
    message = (str(e).splitlines() or [''])[0]
    what = (
        message
        if isinstance(e, PeerError)
        else _describe_gloo_error(message) or f'raised {type(e).__name__}: {message}'
    )
    return f'{what}\n    in {_last_line(traceback.extract_tb(e.__traceback__))}'


def _location(thread):
    "Return the line that a thread executes, and what it waits for"
    stack = traceback.extract_stack(sys._current_frames()[thread])
    return f'was {f"waiting for {_wait_stack[-1]}, " if _wait_stack else ""}in {_last_line(stack)}'


def _serve_parent(pipe, thread, send):
    "Answer the parent when it asks where this rank is; exit when the parent sends 'end', or has ended"
    with suppress(EOFError, OSError):
        while pipe.recv() == 'where':
            send('where', _location(thread), '')
    os._exit(0)


def _loopback():
    "Return the name of the loopback network interface"
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in ('lo', 'lo0') if name in names), None)


def _join(rank, ranks, port, backend, patience):
    "Join the process group as a rank"
    for name, value in dict(GLOO_SOCKET_IFNAME=_loopback(), TORCH_SYMM_MEM_DISABLE_MULTICAST='1').items():
        if value:
            os.environ.setdefault(name, value)
    store = dist.TCPStore(_HOST, port, is_master=False, timeout=timedelta(seconds=60))
    options = {}
    if backend == 'nccl':
        torch.cuda.set_device(rank)
        nccl = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)  # messages have priority over computation
        options = dict(device_id=torch.device('cuda', rank), pg_options=nccl)
    dist.init_process_group(
        backend, store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=patience), **options
    )


def _rank_main(rank, ranks, port, backend, patience, threads, payload, pipe):
    "Run the process of a rank from start to end"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles an interrupt, and ends all ranks
    lock, printed = threading.Lock(), StringIO()

    def send(*what):
        with lock, suppress(OSError):
            pipe.send(what)

    watch = threading.Thread(target=_serve_parent, args=(pipe, threading.get_ident(), send), daemon=True)
    watch.start()
    try:
        torch.set_num_threads(threads)
        fn, args, kwargs, texts = cloudpickle.loads(payload)
        linecache.cache.update(texts)
        _join(rank, ranks, port, backend, patience)
        with redirect_stdout(printed):
            res = fn(rank, *args, **kwargs)
        send('result', cloudpickle.dumps(res), printed.getvalue())
    except BaseException as e:
        send('error', _error_text(e), printed.getvalue())
    watch.join()  # until the parent sends 'end': a rank that exits early closes connections that others use


# In the parent
class _Pickler(cloudpickle.Pickler):
    "A pickler that keeps the file names of functions, which cloudpickle 3.1.3 drops: errors quote lines of these files"

    def reducer_override(self, obj):
        return (marshal.loads, (marshal.dumps(obj),)) if isinstance(obj, CodeType) else super().reducer_override(obj)


def _pickle(what):
    with BytesIO() as file:
        _Pickler(file).dump(what)
        return file.getvalue()


def _source_of(fn):
    "Return an entry of `linecache` for the file of a function, so that ranks can quote lines of a notebook"
    name = getattr(getattr(fn, '__code__', None), 'co_filename', '')
    lines = linecache.getlines(name)
    return {name: (sum(map(len, lines)), None, lines, name)} if lines else {}


def _context():
    "Return a context that starts processes: forks of a server that has imported torch, or else new interpreters"
    if 'forkserver' not in get_all_start_methods():
        return get_context('spawn')
    context = get_context('forkserver')
    context.set_forkserver_preload(list(_LOADED))
    return context


@contextmanager
def _without_main_program():
    """Hide the main module while a process starts: it would import the program again, and start ranks itself. Ranks get
    what they need of it by pickling"""
    main = sys.modules['__main__']
    sys.modules['__main__'] = ModuleType('__main__')
    try:
        yield
    finally:
        sys.modules['__main__'] = main


def _start(context, rank, *args):
    "Start the process of a rank"
    parent_end, child_end = context.Pipe()
    process = context.Process(target=_rank_main, args=(rank, *args, child_end), daemon=True, name=f'rank {rank}')
    with _without_main_program():
        process.start()
    child_end.close()
    return _Rank(rank, process, parent_end)


def _how_it_ended(process):
    "Describe how a process ended"
    process.join(_GRACE)
    code = process.exitcode
    if code == -signal.SIGABRT:
        return 'died: SIGABRT; gloo aborts if ranks pass tensors of different shapes'
    return f'died: {signal.Signals(-code).name}' if code and code < 0 else f'died: it exited with code {code}'


def _receive(child):
    "Return what a rank has sent, or None if it has sent nothing; a rank whose connection is closed has 'died'"
    try:
        return child.pipe.recv() if child.pipe.poll() else None
    except (EOFError, OSError):
        return 'died', _how_it_ended(child.process), ''


def _print_output(rank, text):
    "Print what a rank printed"
    for line in text.splitlines():
        print(f'rank {rank}: {line}')


def _ask_where(processes, finished, settle):
    "Ask the ranks that have not reported yet where they are; return {rank: that, or the error that it reports instead}"
    reports = {}
    pending = {child.rank: child for child in processes if child.rank not in finished}
    for child in pending.values():
        with suppress(OSError):
            child.pipe.send('where')
    begin = time.monotonic()
    while (
        pending and (remaining := begin + (settle if set(reports) >= set(pending) else _GRACE) - time.monotonic()) > 0
    ):
        for pipe in connection.wait([child.pipe for child in pending.values()], remaining):
            child = next(child for child in pending.values() if child.pipe is pipe)
            what, value, _ = _receive(child)
            reports[child.rank] = 'had finished' if what == 'result' else value
            if what != 'where':
                del pending[child.rank]
    return reports | {r: 'gave no answer' for r in pending if r not in reports}


def _cause_priority(text):
    "Return a number that is lower the more likely an outcome is the root cause, and not an effect of another one"
    order = 'died', 'raised', 'did not finish', 'gave no answer', 'was in', 'was waiting'
    return next((i for i, start in enumerate(order) if text.startswith(start)), len(order))


def _failure(processes, finished, rank, why):
    "Return the `RankError` for a reported failure; its root cause is a rank that died, not one that waited for it"
    timed_out = why.startswith('did not finish')
    others = _ask_where(
        processes, finished if timed_out else {*finished, rank}, _GRACE if why.startswith('died') else _SETTLE
    )
    everyone = {**{r: 'had finished' for r in finished}, **others}
    everyone[rank] = f'{why}: it {everyone[rank]}' if timed_out else why
    root_cause = min(everyone, key=lambda r: (_cause_priority(everyone[r]), r != rank, r))
    return RankError(root_cause, everyone.pop(root_cause), everyone)


def _collect(processes, patience):
    "Return the results of all ranks. Raises RankError as soon as one fails, or if the last ones time out"
    results, end = {}, None
    while pending := [child for child in processes if child.rank not in results]:
        remaining = None if end is None else max(0, end - time.monotonic())
        if not connection.wait([child.pipe for child in pending], remaining):
            raise _failure(
                processes, results, pending[0].rank, f'did not finish within {patience:g} s of the first rank that did'
            )
        for child in pending:
            what, value, text = _receive(child) or (None, None, '')
            _print_output(child.rank, text)
            if what == 'result':
                results[child.rank], end = cloudpickle.loads(value), end or time.monotonic() + patience
            elif what:
                raise _failure(processes, results, child.rank, value)
    return [results[child.rank] for child in processes]


def _end_all(processes):
    "End all processes, by force if necessary"
    for child in processes:
        with suppress(OSError):
            child.pipe.send('end')
    limit = time.monotonic() + _GRACE
    for child in processes:
        child.process.join(max(0, limit - time.monotonic()))
        if child.process.is_alive():
            child.process.kill()
            child.process.join()
        child.process.close()
        child.pipe.close()


def launch(
    fn,  # called as `fn(rank, *args, **kwargs)` in each process; may be defined in a notebook
    ranks: int,  # how many processes; with the backend 'nccl' each has a GPU of its own
    *args,  # for `fn`, like `kwargs`
    backend=None,  # of `torch.distributed`; None: 'nccl' if there is one GPU per rank, else 'gloo'
    patience=10.0,  # seconds that a rank waits for another one, and the caller for the last ones after the first
    threads=1,  # that torch uses in each process
    **kwargs,
) -> list:  # what `fn` returned, rank by rank
    """Run `fn` in `ranks` processes of this machine, which can send each other tensors by `torch.distributed`.

        ring.launch(lambda rank: rank * rank, 4)  # [0, 1, 4, 9]

    What a rank prints is printed here. If a rank raises, dies or hangs, all of them are ended, and `RankError` says
    which rank failed, why, and what the others were waiting for. An interrupt ends them, too."""
    if not callable(fn):
        raise TypeError(f'launch: fn is {fn!r}; expected a function of the rank: launch(fn, ranks)')
    if not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f'launch: ranks is {ranks!r}; expected an integer of at least 1')
    backend = backend or ('nccl' if torch.cuda.device_count() >= ranks else 'gloo')
    if backend == 'nccl' and torch.cuda.device_count() < ranks:
        raise ValueError(f"launch: {ranks} ranks need as many GPUs for 'nccl'; pass backend='gloo', or fewer ranks")
    payload = _pickle((fn, args, kwargs, _source_of(fn)))
    store = dist.TCPStore(_HOST, 0, is_master=True, wait_for_workers=False)
    context, processes = _context(), []
    try:
        for rank in range(ranks):
            processes.append(_start(context, rank, ranks, store.port, backend, patience, threads, payload))
        return _collect(processes, patience)
    finally:
        _end_all(processes)
