"""Executes the lessons without a browser, and is the command line for them and for the solved exercises.

`python3 course.py run` and `python3 course.py progress` call this module. Both must answer on a machine on which
nothing is set up yet, if only to report that there is no lesson 42. So the imports at the top are from the standard
library; nbclient and tqdm are imported where they are used, as is asyncio, which would slow down every start.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

from ..support.atomic_write import write_atomically
from ..support.tables import Table
from .notebooks import NBS, ROOT, code, code_hash, lessons, pick, read, is_stale
from .progress import RENAMED, exercises, progress, progress_file, read_progress, read_tries

__all__ = [
    'ROOT',
    'NBS',
    'Run',
    'lessons',
    'pick',
    'read',
    'code',
    'code_hash',
    'is_stale',
    'LessonError',
    'StaleRecording',
    'execute',
    'name_kernel',
    'trust',
    'clean',
    'save',
    'run',
    'table',
    'RENAMED',
    'exercises',
    'progress_file',
    'read_progress',
    'read_tries',
    'progress',
    'run_args',
    'main',
]


_KERNEL_START_SECONDS = 300  # nbclient's default is 60, which a kernel exceeds on a machine that compiles for others


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
            '\n'.join([f'{lesson} stopped: {position}', *(f'  | {line}' for line in source.splitlines()), trace])
        )


class StaleRecording(Exception):
    "A lesson was not saved, because the keys of its recordings do not match its sources"

    def __init__(self, lesson, recordings):
        self.recordings = recordings
        names = ' '.join(recordings)
        super().__init__(
            f'{lesson} was not saved: {names} were recorded from other sources, so the lesson could not show them. '
            'Undo the change of the sources. If it changes no result, such as a rename, give the recordings new keys: '
            f'python benchmarks/rekey.py {names}. Otherwise record the lesson again on a '
            f'GPU: python3 course.py record {lesson.partition("_")[0]}'
        )


def _stale_recordings(log):
    "Return the names of the recordings whose keys did not match, in the order in which the lesson looked them up"
    lines = log.read_text(encoding='utf-8').splitlines() if log.exists() else []
    return list(dict.fromkeys(line.removesuffix(' stale') for line in lines if line.endswith(' stale')))


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
    ten minutes, and with `will_save` `StaleRecording` if a recording's key does not match"""
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
            env.update(GRIDSTRIDE_LOOKUPS=f'{tmp}/lookups')
        try:
            await _make_client(nb, Path(path).parent, start, tick).async_execute(env=env)
        except Exception as e:
            cell = sum(c['cell_type'] == 'code' and bool(c['source'].strip()) for c in nb.cells[: last_cell_index + 1])
            trace = getattr(e, 'traceback', str(e))
            raise LessonError(
                Path(path).stem, cell, nb.cells[last_cell_index].source if cell else '', _strip_colors(trace)
            ) from None
        if recordings := will_save and _stale_recordings(Path(tmp, 'lookups')):
            raise StaleRecording(Path(path).stem, recordings)
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
        write_atomically(path, json.dumps(nb, indent=1, ensure_ascii=False) + '\n')
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
        raise ValueError(f'{path} was edited while it ran, so its outputs were not saved; run it again')
    clean(nb)
    nb['metadata']['gridstride'] = {'code': code_hash(nb), 'backend': backend()}
    write_atomically(path, nbformat.writes(nb) + '\n')


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
        except (LessonError, StaleRecording, ValueError, OSError) as e:
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
    if command != 'run' and {'-h', '--help'} & set(arguments):  # `run` has its own help
        return print(_USAGE) or 0
    try:
        if command == 'trust':
            name_kernel(ROOT / 'my')
            return sum(map(trust, (folder, ROOT / 'my'))) and 0
        if command == 'progress':
            return print(progress(folder, chosen_lessons=arguments)) or 0
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
