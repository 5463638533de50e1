"What must be true of the repository as a whole: exports, links, the wheel, and how light the package starts."
import asyncio, json, re, shutil, subprocess, sys, venv, zipfile
from configparser import ConfigParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from gridstride import lessons

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
NOTEBOOKS = sorted(p for p in (ROOT/'nbs').rglob('*.ipynb') if '.ipynb_checkpoints' not in p.parts)
LIBRARY = [p for p in NOTEBOOKS if 'lib' in p.relative_to(ROOT).parts]


def name(path): return str(path.relative_to(ROOT))


def copied(tmp_path):
    "A copy of what the package is built from"
    here = tmp_path/'copy'
    here.mkdir()
    for f in ('settings.ini', 'setup.py', 'pyproject.toml', 'MANIFEST.in', 'README.md', 'utils.py'): shutil.copy(ROOT/f, here)
    for d in ('nbs', 'gridstride', 'tests'): shutil.copytree(ROOT/d, here/d, symlinks=True, ignore=shutil.ignore_patterns('__pycache__', '.*'))
    return here


def run(*cmd, cwd, **kw):
    "The text that a command prints; it must succeed"
    res = subprocess.run(list(map(str, cmd)), cwd=cwd, text=True, capture_output=True, timeout=300, **kw)
    assert res.returncode == 0, f'{res.stdout}\n{res.stderr}'
    return res.stdout


def texts(folder, pattern):
    "The files below `folder` that match, with their text"
    return {str(p.relative_to(folder)): p.read_text(encoding='utf-8') for p in folder.rglob(pattern) if p.is_file() and '__pycache__' not in p.parts}


# Exports

def test_every_module_is_what_its_notebook_exports(tmp_path):
    here = copied(tmp_path)
    for p in (here/'gridstride').rglob('*.py'): p.unlink()
    run(BIN/'nbdev-export', cwd=here)
    made, kept = texts(here/'gridstride', '*.py'), texts(ROOT/'gridstride', '*.py')
    assert set(made) == set(kept), 'a module has no notebook, or was not exported'
    different = [f for f in made if made[f] != kept[f]]
    assert not different, f'{different} differ from their notebooks. Run: nbdev-export'


def test_notebooks_are_clean(tmp_path):
    here = copied(tmp_path)
    before = texts(here/'nbs', '*.ipynb')
    run(BIN/'nbdev-clean', cwd=here)
    after = texts(here/'nbs', '*.ipynb')
    different = [f for f in before if before[f] != after[f]]
    assert not different, f'{different} hold what changes from run to run. Run: nbdev-clean'


@pytest.mark.parametrize('path', LIBRARY, ids=name)
def test_library_notebook_runs(path, tmp_path):
    "In a fresh kernel, in a copy of its folder, and nothing in that folder changes"
    here = copied(tmp_path)
    before = texts(here, '*')
    asyncio.run(lessons.execute(here/path.relative_to(ROOT)))
    assert texts(here, '*') == before


# Links and pictures

def prose(path):
    "The Markdown of a page or of a notebook"
    if path.suffix != '.ipynb': return path.read_text(encoding='utf-8')
    return '\n'.join(''.join(c['source']) for c in lessons.read(path)['cells'] if c['cell_type'] == 'markdown')


def links(text):
    "What a Markdown text links to or shows within the repository; code in it does not count"
    text = re.sub(r'```.*?```|`[^`\n]*`', '', text, flags=re.S)
    found = re.findall(r'\]\(\s*<?([^)\s>]+)', text) + re.findall(r'(?:src|href|srcset)\s*=\s*["\']([^"\']+)', text)
    return [unquote(l.split('#')[0]) for l in found if not re.match(r'[a-z]+:|#|//', l)]


PAGES = [*sorted(ROOT.glob('*.md')), *NOTEBOOKS]


def test_links_are_found():
    text = '[a](b.md#c) ![d](images/e%20f.svg "title") <img src="g.png"> [h](https://i.org) [j](#k) `[l](m)` [n](attachment:o)'
    assert links(text) == ['b.md', 'images/e f.svg', 'g.png']


@pytest.mark.parametrize('path', PAGES, ids=name)
def test_links_and_pictures_exist(path):
    gone = [l for l in links(prose(path)) if not (path.parent/l).exists()]
    assert not gone, f'{name(path)} links to {gone}'


