"The checker outside the course: findings of every dialect as one record, their lines, their formats, and the command"
import ast, json, os, re, runpy, signal, subprocess, sys, warnings
from configparser import ConfigParser
from dataclasses import replace
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from gridstride import as_gpu, sim, tile
from gridstride.__main__ import main as gridstride
from gridstride.checker import assembly, check, formats, pages, pytest_plugin, run, schedules, timing, worker, workers
from gridstride.checker.baseline import AllowedFindings, read_baseline
from gridstride.checker.check import FileResult, exit_status
from gridstride.checker.command_line import module_command
from gridstride.checker.finding import Finding, checks_to_disable, finding_of_error, settings_without
from gridstride.checker.recorder import Recorder
from gridstride.checker.source_map import line_in_file, locate_in_files
from gridstride.checker.worker import Job
from gridstride.cpp import cuda_kernel
from gridstride.cpp.toolchain import runtime_library
from gridstride.diagnostics.messages import MESSAGES
from gridstride.diagnostics.settings import change, settings
from gridstride.sim import cuda
from gridstride.sim.thread_dependence import index_depends_on_thread
from found import finding, names, warning
from warm import run_python

# Programs, each with the line of its mistake

NUMBA = '''
import numpy as np
from numba import cuda

@cuda.jit
def reverse(x, out):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    out[t] = s[63 - t]

try: reverse[1, 64](np.zeros(64, np.float32), np.zeros(64, np.float32))
except Exception: print('caught')
'''
CUDA_IN_PYTHON = """
import numpy as np
from gridstride import cuda_kernel

shift = cuda_kernel('''
__global__ void shift(const float *x, float *out, int n) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i + 1];
}''')
shift[4, 256](np.zeros(1000, np.float32), np.zeros(1000, np.float32), 1000)
"""
CUDA = '''
__global__ void shift(const float *x, float *out, int n) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i + 1];
}
'''


@cuda.jit
def racy(x, out):
    s = cuda.shared.array(64, np.float32)
    s[cuda.threadIdx.x] = x[cuda.threadIdx.x]
    out[cuda.threadIdx.x] = s[63 - cuda.threadIdx.x]


@cuda.jit
def same_value(out): out[0] = 1


@cuda.jit
def raising(x):
    if x[0] < 1: raise ValueError('small')


def line_of(text, program): return 1 + next(i for i, line in enumerate(program.splitlines()) if text in line)


# Recording

def recorded(launch, **options):
    "The findings of a launch that may raise, and the recorder"
    recorder = Recorder(**options)
    with recorder.recording(), warnings.catch_warnings():
        warnings.simplefilter('ignore')
        try: launch()
        except sim.KernelError as e: recorder.error = e
    return recorder


def is_here(file): return Path(file).resolve() == Path(__file__).resolve()


def zeros(n): return np.zeros(n, np.float32)


def test_a_finding_is_recorded_even_if_the_program_catches_it():
    found = recorded(lambda: racy[1, 64](zeros(64), zeros(64)), schedule='reverse')
    o, = found.findings
    assert (o.kind, o.code, o.level, o.dialect, o.kernel) == ('racecheck', 'race', 'error', 'python', 'racy')
    assert is_here(o.file) and o.source == 'out[cuda.threadIdx.x] = s[63 - cuda.threadIdx.x]'
    assert o.line == line_of('out[cuda.threadIdx.x] = s', Path(__file__).read_text())
    assert o.other['line'] == o.line - 1 and o.other['file'] == o.file and o.array == 's' and len(o.thread) == 3
    assert (o.schedule, o.hint, found.num_launches) == ('reverse', found.error.hint, 1)
    assert o.page.endswith('/messages/racecheck-race.html')
    stored = json.dumps(o.to_dict())
    assert json.dumps(Finding.from_dict(json.loads(stored)).to_dict()) == stored


def test_a_warning_is_recorded_even_if_a_filter_hides_it():
    found = recorded(lambda: same_value[1, 32](zeros(1)))
    o, = found.findings
    assert (o.kind, o.code, o.level) == ('racecheck', 'same_value', 'warning') and is_here(o.file)
    assert o.line == line_of('def same_value', Path(__file__).read_text())


def test_what_a_kernel_raises_is_a_finding_only_if_nothing_catches_it():
    found = recorded(lambda: raising[1, 1](zeros(1)))
    assert not found.findings and found.num_launches == 1
    assert found.add_error(found.error).kind == 'raise' and len(found.findings) == 1
    assert found.add_error(ZeroDivisionError()) is None
    assert found.add_error(sim.NotSimulated('textures')) is None


def test_nothing_stays_wrapped():
    before = sim.cuda.Kernel._launch
    recorded(lambda: None)
    assert sim.cuda.Kernel._launch is before


def test_a_string_of_cuda_c_is_found_in_its_file():
    src = '''
    __global__ void past_the_end(float *x) {
        x[threadIdx.x] = 1;  // the line of the finding
    }'''
    found = recorded(lambda: cuda_kernel(src)[1, 64](zeros(63)))
    o, = found.findings
    assert (o.kind, o.dialect) == ('memcheck', 'cuda') and is_here(o.file)
    assert o.line == line_of('// the line of the finding', Path(__file__).read_text())


def test_lines_around_a_line_vote():
    file = 'a\n}\nint f() {\nx[i] = 1;\n}\nint g() {\nx[i] = 1;\n}\n'
    assert line_in_file(file, 'int g() {\nx[i] = 1;\n}', 2) == 7
    assert line_in_file(file, 'x[i] = 1;', 1) is None
    assert line_in_file(file, 'int h() {\ny[i] = 1;\n}', 2) is None


def test_cuda_c_in_a_notebook_is_found_in_its_cell(tmp_path):
    path = tmp_path/'n.ipynb'
    sources = ['import torch\n', ['%%cuda\n', *CUDA.splitlines(True)]]
    path.write_text(json.dumps(dict(cells=[dict(source=o) for o in sources])))
    line = line_of('out[i] =', CUDA)
    assert locate_in_files('shift.cu', line, {'shift.cu': CUDA}, str(path)) == (str(path), line + 1, 1)
    assert locate_in_files('shift.cu', 1, {'shift.cu': 'int x;'}, str(path)) == (str(path), None, None)


