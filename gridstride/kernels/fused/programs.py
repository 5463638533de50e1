"""Standalone programs of activations, norms, softmax, the loss and the optimizer, for `export`."""

from typing import NamedTuple

from . import calls, losses, optimizers
from .calls import Dropout, Norm
from .losses import LossProblem
from .softmaxes import softmax_launches
from .sources import DTYPE_BYTES, accumulator_type
from ..ladder.rung import H100
from ..standalone import NAMESPACE, Launch, Program
from ..source_assembly import C_TYPES
from ..common import MAX_LOAD_BYTES, vector_width
from ...utils import cdiv

SHAPES = (1, 33), (75, 64), (5, 1000), (20, 40000), (8192, 8192)  # (rows, width); the last one is timed
EPS = 1e-5


class Pass(NamedTuple):
    "The forward or backward pass of one operator for one dtype"

    op_name: str  # 'gelu', 'bias_gelu', 'rms_norm', 'layer_norm'
    is_backward: bool
    dtype: str

    @property
    def name(self):
        "The name of the file"
        return f'{self.op_name}_backward_{self.dtype}' if self.is_backward else f'{self.op_name}_{self.dtype}'


PASSES = [
    Pass(op_name, is_backward, dtype)
    for op_name in ('gelu', 'bias_gelu', 'rms_norm', 'layer_norm')
    for is_backward in (False, True)
    for dtype in ('float32', 'bfloat16')
]


def pass_launches(operator_pass, rows, width) -> tuple:  # ([`KernelLaunch`], rows of partial sums)
    "Return the launches of a `Pass` for a size, on an H100"
    vec_size = vector_width(0, DTYPE_BYTES[operator_pass.dtype], 2, width)
    if operator_pass.op_name == 'gelu':
        vec_size = MAX_LOAD_BYTES // DTYPE_BYTES[operator_pass.dtype]
        make_launches = calls.gelu_backward_launches if operator_pass.is_backward else calls.gelu_launches
        return make_launches(operator_pass.dtype, rows * width, vec_size, False, H100), 0
    if operator_pass.op_name == 'bias_gelu':
        args = operator_pass.dtype, rows, width, vec_size, False, Dropout(0.0, 0), H100
        return (
            calls.bias_gelu_backward_launches(*args)
            if operator_pass.is_backward
            else (calls.bias_gelu_launches(*args), 0)
        )
    is_centered = operator_pass.op_name == 'layer_norm'
    if not operator_pass.is_backward:
        return calls.norm_launches(
            operator_pass.dtype, rows, width, vec_size, Norm(is_centered, True, is_centered, False), EPS, H100
        ), 0
    norm = Norm(is_centered, True, False, False)
    kernel_launches, partial_rows = calls.norm_backward_launches(
        operator_pass.dtype, rows, width, vec_size, norm, True, H100
    )
    return kernel_launches, partial_rows * (1 + is_centered)


def _pass_program(operator_pass, main_file, sizes, functions, constants):
    "Return the `Program` of a `Pass`"
    direction = 'backward' if operator_pass.is_backward else 'forward'
    description = f'`gridstride.kernels.{operator_pass.op_name}` of {operator_pass.dtype}, {direction}.'
    return Program(
        operator_pass.name, description, f'fused/{main_file}.cuh', 'rows, width', sizes, functions, constants
    )


def _case_lines(operator_pass, rows, width):
    "Yield the lines of C++ and the `Launch`es for one size"
    kernel_launches, partial_rows = pass_launches(operator_pass, rows, width)
    if partial_rows:
        yield f'static auto *partials = allocate<Acc>({partial_rows * width});'
    for kernel_launch in kernel_launches:
        yield Launch(kernel_launch, [name if name == 'partials' else f'a.{name}' for name in kernel_launch.arrays])


def _norm_or_gelu_program(operator_pass):
    constants = f'''enum Operator {{ GELU, BIAS_GELU, RMS_NORM, LAYER_NORM }};
constexpr Operator OPERATOR = {operator_pass.op_name.upper()};
constexpr bool BACKWARD = {str(operator_pass.is_backward).lower()};
typedef {C_TYPES[operator_pass.dtype]} Elem;
typedef {C_TYPES[accumulator_type(operator_pass.dtype)]} Acc;
constexpr double EPS = {EPS}, RELATIVE_TOLERANCE = {2e-5 if operator_pass.dtype == 'float32' else 2**-8 + 2e-5};'''
    functions = {
        'void launch(int case_index, const Arrays &a)': [list(_case_lines(operator_pass, *shape)) for shape in SHAPES]
    }
    return _pass_program(operator_pass, 'passes_main', SHAPES, functions, constants)


# (rows, width) of softmax, which are processed differently: some lanes, a warp, a block or a cluster share a row, or a
# row is read twice; the last one is timed
SOFTMAX_SHAPES = (3, 33), (75, 512), (5, 4100), (2, 40001), (3, 999999), (512, 131072)
SOFTMAX_PASSES = [
    Pass(op_name, is_backward, dtype)
    for op_name in ('softmax', 'log_softmax')
    for is_backward in (False, True)
    for dtype in ('float32', 'bfloat16')
]


