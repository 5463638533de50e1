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
    cpp_name_of_export = dict(_EXPORT.findall(cpp_src + cuda_src))
    if not cpp_name_of_export:
        hint = 'write m.def("name", &function) in it'
        raise WrongSource(f'{name}: no PYBIND11_MODULE exports functions to Python: {hint}')
    function_of_export = {name: cpp_name.split('::')[-1] for name, cpp_name in cpp_name_of_export.items()}
    functions = list(dict.fromkeys(function_of_export.values()))
    module = load_cuda(cuda_src, cpp_src or None, functions, verbose=verbose, name=name)
    for name_in_python, function in function_of_export.items():
        setattr(module, name_in_python, getattr(module, function))
    return module


def _join(files, folders):
    "Join source files to one text in which each of their own headers is expanded once"
    expanded_files = set()
    return '\n'.join(_expand(Path(path).resolve(), folders, expanded_files) for path in files)


def _expand(file, folders, expanded_files):
    "Return the text of a file in which its own headers are expanded, except those in `expanded_files`"

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
        if path.resolve() in expanded_files:
            return ''
        expanded_files.add(path.resolve())
        return _expand(path.resolve(), folders, expanded_files)

    text = re.sub(r'^[ \t]*#[ \t]*pragma[ \t]+once\b', '', file.read_text(), flags=re.M)
    return _INCLUDE.sub(expand_include, text)
