"""`AdamW`, an optimizer of torch whose step is one launch for all tensors of a kind.

A parameter of float32 takes 28 bytes: itself, its gradient and two states are read, all but the gradient written. So
the step is as fast as the memory, if the launch has work for the whole GPU: a table says where the tensors are, and
each block looks up which chunk of which tensor it has.
"""

from functools import lru_cache
from itertools import accumulate, chain

import torch

from .sources import SIZES, whole
from ..ladder.launches import Launcher
from ..ladder.rung import KernelLaunch, compiled
from ..tool import LOAD
from ...cpp.driver import current_stream
from ...utils import backend, cdiv

TYPES = 'float32', 'bfloat16', 'float16'
THREADS = 512
_STATES = 'exp_avg', 'exp_avg_sq'  # as torch's AdamW calls them


# What is launched
@lru_cache(1024)
def adamw_call(dtype, v, maximize, blocks) -> KernelLaunch:
    "The launch of one step for tensors of a type in so many chunks, `v` elements per load"
    constants = ('V', v), ('THREADS', THREADS), ('MAXIMIZE', maximize)
    arrays, scalars = ('memory', 'table', 'chunks'), (0.0,) * len(SCALARS)
    return KernelLaunch(whole(('adamw',), dtype, constants), 'adamw', arrays, scalars, (blocks,), (THREADS,))


SCALARS = 'decay', 'one_minus_beta1', 'one_minus_beta2', 'rate', 'root', 'eps'  # as the kernel names them


def scalars_of(lr, betas, eps, weight_decay, n) -> tuple:  # n: the number of the step, from 1
    "The scalar arguments of the kernel: the `SCALARS` of a step"
    beta1, beta2 = betas
    factors = lr * weight_decay, 1 - beta1, 1 - beta2
    return *factors, lr / (1 - beta1**n), (1 - beta2**n) ** 0.5, eps


class _Step(Launcher):
    "A launch whose scalars differ each time: they are passed after the arrays"

    def __init__(self, call):
        self.arrays = len(call.arrays)
        scalars = call.scalars if backend() == 'gpu' else ()
        super().__init__(compiled(call.src, call.name, backend()), self.arrays, scalars, call.grid, call.block)

    def parameters(self):
        return [*super().parameters()[: self.arrays], *((value._type_,) for value in self.values)]

    def put(self, given):
        super().put(given[: self.arrays])
        for slot, x in zip(self.values, given[self.arrays :]):
            slot.value = x


@lru_cache(1024)
def _ready(call, device, backend):
    return _Step(call)


@lru_cache(64)
def _chunks(sizes, chunk, device):
    "(tensor, index of the chunk) per block"
    counts = torch.tensor([cdiv(n, chunk) for n in sizes])
    tensor = torch.repeat_interleave(torch.arange(len(sizes)), counts)
    number = torch.arange(len(tensor)) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    return torch.stack((tensor, number), 1).int().to(device)


class _Table:
    "The table of addresses of some tensors of a type, for one launch"

    def __init__(self, rows, v, device):  # rows: (addresses of parameter, gradient and states, size) of each tensor
        self.v, chunk = v, v * THREADS
        table = torch.tensor(rows)
        if device.type == 'cuda':  # the copy is queued after the reads of the old table, so no wait is needed
            table = table.pin_memory()
        self.table = table.to(device, non_blocking=True)
        self.chunks = _chunks(tuple(r[-1] for r in rows), chunk, device)

    def launch(self, memory, dtype, maximize, scalars):
        call = adamw_call(dtype, self.v, maximize, len(self.chunks))
        arrays = memory, self.table, self.chunks
        if memory is not None:
            return _ready(call, None, 'sim')([*arrays, *scalars])
        device = self.table.get_device()
        with torch.cuda.device(device):
            stream = current_stream(device)
            _ready(call, device, 'gpu')([0, self.table.data_ptr(), self.chunks.data_ptr(), *scalars], stream)


def _tables(rows, dtype, device):
    "A `_Table` of the tensors whose elements can be loaded by fours, and one of the others"
    odd = [r for r in rows if (r[0] | r[1]) % (4 * SIZES[dtype]) or (r[2] | r[3]) % LOAD]
    even = [r for r in rows if r not in odd] if odd else rows
    return [_Table(o, v, device) for o, v in ((even, 4), (odd, 1)) if o]


