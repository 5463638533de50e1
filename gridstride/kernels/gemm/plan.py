"""Which kernel multiplies two matrices, or that torch does, and why."""

from collections import namedtuple
from contextlib import contextmanager
from functools import lru_cache, partial
from math import prod

from . import cost_model, tuning_cache, bf16x6
from ...cpp.launcher import torch_has
from ...utils import backend, gpu_count


# Per type and layout one function knows the kernels, and which of them is the fastest for a shape: large tiles if there
# is work for every SM, smaller ones or split-K if there is not. Called with (h, w, k, sms), it returns the kernel, or a
# sentence with the reason why it has none. A plan is made once per shape, and cached.
CHOOSE = {
    ('float32', 'nn'): bf16x6.choose,
    ('float32', 'tn'): bf16x6.choose_tn,  # the first matrix is column-major, a transpose
    ('float32', 'nt'): bf16x6.choose_nt,  # the second one does
}
_HALVES = [(dtype, layout) for dtype in ('bfloat16', 'float16') for layout in ('nn', 'tn', 'nt')]
CHOOSE |= {kind: partial(cost_model.choose, dtype=kind[0], layout=kind[1]) for kind in _HALVES}
# called with (h, w, k, sms, n): the `n` that `tune` shall measure
RANKED = {kind: partial(cost_model.ranked, dtype=kind[0], layout=kind[1]) for kind in _HALVES}
TYPES = list(dict.fromkeys(dtype for dtype, _ in CHOOSE))
KEPT, EVERY = 4096, 1000  # cached plans; more kernels than there are for any shape
MEASURED = 0.05  # seconds per column and kernel that `tune` measures


class Plan(namedtuple('Plan', 'kernel why')):
    "The kernel that multiplies, None if torch does, and why"

    __slots__ = ()

    def __repr__(self):
        return f"{self.kernel.name if self.kernel else 'torch.matmul'}: {self.why}"


_used = []  # kernels that `using` gave
_plans, _tuned = {}, {}  # plans by shape, type and device; those that `tune` measured
forgetting = []  # functions that forget what others keep of plans


def _forget():
    for o in (_plans.clear, *forgetting):
        o()


@contextmanager
def using(
    *kernels,
):  # such as rungs: called with (m, n, out), with a `name`, and `supports(h, w, k)` if they do not take all
    "Inside the `with` block, `matmul` takes the first of these kernels that can, on the emulator too, and no other"
    before = list(_used)
    _used[:] = kernels
    _forget()
    try:
        yield
    finally:
        _used[:] = before
        _forget()


def _fits(kernel, h, w, k, dtype):
    return getattr(kernel, 'dtype', 'float32') == dtype and getattr(kernel, 'supports', lambda *_: True)(h, w, k)


def _layout(kernel):
    return getattr(kernel, 'layout', 'nn')


def _kernels_given(h, w, k, dtype, layout):
    return [o for o in _used if layout == _layout(o) and _fits(o, h, w, k, dtype)]


@lru_cache
def _gpu(device):
    "(compute capability, SMs) of a GPU"
    import torch

    p = torch.cuda.get_device_properties(device)
    return (p.major, p.minor), p.multi_processor_count


def _make_plan(h, w, k, dtype, device, layout):
    if min(h, w, k) < 1:
        return Plan(None, 'a size is 0')
    if _used:
        asked = _kernels_given(h, w, k, dtype, layout)
        return (
            Plan(asked[0], 'asked for by `using`')
            if asked
            else Plan(None, 'no kernel given to `using` takes this shape and type')
        )
    if device is None:
        return Plan(None, 'it is not on a GPU')
    if dtype not in TYPES:
        return Plan(None, f'there is no kernel for {dtype}')
    capability, sms = _gpu(device)
    if capability != (9, 0):
        has = '.'.join(map(str, capability))
        return Plan(None, f'the kernels are made for Hopper (compute capability 9.0), and this GPU has {has}')
    choose = CHOOSE.get((dtype, layout))
    kernel = choose(h, w, k, sms) if choose else f'no kernel reads {layout}'
    if isinstance(kernel, str):
        return Plan(None, kernel)
    return (
        Plan(kernel, 'by estimate the fastest kernel for this shape')
        if _fits(kernel, h, w, k, dtype)
        else Plan(None, f'{kernel.name} does not take this shape')
    )


def plan(
    h,
    w,
    k,  # of h x k @ k x w
    dtype='float32',  # its name, or torch's
    device=None,  # index of the GPU; None: the current one, if there is one
    layout='nn',  # 'tn': the first matrix is column-major, a transpose; 'nt': the second is
) -> Plan:
    "Which kernel multiplies such matrices, and why"
    if device is None and gpu_count() and backend() == 'gpu':
        import torch

        device = torch.cuda.current_device()
    return _plan(h, w, k, str(dtype).removeprefix('torch.'), device, layout)


