"A launch, its brackets and its arguments: the same for the simulator and for CUDA C."
import copy
import pickle

import numpy as np
import pytest

from gridstride import cpp, sim
from gridstride.diagnostics.errors import LaunchError, WrongArgument
from gridstride.diagnostics.launch_config import LIMITS, LaunchConfig, configure, check_argument_count, read_brackets
from gridstride.translate.source import Untranslatable
from gridstride.utils import dim3
from found import finding, saying


def test_brackets_have_two_to_four_parts():
    assert read_brackets('k', (1, 32)) == (1, 32, None, 0)
    assert read_brackets('k', ((1, 2), dim3(32), 7)) == ((1, 2), dim3(32), 7, 0)
    assert read_brackets('k', (1, 32, None, np.int64(64))) == (1, 32, None, 64)
    assert read_brackets('k', (1, 32, 0, None)) == (1, 32, 0, 0)


@pytest.mark.parametrize('brackets,given', [(1, 1), ((), 0), ((1,), 1), ((1, 2, 3, 4, 5), 5), (dim3(1, 2, 3)[:1], 1)])
def test_other_counts_in_the_brackets_are_not_a_launch(brackets, given):
    with finding('launch brackets', given=given, kernel='k'): read_brackets('k', brackets)


@pytest.mark.parametrize('shared', [-1, 1.5, 'much', [4]])
def test_bytes_of_shared_memory_are_an_integer(shared):
    with finding('launch shared_number', given=shared): read_brackets('k', (1, 32, None, shared))


def test_sizes_are_ints_tuples_or_dim3():
    for grid in (4, (4,), [4], (4, 1), dim3(4), np.int64(4)):
        assert configure('k', grid, (8, 4)) == LaunchConfig(dim3(4), dim3(8, 4), None, 0, dim3(1))


@pytest.mark.parametrize('grid,block,shared,want', [
    ('4', 32, 0, 'sizes'), (1.5, 32, 0, 'sizes'), ((1, 1, 1, 1), 32, 0, 'sizes'), (None, 32, 0, 'sizes'),
    (0, 32, 0, 'empty'), (1, -1, 0, 'empty'), (1, 1025, 0, 'block_size'), (1, (1, 1, 65), 0, 'block_size'),
    ((1, 65536), 1, 0, 'grid_size'), (2**31, 1, 0, 'grid_size'), (1, 1, LIMITS.shared + 1, 'shared_size')])
def test_what_no_gpu_takes(grid, block, shared, want):
    with finding(f'launch {want}', kernel='k'): configure('k', grid, block, shared=shared)


def test_a_launch_that_no_gpu_takes_is_reported_with_the_limits():
    with finding('launch block_size', block=(1025, 1, 1), threads=1025, limit=1024, limit_z=64): configure('k', 1, 1025)
    with finding('launch shared_size', bytes=49153, limit=49152): configure('k', 1, 1, shared=LIMITS.shared + 1)


@pytest.mark.parametrize('given,want', [
    (dict(shared=-1), 'shared_number'), (dict(shared=1.5), 'shared_number'),
    (dict(shared='x'), 'shared_number'), (dict(shared=2**80, opts_in=True), 'dynamic_size'),
    (dict(stream='x'), 'stream'), (dict(stream=-1), 'stream'), (dict(stream=1.5), 'stream'),
    (dict(cluster=1.5), 'sizes'), (dict(cluster=0), 'cluster_size'), (dict(cluster=-4), 'cluster_size'),
    (dict(cluster=16), 'cluster_size'), (dict(cluster=3), 'cluster_size'), (dict(cluster=(1, 2)), 'cluster_size')],
    ids=str)
def test_every_number_of_a_launch_is_checked(given, want):
    with finding(f'launch {want}'): configure('k', 16, 32, **given)
    assert configure('k', 16, 32, sim.cuda.stream(), np.int64(64), (4, 1), True)[3:] == (64, dim3(4))


