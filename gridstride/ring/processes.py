"""Start processes from a notebook as the ranks of a `torch.distributed` group on this machine. If a rank fails, the
error reports where all ranks were, and all processes are terminated.

Each rank is a process with a pipe to the parent. A thread of the rank answers the parent's query 'where' with the
line that the rank executes, even if the rank hangs. When a rank reports an error, dies or times out, the parent asks
all others, chooses the most likely root cause (`_cause_priority`), and raises it as a `RankError`.
"""

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
_GRACE_SECONDS = 2.0  # seconds in which other ranks must respond after a failure, notice a lost connection, and exit
_SETTLE_SECONDS = 0.6  # seconds in which other errors may arrive after a failure
# Modules that are imported once, before ranks are forked; torch imports the last one when it computes gradients.
_PRELOADED_MODULES = (
    *(f'{__package__}.{module}' for module in ('processes', 'passes', 'ulysses_and_tree', 'timestamps')),
    'torch.fx.experimental.symbolic_shapes',
)


class RankError(RuntimeError):
    "Raised if a rank raises, dies or hangs; contains the rank, the reason, and the locations of the other ranks"

    def __init__(
        self,
        rank,  # the root cause
        reason,  # the failure of this rank
        others,  # {rank: its location or error}
    ):
        self.rank, self.reason, self.others = rank, reason, others
        lines = [f'rank {rank} {reason}', *(f'rank {other} {report}' for other, report in sorted(others.items()))]
        super().__init__('\n  '.join(lines) + '\nAll ranks were ended; none is left.')

    def _render_traceback_(self):
        return f'{type(self).__name__}: {self}'.splitlines()


class PeerError(RuntimeError):
    "Raised if a rank times out waiting for another rank"


class _Rank(NamedTuple):
    "The process of a rank, and the parent's end of the pipe to it"

    rank: int
    process: object
    pipe: object


# The following functions run in a rank, those from `_Pickler` on in the parent.
def rank_and_ranks() -> tuple:
    "Return (this rank, the number of ranks). Raises RuntimeError in a process that is not a rank"
    if not dist.is_initialized():
        raise RuntimeError(
            'ring: this process is not a rank; write a function whose first argument is the rank, and start it: '
            'ring.launch(f, 4)'
        )
    return dist.get_rank(), dist.get_world_size()


_INTERNAL_FOLDERS = os.path.dirname(torch.__file__), os.path.dirname(__file__), contextlib.__file__
_failure_reports = []  # functions that return why a kernel of this rank has ended with an error, or None
_wait_stack = []  # descriptions of what this rank waits for, the innermost last


def add_failure_report(
    report,  # () -> the reason for which a kernel of this rank has ended with an error, or None
):
    "Prepend the reason that `report` returns to errors of this rank"
    _failure_reports.append(report)


@contextmanager
def waiting(
    description,  # for messages, such as 'the keys of rank 1'
    timeout,  # in seconds
):
    "Record what this rank waits for in a `with` block, for queries of the parent; raise gloo's errors as `PeerError`"
    _wait_stack.append(description)
    try:
        yield
    except RuntimeError as e:
        reason = f'not within {timeout:g} s' if 'Timed out' in str(e) else 'a connection is lost'
        raise PeerError(f'timed out waiting for {description}: {reason}') from None
    finally:
        _wait_stack.pop()


def _last_line(frames):
    "Return the function and line of the innermost frame that is not in torch or this package"
    user_frames = [frame for frame in frames if not frame.filename.startswith(_INTERNAL_FOLDERS)]
    frame = (user_frames or frames)[-1]
    location = f'{frame.name}, line {frame.lineno}'
    return f'{location}: {frame.line}' if frame.line else location


def _describe_gloo_error(message):
    "Describe an error of gloo about a connection; return None for other errors"
    if 'Timed out waiting' in message:
        return 'timed out waiting for another rank'
    return 'lost its connection to another rank' if 'by peer' in message else None


def _describe_error(error):
    "Describe an exception of a rank and the line that raised it"
    message = (str(error).splitlines() or [''])[0]
    kernel_reason = next(filter(None, (report() for report in _failure_reports)), None)
    description = (
        kernel_reason or message
        if kernel_reason or isinstance(error, PeerError)
        else _describe_gloo_error(message) or f'raised {type(error).__name__}: {message}'
    )
    return f'{description}\n    in {_last_line(traceback.extract_tb(error.__traceback__))}'


def _location(thread):
    "Describe the line that a thread executes, and what it waits for"
    stack = traceback.extract_stack(sys._current_frames()[thread])
    return f'was {f"waiting for {_wait_stack[-1]}, " if _wait_stack else ""}in {_last_line(stack)}'


def _serve_parent(pipe, thread, send):
    "Answer the parent's 'where' queries; exit when the parent sends 'end' or has exited"
    with suppress(EOFError, OSError):
        while pipe.recv() == 'where':
            send('where', _location(thread), '')
    os._exit(0)