# The emulator knows only of what it is given, so there the tensors go to it as one.
def _flat(x):
    "All elements of a tensor that has no gaps, in memory order"
    return x.detach().as_strided((x.numel(),), (1,)).view(torch.uint8)


class _Together:
    "Copies of tensors in one, as the emulator's memory"

    def __init__(self, four):  # (parameter, gradient, states) of each
        self.four = four
        ends = list(accumulate(cdiv(x.nbytes, LOAD) * LOAD for xs in four for x in xs))
        begins = iter([0, *ends[:-1]])
        self.rows = [(*(next(begins) for _ in xs), xs[0].numel()) for xs in four]
        self.memory = torch.full((ends[-1],), 255, dtype=torch.uint8)  # NaN, where nothing is
        for x, state in self._states_of(range(4)):
            state.copy_(_flat(x))

    def _states_of(self, which):
        for xs, row in zip(self.four, self.rows):
            yield from ((xs[i], self.memory[row[i] : row[i] + xs[i].nbytes]) for i in which)

    def back(self):
        "Copy what was written to where it belongs"
        for x, state in self._states_of((0, 2, 3)):
            _flat(x).copy_(state)


# What is given
def _refuse(what, hint):
    raise ValueError(f'AdamW: {what}; {hint}')


_TORCHS = 'torch.optim.AdamW(..., fused=True) has it'


def _check_group(group):
    lr, betas = group['lr'], group['betas']
    if isinstance(lr, torch.Tensor):
        _refuse('lr is a tensor, and reading it would wait for the GPU', 'give a float, which a scheduler may change')
    for name, x in dict(lr=lr, eps=group['eps'], weight_decay=group['weight_decay']).items():
        if not 0 <= x < float('inf'):
            _refuse(f'{name} is {x}', 'it is a number of 0 or more')
    if not (isinstance(betas, (tuple, list)) and len(betas) == 2 and all(0 <= beta < 1 for beta in betas)):
        _refuse(f'betas are {betas}', 'they must be two floats from 0 to below 1')
    for name in ('amsgrad', 'capturable', 'differentiable'):
        if group.get(name):
            _refuse(f'{name} is not covered', _TORCHS if name != 'differentiable' else 'torch.optim.AdamW has it')
    if not group.get('decoupled_weight_decay', True):
        _refuse('these are the options of Adam, whose decay goes through the gradient', 'torch.optim.Adam has it')


def _check_param(p):
    if (name := str(p.dtype).removeprefix('torch.')) not in TYPES:
        raise TypeError(f'AdamW: a parameter is {name}, and it may be {", ".join(TYPES)}; {_TORCHS}')
    where = 'cuda' if backend() == 'gpu' else 'cpu'
    if p.device.type != where:
        _refuse(f'a parameter is on {p.device}, and kernels run on {where} here', f'move the model with .to({where!r})')
    if torch.empty_like(p).stride() != p.stride():
        _refuse(f'a parameter of shape {tuple(p.shape)} has gaps: its strides are {p.stride()}', 'use .contiguous()')


def _check_four(four, device):
    "Look again at what may have changed since the optimizer was made"
    for p, *others in four:
        _check_param(p)
        if any(x.device != device or x.shape != p.shape for x in others):
            _refuse(
                f'a parameter of shape {tuple(p.shape)} on {device} has other states', 'move a model before, not after'
            )


def _gradient(p):
    "The gradient of a parameter as the kernel needs it: with the strides of the parameter"
    g = p.grad
    if g.layout is not torch.strided:
        _refuse('a gradient is sparse', 'torch.optim.SparseAdam takes such, or give the embedding sparse=False')
    return g if g.stride() == p.stride() else torch.empty_like(p).copy_(g)


