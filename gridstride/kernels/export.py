"""Export each kernel as a `.cu` file that checks and times itself, and depends only on CUDA.

    python -m gridstride.kernels export DIR     # then, on a machine with an H100 or a B200: sh DIR/run.sh

A file begins with the command that compiles it. The source that the package launches follows unchanged, between two
marker lines. The host code (`host.cuh`, `main.cuh`) runs the kernel on random inputs, checks each result and measures
the time. The launches at the end are those of the package on an H100; those of `tcgen05` kernels are for a B200, on
which they have not run.
"""

import re
from collections import namedtuple
from pathlib import Path

from . import nvfp4_program
from .conv import programs as _conv
from .flash import programs as _flash
from .fused import programs as _fused
from .gemm import bf16x6, cost_model, skinny
from .gemm import programs as _gemm
from .ladder import blackwell, stream_k, fp32, hopper, tensor_cores
from .ladder.ladder import shapes_around_tile
from .ladder.rung import Rung
from .latent import programs as _latent
from .memory import programs as _memory
from .ordering import programs as _ordering
from .quant import programs as _quant
from .sparse import programs as _sparse
from .standalone import BLACKWELL, HOPPER, NAMESPACE, Launch, Program, program_source

# modules with a function `programs`, which returns a list of `Program`
_PROGRAM_MODULES = nvfp4_program, _memory, _ordering, _conv, _quant, _sparse, _fused, _flash, _latent, _gemm
# a GEMM to export: the name of the file, a description, the kernel (a `GemmKernel`), shapes (h, w, k), the last of
# which is timed, and the GPU
ExportSpec = namedtuple('ExportSpec', 'name description kernel shapes target', defaults=(HOPPER,))


# The kernels to export
def _ladder_exports(slug, kernels, timed_shape, target=HOPPER):
    "Yield an `ExportSpec` per kernel of a lesson's ladder; `timed_shape` is the last shape"
    for kernel in kernels:
        name = re.sub(r'\W+', '_', kernel.name)
        description = f'Lesson {slug}, version `{kernel.name}`'
        yield ExportSpec(f'{slug}_{name}', description, kernel, [*shapes_around_tile(kernel)[:4], timed_shape], target)


def _ladder_kernels(module):
    "Return the kernels of the ladder that a module defines, in order"
    return dict.fromkeys(kernel for kernel in vars(module).values() if isinstance(kernel, Rung))


def _selected_kernel(kernel, *shapes):
    "Return the `ExportSpec` of a kernel that `matmul` may select"
    name = re.sub(r'\W+', '_', kernel.name)
    return ExportSpec(f'matmul_{name}', f'`matmul` may select `{kernel.name}`', kernel, [*shapes])


def _skinny_kernel(variant, kernel, *shapes):
    "Return the `ExportSpec` of one variant of a skinny kernel, which depends on the shape"
    return _selected_kernel(kernel, *shapes)._replace(name=f'matmul_skinny_{variant}')


def _float32_kernels():
    "Yield the float32 kernels that `matmul` may select; of the skinny kernels, which depend on the shape, each variant"
    timed_shape = 4096, 4096, 4096
    for kernel in bf16x6.all_kernels():
        yield _selected_kernel(kernel, *shapes_around_tile(kernel)[1:4], timed_shape)
    yield _selected_kernel(skinny.SMALL, *shapes_around_tile(skinny.SMALL)[:4], (100, 100, 100))
    yield _skinny_kernel('rows', skinny.SKINNY, (9001, 10, 784), (50000, 10, 784))
    yield _skinny_kernel('pipeline', skinny.SKINNY, (9001, 10, 785), (50000, 10, 785))
    yield _skinny_kernel('wide', skinny.SKINNY, (9001, 20, 786), (50000, 20, 786))
    yield _skinny_kernel('terms', skinny.SKINNY, (90001, 32, 188), (100000, 32, 192))
    yield _skinny_kernel('stages', skinny.SKINNY, (6001, 32, 784), (50000, 32, 784))
    yield _skinny_kernel('slabs', skinny.SKINNY, (37, 10, 50000), (784, 10, 50000))
    yield _skinny_kernel('transposed', skinny.SKINNY_TN, (36, 10, 785), (784, 10, 50000))


def _bfloat16_kernels():
    "Yield the bfloat16 kernels that `matmul` may select; the float16 kernels differ only in the type"
    timed_shape = 8192, 8192, 8192
    pdl_options = {False, cost_model.PDL_MAX_CYCLES > 0}
    kernels = [
        cost_model.build_kernel(config, pdl, 'bfloat16', layout)
        for layout in ('nn', 'tn', 'nt')
        for config in cost_model.available_configs('bfloat16', layout)
        for pdl in pdl_options
    ]
    for kernel in kernels:
        yield _selected_kernel(kernel, *shapes_around_tile(kernel)[1:4], timed_shape)


def list_exports() -> list:  # of `ExportSpec`
    "Return every kernel of the lessons' four ladders, and every kernel that `matmul` can select"
    timed_shape = 8192, 8192, 8192
    final_kernel = stream_k.choose(*timed_shape)
    ladders = (
        ('matmul_ladder', _ladder_kernels(fp32), (4096, 4096, 4096)),
        ('tensor_cores', _ladder_kernels(tensor_cores), timed_shape),
        ('hopper_gemm', [*_ladder_kernels(hopper), final_kernel], timed_shape),
        ('tensor_memory', _ladder_kernels(blackwell), timed_shape, BLACKWELL),
    )
    return [
        *(spec for ladder in ladders for spec in _ladder_exports(*ladder)),
        *_float32_kernels(),
        *_bfloat16_kernels(),
    ]


