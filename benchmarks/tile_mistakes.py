"""Who finds a mistake in a Triton kernel: the wrong ones of tests/tile, by three who have no GPU.

    python tile_mistakes.py > tile_mistakes.txt    # a minute of two cores

`tile` is `gridstride.tile`, with every check: the kind and the line. `interpreter` is Triton's own, TRITON_INTERPRET=1:
`raises` (under autotune it always does, right or wrong), `differs` (ends silently with another result than float64),
`right` (silent, and the result is right by luck), or `crash` (it reads and writes whatever memory is there: which ones
crash changes from run to run). `compiler` compiles for an H100 and runs nothing. Each case has a process of its own.
"""
import json, os, subprocess, sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT/'tests/tile')]
RUNNERS = dict(tile='checked', interpreter='interpreted', compiler='compiled')


def outcome(case, how):
    "What became of a case, in one or two words, and the line that was named"
    from judge import FINDINGS, lines_of, said, verdict
    what, e = verdict(case, how)
    named = f' {min(lines_of(e, case))}' if how == 'checked' and what in (*FINDINGS, 'refused') else ''
    if how == 'interpreted' and what not in ('right', 'differs'): what = 'raises'
    return json.dumps(dict(name=case.name, what=what + named, said=said(e)))


def work(how):
    "All wrong cases by one of them, a line of JSON each"
    import torch
    from judge import apart
    from tile_corpus import cases
    torch.set_num_threads(1)  # a process that is forked has no pool of threads
    for case in cases('wrong').values():
        output = apart(lambda: outcome(case, how))
        row = next((o for o in output.split('\n') if o.startswith('{')), None)
        print(row or json.dumps(dict(name=case.name, what='crash', said='')), flush=True)


def answers(how):
    "name -> what became of it"
    env = dict(os.environ, TRITON_INTERPRET='1') if how == 'interpreted' else dict(os.environ)
    run = subprocess.run([sys.executable, __file__, how], env=env, capture_output=True, text=True, timeout=600)
    rows = [json.loads(o) for o in run.stdout.split('\n') if o.startswith('{"name"')]
    if not rows: raise RuntimeError(run.stderr[-2000:])
    return {o['name']: o['what'] for o in rows}


def main():
    from tile_corpus import cases, expected
    found = {who: answers(how) for who, how in RUNNERS.items()}
    wrong = cases('wrong')
    width = max(map(len, wrong)) + 2
    print('mistake'.ljust(width) + 'tile'.ljust(16) + 'interpreter'.ljust(14) + 'compiler')
    for name in wrong:
        tile, interpreter, compiler = (found[who][name] for who in RUNNERS)
        print(name.ljust(width) + tile.ljust(16) + interpreter.ljust(14) + compiler)
    caught = {who: {n for n, what in o.items() if what.split()[0] not in ('right', 'differs', 'compiles', 'crash')}
            for who, o in found.items()}
    kinds = Counter(found['tile'][n].split()[0] for n in caught['tile'])
    by_kind = ', '.join(f'{n} {k}' for k, n in kinds.most_common())
    either = caught['interpreter'] | caught['compiler']
    print(f"\n{len(wrong)} mistakes. tile finds {len(caught['tile'])} ({by_kind}), Triton's interpreter "
          f"{len(caught['interpreter'])}, its compiler {len(caught['compiler'])}, one of these two {len(either)}.")
    silent = Counter(found['interpreter'].values())
    print(f"The interpreter is silent on {silent['differs']} whose result differs, and on {silent['right']} whose "
          f"result is right all the same; {silent['crash']} crash it.")
    print('\nWhat tile does not find, and why:')
    for name, case in wrong.items():
        if name not in caught['tile']: print(f'  {name}: {expected(case).note}')


if __name__ == '__main__': work(sys.argv[1]) if sys.argv[1:] else main()
