"""Standalone programs of GEMMs with an epilogue, for `export`."""

from typing import NamedTuple

from .calls import BATCH_TILES, TILES, GemmProblem, Tile, is_staged, gemm_launch, column_sum_rows
from ..ladder.rung import H100
from ..standalone import NAMESPACE, Launch, Program
from ..source_assembly import C_TYPES

_UNIT_ROUNDOFF = dict(float16=2**-11, bfloat16=2**-8, float32=2**-24)
_SCALE = 0.5  # the factor of A @ B
# flags of the host code -> fields of `GemmProblem`
_FLAGS = dict(BIASED='has_bias', MULTIPLIES='has_multiplier', ADDS='has_addend', SAVES='save', SUMS='sum_columns')


class _GemmProgram(NamedTuple):
    "A GEMM to export"

    description: str  # one line in the program
    problems: tuple  # of `GemmProblem`s; the last one is timed
    tile: Tile = next(iter(TILES))


def _problems(sizes, **fields):
    "Return one `GemmProblem` per (count, M, N, K) of `sizes`; `fields`: its other fields"
    fields = dict(dtype='bfloat16', out_dtype='bfloat16', layout='nn') | fields
    return tuple(GemmProblem(**fields, count=count, M=M, N=N, K=K) for count, M, N, K in sizes)


def _gemm_programs():
    "Yield (file name, `_GemmProgram`) per program"
    checked_sizes = (1, 8, 8, 8), (1, 136, 264, 72), (1, 520, 1032, 1000)
    up_projection, down_projection = (1, 8192, 14336, 4096), (1, 8192, 4096, 14336)
    description_format = '`matmul` with an `Epilogue`: {}.'
    for name, epilogue, timed_size, fields in (
        (
            'gelu',
            'a bias and GELU, whose gradient is stored',
            up_projection,
            dict(has_bias=True, activation='gelu', save='grad'),
        ),
        (
            'multiplied',
            'times another matrix, and column sums',
            up_projection,
            dict(has_multiplier=True, sum_columns=True),
        ),
        ('residual', 'a bias and a residual', down_projection, dict(has_bias=True, has_addend=True)),
        (
            'column_sums',
            'a residual, whose columns are summed',
            down_projection,
            dict(has_addend=True, sum_columns=True),
        ),
    ):
        layout = 'nt' if 'has_bias' in fields else 'nn'
        yield (
            f'gemm_{name}',
            _GemmProgram(
                description_format.format(epilogue), _problems((*checked_sizes, timed_size), layout=layout, **fields)
            ),
        )
    yield (
        'gemm_tn',
        _GemmProgram('`matmul` of a transpose.', _problems((*checked_sizes, (1, 4096, 14336, 8192)), layout='tn')),
    )
    fields = dict(out_dtype='float32', accumulate=True, layout='tn')
    problems = _problems((*checked_sizes, (1, 4096, 4096, 8192)), **fields)
    yield 'gemm_accumulate', _GemmProgram(description_format.format('added to float32'), problems)
    batch_sizes = (1, 8, 8, 8), (3, 136, 72, 72), (16, 520, 264, 136), (64, 1024, 1024, 64)
    for tile in BATCH_TILES:
        name = f'bmm_{tile.BM}x{tile.BN}' + '_2x1' * (tile.CM == 2) + f'_{tile.BLOCKS}_per_SM' * (tile.BLOCKS > 1)
        yield name, _GemmProgram(f'`bmm`, tiles of {tile.BM}x{tile.BN}.', _problems(batch_sizes), tile)
    group_sizes = (1, 8, 8, 8), (5, 290, 88, 136), (16, 8192, 14336, 4096)
    yield 'grouped_mm', _GemmProgram('`grouped_mm`.', _problems(group_sizes, is_grouped=True), list(TILES)[1])


def _tensor_map_code(problem, boxes):
    "Yield the C++ lines that create the tensor maps of a launch"
    has_single_a = problem.count == 1 or problem.is_grouped
    shape_a = (1 if has_single_a else problem.count, problem.M, problem.K)
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
        yield f'static auto {name}_map = tensor_map<{NAMESPACE}::TensorMap, Elem, 3>({args});'


def _stored_shape(shape, layout_letter):
    "Return the shape of a batch in memory: rows and columns are swapped if its letter in the layout is 't'"
    return (shape[0], shape[2], shape[1]) if layout_letter == 't' else shape


def _case_code(gemm, problem):
    "Return the C++ lines and the `Launch` for one problem"
    launch, boxes = gemm_launch(problem, _SCALE, H100, gemm.tile)
    args = ['A_map', 'B_map', 'out_map', 'saved_map', *(f'x.{array}' for array in launch.arrays[4:])]
    launch = launch._replace(scalars=(*launch.scalars[:-1], f'{_SCALE}f'))
    return [*_tensor_map_code(problem, boxes), Launch(launch, args)]


def _program(name, gemm):
    "Return the `Program` of a GEMM"
    first_problem = gemm.problems[0]  # all problems have the same types, layout and epilogue
    flags = ', '.join(f'{flag} = {_c_bool(getattr(first_problem, field))}' for flag, field in _FLAGS.items())
    transposed_flags = [_c_bool(letter == 't') for letter in first_problem.layout]
    is_grouped = _c_bool(first_problem.is_grouped)
    constants = f'''typedef {C_TYPES[first_problem.dtype]} Elem;
typedef {C_TYPES[first_problem.out_dtype]} Out;
constexpr bool a_transposed = {transposed_flags[0]}, b_transposed = {transposed_flags[1]}, GROUPS = {is_grouped};
constexpr bool {flags}, ACCUMULATES = {_c_bool(first_problem.accumulate)};
constexpr bool ACTIVATES = {_c_bool(first_problem.activation)};
constexpr double SCALE = {_SCALE}, UNIT_ROUNDOFF = {_UNIT_ROUNDOFF[first_problem.out_dtype]};'''
    sizes = [
        (problem.count, problem.M, problem.N, problem.K, column_sum_rows(problem, gemm.tile))
        for problem in gemm.problems
    ]
    functions = {
        'void launch(int case_index, const Arrays &x)': [_case_code(gemm, problem) for problem in gemm.problems]
    }
    fields = 'count, M, N, K, sum_rows'
    return Program(name, gemm.description, 'gemm/main.cuh', fields, sizes, functions, constants)


def _c_bool(value):
    "Return the C++ literal of a bool: true or false"
    return str(bool(value)).lower()


def programs() -> list:  # of `Program`
    "Return one program per epilogue of `mlp`, one for accumulation, one per tile of `bmm`, and one for grouped GEMMs"
    return [_program(name, gemm) for name, gemm in _gemm_programs()]
