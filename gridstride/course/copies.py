"""Makes the reader's copies of the lessons, in the folder `my`, so that answers are not written to the course's files.

`make` copies each lesson once and stores its original sources. `update` uses these to merge a newer lesson with the
reader's changes. `reset` makes a fresh copy and keeps the old one under another name. The start page, `my/START.md`,
lists the solved exercises and the next lesson.

    python -m gridstride.course.copies          # make the copies that are missing, and the start page
    python -m gridstride.course.copies update   # merge newer lessons into the copies

Like `lessons`, this module runs before anything is installed.
"""

import json
import shutil
import sys
from pathlib import Path

from ..support.atomic_write import write_atomically
from . import curriculum
from .lessons import NBS, ROOT, exercises, lessons, pick, progress_file, read, read_progress

__all__ = ['FOLDER', 'START', 'make', 'update', 'reset', 'merge_lesson', 'start_page', 'next_lesson', 'main']

FOLDER = ROOT / 'my'
START = 'START.md'
_SOURCES_FILE = '.copied.json'  # {file: {cell id: source}}: each lesson as it was when it was copied
_ORPHANED_HEADING = '## Your answers to cells that the lesson no longer has'


def _source(cell):
    return ''.join(cell['source'])


def _sources(nb):
    "Return {cell id: source} of a notebook"
    return {c['id']: _source(c) for c in nb['cells'] if 'id' in c}


def _write_json(path, content, indent=1):
    write_atomically(path, json.dumps(content, indent=indent, ensure_ascii=False) + '\n')


def _load_sources(folder):
    "Return {file: {cell id: source}}, the sources of each lesson when it was copied"
    try:
        return json.loads((folder / _SOURCES_FILE).read_text(encoding='utf-8'))
    except FileNotFoundError:
        return {}


def _copy(lesson, folder, sources_of_lesson):
    shutil.copyfile(lesson, folder / lesson.name)
    sources_of_lesson[lesson.name] = _sources(read(lesson))


def make(
    nbs=NBS,  # the folder of the course's lessons
    folder=FOLDER,  # the folder of the copies
) -> Path:
    "Copy the lessons that have no copy, and write the start page; returns its path"
    folder.mkdir(exist_ok=True)
    sources_of_lesson = _load_sources(folder)
    for lesson in lessons(nbs):
        if not (folder / lesson.name).exists():
            _copy(lesson, folder, sources_of_lesson)
    for name in ('inside', 'lib', 'utils.py'):  # lessons link to these folders; lectures import utils
        if (nbs / name).exists() and not (folder / name).exists():
            (shutil.copytree if (nbs / name).is_dir() else shutil.copyfile)(nbs / name, folder / name)
    if (nbs / '.progress.json').exists() and not (folder / '.progress.json').exists():
        shutil.copyfile(nbs / '.progress.json', folder / '.progress.json')
    _write_json(folder / _SOURCES_FILE, sources_of_lesson, None)
    write_atomically(folder / START, start_page(folder))
    return folder / START


# Cells that the reader changed or added are kept; all other cells are those of the newer lesson.
def merge_lesson(
    old_sources: dict,  # {cell id: source} of the lesson as it was copied
    reader_copy: dict,  # the reader's copy
    newer: dict,  # the newer lesson
) -> dict:
    "Return the newer lesson with the cells that the reader changed or added"
    changed_cells = {
        c['id']: c for c in reader_copy['cells'] if c.get('id') in old_sources and _source(c) != old_sources[c['id']]
    }
    cells = [changed_cells.pop(c['id'], c) for c in newer['cells']]
    index_of_cell = {c['id']: i for i, c in enumerate(cells)}
    cells_added_below = {}  # id of the cell above -> cells that the reader added below it
    cell_above = None
    for c in reader_copy['cells']:
        if c.get('id') in old_sources or c.get('id') in index_of_cell:
            cell_above = c['id'] if c['id'] in index_of_cell else cell_above
        else:
            cells_added_below.setdefault(cell_above, []).append(c)
    merged_cells = cells_added_below.get(None, []) + [
        cell for c in cells for cell in (c, *cells_added_below.get(c['id'], []))
    ]
    if changed_cells:
        heading = dict(cell_type='markdown', id='your-answers', metadata={}, source=[_ORPHANED_HEADING])
        merged_cells += [heading, *changed_cells.values()]
    return {**newer, 'cells': merged_cells}


def _changed_in_both(old_sources, reader_copy, newer):
    "Return the cells of the newer lesson that the course changed in one way and the reader in another"
    versions = old_sources, _sources(reader_copy), _sources(newer)

    def is_changed_in_both(cell):
        old_source, reader_source, new_source = (sources.get(cell['id']) for sources in versions)
        return None not in (old_source, reader_source) and len({old_source, reader_source, new_source}) == 3

    return [c for c in newer['cells'] if is_changed_in_both(c)]


def _update_copy(lesson, copy, sources_of_lesson):
    "Merge a newer lesson into its copy; returns `_changed_in_both`, or None if the copy is current"
    newer, reader_copy, old_sources = read(lesson), read(copy), sources_of_lesson.get(lesson.name)
    if old_sources == _sources(newer):
        return None
    if old_sources is None or _sources(reader_copy) == old_sources:
        if old_sources is None and _sources(reader_copy) != _sources(newer):
            return None  # it was not copied by `make`
        shutil.copyfile(lesson, copy)
        cells_changed_in_both = []
    else:
        cells_changed_in_both = _changed_in_both(old_sources, reader_copy, newer)
        _write_json(copy, merge_lesson(old_sources, reader_copy, newer))
    sources_of_lesson[lesson.name] = _sources(newer)
    return cells_changed_in_both


