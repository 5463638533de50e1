"""What every exported program has: how to compile it, the source that the package launches, and host code."""

import re
from importlib.resources import files
from typing import NamedTuple

from .ladder.rung import H100

BEGIN, END = '// ---- as gridstride launches it, from here', '// ---- to here'
FLAGS = '-O3 -std=c++17 -arch=sm_90a'
HEADERS = ['cuda.h', 'cuda_bf16.h', *'algorithm cassert cmath cstdio cstdlib cstring iterator vector'.split()]
SPACE = 'SPACE'  # in the C of a launch: the namespace of its kernel


class Launch(NamedTuple):
    "A launch of a program"

    call: object  # a `KernelLaunch`
    args: tuple  # C for the arrays; the scalars of the call follow


class Program(NamedTuple):
    "A program to export: its launches per case, and the host code that checks the results"

    name: str  # of the file
    what: str  # it computes
    main: str  # file with the host's part of such kernels, below that of all
    fields: str  # C names of the integers of a case
    sizes: tuple  # of each case, these integers; the last case is timed
    functions: dict  # head in C of a function of `number` -> per case a list of lines in C and of `Launch`
    constants: str = ''  # C that the host code needs besides


def marked(src) -> str:
    "The text of a kernel between its two lines"
    return f'{BEGIN}\n{src}\n{END}\n'


def three(xs) -> str:
    "C for the sizes of a grid or a block"
    return f'dim3({", ".join(map(str, [*xs, 1, 1][:3]))})'


def _start(launch, space) -> str:
    "C for a launch of a kernel in a namespace"
    call = launch.call
    pdl, cooperative = (str(o).lower() for o in (call.pdl, call.cooperative))
    attributes = f'{{{pdl}, {three(call.cluster)}, {cooperative}}}'
    how = f'{three(call.grid)}, {three(call.block)}, {call.shared}, {attributes}'
    return f'start({space}::{call.name}, {how}, {", ".join([*launch.args, *map(str, call.scalars)])});'


def _in_spaces(calls) -> tuple:  # (C, {source: its namespace})
    "Return the sources of launches, each in its own namespace: other sizes may need other constants in one source"
    spaces = {src: f'text_{i}' for i, src in enumerate(dict.fromkeys(c.src for c in calls))}
    more = sorted(set(re.findall(r'#include <([\w./]+)>', ''.join(spaces))) - set(HEADERS))  # outside namespaces
    texts = [f'namespace {space} {{\n{marked(src)}}}\n' for src, space in spaces.items()]
    return '\n'.join([*(f'#include <{o}>' for o in more), *texts]), spaces


def _case(lines, spaces):
    "C for a case: in its lines the namespace is that of its next launch"
    res, space = ['break;'], ''
    for o in reversed(lines):
        if isinstance(o, Launch):
            space = spaces[o.call.src]
            o = _start(o, space)
        res.append(o.replace(SPACE, space))
    return ''.join(f'        {o}\n' for o in reversed(res))


def _switch(head, cases, spaces) -> str:
    "C of a function of `number` with a switch over the cases"
    body = ''.join(f'    case {i}: {{\n{_case(lines, spaces)}    }}\n' for i, lines in enumerate(cases))
    return f'{head} {{\n    switch (number) {{\n{body}    }}\n}}\n'


def _constants(p):
    "C for what the host code knows of a program"
    cases = ', '.join(f'{{{", ".join(map(str, size))}}}' for size in p.sizes)
    cases = f'constexpr struct {{ int {p.fields}; }} cases[] = {{{cases}}};' if p.fields else ''
    named = f'const char *const NAME = "{p.name}";\nconstexpr int SMS = {H100.sms};'
    return '\n'.join(filter(None, [named, p.constants, cases]))


def write(p) -> str:
    "The whole `.cu` of a `Program`"
    every = [
        line.call for cases in p.functions.values() for lines in cases for line in lines if isinstance(line, Launch)
    ]
    kernels, spaces = _in_spaces(every)
    launches = '\n'.join(_switch(head, cases, spaces) for head, cases in p.functions.items())
    maps = ['tensor_map.cuh'] * ('tensor_map<' in launches)
    host = [files(__package__).joinpath(o).read_text(encoding='utf-8') for o in ('host.cuh', *maps, p.main)]
    includes = '\n'.join(f'#include <{header}>' for header in HEADERS)
    return f'''{''.join(f'// {o}' + chr(10) for o in p.what.splitlines())}//
//     nvcc {FLAGS} -o {p.name} {p.name}.cu && ./{p.name}
//
// (nvcc 13.0 takes -arch=sm_90a for sm_90 as well, which has no wgmma; for that it finds an empty file.)
#if !defined __CUDA_ARCH__ || defined __CUDA_ARCH_FEAT_SM90_ALL

{includes}

{kernels}
namespace host {{

{_constants(p)}

{chr(10).join(host)}
{launches}
}}

int main() {{ return host::run(); }}

#endif
'''