def test_a_finding_in_no_file_has_no_line(tmp_path):
    program = tmp_path/'a.py'
    program.write_text('pass')
    assert locate_in_files('b.cu', 3, {}, str(program)) == (str(program), None, None)
    assert locate_in_files(f'{tmp_path}/n.ipynb, cell 4', 2) == (f'{tmp_path}/n.ipynb', 2, 4)


# Schedules

def test_schedules_are_sorted_from_simple_to_complex():
    assert [str(o) for o in schedules.schedules_of(seeds=3)] == ['forward', 'reverse', 'shuffle:0']
    assert [str(o) for o in schedules.schedules_of('shuffle', 2)] == ['shuffle:0', 'shuffle:1']
    for text in ('forward', 'reverse', 'shuffle:7', 'shuffle:7:2'): assert str(schedules.parse_schedule(text)) == text
    for text in ('backward', 'forward:1', 'shuffle:x', ''):
        with pytest.raises(ValueError, match='shuffle:SEED'): schedules.parse_schedule(text)


# Formats

def a_finding(**fields):
    return Finding(**{**dict(kind='racecheck', code='race', level='error', dialect='cuda', message='racecheck: a\n b',
                             summary='50% of a:b', file='a b.cu', line=3, hint='b', page='https://s/race.html',
                             block=(0, 0, 0), thread=(1, 0, 0), schedule='shuffle:3',
                             other=dict(file='c.cu', line=9, source='', block=None, thread=None)), **fields})


RESULTS = [FileResult('a b.cu', [a_finding()], 2, ['forward']), FileResult('d.py', [], 0, ['forward'], 'no\nkernel')]


def test_exit_statuses():
    assert exit_status(RESULTS[:1]) == 1 == exit_status(RESULTS)
    assert exit_status(RESULTS[1:]) == 2 and exit_status([FileResult('a.py', launches=1)]) == 0


def test_json_has_the_documented_fields():
    report = json.loads(formats.to_json(RESULTS))
    assert report['version'] == 1 == formats.JSON_VERSION and report['tool']['name'] == 'gridstride'
    found, = report['findings']
    assert found['thread'] == [1, 0, 0] and found['file'] == 'a b.cu' and found['schedule'] == 'shuffle:3'
    assert [(o['file'], o['error']) for o in report['files']] == [('a b.cu', None), ('d.py', 'no\nkernel')]


def test_text_names_file_line_code_and_replay():
    text = formats.to_text(RESULTS)
    assert text.startswith('a b.cu:3: error: 50% of a:b [racecheck/race]\n b\n')
    assert '--replay shuffle:3' in text
    counts = dict(o.split(' ', 1)[::-1] for o in text.splitlines()[-1].split(', '))
    assert counts == {'finding': '1', 'files': '2', 'launches': '2', 'schedule': '1', 'not checked': '1'}


def test_annotations_are_escaped_as_github_reads_them():
    first, second = formats.to_github(RESULTS).splitlines()
    assert first.startswith('::error file=a b.cu,line=3,title=racecheck/race::a b.cu:3: error: 50%25 of a:b [')
    assert '%0A b%0A' in first
    assert second == '::error file=d.py,title=not checked::gridstride: no%0Akernel'
    comma = formats.to_github([FileResult('a', [a_finding(file='x,y:z%', cell=4)])])
    assert comma.startswith('::error file=x%2Cy%3Az%25,title=')  # a line of a cell is none of the file


HERE = Path(__file__).parent
SCHEMAS = dict(json=json.loads(Path(check.__file__).with_name('report.schema.json').read_text()),
               sarif=json.loads((HERE/'sarif.schema.json').read_text()))


def validate(format, text):
    "Parse a report, and raise an error unless it fits the schema of its format"
    jsonschema.validate(report := json.loads(text), SCHEMAS[format])
    return report


@pytest.mark.parametrize('format', SCHEMAS)
def test_reports_fit_their_schemas(format):
    notebook = FileResult('n.ipynb', [a_finding(cell=2, other=None, line=None)], launches=1)
    for results in (RESULTS, [], [FileResult('a.py', launches=1, schedules=['forward', 'reverse'])], [notebook]):
        validate(format, formats.FORMATS[format](results))


@pytest.mark.parametrize('changed', [dict(level='note'), dict(line='3'), dict(thread=[0.5]), dict(schedule='backward')],
                         ids=str)
def test_the_schema_refuses_wrong_fields(changed):
    report = json.loads(formats.to_json(RESULTS))
    report['findings'][0].update(changed)
    with pytest.raises(jsonschema.ValidationError): validate('json', json.dumps(report))


def test_the_schema_has_all_fields():
    properties = SCHEMAS['json']['$defs']['finding']
    assert {*properties['properties']} == {*properties['required']} == {*a_finding().to_dict()}
    assert {*SCHEMAS['json']['$defs']['file']['required']} == {*FileResult('a').to_dict()}


def test_sarif_names_the_rule_and_both_lines():
    log = json.loads(formats.to_sarif(RESULTS))
    assert log['version'] == '2.1.0' and set(log) == {'$schema', 'version', 'runs'}
    one, = log['runs']
    driver, (result,), (invocation,) = one['tool']['driver'], one['results'], one['invocations']
    location = result['locations'][0]['physicalLocation']
    assert result['ruleId'] == driver['rules'][0]['id'] == 'racecheck/race' and result['level'] == 'error'
    assert location == dict(artifactLocation=dict(uri='a%20b.cu'), region=dict(startLine=3))
    assert result['relatedLocations'][0]['physicalLocation']['artifactLocation']['uri'] == 'c.cu'
    assert invocation['executionSuccessful'] is False
    assert json.loads(formats.to_sarif([FileResult('a.py', launches=1)]))['runs'][0]['invocations'] == [
        dict(executionSuccessful=True)]


# Commands

@pytest.mark.parametrize('argv', [['gone.cu'], ['notes.txt'], ['a.cu', '--allow', 'nonsense'], ['a.cu', '--seeds', '0'],
                                  ['a.cu', '--order', 'reverse', '--seeds', '2'],
                                  ['a.cu', '--replay', 'backward'], ['a.cu', '--format', 'xml'],
                                  ['a.cu', '--baseline', 'a.cu'], []], ids=' '.join)
