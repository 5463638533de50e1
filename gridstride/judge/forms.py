"""Parse the file of a submission: its header lines, its form, and the kernels that it defines."""

import ast
import os
import re
import tokenize
from pathlib import Path
from typing import NamedTuple


class FormError(ValueError):
    "The file is not a submission; the message states the reason and the remedy"


class Submission(NamedTuple):
    "A submission that was parsed, but not executed"

    text: str
    name: str  # of the file
    leaderboard: str  # name in the header lines, or None
    gpus: tuple  # names in the header lines
    form: str  # 'custom_kernel' or 'ModelNew'
    kernels: tuple  # names of the kernels that it defines

    @property
    def may_compile(self):
        "Whether it may call a compiler for CUDA C"
        return bool(_COMPILER_CALL.search(self.text))


_MAX_CHARACTERS = 1 << 20  # of a file, because parsing has no time limit
_COMPILER_CALL = re.compile(r'__global__|\b(?:cpp_extension|load_inline|RawKernel|RawModule|gridstride)\b')


def read_header_lines(text: str) -> tuple:  # (leaderboard or None, names of GPUs)
    """Parse the lines `#!POPCORN leaderboard NAME` and `#!POPCORN gpu NAME ...` at the top of a file.

    >>> read_header_lines('#!POPCORN leaderboard add\\n#!POPCORN gpu H100 B200\\n')
    ('add', ('H100', 'B200'))"""
    leaderboard = None
    gpus = ()
    for line in text.splitlines():
        if line.strip() and not line.startswith('#'):
            break
        fields = line.split()
        if fields[:1] == ['#!POPCORN'] and len(fields) > 2:
            leaderboard = fields[2] if fields[1].lower() == 'leaderboard' else leaderboard
            gpus = tuple(fields[2:]) if fields[1].lower() in ('gpu', 'gpus') else gpus
    return leaderboard, gpus


def _imports(tree):
    "Return {name in the file: full name} of imports: {'tl': 'triton.language', 'jit': 'numba.jit'}"
    full_names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            full_names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            full_names |= {alias.asname or alias.name: f'{node.module}.{alias.name}' for alias in node.names}
    return full_names


def _makes_kernel(decorator, imports):
    "Return whether a decorator makes a kernel of Triton or Numba: @triton.jit, @cuda.jit(...), under any imported name"
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    local_name = ast.unparse(function)
    first, *attributes = local_name.split('.')
    full_name = '.'.join([imports.get(first, 'triton.jit' if local_name == 'jit' else first), *attributes])
    return any(re.fullmatch(r'(?:.*\.)?(?:triton|cuda)\.jit', name) for name in (full_name, local_name))


_BOUNDS = r'(?:__launch_bounds__\s*\([^)]{0,200}\)\s*)?'
_CUDA = re.compile(rf'__global__\s+{_BOUNDS}void\s+{_BOUNDS}(\w+)\b(?!\s*##)')
_COMMENT = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)', re.S)  # `\Z`: an unclosed comment is scanned only once


def _strings(tree):
    "Return the strings of a program, except those that are statements, such as docstrings"
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in statements)
    return [node.value for node in constants if isinstance(node.value, str)]


def kernels_of(
    tree,  # an `ast` tree
) -> tuple:  # of names
    "Return the kernels of a program: functions decorated with `jit`, and `__global__` functions in its strings"
    imports = _imports(tree)
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    python_kernels = [f.name for f in functions if any(_makes_kernel(d, imports) for d in f.decorator_list)]
    return tuple(dict.fromkeys([*python_kernels, *cuda_kernels(tree)]))


def cuda_kernels(
    tree,  # an `ast` tree
) -> list:  # of names
    "Return the `__global__` functions in the strings of a program; comments in the strings are ignored"
    return [name for text in _strings(tree) for name in _CUDA.findall(_COMMENT.sub(' ', text))]


# A name may be bound anywhere outside functions and classes: within `if`, `try`, `with` or `for`, by an assignment
# with or without an annotation, in an unpacked tuple, or by an import.
_SCOPES = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda


def _module_level_nodes(tree):
    "Yield all nodes that an import executes: not those in functions, classes, or below `if __name__ == '__main__'`"
    stack = [*ast.iter_child_nodes(tree)][::-1]
    while stack:
        yield (node := stack.pop())
        if not (isinstance(node, _SCOPES) or _is_main_block(node) or _is_bare_annotation(node)):
            stack += [*ast.iter_child_nodes(node)][::-1]


def _is_main_block(node):
    "Return whether a node is `if __name__ == '__main__'`"
    return isinstance(node, ast.If) and not node.orelse and ast.unparse(node.test) == "__name__ == '__main__'"


