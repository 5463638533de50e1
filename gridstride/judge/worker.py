"""What runs around a submission, in its process: gets inputs, calls, gives the answer's bytes, and tells what it saw.

A submission shares this interpreter, so nothing here is trusted. What counts is decided by the judge from bytes: the
clock stops there when the answer's last one has come. What is noticed here (a patched function, a thread that is
still running, a look into frames) only gives a refusal its reason."""

import ctypes
import functools
import gc
import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import types
import typing
from collections.abc import Mapping
from contextlib import contextmanager, nullcontext, suppress

import torch

from . import wire

_FILE = 'submission.py'
_SETTLE = 0.3  # seconds in which what is still being computed may end, when the judge asks why an answer is wrong
_PAUSE = 4_000_000  # cycles, some 2 ms, in which a GPU waits until all of a call is queued
_PERTURB, _NAN_BYTES = -6, 0x100  # glibc's M_PERTURB: memory is handed out full of the byte 0xff, so its floats are NaN


# What is told at once, through a pipe that is never read here, cannot be taken back.
class _Teller:
    "Tells the judge what the submission does, as it does it"

    def __init__(self, fd):
        self.fd, self.told = fd, set()

    def __call__(self, what, text):
        if (what, text) not in self.told:
            self.told.add((what, text))
            os.write(self.fd, (json.dumps([what, text[:300]]) + '\n').encode())


_SPYING = {
    'gc.get_objects': 'looks through all objects of the process (gc.get_objects)',
    'gc.get_referrers': 'looks for who holds an object (gc.get_referrers)',
    'gc.get_referents': 'looks for what an object holds (gc.get_referents)',
    'sys._getframe': "looks into its callers' frames",
    'sys._current_frames': 'looks into the frames of all threads',
    'sys.settrace': 'traces what its callers do',
    'sys.setprofile': 'traces what its callers do',
}
_TORCH = os.path.dirname(torch.__file__)


def _libraries():
    "How the files begin whose code is no submission's: Python, torch, what was on the path, what torch.compile writes"
    room = tempfile.gettempdir()  # submissions lie there, too
    on_path = (
        os.path.join(o, '')
        for o in sys.path
        if os.path.isabs(o) and not (room + os.sep).startswith(os.path.join(o, ''))
    )
    written = os.environ.get('TORCHINDUCTOR_CACHE_DIR') or os.path.join(room, 'torchinductor_')
    beside = os.path.dirname(os.__file__), os.path.dirname(_TORCH), os.path.dirname(os.path.dirname(__file__))
    return *beside, *on_path, written, '<frozen'


_LIBRARIES = _libraries()


def _asked_by_submission():
    "Whether the nearest caller is the submission, `inspect` in between or not"
    f = sys._getframe(2)
    while f and (f.f_code.co_filename.endswith(('inspect.py', '/gc.py')) or f.f_globals is globals()):
        f = f.f_back
    return bool(f) and not f.f_code.co_filename.startswith(_LIBRARIES)


def _own_threads(before):
    "Where new threads are at work in the submission, as text; libraries keep some of their own"
    new = (f for ident, f in sys._current_frames().items() if ident not in before)
    own = ([o for o in _stack(f) if not o.f_code.co_filename.startswith(_LIBRARIES)] for f in new)
    return '; '.join(f'{os.path.basename(o[0].f_code.co_filename)}, line {o[0].f_lineno}' for o in own if o)


def _stack(frame):
    "A frame and all that called it"
    while frame:
        yield frame
        frame = frame.f_back


def _watch(tell):
    "From now on the judge is told when the submission looks for what is not its own"
    busy = []

    def hook(event, args):
        if busy or event != 'import' and event not in _SPYING:
            return
        busy.append(event)
        try:
            if event == 'import':
                _imported(args[0], tell)
            elif _asked_by_submission():
                tell('spied', f'it {_SPYING[event]}')
        finally:
            busy.clear()

    sys.addaudithook(hook)


def _imported(name, tell):
    "The judge and its references are not for submissions"
    if name == 'reference' or name.startswith('gridstride.judge.'):
        tell('reference', f'it imports {name}, where the reference is')
        raise ImportError(f'{name} is not there for a submission')


