"""`latent_attention` as programs of their own: what `export` writes of it."""

from typing import NamedTuple

from . import calls
from .calls import DecodeProblem
from .sources import DIM, PAGE
from ..ladder.rung import H100
from ..standalone import in_spaces, program, start, switch
from ...utils import cdiv

SIZES = (3, 200), (1, 64), (70, 65)  # batch size, context length
LARGE = 128, 8192


class Variant(NamedTuple):
    "A variant of latent attention that one program computes"

    what: str  # 'hopper' or 'mma_sync'
    heads: int

    @property
    def name(self):
        "The name of the file"
        return f'latent_attention_{self.what}_{self.heads}'


VARIANTS = [Variant('hopper', 128), Variant('hopper', 64), Variant('hopper', 16), Variant('mma_sync', 128)]


def cases_of(variant) -> list:  # of (batch, keys)
    "The sizes that are tested; the last one is also timed"
    return [*SIZES, LARGE]


def launches(variant, batch, keys) -> tuple:  # of (`Call`, boxes of its first arrays), and the workspaces
    "The launches of a `Variant` for a size on an H100"
    wide = cdiv(keys, PAGE)
    c, boxes = DecodeProblem('bfloat16', batch, variant.heads, variant.heads, batch * wide, wide), ()
    on = H100._replace(hopper=variant.what == 'hopper')
    if on.hopper:
        call, boxes, parts = calls.decode_hopper(c, calls.SCALE, 0, on)
    else:
        call, parts = calls.decode_ampere(c, calls.SCALE, 0, on)
    return [(call, boxes), (calls.merge(c, parts, on), ())], calls.workspaces(c, parts)


def _start(call, boxes, spaces, rows):
    "C for one launch; `rows` of an array that is given as a tensor map"
    space = spaces[call.src]
    names = [f'a.{o}' if o not in ('part_out', 'part_lse') else o for o in call.arrays]
    for i, (box, n) in enumerate(zip(boxes, rows)):
        names[i] = f'tensor_map<{space}::TensorMap>({names[i]}, {n}, {DIM}, {box[0]}, {box[1]}, 128)'
    return start(call, f'{space}::{call.name}', [*names, *map(str, call.scalars)])


def _program(variant):
    every = [launches(variant, *sizes) for sizes in cases_of(variant)]
    kernels, spaces = in_spaces([call for found, _ in every for call, _ in found])
    sizes = ', '.join(f'{{{batch}, {keys}}}' for batch, keys in cases_of(variant))
    names = f'''const char *const NAME = "{variant.name}";
constexpr int SMS = {H100.sms}, HEADS = {variant.heads};
constexpr double SCALE = {calls.SCALE};
typedef __nv_bfloat16 bf16;
constexpr struct {{ int batch, keys; }} cases[] = {{{sizes}}};'''
    lines = []
    for (found, workspaces), (batch, keys) in zip(every, cases_of(variant)):
        rows = batch * variant.heads, batch * cdiv(keys, PAGE) * PAGE
        mine = [f'static float *{o} = allocate<float>({n});' for o, n in workspaces.items()]
        lines.append(mine + [_start(*o, spaces, rows) for o in found])
    what = [
        f'`gridstride.kernels.latent_attention`, {variant.what.replace("_", ".")}, {variant.heads} heads, bfloat16.'
    ]
    main = 'tensor_map.cuh', 'latent/main.cuh'
    return program(variant.name, what, kernels, names, main, switch('void decode(int number, const Arrays &a)', lines))


def list_latent_programs() -> dict:  # name of the file -> the whole `.cu`
    "One program per `Variant`"
    return {o.name: _program(o) for o in VARIANTS}
