"For a class: the student edition of lessons, slides, and grading submitted notebooks."
import ast
import csv
import json
import linecache
import re

import pytest
from gridstride.course import classroom, exercise, learning_paths, lessons, slides, submissions
from gridstride.course.grading import WrongAnswer
from gridstride.course.lessons import read_progress, read_tries
from gridstride.judge import processes
from gridstride.judge.isolation import are_namespaces_supported
from gridstride.utils import cache_dir
from browsers import chromium


def code(source, **metadata):
    return dict(cell_type='code', id='c', metadata=metadata, source=source, outputs=[], execution_count=None)


def notebook(*cells): return dict(cells=list(cells), metadata={}, nbformat=4, nbformat_minor=5)


# The student edition

def test_the_student_edition_has_no_solutions_and_no_outputs(tmp_path):
    [path] = classroom.write_student_editions(['1'], tmp_path/'new')
    text, nb, whole = path.read_text(), lessons.read(path), lessons.read(lessons.pick(['1'])[0])
    assert 'Solution of' not in text and 'folded solution' not in text and 'Solution of' in json.dumps(whole)
    assert lessons.exercises(nb) == lessons.exercises(whole) and lessons.code(nb) == lessons.code(whole)
    assert not any(c.get('outputs') or c.get('execution_count') for c in nb['cells'])
    kept = [c['id'] for c in whole['cells'] if not classroom.is_solution(c)]
    assert [c['id'] for c in nb['cells']] == kept and lessons.is_stale(nb)


def test_every_exercise_has_a_solution_that_the_student_edition_leaves_out():
    for path in lessons.lessons():
        nb = lessons.read(path)
        solutions = [c for c in nb['cells'] if classroom.is_solution(c)]
        assert len(solutions) == len(lessons.exercises(nb)), path.name
        assert 'Solution of' not in json.dumps(classroom.student_edition(nb)), path.name


def test_student_editions_do_not_replace_the_lessons(tmp_path):
    with pytest.raises(ValueError, match='--to'): classroom.write_student_editions(['1'], lessons.NBS)
    with pytest.raises(LookupError): classroom.write_student_editions(['77'], tmp_path)
    assert not list(tmp_path.iterdir())


NBGRADER = {  # the keys of nbgrader's schema 3, with their types; the first four are required
    'schema_version': int, 'grade': bool, 'locked': bool, 'solution': bool, 'task': bool, 'grade_id': str,
    'points': int, 'checksum': str, 'cell_type': str}


def nbgrader_cells(nb):
    "The marked cells of an assignment's source: pairs of an answer and its test"
    marked = [c for c in classroom.student_edition(nb, nbgrader=True)['cells'] if 'nbgrader' in c['metadata']]
    return [*zip(marked[::2], marked[1::2], strict=True)]


def test_nbgrader_accepts_the_metadata_of_each_exercise():
    "By its schema, and by the rules of its validator: unique ids, points if graded"
    for path in lessons.lessons():
        nb = lessons.read(path)
        metas = [[c['metadata']['nbgrader'] for c in pair] for pair in nbgrader_cells(nb)]
        ids = [meta['grade_id'] for pair in metas for meta in pair]
        assert ids[::2] == [o.replace('.', '-') for o in lessons.exercises(nb)] and len({*ids}) == len(ids), path.name
        for meta in (meta for pair in metas for meta in pair):
            assert {*[*NBGRADER][:4]} <= meta.keys() <= NBGRADER.keys()
            assert all(type(value) is NBGRADER[key] for key, value in meta.items()) and meta['schema_version'] == 3
            assert re.fullmatch(r'[a-zA-Z0-9_\-]+', meta['grade_id']) and ('points' in meta) == meta['grade']
        assert all(a['solution'] and not a['grade'] and t['grade'] and t['locked'] for a, t in metas), path.name


def test_an_nbgrader_answer_is_the_solution_between_two_comments():
    "Outside them it has the lines of the lesson's stub, which `nbgrader generate_assignment` keeps"
    for path in lessons.lessons():
        nb = lessons.read(path)
        stubs = {c['id']: ''.join(c['source']) for c in nb['cells']}
        for answer, _ in nbgrader_cells(nb):
            head, solution, end = re.split(r'    ### (?:BEGIN|END) SOLUTION\n?', ''.join(answer['source']))
            assert head == stubs[answer['id']].rpartition('\n')[0] + '\n' and not end
            assert solution.strip() not in ('', '...', 'return ...')
            ast.parse(head + solution)


def run_assignment(answer, test):
    "Whether the test cell after an answer raises nothing"
    scope = {'exercise': exercise}
    for source in answer, test:
        linecache.cache['<cell>'] = len(source), None, source.splitlines(True), '<cell>'
        try: exec(compile(source, '<cell>', 'exec'), scope)
        except WrongAnswer: pass
        else: continue
        if source is test: return False
    return True


