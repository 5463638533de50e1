"""Export `attention`, forward and backward, as standalone programs."""

from typing import NamedTuple

from . import calls
from .calls import AttentionProblem, Strides, padded
from ..ladder.rung import H100
from ..standalone import NAMESPACE, Launch, Program

SIZES = (2, 4, 2, 24, 24), (1, 2, 1, 191, 260), (2, 2, 2, 320, 77)  # batch, heads, group, rows, keys
LARGE = {64: (4, 16, 1, 8192, 8192), 128: (4, 16, 1, 8192, 8192), 256: (4, 8, 1, 8192, 8192)}


class Variant(NamedTuple):
    "A variant of attention that one program computes"

    what: str  # 'forward', 'backward' or 'mma_sync'
    dim: int
    causal: bool

    @property
    def name(self):
        "The name of the file"
        return f'attention_{self.what}_{self.dim}{"_causal" * self.causal}'


VARIANTS = [Variant('forward', d, problem) for d, problem in ((64, True), (128, False), (128, True), (256, False))]
VARIANTS += [Variant('backward', d, problem) for d, problem in ((64, True), (128, False), (128, True))]
VARIANTS += [Variant('mma_sync', d, problem) for d, problem in ((64, False), (128, True))]


def cases_of(variant) -> list:  # of (batch, heads, group, rows, keys)
    "Return the sizes that are tested; the last one is also timed"
    return [*SIZES, LARGE[variant.dim]]


def _strides(heads, rows, dim):
    "Return the strides of batch, heads and rows of a contiguous array, in elements"
    return heads * rows * dim, rows * dim, dim


def launches(variant, batch, heads, group, rows, keys) -> list:  # of (`KernelLaunch`, boxes of its first arrays)
    "Return the launches of a `Variant` for one size on an H100: forward and, for 'backward', the backward pass"
    problem = AttentionProblem(batch, heads, group, rows, keys, variant.dim, variant.causal, 0, False)
    scale, q_strides, k_strides = (
        variant.dim**-0.5,
        _strides(heads, rows, variant.dim),
        _strides(heads // group, keys, variant.dim),
    )
    if variant.what == 'mma_sync':
        return [(calls.forward_ampere(problem, scale, (q_strides, k_strides, k_strides, q_strides)), ())]
    res = [calls.forward_hopper(problem, scale, q_strides, H100)]
    if variant.what == 'backward':
        first, main, last = calls.backward_hopper(
            problem, scale, Strides(q_strides, q_strides, q_strides, k_strides, k_strides)
        )
        res += [(first, ()), main, (last, ())]
    return res


def _map(name, sizes, dim, box):
    "Return C++ for a tensor map"
    batch, heads, group, rows, keys = sizes
    sides = (batch, heads // group, keys, dim) if name in 'kv' else (batch, heads, rows, dim)
    size_list, boxes = (', '.join(map(str, values)) for values in (sides, box))
    return f'tensor_map<{NAMESPACE}::TensorMap>(a.{name}, {{{size_list}}}, {{{boxes}}}, 128)'


_IN_C = dict(
    lens='(const int *)nullptr',
    semaphores='(int *)nullptr',
    dq_sums='(float4 *)dq_sums',
    **{name: name for name in ('lse_log2', 'delta')},
)


def _launch(call, boxes, sizes, dim):
    maps = [_map(name, sizes, dim, box) for name, box in zip(call.arrays, boxes)]
    return Launch(call, [*maps, *(_IN_C.get(array, f'a.{array}') for array in call.arrays[len(maps) :])])


def _workspaces(variant, batch, heads, group, rows, keys):
    "Return C++ that allocates the workspaces of the backward pass"
    row_elements = dict(lse_log2=1, delta=1, dq_sums=variant.dim)
    return [
        f'static float *{name} = allocate<float>({batch * heads * padded(rows) * n});'
        for name, n in row_elements.items()
    ]


def _lines(variant, backward, sizes):
    "Return the lines of C++ of one pass for one size"
    launched = launches(variant, *sizes)
    selected = launched[1:] if backward else launched[:1]
    workspaces = _workspaces(variant, *sizes) if backward and selected else []
    return [*workspaces, *(_launch(*o, sizes, variant.dim) for o in selected)]


def _program(variant):
    constants = f'''constexpr int DIM = {variant.dim};
constexpr bool CAUSAL = {str(variant.causal).lower()}, BACKWARD = {str(variant.what == 'backward').lower()};
typedef __nv_bfloat16 bf16;'''
    sizes, main = cases_of(variant), 'flash/main.cuh'
    functions = {
        f'void {name}(int number, const Arrays &a)': [_lines(variant, backward, size) for size in sizes]
        for name, backward in (('forward', False), ('backward', True))
    }
    what = f'`gridstride.kernels.attention`, {variant.what.replace("_", ".")}, head dimension {variant.dim}, bfloat16.'
    return Program(variant.name, what, main, 'batch, heads, group, rows, keys', sizes, functions, constants)


def programs() -> list:  # of `Program`
    "Return one program per `Variant`"
    return [*map(_program, VARIANTS)]
