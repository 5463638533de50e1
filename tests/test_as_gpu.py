"Programs and notebooks that expect a GPU run without one, and nothing of that is left over"

import inspect, os, re, subprocess, sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from gridstride import as_gpu
from gridstride.cpp.frontend.tokens import WrongSource
from gridstride.diagnostics.errors import RacecheckError
from gridstride.utils import backend, get_sig
from torch.utils import cpp_extension
from exhaustive import mark_exhaustive
from warm import run_python
from found import names

pytestmark = pytest.mark.skipif(backend() == 'gpu', reason='with a GPU nothing is emulated')

TWICE = r'''
#include <torch/extension.h>
__global__ void twice_k(float *x, int n) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}
torch::Tensor twice(torch::Tensor x) {
    TORCH_CHECK(x.device().is_cuda(), "on the GPU, please");
    auto out = x.clone();
    twice_k<<<(x.numel() + 31) / 32, 32>>>(out.data_ptr<float>(), x.numel());
    return out;
}
std::vector<torch::Tensor> on_gpu(torch::Tensor x) {
    return {x, torch::zeros({2}, torch::kCUDA), torch::zeros({2}, x.options()), torch::empty_like(x)};
}
std::vector<torch::Tensor> on_cpu(torch::Tensor x) { return {x.cpu(), torch::zeros({2}), x.to(torch::kCPU)}; }
'''


def test_the_gpu_is_the_cpus_memory_and_a_copy():
    a = torch.randn(5)
    with as_gpu.as_gpu():
        assert torch.cuda.is_available() and torch.cuda.device_count() == 1
        for b in (a.cuda(), a.to('cuda'), a.to(torch.device('cuda:0')), a.to(device='cuda')):
            assert torch.equal(a, b)
        a.cuda().zero_()
        a.to('cuda').zero_()
        assert a.abs().min() > 0
        made = (
            torch.zeros(3, device='cuda'),
            torch.randn_like(a, device=torch.device('cuda')),
            torch.tensor([1.0], device='cuda'),
        )
        layer = torch.nn.Linear(5, 2).cuda()
        assert layer(a.cuda()).shape == (2,) and all(o.device.type == 'cuda' for o in made)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        end.record()
        torch.cuda.synchronize()
        assert start.elapsed_time(end) >= 0


def test_tensors_on_the_gpu_report_its_device():
    with as_gpu.as_gpu():
        x, on_cpu = torch.randn(4, device='cuda'), torch.randn(4)
        assert x.device == torch.device('cuda', 0) and x.is_cuda and not x.is_cpu and x.get_device() == 0
        assert on_cpu.device.type == 'cpu' and not on_cpu.is_cuda and on_cpu.is_cpu and on_cpu.get_device() == -1
        nested = dict(device=x.device, dtype=torch.float16)
        computed = [x + 1, x[1:], x.view(2, 2).T, x.half(), torch.empty_like(x), torch.zeros(3, **nested), x.detach(),
                    torch.cat([x, x]), x.max(dim=0).indices, x.new_zeros(2), on_cpu.to(x), torch.topk(x, 2).values]
        assert [o.device for o in computed] == [x.device]*len(computed)
        copied = [x.cpu(), x.to('cpu'), x.to(on_cpu), x.to(device='cpu'), torch.zeros_like(x, device='cpu')]
        assert [o.device.type for o in copied] == ['cpu']*len(copied)
        assert on_cpu.copy_(x).device.type == 'cpu' and x.copy_(on_cpu).is_cuda


def test_moving_a_tensor_copies_it_unless_it_is_there():
    with as_gpu.as_gpu():
        x, array = torch.randn(4, device='cuda'), np.zeros(3)
        assert x.cuda() is x and x.to('cuda') is x and x.to(x.device) is x
        x.cpu().zero_()
        torch.as_tensor(array, device='cuda').fill_(1)
        on_cpu = torch.ones(2)
        torch.as_tensor(on_cpu, device='cuda').zero_()
        on_cpu.to(device='cuda').zero_()
        assert x.abs().min() > 0 and not array.any() and on_cpu.all() and not on_cpu.is_cuda
        assert on_cpu.pin_memory().to('cuda', non_blocking=True).is_cuda


def test_a_deleted_tensor_leaves_no_device_to_the_next_one_at_its_address():
    with as_gpu.as_gpu():
        for _ in range(3000):
            assert torch.zeros(5, device='cuda').is_cuda and not torch.zeros(5).is_cuda


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        assert x.is_cuda
        return 2*x

    @staticmethod
    def backward(ctx, grad):
        assert grad.is_cuda and ctx.saved_tensors[0].device == grad.device
        return torch.full(grad.shape, 2.0, device='cuda')*grad


