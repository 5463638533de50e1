"""The programs that `export` writes of the memory-bound operators."""

from typing import NamedTuple

from . import tools
from ..ladder.rung import H100
from ..standalone import Launch, Program

_LARGE = 2**28
_SIZES = (1, 33), (1, 1023), (1, 2**20 + 7), (5, 1000)


class MemoryOperator(NamedTuple):
    "An operator for one type"

    kind: str  # 'sum', 'argmax', 'scan', 'histogram', 'transpose'
    dtype: str
    cases: tuple  # (rows, width); the last one is timed
    out: str  # C type of the result


OPERATORS = [
    MemoryOperator('sum', 'float32', (*_SIZES, (1, _LARGE)), 'float'),
    MemoryOperator('sum', 'int32', (*_SIZES, (1, _LARGE)), 'long long'),
    MemoryOperator('argmax', 'float32', (*_SIZES, (_LARGE // 4096, 4096)), 'long long'),
    MemoryOperator('scan', 'float32', (*_SIZES, (1, _LARGE)), 'float'),
    MemoryOperator('scan', 'int32', (*_SIZES, (1, _LARGE)), 'int'),
    MemoryOperator('histogram', 'uint8', ((1, 33), (1, 2**20 + 7), (1, _LARGE)), 'unsigned long long'),
    MemoryOperator('transpose', 'int32', ((1, 33), (31, 33), (1000, 70), (8192, 8192)), 'int'),
]


class Launches(NamedTuple):
    "The kernel launches of a case, and their workspaces"

    calls: list  # of `KernelLaunch`
    workspaces: dict  # name -> (C type, elements, whether they are set to 0 before a launch)


def launches(operator, rows, width) -> Launches:
    "Return the launches of an operator for a case on an H100"
    size = tools.SIZES[operator.dtype]
    per_load, dtype = tools.vector(0, size, rows, width), operator.dtype
    if operator.kind == 'sum':
        calls, parts = tools.sum_calls(dtype, rows, width, per_load, H100)
        return Launches(calls, dict(parts=(operator.out, rows * parts, False)))
    if operator.kind == 'argmax':
        calls, parts = tools.argmax_calls(dtype, rows, width, per_load, H100)
        return Launches(calls, dict(values=('float', rows * parts, False), indices=('int', rows * parts, False)))
    if operator.kind == 'scan':
        calls, tiles = tools.scan_calls(dtype, rows, width, per_load, H100)
        words = 'unsigned long long'
        return Launches(calls, dict(status=(words, rows * tiles, True), ticket=(words, 1, True)))
    if operator.kind == 'histogram':
        return Launches(
            tools.histogram_calls(dtype, rows * width, 256, 0.0, 256.0, per_load, H100),
            dict(out=(operator.out, 256, True)),
        )
    return Launches(tools.transpose_calls(size, 1, rows, width, H100), {})


def _lines(operator, rows, width):
    "Yield the lines of C for a case"
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
    name, what = f'{operator.kind}_{operator.dtype}', f'`gridstride.kernels.{operator.kind}` of {operator.dtype}.'
    functions = {
        'void launch(int number, const From *x, To *out)': [
            list(_lines(operator, *problem)) for problem in operator.cases
        ]
    }
    return Program(name, what, 'memory/main.cuh', 'rows, width', operator.cases, functions, constants)


def programs() -> list:  # of `Program`
    "Return the program of every operator, per type that has its own kernel"
    return [_program(operator) for operator in OPERATORS]
