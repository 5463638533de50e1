"""Runs programs of tests/cuda on the native emulator, as the playground runs them, and prints a line of JSON per
program. Each has its own process, as it has its own module in a browser.

python native_findings.py PATH ...
"""

import multiprocessing, sys
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]
sys.path += [str(HERE / 'browser')]  # last, because its `torch` is the replacement for the browser
sys.modules['in_browser.served'] = SimpleNamespace(HAS_COMPILER=False)

from in_browser import playground


def run(path):
    "Run a program; returns what the playground receives"
    return playground.run(Path(path).read_text(encoding='utf-8'))


def main(paths):
    "Run the programs"
    with multiprocessing.get_context('fork').Pool(1, maxtasksperchild=1) as pool:
        for result in pool.imap(run, paths):
            print(result, flush=True)


if __name__ == '__main__':
    main(sys.argv[1:])
