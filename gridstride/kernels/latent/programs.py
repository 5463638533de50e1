"""Standalone programs of `latent_attention`, for `export`."""

from typing import NamedTuple

from . import calls
from .calls import DecodeProblem
from .sources import HEAD_DIM_K, PAGE_SIZE
from ..ladder.rung import H100
from ..standalone import NAMESPACE, Launch, Program
from ...utils import cdiv

CHECKED_SIZES = (3, 200), (1, 64), (70, 65)  # batch size, context length
TIMED_SIZE = 128, 8192


class Variant(NamedTuple):
    "A variant of latent attention that one program computes"

    kernel: str  # 'hopper' or 'mma_sync'
    heads: int

    @property
    def name(self):
        "The name of the file"
        return f'latent_attention_{self.kernel}_{self.heads}'


VARIANTS = [Variant('hopper', 128), Variant('hopper', 64), Variant('hopper', 16), Variant('mma_sync', 128)]


def cases_of(variant) -> list:  # of (batch, keys)
    "Return the sizes that a program checks; the last one is also timed"
    return [*CHECKED_SIZES, TIMED_SIZE]


def variant_launches(variant, batch, keys) -> tuple:  # ([(`KernelLaunch`, boxes of its first arrays)], workspaces)
    "Return the launches of a `Variant` for one size on an H100"
    table_columns = cdiv(keys, PAGE_SIZE)
    pages, boxes = batch * table_columns, ()
    problem = DecodeProblem('bfloat16', batch, variant.heads, variant.heads, pages, table_columns)
    gpu = H100._replace(is_hopper=variant.kernel == 'hopper')
    if gpu.is_hopper:
        kernel_launch, boxes, num_splits = calls.decode_hopper(problem, calls.SCALE, 0, gpu)
    else:
        kernel_launch, num_splits = calls.decode_ampere(problem, calls.SCALE, 0, gpu)
    return [(kernel_launch, boxes), (calls.merge_launch(problem, num_splits, gpu), ())], calls.workspace_sizes(
        problem, num_splits
    )


def _make_launch(kernel_launch, boxes, rows):
    "Return the `Launch` of a `KernelLaunch`; `rows`: number of rows of each array that is passed as a tensor map"
    args = [array if array in ('partial_out', 'partial_lse') else f'a.{array}' for array in kernel_launch.arrays]
    for i, (box, num_rows) in enumerate(zip(boxes, rows)):
        args[i] = f'tensor_map<{NAMESPACE}::TensorMap>({args[i]}, {num_rows}, {HEAD_DIM_K}, {box[0]}, {box[1]}, 128)'
    return Launch(kernel_launch, args)


def _case_lines(variant, batch, keys):
    "Return the lines of C++ and the `Launch`es for one size"
    launches_and_boxes, workspaces = variant_launches(variant, batch, keys)
    rows = batch * variant.heads, batch * cdiv(keys, PAGE_SIZE) * PAGE_SIZE
    allocations = [f'static float *{name} = allocate<float>({size});' for name, size in workspaces.items()]
    return [*allocations, *(_make_launch(kernel_launch, boxes, rows) for kernel_launch, boxes in launches_and_boxes)]


def _program(variant):
    constants = f'''constexpr int HEADS = {variant.heads};
constexpr double SCALE = {calls.SCALE};
typedef __nv_bfloat16 bf16;'''
    description = (
        f'`gridstride.kernels.latent_attention`, {variant.kernel.replace("_", ".")}, {variant.heads} heads, bfloat16.'
    )
    main_file, sizes = 'latent/main.cuh', cases_of(variant)
    functions = {'void decode(int case_index, const Arrays &a)': [_case_lines(variant, *size) for size in sizes]}
    return Program(variant.name, description, main_file, 'batch, keys', sizes, functions, constants)


def programs() -> list:  # of `Program`
    "Return one program per `Variant`"
    return [*map(_program, VARIANTS)]
