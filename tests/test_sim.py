"The simulator on lanes: the cases that both engines run, and what only this engine does."
from collections import namedtuple
import inspect, linecache, math, operator, re, runpy

import numpy as np
import pytest

from gridstride import sim
from gridstride.diagnostics.errors import ALWAYS_REPORTED
from gridstride.sim import cuda
from found import finding, saying
from sim_cases import *

ORDERS = ['forward', 'reverse', 'shuffle']
pytestmark = [pytest.mark.one_order,
              pytest.mark.filterwarnings('error::gridstride.diagnostics.errors.SameValueRace')]  # a warning is one

@pytest.fixture(params=ORDERS, autouse=True)
def order(request):
    with sim.options(order=request.param, seed=3): yield request.param

def test_float32_stays_float32():
    @cuda.jit
    def k(x, out):
        i = cuda.grid(1)
        v = x[i]*x[i]+x[i]
        out[i] = v-math.sqrt(v)*x[i]
    x,out = rng().uniform(1,2,64).astype('f4'),np.full(64, np.nan)
    k[1,64](x, out)
    v = x*x+x
    np.testing.assert_array_equal(out, (v-np.sqrt(v)*x).astype('f8'))

def test_recursion(): compute_factorials()

@pytest.mark.parametrize('dtype', ['?','i1','u1','i2','u4','i8','u8','f2','f4','f8','c8','c16'])
def test_dtypes(dtype): reverse_array_of(dtype)

def test_grid_barrier(): reverse_across_the_grid()

@pytest.mark.parametrize('name', WRONG)
def test_wrong(name):
    kind,src,_,config,args,want,who = WRONG[name]
    with pytest.raises(KINDS[kind]) as e: cell(src, name).k[config](*args())
    e = e.value
    assert e.kind==kind and e.kernel=='k' and e.file==f'<{name}>' and e.line==line(src, '# here')
    for k,v in want.items(): assert v is None or getattr(e,k)==v, k
    assert len(e.block)==len(e.thread)==3
    if kind=='racecheck':
        assert e.other.line==line(src, '# there') and (e.other.block,e.other.thread)!=(e.block,e.thread)
    if who: assert who(e)
    text = str(e)
    assert text.startswith(kind+': ') and len(text.splitlines()) <= 6 and f'line {e.line}: ' in text

@pytest.mark.parametrize('name', WRONG)
def test_a_check_that_may_be_switched_off_is_silent_then(name):
    kind,src,_,config,args,_,_ = WRONG[name]
    with pytest.raises(KINDS[kind]) as e: cell(src, name).k[config](*args())
    if e.value.code in ALWAYS_REPORTED.get(kind, ''): return
    assert f"sim.options(checks='no {kind}')" in inspect.getdoc(e.value)
    with sim.options(checks=f'no {kind}'):
        try: cell(src, name).k[config](*args())
        except IndexError as e: assert type(e) is IndexError   # NumPy's: nothing is there
        except sim.KernelError as e: assert e.kind!=kind

def test_too_much_shared_memory():
    src = HEAD % 'x' + '    s = cuda.shared.array(7000, np.float64) # here\n    x[t] = 1\n'
    with pytest.raises(sim.LaunchError) as e: cell(src, 'shared').k[1,1](np.zeros(1))
    assert e.value.line==line(src, '# here')

def test_checks_can_be_switched_off():
    for name,checks in (('no barrier','memcheck,initcheck,synccheck'),('shared not written','racecheck'),
                        ('barrier in a branch','none'),('histogram','none')):
        _,src,_,config,args,_,_ = WRONG[name]
        with sim.options(checks=checks): cell(src, name).k[config](*args())

def test_what_is_read_before_the_grids_barrier_and_written_after_it_is_uninitialized():
    unwritten('if i < 32: out[i] = d[i+32] # here\ncuda.cg.this_grid().sync()\nif i >= 32: d[i] = 1', 2,
              sim.InitcheckError)

