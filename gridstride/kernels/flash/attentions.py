"""`attention` as torch knows it: checked, launched by the kernel that is right for the GPU, differentiable."""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch.autograd.function import once_differentiable
from torch.nn.functional import scaled_dot_product_attention

from . import calls
from .calls import DIMS, Case
from .launches import launch_mapped
from ..operators import constant, operator
from ..ladder.rung import here
from ..tool import check_tensor, launch
from ...utils import backend

_TYPES = 'bfloat16', 'float16', 'float32', 'float64'


class Way(NamedTuple):
    "Who computes attention, and why not a kernel of ours"

    name: str  # 'hopper', 'mma.sync' or 'sdpa'
    why: str = ''


# They ask the driver, which cannot be traced: for `torch.compile` the answers are constants.
@constant
def _has_hopper():
    return here().hopper


@constant
def _has_ampere():
    return backend() != 'gpu' or torch.cuda.get_device_capability() >= (8, 0)


def _way(q):
    "The `Way` for rows like q"
    if q.dtype != torch.bfloat16:
        return Way('sdpa', f'our kernels multiply bfloat16, and this is {str(q.dtype)[6:]}')
    if q.shape[-1] not in DIMS:
        return Way('sdpa', f'our kernels have heads of {", ".join(map(str, DIMS))} numbers, and this has {q.shape[-1]}')
    if _has_hopper():
        return Way('hopper')
    if q.shape[-1] > 128:
        return Way('sdpa', 'heads of more than 128 numbers need a Hopper GPU here')
    if not _has_ampere():
        return Way('sdpa', 'mma.sync of bfloat16 needs an Ampere GPU')
    return Way('mma.sync')


def _check(q, k, v):
    "Raise unless the shapes of q, k and v fit, and they lie where kernels run"
    for name, x in dict(q=q, k=k, v=v).items():
        if not torch.compiler.is_compiling():
            check_tensor('attention', x[..., :0].contiguous() if hasattr(x, 'data_ptr') else x, _TYPES, name)
        if x.dim() != 4:
            raise ValueError(f'attention: {name} has the shape {tuple(x.shape)}, and needs [batch, heads, rows, dim]')
        if x.dtype != q.dtype or x.device != q.device:
            where = f'{x.dtype} on {x.device}, and q is {q.dtype} on {q.device}'
            raise ValueError(f'attention: {name} is {where}; {name}.to(q) makes it the same')
    if k.shape != v.shape:
        raise ValueError(f'attention: k has the shape {tuple(k.shape)} and v {tuple(v.shape)}; they must be the same')
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(f'attention: q is {tuple(q.shape)} and k {tuple(k.shape)}; batch and dim must be the same')
    if not k.shape[1] or q.shape[1] % k.shape[1]:
        raise ValueError(f'attention: {q.shape[1]} heads of q cannot share {k.shape[1]} of k: no whole number of them')


def _scale(q, scale):
    "What scores are multiplied by"
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if isinstance(scale, str) or not 0 < float(scale) < math.inf:
        raise ValueError(
            f'attention: scale is {scale!r}, and it must be a number above 0: the highest score is sought unscaled'
        )
    return float(scale)


def _lens(q, k, lens):
    "Lengths as the kernels take them, int32 [2, batch]: of rows, then of keys"
    if lens is None:
        return None
    if not isinstance(lens, (tuple, list)):
        if q.shape[2] != k.shape[2]:
            raise ValueError('attention: q and k have different lengths; give lens as a pair (of rows, of keys)')
        lens = lens, lens
    if len(lens) != 2:
        raise ValueError(f'attention: lens has {len(lens)} items; give one tensor, or a pair (of rows, of keys)')
    for x in lens:
        if not hasattr(x, 'data_ptr') or x.is_floating_point() or x.shape != (q.shape[0],):
            raise ValueError(f'attention: lens needs {q.shape[0]} whole numbers in a tensor, one for each of the batch')
    return torch.stack([x.to(device=q.device, dtype=torch.int32) for x in lens])


