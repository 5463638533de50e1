"The lessons run from top to bottom, their outputs are not older than their code, and the runner keeps its promises."
import ast, asyncio, json, os, re, shutil, subprocess, sys
from functools import cache
from pathlib import Path

import lesson_sources
import pytest
from gridstride.bench import keys, recording
from gridstride.course import curriculum, lessons as L
from found import names

ROOT = Path(__file__).resolve().parents[1]
NBS = ROOT/'nbs'


def states(folder):
    "Of every file below `folder` which one it is, how large, and when it was last changed in any way"
    paths = [f'{at}/{name}' for at, _, names in os.walk(folder) if '__pycache__' not in at for name in names]
    return {p: (o.st_ino, o.st_size, o.st_mtime_ns, o.st_ctime_ns) for p, o in zip(paths, map(os.lstat, paths))}


def cell(source, *tags):
    return dict(cell_type='code', id=f'c{abs(hash(source))%10**6}', metadata=dict(tags=list(tags)) if tags else {},
                source=source, outputs=[], execution_count=None)


def write(path, *cells):
    "Make a notebook of `cells`, sources or cells"
    cells = [cell(c) if isinstance(c, str) else c for c in cells]
    path.write_text(json.dumps(dict(cells=cells, metadata=dict(
        kernelspec=dict(name='python3', display_name='Python 3', language='python')), nbformat=4, nbformat_minor=5)))
    return path


def run_alone(folder, *args, **env):
    "Run the lessons of `folder` as the command does: in a new Python, with new kernels"
    code = f'import sys; from gridstride.course.lessons import main; sys.exit(main(sys.argv[1:], {str(folder)!r}))'
    return subprocess.run([sys.executable, '-c', code, *args], text=True, capture_output=True, timeout=300,
                          env={**os.environ, **env})


@pytest.fixture
def run(warm_kernels, monkeypatch, capfd):
    "Return a function that runs the lessons of a folder here, with forked kernels, and returns what `run_alone` does"
    def run(folder, *args, **env):
        for name, value in env.items(): monkeypatch.setenv(name, value)
        try: status = L.main([*args], str(folder))
        except SystemExit as e: status = e.code
        return subprocess.CompletedProcess(args, status, *capfd.readouterr())
    return run


def test_there_are_lessons(): assert [p.name[:2] for p in L.lessons()][:1] == ['01']


def shown(nb):
    "The lines of all outputs, as text"
    return [line for c in nb['cells'] for o in c.get('outputs', [])
            for text in (o.get('text', ''), o.get('data', {}).get('text/plain', ''))
            for line in ''.join(text).splitlines()]


def said(nb):
    "The lines of a lesson's claims, and of its tables with a column of claims"
    return [line for line in shown(nb) if re.search(r'expected (.* )?on |; expected ', line)]


def false(nb):
    "The lines of claims that do not hold"
    return [line for line in shown(nb) if re.search('but expected|but not here|not measured here', line)]


@pytest.fixture
def alone(copied_course, tmp_path):
    "Copies a lesson to a folder where it has `utils.py` and `recorded`, as the README promises, and nothing else"
    def copy(path):
        for name in (path.name, 'utils.py'): shutil.copy(copied_course/'nbs'/name, tmp_path)
        (tmp_path/'recorded').symlink_to(copied_course/'nbs/recorded')
        return tmp_path/path.name
    return copy


CHAPTERS = {o.chapter for o in curriculum.LESSONS}


def chapter_of(recording):
    "The chapter whose slug a recording's name begins with; `shared_memory` begins that of `shared_memory_cuda`, too"
    return max((c for c in CHAPTERS if recording.startswith(f'{c}_')), key=len, default=None)


@cache
def code_of(path): return '\n'.join(L.code(L.read(path)))


def is_named(recording, path, whole):
    "Does the code of a lesson name a recording, or else the first part of its name, as a ladder does?"
    named, first = code_of(path), len(chapter_of(recording)) + 2
    parts = [recording] if whole else [recording[:n] for n in range(first, len(recording))]
    return any(re.search(rf"'{re.escape(o)}['{{]", named) for o in parts)