def test_racecheck_alone_sees_a_race_in_shared_memory_of_another_block():
    "Without memcheck an index may reach there, and the barriers of two blocks order nothing between them"
    src = (HEAD % 'x'+'    s = cuda.shared.array(64, np.float64)\n    if cuda.blockIdx.x == 0: s[t+64] = t\n'
                      '    cuda.syncthreads()\n    if cuda.blockIdx.x == 1: x[t] = s[t]\n')
    with sim.options(checks='racecheck'), finding('racecheck race_of_blocks'):
        cell(src, 'of another block').k[2,64](np.zeros(64))

def test_what_is_not_simulated_raises_a_clear_error():
    with pytest.raises(sim.NotSimulated) as e:
        cell(HEAD % 'x'+'    x[t] = sorted([1])[0] # here\n', 'not simulated').k[1,1](np.zeros(1))
    assert e.value.kind=='not simulated'

def test_an_argument_may_be_a_named_tuple():
    Pair = namedtuple('Pair', 'scale shift')
    @cuda.jit
    def k(p, out):
        i = cuda.grid(1)
        if i < out.size: out[i] = p.scale[i]*p.shift + p[1]
    scale,out = np.random.randn(9).astype(np.float32),np.full(9, np.nan, np.float32)
    k[1,16](Pair(scale, 3), out)
    np.testing.assert_allclose(out, scale*3 + 3, rtol=1e-6, atol=1e-6)   # one product, one sum

def test_a_complex_number_has_a_conjugate():
    @cuda.jit
    def k(z, out):
        i = cuda.grid(1)
        if i < out.size: out[i] = z[i].conjugate()
    z = np.random.randn(9) + 1j*np.random.randn(9)
    out = np.full(9, np.nan, complex)
    k[1,16](z, out)
    assert (out==z.conj()).all()

def test_enumerate_zip_modf_and_operators():
    import cmath, math
    assert outcome('s = 0.\nfor j,v in enumerate((2.,3.,5.)): s += j*v\nout[i] = s')==[13.]*8
    assert (outcome('s = 0.\nfor a,b in zip((1,2),(10,20)): s += operator.mul(a,b)\nout[i] = s', operator=operator)
            == [50.]*8)
    assert outcome('f,w = math.modf(i+0.25)\nout[i] = f+10*w', math=math)==[0.25+10*i for i in range(8)]
    assert np.allclose(outcome('out[i] = abs(cmath.exp(complex(0,i)))', cmath=cmath), 1)

def test_a_kernel_without_source_is_refused(monkeypatch):
    "Even if lines of another text are found instead, as Python 3.13 finds those after `python -c`"
    space = {}
    exec('def k(x): x[0] = 1', space)
    with pytest.raises(sim.NotSimulated, match='source'): sim.cuda.jit(space['k'])[1,1](np.zeros(1))
    monkeypatch.setitem(linecache.cache, '<string>', (9, None, ['x = 1\n'], '<string>'))
    with pytest.raises(sim.NotSimulated, match='source'): sim.cuda.jit(space['k'])[1,1](np.zeros(1))

@pytest.mark.parametrize('line,name', [('x[i] = 1', 'threadIdx'), ('x[0] = 2*d', 'blockDim'),
                                       ('if i < 3: x[0] = 1', 'threadIdx'), ('x[b*d.x + i.x] = 1', 'blockIdx')])
def test_a_position_without_its_axis_is_refused(line, name, tmp_path):
    (tmp_path/'lone.py').write_text('from gridstride.sim import cuda\n@cuda.jit\ndef k(x):\n'
        f'    i,b,d = cuda.threadIdx,cuda.blockIdx,cuda.blockDim\n    {line}\n')
    k = runpy.run_path(str(tmp_path/'lone.py'))['k']
    what = rf'cuda.{name} is not a number: use cuda.{name}.x \(or .y, .z\)'
    with pytest.raises(TypeError, match=what): k[1,4](np.zeros(4))

def test_an_array_of_numpy_in_a_kernel_is_refused_with_an_alternative():
    @sim.cuda.jit
    def k(x): x[0] = np.zeros(4)[0]
    what = r"'zeros'(.|\n)*cuda.local.array\(size, dtype\)(.|\n)*cuda.shared.array"
    with pytest.raises(sim.NotSimulated, match=what): k[1,1](np.zeros(1))

