"The table of lessons, and that what is made from it is what the notebooks, the README and the links say."
import re
from pathlib import Path

import pytest
from gridstride.course import curriculum, learning_paths, lessons
from gridstride.course.curriculum import LESSONS, PARTS, chapter_of, first_cell, lesson_of_file, part_of, update_links
from found import names

ROOT = Path(__file__).resolve().parents[1]
WRITE = 'Run: python -m gridstride.course.curriculum --write'


def test_each_notebook_has_its_row_and_each_row_its_notebook():
    assert [o.file for o in LESSONS] == [p.name for p in lessons.lessons()]


def test_each_number_and_slug_is_in_order_and_unique():
    assert sorted(o.number for o in LESSONS) == [o.number for o in LESSONS]
    assert len({o.slug for o in LESSONS}) == len({o.number for o in LESSONS}) == len(LESSONS)
    assert {o.slug for o in LESSONS if o.slug != o.chapter} & {o.chapter for o in LESSONS} == set()
    assert len({(o.number[:2], o.chapter, o.chapter_title) for o in LESSONS}) == len({o.chapter for o in LESSONS})


def test_letters_count_the_lessons_of_a_chapter():
    for chapter in {o.chapter for o in LESSONS}:
        letters = [o.number[2:] for o in LESSONS if o.chapter == chapter]
        assert letters == (['a', 'b', 'c', 'd'][:len(letters)] if len(letters) > 1 else [''])


def test_a_lesson_is_one_sitting():
    "An hour and a half"
    assert [o.slug for o in LESSONS if o.reading > 90] == []


def words(nb):
    "The number of words of a notebook's text, without what is folded"
    text = '\n\n'.join(''.join(c['source']) for c in nb['cells'] if c['cell_type'] == 'markdown')
    return len(re.sub(r'<details.*?</details>', '', text, flags=re.S).split())


@pytest.mark.parametrize('path', lessons.lessons(), ids=lambda p: p.stem)
def test_a_lesson_has_the_length_of_one_sitting(path):
    "About 3,000 words, exercises included, and 40 to 90 cells; what is longer is cut into two lessons"
    nb = lessons.read(path)
    assert words(nb) <= 3500 and len(nb['cells']) <= 100


def test_each_part_begins_with_a_chapter():
    assert {f'{n:02}' for n in PARTS} <= {o.number[:2] for o in LESSONS}
    assert [part_of(o) for o in LESSONS if o.number[:2] in ('01', '05')][:2] == [PARTS[1], PARTS[5]]


def test_each_chapter_has_its_judges():
    there = {p.stem for p in (ROOT/'gridstride/course/exercises').glob('*.py')} - {'__init__', 'returned'}
    assert there == {o.chapter for o in LESSONS}


def test_what_is_made_from_the_table_is_there():
    "The README's table; titles and the lines Needs, Time and Follows of the notebooks; and all links"
    old = [p.name for p, text in curriculum.generated_texts(ROOT).items() if p.read_text(encoding='utf-8') != text]
    assert not old, f'{old} differ from the table of lessons. {WRITE}'


def test_each_lesson_is_in_a_part_and_each_part_has_its_topics():
    parts = curriculum.lessons_by_part()
    assert [o for some in parts.values() for o in some] == list(LESSONS)
    assert list(parts) == list(learning_paths.TOPICS) and all(parts.values())


def test_a_learning_path_has_the_hours_of_its_lessons():
    rows = ('01', 'a', 'a', 40), ('02a', 'b', 'c', 50), ('02b', 'd', 'c', 75)
    one, two, three = (LESSONS[0]._replace(number=n, slug=slug, chapter=chapter, reading=m, exercises=(m, 2*m))
                       for n, slug, chapter, m in rows)
    assert learning_paths.select_lessons('c a', [one, two, three]) == [two, three, one]
    assert learning_paths.select_lessons('d', [two, three]) == [three]
    with pytest.raises(LookupError, match='zzz'): learning_paths.select_lessons('a zzz', [one, two, three])
    part = learning_paths.part_table({title: [one, three] for title in learning_paths.TOPICS}).splitlines()[2]
    assert part.endswith('| 2 h | 2 to 4 h |') and '[01](nbs/01_a.ipynb), [02b](nbs/02b_d.ipynb)' in part


def test_the_readme_counts_the_exercises():
    calls = [line for p in (ROOT/'gridstride/course/exercises').glob('*.py') for line in p.read_text().splitlines()
             if 'problem(' in line]
    assert names((ROOT/'README.md').read_text(encoding='utf-8'), f'{len(calls)} exercises')


SOURCES = [*ROOT.glob('*.md'), *(ROOT/'site').glob('*.md'), *(ROOT/'nbs').rglob('*.ipynb')]


def test_no_text_links_to_a_lesson_that_is_gone():
    "Here, or with another number"
    files = {o.file for o in LESSONS}
    found = {(p.name, file) for p in SOURCES for file in re.findall(r'\((?:nbs/|(?:\.\./)*)(\d\d[a-z]?_\w+\.ipynb)',
                                                                      p.read_text(encoding='utf-8'))}
    library = {p.name for p in (ROOT/'nbs/lib').glob('*.ipynb')}
    assert len(found) > 50 and not {o for o in found if o[1] not in files | library}


def test_a_moved_lesson_takes_its_links_along():
    text = ('[lesson 99](99_cuda_c.ipynb#a), [99 CUDA C](99_cuda_c.ipynb), [the C](nbs/98b_cuda_c.ipynb), '
            '[99](99_nothing.ipynb) [01](lib/01_utils.ipynb)')
    number, file = next((o.number, o.file) for o in LESSONS if o.slug == 'cuda_c')
    assert update_links(text) == (f'[lesson {number}]({file}#a), [{number} CUDA C]({file}), [the C](nbs/{file}), '
                              '[99](99_nothing.ipynb) [01](lib/01_utils.ipynb)')


def test_the_first_cell_keeps_what_is_not_in_the_table():
    lesson = lesson_of_file('cuda_c')
    old = '# 99 Old\n\n> Why\n\n**After this lesson** you can.\n\n**Time** an\nhour.\n\n**Needs** little.\n\nThe rest.'
    new = first_cell(old, lesson)
    paragraphs = new.split('\n\n')
    assert paragraphs[0] == f'# {lesson.number} {lesson.title}'
    assert (paragraphs[1], paragraphs[-1]) == ('> Why', 'The rest.')
    assert [p.split()[0] for p in paragraphs[3:6]] == ['**Needs**', '**Time**', '**Follows**'] and 'an hour' not in new
    assert first_cell(new, lesson) == new and '{' not in new


def test_a_chapter_is_found_by_number():
    assert chapter_of('5') == chapter_of('05') == 'cuda_c'
    assert chapter_of('99') is None and chapter_of('x') is None


@pytest.mark.parametrize('argv', [[], ['--write']])
def test_the_table_is_listed_and_written(argv, capsys, monkeypatch):
    monkeypatch.setattr(curriculum, 'generated_texts', lambda root: {})
    curriculum.main(argv)
    said = capsys.readouterr().out
    assert said == '' if argv else all(names(said, o.number, o.title, str(o.reading)) for o in LESSONS)