def softmax_pass_launches(operator_pass, rows, width) -> tuple:  # ([`KernelLaunch`], elements of the workspace)
    "Return the launches of a `Pass` of softmax for a size, on an H100"
    kernel = 'softmax_backward' if operator_pass.is_backward else 'softmax'
    vec_size = vector_width(0, DTYPE_BYTES[operator_pass.dtype], 2, width)
    return softmax_launches(
        kernel, operator_pass.dtype, rows, width, vec_size, operator_pass.op_name == 'log_softmax', H100, True
    )


def _softmax_case_lines(operator_pass, rows, width):
    "Yield the lines of C++ and the `Launch`es for one size"
    kernel_launches, elements = softmax_pass_launches(operator_pass, rows, width)
    if elements:
        yield f'static auto *states = allocate<{NAMESPACE}::RowState>({elements // 2});'
    yield from (Launch(kernel_launch, kernel_launch.arrays) for kernel_launch in kernel_launches)


def _softmax_program(operator_pass):
    is_log = operator_pass.op_name == 'log_softmax'
    constants = f'''constexpr bool LOG = {str(is_log).lower()}, BACKWARD = {str(operator_pass.is_backward).lower()};
typedef {C_TYPES[operator_pass.dtype]} Elem;
constexpr double RELATIVE_TOLERANCE = {0.0 if operator_pass.dtype == 'float32' else 2**-8};'''
    signature = 'void launch(int case_index, const Elem *x, const Elem *dy, Elem *out)'
    functions = {signature: [list(_softmax_case_lines(operator_pass, *shape)) for shape in SOFTMAX_SHAPES]}
    return _pass_program(operator_pass, 'softmax_main', SOFTMAX_SHAPES, functions, constants)


# dtype -> (rows, classes) of the losses; the last one is timed
LOSS_SHAPES = {
    'float32': ((3, 33), (5, 1000), (64, 50257), (2048, 128256)),
    'bfloat16': ((3, 33), (5, 1000), (64, 50257), (8192, 128256)),
}
ADAMW_SIZES = ((1, 5, 561, 2048, 2049, 70000), (2**28,))  # per case the sizes of all tensors; the last case is timed
_RELATIVE_TOLERANCE = dict(float32=2e-6, bfloat16=2**-8 + 2e-6)


def loss_case_launches(dtype, rows, width) -> list:  # of `KernelLaunch`
    "Return the launches for the mean of the losses and its gradient, on an H100"
    problem = LossProblem(dtype, rows, width, MAX_LOAD_BYTES // losses.DTYPE_BYTES[dtype], -100)
    return [losses.scale_launch(problem, True), losses.single_pass_launch(problem, H100), losses.sum_launch(problem)]


def _loss_program(dtype):
    constants = f'''typedef {C_TYPES[dtype]} Logit;
constexpr double RELATIVE_TOLERANCE = {_RELATIVE_TOLERANCE[dtype]};'''
    signature = 'void launch(int case_index, Logit *x, const long long *target, float *scale, float *loss, float *out)'
    in_place = dict(grad='x')  # the gradient overwrites the logits
    lines = [
        [
            Launch(kernel_launch, [in_place.get(name, name) for name in kernel_launch.arrays])
            for kernel_launch in loss_case_launches(dtype, *size)
        ]
        for size in LOSS_SHAPES[dtype]
    ]
    description = f'`gridstride.kernels.cross_entropy` of {dtype}, forward and backward in a single pass, in place.'
    main_file, name = 'fused/cross_entropy_main.cuh', f'cross_entropy_{dtype}'
    return Program(name, description, main_file, 'rows, width', LOSS_SHAPES[dtype], {signature: lines}, constants)


def adamw_case_launches() -> list:  # of `KernelLaunch`
    "Return the launches of one step, one per case of `ADAMW_SIZES`"
    chunk_size = 4 * optimizers.THREADS
    return [
        optimizers.adamw_launch('float32', 4, False, sum(cdiv(size, chunk_size) for size in sizes))
        for sizes in ADAMW_SIZES
    ]


def _adamw_program():
    scalars = optimizers.compute_scalars(1e-3, (0.9, 0.999), 1e-8, 1e-2, 3)
    hyperparameters = ', '.join(f'{name} = {float(value)!r}f' for name, value in zip(optimizers.SCALARS, scalars))
    cases = ', '.join(f'{{{", ".join(map(str, sizes))}}}' for sizes in ADAMW_SIZES)
    constants = f'''constexpr long long CHUNK = {4 * optimizers.THREADS};
constexpr float {hyperparameters};
const std::vector<std::vector<long long>> cases = {{{cases}}};'''
    signature = 'void launch(int case_index, char *memory, const long long *table, const int2 *chunks)'
    lines = [
        [Launch(kernel_launch._replace(scalars=optimizers.SCALARS), kernel_launch.arrays)]
        for kernel_launch in adamw_case_launches()
    ]
    description = '`gridstride.kernels.AdamW` of float32: one step, for all tensors in one launch.'
    return Program('adamw_float32', description, 'fused/adamw_main.cuh', '', (), {signature: lines}, constants)


def programs() -> list:  # of `Program`
    "Return one program per `Pass`, one per dtype of the loss, and one for the optimizer"
    passes = [*map(_norm_or_gelu_program, PASSES), *map(_softmax_program, SOFTMAX_PASSES)]
    return [*passes, *map(_loss_program, LOSS_SHAPES), _adamw_program()]