# Functions that a clock or a comparison in this process would need. The judge needs none of them, but whoever replaces
# one wants to deceive somebody.
def _watched():
    "{name: namespace} that a submission has no business to change"
    res = {'time': time, 'torch': torch, 'torch.Tensor': torch.Tensor, 'torch.cuda': torch.cuda, 'json': json, 'os': os}
    res |= {'torch.cuda.Event': torch.cuda.Event, 'torch.testing': torch.testing, 'builtins': __builtins__}
    return res | {'the judge': vars(_Worker), "the judge's messages": wire, 'gc': gc, 'signal': signal}


def _names(o):
    return o if isinstance(o, Mapping) else vars(o)


def _callables(o):
    return {k: v for k, v in dict(_names(o)).items() if callable(v)}


def _is_wrapped(new, old):
    "Is this torch's own wrapper around a function of its own, as `torch.compile` puts one around `torch.manual_seed`?"
    code = getattr(new, '__code__', None)
    return getattr(new, '__wrapped__', None) is old and code and code.co_filename.startswith(_TORCH)


class _Guard:
    "Remembers functions, and says which were replaced"

    def __init__(self):
        self.were = {name: (o, _callables(o)) for name, o in _watched().items()}

    def changed(self):
        "The names that are not what they were"
        res = []
        for name, (o, were) in self.were.items():
            now = _names(o)
            res += [f'{name}.{k}' for k, v in were.items() if now.get(k) is not v and not _is_wrapped(now.get(k), v)]
        return res


# Streams where there is no GPU: work is done at once, so all that can be seen is whether anything waited for it.
class _Stream:
    "A stream on the CPU: remembers whether somebody waited for what was done in it"

    current, pending = [], set()

    def __init__(self, *args, **kwargs):
        self.cuda_stream = id(self)

    def __enter__(self):
        self.current.append(self)
        self.pending.add(self)
        return self

    def __exit__(self, *error):
        self.current.remove(self)

    def wait_stream(self, other):
        "What comes next on this stream waits for the other one"
        self.pending.discard(other)

    def synchronize(self):
        "Wait for what was done in it"
        self.pending.discard(self)

    def record_event(self, event=None):
        "An event that others may wait for"
        event = event or torch.cuda.Event()
        event.record(self)
        return event

    def wait_event(self, event):
        "Wait for what was done before an event"
        self.pending.discard(getattr(event, 'stream', None))

    def query(self):
        "All is done"
        return True


class _Event:
    "torch.cuda.Event on the CPU, which knows its stream"

    def __init__(self, *args, **kwargs):
        self.stream = self.time = None

    def record(self, stream=None):
        "Now, on this stream"
        self.stream, self.time = stream or _current_stream(), time.perf_counter()

    def wait(self, stream=None):
        "Whoever waits for it waits for its stream"
        _Stream.pending.discard(self.stream)

    synchronize = wait

    def query(self):
        "All is done"
        return True

    def elapsed_time(self, end):
        "Milliseconds"
        return (end.time - self.time) * 1e3


_MAIN = _Stream()


def _current_stream(device=None):
    return _Stream.current[-1] if _Stream.current else _MAIN


# Where submissions run without a GPU: by the emulator, the simulator, and Triton's kernels checked
def _count(owner, name, counts):
    "From now on calls of a method are counted, if they come to their end; while `_IDLE` says so they do nothing"
    original = getattr(owner, name)

    @functools.wraps(original)
    def counted(self, *args, **kwargs):
        res = None if _IDLE else original(self, *args, **kwargs)
        counts[self.__name__] = counts.get(self.__name__, 0) + 1
        return res

    setattr(owner, name, counted)


def _triton_here():
    "`import triton` makes kernels that are checked on the CPU"
    standin = importlib.import_module('gridstride.tile.standin')
    stand = standin.module()
    real = sys.modules.get('triton')
    if real is None:
        sys.modules['triton'], sys.modules['triton.language'] = stand, stand.language
        return
    checked, compile_ = importlib.import_module('gridstride.tile.kernel').checked, real.jit

    def jit(fn=None, **options):
        return functools.partial(jit, **options) if fn is None else checked(compile_(fn, **options))

    real.jit, real.autotune, real.heuristics = jit, standin.autotune, standin.heuristics
    stand.jit = jit


