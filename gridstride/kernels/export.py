"""Kernels to take away: each as one `.cu` that checks and times itself, and needs CUDA alone.

    python -m gridstride.kernels export DIR     # then, on a machine with an H100: sh DIR/run.sh

Between two marked lines is the source that the package launches, verbatim. Above it is how to compile it; below it
are the launches as the package makes them on an H100, and the host code (`main.cuh`), which multiplies random matrices,
checks each result, and measures the time.
"""

import re
from collections import namedtuple
from pathlib import Path

from .gemm import cost_model, bf16x6, skinny
from .ladder import finals, fp32, hopper, tensor_cores
from . import standalone
from .ladder.ladder import ragged_shapes
from .flash.programs import list_attention_programs
from .fused.programs import list_passes
from .fused.softmax_programs import list_softmax_programs
from .fused.training_programs import list_training_programs
from .latent.programs import list_latent_programs
from .memory.programs import list_programs
from .gemm.programs import list_product_programs
from .quant.programs import list_quant_programs
from .ladder.rung import H100, Rung
from .sparse.programs import list_sparse_programs
from .standalone import FLAGS, HEADERS, marked, start

Exported = namedtuple('Exported', 'name what product shapes')  # file, one line on it; (h, w, k), the last one is timed


# What there is to export.
def _lesson(number, module, large):
    "The rungs of a lesson"
    for r in dict.fromkeys(o for o in vars(module).values() if isinstance(o, Rung)):
        name = re.sub(r'\W+', '_', r.name)
        yield Exported(
            f'lesson_{number}_{name}', f'Lesson {number}, rung `{r.name}`', r, [*ragged_shapes(r)[:4], large]
        )


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
    yield _thin('rows', skinny.THIN, (9001, 10, 784), (50000, 10, 784))
    yield _thin('ring', skinny.THIN, (9001, 10, 785), (50000, 10, 785))
    yield _thin('wide', skinny.THIN, (9001, 20, 786), (50000, 20, 786))
    yield _thin('planes', skinny.THIN, (90001, 32, 188), (100000, 32, 192))
    yield _thin('stages', skinny.THIN, (6001, 32, 784), (50000, 32, 784))
    yield _thin('slabs', skinny.THIN, (37, 10, 50000), (784, 10, 50000))
    yield _thin('turned', skinny.THIN_TN, (36, 10, 785), (784, 10, 50000))


def _bfloat16():
    "All that `matmul` picks in bfloat16; in float16 it is the same text, with the other type in its instructions"
    large = 8192, 8192, 8192
    of_the_lesson, begins = [finals.final(*o) for o in finals.FINAL], {False, cost_model.EARLY > 0}
    forms = [('bfloat16', layout) for layout in ('nn', 'tn', 'nt')]
    picked = [
        cost_model.kernel_of(o, early, *form) for form in forms for o in cost_model.known(*form) for early in begins
    ]
    for p in dict.fromkeys([*of_the_lesson, *picked]):
        yield _export(p, *ragged_shapes(p)[1:4], large)


def list_exports() -> list:  # of `Exported`
    "Every rung of lessons 13, 21 and 22, and every kernel that `matmul` can pick"
    lessons = (13, fp32, 4096), (21, tensor_cores, 8192), (22, hopper, 8192)
    rungs = [e for number, module, n in lessons for e in _lesson(number, module, (n, n, n))]
    return [*rungs, *_float32(), *_bfloat16()]


# How one becomes a program. Two kernels of a product have constants of the same names, so each gets a
# namespace of its own, and the headers come before.
_TYPES = dict(float32='float', bfloat16='__nv_bfloat16')


def sources(e) -> dict:  # kernel -> source
    "The kernels of an `Exported`, each of one source for all its shapes"
    res = {}
    for shape in e.shapes:
        for call in e.product.recipe(*shape, H100).calls:
            if res.setdefault(call.name, call.src) != call.src:
                raise ValueError(f'{e.name}: {call.name} has another source for {shape}')
    return res