def _plan(h, w, k, dtype, device, layout='nn'):
    key = (h, w, k, dtype, device, layout)
    if key not in _plans:
        if len(_plans) >= KEPT:
            _plans.clear()
        _plans[key] = not _used and _measured_plan(*key) or _make_plan(*key)
    return _plans[key]


def _measured_plan(*key):
    "What `tune` measured, in this process or in one before it; None if it did not"
    if key in _tuned or key[4] is None or (key[3], key[5]) not in RANKED:
        return _tuned.get(key)
    found = tuning_cache.find(*key)
    known = _candidates(*key, EVERY) if found else []
    kernel = next((o for o in known if o.name == found.name and tuning_cache.identity(o) == found.source), None)
    if kernel and _fits(kernel, *key[:4]):
        _tuned[key] = Plan(kernel, f'the fastest of {found.of} that were measured on {found.date}')
    return _tuned.get(key)


# Most kernels take two row-major matrices. An operand that is a transpose, as both gradients have one, goes to a kernel
# that reads this layout, if there is one; else it is copied, if the copy takes no more than a tenth of the product;
# else torch multiplies, whose kernels read either layout. Leading axes of
# `a` are rows as well. All else is torch's: vectors, batches on both sides, other types, other devices,
# autocast, TF32 if it is allowed, what `torch.compile` traces.
#
# Bytes and operations a second, as measured on an H100: what torch's copy of a transpose costs compared with the
# product.
COPY, RATES = 6e11, dict(float32=5e13, bfloat16=7e14, float16=7e14)

_NAMES = {}  # torch's types -> names, filled when torch is here


@lru_cache
def _torch():
    import torch

    _NAMES.update({getattr(torch, o): o for o in TYPES})
    return torch


@lru_cache
def _plain():
    return _torch().Tensor, _torch().nn.Parameter


def why_torch(a, b):
    "Why these two cannot be given to a kernel at all; None if they can"
    import torch

    if torch.compiler.is_compiling():  # first: dynamo warns of each function with a cache that it comes by
        return 'torch.compile traces it'
    torch, plain = _torch(), _plain()
    if type(a) not in plain or type(b) not in plain:
        return 'an operand is not a plain tensor'
    if b.dim() != 2 or a.dim() < 2:
        return f'the operands have {a.dim()} and {b.dim()} axes'
    if a.dtype is not b.dtype:
        return 'the types differ'
    if a.shape[-1] != b.shape[0]:
        return 'the sizes do not fit'
    if a.device != b.device:
        return 'the operands are on different devices'
    if not a.is_cuda and not (_used and backend() == 'sim'):
        return 'it is not on a GPU'
    if torch.is_autocast_enabled(a.device.type):
        return 'autocast decides the type'
    if a.dtype is torch.float32 and a.is_cuda and tf32(torch.backends.cuda.matmul):
        return 'TF32 is allowed, and faster'
    if gone := _unknown_transforms():
        return f'torch {torch.__version__} has no torch.{gone}, which says whether torch.func transforms it'
    if _is_transformed(a) or _is_transformed(b) or torch.autograd.forward_ad._current_level >= 0:
        return 'torch.func transforms it'


def tf32(settings):
    "Return whether torch may use TF32"
    # Older versions have one name for the setting, newer ones two, of which the first may raise.
    precision = getattr(settings, 'fp32_precision', None)
    return settings.allow_tf32 if precision is None else precision == 'tf32'


@lru_cache
def _unknown_transforms():
    "The private name for transforms that a later torch has dropped; None if all are there"
    names = '_C._functorch.is_functorch_wrapped_tensor', 'autograd.forward_ad._current_level'
    return next((name for name in names if not torch_has(name)), None)


def _is_transformed(x):
    return _torch()._C._functorch.is_functorch_wrapped_tensor(x)


def _copy_pays(x, other, dtype):
    "Return whether it pays to copy the transpose `x`, which is multiplied with as many rows or columns as `other`"
    return 2 * x.element_size() / COPY <= 0.1 * 2 * other / RATES[dtype] if dtype in RATES else False


def _row_major(x, other):
    "`x` in row-major order, a copy if that pays; None if it does not"
    if x.is_contiguous():
        return x
    if x.dim() == 2 and x.t().is_contiguous() and (_used or _copy_pays(x, other, str(x.dtype)[6:])):
        return x.contiguous()


def _operands_in_memory(a, b):
    "(layout, operands as their memory has them) of two matrices of which at most one is a transpose, else None"
    transposed = [o.dim() == 2 and o.t().is_contiguous() and not o.is_contiguous() for o in (a, b)]
    if transposed == [True, False] and b.is_contiguous():
        return 'tn', a.t(), b
    if transposed == [False, True] and a.is_contiguous():
        return 'nt', a.view(-1, a.shape[-1]), b.t()


def _sizes_of(a, b):
    "(h, w, k, type, GPU)"
    k, w = b.shape
    h = a.shape[0] if a.dim() == 2 else a.numel() // k if k else 0
    return h, w, k, _NAMES.get(a.dtype) or str(a.dtype)[6:], a.get_device() if a.is_cuda else None