def _uncompiled(f=None, **options):
    "torch.compile for the emulated GPU, for which it has no code to make: the function itself"
    return f or functools.partial(_uncompiled, **options)


_COUNTS = {}  # kernel -> launches that came to their end
_IDLE = []  # not empty: launches do nothing


def emulate():
    "This process finds a GPU: the emulator, the simulator, checked Triton; launches are counted"
    importlib.import_module('gridstride.as_gpu').enable()
    _triton_here()
    torch.cuda.Stream, torch.cuda.Event, torch.cuda.current_stream = _Stream, _Event, _current_stream
    torch.cuda.stream, torch.cuda.default_stream = lambda s: s, lambda device=None: _MAIN
    torch.cuda.synchronize = lambda device=None: _Stream.pending.clear()
    torch.compile = _uncompiled
    for module, owner, method in (
        ('gridstride.tile.kernel', 'Checked', 'run'),
        ('gridstride.sim.cuda', 'Kernel', '_launch'),
        ('gridstride.cpp.values', 'Function', 'run'),
    ):
        _count(getattr(importlib.import_module(module), owner), method, _COUNTS)


def _types():
    "The module `task` that submissions take their annotations from"
    module = types.ModuleType('task', 'Types of the data and the answer')
    module.input_t = module.output_t = typing.Any
    sys.modules['task'] = module


# The machine below a call
class _Cpu:
    "Calls on the CPU"

    blob = bytearray  # blob(n): where n bytes of a message are put

    def __init__(self):
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_PERTURB, _NAN_BYTES)

    def room(self, x):
        "Memory for an input"
        return torch.empty_like(x)

    def fill(self, room, x):
        "Put an input there"
        room.copy_(x)

    def call(self, f, data):
        "Call it, with nothing counted yet"
        _COUNTS.clear()
        _Stream.pending.clear()
        return f(data)

    def take(self, items):
        "The answer as it is when the call returns, and what was counted"
        return items, dict(launches=dict(_COUNTS), streams=len(_Stream.pending))

    def here(self, x):
        "A tensor in the CPU's memory"
        return x.cpu()

    def settle(self):
        "Until all is done"
        time.sleep(_SETTLE)


# What launches kernels on a GPU, where Python does: kernels behind a compiled module are launched there, unseen
_LAUNCHERS = (
    ('triton.runtime.jit', 'JITFunction', 'run'),
    ('numba.cuda.dispatcher', 'CUDADispatcher', 'call'),
    ('gridstride.cpp.kernel', 'Kernel', 'launch'),
)


@contextmanager
def _launching_nothing(skipped):
    "Within, launches do nothing, and are counted"
    owners = [(getattr(sys.modules.get(module), owner, None), method) for module, owner, method in _LAUNCHERS]
    were = [(o, method, getattr(o, method)) for o, method in owners if hasattr(o, method)]
    for o, method, _ in were:
        setattr(o, method, lambda self, *args, **kwargs: skipped.append(self))
    try:
        yield
    finally:
        for o, method, launch in were:
            setattr(o, method, launch)