def _window(window):
    if window is None:
        return 0
    if not isinstance(window, int) or window is True or window < 1:
        raise ValueError(f'attention: window is {window!r}, and it must be an integer from 1 on: keys nearer than that')
    return window


def _aligned(x):
    "x, where rows begin at multiples of 16 bytes and their numbers follow each other; else a copy"
    well = x.stride(3) == 1 and x.data_ptr() % 16 == 0 and all(s * x.element_size() % 16 == 0 for s in x.stride()[:3])
    return x if well else x.contiguous()


def _empty_out(q):
    "Room for the result, in the order of q; the emulator takes arrays in one order only"
    out = torch.empty_like(q)
    ordered = out.stride(3) == 1 and q.is_cuda
    return out if ordered else torch.empty_like(q, memory_format=torch.contiguous_format)


def _fake(q, k, v, *how):
    return _empty_out(q), q.new_empty(q.shape[:3], dtype=torch.float32)


def _case(q, k, causal, window, lens, bias):
    batch, heads, rows, dim = q.shape
    return Case(batch, heads, heads // k.shape[1], rows, k.shape[2], dim, causal, window, lens is not None, bias)


@operator(
    'attention(Tensor q, Tensor k, Tensor v, bool causal, float scale, int window, Tensor? lens, str bias) '
    '-> (Tensor, Tensor)',
    _fake,
)
def _attention(q, k, v, causal, scale, window, lens, bias):
    q, k, v = map(_aligned, (q, k, v))
    out, lse = _fake(q, k, v)
    if not q.numel() or not k.numel():
        return out.zero_(), lse.fill_(-math.inf)
    c, on = _case(q, k, causal, window, lens, bias), here()
    arrays = dict(q=q, k=k, v=v, out=out, lse=lse, lens=lse.view(torch.int32) if lens is None else lens)
    if on.hopper:
        call, boxes = calls.forward_hopper(c, scale, out.stride()[:3], on)
        launch_mapped(call, boxes, q, **arrays)
    else:
        if not q.is_cuda:
            q, k, v = (x.contiguous() for x in (q, k, v))
        strides = tuple(x.stride()[:3] for x in (q, k, v, out))
        launch([calls.forward_ampere(c, scale, strides)], **dict(arrays, q=q, k=k, v=v), x=q)
    return out, lse


def _looks(q, k, causal, window, lens):
    "Which row looks at which key, as a mask for SDPA; None: each at all"
    if not (causal or window or lens is not None):
        return None
    i, j = (torch.arange(x.shape[2], device=q.device) for x in (q, k))
    i = i[:, None]
    mask = torch.ones(1, 1, q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
    if causal:
        mask = mask & (j <= i)
    if window:
        mask = mask & (j > i - window) & (j < i + window)
    if lens is not None:
        rows, keys = (x[:, None, None, None] for x in lens)
        mask = mask & (i < rows) & (j < keys)
    return mask


def _sdpa(q, k, v, causal, scale, window, lens):
    "The same by torch's own function; a row that looks at nothing gives 0"
    grouped = dict(enable_gqa=True) if q.shape[1] != k.shape[1] else {}
    if not window and lens is None:
        return scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, **grouped)
    mask = _looks(q, k, causal, window, lens)
    out = scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, **grouped)
    return torch.where(mask.any(-1, keepdim=True), out, 0)


@operator(
    'attention_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, bool causal, float scale, '
    'int window, Tensor? lens, str bias, str by) -> (Tensor, Tensor, Tensor)',
    lambda dout, q, k, v, *how: tuple(map(_empty_out, (q, k, v))),
)
def _attention_backward(dout, q, k, v, out, lse, causal, scale, window, lens, bias, by):
    heads = q.shape[0] * q.shape[1]
    fits = here().hopper and q.shape[3] < 256 and q.numel() and k.numel() and heads < 2**16  # of a grid's y
    if by == 'sdpa' or not fits:
        if bias or by == 'ordered':
            what = 'with a bias' if bias else 'deterministic'
            raise ValueError(f'attention: {what}, there are gradients for heads of 64 or 128, on a Hopper GPU')
        return _sdpa_backward(dout, q, k, v, causal, scale, window, lens)
    slopes = tuple(map(_empty_out, (q, k, v)))
    return _kernel_backward(dout, q, k, v, out, lse, causal, scale, window, lens, bias, by, slopes)


