"""Profiles: what is read from genuine output, what is refused, and what replaces what is not available.

The samples in `prof/` were printed on an NVIDIA H100 by Nsight Compute 2025.3 (`ncu_2025.3_*`),
Proton of Triton 3.6 and 3.9, and torch 2.11; they are cut to a few kernels. `ncu_2020.1_details.csv` has the columns
and units of the first versions with the same values.
"""
import csv, gzip, json, math, os, re, shlex, shutil, subprocess, sys, textwrap, threading, types
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gridstride import prof
from gridstride.bench import recording
from gridstride.prof import isolate, counters, ncu_report, show, strip, trace, tree
from gridstride.bench.recording import Unavailable
from warm import run_python
from found import names, saying

SAMPLES = Path(__file__).parent/'prof'


def sample(name): return (SAMPLES/name).read_text(encoding='utf-8')


# Nsight Compute's pages

@pytest.fixture
def kernels(): return ncu_report.parse_details(sample('ncu_2025.3_details.csv'))


def test_details_have_every_metric_and_unit(kernels):
    k = kernels[0]
    assert [o.name for o in kernels.values()] == ['transpose(const float *, float *, int)',
                                                  'strided(const float *, float *, int)']
    assert (k.grid, k.block) == ('(64, 64, 1)', '(32, 32, 1)')
    assert k['Elapsed Cycles'] == 61737 and k['Duration'] == 31.2 and k['Registers Per Thread'] == 16
    assert k['Function Cache Configuration'] == 'CachePreferNone'
    assert k.seconds == pytest.approx(31.2e-6)
    assert k['GPU Speed Of Light Throughput: Memory Throughput'] == 61.31
    assert k['Memory Workload Analysis: Memory Throughput'] == 588.32
    with_name = [r for r in csv.DictReader(sample('ncu_2025.3_details.csv').splitlines())
                 if r['ID'] == '0' and r['Metric Name']]
    assert sum(map(len, k.sections.values())) == len(with_name) > 40


def test_rules_have_their_section_and_speedup(kernels):
    rules = {r.name: r for r in kernels[0].rules}
    assert (rules['SharedMemoryConflicts'].section, rules['SharedMemoryConflicts'].speedup,
            rules['SharedMemoryConflicts'].scope) == ('Memory Workload Analysis', .6614, 'global')
    assert rules['SOLBottleneck'].section == 'GPU Speed Of Light Throughput' and rules['SOLBottleneck'].speedup is None
    assert rules['UncoalescedSharedAccess'].section == 'Source Counters'
    shown = ncu_report.advice_table(kernels[0]).rows
    gains = [r[0] for r in shown]
    assert gains[:2] == ['84%', '66%'] and all('INF' not in str(r) for r in shown)


def test_the_layout_of_2020_gives_the_same_values(kernels):
    old = ncu_report.parse_details(sample('ncu_2020.1_details.csv'))
    for i, k in old.items():
        assert ({s: [(m.name, m.value) for m in ms] for s, ms in k.sections.items()}
                == {s: [(m.name, m.value) for m in ms] for s, ms in kernels[i].sections.items()})
        assert k.seconds == pytest.approx(kernels[i].seconds) and k.grid == ''
        assert k.rules == []
    assert 'transpose: 31.2 µs' in repr(ncu_report.Ncu(old.values()))


def test_a_speedup_in_the_text_is_found():
    head, row = sample('ncu_2025.3_details.csv').splitlines()[:2]
    cells = next(csv.reader([row]))[:15]+['Rule', 'OPT', 'Estimated Speedup: 12.5%. Use fewer.']
    page = head.rsplit(',', 2)[0]+'\n'+','.join(f'"{c}"' for c in cells)
    assert [(r.speedup, r.scope) for r in ncu_report.parse_details(page)[0].rules] == [(.125, 'global')]


def test_raw_metrics_have_units_and_skip_what_was_not_read():
    raw = ncu_report.parse_raw_metrics(sample('ncu_2025.3_raw.csv'))
    assert raw[0]['dram__bytes_read.sum'] == ncu_report.Metric('dram__bytes_read.sum', 16.781824, 'Mbyte')
    assert raw[1]['gpu__time_duration.sum'].value == 4.384 and set(raw) == {0, 1}
    assert ncu_report.parse_raw_metrics('==WARNING== No kernels were profiled.') == {}


def test_lines_are_sums_of_their_instructions():
    (first, lines), (second, _) = ncu_report.parse_source_lines(sample('ncu_2025.3_source.csv'))
    assert first.startswith('transpose(') and second.startswith('strided(')
    assert [l.number for l in lines] == [4, 6, 7, 8, 9, 10]
    by = {l.number: l for l in lines}
    assert by[9].text.startswith('y[(blockIdx.x*32+threadIdx.y)*n')
    assert by[9].counters['L1 Wavefronts Shared Excessive'] == 4063232
    assert by[7].counters['L1 Wavefronts Shared Excessive'] == 0
    assert (by[6].samples, by[6].counters['Instructions Executed']) == (427, 786432)


