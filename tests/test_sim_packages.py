"What test suites of packages do under Numba's simulator: kernels made by `exec`, records, loops over arrays, children"
import cmath, subprocess, sys, textwrap

import numpy as np
import pytest

from gridstride import as_gpu, sim
from gridstride.sim import cuda, host, numba_testing
from gridstride.sim.args import wrap_arg
from gridstride.support.function_source import SourceMissing, recorded_sources, source_of
from found import finding, names, saying

CODE = '''
def fill(x):
    i = cuda.grid(1)
    if i < x.size: x[i] = {value}
'''


def made(compile_first, value=3, namespace=None):
    "The function `fill`, made by `exec`"
    namespace = dict(cuda=cuda) if namespace is None else namespace
    text = CODE.format(value=value)
    exec(compile(text, '<string>', 'exec') if compile_first else text, namespace)
    return namespace['fill']


def launched(f, *arrays, block=1):
    cuda.jit(f)[1, block](*arrays)
    return arrays[-1]


# functions without a file

@pytest.mark.parametrize('compile_first', [False, True])
def test_a_kernel_made_by_exec_is_read(compile_first):
    with recorded_sources():
        one, two = made(compile_first, 1), made(compile_first, 2)
    assert launched(one, np.zeros(3), block=4).tolist() == [1]*3
    assert launched(two, np.zeros(3), block=4).tolist() == [2]*3  # same name, same line, same file name


def test_pytest_does_not_show_that_exec_is_replaced():
    with recorded_sources(), pytest.raises(ZeroDivisionError) as error: exec('1/0')
    assert {'_exec_and_record'} == {e.name for e in error.traceback} - {e.name for e in error.traceback.filter(error)}


def test_a_finding_in_a_kernel_made_by_exec_shows_its_line():
    with recorded_sources(): f = made(False, 'x[i + 1]')
    with finding('memcheck outside', line=4, source='if i < x.size: x[i] = x[i + 1]'): launched(f, np.zeros(3), block=4)


def test_sources_are_kept_only_in_the_block():
    f = made(False, 'x[i]*7')
    with pytest.raises(SourceMissing): source_of(f)
    with pytest.raises(sim.NotSimulated): launched(f, np.zeros(3))


def test_exec_keeps_the_namespace_and_the_future_of_its_caller():
    plain = exec
    with recorded_sources():
        def inside():
            local = 5
            exec('assert local == 5\ndef g(): pass')
            assert local == 5
            exec('def h(a: missing): pass', globals_of_h := {})
            return globals_of_h
        with pytest.raises(NameError): inside()
        future = 'from __future__ import annotations\nexec("def h(a: missing): pass")'
        exec(future, namespace := {})
    assert namespace['h'].__annotations__ == {'a': 'missing'} and exec is plain


def test_a_program_given_by_c_is_read():
    program = '''
    from gridstride.sim import cuda
    @cuda.jit
    def hello(): print(cuda.threadIdx.x)
    hello[1, 2]()'''
    command = [sys.executable, '-B', '-c', textwrap.dedent(program)]
    assert subprocess.run(command, text=True, capture_output=True, check=True).stdout.split() == ['0', '1']


# records, parts of complex elements

RECORD = np.dtype([('a', np.float32), ('b', np.int32), ('v', np.float32, (3,))])


def scale_record(r, k):
    r.a = r[0]*k
    r['b'] = 7
    r.v[cuda.threadIdx.x] += r.a


def test_a_record_is_an_argument_by_itself():
    records = np.zeros(2, RECORD)
    records['a'] = 1, 2
    cuda.jit(scale_record)[1, 1](records[1], 10)
    assert records['a'].tolist() == [1, 20] and records['b'].tolist() == [0, 7]
    assert records['v'].tolist() == [[0, 0, 0], [20, 0, 0]]


def write_field(r): r.b = cuda.threadIdx.x


def test_a_race_on_a_field_of_a_record_is_found():
    with finding('racecheck race', array='r.b'): cuda.jit(write_field)[1, 2](np.zeros(1, RECORD)[0])


def add_parts(z):
    i = cuda.grid(1)
    cuda.atomic.add(z.real, i, 1)
    z.imag[i] = 2 * z.imag[i]