def recordings(path):
    "Names of the recordings of a lesson; those of which it names the first part are of the last lesson that does"
    chapter = curriculum.lesson_of_file(path.name).chapter
    later = [p for p in L.lessons() if p > path and curriculum.lesson_of_file(p.name).chapter == chapter]
    mine = [p.stem for p in (NBS/'recorded').glob('*.json') if chapter_of(p.stem) == chapter]
    return {o for o in mine if is_named(o, path, True)
            or is_named(o, path, False) and not any(is_named(o, p, False) for p in later)}


def test_each_recording_belongs_to_a_lesson():
    kept = {p.stem for p in (NBS/'recorded').glob('*.json')} - {'sources'}
    assert kept == {o for p in L.lessons() for o in recordings(p)}


def misfits(recordings, lookups):
    "Recordings that a lesson did not show although it could: stale, because the source differs, or never looked up"
    how = [line.split() for line in lookups.splitlines()]
    stale = {name for name, state in how if state == 'stale'}
    unused = recordings - {name for name, _ in how}
    return dict.fromkeys(recordings & stale, 'stale') | dict.fromkeys(unused, 'unused')


def test_a_recording_that_is_not_shown_is_found():
    assert misfits({'13_a', '13_b', '13_c', '13_d'}, '13_a hit\n13_b stale\n13_d made\n13_e stale\n') == {
        '13_b': 'stale', '13_c': 'unused'}


# Without a GPU, the functions that measure on one are never called: a name that they miss shows there alone.
UNDEFINED = '''
import builtins, dis, types

def codes(code):
    return [code, *(o for c in code.co_consts if isinstance(c, types.CodeType) for o in codes(c))]

def undefined(space, seen):
    "Names that the lesson's functions in `space`, and those that they see, load and that do not exist"
    if id(space) in seen: return set()
    seen.add(id(space))
    functions = [f for f in space.values() if isinstance(f, types.FunctionType)
                 and (f.__globals__ is globals() or f.__code__.co_filename.startswith('<made'))]
    missing = {f'{f.__name__}: {o.argval}' for f in functions for code in codes(f.__code__)
               for o in dis.get_instructions(code)
               if o.opname == 'LOAD_GLOBAL' and o.argval not in f.__globals__ and not hasattr(builtins, o.argval)}
    return missing.union(*(undefined(f.__globals__, seen) for f in functions))

undefined(globals(), set())'''


# To draw a plot as PNG and as SVG takes up to a second. Every fourth lesson shows its plots; the others only make them.
SHOWN_PLOTS = {path.name for path in L.lessons()[1::4]}
NO_PLOTS = """import matplotlib
matplotlib.use('agg')
from gridstride.support import plots
def draw_and_close(draw):
    figure = draw().figure
    matplotlib.pyplot.close(figure)
    return {}
plots.images_of = draw_and_close
del draw_and_close, plots"""


def add_cells(path, before, after):
    "Add cells with these sources before and after those of a notebook"
    nb = L.read(path)
    path.write_text(json.dumps({**nb, 'cells': [*map(cell, before), *nb['cells'], *map(cell, after)]}))


@pytest.mark.parametrize('path', L.lessons(), ids=lambda p: p.stem)
def test_lesson_runs(path, alone, copied_course, warm_kernels, tmp_path_factory, monkeypatch):
    """In a fresh kernel, in a folder of its own, and nothing in the course or that folder changes; each recording fits
    the lesson, and what the text claims of it holds as it is read back, too"""
    lesson = alone(path)
    add_cells(lesson, [] if path.name in SHOWN_PLOTS else [NO_PLOTS], [UNDEFINED])
    before = states(copied_course), states(lesson.parent)
    lookups = tmp_path_factory.mktemp('lookups')/'lookups'
    lookups.touch()
    monkeypatch.setenv('GRIDSTRIDE_LOOKUPS', str(lookups))
    nb = asyncio.run(L.execute(lesson))
    assert misfits(recordings(path), lookups.read_text()) == {}
    assert (states(copied_course), states(lesson.parent)) == before
    assert [line for line in false(nb) if 'laptop' not in line] == []  # a CPU that other tests share
    assert shown(dict(cells=nb['cells'][-1:])) == ['set()'], 'names that its functions miss'


