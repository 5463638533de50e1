"""Reads the file of a submission: its head, its form, and the kernels that it defines."""

import ast
import os
import re
import tokenize
from pathlib import Path
from typing import NamedTuple


class FormError(ValueError):
    "The file is not a submission; the message states what is missing, and how to fix it"


class Submission(NamedTuple):
    "A submission, read but not run"

    text: str
    name: str  # of the file
    leaderboard: str  # named in its head, or None
    gpus: tuple  # named in its head
    form: str  # 'custom_kernel' or 'ModelNew'
    kernels: tuple  # names of the kernels that it defines

    @property
    def compiles(self):
        "Whether it may call a compiler for CUDA C"
        return bool(_COMPILES.search(self.text))


_MAX_CHARACTERS = 1 << 20  # characters of a file, which this process parses without a time limit
_COMPILES = re.compile(r'__global__|\b(?:cpp_extension|load_inline|RawKernel|RawModule|gridstride)\b')


def read_head(text: str) -> tuple:  # (leaderboard or None, names of GPUs)
    """Parse the lines `#!POPCORN leaderboard NAME` and `#!POPCORN gpu NAME ...` at the top of a file.

    >>> read_head('#!POPCORN leaderboard add\\n#!POPCORN gpu H100 B200\\n')
    ('add', ('H100', 'B200'))"""
    leaderboard = None
    gpus = ()
    for line in text.splitlines():
        if line.strip() and not line.startswith('#'):
            break
        words = line.split()
        if words[:1] == ['#!POPCORN'] and len(words) > 2:
            leaderboard = words[2] if words[1].lower() == 'leaderboard' else leaderboard
            gpus = tuple(words[2:]) if words[1].lower() in ('gpu', 'gpus') else gpus
    return leaderboard, gpus


def _modules(tree):
    "Return {name: what it was imported as}: {'tl': 'triton.language', 'jit': 'numba.jit'}"
    res = {}
    for n in ast.walk(tree):
        if isinstance(n, ast.Import):
            res |= {a.asname: a.name for a in n.names if a.asname}
        elif isinstance(n, ast.ImportFrom):
            res |= {a.asname or a.name: f'{n.module}.{a.name}' for a in n.names}
    return res


def _is_kernel(decorator, modules):
    "Return whether a decorator makes a kernel of Triton or Numba: @triton.jit, @cuda.jit(...), under any imported name"
    f = decorator.func if isinstance(decorator, ast.Call) else decorator
    said = ast.unparse(f)
    first, *attributes = said.split('.')
    names = '.'.join([modules.get(first, 'triton.jit' if said == 'jit' else first), *attributes]), said
    return any(re.fullmatch(r'(?:.*\.)?(?:triton|cuda)\.jit', name) for name in names)


_BOUNDS = r'(?:__launch_bounds__\s*\([^)]{0,200}\)\s*)?'
_CUDA = re.compile(rf'__global__\s+{_BOUNDS}void\s+{_BOUNDS}(\w+)\b(?!\s*##)')
_COMMENT = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)', re.S)  # a comment that does not end is scanned only once


def _strings(tree):
    "Return the strings of a program, without those that are statements, such as docstrings"
    unused = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    found = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in unused)
    return [n.value for n in found if isinstance(n.value, str)]


def kernels_of(
    tree,  # of `ast`
) -> tuple:  # of names
    "Return the kernels that a program defines: functions under `jit`, and `__global__` functions in its strings"
    modules = _modules(tree)
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))
    res = [f.name for f in functions if any(_is_kernel(decorator, modules) for decorator in f.decorator_list)]
    return tuple(dict.fromkeys([*res, *cuda_kernels(tree)]))


def cuda_kernels(
    tree,  # of `ast`
) -> list:  # of names
    "Return the `__global__` functions in the strings of a program, without comments"
    return [name for text in _strings(tree) for name in _CUDA.findall(_COMMENT.sub(' ', text))]


# A name may be bound anywhere outside functions and classes: within `if`, `try`, `with` or `for`, by an assignment
# with or without an annotation, in an unpacked tuple, or by an import.
_SCOPES = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda


def _in_module(node):
    "Yield all nodes below one, without what functions and classes, or a program that is run by itself, contain"
    waiting = [*ast.iter_child_nodes(node)][::-1]
    while waiting:
        yield (child := waiting.pop())
        if not (isinstance(child, _SCOPES) or _is_main(child) or _is_declared(child)):
            waiting += [*ast.iter_child_nodes(child)][::-1]


