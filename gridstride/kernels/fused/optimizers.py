"""`AdamW`, a torch optimizer whose step is one launch for all tensors of a dtype.

A step moves 28 bytes per float32 parameter: it reads the parameter, its gradient and two states, and writes all of them
but the gradient. The step reaches the DRAM bandwidth only if a launch has enough work for the whole GPU. Therefore one
launch updates all tensors: one table has the addresses of the tensors, and another one has the tensor and the chunk of
each block.
"""

from functools import lru_cache
from itertools import accumulate, chain

import torch

from .sources import DTYPE_BYTES, kernel_source
from ..ladder.launches import Launcher
from ..ladder.rung import KernelLaunch, compile_kernel
from ..common import MAX_LOAD_BYTES
from ...cpp.driver import current_stream
from ...utils import backend, cdiv

DTYPES = 'float32', 'bfloat16', 'float16'
THREADS = 512
_STATES = 'exp_avg', 'exp_avg_sq'  # names of the two states, as in torch's AdamW


# Launches
@lru_cache(1024)
def adamw_call(dtype, vec_size, maximize, blocks) -> KernelLaunch:
    "Return the launch of one step for tensors of a dtype in `blocks` chunks, with `vec_size` elements per load"
    constants = ('VEC', vec_size), ('THREADS', THREADS), ('MAXIMIZE', maximize)
    arrays, scalars = ('memory', 'table', 'chunks'), (0.0,) * len(SCALARS)
    return KernelLaunch(kernel_source(('adamw',), dtype, constants), 'adamw', arrays, scalars, (blocks,), (THREADS,))


# the scalar arguments of the kernel
SCALARS = 'decay', 'one_minus_beta1', 'one_minus_beta2', 'step_size', 'bias_correction2_sqrt', 'eps'


def compute_scalars(lr, betas, eps, weight_decay, step) -> tuple:  # steps count from 1
    "Compute the values of `SCALARS` for a step"
    beta1, beta2 = betas
    factors = lr * weight_decay, 1 - beta1, 1 - beta2
    return *factors, lr / (1 - beta1**step), (1 - beta2**step) ** 0.5, eps


class _StepLauncher(Launcher):
    "A launcher that takes the scalars after the arrays, because they change with each step"

    def __init__(self, call):
        self.num_arrays = len(call.arrays)
        scalars = call.scalars if backend() == 'gpu' else ()
        super().__init__(
            compile_kernel(call.src, call.name, backend()), self.num_arrays, scalars, call.grid, call.block
        )

    def parameters(self):
        return [*super().parameters()[: self.num_arrays], *((value._type_,) for value in self.values)]

    def bind_arrays(self, arguments):
        super().bind_arrays(arguments[: self.num_arrays])
        for slot, x in zip(self.scalar_values, arguments[self.num_arrays :]):
            slot.value = x


@lru_cache(1024)
def _launcher(call, device, backend):  # `device` and `backend` are only a part of the cache key
    return _StepLauncher(call)


@lru_cache(64)
def _chunk_table(sizes, chunk_size, device):
    "Return an int32 tensor (blocks, 2): the index of each block's tensor, and of its chunk in that tensor"
    counts = torch.tensor([cdiv(n, chunk_size) for n in sizes])
    tensor_index = torch.repeat_interleave(torch.arange(len(sizes)), counts)
    chunk_index = torch.arange(len(tensor_index)) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    return torch.stack((tensor_index, chunk_index), 1).int().to(device)