@pytest.mark.parametrize('dtype', [np.complex64, np.complex128])
def test_parts_of_complex_elements_are_arrays(dtype):
    z = (np.arange(4) + 1j*np.arange(4)).astype(dtype)
    assert launched(add_parts, z.copy(), block=4).tolist() == [complex(i + 1, 2*i) for i in range(4)]
    every_second = launched(add_parts, z.copy()[::2], block=2)
    assert every_second.tolist() == [complex(i + 1, 2*i) for i in (0, 2)]


def past_the_parts(z): z.imag[cuda.grid(1) + 1] = 0


def test_parts_have_the_bounds_of_their_array():
    z = np.zeros(4, np.complex64)
    with finding('memcheck outside', array='z.imag', index=(4,)): launched(past_the_parts, z, block=4)


# loops over arrays, ufuncs of arrays, slices backwards, * before an argument

def sum_items(x, y, out):
    for v in x: out[0] += v
    for v, w in zip(x, y): out[1] += v*w
    for i, v in enumerate(x): out[2] += i*v
    for i, (v, w) in enumerate(zip(x, y), 1):
        if i == 3: break
        out[3] += i*(v - w)
    for a, b in zip((1, 2), y): out[4] += a*b


def test_loops_over_arrays():
    x, y = np.arange(4.), np.arange(4.)[::-1] + 1
    expected = [x.sum(), x@y, np.arange(4)@x, (x - y)[0] + 2*(x - y)[1], y[0] + 2*y[1]]
    assert launched(sum_items, x, y, np.zeros(5)).tolist() == expected


def stops_early(x, out):
    for v in x:
        if v > cuda.threadIdx.x: break
        out[cuda.threadIdx.x] = v


def writes_before_the_loop(x, out):
    x[3 - cuda.threadIdx.x] = 0
    for v in x: out[cuda.threadIdx.x] += v


def test_elements_are_loaded_when_the_loop_reaches_them():
    assert launched(stops_early, np.arange(4.), np.zeros(3), block=3).tolist() == [0, 1, 2]
    with finding('racecheck race', array='x'): launched(writes_before_the_loop, np.ones(4), np.zeros(4), block=4)


def ufuncs(x, y, out, bits):
    np.sin(x, out[0])
    np.add(x, y[0], out[1])
    np.invert(bits, bits)


def test_ufuncs_of_arrays():
    x, y, out, bits = np.arange(3.), np.array([[1., 2, 3]]), np.zeros((2, 3)), np.arange(3)
    launched(ufuncs, x, y, out, bits)
    assert np.array_equal(out, [np.sin(x), x + y[0]]) and bits.tolist() == [-1, -2, -3]


def ufunc_without_out(x, out): out[0] = np.sin(x)[0]


def test_a_ufunc_of_an_array_needs_an_array_for_its_result():
    with pytest.raises(sim.NotSimulated): launched(ufunc_without_out, np.zeros(3), np.zeros(3))


def backwards(x, out):
    n = cuda.threadIdx.x
    reverse, some = x[::-1], x[4:n:-2]
    out[0, n], out[1, n], out[2, n] = reverse[n], some.shape[0], x[-2::-3][0]


def test_slices_with_a_negative_step():
    x = np.arange(6.)
    out = launched(backwards, x, np.zeros((3, 4)), block=4)
    expected = [[x[::-1][n] for n in range(4)], [x[4:n:-2].size for n in range(4)], [x[-2]]*4]
    assert out.tolist() == expected


def polar_and_back(z, out):
    out[0] = cmath.rect(*cmath.polar(z[0]))
    out[1] = cmath.acosh(z[0]) + cmath.atan(z[0])
    out[2] = complex(-0.0, 0.0)


def test_a_star_before_an_argument_and_cmath():
    z = np.array([1 + 2j])
    out = launched(polar_and_back, z, np.zeros(3, complex))
    assert np.allclose(out[:2], [z[0], np.arccosh(z[0]) + np.arctan(z[0])]) and np.signbit(out[2].real)


# constants, hints, extensions

CONSTANT = np.array([(1, 2, (3, 4, 5))], RECORD)


def reads_constant(out):
    c = cuda.const.array_like(CONSTANT)
    out[0] = c[0].a + c[0].v[2]


def test_constant_records(): assert launched(reads_constant, np.zeros(1))[0] == 6


def set_three(x): x[0] = 3


class CopyIn:
    def prepare_args(self, ty, value, **options): return ty, wrap_arg(value, default=cuda.In)


