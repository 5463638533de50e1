"""Export activations, norms, softmax, the loss and the optimizer as standalone programs."""

from typing import NamedTuple

from . import calls, losses, optimizers
from .calls import Dropout, Norm
from .losses import LossProblem
from .softmaxes import softmax_calls
from .sources import SIZES, accumulator_type
from ..ladder.rung import H100
from ..standalone import SPACE, Launch, Program
from ..texts import IN_C
from ..tool import LOAD, vector
from ...utils import cdiv

SHAPES = (1, 33), (75, 64), (5, 1000), (20, 40000), (8192, 8192)  # (rows, width), the last one is timed
EPS = 1e-5


class Pass(NamedTuple):
    "The forward or backward pass of one operator for one type"

    tool: str  # 'gelu', 'bias_gelu', 'rms_norm', 'layer_norm'
    backward: bool
    dtype: str

    @property
    def name(self):
        "The name of the file"
        return f'{self.tool}_backward_{self.dtype}' if self.backward else f'{self.tool}_{self.dtype}'


PASSES = [
    Pass(tool, backward, dtype)
    for tool in ('gelu', 'bias_gelu', 'rms_norm', 'layer_norm')
    for backward in (False, True)
    for dtype in ('float32', 'bfloat16')
]


def launches(op, rows, width) -> tuple:  # ([`KernelLaunch`], rows of partial sums between two launches)
    "Return the launches of a `Pass` for a size, on an H100"
    flat = op.tool == 'gelu'
    vec = LOAD // SIZES[op.dtype] if flat else vector(0, SIZES[op.dtype], 2, width)
    if flat:
        found = calls.gelu_backward_calls if op.backward else calls.gelu_calls
        return found(op.dtype, rows * width, vec, False, H100), 0
    if op.tool == 'bias_gelu':
        what = op.dtype, rows, width, vec, False, Dropout(0.0, 0), H100
        return calls.bias_gelu_backward_calls(*what) if op.backward else (calls.bias_gelu_calls(*what), 0)
    centered = op.tool == 'layer_norm'
    if not op.backward:
        return calls.norm_calls(op.dtype, rows, width, vec, Norm(centered, True, centered, False), EPS, H100), 0
    found, partial_sums = calls.norm_backward_calls(
        op.dtype, rows, width, vec, Norm(centered, True, False, False), True, H100
    )
    return found, partial_sums * (1 + centered)


def _pass(op, main, sizes, functions, constants):
    "Return the `Program` of a `Pass`"
    what = f'`gridstride.kernels.{op.tool}` of {op.dtype}, {"backward" if op.backward else "forward"}.'
    return Program(op.name, what, f'fused/{main}.cuh', 'rows, width', sizes, functions, constants)


def _lines(op, rows, width):
    "Yield the lines of C++ for one size"
    passes, parts = launches(op, rows, width)
    yield from [f'static auto *parts = allocate<Sum>({parts * width});'] * (parts > 0)
    yield from (Launch(c, [x if x == 'parts' else f'a.{x}' for x in c.arrays]) for c in passes)


def _program(op):
    constants = f'''enum Tool {{ GELU, BIAS_GELU, RMS_NORM, LAYER_NORM }};
constexpr Tool TOOL = {op.tool.upper()};
constexpr bool BACKWARD = {str(op.backward).lower()};
typedef {IN_C[op.dtype]} From;
typedef {IN_C[accumulator_type(op.dtype)]} Sum;
constexpr double EPS = {EPS}, ROUNDING = {2e-5 if op.dtype == 'float32' else 2**-8 + 2e-5};'''
    functions = {'void launch(int number, const Arrays &a)': [list(_lines(op, *shape)) for shape in SHAPES]}
    return _pass(op, 'passes_main', SHAPES, functions, constants)


# (rows, width) of softmax: a few lanes, a warp, a block or a cluster per row, rows that are read twice; the last
# one is timed
SOFTMAX_SHAPES = (3, 33), (75, 512), (5, 4100), (2, 40001), (3, 999999), (512, 131072)
SOFTMAXES = [
    Pass(tool, backward, dtype)
    for tool in ('softmax', 'log_softmax')
    for backward in (False, True)
    for dtype in ('float32', 'bfloat16')
]


def softmax_launches(op, rows, width) -> tuple:  # ([`KernelLaunch`], elements of the workspace between two launches)
    "Return the launches of a `Pass` of softmax for a size, on an H100"
    kernel, vec = 'softmax_backward' if op.backward else 'softmax', vector(0, SIZES[op.dtype], 2, width)
    return softmax_calls(kernel, op.dtype, rows, width, vec, op.tool == 'log_softmax', H100)


def _softmax_lines(op, rows, width):
    passes, parts = softmax_launches(op, rows, width)
    yield from [f'static auto *parts = allocate<{SPACE}::Part>({parts // 2});'] * (parts > 0)
    yield from (Launch(c, c.arrays) for c in passes)


def _softmax_program(op):
    constants = f'''constexpr bool LOG = {str(op.tool == 'log_softmax').lower()}, BACKWARD = {str(op.backward).lower()};
typedef {IN_C[op.dtype]} From;
constexpr double ROUNDING = {0.0 if op.dtype == 'float32' else 2**-8};'''
    head = 'void launch(int number, const From *x, const From *dy, From *out)'
    functions = {head: [list(_softmax_lines(op, *shape)) for shape in SOFTMAX_SHAPES]}
    return _pass(op, 'softmax_main', SOFTMAX_SHAPES, functions, constants)


# (rows, classes) of the losses; the last one is timed
LOSSES = {
    'float32': ((3, 33), (5, 1000), (64, 50257), (2048, 128256)),
    'bfloat16': ((3, 33), (5, 1000), (64, 50257), (8192, 128256)),
}
TENSORS = ((1, 5, 561, 2048, 2049, 70000), (2**28,))  # sizes of the tensors of AdamW; the last case is timed
_ROUNDING = dict(float32=2e-6, bfloat16=2**-8 + 2e-6)


def loss_calls(dtype, rows, width) -> list:  # of `KernelLaunch`
    "Return the launches for the mean of the losses and its gradient, on an H100"
    problem = LossProblem(dtype, rows, width, LOAD // losses.SIZES[dtype], -100)
    return [losses.scale_call(problem, True), losses.single_pass_call(problem, H100), losses.sum_call(problem)]


def _loss_program(dtype):
    constants = f'''typedef {IN_C[dtype]} Number;
constexpr double ROUNDING = {_ROUNDING[dtype]};'''
    head = 'void launch(int number, Number *x, const long long *target, float *scale, float *loss, float *out)'
    in_place = dict(grad='x')
    lines = [
        [Launch(c, [in_place.get(array, array) for array in c.arrays]) for c in loss_calls(dtype, *size)]
        for size in LOSSES[dtype]
    ]
    what = f'`gridstride.kernels.cross_entropy` of {dtype}, forward and backward at once, in place.'
    main, name = 'fused/cross_entropy_main.cuh', f'cross_entropy_{dtype}'
    return Program(name, what, main, 'rows, width', LOSSES[dtype], {head: lines}, constants)


def adamw_calls() -> list:  # of `KernelLaunch`, one per case
    "Return the launch of one step per list of sizes"
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
    "Return one program per `Pass`, per type of the loss, and for the optimizer"
    passes = [*map(_program, PASSES), *map(_softmax_program, SOFTMAXES)]
    return [*passes, *map(_loss_program, LOSSES), _adamw_program()]