class _AddressTable:
    "The addresses of tensors of one dtype, for one launch"

    def __init__(self, rows, vec_size, device):  # a row: addresses of parameter, gradient and two states, and the size
        self.vec_size, chunk_size = vec_size, vec_size * THREADS
        table = torch.tensor(rows)
        if device.type == 'cuda':  # the copy runs after all kernels that read the old table, so it need not wait
            table = table.pin_memory()
        self.table = table.to(device, non_blocking=True)
        self.chunks = _chunk_table(tuple(row[-1] for row in rows), chunk_size, device)

    def launch(self, memory, dtype, maximize, scalars):
        "Launch a step; `memory`: the emulator's array of all tensors, None on a GPU"
        call = adamw_call(dtype, self.vec_size, maximize, len(self.chunks))
        arrays = memory, self.table, self.chunks
        if memory is not None:
            return _launcher(call, None, 'sim')([*arrays, *scalars])
        device = self.table.get_device()
        with torch.cuda.device(device):
            stream = current_stream(device)
            _launcher(call, device, 'gpu')([0, self.table.data_ptr(), self.chunks.data_ptr(), *scalars], stream)


def _build_tables(rows, dtype, device):
    "Return an `_AddressTable` of the tensors whose alignment allows loads of four elements, and one of the others"
    param_bytes = 4 * DTYPE_BYTES[dtype]
    unaligned = [row for row in rows if (row[0] | row[1]) % param_bytes or (row[2] | row[3]) % MAX_LOAD_BYTES]
    aligned = [row for row in rows if row not in unaligned] if unaligned else rows
    tables = (aligned, 4), (unaligned, 1)  # rows, elements per load
    return [_AddressTable(table_rows, vec_size, device) for table_rows, vec_size in tables if table_rows]


# The emulator reports accesses to memory that is not an argument of the kernel, so all tensors are copied into one
# array, and the table has offsets in this array instead of addresses.
def _bytes_of(x):
    "Return a view of the bytes of a tensor in memory order; the tensor must have no gaps"
    return x.detach().as_strided((x.numel(),), (1,)).view(torch.uint8)


class _EmulatorMemory:
    "One array with copies of all tensors, for the emulator"

    def __init__(self, tensors):  # tuples of a parameter, its gradient and its two states
        self.tensors = tensors
        padded_bytes = (cdiv(x.nbytes, MAX_LOAD_BYTES) * MAX_LOAD_BYTES for x in chain.from_iterable(tensors))
        ends = list(accumulate(padded_bytes))
        starts = iter([0, *ends[:-1]])
        self.rows = [(*(next(starts) for _ in tensor_tuple), tensor_tuple[0].numel()) for tensor_tuple in tensors]
        self.memory = torch.full((ends[-1],), 255, dtype=torch.uint8)  # NaN in the gaps
        for x, view in self._views_of(range(4)):
            view.copy_(_bytes_of(x))

    def _views_of(self, indices):
        "Yield (tensor, view of its copy) for these indices of each tuple of tensors"
        for tensor_tuple, row in zip(self.tensors, self.rows):
            for i in indices:
                yield tensor_tuple[i], self.memory[row[i] : row[i] + tensor_tuple[i].nbytes]

    def copy_back(self):
        "Copy parameters and states back to their tensors"
        for x, view in self._views_of((0, 2, 3)):
            _bytes_of(x).copy_(view)


# Argument checks
def _raise_value_error(problem, hint):
    raise ValueError(f'AdamW: {problem}; {hint}')


_USE_TORCH = 'torch.optim.AdamW(..., fused=True) supports it'


def _check_group(group):
    "Raise `ValueError` unless the options of a parameter group are supported"
    lr, betas = group['lr'], group['betas']
    if isinstance(lr, torch.Tensor):
        _raise_value_error(
            'lr is a tensor, and reading it would wait for the GPU', 'pass a float, which a scheduler may change'
        )
    for name, x in dict(lr=lr, eps=group['eps'], weight_decay=group['weight_decay']).items():
        if not 0 <= x < float('inf'):
            _raise_value_error(f'{name} is {x}', 'expected a finite value of at least 0')
    if not (isinstance(betas, (tuple, list)) and len(betas) == 2 and all(0 <= beta < 1 for beta in betas)):
        _raise_value_error(f'betas are {betas}', 'expected two floats from 0 to below 1')
    for name in ('amsgrad', 'capturable', 'differentiable'):
        if group.get(name):
            _raise_value_error(
                f'{name} is not supported', _USE_TORCH if name != 'differentiable' else 'torch.optim.AdamW supports it'
            )
    if not group.get('decoupled_weight_decay', True):
        _raise_value_error('decoupled_weight_decay=False is not supported, because it is Adam', 'use torch.optim.Adam')


