"""Builds the lessons that run in the browser: JupyterLite with Pyodide, as static files.

    python site/lite/build.py [FOLDER]     (site/_build/lite)

Needs the extra `site`. Pyodide's files are fetched once (`fetch.py`); nothing happens when nothing has changed.
Exit status 3: Pyodide is not available, 4: the compiler of CUDA C is not, for the reason that is printed.
"""

import hashlib, json, re, shutil, subprocess, sys, tempfile, zipfile
from pathlib import Path

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(HERE), str(HERE.parent)]

import compiler, editor, fetch, lighter, notebooks, race
from gridstride.course import curriculum

PLUGIN = '@jupyterlite/pyodide-kernel-extension'
OVERRIDES = {
    '@jupyterlab/notebook-extension:tracker': {'windowingMode': 'none'},  # cells out of view are rendered, too
    '@jupyterlab/apputils-extension:themes': {'adaptive-theme': True},  # light or dark, like the reader's system
}
UNUSED = ['ssl', 'jedi']  # the kernel requires them, but the lessons do not: empty wheels save 4 MB
RACE = 'Run the cell with Shift+Enter. The finding names both accesses; `sim.cuda.syncthreads()` between them fixes it.'
PYTHON_MEGABYTES = 9  # Pyodide and NumPy, compressed
SETTINGS = json.loads((HERE / 'lite.json').read_text(encoding='utf-8'))
LESSONS = SETTINGS['lessons']


def sources() -> list:  # of paths
    "List the files from which the result is built"
    package = [p for p in (ROOT / 'gridstride').rglob('*.py')]
    return sorted(
        [
            *package,
            *(ROOT / 'nbs' / f'{n}.ipynb' for n in LESSONS),
            ROOT / 'settings.ini',
            HERE.parent / 'race.py',
            *compiler.sources(),
            *(p for p in HERE.rglob('*') if p.is_file() and '__pycache__' not in p.parts),
        ]
    )


def fingerprint():
    "Return a hash of `sources()`"
    digest = hashlib.sha256()
    for p in sources():
        digest.update(str(p.relative_to(ROOT)).encode() + b'\0' + p.read_bytes())
    return digest.hexdigest()


