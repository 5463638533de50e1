"""The hint of a finding, as far as the learner's own lines tell: which index lacks a guard, which update an atomic.

A finding says which array, which element, which lines. How to fix it depends on how those lines are written: a
missing guard, a guard that lets too much in, a wrong stride and an index from memory are all "outside". `hint_for`
reads the lines and names the row of `messages.HINTS` that fits, with its fields; None leaves the finding's own.
Nothing is guessed: what cannot be read off a line gets no advice of its own.
"""

import re
from typing import NamedTuple

__all__ = ['hint_for', 'product_in', 'uses', 'update_of']

_COMPARED = r'len\([\w.]+\)|[\w.]+(?:\(\)|\[\d+\])?'
_ELSEWHERE = ('no_array', 'fault_no_array', 'fault_address', 'kernel_reads_host', 'kernel_writes_host')
_UNSIGNED = re.compile(r'\b(?:thread|block)Idx\.[xyz]\s*-\s*\w+')
_GRID = re.compile(r'(block|grid)(Idx|Dim)\.\w\s*\*\s*(block|grid)(Idx|Dim)\.\w')


def hint_for(
    kind,  # of the finding, like the next two
    code,
    fields,
    place,  # an `errors.Place`, with the function's lines before it
    other,  # an `errors.Access`, or None
):  # (name of a row of `HINTS`, its fields), or None
    "What fits this finding better than its own row"
    line, above = _code_of(place.source), [_code_of(text) for text in place.above.split('\n')]
    if kind == 'memcheck' and code in ('outside', 'before') and line and (wrong := _wrong_word(fields, line, above)):
        return wrong
    if kind == 'memcheck' and code == 'outside' and line and not fields.get('inner'):
        if moves := _moves(fields['array'], place):
            return _of_moved(fields, line, above, moves)
    if kind == 'memcheck' and code == 'outside' and line:
        return _of_index(fields, line, above)
    if kind == 'memcheck' and code == 'outside_named' and line:
        return _of_fixed(fields, line, above)
    if kind == 'memcheck' and code in _ELSEWHERE and (wraps := _UNSIGNED.search(line)):
        return 'below_0', dict(expr=wraps[0])
    if kind == 'racecheck' and code in ('race', 'race_of_blocks', 'race_of_cluster') and line and other:
        return _of_race(code, fields, line, place, other, above)
    if code == 'race_of_volatiles' and _is_in_step(fields, line, place, other):
        return 'in_step', {}
    if kind == 'memcheck' and code == 'misaligned' and fields['bytes'] == 4:
        return 'misaligned_pair', {}
    if kind == 'synccheck' and code == 'stuck' and fields['why'].code == 'at_grid':
        return 'at_grid', {}
    return None


def _code_of(line):
    "A line without the comment at its end"
    return re.sub(r'\s*(//|#(?!define)).*', '', line or '')


def _closed(text, i):
    "Index behind the bracket that closes the one at `i`, or the text's length"
    depth = 0
    for j in range(i, len(text)):
        depth += (text[j] in '([') - (text[j] in ')]')
        if not depth:
            return j + 1
    return len(text)


def uses(
    line,
    array,  # its name
):  # list of (start, end, indices): where `array[...][...]` stands, and the texts in its brackets
    "The elements of the array that a line speaks of; its bare name counts where nothing is indexed"
    found = []
    for m in re.finditer(rf'(?<![\w.]){re.escape(array)}(?!\w)', line):
        end, indices = m.end(), []
        while b := re.compile(r'\s*\[').match(line, end):
            stop = _closed(line, b.end() - 1)
            indices.append(line[b.end() : stop - 1].strip())
            end = stop
        found.append((m.start(), end, tuple(indices)))
    return [indexed for indexed in found if indexed[2]] or found


# Two threads update one place


_ATOMICS = {'+': 'add', '-': 'sub', '&': 'and', '|': 'or', '^': 'xor', 'max': 'max', 'min': 'min'}