def _check_param(p):
    "Raise `TypeError` or `ValueError` unless the kernel supports a parameter"
    if (name := str(p.dtype).removeprefix('torch.')) not in DTYPES:
        raise TypeError(f'AdamW: a parameter is {name}; expected one of {", ".join(DTYPES)}; {_USE_TORCH}')
    device_type = 'cuda' if backend() == 'gpu' else 'cpu'
    if p.device.type != device_type:
        _raise_value_error(
            f'a parameter is on {p.device}, but kernels run on {device_type} here',
            f'move the model with .to({device_type!r})',
        )
    if torch.empty_like(p).stride() != p.stride():
        _raise_value_error(
            f'a parameter of shape {tuple(p.shape)} has gaps: its strides are {p.stride()}', 'use .contiguous()'
        )


def _check_states(tensors, device):
    "Raise `TypeError` or `ValueError` if a parameter or state no longer has the right dtype, device or shape"
    for p, *grad_and_states in tensors:
        _check_param(p)
        if any(x.device != device or x.shape != p.shape for x in grad_and_states):
            _raise_value_error(
                f'a parameter of shape {tuple(p.shape)} on {device} does not match its states',
                'move a model before you create its optimizer',
            )


def _gradient(p):
    "Return the gradient of a parameter with the strides of the parameter, as the kernel needs it"
    grad = p.grad
    if grad.layout is not torch.strided:
        _raise_value_error(
            'a gradient is sparse', 'torch.optim.SparseAdam supports it; or create the embedding with sparse=False'
        )
    return grad if grad.stride() == p.stride() else torch.empty_like(p).copy_(grad)