def _kernel_backward(dout, q, k, v, out, lse, causal, scale, window, lens, bias, by, slopes):
    "The gradients by our kernel, written to `slopes`"
    dq, dk, dv = slopes
    rows = _Rows(dout, q, out, lse, scale, dq, by == 'ordered')
    rows.add(k, v, _case(q, k, causal, window, lens, bias), (dk, dv), lens)
    return rows.finish(), dk, dv


class _Rows:
    "Rows whose gradients are computed: what is known of them beforehand, and dq as a sum in float32"

    def __init__(self, dout, q, out, lse, scale, dq, ordered=False):
        (self.q, self.dout, out), self.dq, self.scale, self.ordered = map(_aligned, (q, dout, out)), dq, scale, ordered
        if not q.is_cuda:
            self.dout, out = self.dout.contiguous(), out.contiguous()
        heads, rows = q.shape[0] * q.shape[1], calls.padded(q.shape[2])
        base, delta, sums = (q.new_empty(heads * rows * n, dtype=torch.float32) for n in (1, 1, q.shape[3]))
        size = calls.turns(heads, q.shape[2]) if ordered else 1
        turns = q.new_empty(size, dtype=torch.int32)
        self.known = dict(base=base, delta=delta, dq_sums=sums, turns=turns)
        strides = tuple(x.stride()[:3] for x in (out, self.dout, dq))
        first, self.last = calls.backward_ends(_case(q, q, False, 0, None, ''), scale, strides, ordered)
        launch([first], q, **self.known, out=out, dout=self.dout, lse=lse)

    def add(self, k, v, case, into, lens=None, rows=slice(None)):
        "dk and dv of these keys, into tensors, by some of the rows, and their part of dq"
        q, k, v, dout = (_aligned(x) for x in (self.q[:, :, rows], k, v, self.dout[:, :, rows]))
        if not q.is_cuda:
            q, dout = q.contiguous(), dout.contiguous()
        strides, place = tuple(x.stride()[:3] for x in into), calls.Place(rows.start or 0, self.q.shape[2])
        main = calls.backward_products(case, self.scale, strides, self.ordered, place)
        arrays = dict(self.known, q=q, k=k, v=v, dout=dout, dk=into[0], dv=into[1])
        launch_mapped(*main, q, **arrays, lens=self.known['turns'] if lens is None else lens)

    def finish(self):
        "dq"
        launch([self.last], self.q, **self.known, dq=self.dq)
        return self.dq


def _sdpa_backward(dout, q, k, v, *how):
    "The gradients by torch's own function, which computes the result again"
    with torch.enable_grad():
        given = [x.detach().requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(_sdpa(*given, *how), given, dout)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, scale, window, lens, bias, by):
        out, lse = _attention(q, k, v, causal, scale, window, lens, bias)
        ctx.save_for_backward(q, k, v, out, lse, lens)
        ctx.how, ctx.rest = (causal, scale, window), (bias, by)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, dout, _):
        *given, lens = ctx.saved_tensors
        return *_attention_backward(dout, *given, *ctx.how, lens, *ctx.rest), *[None] * 6


def _check_part(tool, q, k, v, most=256):
    "Raise unless our kernels for a Hopper GPU, which have heads of up to `most` numbers, can take these"
    _check(q, k, v)
    if _way(q).name != 'hopper' or q.shape[3] > most:
        dims = ', '.join(str(o) for o in DIMS if o <= most)
        raise ValueError(f'{tool}: {_way(q).why or f"this needs a Hopper GPU, and heads of {dims} numbers"}')
    if not q.numel() or not k.numel():
        raise ValueError(f'{tool}: q is {tuple(q.shape)} and k {tuple(k.shape)}; there have to be rows and keys')


