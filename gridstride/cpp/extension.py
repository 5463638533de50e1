"""Compiles several files of CUDA C and C++ to one extension, as `torch.utils.cpp_extension.load` does.

An extension exports functions with `PYBIND11_MODULE`, or defines operators with `TORCH_LIBRARY` or
`STABLE_TORCH_LIBRARY`, which are registered as `torch.ops.NAMESPACE.OPERATOR`."""

import re
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from .load import load_cuda
from .frontend.tokens import WrongSource

__all__ = ['load_files', 'find_operators', 'functions_of', 'register']

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^<>"\n]+)[>"].*$', re.M)
_FUNCTION = r'(?:TORCH_BOX\s*\(\s*)?&?\s*((?:\w+::)*\w+)'  # a function in a call of `def` or `impl`
_EXPORT = re.compile(rf'\bdef\s*\(\s*"(\w+)"\s*,\s*{_FUNCTION}')
# TORCH_LIBRARY(namespace, m) {, and with _IMPL also a dispatch key
_LIBRARY = re.compile(r'\b(?:STABLE_)?TORCH_LIBRARY(?:_FRAGMENT|_IMPL)?\s*\(\s*(\w+)\s*,([\w\s,]*)\)\s*\{')
_SCHEMA = re.compile(rf'\bdef\s*\(\s*((?:"[^"]*"\s*)+)(?:,\s*{_FUNCTION})?')
_IMPLEMENTATION = re.compile(rf'\bimpl\s*\(\s*"([\w.]+)"\s*,\s*{_FUNCTION}')
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.S)


class _Operators(NamedTuple):
    "The operators that a source defines in one namespace"

    namespace: str
    schemas: list
    function_of: dict  # name of an operator -> its C++ function


def load_files(
    name,  # of the module
    sources,  # paths: files of CUDA C, and others of C++
    include_paths=None,  # folders of the headers that they include
    verbose=False,  # whether to print the commands
):  # a module with the functions that its PYBIND11_MODULE names
    "Compile the files as one source for the emulator, and register the operators that they define"
    folders = [Path(path) for path in include_paths or ()]
    cpp_src, cuda_src = (
        _join([path for path in sources if (path.suffix == '.cu') == is_cuda], folders) for is_cuda in (0, 1)
    )
    cpp_name_of_export = dict(_EXPORT.findall(_COMMENT.sub('', cpp_src + cuda_src)))
    operators = find_operators(cpp_src + cuda_src, name)
    cpp_names = [*cpp_name_of_export.values(), *functions_of(operators)]
    if not cpp_names:
        hint = 'write m.def("name", &function) in it, or define operators with TORCH_LIBRARY and TORCH_LIBRARY_IMPL'
        raise WrongSource(f'{name}: no PYBIND11_MODULE exports functions to Python: {hint}')
    functions = list(dict.fromkeys(_local_name(f) for f in cpp_names))
    module = load_cuda(cuda_src, cpp_src or None, functions, verbose=verbose, name=name)
    for name_in_python, function in cpp_name_of_export.items():
        setattr(module, name_in_python, getattr(module, _local_name(function)))
    register(operators, module)
    return module


def _local_name(cpp_name):
    "Return the name of a C++ function without its namespaces"
    return cpp_name.split('::')[-1]


def functions_of(operators) -> list:
    "Return the C++ names of the functions that compute operators"
    return [function for namespace_operators in operators for function in namespace_operators.function_of.values()]


def find_operators(text, extension_name) -> list:  # of `_Operators`
    "Find the operators that a source defines"
    text, operators_of_namespace = _COMMENT.sub('', text), {}
    for match in _LIBRARY.finditer(text):
        namespace = extension_name if match[1] == 'TORCH_EXTENSION_NAME' else match[1]
        operators = operators_of_namespace.setdefault(namespace, _Operators(namespace, [], {}))
        body = _block(text, match.end())
        for literals, function in _SCHEMA.findall(body):
            schema = ''.join(re.findall('"([^"]*)"', literals))
            operators.schemas.append(schema)
            if function:
                operators.function_of[schema.partition('(')[0].strip()] = function
        operators.function_of.update(_IMPLEMENTATION.findall(body))
    return [operators for operators in operators_of_namespace.values() if operators.function_of]


def _block(text, start):
    "Return the source from `start`, after an opening brace, to the closing brace"
    depth = 1
    for brace in re.finditer('[{}]', text[start:]):
        depth += 1 if brace[0] == '{' else -1
        if not depth:
            return text[start : start + brace.start()]
    return text[start:]


inside_operator = nullcontext  # the context of an operator's function; `as_gpu` replaces it


def _implementation(function, arguments):
    "Return the Python function that an operator calls; torch omits those of `arguments` that have default values"

    def run(*args, **kwargs):
        defaults = [kwargs.get(a.name, a.default_value) for a in arguments[len(args) :]]
        with inside_operator():
            return function(*args, *defaults)

    return run


_libraries = {}  # (namespace, name of a module) -> the `torch.library.Library` of its operators, which must stay alive


def register(operators, module):
    "Register the operators that `find_operators` found, with the compiled functions of a module"
    for namespace_operators in operators:
        _register(namespace_operators, module)


def _register(operators, module):
    """Register the operators of a namespace. Their dispatch key is CPU, even if the source specifies another one,
    because the tensors of the emulated GPU are on the CPU."""
    import torch

    key = operators.namespace, module.__name__
    if key in _libraries:
        _libraries[key]._destroy()  # the same extension, compiled again
    library = _libraries[key] = torch.library.Library(operators.namespace, 'FRAGMENT')
    arguments_of = {}
    for schema in operators.schemas:
        if '(' not in schema:
            hint = f'write its schema, m.def("{schema}(Tensor x) -> Tensor")'
            raise WrongSource(f'{operators.namespace}::{schema}: an operator without a schema is not emulated: {hint}')
        library.define(schema)
        arguments_of[schema.partition('(')[0].strip()] = torch._C.parse_schema(schema).arguments
    for name, function in operators.function_of.items():
        run = getattr(module, _local_name(function))
        library.impl(name, _implementation(run, arguments_of.get(name, ())), 'CPU')


def _join(files, folders):
    "Concatenate source files; each header of the extension is expanded once, at its first #include"
    expanded_files = set()
    return '\n'.join(_expand(Path(path).resolve(), folders, expanded_files) for path in files)


def _expand(file, folders, expanded_files):
    "Return the source of a file with its own headers expanded, except those in `expanded_files`"

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