def test_a_plain_function_is_refused_as_numba_does():
    def half(v): return v/2
    @sim.cuda.jit
    def k(x): x[0] = half(x[0])
    with pytest.raises(sim.NotSimulated, match=saying('half', 'device=True')):
        k[1,1](np.zeros(1))

@pytest.mark.parametrize('engine', ['lanes', 'c'])
@pytest.mark.parametrize('signature', ['(cuda.float32[:],)', 'cuda.void(cuda.float32[:])',
                                       '[cuda.types.void(cuda.f4[::1])]', "'void(float32[:])'",
                                       'cuda.void(cuda.f4[:]), device=False'])
def test_types_as_numba_has_them(signature, engine):
    src = (f'@cuda.jit({signature})\ndef k(x):\n    t = cuda.threadIdx.x\n    s = cuda.shared.array(8, cuda.i4)\n'
           '    s[t] = cuda.int32(2.7)\n    x[t] = half(cuda.float32(t)) + s[t]\n'
           '@cuda.jit(cuda.float32(cuda.float32), device=True)\ndef half(v): return v/2\n')
    x = np.full(8, np.nan, np.float32)
    with sim.options(engine=engine): cell(src, 'typed').k[1,8](x)
    np.testing.assert_array_equal(x, np.arange(8)/2+2)

@pytest.mark.parametrize('engine', ['lanes', 'c'])
@pytest.mark.parametrize('signature, x, a, wrong', [
    ("'void(float32[:], float32)'", np.zeros(2), 1, '1, x, is declared as float32[:], but float64[:] was given'),
    ('(cuda.f4[:, ::1], cuda.i4)', np.zeros(2, 'f4'), 1, '1, x, is declared as float32[:, ::1], but float32[::1]'),
    ('cuda.void(cuda.f8[:], cuda.i4)', np.zeros(2), 1.5, '2, a, is declared as int32, but float64 was given'),
    ('[(cuda.i8[:], cuda.i8), (cuda.f4[:], cuda.i8)]', np.zeros(2), 1, 'x, is declared as int64[:] or float32[:], but'),
    ('(cuda.f8[:], cuda.f8[:])', np.zeros(2), 1, '2, a, is declared as float64[:], but int64 was given'),
    ("'void(f8[::1], f8)'", np.zeros(4)[::2], 1, '1, x, is declared as float64[::1], but float64[:] was given'),
    ("['(f8[::1], f8)']", np.zeros(4)[::-1], 1, '1, x, is declared as float64[::1], but float64[:] was given\n  '
     'Pass a copy, np.ascontiguousarray, or declare float64[:].'),
    ("'(f8[:,::1], f8)'", np.zeros((3, 2)).T, 1, 'declared as float64[:, ::1], but float64[::1, :] was given'),
    ('(cuda.f8[::1,:], cuda.f8)', np.zeros((3, 2)), 1, 'declared as float64[::1, :], but float64[:, ::1] was given'),
    ("'(f4[::1], f8)'", np.zeros(4)[::2], 1, 'is declared as float32[::1], but float64[:] was given')])
def test_what_a_signature_does_not_take(signature, x, a, wrong, engine):
    "Numba refuses a list; under one signature it misreads the bytes"
    k = cell(SIGNED % signature, 'declared').k
    with sim.options(engine=engine), pytest.raises(TypeError, match='k: argument .*'+re.escape(wrong)): k[1,2](x, a)

@pytest.mark.parametrize('engine', ['lanes', 'c'])
@pytest.mark.parametrize('signature, a, result', [("'(float64[:], float32)'", 0.1, float(np.float32(0.1))),
    ('(cuda.f8[:], cuda.i4)', 2**32-1, -1), ('[(cuda.f8[:], cuda.u1), (cuda.f4[:], cuda.i4)]', np.int64(257), 1),
    ("['(f8[:], f4)', '(f8[:], f8)']", 0.1, 0.1), ("'void(f8[:], Unknown)'", 3, 3), ("'void(f8[:], f8)'", True, 1)])
