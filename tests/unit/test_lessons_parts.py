"Which lessons are meant, whether their outputs are of their code, and what is remembered of exercises."
import asyncio
import json

import pytest
from gridstride.course import lessons as L
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook


def notebook(*sources): return json.loads(json.dumps(new_notebook(cells=[new_code_cell(s) for s in sources])))


@pytest.fixture
def folder(tmp_path):
    "Two lessons: one goes well, the other stops in its second cell"
    (tmp_path/'01_good.ipynb').write_text(json.dumps(notebook('a = 6', 'a*7')))
    (tmp_path/'02_bad.ipynb').write_text(json.dumps(notebook('a = 6', '# half of nothing\na/0', 'a')))
    return tmp_path


def test_lessons_are_picked_by_number_or_path(folder):
    assert L.pick([], folder) == L.lessons(folder) and [p.name for p in L.pick(['2', '01'], folder)] == [
        '02_bad.ipynb',
        '01_good.ipynb',
    ]
    assert L.pick(['2', '02', str(folder/'02_bad.ipynb')], folder) == [folder/'02_bad.ipynb']
    with pytest.raises(LookupError, match='42.* 01, 02'): L.pick(['42'], folder)


def test_outputs_are_stale_after_an_edit_of_code_not_of_prose():
    nb = notebook('a = 6', 'a*7')
    assert L.is_stale(nb)
    nb['metadata']['gridstride'] = {'code': L.code_hash(nb)}
    nb['cells'].append(new_markdown_cell('More prose.'))
    assert not L.is_stale(nb)
    nb['cells'][1]['source'] = ['a*8']
    assert L.is_stale(nb)


def test_where_a_cell_ends_is_part_of_the_code():
    assert L.code_hash(notebook('ab', 'c')) != L.code_hash(notebook('a', 'bc'))


def test_what_is_not_a_notebook_is_named(folder):
    (folder/'broken.ipynb').write_text('{"cells": 1}')
    with pytest.raises(ValueError, match=r'broken\.ipynb'): L.read(folder/'broken.ipynb')


@pytest.mark.slow
def test_a_lesson_is_executed_and_its_file_stays_as_it_is(folder):
    done = asyncio.run(L.execute(folder/'01_good.ipynb'))
    assert done.cells[1].outputs[0].data['text/plain'] == '42'
    assert L.read(folder/'01_good.ipynb')['cells'][1]['outputs'] == []


@pytest.mark.slow
def test_a_lesson_that_stops_says_in_which_cell(folder):
    with pytest.raises(L.LessonError) as e: asyncio.run(L.execute(folder/'02_bad.ipynb'))
    assert e.value.cell == 2
    for words in ('02_bad stopped: cell [2]', '| a/0', 'ZeroDivisionError: division by zero'):
        assert words in str(e.value)


@pytest.mark.slow
def test_what_was_edited_while_it_ran_is_not_saved(folder):
    edited = asyncio.run(L.execute(folder/'01_good.ipynb'))
    edited.cells[1].source = 'a*8'
    with pytest.raises(ValueError, match='edited'): L.save(edited, folder/'01_good.ipynb')


def test_addresses_are_cleaned_away(): assert L._clean_text('<a.B object at 0x7f32ab54f360>') == '<a.B object>'


def test_runs_are_a_table():
    runs = [L.Run('01_good', 'sim', 2, 1.25, None), L.Run('02_bad', 'sim', 12, 10., L.LessonError('02_bad', 2, '', ''))]
    assert L.table(runs).splitlines() == [
        'lesson   backend  cells  seconds  result',
        '01_good  sim          2      1.2  ok',
        '02_bad   sim         12     10.0  failed in cell [2]',
    ]


@pytest.fixture
def exercises(folder):
    stubs = ("@exercise('first_kernel.invert', cases=3)\ndef invert(x): ...",
             '@exercise("first_kernel.blur")\ndef blur(x): ...')
    (folder/'01_good.ipynb').write_text(json.dumps(notebook(*stubs)))
    return folder


def test_exercises_are_found_in_order(exercises):
    assert L.exercises(L.read(exercises/'01_good.ipynb')) == ['first_kernel.invert', 'first_kernel.blur']


def test_progress_says_what_is_solved_and_when(exercises):
    (exercises/'progress.json').write_text('{"solved": {"first_kernel.invert": "2026-11-21"}}')
    out = L.progress(exercises, exercises/'progress.json')
    assert '1 of 2 exercises' in out
    days = L.progress(exercises, exercises/'progress.json', ['01'])
    assert '2026-11-21  first_kernel.invert' in days and 'not yet     first_kernel.blur' in days
    assert '0 of 2 exercises' in L.progress(exercises, exercises/'none.json')


@pytest.mark.parametrize('bad', ['{"solved": {"01.in', '[]', '{}', '{"solved": 3}'])
def test_a_broken_progress_file_is_named_and_left_alone(exercises, bad):
    (exercises/'progress.json').write_text(bad)
    with pytest.raises(ValueError, match=r'progress\.json'):
        L.progress(exercises, exercises / 'progress.json')
    assert (exercises/'progress.json').read_text() == bad


def test_arguments_of_run(folder):
    args = L.run_args(['2', '--save', '--jobs', '3'], folder)
    assert [p.name for p in args.paths] == ['02_bad.ipynb'] and args.save and args.jobs == 3


@pytest.mark.parametrize('argv,kind,words', [
    (['--jobs', '0'], ValueError, "'0'"), (['7'], LookupError, 'no lesson 7'),
    (['--fast'], ValueError, '--fast')])
def test_arguments_that_make_no_sense(folder, argv, kind, words):
    with pytest.raises(kind, match=words): L.run_args(argv, folder)
    assert L.main(['run', *argv], folder) == 2
