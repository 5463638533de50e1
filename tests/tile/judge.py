"""Run the corpus: each case in one line, and a count at the end.

    python judge.py                     # needs an NVIDIA GPU: Triton runs the right kernels there, against float64
    python judge.py checked [NAME ...]  # gridstride.tile, on the CPU
    python judge.py interpreted         # Triton's interpreter, on the CPU
    python judge.py compiled            # Triton compiles for an H100; no GPU needed

With --wrong the wrong ones follow, each in a process of its own (not on a GPU: they would write to memory that is not
theirs). The exit status shows whether all is as expected.
"""
import os, re, sys, time, warnings
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]
if sys.argv[1:2] == ['interpreted']: os.environ['TRITON_INTERPRET'] = '1'

import torch

from tile_corpus import RUNNERS, cases, compare, expected, seed

FINDINGS = 'memcheck', 'racecheck', 'initcheck', 'assert', 'launch'


def innermost(e):
    "The error that Triton has wrapped in others"
    while e.__cause__ is not None: e = e.__cause__
    return e


def lines_of(e, case):
    "The lines of the case's file that an error names: its own, or that of its launch, or what Triton points at"
    if getattr(e, 'line', None): return {e.line, *({e.other.line} if getattr(e, 'other', None) else ())}
    res, tb = set(), e.__traceback__
    while tb:
        if tb.tb_frame.f_code.co_filename == case.file: res.add(tb.tb_lineno)
        tb = tb.tb_next
    return res


def kind_of(e):
    "The kind of a finding; 'refused' for what else an error says"
    kind = getattr(e, 'kind', None)
    return kind if kind in FINDINGS else 'refused'


def verdict(case, how):
    "(what became of it, the error if there was one)"
    seed(case)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter('always')
            pairs = case.run(RUNNERS[how])
    except Exception as e: return kind_of(e), e
    lacking = [o.message for o in caught if type(o.message).__name__ == 'UndefinedLanes']
    if lacking: return 'initcheck', lacking[0]
    if how == 'compiled': return 'compiles', None
    try: compare(case, pairs)
    except AssertionError as e: return 'differs', e
    return 'right', None


def said(e): return '' if e is None else f'{type(e).__name__}: {e}' if str(e) else f'{type(e).__name__}: {innermost(e)}'


def is_found(case, what, e, how='checked'):
    "Is what was found what the marks of a wrong case say? A compiler refuses, and finds nothing else"
    want = expected(case)
    if how == 'compiled': return 'launch' in want.kinds or (what == 'refused') == ('refused' in want.kinds)
    if want.kinds == {'unseen'}: return what in ('right', 'differs')
    return what in want.kinds and bool(lines_of(e, case) & want.lines)


def judge_right(names, how):
    "The names of those that are not right; on a GPU a new process continues after an error that ends one"
    rest = [c for c in cases('right').values() if not names or c.name in names]
    count, size, bad = len(rest), len(rest), []
    while rest:
        part = rest[:size]
        done, *wrong = (apart(lambda: judge_some(part, how)) if how == 'cuda' else judge_some(part, how)).split()
        if done == 'crash' and len(part) > 1:
            size = 1  # each alone, to see which one it is
            continue
        rest, bad = rest[1 if done == 'crash' else int(done):], bad + (wrong if done != 'crash' else [part[0].name])
    print(f'{how}: {len(bad)} of {count} right ones are not right: {" ".join(bad)}')
    return bad


def judge_some(chosen, how, most=600):
    "How many cases were run until an error of the GPU, which leaves it to no other, and those that are not right"
    bad = []
    for done, case in enumerate(chosen, 1):
        start = time.perf_counter()
        what, e = verdict(case, how)
        print(f'{case.name:40} {what:9} {time.perf_counter() - start:6.2f} s', flush=True)
        if what in ('right', 'compiles'): continue
        bad.append(case.name)
        print(re.sub('^', '    ', said(e)[:most], flags=re.M), flush=True)
        if 'CUDA error' in said(e): break
    return ' '.join([str(done), *bad])


def compile_beforehand(names):
    "Fill Triton's cache from as many processes as there are cores, before this one begins with CUDA"
    chosen = [c for c in cases('right').values() if not names or c.name in names]
    n = min(16, os.cpu_count())
    for k in range(n):
        if not os.fork():
            try:
                for case in chosen[k::n]: verdict(case, 'compiled')
            finally: os._exit(0)
    for _ in range(n): os.wait()


def apart(f):
    "What `f` prints or returns as a text, from a process of its own; 'crash' if that dies"
    r, w = os.pipe()
    if not (pid := os.fork()):
        os.close(r)
        try: os.write(w, f().encode()[:60000])
        finally: os._exit(0)
    os.close(w)
    with os.fdopen(r, 'rb') as pipe: text = pipe.read().decode()
    os.waitpid(pid, 0)
    return text or 'crash'


def judge_wrong(names, how):
    "The names of those in which something else was found than the marks say"
    bad = []
    for case in cases('wrong').values():
        if names and case.name not in names: continue
        def one():
            what, e = verdict(case, how)
            return f'{what}\n{int(is_found(case, what, e, how))}\n{said(e)}'
        what, found, text = (apart(one) + '\n0\n').split('\n', 2)
        want = expected(case)
        marked = 'as marked' if found == '1' else f'MARKED {" or ".join(want.kinds)}, line {sorted(want.lines)}'
        print(f'{case.name:40} {what:10} {marked}', flush=True)
        if found != '1' and text.strip(): print(re.sub('^', '    ', text.strip()[:600], flags=re.M), flush=True)
        if found != '1': bad.append(case.name)
    print(f'{how}: {len(bad)} of {len(names) or len(cases("wrong"))} wrong ones are not as marked: {" ".join(bad)}')
    return bad


def main(how='cuda', *given):
    names = [o for o in given if o != '--wrong']
    torch.set_num_threads(1)  # a process that is forked has no pool of threads
    right, wrong = ([o for o in names if o in cases(side)] for side in ('right', 'wrong'))
    if how == 'cuda': compile_beforehand(right)
    bad = judge_right(right, how) if right or not names else []
    if '--wrong' in given or wrong: bad += judge_wrong(wrong, how)
    return bool(bad)


if __name__ == '__main__': sys.exit(main(*sys.argv[1:]))