def write_wheel(folder, name, version, files) -> Path:  # files: path in the wheel -> bytes
    "Write a wheel of plain Python, with identical bytes for identical files"
    path, info = folder / f'{name}-{version}-py3-none-any.whl', f'{name}-{version}.dist-info'
    files = {
        **files,
        f'{info}/METADATA': f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n'.encode(),
        f'{info}/WHEEL': b'Wheel-Version: 1.0\nGenerator: gridstride\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    }
    files[f'{info}/RECORD'] = ''.join(f'{f},,\n' for f in [*files, f'{info}/RECORD']).encode()
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as z:
        for f, data in files.items():
            z.writestr(zipfile.ZipInfo(f, (2020, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return path


def package_files(has_compiler):
    "Return the files of a wheel: the package, and the replacements for what a browser lacks"
    python = sorted((ROOT / 'gridstride').rglob('*.py'))
    kernels = sorted((ROOT / 'gridstride').rglob('*.cuh'))  # what lessons include; headers are with the compiler
    templates = sorted((ROOT / 'gridstride/kernels/new_project').iterdir())
    return {
        **{str(p.relative_to(ROOT)): p.read_bytes() for p in [*python, *kernels, *templates]},
        **recordings(),
        'in_browser/served.py': f'HAS_COMPILER = {has_compiler}\n'.encode(),
        **{str(p.relative_to(HERE / 'browser')): p.read_bytes() for p in sorted((HERE / 'browser').rglob('*.py'))},
    }


def recordings() -> dict:  # path in the wheel -> bytes
    "Return the recorded results that the lessons in the browser read"
    folder, texts = ROOT / 'nbs/recorded', [(ROOT / 'nbs' / f'{n}.ipynb').read_text(encoding='utf-8') for n in LESSONS]
    slugs = [curriculum.lesson_of_file(f"{n}.ipynb").chapter for n in LESSONS]
    return {
        f'gridstride/recorded/{p.relative_to(folder)}': p.read_bytes()
        for p in sorted(folder.rglob('*'))
        if p.is_file()
        and ((top := p.relative_to(folder).parts[0]).startswith(tuple(slugs)) or any(top in text for text in texts))
    }


def lock_entry(path, name, imports=(), depends=()) -> dict:
    "Make the entry of a wheel in Pyodide's list of packages"
    return dict(
        name=name,
        version=path.name.split('-')[1],
        file_name=path.name,
        install_dir='site',
        package_type='package',
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        imports=list(imports),
        depends=list(depends),
        unvendored_tests=False,
    )


def write_pyodide(folder, extension, has_compiler):
    "Write Pyodide, all packages and their list to `folder`; return the names of the packages"
    folder.mkdir(parents=True)
    for f in fetch.hashes():
        shutil.copyfile(fetch.cache_folder() / f, folder / f)
    added = {}
    for name, imports, depends in (
        ('piplite', ['piplite'], ['micropip']),
        ('pyodide_kernel', ['pyodide_kernel'], []),
        ('ipykernel', ['ipykernel'], []),
    ):
        (wheel,) = (extension / 'static/pypi').glob(f'{name}-*.whl')
        added[name.replace('_', '-')] = lock_entry(Path(shutil.copy(wheel, folder)), name, imports, depends)
    for name in UNUSED:
        added[name] = lock_entry(write_wheel(folder, name, '0', {}), name)
    own_wheel = write_wheel(folder, 'gridstride', '0', package_files(has_compiler))
    modules = ['gridstride', 'utils', 'torch', 'ml_dtypes', 'in_browser']
    added['gridstride'] = lock_entry(own_wheel, 'gridstride', modules, ['numpy'])
    known = {
        k: dict(v, name=k, install_dir='site', package_type='package', unvendored_tests=False)
        for k, v in fetch.MANIFEST['packages'].items()
    }
    lock = dict(info=fetch.MANIFEST['info'], packages={**known, **added})
    (folder / 'pyodide-lock.json').write_text(json.dumps(lock))
    lighter.lighten(folder)
    return sorted({*lock['packages'], 'pyodide_kernel'} - {'pyodide-kernel'})  # the name by which the kernel imports it


def settings(packages):
    "Return the settings of JupyterLite: its Pyodide and packages, and no other package index"
    kernel = dict(pyodideUrl='./pyodide/start.js', disablePyPIFallback=True, loadPyodideOptions=dict(packages=packages))
    return {
        'jupyter-lite-schema-version': 0,
        'jupyter-config-data': {
            'appName': 'gridstride',
            'litePluginSettings': {f'{PLUGIN}:kernel': kernel},
            'disabledExtensions': ['@jupyterlab/apputils-extension:announcements'],
        },
    }


def extension_folder() -> Path:
    "Return the folder of the kernel's extension that pip installed"
    from jupyter_core.paths import jupyter_path

    found = [Path(p) / PLUGIN for p in jupyter_path('labextensions') if (Path(p) / PLUGIN).is_dir()]
    return (
        found[0] if found else sys.exit('jupyterlite-pyodide-kernel is not installed: it belongs to the extra `site`')
    )


def run_jupyterlite(lite, out):
    "Let JupyterLite write its interface and the notebooks of `lite` to `out`"
    (lite / 'jupyter_lite_config.json').write_text(
        json.dumps(
            {
                'LiteBuildConfig': dict(
                    apps=['notebooks'],
                    contents=[str(lite / 'pages')],
                    output_dir=str(out),
                    federated_extensions=[str(extension_folder())],
                    ignore_sys_prefix=True,
                    no_sourcemaps=True,
                    no_unused_shared_packages=True,
                    no_libarchive=True,
                )
            }
        )
    )
    completed = subprocess.run(
        [sys.executable, '-m', 'jupyterlite_core', 'build'], capture_output=True, text=True, cwd=lite
    )
    if completed.returncode:
        sys.exit(f'{completed.stdout}\n{completed.stderr}')


# A kernel that starts before the service worker of the page has no access to files, and loses the reader's progress.
# JupyterLite (0.6) does not wait for the service worker. So we patch its start, which then waits for up to five
# seconds, because some browsers never have one.
KERNEL_START = re.compile(r'(create:async \w=>\{)(const\{PyodideKernel:.{1,200}?null==(\w)\?void 0:\3\.enabled)')
WAITING_START = (
    r'\1await Promise.race([Promise.all([null==\3?0:\3.ready,navigator.serviceWorker?.ready]),'
    r'new Promise(o=>setTimeout(o,5e3))]).catch(()=>{});\2'
)


def wait_for_files(out):
    "Let each kernel start once its page has a service worker, through which it sees files"
    found = 0
    for p in (out / 'extensions' / PLUGIN / 'static').glob('*.js'):
        text, times = KERNEL_START.subn(WAITING_START, p.read_text(encoding='utf-8'))
        if times:
            p.write_text(text, encoding='utf-8')
        found += times
    if found != 1:
        sys.exit(f'{PLUGIN} starts a kernel {found} times, not once: see KERNEL_START in {__file__}')


def add_icons(out):
    "Add the icons of a busy notebook's tab, which JupyterLite does not include"
    (out / 'static/favicons').mkdir(parents=True, exist_ok=True)
    for name in ('notebook', 'busy-1', 'busy-2', 'busy-3'):
        shutil.copyfile(out / 'notebooks/favicon.ico', out / f'static/favicons/favicon-{name}.ico')


def write_home_redirect(out):
    "Write the page that the interface's logo opens; in other apps it lists files, and here it redirects to the site"
    (out / 'tree').mkdir(exist_ok=True)
    home = '<!doctype html><html lang="en"><meta http-equiv="refresh" content="0; url=../../"><title>gridstride</title>'
    (out / 'tree/index.html').write_text(f'{home}<a href="../../">gridstride</a>\n')


def write_playground(folder, version, has_compiler):
    """Write the page of the playground, next to the compiler and Pyodide; `version` names its cache in the browser.

    Without the compiler it runs kernels in Python only, without CodeMirror its editor is a text field."""
    megabytes = PYTHON_MEGABYTES + (compiler.megabytes(folder.parent / 'cuda') if has_compiler else 0)
    folder.mkdir()
    modules = write_editor(folder / 'codemirror')
    values = {
        'VERSION': version[:12],
        'MEGABYTES': str(megabytes),
        'HAS_COMPILER': str(has_compiler).lower(),
        'EDITOR': 'editor.js' if modules else 'plain.js',
        'MODULES': json.dumps({name: f'./{path}' for name, path in modules.items()}),
    }
    for p in (HERE / 'playground').iterdir():
        text = p.read_text(encoding='utf-8')
        for name, value in values.items():
            text = text.replace(name, value)
        (folder / p.name).write_text(text, encoding='utf-8')


def write_editor(folder) -> dict:  # module -> path of its file
    "Write CodeMirror to `folder`; print the reason if it is not available, and return no modules"
    try:
        return editor.write(folder)
    except fetch.Unavailable as e:
        print(f'The editor of the playground is a text field: {e}', file=sys.stderr)
        return {}


def write_compiler(folder) -> bool:  # whether it is available
    "Write the compiler of CUDA C to `folder`; print the reason if it is not available"
    try:
        compiler.write(folder)
    except fetch.Unavailable as e:
        print(f'CUDA C cannot run in the browser: {e}', file=sys.stderr)
        return False
    return True


def write_pages(folder, compiler_megabytes):
    "Write the notebooks for the browser; without the compiler, only those that make sense without it"
    folder.mkdir()
    names = LESSONS if compiler_megabytes else SETTINGS['without_compiler']
    for p in [*(ROOT / 'nbs' / f'{n}.ipynb' for n in names), HERE / 'scratch.ipynb']:
        nb = notebooks.page(json.loads(p.read_text(encoding='utf-8')), names, p.stem, compiler_megabytes)
        (folder / p.name).write_text(json.dumps(nb, ensure_ascii=False, indent=1), encoding='utf-8')
    (folder / 'race.ipynb').write_text(json.dumps(notebooks.with_one_cell(RACE, race.PROGRAM)), encoding='utf-8')


def build(out: Path) -> bool:  # whether there was anything to do
    "Build the lessons for the browser in `out`; raises `fetch.Unavailable` if Pyodide is not available"
    can_fetch = compiler.can_fetch()
    parts = [f'{part.is_ready() or can_fetch}' for part in (compiler, editor)]
    stamp, current = out / 'made-of.txt', f'{fingerprint()} {" ".join(parts)}'
    if stamp.is_file() and stamp.read_text() == current:
        return False
    fetch.fetch()
    stamp.unlink(missing_ok=True)  # first, so that an interrupted build does not count as done
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as tmp:
        lite, output = Path(tmp) / 'lite', Path(tmp) / 'output'
        lite.mkdir()
        has_compiler = write_compiler(output / 'cuda')
        write_pages(lite / 'pages', compiler.megabytes(output / 'cuda') if has_compiler else None)
        packages = write_pyodide(output / 'pyodide', extension_folder(), has_compiler)
        write_playground(output / 'playground', current, has_compiler)
        (lite / 'jupyter-lite.json').write_text(json.dumps(settings(packages)))
        (lite / 'overrides.json').write_text(json.dumps(OVERRIDES))
        run_jupyterlite(lite, out)
        shutil.copytree(output, out, dirs_exist_ok=True)
    wait_for_files(out)
    add_icons(out)
    write_home_redirect(out)
    stamp.write_text(current)
    return True


def main(argv):
    "Build, and print the result"
    out = Path(argv[0] if argv else ROOT / 'site' / '_build' / 'lite').resolve()
    try:
        new = build(out)
    except fetch.Unavailable as e:
        print(f'No lesson can run in the browser: {e}', file=sys.stderr)
        return 3
    size = sum(p.stat().st_size for p in out.rglob('*') if p.is_file())
    print(f"{out}: {'built' if new else 'unchanged'}, {size / 1e6:.0f} MB")
    return 0 if (out / 'cuda').is_dir() else 4


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
