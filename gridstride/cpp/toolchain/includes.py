"""Finds and reads the learner's own headers that a source includes, directly or through other headers."""

import os
from pathlib import Path

from ..frontend.preprocessor import includes
from ..frontend.tokens import directives


def current_folder() -> Path:
    "Return the current folder; if it was removed, `/`, which has no headers"
    try:
        return Path.cwd()
    except OSError:
        return Path('/')


def read_headers(
    src: str,  # CUDA C
    folder,  # of its own headers
    include=(),  # other such folders
) -> tuple:  # (dict: path below one of these folders -> text, dict: any other path -> text)
    "Read the headers that `src` includes, directly or through other headers; skip those that cannot be found"
    roots = [Path(folder), *map(Path, include)]
    own_headers = {}
    other_headers = {}
    visited_paths = set()
    pending_includes = [(name, roots[0]) for name in _included_headers(src)]
    while pending_includes:
        (quoted, name), parent = pending_includes.pop()
        path = _find_file(name, [*([parent] if quoted else []), *roots[1:], *_folders_in_environment()])
        if path is None or path in visited_paths:
            continue
        visited_paths.add(path)
        text = path.read_text(encoding='utf-8-sig', errors='replace')
        relative_paths = (
            [] if '..' in name else [str(path.relative_to(root)) for root in roots if path.is_relative_to(root)]
        )
        # a header may be below several folders, and be included by several relative paths
        own_headers.update({relative: text for relative in relative_paths if relative not in own_headers})
        if not relative_paths:
            other_headers[path] = text
        pending_includes += [(header, path.parent) for header in _included_headers(text)]
    return own_headers, other_headers


def header_names(src, folder, include=()) -> set:  # of strings
    "Return the names of all headers that `src` and the results of `read_headers` include"
    own_headers, other_headers = read_headers(src, folder, include)
    return {
        name for text in (src, *own_headers.values(), *other_headers.values()) for _, name in _included_headers(text)
    }


def _included_headers(src):
    "Return [(whether in quotes, name)] of all headers that `src` may include; [] if `src` cannot be tokenized"
    try:
        return [header for _, header in includes(directives(src))]
    except ValueError:
        return []


def _folders_in_environment():
    "Return the folders of environment variables in which compilers search for headers"
    paths = (os.environ.get(variable, '') for variable in ('CPATH', 'CPLUS_INCLUDE_PATH'))
    return [Path(folder) for p in paths for folder in p.split(os.pathsep) if folder]


def _find_file(name, folders):
    "Return the path of a file in the first of these folders that has it; None if none has it"
    return next((p for p in (Path(folder, name) for folder in folders) if p.is_file()), None)
