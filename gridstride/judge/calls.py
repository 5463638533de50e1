"Make the calls of a submission, check each output, and find the reason for a wrong one."

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
from .tolerance import Mismatch, find_mismatch
from .processes import Process

# Seconds for which a GPU may be busy after the copy of the output. Without remaining work, synchronizing with an H100
# on a busy host took 15 to 140 us in 139 of 141 calls, and at most 260 us. With work for which the submission does not
# wait, it took as long as that work: 8 to 10 ms in `tests/kernels/check_judge_gpu.py`. Shorter work makes the output
# wrong.
_MAX_BUSY_SECONDS = 2e-3
_MAX_TEXT = 200  # characters that are kept of a string from a submission's process
_MAX_KERNELS = 100  # number of reported kernels that are kept

Call = namedtuple('Call', 'sizes data output facts seconds')  # output: a list of tensors, () after the checks


class Rejection(Exception):
    "The reason for which a submission is rejected"

    def __init__(self, code, reason):
        self.code, self.reason = code, reason
        super().__init__(f'{code}: {reason}')


# Inputs
def _as_tuple(data):
    return data if isinstance(data, tuple) else (data,)


def _to_float64(data, device):
    "Return a copy of the data in which all floats are float64"
    items = [x.to(device, copy=True) if isinstance(x, torch.Tensor) else x for x in _as_tuple(data)]
    items = [x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in items]
    return tuple(items) if isinstance(data, tuple) else items[0]


def _change_floats(task, data, change):
    "Return the data with `change` applied to its float inputs"
    items = [
        change(x) if isinstance(x, torch.Tensor) and x.is_floating_point() and i not in task.writable_inputs else x
        for i, x in enumerate(_as_tuple(data))
    ]
    return tuple(items) if isinstance(data, tuple) else items[0]


def _change_one_element(x, rng):
    "Return a copy with one changed element, which detects a cache whose key is a sample of the elements"
    x = x.clone()
    if x.numel():
        x.view(-1)[rng.randrange(x.numel())] += 3 * (1 + x.abs().mean().item())
    return x


def _shuffle_values(x, rng):
    "Return a copy whose inner values are shuffled, which detects a cache whose key is the sum and the end values"
    flat = x.flatten()
    inner_indices = list(range(1, flat.numel() - 1))
    rng.shuffle(inner_indices)
    return flat[[0, *inner_indices, flat.numel() - 1]].reshape(x.shape) if inner_indices else x.clone()


def _max_output_bytes(expected):
    "Return the largest number of bytes that an output may have"
    return 8 * sum(tensor.numel() for tensor in expected) + 4096


def _plan_calls(task, rng):
    "Return (kind of inputs, sizes) of each call: some with the first public sizes, then others in a random order"
    public = [{k: v for k, v in test.items() if k != 'seed'} for test in task.tests]
    first_sizes = public[0]
    hidden_calls = [('new seed', sizes) for sizes in public[1:]]
    hidden_calls += [('new seed', task.draw_hidden_sizes(rng)) for _ in range(3)]
    hidden_calls += [('new seed', first_sizes)] * rng.randrange(1, 4)
    rng.shuffle(hidden_calls)
    return [
        ('new seed', first_sizes),
        ('new seed', first_sizes),
        ('one element', first_sizes),
        ('shuffled', first_sizes),
        *hidden_calls,
    ]


# Facts about a call that the submission's process reports, and their types. Facts of another type are ignored, because
# that process is not trusted.
_FACT_TYPES = dict(
    launches=dict,
    threads=str,
    streams=int,
    alias=int,
    event_seconds=float,
    busy_seconds=float,
    returned=str,
    unusual=str,
)


def _valid_facts(header):
    "Return the facts in the header of an output that have the right type"
    facts = header.get('facts')
    facts = {k: v for k, v in facts.items() if type(v) is _FACT_TYPES.get(k)} if isinstance(facts, dict) else {}
    facts = {k: v[:_MAX_TEXT] if isinstance(v, str) else v for k, v in facts.items()}
    return facts | dict(launches=launch_counts(facts.get('launches')))


