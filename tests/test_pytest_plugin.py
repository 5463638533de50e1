"The plugin of pytest: kernels of tests run checked, a finding fails its test; without --gridstride nothing is imported"
import re, shutil, sys
from importlib.machinery import SourceFileLoader
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
from gridstride import as_gpu
from gridstride.checker import line_coverage
from gridstride.checker.baseline import read_baseline
from gridstride.checker.recorder import LaunchTarget, Recorder
from gridstride.sim import cuda
from found import names
from warm import run_python

pytest_plugins = ['pytester']

def test_pytest_does_not_rewrite_the_package():
    assert isinstance(line_coverage.__spec__.loader, SourceFileLoader)


TESTS = '''
import numpy as np, pytest, torch
from numba import cuda

@cuda.jit
def reverse(x, out, n):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    if n > 100:
        s[t] = 0
    out[t] = s[63 - t]

@cuda.jit
def same(out):
    out[0] = 1

@cuda.jit
def first(counter, out):
    out[0, cuda.blockIdx.x] = cuda.atomic.add(counter, 0, 1)

@cuda.jit
def previous(x, out):
    out[cuda.threadIdx.x] = x[cuda.threadIdx.x - 65]   # in Numba an index counts from the end, down to -64

def z(n, value=0): return np.full(n, value, np.float32)

def test_race(): reverse[1, 64](z(64), z(64), 3)

@pytest.mark.gridstride_allow('race')
def test_race_allowed():
    out = z(64)
    reverse[1, 64](z(64, 1), out, 3)
    assert out.sum() == 64

@pytest.mark.gridstride_allow('race')
def test_wrong_result_of_an_allowed_race():
    out = z(64)
    reverse[1, 64](z(64, 1), out, 3)
    assert out.sum() == 65

@pytest.mark.gridstride_allow('race')
def test_another_finding():
    same[1, 32](z(1))
    reverse[1, 64](z(64), z(64), 3)

@pytest.mark.gridstride_allow('before', 'race')
def test_one_allowed_after_another():
    out = z(64)
    previous[1, 64](np.arange(1, 65, dtype=np.float32), out)   # the read of thread 0 is skipped
    reverse[1, 64](z(64), z(64), 3)
    assert out[1] == 1 and out[0] == 0

def test_caught():
    try: reverse[1, 64](z(64), z(64), 3)
    except Exception: pass

def test_warning(): same[1, 32](z(1))

@pytest.mark.gridstride_allow(code='same_value')
def test_warning_allowed(): same[1, 32](z(1))

@pytest.mark.parametrize('n', [4])
def test_order_of_blocks(n, tmp_path):
    out = np.zeros((1, n), np.int32)
    first[n, 1](np.zeros(1, np.int32), out)
    assert not list(tmp_path.iterdir())   # a fixture of a function is new in each run
    (tmp_path/'a').write_text('')
    assert out[0, 0] < 2

@pytest.fixture(scope='module')
def launched():
    reverse[1, 64](z(64), z(64), 3)

def test_fixture(launched): pass

@pytest.fixture(scope='module')
def launched_in_a_module():
    reverse[1, 64](z(64), out := z(64), 3)
    return out

@pytest.mark.gridstride_allow('race')
def test_fixture_allowed(launched_in_a_module): assert launched_in_a_module.sum() == 0

def test_gpu(): assert torch.ones(2, device='cuda').is_cuda
'''


def plugin():
    "The option that loads the plugin where the package is not installed with its entry points"
    installed = any(o.value.startswith('gridstride.') for o in entry_points(group='pytest11'))
    return [] if installed else ['-p', 'gridstride.checker.pytest_plugin']


def run(pytester, *options):
    "Run pytest in a new process"
    return pytester.runpytest_subprocess(*plugin(), '-p', 'no:cacheprovider', '-rA', *options)


def run_warm(pytester, *options):
    "Run pytest in a process that is forked from one that has imported torch"
    return run_python('-m', 'pytest', *plugin(), '-p', 'no:cacheprovider', '-rA', *options, cwd=pytester.path)


def num_outcomes(result):
    "Return {outcome: number of tests}, of the last line; a warm process also warns that modules are imported already"
    nouns = pytest.RunResult.parse_summary_nouns(result.stdout.splitlines())
    return {noun: number for noun, number in nouns.items() if noun != 'warnings'}


def outcomes(result):
    "{name of a test: outcome}, of the summary"
    return {name: how for how, name in re.findall(r'^(PASSED|FAILED|ERROR) \S+::(\w+)', result.stdout, re.M)}


