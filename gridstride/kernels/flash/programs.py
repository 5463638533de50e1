"""`attention`, forward and backward, as programs of their own: what `export` writes of it."""

from typing import NamedTuple

from . import calls
from .calls import Case, Strides, padded
from ..ladder.rung import H100
from ..standalone import in_spaces, program, start, switch

SIZES = (2, 4, 2, 24, 24), (1, 2, 1, 191, 260), (2, 2, 2, 320, 77)  # batch, heads, group, rows, keys
LARGE = {64: (4, 16, 1, 8192, 8192), 128: (4, 16, 1, 8192, 8192), 256: (4, 8, 1, 8192, 8192)}


class Variant(NamedTuple):
    "A variant of attention that one program computes"

    what: str  # 'forward', 'backward' or 'mma_sync'
    dim: int
    causal: bool

    @property
    def name(self):
        "The name of the file"
        return f'attention_{self.what}_{self.dim}{"_causal" * self.causal}'


VARIANTS = [Variant('forward', d, c) for d, c in ((64, True), (128, False), (128, True), (256, False))]
VARIANTS += [Variant('backward', d, c) for d, c in ((64, True), (128, False), (128, True))]
VARIANTS += [Variant('mma_sync', d, c) for d, c in ((64, False), (128, True))]


def cases_of(variant) -> list:  # of (batch, heads, group, rows, keys)
    "The sizes that are tested; the last one is also timed"
    return [*SIZES, LARGE[variant.dim]]


def _strides(heads, rows, dim):
    "Strides of batch, heads and rows of a contiguous array, in elements"
    return heads * rows * dim, rows * dim, dim


def launches(variant, batch, heads, group, rows, keys) -> list:  # of (`Call`, boxes of its first arrays)
    "The launches of a `Variant` for a size on an H100: forward, and perhaps backward"
    c = Case(batch, heads, group, rows, keys, variant.dim, variant.causal, 0, False)
    scale, of_q, of_k = (
        variant.dim**-0.5,
        _strides(heads, rows, variant.dim),
        _strides(heads // group, keys, variant.dim),
    )
    if variant.what == 'mma_sync':
        return [(calls.forward_ampere(c, scale, (of_q, of_k, of_k, of_q)), ())]
    res = [calls.forward_hopper(c, scale, of_q, H100)]
    if variant.what == 'backward':
        first, main, last = calls.backward_hopper(c, scale, Strides(of_q, of_q, of_q, of_k, of_k))
        res += [(first, ()), main, (last, ())]
    return res


def _map(space, name, sizes, dim, box):
    "C for a tensor map"
    batch, heads, group, rows, keys = sizes
    sides = (batch, heads // group, keys, dim) if name in 'kv' else (batch, heads, rows, dim)
    four, boxes = (', '.join(map(str, o)) for o in (sides, box))
    return f'tensor_map<{space}::TensorMap>(a.{name}, {{{four}}}, {{{boxes}}}, 128)'


_IN_C = dict(
    lens='(const int *)nullptr',
    semaphores='(int *)nullptr',
    dq_sums='(float4 *)dq_sums',
    **{o: o for o in ('lse_log2', 'delta')},
)


def _start(call, boxes, spaces, sizes, dim):
    "C for one launch"
    space = spaces[call.src]
    maps = [_map(space, name, sizes, dim, box) for name, box in zip(call.arrays, boxes)]
    others = [_IN_C.get(o, f'a.{o}') for o in call.arrays[len(maps) :]]
    return start(call, f'{space}::{call.name}', [*maps, *others, *map(str, call.scalars)])


def _workspaces(variant, batch, heads, group, rows, keys):
    "C for the workspaces of the backward pass"
    each = dict(lse_log2=1, delta=1, dq_sums=variant.dim)
    return [f'static float *{o} = allocate<float>({batch * heads * padded(rows) * n});' for o, n in each.items()]


def _program(variant):
    every = [launches(variant, *sizes) for sizes in cases_of(variant)]
    kernels, spaces = in_spaces([c for found in every for c, _ in found])
    sizes = ', '.join(f'{{{", ".join(map(str, o))}}}' for o in cases_of(variant))
    names = f'''const char *const NAME = "{variant.name}";
constexpr int SMS = {H100.sms}, DIM = {variant.dim};
constexpr bool CAUSAL = {str(variant.causal).lower()}, BACKWARD = {str(variant.what == 'backward').lower()};
typedef __nv_bfloat16 bf16;
constexpr struct {{ int batch, heads, group, rows, keys; }} cases[] = {{{sizes}}};'''
    parts = []
    for backward in (False, True):
        lines = []
        for found, o in zip(every, cases_of(variant)):
            now = found[1:] if backward else found[:1]
            lines.append(
                _workspaces(variant, *o) * bool(backward and now) + [_start(*c, spaces, o, variant.dim) for c in now]
            )
        parts.append(switch(f'void {"backward" if backward else "forward"}(int number, const Arrays &a)', lines))
    what = [
        f'`gridstride.kernels.attention`, {variant.what.replace("_", ".")}, head dimension {variant.dim}, bfloat16.'
    ]
    main = 'tensor_map.cuh', 'flash/main.cuh'
    return program(variant.name, what, kernels, names, main, '\n'.join(parts))


def list_attention_programs() -> dict:  # name of the file -> the whole `.cu`
    "One program per `Variant`"
    return {o.name: _program(o) for o in VARIANTS}
