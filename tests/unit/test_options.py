"How kernels run: what may be given, and what is refused."
import numpy as np
import pytest

from gridstride import cpp, sim
from gridstride.diagnostics.settings import CHECKS, parse_checks, settings
from found import saying

MAY = [(True, CHECKS), ('all', CHECKS), (False, ()), ('none', ()), (None, None), ('racecheck', ('racecheck',)),
       ('racecheck, memcheck', ('memcheck', 'racecheck')), (['initcheck'], ('initcheck',)),
       (('synccheck', 'memcheck'), ('memcheck', 'synccheck')), ([], ()), (' all ', CHECKS),
       ('no racecheck', ('memcheck', 'initcheck', 'synccheck', 'fencecheck')),
       ('no memcheck, initcheck, fencecheck', ('racecheck', 'synccheck'))]
MAY_NOT = ['', 'speed', 'no', 'no speed', 'memcheck,speed', 'all, none', 1, 0, 2.5, {'racecheck': 1}, ['racecheck', 3],
           [True], [['racecheck']], b'all']


@pytest.mark.parametrize('given,meant', MAY)
def test_checks_that_may_be_given(given, meant): assert parse_checks(given) == meant


@pytest.mark.parametrize('given', MAY_NOT)
def test_the_refusal_of_other_checks_names_what_may_be_given(given):
    for take in (parse_checks, lambda checks: sim.options(checks).__enter__(),
                 lambda checks: cpp.options(checks).__enter__()):
        with pytest.raises(ValueError,
                           match=saying('checks', 'True', "'all', False", "'none'", 'memcheck', 'racecheck')):
            take(given)


@pytest.mark.parametrize('given', [True, False, 'racecheck, memcheck', ['memcheck']])
def test_options_apply_inside_their_block(given):
    with sim.options(checks=given): assert settings.checks == parse_checks(given)
    assert settings.checks == CHECKS


def test_switched_off_detectors_say_nothing():
    @sim.cuda.jit
    def race(x): x[0] = sim.cuda.threadIdx.x
    for checks in (False, 'none', ['memcheck', 'initcheck']):
        with sim.options(checks=checks): race[1, 32](np.zeros(1))
    for checks in (True, 'racecheck , memcheck', ('racecheck',)):
        with sim.options(checks=checks), pytest.raises(sim.RacecheckError): race[1, 32](np.zeros(1))


RACES = '''
__global__ void races(float *out) { out[0] = threadIdx.x; }
__global__ void strays(float *out, int n) { out[n] = 1; }
'''
HOST = 'void go(torch::Tensor x) { races<<<1, 32>>>(x.data_ptr<float>()); strays<<<1, 1>>>(x.data_ptr<float>(), 32); }'


@pytest.fixture(scope='module')
def tensor():
    torch = pytest.importorskip('torch')
    return lambda: torch.zeros(32)


@pytest.fixture(scope='module', autouse=True)
def emulated():
    with cpp.on_emulator(): yield


def findings_of(k, tensor):
    "The kinds of what the detectors find in the two kernels"
    found = []
    for launch in (lambda: k.races[1, 32](tensor()), lambda: k.strays[1, 1](tensor(), 32)):
        try: launch()
        except sim.KernelError as e: found.append(e.kind)
    return found


@pytest.mark.parametrize('checks,want',
    [('none', []), (False, []), ('racecheck', ['racecheck']), (['memcheck'], ['memcheck']),
     ('racecheck, memcheck', ['racecheck', 'memcheck']), (None, ['racecheck', 'memcheck'])])
def test_a_cuda_kernel_runs_with_the_checks_that_it_was_given(checks, want, tensor):
    assert findings_of(cpp.cuda_kernel(RACES, checks=checks), tensor) == want


def test_a_module_runs_with_the_checks_that_it_was_given(tensor):
    cpp.load_cuda(RACES + HOST, '#include <torch/extension.h>', checks='initcheck').go(tensor())
    with pytest.raises(sim.RacecheckError):
        cpp.load_cuda(RACES + HOST, '#include <torch/extension.h>', checks=['racecheck']).go(tensor())


@pytest.mark.parametrize('make', [cpp.cuda_kernel, cpp.load_cuda])
def test_compilers_refuse_checks_that_there_are_not(make):
    with pytest.raises(ValueError, match='speed'): make(RACES + HOST, checks='speed')
