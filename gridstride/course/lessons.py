"""Finds the lessons, executes them without a browser, and lists the solved exercises.

`python3 course.py run` and `python3 course.py progress` call this module. Both must answer on a machine on which
nothing is set up yet, if only to report that there is no lesson 42. So the imports at the top are modules of Python;
nbclient and tqdm are imported where they are used, as is asyncio, which would slow down every start.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

import gridstride
from ..support.atomic_write import write_whole
from ..support.tables import Table
from .publishing import is_setup

__all__ = [
    'ROOT',
    'NBS',
    'Run',
    'lessons',
    'pick',
    'read',
    'code',
    'code_hash',
    'stale',
    'LessonError',
    'execute',
    'name_kernel',
    'trust',
    'clean',
    'save',
    'run',
    'table',
    'exercises',
    'progress_file',
    'read_progress',
    'read_tries',
    'progress',
    'run_args',
    'main',
]


# A lesson is a notebook in `nbs/` whose name starts with the number of its chapter, and a letter if the chapter has
# several: `08a_timing.ipynb`.
ROOT = Path(gridstride.__file__).resolve().parents[1]
NBS = ROOT / 'nbs'
_START_FOLDER = Path.cwd()  # a notebook starts in its own folder, and may change it
_KERNEL_START_SECONDS = 300  # nbclient's default is 60, which a kernel exceeds on a machine that compiles for others


def lessons(
    folder=NBS,  # where to look
) -> list:  # paths
    "Return the lessons in `folder`, in order"
    return sorted(p for p in Path(folder).glob('[0-9][0-9]*_*.ipynb') if re.match(r'\d\d[a-z]?_', p.name))


def _find_lessons(name, path_of_number):
    "Return the lessons that `name` selects: all of a chapter, one lesson, or the notebook at a path"
    if name.endswith('.ipynb') and Path(name).is_file():
        return [Path(name).resolve()]
    number = re.sub(r'^(\d)(?!\d)', r'0\1', name)
    if found := [p for k, p in path_of_number.items() if number in (k, k[:2])]:
        return found
    raise LookupError(f"There is no lesson {name}. The lessons are: {', '.join(path_of_number) or 'none'}.")


def pick(
    numbers,  # of lessons as typed, '3', '03' or '08a', or paths of other notebooks
    folder=NBS,  # where to look
) -> list:  # paths
    """Return the lessons with these numbers, all of a chapter for its number, or all lessons; raises `LookupError` for
    a number that no lesson has"""
    path_of_number = {p.name.partition('_')[0]: p for p in lessons(folder)}
    return list(dict.fromkeys(p for number in numbers for p in _find_lessons(number, path_of_number))) or list(
        path_of_number.values()
    )


# When a lesson is saved, a hash of its code is saved with it. Later the hash shows whether the code was
# edited after the outputs were made. Prose may change freely.
def read(path) -> dict:  # the notebook's JSON
    "Return the notebook at `path`; raises `ValueError`, which names it if it is not a notebook"
    try:
        nb = json.loads(Path(path).read_text(encoding='utf-8'))
        if isinstance(nb['cells'], list):
            return nb
    except (OSError, ValueError, LookupError, TypeError) as e:
        raise ValueError(f'{path} cannot be read as a notebook: {e}') from None
    raise ValueError(f'{path} cannot be read as a notebook: it has no list of cells')


def code(nb) -> list:  # of str
    "Return the sources of the code cells, in order, without the cell that installs the package"
    return [''.join(c['source']) for c in nb['cells'] if c['cell_type'] == 'code' and not is_setup(c)]


def code_hash(nb) -> str:  # 16 hexadecimal digits
    "Return a hash of all the code in a notebook"
    return hashlib.sha256(json.dumps(code(nb)).encode()).hexdigest()[:16]


def stale(nb) -> bool:
    "Return whether the code has changed since the outputs were made; True if no outputs were ever recorded"
    return nb['metadata'].get('gridstride', {}).get('code') != code_hash(nb)


# Each lesson gets its own kernel, which starts in the lesson's folder, as in JupyterLab. Code cells are numbered from
# 1, as a reader sees them after Run All.
#
# Two settings of the kernel differ from the defaults. It logs errors only, because recent kernels warn at every start
# that their TCP connection is not encrypted. `GRIDSTRIDE_PROGRESS` points to a temporary file, so that executing a
# lesson does not count as solving its exercises.
class LessonError(Exception):
    "A cell of a lesson failed; the message has the lesson, the cell and the traceback"

    def __init__(self, lesson, cell, source, trace):
        self.cell = cell
        position = f'cell [{cell}]' if cell else 'before its first cell'
        super().__init__(
            '\n'.join([f'{lesson} stopped: {position}', *(f'  | {l}' for l in source.splitlines()), trace])
        )


def _strip_colors(text):
    "Return `text` without the terminal's colours"
    return re.sub(r'\x1b\[[0-9;]*m', '', text).strip()


def _make_client(nb, folder, on_cell_start, on_cell_end):
    "Make the client that executes `nb`; it calls `on_cell_start(cell=, cell_index=)` and `on_cell_end()`"
    from nbclient import NotebookClient

    return NotebookClient(
        nb,
        kernel_name='python3',
        timeout=600,
        startup_timeout=_KERNEL_START_SECONDS,
        shutdown_kernel='immediate',
        record_timing=False,
        coalesce_streams=True,
        resources={'metadata': {'path': str(folder)}},
        extra_arguments=['--IPKernelApp.log_level=ERROR'],
        on_cell_start=on_cell_start,
        on_cell_executed=lambda **kw: on_cell_end(),
    )


async def execute(
    path,  # the lesson
    tick=lambda: None,  # called after each code cell
    will_save=False,  # whether the outputs are to be saved: then claims about them must hold, see `recording.claim`
):  # the notebook with its new outputs
    """Execute a lesson in a fresh kernel, without changing its file; raises `LessonError` if a cell fails or takes over
    ten minutes"""
    import nbformat

    nb = nbformat.v4.rwbase.rejoin_lines(nbformat.from_dict(read(path)))
    last_cell_index = -1

    def start(cell, cell_index):
        nonlocal last_cell_index
        last_cell_index = cell_index

    with tempfile.TemporaryDirectory() as tmp:
        env = {**os.environ, 'GRIDSTRIDE_PROGRESS': f'{tmp}/progress.json'}
        if will_save:
            env.update(GRIDSTRIDE_CLAIMS='hold', GRIDSTRIDE_QUIET='1')  # without compile times in outputs
        try:
            await _make_client(nb, Path(path).parent, start, tick).async_execute(env=env)
        except Exception as e:
            cell = sum(c['cell_type'] == 'code' and bool(c['source'].strip()) for c in nb.cells[: last_cell_index + 1])
            trace = getattr(e, 'traceback', str(e))
            raise LessonError(
                Path(path).stem, cell, nb.cells[last_cell_index].source if cell else '', _strip_colors(trace)
            ) from None
    return nb


# A cell that is wrong on purpose has the tag `raises-exception`; its error is an output like any other.
#
# When JupyterLab opens a notebook, it writes the kernel's name, language and Python version into the notebook's
# metadata. If they were not there, a lesson that was only opened has an unsaved change. They differ between machines,
# so the course's own notebooks do not have them; a reader's copies do.
def _kernel_metadata():
    "Return the metadata that JupyterLab writes into a notebook whose kernel is `python3`"
    from ipykernel.ipkernel import IPythonKernel
    from jupyter_client.kernelspec import KernelSpecManager

    spec = KernelSpecManager().get_kernel_spec('python3')
    return dict(
        kernelspec=dict(display_name=spec.display_name, language=spec.language, name='python3'),
        language_info=IPythonKernel.language_info,
    )


def name_kernel(
    folder,  # where the copies are
) -> int:  # number of copies that were written
    "Write the kernel's name and language into the reader's copies, as JupyterLab does when it opens them"
    metadata, num_written = _kernel_metadata(), 0
    for path in lessons(folder):
        nb = read(path)
        if nb['metadata'].get('kernelspec', {}).get('name') != 'python3' or metadata.items() <= nb['metadata'].items():
            continue
        nb['metadata'] |= metadata
        write_whole(path, json.dumps(nb, indent=1, ensure_ascii=False) + '\n')
        num_written += 1
    return num_written


# JupyterLab shows a picture from another user only if the notebook is trusted. A reader who starts the course trusts
# its lessons, so this module signs those that have no valid signature.
def trust(
    folder=NBS,  # where the lessons are
) -> int:  # number of lessons that were signed
    "Sign the lessons that JupyterLab does not trust yet, so that it shows their pictures"
    import nbformat
    from nbformat.sign import NotebookNotary

    notary = NotebookNotary()
    new = [nb for p in lessons(folder) if not notary.check_signature(nb := nbformat.from_dict(read(p)))]
    for nb in new:
        notary.sign(nb)
    return len(new)


# A notebook is written to disk without the parts that differ between runs or machines: counters, timings, addresses of
# objects. `nbdev-clean` produces the same form. The file is replaced atomically: no reader sees an incomplete file. A
# file that was edited during the run is not replaced.
_NB_KEYS = {'kernelspec', 'jekyll', 'jupytext', 'doc', 'widgets', 'nbdev', 'gridstride'}
_CELL_KEYS = {'hide_input', 'nbdev', 'tags', 'jupyter', 'cellView'}  # the last two fold a cell's code


def _select_keys(d, keys):
    return {k: v for k, v in d.items() if k in keys}


def _clean_text(text):
    return re.sub(r'(<.*?)( at 0x[0-9a-fA-F]+)(>)', r'\1\3', text) if isinstance(text, str) else text


def _clean_output(output):
    "Remove from an output the parts that differ between two runs of the same code"
    if 'execution_count' in output:
        output['execution_count'] = None
    if 'metadata' in output:
        output['metadata'] = {}
    if 'text' in output:
        output['text'] = _clean_text(output['text'])
    data = output.get('data', {})
    # a widget needs its kernel, which has ended: the picture in the output replaces it
    data.pop('application/vnd.jupyter.widget-view+json', None)
    for k, v in data.items():
        if k.startswith('text'):
            data[k] = _clean_text(v)
        if k.startswith('image') and 'svg' not in k:
            data[k] = v.rstrip()


def clean(nb):
    "Remove from `nb`, in place, the parts that differ between two runs of the same code"
    nb['metadata'] = _select_keys(nb['metadata'], _NB_KEYS)
    spec = nb['metadata'].get('kernelspec', {})
    if spec.get('name'):
        spec['display_name'] = spec['name']
    for c in nb['cells']:
        c['metadata'] = _select_keys(c['metadata'], _CELL_KEYS)
        if c['cell_type'] == 'code':
            c['execution_count'] = None
            for output in c['outputs']:
                _clean_output(output)


def save(
    nb,  # an executed notebook, as `execute` returns it
    path,  # its file
):
    """Clean `nb`, record the hash of its code and the backend that ran it, and write it to `path`; raises `ValueError`
    if the code in the file has changed"""
    import nbformat
    from gridstride.utils import backend

    if code(nb) != code(read(path)):
        raise ValueError(f'{path} was edited while it ran, so its outputs were not saved. Run it again.')
    clean(nb)
    nb['metadata']['gridstride'] = {'code': code_hash(nb), 'backend': backend()}
    write_whole(path, nbformat.writes(nb) + '\n')


# Up to `jobs` lessons run at a time. In a terminal, a bar shows the progress cell by cell; in a log file, where a bar
# is noise, each lesson prints a line when it ends.
Run = namedtuple('Run', 'lesson backend cells seconds error')  # error: None, or a message


async def _run_lesson(path, backend_name, will_save, slots, tick):
    "Execute one lesson on the backend `backend_name` as soon as one of the `slots` is free"
    async with slots:
        start = time.perf_counter()
        error = None
        cells = 0

        def count():
            nonlocal cells
            cells += 1
            tick()

        try:
            nb = await execute(path, count, will_save)
            if will_save:
                save(nb, path)
        except (LessonError, ValueError, OSError) as e:
            error = e
        return Run(path.stem, backend_name, cells, time.perf_counter() - start, error)


def _count_code_cells(path):
    "Count the code cells of a lesson; 0 if the file is not a notebook, which running it will report"
    try:
        return sum(bool(s.strip()) for s in code(read(path)))
    except ValueError:
        return 0


async def run(
    paths,  # lessons
    will_save=False,  # whether to write the outputs to the notebooks
    jobs=1,  # number of lessons that run at a time
) -> list:  # one `Run` per lesson, in the order of the lessons
    "Execute lessons, each in a fresh kernel, and show the progress"
    import asyncio
    from tqdm import tqdm
    from gridstride.utils import backend

    backend_name = backend()
    is_interactive = sys.stdout.isatty() and sys.stderr.isatty()
    slots = asyncio.Semaphore(jobs)
    runs = []
    with tqdm(total=sum(map(_count_code_cells, paths)), unit='cell', disable=not is_interactive) as bar:
        for task in asyncio.as_completed([_run_lesson(p, backend_name, will_save, slots, bar.update) for p in paths]):
            runs.append(await task)
            bar.set_postfix_str(f'{runs[-1].lesson} done')
            if not is_interactive:
                print(f'{runs[-1].lesson}: {_result_text(runs[-1])}, {runs[-1].seconds:.1f} s', flush=True)
    return sorted(runs)


def _result_text(r):
    "Return 'ok', or in which cell the lesson failed"
    if not r.error:
        return 'ok'
    return f'failed in cell [{r.error.cell}]' if getattr(r.error, 'cell', 0) else 'failed'


def table(
    runs,  # one `Run` per lesson
) -> str:
    "Return the runs as a table"
    rows = [(r.lesson, r.backend, r.cells, f'{r.seconds:.1f}', _result_text(r)) for r in runs]
    return repr(Table(['<lesson', '<backend', 'cells', 'seconds', '<result'], rows))


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
}


def _current_id(name):
    "Convert an id in a progress file to the present id of the exercise"
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
    return _read_section(path, lambda content: {name: dict(o) for name, o in content.get('tries', {}).items()})


def _read_section(path, section):
    "Return `section(content)` of the progress file, with the present ids; raises `ValueError`, which names the file"
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
    chosen=(),  # lessons, as typed: '03'; without any, an overview of all
) -> str:
    """Return how many exercises of each lesson are solved, and which lesson comes next; with `chosen`, when each
    exercise of these lessons was solved. Raises `LookupError` for a number that no lesson has."""
    days = read_progress(path or progress_file(folder))
    if chosen:
        return '\n\n'.join(_solved_days(p.stem, exercises(read(p)), days) for p in pick(chosen, folder))
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


# `python -m gridstride.course.lessons run 01 02 --save --jobs 2`, which is what `python3 course.py run` calls once
# everything is set up. Exit status 1: a lesson failed; 2: the arguments are invalid.
def _at_least_one(text):
    "Parse a positive integer; raises `ArgumentTypeError`"
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f'{text!r} is not a positive integer')
    return int(text)


def run_args(
    argv,  # the arguments after `run`
    folder=NBS,  # where the lessons are
):  # the lessons' paths in `.paths`, and `.save` and `.jobs`
    "Parse the arguments of `run`; raises `ValueError` or `LookupError` for invalid ones"
    parser = argparse.ArgumentParser(
        prog='course.py run', description='Execute lessons, each in a fresh kernel.', allow_abbrev=False
    )
    parser.add_argument('lessons', nargs='*', metavar='NN', help='numbers of lessons; all lessons if none is given')
    parser.add_argument(
        '--save', action='store_true', help='write the outputs back into the notebooks that ran without an error'
    )
    parser.add_argument('--jobs', type=_at_least_one, default=1, metavar='N', help='how many lessons at a time (1)')

    def error(message):
        raise ValueError(f'{message}. Usage: {" ".join(parser.format_usage().split()[1:])}')

    parser.error = error
    args = parser.parse_args(argv)
    args.paths = pick(args.lessons, folder)
    return args


def _run_in_thread(coro):
    "Run `coro` in another thread and return its result: in the main thread nbclient would intercept Ctrl-C"
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    running = {}

    async def run_task():
        running.update(task=asyncio.current_task(), loop=asyncio.get_running_loop())
        return await coro

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(asyncio.run, run_task())
        try:
            return future.result()
        except KeyboardInterrupt:
            if running:
                running['loop'].call_soon_threadsafe(
                    running['task'].cancel
                )  # the `with` waits until the kernels have ended
            raise


_USAGE = """usage: python -m gridstride.course.lessons run|progress|trust ...

