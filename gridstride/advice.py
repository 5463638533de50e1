"""What mends a finding, as far as the learner's own lines tell: which index lacks a guard, which update an atomic.

A finding says which array, which element, which lines. What mends it depends on how those lines are written: a
missing guard, a guard that lets too much in, a wrong stride and an index from memory are all "outside". `fitting`
reads the lines and names the row of `findings.MENDS` that fits, with its fields; None leaves the finding's own.
Nothing is guessed: what cannot be read off a line gets no advice of its own.
"""

import re
from typing import NamedTuple

__all__ = ['fitting', 'uses', 'update_of']

_COMPARED = r'len\([\w.]+\)|[\w.]+(?:\(\)|\[\d+\])?'
_ELSEWHERE = ('no_array', 'fault_no_array', 'fault_address', 'kernel_reads_host', 'kernel_writes_host')
_UNSIGNED = re.compile(r'\b(?:thread|block)Idx\.[xyz]\s*-\s*\w+')
_GRID = re.compile(r'(block|grid)(Idx|Dim)\.\w\s*\*\s*(block|grid)(Idx|Dim)\.\w')


def fitting(
    kind,  # of the finding, like the next two
    code,
    fields,
    place,  # a `findings.Place`, with the function's lines before it
    other,  # a `findings.Access`, or None
):  # (name of a row of `MENDS`, its fields), or None
    "What fits this finding better than its own row"
    line, above = _code_of(place.source), [_code_of(o) for o in place.above.split('\n')]
    if kind == 'memcheck' and code == 'outside' and line:
        return _of_index(fields, line, above)
    if kind == 'memcheck' and code == 'outside_named' and line:
        return _of_fixed(fields, line, above)
    if kind == 'memcheck' and code in _ELSEWHERE and (wraps := _UNSIGNED.search(line)):
        return 'below_0', dict(expr=wraps[0])
    if kind == 'racecheck' and code in ('race', 'race_of_blocks', 'race_of_cluster') and line and other:
        return _of_race(code, fields, line, place.line, other, above)
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
    return [o for o in found if o[2]] or found


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


def _of_race(code, fields, line, number, other, above):
    if second := fields.get('second'):
        name, index = second
        return 'two_names', dict(second_element=f'{name}[{", ".join(map(str, index))}]')
    loop = code == 'race' and any(re.search(r'\b(for|while)\b', o) for o in (line, *above))
    if other.line != number:
        if found := _update_apart(fields, line, _code_of(other.source)):
            return _in_one_step(found, fields['array'], '_apart')
        if loop and other.line > number:
            return 'round', dict(line=number, earlier=other.line)
        return ('one_atomic', {}) if code == 'race' and _is_half_atomic(fields, line, other) else None
    if found := update_of(line, fields['array']):
        return _in_one_step(found, fields['array'])
    if fields['before'] == fields['now'] == 'written':
        return 'one_place', {}
    return ('same_line', dict(line=number)) if loop else None


def _is_in_step(fields, line, place, other):
    "Do lanes of one warp pass values on, each its own, as if they ran in step?"
    if not (place.thread and other and other.thread) or place.block != other.block:
        return False
    (x, *row), (x2, *row2) = place.thread, other.thread
    return row == row2 and x // 32 == x2 // 32 and not update_of(line, fields['array'])


_ATOMIC_CALL = re.compile(r'\batomic(?:\w+|\.\w+)\(([^,;]*)')


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
    "The row of `MENDS`, and its fields, for what `update_of` has found of the array `name`"
    operation, element, value = found
    array, indices = element.partition('[')[0], uses(element, name)[0][2]
    parts = [part for o in indices for part in _parts(o)] or ['0']
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
    if flat and (wide := [o for o in guards if o.wide]):
        return 'row_too_many', dict(guard=wide[0].text, bound=wide[0].bound)
    if guard and guard.wide and not flat and '+' not in expr:
        return 'one_too_many', dict(guard=guard.text, last=size - 1, size=size)
    if flat and (not any(o.name in _rows(expr) for o in guards) or _has_free_column(expr, guards, [line, *above])):
        return 'guard_flat', dict(expr=expr)
    if guard:
        return 'stride' if flat else 'lets_in', dict(guard=guard.text, expr=expr, at=at[0], size=size)
    return 'guard', dict(expr=expr, size=size)