def test_extensions_replace_arguments():
    x, y, z = np.zeros((3, 1))
    cuda.jit(set_three)[1, 1](x)
    cuda.jit(set_three, extensions=[CopyIn()])[1, 1](y)
    cuda.jit(extensions=[CopyIn()])(set_three)[1, 1](z)
    assert (x[0], y[0], z[0]) == (3, 0, 0)


# numba.cuda.testing, and the variable in child processes

def test_decorators_of_numbas_tests():
    class Tests(numba_testing.CUDATestCase):
        @numba_testing.skip_on_cudasim('needs a compiler')
        def test_asm(self): raise AssertionError

        @numba_testing.skip_unless_cudasim('needs the simulator')
        @numba_testing.skip_unless_cc_75
        def test_sim(self): self.skip_if_lto('never')

    result = numba_testing.unittest.TestResult()
    numba_testing.unittest.defaultTestLoader.loadTestsFromTestCase(Tests).run(result)
    assert result.testsRun == 2 and len(result.skipped) == 1 and result.wasSuccessful()
    with pytest.raises(AttributeError): numba_testing.missing


SIMULATED = '''
from gridstride import as_gpu
as_gpu.simulate_numba()
import subprocess, sys
from numba import config
from numba.cuda.testing import skip_on_cudasim
child = 'from numba import cuda, config; print(getattr(cuda, "simulated", False), config.ENABLE_CUDASIM)'
print(config.ENABLE_CUDASIM, subprocess.run([sys.executable, '-c', child], capture_output=True, text=True).stdout)
'''


def test_child_processes_and_the_configuration_use_the_simulator():
    pytest.importorskip('numba')
    done = subprocess.run([sys.executable, '-c', SIMULATED], text=True, capture_output=True, check=True)
    assert done.stdout.split() == ['1', 'True', '1']


def test_as_gpu_reports_a_gpu_to_packages():
    numba = pytest.importorskip('numba')
    with as_gpu.as_gpu(): assert not numba.config.ENABLE_CUDASIM


# names of numba-cuda: hints for caches, its copies of Numba's modules, signatures

def hinted(x, out):
    i = cuda.grid(1)
    cuda.stwt(out, (0, i), cuda.ldcg(x, i))
    cuda.stcs(out, (1, i), cuda.ldcv(x, i) + cuda.ldca(x, i))


def hinted_past_the_end(x, out): out[0] = cuda.ldlu(x, cuda.grid(1))


def test_loads_and_stores_with_hints():
    assert launched(hinted, np.arange(3.), np.zeros((2, 3)), block=3).tolist() == [[0, 1, 2], [0, 2, 4]]
    with finding('memcheck outside', array='x', index=(3,)):
        launched(hinted_past_the_end, np.zeros(3), np.zeros(4), block=4)


def prints(t, x):
    if cuda.threadIdx.x == 1: print(t, (x[1], cuda.threadIdx.x), x[0] > 0)


def test_tuples_are_printed_as_python_does(capsys):
    cuda.jit(prints)[1, 2]((1, 2.5), np.arange(2, dtype=np.int8))
    assert capsys.readouterr().out == '(1, 2.5) (1, 1) False\n'


MODULES = '''
from gridstride import as_gpu
as_gpu.simulate_numba()
import numba, numba.core.caching, numba.core.errors
from numba import cuda
from numba.cuda.core.caching import CacheImpl
from numba.cuda.core import config, errors
from numba.cuda.memory_management.nrt import rtsys
from numba.cuda import types, vectorize, HAS_NUMBA
assert CacheImpl is numba.core.caching.CacheImpl and errors.TypingError is numba.core.errors.TypingError
assert HAS_NUMBA and types.float32 is numba.types.float32 and cuda.config is numba.core.config
config.OPT = 5
assert numba.core.config.OPT == 5 and rtsys.get_allocation_stats() is None
try: import numba.cuda.core.missing
except ImportError: print('refused')
try: import numba.cuda.nvvmutils
except ImportError as e: print('compiler' in str(e))

@cuda.jit(types.void(types.float32[::1], types.int32))
def fill(x, n): x[cuda.threadIdx.x] = cuda.shared.array(1, types.int64).shape[0] + types.int32(n)

import numpy as np
fill[1, 2](x := np.zeros(2, np.float32), 4)
print(*x)
'''


def test_modules_that_numba_cuda_copied_from_numba():
    pytest.importorskip('numba')
    done = subprocess.run([sys.executable, '-c', MODULES], text=True, capture_output=True)
    assert done.stdout.split() == ['refused', 'True', '5.0', '5.0'], done.stderr