@pytest.mark.parametrize('run', [torch.Tensor.backward, torch.autograd.backward])
def test_modules_and_backward_passes_are_on_the_gpu(run):
    with as_gpu.as_gpu():
        layer, x, hooked = torch.nn.Linear(4, 2).cuda(), torch.randn(3, 4, device='cuda'), []
        out = Doubled.apply(layer(x))
        out.register_hook(lambda grad: hooked.append(grad.device))
        run((out*out).sum())
        grad = layer.weight.grad
        assert hooked == [x.device] and grad.is_cuda and torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0).is_cuda
        grads = torch.autograd.grad(Doubled.apply(layer(x)).sum(), layer.parameters())
        assert all(o.is_cuda for o in grads) and torch.equal(grads[1], torch.full((2,), 6.0))
        assert not layer.cpu().weight.is_cuda and layer.to('cuda').weight.is_cuda


def test_the_default_device_and_generators_may_be_the_gpu():
    with as_gpu.as_gpu():
        torch.set_default_device('cuda')
        assert torch.zeros(2).is_cuda and torch.get_default_device() == torch.device('cuda', 0)
        assert not torch.zeros(2, device='cpu').is_cuda
        torch.set_default_device(None)
        assert not torch.zeros(2).is_cuda and torch.get_default_device().type == 'cpu'
        with torch.device('cuda'):
            assert torch.nn.Linear(2, 2).weight.is_cuda
        made = [torch.randn(3, device='cuda', generator=torch.Generator('cuda').manual_seed(5)) for _ in range(2)]
        assert torch.equal(*made) and made[0].is_cuda


def test_nothing_is_left_over():
    before = torch.cuda.is_available, cpp_extension.load_inline, sys.modules.get('numba.cuda')
    with as_gpu.as_gpu():
        assert torch.cuda.is_available is not before[0]
    assert (torch.cuda.is_available, cpp_extension.load_inline, sys.modules.get('numba.cuda')) == before
    if torch.cuda.is_available():
        assert torch.zeros(2).cuda().is_cuda
    else:
        with pytest.raises((AssertionError, RuntimeError)):
            torch.zeros(2).cuda()


def test_load_inline_compiles_for_the_emulator(monkeypatch, capsys):
    monkeypatch.setenv('CXX', '/usr/lib/ccache/g++-of-another-user')
    with as_gpu.as_gpu():
        m = cpp_extension.load_inline(
            'twice_ext', ['torch::Tensor twice(torch::Tensor x);'], [TWICE], functions=['twice', 'on_gpu', 'on_cpu']
        )
        x = torch.randn(70, device='cuda')
        assert torch.equal(m.twice(x).cpu(), 2 * x)
        assert all(o.is_cuda for o in [m.twice(x), *m.on_gpu(x)]) and not any(o.is_cuda for o in m.on_cpu(x))
    assert names(capsys.readouterr().out, 'g++-of-another-user', 'CXX')


def test_load_inline_takes_its_arguments_in_the_order_of_the_torch_that_is_here():
    order = list(inspect.signature(cpp_extension.load_inline).parameters)
    args = ['twice_ext', ['torch::Tensor twice(torch::Tensor x);'], [TWICE]]
    args += [['twice'] if o == 'functions' else None for o in order[3:order.index('functions') + 1]]
    with as_gpu.as_gpu():
        x = torch.randn(70, device='cuda')
        assert torch.equal(cpp_extension.load_inline(*args).twice(x).cpu(), 2*x)
        if 'sycl_sources' in order:                     # as written submissions once gave the functions
            with pytest.raises(AssertionError, match='SYCL'): cpp_extension.load_inline(*args[:3], ['twice'])


def test_numba_is_the_simulators():
    pytest.importorskip('numba')
    with as_gpu.as_gpu():
        from numba import cuda
        from numba.cuda import as_cuda_array

        @cuda.jit
        def add(x, out):
            i = cuda.grid(1)
            if i < x.size:
                out[i] = x[i] + 1

        x, out = torch.randn(40, device='cuda'), torch.full((40,), float('nan'), device='cuda')
        add[2, 32](as_cuda_array(x), as_cuda_array(out))
    assert torch.equal(out, x + 1)


@pytest.mark.slow
def test_vectorize_for_a_gpu_is_the_simulators_and_for_a_cpu_numbas_own():
    numba = pytest.importorskip('numba')
    own = numba.vectorize
    with as_gpu.as_gpu():
        from numba import float32, guvectorize, vectorize

        f = vectorize([float32(float32, float32)], target='cuda')(lambda a, b: a * b + a)
        x = np.arange(5, dtype=np.float32)
        assert (f(x, x) == x * x + x).all() and type(f).__module__.startswith('gridstride')
        assert isinstance(vectorize(['float32(float32)'])(lambda a: a + 1), own(['f4(f4)'])(lambda a: a).__class__)
        for how in (vectorize, vectorize(), vectorize(nopython=True), vectorize(['float32(float32)'])):
            made = how(lambda a: a + 1)
            assert not type(made).__module__.startswith('gridstride') and (made(x) == x + 1).all()
        g = guvectorize(['void(float32[:], float32[:])'], '(n)->()', target='cuda')(total)
        assert g(x) == 10 and type(g).__module__.startswith('gridstride')
        assert not type(guvectorize('(n)->()')(total)).__module__.startswith('gridstride')
    assert numba.vectorize is own