def test_the_table_of_lines_points_at_the_bank_conflicts(kernels):
    k = kernels[0]
    k.lines = ncu_report.parse_source_lines(sample('ncu_2025.3_source.csv'))[0][1]
    t = ncu_report.source_table(k)
    assert t.header[-1] == 'bank conflicts'
    worst = max(t.rows, key=lambda r: r[2])
    assert worst[0] == 9 and worst[-1] == '4,063,232' and worst[4].startswith('shared memory')
    assert sum(l.samples for l in k.lines) == 3514 and '3,514 samples' in t.title


def test_lines_find_their_kernel_although_types_are_spelt_in_another_way():
    ks = [ncu_report.Kernel('__main__::nb[abi:v1](Array<float, 1, C>)'), ncu_report.Kernel('tri'),
          ncu_report.Kernel('__main__::nb[abi:v1](Array<float, 1, C>)')]
    counters._assign_lines(ks, [('__main__::nb[abi:v1](Array<float, (int)1, C>)', ['first']),
                         ('__main__::nb[abi:v1](Array<float, (int)1, C>)', ['second'])])
    assert [k.lines for k in ks] == [['first'], [], ['second']]


def test_a_report_survives_being_kept(kernels):
    r = ncu_report.Ncu(kernels.values(), '2025.3.1', ['a doubt'])
    r[0].lines, r[0].raw = (ncu_report.parse_source_lines(sample('ncu_2025.3_source.csv'))[0][1],
                            ncu_report.parse_raw_metrics(sample('ncu_2025.3_raw.csv'))[0])
    again = ncu_report.report_from_json(json.loads(json.dumps(r.to_json())), provenance='recorded on it')
    assert repr(again) == f'{r!r}\n[recorded on it]'
    assert again._repr_html_().count('<tr>') == r._repr_html_().count('<tr>') > 100
    assert again['strided']['Duration'] == r[1]['Duration'] and again[0].raw == r[0].raw


def test_html_escapes_what_ncu_says():
    k = ncu_report.Kernel('f<int>(const T *)')
    k.sections['A & B'] = [ncu_report.Metric('<b>', 1, '<script>')]
    html = ncu_report.Ncu([k])._repr_html_()
    assert '<script>' not in html and '&lt;script&gt;' in html and 'A &amp; B' in html


def test_what_was_not_measured_is_named(kernels):
    r = ncu_report.Ncu(kernels.values())
    with pytest.raises(KeyError, match=saying('no kernel', 'transpose, strided')): r['matmul']
    with pytest.raises(KeyError, match='similar: .*L2 Hit Rate'): r['transpose']['Hit Rates of L2 Hit']


@pytest.mark.parametrize('said,kind,words', [
    ('==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the '
     'target device 0.', Unavailable, 'administrator'),
    ("==ERROR== Option '--section Nonsense' did not match any section.\n"
     "==ERROR== Use --list-sections to see the list of available sections.", ValueError, "'Nonsense'"),
    ('==WARNING== No kernels were profiled.', ValueError, 'no kernel'),
    ('==PROF== Connected to process 1178 (k)\nNameError: gone\n==ERROR== The application returned an error code (3).',
     RuntimeError, 'NameError: gone'),
    ('==ERROR== Failed to initialize the profiler: LibraryNotLoaded', Unavailable, 'cannot profile'),
    ("==ERROR== './nothere' does not exist or is not an executable.", RuntimeError, 'exit status 1'),
])
def test_troubles_are_told_apart(said, kind, words):
    e = counters.error_from_output(said, 1)
    assert type(e) is kind and words in str(e)


def test_no_trouble_where_ncu_only_notes_something():
    assert counters.error_from_output('==WARNING== Note: Running with unmodified GPU clocks.\n'
                            '==PROF== Profiling "transpose" - 0: 0%....50%....100% - 38 passes\nno error', 0) is None


# A function in a program of its own

def source_of(*cells): return isolate.parse_statements(*cells)