def test_signatures_have_numbas_names():
    signature = sim.cuda.types.float32((sim.cuda.types.int32, sim.cuda.types.float32[:]))
    assert signature.return_type is sim.cuda.types.float32 and len(signature.args) == 2


SPECS = '''
from gridstride import as_gpu
as_gpu.simulate_numba()
from importlib.util import find_spec
import numba.cuda.simulator as simulator
from numba import cuda
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray
from numba.cuda.simulator.kernel import FakeCUDAKernel
import numpy as np
print(find_spec('numba.cuda').name, find_spec('numba_cuda_mlir').name, find_spec('numba_cuda_mlir.cuda').name)
print(isinstance(cuda.to_device(np.zeros(2)), FakeCUDAArray), isinstance(cuda.jit(lambda x: None), FakeCUDAKernel))
print(simulator.jit is cuda.jit)
'''


def test_packages_recognize_the_simulator():
    pytest.importorskip('numba')
    done = subprocess.run([sys.executable, '-c', SPECS], text=True, capture_output=True)
    assert done.stdout.split() == ['numba.cuda', 'numba_cuda_mlir', 'numba_cuda_mlir.cuda', *['True']*3], done.stderr


def test_kernels_and_device_functions_have_the_marks_of_numba():
    kernel, device = cuda.jit(set_three), cuda.jit(device=True)(set_three)
    assert (kernel._device, device._device) == (False, True)
    assert (kernel.targetoptions['device'], device.targetoptions['device']) == (False, True)


def parts_of_shared_memory(out):
    both = cuda.shared.array(0, np.float32)
    i = cuda.threadIdx.x
    floats, integers, doubles = both[:4], both[4:8].view(np.int32), both[8:].view(np.float64)
    floats[i], integers[i], doubles[i] = i/2, -i, i/4
    cuda.syncthreads()
    out[i] = floats[3 - i] + integers[3 - i] + doubles[3 - i]


def as_bits(x, out): out[cuda.threadIdx.x] = x.view(np.uint32)[cuda.threadIdx.x]


def past_the_view(x, out): out[0] = x.view(np.float64)[cuda.threadIdx.x + 1]


def race_through_a_view(x, out):
    s = cuda.shared.array(4, np.float32)
    s.view(np.int32)[cuda.threadIdx.x] = x[0]
    out[cuda.threadIdx.x] = s[3 - cuda.threadIdx.x]


def misaligned(x): x[1:].view(np.float64)[0] = 1


def test_arrays_are_viewed_as_another_type():
    out = np.zeros(4)
    cuda.jit(parts_of_shared_memory)[1, 4, 0, 64](out)
    assert out.tolist() == [-i/4 for i in (3, 2, 1, 0)]
    x = np.array([1, -2], np.float32)
    assert launched(as_bits, x, np.zeros(2, np.uint32), block=2).tolist() == x.view(np.uint32).tolist()
    with finding('memcheck outside', array='x', index=(2,)):
        launched(past_the_view, np.zeros(4, np.float32), np.zeros(1), block=2)
    with finding('racecheck race', array='s'): launched(race_through_a_view, np.zeros(1), np.zeros(4), block=4)
    with pytest.raises(sim.NotSimulated): launched(misaligned, np.zeros(4, np.float32))


# functions made from one `def`, and launches with one thread

def scaled(n, factor):
    "A device function, as packages make many from one `def`"
    @cuda.jit(device=True)
    def scale(x, i):
        part = cuda.local.array(n, np.float64)
        for j in range(n): part[j] = x[i]*factor
        return part[n - 1] + n
    return scale


@pytest.mark.parametrize('threads', [1, 3])
def test_functions_with_other_closures_share_their_rewritten_code(threads):
    first, second = scaled(1, 10.), scaled(4, 100.)
    def kernel(x, out):
        i = cuda.grid(1)
        out[i] = first(x, i) + second(x, i)
    x = np.arange(3.)
    assert launched(kernel, x, np.zeros(3), block=threads)[:threads].tolist() == (110*x + 5)[:threads].tolist()
    assert first.program.sites is second.program.sites and first.program is not second.program
    with pytest.raises(sim.NotSimulated): scaled(2.5, 1.).program  # each closure is checked, even if the code is shared


def reads_unwritten(out):
    part = cuda.local.array(2, np.float64)
    part[0] = 1
    out[cuda.threadIdx.x] = part[0] + part[1]


def reads_unwritten_shared(out):
    part = cuda.shared.array(2, np.float64)
    out[0] = part[cuda.blockIdx.x]


