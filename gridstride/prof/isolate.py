"""Slice a function out of a notebook into a standalone program.

Nsight Compute profiles a process from its start, so a function of a notebook must run in another process. The program
consists of the statements of the notebook, or of the file, that the function depends on, in their order. Arguments are
pickled.

The slice misses in-place changes by methods (`x.fill_(1)`), and names that a magic defines. Pass a `setup` for these.
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


# A statement with the names that it defines, the names that it reads when it runs (`reads_now`), and those that
# functions in it read when they are called (`reads_later`), according to the compiler's symbol table.
Statement = namedtuple('Statement', 'text defines reads_now reads_later node')

# Comprehensions are scopes that run immediately; newer Pythons inline them.
_IMMEDIATE_SCOPES = {'listcomp', 'setcomp', 'dictcomp', 'genexpr'}
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _names_read(scope):
    "Return (global names read now, global names read later) by a scope within a statement and by its inner scopes"
    names = {symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global() and symbol.is_referenced()}
    child_names = [_names_read(child) for child in scope.get_children()]
    names_now = set().union(*(now for now, _ in child_names))
    names_later = set().union(*(later for _, later in child_names))
    is_immediate = scope.get_type() == 'class' or scope.get_name() in _IMMEDIATE_SCOPES
    return (names | names_now, names_later) if is_immediate else (set(), names | names_now | names_later)


def _comprehension_variables(node):
    "Return the variables of the comprehensions in a statement"
    targets = [inner.target for inner in ast.walk(node) if isinstance(inner, ast.comprehension)]
    return {name_node.id for target in targets for name_node in ast.walk(target) if isinstance(name_node, ast.Name)}


def _free_names(node, bound_names=frozenset()):
    "Return the names in a statement, without the variables of comprehensions"
    if isinstance(node, ast.Name):
        return set() if node.id in bound_names else {node.id}
    if isinstance(node, _COMPREHENSIONS):
        bound_names = bound_names | _comprehension_variables(node)
    return set().union(*(_free_names(child, bound_names) for child in ast.iter_child_nodes(node)))


def _analyze_statement(node, text):
    "Return the `Statement` of a node of the syntax tree"
    table = symtable.symtable(text, 'statement', 'exec')
    comprehension_variables = _comprehension_variables(node) - _free_names(node)
    defines = {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    } - comprehension_variables
    reads_now = {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()
    } - comprehension_variables
    if isinstance(node, ast.AugAssign):
        reads_now |= defines
    child_names = [_names_read(child) for child in table.get_children()]
    reads_now = reads_now.union(*(now for now, _ in child_names))
    reads_later = set().union(*(later for _, later in child_names))
    return Statement(text, defines, reads_now, reads_later, node)


def parse_statements(*sources) -> list:  # of `Statement`, in order
    "Return the top-level statements of all sources; skips sources that do not parse"
    statement_list = []
    for source in sources:
        try:
            tree = ast.parse(source)
        except SyntaxError:
            continue
        lines = source.splitlines(True)
        for node in tree.body:
            first_line = min([node.lineno, *(decorator.lineno for decorator in getattr(node, 'decorator_list', []))])
            text_with_decorators = ''.join(lines[first_line - 1 : node.end_lineno])
            text = ast.get_source_segment(source, node)
            statement_list.append(_analyze_statement(node, text if first_line == node.lineno else text_with_decorators))
    return statement_list


# If a statement reads a name now, it depends on the last statement before it that defines the name. If a function reads
# the name later, it depends on the last definition before the function may be called. Settings on kept names
# (`torch.backends.cuda.matmul.allow_tf32 = False`, `torch.manual_seed(0)`) are kept, too.
_SETTING = re.compile(r'^(set_|enable_|disable_)|seed$')


def _root_and_attribute(node):
    "Return (first name, last attribute) of `a.b[c].d`"
    last_attribute = getattr(node, 'attr', '')
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return getattr(node, 'id', None), last_attribute


def _is_setting_on(statement, names):
    "Return whether the statement only changes a setting of one of `names`"
    if isinstance(statement.node, ast.Expr) and isinstance(statement.node.value, ast.Call):
        root, method = _root_and_attribute(statement.node.value.func)
        return root in names and bool(_SETTING.search(method))
    if not isinstance(statement.node, (ast.Assign, ast.AugAssign)):
        return False
    targets = statement.node.targets if isinstance(statement.node, ast.Assign) else [statement.node.target]
    return all(
        isinstance(target, (ast.Attribute, ast.Subscript)) and _root_and_attribute(target)[0] in names
        for target in targets
    )


def _star_import_provides(statement, name):
    "Return whether a statement is `from ... import *` of a module with this name"
    if not (isinstance(statement.node, ast.ImportFrom) and statement.node.names[0].name == '*'):
        return False
    module = sys.modules.get('.' * statement.node.level + (statement.node.module or ''))
    return hasattr(module, name) and (name in module.__all__ if hasattr(module, '__all__') else name[0] != '_')


def _last_definition(statement_list, name, end):
    "Return the index of the last statement before `end` that defines a name, or None"
    return next(
        (
            i
            for i in reversed(range(end))
            if name in statement_list[i].defines or _star_import_provides(statement_list[i], name)
        ),
        None,
    )


def _dependencies(statement_list, name, use_index, is_read_later, kept_indices, undefined_names):
    """Keep the last definition of `name` before the statement `use_index`, which reads it, and the settings on it.

    Returns [(name, index of the statement that reads it, whether it is read later)] for the names that the kept
    statements read."""
    end = len(statement_list)
    definition = _last_definition(statement_list, name, use_index)
    if definition is None and is_read_later and use_index < end:
        return [(name, end, True)]
    if definition is None:
        return undefined_names.add(name) or []
    kept_indices.add(definition)
    names = {read_name for index in kept_indices for read_name in statement_list[index].defines}
    settings = [
        index
        for index, statement in enumerate(statement_list)
        if index not in kept_indices and _is_setting_on(statement, names)
    ]
    kept_indices.update(settings)
    names_now = [
        (read_name, index, False) for index in (definition, *settings) for read_name in statement_list[index].reads_now
    ]
    return names_now + [
        (read_name, reader, True)
        for index in (definition, *settings)
        for read_name in statement_list[index].reads_later
        for reader in {use_index, end}
    ]


def slice_statements(
    statement_list: list,  # of `Statement`
    names,  # that are read after the last statement
) -> tuple:  # (statements, names that no statement defines)
    "Return the statements that `names` depend on, in order"
    kept_indices = set()
    undefined_names = set()
    worklist = [(name, len(statement_list), False) for name in names]
    visited_reads = set()
    while worklist:
        name, use_index, is_read_later = worklist.pop()
        if (name, use_index) in visited_reads:
            continue
        visited_reads.add((name, use_index))
        worklist += _dependencies(statement_list, name, use_index, is_read_later, kept_indices, undefined_names)
    return _drop_repeated_settings([statement_list[i] for i in sorted(kept_indices)]), {
        name for name in undefined_names if not hasattr(builtins, name)
    }


def _drop_repeated_settings(statement_list):
    "Return the statements without settings that are repeated later"
    return [
        statement
        for i, statement in enumerate(statement_list)
        if statement.defines
        or statement.text not in [later_statement.text for later_statement in statement_list[i + 1 :]]
    ]


# The program of a notebook is its cells in the order in which they ran; the program of a script is its file. A
# function of an imported module needs only the import.
def _executed_cells():
    "Return the sources of the cells that this notebook has run; None outside a notebook"
    shell = sys.modules['IPython'].get_ipython() if 'IPython' in sys.modules else None
    return list(shell.user_ns.get('In', [])) if shell else None


def _unwrap(fn):
    "Return the Python function inside a kernel of Numba or Triton, or inside a wrapper"
    while not inspect.isfunction(fn) and not inspect.isclass(fn):
        inner_functions = [
            inner_function
            for inner_function in (getattr(fn, attribute, None) for attribute in ('py_func', 'fn', '__wrapped__'))
            if inner_function is not None
        ]
        if not inner_functions:
            break
        fn = inner_functions[0]
    return fn


def _sources_and_module(fn):
    "Return (sources of the program, module) of a function; the sources are None if it can be imported"
    if fn.__module__ != '__main__':
        return None, fn.__module__
    if (cells := _executed_cells()) is not None:
        return cells, None
    file = getattr(sys.modules['__main__'], '__file__', None)
    if file is None:
        raise ValueError(
            'Python does not keep the source of code that is typed at a prompt: put the program in a file, or pass its '
            'source as a string'
        )
    return [Path(file).read_text(encoding='utf-8')], None


_USE_SETUP = 'Pass setup=, source that defines it: imports, sources, tensors'


def _resolve_function(fn):
    "Return (the Python function, the expression that names it); raises `ValueError` for a closure or inner function"
    python_function = _unwrap(fn)
    if not inspect.isfunction(python_function):
        raise ValueError(f'{fn!r} is not a function whose source can be found. Wrap the call: lambda: ...')
    name = python_function.__name__
    if python_function.__closure__:
        free_names = ', '.join(python_function.__code__.co_freevars)
        raise ValueError(f'{name} uses {free_names} of the enclosing function. Pass them as arguments')
    if name == '<lambda>':
        return python_function, lambda_text(python_function)
    if '.' in python_function.__qualname__:
        raise ValueError(
            f'{python_function.__qualname__} is defined inside a function or class. Define it at the top level'
        )
    return python_function, name


def _slice_with_setup(setup, call, file_sources):
    "Return (statements of `setup` and of the function's file, names that no statement defines)"
    file_statements, _ = slice_statements(parse_statements(*file_sources), call.reads_now | call.reads_later)
    functions = [
        statement
        for statement in file_statements
        if statement.defines & call.reads_now and isinstance(statement.node, ast.FunctionDef)
    ]
    kept_statements = parse_statements(setup) + functions
    defined_names = {name for statement in kept_statements for name in statement.defines} | set(dir(builtins))
    return kept_statements, {
        name for statement in (*kept_statements, call) for name in statement.reads_now | statement.reads_later
    } - defined_names


def extract_program(
    fn,  # a function, or a kernel compiled from one
    setup=None,  # source that defines the names that `fn` uses; None: find it
) -> tuple:  # (source, the expression that is `fn` in this source)
    "Return the source of a program in which `fn` can be called; raises ValueError for names that it cannot define"
    python_function, name = _resolve_function(fn)
    sources, module = _sources_and_module(python_function)
    if module and name == python_function.__name__:
        return f'from {module} import {name}', name
    if module:
        sources = [Path(inspect.getsourcefile(python_function)).read_text(encoding='utf-8')]
    call = parse_statements(name)[0]
    if setup is None:
        kept_statements, missing_names = slice_statements(parse_statements(*sources), call.reads_now | call.reads_later)
    else:
        kept_statements, missing_names = _slice_with_setup(setup, call, sources)
    if missing_names:
        kept_statements = _import_statements(missing_names, python_function, name) + kept_statements
    return '\n'.join(statement.text for statement in kept_statements), name


def _import_statements(missing_names, fn, name):
    "Return imports of the names that are modules; raises ValueError for other names"
    values = {missing_name: fn.__globals__.get(missing_name) for missing_name in missing_names}
    undefined_names = sorted(
        missing_name for missing_name, value in values.items() if not isinstance(value, ModuleType)
    )
    if undefined_names:
        pronoun = 'them' if undefined_names[1:] else 'it'
        problem = f'no top-level statement of the notebook or file defines {pronoun}'
        raise ValueError(f'{name} uses {", ".join(undefined_names)}, and {problem}. {_USE_SETUP}')
    return parse_statements(
        '\n'.join(f'import {value.__name__} as {missing_name}' for missing_name, value in sorted(values.items()))
    )


# Arguments are pickled for the other process; an error names the argument that cannot be pickled.
class _Pickler(pickle.Pickler):
    def reducer_override(self, value):
        "Raise `PicklingError` for a function or class of this notebook, which another process cannot import"
        if getattr(value, '__module__', None) == '__main__' and (inspect.isfunction(value) or inspect.isclass(value)):
            raise pickle.PicklingError(f'{value.__name__} exists only in this process')
        return NotImplemented


def _pickle(value):
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()


def search_path() -> str:  # for PYTHONPATH
    """Return the search path of this process, with absolute folders.

    An empty string in the path means the current folder, which differs in another process."""
    return os.pathsep.join(map(os.path.abspath, sys.path))


def pickle_arguments(args, kwargs) -> bytes:
    "Pickle arguments; raises ValueError, which names the argument that cannot be pickled"
    for label, value in [*enumerate(args, 1), *kwargs.items()]:
        try:
            _pickle(value)
        except Exception as e:
            argument = f'argument {label}, a {type(value).__name__},'
            reason = f'({type(e).__name__}: {e})'
            hint = 'Create it inside the function, and pass no argument for it'
            raise ValueError(f'{argument} cannot be pickled for another process {reason}. {hint}') from None
    return _pickle((args, kwargs))