def total(x, out):
    out[0] = 0
    for i in range(x.shape[0]):
        out[0] += x[i]


RACE = r'''
#include <torch/extension.h>
__global__ void last_k(int *out) { out[0] = threadIdx.x; }
torch::Tensor last(torch::Tensor out) { last_k<<<1, 8>>>(out.data_ptr<int>()); return out; }
'''
DECLARED = 'torch::Tensor last(torch::Tensor out);'
RACES = f'''
import torch
from numba import cuda
from torch.utils.cpp_extension import load_inline

m = load_inline('race_ext', [{DECLARED!r}], [{RACE!r}], functions=['last'])

@cuda.jit
def last(out): out[0] = cuda.threadIdx.x
'''
COMPILED = "print(m.last(torch.zeros(1, dtype=torch.int32, device='cuda')))"
SIMULATED = "a = torch.zeros(1, dtype=torch.int32).cuda(); last[1, 8](cuda.as_cuda_array(a)); print(a)"


def test_unchecked_code_is_compiled_without_detectors_and_reports_no_race():
    from gridstride.cpp import load_cuda, options

    x = torch.zeros(1, dtype=torch.int32)
    with as_gpu.as_gpu(unchecked=True):
        m = cpp_extension.load_inline('race_ext', [DECLARED], [RACE], functions=['last'])
        m.last(x)
    assert '-fsanitize=thread' not in m.command and 0 <= x.item() < 8
    with options(checks='racecheck'):  # some of them: compiled for all, so that others may look later
        m = load_cuda(RACE)
    assert '-fsanitize=thread' in m.command
    with pytest.raises(RacecheckError):
        m.last(x)


def run(*words, folder):
    return run_python('-m', 'gridstride.as_gpu', *words, cwd=folder)


@pytest.fixture
def run_notebook(tmp_path, monkeypatch, capsys, warm_kernels):
    "What the command does with a notebook, n.ipynb: its status, and what it prints"

    def run(*words, sources):
        nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(o) for o in sources])
        nb.metadata['kernelspec'] = dict(name='py3.8-elsewhere', display_name='x', language='python')
        nbformat.write(nb, tmp_path / 'n.ipynb')
        monkeypatch.chdir(tmp_path)
        return as_gpu.main([*words, 'n.ipynb']), capsys.readouterr().out

    return run


def test_a_program_gets_its_arguments(tmp_path):
    (tmp_path / 'neighbour.py').write_text('n = 3')
    (tmp_path / 'p.py').write_text(
        'import sys, torch\nfrom neighbour import n\n'
        'if __name__ == "__main__": print(torch.ones(n, device="cuda").sum().item(), sys.argv[1:])'
    )
    r = run('p.py', '--what', 4, folder=tmp_path)
    assert r.stdout.splitlines()[-1] == "3.0 ['--what', '4']", r
    assert 'no GPU found' in r.stdout
    r = run('q.py', folder=tmp_path)
    assert r.returncode == 2 and 'q.py is not' in r.stderr


LAST_LINES = [('f(x)', 'AttributeError'), ('def f(:', 'SyntaxError'), ('k[1, 64](x)', 'MemcheckError')]


@pytest.mark.parametrize('last, kind', LAST_LINES)
def test_a_traceback_begins_in_the_program(tmp_path, last, kind):
    (tmp_path / 'p.py').write_text(f"""
import numpy as np
from numba import cuda
def f(x): return x.missing
@cuda.jit
def k(x): x[cuda.threadIdx.x] = 1
x = np.ones(63, np.float32)
{last}
""")
    r = run('p.py', folder=tmp_path)
    assert r.returncode == 1 and kind in r.stderr and 'p.py", line 8' in r.stderr, r
    assert not re.search(r'as_gpu\.py|runpy|/gridstride/', r.stderr), r.stderr


@pytest.mark.slow
@pytest.mark.exhaustive
def test_torch_is_not_asked_for_a_gpu(tmp_path):
    "With nvcc it initializes CUDA to find out, and so a thread, which a fork cannot copy; or it warns of none"
    (tmp_path / 'p.py').write_text("""
import sys, torch
def asked(): raise AssertionError('asked')
torch.version.cuda, torch.cuda._is_compiled, torch.cuda.is_available = '13.0', lambda: True, asked
from gridstride import as_gpu
from gridstride.cpp.frontend.tokens import WrongSource
as_gpu.enable()
from torch.utils import cpp_extension
print(cpp_extension.CUDA_HOME)
""")
    env = dict(os.environ, CUDA_HOME=str(tmp_path), PYTHONPATH=str(Path(__file__).parents[1]))
    r = subprocess.run([sys.executable, tmp_path / 'p.py'], env=env, text=True, capture_output=True)  # no warm one
    assert (r.stdout.splitlines()[-1:], r.stderr) == ([str(tmp_path)], ''), r