def test_an_nbgrader_test_passes_after_a_right_answer_only(progress_file):
    answer, test = (''.join(c['source']) for c in nbgrader_cells(lessons.read(lessons.pick(['1'])[0]))[0])
    stub = re.sub(r'###(?s:.*)', '# YOUR CODE HERE\n    raise NotImplementedError()', answer)
    forged = "exercise = lambda name: lambda f: print(name + ': right, on all 9 cases')\n"
    answers = [stub, answer, answer.replace('1 - ', ''), forged + stub, stub, answer]
    assert answers[2] != answer
    assert [run_assignment(source, test) for source in answers] == [False, True, False, False, False, True]


# Slides

@pytest.fixture
def deck(tmp_path):
    "A lesson's slides: a title, a heading with code, an output, a solution"
    printed = dict(output_type='stream', name='stdout', text='printed')
    texts = [('# Title', 't', {}), ('## One', 'a', {}), ('**Solution**', 's', {'tags': ['solution']})]
    title, one, solution = (dict(cell_type='markdown', id=k, metadata=m, source=v) for v, k, m in texts)
    cells = [title, one, {**code('1'), 'id': 'x'}, {**code('2'), 'id': 'y', 'outputs': [printed]}, solution]
    (tmp_path/'deck.html').write_text(slides.slides(notebook(*cells)), encoding='utf-8')
    return tmp_path/'deck.html'


def test_slides_load_nothing_from_the_network(deck):
    html = deck.read_text(encoding='utf-8')
    assert html.count('<script') == 1 and '<link' not in html and 'src="http' not in html and '@import' not in html
    assert len(re.findall(r'<section>(?!<section)', html)) == 3 and 'Solution' not in html and 'printed' in html


@pytest.mark.browser
def test_keys_move_among_slides(deck):
    with chromium() as browser:
        page = browser.new_page()
        page.goto(deck.as_uri())
        seen = []
        for key in ('ArrowRight', ' ', 'ArrowRight', 'ArrowLeft', 'Home'):
            page.keyboard.press(key)
            seen.append(page.evaluate("[...document.querySelectorAll('section section')].map(s => s.offsetHeight > 0)"))
        assert [row.index(True) for row in seen] == [1, 2, 2, 1, 0] and all(sum(row) == 1 for row in seen)


# The instructor's page

def test_each_chapter_has_a_goal_stumbles_and_two_questions():
    text = (lessons.ROOT/'INSTRUCTORS.md').read_text(encoding='utf-8')
    sections = dict(re.findall(r'^### (.*)\n\n((?:.+\n?|\n(?!#))*)', text, re.M))
    titles = dict.fromkeys(f'{o.number[:2]} {o.chapter_title}' for o in submissions.LESSONS)
    assert [*sections] == [*titles]
    for title, body in sections.items():
        goal, stumbles, ask = body.strip().split('\n\n')
        assert goal.startswith('**Goal** ') and stumbles.startswith('**Stumbles** '), title
        assert ask.startswith('**Ask** ') and ask.count('?') == 2, title


def test_ten_weeks_have_every_lesson_once():
    assert len(learning_paths.WEEKS) == 10
    of_weeks = [o for week in learning_paths.WEEKS for o in learning_paths.select_lessons(week, submissions.LESSONS)]
    assert of_weeks == [*submissions.LESSONS]
    one, two = (o._replace(reading=60*k, exercises=(30*k, 60*k)) for k, o in enumerate(submissions.LESSONS[:2], 1))
    assert learning_paths.chapter_table([one, two]).splitlines()[-1].endswith('| 120 | 60 to 120 |')
    assert learning_paths.week_table(submissions.LESSONS).count('\n') == 12


# Tries and times in the progress file

@pytest.fixture
def progress_file(tmp_path, monkeypatch):
    monkeypatch.setenv('GRIDSTRIDE_PROGRESS', str(tmp_path/'progress.json'))
    return tmp_path/'progress.json'


def right(i, x, out, n):
    if i < n: out[i] = 1-x[i]


def wrong(i, x, out, n):
    if i < n: out[i] = x[i]


def test_tries_are_counted_up_to_the_solution(progress_file):
    progress_file.write_text('{"solved": {"01.flip": "2026-01-01"}}')  # of an older version
    for _ in range(2):
        with pytest.raises(WrongAnswer): exercise('first_kernel.invert')(wrong)
    assert list(read_progress()) == ['first_kernel.flip'] and 'solved' not in read_tries()['first_kernel.invert']
    exercise('first_kernel.invert')(right)
    exercise('first_kernel.invert')(right)
    days, tries, name = read_progress(), read_tries(), 'first_kernel.invert'
    assert list(days) == ['first_kernel.flip', name] and list(tries) == [name] and tries[name]['tries'] == 3
    assert tries[name]['first'] <= tries[name]['solved'] and tries[name]['solved'][:10] == days[name]