def update_of(
    line,
    array,  # its name
):  # (operation, element, value): ('add', 'n[i]', '1'); operation '' for one without an atomic; or None
    "How a line changes one element by what it was before: `n[i] += 1`, `n[i]++`, `m[0] = max(m[0], v)`"
    found = uses(line, array)
    if not found or len({indices for *_, indices in found}) > 1:
        return None
    start, end, _ = found[0]
    element, rest = line[start:end], line[end:].lstrip()
    step = re.match(r'(\+\+|--)', rest) or re.search(r'(\+\+|--)\s*$', line[:start])
    if step and len(found) == 1:
        return _ATOMICS[step[1][0]], element, '1'
    if (m := re.match(r'(<<|>>|\*\*|//|[-+*/%&|^])=(?!=)', rest)) and len(found) == 1:
        return _ATOMICS.get(m[1], ''), element, _statement(rest[m.end() :])
    if (m := re.match(r'=(?!=)', rest)) and len(found) > 1:
        return _assigned(element, _statement(rest[m.end() :]))
    return None


def _statement(text):
    "What stands before the end of the statement"
    depth = 0
    for i, c in enumerate(text):
        depth += (c in '([{') - (c in ')]}')
        if c == ';' or depth < 0:
            return text[:i].strip()
    return text.strip()


def _assigned(element, value):
    same = r'\s*'.join(map(re.escape, re.findall(r'\w+|\W', element.replace(' ', ''))))
    if m := re.fullmatch(rf'{same}\s*([-+&|^])\s*(.+)', value):
        return _ATOMICS[m[1]], element, m[2]
    if m := re.fullmatch(rf'(.+?)\s*([+&|^])\s*{same}', value):
        return _ATOMICS[m[2]], element, m[1]
    if m := re.fullmatch(rf'(?:\w+::)?f?(max|min)f?\(\s*{same}\s*,\s*(.+)\)', value):
        return m[1], element, m[2]
    if m := re.fullmatch(rf'(?:\w+::)?f?(max|min)f?\(\s*(.+)\s*,\s*{same}\s*\)', value):
        return m[1], element, m[2]
    return '', element, value


def _of_race(code, fields, line, place, other, above):
    if second := fields.get('second'):
        name, index = second
        return 'two_names', dict(second_element=f'{name}[{", ".join(map(str, index))}]')
    if fields.get('expanded'):
        return 'expanded', {}
    number = place.line
    if 'read' in (fields['before'], fields['now']) and _SWAP.search(
        line if fields['before'] == 'read' else _code_of(other.source)
    ):
        return 'before_swap', {}
    if other.line != number:
        if found := _update_apart(fields, line, _code_of(other.source)):
            return _in_one_step(found, fields['array'], '_apart')
        if code == 'race' and (found := _of_calls(place, other)):
            return found
        if code == 'race' and other.line > number and _are_in_one(place, other) and _share_loop(place, other.line):
            return 'round', dict(line=number, earlier=other.line)
        return ('one_atomic', {}) if code == 'race' and _is_half_atomic(fields, line, other) else None
    if found := update_of(line, fields['array']):
        return _in_one_step(found, fields['array'])
    if fields['before'] == fields['now'] == 'written':
        return 'one_place', {}
    if code != 'race':
        return None
    return _of_calls(place, other) or ('same_line' if _share_loop(place, number) else 'in_line', dict(line=number))


def _are_in_one(place, other):
    "Are both accesses in one function, as far as their calls are known?"
    return not (place.calls and other.calls) or place.calls[0].function == other.calls[0].function


def _of_calls(place, other):
    "What fits two accesses between the same barriers, made in calls of functions; None where the calls say nothing"
    mine, theirs = place.calls, other.calls
    if not (mine and theirs) or len(mine) == len(theirs) == 1:
        return None
    apart = next(((a.line, b.line) for a, b in zip(mine[::-1], theirs[::-1]) if a.line != b.line), None)
    first = dict(function=mine[0].function)
    if mine[0].function == theirs[0].function:
        if other.line < place.line:  # one call after the other would be the other way round
            return None
        if len(mine) != len(theirs):
            return 'called_again', first
        calls = next(((a.line, b.line) for a, b in zip(mine[:0:-1], theirs[:0:-1]) if a.line != b.line), None)
        if not calls and other.line == place.line:
            return None
        return ('called_twice', dict(first, now=calls[0], earlier=calls[1])) if calls else (
            'called_in_loop', dict(first, line=mine[-1].line))  # fmt: skip
    if mine[-1].function != theirs[-1].function or not apart:
        return None
    return ('calls_apart', dict(now=apart[0], earlier=apart[1])) if apart[1] < apart[0] else (
        'round', dict(line=apart[0], earlier=apart[1]))  # fmt: skip