@pytest.mark.slow
def test_findings_fail_tests_unless_they_are_allowed(pytester):
    file = pytester.makepyfile(TESTS)
    result = run_warm(pytester, '--gridstride', '--gridstride-seeds', '5', '--gridstride-coverage')
    said = result.stdout
    assert outcomes(result) == dict(
        test_race='FAILED', test_race_allowed='PASSED', test_wrong_result_of_an_allowed_race='FAILED',
        test_another_finding='FAILED', test_one_allowed_after_another='PASSED',
        test_caught='FAILED', test_warning='FAILED', test_warning_allowed='PASSED', test_order_of_blocks='FAILED',
        test_fixture='ERROR', test_fixture_allowed='PASSED', test_gpu='PASSED'), said
    lines = TESTS.splitlines()  # `makepyfile` removes the first, which is empty
    race, write, launch = (lines.index(next(o for o in lines if text in o))
                           for text in ('out[t] = s', 's[t] = x', 'def test_race'))
    assert names(said, 'racecheck/race', f'{file.name}:{race}', '*', write, 's[t] = x[t]', '>', race, 'out[t] = s[63',
                 'racecheck-race.html', f'line {launch} of', f"pytest '{file.name}::test_race' --gridstride")
    assert names(said, 'racecheck/same_value', 'def same') and names(said, 'assert', '64.0', '== 65')
    assert names(said, f'{file.name}: 8 of 9', f': {write + 2}', f'line {write + 1}: none of')
    assert names(said, f"{file.name}::test_order_of_blocks[4]' --gridstride --gridstride-replay reverse")


@pytest.mark.slow
def test_options_replay_a_schedule_and_allow_a_finding(pytester):
    pytester.makepyfile(TESTS)
    result = run_warm(pytester, '--gridstride', '--gridstride-replay', 'reverse', '-k', 'order_of_blocks')
    assert result.returncode == 1 and names(result.stdout, 'reverse')
    result = run_warm(pytester, '--gridstride', '--gridstride-allow', 'race', '-k', 'race or fixture')
    assert outcomes(result) == dict(test_race='PASSED', test_race_allowed='PASSED', test_fixture='PASSED',
                                    test_fixture_allowed='PASSED',
                                    test_wrong_result_of_an_allowed_race='FAILED')
    result = run_warm(pytester, '--gridstride', '--gridstride-allow', 'nonsense', '-k', 'order_of_blocks')
    assert result.returncode == 4 and 'nonsense' in result.stderr
    result = run_warm(pytester, '--gridstride', '--gridstride-replay', 'backward', '-k', 'order_of_blocks')
    assert result.returncode == 4 and 'shuffle:SEED' in result.stderr


def test_nothing_is_imported_without_the_option(pytester):
    pytester.makepyfile('''
import sys
def test_modules(): assert not {'torch', 'numpy', 'numba', 'gridstride.sim', 'gridstride.as_gpu'} & set(sys.modules)
''')
    result = run(pytester)
    assert result.ret == 0 and 'gridstride_allow' in run(pytester, '--markers').stdout.str()


NEGATIVE = '''
import sys
import numpy as np
from numba import cuda

@cuda.jit
def last(x, out):
    i = cuda.grid(1)
    out[i] = x[i - 4]

def test_last():
    out = np.zeros(3)
    last[1, 3](np.arange(3.), out)
    assert out.tolist() == [0, 0, 1]  # an allowed read out of bounds gives 0

def test_torch(): assert "torch" not in sys.modules
'''


@pytest.mark.slow
def test_a_variable_makes_numba_import_the_simulator(pytester, monkeypatch):
    monkeypatch.setenv('GRIDSTRIDE_CUDASIM', '1')
    pytester.makeconftest('from numba import cuda\nfrom numba_cuda_mlir import cuda as mlir\n'
                          'assert cuda.simulated and mlir.simulated')
    pytester.makepyfile(NEGATIVE)
    assert run(pytester).parseoutcomes() == dict(passed=1, failed=1)
    assert run(pytester, '--gridstride-allow', 'before').parseoutcomes() == dict(passed=2)


NEW_FINDING = '''
@cuda.jit
def last_but_one(x, out):
    i = cuda.grid(1)
    out[i] = x[i - 5]

def test_last_but_one():
    last[1, 3](np.arange(3.), np.zeros(3))
    last_but_one[1, 3](np.arange(3.), np.zeros(3))
'''


@pytest.mark.slow
def test_only_findings_that_are_not_in_the_baseline_fail(pytester):
    pytester.makepyfile(NEGATIVE)
    written = run_warm(pytester, '--gridstride', '--gridstride-write-baseline', 'known.json', '-k', 'last')
    assert num_outcomes(written) == dict(passed=1, deselected=1)
    assert names(written.stdout, 'known.json', 1)
    entry, = read_baseline(pytester.path/'known.json')
    assert (entry['code'], entry['kernel'], entry['source']) == ('before', 'last', 'out[i] = x[i - 4]')
    pytester.makepyfile('# a line\n' + NEGATIVE + NEW_FINDING)
    options = '--gridstride', '--gridstride-baseline', 'known.json', '-k', 'last'
    result = run_warm(pytester, *options)
    assert num_outcomes(result) == dict(passed=1, failed=1, deselected=1)
    assert names(result.stdout, 'memcheck/before', 'x[i - 5]')
    pytester.makepyfile(NEGATIVE.replace('x[i - 4]', 'x[i]').replace('[0, 0, 1]', '[0, 1, 2]'))
    result = run_warm(pytester, *options)
    assert num_outcomes(result) == dict(passed=1, deselected=1) and names(result.stdout, 'memcheck/before')