# The program of a kernel
_C_TYPES = dict(float32='float', bfloat16='__nv_bfloat16')
# layout -> description of the operands in memory
_LAYOUTS = dict(
    nn='m is h x k, n is k x w', tn='m is stored as k x h, n is k x w', nt='m is h x k, n is stored as w x k'
)


def kernel_sources(spec) -> dict:  # kernel -> source
    "Return the sources of the kernels of an `ExportSpec`; raises `ValueError` if a source depends on the shape"
    source_of_kernel = {}
    for shape in spec.shapes:
        for kernel_launch in spec.kernel.launch_plan(*shape, spec.target.device).calls:
            if source_of_kernel.setdefault(kernel_launch.name, kernel_launch.src) != kernel_launch.src:
                raise ValueError(
                    f'{spec.name}: the source of {kernel_launch.name} depends on the shape, so it cannot be exported: '
                    f'the sources for {spec.shapes[0]} and {shape} differ'
                )
    return source_of_kernel


def _tensor_map_code(spec, name, shape):
    "Return C++ that creates the tensor map of m, n or out; `name`: which of them"
    (h, w, k), layout, ((box_rows, box_cols), swizzle) = shape, spec.kernel.layout, spec.kernel.tma_boxes[name]
    sizes = dict(m=(k, h) if layout[0] == 't' else (h, k), n=(w, k) if layout[1] == 't' else (k, w), out=(h, w))[name]
    return f'tensor_map<{NAMESPACE}::TensorMap>({name}, {sizes[0]}, {sizes[1]}, {box_rows}, {box_cols}, {swizzle})'


def _case_lines(spec, shape):
    "Return the lines of C++ and the `Launch`es for one shape"
    plan = spec.kernel.launch_plan(*shape, spec.target.device)
    workspaces = [
        f'static auto *{name} = allocate<{_C_TYPES[dtype]}>({num_elements});'
        for name, (num_elements, dtype) in plan.workspaces.items()
    ]
    tensor_maps = [f'static auto {name}_map = {_tensor_map_code(spec, name, shape)};' for name in spec.kernel.tma_boxes]
    launches = [
        Launch(
            kernel_launch,
            [f'{array}_map' if array in spec.kernel.tma_boxes else array for array in kernel_launch.arrays],
        )
        for kernel_launch in plan.calls
    ]
    return [*workspaces, *tensor_maps, *launches]


def _program(spec) -> Program:
    "Return the `Program` of an `ExportSpec`; raises `ValueError` if a source depends on the shape"
    kernel_sources(spec)
    transposed_flags = [str(letter == 't').lower() for letter in spec.kernel.layout]
    constants = f'''typedef {_C_TYPES[spec.kernel.dtype]} Elem;
constexpr bool m_transposed = {transposed_flags[0]}, n_transposed = {transposed_flags[1]};'''
    operands = _LAYOUTS[spec.kernel.layout]
    description = f'{spec.description}:\nout (h x w) = m @ n in {spec.kernel.dtype}, row-major; {operands}.'
    functions = {
        'void multiply(int case_index, const Elem *m, const Elem *n, Elem *out)': [
            _case_lines(spec, shape) for shape in spec.shapes
        ]
    }
    return Program(spec.name, description, 'main.cuh', 'h, w, k', spec.shapes, functions, constants, spec.target)


def program_text(spec) -> str:
    "Return the contents of the `.cu` file of an `ExportSpec`"
    return program_source(_program(spec))


def operator_programs() -> dict:  # file name -> contents
    "Return the programs of all operators"
    return {program.name: program_source(program) for module in _PROGRAM_MODULES for program in module.programs()}


# The script that compiles and runs all programs in its folder
RUN = r'''#!/bin/sh
# Compiles and runs every kernel in this folder, and prints a line per kernel. The exit status is 0 if all pass.
# Kernels for a GPU of another compute capability print SKIP and do not count.
cd "$(dirname "$0")" || exit 2
# each file has its compile command in a comment
grep -h -m1 -o 'nvcc .* -o [a-zA-Z0-9_]* [a-zA-Z0-9_]*[.]cu' *.cu |
    xargs -P "${JOBS:-$(nproc)}" -I COMMAND sh -c COMMAND
passed=0 all=0
for f in *.cu; do
    all=$((all+1))
    timeout 120 "./${f%.cu}"
    status=$?
    case $status in
        0) passed=$((passed+1));;
        77) all=$((all-1));;
        *) echo "FAIL ${f%.cu}, exit status $status";;
    esac
done
echo "$passed of $all pass"
[ "$passed" = "$all" ] && [ "$all" -gt 0 ]
'''


def export(folder, match='') -> list:  # of the files written
    "Write a `.cu` file per kernel whose name contains `match`, and `run.sh`, which compiles and runs them, to `folder`"
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f'export: {folder} is a file, not a folder: pass another name')
    folder.mkdir(parents=True, exist_ok=True)
    programs = {spec.name: program_text(spec) for spec in list_exports() if match in spec.name}
    programs |= {name: text for name, text in operator_programs().items() if match in name}
    texts = {f'{name}.cu': text for name, text in programs.items()}
    for file_name, text in {**texts, 'run.sh': RUN}.items():
        (folder / file_name).write_text(text, encoding='utf-8')
    return [folder / file_name for file_name in texts]
