"""The tools as programs of their own: what `export` writes of them."""

from typing import NamedTuple

from . import tools
from ..ladder.rung import H100
from ..standalone import Launch, Program

_LARGE = 2**28
_SIZES = (1, 33), (1, 1023), (1, 2**20 + 7), (5, 1000)


class Tool(NamedTuple):
    "One tool for one type"

    kind: str  # 'sum', 'argmax', 'scan', 'histogram', 'transpose'
    dtype: str
    cases: tuple  # (rows, width), the last one is timed
    out: str  # C's type of what is written


TOOLS = [
    Tool('sum', 'float32', (*_SIZES, (1, _LARGE)), 'float'),
    Tool('sum', 'int32', (*_SIZES, (1, _LARGE)), 'long long'),
    Tool('argmax', 'float32', (*_SIZES, (_LARGE // 4096, 4096)), 'long long'),
    Tool('scan', 'float32', (*_SIZES, (1, _LARGE)), 'float'),
    Tool('scan', 'int32', (*_SIZES, (1, _LARGE)), 'int'),
    Tool('histogram', 'uint8', ((1, 33), (1, 2**20 + 7), (1, _LARGE)), 'unsigned long long'),
    Tool('transpose', 'int32', ((1, 33), (31, 33), (1000, 70), (8192, 8192)), 'int'),
]


class Launches(NamedTuple):
    "The launches of one case, and their workspaces"

    calls: list  # of `KernelLaunch`
    workspaces: dict  # name -> (type in C, elements, must they be 0?)


def launches(tool, rows, width) -> Launches:
    "The launches of an operator for a case on an H100"
    size = tools.SIZES[tool.dtype]
    v, dtype = tools.vector(0, size, rows, width), tool.dtype
    if tool.kind == 'sum':
        calls, parts = tools.sum_calls(dtype, rows, width, v, H100)
        return Launches(calls, dict(parts=(tool.out, rows * parts, False)))
    if tool.kind == 'argmax':
        calls, parts = tools.argmax_calls(dtype, rows, width, v, H100)
        return Launches(calls, dict(values=('float', rows * parts, False), indices=('int', rows * parts, False)))
    if tool.kind == 'scan':
        calls, tiles = tools.scan_calls(dtype, rows, width, v, H100)
        words = 'unsigned long long'
        return Launches(calls, dict(status=(words, rows * tiles, True), ticket=(words, 1, True)))
    if tool.kind == 'histogram':
        return Launches(
            tools.histogram_calls(dtype, rows * width, 256, 0.0, 256.0, v, H100), dict(out=(tool.out, 256, True))
        )
    return Launches(tools.transpose_calls(size, 1, rows, width, H100), {})


def _lines(tool, rows, width):
    "The lines of a case"
    calls, workspaces = launches(tool, rows, width)
    used = {array for c in calls for array in c.arrays}
    for name, (c, n, zero) in workspaces.items():
        if name in used and name != 'out':
            yield f'static auto *{name} = allocate<{c}>({n});'
        if name in used and zero:
            yield f'OK(cudaMemsetAsync({name}, 0, {n} * sizeof({c})));'
    yield from (Launch(c, c.arrays) for c in calls)


def _program(tool):
    constants = f'''enum Kind {{ SUM, ARGMAX, SCAN, HISTOGRAM, TRANSPOSE }};
constexpr Kind KIND = {tool.kind.upper()};
typedef {tools.TYPES[tool.dtype][0]} From;
typedef {tool.out} To;'''
    name, what = f'{tool.kind}_{tool.dtype}', f'`gridstride.kernels.{tool.kind}` of {tool.dtype}.'
    functions = {
        'void launch(int number, const From *x, To *out)': [list(_lines(tool, *problem)) for problem in tool.cases]
    }
    return Program(name, what, 'memory/main.cuh', 'rows, width', tool.cases, functions, constants)


def programs() -> list:  # of `Program`
    "Every tool, for types that have kernels of their own"
    return [_program(o) for o in TOOLS]
