"""Replay the launches of an operator without running its Python code again.

The Python code of an operator checks its operands, selects kernels, and allocates results and workspaces; this takes
much longer than a small kernel. All of it depends only on the shapes, strides, dtypes, devices and alignments of the
tensors, and on the values of the other arguments. So the first call with such arguments is recorded: its
allocations, its fills with zeros, and its launches, whose arguments become (base, offset) addresses. The table of the
compiled launcher (`cpp/launcher.cpp`) makes later calls.

A call is replayed only if its recording is complete. If the call ran other torch operations, or a launch accessed
memory that is neither an argument nor allocated by the call, the Python code runs each time. A call whose operands
overlap is not stored, because those of later calls may not overlap. Memory that an operator keeps from call to
call must not be allocated while a call is recorded (`active_recorder`), or each replay would get new memory.

A call that a table computes need not run any Python code: `replay_entry_point` makes a function an entry point of a
table, and a function of torch that computes the result is called with its arguments in its order (`TorchCall`).
"""

import inspect
from contextlib import nullcontext
from functools import lru_cache, wraps
from typing import Callable, NamedTuple

import torch
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable
from torch.utils._python_dispatch import TorchDispatchMode

from .ladder.launches import Launcher, MappedLauncher, active_recorder, set_recorder
from ..cpp.launcher import launcher
from ..utils import cdiv

MAX_RECIPES = 4096  # per operator; a full table is cleared
_WORKSPACE_ALIGNMENT = 256  # bytes
_aten = torch.ops.aten
_EMPTY = {_aten.empty.memory_format, _aten.empty_like.default, _aten.empty_strided.default, _aten.new_empty.default}
_ZEROS = {_aten.zeros.default, _aten.zeros_like.default, _aten.new_zeros.default, _aten.zero_.default}
_functorch = getattr(torch._C, '_functorch', None)
is_any_autocast_enabled = getattr(torch._C, '_is_any_autocast_enabled', lambda: torch.is_autocast_enabled('cuda'))


def needs_autograd(*tensors) -> bool:
    "Return whether the Python function must run: for a gradient, a transform of torch.func, or tracing"
    if torch.is_grad_enabled():
        for x in tensors:
            if getattr(x, 'requires_grad', False):
                return True
    return torch.compiler.is_compiling() or forward_ad._current_level >= 0 or _is_transformed()


def differentiable_once(backward):
    """Make the backward pass of a `torch.autograd.Function` raise if its results are differentiated, as torch's
    `once_differentiable` does, but without its overhead if no graph is recorded"""
    checked_backward = once_differentiable(backward)

    @wraps(backward)
    def run(ctx, *grads):
        return checked_backward(ctx, *grads) if torch.is_grad_enabled() else backward(ctx, *grads)

    return run


def make_apply(
    function,  # a `torch.autograd.Function`
):
    """Return a function that applies `function` as its `apply` does, with less overhead: torch's Python code is called
    only for transforms of torch.func and while tracing. The nodes of its graph call `backward` directly."""
    function._backward_cls.apply = function.backward
    apply_in_c = super(torch.autograd.Function, function).apply

    def apply(*args):
        is_special = torch.compiler.is_compiling() or _is_transformed()
        return function.apply(*args) if is_special else apply_in_c(*args)

    return apply


def _is_transformed():
    "Return whether a transform of torch.func, such as vmap, is active"
    return _functorch is not None and _functorch.peek_interpreter_stack() is not None


def _span(x):
    "Return the first address of a tensor's elements and the address after the last one"
    start = x.data_ptr()
    elements = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride())) if x.numel() else 0
    return start, start + elements * x.element_size()