@pytest.mark.parametrize('cells,name,want', [
    (['a = 1', 'def f(): return a', 'a = 2'], 'f', ['def f(): return a', 'a = 2']),
    (['def f(n): return n and g(n-1)', 'def g(n): return f(n)'], 'f',
     ['def f(n): return n and g(n-1)', 'def g(n): return f(n)']),
    (['a = 1', 'a += 2', 'a = a*3', 'def f(): return a'], 'f', ['a = 1', 'a += 2', 'a = a*3', 'def f(): return a']),
    (['k = 3', 'class A:\n    w = k\n    def m(self): return h()', 'def h(): return 1', 'f = A().m'], 'f',
     ['k = 3', 'class A:\n    w = k\n    def m(self): return h()', 'def h(): return 1', 'f = A().m']),
    (['try: import fast as q\nexcept ImportError: q = None', 'print(q)', 'def f(): return q'], 'f',
     ['try: import fast as q\nexcept ImportError: q = None', 'def f(): return q']),
    (['n = 4', 'xs = [i*n for i in range(n)]', 'def f(): return xs'], 'f',
     ['n = 4', 'xs = [i*n for i in range(n)]', 'def f(): return xs']),
    (['if True:\n    b = 1\nelse:\n    b = 2', 'with open("x") as c: d = c.read()', 'def f(): return b'], 'f',
     ['if True:\n    b = 1\nelse:\n    b = 2', 'def f(): return b']),
    (['d = {}', 'd["k"] = 1', 'd.pop("k")', 'e = {}', 'e["k"] = 2', 'def f(): return d'], 'f',
     ['d = {}', 'd["k"] = 1', 'def f(): return d']),
    (['import torch', 'torch.manual_seed(0)', 'torch.manual_seed(0)', 'def f(): return torch.ones(1)'], 'f',
     ['import torch', 'torch.manual_seed(0)', 'def f(): return torch.ones(1)']),
    (['from math import *', 'def f(): return sqrt(2)'], 'f', ['from math import *', 'def f(): return sqrt(2)']),
    # what comes too late is missing
    (['@deco\n@other(1)\ndef f(x=dflt): return x', 'dflt = 0'], 'f', ['@deco\n@other(1)\ndef f(x=dflt): return x']),
    (['n = 1', 'class A: pass\nxs = {n: n for _ in "a"}', 'n = 2', 'def f(): return xs'], 'f',
     ['n = 1', 'xs = {n: n for _ in "a"}', 'def f(): return xs']),
    (['def g(): return 1', 'def h(): return g()', 'f = jit(h)', 'def g(): return 2', 'def jit(o): return o'], 'h',
     ['def h(): return g()', 'def g(): return 2']),
    (['def jit(o): return o', 'def g(): return 1', 'def h(): return g()', 'f = jit(h)', 'def g(): return 2'], 'f',
     ['def jit(o): return o', 'def g(): return 1', 'def h(): return g()', 'f = jit(h)', 'def g(): return 2']),
    (['i = 5', 'xs = [i for i in range(3)]', 'def f(): return i'], 'f', ['i = 5', 'def f(): return i']),
    (['i = 5', 'xs = [i for i in range(3)]+[i]', 'def f(): return xs'], 'f',
     ['i = 5', 'xs = [i for i in range(3)]+[i]', 'def f(): return xs']),
    (['k = 3', 'class A: w = k', 'k = 4', 'def f(): return A'], 'f', ['k = 3', 'class A: w = k', 'def f(): return A']),
    (['%matplotlib inline', 'a = 1', 'def f(): return a'], 'f', ['a = 1', 'def f(): return a']),
])
def test_the_part_of_a_program(cells, name, want):
    assert [s.text for s in isolate.slice_statements(source_of(*cells), [name])[0]] == want


def test_unused_names_are_reported():
    assert isolate.slice_statements(source_of('def f(): return len(gone)'), ['f'])[1] == {'gone'}
    decorated = source_of('@deco\ndef f(x=later): return 1', 'later = 1')
    assert isolate.slice_statements(decorated, ['f'])[1] == {'deco', 'later'}


SCRIPT = '''
import math, sys
from gridstride.prof import isolate as carry
scale = 3
def unused(): return never
def inner(x): return scale*math.sqrt(x)
def f(x): return inner(x)+1
g = lambda x: f(x)*2
made, name = carry.extract_program(eval(sys.argv[1]))
print(made)
box = {}
exec(made, box)
print('->', eval(name, box)(4))
'''


@pytest.mark.parametrize('what,result', [('f', 7.0), ('g', 14.0), ('inner', 6.0)])
def test_a_script_gives_its_function_away(tmp_path, what, result):
    (tmp_path/'script.py').write_text(SCRIPT)
    done = run_python(tmp_path/'script.py', what)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f'-> {result}' and 'unused' not in done.stdout


def test_what_cannot_travel_is_named():
    def around():
        y = 2
        return lambda: y
    with pytest.raises(ValueError, match='uses y of'): isolate.extract_program(around())
    with pytest.raises(ValueError, match='Wrap'): isolate.extract_program(math.sqrt)
    with pytest.raises(ValueError, match='argument 2, .*lock'): isolate.pickle_arguments((1, threading.Lock()), {})
    assert isolate.extract_program(textwrap.dedent) == ('from textwrap import dedent', 'dedent')


# ncu itself, played by a program that does what it does: runs its target, and prints the pages of a report

