"""Finds and reads the learner's own headers that a source includes, directly or not."""

import os
from pathlib import Path

from ..frontend.preprocessor import includes
from ..frontend.tokens import directives


def current_folder() -> Path:
    "Return the current folder; `/`, which has no headers, if it was removed"
    try:
        return Path.cwd()
    except OSError:
        return Path('/')


def read_headers(
    src: str,  # CUDA C
    folder,  # of its own headers
    more=(),  # other such folders
) -> tuple:  # (dict: path below one of these folders -> text, dict: any other path -> text)
    "Read the headers that `src` includes, directly or not, as far as they can be found"
    roots = [Path(folder), *map(Path, more)]
    own = {}
    others = {}
    seen = set()
    pending = [(name, roots[0]) for name in _included(src)]
    while pending:
        (quoted, name), parent = pending.pop()
        path = _find(name, [*([parent] if quoted else []), *roots[1:], *_folders_of_environment()])
        if path is None or path in seen:
            continue
        seen.add(path)
        text = path.read_text(encoding='utf-8-sig', errors='replace')
        below = [] if '..' in name else [str(path.relative_to(root)) for root in roots if path.is_relative_to(root)]
        # a header may be below several folders, and be included by several relative paths
        own.update({relative: text for relative in below if relative not in own})
        if not below:
            others[path] = text
        pending += [(header, path.parent) for header in _included(text)]
    return own, others


def names_in(src, folder, more=()) -> set:  # of strings
    "Return the names of all headers that `src` and the results of `read_headers` include"
    own, others = read_headers(src, folder, more)
    return {name for text in (src, *own.values(), *others.values()) for _, name in _included(text)}


def _included(src):
    "Return [(whether it is in quotes, name)] of each header that `src` may include; [] if `src` cannot be tokenized"
    try:
        return [found for _, found in includes(directives(src))]
    except ValueError:
        return []


def _folders_of_environment():
    "Return the folders in environment variables that compilers search for headers"
    paths = (os.environ.get(variable, '') for variable in ('CPATH', 'CPLUS_INCLUDE_PATH'))
    return [Path(folder) for p in paths for folder in p.split(os.pathsep) if folder]


def _find(name, folders):
    return next((p for p in (Path(folder, name) for folder in folders) if p.is_file()), None)