def _check_like(tool, name, x, like, shape, dtypes):
    "Raise unless x has this shape, one of these types, and lies where `like` does"
    if x.shape != shape or x.dtype not in dtypes or x.device != like.device:
        want = f'{" or ".join(map(str, dtypes))} {tuple(shape)} on {like.device}'
        raise ValueError(f'{tool}: {name} is {x.dtype} {tuple(x.shape)} on {x.device}, and it has to be {want}')


def _check_lse(tool, lse, like, shape):
    _check_like(tool, 'lse', lse, like, shape, (torch.float32,))
    if not lse.is_contiguous():
        raise ValueError(f'{tool}: lse has to lie row after row; lse.contiguous() does')


def _check_first(tool, first, rows=math.inf):
    if not isinstance(first, int) or not 0 <= first < rows:
        raise ValueError(f'{tool}: first is {first!r}, and it has to be the number of a row, from 0 on')


def _check_known(tool, dout, q, out, lse):
    "Raise unless what is known of rows like q fits them"
    for name, x in dict(dout=dout, out=out).items():
        _check_like(tool, name, x, q, q.shape, (q.dtype,))
    _check_lse(tool, lse, q, q.shape[:3])


def _writable(x):
    "x, if kernels can write to it; else room of its size"
    return x if _aligned(x) is x and (x.is_cuda or x.is_contiguous()) else _empty_out(x)


def _put(into, slopes):
    "The gradients where they are wanted, if they are not there yet"
    for to, x in zip(into, slopes):
        if to is not x:
            to.copy_(x)
    return into


def attention_gradients(
    dout,  # [batch, heads, rows, dim]: the gradient of the result
    q,
    k,
    v,
    out,  # the result, and its lse: of these keys, or of more, when what is wanted are the gradients through these
    lse,
    causal=False,
    scale=None,
    into=None,  # three tensors like q, k and v, with any strides, which become these; None: new ones
):  # dq, dk, dv
    """The gradients of `attention` by our kernel, bfloat16 heads of 64 or 128 numbers on a Hopper GPU. With `out`
    and `lse` of a row of more keys than are given they add up, part by part; `ValueError` where the kernel cannot be
    had"""
    _check_part('attention_gradients', q, k, v, 128)
    _check_known('attention_gradients', dout, q, out, lse)
    into = into or tuple(map(_empty_out, (q, k, v)))
    slopes = tuple(map(_writable, into))
    how = bool(causal), _scale(q, scale), 0, None, '', 'kernel'
    return _put(into, _kernel_backward(dout, q, k, v, out, lse, *how, slopes))


class PartGradients:
    """The gradients of rows of attention by parts of their keys that come one after the other: dk and dv of each, and
    dq, which is summed over all of them in float32. Like `attention_gradients`, `ValueError` where the kernel cannot
    be had"""

    def __init__(
        self,
        dout,  # as for `attention_gradients`
        q,
        out,
        lse,
        scale=None,
    ):
        _check_part('PartGradients', q, q, q, 128)
        _check_known('PartGradients', dout, q, out, lse)
        self.rows = _Rows(dout, q, out, lse, _scale(q, scale), _empty_out(q))

    @staticmethod
    def fits(first) -> bool:
        "May a part be of the rows from `first` on?"
        return calls.fits_backward(first)

    def add(
        self,
        k,  # [batch, heads, keys, dim], with the heads of q, or fewer
        v,  # like k
        first=0,  # row: those before see none of these keys; `fits` says which may be the first
        causal=False,  # does row first + i look at keys 0 to i alone?
        into=None,  # two tensors like k and v, with any strides; None: new ones
    ):  # dk, dv
        "Go on with these keys. Parts may be computed beside each other, on two streams"
        _check_first('PartGradients', first, self.rows.q.shape[2])
        if not self.fits(first):
            raise ValueError(f'PartGradients: first is {first}, and it has to be the first of a tile of 64 rows')
        q = self.rows.q[:, :, first:]
        _check_part('PartGradients', q, k, v, 128)
        into = into or tuple(map(_empty_out, (k, v)))
        slopes = tuple(map(_writable, into))
        self.rows.add(k, v, _case(q, k, bool(causal), 0, None, ''), slopes, rows=slice(first, None))
        return _put(into, slopes)

    def dq(self):  # like q
        "Of all keys that have been added, once all of that stands before this on its stream"
        return self.rows.finish()