# Which loops a line is in


def _share_loop(place, until):
    "Is there a loop around the place that goes on up to line `until`, below it or its own?"
    above, onward = place.above.split('\n') if place.above else [], place.onward.split('\n')
    own = onward[0] or ' ' * _indent_after(above) + place.source
    lines = [_code_of(text) for text in (*above, own, *onward[1 : until - place.line + 1])]
    is_python = any(re.match(r'\s*(def|for|while|if)\b.*:\s*$', text) for text in lines)
    return (_in_indented_loop if is_python else _in_braced_loop)(lines, len(above))


def _indent(line):
    return len(line) - len(line.lstrip())


def _indent_after(lines):
    "How far a line after these is indented, if it goes on with the last of them"
    last = next((text for text in reversed(lines) if text.strip()), '')
    return _indent(last) + 4 * last.rstrip().endswith(':')


def _in_indented_loop(lines, n):
    "Is line `n` of Python in a loop whose body the last line belongs to as well?"
    if n == len(lines) - 1 and re.match(r'\s*(for|while)\b', lines[n]):
        return True
    depth = _indent(lines[n])
    for line in filter(str.strip, reversed(lines[:n])):
        if _indent(line) < depth:
            depth = _indent(line)
            if re.match(r'\s*(for|while)\b', line) and all(_indent(text) > depth for text in lines[n:] if text.strip()):
                return True
    return False


def _in_braced_loop(lines, n):
    "Is line `n` of CUDA C in a loop in which the last line is as well?"
    opened, loop, depth = [], None, 0  # opened: for each open `{` whether it belongs to a loop
    for k, line in enumerate(lines):
        if n == k == len(lines) - 1:
            return any(opened) or loop is not None or bool(re.search(r'\b(for|while|do)\b', line))
        if k == len(lines) - 1:
            break
        for m in re.finditer(r'\b(?:for|while|do)\b|[{};()]', line):
            opened, loop = _after(m[0], opened, loop)
            depth = min(depth, len(opened)) if k > n else len(opened)
    return any(opened[:depth])


def _after(token, opened, loop):
    "`opened` after a token, and how many brackets are open since a loop's head began; None: in none"
    if token in ('for', 'while', 'do'):
        return opened, 0
    if token in '{}':
        return ([*opened, loop is not None] if token == '{' else opened[:-1]), None
    if token == ';':
        return opened, loop or None
    return opened, loop if loop is None else loop + (1 if token == '(' else -1)


def _is_in_step(fields, line, place, other):
    "Do lanes of one warp pass values on, each its own, as if they ran in step?"
    if not (place.thread and other and other.thread) or place.block != other.block:
        return False
    (x, *row), (x2, *row2) = place.thread, other.thread
    return row == row2 and x // 32 == x2 // 32 and not update_of(line, fields['array'])


_ATOMIC_CALL = re.compile(r'\batomic(?:\w+|\.\w+)\(([^,;]*)')


_SWAP = re.compile(r'\b(atomicCAS\w*|compare_exchange_\w+|compare_and_swap|atomic\.cas)\s*\(')


def _is_half_atomic(fields, line, other):
    "Is one of the two accesses an atomic one, as its line tells, and the other plain?"

    name = '' if fields['array'] == 'memory' else rf'(?<![\w.]){re.escape(fields["array"])}(?!\w)'

    def changes(text):
        return any(re.search(name, m[1]) for m in _ATOMIC_CALL.finditer(text))

    return changes(line) != changes(_code_of(other.source))


