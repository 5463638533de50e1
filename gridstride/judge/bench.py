"The calls of a submission: their inputs, the checks of each answer, and the reasons to refuse one."

import math
import random
import secrets
import time
from collections import namedtuple
from contextlib import ExitStack, suppress
from importlib import import_module
from itertools import count, islice

import numpy as np
import torch

from . import wire
from .closeness import Miss, miss
from .processes import Ended, Process

# Seconds for which a GPU may be busy after the answer was copied. With no work left, synchronizing with an H100 took 15
# to 140 us in 139 of 141 calls, and 260 us at most, on a busy host; with work that the submission does not wait for, it
# took as long as that work: 8 to 10 ms in `tests/kernels/check_judge_gpu.py`. Shorter work is detected by the wrong
# answer that it leaves.
_AFTER = 2e-3
_TEXT = 200  # characters of a text from a submission's process that are repeated
_KERNELS = 100  # reported kernels that are read, at most

Call = namedtuple('Call', 'sizes data got facts seconds')  # got: the answer's tensors, until they are checked


class Refused(Exception):
    "The reason to refuse a submission"

    def __init__(self, code, why):
        self.code, self.why = code, why
        super().__init__(f'{code}: {why}')


# Inputs
def _items(data):
    return data if isinstance(data, tuple) else (data,)


def _wide(data, device):
    "Return a copy of the data in which all floats are float64"
    items = [x.to(device, copy=True) if isinstance(x, torch.Tensor) else x for x in _items(data)]
    items = [x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in items]
    return tuple(items) if isinstance(data, tuple) else items[0]


def _changed(task, data, change):
    "Return the data with `change` applied to its float inputs"
    items = [
        change(x) if isinstance(x, torch.Tensor) and x.is_floating_point() and i not in task.writes else x
        for i, x in enumerate(_items(data))
    ]
    return tuple(items) if isinstance(data, tuple) else items[0]


def _touched(x, rng):
    "Change one element: a cache keyed by the ends, or by a sample, does not notice"
    x = x.clone()
    if x.numel():
        x.view(-1)[rng.randrange(x.numel())] += 3 * (1 + x.abs().mean().item())
    return x


def _shuffled(x, rng):
    "Shuffle all values except the first and the last: a cache keyed by the sum does not notice"
    flat = x.flatten()
    inner = list(range(1, flat.numel() - 1))
    rng.shuffle(inner)
    return flat[[0, *inner, flat.numel() - 1]].reshape(x.shape) if inner else x.clone()


def _answer_bytes(expected):
    "Return the bytes that an answer may have"
    return 8 * sum(w.numel() for w in expected) + 4096


def _plan(task, rng):
    "Return (what, sizes) of each call: first the public sizes, twice; then in a random order"
    public = [{k: v for k, v in t.items() if k != 'seed'} for t in task.tests]
    first = public[0]
    others = [('new', case) for case in public[1:]]
    others += [('new', task.hidden(rng)) for _ in range(3)] + [('new', first)] * rng.randrange(1, 4)
    rng.shuffle(others)
    return [('new', first), ('new', first), ('touched', first), ('shuffled', first), *others]


# Facts about a call that the submission's process reports. It is not trusted: a fact of another type is ignored
_FACTS = dict(launches=dict, threads=str, streams=int, alias=int, event=float, after=float, returned=str, odd=str)


def _facts_of(answer):
    "Return the facts in an answer that have the right type"
    facts = answer.get('facts')
    facts = {k: v for k, v in facts.items() if type(v) is _FACTS.get(k)} if isinstance(facts, dict) else {}
    facts = {k: v[:_TEXT] if isinstance(v, str) else v for k, v in facts.items()}
    return facts | dict(launches=launch_counts(facts.get('launches')))


def launch_counts(found) -> dict:
    "Return {kernel: launches}, without entries of another type"
    if not isinstance(found, dict):
        return {}
    right = ((k, v) for k, v in found.items() if type(v) is int and 0 <= v < 1 << 32)
    return {str(k)[:_TEXT]: v for k, v in islice(right, _KERNELS)}


def _prepare():
    "Compile the emulator's headers here, which takes longer than a call may; the import reports a missing compiler"
    with suppress(RuntimeError, OSError):
        import_module('gridstride.cpp.toolchain.build').prepare()


