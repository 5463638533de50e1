"""What every exported program has: how to compile it, the source that the package launches, and host code."""

from importlib.resources import files

BEGIN, END = '// ---- as gridstride launches it, from here', '// ---- to here'
FLAGS = '-O3 -std=c++17 -arch=sm_90a'
HEADERS = ['cuda.h', 'cuda_bf16.h', *'algorithm cassert cmath cstdio cstdlib cstring iterator vector'.split()]


def marked(src) -> str:
    "The text of a kernel between its two lines"
    return f'{BEGIN}\n{src}\n{END}\n'


def three(xs) -> str:
    "C for the sizes of a grid or a block"
    return f'dim3({", ".join(map(str, [*xs, 1, 1][:3]))})'


def start(call, kernel, args) -> str:
    "C for one launch of a `Call`"
    pdl, cooperative = (str(o).lower() for o in (call.pdl, call.cooperative))
    attributes = f'{{{pdl}, {three(call.cluster)}, {cooperative}}}'
    return f'start({kernel}, {three(call.grid)}, {three(call.block)}, {call.shared}, {attributes}, {", ".join(args)});'


def in_spaces(calls) -> tuple:  # (C, {text: its namespace})
    "The sources of `Call`s, each in a namespace of its own, since other sizes may need other constants in one source"
    spaces = {src: f'text_{i}' for i, src in enumerate(dict.fromkeys(c.src for c in calls))}
    return '\n'.join(f'namespace {o} {{\n{marked(src)}}}\n' for src, o in spaces.items()), spaces


def switch(head, cases) -> str:
    "C of a function of `number` with a switch over cases, each a list of lines"
    body = ''.join(
        f'    case {i}: {{\n' + ''.join(f'        {o}\n' for o in [*lines, 'break;']) + '    }\n'
        for i, lines in enumerate(cases)
    )
    return f'{head} {{\n    switch (number) {{\n{body}    }}\n}}\n'


def program(
    name,  # of the file
    what,  # it is: lines of text
    kernels,  # C with the marked kernels
    names,  # C for the constants of the host code
    main,  # file, or several, with the host's part of such kernels, below that of all
    launches,  # C for the launches
) -> str:
    "The whole `.cu` of a kernel"
    named = 'host.cuh', *((main,) if isinstance(main, str) else main)
    host = [files(__package__).joinpath(o).read_text(encoding='utf-8') for o in named]
    includes = '\n'.join(f'#include <{o}>' for o in HEADERS)
    return f'''{''.join(f'// {o}' + chr(10) for o in what)}//
//     nvcc {FLAGS} -o {name} {name}.cu && ./{name}
//
// (nvcc 13.0 takes -arch=sm_90a for sm_90 as well, which has no wgmma; for that it finds an empty file.)
#if !defined __CUDA_ARCH__ || defined __CUDA_ARCH_FEAT_SM90_ALL

{includes}

{kernels}
namespace host {{

{names}

{chr(10).join(host)}
{launches}
}}

int main() {{ return host::run(); }}

#endif
'''
