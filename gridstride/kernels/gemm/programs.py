"""Products with epilogues as programs of their own: what `export` writes of them."""

from typing import NamedTuple

from .calls import BATCHES, TILES, GemmProblem, Tile, is_staged, product_call, sum_rows
from ..ladder.rung import H100
from ..standalone import SPACE, Launch, Program
from ..texts import IN_C

_ROUNDING = dict(float16=2**-11, bfloat16=2**-8, float32=2**-24)
_SCALE = 0.5
_KINDS = dict(BIASED='bias', ACTIVATES='activation', MULTIPLIES='times', ADDS='added', SAVES='saved', SUMS='summed')


class _Product(NamedTuple):
    "A product to export"

    what: str  # it does
    cases: tuple  # of `GemmProblem`s, the last one is timed
    tile: Tile = next(iter(TILES))


def _cases(sizes, **more):
    "`GemmProblem`s of sizes: (products, h, w, k)"
    given = dict(dtype='bfloat16', out='bfloat16', layout='nn') | more
    return tuple(GemmProblem(**given, count=count, h=h, w=w, k=k) for count, h, w, k in sizes)


def _products():
    "name of the file -> `_Product`"
    small, said = ((1, 8, 8, 8), (1, 136, 264, 72), (1, 520, 1032, 1000)), '`matmul` with an `Epilogue`: {}.'
    up, down = (1, 8192, 14336, 4096), (1, 8192, 4096, 14336)
    for name, what, large, more in (
        ('gelu', 'a bias and GELU, whose gradient is kept', up, dict(bias=True, activation='gelu', saved='grad')),
        ('times', 'times another matrix, and sums of columns', up, dict(times=True, summed=True)),
        ('residual', 'a bias and a residual', down, dict(bias=True, added=True)),
        ('summed', 'a residual, whose columns are summed', down, dict(added=True, summed=True)),
    ):
        layout = 'nt' if 'bias' in more else 'nn'
        yield f'product_{name}', _Product(said.format(what), _cases((*small, large), layout=layout, **more))
    yield 'product_tn', _Product('`matmul` of a transpose.', _cases((*small, (1, 4096, 14336, 8192)), layout='tn'))
    onto = dict(out='float32', onto=True, layout='tn')
    yield 'product_onto', _Product(said.format('added to float32'), _cases((*small, (1, 4096, 4096, 8192)), **onto))
    batch = (1, 8, 8, 8), (3, 136, 72, 72), (16, 520, 264, 136), (64, 1024, 1024, 64)
    for tile in BATCHES:
        name = f'bmm_{tile.BM}x{tile.BN}' + '_below' * (tile.CM == 2) + f'_{tile.BLOCKS}_an_SM' * (tile.BLOCKS > 1)
        yield name, _Product(f'`bmm`, tiles of {tile.BM}x{tile.BN}.', _cases(batch), tile)
    groups = (1, 8, 8, 8), (5, 290, 88, 136), (16, 8192, 14336, 4096)
    yield 'grouped_mm', _Product('`grouped_mm`.', _cases(groups, grouped=True), list(TILES)[1])


def _maps(case, boxes):
    "C for the tensor maps of a launch"
    one = case.count == 1 or case.grouped
    m, n = (1 if one else case.count, case.h, case.k), (case.count, case.k, case.w)
    out = (case.count, case.h, case.w)
    sides = dict(
        m=(m[0], m[2], m[1]) if case.layout[0] == 't' else m, n=(n[0], n[2], n[1]) if case.layout[1] == 't' else n
    )
    sides['out'] = sides['saved'] = out if is_staged(case) else sides['m']
    arrays = dict(m='m', n='n', out='out', saved='saved') if is_staged(case) else dict(m='m', n='n', out='m', saved='m')
    for name, (box, swizzle) in zip(arrays, boxes):
        three = ', '.join(f'{{{", ".join(map(str, o))}}}' for o in (sides[name], box))
        given = f'x.{arrays[name]}, {three}, {swizzle}'
        yield f'static auto {name}_map = tensor_map<{SPACE}::TensorMap, Number, 3>({given});'


def _lines(p, case):
    "The lines of a case"
    call, boxes = product_call(case, _SCALE, H100, p.tile)
    args = ['m_map', 'n_map', 'out_map', 'saved_map', *(f'x.{array}' for array in call.arrays[4:])]
    call = call._replace(scalars=(*call.scalars[:-1], f'{_SCALE}f'))
    return [*_maps(case, boxes), Launch(call, args)]


def _program(name, p):
    c = p.cases[0]
    kinds = ', '.join(f'{k} = {str(bool(getattr(c, o))).lower()}' for k, o in _KINDS.items() if o != 'activation')
    transposed = [str(o == 't').lower() for o in c.layout]
    constants = f'''typedef {IN_C[c.dtype]} Number;
typedef {IN_C[c.out]} Out;
constexpr bool m_transposed = {transposed[0]}, n_transposed = {transposed[1]}, GROUPS = {str(c.grouped).lower()};
constexpr bool {kinds}, ONTO = {str(c.onto).lower()};
constexpr bool ACTIVATES = {str(bool(c.activation)).lower()};
constexpr double SCALE = {_SCALE}, ROUNDING = {_ROUNDING[c.out]};'''
    sizes = [(problem.count, problem.h, problem.w, problem.k, sum_rows(problem, p.tile)) for problem in p.cases]
    functions = {'void launch(int number, const Arrays &x)': [_lines(p, problem) for problem in p.cases]}
    main = 'gemm/main.cuh'
    return Program(name, p.what, main, 'count, h, w, k, sum_rows', sizes, functions, constants)


def programs() -> list:  # of `Program`
    "One per epilogue of `mlp`, for accumulation, per tile of `bmm`, and for groups"
    return [_program(*o) for o in _products()]
