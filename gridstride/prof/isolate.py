"""Slice a function out of a notebook into a standalone program.

Nsight Compute profiles a process from its start, so a function of a notebook must run in another process. The program
consists of the statements of the notebook, or of the file, that the function depends on, in their order. Arguments are
pickled.

The slice misses values that a method changes (`x.fill_(1)`), and names that a magic defines. Pass a `setup` where that
matters.
"""

import ast
import builtins
import inspect
import io
import os
import pickle
import re
import symtable
import sys
from collections import namedtuple
from pathlib import Path
from types import ModuleType

from ..support.function_source import lambda_text


# A statement with the names that it defines (`makes`), reads when it runs (`now`), and reads in functions that are
# called later (`later`), according to the compiler's symbol table.
Statement = namedtuple('Statement', 'text makes now later node')

# Comprehensions are scopes that run immediately; newer Pythons inline them.
_IMMEDIATE_SCOPES = {'listcomp', 'setcomp', 'dictcomp', 'genexpr'}
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _reads(scope):
    "Return (global names read now, global names read later) by a scope within a statement and by its inner scopes"
    own = {s.get_name() for s in scope.get_symbols() if s.is_global() and s.is_referenced()}
    parts = [_reads(c) for c in scope.get_children()]
    now, later = set().union(*(n for n, _ in parts)), set().union(*(l for _, l in parts))
    at_once = scope.get_type() == 'class' or scope.get_name() in _IMMEDIATE_SCOPES
    return (own | now, later) if at_once else (set(), own | now | later)


def _targets(node):
    "Return the variables of the comprehensions in a statement"
    parts = [part.target for part in ast.walk(node) if isinstance(part, ast.comprehension)]
    return {t.id for node in parts for t in ast.walk(node) if isinstance(t, ast.Name)}


def _free(node, bound=frozenset()):
    "Return the names in a statement, without the variables of comprehensions"
    if isinstance(node, ast.Name):
        return set() if node.id in bound else {node.id}
    if isinstance(node, _COMPREHENSIONS):
        bound = bound | _targets(node)
    return set().union(*(_free(c, bound) for c in ast.iter_child_nodes(node)))


def _statement(node, text):
    "Return the `Statement` of a node of the syntax tree"
    table = symtable.symtable(text, 'statement', 'exec')
    inner = _targets(node) - _free(node)
    makes = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()} - inner
    now = {s.get_name() for s in table.get_symbols() if s.is_referenced()} - inner
    if isinstance(node, ast.AugAssign):
        now |= makes
    parts = [_reads(c) for c in table.get_children()]
    return Statement(text, makes, now.union(*(n for n, _ in parts)), set().union(*(l for _, l in parts)), node)


def statements(*sources) -> list:  # of `Statement`, in order
    "Return the top-level statements of all sources; a source that does not parse is skipped"
    res = []
    for source in sources:
        try:
            tree = ast.parse(source)
        except SyntaxError:
            continue
        lines = source.splitlines(True)
        for node in tree.body:
            first = min([node.lineno, *(d.lineno for d in getattr(node, 'decorator_list', []))])
            decorated = ''.join(lines[first - 1 : node.end_lineno])
            undecorated = ast.get_source_segment(source, node)
            res.append(_statement(node, undecorated if first == node.lineno else decorated))
    return res


# A name that is read now needs the last statement before it that defines the name. A name that is read later needs the
# last definition before the function may be called. Settings on kept names
# (`torch.backends.cuda.matmul.allow_tf32 = False`, `torch.manual_seed(0)`) are kept, too.
_SETTING = re.compile(r'^(set_|enable_|disable_)|seed$')


def _root(node):
    "Return (first name, last attribute) of `a.b[c].d`"
    last = getattr(node, 'attr', '')
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return getattr(node, 'id', None), last