def test_usage_errors_end_with_2(argv, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ('a.cu', 'notes.txt'): (tmp_path/name).write_text('')
    with pytest.raises(SystemExit) as e: check.main(argv)
    assert e.value.code == 2 and 'gridstride check' in capsys.readouterr().err


@pytest.mark.parametrize('name, text, has_cuda', [
    ('a.cu', '', True), ('a.py', "load_inline(cuda_sources='__global__ void k() {}')", True),
    ('a.py', 'from torch.utils.cpp_extension import load', True), ('a.py', 'from numba import cuda', False)])
def test_the_emulator_is_compiled_in_this_process_where_its_progress_is_shown(name, text, has_cuda, tmp_path,
                                                                              monkeypatch):
    prepared = []
    monkeypatch.setattr(runtime_library, 'prepare_runtime', lambda: prepared.append(name))
    (tmp_path/name).write_text(text)
    check._prepare_emulator([tmp_path/name])
    assert bool(prepared) == has_cuda


def test_a_reader_that_ends_early_causes_no_error():
    command = [sys.executable, '-m', 'gridstride', 'explain', 'race']
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == '' and process.wait() == 1


def test_an_unknown_command_ends_with_2():
    done = subprocess.run([sys.executable, '-m', 'gridstride', 'nonsense'], text=True, capture_output=True)
    assert done.returncode == 2 and 'nonsense' in done.stderr


def test_explain_shows_a_page(capsys):
    for word in ('race', 'racecheck/race', 'racecheck-race'):
        assert pages.main([word]) == 0
        said = capsys.readouterr().out
        assert names(said, 'racecheck/race', 'Wrong:', 's[t] = x[t]', 'Right:', 'syncthreads', 'RacecheckError')
    assert pages.main([]) == 0 and len(capsys.readouterr().out.splitlines()) == len(MESSAGES)
    with pytest.raises(SystemExit) as e: pages.main(['rase'])
    assert e.value.code == 2 and 'race' in capsys.readouterr().err


def test_every_message_has_a_page_in_the_terminal():
    assert not [key for key in MESSAGES if not names(pages.page_text(*key), '/'.join(key), f'{key[0]}-{key[1]}.html')]


def test_run_takes_the_command_of_the_kind_of_file(tmp_path, capsys):
    (tmp_path/'a.cu').write_text('int main(int n, char **) { return n; }')
    assert run.main(['-D', 'X=1', str(tmp_path/'a.cu'), 'one']) == 2
    with pytest.raises(SystemExit) as e: run.main(['nothing'])
    assert e.value.code == 2


def test_asm_and_bench_of_a_file(tmp_path, capsys):
    file = tmp_path/'a.cu'
    file.write_text('__global__ void twice(float *x, int n) { int i = blockIdx.x*blockDim.x + threadIdx.x; '
                    'if (i < n) x[i] *= 2; }')
    assert timing.main([str(file), '--launch', 'twice', '--size', '100']) == 0
    assert names(capsys.readouterr().out, 'no GPU', 'twice')
    for command, argv in ((assembly, []), (timing, ['--launch', 'twice'])):
        with pytest.raises(SystemExit) as e: command.main(['gone.cu', *argv])
        assert e.value.code == 2
    assert timing.main([str(file), '--launch', 'thrice']) == 2


def test_a_program_that_ends_its_process_keeps_its_findings():
    line = dict(finding=a_finding().to_dict())
    ended = check._parse_report([line], 3)
    assert [o.code for o in ended.findings] == ['race'] and ended.launches == 0 and 'exit status 3' in ended.error
    status = dict(launches=2, error=None, interruption=None)
    assert check._parse_report([line, status], 0)[1:4] == (2, None, None)


@cuda.jit
def endless(out):
    while True: out[cuda.threadIdx.x] += 1


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=['foreground', 'background'])
def handler_of_interrupts(request):
    "The handler of SIGINT, which a shell's background job ignores"
    previous = signal.signal(signal.SIGINT, request.param)
    yield request.param
    signal.signal(signal.SIGINT, previous)


def test_the_time_limit_interrupts_a_kernel(handler_of_interrupts):
    recorder = Recorder()
    with recorder.recording(), pytest.raises(KeyboardInterrupt) as e, worker.TimeLimit(1, recorder, None) as limit:
        endless[1, 32](np.zeros(32))
    line = endless.py_func.__code__.co_firstlineno + 2
    assert names(limit.interruption(e.value), 'endless', f'tests/test_checker.py, line {line}', 'out[cuda.threadIdx.x]')
    assert signal.getsignal(signal.SIGINT) == handler_of_interrupts
    with worker.TimeLimit(600, recorder, None) as limit: pass
    assert limit.interruption() is None and limit._timer.finished.is_set()


class ReportsInTime:
    "Workers whose first job takes all the time that is left, and reports a race and the interruption"
    seconds_left = 1

    def run(self, job, output_path):
        self.seconds_left = 0
        lines = dict(finding=a_finding().to_dict()), dict(launches=2, error=None, interruption='kernel k, line 3')
        Path(job.report).write_text(''.join(json.dumps(line) + '\n' for line in lines))
        return 0, ''


def test_at_the_time_limit_the_findings_so_far_are_reported(tmp_path):
    "They may be allowed, or a warning; no program is started once no time is left"
    for allowed in [], ['race']:
        job, options = Job(str(tmp_path/'a.py')), (schedules.schedules_of(seeds=3), AllowedFindings(allowed), 60)
        done = check._check_file(job, *options, workers := ReportsInTime())
        assert (done.status, done.schedules, done.launches) == ('time limit', ['forward'], 2)
        assert names(done.error, 'kernel k, line 3')
        assert exit_status([done]) == (2 if allowed else 1) and json.loads(formats.to_json([done]))
        late = check._check_file(job, *options, workers)
        assert late.status == 'time limit' and not late.launches and exit_status([late]) == 2


TWO_RACES = """
__global__ void two(int *a, int *b) {
    a[0] += 1;
    b[0] = threadIdx.x;
}
int main() {
    int *a;
    cudaMalloc(&a, 8);
    cudaMemset(a, 0, 8);
    two<<<1, 32>>>(a, a + 1);
    cudaDeviceSynchronize();
}
"""


@cuda.jit
def two(a, b):
    a[0] += 1
    b[0] = cuda.threadIdx.x


@cuda.jit
def unwritten(out):
    local = cuda.local.array(2, np.float32)
    shared = cuda.shared.array(32, np.float32)
    out[cuda.threadIdx.x] = local[0]
    out[cuda.threadIdx.x] += local[1]
    out[cuda.threadIdx.x] += shared[cuda.threadIdx.x]


