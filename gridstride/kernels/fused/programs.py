"""Activations, norms, softmax, the loss and the optimizer as programs of their own: what `export` writes of them."""

from typing import NamedTuple

from . import calls, losses, optimizers
from .calls import Dropout, Norm
from .losses import LossProblem
from .softmaxes import softmax_calls
from .sources import SIZES, sums_of
from ..ladder.rung import H100
from ..standalone import SPACE, Launch, Program
from ..texts import IN_C
from ..tool import LOAD, vector
from ...utils import cdiv

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


def launches(o, rows, width) -> tuple:  # ([`KernelLaunch`], sums of columns that are kept between two calls)
    "The launches of a `Pass` for a size, on an H100"
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


def _pass(o, main, sizes, functions, constants):
    "The `Program` of a `Pass`"
    what = f'`gridstride.kernels.{o.tool}` of {o.dtype}, {"backward" if o.backward else "forward"}.'
    return Program(o.name, what, f'fused/{main}.cuh', 'rows, width', sizes, functions, constants)


def _lines(o, rows, width):
    "The lines of a case"
    found, parts = launches(o, rows, width)
    yield from [f'static auto *parts = allocate<Sum>({parts * width});'] * (parts > 0)
    yield from (Launch(c, [x if x == 'parts' else f'a.{x}' for x in c.arrays]) for c in found)


def _program(o):
    constants = f'''enum Tool {{ GELU, BIAS_GELU, RMS_NORM, LAYER_NORM }};
constexpr Tool TOOL = {o.tool.upper()};
constexpr bool BACKWARD = {str(o.backward).lower()};
typedef {IN_C[o.dtype]} From;
typedef {IN_C[sums_of(o.dtype)]} Sum;
constexpr double EPS = {EPS}, ROUNDING = {2e-5 if o.dtype == 'float32' else 2**-8 + 2e-5};'''
    functions = {'void launch(int number, const Arrays &a)': [list(_lines(o, *shape)) for shape in SHAPES]}
    return _pass(o, 'passes_main', SHAPES, functions, constants)


# Softmax: (rows, width): some lanes, a warp, a block, a cluster a row, rows that are read twice; the last one is timed
SOFTMAX_SHAPES = (3, 33), (75, 512), (5, 4100), (2, 40001), (3, 999999), (512, 131072)
SOFTMAXES = [
    Pass(tool, backward, dtype)
    for tool in ('softmax', 'log_softmax')
    for backward in (False, True)
    for dtype in ('float32', 'bfloat16')
]


def softmax_launches(o, rows, width) -> tuple:  # ([`KernelLaunch`], elements of the workspace between two of them)
    "The launches of a `Pass` of softmax for a size, on an H100"
    of, v = 'softmax_backward' if o.backward else 'softmax', vector(0, SIZES[o.dtype], 2, width)
    return softmax_calls(of, o.dtype, rows, width, v, o.tool == 'log_softmax', H100)


def _softmax_lines(o, rows, width):
    found, parts = softmax_launches(o, rows, width)
    yield from [f'static auto *parts = allocate<{SPACE}::Part>({parts // 2});'] * (parts > 0)
    yield from (Launch(c, c.arrays) for c in found)


def _softmax_program(o):
    constants = f'''constexpr bool LOG = {str(o.tool == 'log_softmax').lower()}, BACKWARD = {str(o.backward).lower()};
typedef {IN_C[o.dtype]} From;
constexpr double ROUNDING = {0.0 if o.dtype == 'float32' else 2**-8};'''
    head = 'void launch(int number, const From *x, const From *dy, From *out)'
    functions = {head: [list(_softmax_lines(o, *shape)) for shape in SOFTMAX_SHAPES]}
    return _pass(o, 'softmax_main', SOFTMAX_SHAPES, functions, constants)


# Losses: (rows, classes), the last one is timed
LOSSES = {
    'float32': ((3, 33), (5, 1000), (64, 50257), (2048, 128256)),
    'bfloat16': ((3, 33), (5, 1000), (64, 50257), (8192, 128256)),
}
TENSORS = ((1, 5, 561, 2048, 2049, 70000), (2**28,))  # sizes, likewise
_ROUNDING = dict(float32=2e-6, bfloat16=2**-8 + 2e-6)


def loss_calls(dtype, rows, width) -> list:  # of `KernelLaunch`
    "The launches for the mean of the losses and its gradient, on an H100"
    case = LossProblem(dtype, rows, width, LOAD // losses.SIZES[dtype], -100)
    return [losses.count_call(case, True), losses.once_call(case, H100), losses.add_call(case)]


def _loss_program(dtype):
    constants = f'''typedef {IN_C[dtype]} Number;
constexpr double ROUNDING = {_ROUNDING[dtype]};'''
    head = 'void launch(int number, Number *x, const long long *target, float *scale, float *loss, float *out)'
    in_place = dict(gradient='x')
    lines = [
        [Launch(c, [in_place.get(array, array) for array in c.arrays]) for c in loss_calls(dtype, *o)]
        for o in LOSSES[dtype]
    ]
    what = f'`gridstride.kernels.cross_entropy` of {dtype}, forward and backward at once, in place.'
    main, name = 'fused/cross_entropy_main.cuh', f'cross_entropy_{dtype}'
    return Program(name, what, main, 'rows, width', LOSSES[dtype], {head: lines}, constants)


def adamw_calls() -> list:  # of `KernelLaunch`, one per case
    "One step per list of sizes"
    chunk = 4 * optimizers.THREADS
    return [optimizers.adamw_call('float32', 4, False, sum(cdiv(n, chunk) for n in sizes)) for sizes in TENSORS]


def _adamw_program():
    scalars = optimizers.scalars_of(1e-3, (0.9, 0.999), 1e-8, 1e-2, 3)
    known = ', '.join(f'{k} = {float(x)!r}f' for k, x in zip(optimizers.SCALARS, scalars))
    sizes = ', '.join(f'{{{", ".join(map(str, tensor))}}}' for tensor in TENSORS)
    constants = f'''constexpr long long CHUNK = {4 * optimizers.THREADS};
constexpr float {known};
const std::vector<std::vector<long long>> cases = {{{sizes}}};'''
    head = 'void launch(int number, char *memory, const long long *table, const int2 *chunks)'
    lines = [[Launch(c._replace(scalars=optimizers.SCALARS), c.arrays)] for c in adamw_calls()]
    what = '`gridstride.kernels.AdamW` of float32: one step, for all tensors in one launch.'
    return Program('adamw_float32', what, 'fused/adamw_main.cuh', '', (), {head: lines}, constants)


def programs() -> list:  # of `Program`
    "One per `Pass`, and per type of the loss and the optimizer that has kernels of its own"
    passes = [*map(_program, PASSES), *map(_softmax_program, SOFTMAXES)]
    return [*passes, *map(_loss_program, LOSSES), _adamw_program()]