def _is_setting_on(s, made):
    "Return whether the statement only changes a setting of one of the names in `made`"
    if isinstance(s.node, ast.Expr) and isinstance(s.node.value, ast.Call):
        root, last = _root(s.node.value.func)
        return root in made and bool(_SETTING.search(last))
    if not isinstance(s.node, (ast.Assign, ast.AugAssign)):
        return False
    targets = s.node.targets if isinstance(s.node, ast.Assign) else [s.node.target]
    return all(isinstance(t, (ast.Attribute, ast.Subscript)) and _root(t)[0] in made for t in targets)


def _star_import_provides(s, name):
    "Return whether a statement is `from ... import *` of a module with this name"
    if not (isinstance(s.node, ast.ImportFrom) and s.node.names[0].name == '*'):
        return False
    module = sys.modules.get('.' * s.node.level + (s.node.module or ''))
    return hasattr(module, name) and (name in module.__all__ if hasattr(module, '__all__') else name[0] != '_')


def _last_maker(program, name, before):
    "Return the index of the last statement before `before` that defines a name, or None"
    return next(
        (i for i in reversed(range(before)) if name in program[i].makes or _star_import_provides(program[i], name)),
        None,
    )


def _dependencies(program, name, before, later, kept, missing):
    """Keep the definition of `name` before an index of the program, and settings on it; return what these need, as
    [(name, before which index, is it read later?)]"""
    end = len(program)
    i = _last_maker(program, name, before)
    if i is None and later and before < end:
        return [(name, end, True)]
    if i is None:
        return missing.add(name) or []
    kept.add(i)
    made = {n for k in kept for n in program[k].makes}
    settings = [k for k, s in enumerate(program) if k not in kept and _is_setting_on(s, made)]
    kept.update(settings)
    now = [(n, k, False) for k in (i, *settings) for n in program[k].now]
    return now + [(n, b, True) for k in (i, *settings) for n in program[k].later for b in {before, end}]


def part(
    program: list,  # of `Statement`
    names,  # that are needed after the last statement
) -> tuple:  # (statements, names that no statement defines)
    "Return the statements that `names` depend on, in order"
    kept = set()
    missing = set()
    worklist = [(n, len(program), False) for n in names]
    seen = set()
    while worklist:
        need = worklist.pop()
        if need[:2] in seen:
            continue
        seen.add(need[:2])
        worklist += _dependencies(program, *need, kept, missing)
    return _drop_repeated_settings([program[i] for i in sorted(kept)]), {n for n in missing if not hasattr(builtins, n)}


def _drop_repeated_settings(kept):
    "Return the statements without settings that are repeated later"
    return [s for i, s in enumerate(kept) if s.makes or s.text not in [later.text for later in kept[i + 1 :]]]


# The program of a notebook is its cells in the order in which they ran; that of a script is the file. A function of an
# imported module needs only the import.
def _cells():
    "Return the sources of the cells that this notebook has run; None outside a notebook"
    shell = sys.modules['IPython'].get_ipython() if 'IPython' in sys.modules else None
    return list(shell.user_ns.get('In', [])) if shell else None


def _unwrap(fn):
    "Return the Python function inside a kernel of Numba or Triton, or inside a wrapper"
    while not inspect.isfunction(fn) and not inspect.isclass(fn):
        inside = [
            inner for inner in (getattr(fn, k, None) for k in ('py_func', 'fn', '__wrapped__')) if inner is not None
        ]
        if not inside:
            break
        fn = inside[0]
    return fn


def _program_of(fn):
    "Return (sources of the program, module) of a function; the sources are None if it can be imported"
    if fn.__module__ != '__main__':
        return None, fn.__module__
    if (cells := _cells()) is not None:
        return cells, None
    file = getattr(sys.modules['__main__'], '__file__', None)
    if file is None:
        raise ValueError(
            'Python does not keep the source of code that is typed at a prompt: put the program in a file, or its '
            'text in a string'
        )
    return [Path(file).read_text(encoding='utf-8')], None


