"""The tools as programs of their own: what `export` writes of them."""

from typing import NamedTuple

from . import tools
from ..ladder.rung import H100
from ..standalone import marked, program, start

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

    calls: list  # of `Call`
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


def sources(tool) -> list:  # of (source, name of a kernel in it)
    "The kernels of an operator for all its cases, each once"
    calls = [c for case in tool.cases for c in launches(tool, *case).calls]
    return list(dict.fromkeys((c.src, c.name) for c in calls))


def _case(tool, i, spaces):
    "C for the launches of one case"
    calls, workspaces = launches(tool, *tool.cases[i])
    used = {o for c in calls for o in c.arrays}
    lines = []
    for name, (c, n, zero) in workspaces.items():
        if name in used and name != 'out':
            lines.append(f'static auto *{name} = allocate<{c}>({n});')
        if name in used and zero:
            lines.append(f'OK(cudaMemsetAsync({name}, 0, {n} * sizeof({c})));')
    for c in calls:
        kernel = f'{spaces[c.src]}::{c.name}'
        lines.append(start(c, kernel, [*c.arrays, *map(str, c.scalars)]))
    return f'    case {i}: {{\n' + ''.join(f'        {o}\n' for o in [*lines, 'break;']) + '    }\n'


def _program(name, tool):
    # Other sizes may need other constants in the same source, so each source gets a namespace of its own.
    spaces = {src: f'text_{i}' for i, src in enumerate(dict.fromkeys(src for src, _ in sources(tool)))}
    kernels = '\n'.join(f'namespace {o} {{\n{marked(src)}}}\n' for src, o in spaces.items())
    cases = ', '.join(f'{{{rows}, {width}}}' for rows, width in tool.cases)
    names = f'''const char *const NAME = "{name}";
constexpr int SMS = {H100.sms};
enum Kind {{ SUM, ARGMAX, SCAN, HISTOGRAM, TRANSPOSE }};
constexpr Kind KIND = {tool.kind.upper()};
typedef {tools.TYPES[tool.dtype][0]} From;
typedef {tool.out} To;
constexpr struct {{ int rows, width; }} cases[] = {{{cases}}};'''
    body = ''.join(_case(tool, i, spaces) for i in range(len(tool.cases)))
    head = 'void launch(int number, const From *x, To *out)'
    what = [f'`gridstride.kernels.{tool.kind}` of {tool.dtype}.']
    return program(
        name, what, kernels, names, 'memory/main.cuh', f'{head} {{\n    switch (number) {{\n{body}    }}\n}}\n'
    )


def list_programs() -> dict:  # name of the file -> the whole `.cu`
    "Every tool, for types that have kernels of their own"
    named = {f'{o.kind}_{o.dtype}': o for o in TOOLS}
    return {name: _program(name, tool) for name, tool in named.items()}