class CallRecorder(TorchDispatchMode):
    "Records the allocations, fills and launches of the calls that run within it"

    def __init__(self):
        super().__init__()
        self.allocations = []  # tensors; the list keeps them alive, so that no two of them have the same memory
        self.steps = []  # (launcher, tensors), or (None, a tensor that is filled with zeros)
        self.torch_operations = []  # names of the other operations
        self.num_launches = 0  # including launches that were not recorded, which make the recording useless
        self.is_complete = True  # whether the steps reproduce the calls

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **kwargs or {})
        if function in _EMPTY | _ZEROS:
            if function is not _aten.zero_.default:
                self.allocations.append(result)
            if function in _ZEROS and result.numel():
                self.steps.append((None, result))
                self.is_complete &= result.is_contiguous()
        elif not function.is_view and function is not _aten.detach.default:
            self.torch_operations.append(str(function.overloadpacket).removeprefix('aten.'))
            self.is_complete = False
        return result

    def __enter__(self):
        set_recorder(self)
        return super().__enter__()

    def __exit__(self, *error):
        set_recorder(None)
        return super().__exit__(*error)

    def add_launch(self, launcher, tensors):
        "Add a launch of a `Launcher`"
        if isinstance(launcher, Launcher):
            self.steps.append((launcher, tensors))


class _IncompleteRecording(Exception):
    "Raised if a recording cannot become a recipe"


def _allocation_arguments(x):
    "Return the arguments with which torch allocates a tensor like `x`"
    return tuple(x.shape), x.stride(), x.dtype


def _memory(x):
    "Return a key that identifies the memory of a tensor: its storage, and its first and last address"
    return x.untyped_storage()._cdata, *_span(x)


def _overlap(tensors):
    "Return whether two of the tensors share memory"
    spans = sorted(span for span in map(_span, tensors) if span[0] < span[1])
    return any(end > next_start for (_, end), (next_start, _) in zip(spans, spans[1:]))


def _launch_object(launcher, arrays):
    "Return the compiled launcher's `Launch` for these arrays"
    return launcher.launch_object_for(arrays) if isinstance(launcher, MappedLauncher) else launcher.launch_object


def _make_recipe(recorder, tensors, results):
    "Return (steps, workspace) for the table; raises `_IncompleteRecording` if steps are missing"
    num_recorded = sum(launcher is not None for launcher, _ in recorder.steps)
    if not all(isinstance(x, torch.Tensor) for x in results):
        raise _IncompleteRecording
    if not recorder.is_complete or not num_recorded or num_recorded != recorder.num_launches:
        raise _IncompleteRecording
    result_memory = {_memory(x) for x in results}  # a result may be a view, with another shape
    if not result_memory <= set(map(_memory, recorder.allocations)):
        raise _IncompleteRecording
    workspaces = [x for x in recorder.allocations if _memory(x) not in result_memory and x.numel()]
    # base index, start and end address, and offset of the base's first byte
    bases = [(i, *_span(x), 0) for i, x in enumerate([*tensors, *results])]
    workspace_bytes = 0
    for x in workspaces:
        start, end = _span(x)
        bases.append((len(tensors) + len(results), start, end, workspace_bytes))
        workspace_bytes += cdiv(end - start, _WORKSPACE_ALIGNMENT) * _WORKSPACE_ALIGNMENT
    null_index = len(tensors) + len(results) + bool(workspace_bytes)

    def address(x):
        if x is None or not x.numel():
            return null_index, 0
        start, end = _span(x)
        for index, base_start, base_end, offset in bases:
            if base_start <= start and end <= base_end:
                return index, offset + start - base_start
        raise _IncompleteRecording

    steps = [
        (_launch_object(launcher, arrays), tuple(map(address, arrays)))
        if launcher
        else (None, address(arrays), arrays.nbytes)
        for launcher, arrays in recorder.steps
    ]
    written = {index for step in steps for index, _ in (step[1] if step[0] else [step[1]])}
    if any(x.numel() and len(tensors) + i not in written for i, x in enumerate(results)):
        raise _IncompleteRecording
    return tuple(steps), ((workspace_bytes,), (1,), torch.uint8) if workspace_bytes else None


def _store(table, recorder, args, result, in_graphs):
    "Store a recorded call in the table, if its recording is complete; `in_graphs`: as for `store_recipe`"
    results = list(result) if isinstance(result, tuple) else [result]
    try:
        steps, workspace = _make_recipe(recorder, [x for x in args if isinstance(x, torch.Tensor)], results)
    except _IncompleteRecording:
        return table.use_python(*args)
    arguments = [_allocation_arguments(x) for x in results]
    table.store_recipe(args, steps, arguments if isinstance(result, tuple) else arguments[0], workspace, in_graphs)


