"""Launch the product's kernel: for which operands there is one, and its prepared launch, cached per problem."""

from functools import lru_cache

import torch

from .calls import GemmProblem, choose, is_staged, product_call, sum_rows
from .sources import HALVES
from ..ladder.rung import this_device, on_hopper
from ..sparse.launches import launch_on, ready
from ..tool import type_of


def why_not(dtype, layout, h, w, k):  # None if there is one
    "The reason why the kernel cannot multiply matrices of this type and these sizes, in a few words"
    if dtype not in HALVES:
        return f'the kernel multiplies {" and ".join(HALVES)}, and these are {dtype}'
    if min(h, w, k) < 1:
        return 'a size is 0'
    rows = dict(nn=(k, w), tn=(h, w), nt=(k, w))[layout]
    if bad := [row for row in rows if row % 8]:
        return f'rows must have whole 16 bytes, 8 {dtype}s, and some have {bad[0]} elements'


def why_not_here(x):  # None if it does
    "The reason why the kernel does not run where `x` is; on the emulator it runs within `using`"
    if x.is_cuda and not on_hopper():
        return 'the kernel is made for Hopper (compute capability 9.0), and this is another GPU'


def lying(a, b):
    "(layout, operands as their memory has them) of two matrices, or batches of them; None if no kernel reads them so"
    if a.is_contiguous() and b.is_contiguous():
        return 'nn', a, b
    if a.mT.is_contiguous() and b.is_contiguous():
        return 'tn', a.mT, b
    if a.is_contiguous() and b.mT.is_contiguous():
        return 'nt', a, b.mT


def plan_for(a, b):  # tensors of two axes, or both of three
    "(layout, m, n) for a kernel, or a sentence that says why there is none"
    h, w, k = a.shape[-2], b.shape[-1], a.shape[-1]
    operands = lying(a, b)
    if operands is None:
        return 'no kernel reads the memory layout of an operand'
    if why := why_not(type_of(a), operands[0], h, w, k) or why_not_here(a):
        return why
    if (a.data_ptr() | b.data_ptr()) & 15:
        return 'an operand begins at an address that is not a multiple of 16'
    return operands


@lru_cache(1024)
def _ready(case, scale, tile, device, backend):
    "The prepared launch of a problem on a device"
    return ready(*product_call(case, scale, this_device(), tile), device)


def _three(x):
    return x if x.dim() == 3 else x[None]


def run(
    m,  # as memory has it: (h, k), or (k, h) where the layout has a t; or a batch of these
    n,
    out=None,  # written instead of a new tensor: of the same type, or float32
    layout='nn',  # 'tn', 'nt': memory holds the transpose of m, of n
    *,
    ends=None,  # of the groups of rows of m; n has one matrix per group
    bias=None,  # (w,)
    activation=None,  # as `activation_text` takes it
    times=None,  # like out: the result is multiplied by it
    plus=None,  # like out: added
    saved=None,  # like out: what the activation is given is written there
    act_grad=None,  # instead: the gradient of the activation there
    summed=False,  # are columns added up: of the result if it was multiplied, else of `plus`?
    onto=False,  # is the result added to what a float32 `out` holds?
    scale=1.0,  # of the product
    tile=None,  # that of `calls.choose`
):  # the result, and with `summed` partial column sums, (any, w) in float32
    "Launch the kernel for operands that are known to fit"
    mm, nn = _three(m), _three(n)
    (h, k), w = (mm.shape[1:] if layout[0] == 'n' else mm.shape[:0:-1]), nn.shape[2 if layout[1] == 'n' else 1]
    if out is None:
        out = m.new_empty((nn.shape[0], h, w) if m.dim() == 3 else (h, w))
    case = GemmProblem(
        type_of(m),
        type_of(out),
        layout,
        nn.shape[0],
        h,
        w,
        k,
        ends is not None,
        bias is not None,
        activation,
        times is not None,
        plus is not None,
        'input' if saved is not None else 'grad' if act_grad is not None else '',
        summed,
        onto,
    )
    tile = tile or choose(case, this_device().sms)
    sums = torch.empty(sum_rows(case, tile) if summed else 0, w, dtype=torch.float32, device=m.device)
    kept = saved if act_grad is None else act_grad
    maps = [_three(o) for o in (out, out if kept is None else kept)] if is_staged(case) else [mm, mm]
    given = out, *(m if o is None else o for o in (kept, bias, plus if times is None else times)), sums
    ends = out.view(torch.int32) if ends is None else ends  # any address: it is not read
    launch_on(_ready, (case, float(scale), tile), m, (mm, nn, *maps, *given, ends))
    return (out, sums) if summed else out
