"""Recognizes an update in the source of a kernel: a load of an address, and a store of a value computed from it.

`tl.store(out, tl.maximum(tl.load(out), x))` may be one statement or several, with variables in between. If two programs
or two lanes update one element in this way, one update is lost; the remedy is the atomic operation that does the same.
"""

import ast
from functools import lru_cache

from ..support.function_source import SourceMissing, source_of

__all__ = ['atomic_update_advice']

_OPERATION_OF_CALL = dict(maximum='max', max='max', minimum='min', min='min')
_OPERATION_OF_NODE = {ast.Add: 'add', ast.Sub: 'add', ast.BitAnd: 'and', ast.BitOr: 'or', ast.BitXor: 'xor'}
_MAX_DEPTH = 8  # assignments between the load and the store
_MAX_LENGTH = 60  # characters of an operand in a hint


@lru_cache(maxsize=64)
def atomic_update_advice(
    code,  # the code object of a kernel
    *lines,  # of the accesses of an element, in the file
):
    "Return the advice for a store on one of the lines, (name of a row of `HINTS`, its fields), or None"
    try:
        source = source_of(code)
        statements = [*ast.walk(ast.parse(source.text))]
    except (SourceMissing, SyntaxError):
        return None
    relative_lines = {line - source.first_line + 1 for line in lines}
    for store in filter(_is_call_of('store'), statements):
        if relative_lines & {*range(store.lineno, store.end_lineno + 1)} and (advice := _advice(store, statements)):
            return advice
    return None


def _is_call_of(name):
    return lambda node: isinstance(node, ast.Call) and getattr(node.func, 'attr', None) == name


def _argument(call, position, name):
    "Return an argument of a call by its position or by its name; None if it is missing"
    value_of_keyword = {keyword.arg: keyword.value for keyword in call.keywords}
    return call.args[position] if len(call.args) > position else value_of_keyword.get(name)


def _advice(store, statements):
    "Return the advice for a store, if its value is an operation on a load of the same address"
    pointer, mask = _argument(store, 0, 'pointer'), _argument(store, 2, 'mask')
    value, line = _assigned_value(_argument(store, 1, 'value'), store.lineno, statements)
    operation, operands = _operation_of(value)
    is_difference = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub)
    for loaded_operand, operand in [*zip(operands, operands[::-1])][: 1 if is_difference else 2]:
        load, _ = _assigned_value(loaded_operand, line, statements)
        if _is_call_of('load')(load) and ast.dump(_argument(load, 0, 'pointer')) == ast.dump(pointer):
            arguments = [ast.unparse(pointer), _operand_text(operand, is_difference)]
            arguments += [f'mask={ast.unparse(mask)}'] if mask else []
            return 'program_update', dict(operation=operation, arguments=', '.join(arguments))
    return None


def _assigned_value(node, line, statements):
    "Return (expression, line) of what a name was assigned last before a line; an expression remains as it is"
    for _ in range(_MAX_DEPTH):
        if not isinstance(node, ast.Name):
            break
        earlier_assignments = [o for o in statements if _target(o) == node.id and o.lineno < line]
        if not earlier_assignments:
            break
        last_assignment = max(earlier_assignments, key=lambda o: o.lineno)
        node, line = _value_of_assignment(last_assignment), last_assignment.lineno
    return node, line


def _target(statement):
    "Return the name that a statement assigns; None if it assigns none, or several"
    targets = getattr(statement, 'targets', [getattr(statement, 'target', None)])
    is_assignment = isinstance(statement, (ast.Assign, ast.AugAssign))
    return targets[0].id if is_assignment and len(targets) == 1 and isinstance(targets[0], ast.Name) else None


def _value_of_assignment(statement):
    if isinstance(statement, ast.AugAssign):
        return ast.BinOp(ast.Name(statement.target.id), statement.op, statement.value)
    return statement.value


def _operation_of(node):
    "Return (name of the atomic operation, operands) of an expression; (None, ()) if no atomic operation does the same"
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATION_OF_NODE:
        return _OPERATION_OF_NODE[type(node.op)], (node.left, node.right)
    name = getattr(node.func, 'attr', getattr(node.func, 'id', None)) if isinstance(node, ast.Call) else None
    return (_OPERATION_OF_CALL[name], node.args) if name in _OPERATION_OF_CALL and len(node.args) == 2 else (None, ())


def _operand_text(node, is_subtracted):
    text = ast.unparse(ast.UnaryOp(ast.USub(), node) if is_subtracted else node)
    return text if len(text) <= _MAX_LENGTH else '...'