@lru_cache
def _new_tables():
    "Return a function that creates a table of the compiled launcher; None without a compiled launcher"
    module = launcher()
    return module and (lambda: module.Table(torch._C._dynamo.guards._empty_strided_cuda, (is_any_autocast_enabled,)))


class Argument(int):
    "The argument of an operator at this position, among the arguments of a `TorchCall`"


ARGUMENTS = tuple(map(Argument, range(16)))


class TorchCall(NamedTuple):
    "A call of a function of torch with some arguments of an operator, and constants; a table makes it without Python"

    function: Callable
    positions: tuple  # per argument of `function`: its position among the operator's arguments, or -1 for a constant
    constants: tuple  # per argument of `function`
    names: tuple  # of its last arguments, which are passed by keyword

    def __call__(self, *args):
        pairs = zip(self.positions, self.constants)
        values = [constant if position < 0 else args[position] for position, constant in pairs]
        num_positional = len(values) - len(self.names)
        return self.function(*values[:num_positional], **dict(zip(self.names, values[num_positional:])))


def torch_call(function, *values, **options) -> TorchCall:
    """Return a call of a function of torch. `ARGUMENTS[i]` among the values is the operator's argument i.

    torch_call(torch.cumsum, ARGUMENTS[0], -1)"""
    values = *values, *options.values()
    positions = tuple(int(value) if isinstance(value, Argument) else -1 for value in values)
    return TorchCall(function, positions, values, tuple(options))


class EntryPoint(NamedTuple):
    "A public function whose calls a table may compute, with the table's arguments as the compiled launcher needs them"

    function: Callable
    names: tuple  # of the parameters
    defaults: tuple  # of the last parameters
    arguments: tuple  # (position of the parameter or -1, dict that converts it or None, constant) per table argument


def entry_point(function, *arguments) -> EntryPoint:
    """Return the `EntryPoint` of a function; `arguments`: as for `replay_entry_point`.

    entry_point(matmul, 'a', 'b')"""
    parameters = inspect.signature(function).parameters
    names = tuple(parameters)
    defaults = tuple(p.default for p in parameters.values() if p.default is not inspect.Parameter.empty)

    def converted(argument):
        if isinstance(argument, str):
            return names.index(argument), None, None
        return (names.index(argument[0]), argument[1], None) if isinstance(argument, tuple) else (-1, None, argument)

    return EntryPoint(function, names, defaults, tuple(map(converted, arguments)))


def replay_entry_point(
    call,  # a function that `replayable` returned
    *arguments,  # of `call`: the name of a parameter, (its name, a dict that converts it), or another constant
):
    """Make the decorated function an entry point of the table of `call`: a call for which the table has an entry runs
    no Python code. All parameters that are not among `arguments` must then have their defaults.

    @replay_entry_point(_softmax.eager, 'x', False)"""

    def add(function):
        call.entry_points.append(entry_point(function, *arguments))
        return function

    return add


def install_entry_points(table, entry_points):
    "Let a table compute the calls of these functions"
    for point in entry_points:
        table.add_entry_point(*point)


# A subclass of Tensor may do anything in its operations
_KEY_TYPES = torch.Tensor, torch.nn.Parameter, bool, int, float, str


def _is_key(x):
    "Return whether an argument may be part of a key: the compiled launcher supports its type"
    if type(x) is tuple:
        return all(type(item) is int for item in x)
    return x is None or type(x) in _KEY_TYPES


def _is_recordable(args):
    "Return whether these arguments may have a key in a table, and whether the call is not part of a recorded one"
    is_on_gpu = any(isinstance(x, torch.Tensor) and x.is_cuda for x in args)
    return is_on_gpu and all(map(_is_key, args)) and active_recorder() is None


