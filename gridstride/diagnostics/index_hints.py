"""Hints for an index that is out of bounds: a guard that is missing or off by one, rows and columns swapped."""

import re

from .source_lines import (
    BOUND,
    strip_comment,
    end_of_bracket,
    guards_of,
    variables_in,
    split_indices,
    share_loop,
    find_uses,
)

__all__ = [
    'axes_hint',
    'fixed_size_hint',
    'index_hint',
    'moved_hint',
    'moves_of',
    'connective_or_order_hint',
    'remainder_hint',
]

_GRID_OFFSET = re.compile(r'(block|grid)(Idx|Dim)\.\w\s*\*\s*(block|grid)(Idx|Dim)\.\w')


def index_hint(fields, line, preceding_lines):
    "Select the hint for an index that is out of bounds, by how the line computes it and which guards precede it"
    array, shape, index = fields['array'], fields['shape'], fields['index']
    if fields.get('inner'):
        return 'inside_another', dict(inner_index=index[0] - fields['inner_at'])
    accesses = {indices for *_, indices in find_uses(line, array) if indices}
    indices = next(iter(accesses)) if len(accesses) == 1 else ()
    expressions = split_indices(indices[0]) if len(indices) == 1 else list(indices)
    if len(shape) > 1:
        return axes_hint(array, shape, index, expressions if len(expressions) == len(shape) else None)
    if index[0] >= shape[0] and (largest_index := _largest_index(accesses)):
        return 'farthest', dict(expr=largest_index, size=shape[0])
    if len(expressions) != 1:
        return None
    expr, size = expressions[0], shape[0]
    if '[' in expr:
        return 'from_memory', dict(expr=expr, at=index[0])
    guards = list(guards_of(variables_in(expr), [line, *reversed(preceding_lines)]))
    guard = guards[0] if guards else None
    is_flat = _is_flat(_GRID_OFFSET.sub('', expr)) and not _is_strided(expr, line, preceding_lines)
    if is_flat and (wide_guards := [guard for guard in guards if guard.includes_bound]):
        return _bound_included_hint(wide_guards[0])
    if guard and guard.includes_bound and not is_flat and '+' not in expr:
        return 'one_too_many', dict(guard=guard.text, last=size - 1, size=size)
    if is_flat and (
        not any(guard.name in _row_variables(expr) for guard in guards)
        or _has_unguarded_column(expr, guards, [line, *preceding_lines])
    ):
        return 'guard_flat', dict(expr=expr)
    if guard:
        return 'stride' if is_flat else 'guard_of_other_size', dict(guard=guard.text, expr=expr, at=index[0], size=size)
    return 'guard', dict(expr=expr, size=size)


def _bound_included_hint(guard):
    "Return the hint for a guard that includes its bound"
    corrected = (
        guard.corrected if guard.comparison.startswith(guard.name) else guard.bound
    )  # for a `range`, only the bound
    return 'row_too_many', dict(guard=guard.text, bound=guard.bound, comparison=guard.comparison, corrected=corrected)


_REMAINDER = re.compile(r'[^%;]+%\s*(?P<divisor>\w+)')


def remainder_hint(fields, line, preceding_lines):
    "Select the hint for an index below 0 that is a remainder, in the brackets or where its variable is assigned"
    accesses = {indices for *_, indices in find_uses(line, fields['array']) if indices}
    indices = next(iter(accesses)) if len(accesses) == 1 else ()
    if len(indices) != 1:
        return None
    assigned_values = (_assigned_value(indices[0], text) for text in [line, *reversed(preceding_lines)])
    value = next(filter(None, assigned_values), indices[0])
    match = _REMAINDER.fullmatch(value)
    return match and ('remainder', dict(expr=value, at=fields['index'][0], divisor=match['divisor']))


def _assigned_value(name, text):
    "Return the expression that a line of C assigns to a variable; None if there is none"
    match = re.search(rf'\b{re.escape(name)}\s*=(?!=)\s*([^;,]+)[;,]', text)
    return match and match[1].strip()


