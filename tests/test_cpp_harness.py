"`python -m gridstride.cpp --launch KERNEL file.cu`: a kernel of a source without a `main`, with arguments made for it."
import json

import numpy as np
import pytest
from gridstride.checker import worker
from gridstride.checker.worker import ProgramFailed
from gridstride.cpp.__main__ import main
from gridstride.cpp.frontend.reader import kernels
from gridstride.cpp.harness import ArgumentError, launch, make_arguments, parse_value, read_values
from gridstride.sim import MemcheckError

SRC = '''__global__ void scale(const float *x, float *out, int n, float factor, bool twice) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor*x[i]*(twice ? 2 : 1);
}
__global__ void unguarded(const float *x, float *out) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    out[i] = x[i];
}
template <class T, typename U> __global__ void add(T *x, U *y, float4 *z, int h, int w) {
    int r = blockIdx.y*blockDim.y + threadIdx.y, c = blockIdx.x*blockDim.x + threadIdx.x;
    if (r < h && c < w) x[r*w + c] += y[r*w + c] + z[r*w + c].w;
}
struct Point { float x, y; };
__global__ void move(Point *points) { points[threadIdx.x].x += 1; }
'''
PARAMS = {k.name: k.params for k in kernels(SRC)}


@pytest.fixture
def source(tmp_path):
    (tmp_path/'k.cu').write_text(SRC)
    return tmp_path/'k.cu'


def test_values_of_the_command_line(tmp_path):
    assert [parse_value(o) for o in ('3', '-1', '0.5', '32x48', '7x1x2')] == [3, -1, .5, (32, 48), (7, 1, 2)]
    assert parse_value('a/x.npy').name == 'x.npy'
    with pytest.raises(ArgumentError): parse_value('many')
    (tmp_path/'a.json').write_text(json.dumps({'n': 5, 'x': [2, 3], 'y': 'y.npy'}))
    assert read_values(['n=6'], tmp_path/'a.json') == {'n': 6, 'x': (2, 3), 'y': tmp_path/'y.npy'}
    with pytest.raises(ArgumentError): read_values(['n'])


def test_arguments_are_made_by_type():
    x, out, n, factor, twice = make_arguments(PARAMS['scale'], {'out': (4, 5)}, size=70)
    assert x.shape == (70,) and x.dtype == np.float32 and np.unique(x).size == 70 and out.shape == (4, 5)
    assert (n, factor, twice) == (70, 1.0, False)
    assert make_arguments(PARAMS['scale'], {}, seed=1)[0][0] != make_arguments(PARAMS['scale'], {}, seed=2)[0][0]


def test_files_of_numpy(tmp_path):
    np.save(tmp_path/'x.npy', np.arange(6, dtype=np.float32))
    assert make_arguments(PARAMS['unguarded'], {'x': tmp_path/'x.npy'})[0].tolist() == [*range(6)]
    with pytest.raises(ArgumentError): make_arguments(PARAMS['unguarded'], {'x': tmp_path/'none.npy'})


@pytest.mark.parametrize('kernel, values', [('scale', {'m': 3}), ('scale', {'n': (3, 4)}), ('scale', {'x': .5}),
                                            ('move', {})])
def test_values_that_do_not_fit_are_refused(kernel, values):
    with pytest.raises(ArgumentError): make_arguments(PARAMS[kernel], values)


def test_launches_and_findings():
    lines = []
    launch(SRC, 'scale', {}, size=70, block=32, report=lines.append)
    assert '70' in lines[0]
    with pytest.raises(MemcheckError): launch(SRC, 'unguarded', {}, size=70, block=32)
    values = {'x': (30, 20), 'h': 30, 'w': 20}
    launch(SRC, 'add<double, int>', values, grid=(2, 2), block=(16, 16), report=lines.append)
    assert 'float64[30, 20]' in lines[1]


def test_the_command(source, capsys, tmp_path):
    assert main(['--launch', 'scale', '--size', '70', '--block', '32', str(source)]) == 0
    assert capsys.readouterr().out.startswith('scale<<<3, 32>>>')
    assert main(['--launch', 'unguarded', '--arg', 'x=100', '--size', '64', str(source)]) == 1
    assert capsys.readouterr().out.startswith('unguarded<<<'), 'the launch is printed before its finding'
    with pytest.raises(SystemExit): main([str(source), '--launch', 'scale'])
    assert main(['--launch', 'nothing', str(source)]) == 1 and 'nothing' in capsys.readouterr().err
    (tmp_path/'bad.json').write_text('{')
    assert main(['--launch', 'scale', '--args', str(tmp_path/'bad.json'), str(source)]) == 1


@pytest.mark.slow
def test_a_program_without_main_names_the_option(source, capsys):
    assert main([str(source)]) == 1 and '--launch' in capsys.readouterr().err


def test_the_option_comes_with_a_command_for_the_file_as_it_was_given():
    with pytest.raises(ProgramFailed, match=' --launch add src/kernels.cu$'):
        worker._check_main('src/kernels.cu', ['__global__ void add(float *x) { x[0] += 1; }'])


def test_a_compile_error_names_the_file_of_the_command_line(tmp_path, capsys):
    path = tmp_path/'my-kernel.cu'
    path.write_text('__global__ void k(float *x) { x[0] = missing; }')
    for options in (['--launch', 'k'], []):
        assert main([*options, str(path)]) == 1 and f'CompileError: {path}, line 1: ' in capsys.readouterr().err
