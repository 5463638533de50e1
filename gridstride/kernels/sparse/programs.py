"""Products with sparse matrices as programs of their own: what `export` writes of them."""

from typing import NamedTuple

from .blocks import blocks_call
from .csr import csr_call
from .two_four import hopper_call, warps_call
from ..ladder.rung import H100
from ..standalone import SPACE, Launch, Program
from ..texts import IN_C

_ROUNDING = dict(float16=2**-11, bfloat16=2**-8, float32=2**-24)
_LARGE = 8192, 8192, 8192
_KEPT = 100  # blocks or elements of a thousand
_CASTS = dict(words='(const {} *)w.words', values='w.values', starts='w.starts', columns='w.columns', out='y')


class _Product(NamedTuple):
    "A product to export"

    what: str  # it is
    kind: str  # in C
    dtype: str
    cases: tuple  # of (rows of w, of x, k), the last one is timed
    calls: object  # (rows, n, k) -> a `KernelLaunch`, and the (box, swizzle) of its first arrays
    word: str = 'uint2'  # C's type of `words`
    block: int = 0  # rows of a block


def _hopper(dtype):
    return lambda *sizes: hopper_call(dtype, *sizes, False, H100)


def _blocks(tall):
    return lambda rows, n, k: blocks_call('bfloat16', rows, n, tall, H100)


def _csr(dtype):
    return lambda rows, n, k: (csr_call(dtype, rows, n, 1 if n % 8 else 16 // (4 if dtype == 'float32' else 2)), ())


def _products():
    "name of the file -> `_Product`"
    small, few = ((8, 1, 16), (264, 200, 144), (1000, 777, 1040)), ((9, 1, 33), (1000, 72, 777))
    said = '`gridstride.kernels.sparse.multiply_24`, {}: 2:4 sparse, by {}.'
    for dtype in ('bfloat16', 'float16'):
        what = said.format(dtype, '`wgmma.sp`')
        yield f'multiply_24_{dtype}', _Product(what, 'TWO_FOUR', dtype, (*small, _LARGE), _hopper(dtype))
    what, warps = said.format('bfloat16', '`mma.sp`'), lambda *sizes: (warps_call('bfloat16', *sizes, False), ())
    yield 'multiply_24_mma_sp', _Product(what, 'TWO_FOUR', 'bfloat16', (*small, (4096,) * 3), warps, 'unsigned')
    for tall in (128, 64):
        what = f'`gridstride.kernels.sparse.multiply_blocks`, blocks of {tall}x64, nine of ten are 0.'
        yield (
            f'multiply_blocks_{tall}',
            _Product(what, 'BLOCKS', 'bfloat16', (*small, _LARGE), _blocks(tall), block=tall),
        )
    for dtype, n in (('bfloat16', 512), ('float32', 512), ('float32', 1)):
        what = f'`gridstride.kernels.sparse.multiply_csr`, {dtype}, {n} columns of x, nine of ten elements are 0.'
        yield f'multiply_csr_{dtype}_{n}', _Product(what, 'CSR', dtype, (*few, (4096, n, 4096)), _csr(dtype))


def _maps(p, call, boxes, sizes):
    "C for the tensor maps of a call"
    rows, n, k = sizes
    stored = f'{p.block}*read(w.starts + {-(-rows // p.block)}), 64' if p.block else f'{rows}, {k // 2}'
    sides = dict(values=stored, x=f'{n}, {k}', y=f'{n}, {rows}')
    for name, ((box_rows, box_columns), swizzle) in zip(call.arrays, boxes):
        given = f'{_CASTS.get(name, name)}, {sides[name]}, {box_rows}, {box_columns}, {swizzle}'
        yield f'static auto {name}_map = tensor_map<{SPACE}::TensorMap>({given});'


def _lines(p, *sizes):
    "The lines of a case"
    call, boxes = p.calls(*sizes)
    maps, others = call.arrays[: len(boxes)], call.arrays[len(boxes) :]
    args = [*(f'{o}_map' for o in maps), *(_CASTS.get(other, other).format(p.word) for other in others)]
    return [*_maps(p, call, boxes, sizes), Launch(call, args)]


def _program(name, p):
    constants = f'''typedef {IN_C[p.dtype]} Number;
enum {{ TWO_FOUR, BLOCKS, CSR }};
constexpr int KIND = {p.kind}, BR = {p.block or 1}, KEPT = {_KEPT};
constexpr double ROUNDING = {_ROUNDING[p.dtype]};'''
    functions = {
        'void launch(int number, const Matrix &w, const Number *x, Number *y)': [
            _lines(p, *problem) for problem in p.cases
        ]
    }
    main = 'sparse/main.cuh'
    return Program(name, p.what, main, 'rows, n, k', p.cases, functions, constants)


def programs() -> list:  # of `Program`
    "One per product, with 16-bit floats and, for CSR, with float32"
    return [_program(*o) for o in _products()]