# The stream that is timed sleeps at first, until all is queued: then inputs are put into their places, the L2 is
# overwritten, and between two events comes what the submission does. A copy of the answer is queued behind the second
# one. Work on another stream that does not wait for this one finds the inputs of the call before; work that this one
# does not wait for is not in the copy.
class _Gpu:
    "Calls on a GPU, between events that were made, by functions that were looked up, before the submission came"

    def __init__(self):
        cuda = torch.cuda
        self.synchronize, self.sleep, self.clock = cuda.synchronize, cuda._sleep, time.perf_counter
        self.record, self.wait, self.elapsed = cuda.Event.record, cuda.Event.synchronize, cuda.Event.elapsed_time
        self.copy, self.zero, self.clone = torch.Tensor.copy_, torch.Tensor.zero_, torch.Tensor.clone
        self.empty = torch.empty
        self.start, self.stop, self.copied = (cuda.Event(enable_timing=True) for _ in range(3))
        size = max(2**28, 2 * cuda.get_device_properties().L2_cache_size)
        self.flush, self.waiting, self.skipped = torch.empty(size, dtype=torch.uint8, device='cuda'), [], []

    def blob(self, n):
        "Where n bytes of a message are put: memory that torch keeps, and that the GPU reads and writes by itself"
        return self.empty(n, dtype=torch.uint8, pin_memory=True).numpy()

    def here(self, x):
        "A tensor in the CPU's memory, of the same kind"
        return self.copy(self.empty(x.shape, dtype=x.dtype, pin_memory=True), x)

    def room(self, x):
        "Memory for an input"
        return torch.empty_like(x, device='cuda')

    def fill(self, room, x):
        "Have an input put there, when the call comes"
        self.waiting.append((room, x.cuda()))

    def poison(self, sizes):
        "Freed memory, which the allocator hands out next, is full of NaN"
        rooms = [torch.full((n // 4 + 1,), float('nan'), device='cuda') for n in sizes for _ in range(2)]
        del rooms

    def call(self, f, data):
        "Call it between the events"
        self.poison([x.nbytes for x in _leaves(data)])
        self.synchronize()
        self.sleep(_PAUSE)
        for room, x in self.waiting:
            self.copy(room, x)
        self.zero(self.flush)
        self.skipped.clear()
        self.record(self.start)
        with _launching_nothing(self.skipped) if _IDLE else nullcontext():
            answer = f(data)
        self.record(self.stop)
        return answer

    def take(self, items):
        "The answer as it is in the order of the stream, the seconds between the events, and how long others went on"
        copies = [self.clone(x) for x in items]
        self.record(self.copied)
        self.wait(self.copied)
        begin = self.clock()
        self.synchronize()
        after, self.waiting = self.clock() - begin, []
        facts = dict(event=self.elapsed(self.start, self.stop) / 1e3, after=after)
        return copies, {**facts, 'launches': {'skipped': len(self.skipped)}} if self.skipped else facts

    def settle(self):
        "Until all is done"
        time.sleep(_SETTLE)
        self.synchronize()

    def kernels(self, f, data):
        "{kernel: launches} of one call, by torch's profiler"
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as p:
            self.call(f, data)
            self.synchronize()
        self.waiting = []
        return {o.key: o.count for o in p.key_averages() if o.device_type.name == 'CUDA'}


def _leaves(data):
    return [x for x in (data if isinstance(data, tuple) else (data,)) if isinstance(x, torch.Tensor)]


class _Pool:
    "Inputs lie where those of the call before lay: an answer that is kept by its address is found out"

    def __init__(self, device):
        self.device, self.rooms = device, {}

    def _put(self, i, x):
        key = i, x.dtype, tuple(x.shape)
        if key not in self.rooms:
            self.rooms[key] = self.device.room(x)
        room = self.rooms[key].view(x.shape)  # an object of its own for each call
        with torch.no_grad():
            self.device.fill(room, x)
        return room

    def data(self, header, blobs):
        "The data of a call, as `generate_input` gave them"
        blobs, items = iter(blobs), []
        for i, o in enumerate(header['data']):
            is_tensor = isinstance(o, dict)
            items.append(self._put(i, wire.tensor_of(next(blobs), o['dtype'], o['shape'])) if is_tensor else o)
        return tuple(items) if header['tuple'] else items[0]


# An answer, and what is to be said of it
def _plain(x):
    "Why this is no plain tensor; None if it is one"
    if type(x) is not torch.Tensor:
        return f'{type(x).__module__}.{type(x).__qualname__}'
    for name, v in vars(x).items():
        if type(v) is not set or not name.startswith('_dynamo_'):  # by these torch.compile notes sizes that vary
            return f'a tensor with a {name} of its own'
    return None if x.layout is torch.strided else f'a tensor with the layout {x.layout}'


def _span(x):
    s = x.untyped_storage()
    return s.data_ptr(), s.data_ptr() + s.nbytes()


def _shares(x, inputs, writes):
    "The place of the input whose memory an answer lies in; None if it has its own"
    a, b = _span(x)
    for i, o in enumerate(inputs):
        if i not in writes and isinstance(o, torch.Tensor) and a < b and a < _span(o)[1] and _span(o)[0] < b:
            return i


def _inspect(answer, data, writes):
    "What an answer is: its tensors, and what is odd about them"
    items = list(answer) if isinstance(answer, (tuple, list)) else [answer]
    if not items or not all(isinstance(x, torch.Tensor) for x in items):
        names = dict.fromkeys(type(x).__name__ for x in items)
        return [], dict(returned=f'it returned {", ".join(names) or "nothing"}, where a tensor was asked for')
    if odd := next(filter(None, map(_plain, items)), None):
        return [], dict(odd=odd)
    inputs = data if isinstance(data, tuple) else (data,)
    shared = next((i for x in items if (i := _shares(x, inputs, writes)) is not None), None)
    return items, dict(alias=shared)


def _in_words(e):
    "An exception in words, and the last line of the submission in it"
    own = [f for f in traceback.extract_tb(e.__traceback__) if f.filename.endswith(_FILE)]
    at = f' (line {own[-1].lineno}: {own[-1].line})' if own else ''
    said = (str(e).strip().splitlines() or [''])[0]
    return f'{type(e).__name__}: {said}{at}'


class _Worker:
    "A submission at work"

    def __init__(self, sock, tell, order):
        self.sock, self.tell, self.order = sock, tell, order
        torch.set_num_threads(1)
        self.device = _Gpu() if order['device'] == 'cuda' else _Cpu()
        self.pool, self.f, self.last = _Pool(self.device), None, ()

    def load(self, header, blobs):
        "Import the submission"
        _types()
        self.guard = _Guard()
        _watch(self.tell)
        module = types.ModuleType('submission')
        module.__file__ = os.path.abspath(_FILE)
        sys.modules['submission'] = module
        sys.path.insert(0, os.getcwd())
        with open(_FILE, encoding='utf-8') as f:
            exec(compile(f.read(), module.__file__, 'exec'), vars(module))
        self.f = self._function(module, header)
        self.report()
        wire.send(self.sock, dict(op='loaded'))

    def _function(self, module, header):
        "What is called with the data"
        if header['form'] == 'custom_kernel':
            return module.custom_kernel
        model = module.ModelNew(*header['init']).eval()
        if self.order['device'] == 'cuda':
            model = model.cuda()
        return lambda data: model(*(data if isinstance(data, tuple) else (data,)))

    def report(self):
        "Tell what was replaced"
        for name in self.guard.changed():
            self.tell('patched', f'it replaced {name}')

    def call(self, header, blobs):
        "One call: the answer at once, then what was seen, and the inputs as they are now"
        data = self.pool.data(header, blobs)
        threads = set(sys._current_frames())
        _IDLE[:] = [True] * header.get('idle', False)
        with torch.no_grad():
            answer = self.device.call(self.f, data)
        threads = _own_threads(threads)
        with torch._C.DisableTorchFunction():
            self.last, odd = _inspect(answer, data, header['writes'])
            copies, facts = self.device.take(self.last)
            self.give('answer', copies, {**facts, **odd, 'threads': threads})
            self.report()
            wire.send(self.sock, dict(op='inputs'), [wire.bytes_of(self.device.here(x)) for x in _leaves(data)])

    def give(self, op, items, facts):
        "Send an answer"
        items = [self.device.here(x.resolve_conj().resolve_neg()) for x in items]
        header = dict(op=op, facts=facts, answer=[wire.describe(x) for x in items])
        wire.send(self.sock, header, [wire.bytes_of(x) for x in items])

    def again(self, header, blobs):
        "What the last answer has become when all is done"
        self.device.settle()
        with torch._C.DisableTorchFunction():
            self.give('again', self.last, {})

    def kernels(self, header, blobs):
        "Which kernels one call launches on the GPU"
        data = self.pool.data(header, blobs)
        wire.send(self.sock, dict(op='kernels', kernels=self.device.kernels(self.f, data)))

    def run(self):
        "Do what the judge says, until it is gone"
        while True:
            header, blobs = wire.receive(self.sock, room=self.device.blob)
            try:
                getattr(self, header['op'])(header, blobs)
            except BaseException as e:
                if isinstance(e, wire.Gone):
                    raise
                wire.send(self.sock, dict(op='error', text=_in_words(e)))


def main(
    sock,  # to the judge
    tell,  # a file descriptor: what was seen, a line of JSON each
    order: dict,  # device
):
    "Run a submission for the judge; never returns"
    try:
        _Worker(sock, _Teller(tell), order).run()
    except wire.Gone:
        pass
    finally:
        sys.stdout.flush()
        os._exit(0)
