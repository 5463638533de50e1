"""Runs a submitted notebook in its process, cell by cell, and judges the answers that its cells define.

The notebook shares this interpreter with the judges of the exercises. So before the first cell runs, this module saves
references to everything that it uses later: the problems with their cases, and the functions that judge. An answer
counts only if no watched function has been replaced when it is judged, and if the answer did not inspect its callers.
A verdict carries a secret, which the process receives only after the cell has ended. `submissions` states which cheats
this does not prevent.
"""

import os
import signal
import sys
import traceback
from contextlib import contextmanager, suppress
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from types import FunctionType

from ..judge import wire
from ..judge.audit import Guard, watch
from . import grading
from .lessons import NBS

__all__ = ['main']

_WATCHED = 'numpy numpy.random numpy.testing gridstride.utils gridstride.course.grading'.split()


@contextmanager
def _time_limit(seconds):
    "Interrupt the `with` block after a number of seconds, as Ctrl-C would"
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _make_shell():
    "Make an IPython shell without a history file"
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    return InteractiveShell.instance(config=config)


def _prepare_folder():
    "Set the environment of a lesson, and link the files of the course that a lesson may read, if they are read-only"
    os.environ.update(GRIDSTRIDE_PROGRESS=os.path.abspath('progress.json'), MPLBACKEND='agg')
    os.environ.pop('GRIDSTRIDE_RECORD', None)
    if NBS.is_dir() and not os.access(NBS, os.W_OK):
        for path in NBS.iterdir():
            with suppress(OSError):
                Path(path.name).symlink_to(path)


def _make_exercise(answers):
    "Make the notebook's `exercise`: a decorator that keeps an answer in `answers`, to be judged after its cell"
    is_untouched, full_name = grading.is_untouched, grading._full_name

    def exercise(name):
        def hand_in(fn):
            if callable(fn) and not is_untouched(getattr(fn, 'py_func', fn)):
                answers[full_name(name)] = fn
            return fn

        return hand_in

    return exercise


class _CheatDetector:
    "Detects functions that a notebook replaced, and inspections of callers while an answer is judged"

    def __init__(self, chapter):
        names = [*_WATCHED, f'gridstride.course.exercises.{chapter}']
        self.guard = Guard({name: import_module(name) for name in names})
        functions = [
            f for _, functions_of_module in self.guard.originals.values() for f in functions_of_module.values()
        ]
        self.codes = [(f, f.__code__) for f in functions if isinstance(f, FunctionType)]
        self.is_judging = False
        self.inspections = []
        watch(self._report, may_import_judge=True)

    def _report(self, code, text):
        if self.is_judging and text not in self.inspections:
            self.inspections.append(text)

    def describe_cheats(self):
        "Describe why an answer cannot be accepted; '' if the notebook did not cheat"
        replaced = self.guard.replaced_functions() + [
            f.__qualname__ for f, code in self.codes if f.__code__ is not code
        ]
        return '; '.join([*(f'it replaced {name}' for name in replaced[:3]), *self.inspections[:3]])


class _Worker:
    "Executes the commands of `submissions`: `start`, `cell` and `judge`"

    def __init__(self, sock):
        self.sock = sock
        self.answers = {}  # exercise -> its answer in the last cell

    def start(self, header):
        "Save the problems of the chapter and the functions that judge, before any code of the notebook runs"
        _prepare_folder()
        self.judge_answer = grading._judge
        self.show_warnings_once = grading._show_warnings_once
        import_module(f'gridstride.course.exercises.{header["chapter"]}')
        self.problems = {name: deepcopy(p) for name, p in grading.problems.items()}
        self.exercise = grading.exercise = import_module('gridstride.course').exercise = _make_exercise(self.answers)
        self.shell = _make_shell()
        self.cheat_detector = _CheatDetector(header['chapter'])
        wire.send(self.sock, dict(op='started'))

    def cell(self, header):
        "Run a cell; send the exercises for which it defines an answer"
        self.answers.clear()
        self.shell.user_ns['exercise'] = self.exercise
        with _time_limit(header['seconds']):
            self.shell.run_cell(header['source'])
        wire.send(self.sock, dict(op='ran', answers=[str(name) for name in self.answers]))

    def judge(self, header):
        "Judge the answer to one exercise; send the verdict"
        name = header['name']
        self.cheat_detector.is_judging = True
        try:
            with _time_limit(header['seconds']), self.show_warnings_once() as warned:
                self.judge_answer(self.problems[name], self.answers[name], warned)
            rejection = self.cheat_detector.describe_cheats()
        except BaseException as e:
            rejection = f'{type(e).__name__}: {e}'[:1000]
        self.cheat_detector.is_judging = False
        wire.send(
            self.sock, dict(op='verdict', secret=header['secret'], name=name, solved=not rejection, reason=rejection)
        )

    def run(self):
        "Execute commands until the connection closes"
        commands = dict(start=self.start, cell=self.cell, judge=self.judge)
        while True:
            header, _ = wire.receive(self.sock)
            commands[header['op']](header)


def main(
    sock,  # a socket for the commands
    report_fd,  # unused
    order: dict,  # unused
):
    "Run a notebook; never returns"
    status = 0
    try:
        _Worker(sock).run()
    except wire.ConnectionClosed:
        pass
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    os._exit(status)
