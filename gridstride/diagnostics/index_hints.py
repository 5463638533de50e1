"""Hints for an index that is out of bounds: a guard that is missing or off by one, rows and columns swapped."""

import re

from .source_lines import COMPARED, code_of, end_of_bracket, guards_of, names_in, parts_of, share_loop, uses

__all__ = ['axes_hint', 'fixed_size_hint', 'index_hint', 'moved_hint', 'moves_of', 'wrong_word_hint']

_GRID = re.compile(r'(block|grid)(Idx|Dim)\.\w\s*\*\s*(block|grid)(Idx|Dim)\.\w')


def index_hint(fields, line, above):
    "Select the hint for an index that is out of bounds, by how the line computes it and which guards are above"
    array, shape, at = fields['array'], fields['shape'], fields['index']
    if fields.get('inner'):
        return 'inside_another', dict(inner_index=at[0] - fields['inner_at'])
    found = {indices for *_, indices in uses(line, array) if indices}
    indices = next(iter(found)) if len(found) == 1 else ()
    parts = parts_of(indices[0]) if len(indices) == 1 else list(indices)
    if len(shape) > 1:
        return axes_hint(array, shape, at, parts if len(parts) == len(shape) else None)
    if at[0] >= shape[0] and (last := _farthest(found)):
        return 'farthest', dict(expr=last, size=shape[0])
    if len(parts) != 1:
        return None
    expr, size = parts[0], shape[0]
    if '[' in expr:
        return 'from_memory', dict(expr=expr, at=at[0])
    guards = list(guards_of(names_in(expr), [line, *reversed(above)]))
    guard = guards[0] if guards else None
    flat = _is_flat(_GRID.sub('', expr)) and not _is_strided(expr, line, above)
    if flat and (too_wide := [guard for guard in guards if guard.includes_bound]):
        return _too_many_hint(too_wide[0])
    if guard and guard.includes_bound and not flat and '+' not in expr:
        return 'one_too_many', dict(guard=guard.text, last=size - 1, size=size)
    if flat and (
        not any(guard.name in _rows(expr) for guard in guards) or _has_free_column(expr, guards, [line, *above])
    ):
        return 'guard_flat', dict(expr=expr)
    if guard:
        return 'stride' if flat else 'lets_in', dict(guard=guard.text, expr=expr, at=at[0], size=size)
    return 'guard', dict(expr=expr, size=size)


def _too_many_hint(guard):
    right = guard.corrected if guard.wrote.startswith(guard.name) else guard.bound  # of a `range`
    return 'row_too_many', dict(guard=guard.text, bound=guard.bound, wrote=guard.wrote, right=right)


# One wrong word: `&&` for `||`, or two swapped variables


def wrong_word_hint(fields, line, above):
    "Select the hint for a guard with `&&` instead of `||`, or vice versa, or an index with its two parts swapped"
    found = {indices for *_, indices in uses(line, fields['array']) if indices}
    parts = [part for access in found for index in access for part in parts_of(index)]
    names = set().union(*map(names_in, parts))
    if wrong := _connective_hint([line, *reversed(above)], names):
        return wrong
    if len(found) != 1 or fields.get('inner'):
        return None
    guards = list(guards_of(names, [line, *reversed(above)]))
    if len(parts) > 1:
        return _swapped_axes(fields, parts, guards)
    right = _swapped(parts[0], guards, [line, *above])
    if right and any(right.replace(' ', '') in text.replace(' ', '') for text in [line, *above]):
        return None  # the kernel uses both orders: a transpose
    return right and ('swapped', dict(expr=parts[0], right=right))


_CONNECTIVE = re.compile(r'\s*(&&|\|\||\band\b|\bor\b)\s*')
_TERM = re.compile(rf'\(?\s*([A-Za-z_]\w*)\s*(<=?|>=?)\s*({COMPARED})(?:\s*[-+]\s*\w+)?\s*\)?')


def _connective_hint(lines, names):
    "Find the nearest condition whose `&&` or `||` is wrong, if no nearer line guards its variables"
    for n, line in enumerate(lines):
        if found := _wrong_connective(line, names):
            nearer = {guard.name for guard in guards_of(names, lines[:n])}
            variables, fits = found
            return None if names & variables <= nearer else ('wrong_joint', fits)
    return None