def test_arguments_of_the_declared_type_as_numba_has_them(signature, a, result, engine):
    import torch
    k = cell(SIGNED % signature, 'declared').k
    for x in (np.zeros(2), torch.zeros(2, dtype=torch.float64)):
        with sim.options(engine=engine): k[1,2](x, a)
        assert x.tolist() == [result]*2

@pytest.mark.parametrize('engine', ['lanes', 'c'])
@pytest.mark.parametrize('axes, x', [('::1', np.zeros(4)), ('::1', np.zeros(8)[::2][:1]), (':', np.zeros(4)[::2]),
    (':', np.zeros(4)), ('::1,:', np.zeros((4, 1)).T), (':,::1', np.zeros((1, 4)).T), ('::1,:', np.zeros((3, 4)).T),
    (':,:', np.zeros((3, 4)).T[::2])])
def test_layouts_as_numba_has_them(axes, x, engine):
    "A contiguous array fits any layout, not the other way round; an axis of 1 has any stride"
    from numba import types
    import torch
    declared = eval(f'types.f8[{axes}]', dict(types=types))
    numbas = types.Array(types.f8, x.ndim, 'C' if x.flags.c_contiguous else 'F' if x.flags.f_contiguous else 'A')
    assert numbas == declared or declared.layout == 'A' or x.flags.c_contiguous and x.flags.f_contiguous
    first = ', '.join(['0']*(x.ndim - 1) + ['i'])
    src = f"@cuda.jit('void(f8[{axes}], f8)')\ndef k(x, a):\n    i = cuda.threadIdx.x\n    x[{first}] = a\n"
    for given in (x.copy('K') if x.flags.forc else x, torch.from_numpy(x)):
        with sim.options(engine=engine): cell(src, 'layouts').k[1,1](given, 3)
        assert given.ravel()[0] == 3

@pytest.mark.parametrize('engine', ['lanes', 'c'])
def test_booleans_as_numba_has_them(engine):
    src = ('@cuda.jit(cuda.void(cuda.boolean[:], cuda.uintp))\ndef k(x, n):\n    t = cuda.threadIdx.x\n'
           '    s = cuda.shared.array(8, cuda.boolean)\n    s[t] = cuda.boolean(t & 2)\n    x[t] = s[t] and t < n\n')
    x = np.zeros(8, bool)
    with sim.options(engine=engine): cell(src, 'booleans').k[1,8](x, 7)
    assert x.tolist() == [0,0,1,1,0,0,1,0]

def test_arrays_have_no_methods_in_a_kernel():
    @sim.cuda.jit
    def k(x): x[0] = x.max()
    with pytest.raises(AttributeError, match="'max'"): k[1,1](np.zeros(1))

def test_dynamic_shared_memory_counts_where_the_grid_waits():
    @cuda.jit
    def k(x):
        s = cuda.shared.array(0, np.float32)
        i, t = cuda.grid(1), cuda.threadIdx.x
        s[t] = x[i]
        cuda.cg.this_grid().sync()
        x[i] = s[t] + 1
    x = np.arange(64, dtype=np.float32)
    k[2, 32, 0, 128](x)
    np.testing.assert_array_equal(x, np.arange(64)+1)

@pytest.mark.parametrize('body, error, says', UNCOMPILED)
def test_what_numba_would_not_compile_is_refused(body, error, says):
    with pytest.raises(getattr(sim, error), match=says):
        cell(HEAD % 'x, y' + f'    {body}\n', 'refused', **CONSTANTS).k[1,2](np.zeros(2), np.zeros((2,4)))

@pytest.mark.parametrize('body, error, note', PYTHON_ERRORS)
def test_an_error_of_pythons_in_a_kernel_is_shown_with_its_line_alone(body, error, note):
    with pytest.raises(error) as e: cell(HEAD % 'x' + f'    {body}\n', 'python').k[1,2](np.zeros(2))
    assert e.value.__notes__[0].startswith(f'  line 5: {body}\n')
    assert e.value.__notes__[0].count('cuda.') == body.count('cuda.') + (note != 'in k')
    assert note in e.value.__notes__[0] and e.value._render_traceback_