@cuda.jit
def skipping(x, matrix, counts, out):
    t = cuda.threadIdx.x
    out[t] = x[t + 2]
    x[t - 3] = 7
    out[t] += matrix[t - 1, 0]
    row = matrix[t]
    row[1] += 5
    cuda.atomic.add(counts, t, 1)
    out[t] += cuda.shared.array(0, np.float32)[t] + TABLE[t] + (1, 2)[t]
    TABLE[0] = 3
    if t < 3:
        cuda.syncthreads()
        out[t] += cuda.shfl_sync(0b1111, 1, 3)
        out[t] += cuda.shfl_sync(0b0110, 1, 1)


TABLE = np.ones(4, np.float32)
SEVERAL_FINDINGS = """#include <cuda_pipeline.h>
__global__ void several(const int *x, int *out) {
    __shared__ int s[32];
    out[0] = threadIdx.x;
    out[threadIdx.x + 1] = x[threadIdx.x + 32];
    out[threadIdx.x + 33] = s[threadIdx.x];
    out[threadIdx.x + 65] = *(const short *)((const char *)x + 1);
}
__global__ void copies(const int *x, int *out) {
    __shared__ alignas(16) int s[128];
    __pipeline_memcpy_async(s + 4 * threadIdx.x, x + 4 * threadIdx.x, 16);
    out[threadIdx.x] = s[4 * threadIdx.x];
    __pipeline_commit();
    out[threadIdx.x + 32] = s[4 * threadIdx.x];
    __pipeline_wait_prior(0);
    out[threadIdx.x + 64] = s[threadIdx.x];
}
"""
SKIPPING = """
__device__ int table[4];
__global__ void skipping(const int *x, int *out, int *counts) {
    __shared__ int s[64];
    int t = threadIdx.x, *shared = s, *global = table;
    s[t] = s[t + 32] = t;
    out[t + 100000] = 7;
    global[t] = 1;
    shared[t + 64] = 7;
    atomicAdd(&counts[t], 1);
    if (t < 30) __syncthreads();
    __syncthreads();
    out[t] = x[t - 100000] + out[t + 100000] + s[t + 32] + global[t];
    if (t < 20) return;
    __syncthreads();
    out[t] += shared[t + 64];
}
"""
RACES_OF_PROGRAMS = """
@triton.jit
def several(a, b, c):
    one = tl.program_id(0) + tl.arange(0, 4) * 0
    tl.store(a + one, tl.arange(0, 4))
    tl.store(b, tl.program_id(0))
    tl.store(b + 1, tl.load(b + 1) + 1)
    tl.load(b + 2)
    tl.atomic_add(b + 2, 1)
    tl.store(a + 4 + one, tl.load(a + 4 + one) + tl.arange(0, 4))
    tl.store(c + tl.program_id(0), tl.load(c + tl.program_id(0)))
"""
SKIPPING_PROGRAM = """
@triton.jit
def skipping(x, counts, out):
    i = tl.arange(0, 8)
    a = tl.load(x + i)
    b = tl.load(x + i - 1, i < 4, other=9)
    tl.store(out + i + 1, a + b)
    tl.atomic_add(counts + i, 1)
    tl.store(out + 100, tl.load(x + 100))
    pointer = (tl.load(counts) * 8).to(tl.pointer_type(tl.float32))
    tl.store(out, tl.load(pointer) + 5)
    tl.store(pointer, 1)
"""


def lines_of_findings(kernel, grid, arrays, codes):
    """Require that launches that allow all earlier findings have these codes, and then none; return the lines.

    The checker allows a finding by the same steps, and `arrays` are those after the last launch."""
    allowed, lines, initial_arrays = set(), [], [a.copy() for a in arrays]
    for code in codes:
        with change(settings, allowed_findings=frozenset(allowed)), finding(code) as e: kernel[grid](*arrays)
        lines.append(e.value.line)
        allowed_code = AllowedFindings([e.value.code])
        (_, *step), = checks_to_disable([finding_of_error(e.value)], allowed_code, set())
        assert step == [kernel.__name__, code.split()[1], e.value.line]
        allowed.add((step[1], step[0], step[2]))
        for array, initial in zip(arrays, initial_arrays): array[...] = initial
    with change(settings, allowed_findings=frozenset(allowed)):
        assert not recorded(lambda: kernel[grid](*arrays)).findings
    return lines


def test_a_kernel_continues_after_allowed_findings():
    arrays = np.zeros(1, np.int32), np.zeros(1, np.int32)
    for kernel in two, cuda_kernel(TWO_RACES[:TWO_RACES.index('int main')]):
        first, second = lines_of_findings(kernel, (1, 32), arrays, ['racecheck race'] * 2)
        assert second == first + 1
    codes = [f'initcheck unwritten_{space}' for space in ('local', 'local', 'shared')]
    lines = lines_of_findings(unwritten, (1, 32), [np.zeros(32, np.float32)], codes)
    assert lines == [lines[0], lines[0] + 1, lines[0] + 2]
    kernels = cuda_kernel(SEVERAL_FINDINGS)
    codes = 'memcheck outside', 'initcheck unwritten_shared', 'memcheck misaligned', 'racecheck race'
    arrays = np.zeros(32, np.int32), np.zeros(97, np.int32)
    assert lines_of_findings(kernels.several, (1, 32), arrays, codes) == [5, 6, 7, 4]
    codes = 'racecheck copy_not_committed', 'racecheck copy_not_waited_for', 'racecheck race'
    arrays = np.zeros(128, np.int32), np.zeros(97, np.int32)
    assert lines_of_findings(kernels.copies, (1, 32), arrays, codes) == [12, 14, 16]


def test_accesses_out_of_bounds_are_skipped_after_allowed_findings():
    "A skipped read gives 0; other findings of the same kernel and line are found"
    arrays = np.float32([1, 2, 3, 4]), np.ones((4, 2), np.float32), np.zeros(2, np.int32), np.zeros(4, np.float32)
    memcheck = 'outside before before outside no_dynamic outside constant'.split()
    synccheck = 'diverged lane_in_other_branch source_lane thread_not_in_mask'.split()
    codes = [*(f'memcheck {code}' for code in memcheck), *(f'synccheck {code}' for code in synccheck)]
    lines = lines_of_findings(skipping, (1, 4), arrays, codes)
    assert [line - lines[0] for line in lines] == [0, 1, 2, 5, 6, 6, 7, 9, 10, 10, 11]
    assert arrays[0].tolist() == [7, 2, 3, 4] and arrays[1][:, 1].tolist() == [6] * 4 and arrays[2].tolist() == [1, 1]
    assert TABLE.tolist() == [1] * 4