def _is_bare_annotation(node):
    "Return whether a node is an annotation without a value, which binds no name"
    return isinstance(node, ast.AnnAssign) and node.value is None


def _bound_names(node):
    "Return the names that a node binds"
    if isinstance(node, _SCOPES[:3]):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.split('.')[0] for alias in node.names]
    return [node.id] if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else []


def _global_names(tree):
    "Return the names that functions declare `global`, and the keys of assignments to `globals()[key]`"
    nodes = [*ast.walk(tree)]
    declared_names = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    stores = (node for node in nodes if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store))
    keys = (node.slice for node in stores if ast.unparse(node.value) == 'globals()')
    return declared_names | {key.value for key in keys if isinstance(key, ast.Constant)}


def _form(tree, file_name):
    "Return the form of a program, 'custom_kernel' or 'ModelNew'; raise `FormError` if it has neither"
    module_names = {name for node in _module_level_nodes(tree) for name in _bound_names(node)}
    forms = [name for name in ('custom_kernel', 'ModelNew') if name in module_names | _global_names(tree)]
    if not forms:
        imported = {name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in _bound_names(node)}
        defined = ', '.join(sorted(module_names - imported)) or 'nothing'
        expected = '`def custom_kernel(data): ...` or `class ModelNew(torch.nn.Module)`'
        raise FormError(f'{file_name} defines {defined}; expected {expected}')
    _check_parameters(tree, file_name)
    return forms[0]


def _check_parameters(tree, file_name):
    "Raise `FormError` if no `custom_kernel` accepts one argument; with decorators, any of them may"
    definitions = [node for node in _module_level_nodes(tree) if 'custom_kernel' in _bound_names(node)]
    plain = [node for node in definitions if isinstance(node, ast.FunctionDef) and not node.decorator_list]
    if plain and len(plain) == len(definitions) and not any(map(_accepts_one_argument, plain)):
        function, arguments = plain[0], plain[0].args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        actual = ', '.join(parameter.arg for parameter in parameters) or 'nothing'
        expected = 'one argument: the input, or a tuple of inputs (`a, b = data`)'
        raise FormError(f'{file_name}, line {function.lineno}: custom_kernel takes {actual}; expected {expected}')


def _accepts_one_argument(function):
    "Return whether a function can be called with one argument"
    positional = [*function.args.posonlyargs, *function.args.args]
    num_required_keywords = function.args.kw_defaults.count(None)
    num_required = len(positional) - len(function.args.defaults)
    return num_required <= 1 and not num_required_keywords and bool(positional or function.args.vararg)


def read_submission(
    source,  # a path, source code (a str of more than one line), or a `Submission`
) -> Submission:
    "Parse a submission without executing it; raises `FormError` for a file that is not a submission"
    if isinstance(source, Submission):
        return source
    if not isinstance(source, (str, Path)):
        expected = 'the path of a file, or its source code; `write_submission` writes a file from a function'
        raise TypeError(f'a submission must be {expected}; got {type(source).__name__}')
    if isinstance(source, str) and '\n' in source:
        text = source.removeprefix('\ufeff')
        name = 'submission.py'
    else:
        text = _read_text(Path(source))
        name = Path(source).name
    if len(text) > _MAX_CHARACTERS:
        raise FormError(f'{name} has {len(text):,} characters; expected at most {_MAX_CHARACTERS:,}')
    try:
        tree = ast.parse(text)
        return Submission(text, name, *read_header_lines(text), _form(tree, name), kernels_of(tree))
    except SyntaxError as e:
        raise FormError(f'{name}, line {e.lineno}: {e.msg}: {(e.text or "").strip()}') from None
    except FormError:
        raise
    except (ValueError, RecursionError, MemoryError) as e:
        raise FormError(f'{name}: {e or "too deeply nested"}') from None


def _read_text(path):
    "Read a file; raise `FormError` if it is not a text file"
    if not os.path.isfile(path):
        actual = 'a folder' if os.path.isdir(path) else 'not a file'
        raise FormError(f'{str(path)[:300]} is {actual}; pass the path of a submission, or its source code')
    try:
        with tokenize.open(path) as f:  # handles byte order marks, and lines such as `# coding: latin-1`
            return f.read(_MAX_CHARACTERS + 1)
    except UnicodeDecodeError as e:
        raise FormError(f'{path.name} is not UTF-8 text: {e.reason} at byte {e.start}') from None
    except SyntaxError as e:
        raise FormError(f'{path.name} is not UTF-8 text: {e.msg}') from None
