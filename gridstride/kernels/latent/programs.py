"""`latent_attention` as programs of their own: what `export` writes of it."""

from typing import NamedTuple

from . import calls
from .calls import Case
from .sources import DIM, PAGE
from ..ladder.rung import H100
from ..standalone import in_spaces, program, start, switch
from ...utils import cdiv

SIZES = (3, 200), (1, 64), (70, 65)  # of the batch; the most keys of one
LARGE = 128, 8192


class Way(NamedTuple):
    "What one program computes"

    what: str  # 'hopper' or 'mma_sync'
    heads: int

    @property
    def name(self):
        "Of the file"
        return f'latent_attention_{self.what}_{self.heads}'


WAYS = [Way('hopper', 128), Way('hopper', 64), Way('hopper', 16), Way('mma_sync', 128)]


def cases_of(way) -> list:  # of (batch, keys)
    "What is tried, the last one also timed"
    return [*SIZES, LARGE]


def launches(way, batch, keys) -> tuple:  # of (`Call`, boxes of its first arrays), and the `Case`'s parts
    "What a `Way` launches for a size, on an H100"
    wide = cdiv(keys, PAGE)
    c, boxes = Case('bfloat16', batch, way.heads, way.heads, batch * wide, wide), ()
    on = H100._replace(hopper=way.what == 'hopper')
    if on.hopper:
        call, boxes, parts = calls.decode_hopper(c, calls.SCALE, 0, on)
    else:
        call, parts = calls.decode_ampere(c, calls.SCALE, 0, on)
    return [(call, boxes), (calls.merge(c, parts, on), ())], calls.rooms(c, parts)


def _start(call, boxes, spaces, rows):
    "C for one launch; `rows` of an array that is given as a tensor map"
    space = spaces[call.src]
    names = [f'a.{o}' if o not in ('part_out', 'part_lse') else o for o in call.arrays]
    for i, (box, n) in enumerate(zip(boxes, rows)):
        names[i] = f'tensor_map<{space}::TensorMap>({names[i]}, {n}, {DIM}, {box[0]}, {box[1]}, 128)'
    return start(call, f'{space}::{call.name}', [*names, *map(str, call.scalars)])


def _program(way):
    every = [launches(way, *sizes) for sizes in cases_of(way)]
    kernels, spaces = in_spaces([call for found, _ in every for call, _ in found])
    sizes = ', '.join(f'{{{batch}, {keys}}}' for batch, keys in cases_of(way))
    names = f'''const char *const NAME = "{way.name}";
constexpr int SMS = {H100.sms}, HEADS = {way.heads};
constexpr double SCALE = {calls.SCALE};
typedef __nv_bfloat16 bf16;
constexpr struct {{ int batch, keys; }} cases[] = {{{sizes}}};'''
    lines = []
    for (found, rooms), (batch, keys) in zip(every, cases_of(way)):
        rows = batch * way.heads, batch * cdiv(keys, PAGE) * PAGE
        mine = [f'static float *{o} = room<float>({n});' for o, n in rooms.items()]
        lines.append(mine + [_start(*o, spaces, rows) for o in found])
    what = [f'`gridstride.kernels.latent_attention`, {way.what.replace("_", ".")}, {way.heads} heads, bfloat16.']
    main = 'tensor_map.cuh', 'latent/main.cuh'
    return program(way.name, what, kernels, names, main, switch('void decode(int number, const Arrays &a)', lines))


def list_latent_programs() -> dict:  # name of the file -> the whole `.cu`
    "A program for each `Way`"
    return {o.name: _program(o) for o in WAYS}