@pytest.mark.slow
def test_what_lessons_take_from_each_other_is_what_is_kept():
    assert json.loads(lesson_sources.FILE.read_text(encoding='utf-8')) == lesson_sources.sources(), \
        'run tests/lesson_sources.py'


@pytest.mark.parametrize('path', sorted(NBS.rglob('*.ipynb')), ids=lambda p: str(p.relative_to(NBS)))
def test_outputs_are_not_older_than_the_code(path):
    where,nb = path.name.partition('_')[0] if path.parent == NBS else path.relative_to(ROOT),L.read(path)
    assert not L.is_stale(nb), (f'{path.name} was edited after its outputs were made. Run: '
                             f'python3 course.py run {where} --save')
    assert not [o for o in shown(nb) if o.startswith('New key: ')], f'{path.name} was saved under benchmarks/rekey.py'


@pytest.mark.parametrize('path', L.lessons(), ids=lambda p: p.stem)
def test_a_plot_that_is_shown_is_among_the_outputs(path):
    "Where outputs were made without Jupyter, plots were lost"
    shown = [c for c in L.read(path)['cells']
             if c['cell_type'] == 'code' and re.search(r'^(?! ).*plt\.show\(\)', ''.join(c['source']), re.M)]
    assert not [c['id'] for c in shown if not any('image/png' in o.get('data', {}) for o in c['outputs'])]


@pytest.mark.parametrize('path', sorted(NBS.rglob('*.ipynb')), ids=lambda p: str(p.relative_to(NBS)))
def test_a_notebook_is_small(path):
    "A reader downloads it whole, and static pages show no large ones; `gridstride.support.plots` says what keeps it so"
    outputs = [o for c in L.read(path)['cells'] for o in c.get('outputs', [])]
    assert path.stat().st_size < 1 << 20
    assert max((len(json.dumps(v)) for o in outputs for v in o.get('data', {}).values()), default=0) < 400_000


IMPORT = 'from gridstride.lesson import *'


@pytest.mark.parametrize('path', L.lessons(), ids=lambda p: p.stem)
def test_a_lesson_begins_with_one_line_that_imports_and_at_most_five_more(path):
    lines = [line for line in L.code(L.read(path))[0].splitlines() if line.strip()]
    assert lines[0] == IMPORT and len(lines) <= 6, lines


def reveals(source):
    "What a cell with a guess does besides asking for it"
    if 'my_guess = ' not in source or source.startswith('%%capture'): return []
    return [ast.unparse(o) for o in ast.parse(source).body
            if not re.match(r'(my_guess = |guess\(my_guess\b)', ast.unparse(o))]


def test_a_cell_with_a_guess_that_reveals_something_is_found():
    assert reveals("my_guess = ...   # ms\nguess(my_guess, 'ms')") == [] == reveals('claim(1, 2, 3, guess=my_guess)')
    assert reveals('my_guess = ...\nprint(bench(f))') == ['print(bench(f))']


@pytest.mark.parametrize('path', L.lessons(), ids=lambda p: p.stem)
def test_a_cell_with_a_guess_reveals_nothing(path):
    "The next one does"
    assert [o for source in L.code(L.read(path)) if 'my_guess = ' in source for o in reveals(source)] == []


def is_folded(cell):
    "For JupyterLab, for the site, for Colab"
    kept = cell['metadata']
    return [kept.get('jupyter', {}).get('source_hidden', False), 'hide-input' in kept.get('tags', []),
            kept.get('cellView') == 'form']