SHELL = '''#!/bin/sh
case "$1" in
--version) echo 'Version 2025.3.1.0 (build 1) (public-release)';;
--import)
    until [ "$1" = --page ]; do shift || exit; done
    echo '==WARNING== a note'
    cat {samples}/ncu_2025.3_"$2".csv;;
*) exec {python} {folder}/ncu.py "$@";;
esac
'''
FAKE = '''
import json, os, subprocess, sys
from pathlib import Path
args, here = sys.argv[1:], Path(__file__).parent
with open(here/'log', 'a') as f: f.write(json.dumps(args)+chr(10))
said = (here/'says').read_text() if (here/'says').exists() else ''
target = args[args.index(str(sys.executable)):] if sys.executable in args else args[-1:]
env = {**os.environ, 'LD_LIBRARY_PATH':str(here)}
done = subprocess.run(target, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
(here/'output').write_text(done.stdout)
print('==PROF== Connected to process 7'); print(done.stdout); print(said)
if done.returncode: print(f'==ERROR== The application returned an error code ({done.returncode}).')
sys.exit(done.returncode or ('==ERROR==' in said))
'''
DRIVER = ('extern "C" {\n#include <stdio.h>\nint cuCtxSynchronize() { return 0; }\n'
          'int cuProfilerStart() { puts("switched on"); fflush(stdout); return 0; }\n'
          'int cuProfilerStop() { puts("switched off"); fflush(stdout); return 0; }\n}\n')


@pytest.fixture(scope='session')
def driver(tmp_path_factory):
    "A library with the driver's three functions that the program calls"
    folder = tmp_path_factory.mktemp('driver')
    (folder/'driver.cpp').write_text(DRIVER)
    subprocess.run([shutil.which('g++') or 'clang++', '-shared', '-fPIC', '-o', folder/'libcuda.so.1',
                    folder/'driver.cpp'], check=True, timeout=300)
    return folder/'libcuda.so.1'


@pytest.fixture
def fake(tmp_path, monkeypatch, driver):
    "A machine with a GPU and ncu, as far as `prof` sees; its folder"
    folder = tmp_path/'ncu'
    folder.mkdir()
    shutil.copy(driver, folder)
    (folder/'ncu.py').write_text(FAKE)
    (folder/'ncu').write_text(SHELL.format(samples=shlex.quote(str(SAMPLES)), python=shlex.quote(sys.executable),
                                           folder=shlex.quote(str(folder))))
    (folder/'ncu').chmod(0o755)
    monkeypatch.setattr(counters, 'no_gpu', lambda: '')
    monkeypatch.setattr(counters, 'find_ncu', lambda: str(folder/'ncu'))
    monkeypatch.chdir(tmp_path)
    return folder


times = 2
def talks(word, n=1): print(word*n*times, flush=True)
def breaks(): raise KeyError('within')


def test_a_function_runs_twice_and_is_looked_at_once(fake):
    r = prof.ncu(talks, 'ab', n=2, metrics='dram__bytes_read.sum')
    assert (fake/'output').read_text().split('\n')[:4] == ['abababab', 'switched on', 'abababab', 'switched off']
    assert len(r) == 2 and r['transpose']['Duration'] == 31.2 and r[0]['dram__bytes_read.sum'] == 16.781824
    assert r.version == '2025.3.1'
    args = json.loads((fake/'log').read_text())
    assert args[args.index('--clock-control')+1] == 'none' and args[args.index('--profile-from-start')+1] == 'off'
    assert args[args.index('--metrics')+1] == 'dram__bytes_read.sum,gpu__time_duration.sum'
    assert [args[i+1] for i, a in enumerate(args) if a == '--section'] == list(prof.SECTIONS)


def test_lines_are_requested_and_shown(fake):
    r = prof.ncu(talks, 'x', lines=True, sections='basic')
    args = json.loads((fake/'log').read_text())
    assert '--import-source' in args and args[args.index('--set')+1] == 'basic' and 'SourceCounters' in args
    source_lines = ncu_report.parse_source_lines(sample('ncu_2025.3_source.csv'))
    assert [len(k.lines) for k in r.kernels] == [6, len(source_lines[1][1])]
    assert all(l.number is None
               for l in r[0].lines), 'numbers of a program made for the purpose mean nothing to the reader'


def test_a_script_gets_its_arguments_and_counters(fake, tmp_path):
    (tmp_path/'job.py').write_text('import sys\nprint("with", sys.argv[1:])\n')
    r = prof.ncu('job.py', 3, 'x', lines=True)
    assert "with ['3', 'x']" in (fake/'output').read_text() and r[0].lines[0].number == 4
    assert '--profile-from-start' not in json.loads((fake/'log').read_text())


def test_source_text_runs(fake):
    prof.ncu('a = 6\nprint(a*7)\n', sections='basic')
    assert (fake/'output').read_text() == '42\n'


def test_modules_next_to_the_notebook_are_found(fake, tmp_path, monkeypatch):
    (tmp_path/'neighbour.py').write_text('word = "found"\n')
    # as in a Jupyter kernel: its folder is the empty string
    monkeypatch.setattr(sys, 'path', ['', *(p for p in sys.path if p)])
    prof.ncu('import neighbour\nprint(neighbour.word)\n', sections='basic')
    assert (fake/'output').read_text() == 'found\n'


