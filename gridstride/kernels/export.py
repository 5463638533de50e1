"""Export kernels: each as one `.cu` that checks and times itself, and depends only on CUDA.

    python -m gridstride.kernels export DIR     # then, on a machine with an H100: sh DIR/run.sh

Between two marker lines is the source that the package launches, verbatim. Above it is the command that compiles it;
below it are the launches as the package makes them on an H100, and the host code (`main.cuh`), which multiplies random
matrices, checks each result, and measures the time.
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
from .standalone import FLAGS, NAMESPACE, Launch, Program, write

# modules with a function `programs`, which returns a list of `Program`
TOOLS = _memory, _quant, _sparse, _fused, _flash, _latent, _gemm
# a product to export: name of the file, description, kernel, and shapes (h, w, k), of which the last one is timed
Exported = namedtuple('Exported', 'name description kernel shapes')


# The kernels to export
def _ladder_exports(slug, kernels, large):
    "Yield the `Exported`s of the kernels of a lesson's ladder"
    for kernel in kernels:
        name = re.sub(r'\W+', '_', kernel.name)
        description = f'Lesson {slug}, rung `{kernel.name}`'
        yield Exported(f'{slug}_{name}', description, kernel, [*ragged_shapes(kernel)[:4], large])


def _ladder_kernels(module):
    "Return the kernels of the ladder that a module defines, in order"
    return dict.fromkeys(kernel for kernel in vars(module).values() if isinstance(kernel, Rung))


def _selected_kernel(kernel, *shapes):
    "Return the `Exported` of a kernel that `matmul` may select"
    name = re.sub(r'\W+', '_', kernel.name)
    return Exported(f'matmul_{name}', f'`matmul` may pick `{kernel.name}`', kernel, [*shapes])


def _skinny_kernel(form, kernel, *shapes):
    "Return the `Exported` of one form of a kernel for skinny matrices"
    return _selected_kernel(kernel, *shapes)._replace(name=f'matmul_thin_{form}')


def _float32_kernels():
    "Yield the float32 kernels that `matmul` may select; of skinny ones, which depend on the shape, one of each form"
    large = 4096, 4096, 4096
    for p in bf16x6.all_kernels():
        yield _selected_kernel(p, *ragged_shapes(p)[1:4], large)
    yield _selected_kernel(skinny.SMALL, *ragged_shapes(skinny.SMALL)[:4], (100, 100, 100))
    yield _skinny_kernel('rows', skinny.SKINNY, (9001, 10, 784), (50000, 10, 784))
    yield _skinny_kernel('ring', skinny.SKINNY, (9001, 10, 785), (50000, 10, 785))
    yield _skinny_kernel('wide', skinny.SKINNY, (9001, 20, 786), (50000, 20, 786))
    yield _skinny_kernel('planes', skinny.SKINNY, (90001, 32, 188), (100000, 32, 192))
    yield _skinny_kernel('stages', skinny.SKINNY, (6001, 32, 784), (50000, 32, 784))
    yield _skinny_kernel('slabs', skinny.SKINNY, (37, 10, 50000), (784, 10, 50000))
    yield _skinny_kernel('turned', skinny.SKINNY_TN, (36, 10, 785), (784, 10, 50000))


def _bfloat16_kernels():
    "Yield the bfloat16 kernels that `matmul` may select; the float16 kernels differ only in the type"
    large = 8192, 8192, 8192
    pdl_options = {False, cost_model.PDL_MAX_CYCLES > 0}
    forms = [('bfloat16', layout) for layout in ('nn', 'tn', 'nt')]
    selected = [
        cost_model.build_kernel(config, pdl, *form)
        for form in forms
        for config in cost_model.available_configs(*form)
        for pdl in pdl_options
    ]
    for p in selected:
        yield _selected_kernel(p, *ragged_shapes(p)[1:4], large)


def list_exports() -> list:  # of `Exported`
    "Return every kernel of the lessons' three ladders, and every kernel that `matmul` can select"
    large = 8192, 8192, 8192
    last_rung = finals.choose(*large)
    ladders = (
        ('matmul_ladder', _ladder_kernels(fp32), (4096, 4096, 4096)),
        ('tensor_cores', _ladder_kernels(tensor_cores), large),
        ('hopper_gemm', [*_ladder_kernels(hopper), last_rung], large),
    )
    return [
        *(exported for ladder in ladders for exported in _ladder_exports(*ladder)),
        *_float32_kernels(),
        *_bfloat16_kernels(),
    ]


# The program of a kernel
_TYPES = dict(float32='float', bfloat16='__nv_bfloat16')
_LAYOUTS = dict(
    nn='m (h x k) and n (k x w)', tn='m as k x h and n (k x w)', nt='m (h x k) and n as w x k'
)  # how memory holds the operands


def sources(exported) -> dict:  # kernel -> source
    "Return the sources of the kernels of an `Exported`; raises `ValueError` if one depends on the shape"
    res = {}
    for shape in exported.shapes:
        for call in exported.kernel.launch_plan(*shape, H100).calls:
            if res.setdefault(call.name, call.src) != call.src:
                what = f'the source of {call.name} depends on the shape (it differs for {shape})'
                raise ValueError(f'{exported.name}: {what}, so it cannot be exported')
    return res


def _tensor_map_code(exported, name, shape):
    "Return C++ for the tensor map of m, n or out"
    (h, w, k), layout, ((rows, cols), swizzle) = shape, exported.kernel.layout, exported.kernel.maps[name]
    sizes = dict(m=(k, h) if layout[0] == 't' else (h, k), n=(w, k) if layout[1] == 't' else (k, w), out=(h, w))[name]
    return f'tensor_map<{NAMESPACE}::TensorMap>({name}, {sizes[0]}, {sizes[1]}, {rows}, {cols}, {swizzle})'


def _case_lines(exported, shape):
    "Return the lines of C++, and the `Launch`es, for a case"
    plan = exported.kernel.launch_plan(*shape, H100)
    workspaces = [
        f'static auto *{name} = allocate<{_TYPES[dtype]}>({n});' for name, (n, dtype) in plan.workspaces.items()
    ]
    maps = [f'static auto {name}_map = {_tensor_map_code(exported, name, shape)};' for name in exported.kernel.maps]
    launches = [
        Launch(c, [f'{array}_map' if array in exported.kernel.maps else array for array in c.arrays])
        for c in plan.calls
    ]
    return [*workspaces, *maps, *launches]


def _program(exported) -> Program:
    "Return the `Program` of an `Exported`"
    sources(exported)  # raises for sources that depend on the shape
    transposed = [str(letter == 't').lower() for letter in exported.kernel.layout]
    constants = f'''typedef {_TYPES[exported.kernel.dtype]} Number;
constexpr bool m_transposed = {transposed[0]}, n_transposed = {transposed[1]};'''
    operands = _LAYOUTS[exported.kernel.layout]
    description = f'{exported.description}:\nout (h x w) = m @ n in {exported.kernel.dtype}, row-major; {operands}.'
    functions = {
        'void multiply(int number, const Number *m, const Number *n, Number *out)': [
            _case_lines(exported, shape) for shape in exported.shapes
        ]
    }
    return Program(exported.name, description, 'main.cuh', 'h, w, k', exported.shapes, functions, constants)


def program(exported) -> str:
    "Return the text of the `.cu` of an `Exported`"
    return write(_program(exported))


def tool_programs() -> dict:  # name of the file -> text of the `.cu`
    "Return every program of every operator"
    return {p.name: write(p) for tool in TOOLS for p in tool.programs()}


# The folder of programs, and the script that compiles and runs them
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
        raise ValueError(f'export: {folder} is a file, and the programs need a folder; pass another name')
    folder.mkdir(parents=True, exist_ok=True)
    programs = {exported.name: program(exported) for exported in list_exports() if match in exported.name}
    programs |= {name: text for name, text in tool_programs().items() if match in name}
    programs = {f'{name}.cu': text for name, text in programs.items()}
    for name, text in {**programs, 'run.sh': RUN}.items():
        (folder / name).write_text(text, encoding='utf-8')
    return [folder / name for name in programs]
