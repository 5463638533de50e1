"""The learner's own headers that a source includes: the compiled module depends on them."""

import os
from pathlib import Path

from ..frontend.preprocessor import includes
from ..frontend.tokens import directives


def current_folder() -> Path:
    "Return the current folder; the root if it was removed, which contains no headers"
    try:
        return Path.cwd()
    except OSError:
        return Path('/')


def read_headers(
    src: str,  # CUDA C
    folder,  # in which its own headers are
    more=(),  # folders in which others of its own are
) -> tuple:  # (dict: path below one of these folders -> text, dict: any other path -> text)
    "Read the headers that `src` includes, and those that these include, as far as they can be found"
    roots = [Path(folder), *map(Path, more)]
    own = {}
    others = {}
    seen = set()
    waiting = [(name, roots[0]) for name in _names(src)]
    while waiting:
        (quoted, name), parent = waiting.pop()
        path = _find(name, [*([parent] if quoted else []), *roots[1:], *_elsewhere()])
        if path is None or path in seen:
            continue
        seen.add(path)
        text = path.read_text(encoding='utf-8-sig', errors='replace')
        below = [] if '..' in name else [str(path.relative_to(root)) for root in roots if path.is_relative_to(root)]
        # one file may include it from another folder
        own.update({relative: text for relative in below if relative not in own})
        if not below:
            others[path] = text
        waiting += [(header, path.parent) for header in _names(text)]
    return own, others


def names_in(src, folder, more=()) -> set:  # of strings
    "Return all names by which `src` and its own headers, as found by `read_headers`, include headers"
    own, others = read_headers(src, folder, more)
    return {name for text in (src, *own.values(), *others.values()) for _, name in _names(text)}


def _names(src):
    "Return (is it in quotes, the name) of each header that `src` may include; none if `src` cannot be read"
    try:
        return [found for _, found in includes(directives(src))]
    except ValueError:
        return []


def _elsewhere():
    "List the folders that compilers also search, because the environment names them"
    paths = (os.environ.get(variable, '') for variable in ('CPATH', 'CPLUS_INCLUDE_PATH'))
    return [Path(folder) for p in paths for folder in p.split(os.pathsep) if folder]


def _find(name, folders):
    return next((p for p in (Path(folder, name) for folder in folders) if p.is_file()), None)