def test_every_picture_is_used():
    shown = {(p.parent/l).resolve() for p in PAGES for l in links(prose(p))}
    unused = [name(p) for p in (ROOT/'images').rglob('*') if p.is_file() and p.resolve() not in shown]
    assert not unused, f'nothing shows {unused}'


# The wheel

@pytest.fixture(scope='session')
def wheel(tmp_path_factory):
    "The wheel, built from a copy"
    here = copied(tmp_path_factory.mktemp('wheel'))
    run(sys.executable, '-m', 'build', '--wheel', '--no-isolation', cwd=here)
    return next((here/'dist').glob('*.whl'))


def test_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {n.split('/')[0].split('-')[0] for n in names} == {'gridstride'}, 'no top-level utils, no tests, no notebooks'
    assert {f'gridstride/{f}' for f in texts(ROOT/'gridstride', '*.py')} <= set(names)
    cpp = subprocess.run(['git', 'ls-files', 'gridstride/cpp/include', 'gridstride/cpp/runtime'], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert len(cpp) > 50 and set(cpp) <= set(names)


def test_metadata_is_that_of_settings(wheel):
    cfg = ConfigParser()
    cfg.read(ROOT/'settings.ini', encoding='utf-8')
    meta, z = cfg['DEFAULT'], zipfile.ZipFile(wheel)
    text = z.read(next(n for n in z.namelist() if n.endswith('/METADATA'))).decode()
    for key, want in {'Name': meta['name'], 'Version': meta['version'], 'Author': meta['author'], 'License-Expression': meta['license'],
                      'Requires-Python': f">={meta['min_python']}", 'Requires-Dist': meta['requirements'], 'Provides-Extra': 'course'}.items():
        assert f'{key}: {want}\n' in text


def test_wheel_imports_where_only_numpy_is(wheel, tmp_path):
    import numpy
    venv.create(tmp_path/'v', symlinks=True)
    site = next((tmp_path/'v').glob('[Ll]ib/**/site-packages'))
    for p in Path(numpy.__file__).parents[1].glob('numpy*'): (site/p.name).symlink_to(p)
    python = next(p for p in (tmp_path/'v/bin/python', tmp_path/'v/Scripts/python.exe') if p.exists())
    run(sys.executable, '-m', 'pip', '--python', python, 'install', '--no-deps', '--no-index', '--quiet', wheel, cwd=tmp_path)
    code = 'import gridstride, gridstride.utils as u; print(gridstride.__file__, gridstride.__version__, u.cdiv(7, 2))'
    where, version, four = run(python, '-I', '-c', code, cwd=tmp_path).split()
    assert Path(where).is_relative_to(site) and four == '4' and wheel.name.startswith(f'gridstride-{version}-')
    code = '''
import numpy as np
from gridstride.cpp import cuda_kernel
x = np.arange(70, dtype=np.float32)
cuda_kernel("__global__ void twice(float *x, int n) { int i = blockIdx.x*32 + threadIdx.x; if (i < n) x[i] *= 2; }")[3, 32](x, 70)
print(int(x.sum()))'''
    assert run(python, '-I', '-c', code, cwd=tmp_path).split() == [str(70*69)]


@pytest.mark.parametrize('module', ['gridstride', 'gridstride.utils', 'gridstride.lessons', 'gridstride.doctor'])
def test_import_is_light(module):
    heavy = {'torch', 'numba', 'triton', 'matplotlib', 'IPython', 'nbclient'} | (set() if module == 'gridstride.utils' else {'numpy'})
    found = json.loads(run(sys.executable, '-c', f'import sys, json, {module}; print(json.dumps(sorted(sys.modules)))', cwd=ROOT))
    assert module in found and not heavy & set(found)


def test_utils_is_there_for_the_lessons():
    "A kernel started in nbs/ finds `from utils import *`, and it is gridstride.utils"
    code = 'import gridstride.utils as g; from utils import *; assert cdiv is g.cdiv and dim3 is g.dim3; print(len(g.__all__))'
    assert int(run(sys.executable, '-c', code, cwd=ROOT/'nbs')) > 5


def test_commands_of_contributing_exist():
    text = (ROOT/'CONTRIBUTING.md').read_text(encoding='utf-8')
    commands = set(re.findall(r'`(nbdev-\w+)', text))
    assert commands and all((Path(sys.executable).parent/c).exists() for c in commands)
    assert len([l for l in text.splitlines() if re.match(r'\d+\. ', l)]) == 10
