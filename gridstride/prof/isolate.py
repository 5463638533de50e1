"""A function of a notebook, taken into a program of its own.

Nsight Compute profiles a process from its start, so a kernel that lives in a notebook has to move. What
moves is source: the statements of the notebook, or of the file, that the function depends on, in their
order, and nothing else. Arguments travel as they are.

What this does not see: a value changed by a method (`x.fill_(1)`), and names that a magic made. Pass a
`setup` where that matters.
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


# The compiler's own symbol table knows which names a statement reads at once (`now`), which its functions
# read when they are called (`later`), and which it makes.
Statement = namedtuple('Statement', 'text makes now later node')

# Scopes of their own that run where they are written; newer Pythons have none.
_AT_ONCE = {'listcomp', 'setcomp', 'dictcomp', 'genexpr'}
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _reads(scope):
    "Return (global names read at once, those read later) by a scope within a statement, and what is in it"
    own = {s.get_name() for s in scope.get_symbols() if s.is_global() and s.is_referenced()}
    parts = [_reads(c) for c in scope.get_children()]
    now, later = set().union(*(n for n, _ in parts)), set().union(*(l for _, l in parts))
    at_once = scope.get_type() == 'class' or scope.get_name() in _AT_ONCE
    return (own | now, later) if at_once else (set(), own | now | later)


def _targets(node):
    "Return the variables of the comprehensions in a statement"
    parts = [part.target for part in ast.walk(node) if isinstance(part, ast.comprehension)]
    return {t.id for node in parts for t in ast.walk(node) if isinstance(t, ast.Name)}


def _free(node, bound=frozenset()):
    "Names in a statement, without the variables of comprehensions"
    if isinstance(node, ast.Name):
        return set() if node.id in bound else {node.id}
    if isinstance(node, _COMPREHENSIONS):
        bound = bound | _targets(node)
    return set().union(*(_free(c, bound) for c in ast.iter_child_nodes(node)))


def _statement(node, text):
    table = symtable.symtable(text, 'statement', 'exec')
    inner = _targets(node) - _free(node)
    makes = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()} - inner
    now = {s.get_name() for s in table.get_symbols() if s.is_referenced()} - inner
    if isinstance(node, ast.AugAssign):
        now |= makes
    parts = [_reads(c) for c in table.get_children()]
    return Statement(text, makes, now.union(*(n for n, _ in parts)), set().union(*(l for _, l in parts)), node)


def statements(*sources) -> list:  # of `Statement`, in order
    "Return the outermost statements of one source after the other; what does not parse is left out"
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
            alone = ast.get_source_segment(source, node)
            res.append(_statement(node, alone if first == node.lineno else decorated))
    return res


# A name read at once needs the last statement before it that made the name. A name that a function reads
# needs the last one before the function may be called. Settings made on the way to what is kept
# (`torch.backends.cuda.matmul.allow_tf32 = False`, `torch.manual_seed(0)`) are kept.
_SETTING = re.compile(r'^(set_|enable_|disable_)|seed$')


def _root(node):
    "Return (first name, last attribute) of `a.b[c].d`"
    last = getattr(node, 'attr', '')
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return getattr(node, 'id', None), last


def _sets(s, made):
    "Return whether the statement only sets something on one of the names in `made`"
    if isinstance(s.node, ast.Expr) and isinstance(s.node.value, ast.Call):
        root, last = _root(s.node.value.func)
        return root in made and bool(_SETTING.search(last))
    if not isinstance(s.node, (ast.Assign, ast.AugAssign)):
        return False
    targets = s.node.targets if isinstance(s.node, ast.Assign) else [s.node.target]
    return all(isinstance(t, (ast.Attribute, ast.Subscript)) and _root(t)[0] in made for t in targets)


def _star(s, name):
    "Return whether `from ... import *` brings the name"
    if not (isinstance(s.node, ast.ImportFrom) and s.node.names[0].name == '*'):
        return False
    module = sys.modules.get('.' * s.node.level + (s.node.module or ''))
    return hasattr(module, name) and (name in module.__all__ if hasattr(module, '__all__') else name[0] != '_')


def _maker(program, name, before):
    return next((i for i in reversed(range(before)) if name in program[i].makes or _star(program[i], name)), None)


def _follow(program, name, before, later, keep, missing):
    """Keep what makes `name` before a position in the program, with settings on it; returns (name, before where,
    only when called?)"""
    end = len(program)
    i = _maker(program, name, before)
    if i is None and later and before < end:
        return [(name, end, True)]
    if i is None:
        return missing.add(name) or []
    keep.add(i)
    made = {n for k in keep for n in program[k].makes}
    settings = [k for k, s in enumerate(program) if k not in keep and _sets(s, made)]
    keep.update(settings)
    now = [(n, k, False) for k in (i, *settings) for n in program[k].now]
    return now + [(n, b, True) for k in (i, *settings) for n in program[k].later for b in {before, end}]


def part(
    program: list,  # of `Statement`
    names,  # that are needed after the last of them
) -> tuple:  # (statements, names that none of them makes)
    "Return the statements that `names` depend on, in order"
    keep = set()
    missing = set()
    todo = [(n, len(program), False) for n in names]
    seen = set()
    while todo:
        need = todo.pop()
        if need[:2] in seen:
            continue
        seen.add(need[:2])
        todo += _follow(program, *need, keep, missing)
    return _last([program[i] for i in sorted(keep)]), {n for n in missing if not hasattr(builtins, n)}


def _last(kept):
    "Return the statements without settings that are made again later"
    return [s for i, s in enumerate(kept) if s.makes or s.text not in [later.text for later in kept[i + 1 :]]]


# In a notebook the program is what the cells have run, in the order in which they ran. In a script it is the
# file. A function of an imported module needs no more than the import.
def _cells():
    "Return the cells that this notebook has run; None outside a notebook"
    shell = sys.modules['IPython'].get_ipython() if 'IPython' in sys.modules else None
    return list(shell.user_ns.get('In', [])) if shell else None


def _unwrap(fn):
    "Return the Python function that a Numba or Triton kernel, or a wrapper, was made from"
    while not inspect.isfunction(fn) and not inspect.isclass(fn):
        inside = [
            inner for inner in (getattr(fn, k, None) for k in ('py_func', 'fn', '__wrapped__')) if inner is not None
        ]
        if not inside:
            break
        fn = inside[0]
    return fn


def _lambda(fn):
    "Return the text of a lambda, found by its line and its code"
    lines, _ = inspect.findsource(fn)
    source = ''.join(lines)
    code = fn.__code__
    nodes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Lambda) and n.lineno == code.co_firstlineno]
    texts = {t for n in nodes if (t := ast.get_source_segment(source, n))}
    alike = [t for t in texts if _alike(compile(t, 'lambda', 'eval'), code)]
    if len(alike) != 1:
        line = f'line {code.co_firstlineno} has {len(nodes)} lambdas that look alike'
        raise ValueError(f'{line}. Give the function a name with def')
    return alike[0]


def _alike(made, code):
    "Return whether the lambda in the compiled text `made` is the one with this code"
    inner = next(c for c in made.co_consts if hasattr(c, 'co_code'))
    return (inner.co_code, inner.co_names, inner.co_varnames) == (code.co_code, code.co_names, code.co_varnames)


def _where(fn):
    "Return (program text as a list, module) of a function: the cells, the script, or None for what can be imported"
    if fn.__module__ != '__main__':
        return None, fn.__module__
    if (cells := _cells()) is not None:
        return cells, None
    file = getattr(sys.modules['__main__'], '__file__', None)
    if file is None:
        raise ValueError(
            'the source of what was typed at a prompt is not kept. Put the program in a file, or its text in a string'
        )
    return [Path(file).read_text(encoding='utf-8')], None


_ROUTE = 'Give setup=, a text that makes it: imports, sources, tensors'


def _function(fn):
    "Return the Python function, and the expression that is it; raises `ValueError` if it depends on what is around it"
    plain = _unwrap(fn)
    if not inspect.isfunction(plain):
        raise ValueError(f'{fn!r} is not a function whose source can be found. Wrap the call: lambda: ...')
    name = plain.__name__
    if plain.__closure__:
        free = ', '.join(plain.__code__.co_freevars)
        raise ValueError(f'{name} uses {free} of the function around it. Make them its arguments')
    if name == '<lambda>':
        return plain, _lambda(plain)
    if '.' in plain.__qualname__:
        raise ValueError(f'{plain.__qualname__} is defined inside a function or class. Define it at the top level')
    return plain, name


def _with_setup(setup, own, texts):
    "Return (statements of `setup` and of the function, names that none makes)"
    found, _ = part(statements(*texts), own.now | own.later)
    kept = statements(setup) + [s for s in found if s.makes & own.now and isinstance(s.node, ast.FunctionDef)]
    made = {n for s in kept for n in s.makes}
    return kept, {n for s in (*kept, own) for n in s.now | s.later if n not in made and not hasattr(builtins, n)}


def program(
    fn,  # a function, or a kernel made from one
    setup=None,  # source that makes what `fn` uses; by default that is looked for
) -> tuple:  # (source, the expression in it that is the function)
    "The source of a program in which `fn` can be called; `ValueError` names what cannot be carried there"
    plain, name = _function(fn)
    texts, module = _where(plain)
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
    "Return imports for those of the names that are modules; raises `ValueError` for the rest"
    values = {n: fn.__globals__.get(n) for n in missing}
    lost = sorted(n for n, v in values.items() if not isinstance(v, ModuleType))
    if lost:
        no = f"no plain statement of the notebook or file makes {'them' if lost[1:] else 'it'}"
        raise ValueError(f'{name} uses {", ".join(lost)}, and {no}. {_ROUTE}')
    return statements('\n'.join(f'import {v.__name__} as {n}' for n, v in sorted(values.items())))


# What cannot be carried is named:
class _Pickler(pickle.Pickler):
    def reducer_override(self, thing):
        "Refuse a function or class of this notebook, which another process does not know"
        if getattr(thing, '__module__', None) == '__main__' and (inspect.isfunction(thing) or inspect.isclass(thing)):
            raise pickle.PicklingError(f'{thing.__name__} is known here only')
        return NotImplemented


def _bytes(thing):
    file = io.BytesIO()
    _Pickler(file).dump(thing)
    return file.getvalue()


def search_path() -> str:  # for PYTHONPATH
    """Where this process finds modules. A notebook's own folder is an empty string there, which would mean another
    folder in another process"""
    return os.pathsep.join(map(os.path.abspath, sys.path))


def pack(args, kwargs) -> bytes:
    "Pickle arguments to bytes; raises `ValueError`, which names the one that cannot travel"
    for k, a in [*enumerate(args, 1), *kwargs.items()]:
        try:
            _bytes(a)
        except Exception as e:
            what = f'argument {k}, a {type(a).__name__},'
            why = f'({type(e).__name__}: {e})'
            way = 'Make it inside a function without arguments'
            raise ValueError(f'{what} cannot be carried into another process {why}. {way}') from None
    return _bytes((args, kwargs))