# a wrong `&&` or `||`, or two swapped variables


def connective_or_order_hint(fields, line, preceding_lines):
    "Select the hint for a guard with `&&` instead of `||`, or vice versa, or for a swapped row and column"
    accesses = {indices for *_, indices in find_uses(line, fields['array']) if indices}
    expressions = [expression for indices in accesses for index in indices for expression in split_indices(index)]
    names = set().union(*map(variables_in, expressions))
    if connective_hint := _wrong_connective_hint([line, *reversed(preceding_lines)], names):
        return connective_hint
    if len(accesses) != 1 or fields.get('inner'):
        return None
    guards = list(guards_of(names, [line, *reversed(preceding_lines)]))
    if len(expressions) > 1:
        return _swapped_axes_hint(fields, expressions, guards)
    corrected_index = _swap_row_and_column(expressions[0], guards, [line, *preceding_lines])
    if corrected_index and any(
        corrected_index.replace(' ', '') in text.replace(' ', '') for text in [line, *preceding_lines]
    ):
        return None  # the kernel uses both orders: a transpose
    return corrected_index and ('swapped', dict(expr=expressions[0], corrected=corrected_index))


_CONNECTIVE = re.compile(r'\s*(&&|\|\||\band\b|\bor\b)\s*')
_COMPARISON = re.compile(rf'\(?\s*([A-Za-z_]\w*)\s*(<=?|>=?)\s*({BOUND})(?:\s*[-+]\s*\w+)?\s*\)?')


def _wrong_connective_hint(lines, names):
    "Select the hint for the nearest condition with a wrong `&&` or `||`; None if a nearer line guards its variables"
    for n, line in enumerate(lines):
        if mistake := _find_wrong_connective(line, names):
            guarded_names = {guard.name for guard in guards_of(names, lines[:n])}
            variables, hint_fields = mistake
            return None if names & variables <= guarded_names else ('wrong_connective', hint_fields)
    return None


def _find_wrong_connective(line, names):
    """Find a guard that returns only if all indices are past the end, or that is true if only one is in bounds.

    Returns (the variables that it compares, the fields of the hint), or None."""
    m = re.search(r'\bif\b\s*(.*)', line)
    condition, body = _split_condition(m[1]) if m else ('', '')
    terms = _CONNECTIVE.split(condition)
    comparisons = [_COMPARISON.fullmatch(comparison.strip()) for comparison in terms[::2]]
    connectives = set(terms[1::2])
    if len(comparisons) < 2 or not all(comparisons) or len(connectives) > 1 or not body.strip():
        return None
    variables = {comparison[1] for comparison in comparisons}
    signs = {comparison[2][0] for comparison in comparisons}
    if not names & variables or len(variables) + len(signs) < 3:
        return None
    is_exit = bool(re.match(r'\s*:?\s*\{?\s*(return|continue)\b', body))
    if not all(_is_past_end(comparison) == is_exit for comparison in comparisons):
        return None
    connective = connectives.pop()
    corrected = ({'&&': '||', 'and': 'or'} if is_exit else {'||': '&&', 'or': 'and'}).get(connective)
    return corrected and (variables, dict(guard=condition, connective=connective, corrected=corrected))


def _is_past_end(term):
    "Return whether a comparison means an index past an end: `i >= n`, `i < 0`"
    return (term[2][0] == '>') != (term[3] == '0')


def _split_condition(text):
    "Split the source after `if` into the condition and the body"
    if text.startswith('('):
        end = end_of_bracket(text, 0)
        if not re.match(r'\s*(and|or)\b', text[end:]):
            return text[1 : end - 1].strip(), text[end:]
    condition, colon, body = text.partition(':')
    return condition.strip(), colon + body


_ROW_MAJOR = re.compile(r'(?P<row>\w+)\s*\*\s*(?P<width>\w+)\s*\+\s*(?P<column>\w+)')
_COLUMN_FIRST = re.compile(r'(?P<column>\w+)\s*\+\s*(?P<row>\w+)\s*\*\s*(?P<width>\w+)')


