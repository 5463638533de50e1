"""`AdamW`, a torch optimizer whose step is one launch for all tensors of a dtype.

A step moves 28 bytes per float32 parameter: it reads the parameter, its gradient and two states, and writes all of them
but the gradient. The step reaches the DRAM bandwidth only if a launch has enough work for the whole GPU. Therefore one
launch updates all tensors: one table lists the addresses of the tensors, and another one the tensor and the chunk of
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
def adamw_launch(dtype, vec_size, maximize, blocks) -> KernelLaunch:
    "Return the launch of one step for tensors of a dtype in `blocks` chunks, with `vec_size` elements per load"
    constants = ('VEC', vec_size), ('THREADS', THREADS), ('MAXIMIZE', maximize)
    arrays, scalars = ('memory', 'table', 'chunks'), (0.0,) * len(SCALARS)
    return KernelLaunch(kernel_source(('adamw',), dtype, constants), 'adamw', arrays, scalars, (blocks,), (THREADS,))


# the names of the kernel's scalar arguments
SCALARS = 'decay', 'one_minus_beta1', 'one_minus_beta2', 'step_size', 'bias_correction2_sqrt', 'eps'


def compute_scalars(lr, betas, eps, weight_decay, step) -> tuple:  # steps count from 1
    "Compute the values of `SCALARS` for a step"
    beta1, beta2 = betas
    factors = lr * weight_decay, 1 - beta1, 1 - beta2
    return *factors, lr / (1 - beta1**step), (1 - beta2**step) ** 0.5, eps


class _StepLauncher(Launcher):
    "A launcher that takes the scalars after the arrays, because they change with each step"

    def __init__(self, kernel_launch):
        self.num_arrays = len(kernel_launch.arrays)
        scalars = kernel_launch.scalars if backend() == 'gpu' else ()
        super().__init__(
            compile_kernel(kernel_launch.src, kernel_launch.name, backend()),
            self.num_arrays,
            scalars,
            kernel_launch.grid,
            kernel_launch.block,
        )

    def parameters(self):
        return [*super().parameters()[: self.num_arrays], *((value._type_,) for value in self.scalar_values)]

    def bind_arrays(self, arguments):
        super().bind_arrays(arguments[: self.num_arrays])
        for slot, value in zip(self.scalar_values, arguments[self.num_arrays :]):
            slot.value = value


@lru_cache(1024)
def _launcher(kernel_launch, device, backend):  # `device` and `backend` are only part of the cache key
    return _StepLauncher(kernel_launch)


@lru_cache(64)
def _chunk_table(sizes, chunk_size, device):
    "Return an int32 tensor (blocks, 2): the index of each block's tensor, and of its chunk in that tensor"
    counts = torch.tensor([cdiv(size, chunk_size) for size in sizes])
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
        kernel_launch = adamw_launch(dtype, self.vec_size, maximize, len(self.chunks))
        arrays = memory, self.table, self.chunks
        if memory is not None:
            return _launcher(kernel_launch, None, 'sim')([*arrays, *scalars])
        device = self.table.get_device()
        with torch.cuda.device(device):
            stream = current_stream(device)
            _launcher(kernel_launch, device, 'gpu')(
                [0, self.table.data_ptr(), self.chunks.data_ptr(), *scalars], stream
            )


def _build_tables(rows, dtype, device):
    "Return one `_AddressTable` for the tensors whose alignment allows loads of four elements, and one for the others"
    param_bytes = 4 * DTYPE_BYTES[dtype]
    unaligned_rows = [row for row in rows if (row[0] | row[1]) % param_bytes or (row[2] | row[3]) % MAX_LOAD_BYTES]
    aligned_rows = [row for row in rows if row not in unaligned_rows] if unaligned_rows else rows
    rows_and_widths = (aligned_rows, 4), (unaligned_rows, 1)  # rows, elements per load
    return [_AddressTable(table_rows, vec_size, device) for table_rows, vec_size in rows_and_widths if table_rows]


# The emulator reports accesses to memory that is not an argument of the kernel, so all tensors are copied into one
# array, and the table has offsets in this array instead of addresses.
def _bytes_of(tensor):
    "Return a view of the bytes of a tensor in memory order; the tensor must have no gaps"
    return tensor.detach().as_strided((tensor.numel(),), (1,)).view(torch.uint8)


class _EmulatorMemory:
    "One array with copies of all tensors, for the emulator"

    def __init__(self, tensors):  # tuples of a parameter, its gradient and its two states
        self.tensors = tensors
        padded_bytes = (cdiv(tensor.nbytes, MAX_LOAD_BYTES) * MAX_LOAD_BYTES for tensor in chain.from_iterable(tensors))
        ends = list(accumulate(padded_bytes))
        starts = iter([0, *ends[:-1]])
        self.rows = [(*(next(starts) for _ in tensor_tuple), tensor_tuple[0].numel()) for tensor_tuple in tensors]
        self.memory = torch.full((ends[-1],), 255, dtype=torch.uint8)  # NaN in the gaps
        for tensor, view in self._views_of(range(4)):
            view.copy_(_bytes_of(tensor))

    def _views_of(self, indices):
        "Yield (tensor, view of its copy) for these indices of each tuple of tensors"
        for tensor_tuple, row in zip(self.tensors, self.rows):
            for index in indices:
                yield tensor_tuple[index], self.memory[row[index] : row[index] + tensor_tuple[index].nbytes]

    def copy_back(self):
        "Copy parameters and states back to their tensors"
        for tensor, view in self._views_of((0, 2, 3)):
            _bytes_of(tensor).copy_(view)


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
    for name, value in dict(lr=lr, eps=group['eps'], weight_decay=group['weight_decay']).items():
        if not 0 <= value < float('inf'):
            _raise_value_error(f'{name} is {value}', 'expected a finite value of at least 0')
    if not (isinstance(betas, (tuple, list)) and len(betas) == 2 and all(0 <= beta < 1 for beta in betas)):
        _raise_value_error(f'betas are {betas}', 'expected two floats from 0 to below 1')
    for name in ('amsgrad', 'capturable', 'differentiable'):
        if group.get(name):
            _raise_value_error(
                f'{name} is not supported', _USE_TORCH if name != 'differentiable' else 'torch.optim.AdamW supports it'
            )
    if not group.get('decoupled_weight_decay', True):
        _raise_value_error('decoupled_weight_decay=False is not supported, because it is Adam', 'use torch.optim.Adam')


def _check_param(param):
    "Raise `TypeError` or `ValueError` unless the kernel supports a parameter"
    if (name := str(param.dtype).removeprefix('torch.')) not in DTYPES:
        raise TypeError(f'AdamW: a parameter is {name}; expected one of {", ".join(DTYPES)}; {_USE_TORCH}')
    device_type = 'cuda' if backend() == 'gpu' else 'cpu'
    if param.device.type != device_type:
        _raise_value_error(
            f'a parameter is on {param.device}, but kernels run on {device_type} here',
            f'move the model with .to({device_type!r})',
        )
    if torch.empty_like(param).stride() != param.stride():
        _raise_value_error(
            f'a parameter of shape {tuple(param.shape)} has gaps: its strides are {param.stride()}', 'use .contiguous()'
        )


def _check_states(tensors, device):
    "Raise `TypeError` or `ValueError` if a parameter or state no longer has the right dtype, device or shape"
    for param, *grad_and_states in tensors:
        _check_param(param)
        if any(tensor.device != device or tensor.shape != param.shape for tensor in grad_and_states):
            _raise_value_error(
                f'a parameter of shape {tuple(param.shape)} on {device} does not match its states',
                'move a model before you create its optimizer',
            )


def _gradient(param):
    "Return the gradient of a parameter with the strides of the parameter, as the kernel needs it"
    grad = param.grad
    if grad.layout is not torch.strided:
        _raise_value_error(
            'a gradient is sparse', 'torch.optim.SparseAdam supports it; or create the embedding with sparse=False'
        )
    return grad if grad.stride() == param.stride() else torch.empty_like(param).copy_(grad)


class AdamW(torch.optim.Optimizer):
    """Adam with decoupled weight decay, like `torch.optim.AdamW`; one launch updates a group's parameters of a dtype.

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
            for param in self.param_groups[-1]['params']:
                _check_param(param)
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
        "Group the parameters that have a gradient: (dtype, device, steps done) -> [(parameter, state)]"
        params_by_step, steps_of_counter = {}, {}
        for param in group['params']:
            if param.grad is None:
                continue
            state = self.state[param]
            if not state:
                self._init_state(param, state)
            step_counter = state['step']
            # Most parameters share one counter, and reading a tensor is slow.
            if id(step_counter) not in steps_of_counter:
                steps_of_counter[id(step_counter)] = int(step_counter)
            key = param.dtype, param.device, steps_of_counter[id(step_counter)]
            params_by_step.setdefault(key, []).append((param, state))
        return params_by_step

    def _init_state(self, param, state):
        "Create the states of a parameter"
        state['step'] = torch.tensor(0.0)
        state.update({name: torch.zeros_like(param, dtype=torch.float32) for name in _STATES})

    def _step(self, group, key, dtype, device, step, params):
        "Run one step for parameters of one dtype and device; `key`: the key of their tables"
        tensors = [
            (param, _gradient(param), *(state[name] for name in _STATES)) for param, state in params if param.numel()
        ]
        scalars = compute_scalars(*(group[name] for name in ('lr', 'betas', 'eps', 'weight_decay')), step)
        if tensors:
            self._launch(tensors, key, str(dtype).removeprefix('torch.'), device, bool(group['maximize']), scalars)
        step_counter = torch.tensor(float(step))
        for _, state in params:
            state['step'] = step_counter

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
        addresses_and_sizes = [*addresses, *(param.numel() for param, *_ in tensors)]
        cached_addresses, tables = self._tables_by_key.get(key, (None, None))
        if cached_addresses != addresses_and_sizes:
            _check_states(tensors, device)
            rows = [
                (*(tensor.data_ptr() for tensor in tensor_tuple), tensor_tuple[0].numel()) for tensor_tuple in tensors
            ]
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
        for i, param in zip(saved_indices, (param for group in self.param_groups for param in group['params'])):
            if i in state_dict['state']:
                self._copy_state(param, state_dict['state'][i])

    def _copy_state(self, param, saved_state):
        "Copy the saved state of a parameter, without the conversion to the parameter's dtype that torch does"
        state = self.state[param]
        state['step'] = torch.tensor(float(saved_state['step']))
        for name in _STATES:
            state[name] = torch.zeros_like(param, dtype=torch.float32).copy_(saved_state[name])
