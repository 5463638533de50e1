"Programs and notebooks that expect a GPU run without one, and nothing of that stays behind"

import inspect, os, re, subprocess, sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from gridstride import as_gpu
from gridstride.findings import NotSimulated, RacecheckError
from gridstride.utils import backend, get_sig
from torch.utils import cpp_extension
from warm import run_python

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
        assert layer(a.cuda()).shape == (2,) and all(o.device.type == 'cpu' for o in made)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        end.record()
        torch.cuda.synchronize()
        assert start.elapsed_time(end) >= 0


def test_nothing_stays_behind():
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
    monkeypatch.setenv('CXX', '/usr/lib/ccache/g++-of-somebody-else')
    with as_gpu.as_gpu():
        m = cpp_extension.load_inline(
            'twice_ext', ['torch::Tensor twice(torch::Tensor x);'], [TWICE], functions=['twice']
        )
        x = torch.randn(70, device='cuda')
        assert torch.equal(m.twice(x).cpu(), 2 * x)
    assert 'g++-of-somebody-else (from the variable CXX) is not here' in capsys.readouterr().out


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


def test_vectorize_for_a_gpu_is_the_simulators_and_for_a_cpu_numbas_own():
    numba = pytest.importorskip('numba')
    own = numba.vectorize
    with as_gpu.as_gpu():
        from numba import float32, guvectorize, vectorize

        f = vectorize([float32(float32, float32)], target='cuda')(lambda a, b: a * b + a)
        x = np.arange(5, dtype=np.float32)
        assert (f(x, x) == x * x + x).all() and type(f).__module__.startswith('gridstride')
        assert isinstance(vectorize(['float32(float32)'])(lambda a: a + 1), own(['f4(f4)'])(lambda a: a).__class__)
        with pytest.raises(NotSimulated, match='guvectorize'):
            guvectorize(['void(float32[:], float32[:])'], '(n)->(n)', target='cuda')
    assert numba.vectorize is own


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


def test_unchecked_code_is_compiled_without_detectors_and_its_race_is_not_told():
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
        nb.metadata['kernelspec'] = dict(name='py3.8-of-somebody', display_name='x', language='python')
        nbformat.write(nb, tmp_path / 'n.ipynb')
        monkeypatch.chdir(tmp_path)
        return as_gpu.main([*words, 'n.ipynb']), capsys.readouterr().out

    return run


def test_a_program_gets_its_arguments(tmp_path):
    (tmp_path / 'beside.py').write_text('n = 3')
    (tmp_path / 'p.py').write_text(
        'import sys, torch\nfrom beside import n\n'
        'if __name__ == "__main__": print(torch.ones(n, device="cuda").sum().item(), sys.argv[1:])'
    )
    r = run('p.py', '--what', 4, folder=tmp_path)
    assert r.stdout.splitlines()[-1] == "3.0 ['--what', '4']", r
    assert 'no GPU is here' in r.stdout
    r = run('q.py', folder=tmp_path)
    assert r.returncode == 2 and 'q.py is no file' in r.stderr


def test_torch_is_not_asked_for_a_gpu(tmp_path):
    "Beside nvcc it starts CUDA to know, and so a thread, which a fork cannot take along; or it warns of none"
    (tmp_path / 'p.py').write_text("""
import sys, torch
def asked(): raise AssertionError('asked')
torch.version.cuda, torch.cuda._is_compiled, torch.cuda.is_available = '13.0', lambda: True, asked
from gridstride import as_gpu
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
    assert 'cell 4: interrupted after 3 s' in said
    cells = nbformat.read(tmp_path / 'n.emulated.ipynb', as_version=4).cells
    assert 'timed once' in cells[2].outputs[0].text and cells[5].outputs[0].text.strip() == 'tensor(1.)'
    assert not Path(tmp_path / 'n.ipynb').read_text().count('tensor(4.)')


@pytest.mark.parametrize('unchecked', [False, True])
def test_a_notebook_without_detectors_says_so(run_notebook, unchecked):
    pytest.importorskip('numba')
    status, said = run_notebook(*['--unchecked'] * unchecked, sources=(RACES, COMPILED, SIMULATED))
    if unchecked:
        assert status == 0, said
        assert '0 of 3 cells failed; unchecked: what a kernel does wrong is not told\n' in said
    else:
        assert status == 2 and '2 of 3 cells failed\n' in said and 'unchecked' not in said, said
        assert said.count('RacecheckError') == 2


def test_a_program_without_detectors_says_so(tmp_path):
    pytest.importorskip('numba')
    (tmp_path / 'p.py').write_text('\n'.join([RACES, COMPILED, SIMULATED, 'import sys; print(sys.argv[1:])']))
    r = run('--unchecked', 'p.py', '--unchecked', folder=tmp_path)
    assert r.returncode == 0 and r.stdout.startswith('gridstride: no GPU is here'), r
    assert 'unchecked: what a kernel does wrong is not told' in r.stdout.splitlines()[0]
    assert r.stdout.splitlines()[-1] == "['--unchecked']" and r.stdout.count('tensor([') == 2
    r = run('p.py', '--unchecked', folder=tmp_path)
    assert r.returncode and 'RacecheckError' in r.stderr and 'unchecked' not in r.stdout, r


def test_a_cell_that_is_interrupted_tells_its_calls_and_what_they_took(tmp_path, capsys, ipython):
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
    for unchecked, ends in ((False, 'be?; --unchecked is faster'), (True, 'be?')):
        assert as_gpu._report(tmp_path / 'n.ipynb', 20, unchecked) == 1
        first, second = capsys.readouterr().out.splitlines()
        assert '1 of 2 cells failed' in first
        assert second.startswith('cell 1: interrupted after 20 s (--seconds), in call 1,200 of')
        assert second.endswith(ends)


def test_get_sig_as_the_lectures_call_it():
    assert get_sig('twice', TWICE) == 'torch::Tensor twice(torch::Tensor x);'
    assert get_sig('thrice', TWICE) is None
