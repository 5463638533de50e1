"Recordings as a lesson meets them: with a machine that can, without, and after an edit."
import asyncio, importlib.util, json, os, re, subprocess, sys
from pathlib import Path

import numpy as np
import pytest
from gridstride.course import lessons
from gridstride.bench import recording
from gridstride.bench.keys import key, without_comments
from gridstride.bench.variants import define
from gridstride.bench.recording import (
    EXPECTED, Unavailable, claim, claim_table, expected, made_on, on_gpu, read, recorded, write
)
from found import names

CELLS = '''
import os
from gridstride.bench.recording import Unavailable, recorded
SRC = "__global__ void k() {}"
def profile():
    if os.environ.get('HAS_GPU') != '1': raise Unavailable('A profile needs an NVIDIA GPU')
    return {'GB/s': 3001}
'''


def missing(): raise Unavailable('A profile needs an NVIDIA GPU')


@pytest.fixture
def folder(tmp_path, monkeypatch):
    "An empty folder of recordings that is named nowhere but here, and no recording mode"
    for v in ('GRIDSTRIDE_RECORD', 'GRIDSTRIDE_MISSED', 'GRIDSTRIDE_CLAIMS'): monkeypatch.delenv(v, raising=False)
    monkeypatch.setattr(recording, '_printed', set())
    monkeypatch.chdir(tmp_path)
    return tmp_path/'recorded'


@pytest.fixture
def made(folder, monkeypatch):
    "A recording that an H100 made"
    monkeypatch.setattr(recording, 'machine',
        lambda tools: dict(gpu='NVIDIA H100', date='2026-11-21', versions=dict(torch='2.11', **(tools or {}))))
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    recorded('profiling_a', lambda: {'GB/s': 3001}, 'source', 7, tools={'ncu': '2025.3'})
    monkeypatch.delenv('GRIDSTRIDE_RECORD')
    return folder


def test_shown_with_its_mark_where_there_is_no_gpu(made, capsys):
    capsys.readouterr()
    rec = recorded('profiling_a', missing, 'source', 7)
    assert (capsys.readouterr().out == 'A profile needs an NVIDIA GPU. What follows was recorded on an NVIDIA H100, '
                                       '2026-11-21 (ncu 2025.3, torch 2.11)\n')
    assert rec.data == {'GB/s': 3001} and rec.provenance in rec._repr_mimebundle_()['text/plain']


@pytest.mark.parametrize('form,shown',
    [('_repr_html_', '<b>3001</b>'), ('_repr_svg_', '<svg/>'), ('_repr_png_', '<img src="data:image/png;base64,')])
def test_what_a_notebook_shows_of_a_recording_is_marked(folder, monkeypatch, form, shown):
    "A table or a picture that is seen alone says in itself where and when it was made"
    monkeypatch.setattr(recording, 'machine', lambda tools: dict(gpu='NVIDIA <H100>', date='2026-11-21', versions={}))
    thing = type('Thing', (), {form: lambda self: b'png' if form == '_repr_png_' else shown})()
    write('profiling_h', 'k', thing)
    html = read('profiling_h', 'k')._repr_mimebundle_()['text/html']
    assert html.startswith(shown) and names(html, 'recorded', 'NVIDIA &lt;H100&gt;, 2026-11-21]')


def test_each_reason_and_each_mark_is_said_once(made, capsys):
    def other(): raise Unavailable('This one needs a library')
    capsys.readouterr()
    for make in missing, missing, other, other: recorded('profiling_a', make, 'source', 7)
    again = 'Recorded on an NVIDIA H100, 2026-11-21, as above'
    assert (capsys.readouterr().out.splitlines()
            == ['A profile needs an NVIDIA GPU. What follows was recorded on an NVIDIA H100, 2026-11-21 (ncu 2025.3, '
                'torch 2.11)', again, f'This one needs a library. {again}', again])


