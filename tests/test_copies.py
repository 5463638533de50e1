"The reader's copies of the lessons: made once, updated with what the reader wrote, and the start page."
import json

import pytest
from gridstride.course import copies, curriculum, lessons
from gridstride.course.lessons import progress
from found import names


def cell(name, source, kind='code'): return dict(cell_type=kind, id=name, metadata={}, source=source)


def notebook(*cells): return dict(cells=list(cells), metadata={}, nbformat=4, nbformat_minor=5)


def sources(nb): return [''.join(c['source']) for c in nb['cells']]


COPIED = {'a': 'one', 'b': 'two', 'c': 'three'}
CELLS = [cell(k, v) for k, v in COPIED.items()]


@pytest.fixture
def folders(tmp_path):
    "The course's lessons, 01 and 02 of the real course by name, and the folder of copies"
    (tmp_path/'nbs/lib').mkdir(parents=True)
    (tmp_path/'nbs/lib/x.ipynb').write_text('{}')
    for o in curriculum.LESSONS[:2]:
        code = f"@exercise('{o.slug}.x')\ndef f(): ..."
        (tmp_path/'nbs'/o.file).write_text(json.dumps(notebook(cell('a', 'one'), cell('b', code))))
    return tmp_path/'nbs', tmp_path/'my'


# Merging

def test_what_the_reader_did_not_change_becomes_new():
    newer = notebook(cell('a', 'one!'), cell('d', 'four'), cell('b', 'two'))
    assert sources(copies.merge_lesson(COPIED, notebook(*CELLS), newer)) == ['one!', 'four', 'two']


def test_changed_cells_stay():
    mine = notebook(CELLS[0], cell('b', ['my\n', 'answer']), CELLS[2])
    newer = notebook(cell('a', 'one!'), cell('b', 'two!'), cell('c', 'three!'))
    assert sources(copies.merge_lesson(COPIED, mine, newer)) == ['one!', 'my\nanswer', 'three!']


def test_added_cells_stay_below_the_cell_they_were_added_to():
    mine = notebook(cell('m0', 'top'), CELLS[0], cell('m1', 'mine 1'), cell('m2', 'mine 2'), CELLS[1], CELLS[2])
    newer = notebook(cell('a', 'one'), cell('d', 'four'), cell('c', 'three'))
    assert sources(copies.merge_lesson(COPIED, mine, newer)) == ['top', 'one', 'mine 1', 'mine 2', 'four', 'three']


def test_cells_added_below_one_that_is_gone_stay():
    mine = notebook(*CELLS[:2], cell('m', 'mine'), CELLS[2])
    assert sources(copies.merge_lesson(COPIED, mine, notebook(CELLS[0], CELLS[2]))) == ['one', 'mine', 'three']


def test_an_answer_to_a_cell_that_is_gone_is_kept_at_the_end():
    mine = notebook(CELLS[0], cell('b', 'my answer'), CELLS[2])
    *first, heading, last = sources(copies.merge_lesson(COPIED, mine, notebook(CELLS[0], CELLS[2])))
    assert (first, last) == (['one', 'three'], 'my answer') and heading.startswith('## ')


# Copies

def test_copies_are_made_once(folders):
    nbs, my = folders
    copies.make(nbs, my)
    assert {p.name for p in lessons.lessons(my)} == {p.name for p in lessons.lessons(nbs)}
    assert (my/'lib/x.ipynb').exists(), 'lessons link to it'
    first = lessons.lessons(my)[0]
    first.write_text(json.dumps(notebook(cell('a', 'mine'))))
    copies.make(nbs, my)
    assert sources(lessons.read(first)) == ['mine']


def test_progress_from_before_the_copies_is_taken_over(folders):
    nbs, my = folders
    (nbs/'.progress.json').write_text('{"solved": {"first_kernel.x": "2026-11-21"}}')
    copies.make(nbs, my)
    assert progress(my).startswith('1 of 2')


