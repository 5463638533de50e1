"""Call a submission in its process: receive inputs, send the bytes of the output, and report facts about the call.

A submission shares this interpreter, so the judge trusts nothing from this process. It decides from bytes, and its
clock stops when the last byte of the output has arrived. The reported facts only provide the reason for a rejection."""

import os
import sys
import traceback
import types
import typing

import torch

from . import wire
from .audit import Guard, Reporter, remaining_submission_threads, submission_threads, watch
from .devices import SKIPPED_LAUNCHES, BufferPool, Cpu, Gpu, tensors_of

_FILE = 'submission.py'


def _add_task_module():
    "Create the module `task`, from which submissions import their annotations"
    module = types.ModuleType('task', 'Types of the data and the output')
    module.input_t = module.output_t = typing.Any
    sys.modules['task'] = module


# Facts about an output
def _describe_difference(x):
    "Describe how a tensor differs from a plain one; None if it is plain"
    if type(x) is not torch.Tensor:
        return f'{type(x).__module__}.{type(x).__qualname__}'
    for name, value in vars(x).items():
        if type(value) is not set or not name.startswith('_dynamo_'):  # torch.compile marks variable sizes in this way
            return f'a tensor with an attribute {name}'
    return None if x.layout is torch.strided else f'a tensor with the layout {x.layout}'


def _address_range(x):
    storage = x.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def _aliased_input(x, inputs, writes):
    "Return the index of the input whose memory an output shares; None if there is none"
    begin, end = _address_range(x)
    for i, tensor in enumerate(inputs):
        if i in writes or not isinstance(tensor, torch.Tensor) or begin == end:
            continue
        input_begin, input_end = _address_range(tensor)
        if begin < input_end and input_begin < end:
            return i


def _inspect(output, data, writes):
    "Return (tensors of an output, facts about them)"
    items = list(output) if isinstance(output, (tuple, list)) else [output]
    if not items or not all(isinstance(x, torch.Tensor) for x in items):
        names = dict.fromkeys(type(x).__name__ for x in items)
        return [], dict(returned=f'it returned {", ".join(names) or "nothing"} instead of a tensor')
    if description := next(filter(None, map(_describe_difference, items)), None):
        return [], dict(unusual=description)
    inputs = data if isinstance(data, tuple) else (data,)
    alias = next((i for x in items if (i := _aliased_input(x, inputs, writes)) is not None), None)
    return items, dict(alias=alias)


def _format_error(e):
    "Format an exception, with the last line of the submission in its traceback"
    frames = [frame for frame in traceback.extract_tb(e.__traceback__) if frame.filename.endswith(_FILE)]
    location = f' (line {frames[-1].lineno}: {frames[-1].line})' if frames else ''
    first_line = (str(e).strip().splitlines() or [''])[0]
    return f'{type(e).__name__}: {first_line}{location}'


class _Worker:
    "Executes the judge's commands for a submission"

    def __init__(self, sock, reporter, job):
        self.sock = sock
        self.reporter = reporter
        self.job = job
        torch.set_num_threads(1)
        self.device = Gpu() if job['device'] == 'cuda' else Cpu()
        self.pool = BufferPool(self.device)
        self.function = None  # of the submission
        self.last_output = ()

    def load(self, header, blobs):
        "Import the submission"
        _add_task_module()
        self.guard = Guard({'the judge': vars(_Worker), "the judge's messages": wire})
        watch(self.reporter)
        module = types.ModuleType('submission')
        module.__file__ = os.path.abspath(_FILE)
        sys.modules['submission'] = module
        sys.path.insert(0, os.getcwd())
        with open(_FILE, encoding='utf-8') as f:
            exec(compile(f.read(), module.__file__, 'exec', dont_inherit=True), vars(module))
        self.function = self._find_function(module, header)
        self.report_replaced_functions()
        wire.send(self.sock, dict(op='loaded'))

    def _find_function(self, module, header):
        "Return the function of the submission that takes the data"
        if header['form'] not in vars(module):
            raise NameError(f"the file does not define {header['form']}")
        if header['form'] == 'custom_kernel':
            return module.custom_kernel
        model = module.ModelNew(*header['init']).eval()
        if self.job['device'] == 'cuda':
            model = model.cuda()
        return lambda data: model(*(data if isinstance(data, tuple) else (data,)))

    def report_replaced_functions(self):
        "Report the functions that the submission replaced"
        for function_name in self.guard.replaced_functions():
            self.reporter('patched', f'it replaced {function_name}')

    def call(self, header, blobs):
        "Call the submission; send the output immediately, then reports, and then the inputs, which it may have changed"
        data = self.pool.data(header, blobs)
        old_threads = set(sys._current_frames())
        SKIPPED_LAUNCHES[:] = [True] * header.get('skips_launches', False)
        with torch.no_grad():
            output = self.device.call(self.function, data)
        threads = submission_threads(old_threads)
        with torch._C.DisableTorchFunction():
            self.last_output, output_facts = _inspect(output, data, header['writes'])
            copies, call_facts = self.device.take_output(self.last_output)
            if threads:  # copy the output now, because the threads may still write to it
                copies = [x.clone() for x in copies]
                threads = remaining_submission_threads(old_threads)
            self.send_output('output', copies, {**call_facts, **output_facts, 'threads': threads})
            self.report_replaced_functions()
            wire.send(
                self.sock, dict(op='inputs'), [wire.tensor_bytes(self.device.to_cpu(x)) for x in tensors_of(data)]
            )

    def send_output(self, op, tensors, facts):
        "Send the tensors of an output, and facts about it"
        tensors = [self.device.to_cpu(x.resolve_conj().resolve_neg()) for x in tensors]
        header = dict(op=op, facts=facts, output=[wire.describe(x) for x in tensors])
        wire.send(self.sock, header, [wire.tensor_bytes(x) for x in tensors])

    def resend(self, header, blobs):
        "Wait until all remaining work has finished, and send the last output again"
        self.device.wait_for_all_work()
        with torch._C.DisableTorchFunction():
            self.send_output('resent', self.last_output, {})

    def kernels(self, header, blobs):
        "Profile one call on the GPU, and send the kernels that it launches"
        data = self.pool.data(header, blobs)
        wire.send(self.sock, dict(op='kernels', kernels=self.device.kernels(self.function, data)))

    def run(self):
        "Execute the judge's commands until the judge closes the connection"
        while True:
            header, blobs = wire.receive(self.sock, make_buffer=self.device.make_buffer)
            try:
                getattr(self, header['op'])(header, blobs)
            except BaseException as e:
                if isinstance(e, wire.ConnectionClosed):
                    raise
                wire.send(self.sock, dict(op='error', text=_format_error(e)))


def main(
    sock,  # a socket for messages of the judge
    report_fd,  # a file descriptor for reports, one line of JSON each
    job: dict,  # the job that started this process; only its `device` is used
):
    "Run a submission for the judge; never returns"
    try:
        _Worker(sock, Reporter(report_fd), job).run()
    except wire.ConnectionClosed:
        status = 0
    except BaseException:  # an error of this module: the judge shows the traceback
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    os._exit(status)
