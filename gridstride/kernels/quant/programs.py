"""Products with weights of few bits as programs of their own: what `export` writes of them."""

from .calls import matvec_calls
from .eight_bits import BOXES, FEW, few_calls, row_calls
from .formats import nf4_codebook
from .packed import DEFAULT
from .sources import KINDS
from ..ladder.rung import H100
from ..standalone import in_spaces, program, start, switch
from ..texts import IN_C

SHAPES = (1, 33, 136), (3, 203, 320), (16, 1000, 1024)  # rows of x, rows and columns of w
LARGE = 28672, 8192
_ROUNDING = dict(float16=2**-11, bfloat16=2**-8)


def cases_of(batch) -> list:  # of (rows of x, rows and columns of w)
    "What is tried, the last one also timed"
    return [*SHAPES, (batch, *LARGE)]


def _calls(kind, dtype, batch, rows, columns):
    return matvec_calls(kind, dtype, DEFAULT[kind], batch, rows, columns, False, False, H100)


def _program(name, kind, dtype, batch):
    every = [_calls(kind, dtype, *o) for o in cases_of(batch)]
    kernels, spaces = in_spaces([c for calls in every for c in calls])
    sizes = ', '.join(f'{{{", ".join(map(str, o))}}}' for o in cases_of(batch))
    names = f'''const char *const NAME = "{name}";
constexpr int SMS = {H100.sms};
typedef {IN_C[dtype]} From;
enum {{ {', '.join(KINDS).upper()} }};
constexpr int KIND = {kind.upper()}, GROUP = {0 if DEFAULT[kind] == 'row' else DEFAULT[kind]};
constexpr float BOOK[] = {{{', '.join(f'{o!r}f' for o in nf4_codebook())}}};
constexpr double ROUNDING = {_ROUNDING[dtype]};
constexpr struct {{ int batch, rows, columns; }} cases[] = {{{sizes}}};'''
    head = 'void launch(int number, const From *x, const unsigned char *words, const From *scales, From *y)'
    lines = [[start(c, f'{spaces[c.src]}::{c.name}', [*_c(c), *map(str, c.scalars)]) for c in o] for o in every]
    what = [f'`gridstride.kernels.quant.matvec` of {kind}, x of {dtype}, timed with {batch} of its rows.']
    return program(name, what, kernels, names, 'quant/matvec_main.cuh', switch(head, lines))


def _c(call):
    "C for the arrays of a call"
    casts = dict(words='(const uint4 *)words', scales='(const unsigned *)scales')
    return [casts.get(o, o) for o in call.arrays]


ROWS = (40, 8, 16), (300, 520, 400), (8192, 8192, 8192)  # h, w, k, the last one is timed
FEW_ROWS = (1, 40, 16), (3, 203, 400), (FEW, 1000, 1040), (1, *LARGE)
_HEAD = (
    'void launch(int number, const unsigned char *m, const unsigned char *n, __nv_bfloat16 *out, '
    'const float *m_scales, const float *n_scales)'
)


def _names(name, kind, cases):
    "C for the constants of rows_main.cuh"
    return f'''const char *const NAME = "{name}";
constexpr int SMS = {H100.sms};
constexpr bool WHOLE = {str(kind == 'int8').lower()};
// at each 32 of k the sums of e4m3 keep some 13 bits of the largest, which may be many times the mean of all
constexpr double TERM = {1e-6 if kind == 'int8' else 2**-10};
constexpr struct {{ int h, w, k; }} cases[] = {{{', '.join(f'{{{h}, {w}, {k}}}' for h, w, k in cases)}}};'''


def _map(name, sides, box):
    "C for the tensor map of m, n or out"
    (rows, columns), (box_rows, box_columns) = sides, box
    return f'static auto {name}_map = tensor_map<TensorMap>({name}, {rows}, {columns}, {box_rows}, {box_columns}, 128);'


def _rows_program(name, kind):
    every = [row_calls(kind, *o, H100) for o in ROWS]
    kernels, spaces = in_spaces([c for calls in every for c in calls])
    (space,) = spaces.values()
    names = f'using {space}::TensorMap;\n{_names(name, kind, ROWS)}'
    lines = []
    for (h, w, k), (c,) in zip(ROWS, every):
        maps = [_map(o, sides, box) for o, sides, box in zip(c.arrays, ((h, k), (w, k), (h, w)), BOXES)]
        args = [*(f'{o}_map' for o in c.arrays[:3]), *c.arrays[3:], *map(str, c.scalars)]
        lines.append([*maps, start(c, f'{space}::{c.name}', args)])
    what = [f'`gridstride.kernels.quant.multiply_{kind}`: 8 bits on both sides, a scale for each row.']
    main = 'tensor_map.cuh', 'quant/rows_main.cuh'
    return program(name, what, kernels, names, main, switch(_HEAD, lines))


def _few_program(name):
    every = [few_calls(*o) for o in FEW_ROWS]
    kernels, spaces = in_spaces([c for calls in every for c in calls])
    casts, lines = dict(x='(const int4 *)m', n='(const int4 *)n'), []
    for (c,) in every:
        args = [*(casts.get(o, o) for o in c.arrays), *map(str, c.scalars)]
        lines.append([start(c, f'{spaces[c.src]}::{c.name}', args)])
    what = ['`gridstride.kernels.quant.multiply_int8` for few rows: whole numbers of 8 bits, multiplied by dp4a.']
    names = _names(name, 'int8', FEW_ROWS)
    return program(name, what, kernels, names, 'quant/rows_main.cuh', switch(_HEAD, lines))


def list_quant_programs() -> dict:  # name of the file -> the whole `.cu`
    "One program per kind, one in float16, and one for many rows of x; and those of 8 bits on both sides"
    few = [(kind, 'bfloat16', 1) for kind in KINDS] + [('int4', 'float16', 1), ('int4', 'bfloat16', 16)]
    named = {f'matvec_{kind}_{x}' + f'_{batch}_rows' * (batch > 1): (kind, x, batch) for kind, x, batch in few}
    res = {name: _program(name, *o) for name, o in named.items()}
    res |= {f'multiply_{o}': _rows_program(f'multiply_{o}', o) for o in ('fp8', 'int8')}
    return res | dict(multiply_int8_few_rows=_few_program('multiply_int8_few_rows'))
