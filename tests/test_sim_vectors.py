"Vector types such as `float32x4`: the simulator takes what Numba compiles, and refuses what it does not"

import importlib.util

import numpy as np
import pytest
from gridstride.diagnostics.errors import KernelError
from gridstride.support.numba_cuda import import_numba_cuda
from gridstride.sim import cuda, vectors

HEAD = """from gridstride.sim import cuda
@cuda.jit(device=True)
def scaled(v, k): return cuda.float32x2(v.x*k, v.y*k)
def kernel(x, out):
    i = cuda.grid(1)
    v = cuda.float32x2(x[i], i)
"""
RIGHT = {  # what it computes -> for thread i and x = i + .5
    'out[i] = v.x + v.y': lambda i: 2*i + .5,
    'v = cuda.float32x4(1, x[i], 2.5, True)\nout[i] = v.x + 10*v.y + 100*v.z + 1000*v.w': lambda i: 1256 + 10*i,
    'v = cuda.int16x2(x[i], -1.5)\nout[i] = v.x + 100*v.y': lambda i: i - 100,
    'v = cuda.uint8x1(255 + i)\nout[i] = v.x': lambda i: (255 + i) % 256,
    'w = cuda.float32x4(cuda.float32x2(i, 2), v)\nout[i] = w.x + w.z + w.w': lambda i: 3*i + .5,
    'w = cuda.float32x4(7, cuda.float32x3(v, cuda.float32x1(3)))\nout[i] = w.x + w.y + w.w': lambda i: i + 10.5,
    'v = cuda.float32x2(v)\nout[i] = v.y': lambda i: i,
    'if i < 3: v = cuda.float32x2(1, 2)\nout[i] = v.x': lambda i: 1 if i < 3 else i + .5,
    'for k in range(i): v = cuda.float32x2(v.x + k, v.y)\nout[i] = v.x': lambda i: i + .5 + i*(i - 1)/2,
    'a = (v, cuda.float32x2(3, 4))\nout[i] = a[1].x + a[0].y': lambda i: i + 3,
    'v = cuda.double2(x[i], 2)\nw = cuda.uchar4(1, 2, 3, 4)\nout[i] = v.x + w.w': lambda i: i + 4.5,
}
WRONG = [
    'w = cuda.float32x2(cuda.int32x2(1, 2))', 'w = cuda.float32x2(cuda.float64x1(1), 2)', 'w = cuda.float32x2()',
    'w = cuda.float32x4(1)', 'w = cuda.float32x2(1, 2, 3)', 'w = cuda.float32x3(v, v)', 'w = cuda.float32x2(1j, 2)',
    'w = cuda.float32x2(x, 1)', 'out[i] = v[0]', 'v[0] = 1', 'out[i] = len(v)', 'w = v + v', 'w = 2*v', 'w = -v',
    'out[i] = v == v', 'if v: out[i] = 1', 'v.x = 3', 'out[i] = v.z', 'out[i] = v', 'a, b = v',
    's = cuda.shared.array(4, cuda.float32x2)', 's = cuda.local.array(4, cuda.float32x2)',
    'if i < 3: v = cuda.float32x3(1, 2, 3)\nout[i] = v.x',
]


def made(body, tmp_path):
    "The function of a kernel"
    path = tmp_path / 'vectors_kernel.py'
    path.write_text(HEAD + ''.join(f'    {o}\n' for o in body.split('\n')))
    spec = importlib.util.spec_from_file_location('vectors_kernel', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(body, tmp_path):
    out = np.zeros(6)
    cuda.jit(made(body, tmp_path).kernel)[1, 6](np.arange(6) + .5, out)
    return out


@pytest.mark.parametrize('body', RIGHT)
def test_vectors_of_values(body, tmp_path):
    np.testing.assert_array_equal(run(body, tmp_path), [RIGHT[body](i) for i in range(6)])


def test_vectors_go_to_device_functions_and_back(tmp_path):
    np.testing.assert_array_equal(run('w = scaled(v, 2)\nout[i] = w.x + w.y', tmp_path), [4*i + 1 for i in range(6)])


@pytest.mark.parametrize('body', WRONG)
def test_what_numba_does_not_compile_of_vectors(body, tmp_path):
    with pytest.raises((KernelError, TypeError, AttributeError)): run(body, tmp_path)


@pytest.mark.parametrize('body', [*RIGHT, *WRONG])
def test_numba_compiles_vectors_like_that(body, tmp_path):
    pytest.importorskip('numba_cuda', reason='numba-cuda is for Linux')
    numbas, module = import_numba_cuda(), made(body, tmp_path)
    module.cuda = numbas
    types = numbas.types.float64[:], numbas.types.float64[:]
    if body in RIGHT:
        assert 'st.f64' in numbas.compile_ptx(module.kernel, types, cc=(9, 0))[0]
    else:
        with pytest.raises(Exception, match='float32x|unify|unpack|No implementation'):
            numbas.compile_ptx(module.kernel, types, cc=(9, 0))


def test_all_of_numbas_vector_types_are_there():
    pytest.importorskip('numba_cuda', reason='numba-cuda is for Linux')
    import_numba_cuda()
    stubs = importlib.import_module('numba.cuda.stubs')._vector_type_stubs
    names = {o.__name__ for o in stubs} | {alias for o in stubs for alias in o.aliases}
    assert names == {*vectors.NAMES} and all(getattr(cuda, k) is v for k, v in vectors.NAMES.items())
    theirs = importlib.import_module('numba.cuda.vector_types').vector_types
    for k, v in vectors.vector_types.items():
        assert (v.attr_names, v.num_elements) == (theirs[k].attr_names, theirs[k].num_elements)
        assert v.base_type is getattr(np, str(theirs[k].base_type))


def test_the_host_makes_no_vectors():
    with pytest.raises(RuntimeError, match='a kernel'): cuda.float32x2(1, 2)
