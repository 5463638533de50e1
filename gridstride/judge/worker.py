"""Calls a submission in its process: receives inputs, sends the bytes of the answer, and reports what it noticed.

A submission shares this interpreter, so nothing here is trusted. The judge decides from bytes, and its clock stops when
the last byte of the answer has arrived. What is noticed here only gives a refusal its reason."""

import os
import sys
import traceback
import types
import typing

import torch

from . import wire
from .devices import IDLE, Cpu, Gpu, Pool, leaves
from .audit import Guard, Reporter, own_threads, own_threads_soon, watch

_FILE = 'submission.py'


def _types():
    "Make the module `task`, from which submissions import their annotations"
    module = types.ModuleType('task', 'Types of the data and the answer')
    module.input_t = module.output_t = typing.Any
    sys.modules['task'] = module


# Facts about an answer
def _plain(x):
    "Return what is not plain about a tensor; None if it is plain"
    if type(x) is not torch.Tensor:
        return f'{type(x).__module__}.{type(x).__qualname__}'
    for name, v in vars(x).items():
        if type(v) is not set or not name.startswith('_dynamo_'):  # torch.compile marks sizes that vary in this way
            return f'a tensor with a {name} of its own'
    return None if x.layout is torch.strided else f'a tensor with the layout {x.layout}'


def _span(x):
    s = x.untyped_storage()
    return s.data_ptr(), s.data_ptr() + s.nbytes()


def _aliased_input(x, inputs, writes):
    "Return the index of the input whose memory an answer shares; None if it has its own"
    a, b = _span(x)
    for i, tensor in enumerate(inputs):
        if (
            i not in writes
            and isinstance(tensor, torch.Tensor)
            and a < b
            and a < _span(tensor)[1]
            and _span(tensor)[0] < b
        ):
            return i


def _inspect(answer, data, writes):
    "Return what an answer is: its tensors, and what is odd about them"
    items = list(answer) if isinstance(answer, (tuple, list)) else [answer]
    if not items or not all(isinstance(x, torch.Tensor) for x in items):
        names = dict.fromkeys(type(x).__name__ for x in items)
        return [], dict(returned=f'it returned {", ".join(names) or "nothing"} instead of a tensor')
    if odd := next(filter(None, map(_plain, items)), None):
        return [], dict(odd=odd)
    inputs = data if isinstance(data, tuple) else (data,)
    shared = next((i for x in items if (i := _aliased_input(x, inputs, writes)) is not None), None)
    return items, dict(alias=shared)


def _error_text(e):
    "Format an exception, with the last line of the submission in its traceback"
    own = [f for f in traceback.extract_tb(e.__traceback__) if f.filename.endswith(_FILE)]
    at = f' (line {own[-1].lineno}: {own[-1].line})' if own else ''
    said = (str(e).strip().splitlines() or [''])[0]
    return f'{type(e).__name__}: {said}{at}'


class _Worker:
    "Executes the judge's orders for a submission"

    def __init__(self, sock, reporter, order):
        self.sock = sock
        self.reporter = reporter
        self.order = order
        torch.set_num_threads(1)
        self.device = Gpu() if order['device'] == 'cuda' else Cpu()
        self.pool = Pool(self.device)
        self.f = None
        self.last = ()

    def load(self, header, blobs):
        "Import the submission"
        _types()
        self.guard = Guard({'the judge': vars(_Worker), "the judge's messages": wire})
        watch(self.reporter)
        module = types.ModuleType('submission')
        module.__file__ = os.path.abspath(_FILE)
        sys.modules['submission'] = module
        sys.path.insert(0, os.getcwd())
        with open(_FILE, encoding='utf-8') as f:
            exec(compile(f.read(), module.__file__, 'exec', dont_inherit=True), vars(module))
        self.f = self._function(module, header)
        self.report()
        wire.send(self.sock, dict(op='loaded'))

    def _function(self, module, header):
        "Return what is called with the data"
        if header['form'] not in vars(module):
            raise NameError(f"{header['form']} is not defined by the file")
        if header['form'] == 'custom_kernel':
            return module.custom_kernel
        model = module.ModelNew(*header['init']).eval()
        if self.order['device'] == 'cuda':
            model = model.cuda()
        return lambda data: model(*(data if isinstance(data, tuple) else (data,)))

    def report(self):
        "Report the functions that the submission replaced"
        for name in self.guard.changed():
            self.reporter('patched', f'it replaced {name}')

    def call(self, header, blobs):
        "Make a call: send the answer at once, then what was noticed, and the inputs as they are now"
        data = self.pool.data(header, blobs)
        before = set(sys._current_frames())
        IDLE[:] = [True] * header.get('idle', False)
        with torch.no_grad():
            answer = self.device.call(self.f, data)
        threads = own_threads(before)
        with torch._C.DisableTorchFunction():
            self.last, odd = _inspect(answer, data, header['writes'])
            copies, facts = self.device.take(self.last)
            if threads:  # keep the answer as it was when the call returned
                copies = [x.clone() for x in copies]
                threads = own_threads_soon(before)
            self.give('answer', copies, {**facts, **odd, 'threads': threads})
            self.report()
            wire.send(self.sock, dict(op='inputs'), [wire.bytes_of(self.device.here(x)) for x in leaves(data)])

    def give(self, op, items, facts):
        "Send an answer"
        items = [self.device.here(x.resolve_conj().resolve_neg()) for x in items]
        header = dict(op=op, facts=facts, answer=[wire.describe(x) for x in items])
        wire.send(self.sock, header, [wire.bytes_of(x) for x in items])

    def again(self, header, blobs):
        "Send the last answer as it is after all remaining work has ended"
        self.device.settle()
        with torch._C.DisableTorchFunction():
            self.give('again', self.last, {})

    def kernels(self, header, blobs):
        "Return the kernels that one call launches on the GPU"
        data = self.pool.data(header, blobs)
        wire.send(self.sock, dict(op='kernels', kernels=self.device.kernels(self.f, data)))

    def run(self):
        "Execute the judge's orders until it is gone"
        while True:
            header, blobs = wire.receive(self.sock, buffer=self.device.blob)
            try:
                getattr(self, header['op'])(header, blobs)
            except BaseException as e:
                if isinstance(e, wire.ConnectionClosed):
                    raise
                wire.send(self.sock, dict(op='error', text=_error_text(e)))


def main(
    sock,  # to the judge
    report_fd,  # a file descriptor for reports, one line of JSON each
    order: dict,  # with the key 'device'
):
    "Run a submission for the judge; never returns"
    try:
        _Worker(sock, Reporter(report_fd), order).run()
    except wire.ConnectionClosed:
        status = 0
    except BaseException:  # an error of this module: the judge shows the traceback
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    os._exit(status)