class Bench:
    "Runs and checks the calls of one submission"

    def __init__(self, submission, task, device, limit):
        self.submission = submission
        self.task = task
        self.device = device
        self.limit = limit
        self.rng = random.Random(secrets.randbits(64))
        self.calls = []
        self.idle = None
        self.process = None
        self.imported = False
        self.launched = False
        self.buffers = {}

    # A call
    def data(self, what, sizes):
        "Make new inputs, or change the last ones of these sizes"
        new = self.task.generate_input(seed=secrets.randbits(62), **sizes)
        old = next((c.data for c in reversed(self.calls) if c.sizes == sizes), new)
        if what == 'new':
            return new
        change = _touched if what == 'touched' else _shuffled
        return _changed(self.task, old, lambda x: change(x, self.rng))

    def expected(self, data):
        "Compute the right answer in float64, and its error scale, on the device; nothing is cached"
        data = _wide(data, self.device)
        expected = _items(self.task.ref_kernel(_wide(data, self.device)))  # the reference may write to its inputs
        scales = [self.task.scale(data, expected[0])] if len(expected) == 1 else [w.abs() for w in expected]
        if self.device == 'cuda':
            torch.cuda.synchronize()  # from here on the submission alone uses the GPU
        return expected, scales

    def send(self, data):
        "Return the message with the data"
        items = _items(data)
        described = [wire.describe(x) if isinstance(x, torch.Tensor) else x for x in items]
        header = dict(op='call', data=described, tuple=isinstance(data, tuple), writes=list(self.task.writes))
        return header, [wire.bytes_of(x) for x in items if isinstance(x, torch.Tensor)]

    def call(self, data, sizes, right=None):  # right: the result of `expected(data)`, if it is known
        "Make and check a call, timed from the first byte of the inputs to the last byte of the answer"
        expected, scale = right or self.expected(data)
        header, blobs = self.send(data)
        begin = time.perf_counter()
        answer, parts = self.process.ask(header, blobs, _answer_bytes(expected))
        seconds = time.perf_counter() - begin
        self.look_around()
        _, now = self.process.receive(sum(map(len, blobs)), buffer=self.reused_buffers())
        self.look_around()
        call = Call(sizes, data, self.tensors(answer, parts), _facts_of(answer), seconds)
        self.look_at(call, blobs, now, expected, scale)
        self.calls.append(call._replace(got=()))

    def reused_buffers(self):
        "Return a function that reuses the buffers of the call before, because new memory pages take longer than copies"
        i = count()

        def buffer(n):
            slot = next(i)
            if len(self.buffers.get(slot, '')) != n:
                self.buffers[slot] = bytearray(n)
            return self.buffers[slot]

        return buffer

    def tensors(self, answer, parts):
        "Return the tensors of an answer; raises `Refused` if they are none"
        try:
            return [
                wire.tensor_of(b, meta['dtype'], meta['shape']) for b, meta in zip(parts, answer['answer'], strict=True)
            ]
        except (wire.ProtocolError, KeyError, TypeError, ValueError) as e:
            raise Refused('type', f'{self.at()} its answer cannot be read: {e}') from None

    def at(self):
        "Return which call this is, in words"
        return f'call {len(self.calls) + 1}:' if self.imported else 'in the import:'

    # The checks, in this order: the first that fails is the reason
    def look_around(self):
        "Raise `Refused` for what was noticed in its process"
        for code, text in self.process.hints():
            raise Refused(code if code in ('patched', 'spied', 'reference') else 'patched', text)

    def look_at(self, call, sent, now, expected, scale):
        "Check a call; raises `Refused`"
        self.check_kind(call.facts)
        self.check_times(call)
        self.check_ends(call.facts)
        self.check_inputs(call.data, sent, now)
        self.check_values(call, expected, scale)
        if self.device == 'cpu' and self.submission.kernels and not call.facts.get('launches'):
            names = ', '.join(self.submission.kernels)
            raise Refused('fallback', f'{self.at()} right, but none of its kernels ({names}) ran')

    def check_kind(self, facts):
        "Check that the answer is a plain tensor with memory of its own"
        if text := facts.get('returned'):
            raise Refused('type', f'{self.at()} {text}')
        if text := facts.get('odd'):
            raise Refused('subclass', f'{self.at()} it returned {text}')
        if facts.get('alias') is not None:
            raise Refused('alias', f'{self.at()} the answer shares the memory of input {facts["alias"]}')

    def check_ends(self, facts):
        "Check that the submission had finished when it returned"
        if threads := facts.get('threads'):
            raise Refused('late', f'{self.at()} one of its threads was still running when it returned: {threads}')
        if facts.get('streams'):
            raise Refused('stream', f'{self.at()} it did not wait for {facts["streams"]} of its streams')
        if not (after := facts.get('after', 0)) <= _AFTER:
            raise Refused('stream', f'{self.at()} the GPU worked for {after * 1e3:.3g} ms after the answer')

    def check_times(self, call):
        "Check on a GPU that the time between its events is possible: its own process measures them"
        if self.device == 'cuda' and not 0 < (event := call.facts.get('event', math.nan)) <= call.seconds:
            said = f'its events show {event * 1e3:.3g} ms of a call that took {call.seconds * 1e3:.3g} ms'
            raise Refused('clock', f'{self.at()} {said}')

    def check_inputs(self, data, sent, now):
        "Check that the inputs are unchanged"
        tensors = [(i, x) for i, x in enumerate(_items(data)) if isinstance(x, torch.Tensor)]
        if [len(blob) for blob in now] != [len(was) for was in sent]:
            raise Refused('inputs', f'{self.at()} its inputs have other sizes after the call')
        for (i, x), before, after in zip(tensors, sent, now, strict=True):
            if i not in self.task.writes and not np.array_equal(np.frombuffer(before, 'B'), np.frombuffer(after, 'B')):
                n = int((x != wire.tensor_of(after, **wire.describe(x))).sum())
                raise Refused('inputs', f'{self.at()} {n} elements of input {i} were changed')

    def check_values(self, call, expected, scale):
        "Check that the answer is right, and if not, classify the mistake"
        found = self.miss_of(call.got, expected, scale, call.sizes)
        if found is None and self.task.check_implementation:
            right, text = self.task.check_implementation(call.data, call.got[0] if len(call.got) == 1 else call.got)
            if not right:
                raise Refused('wrong', f"{self.at()} the task's own check says: {text}")
        if found:
            self.diagnose(call, found, expected, scale)

    def miss_of(self, got, expected, scale, sizes):
        "Return what is wrong with the tensors of an answer"
        if len(got) != len(expected):
            return Miss('type', f'{len(got)} tensors; the task requires {len(expected)}')
        terms = self.task.terms(**sizes)
        got = [g.to(self.device) for g in got]
        found = (miss(g, w, s, self.task.dtype, terms) for g, w, s in zip(got, expected, scale, strict=True))
        return next(filter(None, found), None)

    # The kind of a wrong answer
    def diagnose(self, call, found, expected, scale):
        "Raise `Refused` for a wrong answer, with its most likely cause"
        said = f'{self.at()} {found.text}'
        if found.kind == 'type':
            raise Refused('type', said)
        if self.is_right_later(call.sizes, expected, scale):
            raise Refused('late', f'{self.at()} the answer was wrong when the call returned, and right a moment later')
        if i := self.older(call):
            raise Refused('replay', f'{self.at()} the answer is that of call {i}, which had other inputs')
        if seed := self.of_known_seed(call):
            why = f'the output is right for the public test {seed}, but this call was given other inputs'
            raise Refused('seed', f'{self.at()} {why}')
        if self.was_right(call.sizes):
            raise Refused('gave up', f'{said}; an earlier answer with the same sizes was right')
        if self.calls and self.fails_now():
            raise Refused('gave up', f'{said}; it is now wrong with the sizes of call 1, too, for which it was right')
        if self.calls:
            raise Refused('shapes', f'{said}; right for other sizes, but never for these: {sizes_text(call.sizes)}')
        if found.kind not in ('unwritten', 'nan') and self.is_constant(call):
            raise Refused('constant', f'{self.at()} the answer is the same for other inputs')
        raise Refused(found.kind, said)

    def is_right_later(self, sizes, expected, scale):
        "Return whether the answer becomes right after all remaining work has ended"
        answer, parts = self.process.ask(dict(op='again'), most=_answer_bytes(expected))
        try:
            got = self.tensors(answer, parts)
        except Refused:
            return False
        return self.miss_of(got, expected, scale, sizes) is None

    def older(self, call):
        "Return the number of the earlier call whose answer this is, if any"
        for i, old in enumerate(self.calls, 1):
            if old.sizes == call.sizes and self.miss_of(call.got, *self.expected(old.data), old.sizes) is None:
                return i

    def of_known_seed(self, call):
        "Return the sizes and seed of the public test whose answer this is, as text"
        for test in self.task.tests:
            sizes = {k: v for k, v in test.items() if k != 'seed'}
            if (
                sizes == call.sizes
                and self.miss_of(call.got, *self.expected(self.task.generate_input(**test)), sizes) is None
            ):
                return sizes_text(test)

    def fails_now(self, process=None, **how):
        "Return whether the submission is now wrong for the sizes of the first call"
        first = self.calls[0].sizes
        data = self.data('new', first)
        got = self.answer_again(data, process, **how)
        return self.miss_of(got, *self.expected(data), first) is not None

    def answer_again(self, data, process=None, **how):
        "Return the tensors of one more answer, of this or another process, without checking them"
        header, blobs = self.send(data)
        process = process or self.process
        answer, parts = process.ask({**header, **how}, blobs, _answer_bytes(self.expected(data)[0]))
        process.receive(sum(map(len, blobs)))
        self.launched = any(_facts_of(answer)['launches'].values())
        return self.tensors(answer, parts)

    def was_right(self, sizes):
        "Return whether an earlier call had these sizes"
        return any(c.sizes == sizes for c in self.calls)

    def is_constant(self, call):
        "Return whether other inputs of these sizes give an identical answer"
        again = self.answer_again(self.data('new', call.sizes))
        return [bytes(wire.bytes_of(x)) for x in call.got] == [bytes(wire.bytes_of(x)) for x in again]

    # The whole run
    def start(self, stack):
        "Start the process and import the submission there; what all submissions need is compiled before"
        if self.device == 'cpu' and self.submission.compiles:
            _prepare()
        load = dict(op='load', form=self.submission.form, init=list(self.task.init))
        if self.device == 'cpu' and self.submission.kernels:
            self.idle = stack.enter_context(Process(self.submission, self.device, self.limit, idle=True))
            self.idle.send(load)
        self.process = stack.enter_context(Process(self.submission, self.device, self.limit))
        try:
            self.process.ask(load)
            self.imported = True
        finally:
            self.look_around()

    def calls_of_plan(self):
        "Make the calls that look for wrong answers"
        for what, sizes in _plan(self.task, self.rng):
            self.call(self.data(what, sizes), sizes)

    def check_idle(self):
        "Check that the answer comes from its kernels, by one more call in which launches do nothing"
        if not self.submission.kernels:
            return
        try:
            needed = self.fails_idle()
        except (Ended, Refused):
            needed = True
        if not needed:
            names = ', '.join(self.submission.kernels)
            raise Refused('fallback', f'the answer is right even if its kernels ({names}) do nothing')

    def fails_idle(self):
        """Return whether the answer is wrong if launches do nothing; on a CPU, in a second process in which none ever
        did"""
        if self.idle:
            self.idle.receive(timeout=self.idle.timeout_for('load'))
            return self.fails_now(self.idle)
        return self.fails_now(idle=True) or not self.launched

    def stopped(self):
        "Stop its processes inside the `with` block"
        stack = ExitStack()
        for process in filter(None, (self.process, self.idle)):
            stack.enter_context(process.stopped())
        return stack

    def printed(self):
        "Return the end of what it printed"
        return self.process.printed if self.process else ''

    def isolation(self) -> tuple:  # words of `verdicts.ISOLATION`
        "Return what separated its process from this machine"
        return self.process.isolation if self.process else ()

    def end(self):
        "End what is left of its process; raises `Refused` if it had started others"
        if left := self.process.end():
            raise Refused('late', f'{left} processes that it had started were still running at the end')


def sizes_text(sizes) -> str:
    """Format sizes: `h=3, w=5`.

    >>> sizes_text(dict(h=3, w=5))
    'h=3, w=5'"""
    return ', '.join(f'{k}={v}' for k, v in sizes.items())