def _swap_row_and_column(expr, guards, lines):
    "Return `y*w + x` for `x*w + y` if guards show that `x` is a column (`x < w`) and `y` a row; else None"
    if not (m := _ROW_MAJOR.fullmatch(expr) or _COLUMN_FIRST.fullmatch(expr)):
        return None
    row, width, column = m['row'], m['width'], m['column']
    bounds = {guard.name: guard.bound for guard in reversed(guards) if guard.operator == '<'}
    if bounds.get(row) != width or bounds.get(column) in (None, width):
        return None
    return f'{column}*{width} + {row}' if (_axis_of(row, lines), _axis_of(column, lines)) == ('x', 'y') else None


def _axis_of(name, lines):
    "Return the axis, 'x' or 'y', of the thread or block index that a variable comes from; None if neither or both"
    for line in lines:
        if m := re.search(r'(\w+)\s*,\s*(\w+)\s*=\s*cuda\.grid\(2\)', line):
            if name in m.groups():
                return 'xy'[m.groups().index(name)]
        if m := re.search(rf'\b{name}\s*=(?!=)([^,;]*)', line):
            axes = set(re.findall(r'(?:thread|block)Idx\.([xy])', m[1]))
            return axes.pop() if len(axes) == 1 else None
    return None


def _swapped_axes_hint(fields, expressions, guards):
    "Select the hint for `x, y` instead of `y, x`, if both have guards and the swapped index is in bounds"
    shape, index = fields['shape'], fields['index']
    if not len(expressions) == len(shape) == len(index) == 2:
        return None
    if not all(0 <= i < n for i, n in zip(index, shape[::-1])):
        return None
    if expressions[0] == expressions[1] or not set(expressions) <= {guard.name for guard in guards}:
        return None
    axis = int(0 <= index[0] < shape[0])
    index_fields = dict(axis=axis, last=shape[axis] - 1, axis_index=index[axis], transposed=tuple(shape[::-1]))
    return 'swapped_axes', dict(index_fields, expr=', '.join(expressions), corrected=', '.join(reversed(expressions)))


# pointers that were moved, arrays with a size in the source, several axes


def moves_of(array, location):
    "Find where an earlier line, the surrounding loop or a call moves the pointer `array`: [(source, sign, distance)]"
    name = rf'(?<![\w.>*]){re.escape(array)}\s*'
    move = re.compile(rf'({name}(?:(?:=\s*{name})?([-+])=?)\s*([^;,]+))[;,]')
    code = '\n'.join(strip_comment(text) for text in location.preceding_lines.split('\n'))
    moves = [m for m in move.findall(code) if '=' in m[0]]
    for lines_down, line in enumerate(map(strip_comment, location.following_lines.split('\n'))):
        if (m := move.search(line)) and '=' in m[1] and share_loop(location, location.line + lines_down):
            moves.append(m.groups())
    text = location.call_site[1] if location.call_site else ''
    if m := re.search(rf'{name}\+\s*([^,;]+)|&\s*{name}\[([^\]]+)\]', text):
        moves.append((m[0].strip(), '+', (m[1] or m[2]).strip()))
    return moves


def moved_hint(fields, line, preceding_lines, moves):
    "Select the hint for an index relative to a pointer that was moved, not to the array's first element"
    accesses = {indices for *_, indices in find_uses(line, fields['array']) if indices}
    if len(accesses) != 1 or len(indices := accesses.pop()) != 1 or len(fields['shape']) != 1:
        return None
    names = set().union(*(variables_in(distance) for _, _, distance in moves))
    guards = list(guards_of(names | variables_in(indices[0]), [line, *reversed(preceding_lines)]))
    if wide_guard := next((guard for guard in guards if guard.includes_bound), None):
        return _bound_included_hint(wide_guard)
    text, sign, distance = moves[0]
    if len(moves) > 1 or not distance.isdigit():
        return 'moved', dict(move=text, expr=indices[0])
    index_from_pointer = fields['index'][0] - int(sign + distance)
    return 'moved_by', dict(
        move=text, expr=indices[0], new_index=index_from_pointer, remaining=fields['shape'][0] - int(sign + distance)
    )