@pytest.mark.parametrize('path', L.lessons(), ids=lambda p: p.stem)
def test_code_is_folded_everywhere_or_nowhere(path):
    "And neither an exercise nor a guess is"
    for c in L.read(path)['cells']:
        assert len({*is_folded(c)}) == 1, c['id']
        source = ''.join(c['source'])  # `%%capture` repeats what was in the lesson before
        assert source.startswith('%%capture') or not (
            is_folded(c)[0] and re.search('^@exercise|^my_guess', source, re.M)), c['id']


def bound(tree):
    "The names that each statement at the top level of a cell binds: an unpacking is one list, an import none"
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)): yield [node.name]
        elif isinstance(node, ast.Assign):
            inside = [o for target in node.targets for o in ast.walk(target) if isinstance(o, ast.Name)]
            yield [o.id for o in inside if isinstance(o.ctx, ast.Store)]


def used_in(cell):
    "The names in a code cell, and in the code of a text"
    source = ''.join(cell['source'])
    pieces = [source] if cell['cell_type'] == 'code' else re.findall('`([^`\n]*)`', source)
    return {name for piece in pieces for name in re.findall(r'(?<![\w.])[A-Za-z_]\w*', piece)}


def introduced(nb):
    "What each visible code cell introduces for later cells: {index: [names of an assignment, a function or a class]}"
    known, found, cells = set(), {}, nb['cells']
    for i, c in enumerate(cells):
        source = '\n'.join(o for o in ''.join(c['source']).splitlines() if not re.match(r'\s*[%!]', o))
        if c['cell_type'] != 'code' or '%%' in ''.join(c['source']): continue
        later = set().union(*map(used_in, cells[i+1:]))
        statements = list(bound(ast.parse(source)))
        new = [[o for o in names if o in later - known] for names in statements]
        if not is_folded(c)[0]: found[i] = [names for names in new if names]
        known |= {o for names in statements for o in names}
    return found


def test_what_a_cell_introduces_is_what_later_cells_use():
    text = dict(cell_type='markdown', metadata={}, source='only `f(x)`, not g')
    first, last = 'import m\na,b = 1,2\nc = 3\ndef f(): pass\ndef g(): pass', 'a = b + c\nd = m.d'
    nb = dict(cells=[cell(first), text, cell(last)])
    assert introduced(nb) == {0: [['a', 'b'], ['c'], ['f']], 2: []}
    nb['cells'].append(cell('d', 'hide-input'))
    assert introduced(nb)[2] == [['d']]


@pytest.mark.parametrize('path', L.lessons(), ids=lambda p: p.stem)
def test_a_cell_introduces_at_most_three_names(path):
    assert not {i: names for i, names in introduced(L.read(path)).items() if len(names) > 3}


MEASURED = re.compile(r'^\s*assert\b.*(\.(ratio|tflops|gbs|median|seconds)\b(?! == 0)|counters\[|Throughput|Waves)',
                      re.M)


@pytest.mark.parametrize('path', L.lessons(), ids=lambda p: p.stem)
def test_speeds_and_counters_are_claims_and_hold_for_what_is_shown(path):
    "No speed, heat or model of a reader's GPU stops a lesson; and recordings match the text around them"
    nb = L.read(path)
    assert not (found := [m[0].strip() for m in map(MEASURED.search, L.code(nb)) if m]), found
    assert false(nb) == [] and (said(nb) or not re.search(r'claim\(|expect', '\n'.join(L.code(nb))))