def test_a_notebook_runs_to_its_end(tmp_path, run_notebook):
    sources = [
        'import torch, time',
        'x = torch.ones(4).cuda()\nprint(x.sum())',
        '%timeit -n 1000 time.sleep(.01)',
        'undefined',
        'time.sleep(60)',
        'print(x.mean())',
    ]
    status, said = run_notebook('--seconds', '3', sources=sources)
    assert status == 2 and "cell 3: NameError: name 'undefined'" in said, said
    assert 'cell 4: interrupted' in said
    cells = nbformat.read(tmp_path / 'n.emulated.ipynb', as_version=4).cells
    assert 'timed once' in cells[2].outputs[0].text and cells[5].outputs[0].text.strip() == 'tensor(1.)'
    assert not Path(tmp_path / 'n.ipynb').read_text().count('tensor(4.)')


@pytest.mark.parametrize('unchecked', [False, True])
def test_a_notebook_without_detectors_prints_a_notice(run_notebook, unchecked):
    pytest.importorskip('numba')
    status, said = run_notebook(*['--unchecked'] * unchecked, sources=(RACES, COMPILED, SIMULATED))
    if unchecked:
        assert status == 0, said
        assert names(said, '0 of 3 cells', 'unchecked')
    else:
        assert status == 2 and '2 of 3 cells' in said and 'unchecked' not in said, said
        assert said.count('RacecheckError') == 2


@pytest.mark.slow
def test_a_program_without_detectors_prints_a_notice(tmp_path):
    pytest.importorskip('numba')
    (tmp_path / 'p.py').write_text('\n'.join([RACES, COMPILED, SIMULATED, 'import sys; print(sys.argv[1:])']))
    r = run('--unchecked', 'p.py', '--unchecked', folder=tmp_path)
    assert r.returncode == 0 and r.stdout.startswith('gridstride: no GPU found'), r
    assert 'unchecked' in r.stdout.splitlines()[0]
    assert r.stdout.splitlines()[-1] == "['--unchecked']" and r.stdout.count('tensor([') == 2
    r = run('p.py', '--unchecked', folder=tmp_path)
    assert r.returncode and 'RacecheckError' in r.stderr and 'unchecked' not in r.stdout, r


def test_an_interrupted_cell_reports_its_calls_and_their_times(tmp_path, capsys, ipython):
    with as_gpu.as_gpu(unchecked=True):
        as_gpu._count_calls(ipython)
        m = cpp_extension.load_inline('race_ext', [DECLARED], [RACE], functions=['last'])
        ipython.user_ns.update(m=m, x=torch.zeros(1, dtype=torch.int32))
        ipython.run_cell('for _ in range(7): m.last(x)')
        assert 'in call' not in capsys.readouterr().out
        ipython.run_cell('for _ in range(1200): m.last(x)\nraise KeyboardInterrupt')
    printed = capsys.readouterr().out
    line = re.search(r'^gridstride: in call 1,200 of compiled code, (\S+) s each$', printed, re.M)
    assert 0 < float(line[1]) < 0.1, printed
    v4 = nbformat.v4
    outputs = [v4.new_output('error', ename='KeyboardInterrupt', evalue='')]
    outputs.append(v4.new_output('stream', text=f'{line[0]}\n'))
    cells = [v4.new_markdown_cell('Two'), v4.new_code_cell('loop', outputs=outputs), v4.new_code_cell('x')]
    cells.append(v4.new_code_cell(' '))  # which does not run
    nbformat.write(v4.new_notebook(cells=cells), tmp_path / 'n.ipynb')
    for unchecked in (False, True):
        assert as_gpu._print_report(tmp_path / 'n.ipynb', 20, unchecked) == 1
        first, second = capsys.readouterr().out.splitlines()
        assert '1 of 2 cells' in first
        assert second.startswith('cell 1: interrupted')
        assert ('--unchecked' in second) is not unchecked


