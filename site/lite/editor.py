"""Downloads CodeMirror, the playground's editor, from npm: one file per module.

`codemirror.json` lists the packages, with the SHA-256 of each file. No bundler is needed: an import map names the file
of each module.
"""

import json, shutil
from pathlib import Path

import npm
from fetch import cache_folder

MANIFEST = json.loads((Path(__file__).parent / 'codemirror.json').read_text(encoding='utf-8'))


def folders() -> dict:  # folder -> package
    "Return the cache folder of each package"
    folder = cache_folder().parent / 'codemirror'
    return {folder / f'{p["package"].replace("/", "-")}-{p["version"]}': p for p in MANIFEST}


def is_ready() -> bool:
    "Return whether all files are in the cache"
    return not any(npm.missing(folder, package) for folder, package in folders().items())


def write(folder) -> dict:  # name of a module -> path of its file, relative to the parent of `folder`
    "Write all files to `folder`; raises `Unreachable` or `Unavailable`"
    npm.fetch(folders())
    modules = {}
    for source, package in folders().items():
        target = folder / package['package']
        shutil.copytree(source, target)
        script = next(name for name in npm.file_names(package) if name.endswith('.js'))
        modules[package['package']] = (target / script).relative_to(folder.parent).as_posix()
    return modules