@pytest.mark.parametrize('parts', [(), ('source',), ('source', 8), ('sourcf', 7), (7, 'source'), ('source', '7')])
def test_refused_for_anything_else(made, parts):
    with pytest.raises(Unavailable,
                       match=r'NVIDIA GPU.*profiling_a\.json .*another source'):
        recorded('profiling_a', missing, *parts)


def test_lookups_are_noted_for_the_test_of_lessons(made, monkeypatch):
    monkeypatch.setenv('GRIDSTRIDE_LOOKUPS', str(made/'lookups'))
    recorded('profiling_a', missing, 'source', 7)
    with pytest.raises(Unavailable): recorded('profiling_a', missing, 'another source', 7)
    with pytest.raises(Unavailable): recorded('profiling_none', missing)
    recorded('profiling_here', lambda: 3)
    lookups = (made/'lookups').read_text().splitlines()
    assert lookups == ['profiling_a hit', 'profiling_a stale', 'profiling_here made']


@pytest.fixture(scope='module')
def rekeying():
    path = Path(__file__).parents[1]/'benchmarks/rekey.py'
    spec = importlib.util.spec_from_file_location('benchmark_rekey', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_new_keys_leave_all_values_as_they_are(made, rekeying, monkeypatch, capsys):
    "Only for recordings that are named, and only those that the lesson meets with other sources"
    other, kept = made/'profiling_b.json', (made/'profiling_a.json').read_text()
    other.write_text(kept)

    def lesson(lessons, env):
        assert lessons == ['08']
        monkeypatch.setenv('GRIDSTRIDE_REKEY', env['GRIDSTRIDE_REKEY'])
        assert recorded('profiling_a', missing, 'new source', 7).data == {'GB/s': 3001}
        with pytest.raises(Unavailable): recorded('profiling_b', missing, 'new source', 7)

    assert rekeying.rekey(['profiling_a'], lesson, made) == ['profiling_a']
    assert 'New key: profiling_a' in capsys.readouterr().out
    assert (made/'profiling_a.json').read_text() == kept.replace(key('source', 7), key('new source', 7)) != kept
    assert other.read_text() == kept and rekeying.rekey(['profiling_a'], lesson, made) == []
    with pytest.raises(ValueError, match='profiling_c'): rekeying.rekey(['profiling_c'], lesson, made)
    with pytest.raises(ValueError, match='lesson failed'): rekeying.rekey(['profiling_a'], lambda *_: 1, made)


def test_refused_where_there_is_none(folder):
    with pytest.raises(Unavailable, match='NVIDIA GPU.*no recording'): recorded('profiling_b', missing, 'source')


@pytest.mark.parametrize('text', ['', '{"key": 1', '[]', '{}', '{"key":"a"}'])
def test_a_file_that_is_not_a_recording(folder, text):
    folder.mkdir()
    (folder/'profiling_a.json').write_text(text)
    with pytest.raises(Unavailable, match='cannot be'): recorded('profiling_a', missing)


def test_what_can_be_made_is_made(made):
    assert recorded('profiling_a', lambda: 'made here', 'source', 7) == 'made here'
    assert read('profiling_a', key('source', 7)).data == {'GB/s': 3001}, 'only GRIDSTRIDE_RECORD=1 writes'


def test_what_a_lesson_measures(folder, monkeypatch):
    """Plain data come back as data, of a machine with a GPU or of a recording; a kernel of Triton counts with its
    function, as where no Triton is"""
    def measure(): return {'GB/s': 3001}
    def kernel(): return 1
    jitted = type('JITFunction', (), dict(fn=staticmethod(kernel), src='def kernel(): ...'))()
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    monkeypatch.setattr('gridstride.utils.backend', lambda: 'gpu')
    assert on_gpu('profiling_g', measure, jitted) == {'GB/s': 3001}
    monkeypatch.setattr('gridstride.utils.backend', lambda: 'sim')
    monkeypatch.delenv('GRIDSTRIDE_RECORD')
    assert on_gpu('profiling_g', measure, kernel) == {'GB/s': 3001} and '2' in made_on()
    with pytest.raises(Unavailable, match='another source'): on_gpu('profiling_g', measure, 'def kernel(): ...')


def test_a_dict_keeps_its_order(tmp_path):
    write('profiling_d', '0', ms := {'tiled': 2., 'naive': 1., '8': {'b': 1, 'a': 2}}, ms, folder=tmp_path)
    assert json.dumps(read('profiling_d', '0', tmp_path).data) == json.dumps(ms)


def test_an_error_is_not_hidden_by_a_recording(made):
    def bang(): raise ZeroDivisionError('bang')
    with pytest.raises(ZeroDivisionError): recorded('profiling_a', bang, 'source', 7)


def test_a_failed_recording_leaves_the_old_one(made, monkeypatch):
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    monkeypatch.setenv('GRIDSTRIDE_MISSED', str(made/'missed'))
    before = (made/'profiling_a.json').read_bytes()
    recorded('profiling_a', missing, 'source', 7)
    assert (made/'profiling_a.json').read_bytes() == before
    assert names((made/'missed').read_text(), 'profiling_a', 'NVIDIA GPU\n')
    with pytest.raises(TypeError): recorded('profiling_a', lambda: 1, 'source', 7, save=lambda x: {1, 2})
    assert ((made/'profiling_a.json').read_bytes() == before
            and sorted(os.listdir(made)) == ['missed', 'profiling_a.json']), 'no half-written file is left'


def test_save_and_load_rebuild_what_a_gpu_shows(folder, monkeypatch):
    class Table:
        def __init__(self, rows, caption=''): self.rows, self.caption = rows, caption
        def _repr_html_(self): return f'<table>{self.rows}</table>'
    def call(make): return recorded('profiling_t', make, save=lambda t: t.rows, load=Table)
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    call(lambda: Table([1, 2]))
    t = call(missing)
    assert t.rows == [1, 2] and t.caption.startswith('recorded ')


def test_forms_of_a_figure_and_of_bytes(folder):
    import matplotlib
    matplotlib.use('Agg')
    import matplotlib.pyplot as plt
    fig, _ = plt.subplots(figsize=(1, 1))
    write('profiling_f', 'k', fig)
    plt.close(fig)
    png = read('profiling_f', 'k')._repr_mimebundle_()['image/png']
    assert png.startswith('iVBORw0KGgo'), 'base64 of a PNG, as Jupyter wants it'


@pytest.mark.slow
def test_keys_do_not_depend_on_values_or_runs(folder):
    code = ('import numpy as np; from gridstride.bench.keys import key; '
            'print(key(np.zeros((2,3), np.float32), dict(b=1, a=2), key))')
    keys = {subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True,
                           env={**os.environ, 'PYTHONHASHSEED': s}).stdout.strip() for s in '12'}
    assert keys == {key(np.ones((2, 3), np.float32), dict(a=2, b=1), key)}


