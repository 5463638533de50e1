"""Judge a submission's file, or write one.

python -m gridstride.judge FILE [--task NAME] [--timing] [--timeout SECONDS]
python -m gridstride.judge submit KERNEL [--leaderboard NAME] [--gpu NAME ...] [--out FILE]
"""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from ..support.lazy_exports import require, run_command
from .samples import honest

_DESCRIPTION = """Judge a submission: run it in a separate process with new random inputs, and report either that its
outputs are correct and (on a machine with a GPU) how long they take, or the reason for which it is rejected.
To write a submission: python -m gridstride.judge submit -h"""
_EPILOG = """The exit status is 0 if it is accepted, 1 if it is rejected, and 2 for a wrong command line.
On Linux a submission runs in a sandbox, without the network, other processes or your home folder. If the system
supports none (macOS, some containers), it runs like your own programs, and the verdict says "not isolated on this
system": use a virtual machine there."""
_TASK_HELP = 'the task; default: NAME of its line #!POPCORN leaderboard NAME'


def _positive_seconds(text):
    "Parse a positive number of seconds"
    if not 0 < (seconds := float(text)) < 1e6:
        raise argparse.ArgumentTypeError(f'must be a positive number of seconds, less than 1,000,000; got {text}')
    return seconds


def _task_names():
    "Return the names of the tasks; None, which accepts any, if torch is not installed"
    if not find_spec('torch'):
        return None
    from . import TASKS

    return list(TASKS)


def _judge(argv):
    "Judge a file and print the verdict; return whether it is rejected"
    parser = argparse.ArgumentParser(prog='python -m gridstride.judge', description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument('file', help='a Python file with custom_kernel(data), or ModelNew')
    parser.add_argument('--task', choices=_task_names(), help=_TASK_HELP)
    parser.add_argument(
        '--timing', action='store_true', default=None, help='time submission and reference, even on a CPU'
    )
    parser.add_argument(
        '--timeout', type=_positive_seconds, default=20.0, metavar='SECONDS', help='time limit per call; default 20'
    )
    options = parser.parse_args(argv)
    require('torch', 'gridstride.judge')
    from . import judge

    try:
        verdict = judge(Path(options.file), options.task, timeout=options.timeout, timing=options.timing)
    except ValueError as e:
        parser.error(f'{e}; choose one with --task NAME')
    printed = [f'  | {line}' for line in verdict.log.splitlines()]
    print(verdict, *(['  log of the submission:', *printed] if printed else []), sep='\n')
    return not verdict


def _submit(argv):
    "Write a submission and judge it here; return whether it is rejected"
    parser = argparse.ArgumentParser(
        prog='python -m gridstride.judge submit',
        description="Write a submission in the leaderboards' format from a kernel of the lessons, and judge it here. "
        'Nothing is sent anywhere.',
    )
    parser.add_argument('kernel', help=f'a file with custom_kernel(data) or ModelNew, or one of {", ".join(honest())}')
    parser.add_argument('--leaderboard', metavar='NAME', help='name of the leaderboard; default: the task')
    parser.add_argument('--gpu', nargs='+', default=['H100'], metavar='NAME', help='GPUs of the leaderboard')
    parser.add_argument('--task', choices=_task_names(), help=_TASK_HELP)
    parser.add_argument('--out', default='submission.py', metavar='FILE', help='the file to write')
    options = parser.parse_args(argv)
    require('torch', 'gridstride.judge')
    from . import judge, read_submission, find_task, write_submission

    try:
        source = honest().get(options.kernel, options.kernel)
        task = options.task or read_submission(Path(source)).leaderboard
        task = find_task(task).name
        write_submission(Path(source), options.leaderboard or task, options.gpu, options.out)
        verdict = judge(Path(options.out), task)
    except (ValueError, OSError) as e:
        parser.error(str(e))
    print(
        f'Wrote {options.out} for the leaderboard {options.leaderboard or task}; nothing was sent. Judged locally:',
        verdict,
        sep='\n',
    )
    return not verdict


def main(argv=None) -> int:  # exit status: 0 if the submission is accepted
    "Run the command; return its exit status"
    argv = sys.argv[1:] if argv is None else argv
    return int(_submit(argv[1:]) if argv[:1] == ['submit'] else _judge(argv))


if __name__ == '__main__':
    sys.exit(run_command(main))
