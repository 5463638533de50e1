"""Makes lessons for a class: the student edition, which has no solutions.

    python3 course.py student 01 02a --to handouts

A cell with a solution has the tag `solution`. Like `lessons`, this module runs before anything is installed.
"""

import json
from pathlib import Path

from ..support.atomic_write import write_whole
from .lessons import NBS, ROOT, exercises, pick, read
from .publishing import without_links

__all__ = ['STUDENT_FOLDER', 'is_solution', 'student_edition', 'write_student_editions']

STUDENT_FOLDER = ROOT / 'student'
# Sentences of lessons that are not true of the student edition
_PROMISE = 'Each exercise has a folded solution below it, but you learn more if you try first.'
_OUTPUTS = ' (The outputs are already there; *Edit → Clear Outputs of All Cells* removes them.)'


def is_solution(cell) -> bool:
    "Return whether a cell of a notebook's JSON has the solution of an exercise"
    return 'solution' in cell.get('metadata', {}).get('tags', [])


def _student_cell(cell):
    "Return a cell without outputs, links to the course's own lesson, and sentences that promise outputs or solutions"
    source = without_links(''.join(cell['source'])).replace(_PROMISE, '').replace(_OUTPUTS, '').rstrip()
    cell = {**cell, 'source': source.splitlines(True)}
    return {**cell, 'outputs': [], 'execution_count': None} if cell['cell_type'] == 'code' else cell


def _with_nbgrader(cell):
    "Return an exercise with the metadata of a manually graded nbgrader answer, worth one point; other cells unchanged"
    ids = exercises(dict(cells=[cell]))
    if not ids:
        return cell
    answer_metadata = dict(schema_version=3, grade=True, solution=True, locked=False, task=False, points=1)
    return {
        **cell,
        'metadata': {**cell['metadata'], 'nbgrader': {**answer_metadata, 'grade_id': ids[0].replace('.', '-')}},
    }


def student_edition(
    nb: dict,  # a lesson, as `read` returns it
    nbgrader=False,  # whether exercises get nbgrader's metadata
) -> dict:
    """Return a lesson without solutions and outputs; hints stay, because `hint` prints them.

    >>> cells = [dict(cell_type='markdown', source=['f = 1'], metadata={'tags': ['solution']})]
    >>> student_edition(dict(cells=cells, metadata={}))['cells']
    []"""
    metadata = {k: v for k, v in nb['metadata'].items() if k != 'gridstride'}  # without the hash of the code
    cells = [_student_cell(c) for c in nb['cells'] if not is_solution(c)]
    return {**nb, 'metadata': metadata, 'cells': [_with_nbgrader(c) for c in cells] if nbgrader else cells}


def write_student_editions(
    chosen,  # lessons, as typed: '03', '08a'
    folder=STUDENT_FOLDER,
    nbs=NBS,  # the folder of the course's lessons
    nbgrader=False,  # whether exercises get nbgrader's metadata
) -> list:  # of paths
    """Write the student edition of lessons to a folder. Raises `LookupError` for a number that no lesson has, and
    `ValueError` if the folder is that of the course's lessons"""
    folder = Path(folder)
    if folder.resolve() == Path(nbs).resolve():
        raise ValueError(f"{folder} has the course's own lessons: choose another folder with --to")
    paths = pick(chosen, nbs)
    folder.mkdir(parents=True, exist_ok=True)
    for lesson in paths:
        text = json.dumps(student_edition(read(lesson), nbgrader), indent=1, ensure_ascii=False)
        write_whole(folder / lesson.name, text + '\n')
    return [folder / lesson.name for lesson in paths]
