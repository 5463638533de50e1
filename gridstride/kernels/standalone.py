"""Write the `.cu` of an exported program: the command that compiles it, the sources of its kernels, and host code."""

import re
from importlib.resources import files
from typing import NamedTuple

from .ladder.rung import H100

BEGIN, END = '// ---- as gridstride launches it, from here', '// ---- to here'
FLAGS = '-O3 -std=c++17 -arch=sm_90a'
HEADERS = ['cuda.h', 'cuda_bf16.h', *'algorithm cassert cmath cstdio cstdlib cstring iterator vector'.split()]
NAMESPACE = 'NAMESPACE'  # placeholder in C++ for the namespace of the kernel that is launched next


class Launch(NamedTuple):
    "A kernel launch in a program"

    call: object  # a `KernelLaunch`
    args: tuple  # C++ expressions for the arrays; the scalars of the launch follow them


class Program(NamedTuple):
    "A program to export: its launches per case, and the host code that checks the results"

    name: str  # of the file
    description: str  # of what it computes
    main: str  # file with the host code for this kind of kernel, which follows `host.cuh`
    fields: str  # C++ names of the integers of a case
    sizes: tuple  # these integers per case; the last case is timed
    functions: dict  # signature of a C++ function of `number` -> per case a list of lines of C++ and `Launch`es
    constants: str = ''  # further C++ that the host code needs


def _between_markers(src) -> str:
    "Return the source of a kernel between its two marker lines"
    return f'{BEGIN}\n{src}\n{END}\n'


def _dim3(xs) -> str:
    "Return C++ for the sizes of a grid or a block"
    return f'dim3({", ".join(map(str, [*xs, 1, 1][:3]))})'


def _launch_code(launch, namespace) -> str:
    "Return C++ for a launch of a kernel in a namespace"
    call = launch.call
    pdl, cooperative = (str(flag).lower() for flag in (call.pdl, call.cooperative))
    attributes = f'{{{pdl}, {_dim3(call.cluster)}, {cooperative}}}'
    configuration = f'{_dim3(call.grid)}, {_dim3(call.block)}, {call.shared}, {attributes}'
    return f'start({namespace}::{call.name}, {configuration}, {", ".join([*launch.args, *map(str, call.scalars)])});'


def _put_in_namespaces(calls) -> tuple:  # (C++, {source: its namespace})
    "Put each source in its own namespace, because the launches of a program may use one source with other constants"
    namespaces = {src: f'text_{i}' for i, src in enumerate(dict.fromkeys(c.src for c in calls))}
    # headers must be included outside namespaces
    headers = sorted(set(re.findall(r'#include <([\w./]+)>', ''.join(namespaces))) - set(HEADERS))
    texts = [f'namespace {name} {{\n{_between_markers(src)}}}\n' for src, name in namespaces.items()]
    return '\n'.join([*(f'#include <{header}>' for header in headers), *texts]), namespaces


def _case_body(lines, namespaces):
    "Return C++ for a case; the placeholder in a line is replaced by the namespace of the next launch"
    res, namespace = ['break;'], ''
    for item in reversed(lines):
        if isinstance(item, Launch):
            namespace = namespaces[item.call.src]
            item = _launch_code(item, namespace)
        res.append(item.replace(NAMESPACE, namespace))
    return ''.join(f'        {line}\n' for line in reversed(res))


def _function_of_case(signature, cases, namespaces) -> str:
    "Return C++ of a function of `number`, which switches over the cases"
    body = ''.join(f'    case {i}: {{\n{_case_body(lines, namespaces)}    }}\n' for i, lines in enumerate(cases))
    return f'{signature} {{\n    switch (number) {{\n{body}    }}\n}}\n'


def _constants(program):
    "Return C++ for the name, the number of SMs, the constants and the cases of a program"
    cases = ', '.join(f'{{{", ".join(map(str, size))}}}' for size in program.sizes)
    cases = f'constexpr struct {{ int {program.fields}; }} cases[] = {{{cases}}};' if program.fields else ''
    named = f'const char *const NAME = "{program.name}";\nconstexpr int SMS = {H100.sms};'
    return '\n'.join(filter(None, [named, program.constants, cases]))


def write(program) -> str:
    "Return the text of the `.cu` of a `Program`"
    calls = [
        line.call
        for cases in program.functions.values()
        for lines in cases
        for line in lines
        if isinstance(line, Launch)
    ]
    kernels, namespaces = _put_in_namespaces(calls)
    functions = program.functions.items()
    launches = '\n'.join(_function_of_case(signature, cases, namespaces) for signature, cases in functions)
    tensor_map = ['tensor_map.cuh'] * ('tensor_map<' in launches)
    host = [
        files(__package__).joinpath(name).read_text(encoding='utf-8')
        for name in ('host.cuh', *tensor_map, program.main)
    ]
    includes = '\n'.join(f'#include <{header}>' for header in HEADERS)
    return f'''{''.join(f'// {line}' + chr(10) for line in program.description.splitlines())}//
//     nvcc {FLAGS} -o {program.name} {program.name}.cu && ./{program.name}
//
// (nvcc 13.0 with -arch=sm_90a also compiles for sm_90, which has no wgmma: for that target the file is empty.)
#if !defined __CUDA_ARCH__ || defined __CUDA_ARCH_FEAT_SM90_ALL

{includes}

{kernels}
namespace host {{

{_constants(program)}

{chr(10).join(host)}
{launches}
}}

int main() {{ return host::run(); }}

#endif
'''