def test_an_unknown_metric_is_a_warning(fake):
    r = prof.ncu('pass\n\n', metrics=['nonsense__metric.sum', 'dram__bytes_read.sum'])
    reason, = r.warnings
    assert names(reason, 'ncu', 'nonsense__metric.sum')
    assert 'nonsense' in repr(r)


def test_the_readers_error_is_shown(fake):
    with pytest.raises(RuntimeError, match="KeyError: 'within'"): prof.ncu(breaks)


def test_a_program_that_profiles_itself_is_stopped(fake, tmp_path):
    (tmp_path/'job.py').write_text('from gridstride import prof\nprof.ncu("job.py")\n')
    with pytest.raises(RuntimeError, match='under ncu'): prof.ncu('job.py')


def test_too_slow_is_said(fake):
    with pytest.raises(RuntimeError, match='1 s'): prof.ncu('import time\ntime.sleep(20)\n', seconds=1)


def test_neither_file_nor_source(fake):
    with pytest.raises(FileNotFoundError, match='jop.py .*file.*source'): prof.ncu('jop.py')


def test_without_ncu_or_gpu_one_line_explains_it(monkeypatch):
    monkeypatch.setattr(counters, 'no_gpu', lambda: 'no GPU is here')
    with pytest.raises(Unavailable, match='^no GPU'): prof.ncu(talks, 'x')
    monkeypatch.setattr(counters, 'no_gpu', lambda: '')
    for v in ('CUDA_HOME', 'CUDA_PATH'): monkeypatch.delenv(v, raising=False)
    monkeypatch.setattr(counters.shutil, 'which', lambda name: None)
    monkeypatch.setattr(counters.os, 'access', lambda path, mode: False)
    with pytest.raises(Unavailable, match=saying('Nsight Compute', 'ncu')) as e: prof.ncu(talks, 'x')
    assert '\n' not in str(e.value)


# Recordings

@pytest.fixture(autouse=True)
def nothing_said(monkeypatch): monkeypatch.setattr(recording, '_printed', set())