def _wrong_connective(line, names):
    """Return the hint for a guard that returns only if all indices are past the end, or that lets a thread in if one
    index is in bounds"""
    m = re.search(r'\bif\b\s*(.*)', line)
    condition, after = _condition(m[1]) if m else ('', '')
    terms = _CONNECTIVE.split(condition)
    compared = [_TERM.fullmatch(term.strip()) for term in terms[::2]]
    connectives = set(terms[1::2])
    if len(compared) < 2 or not all(compared) or len(connectives) > 1 or not after.strip():
        return None
    variables = {term[1] for term in compared}
    signs = {parsed[2][0] for parsed in compared}
    if not names & variables or len(variables) + len(signs) < 3:
        return None
    is_exit = bool(re.match(r'\s*:?\s*\{?\s*(return|continue)\b', after))
    if not all(_is_past(term) == is_exit for term in compared):
        return None
    joint = connectives.pop()
    right = ({'&&': '||', 'and': 'or'} if is_exit else {'||': '&&', 'or': 'and'}).get(joint)
    return right and (variables, dict(guard=condition, joint=joint, right=right))


def _is_past(term):
    "Return whether a comparison means an index past an end: `i >= n`, `i < 0`"
    return (term[2][0] == '>') != (term[3] == '0')


def _condition(text):
    "Split the text after `if` into the condition and what follows it"
    if text.startswith('('):
        end = end_of_bracket(text, 0)
        if not re.match(r'\s*(and|or)\b', text[end:]):
            return text[1 : end - 1].strip(), text[end:]
    condition, colon, after = text.partition(':')
    return condition.strip(), colon + after


_ROW_MAJOR = re.compile(r'(?P<row>\w+)\s*\*\s*(?P<width>\w+)\s*\+\s*(?P<column>\w+)')
_COLUMN_FIRST = re.compile(r'(?P<column>\w+)\s*\+\s*(?P<row>\w+)\s*\*\s*(?P<width>\w+)')


def _swapped(expr, guards, lines):
    "Return `y*w + x` for `x*w + y` if guards show that `x` is a column (`x < w`) and `y` a row; else None"
    if not (m := _ROW_MAJOR.fullmatch(expr) or _COLUMN_FIRST.fullmatch(expr)):
        return None
    row, width, column = m['row'], m['width'], m['column']
    bounds = {guard.name: guard.bound for guard in reversed(guards) if guard.sign == '<'}
    if bounds.get(row) != width or bounds.get(column) in (None, width):
        return None
    return f'{column}*{width} + {row}' if (_axis(row, lines), _axis(column, lines)) == ('x', 'y') else None


def _axis(name, lines):
    "Return the axis, 'x' or 'y', of the thread or block index that a variable comes from; None if neither or both"
    for line in lines:
        if m := re.search(r'(\w+)\s*,\s*(\w+)\s*=\s*cuda\.grid\(2\)', line):
            if name in m.groups():
                return 'xy'[m.groups().index(name)]
        if m := re.search(rf'\b{name}\s*=(?!=)([^,;]*)', line):
            axes = set(re.findall(r'(?:thread|block)Idx\.([xy])', m[1]))
            return axes.pop() if len(axes) == 1 else None
    return None


def _swapped_axes(fields, parts, guards):
    "Select the hint for `x, y` instead of `y, x`, if both have guards and the swapped index is in bounds"
    shape, at = fields['shape'], fields['index']
    if not len(parts) == len(shape) == len(at) == 2 or not all(0 <= i < n for i, n in zip(at, shape[::-1])):
        return None
    if parts[0] == parts[1] or not set(parts) <= {guard.name for guard in guards}:
        return None
    axis = int(0 <= at[0] < shape[0])
    there = dict(axis=axis, last=shape[axis] - 1, index_there=at[axis], transposed=tuple(shape[::-1]))
    return 'swapped_axes', dict(there, expr=', '.join(parts), right=', '.join(reversed(parts)))


# Pointers that were moved, arrays with a size in the source, several axes


def moves_of(array, location):
    "Find where a line above, the surrounding loop or a call moves the pointer `array`: [(text, sign, distance)]"
    name = rf'(?<![\w.>*]){re.escape(array)}\s*'
    move = re.compile(rf'({name}(?:(?:=\s*{name})?([-+])=?)\s*([^;,]+))[;,]')
    code = '\n'.join(code_of(text) for text in location.above.split('\n'))
    found = [moved for moved in move.findall(code) if '=' in moved[0]]
    for n, line in enumerate(map(code_of, location.onward.split('\n'))):
        if (m := move.search(line)) and '=' in m[1] and share_loop(location, location.line + n):
            found.append(m.groups())
    text = location.called[1] if location.called else ''
    if m := re.search(rf'{name}\+\s*([^,;]+)|&\s*{name}\[([^\]]+)\]', text):
        found.append((m[0].strip(), '+', (m[1] or m[2]).strip()))
    return found


