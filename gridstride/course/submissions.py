"""Grades submitted notebooks: runs each in its own process, in the judge's sandbox, and writes a table.

    python3 course.py grade homework --csv grades.csv

A notebook is homework/STUDENT/03_shared_memory.ipynb, homework/STUDENT_03_shared_memory.ipynb or, as nbgrader collects
it, homework/STUDENT/ASSIGNMENT/03_shared_memory.ipynb. The number that a browser adds to a repeated download, as in
03_shared_memory (1).ipynb, may remain; the last download counts. Cells run in order; an error, an infinite loop or the
end of the process in one cell does not stop the others. After a cell with an answer, this process requests a verdict:
the course's own functions, which `notebook_worker` saved before the first cell, judge the answer on the cases of the
exercise.
So these do not count as solved:

- a forged progress file: it affects only the columns `tries` and `minutes`;
- `exercise`, a judge, its cases or a function of NumPy, PyTorch or Python that the notebook replaced;
- an answer that searches for the expected values in its callers' frames or among all objects;
- a verdict that the notebook sent itself: it lacks the secret, which is sent only after the cell has ended.

The sandbox denies a notebook access to other files, the network and other processes, and limits its output, memory and
time. The column `isolated` states whether the sandbox was active. It has limits: answers and judges share an
interpreter, so three kinds of notebook can still pass: one that searches the memory of its process through `ctypes`,
one with a thread that reads the secret and forges the verdict, and one whose answer is an object that equals
everything. A verdict does not show who wrote an answer, either: a copied solution passes. Read the answers before you
rely on the grades alone.
"""

import argparse
import csv
import re
import secrets
import sys
from collections import namedtuple
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

from ..judge import processes, wire
from ..judge.verdicts import ISOLATION, escape_controls
from .curriculum import LESSONS
from .lessons import NBS, code, exercises, read, read_tries

__all__ = ['COLUMNS', 'Submission', 'find_submissions', 'grade_notebook', 'grade', 'main']

COLUMNS = 'student lesson exercise solved tries minutes isolated note'.split()
Submission = namedtuple('Submission', 'student lesson path progress_file')  # the last is None if there is none
_MAX_RESTARTS = 5  # of a notebook's process, per notebook
_MAX_NOTEBOOK_BYTES = 64 << 20
_MAX_PROGRESS_BYTES = 1 << 20
_CELL_SECONDS = 120
_GRACE_SECONDS = 10  # after the time limit: until then the process must report that it interrupted the cell
_START_SECONDS = 300  # limit for the imports of a process, on a loaded machine, too
_MAX_NOTE = 200


def _name_before_download(path):
    """Return the file name without the number that a browser adds to a repeated download, and the number

    >>> _name_before_download(Path('03_shared_memory (2).ipynb'))
    ('03_shared_memory.ipynb', 2)"""
    m = re.fullmatch(r'(.*?) ?(?:\((\d+)\)|(?<=[a-z])-(\d+))', path.stem)  # Safari adds -2
    return (f'{m[1]}{path.suffix}', int(m[2] or m[3])) if m else (path.name, 0)


def _last_downloads(submissions, rejected_files):
    "Return the last submission per student and lesson, by its number; add the earlier ones to `rejected_files`"
    last_download = {}
    for submission in sorted(submissions, key=lambda s: _name_before_download(s.path)[1]):
        if earlier := last_download.get(submission[:2]):
            rejected_files.append((earlier.path, f'{submission.path.name} is a later download of the same lesson'))
        last_download[submission[:2]] = submission
    return [submission for submission in submissions if submission in last_download.values()]


def find_submissions(folder) -> tuple:  # (list of `Submission`, [(other notebook, why it is skipped)])
    "Return the submitted notebooks below `folder`, and the other notebooks"
    submissions, rejected_files = [], []
    for path in [path for depth in ('', '*/', '*/*/') for path in sorted(Path(folder).glob(f'{depth}*.ipynb'))]:
        name, _ = _name_before_download(path)
        lesson = next((lesson for lesson in LESSONS if name == lesson.file or name.endswith(f'_{lesson.file}')), None)
        is_flat = path.parent == Path(folder)
        student = name.removesuffix(f'_{lesson.file}') if is_flat and lesson else path.relative_to(folder).parts[0]
        if path.is_symlink() or not lesson or (name == lesson.file) == is_flat:
            rejected_files.append((path, 'not named after a student and a lesson'))
        else:
            progress = path.parent / '.progress.json'
            submissions.append(
                Submission(student, lesson, path, None if is_flat or not progress.is_file() else progress)
            )
    return _last_downloads(submissions, rejected_files), rejected_files


def _tries_and_minutes(path, name):
    "Return two cells of the table from a submitted progress file; empty ones if it has no valid entry"
    try:
        if path is None or path.is_symlink() or path.stat().st_size > _MAX_PROGRESS_BYTES:
            return '', ''
        entry = read_tries(path).get(name, {})
        tries = int(entry['tries'])
        start, end = (datetime.fromisoformat(entry[key]) for key in ('first', 'solved'))
        return tries, max(0, round((end - start).total_seconds() / 60))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return '', ''


# One notebook


def _run_cells(process, cells, seconds, results, skipped_cells, current_cell):
    "Run the cells that are not skipped, and collect a verdict per answer; `current_cell[0]` is the index of the cell"
    for i, source in enumerate(cells):
        if i in skipped_cells:
            continue
        current_cell[0] = i
        reply = _request(process, dict(op='cell', source=source, seconds=seconds), seconds)
        names = reply.get('answers')
        for name in results.keys() & set(map(str, names if isinstance(names, list) else [])):
            if not results[name][0]:
                results[name] = _request_verdict(process, name, seconds)


