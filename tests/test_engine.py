"""`sim.options(engine='c')`: the simulator's cases, compiled; the same findings on the same lines; and what
this engine refuses, clearly."""
import importlib
import inspect
import math

import numpy as np
import pytest

import engine_unit
from gridstride import sim
from gridstride.sim import cuda
from gridstride.diagnostics.errors import *
from gridstride.translate import Untranslatable, engine
from sim_cases import *
from found import saying

pytestmark = [pytest.mark.slow,  # one unit of all kernels is compiled first
              pytest.mark.filterwarnings('error::gridstride.diagnostics.errors.SameValueRace')]  # a warning is one

@pytest.fixture(params=['forward'], autouse=True)
def order(request):
    "A loop that does not end is reported after 10 s, not after a minute"
    with sim.options(order=request.param, seed=3, engine='c'), change(settings, seconds=10): yield request.param

@pytest.fixture(scope='module', autouse=True)
def one_unit():
    "The first kernels of most tests, compiled at once: compiling them one by one takes 10x longer"
    tests = [f for name,f in globals().items() if name.startswith('test_') and inspect.isfunction(f)]
    with engine_unit.compiled(tests): yield

# the emulator keeps no record of local memory, and its warps are those of a GPU since Volta, whose
# threads wait for each other
UNSEEN = {'local not written', 'mask of the whole warp in a branch', 'lock by all threads of a warp'}
REFUSED = {'too many indices'}   # `to_cuda` sees it before the kernel runs

def finding(name, order='forward', engine='c'):
    kind,src,_,config,args,_,_ = WRONG[name]
    with sim.options(order=order, engine=engine), pytest.raises(KINDS[kind]) as e: cell(src, name).k[config](*args())
    return e.value

def check_finding(e, name):
    kind,src,_,_,_,want,who = WRONG[name]
    here,there = line(src, '# here'),line(src, '# there') if '# there' in src else None
    assert e.kind==kind and e.kernel=='k' and e.file==f'<{name}>' and src.splitlines()[e.line-1].strip() in str(e)
    if kind!='racecheck': assert e.line==here
    else: assert {e.line,e.other.line}=={here,there} and (e.other.block,e.other.thread)!=(e.block,e.thread)
    for k in ('array','index') if kind=='racecheck' else want: assert want[k] is None or getattr(e,k)==want[k], k
    if who and kind!='racecheck': assert who(e)

@pytest.mark.parametrize('name', [o for o in WRONG if o not in UNSEEN | REFUSED])
def test_wrong(name): check_finding(finding(name), name)

@pytest.mark.parametrize('order', ['reverse','shuffle'])
@pytest.mark.parametrize('name',
    ['no guard','axes swapped','no barrier','histogram','shared not written','barrier in a branch'])
def test_wrong_in_every_order(name, order): check_finding(finding(name, order), name)

@pytest.mark.parametrize('name', ['one past the end','negative index','axes swapped','atomic outside',
                                  'shared not written','device array not written'])
def test_the_words_are_the_same(name): assert str(finding(name))==str(finding(name, engine='lanes'))

@pytest.mark.parametrize('name', REFUSED)
def test_refused(name):
    _,src,_,config,args,_,_ = WRONG[name]
    with pytest.raises(Untranslatable) as e: cell(src, name).k[config](*args())
    assert e.value.line==line(src, '# here')

def test_float_operations_may_be_fused():
    @cuda.jit
    def k(x, out):
        i = cuda.grid(1)
        v = x[i]*x[i]+x[i]
        out[i] = v-math.sqrt(v)*x[i]
    x,out = rng().uniform(1,2,64).astype('f4'),np.full(64, np.nan)
    k[1,64](x, out)
    v = x*x+x
    # of float32: each operation is off by half a unit of its result
    np.testing.assert_allclose(out, (v-np.sqrt(v)*x).astype('f8'), rtol=0, atol=4*np.spacing(v.max()))

@pytest.mark.parametrize('dtype', ['?','i1','u1','i2','u4','i8','u8','f2','f4','f8'])
def test_dtypes_of_c(dtype): reverse_array_of(dtype)