def _update_apart(fields, line, other):
    "As `update_of`, of an update in two lines: `v = n[i]`, then `n[i] = v + 1`"
    if {fields['before'], fields['now']} != {'read', 'written'}:
        return None
    first, then = (other, line) if fields['now'] == 'written' else (line, other)
    found = uses(first, fields['array'])
    name = re.search(r'(\w+)\s*=\s*$', first[: found[0][0]]) if len(found) == 1 else None
    if not name or _statement(first[found[0][1] :]):
        return None
    element = first[found[0][0] : found[0][1]]
    return update_of(re.sub(rf'(?<![\w.]){name[1]}\b', lambda _: element, then), fields['array'])


def _in_one_step(found, name, apart=''):
    "The row of `HINTS`, and its fields, for what `update_of` has found of the array `name`"
    operation, element, value = found
    array, indices = element.partition('[')[0], uses(element, name)[0][2]
    parts = [part for index in indices for part in _parts(index)] or ['0']
    index = parts[0] if len(parts) == 1 else f'({", ".join(parts)})'
    row = f'update_{operation}' if operation in ('max', 'min') else 'update' if operation else 'update_other'
    return row + apart, dict(operation=operation + '_' * (operation in ('and', 'or')), Operation=operation.title(),
                             target=element, array_text=array.strip(), index_text=index, value=value)  # fmt: skip


# An index past the end


def _of_index(fields, line, above):
    array, shape, at = fields['array'], fields['shape'], fields['index']
    if fields.get('inner'):
        return 'inside_another', dict(inner_index=at[0] - fields['inner_at'])
    found = {indices for *_, indices in uses(line, array) if indices}
    indices = next(iter(found)) if len(found) == 1 else ()
    parts = _parts(indices[0]) if len(indices) == 1 else list(indices)
    if len(shape) > 1:
        return _of_axes(array, shape, at, parts if len(parts) == len(shape) else None)
    if at[0] >= shape[0] and (last := _farthest(found)):
        return 'farthest', dict(expr=last, size=shape[0])
    if len(parts) != 1:
        return None
    expr, size = parts[0], shape[0]
    if '[' in expr:
        return 'from_memory', dict(expr=expr, at=at[0])
    guards = list(_guards(_names(expr), [line, *reversed(above)]))
    guard = guards[0] if guards else None
    flat = _is_flat(_GRID.sub('', expr)) and not _is_strided(expr, line, above)
    if flat and (wide := [guard for guard in guards if guard.wide]):
        return _too_many(wide[0])
    if guard and guard.wide and not flat and '+' not in expr:
        return 'one_too_many', dict(guard=guard.text, last=size - 1, size=size)
    if flat and (
        not any(guard.name in _rows(expr) for guard in guards) or _has_free_column(expr, guards, [line, *above])
    ):
        return 'guard_flat', dict(expr=expr)
    if guard:
        return 'stride' if flat else 'lets_in', dict(guard=guard.text, expr=expr, at=at[0], size=size)
    return 'guard', dict(expr=expr, size=size)


def _too_many(guard):
    right = guard.fixed if guard.wrote.startswith(guard.name) else guard.bound  # of a `range`
    return 'row_too_many', dict(guard=guard.text, bound=guard.bound, wrote=guard.wrote, right=right)


def product_in(
    line,
    above,  # the lines of the function before it
    array,  # its name
):
    "Is the index of the array in this line a product of 32 bits, or a variable that was set to one?"
    found = {indices for *_, indices in uses(_code_of(line), array) if len(indices) == 1}
    if len(found) != 1:
        return False
    expr = found.pop()[0]
    if re.fullmatch(r'\w+', expr):
        code = ' '.join(map(_code_of, above.split('\n')))
        sets = re.findall(rf'(?:(\w+)\s+)?\b{expr}\s*=(?!=)\s*([^;,]*)', code)
        expr = next((text for type, text in reversed(sets) if type not in _WIDE), '')
    return bool(re.search(r'\*|<<', expr)) and not any(wide in expr for wide in _WIDE)


_WIDE = 'size_t', 'long', 'int64_t', 'uint64_t', 'ptrdiff_t'


# A word of the kernel that is wrong