def test_torch_and_numpy_arrays_have_the_same_key():
    import torch
    assert key(torch.ones(3, 4)) == key(np.zeros((3, 4), np.float32))
    assert len({key(torch.ones(3, 4)), key(torch.ones(3, 4).double()), key(torch.ones(4, 3)), key(torch.ones(12))}) == 4


def test_kernels_count_with_their_source():
    from gridstride.sim import cuda
    @cuda.jit
    def k(x): x[0] = 1
    def plain(x): x[0] = 1
    assert key(k) != key(plain), 'decorator and name are part of the source'
    assert (key(type('Triton', (), dict(src='a'))()) == key(type('Triton', (), dict(src='a'))())
            != key(type('Triton', (), dict(src='b'))()))


KERNEL = r"""
#define TWICE(x) (2*(x))     // a macro
__global__ void k(float *x) {
    x[0] = TWICE(1); /* one
    thread */
    printf("http://%s /* no comment */", "\"//");
}
"""


@pytest.mark.parametrize('parts', [
    lambda src: [src], lambda src: [[src, 7]], lambda src: [dict(k=src)],
    lambda src: [type('Kernel', (), dict(src=src))()]], ids=['text', 'list', 'dict', 'kernel'])
def test_comments_of_cuda_c_decide_nothing_and_its_code_decides(folder, monkeypatch, parts):
    def measure(): return 7
    commented = KERNEL.replace('a macro', 'another').replace('/* one\n    thread */', '// thread 0\n').replace(
        'x[0]', '// the first\n    x[0]')
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    recorded('profiling_k', measure, *parts(KERNEL))
    assert recorded('profiling_k', missing, *parts(commented)).data == 7
    for old, new in {'TWICE(1)': 'TWICE(2)', '2*(x)': '3*(x)', 'http://': 'http:/', '/* no comment */': '',
                     r'\"//': r'\"/'}.items():
        assert old in KERNEL
        with pytest.raises(Unavailable, match='another source'):
            recorded('profiling_k', missing, *parts(KERNEL.replace(old, new)))