# Coverage

@cuda.jit
def branching(x, out):
    i = cuda.grid(1)
    if i < 48:
        out[i] = x[i]
    else:
        out[i] = 0
    if i > 500:
        out[0] = 1


def test_coverage_counts_lines_and_warps():
    coverage = line_coverage.LineCoverage()
    with Recorder(launch_context=coverage.recording).recording():
        branching[1, 128](np.zeros(128, np.float32), np.zeros(128, np.float32))
    (file, one), = coverage.to_dict().items()
    first = branching.py_func.__code__.co_firstlineno + 2
    assert file.endswith('test_pytest_plugin.py') and one['executable'] == [first + i for i in (0, 1, 2, 4, 5, 6)]
    assert one['executed'] == [first + i for i in (0, 1, 2, 4, 5)]
    assert one['branches'][str(first + 1)] == [2, 3, 1]  # of four warps one diverges
    assert line_coverage.merge_coverages([{file: one}, {file: one}])[file]['branches'][str(first + 1)] == [4, 6, 2]
    said = list(line_coverage.report({file: one}))
    assert names(said[0], '5 of 6', first + 6) and names(said[1], f'line {first + 1}', '1 of 4')
    assert names(said[2], f'line {first + 5}', 'none of 4')


def test_tracing_is_restored():
    before = sys.gettrace()
    with line_coverage.LineCoverage().recording(LaunchTarget(None, __file__)): assert sys.gettrace() is not before
    assert sys.gettrace() is before


CUDA = r'''
__device__ float scale(float v, int mode) {
    if (mode == 3)
        return v * 7;
    return v * 2;
}

__global__ void scaled(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = scale(x[i], 1);
    } else if (i > 1000) {
        out[0] = 3;
    }
    for (int j = 0; j < i / 32; j++)
        while (const int *none = nullptr) out[0] = *none;
}

__global__ void other(float *out) {
    out[0] = 1;
}'''


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != 'linux' or not shutil.which('objdump'), reason='objdump lists compiled lines')
def test_coverage_counts_lines_and_warps_of_cuda():
    from gridstride import cuda_kernel
    coverage = line_coverage.LineCoverage()
    coverage.trace_cuda()
    kernels = cuda_kernel(CUDA)
    coverage.close()
    rows = Path(__file__).read_text().splitlines()
    statements = ('if (mode == 3)', 'return v * 7;', 'return v * 2;', 'out[i] = scale(x[i], 1);', 'out[0] = 3;',
                  'out[0] = 1;', 'if (i < n) {', '} else if (i > 1000) {', 'for (int j = 0; j < i / 32; j++)')
    line = {text: next(i for i, row in enumerate(rows, 1) if row.strip() == text) for text in statements}
    with Recorder(launch_context=coverage.recording).recording():
        kernels.scaled[1, 64](np.ones(50, np.float32), np.zeros(50, np.float32), 50)
    (file, one), = coverage.to_dict().items()
    assert file.endswith('test_pytest_plugin.py') and {*line.values()} <= {*one['executable']}
    missed = {line[text] for text in ('return v * 7;', 'out[0] = 3;', 'out[0] = 1;')}
    assert {*one['executable']} - {*one['executed']} == missed
    branches = [0, 2, 0], [2, 1, 1], [0, 1, 0], [1, 2, 0]  # of two warps the second diverges; loops count iterations
    assert one['branches'] == {str(line[text]): counts for text, counts in zip(
        ('if (mode == 3)', 'if (i < n) {', '} else if (i > 1000) {', 'for (int j = 0; j < i / 32; j++)'), branches)}
    with Recorder(launch_context=coverage.recording).recording(): kernels.other[1, 1](np.zeros(1, np.float32))
    assert {*one['executable']} - {*coverage.to_dict()[file]['executed']} == missed - {line['out[0] = 1;']}


def test_coverage_counts_lines_of_triton():
    coverage = line_coverage.LineCoverage()
    with as_gpu.as_gpu():
        import torch, triton, triton.language as tl

        @triton.jit
        def copied(x, out, n: tl.constexpr):
            i = tl.arange(0, 16)
            if n > 16:
                tl.store(out, 0)
            tl.store(out + i, tl.load(x + i))

        with Recorder(launch_context=coverage.recording).recording():
            copied[(1,)](torch.ones(16, device='cuda'), torch.zeros(16, device='cuda'), 16)
    (file, one), = coverage.to_dict().items()
    first = copied.fn.__code__.co_firstlineno + 2
    assert file.endswith('test_pytest_plugin.py') and one['executed'] == [first, first + 1, first + 3]
    assert one['executable'] == [first + i for i in range(4)]
