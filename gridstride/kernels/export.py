"""Kernels to take away: each as one `.cu` that checks and times itself, and needs CUDA alone.

    python -m gridstride.kernels export DIR     # then, on a machine with an H100: sh DIR/run.sh

Between two marked lines is the source that the package launches, verbatim. Above it is how to compile it; below it
are the launches as the package makes them on an H100, and the host code (`main.cuh`), which multiplies random matrices,
checks each result, and measures the time.
"""

import re
from collections import namedtuple
from pathlib import Path

from .flash import programs as _flash
from .fused import programs as _fused
from .gemm import bf16x6, cost_model, skinny
from .gemm import programs as _gemm
from .ladder import finals, fp32, hopper, tensor_cores
from .ladder.ladder import ragged_shapes
from .ladder.rung import H100, Rung
from .latent import programs as _latent
from .memory import programs as _memory
from .quant import programs as _quant
from .sparse import programs as _sparse
from .standalone import FLAGS, SPACE, Launch, Program, write

TOOLS = _memory, _quant, _sparse, _fused, _flash, _latent, _gemm  # each has `programs`, a list of `Program`
Exported = namedtuple('Exported', 'name what product shapes')  # file, one line on it; (h, w, k), the last one is timed


# What there is to export.
def _lesson(number, rungs, large):
    for r in rungs:
        name = re.sub(r'\W+', '_', r.name)
        yield Exported(
            f'lesson_{number}_{name}', f'Lesson {number}, rung `{r.name}`', r, [*ragged_shapes(r)[:4], large]
        )


def _rungs(module):
    return dict.fromkeys(rung for rung in vars(module).values() if isinstance(rung, Rung))


def _export(product, *shapes):
    "A kernel that `matmul` picks"
    name = re.sub(r'\W+', '_', product.name)
    return Exported(f'matmul_{name}', f'`matmul` may pick `{product.name}`', product, [*shapes])


def _thin(form, product, *shapes):
    return _export(product, *shapes)._replace(name=f'matmul_thin_{form}')


def _float32():
    "All that `matmul` picks in float32; a thin one has the width in its constants, so one of each form"
    large = 4096, 4096, 4096
    for p in bf16x6.every():
        yield _export(p, *ragged_shapes(p)[1:4], large)
    yield _export(skinny.SMALL, *ragged_shapes(skinny.SMALL)[:4], (100, 100, 100))
    yield _thin('rows', skinny.SKINNY, (9001, 10, 784), (50000, 10, 784))
    yield _thin('ring', skinny.SKINNY, (9001, 10, 785), (50000, 10, 785))
    yield _thin('wide', skinny.SKINNY, (9001, 20, 786), (50000, 20, 786))
    yield _thin('planes', skinny.SKINNY, (90001, 32, 188), (100000, 32, 192))
    yield _thin('stages', skinny.SKINNY, (6001, 32, 784), (50000, 32, 784))
    yield _thin('slabs', skinny.SKINNY, (37, 10, 50000), (784, 10, 50000))
    yield _thin('turned', skinny.SKINNY_TN, (36, 10, 785), (784, 10, 50000))


def _bfloat16():
    "All that `matmul` picks in bfloat16; in float16 it is the same text, with the other type in its instructions"
    large = 8192, 8192, 8192
    begins = {False, cost_model.PDL_MAX_CYCLES > 0}
    forms = [('bfloat16', layout) for layout in ('nn', 'tn', 'nt')]
    picked = [
        cost_model.build_kernel(o, early, *form)
        for form in forms
        for o in cost_model.available_configs(*form)
        for early in begins
    ]
    for p in picked:
        yield _export(p, *ragged_shapes(p)[1:4], large)


def list_exports() -> list:  # of `Exported`
    "Every rung of lessons 13, 21 and 22, and every kernel that `matmul` can pick"
    large = 8192, 8192, 8192
    last = finals.choose(*large)
    ladders = (
        (13, _rungs(fp32), (4096, 4096, 4096)),
        (21, _rungs(tensor_cores), large),
        (22, [*_rungs(hopper), last], large),
    )
    return [*(e for ladder in ladders for e in _lesson(*ladder)), *_float32(), *_bfloat16()]


