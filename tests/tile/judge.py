"""Run the corpus: each case in one line, and a count at the end.

    python judge.py                     # needs an NVIDIA GPU: Triton runs the right kernels there, against float64
    python judge.py checked [NAME ...]  # gridstride.tile, on the CPU
    python judge.py interpreted         # Triton's interpreter, on the CPU
    python judge.py compiled            # Triton compiles for an H100: right ones and wrong ones; no GPU needed

Each gives 1 to the shell if a right kernel is not right. With --wrong the wrong ones, too (not on a GPU).
"""
import os, sys, time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]
if sys.argv[1:2] == ['interpreted']: os.environ['TRITON_INTERPRET'] = '1'

from corpus import RUNNERS, cases, compare, expected, seed


def innermost(e):
    "The error that Triton has wrapped in others"
    while e.__cause__ is not None: e = e.__cause__
    return e


def lines_of(e, file):
    "The lines of a file that an error tells of: its own, or those of its traceback"
    res = {getattr(e, 'line', None) or getattr(getattr(e, 'node', None), 'lineno', None)}
    tb = e.__traceback__
    while tb:
        if tb.tb_frame.f_code.co_filename == file: res.add(tb.tb_lineno)
        tb = tb.tb_next
    return res - {None}


def verdict(case, how):
    "(did it run to its end?, is it right?, what was said)"
    seed(case)
    try:
        pairs = case.run(RUNNERS[how])
        if how != 'compiled': compare(case, pairs)
        return True, True, ''
    except AssertionError as e:
        if getattr(e, 'kind', None): return False, False, f'{e}'
        return True, False, f'{e}'
    except Exception as e:
        return False, False, f'{type(e).__name__}: {innermost(e)}' + (f' (line {getattr(e, "line", "")})')


def main(how='cuda', *names):
    bad = []
    for side in ('right', 'wrong') if '--wrong' in names else ('right',):
        chosen = [n for n in names if n != '--wrong']
        for name, case in cases(side).items():
            if chosen and name not in chosen: continue
            start = time.perf_counter()
            ran, ok, said = verdict(case, how)
            what = 'right' if ok else 'different' if ran else 'raised'
            if side == 'wrong' and how == 'compiled': what = 'compiles' if ok else 'refused'
            note = f'  expected {expected(case)}' if side == 'wrong' else ''
            print(f'{side:5} {name:36} {what:9} {time.perf_counter() - start:6.2f} s{note}', flush=True)
            if said: print('      ' + said[:int(os.environ.get('CHARS', 600))].replace('\n', '\n      '), flush=True)
            if side == 'right' and not ok: bad.append(name)
    print(f'{how}: {len(bad)} of the right ones are not right: {" ".join(bad)}')
    return bool(bad)


if __name__ == '__main__': sys.exit(main(*sys.argv[1:]))
