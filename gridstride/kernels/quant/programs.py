"""Export products with quantized weights as standalone programs."""

from .calls import matvec_calls
from .eight_bits import BOXES, MAX_DP4A_ROWS, dp4a_calls, wgmma_calls
from .formats import nf4_codebook
from .packed import DEFAULT
from .sources import KINDS
from ..ladder.rung import H100
from ..standalone import NAMESPACE, Launch, Program
from ..texts import C_TYPES

SHAPES = (1, 33, 136), (3, 203, 320), (16, 1000, 1024)  # rows of x, rows and columns of w
LARGE = 28672, 8192
_ROUNDING = dict(float16=2**-11, bfloat16=2**-8)


def cases_of(batch) -> list:  # of (rows of x, rows and columns of w)
    "Return the sizes that are tested; the last one is also timed"
    return [*SHAPES, (batch, *LARGE)]


def _calls(kind, dtype, batch, rows, columns):
    return matvec_calls(kind, dtype, DEFAULT[kind], batch, rows, columns, False, False, H100)


def _matvec(kind, dtype, batch):
    constants = f'''typedef {C_TYPES[dtype]} From;
enum {{ {', '.join(KINDS).upper()} }};
constexpr int KIND = {kind.upper()}, GROUP = {0 if DEFAULT[kind] == 'row' else DEFAULT[kind]};
constexpr float BOOK[] = {{{', '.join(f'{o!r}f' for o in nf4_codebook())}}};
constexpr double ROUNDING = {_ROUNDING[dtype]};'''
    head = 'void launch(int number, const From *x, const unsigned char *words, const From *scales, From *y)'
    casts = dict(words='(const uint4 *)words', scales='(const unsigned *)scales')
    sizes = cases_of(batch)
    lines = [
        [Launch(c, [casts.get(array, array) for array in c.arrays]) for c in _calls(kind, dtype, *size)]
        for size in sizes
    ]
    what = f'`gridstride.kernels.quant.matvec` of {kind}, x of {dtype}, timed with {batch} of its rows.'
    name, main = f'matvec_{kind}_{dtype}' + f'_{batch}_rows' * (batch > 1), 'quant/matvec_main.cuh'
    return Program(name, what, main, 'batch, rows, columns', sizes, {head: lines}, constants)


ROWS = (40, 8, 16), (300, 520, 400), (8192, 8192, 8192)  # M, N, K; the last one is timed
FEW_ROWS = (1, 40, 16), (3, 203, 400), (MAX_DP4A_ROWS, 1000, 1040), (1, *LARGE)
_HEAD = (
    'void launch(int number, const unsigned char *a, const unsigned char *b, __nv_bfloat16 *out, '
    'const float *a_scales, const float *b_scales)'
)


def _eight_bits(name, kind, what, sizes, lines):
    "Return the `Program` of a product of two 8-bit operands"
    constants = f'''constexpr bool WHOLE = {str(kind == 'int8').lower()};
// per 32 elements along K, e4m3 accumulators keep about 13 bits of the largest term, which may far exceed the mean
constexpr double TERM = {1e-6 if kind == 'int8' else 2**-10};'''
    return Program(name, what, 'quant/rows_main.cuh', 'M, N, K', sizes, {_HEAD: lines}, constants)


def _map(name, sides, box):
    "Return C++ for the tensor map of a, b or out"
    sizes = ', '.join(map(str, (*sides, *box)))
    return f'static auto {name}_map = tensor_map<{NAMESPACE}::TensorMap>({name}, {sizes}, 128);'


def _rows(kind, M, N, K):
    "Return the lines of C++ for one size"
    (c,) = wgmma_calls(kind, M, N, K, H100)
    maps = [_map(o, sides, box) for o, sides, box in zip(c.arrays, ((M, K), (N, K), (M, N)), BOXES)]
    return [*maps, Launch(c, [*(f'{array}_map' for array in c.arrays[:3]), *c.arrays[3:]])]


def _rows_program(kind):
    what = f'`gridstride.kernels.quant.multiply_{kind}`: 8 bits on both sides, one scale per row.'
    return _eight_bits(f'multiply_{kind}', kind, what, ROWS, [_rows(kind, *row) for row in ROWS])


def _few_program():
    what = '`gridstride.kernels.quant.multiply_int8` for few rows: int8, multiplied by dp4a.'
    casts = dict(x='(const int4 *)a', b='(const int4 *)b')
    lines = [
        [Launch(c, [casts.get(array, array) for array in c.arrays]) for c in dp4a_calls(*size)] for size in FEW_ROWS
    ]
    return _eight_bits('multiply_int8_few_rows', 'int8', what, FEW_ROWS, lines)


def programs() -> list:  # of `Program`
    "Return one program per kind, one in float16, one for many rows of x, and those of two 8-bit operands"
    few = [(kind, 'bfloat16', 1) for kind in KINDS] + [('int4', 'float16', 1), ('int4', 'bfloat16', 16)]
    return [*(_matvec(*o) for o in few), _rows_program('fp8'), _rows_program('int8'), _few_program()]