def _largest_index(accesses):
    "Return the largest of indices that differ by constants, such as `r` and `r+1`; None for others"
    matches = [re.fullmatch(r'(.*?\w)(?:\s*([-+])\s*(\d+))?', access[0]) for access in accesses if len(access) == 1]
    if len(accesses) < 2 or len(matches) < len(accesses) or not all(matches):
        return None
    if len({match[1] for match in matches}) > 1:
        return None
    return max(matches, key=lambda match: int((match[2] or '') + (match[3] or '0')))[0]


def fixed_size_hint(fields, line, preceding_lines):
    "Select the hint for an array whose size is in the source: `type` begins at the axis that is out of bounds"
    if not (sizes := re.findall(r'\[(\d+)\]', fields['type'])):
        return None
    size = int(sizes[0])
    accesses = {indices for *_, indices in find_uses(line, fields['array']) if indices}
    indices = accesses.pop() if len(accesses) == 1 else ()
    names = variables_in(indices[-len(sizes)]) if len(sizes) <= len(indices) else set()
    if wide_guard := next(
        (guard for guard in guards_of(names, [line, *reversed(preceding_lines)]) if guard.includes_bound), None
    ):
        return 'one_too_many', dict(guard=wide_guard.text, last=size - 1, size=size)
    return 'fixed', dict(last=size - 1)


def axes_hint(array, shape, index, expressions):
    "Select the hint for an array of several axes: a guard per axis"
    axis = next((a for a, (i, n) in enumerate(zip(index, shape)) if not 0 <= i < n), None)
    if axis is None or len(index) != len(shape):
        return None
    expressions = expressions or ['rc'[a] if len(shape) == 2 else 'ijkl'[a] for a in range(len(shape))]
    if any('[' in expression for expression in expressions):
        return 'from_memory', dict(expr=expressions[axis], at=index[axis])
    return 'guard_axes', dict(
        axis=axis,
        axis_index=index[axis],
        last=shape[axis] - 1,
        conditions=' and '.join(f'{expression} < {array}.shape[{a}]' for a, expression in enumerate(expressions)),
        both=' && '.join(f'{expression} < {n}' for expression, n in zip(expressions, shape)),
    )


# rows and columns of a flat index


def _is_flat(expr):
    "Return whether `expr` contains a row times its length, as in `r * w + c`"
    return bool(re.search(r'\)\s*\*\s*[A-Za-z]|[A-Za-z]\w*\s*\*\s*\(', expr)) or any(
        '*' in term and len(variables_in(term)) > 1 for term in re.split(r'[-+]', expr)
    )


def _is_strided(expr, line, preceding_lines):
    "Return whether `expr` is one index times a stride, as in `i*stride + shift`, where the kernel sets only `i`"
    if re.search(r'(thread|block)Idx|\bgrid\(', expr):
        return False
    if any(re.search(rf'\bfor\b[^;:]*\b{name}\s*(=(?!=)|in\b)', line) for name in variables_in(expr)):
        return False  # a loop in the line itself iterates over the columns
    assigned_variables = [
        name
        for name in variables_in(expr)
        if any(re.search(rf'\b{name}\s*(,\s*\w+\s*)*=(?!=)|\bfor {name}\b', text) for text in preceding_lines)
    ]
    return len(assigned_variables) == 1


def _row_variables(expr):
    "Return the variables that are part of a product: `r` and `w` in `r*w + c`"
    return {name for term in re.split(r'[-+]', expr) if '*' in term for name in variables_in(term)}


def _has_unguarded_column(expr, guards, lines):
    "Return whether `expr` adds a column to the row, `c` in `r*w + c`, that no guard compares"
    columns = variables_in(expr) - _row_variables(expr)
    guarded_variables = {guard.name for guard in guards} | {
        name for text in lines for name in re.findall(r'\bfor (\w+) in\b', text)
    }
    return bool(columns) and not columns & guarded_variables
