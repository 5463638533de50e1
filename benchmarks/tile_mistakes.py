"""Which of three tools without a GPU find the mistakes in the wrong Triton kernels of tests/tile?

    python tile_mistakes.py > tile_mistakes.txt    # a minute on two cores

`tile` is `gridstride.tile` with all checks; the table shows the kind and line of its finding. `interpreter` is
Triton's, with TRITON_INTERPRET=1: `raises` an error (always under autotune, even for correct kernels), silently
`differs` from float64, is silently `right` by luck, or ends in a `crash`, since addresses are not checked (which
kernels crash changes from run to run). `compiler` compiles for an H100 and runs nothing. Each case runs in a new
process.
"""
import json, os, subprocess, sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT/'tests/tile')]
RUNNERS = dict(tile='checked', interpreter='interpreted', compiler='compiled')


def outcome(case, mode):
    "Run a case; return JSON with its name, the outcome with the line of the finding, and the message"
    from judge import FINDINGS, lines_of, said, verdict
    result, e = verdict(case, mode)
    line = f' {min(lines_of(e, case))}' if mode == 'checked' and result in (*FINDINGS, 'refused') else ''
    if mode == 'interpreted' and result not in ('right', 'differs'): result = 'raises'
    return json.dumps(dict(name=case.name, what=result + line, said=said(e)))


def print_outcomes(mode):
    "Run all wrong cases in one mode and print a line of JSON per case"
    import torch
    from judge import apart
    from tile_corpus import cases
    torch.set_num_threads(1)  # a forked process has no thread pool
    for case in cases('wrong').values():
        output = apart(lambda: outcome(case, mode))
        row = next((line for line in output.split('\n') if line.startswith('{')), None)
        print(row or json.dumps(dict(name=case.name, what='crash', said='')), flush=True)


def run_all(mode):
    "Run `print_outcomes` in a new process; return {name of the case: outcome}"
    env = dict(os.environ, TRITON_INTERPRET='1') if mode == 'interpreted' else dict(os.environ)
    process = subprocess.run([sys.executable, __file__, mode], env=env, capture_output=True, text=True, timeout=600)
    rows = [json.loads(row) for row in process.stdout.split('\n') if row.startswith('{"name"')]
    if not rows: raise RuntimeError(process.stderr[-2000:])
    return {row['name']: row['what'] for row in rows}


def main():
    from tile_corpus import cases, expected
    outcomes = {tool: run_all(mode) for tool, mode in RUNNERS.items()}
    wrong = cases('wrong')
    width = max(map(len, wrong)) + 2
    print('mistake'.ljust(width) + 'tile'.ljust(16) + 'interpreter'.ljust(14) + 'compiler')
    for name in wrong:
        tile, interpreter, compiler = (outcomes[tool][name] for tool in RUNNERS)
        print(name.ljust(width) + tile.ljust(16) + interpreter.ljust(14) + compiler)
    uncaught = 'right', 'differs', 'compiles', 'crash'
    caught = {tool: {name for name, outcome in by_name.items() if outcome.split()[0] not in uncaught}
              for tool, by_name in outcomes.items()}
    kinds = Counter(outcomes['tile'][name].split()[0] for name in caught['tile'])
    by_kind = ', '.join(f'{count} {kind}' for kind, count in kinds.most_common())
    either = caught['interpreter'] | caught['compiler']
    print(f"\n{len(wrong)} mistakes. tile finds {len(caught['tile'])} ({by_kind}), Triton's interpreter "
          f"{len(caught['interpreter'])}, its compiler {len(caught['compiler'])}, one of these two {len(either)}.")
    silent = Counter(outcomes['interpreter'].values())
    print(f"The interpreter is silent on {silent['differs']} whose result differs, and on {silent['right']} whose "
          f"result is right all the same; {silent['crash']} crash it.")
    print('\nWhat tile does not find, and why:')
    for name, case in wrong.items():
        if name not in caught['tile']: print(f'  {name}: {expected(case).note}')


if __name__ == '__main__': print_outcomes(sys.argv[1]) if sys.argv[1:] else main()
