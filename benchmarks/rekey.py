"""Give recordings of lessons new keys, after a change of code that changes no result: a rename, another layout.

    python rekey.py matmul_ladder_kinds matmul_ladder_ladder_naive    # executes that chapter; their values stay

A recording belongs to the sources that it was made from, and a lesson refuses it for any others (`bench/recording.py`);
comments of CUDA C may change (`bench/keys.py`).
Name only recordings whose kernels still do the same; what did change must be recorded again (`course.py record`).
Listings in `CHAPTER_asm` have no key to renew: they are made again, without a GPU.
"""
import os, subprocess, sys
from pathlib import Path

from gridstride.course.curriculum import LESSONS

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT/'nbs/recorded'


def number_of(recording):
    "The number of the chapter whose slug the name of a recording begins with"
    found = [o for o in LESSONS if recording.startswith(f'{o.chapter}_')]
    if not found: raise ValueError(f'{recording} begins with the slug of no chapter')
    return max(found, key=lambda o: len(o.chapter)).number[:2]


def rekey(names, run, folder=RECORDED):
    """Execute the lessons of the recordings with `run(lessons, env)`, which gives an exit status; returns the names of
    those that have new keys. `ValueError` for a name that no recording has"""
    if missing := [o for o in names if not (folder/f'{o}.json').is_file()]:
        raise ValueError(f'no recording in {folder} is called {", ".join(missing)}')
    before = {o: (folder/f'{o}.json').read_bytes() for o in names}
    lessons = sorted({number_of(o) for o in names})
    if run(lessons, {**os.environ, 'GRIDSTRIDE_REKEY': ','.join(names)}): raise ValueError('a lesson failed: see above')
    return [o for o in names if (folder/f'{o}.json').read_bytes() != before[o]]


def run(lessons, env):
    return subprocess.call([sys.executable, '-m', 'gridstride.course.lessons', 'run', *lessons], cwd=ROOT, env=env)


if __name__ == '__main__':
    names = sys.argv[1:] or sys.exit(__doc__)
    new = rekey(names, run)
    print(*(f'{o}: {"new key" if o in new else "nothing to renew"}' for o in names), sep='\n')