@pytest.mark.parametrize('body', [o[0] for o in UNCOMPILED + PYTHON_ERRORS])
def test_what_numba_would_not_compile_is_not_translated(body):
    with pytest.raises(Untranslatable, match='(?s)line [456]'):
        cell(HEAD % 'x, y' + f'    {body}\n', 'refused', **CONSTANTS).k[1,2](np.zeros(2), np.zeros((2,4)))

@pytest.mark.parametrize('refused,error', [(lambda: reverse_array_of('c8'), Untranslatable),
    (compute_factorials, Untranslatable), (reverse_across_the_grid, NotSimulated)])
def test_refusals(refused, error):
    with pytest.raises(error) as e: refused()
    assert (e.value.kernel and 'complex' in str(e.value) or 'recursion' in str(e.value)
            or "engine='lanes'" in str(e.value))

def test_refusals_name_the_line():
    src = HEAD % 'x'+'    x[t] = sorted([1])[0] # here\n'
    with pytest.raises(Untranslatable) as e: cell(src, 'not translated').k[1,1](np.zeros(1))
    assert e.value.line==line(src, '# here') and e.value.file=='<not translated>' and e.value.kernel=='k'

def test_enumerate_zip_and_modf():
    assert outcome('s = 0.\nfor j,v in enumerate((2.,3.,5.)): s += j*v\nout[i] = s')==[13.]*8
    assert outcome('s = 0.\nfor a,b in zip((1,2),(10,20)): s += a*b\nout[i] = s')==[50.]*8
    assert outcome('f,w = math.modf(i+0.25)\nout[i] = f+10*w', math=math)==[0.25+10*i for i in range(8)]

def test_too_much_shared_memory():
    src = (HEAD % 'x'
           + '    s = cuda.shared.array(7000, np.float64)\n    s[t] = x[t]\n    cuda.syncthreads()\n    x[t] = s[t]\n')
    with pytest.raises(LaunchError, match='shared memory'): cell(src, 'shared').k[1,1](np.zeros(1))

@pytest.mark.parametrize('name,checks', [('no barrier','memcheck,synccheck'),
    ('shared not written','racecheck,memcheck'),('barrier in a branch','none'),('histogram','none')])
def test_checks_are_honoured(name, checks):
    _,src,_,config,args,_,_ = WRONG[name]
    with sim.options(checks=checks): cell(src, name).k[config](*args())

# the engine itself

@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size: x[i] += 1

def test_an_engine_that_does_not_exist():
    with pytest.raises(ValueError, match=saying('engine', "'lanes'", "'c'", "'d'")):
        with sim.options(engine='d'): pass

def test_the_option_ends_with_its_block():
    with sim.options(engine='lanes'):
        with sim.trace() as t: add_one[1,4](np.zeros(4))
    assert t.stats.global_load_requests==1

@pytest.mark.parametrize('run', [lambda: sim.trace(), lambda: sim.options(label_prints=True)], ids=['trace','labels'])
def test_what_needs_the_other_engine_is_refused(run):
    with run(), pytest.raises(NotSimulated, match="engine='lanes'"): add_one[1,4](np.zeros(4))

def test_compiled_once_per_kind_of_arguments(monkeypatch):
    @cuda.jit
    def k(x, by):
        i = cuda.grid(1)
        x[i] *= by
    x = np.ones(8)
    k[1,8](x, 2)
    made = []
    monkeypatch.setattr(engine, 'compile_module', lambda *a, **kw: made.append(a) or pytest.fail('compiled again'))
    k[2,4](x, 3)
    k[1,4](x[4:], 5)
    assert x.tolist()==[6.]*4+[30.]*4
    with pytest.raises(BaseException, match='compiled again'): k[1,8](x.astype('f4'), 2)
    with pytest.raises(BaseException, match='compiled again'): k[1,8](x, 2.)
    with pytest.raises(BaseException, match='compiled again'): k[1,4](x[::2], 2)
    assert len(made)==3

def test_arrays_that_share_memory():
    @cuda.jit
    def k(a, b):
        i = cuda.grid(1)
        a[i] = 1
        cuda.syncthreads()
        b[i] += a[0]
    x = np.zeros(12)
    k[1,6](x[:6], x[3:9])
    assert x.tolist()==[1,1,1,2,2,2,1,1,1,0,0,0]