def _kernels(e):
    "The text of the kernels, each between its two lines"
    texts = {name: marked(src) for name, src in sources(e).items()}
    if len(texts) == 1:
        return '\n'.join(texts.values())
    own = set(re.findall(r'#include <([\w./]+)>', ''.join(texts.values()))) - set(HEADERS)
    spaces = [f'namespace {name}_space {{\n{text}}}\nusing {name}_space::{name};\n' for name, text in texts.items()]
    return '\n'.join([*(f'#include <{o}>' for o in sorted(own)), *spaces])


def _map(e, name, shape):
    "C for the tensor map of m, n or out"
    (h, w, k), layout, ((rows, cols), swizzle) = shape, e.product.layout, e.product.maps[name]
    sides = dict(m=(k, h) if layout[0] == 't' else (h, k), n=(w, k) if layout[1] == 't' else (k, w), out=(h, w))[name]
    return f'tensor_map<TensorMap>({name}, {sides[0]}, {sides[1]}, {rows}, {cols}, {swizzle})'


def _start(e, call):
    "C for one launch"
    return start(
        call, call.name, [f'{o}_map' if o in e.product.maps else o for o in call.arrays] + [*map(str, call.scalars)]
    )


def _case(e, i, shape):
    "C for the launches of one shape"
    plan = e.product.recipe(*shape, H100)
    workspaces = [f'static auto *{o} = allocate<{_TYPES[t]}>({n});' for o, (n, t) in plan.workspaces.items()]
    maps = [f'static auto {o}_map = {_map(e, o, shape)};' for o in e.product.maps]
    lines = [*workspaces, *maps, *(_start(e, c) for c in plan.calls), 'break;']
    return f'    case {i}: {{\n' + ''.join(f'        {o}\n' for o in lines) + '    }\n'


def _multiply(e):
    "C for the function that multiplies sizes number so and so"
    cases = ''.join(_case(e, i, shape) for i, shape in enumerate(e.shapes))
    head = 'void multiply(int number, const Number *m, const Number *n, Number *out)'
    return f'{head} {{\n    switch (number) {{\n{cases}    }}\n}}\n'


def _layout(product):
    "How m and n are given"
    return dict(nn='m (h x k) and n (k x w)', tn='m as k x h and n (k x w)', nt='m (h x k) and n as w x k')[
        product.layout
    ]


def _names(e):
    "C for the constants of `main.cuh`"
    shapes = ', '.join(f'{{{h}, {w}, {k}}}' for h, w, k in e.shapes)
    transposed = [str(o == 't').lower() for o in e.product.layout]
    return f'''const char *const NAME = "{e.name}";
constexpr int SMS = {H100.sms};
typedef {_TYPES[e.product.dtype]} Number;
constexpr bool m_transposed = {transposed[0]}, n_transposed = {transposed[1]};
constexpr struct {{ int h, w, k; }} cases[] = {{{shapes}}};'''


def program(e) -> str:
    "The whole `.cu` of an `Exported`"
    given = f'out (h x w) = m @ n in {e.product.dtype}, row after row; {_layout(e.product)}.'
    main = 'tensor_map.cuh', 'main.cuh'
    return standalone.program(e.name, [f'{e.what}:', given], _kernels(e), _names(e), main, _multiply(e))


# A folder of them, and what compiles and runs them all.
RUN = f'''#!/bin/sh
# Compiles every kernel here and runs it: a line for each; the exit status is 0 if all are right.
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
    programs = {f'{e.name}.cu': program(e) for e in list_exports() if match in e.name}
    others = {
        **list_programs(),
        **list_quant_programs(),
        **list_sparse_programs(),
        **list_passes(),
        **list_training_programs(),
        **list_softmax_programs(),
        **list_attention_programs(),
        **list_latent_programs(),
        **list_product_programs(),
    }
    programs |= {f'{name}.cu': text for name, text in others.items() if match in name}
    for name, text in {**programs, 'run.sh': RUN}.items():
        (folder / name).write_text(text, encoding='utf-8')
    return [folder / name for name in programs]
