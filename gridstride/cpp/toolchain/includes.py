"""Finds and reads the learner's own headers that a source includes, directly or through other headers."""

import hashlib, os, re, subprocess
from pathlib import Path
from typing import NamedTuple

from ..frontend.edits import apply
from ..frontend.preprocessor import includes
from ..frontend.tokens import directives


def current_folder() -> Path:
    "Return the current folder; if it was removed, `/`, which has no headers"
    try:
        return Path.cwd()
    except OSError:
        return Path('/')


class Headers(NamedTuple):
    """The learner's headers that sources include, directly or through other headers.

    `own_texts`: path in the build folder -> text, for headers that are rewritten; `other_texts`: path -> text, for all
    other headers; `redirected_paths`: (path of the including file in the build folder, name in its `#include`) -> path
    in the build folder, for headers that a compiler would not find there under this name (the path of a source is '');
    `texts`: path -> text, for all headers; `libraries`: a dict whose keys are the paths in the build folder of the
    headers of large libraries (see `_find_libraries`)."""

    own_texts: dict
    other_texts: dict
    redirected_paths: dict
    texts: dict
    libraries: dict

    def redirect(self, text: str, file='') -> str:
        "Replace the names in the `#include` lines of `file` whose headers are stored elsewhere in the build"
        names = {name: target for (includer, name), target in self.redirected_paths.items() if includer == file}
        if not names:
            return text
        lines = [(line, header[1]) for line, header in includes(directives(text)) if header[1] in names]
        edits = [(pos := text.index(name, line.start), pos + len(name), names[name]) for line, name in lines]
        return apply(text, edits)


def read_headers(
    src: str,  # CUDA C
    folder,  # of its own headers
    include=(),  # other such folders
    used=None,  # paths of all files that the compiler reads; None: unknown, so also headers in any branch of an `#if`
) -> Headers:
    """Read the headers that `src` includes, directly or through other headers; skip those that cannot be found.

    A header below one of the folders keeps its relative path in the build folder. A header that is reached by `..` has
    its path relative to the common parent folder."""
    roots = [Path(folder), *map(Path, include)]
    headers, paths_of_files = Headers({}, {}, {}, {}, {}), {}
    pending_includes = [('', roots[0], header) for header in _included_headers(src)]
    while pending_includes:
        includer, parent, (quoted, name) = pending_includes.pop()
        path = _find_file(name, [*([parent] if quoted else []), *roots[1:], *folders_in_environment()])
        if path is None or used is not None and path not in used:
            continue
        is_new = path not in paths_of_files
        if is_new:
            paths_of_files[path] = _paths_in_build(path, name, roots, headers.own_texts)
            text = headers.texts[path] = path.read_text(encoding='utf-8-sig', errors='replace')
            headers.own_texts.update({file: text for file in paths_of_files[path] if file not in headers.own_texts})
            if not paths_of_files[path]:
                headers.other_texts[path] = text
        if '..' in name and paths_of_files[path]:
            found = os.path.normpath(os.path.join(os.path.dirname(includer), name))
            if found not in paths_of_files[path]:
                headers.redirected_paths[includer, name] = paths_of_files[path][0]
        if is_new:
            includers = paths_of_files[path] or [str(path)]
            pending_includes += [
                (file, path.parent, header) for header in _included_headers(text) for file in includers
            ]
    headers.libraries.update(_find_libraries(paths_of_files, headers, roots))
    return headers


_MAX_CHECKED_CHARACTERS = 500_000  # characters of headers that are checked like the program


def _find_libraries(paths_of_files, headers, roots):
    """Return the headers, as keys, of large header libraries outside the program's folder, such as CUTLASS.

    Calls in them are not checked for execution spaces: the headers are well tested, and checks take longer than
    compilation"""
    outside = [path for path, files in paths_of_files.items() if files and not path.is_relative_to(roots[0])]
    is_large = sum(len(headers.texts[path]) for path in outside) > _MAX_CHECKED_CHARACTERS
    return {file: True for path in outside if is_large for file in paths_of_files[path]}


def _paths_in_build(path, name, roots, used_paths):
    "Return the paths in the build of the header at `path`, which an `#include` calls `name`; [] for a system's header"
    paths = [path.relative_to(root).as_posix() for root in roots if path.is_relative_to(root)]
    if paths or '..' not in name:
        return paths
    new_path = re.sub(r'^(\.\./)+', '', os.path.relpath(path, roots[0]).replace(os.sep, '/'))
    while new_path in used_paths:
        new_path = f'up/{new_path}'
    return [new_path]


def includes_any(src: str, folder, include=()) -> bool:
    "Return whether `src` directly includes a header that `read_headers` would find"
    folders = [folder, *include, *folders_in_environment()]
    return any(_find_file(name, folders if quoted else folders[1:]) for quoted, name in _included_headers(src))


def files_used_by(
    text: str,  # C++, after its first headers
    folder,  # as for `read_headers`
    include,
    command: list,  # a C++ compiler and its flags
):
    "Return the paths of all files that a compiler reads for `text`; None if it cannot preprocess it"
    flags = ['-M', '-MG', '-w', '-x', 'c++', '-', *(f'-I{root}' for root in include)]
    process = subprocess.run([*command, *flags], cwd=folder, input=text, capture_output=True, text=True)
    if process.returncode:
        return None
    names = re.findall(r'(?:[^\s\\]|\\[^\n])+', process.stdout)
    return {Path(os.path.normpath(Path(folder, name.replace('\\', '')))) for name in names}


_HAS_INCLUDE = re.compile(r'__has_include\s*\(\s*[<"]([^>"]+)[>"]')


def fingerprint_of(
    texts,  # of the sources
    headers: Headers,  # of the sources
    roots,  # folders of headers
) -> dict:  # path -> hash of the file, '' if there is none
    "Return the files that determine the headers of a program: included ones, and those in `__has_include`"
    probed_names = {name for text in (*texts, *headers.texts.values()) for name in _HAS_INCLUDE.findall(text)}
    paths = [*headers.texts, *(Path(root, name) for root in roots for name in sorted(probed_names))]
    return {str(path): _digest(path) for path in paths}


def is_current(
    fingerprint,  # a result of `fingerprint_of`, or None
) -> bool:
    "Return whether all files of a fingerprint are unchanged"
    return fingerprint is not None and all(_digest(path) == digest for path, digest in fingerprint.items())


def _digest(path):
    try:
        return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return ''


def header_names(src, folder, include=()) -> set:  # of strings
    "Return the names of all headers that `src` and the results of `read_headers` include"
    headers = read_headers(src, folder, include)
    return {
        name
        for text in (src, *headers.own_texts.values(), *headers.other_texts.values())
        for _, name in _included_headers(text)
    }


def _included_headers(src):
    "Return [(whether in quotes, name)] of all headers that `src` may include; [] if `src` cannot be tokenized"
    try:
        return [header for _, header in includes(directives(src))]
    except ValueError:
        return []


def folders_in_environment() -> list:  # of paths
    "Return the folders in the environment variables with which compilers search for headers"
    paths = (os.environ.get(variable, '') for variable in ('CPATH', 'CPLUS_INCLUDE_PATH'))
    return [Path(folder) for p in paths for folder in p.split(os.pathsep) if folder]


def _find_file(name, folders):
    "Return the path, without `..`, of a file in the first of these folders that has it; None if none has it"
    path = next((p for p in (Path(folder, name) for folder in folders) if p.is_file()), None)
    return path and Path(os.path.normpath(path))
