"""Standalone programs of the memory-bound operators, for `export`."""

from typing import NamedTuple

from . import operators
from ..ladder.rung import H100
from ..standalone import Launch, Program

_TIMED_ELEMENTS = 2**28
_CHECKED_SIZES = (1, 33), (1, 1023), (1, 2**20 + 7), (5, 1000)


class MemoryOperator(NamedTuple):
    "An operator for one dtype"

    name: str  # 'sum', 'argmax', 'scan', 'histogram', 'transpose'
    dtype: str
    cases: tuple  # (rows, width); the last one is timed
    out: str  # C type of the result


OPERATORS = [
    MemoryOperator('sum', 'float32', (*_CHECKED_SIZES, (1, _TIMED_ELEMENTS)), 'float'),
    MemoryOperator('sum', 'int32', (*_CHECKED_SIZES, (1, _TIMED_ELEMENTS)), 'long long'),
    MemoryOperator('argmax', 'float32', (*_CHECKED_SIZES, (_TIMED_ELEMENTS // 4096, 4096)), 'long long'),
    MemoryOperator('scan', 'float32', (*_CHECKED_SIZES, (1, _TIMED_ELEMENTS)), 'float'),
    MemoryOperator('scan', 'int32', (*_CHECKED_SIZES, (1, _TIMED_ELEMENTS)), 'int'),
    MemoryOperator('histogram', 'uint8', ((1, 33), (1, 2**20 + 7), (1, _TIMED_ELEMENTS)), 'unsigned long long'),
    MemoryOperator('transpose', 'int32', ((3, 33), (31, 33), (1000, 70), (8192, 8192)), 'int'),
]


class Launches(NamedTuple):
    "The kernel launches of a case and their workspaces"

    kernel_launches: list  # of `KernelLaunch`
    workspaces: dict  # name -> (C type, elements, is_zeroed: set to 0 before each launch)


def operator_launches(operator, rows, width) -> Launches:
    "Return the launches of an operator for a case on an H100"
    dtype, element_bytes = operator.dtype, operators.DTYPE_BYTES[operator.dtype]
    vec_size = operators.vector_width(0, element_bytes, rows, width)
    if operator.name == 'sum':
        kernel_launches, partials_per_row = operators.sum_launches(dtype, rows, width, vec_size, H100)
        return Launches(kernel_launches, dict(partials=(operator.out, rows * partials_per_row, False)))
    if operator.name == 'argmax':
        kernel_launches, partials_per_row = operators.argmax_launches(dtype, rows, width, vec_size, H100)
        return Launches(
            kernel_launches,
            dict(values=('float', rows * partials_per_row, False), indices=('int', rows * partials_per_row, False)),
        )
    if operator.name == 'scan':
        kernel_launches, tiles_per_row = operators.scan_launches(dtype, rows, width, vec_size, H100)
        status_type = 'unsigned long long'
        return Launches(
            kernel_launches, dict(status=(status_type, rows * tiles_per_row, True), ticket=(status_type, 1, True))
        )
    if operator.name == 'histogram':
        return Launches(
            operators.histogram_launches(dtype, rows * width, 256, 0.0, 256.0, vec_size, H100),
            dict(out=(operator.out, 256, True)),
        )
    return Launches(operators.transpose_launches(element_bytes, 1, rows, width, H100), {})


def _case_lines(operator, rows, width):
    "Yield the lines of C++ and the `Launch`es for a case"
    kernel_launches, workspaces = operator_launches(operator, rows, width)
    used_arrays = {array_name for kernel_launch in kernel_launches for array_name in kernel_launch.arrays}
    for name, (c_type, num_elements, is_zeroed) in workspaces.items():
        if name in used_arrays and name != 'out':
            yield f'static auto *{name} = allocate<{c_type}>({num_elements});'
        if name in used_arrays and is_zeroed:
            yield f'OK(cudaMemsetAsync({name}, 0, {num_elements} * sizeof({c_type})));'
    yield from (Launch(kernel_launch, kernel_launch.arrays) for kernel_launch in kernel_launches)


def _program(operator):
    constants = f'''enum Kind {{ SUM, ARGMAX, SCAN, HISTOGRAM, TRANSPOSE }};
constexpr Kind KIND = {operator.name.upper()};
typedef {operators.TYPES[operator.dtype][0]} Elem;
typedef {operator.out} Out;'''
    file_name = f'{operator.name}_{operator.dtype}'
    description = f'`gridstride.kernels.{operator.name}` of {operator.dtype}.'
    functions = {
        'void launch(int case_index, const Elem *x, Out *out)': [
            list(_case_lines(operator, rows, width)) for rows, width in operator.cases
        ]
    }
    return Program(file_name, description, 'memory/main.cuh', 'rows, width', operator.cases, functions, constants)


def programs() -> list:  # of `Program`
    "Return one program per operator and dtype"
    return [_program(operator) for operator in OPERATORS]
