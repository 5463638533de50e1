"""Test the course with the newest versions of its packages: `python3 course.py canary [ARGS]`. ARGS are passed to
pytest; `--all` adds the exhaustive tests.

The separate environment .canary gets the newest versions that the ranges in settings.ini allow; constraints.txt is not
used. Prints the installed versions and the results of the tests.
"""

import argparse, json, os, re, shutil, subprocess, sys, venv
from configparser import ConfigParser
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
import course

CANARY = ROOT/'.canary'
PYTHON = CANARY/('Scripts/python.exe' if os.name == 'nt' else 'bin/python')
RESULTS = CANARY/'results.xml'
INSTALL = ['-m', 'pip', '--disable-pip-version-check', '--no-input', 'install', '-q']


def normalize(name): return re.sub(r'[-_.]+', '-', name).lower()


def required_packages(settings):  # the text of settings.ini
    "Return the packages that the settings require, without the course's own extras"
    parser = ConfigParser()
    parser.read_string(settings)
    lists = [value for name, value in parser['DEFAULT'].items() if name.endswith('requirements')]
    lines = [line for value in lists for line in value.splitlines() if line.strip()]
    names = {normalize(re.match(r'[\w.-]+', line)[0]) for line in lines}
    return sorted(names - {'gridstride'})


def pinned_versions(constraints):  # the text of constraints.txt
    "Return {package: version}"
    return {normalize(name): version for name, version in re.findall(r'^([\w.-]+)==([^\s;]+)', constraints, re.M)}


def install_torch_for_cpu():
    "Install PyTorch's newest build for the CPU if `course.py setup` would: pip's default build is gigabytes larger"
    course.VENV, course.PYTHON = CANARY, PYTHON
    index = course.torch_index()
    if index and course.answers(index):
        subprocess.call([PYTHON, *INSTALL, '--no-deps', '--index-url', index, 'torch'])


def make():
    "Create .canary, with the newest versions of the course's packages"
    if CANARY.exists(): shutil.rmtree(CANARY)
    venv.create(CANARY, with_pip=True)
    print('Installing the newest versions into .canary ...', flush=True)
    install_torch_for_cpu()
    if subprocess.call([PYTHON, *INSTALL, '.[course,test,types]'], cwd=ROOT):
        sys.exit('The newest versions conflict: pip names them above. Limit their ranges in settings.ini')


def installed_versions():
    "Return {package: version} of .canary"
    listing = subprocess.check_output([PYTHON, '-m', 'pip', '--disable-pip-version-check', 'list', '--format', 'json'])
    return {normalize(o['name']): o['version'] for o in json.loads(listing)}


def run_tests(args):
    "Run pytest in .canary; return its exit status"
    path = os.pathsep.join([str(PYTHON.parent), os.environ.get('PATH', '')])
    workers = ['-n', str(max(2, min(os.cpu_count() or 2, 8))), '--dist', 'worksteal']
    pytest_args = [*workers, '-q', '-rsx', *args, 'tests'] if args in ([], ['--all']) else args
    return subprocess.call([PYTHON, '-m', 'pytest', f'--junitxml={RESULTS}', *pytest_args], cwd=ROOT,
                           env=dict(os.environ, PATH=path))


def read_results(xml):  # what pytest wrote with --junitxml
    "Return ({'passed', 'failed', 'skipped': number of tests}, names of the failed tests)"
    cases = list(ElementTree.fromstring(xml).iter('testcase'))
    failed = [f"{c.get('classname')}::{c.get('name')}" for c in cases if {'failure', 'error'} & {o.tag for o in c}]
    skipped = sum(c.find('skipped') is not None for c in cases)
    return dict(passed=len(cases) - len(failed) - skipped, failed=len(failed), skipped=skipped), failed


def table(versions, pins, names):
    "Return a text with a line per package: the version that was tested, and the pinned one"
    rows = [('package', 'tested', 'pinned')]
    rows += [(name, versions[name], pins.get(name, '-')) for name in names if name in versions]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return '\n'.join('  '.join(o.ljust(w) for o, w in zip(row, widths)).rstrip() for row in rows)


def main(argv):
    "Create .canary, run the tests and print the table; return the exit status of the tests"
    p = argparse.ArgumentParser(prog='course.py canary', usage='%(prog)s [--keep] [ARGS of pytest]',
                                description='Test the course with the newest versions of its packages.')
    p.add_argument('--keep', action='store_true', help='use the existing .canary')
    args, pytest_args = p.parse_known_args(argv)
    if not (args.keep and PYTHON.exists()): make()
    if RESULTS.exists(): RESULTS.unlink()
    status = run_tests(pytest_args)
    pins = pinned_versions((ROOT/'constraints.txt').read_text())
    names = required_packages((ROOT/'settings.ini').read_text())
    print(f'\nPython {sys.version.split()[0]}', table(installed_versions(), pins, names), sep='\n')
    if not RESULTS.exists(): sys.exit(status or 1)  # pytest failed before any test, and has printed why
    counts, failed = read_results(RESULTS.read_text(encoding='utf-8'))
    print(f"\n{', '.join(f'{n} {k}' for k, n in counts.items())}", *failed, sep='\n')
    return status


if __name__ == '__main__': sys.exit(main(sys.argv[1:]))
