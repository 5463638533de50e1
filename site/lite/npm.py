"""Gets files of npm packages, which npm downloads once, to the user's cache.

A wanted package is a dict with its name, its version, and its files: path in the package -> SHA-256. A file with
another hash is rejected, so npm's downloads need not be trusted.
"""

import json, shutil, subprocess, tarfile, tempfile
from pathlib import Path

from fetch import Unavailable, Unreachable, digest


def file_names(package) -> list:
    "Return the names under which the files of a wanted package are cached"
    return [Path(path).name for path in package['files']]


def missing(folder, package) -> dict:  # path in the package -> SHA-256
    "Return the files of a wanted package that `folder` lacks, or has with another hash"

    def is_cached(path, sha):
        file = folder / Path(path).name
        return file.is_file() and digest(file.read_bytes()) == sha

    return {path: sha for path, sha in package['files'].items() if not is_cached(path, sha)}


def fetch(packages):  # folder -> the wanted package whose files it caches
    "Download, with one command, the packages with missing files; raises `Unreachable` or `Unavailable`"
    if not (incomplete := {folder: p for folder, p in packages.items() if missing(folder, p)}):
        return
    with tempfile.TemporaryDirectory() as tmp:
        archives = download(Path(tmp), [f'{p["package"]}@{p["version"]}' for p in incomplete.values()])
        for (folder, package), archive in zip(incomplete.items(), archives):
            _extract_missing(archive, package, folder)


def download(folder, names) -> list:  # of paths
    "Let npm download packages; returns the paths of their archives"
    if not (npm := shutil.which('npm')):
        raise Unavailable(f'npm, which downloads {names[0]}, is not installed')
    result = subprocess.run([npm, 'pack', '--json', *names], cwd=folder, capture_output=True, text=True)
    if result.returncode:
        error_class = Unreachable if 'ENOTFOUND' in result.stderr or 'EAI_AGAIN' in result.stderr else Unavailable
        raise error_class(f'npm cannot download {", ".join(names)}: {result.stderr.strip()[-300:]}')
    paths = {f'{p["name"]}@{p["version"]}': folder / p['filename'] for p in json.loads(result.stdout)}
    return [paths[name] for name in names]


def _extract_missing(archive, package, folder):
    "Write the missing files of an archive to `folder`, if their hashes are right"
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as tar:
        for path, sha in missing(folder, package).items():
            data = tar.extractfile(f'package/{path}').read()
            if digest(data) != sha:
                raise Unavailable(f'{package["package"]} {package["version"]} has no {path} with the expected SHA-256')
            part = folder / f'{Path(path).name}.part'
            part.write_bytes(data)
            part.replace(folder / Path(path).name)