PLAIN_TRITON = """
import torch, triton, triton.language as tl
from triton.language.extra import libdevice
from triton.tools.tensor_descriptor import TensorDescriptor

device = triton.runtime.driver.active.get_active_torch_device()
target = triton.runtime.driver.active.get_current_target()

@triton.autotune([triton.Config({'B': 32}), triton.Config({'B': 64})], key=['n'])
@triton.jit
def twice(x_ptr, out_ptr, n, B: tl.constexpr):
    i = tl.program_id(0)*B + tl.arange(0, B)
    tl.store(out_ptr + i, libdevice.fma(tl.load(x_ptr + i, mask=i < n), 2., 0.), mask=i < n)

x, out = torch.randn(100, device=device), torch.empty(100, device='cuda')
assert x.is_cuda and x.device == device == torch.device('cuda', 0) and (target.backend, target.arch) == ('cuda', 90)
ms = triton.testing.do_bench(lambda: twice[lambda m: (triton.cdiv(100, m['B']),)](x, out, 100))
quantiles = triton.testing.do_bench(lambda: None, quantiles=[.5, .2, .8])
print(torch.equal(out, 2*x), ms > 0, len(quantiles), twice.best_config.kwargs, triton.next_power_of_2(100))
"""
PROFILED = """
import torch, triton, triton.language as tl
import triton.profiler
import triton.profiler as proton
import triton.profiler.language as pl
from triton.profiler import viewer

@triton.jit
def one(out_ptr):
    with pl.scope('all'):
        pl.enter_scope('a')
        tl.store(out_ptr, 1.)
        pl.exit_scope('a')

@proton.profile(name='p')
@proton.scope('f', {'flops': 2.})
def launch(out):
    with proton.cpu_timed_scope('b'), proton.state('c'):
        one[1,](out)
    return out.item()

session = triton.profiler.start('profile', hook='triton')
proton.deactivate(session)
proton.activate()
scope = proton.enter_scope('d', metrics={'bytes': 4})
print(launch(torch.zeros(1, device='cuda')))
proton.exit_scope()
proton.finalize()
tree, metrics = viewer.parse(['time/ms'], 'profile.hatchet')
viewer.print_tree(tree, metrics)
print(session, metrics, proton.data.get(session))
"""
HIDDEN = """
import sys

class Hiding:
    def __init__(self, finder): self.finder = finder
    def find_spec(self, name, *args): return None if name == 'triton' else self.finder.find_spec(name, *args)

sys.meta_path[:] = map(Hiding, sys.meta_path)
from gridstride import as_gpu
from gridstride.cpp.frontend.tokens import WrongSource
as_gpu.enable()
"""


@pytest.mark.slow
def test_import_triton_gives_kernels_that_are_checked_here(tmp_path):
    pytest.importorskip('triton')
    (tmp_path / 'p.py').write_text(PLAIN_TRITON)
    r = run('p.py', folder=tmp_path)
    assert r.stdout.splitlines()[-1] == "True True 3 {'B': 32} 128", r
    assert r.stdout.count('each function') == 1


@pytest.mark.slow
@pytest.mark.exhaustive
def test_import_triton_without_triton(tmp_path):
    "And torch, which would compile with it, does not find it"
    torchs = 'import torch.utils._triton as t, torch._inductor.runtime.triton_compat\nprint(t.has_triton_package())'
    (tmp_path / 'p.py').write_text(f'{HIDDEN}{PLAIN_TRITON}{torchs}')
    env = dict(os.environ, PYTHONPATH=str(Path(__file__).parents[1]), GRIDSTRIDE_BACKEND='sim')
    r = subprocess.run([sys.executable, tmp_path / 'p.py'], env=env, text=True, capture_output=True)  # no warm one
    assert r.stdout.splitlines()[-2:] == ["True True 3 {'B': 32} 128", 'False'], r


@pytest.mark.slow
def test_tritons_profiler_records_nothing(tmp_path):
    pytest.importorskip('triton')
    (tmp_path / 'p.py').write_text(PROFILED)
    r = run('p.py', folder=tmp_path)
    *_, said, one, last = r.stdout.splitlines()
    assert r.stdout.count('triton.profiler') == 1 and 'triton.profiler records nothing' in said, r
    assert (one, last) == ('1.0', "0 ['time/ms'] []") and not [*tmp_path.glob('*.hatchet')]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_tritons_profiler_without_triton(tmp_path):
    (tmp_path / 'p.py').write_text(f'{HIDDEN}{PROFILED}')
    env = dict(os.environ, PYTHONPATH=str(Path(__file__).parents[1]), GRIDSTRIDE_BACKEND='sim')
    r = subprocess.run([sys.executable, tmp_path / 'p.py'], env=env, text=True, capture_output=True)
    assert r.stdout.splitlines()[-2:] == ['1.0', "0 ['time/ms'] []"], r


def test_tritons_profiler_is_its_own_again():
    pytest.importorskip('triton')
    import importlib

    with as_gpu.as_gpu():
        import triton.profiler as ours

        specs = importlib.import_module('triton.profiler.specs')
        assert ours.is_shim and specs.max_bps('CUDA', '90', 5120, 2619000) > 0
    import triton.profiler as theirs

    assert not hasattr(sys.modules['triton.profiler'], 'is_shim') and not hasattr(theirs, 'is_shim')


@pytest.mark.slow
def test_triton_is_its_own_again_and_torchs_kernels_are_tritons():
    triton = pytest.importorskip('triton')
    before = triton.jit, triton.autotune, triton.testing.do_bench, triton.runtime.driver._active
    with as_gpu.as_gpu():
        import torch._inductor.runtime.triton_helpers as helpers
        from triton.runtime import autotune as theirs

        assert triton.jit is not before[0] and theirs is triton.autotune
        assert isinstance(helpers.maximum, triton.JITFunction)
        assert torch.compile(lambda x: x + 1)(torch.ones(2, device='cuda')).tolist() == [2, 2]
    assert (triton.jit, triton.autotune, triton.testing.do_bench, triton.runtime.driver._active) == before


