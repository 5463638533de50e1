"""The standalone programs of the memory-bound operators, which `export` writes."""

from typing import NamedTuple

from . import tools
from ..ladder.rung import H100
from ..standalone import Launch, Program

_TIMED_ELEMENTS = 2**28
_CHECKED_SIZES = (1, 33), (1, 1023), (1, 2**20 + 7), (5, 1000)


class MemoryOperator(NamedTuple):
    "An operator for one dtype"

    kind: str  # 'sum', 'argmax', 'scan', 'histogram', 'transpose'
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
    MemoryOperator('transpose', 'int32', ((1, 33), (31, 33), (1000, 70), (8192, 8192)), 'int'),
]


class Launches(NamedTuple):
    "The kernel launches of a case, and their workspaces"

    calls: list  # of `KernelLaunch`
    workspaces: dict  # name -> (C type, elements, whether they are set to 0 before a launch)


def launches(operator, rows, width) -> Launches:
    "Return the launches of an operator for a case on an H100"
    size = tools.DTYPE_BYTES[operator.dtype]
    vec_size, dtype = tools.vector_width(0, size, rows, width), operator.dtype
    if operator.kind == 'sum':
        calls, count = tools.sum_calls(dtype, rows, width, vec_size, H100)
        return Launches(calls, dict(partials=(operator.out, rows * count, False)))
    if operator.kind == 'argmax':
        calls, count = tools.argmax_calls(dtype, rows, width, vec_size, H100)
        return Launches(calls, dict(values=('float', rows * count, False), indices=('int', rows * count, False)))
    if operator.kind == 'scan':
        calls, tiles = tools.scan_calls(dtype, rows, width, vec_size, H100)
        status_type = 'unsigned long long'
        return Launches(calls, dict(status=(status_type, rows * tiles, True), ticket=(status_type, 1, True)))
    if operator.kind == 'histogram':
        return Launches(
            tools.histogram_calls(dtype, rows * width, 256, 0.0, 256.0, vec_size, H100),
            dict(out=(operator.out, 256, True)),
        )
    return Launches(tools.transpose_calls(size, 1, rows, width, H100), {})


def _case_lines(operator, rows, width):
    "Yield the lines of C++, and the `Launch`es, for a case"
    calls, workspaces = launches(operator, rows, width)
    used = {array for call in calls for array in call.arrays}
    for name, (c_type, n, zero) in workspaces.items():
        if name in used and name != 'out':
            yield f'static auto *{name} = allocate<{c_type}>({n});'
        if name in used and zero:
            yield f'OK(cudaMemsetAsync({name}, 0, {n} * sizeof({c_type})));'
    yield from (Launch(call, call.arrays) for call in calls)


def _program(operator):
    constants = f'''enum Kind {{ SUM, ARGMAX, SCAN, HISTOGRAM, TRANSPOSE }};
constexpr Kind KIND = {operator.kind.upper()};
typedef {tools.TYPES[operator.dtype][0]} From;
typedef {operator.out} To;'''
    name = f'{operator.kind}_{operator.dtype}'
    description = f'`gridstride.kernels.{operator.kind}` of {operator.dtype}.'
    functions = {
        'void launch(int number, const From *x, To *out)': [
            list(_case_lines(operator, *problem)) for problem in operator.cases
        ]
    }
    return Program(name, description, 'memory/main.cuh', 'rows, width', operator.cases, functions, constants)


def programs() -> list:  # of `Program`
    "Return the program of every operator, per type that has its own kernel"
    return [_program(operator) for operator in OPERATORS]