def _farthest(found):
    "Of indices that differ by whole numbers, as `r` and `r+1` do, the one that is largest; or None"
    parts = [re.fullmatch(r'(.*?\w)(?:\s*([-+])\s*(\d+))?', o[0]) for o in found if len(o) == 1]
    if len(found) < 2 or len(parts) < len(found) or not all(parts) or len({o[1] for o in parts}) > 1:
        return None
    return max(parts, key=lambda o: int((o[2] or '') + (o[3] or '0')))[0]


def _of_fixed(fields, line, above):
    "An index outside of an array whose size stands in the source: `type` begins at the axis that is meant"
    if not (sizes := re.findall(r'\[(\d+)\]', fields['type'])):
        return None
    size, found = int(sizes[0]), {indices for *_, indices in uses(line, fields['array']) if indices}
    indices = found.pop() if len(found) == 1 else ()
    names = _names(indices[-len(sizes)]) if len(sizes) <= len(indices) else set()
    if wide := next((o for o in _guards(names, [line, *reversed(above)]) if o.wide), None):
        return 'one_too_many', dict(guard=wide.text, last=size - 1, size=size)
    return 'fixed', dict(last=size - 1)


def _of_axes(array, shape, at, parts):
    axis = next((a for a, (i, n) in enumerate(zip(at, shape)) if not 0 <= i < n), None)
    if axis is None or len(at) != len(shape):
        return None
    parts = parts or ['rc'[a] if len(shape) == 2 else 'ijkl'[a] for a in range(len(shape))]
    if any('[' in o for o in parts):
        return 'from_memory', dict(expr=parts[axis], at=at[axis])
    return 'guard_axes', dict(
        axis=axis,
        index_there=at[axis],
        last=shape[axis] - 1,
        conditions=' and '.join(f'{o} < {array}.shape[{a}]' for a, o in enumerate(parts)),
        both=' && '.join(f'{o} < {n}' for o, n in zip(parts, shape)),
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
    if any(re.search(rf'\bfor\b[^;:]*\b{o}\s*(=(?!=)|in\b)', line) for o in _names(expr)):
        return False  # a loop in the line itself goes through the columns
    is_set = [o for o in _names(expr) if any(re.search(rf'\b{o}\s*(,\s*\w+\s*)*=(?!=)|\bfor {o}\b', a) for a in above)]
    return len(is_set) == 1


def _rows(expr):
    "The variables that something is multiplied with: `r` and `w` in `r*w + c`"
    return {name for term in re.split(r'[-+]', expr) if '*' in term for name in _names(term)}


def _has_free_column(expr, guards, lines):
    "Is there a variable behind the row, `c` in `r*w + c`, and nothing that such a variable is compared with?"
    columns = _names(expr) - _rows(expr)
    known = {o.name for o in guards} | {name for o in lines for name in re.findall(r'\bfor (\w+) in\b', o)}
    return bool(columns) and not columns & known


def _names(expr):
    "The variables in an index"
    own = {'blockIdx', 'blockDim', 'threadIdx', 'gridDim', 'cuda', 'x', 'y', 'z', 'grid', 'gridsize', 'int'}
    return {o for o in re.findall(r'(?<![\w.])[A-Za-z_]\w*', expr) if o not in own}


class _Guard(NamedTuple):
    "A comparison that lets a thread in: `i < n`"

    name: str  # of what is compared
    sign: str  # < or <=
    bound: str

    @property
    def text(self):
        "As a reader of the kernel would say it"
        return ' '.join(self)

    @property
    def wide(self):
        "Is the bound itself let in?"
        return self.sign == '<=' and '-' not in self.bound


def _compared(name, sign, bound, more):
    "The guard of a comparison with `bound` and what is added to it; `i <= n-1` is `i < n`"
    sign = '<=' if sign in ('<=', '>') else '<'
    return _Guard(name, '<', bound) if sign + more.replace(' ', '') == '<=-1' else _Guard(name, sign, bound + more)


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
                yield _Guard(m[1], '<=', m[2][:-1].rstrip(' +'))