def _is_main(node):
    "Return whether it is `if __name__ == '__main__'`. An import of the file does not run what follows"
    return isinstance(node, ast.If) and not node.orelse and ast.unparse(node.test) == "__name__ == '__main__'"


def _is_declared(node):
    "Return whether a node is an annotation without a value, which binds nothing"
    return isinstance(node, ast.AnnAssign) and node.value is None


def _bound(node):
    "Return the names that one node binds"
    if isinstance(node, _SCOPES[:3]):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [a.asname or a.name.split('.')[0] for a in node.names]
    return [node.id] if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else []


def _global_names(tree):
    "Return the names that functions declare `global`, and keys that are set in `globals()`"
    res = {name for n in ast.walk(tree) if isinstance(n, ast.Global) for name in n.names}
    keys = (
        n.slice
        for n in ast.walk(tree)
        if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and ast.unparse(n.value) == 'globals()'
    )
    return res | {k.value for k in keys if isinstance(k, ast.Constant)}


def _form(tree, name):
    "Return the form of a program: 'custom_kernel' or 'ModelNew'"
    there = {name for n in _in_module(tree) for name in _bound(n)}
    found = [name for name in ('custom_kernel', 'ModelNew') if name in there | _global_names(tree)]
    if not found:
        shown = sorted(there - {a for n in ast.walk(tree) if isinstance(n, ast.Import) for a in _bound(n)})
        said = f'it defines {", ".join(shown)}' if shown else 'it defines nothing'
        ask = 'a submission has `def custom_kernel(data): ...`, or `class ModelNew(torch.nn.Module)`'
        raise FormError(f'{name}: {said}; {ask}')
    _check_parameters(tree, name)
    return found[0]


def _check_parameters(tree, name):
    "Raise `FormError` if no `custom_kernel` can be called with one argument; decorators may change what one takes"
    of_name = [n for n in _in_module(tree) if 'custom_kernel' in _bound(n)]
    plain = [n for n in of_name if isinstance(n, ast.FunctionDef) and not n.decorator_list]
    if plain and len(plain) == len(of_name) and not any(map(_takes_one, plain)):
        f = plain[0]
        has = ', '.join(arg.arg for arg in [*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs]) or 'nothing'
        asked = 'it is called with one argument: the input, or a tuple of them (`a, b = data`)'
        raise FormError(f'{name}, line {f.lineno}: custom_kernel takes {has}; {asked}')


def _takes_one(f):
    "Return whether a function can be called with one argument"
    takes = [*f.args.posonlyargs, *f.args.args]
    needs = f.args.kw_defaults.count(None)
    return len(takes) - len(f.args.defaults) <= 1 and not needs and bool(takes or f.args.vararg)


def read_submission(
    source,  # a path, or the text itself: a str of more than one line
) -> Submission:
    "Parse a submission without running it; raises `FormError`, which states what is wrong with the file"
    if isinstance(source, Submission):
        return source
    if not isinstance(source, (str, Path)):
        ask = 'the path of a file, or its text; `write_submission` makes one from a function'
        raise TypeError(f'a submission must be {ask}; got {type(source).__name__}')
    if isinstance(source, str) and '\n' in source:
        text = source.removeprefix('\ufeff')
        name = 'submission.py'
    else:
        text = _text_of(Path(source))
        name = Path(source).name
    if len(text) > _MAX_CHARACTERS:
        raise FormError(f'{name} has {len(text):,} characters; a submission has at most {_MAX_CHARACTERS:,}')
    try:
        tree = ast.parse(text)
        return Submission(text, name, *read_head(text), _form(tree, name), kernels_of(tree))
    except SyntaxError as e:
        raise FormError(f'{name}, line {e.lineno}: {e.msg}: {(e.text or "").strip()}') from None
    except FormError:
        raise
    except (ValueError, RecursionError, MemoryError) as e:
        raise FormError(f'{name}: {e or "it is nested too deeply"}') from None


def _text_of(path):
    if not os.path.isfile(path):
        what = 'a folder' if os.path.isdir(path) else 'not a file'
        raise FormError(f'{str(path)[:80]} is {what}; pass the path of a submission, or its text (some lines)')
    try:
        with tokenize.open(path) as f:  # handles byte order marks, and lines such as `# coding: latin-1`
            return f.read(_MAX_CHARACTERS + 1)
    except UnicodeDecodeError as e:
        raise FormError(f'{path.name} is not text in UTF-8: {e.reason} at byte {e.start}') from None
    except SyntaxError as e:
        raise FormError(f'{path.name} is not text in UTF-8: {e.msg}') from None