def update(
    nbs=NBS,  # the folder of the course's lessons
    folder=FOLDER,  # the folder of the copies
) -> dict:  # name of a copy that changed -> the cells of the newer lesson that the reader had changed, too
    "Merge newer lessons into the copies, which keep the reader's answers"
    if not folder.exists():
        make(nbs, folder)
        return {}
    sources_of_lesson = _load_sources(folder)
    copied_lessons = [p for p in lessons(nbs) if (folder / p.name).exists()]
    updated = {p.name: _update_copy(p, folder / p.name, sources_of_lesson) for p in copied_lessons}
    _write_json(folder / _SOURCES_FILE, sources_of_lesson, None)
    make(nbs, folder)
    return {name: cells for name, cells in updated.items() if cells is not None}


def reset(
    number,  # of a lesson, as typed: '03'
    nbs=NBS,  # the folder of the course's lessons
    folder=FOLDER,  # the folder of the copies
) -> list:  # (name of the copy, new name of the old copy or None) per lesson
    "Make a fresh copy of a lesson and rename the old one; raises `LookupError` for a number that no lesson has"
    chosen_lessons = pick([number], nbs)
    if len(chosen_lessons) > 1:
        names = ', '.join(lesson.name.partition('_')[0] for lesson in chosen_lessons)
        raise LookupError(f'Chapter {number} has several lessons: name one of {names}')
    folder.mkdir(exist_ok=True)
    sources_of_lesson, renamed_lessons = _load_sources(folder), []
    for lesson in chosen_lessons:
        old_name = None
        if (copy := folder / lesson.name).exists():
            names = (f'old{n or ""}_{lesson.name}' for n in range(1000))
            old_name = next(name for name in names if not (folder / name).exists())
            copy.rename(folder / old_name)
        _copy(lesson, folder, sources_of_lesson)
        renamed_lessons.append((lesson.name, old_name))
    _write_json(folder / _SOURCES_FILE, sources_of_lesson, None)
    return renamed_lessons


# The start page


def _count_solved_exercises(folder):
    "Return {lesson: (solved exercises, all exercises)} of the lessons in `folder`"
    days = read_progress(progress_file(folder))
    exercises_of_file = {p.name: exercises(read(p)) for p in lessons(folder)}
    return {
        lesson: (sum(i in days for i in exercises_of_file[lesson.file]), len(exercises_of_file[lesson.file]))
        for lesson in curriculum.LESSONS
        if lesson.file in exercises_of_file
    }


def next_lesson(solved):  # {lesson: (solved exercises, all exercises)}
    "Return the first lesson with an exercise that is not solved; None if all are solved"
    return next((lesson for lesson, (num_solved, num_exercises) in solved.items() if num_solved < num_exercises), None)


def start_page(
    folder=FOLDER,  # of the copies
) -> str:
    "Return the start page in Markdown: the next lesson, and a table of lessons with their minutes and solved exercises"
    solved = _count_solved_exercises(folder)
    lines = ['# gridstride', '']
    if lesson := next_lesson(solved):
        minutes = curriculum.minutes(lesson)[0]
        lines += [f'**Next: [{lesson.number} {lesson.title}]({lesson.file})**, {minutes} minutes to read and run.', '']
    num_solved, num_exercises = (sum(counts[i] for counts in solved.values()) for i in (0, 1))
    lines += [
        f'{num_solved} of {num_exercises} exercises solved. These notebooks are yours: change what you like. '
        '`python3 course.py reset 03` makes a fresh copy of lesson 03; `python3 course.py update` fetches newer '
        'lessons and keeps your answers. This page is rewritten at each start.'
    ]
    for part, lessons_of_part in curriculum.lessons_by_part().items():
        copied_lessons = [lesson for lesson in lessons_of_part if lesson in solved]
        if copied_lessons:
            lines += ['', f'## {part}', '', '| lesson | what it does | reading | solved |', '|---|---|---|---|']
        for lesson in copied_lessons:
            row = (
                f'[{lesson.number} {lesson.title}]({lesson.file})',
                lesson.does,
                f'{curriculum.minutes(lesson)[0]} min',
                _format_solved(*solved[lesson]),
            )
            lines.append(f'| {" | ".join(row)} |')
    return '\n'.join(lines) + '\n'


def _format_solved(num_solved, num_exercises):
    return '' if not num_exercises else f'{num_solved} of {num_exercises}' + ' ✓' * (num_solved == num_exercises)


def _describe_cells(cells):
    "Name the exercises among cells that both the course and the reader changed, and count the other cells"
    names = exercises(dict(cells=cells))
    num_others = len(cells) - len(names)
    others = [f'{num_others} cell{"s" * (num_others > 1)} that you changed'] if num_others else []
    return ', '.join([*names, *others])


def _describe_update(cells_of_changed_copy):  # the result of `update`
    "Yield a line on the copies that changed, and one per copy with cells that both the course and the reader changed"
    yield (
        f'Updated in my/: {", ".join(cells_of_changed_copy)}. Your answers are kept.'
        if cells_of_changed_copy
        else 'Your copies are current.'
    )
    for name, cells in cells_of_changed_copy.items():
        if cells:
            number = name.partition('_')[0]
            yield (
                f'{name}: the course changed {_describe_cells(cells)}; your copy has your own version. The new one is '
                f'in nbs/{name}, and python3 course.py reset {number} makes a new copy.'
            )


def main(argv=()):
    "Make the copies, or with `update` merge newer lessons into them; print which changed"
    if 'update' in argv:
        print('\n'.join(_describe_update(update())))
    else:
        make()


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