def launch_counts(reported) -> dict:  # kernel -> number of launches
    "Return the valid entries of reported launch counts"
    if not isinstance(reported, dict):
        return {}
    valid_counts = ((kernel, n) for kernel, n in reported.items() if type(n) is int and 0 <= n < 1 << 32)
    return {str(kernel)[:_MAX_TEXT]: n for kernel, n in islice(valid_counts, _MAX_KERNELS)}


def _precompile_headers():
    "Precompile the emulator's headers in the judge's process, because it takes longer than the time limit of a call"
    with suppress(RuntimeError, OSError):
        import_module('gridstride.cpp.toolchain.build').prepare()


class CallChecker:
    "Runs and checks the calls of one submission"

    def __init__(self, submission, task, device, timeout):
        self.submission = submission
        self.task = task
        self.device = device
        self.timeout = timeout
        self.rng = random.Random(secrets.randbits(64))
        self.calls = []
        self.process = None
        self.process_without_launches = None  # on a CPU: a second process, in which launches do nothing
        self.is_imported = False
        self.has_launched = False  # whether the last call of `recompute` launched a kernel
        self.buffers = {}  # index of a blob -> buffer

    # A call
    def make_data(self, kind, sizes):
        "Make new inputs, or change the last inputs of these sizes; `kind`: as in `_plan_calls`"
        new = self.task.generate_input(seed=secrets.randbits(62), **sizes)
        if kind == 'new seed':
            return new
        last = next((call.data for call in reversed(self.calls) if call.sizes == sizes), new)
        change = _change_one_element if kind == 'one element' else _shuffle_values
        return _change_floats(self.task, last, lambda x: change(x, self.rng))

    def compute_expected(self, data):  # (tensors, error scales)
        "Compute the correct output in float64, and its error scale, on the device; nothing is cached"
        data = _to_float64(data, self.device)
        reference_data = _to_float64(data, self.device)  # the reference may write to its inputs
        expected = _as_tuple(self.task.ref_kernel(reference_data))
        scales = [self.task.error_scale(data, expected[0])] if len(expected) == 1 else [x.abs() for x in expected]
        if self.device == 'cuda':
            torch.cuda.synchronize()  # from here on only the submission uses the GPU
        return expected, scales

    def call_message(self, data):  # (header, blobs)
        "Return the message of a call with this data"
        items = _as_tuple(data)
        descriptions = [wire.describe(x) if isinstance(x, torch.Tensor) else x for x in items]
        header = dict(
            op='call', data=descriptions, tuple=isinstance(data, tuple), writes=list(self.task.writable_inputs)
        )
        return header, [wire.tensor_bytes(x) for x in items if isinstance(x, torch.Tensor)]

    def call(self, data, sizes, expected_and_scales=None):  # the result of `compute_expected(data)`, if known
        "Make, time and check a call; its time is from the first byte of the inputs to the last byte of the output"
        expected, scales = expected_and_scales or self.compute_expected(data)
        header, blobs = self.call_message(data)
        begin = time.perf_counter()
        output_header, output_blobs = self.process.request(header, blobs, _max_output_bytes(expected))
        seconds = time.perf_counter() - begin
        self.check_reports()
        _, returned_blobs = self.process.receive(sum(map(len, blobs)), make_buffer=self.buffer_maker())
        self.check_reports()
        output = self.parse_tensors(output_header, output_blobs)
        call = Call(sizes, data, output, _valid_facts(output_header), seconds)
        self.check_call(call, blobs, returned_blobs, expected, scales)
        self.calls.append(call._replace(output=()))

    def buffer_maker(self):
        "Return a function that reuses the buffers of the last call, because new memory pages take longer than copies"
        indices = count()

        def make_buffer(n):
            i = next(indices)
            if len(self.buffers.get(i, '')) != n:
                self.buffers[i] = bytearray(n)
            return self.buffers[i]

        return make_buffer

    def parse_tensors(self, header, blobs):
        "Return the tensors of an output; raises `Rejection` if they cannot be read"
        try:
            blobs_and_descriptions = zip(blobs, header['output'], strict=True)
            return [
                wire.tensor_from_bytes(blob, description['dtype'], description['shape'])
                for blob, description in blobs_and_descriptions
            ]
        except (wire.ProtocolError, KeyError, TypeError, ValueError) as e:
            raise Rejection('type', f'{self.call_label()} the output cannot be read: {e}') from None

    def call_label(self):
        "Return a prefix for messages: the number of the current call"
        return f'call {len(self.calls) + 1}:' if self.is_imported else 'in the import:'

    # The checks; the first one that fails, in this order, determines the reason
    def check_reports(self):
        "Raise `Rejection` if the submission's process has sent a report"
        for code, text in self.process.read_reports():
            raise Rejection(code if code in ('patched', 'inspected', 'reference') else 'patched', text)

    def check_call(self, call, blobs, returned_blobs, expected, scales):
        "Check a call; raises `Rejection`"
        self.check_tensor_types(call.facts)
        self.check_times(call)
        self.check_finished(call.facts)
        self.check_inputs(call.data, blobs, returned_blobs)
        self.check_values(call, expected, scales)
        if self.device == 'cpu' and self.submission.kernels and not call.facts.get('launches'):
            names = ', '.join(self.submission.kernels)
            text = f'the output is correct, but none of its kernels ({names}) ran'
            raise Rejection('fallback', f'{self.call_label()} {text}')

    def check_tensor_types(self, facts):
        "Check that the output has plain tensors with their own memory"
        if text := facts.get('returned'):
            raise Rejection('type', f'{self.call_label()} {text}')
        if text := facts.get('unusual'):
            raise Rejection('subclass', f'{self.call_label()} the submission returned {text}')
        if facts.get('alias') is not None:
            raise Rejection('alias', f'{self.call_label()} the output shares the memory of input {facts["alias"]}')

    def check_finished(self, facts):
        "Check that the submission had finished all work when it returned"
        if threads := facts.get('threads'):
            raise Rejection(
                'late',
                f'{self.call_label()} a thread of the submission was still running when the call returned: {threads}',
            )
        if facts.get('streams'):
            raise Rejection(
                'stream', f'{self.call_label()} the submission did not wait for {facts["streams"]} of its streams'
            )
        if not (busy_seconds := facts.get('busy_seconds', 0)) <= _MAX_BUSY_SECONDS:
            raise Rejection(
                'stream', f'{self.call_label()} the GPU was busy for {busy_seconds * 1e3:.3g} ms after the output'
            )

    def check_times(self, call):
        "Check on a GPU that the time between the events, measured in the submission's process, is plausible"
        event_seconds = call.facts.get('event_seconds', math.nan)
        if self.device == 'cuda' and not 0 < event_seconds <= call.seconds:
            problem = f'{event_seconds * 1e3:.3g} ms between the events of a call that took {call.seconds * 1e3:.3g} ms'
            raise Rejection('clock', f'{self.call_label()} {problem}')

    def check_inputs(self, data, blobs, returned_blobs):
        "Check that the inputs are unchanged"
        tensors = [(i, x) for i, x in enumerate(_as_tuple(data)) if isinstance(x, torch.Tensor)]
        if [*map(len, returned_blobs)] != [*map(len, blobs)]:
            raise Rejection('inputs', f'{self.call_label()} the sizes of the inputs differ after the call')
        for (i, x), sent_blob, returned_blob in zip(tensors, blobs, returned_blobs, strict=True):
            if i not in self.task.writable_inputs and not np.array_equal(
                np.frombuffer(sent_blob, 'B'), np.frombuffer(returned_blob, 'B')
            ):
                num_changed = int((x != wire.tensor_from_bytes(returned_blob, **wire.describe(x))).sum())
                raise Rejection('inputs', f'{self.call_label()} {num_changed} elements of input {i} were changed')

    def check_values(self, call, expected, scales):
        "Check that the output is correct; if it is not, find the most likely cause"
        mismatch = self.find_mismatch(call.output, expected, scales, call.sizes)
        if mismatch is None and self.task.check_implementation:
            output = call.output[0] if len(call.output) == 1 else call.output
            is_correct, text = self.task.check_implementation(call.data, output)
            if not is_correct:
                raise Rejection('wrong', f'{self.call_label()} the check of the task reports: {text}')
        if mismatch:
            self.diagnose(call, mismatch, expected, scales)

    def find_mismatch(self, output, expected, scales, sizes):
        "Return the `Mismatch` of the first wrong tensor of an output; None if all are correct"
        if len(output) != len(expected):
            return Mismatch('type', f'it returned {len(output)} tensors; expected {len(expected)}')
        reduction_length = self.task.reduction_length(**sizes)
        triples = zip((x.to(self.device) for x in output), expected, scales, strict=True)
        mismatches = (find_mismatch(x, y, scale, self.task.dtype, reduction_length) for x, y, scale in triples)
        return next(filter(None, mismatches), None)

    # The cause of a wrong output
    def diagnose(self, call, mismatch, expected, scales):
        "Raise `Rejection` for a wrong output, with its most likely cause"
        problem = f'{self.call_label()} {mismatch.text}'
        if mismatch.code == 'type':
            raise Rejection('type', problem)
        if self.becomes_correct(call.sizes, expected, scales):
            raise Rejection(
                'late', f'{self.call_label()} the output was wrong when the call returned, and correct shortly after'
            )
        if i := self.find_replayed_call(call):
            raise Rejection('replay', f'{self.call_label()} the output equals that of call {i}, which had other inputs')
        if test := self.find_known_test(call):
            text = f'the output is correct for the public test {test}, but this call has other inputs'
            raise Rejection('seed', f'{self.call_label()} {text}')
        if self.was_correct(call.sizes):
            raise Rejection('wrong later', f'{problem}; an earlier output for the same sizes was correct')
        if self.calls and self.is_wrong_now():
            raise Rejection(
                'wrong later', f'{problem}; a new output for the sizes of call 1 is also wrong, but call 1 was correct'
            )
        if self.calls:
            sizes = sizes_text(call.sizes)
            raise Rejection('shapes', f'{problem}; correct for other sizes, but never for these: {sizes}')
        if mismatch.code not in ('unwritten', 'nan') and self.is_constant(call):
            raise Rejection('constant', f'{self.call_label()} the output does not depend on the input')
        raise Rejection(mismatch.code, problem)

    def becomes_correct(self, sizes, expected, scales):
        "Return whether the last output becomes correct after all remaining work has ended"
        header, blobs = self.process.request(dict(op='resend'), max_bytes=_max_output_bytes(expected))
        try:
            output = self.parse_tensors(header, blobs)
        except Rejection:
            return False
        return self.find_mismatch(output, expected, scales, sizes) is None

    def is_correct_for(self, call, data):
        "Return whether the output of a call is correct for other data of the same sizes"
        return self.find_mismatch(call.output, *self.compute_expected(data), call.sizes) is None

    def find_replayed_call(self, call):
        "Return the number of the earlier call whose output this call returned; None if there is none"
        for i, earlier_call in enumerate(self.calls, 1):
            if earlier_call.sizes == call.sizes and self.is_correct_for(call, earlier_call.data):
                return i

    def find_known_test(self, call):
        "Return the sizes and seed of the public test whose output this call returned; None if there is none"
        for test in self.task.tests:
            sizes = {k: v for k, v in test.items() if k != 'seed'}
            if sizes == call.sizes and self.is_correct_for(call, self.task.generate_input(**test)):
                return sizes_text(test)

    def is_wrong_now(self, process=None, **options):
        "Return whether a new output for the sizes of the first call is wrong"
        sizes = self.calls[0].sizes
        data = self.make_data('new seed', sizes)
        output = self.recompute(data, process, **options)
        return self.find_mismatch(output, *self.compute_expected(data), sizes) is not None

    def recompute(self, data, process=None, **options):
        "Make one more call, in this or another process; returns the tensors of its output, unchecked"
        header, blobs = self.call_message(data)
        process = process or self.process
        max_bytes = _max_output_bytes(self.compute_expected(data)[0])
        output_header, output_blobs = process.request({**header, **options}, blobs, max_bytes)
        process.receive(sum(map(len, blobs)))
        self.has_launched = any(_valid_facts(output_header)['launches'].values())
        return self.parse_tensors(output_header, output_blobs)

    def was_correct(self, sizes):
        "Return whether there was an earlier call with these sizes; all earlier calls were correct"
        return any(call.sizes == sizes for call in self.calls)

    def is_constant(self, call):
        "Return whether the output is the same for other inputs of these sizes"
        other_output = self.recompute(self.make_data('new seed', call.sizes))
        return [bytes(wire.tensor_bytes(x)) for x in call.output] == [bytes(wire.tensor_bytes(x)) for x in other_output]

    # The complete run
    def start(self, stack):
        "Start the process, and import the submission there"
        if self.device == 'cpu' and self.submission.may_compile:
            _precompile_headers()
        load_header = dict(op='load', form=self.submission.form, init=list(self.task.init))
        if self.device == 'cpu' and self.submission.kernels:
            process_without_launches = Process(self.submission, self.device, self.timeout, skips_launches=True)
            self.process_without_launches = stack.enter_context(process_without_launches)
            self.process_without_launches.send(load_header)
        self.process = stack.enter_context(Process(self.submission, self.device, self.timeout))
        try:
            self.process.request(load_header)
            self.is_imported = True
        finally:
            self.check_reports()

    def run_test_calls(self):
        "Make and check the planned calls"
        for kind, sizes in _plan_calls(self.task, self.rng):
            self.call(self.make_data(kind, sizes), sizes)

    def check_output_depends_on_kernels(self):
        "Check that the kernels compute the output, with one more call in which launches do nothing"
        if not self.submission.kernels:
            return
        try:
            kernels_are_needed = self.is_wrong_without_launches()
        except (wire.ProcessEnded, Rejection):
            kernels_are_needed = True
        if not kernels_are_needed:
            names = ', '.join(self.submission.kernels)
            raise Rejection('fallback', f'the output is correct even if its kernels ({names}) do nothing')

    def is_wrong_without_launches(self):
        """Return whether the output is wrong if launches do nothing. On a CPU, a second process, whose launches never
        do anything, computes the output"""
        if self.process_without_launches:
            self.process_without_launches.receive(timeout=self.process_without_launches.timeout_for('load'))
            return self.is_wrong_now(self.process_without_launches)
        return self.is_wrong_now(skips_launches=True) or not self.has_launched

    def suspended(self):
        "Suspend the processes of the submission inside the `with` block"
        stack = ExitStack()
        for process in filter(None, (self.process, self.process_without_launches)):
            stack.enter_context(process.suspended())
        return stack

    def log(self):
        "Return the end of what the submission printed"
        return self.process.log if self.process else ''

    def isolation(self) -> tuple:  # keys of `verdicts.ISOLATION`
        "Return the protections that were active for the submission's process"
        return self.process.isolation if self.process else ()

    def end(self):
        "End the submission's process; raises `Rejection` if processes that it started are still running"
        if num_left := self.process.end():
            raise Rejection(
                'late', f'{num_left} processes that the submission had started were still running at the end'
            )


def sizes_text(sizes) -> str:
    """Format sizes: `h=3, w=5`.

    >>> sizes_text(dict(h=3, w=5))
    'h=3, w=5'"""
    return ', '.join(f'{k}={v}' for k, v in sizes.items())
