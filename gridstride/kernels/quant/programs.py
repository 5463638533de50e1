"""Standalone programs of GEMMs with quantized weights, for `export`."""

from .block_formats import BLOCK_FORMATS
from .calls import matvec_launches
from .eight_bits import BOXES, MAX_DP4A_ROWS, dp4a_launches, wgmma_launches
from .formats import nf4_codebook
from .packed import DEFAULT_GROUP
from .sources import KINDS
from ..ladder.rung import H100
from ..standalone import NAMESPACE, Launch, Program
from ..source_assembly import C_TYPES

MATVEC_SHAPES = (1, 33, 136), (3, 203, 320), (16, 1000, 1024)  # rows of x, rows and columns of w
TIMED_SHAPE = 28672, 8192
_UNIT_ROUNDOFF = dict(float16=2**-11, bfloat16=2**-8)


def matvec_cases(batch) -> list:  # of (rows of x, rows and columns of w)
    "Return the sizes that a program checks; the last one is also timed"
    return [*MATVEC_SHAPES, (batch, *TIMED_SHAPE)]


def _h100_matvec_launches(kind, dtype, batch, rows, columns):
    "Return the launch of `matvec` on an H100, with the default group and without a bias"
    return matvec_launches(kind, dtype, DEFAULT_GROUP[kind], batch, rows, columns, False, False, H100)


def _matvec_program(kind, dtype, batch):
    constants = f'''typedef {C_TYPES[dtype]} Elem;
enum {{ {', '.join(KINDS).upper()} }};
constexpr int KIND = {kind.upper()}, GROUP = {0 if DEFAULT_GROUP[kind] == 'row' else DEFAULT_GROUP[kind]};
constexpr float CODEBOOK[] = {{{', '.join(f'{value!r}f' for value in nf4_codebook())}}};
constexpr double UNIT_ROUNDOFF = {_UNIT_ROUNDOFF[dtype]};'''
    signature = 'void launch(int case_index, const Elem *x, const unsigned char *words, const Elem *scales, Elem *y)'
    argument_casts = dict(words='(const uint4 *)words', scales='(const unsigned *)scales')
    sizes = matvec_cases(batch)
    lines = [
        [
            Launch(kernel_launch, [argument_casts.get(name, name) for name in kernel_launch.arrays])
            for kernel_launch in _h100_matvec_launches(kind, dtype, *size)
        ]
        for size in sizes
    ]
    description = f'`gridstride.kernels.quant.matvec` of {kind}, x of {dtype}, timed with {batch} rows of x.'
    name, main_file = f'matvec_{kind}_{dtype}' + f'_{batch}_rows' * (batch > 1), 'quant/matvec_main.cuh'
    return Program(name, description, main_file, 'batch, rows, columns', sizes, {signature: lines}, constants)


WGMMA_SHAPES = (40, 8, 16), (300, 520, 400), (8192, 8192, 8192)  # M, N, K; the last one is timed
DP4A_SHAPES = (1, 40, 16), (3, 203, 400), (MAX_DP4A_ROWS, 1000, 1040), (1, *TIMED_SHAPE)
_EIGHT_BIT_SIGNATURE = (
    'void launch(int case_index, const unsigned char *a, const unsigned char *b, __nv_bfloat16 *out, '
    'const float *a_scales, const float *b_scales)'
)


def _eight_bit_program(name, kind, description, sizes, lines):
    "Return the `Program` of an 8-bit GEMM"
    constants = f'''constexpr bool INTEGERS = {str(kind == 'int8').lower()};
// per 32 elements along K, an e4m3 accumulator keeps about 13 bits of the largest term, which may far exceed the mean
constexpr double TERM_TOLERANCE = {1e-6 if kind == 'int8' else 2**-10};'''
    return Program(name, description, 'quant/rows_main.cuh', 'M, N, K', sizes, {_EIGHT_BIT_SIGNATURE: lines}, constants)


def _tensor_map_code(name, shape, box):
    "Return C++ that defines the tensor map of a, b or out"
    sizes = ', '.join(map(str, (*shape, *box)))
    return f'static auto {name}_map = tensor_map<{NAMESPACE}::TensorMap>({name}, {sizes}, 128);'


def _wgmma_case_lines(kind, M, N, K):
    "Return the lines of C++ and the `Launch` for one size"
    (kernel_launch,) = wgmma_launches(kind, M, N, K, H100)
    shapes = (M, K), (N, K), (M, N)
    tensor_maps = [_tensor_map_code(name, shape, box) for name, shape, box in zip(kernel_launch.arrays, shapes, BOXES)]
    return [
        *tensor_maps,
        Launch(kernel_launch, [*(f'{name}_map' for name in kernel_launch.arrays[:3]), *kernel_launch.arrays[3:]]),
    ]


def _wgmma_program(kind):
    description = f'`gridstride.kernels.quant.multiply_{kind}`: 8-bit operands, one scale per row.'
    return _eight_bit_program(
        f'multiply_{kind}', kind, description, WGMMA_SHAPES, [_wgmma_case_lines(kind, *shape) for shape in WGMMA_SHAPES]
    )


def _dp4a_program():
    description = '`gridstride.kernels.quant.multiply_int8` for few rows: int8, multiplied by dp4a.'
    argument_casts = dict(x='(const int4 *)a', b='(const int4 *)b')
    lines = [
        [
            Launch(kernel_launch, [argument_casts.get(name, name) for name in kernel_launch.arrays])
            for kernel_launch in dp4a_launches(*size)
        ]
        for size in DP4A_SHAPES
    ]
    return _eight_bit_program('multiply_int8_few_rows', 'int8', description, DP4A_SHAPES, lines)


def programs() -> list:  # of `Program`
    """Return programs of `matvec` (one per kind, one in float16, one for 16 rows of x) and of the 8-bit GEMMs.

    Block-scaled kinds are omitted, because the host code of these programs does not support 8-bit scales."""
    variants = [(kind, 'bfloat16', 1) for kind in KINDS if kind not in BLOCK_FORMATS]
    variants += [('int4', 'float16', 1), ('int4', 'bfloat16', 16)]
    return [
        *(_matvec_program(*variant) for variant in variants),
        _wgmma_program('fp8'),
        _wgmma_program('int8'),
        _dp4a_program(),
    ]