def test_a_launched_kernel_counts_without_its_comments_and_its_launcher_as_written(folder, monkeypatch):
    monkeypatch.setattr('gridstride.utils.backend', lambda: 'gpu')
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    measure, another = (define(f'def measure(): return [{x}, "__global__ void k() {{}}"]') for x in ('7//2', '7//3'))
    kernel, commented, other = (type('Kernel', (), dict(src=s))() for s in (
        KERNEL, KERNEL.replace('a macro', 'another'), KERNEL.replace('[0]', '[1]')))
    on_gpu('profiling_l', measure, kernel)
    monkeypatch.setattr('gridstride.utils.backend', lambda: 'sim')
    assert on_gpu('profiling_l', measure, commented)[0] == 3
    for call in (measure, other), (another, kernel):
        with pytest.raises(Unavailable, match='another source'): on_gpu('profiling_l', *call)


@pytest.mark.parametrize('text', [
    f'launch({KERNEL!r}, x // 2)', repr([KERNEL, 7 // 2]), f'<Plan {KERNEL!r}>', 'x // 2',
    f'    def f(x):\n        return x // 2, {KERNEL!r}\n'])
def test_text_that_quotes_cuda_c_keeps_its_comments(text):
    assert without_comments(text) == text


def test_cuda_c_without_comments_has_no_more_of_them():
    assert without_comments(without_comments(KERNEL)) == without_comments(KERNEL) != KERNEL
    assert without_comments('__device__ int f(); // declared') == '__device__ int f();'


@pytest.mark.parametrize('name', ['', '.', '..', 'a/b', '../a', '/a'])
def test_names_stay_in_the_folder(folder, name):
    with pytest.raises(ValueError, match=re.escape(repr(name))): write(name, 'k', 1)


def test_the_first_gpu_is_used(tmp_path, monkeypatch):
    (tmp_path/'nvidia-smi').write_text('#!/bin/sh\necho "NVIDIA H100 80GB HBM3, 580.159"\necho "NVIDIA T4, 1"\n')
    (tmp_path/'nvidia-smi').chmod(0o755)
    monkeypatch.setenv('PATH', str(tmp_path), prepend=os.pathsep)
    m = recording.machine()
    assert m['gpu'] == 'NVIDIA H100 80GB HBM3' and m['versions']['driver'] == '580.159'
    assert re.fullmatch(r'\d{4}-\d\d-\d\d', m['date'])
    (tmp_path/'nvidia-smi').write_text('#!/bin/sh\necho failed; exit 9\n')
    assert recording.machine()['gpu'] is None


def notebook(path, call):
    path.write_text(json.dumps(
        dict(cells=[dict(cell_type='code', id=f'c{i}', metadata={}, source=s, outputs=[], execution_count=None)
                    for i, s in enumerate([CELLS, call])], metadata={}, nbformat=4, nbformat_minor=5)))
    return path


@pytest.mark.slow
def test_in_a_lesson(folder, monkeypatch, warm_kernels):
    "Recorded on one machine, shown on another, refused in one line after an edit"
    nb = notebook(folder.parent/'08_x.ipynb', "recorded('profiling_p', profile, SRC)")
    monkeypatch.setenv('HAS_GPU', '1')
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    asyncio.run(lessons.execute(nb))
    monkeypatch.delenv('GRIDSTRIDE_RECORD')
    monkeypatch.setenv('HAS_GPU', '0')
    said, shown = asyncio.run(lessons.execute(nb)).cells[1].outputs
    assert 'recorded' in said.text and "{'GB/s': 3001}" in shown.data['text/plain']
    edited = notebook(folder.parent/'08_x.ipynb', "recorded('profiling_p', profile, SRC+';')")
    with pytest.raises(lessons.LessonError) as e: asyncio.run(lessons.execute(edited))
    assert (names(str(e.value).splitlines()[-1], 'Unavailable', 'NVIDIA GPU', 'recording')), e.value
    assert 'Traceback' not in str(e.value), 'one line, not a page'


def test_what_is_shown_can_say_where_it_was_made(made, monkeypatch):
    recorded('profiling_a', missing, 'source', 7)
    assert names(recording.made_on(), 'recorded', 'NVIDIA H100, 2026-11-21')
    recorded('profiling_a', lambda: 3, 'source', 7)
    monkeypatch.setattr(recording, 'machine', lambda: dict(gpu='a GPU', date='today', versions={}))
    assert recording.made_on() == 'a GPU, today'


# Claims

@pytest.mark.parametrize('low,measured,high,unit,shown,wanted', [
    (2.2, 2.534, 2.8, 'x', '2.53x', '2.2 to 2.8x'), (1, 1, 1, '', '1', '1'), (70, 71, 85, '%', '71%', '70 to 85%'),
    (2e3, 2531.4, 3e3, 'GB/s', '2,531 GB/s', '2,000 to 3,000 GB/s'), (None, .7, 1, 'µs', '0.7 µs', 'at most 1 µs')])
def test_a_claim_that_holds_is_one_short_line(folder, monkeypatch, capsys, low, measured, high, unit, shown, wanted):
    recorded('profiling_b', lambda: measured)
    monkeypatch.setenv('GRIDSTRIDE_CLAIMS', 'hold')
    claim('a', low, measured, high, unit)
    assert capsys.readouterr().out == f'a: {shown}, expected {wanted} on an H100\n'
    assert expected(low, measured, high, unit) == wanted


@pytest.mark.parametrize('low,measured,high,unit,shown', [
    (.8, 1.3, 1.15, '', '1.3'), (.8, .7, None, 'ms', '0.7 ms'), (None, 2, 1, 'x', '2x'),
    (1, float('nan'), 2, '', 'nan'), (1, None, 2, 'x', 'not measured')])
def test_a_claim_that_does_not_hold_stops_no_reader(folder, monkeypatch, capsys, low, measured, high, unit, shown):
    recorded('profiling_b', lambda: measured)
    claim('a', low, measured, high, unit)
    out = capsys.readouterr().out
    assert out.startswith(f'a: {shown}') and len(out.splitlines()) == 1
    assert ('but' in out) == (measured is not None) == ('not here' in expected(low, measured, high, unit))
    for name, value in (('RECORD', '1'), ('CLAIMS', 'hold')):  # but a run that stores outputs for others
        monkeypatch.setenv(f'GRIDSTRIDE_{name}', value)
        with pytest.raises(AssertionError, match=shown): claim('a', low, measured, high, unit)
        with pytest.raises(AssertionError, match=shown): expected(low, measured, high, unit)
        monkeypatch.delenv(f'GRIDSTRIDE_{name}')


def test_a_claim_about_a_recording_stops_no_reader(made, monkeypatch, capsys):
    monkeypatch.setenv('GRIDSTRIDE_CLAIMS', 'hold')
    rate = recorded('profiling_a', missing, 'source', 7).data['GB/s']
    claim('rate', 3000, rate, None)
    claim('rate', None, rate, 3000)
    assert names(expected(None, rate, 3000), '3,000', 'not here')
    recorded('profiling_b', lambda: 3)
    claim('rate', None, rate, 3000, mark='recorded elsewhere')
    with pytest.raises(AssertionError): claim('rate', None, rate, 3000)
    assert ['but' in line for line in capsys.readouterr().out.splitlines()[-3:]] == [False, True, True]


def test_a_table_of_claims_has_a_row_per_claim(folder, monkeypatch):
    recorded('profiling_b', lambda: 2.5)
    t = claim_table(('a', 2.2, 2.534, 2.8, 'x'), ('b', 30, 20, None, 'ms', 3), ('c', 1, None, 2), title='T')
    assert t.title == 'T' and t.header[-1] == EXPECTED.lstrip('<')
    assert [row[:2] for row in t.rows][:2] == [['a', '2.53x'], ['b', '20 ms']]
    assert t.rows[2][0] == 'c' and not re.search(r'\d', t.rows[2][1])
    assert ['not here' in row[2] for row in t.rows] == ['3 ms' in row[2] for row in t.rows] == [False, True, False]
    monkeypatch.setenv('GRIDSTRIDE_CLAIMS', 'hold')
    with pytest.raises(AssertionError, match='20'): claim_table(('b', 30, 20, None))
    assert claim_table(('b', 30, 20, None), mark='recorded elsewhere').rows


def test_a_claim_needs_a_bound():
    with pytest.raises(ValueError, match='low, high'): claim('a', None, 1, None)


@pytest.mark.parametrize('guess,said', [(None, ''), (..., ''), (2.5, '; you guessed 2.5x')])
def test_a_claim_shows_the_readers_guess(folder, capsys, guess, said):
    claim('a', 1, 2, 3, 'x', guess=guess, where='a laptop')
    assert names(out := capsys.readouterr().out, '2x', '1 to 3x', 'laptop') and out.endswith(f'{said}\n')
    assert expected(1, 2, 3, 'x', guess=guess) == f'1 to 3x{said}'
    with pytest.raises(TypeError, match="my_guess is 'fast'"): claim('a', 1, 2, 3, guess='fast')


@pytest.mark.slow
def test_claims_must_hold_where_outputs_are_kept(folder, warm_kernels):
    nb = notebook(folder.parent/'08_x.ipynb', "from gridstride.bench.recording import claim\nclaim('a', 1, 2, 1.5)")
    assert 'but expected' in asyncio.run(lessons.execute(nb)).cells[1].outputs[0].text
    with pytest.raises(lessons.LessonError, match='1 to 1.5'):
        asyncio.run(lessons.execute(nb, will_save=True))


def test_what_is_only_printed_is_recorded_as_well(folder, monkeypatch, capsys):
    "The words of an error, a row of times: printed on a machine with a GPU, else as recorded there"
    from gridstride import utils
    from gridstride.bench.recording import print_on_gpu
    said = ['1.63 ms']
    def show(): print(*said)
    monkeypatch.setattr(utils, 'gpu_count', lambda: 0)
    monkeypatch.setattr(utils, 'backend', lambda: 'gpu')
    print_on_gpu('06_a', show, 'source')
    assert capsys.readouterr().out == '1.63 ms\n' and not folder.exists()
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    monkeypatch.setattr(recording, 'machine', lambda tools: dict(gpu='NVIDIA H100', date='2026-11-21', versions={}))
    print_on_gpu('06_a', show, 'source')
    monkeypatch.delenv('GRIDSTRIDE_RECORD')
    monkeypatch.setattr(utils, 'backend', lambda: 'sim')
    said[:] = ['nothing that is measured here']
    capsys.readouterr()
    print_on_gpu('06_a', show, 'source')
    assert (capsys.readouterr().out == 'This needs an NVIDIA GPU, and none was found. '
                                       'What follows was recorded on an NVIDIA H100, 2026-11-21\n1.63 ms\n')
    with pytest.raises(Unavailable, match='another source'): print_on_gpu('06_a', show, 'another')