def _loopback_interface():
    "Return the name of the loopback network interface"
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in ('lo', 'lo0') if name in names), None)


def _join_group(rank, ranks, port, backend, timeout):
    "Join the process group as a rank"
    for name, value in dict(GLOO_SOCKET_IFNAME=_loopback_interface(), TORCH_SYMM_MEM_DISABLE_MULTICAST='1').items():
        if value:
            os.environ.setdefault(name, value)
    store = dist.TCPStore(_HOST, port, is_master=False, timeout=timedelta(seconds=60))
    options = {}
    if backend == 'nccl':
        torch.cuda.set_device(rank)
        nccl = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)  # communication precedes computation
        options = dict(device_id=torch.device('cuda', rank), pg_options=nccl)
    dist.init_process_group(
        backend, store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=timeout), **options
    )


def _rank_main(rank, ranks, port, backend, timeout, threads, payload, pipe):
    "Run a rank: the main function of its process"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles an interrupt, and ends all ranks
    lock, output = threading.Lock(), StringIO()

    def send(*message):
        with lock, suppress(OSError):
            pipe.send(message)

    server = threading.Thread(target=_serve_parent, args=(pipe, threading.get_ident(), send), daemon=True)
    server.start()
    try:
        torch.set_num_threads(threads)
        fn, args, kwargs, sources = cloudpickle.loads(payload)
        linecache.cache.update(sources)
        _join_group(rank, ranks, port, backend, timeout)
        with redirect_stdout(output):
            result = fn(rank, *args, **kwargs)
        send('result', cloudpickle.dumps(result), output.getvalue())
    except BaseException as e:
        send('error', _describe_error(e), output.getvalue())
    server.join()  # until the parent sends 'end': a rank that exits early closes connections that others use


class _Pickler(cloudpickle.Pickler):
    "A pickler that keeps the file names of functions, which cloudpickle 3.1.3 drops, for messages that quote source"

    def reducer_override(self, value):
        if isinstance(value, CodeType):
            return marshal.loads, (marshal.dumps(value),)
        return super().reducer_override(value)


def _pickle(value):
    with BytesIO() as file:
        _Pickler(file).dump(value)
        return file.getvalue()


def _source_of(fn):
    "Return the entry of `linecache` for the file of a function, so that ranks can quote lines of a notebook"
    file_name = getattr(getattr(fn, '__code__', None), 'co_filename', '')
    lines = linecache.getlines(file_name)
    return {file_name: (sum(map(len, lines)), None, lines, file_name)} if lines else {}


def _process_context():
    "Return a context that forks processes from a server that has imported torch, or else starts new interpreters"
    if 'forkserver' not in get_all_start_methods():
        return get_context('spawn')
    context = get_context('forkserver')
    context.set_forkserver_preload(list(_PRELOADED_MODULES))
    return context


@contextmanager
def _without_main_program():
    """Hide the main module in a `with` block that starts a process.

    The process would import the program again, which would start ranks itself. Functions and objects of the program
    are pickled instead."""
    main = sys.modules['__main__']
    sys.modules['__main__'] = ModuleType('__main__')
    try:
        yield
    finally:
        sys.modules['__main__'] = main


def _start_rank(context, rank, *args):
    "Start the process of a rank"
    parent_end, child_end = context.Pipe()
    process = context.Process(target=_rank_main, args=(rank, *args, child_end), daemon=True, name=f'rank {rank}')
    with _without_main_program():
        process.start()
    child_end.close()
    return _Rank(rank, process, parent_end)


def _exit_reason(process):
    "Describe why a process has ended"
    process.join(_GRACE_SECONDS)
    code = process.exitcode
    if code == -signal.SIGABRT:
        return 'died: SIGABRT; gloo aborts if ranks pass tensors of different shapes'
    return f'died: {signal.Signals(-code).name}' if code and code < 0 else f'died: it exited with code {code}'


def _receive(child):
    "Return the message of a rank, None if there is none; ('died', reason, '') if its connection is closed"
    try:
        return child.pipe.recv() if child.pipe.poll() else None
    except (EOFError, OSError):
        return 'died', _exit_reason(child.process), ''


def _print_output(rank, text):
    "Print the output of a rank"
    for line in text.splitlines():
        print(f'rank {rank}: {line}')