def _wrong_word(fields, line, above):
    "A guard with `&&` for `||` or the other way round, or an index with its two parts swapped; else None"
    found = {indices for *_, indices in uses(line, fields['array']) if indices}
    parts = [part for access in found for index in access for part in _parts(index)]
    names = set().union(*map(_names, parts))
    if wrong := _of_joint([line, *reversed(above)], names):
        return wrong
    if len(found) != 1 or fields.get('inner'):
        return None
    guards = list(_guards(names, [line, *reversed(above)]))
    if len(parts) > 1:
        return _swapped_axes(fields, parts, guards)
    right = _swapped(parts[0], guards, [line, *above])
    if right and any(right.replace(' ', '') in text.replace(' ', '') for text in [line, *above]):
        return None  # both ways round: the transpose of something
    return right and ('swapped', dict(expr=parts[0], right=right))


_JOINT = re.compile(r'\s*(&&|\|\||\band\b|\bor\b)\s*')
_TERM = re.compile(rf'\(?\s*([A-Za-z_]\w*)\s*(<=?|>=?)\s*({_COMPARED})(?:\s*[-+]\s*\w+)?\s*\)?')


def _of_joint(lines, names):
    "The nearest condition whose `&&` or `||` is wrong, if no nearer line guards its variables"
    for n, line in enumerate(lines):
        if found := _wrong_joint(line, names):
            nearer = {guard.name for guard in _guards(names, lines[:n])}
            variables, fits = found
            return None if names & variables <= nearer else ('wrong_joint', fits)
    return None


def _wrong_joint(line, names):
    "Is this an early `return` unless all indices are past the end, or an `if` that lets in who has one index inside?"
    m = re.search(r'\bif\b\s*(.*)', line)
    condition, rest = _condition(m[1]) if m else ('', '')
    terms = _JOINT.split(condition)
    compared, joints = [_TERM.fullmatch(term.strip()) for term in terms[::2]], set(terms[1::2])
    if len(compared) < 2 or not all(compared) or len(joints) > 1 or not rest.strip():
        return None
    variables, signs = {term[1] for term in compared}, {parsed[2][0] for parsed in compared}
    if not names & variables or len(variables) + len(signs) < 3:
        return None
    leaves = bool(re.match(r'\s*:?\s*\{?\s*(return|continue)\b', rest))
    if not all(_is_past(term) == leaves for term in compared):
        return None
    joint = joints.pop()
    right = ({'&&': '||', 'and': 'or'} if leaves else {'||': '&&', 'or': 'and'}).get(joint)
    return right and (variables, dict(guard=condition, joint=joint, right=right))


def _is_past(term):
    "Does a comparison mean an index past an end: `i >= n`, `i < 0`?"
    return (term[2][0] == '>') != (term[3] == '0')


def _condition(text):
    "(the condition, what is behind it) of what stands behind `if`"
    if text.startswith('('):
        end = _closed(text, 0)
        if not re.match(r'\s*(and|or)\b', text[end:]):
            return text[1 : end - 1].strip(), text[end:]
    condition, colon, rest = text.partition(':')
    return condition.strip(), colon + rest


_ROW_MAJOR = re.compile(r'(?P<row>\w+)\s*\*\s*(?P<width>\w+)\s*\+\s*(?P<column>\w+)')
_COLUMN_FIRST = re.compile(r'(?P<column>\w+)\s*\+\s*(?P<row>\w+)\s*\*\s*(?P<width>\w+)')


def _swapped(expr, guards, lines):
    "`y*w + x` for `x*w + y`, if `x` is a column, below `w`, and `y` a row, below something else; else None"
    if not (m := _ROW_MAJOR.fullmatch(expr) or _COLUMN_FIRST.fullmatch(expr)):
        return None
    row, width, column = m['row'], m['width'], m['column']
    bounds = {guard.name: guard.bound for guard in reversed(guards) if guard.sign == '<'}
    if bounds.get(row) != width or bounds.get(column) in (None, width):
        return None
    return f'{column}*{width} + {row}' if (_axis(row, lines), _axis(column, lines)) == ('x', 'y') else None


def _axis(name, lines):
    "'x' or 'y': which number of the thread or the block a variable is made of; None if neither or both"
    for line in lines:
        if m := re.search(r'(\w+)\s*,\s*(\w+)\s*=\s*cuda\.grid\(2\)', line):
            if name in m.groups():
                return 'xy'[m.groups().index(name)]
        if m := re.search(rf'\b{name}\s*=(?!=)([^,;]*)', line):
            axes = set(re.findall(r'(?:thread|block)Idx\.([xy])', m[1]))
            return axes.pop() if len(axes) == 1 else None
    return None