def test_cuda_skips_accesses_out_of_bounds_after_allowed_findings():
    "Far from all arrays a skipped read gives 0; a skipped write is undone"
    kernel = cuda_kernel(SKIPPING)
    arrays = np.ones(32, np.int32), np.zeros(32, np.int32), np.zeros(4, np.int32)
    codes = 'outside outside_shared outside outside diverged before outside diverged outside_shared skipped'.split()
    kinds = ['synccheck' if code in ('skipped', 'diverged') else 'memcheck' for code in codes]
    lines = lines_of_findings(kernel, (1, 32), arrays, [f'{kind} {code}' for kind, code in zip(kinds, codes)])
    assert lines == [7, 9, 8, 10, 11, 13, 13, 12, 16, 15]
    assert arrays[1].tolist() == [t + (t < 4) for t in range(32)] and arrays[2].tolist() == [1] * 4


@pytest.mark.parametrize('distance', [1 << 14, 1 << 26, 1 << 28])
def test_an_allowed_access_far_from_its_array_is_skipped(distance):
    "Whatever array is the nearest to its address"
    kernel = cuda_kernel(f'__global__ void far(int *out) {{ out[threadIdx.x + {distance}] = 7; }}')
    assert lines_of_findings(kernel, (1, 32), [np.zeros(32, np.int32)], ['memcheck outside']) == [1]


@pytest.mark.skipif(not find_spec('triton'), reason='the kernel is under its @triton.jit')
def test_a_triton_kernel_continues_after_allowed_findings(tmp_path):
    (tmp_path/'several.py').write_text(f'import triton, triton.language as tl\n{RACES_OF_PROGRAMS}')
    kernel = tile.checked(runpy.run_path(str(tmp_path/'several.py'))['several'])
    arrays = np.zeros(8, np.int32), np.zeros(3, np.int32), np.full(4, np.nan, np.float32)
    races = [f'racecheck {code}' for code in ('programs', 'programs', 'programs_atomic', 'programs_atomic')]
    lanes = 'racecheck lanes', 'racecheck lanes_update', 'racecheck lanes'
    codes = [*lanes, 'initcheck unwritten_program', *races]
    assert lines_of_findings(kernel, (4,), arrays, codes) == [6, 11, 11, 12, 7, 8, 9, 10]