def attention_onto(
    out,  # [batch, heads, rows, dim], contiguous, bfloat16 or float32: what these rows make of other keys; is changed
    lse,  # float32 [batch, heads, rows], contiguous: likewise
    first,  # row: those before stay as they are
    q,  # [batch, heads, rows - first, dim]: this and what follows, as for `attention`
    k,
    v,
    causal=False,
    scale=None,
    fresh=False,  # does nothing lie there yet?
):
    """`attention` of more keys: makes `out` and `lse` those of all of them, in the kernel that computes the new ones.
    bfloat16 heads of 64, 128 or 256 numbers on a Hopper GPU; `ValueError` elsewhere"""
    _check_part('attention_onto', q, k, v)
    _check_first('attention_onto', first)
    shape = *q.shape[:2], first + q.shape[2], q.shape[3]
    _check_like('attention_onto', 'out', out, q, shape, (q.dtype, torch.float32))
    if not out.is_contiguous() or out.data_ptr() % 16:
        raise ValueError('attention_onto: out has to lie row after row, from a multiple of 16 bytes on')
    _check_lse('attention_onto', lse, q, shape[:3])
    q, k, v = map(_aligned, (q, k, v))
    place = calls.Place(first, out.shape[2], not fresh, out.dtype == torch.float32)
    case = _case(q, k, bool(causal), 0, None, '')
    call, boxes = calls.forward_hopper(case, _scale(q, scale), out.stride()[:3], here(), place)
    launch_mapped(call, boxes, q, q=q, k=k, v=v, out=out, lse=lse, lens=lse.view(torch.int32))


@lru_cache(256)
def _pair_order(device, *how):
    "`calls.pair_order` there"
    return torch.tensor(calls.pair_order(*how), dtype=torch.int32, device=device)


