"""Give recordings of lessons new keys after a change of code that changes no result, such as a rename.

    python rekey.py matmul_ladder_kinds matmul_ladder_ladder_naive    # executes that chapter; the values stay

The key of a recording identifies the sources that it was made from, and a lesson rejects a recording with another key
(`bench/recording.py`). Comments of CUDA C are not part of the key (`bench/keys.py`).
Name only recordings whose kernels compute the same as before; record the others again (`course.py record`). Listings in
`CHAPTER_asm` have no key: they are made again, without a GPU.
"""
import os, subprocess, sys
from pathlib import Path

from gridstride.course.curriculum import LESSONS

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT/'nbs/recorded'


def chapter_number(recording):
    "Return the number of a recording's chapter: its name begins with the chapter's slug"
    lessons = [lesson for lesson in LESSONS if recording.startswith(f'{lesson.chapter}_')]
    if not lessons: raise ValueError(f"the name of a recording must begin with a chapter's slug; got {recording}")
    return max(lessons, key=lambda lesson: len(lesson.chapter)).number[:2]


def rekey(names, run_lessons, folder=RECORDED):
    """Execute the lessons of the recordings with `run_lessons(lessons, env)`, which returns an exit status; return the
    names of the recordings with new keys. Raise `ValueError` if there is no recording of some name"""
    if missing := [o for o in names if not (folder/f'{o}.json').is_file()]:
        raise ValueError(f'no recording in {folder} is called {", ".join(missing)}')
    before = {o: (folder/f'{o}.json').read_bytes() for o in names}
    lessons = sorted({chapter_number(o) for o in names})
    if run_lessons(lessons, {**os.environ, 'GRIDSTRIDE_REKEY': ','.join(names)}):
        raise ValueError('a lesson failed; see its output above')
    return [o for o in names if (folder/f'{o}.json').read_bytes() != before[o]]


def run_lessons(lessons, env):
    return subprocess.call([sys.executable, '-m', 'gridstride.course.lessons', 'run', *lessons], cwd=ROOT, env=env)


if __name__ == '__main__':
    names = sys.argv[1:] or sys.exit(__doc__)
    new = rekey(names, run_lessons)
    print(*(f'{o}: {"new key" if o in new else "nothing to renew"}' for o in names), sep='\n')