def test_a_recording_replaces_ncu_where_counters_are_not_permitted(fake, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    there = prof.ncu(talks, 'x', lines=True, record='99_ncu')
    monkeypatch.delenv('GRIDSTRIDE_RECORD')
    assert (tmp_path/'recorded/99_ncu.json').exists()
    (fake/'says').write_text('==ERROR== ERR_NVGPUCTRPERM - The user does not have permission')
    capsys.readouterr()
    here = prof.ncu(talks, 'x', lines=True, record='99_ncu')
    said = capsys.readouterr().out
    assert said.count('\n') == 1 and 'ERR_NVGPUCTRPERM' in said and 'recorded' in said
    assert 'ncu 2025.3.1' in said
    assert repr(here).startswith(repr(there)) and here.provenance.startswith('recorded')
    assert here.provenance in here._repr_html_()
    with pytest.raises(Unavailable, match='other arguments'): prof.ncu(talks, 'x', record='99_ncu')
    with pytest.raises(Unavailable, match='other arguments'):
        prof.ncu(lambda: talks('x'), lines=True, record='99_ncu')
    with pytest.raises(Unavailable, match='no recording'): prof.ncu(talks, 'x', record='99_other')


def test_nothing_is_profiled_on_a_gpu_that_is_not_to_be_used(tmp_path, monkeypatch):
    "A lesson whose kernels run emulated on a machine with a GPU reads its recordings, as on one without"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr('gridstride.utils.gpu_count', lambda: 1)
    for ask in (prof.profile, prof.ncu, prof.proton):
        with pytest.raises(Unavailable, match='no GPU is used .GRIDSTRIDE_BACKEND is sim.'):
            ask(talks, 'x', record='99_other')


def test_a_profile_is_recorded_and_shown_without_a_gpu(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trace, 'no_gpu', lambda: '')
    monkeypatch.setattr(trace, '_record_trace', lambda *args: json.loads(sample('torch_2.11_trace.json')))
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    there = prof.profile(talks, 'x', record='99_profile')
    monkeypatch.delenv('GRIDSTRIDE_RECORD')
    monkeypatch.setattr(trace, 'no_gpu', lambda: 'no GPU is here')
    here = prof.profile(talks, 'x', record='99_profile')
    assert names(capsys.readouterr().out, 'no GPU', 'recorded')
    assert repr(here).splitlines()[:-1] == repr(there).splitlines()[:-1] and 'recorded' in repr(here).splitlines()[-1]
    assert 'recorded' in here.timeline().svg


# PyTorch's profiler

@pytest.fixture
def gpu_profile(): return prof.Profile(json.loads(sample('torch_2.11_trace.json')))


def test_kernels_belong_to_the_operators_that_launched_them(gpu_profile):
    by = {g.name: g for g in gpu_profile.groups}
    assert list(by['aten::mm'].kernels) == ['cutlass_80_simt_sgemm_256x128_8x4_nn_align1']
    assert by['aten::mm'].gpu_seconds == pytest.approx(342.791e-6)
    assert by['aten::copy_'].gpu_seconds == pytest.approx(7802.125e-6)
    assert set(by['aten::sum'].kernels) == {'reduce_kernel', 'Memset (Device)'} and by['aten::matmul'].gpu_seconds == 0
    assert [g.name for g in gpu_profile.groups[:2]] == ['aten::copy_', 'aten::mm']
    assert (sum(g.gpu_seconds for g in gpu_profile.groups)
            == pytest.approx(sum(s.seconds for s in gpu_profile.spans if s.kind == 'gpu')))


def test_an_operators_own_time_leaves_out_what_it_calls(gpu_profile):
    events = {e['name']: e for e in json.loads(sample('torch_2.11_trace.json'))['traceEvents']
              if e.get('cat') == 'cpu_op'}
    by = {g.name: g for g in gpu_profile.groups}
    self_seconds = (events['aten::matmul']['dur']-events['aten::mm']['dur'])/1e6
    assert by['aten::matmul'].cpu_seconds == pytest.approx(self_seconds, abs=1e-9)
    outermost = sum(s.seconds for s in gpu_profile.spans if s.kind == 'op' and s.parent is None)
    assert sum(s.self_seconds for s in gpu_profile.spans if s.kind == 'op') == pytest.approx(outermost)


def test_overlapping_streams_are_busy_once(gpu_profile):
    gpu = sorted((s.start, s.end) for s in gpu_profile.spans if s.kind == 'gpu')
    assert any(a[1] > b[0] for a, b in zip(gpu, gpu[1:])) is False or gpu_profile.busy < sum(b-a for a, b in gpu)
    def event(cat, ts, dur, stream=7, **kw):
        return dict(ph='X', cat=cat, name=cat, ts=ts, dur=dur, pid=0, tid=stream,
                    args=dict(stream=stream, device=0, **kw))
    p = prof.Profile(dict(traceEvents=[event('cpu_op', 0, 100), event('kernel', 10, 30), event('kernel', 20, 10, 8),
                                       event('kernel', 35, 15, 8), event('kernel', 90, 10)]))
    assert p.busy == pytest.approx(50e-6) and p.seconds == pytest.approx(100e-6)


def test_the_picture_is_valid_and_has_a_row_per_stream(gpu_profile):
    svg = gpu_profile.timeline().svg
    root = ElementTree.fromstring(svg)
    texts = [t.text for t in root.iter('{http://www.w3.org/2000/svg}text')]
    assert texts.index('CPU') < texts.index('stream 7') < texts.index('stream 13')
    launches = [l for l in root.iter('{http://www.w3.org/2000/svg}line') if l.get('marker-end')]
    assert len(launches) == sum(s.kind == 'gpu' for s in gpu_profile.spans)
    assert not [l for l in ElementTree.fromstring(prof.trace.draw_step(gpu_profile, arrows=3).svg)
                .iter('{http://www.w3.org/2000/svg}line') if l.get('marker-end')]
    assert float(root.get('width')) < 960


def test_a_trace_of_many_kernels_stays_a_small_picture():
    events = [dict(ph='X', cat='cpu_op', name='aten::add', ts=3*i, dur=2, pid=1, tid=1, args={}) for i in range(50000)]
    p = prof.Profile(dict(traceEvents=events))
    assert len(p.timeline().svg) < 1e6 and p.groups[0].count == 50000


@pytest.mark.parametrize('schedule,calls,steps', [(None, 4, 3), ((2, 1, 2), 5, 2), ((0, 0, 1), 1, 1)])
def test_calls_and_steps_on_the_cpu(schedule, calls, steps):
    import torch
    x, n = torch.randn(64, 64), []
    def fn(a): n.append(1); return (a@a).relu()
    p = prof.profile(fn, x, steps=3, schedule=schedule)
    by = {g.name: g.count for g in p.groups}
    assert (len(n), len(p.steps), by['aten::mm'], by['aten::relu']) == (calls, steps, steps, steps)
    assert '<table>' in p._repr_mimebundle_()['text/html'] and ElementTree.fromstring(p.timeline().svg) is not None


def test_the_trace_is_for_viewers_and_says_nothing_about_the_machine(tmp_path):
    import torch
    p = prof.profile(lambda: torch.randn(8, 8).sum())
    for name, opened in (('t.json', lambda f: f.read_text()),
                         ('t.json.gz', lambda f: gzip.decompress(f.read_bytes()).decode())):
        link = p.trace(tmp_path/name)
        data = json.loads(opened(tmp_path/name))
        assert any(e.get('name') == 'aten::sum' and e['ph'] == 'X' for e in data['traceEvents'])
        assert 'host_name' not in data
        assert name in link._repr_html_()


def test_the_readers_error_passes_through_the_profiler():
    with pytest.raises(ZeroDivisionError): prof.profile(lambda: 1/0)
    with pytest.raises(ValueError, match='active'): prof.profile(lambda: 1, schedule=(1, 0, 0))


# Proton

@pytest.mark.parametrize('name', ['proton_3.6_tree.hatchet', 'proton_3.9_tree.hatchet'])
def test_trees_of_two_versions(name):
    t = prof.Tree(json.loads(sample(name)))
    step, matmul = t['step'], t['matmul']
    times = len(re.findall(r'"time \(ns\)": [1-9]', sample(name)))
    assert step.seconds == pytest.approx(sum(c.seconds for c in step.children))
    assert 0 < matmul.seconds < step.seconds <= t.root.seconds
    assert matmul.flops == matmul.count*2*1024**3 and matmul.bytes == matmul.count*3*4*1024**2
    row = next(r for r in t.table().rows if r[0] == 'matmul')
    assert row[4].endswith('GB/s') and row[5].endswith('TFLOP/s') and 20 < float(row[5].split()[0]) < 60
    assert sum(n.is_kernel for n in walk(t.root)) == times


def walk(n):
    yield n
    for c in n.children: yield from walk(c)


def test_the_first_versions_names_and_hidden_launches():
    text = sample('proton_3.6_tree.hatchet')
    want = prof.Tree(json.loads(text))
    old = prof.Tree(json.loads(text.replace('"time (ns)"', '"Time (ns)"').replace('"count"', '"Count"')))
    assert repr(old) == repr(want) and old['matmul'].count == 1
    data = json.loads(text)
    kernel = dict(children=[], frame=dict(name='helper'), metrics={'time (ns)': 1e6, 'count': 1})
    data[0]['children'].append(dict(children=[kernel], frame=dict(name='__proton_launch_metadata'), metrics={}))
    assert repr(prof.Tree(data)) == repr(want)


def test_a_scopes_bytes_are_not_added_to_its_kernels():
    t = prof.Tree(json.loads(sample('proton_3.6_tree.hatchet')))
    assert t['step'].bytes == 100 and t['scale'].bytes == 3*8*2**22
    assert t['softmax'].bytes == 8388608 and t['softmax'].flops == 0
    assert 'empty' not in repr(t)


def test_marks_inside_a_kernel_are_cycles():
    t = prof.Timeline(json.loads(sample('proton_3.6_inside.chrome_trace')))
    assert t.blocks == [0, 1] and t.names == ['kernel', 'load', 'dot', 'store']
    rows = {r[0]: r for r in t.table().rows}
    assert [rows[n][1] for n in t.names] == ['1', '4', '4', '1']
    assert 8000 < float(rows['kernel'][2].replace(',', '')) < 20000 and rows['kernel'][-1] == pytest.approx(1)
    svg = ElementTree.fromstring(t.picture(block=1).svg)
    texts = [e.text or '' for e in svg.iter('{http://www.w3.org/2000/svg}text')]
    assert [o for o in texts if o.startswith('warp')] == ['warp 0', 'warp 1', 'warp 2', 'warp 3']
    assert any('cycles' in o for o in texts)


@pytest.fixture
def fake_proton(monkeypatch):
    "Triton's profiler, which notes what it is asked and writes a sample"
    import torch
    log = []
    class Scope:
        def __init__(self, name, metrics=None): self.name, self.metrics = name, metrics
        def __enter__(self): log.append(('enter', self.name, self.metrics))
        def __exit__(self, *a): log.append(('exit', self.name))
    class P(types.ModuleType): pass
    p = P('triton.profiler')
    p.scope, p.saw = Scope, True
    def start(name, **how):
        log.append(('start', how))
        p.file = Path(f'{name}.hatchet')
        return 5
    def finalize(session):
        log.append(('finalize', session))
        if p.saw: p.file.write_text(sample('proton_3.6_tree.hatchet'))
    p.start, p.finalize, p.log = start, finalize, log
    monkeypatch.setattr(tree, '_profiler', lambda: p)
    monkeypatch.setattr(torch.cuda, 'synchronize', lambda: None)
    return p


def test_a_session_hands_scopes_to_proton(fake_proton):
    def fn(n):
        with prof.scope('a', flops=n, bytes=2, more=3):
            with prof.scope('b'): pass
    with prof.proton() as p: fn(7)
    assert fake_proton.log == [('start', {'hook': 'triton'}), ('enter', 'a', {'flops': 7, 'bytes': 2, 'more': 3}),
                               ('enter', 'b', {}), ('exit', 'b'), ('exit', 'a'), ('finalize', 5)]
    assert isinstance(p.result, prof.Tree) and '<table>' in p._repr_mimebundle_()['text/html']
    fake_proton.log.clear()
    assert prof.proton(fn, 7)['matmul'].count == 1
    assert (fake_proton.log[0][0] == 'start'
            and sum(o[:2] == ('enter', 'a') for o in fake_proton.log) == 1), 'the first call is not profiled'


def test_an_error_ends_the_session(fake_proton):
    with pytest.raises(KeyError, match='mine'):
        with prof.proton(): raise KeyError('mine')
    assert fake_proton.log[-1] == ('finalize', 5)
    with prof.proton() as p: pass
    assert p.result is not None
    with pytest.raises(RuntimeError, match='nest'):
        with prof.proton():
            with prof.proton(): pass
    fake_proton.saw = False
    with pytest.raises(ValueError, match='no kernel'):
        with prof.proton(): pass


MOCK = '''
import contextlib
from pathlib import Path
from gridstride.prof import tree
occupied = False
class scope(contextlib.nullcontext):
    def __init__(self, name, metrics): super().__init__()
def start(name, **how):
    global file
    file = Path(name+'.hatchet')
    if occupied: raise RuntimeError('Failed to execute cuptiSubscribe with error 39')
def finalize(session): file.write_text(Path(SAMPLE).read_text())
tree.Session._synchronize = lambda self: None
'''
MOVED = '''
import triton_mock
from gridstride import prof
def part(n):
    with prof.scope('a', bytes=n): print('ran', n)
triton_mock.occupied = True
print(prof.proton(part, 7)['matmul'].count)
'''


def test_where_another_profiler_was_first_the_function_moves(fake_proton, monkeypatch):
    def start(name, **how): raise RuntimeError('Failed to execute cuptiSubscribe with error 39')
    monkeypatch.setattr(fake_proton, 'start', start)
    with pytest.raises(tree.ProfilerBusy, match='restart'):
        with prof.proton(): pass
    moved = []
    monkeypatch.setattr(tree.subprocess, 'run', lambda cmd, **kw: moved.append(Path(cmd[1]).read_text())
                        or types.SimpleNamespace(returncode=1, stdout='', stderr='KeyError: mine'))
    with pytest.raises(RuntimeError, match='KeyError: mine'): prof.proton(talks, 'x')
    assert 'from test_prof import talks' in moved[0] and '_proton(_fn, *_args, inside=False, hook=True' in moved[0]


def test_a_moved_function_gives_its_tree(tmp_path):
    "A script whose Triton cannot trace in the first process, and can in the second"
    (tmp_path/'triton_mock.py').write_text(MOCK.replace('SAMPLE', repr(str(SAMPLES/'proton_3.6_tree.hatchet'))))
    (tmp_path/'sitecustomize.py').write_text(
        'import triton_mock\nfrom gridstride.prof import tree\ntree._profiler = lambda: triton_mock\n')
    (tmp_path/'script.py').write_text(MOVED)
    done = subprocess.run([sys.executable, 'script.py'], cwd=tmp_path, text=True, capture_output=True, timeout=600,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, [str(tmp_path), os.environ.get('PYTHONPATH')]))})
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ['ran', '7', '1']