def test_a_damaged_list_of_tries_is_reported(progress_file):
    assert read_tries() == {}
    progress_file.write_text('{"solved": {}, "tries": 3}')
    with pytest.raises(ValueError, match='progress.json'): read_tries()


# Grading. Each notebook has a right or a wrong answer to the first exercise of lesson 01, and does more.

LESSON = submissions.LESSONS[0]
NAMES = ['first_kernel.invert', 'first_kernel.flip']
RIGHT = """@exercise('first_kernel.invert')
def invert(i, x, out, n):
    if i < n: out[i] = 1-x[i]"""
FLIP = """@exercise('first_kernel.flip')
def flip(i, x, out, h, w):
    if i < h*w: out[i] = x[i - 2*(i%w) + w-1]"""
WRONG = RIGHT.replace('1-x', 'x')
INSPECTS = RIGHT.replace('    if', '    sys._getframe(1)\n    if')
STUB = FLIP[:FLIP.index('    if')] + '    ...'
PROBLEMS = 'from gridstride.course import grading\nimport gridstride.course.exercises.first_kernel\n'
SEND = """import json, os, struct
text = json.dumps(dict(op='verdict', secret='', name='first_kernel.invert', solved=True, why='', blobs=[])).encode()
for fd in range(3, 64):
    try: os.write(fd, struct.pack('<Q', len(text)) + text)
    except OSError: pass"""
HONEST = {
    'errors': ['1/0', 'from gridstride.lesson import *', RIGHT, 'undefined', STUB],
    'exits': ['import os, sys', RIGHT, 'os._exit(0)', 'sys.exit(3)', 'exit()', FLIP],
    'merges': ['from gridstride.course import exercise\n' + RIGHT],
    'retries': [WRONG, RIGHT, WRONG],
    'secret': ["import os\nassert 'SECRET' not in os.environ", 'print(dict(os.environ))', RIGHT],
    'prints': ["while True: print('x' * 9999999)", RIGHT],
}
CHEATS = {
    'own decorator': ["def exercise(name): return lambda f: print(name + ': right, on all 9 cases') or f", WRONG],
    'own progress': ["""import json, os
for path in '.progress.json', os.environ['GRIDSTRIDE_PROGRESS']:
    open(path, 'w').write('{"solved": {"first_kernel.invert": "2026-01-01"}}')""", WRONG],
    'cases': [PROBLEMS + 'for p in grading.problems.values(): p.cases, p.judge = [], lambda *a, **k: None', WRONG],
    'numpy': ['import numpy as np\nnp.allclose = np.array_equal = lambda *a, **k: True', RIGHT],
    'code': [PROBLEMS + 'def f(p, fn, warned): ...\ngrading._judge.__code__ = f.__code__', WRONG],
    'module': [PROBLEMS + "import types\ngrading.np = types.ModuleType('np')", RIGHT],
    'frames': ['import sys\n' + INSPECTS],
    'sends': [SEND, WRONG],
    'sends while judged': [RIGHT.replace('    if', SEND.replace('\n', '\n    ').join(['    ', '\n    if']))],
    'stub': [RIGHT[:RIGHT.index('    if')] + '    ...'],
}


def submit(folder, student, *sources):
    (folder/student).mkdir(parents=True)
    (folder/student/LESSON.file).write_text(json.dumps(notebook(*map(code, sources))))


@pytest.fixture(scope='module')
def module_servers():
    "The servers of the tests of this module: to start one takes two seconds"
    yield (servers := {})
    for server in servers.values(): server.close()


@pytest.fixture
def servers(module_servers, monkeypatch):
    "Let servers start with a secret in their environment"
    monkeypatch.setattr(processes, '_servers', module_servers)
    monkeypatch.setattr(submissions, '_GRACE_SECONDS', 1)
    monkeypatch.setenv('SECRET', 'token')


def table(path):
    with open(path, newline='') as f: return list(csv.DictReader(f))


