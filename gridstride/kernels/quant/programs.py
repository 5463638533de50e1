"""Products with weights of few bits as programs of their own: what `export` writes of them."""

from .calls import matvec_calls
from .eight_bits import BOXES, FEW, few_calls, row_calls
from .formats import nf4_codebook
from .packed import DEFAULT
from .sources import KINDS
from ..ladder.rung import H100
from ..standalone import SPACE, Launch, Program
from ..texts import IN_C

SHAPES = (1, 33, 136), (3, 203, 320), (16, 1000, 1024)  # rows of x, rows and columns of w
LARGE = 28672, 8192
_ROUNDING = dict(float16=2**-11, bfloat16=2**-8)


def cases_of(batch) -> list:  # of (rows of x, rows and columns of w)
    "What is tried, the last one also timed"
    return [*SHAPES, (batch, *LARGE)]


def _calls(kind, dtype, batch, rows, columns):
    return matvec_calls(kind, dtype, DEFAULT[kind], batch, rows, columns, False, False, H100)


def _matvec(kind, dtype, batch):
    constants = f'''typedef {IN_C[dtype]} From;
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


ROWS = (40, 8, 16), (300, 520, 400), (8192, 8192, 8192)  # h, w, k, the last one is timed
FEW_ROWS = (1, 40, 16), (3, 203, 400), (FEW, 1000, 1040), (1, *LARGE)
_HEAD = (
    'void launch(int number, const unsigned char *m, const unsigned char *n, __nv_bfloat16 *out, '
    'const float *m_scales, const float *n_scales)'
)


def _eight_bits(name, kind, what, sizes, lines):
    "A product of 8 bits on both sides"
    constants = f'''constexpr bool WHOLE = {str(kind == 'int8').lower()};
// at each 32 of k the sums of e4m3 keep some 13 bits of the largest, which may be many times the mean of all
constexpr double TERM = {1e-6 if kind == 'int8' else 2**-10};'''
    return Program(name, what, 'quant/rows_main.cuh', 'h, w, k', sizes, {_HEAD: lines}, constants)


def _map(name, sides, box):
    "C for the tensor map of m, n or out"
    sizes = ', '.join(map(str, (*sides, *box)))
    return f'static auto {name}_map = tensor_map<{SPACE}::TensorMap>({name}, {sizes}, 128);'


def _rows(kind, h, w, k):
    "The lines of a case"
    (c,) = row_calls(kind, h, w, k, H100)
    maps = [_map(o, sides, box) for o, sides, box in zip(c.arrays, ((h, k), (w, k), (h, w)), BOXES)]
    return [*maps, Launch(c, [*(f'{array}_map' for array in c.arrays[:3]), *c.arrays[3:]])]


def _rows_program(kind):
    what = f'`gridstride.kernels.quant.multiply_{kind}`: 8 bits on both sides, one scale per row.'
    return _eight_bits(f'multiply_{kind}', kind, what, ROWS, [_rows(kind, *row) for row in ROWS])


def _few_program():
    what = '`gridstride.kernels.quant.multiply_int8` for few rows: int8, multiplied by dp4a.'
    casts = dict(x='(const int4 *)m', n='(const int4 *)n')
    lines = [
        [Launch(c, [casts.get(array, array) for array in c.arrays]) for c in few_calls(*size)] for size in FEW_ROWS
    ]
    return _eight_bits('multiply_int8_few_rows', 'int8', what, FEW_ROWS, lines)


def programs() -> list:  # of `Program`
    "One per kind, one in float16, and one for many rows of x; and those of 8 bits on both sides"
    few = [(kind, 'bfloat16', 1) for kind in KINDS] + [('int4', 'float16', 1), ('int4', 'bfloat16', 16)]
    return [*(_matvec(*o) for o in few), _rows_program('fp8'), _rows_program('int8'), _few_program()]