# How one becomes a program.
_TYPES = dict(float32='float', bfloat16='__nv_bfloat16')
_LAYOUTS = dict(
    nn='m (h x k) and n (k x w)', tn='m as k x h and n (k x w)', nt='m (h x k) and n as w x k'
)  # how m and n are given


def sources(e) -> dict:  # kernel -> source
    "The kernels of an `Exported`, each of one source for all its shapes"
    res = {}
    for shape in e.shapes:
        for call in e.product.launch_plan(*shape, H100).calls:
            if res.setdefault(call.name, call.src) != call.src:
                raise ValueError(f'{e.name}: {call.name} has another source for {shape}')
    return res


def _map(e, name, shape):
    "C for the tensor map of m, n or out"
    (h, w, k), layout, ((rows, cols), swizzle) = shape, e.product.layout, e.product.maps[name]
    sides = dict(m=(k, h) if layout[0] == 't' else (h, k), n=(w, k) if layout[1] == 't' else (k, w), out=(h, w))[name]
    return f'tensor_map<{SPACE}::TensorMap>({name}, {sides[0]}, {sides[1]}, {rows}, {cols}, {swizzle})'


def _lines(e, shape):
    "The lines of a case"
    plan = e.product.launch_plan(*shape, H100)
    workspaces = [f'static auto *{o} = allocate<{_TYPES[t]}>({n});' for o, (n, t) in plan.workspaces.items()]
    maps = [f'static auto {o}_map = {_map(e, o, shape)};' for o in e.product.maps]
    launches = [
        Launch(c, [f'{array}_map' if array in e.product.maps else array for array in c.arrays]) for c in plan.calls
    ]
    return [*workspaces, *maps, *launches]


def _product(e) -> Program:
    "The program of an `Exported`"
    sources(e)
    transposed = [str(o == 't').lower() for o in e.product.layout]
    constants = f'''typedef {_TYPES[e.product.dtype]} Number;
constexpr bool m_transposed = {transposed[0]}, n_transposed = {transposed[1]};'''
    what = f'{e.what}:\nout (h x w) = m @ n in {e.product.dtype}, row-major; {_LAYOUTS[e.product.layout]}.'
    functions = {
        'void multiply(int number, const Number *m, const Number *n, Number *out)': [_lines(e, o) for o in e.shapes]
    }
    return Program(e.name, what, 'main.cuh', 'h, w, k', e.shapes, functions, constants)


def program(e) -> str:
    "The whole `.cu` of an `Exported`"
    return write(_product(e))


def tool_programs() -> dict:  # name of the file -> the whole `.cu`
    "Every program of every tool"
    return {p.name: write(p) for tool in TOOLS for p in tool.programs()}


# A folder of them, and what compiles and runs them all.
RUN = f'''#!/bin/sh
# Compiles every kernel here and runs it: one line per kernel; the exit status is 0 if all are right.
cd "$(dirname "$0")" || exit 2
ls *.cu | sed 's/[.]cu$//' | xargs -P "${{JOBS:-$(nproc)}}" -I NAME nvcc {FLAGS} -o NAME NAME.cu
passed=0 all=0
for f in *.cu; do
    all=$((all+1))
    if timeout 120 "./${{f%.cu}}"; then passed=$((passed+1)); else echo "FAIL ${{f%.cu}}, exit status $?"; fi
done
echo "$passed of $all pass"
[ "$passed" = "$all" ]
'''


def export(folder, match='') -> list:  # of the files written
    "Write one `.cu` per kernel with `match` in its name into `folder`, and `run.sh`, which compiles and runs them"
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f'export: {folder} is a file, and the programs need a folder; give another name')
    folder.mkdir(parents=True, exist_ok=True)
    programs = {e.name: program(e) for e in list_exports() if match in e.name}
    programs |= {name: text for name, text in tool_programs().items() if match in name}
    programs = {f'{name}.cu': text for name, text in programs.items()}
    for name, text in {**programs, 'run.sh': RUN}.items():
        (folder / name).write_text(text, encoding='utf-8')
    return [folder / name for name in programs]