@pytest.mark.slow
def test_a_class_is_graded(tmp_path, servers, capsys):
    "Right answers count whatever else a notebook does; wrong ones do not count, whatever it does"
    homework = tmp_path/'homework'
    for student, sources in {**HONEST, **CHEATS}.items(): submit(homework, student, *sources)
    times = dict(first='2026-01-02T10:00:00', solved='2026-01-02T10:12:40')
    progress = {'solved': {}, 'tries': {NAMES[0]: dict(tries=4, **times)}}
    (homework/'retries'/'.progress.json').write_text(json.dumps(progress))
    (homework/'cases'/'.progress.json').write_text('{"solved": {}, "tries": {"first_kernel.invert": 7}}')
    (homework/f'flat_{LESSON.file}').write_text(json.dumps(notebook(code(RIGHT))))
    (homework/f'damaged_{LESSON.file}').write_text('no notebook')
    (homework/'essay.ipynb').write_text('{}')
    assert submissions.main([str(homework), '--csv', str(tmp_path/'grades.csv'), '--seconds', '20']) == 0
    rows = {(row['student'], row['exercise']): row for row in table(tmp_path/'grades.csv')}
    ids = lessons.exercises(lessons.read(lessons.pick(['01'])[0]))
    assert {k[0] for k in rows} == {*HONEST, *CHEATS, 'flat', 'damaged'} and {k[1] for k in rows} == {*ids}
    solved = {k for k, row in rows.items() if row['solved'] == 'yes'}
    assert solved == {(k, NAMES[0]) for k in [*HONEST, 'flat']} | {('exits', NAMES[1])}
    assert [rows['retries', NAMES[0]][k] for k in ('tries', 'minutes')] == ['4', '13']
    assert {row['tries'] + row['minutes'] for k, row in rows.items() if k != ('retries', NAMES[0])} == {''}
    is_isolated = are_namespaces_supported(str(cache_dir()))
    assert {row['isolated'][:3] for k, row in rows.items() if k[0] != 'damaged'} == {'yes' if is_isolated else 'no:'}
    assert 'essay.ipynb' in capsys.readouterr().err


def test_names_of_downloads(tmp_path):
    "The last download of a lesson counts; the others are reported"
    stem = LESSON.file.removesuffix('.ipynb')
    paths = ['ann/{} (1)', 'ann/{}', 'ben/{}(3)', 'cy/{}-2', 'dee_{} (10)', 'dee_{} (9)', '{}', '{} (1)',
             'ann/{}_1', 'eve/week1/{}']
    for path in paths:
        path = tmp_path/f'{path.format(stem)}.ipynb'
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text('{}')
    found, others = submissions.find_submissions(tmp_path)
    assert {s.student: str(s.path.relative_to(tmp_path)).replace(stem, '{}')[:-6] for s in found} == {
        'ann': 'ann/{} (1)', 'ben': 'ben/{}(3)', 'cy': 'cy/{}-2', 'dee': 'dee_{} (10)',
        'eve': 'eve/week1/{}'}
    assert len(found) + len(others) == len(paths) and {p for p, _ in others}.isdisjoint(s.path for s in found)
    assert f'{stem} (1).ipynb' in next(why for p, why in others if p == tmp_path/f'ann/{stem}.ipynb')


@pytest.mark.slow
def test_an_endless_loop_ends(servers):
    "Also one that cannot be interrupted; the other cells are graded"
    loop = 'while True:\n    try:\n        while True: pass\n    except BaseException: pass'
    endless = FLIP.replace('    if', '    while True: pass\n    if')
    nb = notebook(*map(code, [RIGHT, loop, 'while True: pass', endless]))
    results, _ = submissions.grade_notebook(nb, LESSON, NAMES, seconds=1)
    assert [results[name][0] for name in NAMES] == [True, False]


@pytest.mark.slow
def test_files_are_safe(tmp_path, servers):
    "In the sandbox a notebook can neither delete files nor write to the course's folder"
    if not are_namespaces_supported(str(cache_dir())): pytest.skip('this system has no sandbox')
    written = lessons.NBS/f'{tmp_path.name}.txt'
    attack = f"""import shutil
shutil.rmtree({str(tmp_path)!r}, ignore_errors=True)
open({str(written)!r}, 'w')"""
    results, isolation = submissions.grade_notebook(notebook(code(attack), code(RIGHT)), LESSON, NAMES)
    assert tmp_path.exists() and not written.exists() and results[NAMES[0]][0]
    assert submissions._format_isolation(isolation) == 'yes'


@pytest.mark.slow
def test_a_missing_sandbox_is_reported(tmp_path, servers, monkeypatch, capfd):
    monkeypatch.setattr(processes, '_servers', {})
    monkeypatch.setattr(processes, '_DISABLED_PROTECTIONS', ('processes', 'landlock', 'seccomp'))
    submit(tmp_path, 'ann', RIGHT)
    assert submissions.main([str(tmp_path)]) == 0
    out, err = capfd.readouterr()
    row = next(csv.DictReader(out.splitlines()))
    state, _, missing = row['isolated'].partition(': ')
    processes.stop()
    assert state == 'no' and missing and missing in err


def test_a_note_is_not_a_formula():
    assert submissions._format_note('=1+1\n\x1b[1m') == "'=1+1 \\x1b[1m"
