"""Products with weights of few bits as programs of their own: what `export` writes of them."""

from .calls import matvec_calls
from .formats import nf4_codebook
from .packed import DEFAULT
from .sources import KINDS
from ..rung import H100
from ..standalone import in_spaces, program, start, switch
from ..texts import IN_C

SHAPES = (1, 33, 136), (3, 203, 320), (16, 1000, 1024)  # rows of x, rows and columns of w
LARGE = 28672, 8192
_ROUNDING = dict(float16=2**-11, bfloat16=2**-8)


def cases_of(batch) -> list:  # of (rows of x, rows and columns of w)
    "What is tried, the last one also timed"
    return [*SHAPES, (batch, *LARGE)]


def _calls(kind, dtype, batch, rows, columns):
    return matvec_calls(kind, dtype, DEFAULT[kind], batch, rows, columns, False, H100)


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
    lines = [[start(c, f'{spaces[c.src]}::{c.name}', [*_c(c), *map(str, c.numbers)]) for c in o] for o in every]
    what = [f'`gridstride.kernels.quant.matvec` of {kind}, x of {dtype}, timed with {batch} of its rows.']
    return program(name, what, kernels, names, 'quant/matvec_main.cuh', switch(head, lines))


def _c(call):
    "C for the arrays of a call"
    casts = dict(words='(const uint4 *)words', scales='(const unsigned *)scales')
    return [casts.get(o, o) for o in call.arrays]


def list_quant_programs() -> dict:  # name of the file -> the whole `.cu`
    "A program for each kind, one in float16, and one for many rows of x"
    few = [(kind, 'bfloat16', 1) for kind in KINDS] + [('int4', 'float16', 1), ('int4', 'bfloat16', 16)]
    named = {
        f'matvec_{kind}_{dtype}' + f'_{batch}_rows' * (batch > 1): (kind, dtype, batch) for kind, dtype, batch in few
    }
    return {name: _program(name, *o) for name, o in named.items()}
