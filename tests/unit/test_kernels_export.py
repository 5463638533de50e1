"The kernels as programs of their own: what is exported, that it is what the package launches, that nvcc compiles it."
import re, shutil, subprocess, sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from exhaustive import some
from gridstride import kernels
from gridstride.cpp import cuda_kernel
from gridstride.cpp.toolchain.cache import build
from gridstride.kernels.gemm import plan, cost_model, bf16x6
from gridstride.kernels import export, standalone
from gridstride.kernels.ladder import blackwell, stream_k, fp32, hopper, launches, rung, tensor_cores
from gridstride.kernels.__main__ import main
from gridstride.kernels.conv import programs as convolutions
from gridstride.kernels.fused import activations, losses, norms, softmaxes
from gridstride.kernels.fused import programs as passes
from gridstride.kernels.memory import operators, programs
from gridstride.kernels.ordering import compaction, sorts, top_k
from gridstride.kernels.ordering import programs as orderings
from gridstride.kernels.ladder.rung import Rung

ALL = {e.name: e for e in export.list_exports()}
MEMORY = {p.name: standalone.program_source(p)
          for p in [*programs.programs(), *passes.programs(), *convolutions.programs()]}


def parts(text):
    "What is between the lines that mark the kernels"
    return re.findall(rf'^{standalone.BEGIN_MARKER}\n(.*?)\n{standalone.END_MARKER}$', text, re.M | re.S)


def test_all_rungs_of_the_lessons_are_there():
    ladders = dict(matmul_ladder=fp32, tensor_cores=tensor_cores, hopper_gemm=hopper, tensor_memory=blackwell)
    for slug, module in ladders.items():
        rungs = [o for o in vars(module).values() if isinstance(o, Rung)]
        rungs += [stream_k.choose(8192, 8192, 8192)]*(slug == 'hopper_gemm')
        there = [e.kernel for name, e in ALL.items() if name.startswith(f'{slug}_')]
        assert len(rungs) >= 4 and len(there) == len(rungs) and all(a is b for a, b in zip(rungs, there))