run [--save] [--jobs N] [NN ...]  execute these lessons, or all
progress [NN ...]                 show how many exercises are solved, and which lesson comes next; or those of lesson NN
trust                             sign the lessons and the copies, so that JupyterLab shows their pictures, and name
                                  the kernel in the copies, so that they have no unsaved change when they are opened"""


def main(
    argv=None,  # ['run', ...], ['progress'] or ['trust']; None: the command line
    folder=NBS,  # where the lessons are
) -> int:  # exit status
    "Run lessons, show the progress, or sign the lessons"
    command, *arguments = (sys.argv[1:] if argv is None else argv) or ['']
    if command in ('-h', '--help'):
        return print(_USAGE) or 0
    if command not in ('run', 'progress', 'trust'):
        return print(_USAGE, file=sys.stderr) or 2
    if command != 'run' and {'-h', '--help'} & set(arguments):  # `run` has a help of its own
        return print(_USAGE) or 0
    try:
        if command == 'trust':
            name_kernel(ROOT / 'my')
            return sum(map(trust, (folder, ROOT / 'my'))) and 0
        if command == 'progress':
            return print(progress(folder, chosen=arguments)) or 0
        args = run_args(arguments, folder)
        runs = _run_in_thread(run(args.paths, args.save, args.jobs))
    except (ValueError, LookupError, RuntimeError) as e:
        return print(e, file=sys.stderr) or 2
    except ModuleNotFoundError as e:
        message = f'{e.name} is not installed, and lessons need it: python3 course.py run installs all requirements,'
        return print(f'{message} python -m pip install {e.name} only this one', file=sys.stderr) or 2
    except KeyboardInterrupt:
        return print('\nStopped.', file=sys.stderr) or 130
    print(table(runs))
    for r in runs:
        if r.error:
            print(f'\n{r.error}', file=sys.stderr)
    return int(any(r.error for r in runs))


if __name__ == '__main__':
    sys.exit(main())
