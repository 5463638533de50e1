"""The exact versions of `constraints.txt` can be had, as wheels, on each machine that the README names: uv resolves for
machines other than this one."""
import configparser, os, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from uv import find_uv_bin

ROOT = Path(__file__).parents[1]
UV = find_uv_bin()
SETTINGS = configparser.ConfigParser()
SETTINGS.read(ROOT/'settings.ini')
OLDEST, NEWEST = (int(SETTINGS['DEFAULT'][f'{o}_python'].removeprefix('3.')) for o in ('min', 'newest'))
MACHINES = ['x86_64-manylinux_2_28', 'aarch64-manylinux_2_28', 'aarch64-apple-darwin']
# The oldest and the newest Python on each kind of machine, those between on one kind each: all would take twice as long
WHERE = [(f'3.{n}', o) for n in range(OLDEST, NEWEST+1) for i, o in enumerate(MACHINES)
         if n in (OLDEST, NEWEST) or n % len(MACHINES) == i]


def requirements(*keys):
    "Lines of settings.ini, with named extras replaced by theirs"
    for key in keys:
        for line in filter(None, map(str.strip, SETTINGS['DEFAULT'][f'{key}requirements'].splitlines())):
            if line.startswith('gridstride['): yield from requirements(line[len('gridstride['):-1] + '_')
            else: yield line


def resolve(python, machine, needs):
    "What uv says: nothing if all can be had"
    env = dict(os.environ, MACOSX_DEPLOYMENT_TARGET='14.0')                 # the oldest that torch is built for
    here = ['--python', sys.executable]  # or uv starts each Python of this machine, 10x slower
    run = subprocess.run([UV, 'pip', 'compile', '-q', *here, '--only-binary', ':all:', '--python-version', python,
                          '--python-platform', machine, '-c', ROOT/'constraints.txt', needs], env=env,
                         stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return run.stderr if run.returncode else ''


def test_the_pythons_that_the_readme_names():
    assert f'Python 3.{OLDEST} to 3.{NEWEST}' in (ROOT/'README.md').read_text(encoding='utf-8')


@pytest.mark.exhaustive
@pytest.mark.takes(15)
def test_what_is_supported_gets_the_exact_versions(tmp_path):
    (needs := tmp_path/'requirements.in').write_text('\n'.join(requirements('', 'course_', 'test_', 'types_')))
    with ThreadPoolExecutor(len(WHERE)) as pool: said = list(pool.map(lambda o: resolve(*o, needs), WHERE))
    if offline := [o for o in said if 'error sending request' in o or 'dns error' in o or 'timed out' in o]:
        pytest.skip(f'the package index does not answer: {offline[0][:200]}')
    assert not {o: s for o, s in zip(WHERE, said) if s}
