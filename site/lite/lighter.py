"""Makes Pyodide load faster: removes files that no lesson reads, and adds the bytecode of modules that every start
imports, so that the browser does not compile them each time. Only our own package keeps its sources, too.

Pyodide itself makes the bytecode once, in Node.js, for the user's cache. Without Node.js the sources stay.
"""

import hashlib, json, re, shutil, subprocess, sys, tempfile, zipfile
from pathlib import Path, PurePosixPath

import fetch

START = Path(__file__).parent / 'start'
OWN_PACKAGE = 'gridstride'  # keeps its sources: errors and lessons show them
BYTECODE_NAME = '__pycache__/{}.cpython-312.pyc'  # where Python finds the bytecode of a source that exists
UNUSED_FILES = re.compile(
    r'/tests/|\.(pyi|pxd|h|a)$|^numpy/(f2py|distutils)/|^mpl_toolkits/'
    r'|/mpl-data/(fonts/(afm|pdfcorefonts)|images|plot_directive)/|/sample_data/(?!grace_hopper)'
)
PACKAGES, STDLIB = '/lib/python3.12/site-packages/', '/lib/python312.zip/'  # where Pyodide has its modules


def fingerprint(folder):
    "Return a hash of all that is compiled to bytecode"
    digest = hashlib.sha256()
    for p in sorted([*folder.iterdir(), *START.iterdir()]):
        if not p.name.startswith('pyodide-lock'):
            digest.update(p.name.encode() + b'\0' + p.read_bytes())
    return digest.hexdigest()[:16]


def bytecode(folder) -> dict:  # name of the source, as Pyodide has it -> bytecode
    "Return the bytecode of modules that every start imports; empty, after a message, if it cannot be made"
    archive = fetch.cache_folder() / f'compiled-{fingerprint(folder)}.zip'
    if not archive.is_file() and (reason := compile_imports(folder, archive)):
        print(f'Each start in the browser takes seconds longer, without bytecode: {reason}', file=sys.stderr)
        return {}
    with zipfile.ZipFile(archive) as z:
        return {n: z.read(n) for n in z.namelist()}


def compile_imports(folder, archive) -> str:  # why this failed, or ''
    "Let Pyodide in Node.js write `archive`, atomically"
    if not (node := shutil.which('node')):
        return 'no Node.js is installed'
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as tmp:
        cmd = [node, START / 'compile.js', folder, Path(tmp) / archive.name]
        completed = subprocess.run(cmd, capture_output=True, text=True)
        if completed.returncode:
            return f'Pyodide fails in {node}: {completed.stderr[-1000:]}'
        (Path(tmp) / archive.name).replace(archive)
    return ''


def rewrite(path, target, bytecode_of_source, keeps_sources=False):
    "Rewrite the zip file `path`, which is unpacked to `target`, without unused files and with bytecode"
    with zipfile.ZipFile(path) as z:
        infos = [info for info in z.infolist() if not info.is_dir() and not UNUSED_FILES.search('/' + info.filename)]
        files = {info.filename: z.read(info) for info in infos}
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as z:
        for name, data in files.items():
            code = bytecode_of_source.get(target + name)
            if keeps_sources or not code:
                add(z, name, data)
            if code:
                add(z, cached_name(name) if keeps_sources else f'{name}c', code)


def cached_name(name):
    "Return the name of the bytecode that Python loads instead of compiling the source `name`"
    path = PurePosixPath(name)
    return str(path.parent / BYTECODE_NAME.format(path.stem))


def add(archive, name, data):
    "Add a file with a constant date, so that equal files make equal archives"
    archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)


def lighten(folder):
    "Rewrite the packages in `folder`, and their hashes in Pyodide's list"
    for p in START.iterdir():
        if p.name != 'compile.js':
            shutil.copy(p, folder)
    bytecode_of_source = bytecode(folder)
    lock_file = folder / 'pyodide-lock.json'
    lock = json.loads(lock_file.read_text())
    for p in lock['packages'].values():
        path = folder / p['file_name']
        rewrite(path, PACKAGES, bytecode_of_source, keeps_sources=p['name'] == OWN_PACKAGE)
        p['sha256'] = hashlib.sha256(path.read_bytes()).hexdigest()
    rewrite(folder / 'python_stdlib.zip', STDLIB, bytecode_of_source)
    lock_file.write_text(json.dumps(lock))