class AdamW(torch.optim.Optimizer):
    """Adam with decoupled weight decay, as `torch.optim.AdamW`, in one launch for all parameters of a group and type.

        AdamW(model.parameters(), lr=3e-4).step()

    Computed in float32. States are float32, for parameters of bfloat16 and float16, too, and are named as torch's: a
    `state_dict` of torch's AdamW can be loaded, and one of this by torch's. `lr` is a float, which may change between
    steps. Raises for what is not supported: amsgrad, capture in a CUDA graph, sparse gradients, complex elements, and a
    parameter that has gaps."""

    def __init__(
        self,
        params,  # tensors, named ones, or dicts of groups with options of their own
        lr=1e-3,
        betas=(0.9, 0.999),  # how much of the running means of gradients, and of their squares, each step keeps
        eps=1e-8,  # added to the root of the second
        weight_decay=1e-2,  # times lr: what each step takes off the parameters
        amsgrad=False,  # refused: for those who come from torch
        *,
        maximize=False,  # go up the gradient?
    ):
        options = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize)
        self._known = {}
        super().__init__(params, options)

    def add_param_group(self, param_group):
        "Add parameters with options of their own, as for torch's optimizers"
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
        self._known = {}

    @torch.no_grad()
    def step(self, closure=None):
        "One step along the gradients; `closure` computes the loss again, and is what comes back"
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for i, group in enumerate(self.param_groups):
            _check_group(group)
            for j, ((dtype, device, steps), both) in enumerate(self._alike(group).items()):
                self._step(group, (i, j), dtype, device, steps + 1, both)
        return loss

    def _alike(self, group):
        "{(type, device, steps until now): (parameter, state) of those that have a gradient}"
        res, counts = {}, {}
        for p in group['params']:
            if p.grad is None:
                continue
            state = self.state[p]
            if not state:
                self._begin(p, state)
            count = state['step']
            if id(count) not in counts:  # most share one, and reading it takes a while
                counts[id(count)] = int(count)
            res.setdefault((p.dtype, p.device, counts[id(count)]), []).append((p, state))
        return res

    def _begin(self, p, state):
        state['step'] = torch.tensor(0.0)
        state.update({o: torch.zeros_like(p, dtype=torch.float32) for o in _STATES})

    def _step(self, group, key, dtype, device, n, both):
        four = [(p, _gradient(p), *(state[o] for o in _STATES)) for p, state in both if p.numel()]
        scalars = scalars_of(*(group[o] for o in ('lr', 'betas', 'eps', 'weight_decay')), n)
        if four:
            self._launch(four, key, str(dtype).removeprefix('torch.'), device, bool(group['maximize']), scalars)
        count = torch.tensor(float(n))
        for _, state in both:
            state['step'] = count

    def _launch(self, four, key, dtype, device, maximize, scalars):
        "Launch the step for (parameter, gradient, states) of each"
        if device.type != 'cuda':
            _check_four(four, device)
            together = _Together(four)
            for o in _tables(together.rows, dtype, device):
                o.launch(together.memory, dtype, maximize, scalars)
            return together.back()
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError(f'AdamW: a CUDA graph would repeat the factors of one step; {_TORCHS}: capturable=True')
        # What may change from step to step without notice: the addresses of gradients, and all that got new memory
        now = [*map(torch.Tensor.data_ptr, chain.from_iterable(four)), *(xs[0].numel() for xs in four)]
        known, tables = self._known.get(key, (None, None))
        if known != now:
            _check_four(four, device)
            tables = _tables([(*(x.data_ptr() for x in xs), xs[0].numel()) for xs in four], dtype, device)
            self._known[key] = now, tables
        for o in tables:
            o.launch(None, dtype, maximize, scalars)

    def state_dict(self):
        "Options and states, as torch's; each parameter with a count of its own, to which torch's steps add"
        res = super().state_dict()
        res['state'] = {i: {**o, 'step': o['step'].clone()} for i, o in res['state'].items()}
        return res

    def load_state_dict(self, state_dict):
        "Take over the options and states of another, or of torch's AdamW; they are copied"
        for group in state_dict['param_groups']:
            _check_group(group)
        super().load_state_dict(state_dict)
        self._known = {}
        given = [i for g in state_dict['param_groups'] for i in g['params']]
        for i, p in zip(given, (p for g in self.param_groups for p in g['params'])):
            if i in state_dict['state']:
                self._copy_state(p, state_dict['state'][i])

    def _copy_state(self, p, given):  # what torch has made of the states is of the type of the parameter
        state = self.state[p]
        state['step'] = torch.tensor(float(given['step']))
        for o in _STATES:
            state[o] = torch.zeros_like(p, dtype=torch.float32).copy_(given[o])
