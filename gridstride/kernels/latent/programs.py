"""`latent_attention` as programs of their own: what `export` writes of it."""

from typing import NamedTuple

from . import calls
from .calls import DecodeProblem
from .sources import DIM, PAGE
from ..ladder.rung import H100
from ..standalone import SPACE, Launch, Program
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


def launches(variant, batch, keys) -> tuple:  # of (`KernelLaunch`, boxes of its first arrays), and the workspaces
    "The launches of a `Variant` for a size on an H100"
    wide = cdiv(keys, PAGE)
    c, boxes = DecodeProblem('bfloat16', batch, variant.heads, variant.heads, batch * wide, wide), ()
    on = H100._replace(hopper=variant.what == 'hopper')
    if on.hopper:
        call, boxes, parts = calls.decode_hopper(c, calls.SCALE, 0, on)
    else:
        call, parts = calls.decode_ampere(c, calls.SCALE, 0, on)
    return [(call, boxes), (calls.merge(c, parts, on), ())], calls.workspaces(c, parts)


def _launch(call, boxes, rows):
    "A launch; `rows` of an array that is given as a tensor map"
    names = [f'a.{array}' if array not in ('part_out', 'part_lse') else array for array in call.arrays]
    for i, (box, n) in enumerate(zip(boxes, rows)):
        names[i] = f'tensor_map<{SPACE}::TensorMap>({names[i]}, {n}, {DIM}, {box[0]}, {box[1]}, 128)'
    return Launch(call, names)


def _lines(variant, batch, keys):
    "The lines of a case"
    found, workspaces = launches(variant, batch, keys)
    rows = batch * variant.heads, batch * cdiv(keys, PAGE) * PAGE
    mine = [f'static float *{o} = allocate<float>({n});' for o, n in workspaces.items()]
    return [*mine, *(_launch(*o, rows) for o in found)]


def _program(variant):
    constants = f'''constexpr int HEADS = {variant.heads};
constexpr double SCALE = {calls.SCALE};
typedef __nv_bfloat16 bf16;'''
    what = f'`gridstride.kernels.latent_attention`, {variant.what.replace("_", ".")}, {variant.heads} heads, bfloat16.'
    main, sizes = 'latent/main.cuh', cases_of(variant)
    functions = {'void decode(int number, const Arrays &a)': [_lines(variant, *size) for size in sizes]}
    return Program(variant.name, what, main, 'batch, keys', sizes, functions, constants)


def programs() -> list:  # of `Program`
    "One per `Variant`"
    return [*map(_program, VARIANTS)]
