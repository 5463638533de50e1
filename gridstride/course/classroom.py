"""Makes lessons for a class: the student edition, which has no solutions.

    python3 course.py student 01 02a --to handouts

A cell with a solution has the tag `solution`. Like `lessons`, this module runs before anything is installed.
"""

import json
import re
from pathlib import Path

from ..support.atomic_write import write_atomically
from .lessons import NBS, ROOT, exercises, pick, read
from .publishing import without_links

__all__ = ['STUDENT_FOLDER', 'is_solution', 'student_edition', 'write_student_editions']

STUDENT_FOLDER = ROOT / 'student'
# Sentences of lessons that do not hold for the student edition
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


def _answers(nb):
    "Return {exercise: the statements of its solution, which replace the stub's `...`}"
    solutions = [''.join(cell['source']) for cell in nb['cells'] if is_solution(cell)]
    blocks = [block for text in solutions for block in re.findall(r'```python\n(.*?)```', text, re.S)]
    pattern = r"@exercise\('(.*?)'\)\n(?:@.*\n)*def .*:\n"
    return {m[1]: block[m.end() :].rstrip() for block in blocks if (m := re.match(pattern, block))}


def _nbgrader_metadata(grade_id, is_answer, points):
    "Return nbgrader's metadata, schema 3: of an answer, or of a locked cell of tests"
    flags = dict(grade=not is_answer, solution=is_answer, locked=not is_answer, task=False)
    return dict(nbgrader=dict(schema_version=3, grade_id=grade_id, **flags) | (dict(points=points) if points else {}))


def _with_nbgrader(cell, answers):
    "Return the cells for one of a lesson: an exercise becomes an autograded answer and its test, worth one point"
    if not (names := exercises(dict(cells=[cell]))):
        return [cell]
    stub = ''.join(cell['source']).rpartition('\n')[0]
    solution = f'{stub}\n    ### BEGIN SOLUTION\n{answers[names[0]]}\n    ### END SOLUTION'
    test = f"from gridstride.course import require_solved\nrequire_solved('{names[0]}')"
    grade_id = names[0].replace('.', '-')
    return [
        {**cell, 'source': source.splitlines(True), 'id': cell_id, 'metadata': {**cell['metadata'], **metadata}}
        for source, cell_id, metadata in [
            (solution, cell['id'], _nbgrader_metadata(grade_id, is_answer=True, points=0)),
            (test, f'{cell["id"]}-test', _nbgrader_metadata(f'{grade_id}-test', is_answer=False, points=1)),
        ]
    ]


def student_edition(
    nb: dict,  # a lesson, as `read` returns it
    nbgrader=False,  # whether to return the source of an nbgrader assignment, which includes the solutions
) -> dict:
    """Return a lesson without solutions and outputs; hints stay, because `hint` prints them.

    With `nbgrader` the solutions are in regions that nbgrader removes, and a test follows each exercise.

    >>> cells = [dict(cell_type='markdown', source=['f = 1'], metadata={'tags': ['solution']})]
    >>> student_edition(dict(cells=cells, metadata={}))['cells']
    []"""
    metadata = {k: v for k, v in nb['metadata'].items() if k != 'gridstride'}  # without the hash of the code
    cells = [_student_cell(c) for c in nb['cells'] if not is_solution(c)]
    if nbgrader:
        answers = _answers(nb)
        cells = [c for cell in cells for c in _with_nbgrader(cell, answers)]
    return {**nb, 'metadata': metadata, 'cells': cells}


def write_student_editions(
    chosen,  # lessons, as typed: '03', '08a'
    folder=STUDENT_FOLDER,
    nbs=NBS,  # the folder of the course's lessons
    nbgrader=False,  # whether to write the sources of nbgrader assignments
) -> list:  # of paths
    """Write the student edition of lessons to a folder. Raises `LookupError` for a number that no lesson has, and
    `ValueError` if the folder is that of the course's lessons"""
    folder = Path(folder)
    if folder.resolve() == Path(nbs).resolve():
        raise ValueError(f"{folder} contains the course's own lessons: choose another folder with --to")
    paths = pick(chosen, nbs)
    folder.mkdir(parents=True, exist_ok=True)
    for lesson in paths:
        text = json.dumps(student_edition(read(lesson), nbgrader), indent=1, ensure_ascii=False)
        write_atomically(folder / lesson.name, text + '\n')
    return [folder / lesson.name for lesson in paths]