def _swapped_axes(fields, parts, guards):
    "What fits `x, y` for `y, x`, if both have guards, and the element is inside that way round; else None"
    shape, at = fields['shape'], fields['index']
    if not len(parts) == len(shape) == len(at) == 2 or not all(0 <= i < n for i, n in zip(at, shape[::-1])):
        return None
    if parts[0] == parts[1] or not set(parts) <= {guard.name for guard in guards}:
        return None
    axis = int(0 <= at[0] < shape[0])
    there = dict(axis=axis, last=shape[axis] - 1, index_there=at[axis], turned=tuple(shape[::-1]))
    return 'swapped_axes', dict(there, expr=', '.join(parts), right=', '.join(reversed(parts)))


def _moves(array, place):
    "[(text, sign, how far)]: where the lines above, a loop around, or a call move the pointer that has this name"
    name = rf'(?<![\w.>*]){re.escape(array)}\s*'
    move = re.compile(rf'({name}(?:(?:=\s*{name})?([-+])=?)\s*([^;,]+))[;,]')
    code = '\n'.join(_code_of(text) for text in place.above.split('\n'))
    found = [moved for moved in move.findall(code) if '=' in moved[0]]
    for n, line in enumerate(map(_code_of, place.onward.split('\n'))):
        if (m := move.search(line)) and '=' in m[1] and _share_loop(place, place.line + n):
            found.append(m.groups())
    text = place.called[1] if place.called else ''
    if m := re.search(rf'{name}\+\s*([^,;]+)|&\s*{name}\[([^\]]+)\]', text):
        found.append((m[0].strip(), '+', (m[1] or m[2]).strip()))
    return found


def _of_moved(fields, line, above, moves):
    "An index that counts from where a pointer was moved to, not from the array's first element"
    found = {indices for *_, indices in uses(line, fields['array']) if indices}
    if len(found) != 1 or len(indices := found.pop()) != 1 or len(fields['shape']) != 1:
        return None
    names = set().union(*(_names(by) for _, _, by in moves))
    guards = list(_guards(names | _names(indices[0]), [line, *reversed(above)]))
    if wide := next((guard for guard in guards if guard.wide), None):
        return _too_many(wide)
    text, sign, by = moves[0]
    if len(moves) > 1 or not by.isdigit():
        return 'moved', dict(move=text, expr=indices[0])
    own = fields['index'][0] - int(sign + by)
    return 'moved_by', dict(move=text, expr=indices[0], own=own, left=fields['shape'][0] - int(sign + by))


def _farthest(found):
    "Of indices that differ by whole numbers, as `r` and `r+1` do, the one that is largest; or None"
    parts = [re.fullmatch(r'(.*?\w)(?:\s*([-+])\s*(\d+))?', access[0]) for access in found if len(access) == 1]
    if len(found) < 2 or len(parts) < len(found) or not all(parts) or len({part[1] for part in parts}) > 1:
        return None
    return max(parts, key=lambda part: int((part[2] or '') + (part[3] or '0')))[0]


def _of_fixed(fields, line, above):
    "An index outside of an array whose size stands in the source: `type` begins at the axis that is meant"
    if not (sizes := re.findall(r'\[(\d+)\]', fields['type'])):
        return None
    size, found = int(sizes[0]), {indices for *_, indices in uses(line, fields['array']) if indices}
    indices = found.pop() if len(found) == 1 else ()
    names = _names(indices[-len(sizes)]) if len(sizes) <= len(indices) else set()
    if wide := next((guard for guard in _guards(names, [line, *reversed(above)]) if guard.wide), None):
        return 'one_too_many', dict(guard=wide.text, last=size - 1, size=size)
    return 'fixed', dict(last=size - 1)


def _of_axes(array, shape, at, parts):
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