def test_the_products_that_kernels_are_compared_with():
    pytest.importorskip('triton')
    a, b, c, d = torch.rand(4, 8).half(), torch.rand(4, 8).half(), torch.rand(4, 4).half(), torch.zeros(4, 4).half()
    with as_gpu.as_gpu():
        from triton._C.libtriton import nvidia

        blas = nvidia.cublas.CublasLt(torch.empty(32, dtype=torch.uint8, device='cuda'))
        blas.gemm(a, b, c, d, 2.0, 3.0)
        torch.testing.assert_close(d, 2 * (a @ b.T) + 3 * c, rtol=1e-2, atol=1e-2)
        blas.matmul(a, b, c)
    torch.testing.assert_close(c, a @ b.T, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_a_layer_norm_sums_its_gradients_in_float32(dtype):
    made = torch.Generator().manual_seed(5)
    x, grad, weight = (torch.randn(*o, generator=made).to(dtype) for o in [(1100, 16), (1100, 16), (16,)])
    inputs = [x, weight, torch.zeros_like(weight)]
    exact = torch.nn.functional.layer_norm(inputs[0].double(), (16,)) * grad.double()
    with as_gpu.as_gpu():
        x, weight, bias = (o.cuda().requires_grad_() for o in inputs)
        out = torch.nn.functional.layer_norm(x, (16,), weight, bias)
        out.backward(grad.cuda())
        assert out.dtype == weight.grad.dtype == dtype and out.is_cuda
    one_rounding = torch.finfo(dtype).eps
    torch.testing.assert_close(bias.grad.double(), grad.double().sum(0), rtol=one_rounding, atol=1e-3)
    torch.testing.assert_close(weight.grad.double(), exact.sum(0), rtol=one_rounding, atol=1e-3)


@pytest.mark.parametrize('alone', [True, False])
def test_a_performance_report_runs_its_first_size(alone, capsys):
    triton, sizes = pytest.importorskip('triton'), []
    with as_gpu.as_gpu():
        about = dict(line_arg='how', line_vals=['a', 'b'], line_names=['A', 'B'], plot_name='p', args={})
        bench = triton.testing.Benchmark(x_names=['n', 'm'], x_vals=[4, 8, 16], **about)

        @triton.testing.perf_report(bench if alone else [bench, bench])
        def measure(n, m, how):
            sizes.append((n, m, how))
            return triton.testing.do_bench(lambda: None)

        measure.run(print_data=True, save_path='.')
    assert sizes == [(4, 4, 'a'), (4, 4, 'b')] * (1 if alone else 2)
    assert 'n=4, m=4; 2 more' in capsys.readouterr().out


def test_a_kernel_that_is_warmed_up_is_launched(capsys):
    triton = pytest.importorskip('triton')
    from gridstride import tile

    @triton.jit
    def fill(out_ptr, N: triton.language.constexpr):
        i = triton.language.arange(0, N)
        triton.language.store(out_ptr + i, i)

    out = torch.zeros(8, dtype=torch.int32)
    compiled = tile.checked(fill).warmup(out, N=8, grid=(1,))
    compiled._init_handles()
    assert compiled.n_regs and compiled.metadata.shared and out.sum() == 0
    compiled[(1, 1, 1)](out, 8)
    assert out.tolist() == list(range(8))


def test_what_programs_ask_of_the_gpu():
    with as_gpu.as_gpu():
        stream = torch.cuda.Stream()
        with torch.cuda.device(0) as device, torch.cuda.stream(stream):
            assert device.idx == 0 and torch.zeros(2, device=0).is_cuda
        stream.wait_stream(torch.cuda.current_stream())
        torch.cuda.set_stream(stream)
        assert torch._C._cuda_getCurrentRawStream(0) == 0
        properties = torch.cuda.get_device_properties('cuda')
        assert properties.multi_processor_count == 132 and properties.major == 9
        assert torch.cuda.is_bf16_supported() and torch.cuda.max_memory_allocated() == 0
    assert not torch.ones(1).is_cuda


def test_load_compiles_files_for_the_emulator(tmp_path):
    (tmp_path / 'inc').mkdir()
    (tmp_path / 'inc' / 'times.h').write_text('#pragma once\n#define TIMES 3\n')
    kernel = """#include <torch/extension.h>
#include "times.h"
#include "times.h"
__global__ void thrice_k(float *x, int n) { int i = threadIdx.x; if (i < n) x[i] *= TIMES; }
namespace own {
torch::Tensor thrice(torch::Tensor x) {
    auto out = x.clone();
    thrice_k<<<1, 64>>>(out.data_ptr<float>(), x.numel());
    return out;
}
}
"""
    declared = '#include <torch/extension.h>\nnamespace own { torch::Tensor thrice(torch::Tensor x); }\n'
    bound = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("times_3", &own::thrice, "x*3"); }\n'
    (tmp_path / 'k.cu').write_text(kernel)
    (tmp_path / 'b.cpp').write_text(declared + bound)
    with as_gpu.as_gpu():
        m = cpp_extension.load('thrice_ext', [str(tmp_path / 'b.cpp'), tmp_path / 'k.cu'],
                               extra_include_paths=[str(tmp_path / 'inc')])
        x = torch.randn(20, device='cuda')
        assert torch.equal(m.times_3(x), 3 * x)


