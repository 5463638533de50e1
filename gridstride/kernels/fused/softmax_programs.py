"""`softmax` and `log_softmax`, forward and backward, as programs: what `export` writes of them."""

from .programs import Pass
from .softmaxes import softmax_calls
from .sources import SIZES
from ..ladder.rung import H100
from ..standalone import in_spaces, program, start, switch
from ..texts import IN_C
from ..tool import vector

# (rows, width): some lanes, a warp, a block, a cluster a row, rows that are read twice; the last one is timed
SHAPES = (3, 33), (75, 512), (5, 4100), (2, 40001), (3, 999999), (512, 131072)


WAYS = [
    Pass(tool, backward, dtype)
    for tool in ('softmax', 'log_softmax')
    for backward in (False, True)
    for dtype in ('float32', 'bfloat16')
]


def launches(o, rows, width) -> tuple:  # ([`Call`], elements of the workspace between two of them)
    "What a `Pass` launches for a size, on an H100"
    of, v = 'softmax_backward' if o.backward else 'softmax', vector(0, SIZES[o.dtype], 2, width)
    return softmax_calls(of, o.dtype, rows, width, v, o.tool == 'log_softmax', H100)


def _lines(found, parts, spaces):
    "C for the launches of a size"
    space = spaces[found[0].src]
    workspaces = [f'static auto *parts = allocate<{space}::Part>({parts // 2});'] * (parts > 0)
    return workspaces + [start(c, f'{space}::{c.name}', [*c.arrays, *map(str, c.scalars)]) for c in found]


def _program(o):
    every = [launches(o, *shape) for shape in SHAPES]
    kernels, spaces = in_spaces([c for found, _ in every for c in found])
    cases = ', '.join(f'{{{rows}, {width}}}' for rows, width in SHAPES)
    names = f'''const char *const NAME = "{o.name}";
constexpr int SMS = {H100.sms};
constexpr bool LOG = {str(o.tool == 'log_softmax').lower()}, BACKWARD = {str(o.backward).lower()};
typedef {IN_C[o.dtype]} From;
constexpr double ROUNDING = {0.0 if o.dtype == 'float32' else 2**-8};
constexpr struct {{ int rows, width; }} cases[] = {{{cases}}};'''
    what = [f'`gridstride.kernels.{o.tool}` of {o.dtype}, {"backward" if o.backward else "forward"}.']
    head = 'void launch(int number, const From *x, const From *dy, From *out)'
    body = switch(head, [_lines(*found, spaces) for found in every])
    return program(o.name, what, kernels, names, 'fused/softmax_main.cuh', body)


def list_softmax_programs() -> dict:  # name of the file -> the whole `.cu`
    "One program per `Pass`"
    return {o.name: _program(o) for o in WAYS}
