"""A submission's file: what its head says, whose form it has, which kernels it defines."""

import ast
import os
import re
from pathlib import Path
from typing import NamedTuple


class FormError(ValueError):
    "A file that is no submission: what is missing, and how to mend it"


class Submission(NamedTuple):
    "A submission, read but not run"

    text: str
    name: str  # of the file
    leaderboard: str  # what its head names; None if it does not
    gpus: tuple  # likewise
    form: str  # 'custom_kernel' or 'ModelNew'
    kernels: tuple  # names of the kernels that it defines


def read_head(text: str) -> tuple:  # (leaderboard or None, names of GPUs)
    "What the lines `#!POPCORN leaderboard NAME` and `#!POPCORN gpu NAME ...` of the first comment say"
    leaderboard, gpus = None, ()
    for line in text.splitlines():
        if line.strip() and not line.startswith('#'):
            break
        words = line.split()
        if words[:1] == ['#!POPCORN'] and len(words) > 2:
            leaderboard = words[2] if words[1].lower() == 'leaderboard' else leaderboard
            gpus = tuple(words[2:]) if words[1].lower() in ('gpu', 'gpus') else gpus
    return leaderboard, gpus


def _is_kernel(decorator):
    "Does it make a kernel of Triton or Numba: @triton.jit, @cuda.jit(...)?"
    f = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(f, ast.Attribute):
        of = f.value.attr if isinstance(f.value, ast.Attribute) else getattr(f.value, 'id', '')
        return f.attr == 'jit' and of in ('triton', 'cuda')
    return isinstance(f, ast.Name) and f.id == 'jit'


_CUDA = re.compile(
    r'__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)'
)


def kernels_of(
    tree,  # of `ast`
) -> tuple:  # of names
    "The kernels that a program defines: functions under `jit`, and `__global__` functions in its texts"
    res = []
    for n in ast.walk(tree):
        if isinstance(n, ast.FunctionDef) and any(map(_is_kernel, n.decorator_list)):
            res.append(n.name)
        elif isinstance(n, ast.Constant) and isinstance(n.value, str):
            res += _CUDA.findall(n.value)
    return tuple(dict.fromkeys(res))


def _form(tree, name):
    "Which of the two forms a program has"
    there = {n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    there |= {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    there |= {a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
    found = [o for o in ('custom_kernel', 'ModelNew') if o in there]
    if not found:
        said = f'it defines {", ".join(sorted(there))}' if there else 'it defines nothing'
        ask = 'a submission has `def custom_kernel(data): ...`, or `class ModelNew(torch.nn.Module)`'
        raise FormError(f'{name}: {said}; {ask}')
    _look_at_parameters(tree, name)
    return found[0]


def _look_at_parameters(tree, name):
    "`FormError` if `custom_kernel` cannot be called with one argument"
    for f in (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == 'custom_kernel'):
        takes, needs = [*f.args.posonlyargs, *f.args.args], f.args.kw_defaults.count(None)
        if len(takes) - len(f.args.defaults) > 1 or needs or not (takes or f.args.vararg):
            has = ', '.join(o.arg for o in [*takes, *f.args.kwonlyargs]) or 'nothing'
            asked = 'it is called with one argument: the input, or a tuple of them (`a, b = data`)'
            raise FormError(f'{name}, line {f.lineno}: custom_kernel takes {has}; {asked}')


def read_submission(
    source,  # a path, or the text itself: a str of more than one line
) -> Submission:
    "Read a submission without running it; `FormError` says what is wrong with the file"
    if isinstance(source, Submission):
        return source
    if not isinstance(source, (str, Path)):
        ask = 'the path of a file, or its text; `write_submission` makes one of a function'
        raise TypeError(f'a submission is {ask}. This is of type {type(source).__name__}')
    if isinstance(source, str) and '\n' in source:
        text, name = source, 'submission.py'
    else:
        text, name = _text_of(Path(source)), Path(source).name
    try:
        tree = ast.parse(text)
    except SyntaxError as e:
        raise FormError(f'{name}, line {e.lineno}: {e.msg}: {(e.text or "").strip()}') from None
    except ValueError as e:
        raise FormError(f'{name}: {e}') from None
    return Submission(text, name, *read_head(text), _form(tree, name), kernels_of(tree))


def _text_of(path):
    if not os.path.isfile(path):
        what = 'a folder' if os.path.isdir(path) else 'no file'
        raise FormError(f'{str(path)[:80]} is {what}; give the path of a submission, or its text (some lines)')
    try:
        return path.read_text(encoding='utf-8')
    except UnicodeDecodeError as e:
        raise FormError(f'{path.name} is no text in UTF-8: {e.reason} at byte {e.start}') from None