@pytest.mark.skipif(not find_spec('triton'), reason='the kernel is under its @triton.jit')
def test_a_triton_kernel_skips_lanes_out_of_bounds_after_allowed_findings(tmp_path):
    "A skipped load gives 0, even with `other`"
    (tmp_path/'skipping.py').write_text(f'import triton, triton.language as tl\n{SKIPPING_PROGRAM}')
    kernel = tile.checked(runpy.run_path(str(tmp_path/'skipping.py'))['skipping'])
    arrays = np.float32([1, 2, 3, 4, 5, 6]), np.zeros(4, np.int64), np.zeros(6, np.float32)
    outside = ['outside_program', 'outside_before', 'outside_program', 'outside_program', 'outside_single']
    codes = [f'memcheck {code}' for code in (*outside, 'null_pointer', 'null_pointer')]
    assert lines_of_findings(kernel, (1,), arrays, codes) == [6, 7, 8, 9, 10, 12, 13]
    assert arrays[1].tolist() == [1] * 4 and arrays[2].tolist() == [5, 1, 3, 5, 7, 14]


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_race_that_is_not_in_the_baseline_is_found_in_the_same_kernel(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path('two.cu').write_text(TWO_RACES)
    found_with = {None: ['a[0] += 1;'], 'first.json': ['b[0] = threadIdx.x;'], 'both.json': []}
    for known, found in found_with.items():
        baseline = ['--baseline', known] if known else []
        assert check.main(['two.cu', '--format', 'json', *baseline]) == len(found)
        report = capsys.readouterr().out
        if not known: Path('first.json').write_text(report)
        assert [o['source'] for o in json.loads(report)['findings']] == found
        assert check.main(['two.cu', '--write-baseline', 'both.json']) == 0
        capsys.readouterr()


def test_what_is_disabled_for_an_allowed_finding():
    "First a race on its line, then the check in the kernel, then everywhere"
    race, allowed = replace(a_finding(), dialect='python', kernel='k', compiled_line=3), AllowedFindings(['race'])
    steps = ('racecheck', 'k', 'race', 3), ('racecheck', 'k'), ('racecheck', None)
    for n in range(3): assert checks_to_disable([race], allowed, {*steps[:n]}) == {steps[n]}
    assert not checks_to_disable([race], allowed, {*steps})
    assert not checks_to_disable([race, replace(race, code='race_of_blocks')], allowed, set())
    c_error = replace(race, dialect='cuda', kind='memcheck')
    c_steps = ('memcheck', 'k', 'race', 3), ('memcheck', None)
    for n in range(2): assert checks_to_disable([c_error], allowed, {*c_steps[:n]}) == {c_steps[n]}
    for error in replace(c_error, kind='synccheck'), replace(c_error, kernel=None):
        assert checks_to_disable([error], allowed, set()) == {(error.kind, None)}
    of_programs = replace(race, dialect='triton', code='programs')
    assert checks_to_disable([of_programs], AllowedFindings(['programs']), set()) == {('racecheck', 'k', 'programs', 3)}
    values = settings_without(steps)
    assert values['allowed_findings'] == {('race', 'k', 3)} and 'racecheck' not in values['checks']


SLOW = {'.py': '''
import numpy as np
from gridstride import cuda

@cuda.jit
def same(out): out[0] = 1

@cuda.jit
def slow(out):
    while True: out[cuda.threadIdx.x] += 1

same[1, 32](np.zeros(1))
slow[1, 32](np.zeros(32))
''', '.cu': '''
__global__ void same(int *out) { *out = 1; }
__global__ void slow(int *out) {
    while (out[threadIdx.x] >= 0) out[threadIdx.x] &= 1;
}
int main() {
    int *out;
    cudaMalloc(&out, 128);
    cudaMemset(out, 0, 128);
    same<<<1, 32>>>(out);
    slow<<<1, 32>>>(out);
    cudaDeviceSynchronize();
}
'''}


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize('suffix', SLOW)
def test_a_check_ends_at_its_time_limit(suffix, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path(f'slow{suffix}').write_text(SLOW[suffix])
    assert check.main([f'slow{suffix}', '--format', 'json', '--seeds', '3', '--time-limit', '30']) == 1
    report = json.loads(capsys.readouterr().out)
    file, = report['files']
    assert [o['code'] for o in report['findings']] == ['same_value'] and file['status'] == 'time limit'
    line = line_of('while ', SLOW[suffix])
    assert names(file['error'], 'kernel slow', f'slow{suffix}, line {line}', 'while')


def test_numba_cuda_mlir_is_the_simulator_even_if_it_is_not_installed():
    with as_gpu.python_kernels():
        from numba_cuda_mlir import cuda as mlir, types
        from numba_cuda_mlir.cuda.random import create_xoroshiro128p_states
        assert mlir.jit is cuda.jit and types.float32 and create_xoroshiro128p_states
        assert mlir.random.create_xoroshiro128p_states is create_xoroshiro128p_states  # without an import
        assert (mlir.shared_array, mlir.local_array) == (cuda.shared.array, cuda.local.array) and mlir.DeviceNDArray
        with pytest.raises(AttributeError): mlir.inline_ptx  # noqa: B018
        with pytest.raises(ImportError, match='cuda.codegen'): import numba_cuda_mlir.cuda.codegen  # noqa
        from numba import cuda as numbas
        assert numbas.simulated and numbas.jit is cuda.jit
    assert 'numba_cuda_mlir.cuda' not in sys.modules or not getattr(sys.modules['numba_cuda_mlir.cuda'], 'simulated', 0)


@cuda.jit
def last(x, out, i):
    out[0] = x[-1]
    out[1] = x[i]


@cuda.jit
def rotated(x, out):
    i = cuda.grid(1)
    before = i
    before -= 1
    out[i] = x[before]


@cuda.jit
def neighbours(x, out):
    i = cuda.grid(1)
    x[0, i - 2] += 1
    cuda.atomic.add(x, (1, i - 1), 10)
    s = cuda.shared.array(4, np.float32)
    s[i - 1] = i
    cuda.syncthreads()
    out[i] = s[i - 4]


@cuda.jit
def unsigned(x, out):
    i = np.uint64(cuda.threadIdx.x)
    out[i] = x[i - np.uint64(1)]


NO_WARNING = pytest.mark.filterwarnings('error::gridstride.diagnostics.errors.NegativeIndex')


@NO_WARNING
def test_a_negative_index_counts_from_the_end_in_programs_of_numba():
    "Where it depends on the thread, with a warning; an index that lies before the array is an error"
    out = zeros(2)
    with finding('memcheck before', line=last.py_func.__code__.co_firstlineno + 2): last[1, 1](zeros(4), out, -1)
    with as_gpu.python_kernels():
        x = np.arange(4, dtype=np.float32)
        last[1, 1](x, out, -2)
        assert list(out) == [3, 2]
        with finding('memcheck before', line=last.py_func.__code__.co_firstlineno + 3): last[1, 1](x, out, -5)
        line = rotated.py_func.__code__.co_firstlineno + 5
        for threads in 2, 1:  # one thread has one index, which depends on the thread nevertheless
            with warning('counted_from_end', line=line, index=(-1,), thread=(0, 0, 0), accessed='x[3]'):
                rotated[1, threads](x, out)
        assert list(out) == [3, 0]
        with finding('memcheck outside', line=line, index=(4,)): rotated[1, 6](x, zeros(6))


@NO_WARNING
def test_writes_and_atomics_count_from_the_end_and_unsigned_indices_do_not():
    with as_gpu.python_kernels():
        x, out = np.zeros((2, 4), np.float32), zeros(4)
        with warning('counted_from_end', index=(0, -2), accessed='x[0, 2]') as caught: neighbours[1, 4](x, out)
        assert len(caught) == 4 and x.tolist() == [[1] * 4, [10] * 4] and list(out) == [1, 2, 3, 0]
        with finding('memcheck outside', index=(2**64 - 1,)): unsigned[1, 4](zeros(4), out)
        with sim.options(checks='no memcheck'): rotated[1, 4](zeros(4), out)


INDICES = [  # of x in a function with the parameter k; whether they depend on the thread
    ('i = cuda.threadIdx.x', 'i - 1', True), ('i, j = cuda.grid(2)', 'k, j - 1', True),
    ('i = k\n if cuda.laneid == 0: i = k - 1', 'i', True), ('i = cuda.atomic.sub(x, 0, 1)', 'i', True),
    ('a = cuda.local.array(4, int)\n a[k] = blockIdx.x', 'a[0] - 1', True),
    ('i = 0\n for j in range(cuda.grid(1)): i -= 1', 'i', True), ('i = 0\n while k < cuda.grid(1): i -= 1', 'i', True),
    ('pass', '-1', False), ('i = k - cuda.blockDim.x', 'i', False), ('x[cuda.grid(1)] = 1', 'k', False),
    ('for j in range(k): pass', 'j - 1', False), ('i = cuda.grid(1)', '1 - cuda.gridDim.x', False),
]


@pytest.mark.parametrize('statement, index, depends', INDICES)
def test_an_index_that_depends_on_the_thread_is_known_from_the_source(statement, index, depends):
    function = ast.parse(f'def f(x, k):\n {statement}\n return x[{index}]').body[0]
    last = function.body[-1]
    assert index_depends_on_thread(function, last.lineno, last.value.col_offset) == depends
    atomic = ast.parse(f'def f(x, k):\n {statement}\n cuda.atomic.add(x, ({index}), 1)').body[0]
    assert index_depends_on_thread(atomic, atomic.body[-1].lineno, 1) == depends


# Whole programs, each in a process of its own

@pytest.fixture
def warm_workers(monkeypatch):
    "Fork the processes of `check` from one that has imported torch"
    def run(self, job, output_path):
        done = run_python(*module_command('worker', job.to_json())[1:], env=dict(os.environ, GRIDSTRIDE_BACKEND='sim'))
        Path(output_path).write_text(done.stdout + done.stderr)
        return done.returncode
    monkeypatch.setattr(workers.Workers, '_run_fork', run)


ENDS = """
import os, signal, sys
print('marked before:', hasattr(os, 'mark'), sys.stdin.read())
os.mark = os.getpid()
if sys.argv[1:] == ['crash']: os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.mark.skipif(sys.platform != 'linux', reason='only Linux forks the processes')
def test_later_schedules_find_large_modules_imported(tmp_path, monkeypatch):
    "Although the report of the first one is removed before the second one begins"
    (tmp_path/'counts.py').write_text('import sys\nprint("numpy" in sys.modules)\nimport numpy')
    outputs = []
    run_in_fork = workers.Workers.run
    monkeypatch.setattr(workers.Workers, 'run', lambda *args: outputs.append(run_in_fork(*args)) or outputs[-1])
    with workers.Workers() as w:
        for _ in range(2): check._run_worker(Job(str(tmp_path/'counts.py')), w)
    assert [text.strip() for _, text in outputs][1] == 'True', outputs


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != 'linux', reason='only Linux forks the processes')
def test_a_fork_runs_a_program_as_if_it_were_the_first(tmp_path):
    "With what the first one imported, but none of what it changed; also after one that crashed"
    (tmp_path/'ends.py').write_text(ENDS)
    def job(n, *args): return Job(str(tmp_path/'ends.py'), report=str(tmp_path/f'{n}.jsonl'), args=[*args])
    with workers.Workers() as w:
        ended = [w.run(job(n, *args), tmp_path/'output') for n, args in enumerate([[], [], ['crash'], []])]
    assert 'numpy' in json.loads((tmp_path/'0.jsonl').read_text())['imported']
    assert [status for status, _ in ended] == [0, 0, -signal.SIGSEGV, 0]
    assert {text.split()[2] for _, text in ended if text} == {'False'}
    assert json.loads((tmp_path/'1.jsonl').read_text())['error'] is None


@pytest.fixture(scope='module')
def results(tmp_path_factory):
    "{name: result} of programs, under two schedules if the first has no finding"
    folder = tmp_path_factory.mktemp('programs')
    programs = {'numba_.py': NUMBA, 'cuda_.py': CUDA_IN_PYTHON, 'idle.py': 'print(1)',
                'wrong.py': '1/0', 'kernel.cu': CUDA, 'program.cu': CUDA + 'int main() { return 4; }'}
    for name, text in programs.items(): (folder/name).write_text(text)
    cells = [dict(cell_type='markdown', source=['# A']), dict(cell_type='code', source=NUMBA.lstrip())]
    (folder/'cells.ipynb').write_text(json.dumps(dict(cells=cells)))
    return folder


def checked(folder, name, **options):
    return check.check_file(Job(str(folder/name), **options), schedules.schedules_of(seeds=2))


LATE_TORCH = """
import sys
from numba import cuda
assert 'torch' not in sys.modules
import torch

@cuda.jit
def last(x, out):
    out[0] = x[cuda.threadIdx.x]

x = torch.ones(2, device='cuda')
assert x.device.type == 'cuda' and torch.cuda.get_device_capability() == (9, 0)
last[1, 2](x, torch.empty(1, device='cuda'))
"""


@pytest.mark.slow
def test_a_program_that_imports_no_torch_does_not_wait_for_it(tmp_path):
    (tmp_path/'late.py').write_text(LATE_TORCH)
    result = check.check_file(Job(str(tmp_path/'late.py')), schedules.schedules_of(seeds=1))
    assert result.error is None and [finding.code for finding in result.findings] == ['same_value']


FIRST_THREAD = """
import numpy as np
from numba import cuda

@cuda.jit
def first(counter, out):
    t = cuda.threadIdx.x
    if cuda.atomic.add(counter, 0, 1) == 0 and 20 < t < 60:
        out[100] = t

first[1, 64](np.zeros(1, np.int32), np.zeros(64))
"""


@pytest.mark.slow
def test_a_shuffled_schedule_is_simplified(tmp_path, warm_workers):
    (tmp_path/'first.py').write_text(FIRST_THREAD)
    job = Job(str(tmp_path/'first.py'))
    found = check.check_file(job, schedules.schedules_of(seeds=8), seconds=3600)  # also on a busy machine
    o, = found.findings
    schedule = schedules.parse_schedule(o.schedule)
    assert o.code == 'outside' and (schedule.order, schedule.seed) == ('shuffle', int(found.schedules[-1][8:]))
    assert 0 < schedule.swaps <= 63
    validate('json', formats.FORMATS['json']([found]))
    replayed, fewer = (check.check_file(job, [schedule._replace(swaps=schedule.swaps - n)]) for n in (0, 1))
    assert [f.schedule for f in replayed.findings] == [o.schedule] and not fewer.findings


@pytest.mark.slow
@pytest.mark.parametrize('name, dialect, code, line', [
    ('cells.ipynb', 'python', 'race', line_of('out[t] = s', NUMBA.lstrip())),
    ('cuda_.py', 'cuda', 'outside', line_of('out[i] =', CUDA_IN_PYTHON))])
def test_programs_with_a_mistake(results, name, dialect, code, line, warm_workers):
    found = checked(results, name)
    o, = found.findings
    assert (o.dialect, o.code, o.line, Path(o.file).name) == (dialect, code, line, name)
    assert f'line {line}: {o.source}' in o.message  # of the file, where the compiled text is a part of it
    for format in SCHEMAS: validate(format, formats.FORMATS[format]([found]))
    assert found.schedules == ['forward'] and found.launches and not found.error
    assert o.cell == (1 if name == 'cells.ipynb' else None)


@pytest.mark.slow
@pytest.mark.parametrize('name, error', [('idle.py', ['no kernel']), ('wrong.py', ['ZeroDivisionError']),
                                         ('program.cu', ['exit status 4']),
                                         ('kernel.cu', ['main', 'gridstride check --launch shift'])])
def test_programs_that_could_not_be_checked(results, name, error, warm_workers):
    found = checked(results, name)
    assert not found.findings and names(found.error, *error) and exit_status([found]) == 2
    assert name != 'kernel.cu' or found.error.endswith(f' {results/name}')
    assert f'{name}", line 1' in found.output or name != 'wrong.py'
    assert 'checker' not in found.output  # the frames of the package


@pytest.mark.slow
def test_a_launch_is_shrunk_to_the_smallest_that_shows_the_finding(results, warm_workers):
    found = checked(results, 'kernel.cu', launch='shift', sizes=dict(size=40, grid=None, block=32))
    o, = found.findings
    assert (o.kind, o.code, o.line, Path(o.file).name) == ('memcheck', 'outside', line_of('out[i]', CUDA), 'kernel.cu')
    assert o.launch == '--size 1 --block 1'


AFTER_A_RACE = """
import numpy as np
from numba import cuda

@cuda.jit
def races(x, out):
    x[0] = cuda.threadIdx.x
    out[cuda.threadIdx.x] = x[0]

@cuda.jit
def leaves(out): out[cuda.threadIdx.x + 1] = 0

races[1, 32](np.zeros(1), np.zeros(32))
leaves[1, 32](np.zeros(32))
"""


def find_and_allow(path, text):
    "Return the finding of a program, and the one that follows it if the first is allowed"
    path.write_text(text)
    job, forward = Job(str(path)), schedules.schedules_of('forward')
    first, = check.check_file(job, forward).findings
    second, = check.check_file(job, forward, allowed=AllowedFindings([first.code])).findings
    return first, second


@pytest.mark.slow
def test_what_follows_an_allowed_finding_is_checked(tmp_path, warm_workers):
    first, second = find_and_allow(tmp_path/'two.py', AFTER_A_RACE)
    assert (first.kernel, second.kernel, second.code) == ('races', 'leaves', 'outside')


TOO_MANY_THREADS = """
import numpy as np
from numba import cuda

@cuda.jit
def k(out): out[cuda.threadIdx.x] = 1

k[1, 32](np.zeros(32))
k[1, 2048](np.zeros(2048))
"""


@pytest.mark.slow
@pytest.mark.parametrize('text, code, said', [
    (TOO_MANY_THREADS, 'block_size', ['launch/block_size', '2048']),
    (TOO_MANY_THREADS.replace('out[cuda.threadIdx.x]', 'out[0]').replace('2048](', '32](1/0, '), 'same_value',
     ['ZeroDivisionError'])])
def test_a_program_that_ends_early_after_an_allowed_finding_is_not_checked(text, code, said, tmp_path, warm_workers):
    (tmp_path/'ends.py').write_text(text)
    result = check.check_file(Job(str(tmp_path/'ends.py')), schedules.schedules_of('forward'), AllowedFindings([code]))
    assert not result.findings and exit_status([result]) == 2 and names(result.error + result.output, *said)


AFTER_A_FENCE = '''
import numpy as np
from gridstride.cpp import cuda_kernel
from gridstride.kernels.ptx import PTX

bring = cuda_kernel(PTX + r"""
__global__ void bring(const int *x, int *out) {
    __shared__ alignas(16) int s[32];
    __shared__ u64 bar;
    if (threadIdx.x == 0) {
        barrier_init(address(&bar), 1);
        barrier_expect(address(&bar), 128);
        bulk_copy(address(s), x, 128, address(&bar));
    }
    __syncthreads();
    barrier_wait(address(&bar), 0);
    s[(threadIdx.x + 1)%32] = threadIdx.x;
    out[threadIdx.x] = s[threadIdx.x];
}""")
bring[1, 32](np.arange(32, dtype=np.int32), np.zeros(32, np.int32))
'''


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_race_is_found_where_a_missing_fence_is_allowed(tmp_path, warm_workers):
    first, second = find_and_allow(tmp_path/'fence.py', AFTER_A_FENCE)
    assert (first.kind, first.code, second.kind) == ('fencecheck', 'barrier_not_visible', 'racecheck')


@pytest.mark.slow
def test_the_command_reports_and_allows(results, capsys, monkeypatch):
    "In a folder whose files have names of the standard library, which a process that is not forked could import"
    (results/'here').mkdir()
    (results/'here/string.py').write_text('1/0')
    monkeypatch.chdir(results/'here')
    assert gridstride(['check', '../numba_.py', '--format', 'json', '--replay', 'shuffle:5']) == 1
    report = json.loads(capsys.readouterr().out)
    assert Path(report['findings'][0]['file']).name == 'numba_.py'
    assert report['files'][0]['schedules'] == ['shuffle:5']
    assert gridstride(['check', '../numba_.py', '--allow', 'race']) == 0
    assert gridstride(['check', '../numba_.py', '--write-baseline', 'known.json']) == 0
    assert [entry['code'] for entry in read_baseline('known.json')] == ['race']
    assert names(capsys.readouterr().err, 'known.json', 1)
    assert gridstride(['check', '../numba_.py', '--baseline', 'known.json']) == 0 and not capsys.readouterr().err


# The page "Check your own kernels"

README = (Path(check.__file__).parent/'README.md').read_text(encoding='utf-8')
FILES = dict(re.findall(r'`([\w.]+)`:\n\n```\w+\n(.*?)```', README, re.S))
SESSIONS = re.findall(r'```console\n\$ gridstride (.*?)\n(.*?)```', README, re.S)


@pytest.fixture(scope='module')
def page_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('page')
    for name, text in FILES.items(): (folder/name).write_text(text)
    return folder


def test_the_page_has_a_session_per_dialect():
    assert len(SESSIONS) == 4 and len(FILES) == 6


@pytest.mark.slow
@pytest.mark.parametrize('command, shown', SESSIONS, ids=lambda o: o.split()[-1])
def test_sessions_of_the_page_print_what_it_shows(command, shown, page_folder, monkeypatch, capsys, warm_workers):
    monkeypatch.chdir(page_folder)
    assert gridstride(command.split()) == 1
    assert capsys.readouterr().out == shown


@pytest.mark.slow
def test_the_test_of_the_page_fails_as_it_shows(page_folder):
    (command, shown), = re.findall(r'```console\n\$ (pytest.*?)\n(.*?)```', README, re.S)
    installed = any(o.value.startswith('gridstride.') for o in entry_points(group='pytest11'))
    options = [*([] if installed else ['-p', 'gridstride.checker.pytest_plugin']), *command.split()[1:]]
    said = run_python('-m', 'pytest', *options, cwd=page_folder).stdout
    assert shown and all(line in said for line in shown.splitlines()), said


def test_the_page_documents_all_fields_and_options():
    rows = re.findall(r'^\| ((?:`\w+`(?:, )?)+) \|', README, re.M)
    assert {name for row in rows for name in re.findall(r'`(\w+)`', row)} == {*a_finding().to_dict()}
    options = re.findall(r"addoption\('(--[\w-]+)'", Path(pytest_plugin.__file__).read_text())
    assert len(options) == 8 and all(option in README for option in options)
    meta = ConfigParser()
    meta.read(Path(__file__).parents[1]/'settings.ini', encoding='utf-8')
    assert f"git+{meta['DEFAULT']['repository']}'" in README
