"""Reports which exercises a reader has solved, from the file that `grading` writes.

Only the standard library is imported, because `lessons` must run before anything is installed."""

import json
import os
import re
from pathlib import Path

from .notebooks import NBS, code, lessons, pick, read

__all__ = ['RENAMED', 'exercises', 'progress_file', 'read_progress', 'read_tries', 'progress']

_START_FOLDER = Path.cwd()  # a notebook starts in its own folder, and may change it


# An exercise is a function below `@exercise('CHAPTER.name'`. The ids of the solved ones, and the days, are in
# `.progress.json` in the folder of the lessons, so that two people with copies of the notebooks share no progress,
# whatever installation they use; or in the file that `GRIDSTRIDE_PROGRESS` names. `course.grading` writes it.
def exercises(nb) -> list:  # of str
    """Return the ids of a lesson's exercises, in order.

    >>> exercises({'cells': [{'cell_type': 'code', 'source': "@exercise('first_kernel.invert')\\ndef invert(): ..."}]})
    ['first_kernel.invert']"""
    return list(dict.fromkeys(re.findall(r'''^@exercise\(\s*['"]([\w.]+)['"]''', '\n'.join(code(nb)), re.M)))


def progress_file(
    folder=None,  # where the lessons are; None: the folder that this notebook was started in
) -> Path:
    """Return the file that lists the solved exercises: `$GRIDSTRIDE_PROGRESS`, else one next to the lessons, or in the
    home folder if there are no lessons"""
    if path_in_env := os.environ.get('GRIDSTRIDE_PROGRESS'):
        return Path(path_in_env)
    folder = Path(folder or _START_FOLDER)
    return folder / '.progress.json' if lessons(folder) else Path.home() / '.gridstride' / 'progress.json'


# The id of an exercise once began with the number of its lesson, as in '12.rows'. A reader's progress file may still
# have such ids.
_OLD_CHAPTERS = (
    'first_kernel blocks_and_threads shared_memory threads_and_barriers cuda_c shared_memory_cuda numba profiling '
    'source_to_sass memory checklist reductions matmul_ladder triton fusion softmax flash_attention quantization '
    'sparsity ring_attention tensor_cores hopper_gemm latent_attention where_next'
).split()  # the former chapters 01 to 24
RENAMED = {
    '11.little': 'latency_and_roofline.little',
    '11.rounds': 'checklist.iterations',
    '11.tokens': 'latency_and_roofline.tokens',
    '13.turns': 'matmul_ladder.buffers',
    '15.slope': 'fusion.gradient',
    '16.slope': 'softmax.gradient',
    '17.slopes': 'flash_attention.gradients',
    '17.tiles': 'flash_attention_hopper.tiles',
    '19.turned': 'sparsity.transposed',
    '20.places': 'ring_attention.positions',
    '24.columns': 'blackwell.columns',
    'where_next.columns': 'blackwell.columns',
}


def _current_id(name):
    "Convert an id in a progress file to the current id of the exercise"
    number, dot, exercise_name = name.partition('.')
    has_old_number = dot and number.isdigit() and 1 <= int(number) <= len(_OLD_CHAPTERS)
    return RENAMED.get(name) or (f'{_OLD_CHAPTERS[int(number) - 1]}.{exercise_name}' if has_old_number else name)


def read_progress(
    path=None,  # the file; None: `progress_file()`
) -> dict:  # id -> day
    "Return the solved exercises in the progress file; raises `ValueError`, which names the file if it cannot be read"
    return _read_section(path, lambda content: dict(content['solved']))


def read_tries(
    path=None,  # the file; None: `progress_file()`
) -> dict:  # id -> dict(tries=, first=), and `solved` if it is solved: times in ISO format
    "Return the tries in the progress file, {} for an older file; raises `ValueError` as `read_progress` does"
    return _read_section(path, lambda content: {name: dict(entry) for name, entry in content.get('tries', {}).items()})


def _read_section(path, section):
    "Return `section(content)` of the progress file, with the current ids; raises `ValueError`, which names the file"
    path = Path(path or progress_file())
    try:
        values = section(json.loads(path.read_text(encoding='utf-8')))
        return {_current_id(name): value for name, value in values.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as e:
        cause = f'{type(e).__name__}: {e}'
    raise ValueError(f'The progress file {path} cannot be read ({cause}). Fix it, or rename it to start again.')


def progress(
    folder=NBS,  # where the lessons are
    path=None,  # the progress file; None: the one in the folder of the lessons
    chosen_lessons=(),  # lessons, as typed: '03'; without any, an overview of all
) -> str:
    """Return how many exercises of each lesson are solved, and which lesson comes next; with `chosen_lessons`, when
    each of their exercises was solved. Raises `LookupError` for a number that no lesson has."""
    days = read_progress(path or progress_file(folder))
    if chosen_lessons:
        return '\n\n'.join(_solved_days(p.stem, exercises(read(p)), days) for p in pick(chosen_lessons, folder))
    ids_of = {p.stem: exercises(read(p)) for p in lessons(folder)}
    lines = [f'{_count(sum(ids_of.values(), []), days)} exercises solved', '']
    if unsolved_lessons := [stem for stem, ids in ids_of.items() if not days.keys() >= {*ids}]:
        lines[0] += f'. Next: {unsolved_lessons[0]}'
    for part, stems in _by_part(ids_of):
        line = '   '.join(f'{stem.partition("_")[0]} {_count(ids_of[stem], days, "/")}' for stem in stems)
        lines.append(f'{part:<33}{line}')
    return '\n'.join(lines)


def _count(ids, days, separator=' of '):
    return f'{sum(i in days for i in ids)}{separator}{len(ids)}'


def _solved_days(stem, ids, days):
    "Return a line per exercise of a lesson: the day on which it was solved"
    lines = [f"  {days.get(i, 'not yet'):<10}  {i}" for i in ids]
    return '\n'.join([f'{stem}: {_count(ids, days)} exercises solved', *lines])


def _by_part(stems):
    "Return [(part, names of its lessons)], at most six lessons per line, so that it fits a terminal"
    from .curriculum import lesson_of_file, part_of

    parts = {}
    for stem in stems:
        lesson = lesson_of_file(f'{stem}.ipynb')
        parts.setdefault(part_of(lesson) if lesson else '', []).append(stem)
    return [('' if k else part, names[k : k + 6]) for part, names in parts.items() for k in range(0, len(names), 6)]
