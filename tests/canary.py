"""The course with the newest of what it needs: `python3 course.py canary [ARGS]`; ARGS go to pytest: `--all`
adds the exhaustive tests.

An environment of its own, .canary, takes whatever the ranges in settings.ini allow; constraints.txt has no say. It
prints which versions came and how the tests went, and leaves the rest to who reads that.
"""

import argparse, json, os, re, shutil, subprocess, sys, venv
from configparser import ConfigParser
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
import course

HERE = ROOT/'.canary'
PYTHON = HERE/('Scripts/python.exe' if os.name == 'nt' else 'bin/python')
RESULTS = HERE/'results.xml'
INSTALL = ['-m', 'pip', '--disable-pip-version-check', '--no-input', 'install', '-q']


def plain(name): return re.sub(r'[-_.]+', '-', name).lower()


def asked_for(settings):  # the text of settings.ini
    "The packages that the course itself names there, without those of its own extras"
    parser = ConfigParser()
    parser.read_string(settings)
    lines = [l for k, v in parser['DEFAULT'].items() if k.endswith('requirements') for l in v.splitlines()]
    names = {plain(re.match(r'[\w.-]+', l)[0]) for l in lines if l.strip()}
    return sorted(names - {'gridstride'})


def pinned(constraints):  # the text of constraints.txt
    "Package to version"
    return {plain(name): version for name, version in re.findall(r'^([\w.-]+)==([^\s;]+)', constraints, re.M)}


def install_torch_for_cpu():
    "PyTorch's newest build for the CPU, where `course.py setup` would take one: pip's default brings gigabytes more"
    course.VENV, course.PYTHON = HERE, PYTHON
    index = course.torch_index()
    if index and course.answers(index):
        subprocess.call([PYTHON, *INSTALL, '--no-deps', '--index-url', index, 'torch'])


def make():
    "A new .canary, with the course's packages in their newest versions"
    if HERE.exists(): shutil.rmtree(HERE)
    venv.create(HERE, with_pip=True)
    print('Installing the newest versions into .canary ...', flush=True)
    install_torch_for_cpu()
    if subprocess.call([PYTHON, *INSTALL, '.[course,test]'], cwd=ROOT):
        sys.exit('The newest versions cannot be installed together: see above which, and limit them in settings.ini')


def installed():
    "Package to version, in .canary"
    said = subprocess.check_output([PYTHON, '-m', 'pip', '--disable-pip-version-check', 'list', '--format', 'json'])
    return {plain(o['name']): o['version'] for o in json.loads(said)}


def run_tests(args):
    "Run pytest in .canary; its exit status"
    path = os.pathsep.join([str(PYTHON.parent), os.environ.get('PATH', '')])
    workers = ['-n', str(max(2, min(os.cpu_count() or 2, 8))), '--dist', 'worksteal']
    given = [*workers, '-q', '-rsx', *args, 'tests'] if args in ([], ['--all']) else args
    return subprocess.call([PYTHON, '-m', 'pytest', f'--junitxml={RESULTS}', *given], cwd=ROOT,
                           env=dict(os.environ, PATH=path))


def outcome(xml):  # what pytest wrote with --junitxml
    "Counts of tests passed, failed and skipped, and the names of those that failed"
    cases = list(ElementTree.fromstring(xml).iter('testcase'))
    failed = [f"{c.get('classname')}::{c.get('name')}" for c in cases if {'failure', 'error'} & {o.tag for o in c}]
    skipped = sum(c.find('skipped') is not None for c in cases)
    return dict(passed=len(cases) - len(failed) - skipped, failed=len(failed), skipped=skipped), failed


def table(have, pins, names):
    "One line per package: the version that was tried, and the one that the tests pin"
    rows = [('package', 'tried', 'pinned'), *((o, have[o], pins.get(o, '-')) for o in names if o in have)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return '\n'.join('  '.join(o.ljust(w) for o, w in zip(row, widths)).rstrip() for row in rows)


def main(argv):
    "Set up, test, and print the table; the exit status is that of the tests"
    p = argparse.ArgumentParser(prog='course.py canary', usage='%(prog)s [--keep] [ARGS of pytest]',
                                description='Test with the newest of what the course needs.')
    p.add_argument('--keep', action='store_true', help='use .canary as it is, if it is there')
    args, for_pytest = p.parse_known_args(argv)
    if not (args.keep and PYTHON.exists()): make()
    if RESULTS.exists(): RESULTS.unlink()
    status = run_tests(for_pytest)
    pins, names = pinned((ROOT/'constraints.txt').read_text()), asked_for((ROOT/'settings.ini').read_text())
    print(f'\nPython {sys.version.split()[0]}', table(installed(), pins, names), sep='\n')
    if not RESULTS.exists(): sys.exit(status or 1)  # pytest did not get that far, and said why
    counts, failed = outcome(RESULTS.read_text(encoding='utf-8'))
    print(f"\n{', '.join(f'{n} {k}' for k, n in counts.items())}", *failed, sep='\n')
    return status


if __name__ == '__main__': sys.exit(main(sys.argv[1:]))