def _request(process, header, seconds):
    process.send(header)
    return process.receive(timeout=seconds + _GRACE_SECONDS)[0]


def _request_verdict(process, name, seconds):
    "Request a verdict; return (solved, note)"
    secret = secrets.token_hex(16)
    reply = _request(process, dict(op='judge', name=name, secret=secret, seconds=seconds), seconds)
    if reply.get('secret') != secret or reply.get('name') != name:
        raise wire.ProcessEnded('type', 'the submission forged a verdict')
    return reply.get('solved') is True, str(reply.get('reason'))


def grade_notebook(
    nb: dict,  # a submitted notebook, as `read` returns it
    lesson,  # its row of the table of lessons
    names,  # the exercises of the lesson
    seconds=_CELL_SECONDS,  # time limit of a cell
) -> tuple:  # ({exercise: (solved, note)}, the active protections: keys of `ISOLATION`)
    "Run a notebook, and judge its answers; after a cell that ended the process, run the others in a new process"
    results = dict.fromkeys(names, (False, 'no answer'))
    skipped_cells = set()
    isolation = ()
    for _ in range(_MAX_RESTARTS + 1):
        submission, current_cell = SimpleNamespace(text='', may_compile=True), [0]
        process = processes.Process(submission, 'lesson', seconds, worker=f'{__package__}.notebook_worker')
        try:
            with process:
                _request(process, dict(op='start', chapter=lesson.chapter), _START_SECONDS)
                _run_cells(process, code(nb), seconds, results, skipped_cells, current_cell)
                break
        except wire.ProcessEnded as e:
            skipped_cells.add(current_cell[0])
            unsolved = [
                name for name in exercises(dict(cells=[_code_cell(code(nb)[current_cell[0]])])) if name in results
            ]
            results |= {name: (False, e.text) for name in unsolved if not results[name][0]}
        finally:
            isolation = process.isolation
    return results, isolation


def _code_cell(source):
    return dict(cell_type='code', source=source)


# A class


def _format_isolation(isolation):
    missing_protections = [text for protection, text in ISOLATION.items() if protection not in isolation]
    return f'no: {", ".join(missing_protections)}' if missing_protections else 'yes'


def _format_note(text):
    "Return a note as one line that a spreadsheet does not interpret as a formula"
    line = escape_controls(' '.join(text.split()))[:_MAX_NOTE]
    return f"'{line}" if line[:1] in tuple('=+-@') else line


def _read_submitted(path):
    "Return the submitted notebook; raises `ValueError` if the file is too large or not a notebook"
    if path.stat().st_size > _MAX_NOTEBOOK_BYTES:
        raise ValueError(f'{path} is larger than {_MAX_NOTEBOOK_BYTES >> 20} MiB')
    nb = read(path)
    code(nb)
    return nb


def grade(
    submission,  # a `Submission`
    seconds=_CELL_SECONDS,  # time limit of a cell
) -> list:  # of rows, in the order of `COLUMNS`
    "Grade one notebook: a row per exercise of the lesson"
    names = exercises(read(NBS / submission.lesson.file))
    try:
        nb = _read_submitted(submission.path)
        results, isolation = grade_notebook(nb, submission.lesson, names, seconds)
        isolation_text = _format_isolation(isolation)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as e:
        results, isolation_text = dict.fromkeys(names, (False, f'the file is not a notebook: {e}')), ''
    student_and_lesson = _format_note(submission.student), submission.lesson.number
    return [
        [
            *student_and_lesson,
            name,
            'yes' if is_solved else 'no',
            *_tries_and_minutes(submission.progress_file, name),
            isolation_text,
        ]
        + [_format_note('' if is_solved else note)]
        for name, (is_solved, note) in results.items()
    ]


def _parse(argv):
    parser = argparse.ArgumentParser(prog='course.py grade', description='Grade submitted notebooks.')
    parser.add_argument('folder', type=Path, metavar='FOLDER')
    parser.add_argument('--csv', type=Path, metavar='FILE')
    parser.add_argument('--seconds', type=int, default=_CELL_SECONDS, metavar='N', help='time limit of a cell (120)')
    return parser.parse_args(argv)


def main(argv=None) -> int:  # exit status
    "Grade the notebooks in a folder, and write the table to a file or to the standard output"
    args = _parse(argv)
    submissions, rejected_files = find_submissions(args.folder)
    for path, reason in rejected_files:
        print(f'{path}: skipped, {reason}', file=sys.stderr)
    if not submissions:
        return print(f'{args.folder} has no notebook STUDENT/NN_slug.ipynb', file=sys.stderr) or 2
    rows = []
    for submission in submissions:
        rows += grade(submission, args.seconds)
        print(_summary(submission, rows), file=sys.stderr, flush=True)
    _write_table(rows, args.csv)
    processes.stop()
    return 0


def _summary(submission, rows):
    "Return a line on the notebook that was graded last"
    own_rows = [row for row in rows if row[:2] == [_format_note(submission.student), submission.lesson.number]]
    num_solved = sum(row[3] == 'yes' for row in own_rows)
    isolation_text = own_rows[0][6] if own_rows else ''
    warning = f'; not isolated on this system: {isolation_text[4:]}' if isolation_text.startswith('no: ') else ''
    return f'{submission.path}: {num_solved} of {len(own_rows)} exercises solved{warning}'


def _write_table(rows, path):
    "Write the table to a file, or to the standard output if `path` is None"
    with open(path, 'w', encoding='utf-8', newline='') if path else open(1, 'w', closefd=False) as f:
        csv.writer(f).writerows([COLUMNS, *rows])


if __name__ == '__main__':
    sys.exit(main())