def _request_locations(processes, finished, settle_seconds):
    "Ask the ranks that have not finished where they are; return {rank: its location, or the error that it reports}"
    reports = {}
    pending_children = {child.rank: child for child in processes if child.rank not in finished}
    for child in pending_children.values():
        with suppress(OSError):
            child.pipe.send('where')
    start = time.monotonic()
    while pending_children:
        deadline = start + (settle_seconds if set(reports) >= set(pending_children) else _GRACE_SECONDS)
        remaining_seconds = deadline - time.monotonic()
        if remaining_seconds <= 0:
            break
        for pipe in connection.wait([child.pipe for child in pending_children.values()], remaining_seconds):
            child = next(child for child in pending_children.values() if child.pipe is pipe)
            kind, value, _ = _receive(child)
            reports[child.rank] = 'had finished' if kind == 'result' else value
            if kind != 'where':
                del pending_children[child.rank]
    return reports | {rank: 'did not respond' for rank in pending_children if rank not in reports}


def _cause_priority(text):
    "Return the priority of a report as the root cause: the lower, the less likely it is an effect of another failure"
    prefixes = 'died', 'raised', 'did not finish', 'did not respond', 'was in', 'was waiting'
    return next((i for i, prefix in enumerate(prefixes) if text.startswith(prefix)), len(prefixes))


def _find_root_cause(processes, finished, rank, reason):
    "Return the `RankError` for a failure of `rank`; the root cause may be another rank, for which `rank` waited"
    has_timed_out = reason.startswith('did not finish')
    others = _request_locations(
        processes,
        finished if has_timed_out else {*finished, rank},
        _GRACE_SECONDS if reason.startswith('died') else _SETTLE_SECONDS,
    )
    reports = {**{other_rank: 'had finished' for other_rank in finished}, **others}
    reports[rank] = f'{reason}: it {reports[rank]}' if has_timed_out else reason
    root_cause = min(
        reports, key=lambda other_rank: (_cause_priority(reports[other_rank]), other_rank != rank, other_rank)
    )
    return RankError(root_cause, reports.pop(root_cause), reports)


def _collect_results(processes, timeout):
    "Return the results of all ranks. Raises RankError as soon as a rank fails, or if the last ranks time out"
    results, deadline = {}, None
    while pending_ranks := [child for child in processes if child.rank not in results]:
        remaining = None if deadline is None else max(0, deadline - time.monotonic())
        if not connection.wait([child.pipe for child in pending_ranks], remaining):
            raise _find_root_cause(
                processes,
                results,
                pending_ranks[0].rank,
                f'did not finish within {timeout:g} s after the first rank had finished',
            )
        for child in pending_ranks:
            kind, value, text = _receive(child) or (None, None, '')
            _print_output(child.rank, text)
            if kind == 'result':
                results[child.rank], deadline = cloudpickle.loads(value), deadline or time.monotonic() + timeout
            elif kind:
                raise _find_root_cause(processes, results, child.rank, value)
    return [results[child.rank] for child in processes]


def _end_processes(processes):
    "Terminate all processes; kill those that do not exit by themselves"
    for child in processes:
        with suppress(OSError):
            child.pipe.send('end')
    deadline = time.monotonic() + _GRACE_SECONDS
    for child in processes:
        child.process.join(max(0, deadline - time.monotonic()))
        if child.process.is_alive():
            child.process.kill()
            child.process.join()
        child.process.close()
        child.pipe.close()


def launch(
    fn,  # called as `fn(rank, *args, **kwargs)` in each process; may be defined in a notebook
    ranks: int,  # the number of processes; with the backend 'nccl', each has its own GPU
    *args,  # for `fn`, like `kwargs`
    backend=None,  # of `torch.distributed`; None: 'nccl' if there is one GPU per rank, else 'gloo'
    timeout=10.0,  # seconds that a rank waits for another, and the caller for the last after the first has finished
    threads=1,  # of torch in each process
    **kwargs,
) -> list:  # the results of `fn`, rank by rank
    """Run `fn` in `ranks` processes on this machine, which can send each other tensors by `torch.distributed`.

        ring.launch(lambda rank: rank * rank, 4)  # [0, 1, 4, 9]

    The output of the ranks is printed here. If a rank raises, dies or hangs, all ranks are ended; `RankError` reports
    the rank that failed, the reason, and what each other rank was waiting for. An interrupt also ends all ranks."""
    if not callable(fn):
        raise TypeError(f'launch: fn is {fn!r}; expected a function of the rank: launch(fn, ranks)')
    if not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f'launch: ranks is {ranks!r}; expected an integer of at least 1')
    backend = backend or ('nccl' if torch.cuda.device_count() >= ranks else 'gloo')
    if backend == 'nccl' and torch.cuda.device_count() < ranks:
        raise ValueError(
            f"launch: backend='nccl' needs {ranks} GPUs, one per rank; pass backend='gloo', or fewer ranks"
        )
    payload = _pickle((fn, args, kwargs, _source_of(fn)))
    store = dist.TCPStore(_HOST, 0, is_master=True, wait_for_workers=False)
    context, processes = _process_context(), []
    try:
        for rank in range(ranks):
            processes.append(_start_rank(context, rank, ranks, store.port, backend, timeout, threads, payload))
        return _collect_results(processes, timeout)
    finally:
        _end_processes(processes)