def replayable(
    run,  # a function of tensors and constants
    torch_fallback=None,  # computes the result with torch, if `run` returns NotImplemented
    is_replayable=None,  # a function of the same arguments; False: never store the launches of such a call
    use_torch_in_graphs=None,  # a function of the same arguments; True: CUDA graphs capture `torch_fallback`
    make_torch_function=None,  # a function of the same arguments that returns a faster one, such as a `TorchCall`
    is_torch_differentiated=None,  # a function of the same arguments, for which `run` returns NotImplemented; True:
    # torch also computes the result if its gradient is needed
):
    """Wrap `run`: calls like an earlier one replay its launches from a table, or call `torch_fallback`. The wrapper has
    two attributes that are functions of the same arguments, and a list:

    - `fast` returns the result if the table has an entry for the call, even where torch records gradients; else None;
    - `table_for` returns the table that may store such a call, or None (see `differentiate_eagerly`);
    - `entry_points`: functions whose calls the table computes (see `replay_entry_point`)."""
    table = None

    def table_for(*args):
        "Return the table that may store such a call, or None"
        nonlocal table
        is_recordable = _is_ordinary() and _is_recordable(args)
        is_recordable = is_recordable and not _overlap([x for x in args if isinstance(x, torch.Tensor)])
        new_table = _new_tables() if is_recordable else None
        if not new_table:
            return None
        if table is None:
            table = new_table()
            call.fast = table.fast
            install_entry_points(table, call.entry_points)
        if len(table) >= MAX_RECIPES:
            table.clear()
        return table

    @wraps(run)
    def call(*args):
        if table is not None and _is_ordinary():
            result = table(*args)
            if result is Ellipsis:
                return run(*args)
            if result is not None:
                return result
        if table_for(*args) is None:
            result = run(*args)
            return torch_fallback(*args) if result is NotImplemented else result
        can_store = is_replayable is None or is_replayable(*args)
        with CallRecorder() if can_store else nullcontext() as recorder:
            result = run(*args)
        if result is NotImplemented:
            function = make_torch_function(*args) if make_torch_function else torch_fallback
            with_gradient = is_torch_differentiated is not None and is_torch_differentiated(*args)
            table.use_function(function, args, None if with_gradient else False)
            return torch_fallback(*args)
        if can_store:
            in_graphs = torch_fallback if use_torch_in_graphs and use_torch_in_graphs(*args) else None
            _store(table, recorder, args, result, in_graphs)
        return result

    call.fast, call.table_for, call.entry_points = _without_table, table_for, []
    return call


def _is_ordinary():
    "Return whether neither a dispatch mode nor a transform of torch.func is active"
    return not torch._C._len_torch_dispatch_stack() and not _is_transformed()


def _without_table(*args):
    "Return None: there is no table yet that could compute the result"


def differentiate_eagerly(
    operator,  # a function that `replayable` returned; its table stores the decision
    with_kernels,  # a function that computes the result with our kernels, and records its gradient
    make_torch_function,  # a function of `args` that returns one that does the same with torch, such as a `TorchCall`
    *args,
):
    """Compute a result with a gradient, for operands so small that Python takes longer than the kernels.

    torch, which runs no Python code, computes it; in CUDA graphs, where Python's overhead does not count, our kernels
    do. The first such call also runs our kernels and their gradient, so that a graph can be captured later."""
    if torch.compiler.is_compiling() or torch.cuda.is_current_stream_capturing() or is_any_autocast_enabled():
        return with_kernels(*args)
    with_torch = make_torch_function(*args)
    if (table := operator.table_for(*args)) is None:
        return with_torch(*args)
    operands = [x.detach().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in args]
    inputs = [x for x in operands if getattr(x, 'requires_grad', False)]
    if inputs:
        out = with_kernels(*operands)
        torch.autograd.grad(out, inputs, torch.zeros_like(out))
    table.use_function(with_torch, args, True, True)
    return with_torch(*args)


class Explanation(NamedTuple):
    "The kernels and the operations of torch that a call of an operator runs"

    kernels: tuple  # names of the launched kernels, in order
    torch_operations: tuple  # names of torch's operations, such as 'clone' for operands that are copied first

    def __repr__(self):
        parts = (('kernels', self.kernels), ('torch', self.torch_operations))
        return '; '.join(f'{name}: {", ".join(names)}' for name, names in parts if names) or 'nothing to compute'


def explain_call(operator, *args, **options) -> Explanation:
    """Call an operator once, and return the kernels and torch operations that it runs.

    explain_call(kernels.softmax, x)"""
    with CallRecorder() as recorder:
        operator(*args, **options)
    kernels = [launcher.kernel.__name__.split('::')[-1] for launcher, _ in recorder.steps if launcher]
    return Explanation(tuple(kernels), tuple(recorder.torch_operations))