@pytest.mark.slow
def test_run_says_how_each_went_and_changes_no_file(tmp_path):
    write(tmp_path/'01_good.ipynb', 'print(6*7)', '', cell('1/0', 'raises-exception'), 'a = 1')
    write(tmp_path/'02_bad.ipynb', 'a = 1', '', '# half of nothing\na/0', 'a')
    before = states(tmp_path)
    res = run_alone(tmp_path, 'run', '--jobs', '2', GRIDSTRIDE_BACKEND='sim')
    assert res.returncode == 1 and states(tmp_path) == before
    assert re.search(r'^01_good +sim +3 +\d+\.\d +ok$', res.stdout, re.M), res.stdout
    assert re.search(r'^02_bad +sim +2 +\d+\.\d +failed in cell \[2\]$', res.stdout, re.M), res.stdout
    for words in ('02_bad stopped: cell [2]', '# half of nothing', 'ZeroDivisionError: division by zero', '----> 2'):
        assert words in res.stderr
    assert ('\x1b' not in res.stdout + res.stderr and 'it/s' not in res.stderr
            and 'encryption' not in res.stderr), 'no colours, no bar and no warning in a log'


@pytest.mark.slow
def test_all_good_is_status_0_and_each_gets_a_line(tmp_path, run):
    for n in ('01', '02', '03'): write(tmp_path/f'{n}_a.ipynb', 'a = 1')
    res = run(tmp_path, 'run', '3', '01')
    assert res.returncode == 0 and not res.stderr, res
    assert sorted(re.findall(r'^(\w+): ok, \d+\.\d s$', res.stdout, re.M)) == ['01_a', '03_a']


@pytest.mark.parametrize('args', [['--help'], ['progress', '--help'], ['progress', '01', '-h'], ['trust', '-h']])
def test_help(capsys, args):
    assert L.main(args) == 0 and names(capsys.readouterr().out, 'progress [NN ...]', 'trust')