def test_an_update_changes_what_is_newer_and_nothing_else(folders):
    nbs, my = folders
    copies.make(nbs, my)
    one, two = lessons.lessons(nbs)
    mine = lessons.read(my/one.name)
    mine['cells'][1]['source'] = 'my answer'
    (my/one.name).write_text(json.dumps(mine))
    assert copies.update(nbs, my) == {}, 'no lesson is newer'
    for p in (one, two):
        nb = lessons.read(p)
        nb['cells'][0]['source'] = 'new'
        p.write_text(json.dumps(nb))
    assert copies.update(nbs, my) == {one.name: [], two.name: []}
    assert sources(lessons.read(my/one.name)) == ['new', 'my answer']
    assert (my/two.name).read_text() == two.read_text()
    assert copies.update(nbs, my) == {}


def test_an_update_names_an_exercise_that_both_changed(folders):
    nbs, my = folders
    copies.make(nbs, my)
    for p in lessons.lessons(nbs):
        mine, nb = lessons.read(my/p.name), lessons.read(p)
        exercise = nb['cells'][1]['source']
        mine['cells'][1]['source'] = exercise.replace('...', 'return 1')
        nb['cells'][1]['source'] = exercise.replace('def f()', 'def f(n)')
        (my/p.name).write_text(json.dumps(mine))
        p.write_text(json.dumps(nb))
    two = lessons.lessons(nbs)[1]
    (my/two.name).write_text(two.read_text())  # what the reader changed is what the course changed
    changed = copies.update(nbs, my)
    one, same = changed
    assert [c['id'] for c in changed[one]] == ['b'] and changed[same] == []
    _, line = copies._describe_update(changed)
    assert names(line, one, f'{curriculum.LESSONS[0].slug}.x', f'reset {one[:2]}') and not names(line, '2 cells')
    _, line = copies._describe_update({one: [*changed[one], *2*[dict(cell_type='markdown', source='a text')]]})
    assert names(line, f'{curriculum.LESSONS[0].slug}.x', '2 cells')


def test_a_file_that_is_not_a_copy_is_left_alone(folders):
    nbs, my = folders
    my.mkdir()
    name = lessons.lessons(nbs)[0].name
    (my/name).write_text(json.dumps(notebook(cell('z', 'mine'))))
    copies.make(nbs, my)
    assert copies.update(nbs, my) == {} and sources(lessons.read(my/name)) == ['mine']


def test_reset_of_a_lesson(folders):
    nbs, my = folders
    name = copies.make(nbs, my).parent and lessons.lessons(nbs)[0].name
    (my/name).write_text(json.dumps(notebook(cell('a', 'mine'))))
    assert copies.reset('01', nbs, my) == [(name, f'old_{name}')]
    assert copies.reset('1', nbs, my) == [(name, f'old1_{name}')]
    assert sources(lessons.read(my/f'old_{name}')) == ['mine'] and (my/name).read_text() == (nbs/name).read_text()
    assert [p.name for p in lessons.lessons(my)] == [p.name for p in lessons.lessons(nbs)], 'old copies are no lessons'
    with pytest.raises(LookupError): copies.reset('77', nbs, my)


# What is shown

def test_the_start_page_shows_what_is_next(folders):
    nbs, my = folders
    one, two = curriculum.LESSONS[:2]
    page = copies.make(nbs, my).read_text()
    assert page.index(one.file) < page.index(two.file) and '0 of 2' in page
    (my/'.progress.json').write_text(json.dumps({'solved': {f'{one.slug}.x': '2026-11-21'}}))
    page = copies.start_page(my)
    assert page.index(two.file) < page.index(one.file), 'what is next comes first'
    assert '1 of 1 ✓' in page and copies.next_lesson({one: (1, 1), two: (0, 1)}) == two
    assert copies.next_lesson({one: (1, 1)}) is None


def test_progress_fits_a_screen_and_names_the_next_lesson():
    out = progress(path='/none').splitlines()
    assert len(out) < 24 and max(map(len, out)) <= 110 and lessons.lessons()[0].stem in out[0]
    stems = {p.name.partition('_')[0] for p in lessons.lessons()}
    assert stems <= set(' '.join(out[1:]).split())
