"""Write exported programs as `.cu` files: the compile command, the kernels and the host code."""

import re
from importlib.resources import files
from typing import NamedTuple

from .ladder.rung import B200, H100

BEGIN_MARKER, END_MARKER = '// ---- as gridstride launches it, from here', '// ---- to here'
_FLAGS = '-O3 -std=c++17 -arch='
HEADERS = ['cuda.h', 'cuda_bf16.h', *'algorithm cassert cmath cstdio cstdlib cstring iterator vector'.split()]
NAMESPACE = 'NAMESPACE'  # placeholder in a line of C++: the namespace of the kernel that is launched after it


class Target(NamedTuple):
    "The GPU that a program is compiled for"

    arch: str
    device: object  # the `Device` for which the launches are planned
    compute_capability: tuple
    instructions: str  # that an older GPU lacks

    @property
    def flags(self) -> str:
        "The flags for nvcc"
        return _FLAGS + self.arch

    @property
    def feature_macro(self) -> str:
        "The macro that nvcc defines for this architecture alone"
        return f'__CUDA_ARCH_FEAT_{self.arch.replace("_", "").upper().removesuffix("A")}_ALL'


HOPPER = Target('sm_90a', H100, (9, 0), 'wgmma')
BLACKWELL = Target('sm_100a', B200, (10, 0), 'tcgen05')
FLAGS = HOPPER.flags


class Launch(NamedTuple):
    "A kernel launch in a program"

    kernel_launch: object  # a `KernelLaunch`
    args: tuple  # C++ expressions for the array arguments; the scalar arguments of `kernel_launch` follow them


class Program(NamedTuple):
    "A program to export: its launches per case, and the host code that checks the results"

    name: str  # of the file, without `.cu`
    description: str  # comment at the top of the file
    main_file: str  # name of the file with the host code for the operator; it follows `host.cuh`
    fields: str  # C++ names of the sizes of a case: 'rows, width'
    sizes: tuple  # values of `fields` per case; the last case is timed
    # signature of a C++ function, whose parameter `case_index` selects the case -> per case, a list of lines of C++ and
    # `Launch`es
    functions: dict
    constants: str = ''  # C++ definitions that the host code needs
    target: Target = HOPPER


def _between_markers(src) -> str:
    "Return the source of a kernel, enclosed by the two marker lines"
    return f'{BEGIN_MARKER}\n{src}\n{END_MARKER}\n'


def _dim3(sizes) -> str:
    "Return C++ for the sizes of a grid or a block"
    return f'dim3({", ".join(map(str, [*sizes, 1, 1][:3]))})'


def _launch_code(launch, namespace) -> str:
    "Return C++ for a launch of a kernel in a namespace"
    kernel_launch = launch.kernel_launch
    pdl, cooperative = (str(flag).lower() for flag in (kernel_launch.pdl, kernel_launch.cooperative))
    attributes = f'{{{pdl}, {_dim3(kernel_launch.cluster)}, {cooperative}}}'
    configuration = f'{_dim3(kernel_launch.grid)}, {_dim3(kernel_launch.block)}, {kernel_launch.shared}, {attributes}'
    arguments = ', '.join([*launch.args, *map(str, kernel_launch.scalars)])
    return f'start({namespace}::{kernel_launch.name}, {configuration}, {arguments});'


def _put_in_namespaces(kernel_launches) -> tuple:  # (C++, {source: name of its namespace})
    "Put each source in its own namespace: two sources that differ only in constants define the same names"
    sources = dict.fromkeys(kernel_launch.src for kernel_launch in kernel_launches)
    namespaces = {src: f'source_{i}' for i, src in enumerate(sources)}
    # headers cannot be included inside a namespace
    headers = sorted(set(re.findall(r'#include <([\w./]+)>', ''.join(namespaces))) - set(HEADERS))
    blocks = [f'namespace {name} {{\n{_between_markers(src)}}}\n' for src, name in namespaces.items()]
    return '\n'.join([*(f'#include <{header}>' for header in headers), *blocks]), namespaces


def _case_body(lines, namespaces):
    "Return C++ for a case; in each line, replace `NAMESPACE` by the namespace of the next launch"
    reversed_lines, namespace = ['break;'], ''
    for line in reversed(lines):
        if isinstance(line, Launch):
            namespace = namespaces[line.kernel_launch.src]
            line = _launch_code(line, namespace)
        reversed_lines.append(line.replace(NAMESPACE, namespace))
    return ''.join(f'        {line}\n' for line in reversed(reversed_lines))


def _case_function(signature, cases, namespaces) -> str:
    "Return a C++ function that switches over `case_index`, the case"
    body = ''.join(f'    case {i}: {{\n{_case_body(lines, namespaces)}    }}\n' for i, lines in enumerate(cases))
    return f'{signature} {{\n    switch (case_index) {{\n{body}    }}\n}}\n'


def _constants(program):
    "Return C++ that defines NAME, SMS (number of SMs), MAJOR and MINOR, the constants and the cases of a program"
    cases = ', '.join(f'{{{", ".join(map(str, size))}}}' for size in program.sizes)
    cases = f'constexpr struct {{ int {program.fields}; }} cases[] = {{{cases}}};' if program.fields else ''
    major, minor = program.target.compute_capability
    target = f'constexpr int SMS = {program.target.device.sms}, MAJOR = {major}, MINOR = {minor};'
    name_and_target = f'const char *const NAME = "{program.name}";\n{target}'
    return '\n'.join(filter(None, [name_and_target, program.constants, cases]))


_MAIN = 'int main() { return host::run(); }'
# main files whose `run` can skip the timed case, which is too large for an emulator
_SMALL_MAIN = 'int main(int argc, char **argv) { return host::run(argc > 1 && !strcmp(argv[1], "small")); }'
_MAINS = {'main.cuh': _SMALL_MAIN, 'nvfp4_main.cuh': _SMALL_MAIN}


def program_source(program) -> str:
    "Return the contents of the `.cu` file of a `Program`"
    kernel_launches = [
        line.kernel_launch
        for cases in program.functions.values()
        for lines in cases
        for line in lines
        if isinstance(line, Launch)
    ]
    kernels, namespaces = _put_in_namespaces(kernel_launches)
    case_functions = '\n'.join(
        _case_function(signature, cases, namespaces) for signature, cases in program.functions.items()
    )
    tensor_map_files = ['tensor_map.cuh'] * ('tensor_map<' in case_functions)
    host_files = [
        files(__package__).joinpath(name).read_text(encoding='utf-8')
        for name in ('host.cuh', *tensor_map_files, program.main_file)
    ]
    target = program.target
    base_arch = target.arch.removesuffix('a')
    include_lines = '\n'.join(f'#include <{header}>' for header in HEADERS)
    return f'''{''.join(f'// {line}' + chr(10) for line in program.description.splitlines())}//
//     nvcc {target.flags} -o {program.name} {program.name}.cu && ./{program.name}
//
// (nvcc 13.0 with -arch={target.arch} also compiles for {base_arch}, which has no {target.instructions}: for that one
// the file is empty.)
#if !defined __CUDA_ARCH__ || defined {target.feature_macro}

{include_lines}

{kernels}
namespace host {{

{_constants(program)}

{chr(10).join(host_files)}
{case_functions}
}}

{_MAINS.get(program.main_file, _MAIN)}

#endif
'''