def rows(x, out):
    a,b,tile = cuda.shared.array(4, np.float64),cuda.shared.array(4, np.float64),cuda.shared.array((4,4), np.float64)
    t = cuda.threadIdx.x
    tile[t,3-t] = x[t]
    a[t],b[t] = 0.,x[t]
    cuda.syncthreads()
    a,b = b,a
    row = tile[t]
    out[t] = 10*a[3-t]+row[3-t]

def test_arrays_are_swapped_and_have_rows():
    x,out = np.arange(4.),np.zeros(4)
    cuda.jit(rows)[1,4](x, out)
    assert out.tolist()==[30,21,12,3]

def test_a_row_out_of_bounds():
    src = HEAD % 'x'+'    s = cuda.shared.array((4,4), np.float64)\n    row = s[t+1] # here\n    row[0] = x[t]\n'
    with pytest.raises(MemcheckError) as e: cell(src, 'row').k[1,4](np.zeros(4))
    assert e.value.line==line(src, '# here') and e.value.array=='s'

def test_arrays_that_are_only_read_may_be_read_only():
    @cuda.jit
    def k(a, out):
        i = cuda.grid(1)
        out[i] = a[i]
    a,out = np.arange(4.),np.zeros(4)
    a.flags.writeable = False
    k[1,4](a, out)
    assert out.tolist()==[0,1,2,3]

def test_a_finding_in_a_device_function_of_another_file(tmp_path, monkeypatch):
    (tmp_path/'elsewhere.py').write_text(
        'from gridstride.sim import cuda\n\n@cuda.jit(device=True)\ndef put(x, i):\n    x[i] = i  # here\n')
    monkeypatch.syspath_prepend(tmp_path)
    put = importlib.import_module('elsewhere').put
    @cuda.jit
    def k(x): put(x, cuda.grid(1)+1)
    with pytest.raises(MemcheckError) as e: k[1,4](np.zeros(4))
    assert e.value.file==str(tmp_path/'elsewhere.py') and e.value.line==5 and e.value.index==(4,)
    assert 'x[i] = i  # here' in str(e.value)

def test_what_was_written_is_remembered_by_the_device_array():
    d,out = cuda.device_array(8),np.zeros(4)
    add = cell('@cuda.jit\ndef k(d):\n    i = cuda.grid(1)\n    if i%2 == 0: d[i] = i\n', 'evens').k
    add[1,8](d)
    get = cell('@cuda.jit\ndef k(d, out, by):\n    i = cuda.grid(1)\n    out[i] = d[i*by]\n', 'get').k
    for e in ('c','lanes'):
        with sim.options(engine=e):
            get[1,4](d, out, 2)
            assert out.tolist()==[0,2,4,6]
            with pytest.raises(InitcheckError) as found: get[1,4](d, out, 1)
            assert found.value.index==(1,) and found.value.array=='d'

def test_the_same_value_warns_with_pythons_line():
    src = HEAD % 'out' + '    out[t%2] = 5 # here\n'
    with pytest.warns(SameValueRace, match=f'line {line(src, "# here")} of k: .*several threads'):
        cell(src, 'same').k[1,8](np.zeros(2))

def test_prints_reach_python(capfd):
    cell('@cuda.jit\ndef k(x):\n    i = cuda.grid(1)\n    if i < 2: print("thread", i, x[i])\n', 'prints').k[1,4](
        np.arange(4.))
    assert [l.split()[:2] for l in capfd.readouterr().out.splitlines()]==[['thread','0'],['thread','1']]


def test_an_endless_loop_is_reported_at_its_line_wherever_it_is_stopped():
    "Mostly that is where an index is looked up, in a function of ours"
    @cuda.jit
    def waits(x):
        n = 0
        while x[0,0,0]==0.: n += 1
    for _ in range(8):
        with sim.options(seconds=.02), pytest.raises(KernelError) as e: waits[1,32](np.zeros((3,3,3)))
        assert 'while x[0,0,0]==0.: n += 1' in str(e.value)

def test_a_loop_that_does_nothing_never_ends_without_checks_either():
    "A compiler of C++ may leave it out"
    @cuda.jit
    def waits(x):
        n = 0
        while x[0]==0.: n += 1
        x[1] = 7.
    x = np.zeros(3)
    with sim.options(seconds=.1, checks=()), pytest.raises(KernelError, match='after 0.1 s'): waits[1,1](x)
    assert x.tolist()==[0,0,0]