def test_progress_of_all_lessons_and_of_one(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv('GRIDSTRIDE_PROGRESS', raising=False)
    write(tmp_path/'01_a.ipynb', "@exercise('a.one')\ndef f(): ...")
    (tmp_path/'.progress.json').write_text(json.dumps(dict(solved={'a.one': '2026-11-21'})))
    for args, words in (((), '1 of 1 exercises solved'), (('1',), '2026-11-21  a.one')):
        assert L.main(['progress', *args], tmp_path) == 0 and words in capsys.readouterr().out


@pytest.mark.parametrize('args,words', [
    (['run', '9'], 'no lesson 9'), (['run', '--jobs', '-1'], '--jobs'),
    (['run', '--sav'], 'unrecognized arguments: --sav')])  # half an option writes no files
def test_a_question_that_makes_no_sense(tmp_path, args, words, run):
    res = run(tmp_path, *args)
    assert res.returncode == 2 and words in res.stderr and len(res.stderr.splitlines()) == 1, res


def test_a_backend_that_is_not_there(tmp_path, run):
    write(tmp_path/'01_a.ipynb', 'a = 1')
    res = run(tmp_path, 'run', GRIDSTRIDE_BACKEND='tpu')
    assert res.returncode == 2 and "'tpu'" in res.stderr and 'Traceback' not in res.stderr, res


def test_a_package_that_lessons_lack_is_reported(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, 'tqdm', None)  # as if it were not installed
    assert L.main(['run', '01']) == 2
    assert names(capsys.readouterr().err, 'tqdm', 'python3 course.py run')


@pytest.mark.slow
def test_a_file_that_is_not_a_notebook(tmp_path, run):
    (tmp_path/'01_a.ipynb').write_text('{"cells": [')
    res = run(tmp_path, 'run')
    assert (res.returncode == 1 and '01_a.ipynb' in res.stderr
            and 'Traceback' not in res.stderr), res


@pytest.mark.slow
def test_a_kernel_that_dies(tmp_path, run):
    write(tmp_path/'01_a.ipynb', 'a = 1', 'import os; os._exit(1)')
    res = run(tmp_path, 'run')
    assert res.returncode == 1 and '01_a stopped: cell [2]' in res.stderr, res


FOLDED = cell('a = 2', 'hide-input')
FOLDED['metadata'] |= dict(jupyter=dict(source_hidden=True), cellView='form')
MESSY = ['class A: pass\nA()', 'import sys\nprint("a\\nb"); print("c", file=sys.stderr); print("ä")', '"<b>\\n"', '',
         "from IPython.display import display, SVG, HTML\ndisplay(SVG('<svg "
         "xmlns=\"http://www.w3.org/2000/svg\"><g/>\\n</svg>'), HTML('<i>\\n</i>'), metadata={'a': 1})",
         '%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);',
         cell('1/0', 'raises-exception', 'keep'), FOLDED, 'for i in range(3): print(i, end="", flush=True)']


@pytest.mark.slow
def test_save_is_in_clean_form_and_the_same_again(tmp_path, run):
    "`nbdev-clean` finds nothing to change after --save, and saving twice gives the same bytes"
    (tmp_path/'nbs').mkdir()
    shutil.copy(ROOT/'pyproject.toml', tmp_path)
    (tmp_path/'gridstride').mkdir()
    path = write(tmp_path/'nbs/01_a.ipynb', *MESSY)
    assert run(tmp_path/'nbs', 'run', '--save', GRIDSTRIDE_BACKEND='sim').returncode == 0
    saved = path.read_text(encoding='utf-8')
    nb = json.loads(saved)
    assert nb['metadata']['gridstride'] == dict(code=L.code_hash(nb), backend='sim') and not L.is_stale(nb)
    assert [len(c['outputs']) for c in nb['cells']] == [1, 2, 1, 0, 2, 1, 1, 0, 1], \
        'the outputs of every kind are there'
    assert 'ä' in saved and ' at 0x' not in saved and nb['cells'][6]['metadata'] == dict(
        tags=['raises-exception', 'keep'])
    assert nb['cells'][7]['metadata'] == FOLDED['metadata']
    done = subprocess.run([Path(sys.executable).with_name('nbdev-clean')], cwd=tmp_path, text=True, capture_output=True)
    assert done.returncode == 0 and path.read_text(encoding='utf-8') == saved, done.stderr
    assert run(tmp_path/'nbs', 'run', '--save', GRIDSTRIDE_BACKEND='sim').returncode == 0
    assert path.read_text(encoding='utf-8') == saved


@pytest.mark.slow
def test_save_writes_whole_lessons_only(tmp_path, run):
    write(tmp_path/'01_a.ipynb', 'print(1)', '1/0')
    before = states(tmp_path)
    assert run(tmp_path, 'run', '--save').returncode == 1
    assert states(tmp_path) == before


@pytest.mark.slow
def test_save_that_is_cut_short_leaves_the_old_file(tmp_path, monkeypatch, warm_kernels):
    path = write(tmp_path/'01_a.ipynb', 'print(1)')
    before = states(tmp_path)
    nb = asyncio.run(L.execute(path))
    def cut(*args): raise KeyboardInterrupt
    monkeypatch.setattr(os, 'replace', cut)
    with pytest.raises(KeyboardInterrupt): L.save(nb, path)
    assert states(tmp_path) == before


@pytest.mark.slow
def test_save_keeps_an_edit_made_in_the_meantime(tmp_path, run):
    path = write(tmp_path/'01_a.ipynb', f'from pathlib import Path\np = Path({str(tmp_path)!r})/"01_a.ipynb"\n'
                                        'p.write_text(p.read_text().replace("one", "two")); "one"')
    res = run(tmp_path, 'run', '--save')
    assert (res.returncode == 1 and 'edited' in res.stderr
            and '"two"' in json.loads(path.read_text())['cells'][0]['source']), res


def test_save_refuses_a_recording_with_another_key(tmp_path, warm_kernels):
    "The notebook would say that the recording is not shown; the error names it and both remedies"
    path = write(tmp_path/'01_a.ipynb', """from gridstride.bench.recording import Unavailable, recorded
def measure(): raise Unavailable('no GPU')
for name in ('first_kernel_fits', 'first_kernel_stale'):
    try: print(recorded(name, measure, 'source'))
    except Unavailable as e: print(e)""")
    for name, source in (('first_kernel_fits', 'source'), ('first_kernel_stale', 'another source')):
        recording.write(name, keys.key(source), name, folder=tmp_path/'recorded')
    before = states(tmp_path)
    run, = asyncio.run(L.run([path], will_save=True))
    assert isinstance(run.error, L.StaleRecording) and run.error.recordings == ['first_kernel_stale']
    assert all(part in str(run.error) for part in ('01_a', 'rekey.py first_kernel_stale', 'course.py record 01'))
    assert states(tmp_path) == before


def test_executing_never_solves_an_exercise(tmp_path, monkeypatch, warm_kernels):
    mine = tmp_path/'mine.json'
    monkeypatch.setenv('GRIDSTRIDE_PROGRESS', str(mine))
    write(tmp_path/'01_a.ipynb',
          'import os\nfrom pathlib import Path\nPath(os.environ["GRIDSTRIDE_PROGRESS"]).write_text("{}")')
    asyncio.run(L.execute(tmp_path/'01_a.ipynb'))
    assert not mine.exists()


@pytest.mark.slow
def test_interrupt_ends_the_kernels(tmp_path):
    import psutil, signal, time
    write(tmp_path/'01_a.ipynb', 'import os, pathlib, time\n'
                                 f'pathlib.Path({str(tmp_path/"pid")!r}).write_text(str(os.getpid()))\ntime.sleep(100)')
    code = f'import sys; from gridstride.course.lessons import main; sys.exit(main(["run"], {str(tmp_path)!r}))'
    child = subprocess.Popen([sys.executable, '-c', code], text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    end = time.monotonic() + 300
    while not ((tmp_path/'pid').exists() and (tmp_path/'pid').read_text()):
        assert child.poll() is None and time.monotonic() < end, 'the kernel never started'
        time.sleep(.05)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=300)
    assert child.returncode == 130 and err.strip() == 'Stopped.', err
    pid = int((tmp_path/'pid').read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.slow
def test_bar_in_a_terminal(tmp_path):
    import fcntl, pty, struct, termios
    write(tmp_path/'01_a.ipynb', 'a = 1', 'a')
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
    code = f'import sys; from gridstride.course.lessons import main; sys.exit(main(["run"], {str(tmp_path)!r}))'
    child = subprocess.Popen([sys.executable, '-c', code], stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)
    text = b''
    while True:
        try: text += os.read(ours, 4096)
        except OSError: break
    assert child.wait(300) == 0 and b'2/2' in text and b'01_a: ok' not in text, text


def test_lessons_are_trusted_once_signed(tmp_path, monkeypatch):
    monkeypatch.setenv('JUPYTER_DATA_DIR', str(tmp_path/'data'))
    write(tmp_path/'01_a.ipynb', '1+1')
    assert [L.trust(tmp_path), L.trust(tmp_path)] == [1, 0]
    write(tmp_path/'01_a.ipynb', '1+2')
    assert L.trust(tmp_path) == 1


def test_a_copy_names_the_kernel_as_jupyterlab_does(tmp_path, warm_kernels):
    path, other = write(tmp_path/'01_a.ipynb', '1+1'), write(tmp_path/'02_b.ipynb', '1+1')
    other.write_text(other.read_text().replace('"python3"', '"another"'))  # the reader chose another kernel
    assert [L.name_kernel(tmp_path), L.name_kernel(tmp_path)] == [1, 0]
    reported = asyncio.run(L.execute(path)).metadata  # nbclient writes what the kernel reports
    assert reported['language_info'] == L.read(path)['metadata']['language_info']
    assert 'language_info' not in L.read(other)['metadata']


def test_kernels_have_minutes_to_start():
    "The default, one minute, is too short on a machine that compiles for others"
    calls = [n for p in (ROOT/'gridstride').rglob('*.py') if 'NotebookClient(' in (text := p.read_text())
             for n in ast.walk(ast.parse(text)) if getattr(getattr(n, 'func', None), 'id', '') == 'NotebookClient']
    assert len(calls) == 2 and all('startup_timeout' in {k.arg for k in c.keywords} for c in calls)
    assert L._make_client({}, NBS, None, None).startup_timeout >= 300