_USE_SETUP = 'Pass setup=, source that defines it: imports, sources, tensors'


def _function(fn):
    "Return (the Python function, the expression that names it); raises ValueError for a closure or an inner function"
    plain = _unwrap(fn)
    if not inspect.isfunction(plain):
        raise ValueError(f'{fn!r} is not a function whose source can be found. Wrap the call: lambda: ...')
    name = plain.__name__
    if plain.__closure__:
        free = ', '.join(plain.__code__.co_freevars)
        raise ValueError(f'{name} uses {free} of the enclosing function. Pass them as arguments')
    if name == '<lambda>':
        return plain, lambda_text(plain)
    if '.' in plain.__qualname__:
        raise ValueError(f'{plain.__qualname__} is defined inside a function or class. Define it at the top level')
    return plain, name


def _with_setup(setup, own, texts):
    "Return (statements of `setup` and of the function's file, names that no statement defines)"
    found, _ = part(statements(*texts), own.now | own.later)
    kept = statements(setup) + [s for s in found if s.makes & own.now and isinstance(s.node, ast.FunctionDef)]
    made = {n for s in kept for n in s.makes}
    return kept, {n for s in (*kept, own) for n in s.now | s.later if n not in made and not hasattr(builtins, n)}


def program(
    fn,  # a function, or a kernel made from one
    setup=None,  # source that defines what `fn` uses; None: find it
) -> tuple:  # (source, the expression in it that is the function)
    "Return the source of a program in which `fn` can be called; raises ValueError for names that it cannot define"
    plain, name = _function(fn)
    texts, module = _program_of(plain)
    if module and name == plain.__name__:
        return f'from {module} import {name}', name
    if module:
        texts = [Path(inspect.getsourcefile(plain)).read_text(encoding='utf-8')]
    own = statements(name)[0]
    kept, missing = part(statements(*texts), own.now | own.later) if setup is None else _with_setup(setup, own, texts)
    if missing:
        kept = _imports(missing, plain, name) + kept
    return '\n'.join(s.text for s in kept), name


def _imports(missing, fn, name):
    "Return imports of the names that are modules; raises ValueError for other names"
    values = {n: fn.__globals__.get(n) for n in missing}
    lost = sorted(n for n, v in values.items() if not isinstance(v, ModuleType))
    if lost:
        no = f"no top-level statement of the notebook or file defines {'them' if lost[1:] else 'it'}"
        raise ValueError(f'{name} uses {", ".join(lost)}, and {no}. {_USE_SETUP}')
    return statements('\n'.join(f'import {v.__name__} as {n}' for n, v in sorted(values.items())))


# Arguments travel by pickle; an error names the argument that cannot be pickled.
class _Pickler(pickle.Pickler):
    def reducer_override(self, thing):
        "Refuse a function or class of this notebook, which another process cannot import"
        if getattr(thing, '__module__', None) == '__main__' and (inspect.isfunction(thing) or inspect.isclass(thing)):
            raise pickle.PicklingError(f'{thing.__name__} exists only in this process')
        return NotImplemented


def _bytes(thing):
    file = io.BytesIO()
    _Pickler(file).dump(thing)
    return file.getvalue()


def search_path() -> str:  # for PYTHONPATH
    """Return the absolute search path of this process. It contains an empty string for the folder of the notebook,
    which would mean another folder in another process"""
    return os.pathsep.join(map(os.path.abspath, sys.path))


def pack(args, kwargs) -> bytes:
    "Pickle arguments; raises ValueError, which names the argument that cannot be pickled"
    for k, a in [*enumerate(args, 1), *kwargs.items()]:
        try:
            _bytes(a)
        except Exception as e:
            what = f'argument {k}, a {type(a).__name__},'
            why = f'({type(e).__name__}: {e})'
            way = 'Make it inside a function without arguments'
            raise ValueError(f'{what} cannot be pickled for another process {why}. {way}') from None
    return _bytes((args, kwargs))