def test_the_last_arguments_may_be_optional():
    for given in (1, 2): check_argument_count('k', ['x', 'n'], given, 1)
    for given in (0, 3):
        with finding('launch arguments', count=2, parameters='x, n', given=given):
            check_argument_count('k', ['x', 'n'], given, 1)


# both executors

@sim.cuda.jit
def simulated(x, n):
    i = sim.cuda.grid(1)
    if i < n: x[i] = i


@pytest.fixture(scope='module', params=['simulator', 'engine c', 'emulator'])
def k(request):
    if request.param == 'emulator':
        with cpp.on_emulator():
            yield cpp.cuda_kernel('__global__ void simulated(float *x, int n) { '
                                  'int i = blockIdx.x*blockDim.x + threadIdx.x; if (i < n) x[i] = i; }')
    else:
        with sim.options(engine='c' if request.param == 'engine c' else None): yield simulated


@pytest.fixture
def x(): return np.full(40, np.nan, np.float32)


@pytest.mark.parametrize('config', [(2, 32), ((2,), (32, 1)), (dim3(2), dim3(32)), (1, (32, 1)), (2, 32, None),
                                    (2, 32, 0, 64), ([2], [32], None, None)], ids=str)
def test_both_launch(k, x, config):
    k[config](x, 8)
    assert (x[:8] == np.arange(8)).all()


@pytest.mark.parametrize('config', [1, (1,), (1, 2, 3, 4, 5), (0, 32), (1, 2.5), (1, 32, None, -1), (1, 32, None, 'x'),
    (1, 32, None, 1.5), (1, 32, None, 2**40), (1, 32, 'x'), (1, 1025), ((1, 1, 1, 1), 1), ('1', 1)], ids=str)
def test_both_refuse_a_launch(k, x, config):
    with pytest.raises(LaunchError) as e: k[config](x, 8)
    assert e.value.kind == 'launch' and e.value.kernel == 'simulated'


@pytest.mark.parametrize('shared', [-4, 1.5, 'x', 2**40])
def test_no_other_way_into_a_launch(k, x, shared):
    go = ((lambda: k.launch((x, 8), 1, 32, shared=shared)) if hasattr(k, 'launch')
          else lambda: k.forall(8, 32, sharedmem=shared)(x, 8))
    with finding('launch shared_number|launch shared_size|launch shared_sum|launch dynamic_size'): go()


def test_both_want_brackets(k, x):
    with finding('launch no_brackets', kernel='simulated'): k(x, 8)


@pytest.mark.parametrize('more', [(), (1, 2, 3)])
def test_both_count_arguments(k, x, more):
    with finding('launch arguments', kernel='simulated', count=2, given=1 + len(more)): k[1, 32](x, *more)


def test_both_refuse_names(k, x):
    with pytest.raises(WrongArgument, match=saying('simulated:', 'n, grid')):
        k[1, 32](x, n=8, grid=1)
    assert np.isnan(x).all()


def test_a_launch_without_arguments_says_that_it_is_none(k):
    assert repr(k[2, 32]).startswith('simulated[2, 32], not launched')


def test_both_go_to_other_processes(k, x):
    for other in (pickle.loads(pickle.dumps(k)), copy.deepcopy(k)):
        x[:] = np.nan
        other[2, 32](x, 8)
        assert (x[:8] == np.arange(8)).all() and np.isnan(x[8:]).all()


def test_a_fraction_of_blocks_gets_a_hint(k, x):
    with pytest.raises(LaunchError, match=r'got \(1.25, 1, 1\).*cdiv\(n, m\)'): k[40/32, 32](x, 8)


@pytest.mark.parametrize('wrong,kind', [([1., 2.], 'list'), ('text', 'str'), ({}, 'dict')])
def test_both_say_which_argument_is_of_a_wrong_kind(k, wrong, kind):
    with pytest.raises(TypeError, match=f'simulated: argument 1, .*x, .*{kind}'): k[1, 32](wrong, 8)


def test_both_refuse_a_number_for_an_array(k):
    with pytest.raises((TypeError, Untranslatable), match='be indexed|a tensor'): k[1, 32](3, 8)