def test_proton_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(tree, 'no_gpu', lambda: 'no GPU is here')
    with pytest.raises(Unavailable, match='^no GPU .*Proton'): prof.proton(lambda: None)
    monkeypatch.setattr(tree, 'no_gpu', lambda: '')
    monkeypatch.setitem(sys.modules, 'triton', None)
    monkeypatch.setitem(sys.modules, 'triton.profiler', None)
    with pytest.raises(Unavailable, match=saying('pip install', 'triton')): prof.proton(lambda: None)


# Tables and strips

def test_a_table_prints_and_shows_the_same_cells():
    rows = [[show.CellText('<a>', 'full "name"', '#123456', 1), show.Percentage(.5)], ['b', show.Percentage(0)]]
    t = show.Table(['<name', 'share'], rows)
    assert repr(t).splitlines() == ['name   share', '  <a>    50%', 'b       0.0%']
    cells = ElementTree.fromstring(f'<div>{t._repr_html_()}</div>')
    assert [''.join(c.itertext()).strip() for c in cells.iter('td')] == ['<a>', '50%', 'b', '0.0%']


@pytest.mark.parametrize('x,want', [(999.6, '1.00 ks'), (1e-6, '1.00 µs'), (.9999e-6, '1.00 µs'), (123456, '123 ks'),
                                    (5e-12, '5.00 ps'), (-.002, '-2.00 ms')])
def test_units_at_their_borders(x, want): assert show.format_si(x, 's') == want


def test_a_row_of_boxes_never_draws_a_box_twice_as_wide_as_it_is():
    rows = [strip.Row('r', [strip.Box(i, i+1, f'n{i}') for i in range(10)])]
    root = ElementTree.fromstring(f'<svg xmlns="http://www.w3.org/2000/svg">{strip.strip(rows, width=500).svg}</svg>')
    rects = [r for r in root.iter('{http://www.w3.org/2000/svg}rect')]
    assert [float(r.get('width')) for r in rects] == [50.0]*10
