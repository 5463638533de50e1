"""The standalone programs of products with an epilogue, which `export` writes."""

from typing import NamedTuple

from .calls import BATCH_TILES, TILES, GemmProblem, Tile, is_staged, product_call, column_sum_rows
from ..ladder.rung import H100
from ..standalone import NAMESPACE, Launch, Program
from ..source_assembly import C_TYPES

_ROUNDING = dict(float16=2**-11, bfloat16=2**-8, float32=2**-24)
_SCALE = 0.5  # factor of each product
# flags of the host code -> fields of `GemmProblem`
_FLAGS = dict(BIASED='bias', MULTIPLIES='multiplied', ADDS='added', SAVES='saved', SUMS='column_sums')


class _Product(NamedTuple):
    "A product to export"

    description: str  # one line in the program
    problems: tuple  # of `GemmProblem`s; the last one is timed
    tile: Tile = next(iter(TILES))


def _problems(sizes, **more):
    "Return the `GemmProblem`s for sizes (count, M, N, K)"
    options = dict(dtype='bfloat16', out_dtype='bfloat16', layout='nn') | more
    return tuple(GemmProblem(**options, count=count, M=M, N=N, K=K) for count, M, N, K in sizes)


def _products():
    "Yield (name of the file, `_Product`)"
    small = (1, 8, 8, 8), (1, 136, 264, 72), (1, 520, 1032, 1000)
    up, down = (1, 8192, 14336, 4096), (1, 8192, 4096, 14336)
    with_epilogue = '`matmul` with an `Epilogue`: {}.'
    for name, description, large, more in (
        ('gelu', 'a bias and GELU, whose gradient is stored', up, dict(bias=True, activation='gelu', saved='grad')),
        ('times', 'times another matrix, and column sums', up, dict(multiplied=True, column_sums=True)),
        ('residual', 'a bias and a residual', down, dict(bias=True, added=True)),
        ('summed', 'a residual, whose columns are summed', down, dict(added=True, column_sums=True)),
    ):
        layout = 'nt' if 'bias' in more else 'nn'
        yield (
            f'product_{name}',
            _Product(with_epilogue.format(description), _problems((*small, large), layout=layout, **more)),
        )
    yield 'product_tn', _Product('`matmul` of a transpose.', _problems((*small, (1, 4096, 14336, 8192)), layout='tn'))
    options = dict(out_dtype='float32', accumulate=True, layout='tn')
    accumulated = _problems((*small, (1, 4096, 4096, 8192)), **options)
    yield 'product_onto', _Product(with_epilogue.format('added to float32'), accumulated)
    batch = (1, 8, 8, 8), (3, 136, 72, 72), (16, 520, 264, 136), (64, 1024, 1024, 64)
    for tile in BATCH_TILES:
        name = f'bmm_{tile.BM}x{tile.BN}' + '_below' * (tile.CM == 2) + f'_{tile.BLOCKS}_an_SM' * (tile.BLOCKS > 1)
        yield name, _Product(f'`bmm`, tiles of {tile.BM}x{tile.BN}.', _problems(batch), tile)
    groups = (1, 8, 8, 8), (5, 290, 88, 136), (16, 8192, 14336, 4096)
    yield 'grouped_mm', _Product('`grouped_mm`.', _problems(groups, grouped=True), list(TILES)[1])


def _tensor_map_code(problem, boxes):
    "Yield C that makes the tensor maps of a launch"
    single = problem.count == 1 or problem.grouped
    shape_a = (1 if single else problem.count, problem.M, problem.K)
    shape_b = (problem.count, problem.K, problem.N)
    shape_out = (problem.count, problem.M, problem.N)
    shapes = dict(A=_stored_shape(shape_a, problem.layout[0]), B=_stored_shape(shape_b, problem.layout[1]))
    if is_staged(problem):
        arrays = dict(A='A', B='B', out='out', saved='saved')
        shapes |= dict(out=shape_out, saved=shape_out)
    else:  # the kernel does not use the last two maps
        arrays = dict(A='A', B='B', out='A', saved='A')
        shapes |= dict(out=shapes['A'], saved=shapes['A'])
    for name, (box, swizzle) in zip(arrays, boxes):
        sizes = ', '.join(f'{{{", ".join(map(str, size))}}}' for size in (shapes[name], box))
        args = f'x.{arrays[name]}, {sizes}, {swizzle}'
        yield f'static auto {name}_map = tensor_map<{NAMESPACE}::TensorMap, Number, 3>({args});'


def _stored_shape(shape, letter):
    "Return a batch's shape in memory, with rows and columns swapped for the letter 't' of the layout"
    return (shape[0], shape[2], shape[1]) if letter == 't' else shape


def _case_code(product, problem):
    "Return the lines of C for a case"
    call, boxes = product_call(problem, _SCALE, H100, product.tile)
    args = ['A_map', 'B_map', 'out_map', 'saved_map', *(f'x.{array}' for array in call.arrays[4:])]
    call = call._replace(scalars=(*call.scalars[:-1], f'{_SCALE}f'))
    return [*_tensor_map_code(problem, boxes), Launch(call, args)]


def _program(name, product):
    first = product.problems[0]  # all problems have the same types, layout and epilogue
    flags = ', '.join(f'{flag} = {_c_bool(getattr(first, field))}' for flag, field in _FLAGS.items())
    transposed = [_c_bool(letter == 't') for letter in first.layout]
    constants = f'''typedef {C_TYPES[first.dtype]} Number;
typedef {C_TYPES[first.out_dtype]} Out;
constexpr bool a_transposed = {transposed[0]}, b_transposed = {transposed[1]}, GROUPS = {_c_bool(first.grouped)};
constexpr bool {flags}, ACCUMULATES = {_c_bool(first.accumulate)};
constexpr bool ACTIVATES = {_c_bool(first.activation)};
constexpr double SCALE = {_SCALE}, ROUNDING = {_ROUNDING[first.out_dtype]};'''
    sizes = [(p.count, p.M, p.N, p.K, column_sum_rows(p, product.tile)) for p in product.problems]
    functions = {
        'void launch(int number, const Arrays &x)': [_case_code(product, problem) for problem in product.problems]
    }
    fields = 'count, M, N, K, sum_rows'
    return Program(name, product.description, 'gemm/main.cuh', fields, sizes, functions, constants)


def _c_bool(x):
    "Return C's true or false"
    return str(bool(x)).lower()


def programs() -> list:  # of `Program`
    "Return one program per epilogue of `mlp`, for accumulation, per tile of `bmm`, and for a grouped GEMM"
    return [_program(name, product) for name, product in _products()]
