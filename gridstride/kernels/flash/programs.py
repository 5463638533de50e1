"""Standalone programs of `attention`, forward and backward, for `export`."""

from typing import NamedTuple

from . import calls
from .calls import AttentionProblem, Strides, pad_rows
from ..ladder.rung import H100
from ..standalone import NAMESPACE, Launch, Program

CHECKED_SIZES = (2, 4, 2, 24, 24), (1, 2, 1, 191, 260), (2, 2, 2, 320, 77)  # batch, heads, group, rows, keys
TIMED_SIZES = {  # head dimension -> size
    64: (4, 16, 1, 8192, 8192),
    128: (4, 16, 1, 8192, 8192),
    256: (4, 8, 1, 8192, 8192),
}


class Variant(NamedTuple):
    "A variant of attention that one program computes"

    kernel: str  # 'forward', 'backward' or 'mma_sync'
    dim: int
    causal: bool

    @property
    def name(self):
        "The name of the file"
        return f'attention_{self.kernel}_{self.dim}{"_causal" * self.causal}'


VARIANTS = [Variant('forward', dim, causal) for dim, causal in ((64, True), (128, False), (128, True), (256, False))]
VARIANTS += [Variant('backward', dim, causal) for dim, causal in ((64, True), (128, False), (128, True))]
VARIANTS += [Variant('mma_sync', dim, causal) for dim, causal in ((64, False), (128, True))]


def cases_of(variant) -> list:  # of (batch, heads, group, rows, keys)
    "Return the sizes that a program checks; the last one is also timed"
    return [*CHECKED_SIZES, TIMED_SIZES[variant.dim]]


def _contiguous_strides(heads, rows, dim):
    "Return the strides of batch, heads and rows of a contiguous array, in elements"
    return heads * rows * dim, rows * dim, dim


def variant_launches(
    variant, batch, heads, group, rows, keys
) -> list:  # of (`KernelLaunch`, boxes of its first arrays)
    "Return the launches of a `Variant` for one size on an H100: forward and, for 'backward', the backward pass"
    problem = AttentionProblem(batch, heads, group, rows, keys, variant.dim, variant.causal, 0, False)
    scale, q_strides = variant.dim**-0.5, _contiguous_strides(heads, rows, variant.dim)
    k_strides = _contiguous_strides(heads // group, keys, variant.dim)
    if variant.kernel == 'mma_sync':
        return [(calls.forward_ampere(problem, scale, (q_strides, k_strides, k_strides, q_strides)), ())]
    launches_and_boxes = [calls.forward_hopper(problem, scale, q_strides, H100)]
    if variant.kernel == 'backward':
        strides = Strides(q_strides, q_strides, q_strides, k_strides, k_strides)
        prepare_launch, main_launch_and_boxes, finish_launch = calls.backward_hopper(problem, scale, strides)
        launches_and_boxes += [(prepare_launch, ()), main_launch_and_boxes, (finish_launch, ())]
    return launches_and_boxes


def _tensor_map_code(name, sizes, dim, box):
    "Return C++ for a tensor map"
    batch, heads, group, rows, keys = sizes
    shape = (batch, heads // group, keys, dim) if name in 'kv' else (batch, heads, rows, dim)
    shape_code, box_code = (', '.join(map(str, sizes)) for sizes in (shape, box))
    return f'tensor_map<{NAMESPACE}::TensorMap>(a.{name}, {{{shape_code}}}, {{{box_code}}}, 128)'


_ARGUMENT_CODE = dict(  # array of a launch -> C++ argument; other arrays are members of `a`
    lens='(const int *)nullptr',
    semaphores='(int *)nullptr',
    dq_sums='(float4 *)dq_sums',
    **{name: name for name in ('lse_log2', 'delta')},
)


def _make_launch(kernel_launch, boxes, sizes, dim):
    "Return the `Launch` of a `KernelLaunch`, with C++ for its arguments"
    tensor_maps = [_tensor_map_code(name, sizes, dim, box) for name, box in zip(kernel_launch.arrays, boxes)]
    return Launch(
        kernel_launch,
        [
            *tensor_maps,
            *(_ARGUMENT_CODE.get(array, f'a.{array}') for array in kernel_launch.arrays[len(tensor_maps) :]),
        ],
    )


def _workspace_code(variant, batch, heads, group, rows, keys):
    "Return C++ that allocates the workspaces of the backward pass"
    row_elements = dict(lse_log2=1, delta=1, dq_sums=variant.dim)
    return [
        f'static float *{name} = allocate<float>({batch * heads * pad_rows(rows) * size});'
        for name, size in row_elements.items()
    ]


def _pass_code(variant, is_backward, sizes):
    "Return the lines of C++ and the `Launch`es of one pass for one size"
    all_launches = variant_launches(variant, *sizes)
    pass_launches = all_launches[1:] if is_backward else all_launches[:1]
    workspaces = _workspace_code(variant, *sizes) if is_backward and pass_launches else []
    return [
        *workspaces,
        *(_make_launch(kernel_launch, boxes, sizes, variant.dim) for kernel_launch, boxes in pass_launches),
    ]


def _program(variant):
    constants = f'''constexpr int DIM = {variant.dim};
constexpr bool CAUSAL = {str(variant.causal).lower()}, BACKWARD = {str(variant.kernel == 'backward').lower()};
typedef __nv_bfloat16 bf16;'''
    sizes, main_file = cases_of(variant), 'flash/main.cuh'
    functions = {
        f'void {name}(int case_index, const Arrays &a)': [_pass_code(variant, is_backward, size) for size in sizes]
        for name, is_backward in (('forward', False), ('backward', True))
    }
    description = (
        f'`gridstride.kernels.attention`, {variant.kernel.replace("_", ".")}, head dimension {variant.dim}, bfloat16.'
    )
    return Program(variant.name, description, main_file, 'batch, heads, group, rows, keys', sizes, functions, constants)


def programs() -> list:  # of `Program`
    "Return one program per `Variant`"
    return [*map(_program, VARIANTS)]