OPERATORS = {  # form -> how it includes torch, and what differs from the other form
    'TORCH': '#include <torch/extension.h>\n#include <ATen/cuda/CUDAContext.h>\nusing at::Tensor;\n'
             '#define STREAM(x) at::cuda::getCurrentCUDAStream()\n#define TORCH_BOX(f) f\nusing at::empty_like;\n',
    'STABLE_TORCH': """#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
using torch::stable::Tensor;
using torch::stable::empty_like;
static cudaStream_t stream_of(const Tensor &x) {
    void *stream;
    STD_TORCH_CHECK(aoti_torch_get_current_cuda_stream(x.get_device_index(), &stream) == AOTI_TORCH_SUCCESS);
    return (cudaStream_t)stream;
}
#define STREAM(x) stream_of(x)
"""}
OPERATOR = r"""
__global__ void scale_k(const float *x, float *out, double f, int n) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i]*f;
}
namespace own {
std::tuple<Tensor, Tensor> scale(Tensor x, double f) {
    auto out = empty_like(x), same = empty_like(x);
    scale_k<<<3, 32, 0, STREAM(x)>>>((const float *)x.const_data_ptr(), (float *)out.mutable_data_ptr(), f, x.numel());
    scale_k<<<3, 32, 0, STREAM(x)>>>((const float *)x.const_data_ptr(), (float *)same.mutable_data_ptr(), 1, x.numel());
    return {out, same};
}
}
FORM_LIBRARY(NAMESPACE, m) {
    // m.def("scale(Tensor x) -> Tensor");
    m.def("scale(Tensor x, "
          "float f=2.0) -> (Tensor, Tensor)");
}
FORM_LIBRARY_IMPL(NAMESPACE, CUDA, m) { if (true) { m.impl("scale", TORCH_BOX(&own::scale)); } }
"""


@pytest.mark.parametrize('form', OPERATORS)
def test_load_registers_the_operators_of_an_extension(form, tmp_path):
    namespace = f'k_{form.lower()}'
    text = OPERATORS[form] + OPERATOR.replace('FORM', form)
    (tmp_path / 'k.cu').write_text(text.replace('NAMESPACE', 'TORCH_EXTENSION_NAME'))
    with as_gpu.as_gpu():
        for _ in range(2):                                # a second load replaces the first
            cpp_extension.load(namespace, [str(tmp_path / 'k.cu')], is_python_module=False)
        op = getattr(torch.ops, namespace).scale
        x = torch.randn(70, device='cuda', requires_grad=True)
        out, same = op(x.detach())
        assert torch.equal(out, 2*x) and torch.equal(same, x) and out.is_cuda
        assert torch.equal(op(x.detach(), 3.)[0], 3*x)
        torch.library.register_autograd(f'{namespace}::scale', lambda ctx, d, _: (op(d.contiguous(), 2.)[0], None))
        gradient, = torch.autograd.grad(op(x)[0].sum(), x)
        assert torch.equal(gradient, torch.full_like(x, 2)) and gradient.is_cuda


def test_load_inline_registers_operators():
    "Those of a source without functions for Python, and those next to such functions"
    text = OPERATORS['TORCH'] + OPERATOR.replace('FORM', 'TORCH').replace('NAMESPACE', 'inline_ops')
    with as_gpu.as_gpu():
        x = torch.randn(70, device='cuda')
        for functions in (None, ['twice']):
            cpp_extension.load_inline('inline_ops', '', [TWICE, text], functions=functions, is_python_module=False)
            out, same = torch.ops.inline_ops.scale(x, 4.)
            assert torch.equal(out, 4*x) and torch.equal(same, x)


def test_an_operator_without_a_schema_is_refused(tmp_path):
    text = OPERATORS['TORCH'] + OPERATOR.replace('FORM', 'TORCH').replace('NAMESPACE', 'no_schema')
    text = re.sub(r'm\.def\("scale\(Tensor x, "[^;]*;', 'm.def("scale", &own::scale);', text)
    (tmp_path / 'k.cu').write_text(text)
    with as_gpu.as_gpu(), pytest.raises(WrongSource) as e:
        cpp_extension.load('no_schema', [str(tmp_path / 'k.cu')], is_python_module=False)
    assert names(str(e.value), 'no_schema::scale')