class AdamW(torch.optim.Optimizer):
    """Adam with decoupled weight decay, like `torch.optim.AdamW`, in one launch for all parameters of a group and type.

        AdamW(model.parameters(), lr=3e-4).step()

    All arithmetic and all states are float32, even for bfloat16 and float16 parameters. States have torch's names, so
    this optimizer and torch's AdamW can load each other's `state_dict`. `lr` is a float, and may change between steps.
    Not supported are amsgrad, capture in a CUDA graph, sparse gradients, other dtypes, and parameters with gaps; they
    raise TypeError, ValueError or RuntimeError."""

    def __init__(
        self,
        params,  # tensors, named tensors, or dicts, each of which is a parameter group with its own options
        lr=1e-3,
        betas=(0.9, 0.999),  # decay of the running means of the gradients and of their squares
        eps=1e-8,  # added to the root of the second mean
        weight_decay=1e-2,  # each step shrinks the parameters by the fraction lr * weight_decay
        amsgrad=False,  # must be False; this parameter exists for compatibility with torch
        *,
        maximize=False,  # ascend along the gradient
    ):
        options = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize)
        self._tables_by_key = {}
        super().__init__(params, options)

    def add_param_group(self, param_group):
        "Add a parameter group, as torch's optimizers do; raises for unsupported options or parameters"
        super().add_param_group(param_group)
        try:
            _check_group(self.param_groups[-1])
            for p in self.param_groups[-1]['params']:
                _check_param(p)
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    def __setstate__(self, state):
        super().__setstate__(state)
        self._tables_by_key = {}

    @torch.no_grad()
    def step(self, closure=None):
        "Update the parameters once; return the loss that `closure` computes, or None without one"
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for i, group in enumerate(self.param_groups):
            _check_group(group)
            for j, ((dtype, device, steps), params) in enumerate(self._group_by_step(group).items()):
                self._step(group, (i, j), dtype, device, steps + 1, params)
        return loss

    def _group_by_step(self, group):
        "Group the parameters that have a gradient: (dtype, device, steps so far) -> [(parameter, state)]"
        params_by_step, counts = {}, {}
        for p in group['params']:
            if p.grad is None:
                continue
            state = self.state[p]
            if not state:
                self._init_state(p, state)
            count = state['step']
            if id(count) not in counts:  # most parameters share one tensor, and reading a tensor is slow
                counts[id(count)] = int(count)
            params_by_step.setdefault((p.dtype, p.device, counts[id(count)]), []).append((p, state))
        return params_by_step

    def _init_state(self, p, state):
        "Create the states of a parameter"
        state['step'] = torch.tensor(0.0)
        state.update({name: torch.zeros_like(p, dtype=torch.float32) for name in _STATES})

    def _step(self, group, key, dtype, device, step, params):
        "Run one step for parameters of one dtype and device; `key`: of their tables"
        tensors = [(p, _gradient(p), *(state[name] for name in _STATES)) for p, state in params if p.numel()]
        scalars = compute_scalars(*(group[name] for name in ('lr', 'betas', 'eps', 'weight_decay')), step)
        if tensors:
            self._launch(tensors, key, str(dtype).removeprefix('torch.'), device, bool(group['maximize']), scalars)
        count = torch.tensor(float(step))
        for _, state in params:
            state['step'] = count

    def _launch(self, tensors, key, dtype, device, maximize, scalars):
        "Launch a step for tuples of a parameter, its gradient and its two states"
        if device.type != 'cuda':
            _check_states(tensors, device)
            memory = _EmulatorMemory(tensors)
            for table in _build_tables(memory.rows, dtype, device):
                table.launch(memory.memory, dtype, maximize, scalars)
            return memory.copy_back()
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                f'AdamW: a CUDA graph would repeat the scalars of one step; {_USE_TORCH} with capturable=True'
            )
        # The tables are rebuilt if addresses have changed since the last step, for example those of new gradients.
        addresses = map(torch.Tensor.data_ptr, chain.from_iterable(tensors))
        addresses_and_sizes = [*addresses, *(p.numel() for p, *_ in tensors)]
        cached, tables = self._tables_by_key.get(key, (None, None))
        if cached != addresses_and_sizes:
            _check_states(tensors, device)
            rows = [(*(x.data_ptr() for x in tensor_tuple), tensor_tuple[0].numel()) for tensor_tuple in tensors]
            tables = _build_tables(rows, dtype, device)
            self._tables_by_key[key] = addresses_and_sizes, tables
        for table in tables:
            table.launch(None, dtype, maximize, scalars)

    def state_dict(self):
        "Return options and states in torch's format, in which each parameter has its own step counter"
        result = super().state_dict()
        result['state'] = {i: {**state, 'step': state['step'].clone()} for i, state in result['state'].items()}
        return result

    def load_state_dict(self, state_dict):
        "Copy options and states from a `state_dict` of this optimizer or of torch's AdamW"
        for group in state_dict['param_groups']:
            _check_group(group)
        super().load_state_dict(state_dict)
        self._tables_by_key = {}
        saved_indices = [i for group in state_dict['param_groups'] for i in group['params']]
        for i, p in zip(saved_indices, (p for group in self.param_groups for p in group['params'])):
            if i in state_dict['state']:
                self._copy_state(p, state_dict['state'][i])

    def _copy_state(self, p, saved):
        "Copy the saved state of a parameter, without the conversion to the parameter's dtype that torch does"
        state = self.state[p]
        state['step'] = torch.tensor(float(saved['step']))
        for name in _STATES:
            state[name] = torch.zeros_like(p, dtype=torch.float32).copy_(saved[name])