def moved_hint(fields, line, above, moves):
    "Select the hint for an index relative to a pointer that was moved, not to the array's first element"
    found = {indices for *_, indices in uses(line, fields['array']) if indices}
    if len(found) != 1 or len(indices := found.pop()) != 1 or len(fields['shape']) != 1:
        return None
    names = set().union(*(names_in(by) for _, _, by in moves))
    guards = list(guards_of(names | names_in(indices[0]), [line, *reversed(above)]))
    if too_wide := next((guard for guard in guards if guard.includes_bound), None):
        return _too_many_hint(too_wide)
    text, sign, by = moves[0]
    if len(moves) > 1 or not by.isdigit():
        return 'moved', dict(move=text, expr=indices[0])
    own = fields['index'][0] - int(sign + by)
    return 'moved_by', dict(move=text, expr=indices[0], own=own, left=fields['shape'][0] - int(sign + by))


def _farthest(found):
    "Return the largest of indices that differ by constants, such as `r` and `r+1`; None for others"
    parts = [re.fullmatch(r'(.*?\w)(?:\s*([-+])\s*(\d+))?', access[0]) for access in found if len(access) == 1]
    if len(found) < 2 or len(parts) < len(found) or not all(parts) or len({part[1] for part in parts}) > 1:
        return None
    return max(parts, key=lambda part: int((part[2] or '') + (part[3] or '0')))[0]


def fixed_size_hint(fields, line, above):
    "Select the hint for an array whose size is in the source: `type` begins at the axis that is out of bounds"
    if not (sizes := re.findall(r'\[(\d+)\]', fields['type'])):
        return None
    size = int(sizes[0])
    found = {indices for *_, indices in uses(line, fields['array']) if indices}
    indices = found.pop() if len(found) == 1 else ()
    names = names_in(indices[-len(sizes)]) if len(sizes) <= len(indices) else set()
    if too_wide := next((guard for guard in guards_of(names, [line, *reversed(above)]) if guard.includes_bound), None):
        return 'one_too_many', dict(guard=too_wide.text, last=size - 1, size=size)
    return 'fixed', dict(last=size - 1)


def axes_hint(array, shape, at, parts):
    "Select the hint for an array of several axes: a guard for each of them"
    axis = next((a for a, (i, n) in enumerate(zip(at, shape)) if not 0 <= i < n), None)
    if axis is None or len(at) != len(shape):
        return None
    parts = parts or ['rc'[a] if len(shape) == 2 else 'ijkl'[a] for a in range(len(shape))]
    if any('[' in part for part in parts):
        return 'from_memory', dict(expr=parts[axis], at=at[axis])
    return 'guard_axes', dict(
        axis=axis,
        index_there=at[axis],
        last=shape[axis] - 1,
        conditions=' and '.join(f'{part} < {array}.shape[{a}]' for a, part in enumerate(parts)),
        both=' && '.join(f'{part} < {n}' for part, n in zip(parts, shape)),
    )


# Rows and columns of a flat index


def _is_flat(expr):
    "Return whether it contains a row times its length, as in `r * w + c`"
    return bool(re.search(r'\)\s*\*\s*[A-Za-z]|[A-Za-z]\w*\s*\*\s*\(', expr)) or any(
        '*' in term and len(names_in(term)) > 1 for term in re.split(r'[-+]', expr)
    )


def _is_strided(expr, line, above):
    "Return whether it is one index times a stride, as in `i*stride + shift`, where the kernel sets only `i`"
    if re.search(r'(thread|block)Idx|\bgrid\(', expr):
        return False
    if any(re.search(rf'\bfor\b[^;:]*\b{name}\s*(=(?!=)|in\b)', line) for name in names_in(expr)):
        return False  # a loop in the line itself iterates over the columns
    is_set = [
        name
        for name in names_in(expr)
        if any(re.search(rf'\b{name}\s*(,\s*\w+\s*)*=(?!=)|\bfor {name}\b', a) for a in above)
    ]
    return len(is_set) == 1


def _rows(expr):
    "Return the variables that are part of a product: `r` and `w` in `r*w + c`"
    return {name for term in re.split(r'[-+]', expr) if '*' in term for name in names_in(term)}


def _has_free_column(expr, guards, lines):
    "Return whether it adds a column to the row, `c` in `r*w + c`, that no guard compares with anything"
    columns = names_in(expr) - _rows(expr)
    known = {guard.name for guard in guards} | {
        name for text in lines for name in re.findall(r'\bfor (\w+) in\b', text)
    }
    return bool(columns) and not columns & known