@pytest.mark.parametrize('threads', [1, 2])
def test_uninitialized_reads_are_found_with_any_number_of_threads(threads):
    with finding('initcheck unwritten_local', index=(1,)): launched(reads_unwritten, np.zeros(4), block=threads)
    with finding('initcheck unwritten_shared', index=(0,)): launched(reads_unwritten_shared, np.zeros(4))


def test_a_loaded_machine_does_not_time_out():
    def kernel(out):
        i = 0
        while i < 20: i = i + wait(out)
        out[0] = i
    @cuda.jit(device=True)
    def wait(out): return 1
    import time
    wait.program.lane_function = lambda *args: time.sleep(.02) or np.int64(1)
    with sim.options(seconds=.2): assert launched(kernel, np.zeros(1))[0] == 20


def test_names_that_tests_of_numba_use(tmp_path):
    code = '''
import os
from numba import cuda, int32
from numba.cuda.cudadrv.driver import driver
from numba.cuda.testing import test_data_dir

signature = int32[:, ::1],
@cuda.jit(signature)
def kernel(x): x[cuda.grid(2)] = 1
assert kernel.overloads[signature].max_cooperative_grid_blocks((16, 16)) > 0
assert int32 not in kernel.overloads
try: kernel.overloads[int32[:],]
except KeyError: pass
else: raise AssertionError
assert driver.get_device_count() == 1 and test_data_dir.name == 'data'
'''
    pytest.importorskip('numba')
    path = tmp_path/'names.py'
    path.write_text(code)
    subprocess.run([sys.executable, '-c', f'from gridstride import as_gpu; as_gpu.simulate_numba(); import runpy; '
                    f'runpy.run_path({str(path)!r})'], check=True)


def test_arrays_of_other_libraries_are_known_by_their_interface():
    "`ForeignArray` has a `__cuda_array_interface__` and nothing else, as in the tests of Numba"
    @cuda.jit
    def fill(x, value): x[cuda.threadIdx.x] = value
    d = cuda.to_device(np.zeros((2, 4), np.float32))
    fill[1, 4](numba_testing.ForeignArray(d[0]), 1)
    fill[1, 4](cuda.as_cuda_array(numba_testing.ForeignArray(d[1])), 2)
    assert d.copy_to_host().tolist() == [[1]*4, [2]*4] and cuda.is_cuda_array(numba_testing.ForeignArray(d))
    transposed = cuda.as_cuda_array(numba_testing.ForeignArray(d.T))
    assert transposed.strides == (4, 16) and (transposed.copy_to_host() == d.copy_to_host().T).all()
    empty = cuda.device_array((0, 3))
    assert empty.__cuda_array_interface__['data'][0] == 0
    assert cuda.as_cuda_array(numba_testing.ForeignArray(empty)).shape == (0, 3)
    with finding('memcheck outside'): fill[1, 5](numba_testing.ForeignArray(d[0]), 3)
    assert not cuda.is_cuda_array(np.zeros(1))


def test_a_device_array_has_no_numpy_operations_as_on_a_gpu():
    d = cuda.to_device(np.arange(3.))
    for operate in (lambda: d.min(), lambda: d*2, lambda: 2 - d, lambda: d/d):
        with pytest.raises((AttributeError, TypeError), match=saying('DeviceArray', 'copy_to_host')): operate()
    with pytest.raises(AttributeError) as e: d.no_such_name
    assert not names(str(e.value), 'copy_to_host')
    assert (np.ones(3)*d).tolist() == (d*np.ones(3)).tolist() == [0, 1, 2] and np.max(d) == 2 and d != 1


def test_a_device_array_has_numpy_operations_where_numba_s_simulator_is_replaced(monkeypatch):
    monkeypatch.setattr(host, 'has_numpy_operations', True)
    d = cuda.to_device(np.arange(3.))
    for operate, want in ((lambda: d*2, [0, 2, 4]), (lambda: 2 - d, [2, 1, 0]), (lambda: d == d, [True]*3),
                          (lambda: d.copy(), [0, 1, 2])):
        with pytest.warns(UserWarning, match=saying('DeviceArray', 'copy_to_host')): got = operate()
        assert np.asarray(got).tolist() == want
    assert np.max(d) == 2 and hash(d)  # without a warning, because this works on a GPU
    assert not hasattr(d, 'no_such_name') and not hasattr(d, '__array_interface__')