def test_the_state_of_the_random_generator():
    with as_gpu.as_gpu():
        state = torch.cuda.get_rng_state()
        x = torch.rand(5, device='cuda')
        torch.cuda.set_rng_state(state)
        assert torch.equal(torch.rand(5, device='cuda'), x)


def test_get_sig_as_the_lectures_call_it():
    assert get_sig('twice', TWICE) == 'torch::Tensor twice(torch::Tensor x);'
    assert get_sig('thrice', TWICE) is None


CHILD = """
from numba import cuda
import numpy as np, sys

@cuda.jit
def k(o): o[0] = 5

o = np.zeros(1)
k[1, 1](o)
print(o)
"""
WITH_TORCH = """import sys
print('torch' in sys.modules)
import torch
print(torch.ones(3, device='cuda').sum().item(), torch.cuda.is_available())
"""
PARENT = """
import os, subprocess, sys, torch, venv
venv.create('other', symlinks=True)
idle = 'import sys; print([k for k in map(lambda f: type(f).__name__, sys.meta_path) if k == "EmulatingFinder"]'
idle += ', "gridstride" in sys.modules)'
own = 'import sys, sitecustomize; print(sitecustomize.mine, "children" in str(sys.path))'
os.makedirs('site')
open('site/sitecustomize.py', 'w').write('mine = 3')
with_site = dict(os.environ, PYTHONPATH=os.environ['PYTHONPATH'] + os.pathsep + 'site')
simulator = dict(os.environ, NUMBA_ENABLE_CUDASIM='1')
def start(*words, env=None): return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True)
started = [start(sys.executable, 'child.py'), start(sys.executable, '-c', idle), start('other/bin/python', '-c', idle)]
started += [start(sys.executable, '-c', own, env=with_site), start(sys.executable, '-c', idle, env=simulator)]
for o in started: print(o.communicate()[0].strip())
"""


@pytest.mark.takes(12)
def test_python_programs_that_a_program_starts_are_emulated(tmp_path):
    pytest.importorskip('numba')
    (tmp_path / 'child.py').write_text(CHILD + WITH_TORCH)
    (tmp_path / 'p.py').write_text(PARENT)
    r = run('p.py', folder=tmp_path)
    *said, idle, other, own, simulator = r.stdout.splitlines()[-7:]
    assert said == ['[5.]', 'False', '3.0 True'], r
    assert idle == "['EmulatingFinder'] False"  # nothing is imported before it is used
    assert other == '[] False' and simulator == '[] False' and own == '3 False'


RACING_CHILD = CHILD.replace('o[0] = 5', 'o[0] = cuda.threadIdx.x').replace('k[1, 1]', 'k[1, 8]')


def printed_by(cell):
    "The lines that a cell wrote, without empty ones"
    lines = ''.join(o.text for o in cell.outputs if o.output_type == 'stream').splitlines()
    return [o.strip() for o in lines if o.strip()]


@pytest.mark.takes(12)
@pytest.mark.parametrize('unchecked', [False, mark_exhaustive(True)])
def test_programs_that_cells_start_are_emulated(run_notebook, tmp_path, monkeypatch, unchecked):
    "By !, by ! whose output is a value, by %run; a finding in a process of its own ends that alone"
    pytest.importorskip('numba')
    monkeypatch.setenv('PATH', os.pathsep.join([str(Path(sys.executable).parent), os.environ['PATH']]))
    (tmp_path / 'child.py').write_text(CHILD)
    (tmp_path / 'racing.py').write_text(RACING_CHILD)
    starts = [] if unchecked else ['said = !python child.py\nprint(said[-1])', '%run child.py']
    sources = [*starts, '!python racing.py\nprint(_exit_code)']
    status, said = run_notebook(*['--unchecked'] * unchecked, sources=sources)
    assert status == 0, said
    *right, racing = map(printed_by, nbformat.read(tmp_path / 'n.emulated.ipynb', as_version=4).cells)
    assert [o[-1] for o in right] == ['[5.]'] * len(starts), right
    assert racing[-1] == ('0' if unchecked else '1') and unchecked != any('RacecheckError' in o for o in racing), racing


def test_a_cell_that_ends_with_a_launch_shows_nothing(run_notebook, tmp_path):
    "A launch of Triton's returns the compiled kernel"
    (tmp_path / 'kernels.py').write_text(
        'import triton, triton.language as tl\n\n@triton.jit\n'
        'def fill(x_ptr, B: tl.constexpr): tl.store(x_ptr + tl.arange(0, B), 1.)\n'
    )
    start = 'import torch\nfrom kernels import fill\nx = torch.zeros(8, device="cuda")'
    status, said = run_notebook(sources=[start, 'fill[(1,)](x, B=8)', 'x.sum()'])
    assert status == 0, said
    cells = nbformat.read(tmp_path / 'n.emulated.ipynb', as_version=4).cells
    assert cells[1].outputs == [] and cells[2].outputs[0].data['text/plain'] == 'tensor(8.)'
