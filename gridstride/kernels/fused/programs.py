"""`gelu`, `bias_gelu`, `rms_norm` and `layer_norm`, forward and backward, as programs: what `export` writes of them."""

from typing import NamedTuple

from . import calls
from .calls import Dropout, Norm
from .sources import SIZES, sums_of
from ..ladder.rung import H100
from ..standalone import in_spaces, program, start, switch
from ..texts import IN_C
from ..tool import LOAD, vector

SHAPES = (1, 33), (75, 64), (5, 1000), (20, 40000), (8192, 8192)  # (rows, width), the last one is timed
EPS = 1e-5


class Pass(NamedTuple):
    "One way through one tool for one type"

    tool: str  # 'gelu', 'bias_gelu', 'rms_norm', 'layer_norm'
    backward: bool
    dtype: str

    @property
    def name(self):
        "Of the file"
        return f'{self.tool}_backward_{self.dtype}' if self.backward else f'{self.tool}_{self.dtype}'


PASSES = [
    Pass(tool, backward, dtype)
    for tool in ('gelu', 'bias_gelu', 'rms_norm', 'layer_norm')
    for backward in (False, True)
    for dtype in ('float32', 'bfloat16')
]


def launches(o, rows, width) -> tuple:  # ([`Call`], sums of columns that are kept between two calls)
    "What a `Pass` launches for a size, on an H100"
    flat = o.tool == 'gelu'
    v = LOAD // SIZES[o.dtype] if flat else vector(0, SIZES[o.dtype], 2, width)
    if flat:
        found = calls.gelu_backward_calls if o.backward else calls.gelu_calls
        return found(o.dtype, rows * width, v, False, H100), 0
    if o.tool == 'bias_gelu':
        what = o.dtype, rows, width, v, False, Dropout(0.0, 0), H100
        return calls.bias_gelu_backward_calls(*what) if o.backward else (calls.bias_gelu_calls(*what), 0)
    centered = o.tool == 'layer_norm'
    if not o.backward:
        return calls.norm_calls(o.dtype, rows, width, v, Norm(centered, True, centered, False), EPS, H100), 0
    found, parts = calls.norm_backward_calls(o.dtype, rows, width, v, Norm(centered, True, False, False), True, H100)
    return found, parts * (1 + centered)


def _program(o):
    every = [launches(o, *shape) for shape in SHAPES]
    kernels, spaces = in_spaces([c for found, _ in every for c in found])
    cases = ', '.join(f'{{{rows}, {width}}}' for rows, width in SHAPES)
    names = f'''const char *const NAME = "{o.name}";
constexpr int SMS = {H100.sms};
enum Tool {{ GELU, BIAS_GELU, RMS_NORM, LAYER_NORM }};
constexpr Tool TOOL = {o.tool.upper()};
constexpr bool BACKWARD = {str(o.backward).lower()};
typedef {IN_C[o.dtype]} From;
typedef {IN_C[sums_of(o.dtype)]} Sum;
constexpr double EPS = {EPS}, ROUNDING = {2e-5 if o.dtype == 'float32' else 2**-8 + 2e-5};
constexpr struct {{ int rows, width; }} cases[] = {{{cases}}};'''
    lines = [
        [f'static auto *parts = allocate<Sum>({parts * width});'] * (parts > 0)
        + [start(c, f'{spaces[c.src]}::{c.name}', [*_c(c.arrays), *map(str, c.scalars)]) for c in found]
        for (found, parts), (_, width) in zip(every, SHAPES)
    ]
    what = [f'`gridstride.kernels.{o.tool}` of {o.dtype}, {"backward" if o.backward else "forward"}.']
    head = 'void launch(int number, const Arrays &a)'
    return program(o.name, what, kernels, names, 'fused/passes_main.cuh', switch(head, lines))


def _c(arrays):
    "C for the arrays of a call"
    return [o if o == 'parts' else f'a.{o}' for o in arrays]


def list_passes() -> dict:  # name of the file -> the whole `.cu`
    "One program per `Pass`"
    return {o.name: _program(o) for o in PASSES}
