"""Compiles several files of CUDA C and C++ to one extension, as `torch.utils.cpp_extension.load` does."""

import re
from pathlib import Path

from .load import load_cuda
from .frontend.tokens import WrongSource

__all__ = ['load_files']

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^<>"\n]+)[>"].*$', re.M)
_EXPORT = re.compile(r'\bdef\s*\(\s*"(\w+)"\s*,\s*&?\s*((?:\w+::)*\w+)')


def load_files(
    name,  # of the module
    sources,  # paths: files of CUDA C, and others of C++
    include_paths=None,  # folders of the headers that they include
    verbose=False,  # whether to print the commands
):  # a module with the functions that its PYBIND11_MODULE names
    "Compile the files as one source for the emulator"
    folders = [Path(path) for path in include_paths or ()]
    cpp_src, cuda_src = (
        _join([path for path in sources if (path.suffix == '.cu') == is_cuda], folders) for is_cuda in (0, 1)
    )
    exported = dict(_EXPORT.findall(cpp_src + cuda_src))
    if not exported:
        hint = 'write m.def("name", &function) in it'
        raise WrongSource(f'{name}: no PYBIND11_MODULE exports functions to Python: {hint}')
    names = {k: v.split('::')[-1] for k, v in exported.items()}
    module = load_cuda(cuda_src, cpp_src or None, list(dict.fromkeys(names.values())), verbose=verbose, name=name)
    for k, v in names.items():
        setattr(module, k, getattr(module, v))
    return module


def _join(files, folders):
    "Join source files to one text, with each of their own headers expanded once"
    seen = set()
    return '\n'.join(_expand(Path(path).resolve(), folders, seen) for path in files)


def _expand(file, folders, seen):
    "Return the text of a file in which its own headers are expanded, except those in `seen`"

    def expand_include(match):
        path = next(
            (
                candidate
                for candidate in (file.parent / match[1], *(folder / match[1] for folder in folders))
                if candidate.is_file()
            ),
            None,
        )
        if path is None:
            return match[0]
        if path.resolve() in seen:
            return ''
        seen.add(path.resolve())
        return _expand(path.resolve(), folders, seen)

    text = re.sub(r'^[ \t]*#[ \t]*pragma[ \t]+once\b', '', file.read_text(), flags=re.M)
    return _INCLUDE.sub(expand_include, text)
