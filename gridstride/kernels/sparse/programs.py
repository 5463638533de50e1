"""Standalone programs for the multiplication of a sparse and a dense matrix (SpMM), for `export`."""

from typing import NamedTuple

from .blocks import blocks_launch
from .csr import csr_launch
from .two_four import hopper_launch, mma_sp_launch
from ..ladder.rung import H100
from ..standalone import NAMESPACE, Launch, Program
from ..source_assembly import C_TYPES

_UNIT_ROUNDOFF = dict(float16=2**-11, bfloat16=2**-8, float32=2**-24)
_TIMED_SHAPE = 8192, 8192, 8192
_NONZERO_PER_THOUSAND = 100  # nonzero blocks or elements
# name of an array in the launches -> C++ expression that the host code passes for it
_C_ARGUMENTS = dict(words='(const {} *)w.words', out='y')
_C_ARGUMENTS |= {name: f'w.{name}' for name in ('values', 'row_offsets', 'columns')}


class _SpmmProgram(NamedTuple):
    "An SpMM to export"

    description: str
    format: str  # name of the format in the host code: TWO_FOUR, BLOCKS or CSR
    dtype: str
    cases: tuple  # (rows of w, rows of x, k); the last one is timed
    make_launch: object  # (rows, n, k) -> a `KernelLaunch`, and the (box, swizzle) of each of its first arrays
    words_type: str = 'uint2'  # C type of `words`
    block_rows: int = 0  # of a block-sparse matrix


def _hopper_launch_function(dtype):
    return lambda *sizes: hopper_launch(dtype, *sizes, False, H100)


def _make_mma_sp_launch(*sizes):
    return mma_sp_launch('bfloat16', *sizes, False), ()


def _blocks_launch_function(block_rows):
    return lambda rows, n, k: blocks_launch('bfloat16', rows, n, block_rows, H100)


def _csr_launch_function(dtype):
    return lambda rows, n, k: (csr_launch(dtype, rows, n, 1 if n % 8 else 16 // (4 if dtype == 'float32' else 2)), ())


def _spmm_programs():
    "Yield (name of the file, `_SpmmProgram`) of each program"
    sizes_24, odd_sizes = ((8, 1, 16), (264, 200, 144), (1000, 777, 1040)), ((9, 1, 33), (1000, 72, 777))
    template = '`gridstride.kernels.sparse.multiply_24`, {}: 2:4 sparse, by {}.'
    for dtype in ('bfloat16', 'float16'):
        description = template.format(dtype, '`wgmma.sp`')
        yield (
            f'multiply_24_{dtype}',
            _SpmmProgram(description, 'TWO_FOUR', dtype, (*sizes_24, _TIMED_SHAPE), _hopper_launch_function(dtype)),
        )
    description, cases = template.format('bfloat16', '`mma.sp`'), (*sizes_24, (4096,) * 3)
    yield (
        'multiply_24_mma_sp',
        _SpmmProgram(description, 'TWO_FOUR', 'bfloat16', cases, _make_mma_sp_launch, 'unsigned'),
    )
    for block_rows in (128, 64):
        description = f'`gridstride.kernels.sparse.multiply_blocks`, blocks of {block_rows}x64, 90% of which are 0.'
        yield (
            f'multiply_blocks_{block_rows}',
            _SpmmProgram(
                description,
                'BLOCKS',
                'bfloat16',
                (*sizes_24, _TIMED_SHAPE),
                _blocks_launch_function(block_rows),
                block_rows=block_rows,
            ),
        )
    for dtype, n in (('bfloat16', 512), ('float32', 512), ('float32', 1)):
        description = f'`gridstride.kernels.sparse.multiply_csr`, {dtype}, {n} columns of x, 90% of the elements are 0.'
        yield (
            f'multiply_csr_{dtype}_{n}',
            _SpmmProgram(description, 'CSR', dtype, (*odd_sizes, (4096, n, 4096)), _csr_launch_function(dtype)),
        )


def _tensor_map_code(spmm, kernel_launch, boxes, sizes):
    "Yield C++ that defines the tensor maps of a launch"
    rows, n, k = sizes
    values_sizes = (
        f'{spmm.block_rows}*read(w.row_offsets + {-(-rows // spmm.block_rows)}), 64'
        if spmm.block_rows
        else f'{rows}, {k // 2}'
    )
    array_sizes = dict(values=values_sizes, x=f'{n}, {k}', y=f'{n}, {rows}')
    for name, ((box_rows, box_columns), swizzle) in zip(kernel_launch.arrays, boxes):
        arguments = f'{_C_ARGUMENTS.get(name, name)}, {array_sizes[name]}, {box_rows}, {box_columns}, {swizzle}'
        yield f'static auto {name}_map = tensor_map<{NAMESPACE}::TensorMap>({arguments});'


def _case_lines(spmm, *sizes):
    "Return the lines of C++ and the `Launch` for one size"
    kernel_launch, boxes = spmm.make_launch(*sizes)
    mapped_arrays, plain_arrays = kernel_launch.arrays[: len(boxes)], kernel_launch.arrays[len(boxes) :]
    args = [
        *(f'{name}_map' for name in mapped_arrays),
        *(_C_ARGUMENTS.get(name, name).format(spmm.words_type) for name in plain_arrays),
    ]
    return [*_tensor_map_code(spmm, kernel_launch, boxes, sizes), Launch(kernel_launch, args)]


def _program(name, spmm):
    constants = f'''typedef {C_TYPES[spmm.dtype]} Elem;
enum {{ TWO_FOUR, BLOCKS, CSR }};
constexpr int KIND = {spmm.format}, BR = {spmm.block_rows or 1}, NONZERO_PER_THOUSAND = {_NONZERO_PER_THOUSAND};
constexpr double UNIT_ROUNDOFF = {_UNIT_ROUNDOFF[spmm.dtype]};'''
    functions = {
        'void launch(int case_index, const Matrix &w, const Elem *x, Elem *y)': [
            _case_lines(spmm, *case) for case in spmm.cases
        ]
    }
    main_file = 'sparse/main.cuh'
    return Program(name, spmm.description, main_file, 'rows, n, k', spmm.cases, functions, constants)


def programs() -> list:  # of `Program`
    "Return one program per SpMM kernel and dtype"
    return [_program(name, spmm) for name, spmm in _spmm_programs()]