def attention_pair(
    q,  # [batch, heads, rows, dim]: this and what follows, as for `attention`
    k,
    v,
    other_k,  # more keys, of another array
    other_v,
    first,  # of the rows that look at these; all keys of it, whatever `causal` says of the others
    told,  # int32 [1], which somebody else will make as large as `wanted` when other_k and other_v are there
    wanted,  # int32 [1]
    causal=False,
    scale=None,
    wide=False,  # out in float32?
    parts=1,  # of the heads of keys of the batch, one after the other, in which these come: with each `told` rises by 1
):  # like q, row after row, and lse, float32 [batch, heads, rows]
    """`attention` of two arrays of keys, the second of which may still be on its way: the kernel waits for it when it
    has nothing else to do. bfloat16 heads of 64, 128 or 256 numbers on a Hopper GPU; `ValueError` elsewhere"""
    _check_part('attention_pair', q, k, v)
    _check_part('attention_pair', q, other_k, other_v)
    if other_k.shape[1] != k.shape[1]:
        raise ValueError(f'attention_pair: k has {k.shape[1]} heads and other_k {other_k.shape[1]}; give both as many')
    _check_first('attention_pair', first, q.shape[2])
    if not isinstance(parts, int) or parts < 1:
        raise ValueError(f'attention_pair: parts is {parts!r}, and it must be an integer from 1 on')
    for name, x in dict(told=told, wanted=wanted).items():
        _check_like('attention_pair', name, x, q, (1,), (torch.int32,))
    for name, x in dict(other_k=other_k, other_v=other_v).items():
        if _aligned(x) is not x:
            raise ValueError(
                f'attention_pair: {name} may be on its way still, and no copy can be made of it; its rows have to '
                'begin at multiples of 16 bytes'
            )
    q, k, v = map(_aligned, (q, k, v))
    out = torch.empty(q.shape, dtype=torch.float32 if wide else q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    case = _case(q, k, bool(causal), 0, None, '')
    place = here(), first, other_k.shape[2]
    call, boxes = calls.forward_pair(case, _scale(q, scale), *place, bool(wide), parts)
    arrays = dict(q=q, k=k, v=v, other_k=other_k, other_v=other_v, out=out, lse=lse, told=told, wanted=wanted)
    launch_mapped(call, boxes, q, **arrays, order=_pair_order(q.device, case, *place, parts))
    return out, lse


def attention_way(
    q,  # as for `attention`, like the next
    k,
    v,
) -> Way:
    "Who computes attention of these: 'hopper' or 'mma.sync', our kernels, or 'sdpa', and why not one of ours"
    _check(q, k, v)
    return _way(q)


def attention(
    q,  # [batch, heads, rows, dim], with any strides, where kernels run
    k,  # [batch, heads, keys, dim]; its heads may be fewer, each for as many of q that follow each other
    v,  # like k
    causal=False,  # does row i look at keys 0 to i alone?
    scale=None,  # of q @ k^T; None: 1/sqrt(dim)
    window=None,  # a row looks only at keys that are nearer than that: |row - key| < window
    lens=None,  # whole numbers [batch]: how many rows and keys are there, the rest is padding; or a pair of such
    bias='',  # CUDA C of what is added to a scaled score, of the ints batch, head, row and key; it has no gradient
    lse=False,  # the logarithm of each row's sum of exponentials, too? It has no gradient
    gradients='kernel',  # who computes them: ours for heads of 64 or 128 on a Hopper GPU, else SDPA; or 'sdpa'
    deterministic=False,  # are our gradients the same in each run, to the bit? Then blocks wait for each other
):  # like q; with `lse`, a pair of it and float32 [batch, heads, rows]
    """softmax(q @ k^T * scale) @ v, row by row, as `F.scaled_dot_product_attention`, without its matrix of scores in
    memory; differentiable once. A row that looks at no key gives 0. ALiBi of 8 heads, which adds less for keys that are
    farther away, is `bias='-exp2f(-head - 1)*(row - key)'`.

    bfloat16 heads of 64, 128 or 256 numbers are computed by our kernels, all else by SDPA: `attention_way` says which,
    and why. SDPA's gradients compute the result again, ours do not.

    `TypeError` and `ValueError` say what does not fit; `lens` above the sizes counts as all, below 0 as none. After
    Dao, FlashAttention-2 (2023), and Shah and others, FlashAttention-3 (2024)."""
    _check(q, k, v)
    if not isinstance(bias, str):
        raise TypeError(f"attention: bias is a {type(bias).__name__}, and CUDA C is needed: bias='-0.5f*(row - key)'")
    if gradients not in ('sdpa', 'kernel'):
        raise ValueError(f"attention: gradients is {gradients!r}, and it may be 'sdpa' or 'kernel'")
    scale, window, lens = _scale(q, scale), _window(window), _lens(q, k, lens)
    if deterministic and gradients == 'sdpa':
        raise ValueError(
            "attention: only our gradients come in a fixed order; with deterministic=True leave out 'sdpa'"
        )
    if _way(q).name != 'sdpa':
        if bias and gradients == 'sdpa' and torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)):
            raise ValueError("attention: SDPA knows no bias in C; with one, gradients='kernel' computes them")
        by = 'ordered' if deterministic else gradients
        both = _Attention.apply(q, k, v, bool(causal), scale, window, lens, bias, by)
        return both if lse else both[0]
    if bias:
        raise ValueError(f'attention: no bias here, as SDPA computes this: {_way(q).why}')
    if lse:
        raise ValueError(f'attention: no lse here, as SDPA computes this: {_way(q).why}')
    return _sdpa(q, k, v, bool(causal), scale, window, lens)