def test_whatever_matmul_picks_is_there():
    "A skinny kernel has the width in its constants: one of each form"
    products = [e.kernel for e in ALL.values()]
    rng, picked = np.random.default_rng(0), set()
    for h, w, k in np.exp2(rng.uniform(0, 13, (300, 3))).astype(int).tolist():
        for (dtype, _), choose in plan.SELECTORS.items():
            if dtype == 'float16': continue                 # the text of bfloat16, with another type
            w8, k8 = (w, k) if dtype == 'float32' else (-(-w//8)*8, -(-k//8)*8)
            kernel = choose(h, w8, k8, 132)
            if not isinstance(kernel, str):
                picked.add(kernel.name)
                assert any(kernel is p for p in products), kernel
    assert len(picked) > 20


def test_every_kernel_that_is_chosen_from_is_there():
    names = {e.kernel.name for e in ALL.values()}
    assert {p.name for p in bf16x6.all_kernels()} <= names and stream_k.choose(8192, 8192, 8192).name in names
    for layout in ('nn', 'tn', 'nt'):
        configs = cost_model.available_configs(layout=layout)
        assert {cost_model.build_kernel(o, layout=layout).name for o in configs} <= names


def test_kernels_that_begin_early_are_there_when_they_are_picked(monkeypatch):
    early = {cost_model.build_kernel(o, True, layout=layout).name for layout in ('nn', 'tn', 'nt')
             for o in cost_model.available_configs(layout=layout)}
    for cycles, there in ((0, set()), (1, early)):
        monkeypatch.setattr(cost_model, 'PDL_MAX_CYCLES', cycles)
        assert {e.kernel.name for e in export.list_exports()} & early == there


def test_the_forms_of_skinny_products():
    forms = {tuple(export.kernel_sources(e)) for name, e in ALL.items() if name.startswith('matmul_skinny')}
    assert forms == {('skinny_rows',), ('skinny_terms',), ('skinny_stages',), ('skinny',), ('skinny', 'add_splits'),
                     ('skinny_transposed', 'add_splits')}


@pytest.fixture
def launched(monkeypatch):
    "Nothing is compiled or run; the sources that would be, as on an H100"
    seen = []
    def compiled(src, name=None):
        seen.append(src)
        return SimpleNamespace(handle=0, __name__=name, params=[0]*6, launch=lambda *args: None)
    monkeypatch.setattr(rung, 'cuda_kernel', compiled)
    monkeypatch.setattr(rung, 'current_device_properties', lambda: standalone.H100)
    monkeypatch.setattr(rung, 'compile_kernel', lambda src, name, where: compiled(src, name))
    monkeypatch.setattr(launches, 'tensor_map', lambda *args: None)
    return seen


@pytest.mark.parametrize('name', ALL)
def test_what_is_exported_is_what_is_launched(name, launched, monkeypatch):
    e = ALL[name]
    dtype = getattr(torch, e.kernel.dtype)
    if isinstance(e.kernel, Rung): monkeypatch.setattr(e.kernel, '_compiled_kernels', {})
    for h, w, k in e.shapes[:-1]:
        launch = e.kernel.prepare(h, w, k, -1)
        launch(torch.empty(h, k, dtype=dtype), torch.empty(k, w, dtype=dtype), torch.empty(h, w, dtype=dtype), None)
    assert list(dict.fromkeys(launched)) == parts(export.program_text(e))


@pytest.mark.parametrize('tool', programs.OPERATORS, ids=lambda o: f'{o.name}_{o.dtype}')
def test_the_tools_that_are_exported_are_those_that_are_launched(tool, monkeypatch):
    "Case by case, as on an H100; nothing is run"
    seen = []
    monkeypatch.setattr(operators, 'current_device_properties', lambda: standalone.H100)
    monkeypatch.setattr(operators, 'launch', lambda calls, x, **arrays: seen.extend(calls))
    for rows, width in tool.cases:
        given = torch.empty(rows, width, dtype=getattr(torch, tool.dtype))
        if rows == 1: given = given[0]
        getattr(kernels, tool.name)(given, *[-1]*(tool.name in ('sum', 'argmax', 'scan')))
    text = MEMORY[f'{tool.name}_{tool.dtype}']
    assert list(dict.fromkeys(c.src for c in seen)) == parts(text)
    grids = [f'{c.name}, dim3({", ".join(map(str, [*c.grid, 1, 1][:3]))})' for c in seen]
    assert grids == re.findall(r'start\(source_\d+::(\w+, dim3\([^)]*\))', text)


@pytest.mark.parametrize('dtype', passes.LOSS_SHAPES)
def test_the_losses_that_are_exported_are_those_that_are_launched(dtype, monkeypatch):
    seen = []
    monkeypatch.setattr(losses, 'current_device_properties', lambda: standalone.H100)
    monkeypatch.setattr(losses, 'launch', lambda calls, x, **arrays: seen.extend(calls))
    for rows, width in passes.LOSS_SHAPES[dtype]:
        given = torch.empty(rows, width, dtype=getattr(torch, dtype), requires_grad=True)
        kernels.cross_entropy(given, torch.empty(rows, dtype=torch.int64))
    text = MEMORY[f'cross_entropy_{dtype}']
    assert list(dict.fromkeys(c.src for c in seen)) == parts(text)
    grids = [f'{c.name}, dim3({", ".join(map(str, [*c.grid, 1, 1][:3]))})' for c in seen]
    assert grids == re.findall(r'start\(source_\d+::(\w+, dim3\([^)]*\))', text)


@pytest.mark.parametrize('o', passes.PASSES, ids=lambda o: o.name)
def test_the_fused_kernels_that_are_exported_are_those_that_are_launched(o, monkeypatch):
    "Case by case, as on an H100, but for the largest; nothing is run"
    seen = []
    for module in (activations, norms):
        monkeypatch.setattr(module, 'current_device_properties', lambda: standalone.H100)
        monkeypatch.setattr(module, 'launch', lambda calls, x, **arrays: seen.extend(calls))
    for shape in passes.SHAPES[:-1]:
        x, *columns = (torch.zeros(s, dtype=getattr(torch, o.dtype), requires_grad=True)
                       for s in (shape, shape[1:], shape[1:]))
        given = columns[:dict(gelu=0, bias_gelu=1, rms_norm=1, layer_norm=2)[o.op_name]]
        y = getattr(kernels, o.op_name)(x, *given, **({'eps': passes.EPS} if 'norm' in o.op_name else {}))
        if o.is_backward:
            del seen[-1]                                    # the way there
            torch.autograd.grad(y, [x, *given], torch.zeros_like(y))
    large = passes.pass_launches(o, *passes.SHAPES[-1])[0]
    assert list(dict.fromkeys(c.src for c in [*seen, *large])) == parts(MEMORY[o.name])
    grids = [f'{c.name}, dim3({", ".join(map(str, [*c.grid, 1, 1][:3]))})' for c in [*seen, *large]]
    assert grids == re.findall(r'start\(source_\d+::(\w+, dim3\([^)]*\))', MEMORY[o.name])


@pytest.mark.parametrize('o', passes.SOFTMAX_PASSES, ids=lambda o: o.name)
def test_the_softmaxes_that_are_exported_are_those_that_are_launched(o, monkeypatch):
    "Case by case, as on an H100, but for the largest; nothing is run"
    seen = []
    monkeypatch.setattr(softmaxes, 'current_device_properties', lambda: standalone.H100)
    monkeypatch.setattr(softmaxes, 'launch', lambda calls, x, **arrays: seen.extend(calls))
    for shape in passes.SOFTMAX_SHAPES[:-1]:
        x = torch.zeros(shape, dtype=getattr(torch, o.dtype), requires_grad=True)
        y = getattr(kernels, o.op_name)(x)
        if o.is_backward:
            del seen[-len(passes.softmax_pass_launches(o, *shape)[0]):]       # the way there
            torch.autograd.grad(y, x, torch.zeros_like(y))
    large = passes.softmax_pass_launches(o, *passes.SOFTMAX_SHAPES[-1])[0]
    text = MEMORY[o.name]
    assert list(dict.fromkeys(c.src for c in [*seen, *large])) == parts(text)
    grids = [f'{c.name}, dim3({", ".join(map(str, [*c.grid, 1, 1][:3]))})' for c in [*seen, *large]]
    assert grids == re.findall(r'start\(source_\d+::(\w+, dim3\([^)]*\))', text)


def test_a_program_says_how_it_is_compiled():
    for name, e in ALL.items():
        head = export.program_text(e).split('\n')[:8]
        arch = 'sm_100a' if name.startswith('tensor_memory') else 'sm_90a'
        assert f'//     nvcc -O3 -std=c++17 -arch={arch} -o {name} {name}.cu && ./{name}' in head
        assert e.kernel.name in head[0]


def test_a_product_with_two_sources_of_a_kernel_is_refused():
    e = ALL['matmul_skinny_rows']
    with pytest.raises(ValueError, match=r'skinny_rows .*\(50000, 12, 784\)'):
        export.program_text(e._replace(shapes=[*e.shapes, (50000, 12, 784)]))


def test_the_command(tmp_path, capsys):
    assert main(['export', str(tmp_path/'a/b'), '--match', 'skinny']) == 0
    forms = 'pipeline', 'rows', 'slabs', 'stages', 'terms', 'transposed', 'wide'
    assert (sorted(p.name for p in (tmp_path/'a/b').iterdir())
            == [f'matmul_skinny_{o}.cu' for o in forms]+['run.sh'])
    assert '7 kernels in' in capsys.readouterr().out
    assert "'nothing'" in main(['export', str(tmp_path), '--match', 'nothing'])
    (tmp_path/'file').touch()
    assert 'a folder' in main(['export', str(tmp_path/'file')])


def test_the_script_counts_what_passes(tmp_path):
    "With programs that replace nvcc and its output"
    export.export(tmp_path, 'skinny_s')
    nvcc = tmp_path/'bin/nvcc'
    nvcc.parent.mkdir()
    nvcc.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\ncase $2 in *slabs) code=1;; esac\n'
                    'printf "#!/bin/sh\\nexit ${code:-0}\\n" > $2\nchmod +x $2\n')
    nvcc.chmod(0o755)
    done = subprocess.run(['sh', tmp_path/'run.sh'], env={'PATH': f'{nvcc.parent}:/usr/bin:/bin'},
                          capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == 'FAIL matmul_skinny_slabs, exit status 1\n1 of 2 pass\n', done


CHECK = '''#include <cuda_bf16.h>
typedef __nv_bfloat16 Elem;
constexpr bool m_transposed = %s, n_transposed = %s;
%s
'''


@pytest.mark.slow
@pytest.mark.parametrize('layout', some(['nn', 'tn', 'tt', 'nt'], 2, first=1))
def test_the_programs_find_each_number_that_is_wrong(layout):
    "Right ones are within the bound; some that are a few of its units off are counted, and the first is reported"
    text = (Path(export.__file__).parent/'main.cuh').read_text()
    part = re.search(r'^constexpr double UNIT_ROUNDOFF.*?(?=^// Multiplies into)', text, re.M | re.S)[0]
    compare = cuda_kernel(CHECK % (*(str(o == 't').lower() for o in layout), part), 'compare')
    torch.manual_seed(0)
    h, w, k = 70, 131, 37
    m, n = (torch.randn(s, dtype=torch.bfloat16) for s in ((h, k), (k, w)))
    right = m.double() @ n.double()
    given = [o.T.contiguous() if turned == 't' else o for o, turned in zip((m, n), layout)]
    for places in ([], [(69, 130)], [(5, 127), (5, 128), (64, 0)]):
        out = right.bfloat16()
        for p in places: out[p] += 2**-6*right[p].abs() + .1
        wrong = torch.tensor([0, -1, 0])  # as in `Wrong`: how many, the first, the largest error
        compare[(3, 2), (16, 16)](*given, out, h, w, k, wrong)
        assert wrong[:2].tolist() == [len(places), places[0][0]*w + places[0][1] if places else -1]
        assert .5 < wrong[2:].view(torch.float32)[0] <= 1


COMPILED = ['matmul_ladder_tuned', 'hopper_gemm_stored', 'matmul_bf16x6_64x64_split_K_4_tn',
            'matmul_gemm_f16_256x192_nt_swap_AB_1x2', 'matmul_skinny_slabs',
            'sum_float32', 'scan_int32', 'cross_entropy_bfloat16', 'adamw_float32', 'gelu_float32',
            'softmax_backward_bfloat16', 'conv_depthwise_float32', 'conv_dense_bfloat16']
HEADERS = ''.join(f'#include <{o}>\n' for o in standalone.HEADERS)


def in_a_space(name):
    "The program below its headers, in a namespace with its own lines, and what else it includes"
    text = MEMORY.get(name) or export.program_text(ALL[name])
    assert HEADERS in text
    more = [o for o in re.findall(r'^#include .*\n', text, re.M) if o not in HEADERS]
    body = re.sub(r'^#include .*$', '', text, flags=re.M)
    return more, f'namespace {name} {{\n#line 1 "{name}.cu"\n{body}\n}}\n'


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.skipif(not shutil.which('nvcc') or sys.platform != 'linux', reason='needs nvcc')
def test_nvcc_compiles_them():
    """In one unit, as headers take most of the time; what one includes comes after those that do not, which it cannot
    help. The host's part is only read; what was compiled as it is now is not compiled again"""
    parts = sorted(map(in_a_space, COMPILED))
    text = HEADERS + ''.join(o for more, text in parts for o in [*more, text])
    flags = *standalone.FLAGS.replace('-O3', '-O1').split(), '-Xcompiler', '-fsyntax-only'
    version = subprocess.run(['nvcc', '--version'], check=True, capture_output=True, text=True).stdout
    build({'x.cu': text}, [['nvcc', *flags, '-c', '-o', 'x.o', 'x.cu']], version)


@pytest.mark.parametrize('o', orderings.PROGRAMS, ids=lambda o: o.name)
def test_the_sorts_that_are_exported_are_those_that_are_launched(o, monkeypatch):
    "Case by case, as on an H100; nothing is run"
    seen = []
    for module in (sorts, top_k, compaction):
        monkeypatch.setattr(module, 'current_device_properties', lambda: standalone.H100)
        monkeypatch.setattr(module, 'launch', lambda calls, x, **arrays: seen.extend(calls))
    for rows, width in o.cases:
        given = torch.empty(rows, width, dtype=getattr(torch, o.dtype))
        if o.operator == 'compact': kernels.compact(given, torch.empty(rows, width, dtype=torch.bool), padded=True)
        else: getattr(kernels, o.operator)(given, *[orderings.K]*(o.operator == 'topk'))
    text = standalone.program_source(orderings._program(o))
    assert list(dict.fromkeys(c.src for c in seen)) == parts(text)
    grids = [f'{c.name}, dim3({", ".join(map(str, [*c.grid, 1, 1][:3]))})' for c in seen]
    assert grids == re.findall(r'start\(source_\d+::(\w+, dim3\([^)]*\))', text)