def _parts(index):
    "The indices in one pair of brackets: `r, c`"
    parts, depth, start = [], 0, 0
    for i, c in enumerate(index):
        depth += (c in '([') - (c in ')]')
        if c == ',' and not depth:
            parts.append(index[start:i].strip())
            start = i + 1
    return [*parts, index[start:].strip()]


def _is_flat(expr):
    "Is a row times its length in it: `r * w + c`?"
    return bool(re.search(r'\)\s*\*\s*[A-Za-z]|[A-Za-z]\w*\s*\*\s*\(', expr)) or any(
        '*' in term and len(_names(term)) > 1 for term in re.split(r'[-+]', expr)
    )


def _is_strided(expr, line, above):
    "Is it one index times a stride, as in `i*stride + shift`, where nothing above but `i` was set in the kernel?"
    if re.search(r'(thread|block)Idx|\bgrid\(', expr):
        return False
    if any(re.search(rf'\bfor\b[^;:]*\b{name}\s*(=(?!=)|in\b)', line) for name in _names(expr)):
        return False  # a loop in the line itself goes through the columns
    is_set = [
        name
        for name in _names(expr)
        if any(re.search(rf'\b{name}\s*(,\s*\w+\s*)*=(?!=)|\bfor {name}\b', a) for a in above)
    ]
    return len(is_set) == 1


def _rows(expr):
    "The variables that something is multiplied with: `r` and `w` in `r*w + c`"
    return {name for term in re.split(r'[-+]', expr) if '*' in term for name in _names(term)}


def _has_free_column(expr, guards, lines):
    "Is there a variable behind the row, `c` in `r*w + c`, and nothing that such a variable is compared with?"
    columns = _names(expr) - _rows(expr)
    known = {guard.name for guard in guards} | {
        name for text in lines for name in re.findall(r'\bfor (\w+) in\b', text)
    }
    return bool(columns) and not columns & known


def _names(expr):
    "The variables in an index"
    own = {'blockIdx', 'blockDim', 'threadIdx', 'gridDim', 'cuda', 'grid', 'gridsize', 'int'}
    return {name for name in re.findall(r'(?<![\w.])[A-Za-z_]\w*', expr) if name not in own}


class _Guard(NamedTuple):
    "A comparison that lets a thread in: `i < n`"

    name: str  # of what is compared
    sign: str  # < or <=
    bound: str
    wrote: str = ''  # as it stands there: `i >= n`, of a `return`

    @property
    def text(self):
        "As a reader of the kernel would say it"
        return ' '.join(self[:3])

    @property
    def fixed(self):
        "What must stand there if the bound is let in: `i >= n` for `i > n`, `i < n` for `i <= n`"
        return re.sub('<=|>', lambda m: {'<=': '<', '>': '>='}[m[0]], self.wrote, count=1)

    @property
    def wide(self):
        "Is the bound itself let in?"
        return self.sign == '<=' and '-' not in self.bound


def _compared(name, sign, bound, more):
    "The guard of a comparison with `bound` and what is added to it; `i <= n-1` is `i < n`"
    wrote = f'{name} {sign} {bound}{more}'
    sign = '<=' if sign in ('<=', '>') else '<'
    return _Guard(name, *(('<', bound) if sign + more.replace(' ', '') == '<=-1' else (sign, bound + more)), wrote)


def _guards(names, lines):
    "The comparisons of these variables with what lies above them, the nearest first: `i < n`"
    for n, line in enumerate(lines):
        if not re.search(r'\b(if|while|for|elif)\b|\?', line):
            continue
        if n and not re.search(r'[:{)]\s*$|\b(return|continue|break)\b', line):
            continue  # it guards what stands in its own line
        leaves = re.search(r'\b(return|continue|break)\b', line)
        for m in re.finditer(rf'(\w+)\s*(<=?|>=?)(?![<=>])\s*({_COMPARED})(\s*[-+]\s*\w+)?', line):
            if m[1] in names and (m[2] != '>' or leaves):
                yield _compared(m[1], m[2], m[3], m[4] or '')
        if m := re.search(r'for (\w+) in range\([^,]*,\s*([^,]+\+ ?1)\s*[,)]', line):
            if m[1] in names:
                bound = m[2][:-1].rstrip(' +')
                yield _Guard(m[1], '<=', bound, m[2])
