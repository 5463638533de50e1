"For a class: the student edition of lessons, slides, and grading submitted notebooks."
import json

import pytest
from gridstride.course import classroom, lessons
from gridstride.course.lessons import read_progress, read_tries


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
    assert [c['id'] for c in nb['cells']] == kept and lessons.stale(nb)


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
    from gridstride.course.grading import WrongAnswer, exercise
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