def _plan_for(a, b):
    """The plan for two operands that a kernel may take, and the operands as it takes them; None instead if they would
    have to be copied, and that takes too long"""
    h, w, k, dtype, device = _sizes_of(a, b)
    why = 'no kernel reads the memory layout of an operand'
    if not (a.is_contiguous() and b.is_contiguous()) and (transposed := _operands_in_memory(a, b)):
        layout, m, n = transposed
        p = _plan(h, w, k, dtype, device, layout)
        if p.kernel and _is_aligned(m, n):
            return p, m, n
        why = p.why
    p = _plan(h, w, k, dtype, device)
    if not p.kernel:
        return p, None, None
    m, n = _row_major(a, w), _row_major(b, h)
    if m is None or n is None or not _is_aligned(m, n):
        return Plan(None, why), None, None
    return p, m if m.dim() == 2 else m.view(h, k), n


def _is_aligned(m, n):
    return not (m.data_ptr() | n.data_ptr()) & 15


def explain(a, b) -> Plan:
    "What `matmul(a, b)` does, and why"
    why = why_torch(a, b)
    return Plan(None, why) if why else _plan_for(a, b)[0]


def multiply(
    a,
    b,
    out=None,
    keep=None,  # called with the operands, their kernel (None: torch is better), and the operands as it takes them
):
    "`a @ b` by a kernel or by torch, without a gradient"
    why = why_torch(a, b)
    p, m, n = (None, None, None) if why else _plan_for(a, b)
    if keep and m is None and not why:
        keep(a, b, None, None, None, out)
    if m is None or out is not None and not _can_take(out, a, b):
        return _torch().matmul(a, b) if out is None else _torch().matmul(a, b, out=out)
    if out is not None:
        p.kernel(m, n, out.view(-1, b.shape[1]))
    else:
        out = p.kernel(m, n).view(*a.shape[:-1], b.shape[1])
    if keep:
        keep(a, b, p.kernel, m, n, out)
    return out


def _can_take(out, a, b):
    return (
        out.shape == (*a.shape[:-1], b.shape[1])
        and out.dtype is a.dtype
        and out.device == a.device
        and out.is_contiguous()
        and not out.data_ptr() & 15
    )


# An estimate is not a measurement, and for many shapes several kernels are close to each other. For a shape that is
# used often, `tune` measures them once: the kernels that `using` gave, else those of `RANKED`. Measurements of the
# latter are kept on disk for later processes.
def tune(
    a,
    b,  # as for `matmul`
    tries=6,  # how many kernels to measure, beginning with the shortest estimate; all that `using` gave
    fresh=False,  # measure again, even if there is a cached measurement?
) -> Plan:  # what `matmul` does with such operands from now on, in all processes or within `using`
    """Measure the kernels that take `a` and `b`, and let `matmul` take the fastest for their shape and type. It takes
    some seconds if there are several, as for 16-bit floats; each is timed with a cold L2 cache and in a CUDA graph.

        tune(a, b)

    The result is kept in the user's cache for this GPU, driver and version, and not measured again; `python -m
    gridstride.kernels tuned` lists what is kept, `python -m gridstride.kernels forget` deletes it."""
    why = why_torch(a, b)
    p, m, n = (Plan(None, why), None, None) if why else _plan_for(a, b)
    if not p.kernel:
        return p
    key = (*_sizes_of(a, b), _layout(p.kernel))
    if not (fresh or _used) and (known := _measured_plan(*key)):
        return known
    kernels = _candidates(*key, tries)
    if len(kernels) < 2:
        return p
    best = _fastest(kernels, m, n, key)
    _forget()
    _plans[key] = Plan(best, f'the fastest of {len(kernels)} that were measured')
    if not _used:
        _tuned[key] = _plans[key]
        tuning_cache.keep(best, len(kernels), *key)
    return _plans[key]


def _fastest(kernels, m, n, key):
    "The kernel with the least geometric mean of medians, with a cold L2 cache and in a graph, runs interleaved"
    from gridstride.bench.clocks import Clock
    from gridstride.bench.columns import COLUMNS, by_column

    out = m.new_empty(key[:2])
    ways = {i: lambda o=o: o(m, n, out) for i, o in enumerate(kernels)}
    for f in ways.values():  # compiled before any is timed; what fails is raised
        f()
    columns = {o: COLUMNS[o] for o in ('read', 'graph')} if m.is_cuda else dict(none=Clock)
    found = by_column(ways, MEASURED, columns=columns).values()
    timed = [o['sides'] for o in found if 'sides' in o]
    if not timed:
        raise RuntimeError('; '.join(o['failed'] for o in found))
    return kernels[min(ways, key=lambda i: prod(o[i]['seconds'] for o in timed))]


def _candidates(h, w, k, dtype, device, layout, tries):
    if _used:
        return _kernels_given(h, w, k, dtype, layout)
    ranked = RANKED.get((dtype, layout))
    return ranked(h, w, k, _gpu(device)[1], tries) if ranked else []
