"""Products with sparse matrices as programs of their own: what `export` writes of them."""

from typing import NamedTuple

from .blocks import blocks_call
from .csr import csr_call
from .two_four import hopper_call, warps_call
from ..ladder.rung import H100
from ..standalone import in_spaces, program, start, switch
from ..texts import IN_C

_ROUNDING = dict(float16=2**-11, bfloat16=2**-8, float32=2**-24)
_LARGE = 8192, 8192, 8192
_KEPT = 100  # blocks or elements of a thousand
_CASTS = dict(words='(const {} *)w.words', values='w.values', starts='w.starts', columns='w.columns', out='y')


class _Program(NamedTuple):
    "A product to export"

    what: str  # it is
    kind: str  # in C
    dtype: str
    cases: tuple  # of (rows of w, of x, k), the last one is timed
    calls: object  # (rows, n, k) -> a `Call`, and the (box, swizzle) of its first arrays
    word: str = 'uint2'  # C's type of `words`
    block: int = 0  # rows of a block


def _hopper(dtype):
    return lambda *sizes: hopper_call(dtype, *sizes, False, H100)


def _blocks(tall):
    return lambda rows, n, k: blocks_call('bfloat16', rows, n, tall, H100)


def _csr(dtype):
    return lambda rows, n, k: (csr_call(dtype, rows, n, 1 if n % 8 else 16 // (4 if dtype == 'float32' else 2)), ())


def _programs():
    "name of the file -> `_Program`"
    small, few = ((8, 1, 16), (264, 200, 144), (1000, 777, 1040)), ((9, 1, 33), (1000, 72, 777))
    said = '`gridstride.kernels.sparse.multiply_24`, {}: 2:4 sparse, by {}.'
    for dtype in ('bfloat16', 'float16'):
        what = said.format(dtype, '`wgmma.sp`')
        yield f'multiply_24_{dtype}', _Program(what, 'TWO_FOUR', dtype, (*small, _LARGE), _hopper(dtype))
    what, warps = said.format('bfloat16', '`mma.sp`'), lambda *sizes: (warps_call('bfloat16', *sizes, False), ())
    yield 'multiply_24_mma_sp', _Program(what, 'TWO_FOUR', 'bfloat16', (*small, (4096,) * 3), warps, 'unsigned')
    for tall in (128, 64):
        what = f'`gridstride.kernels.sparse.multiply_blocks`, blocks of {tall}x64, nine of ten are 0.'
        yield (
            f'multiply_blocks_{tall}',
            _Program(what, 'BLOCKS', 'bfloat16', (*small, _LARGE), _blocks(tall), block=tall),
        )
    for dtype, n in (('bfloat16', 512), ('float32', 512), ('float32', 1)):
        what = f'`gridstride.kernels.sparse.multiply_csr`, {dtype}, {n} columns of x, nine of ten elements are 0.'
        yield f'multiply_csr_{dtype}_{n}', _Program(what, 'CSR', dtype, (*few, (4096, n, 4096)), _csr(dtype))


def _maps(p, call, boxes, sizes):
    "C for the tensor maps of a call"
    rows, n, k = sizes
    stored = f'{p.block}*read(w.starts + {-(-rows // p.block)}), 64' if p.block else f'{rows}, {k // 2}'
    sides = dict(values=stored, x=f'{n}, {k}', y=f'{n}, {rows}')
    for name, ((box_rows, box_columns), swizzle) in zip(call.arrays, boxes):
        given = f'{_CASTS.get(name, name)}, {sides[name]}, {box_rows}, {box_columns}, {swizzle}'
        yield f'static auto {name}_map = tensor_map<TensorMap>({given});'


def _launches(p, spaces, sizes):
    "C for the launch of a case"
    call, boxes = p.calls(*sizes)
    maps, others = call.arrays[: len(boxes)], call.arrays[len(boxes) :]
    args = [*(f'{o}_map' for o in maps), *(_CASTS.get(o, o).format(p.word) for o in others)]
    using = [f'using {spaces[call.src]}::TensorMap;'] * bool(boxes)
    launch = start(call, f'{spaces[call.src]}::{call.name}', [*args, *map(str, call.scalars)])
    return [*using, *_maps(p, call, boxes, sizes), launch]


def _text(name, p):
    "The whole `.cu`"
    kernels, spaces = in_spaces([p.calls(*o)[0] for o in p.cases])
    names = f'''const char *const NAME = "{name}";
constexpr int SMS = {H100.sms};
typedef {IN_C[p.dtype]} Number;
enum {{ TWO_FOUR, BLOCKS, CSR }};
constexpr int KIND = {p.kind}, BR = {p.block or 1}, KEPT = {_KEPT};
constexpr double ROUNDING = {_ROUNDING[p.dtype]};
constexpr struct {{ int rows, n, k; }} cases[] = {{{', '.join(f'{{{", ".join(map(str, o))}}}' for o in p.cases)}}};'''
    head = 'void launch(int number, const Matrix &w, const Number *x, Number *y)'
    main = 'tensor_map.cuh', 'sparse/main.cuh'
    return program(name, [p.what], kernels, names, main, switch(head, [_launches(p, spaces, o) for o in p.cases]))


def list_sparse_programs() -> dict:  # name of the file -> the whole `.cu`
    "One program per product, with 16-bit floats and, for CSR, with float32"
    return {name: _text(name, p) for name, p in _programs()}
