"""Reads the learner's lines for a hint: the elements that a line accesses, its variables, the guards around it.

These functions work on text, with regular expressions and a count of brackets: a hint quotes the learner's own words,
in Numba's dialect and in CUDA C alike, and a line that they cannot read gets no hint of its own.
"""

import re
from typing import NamedTuple

__all__ = [
    'COMPARED',
    'Guard',
    'code_of',
    'end_of_bracket',
    'guards_of',
    'names_in',
    'parts_of',
    'share_loop',
    'statement_of',
    'uses',
]

COMPARED = r'len\([\w.]+\)|[\w.]+(?:\(\)|\[\d+\])?'


def code_of(line):
    """Return a line without the comment at its end.

    >>> code_of('x[i] = 1;  // clear it')
    'x[i] = 1;'"""
    return re.sub(r'\s*(//|#(?!define)).*', '', line or '')


def end_of_bracket(text, i):
    """Return the index after the bracket that closes the one at `i`, or the length of the text.

    >>> end_of_bracket('s[a[0]] = 1', 1)
    7"""
    depth = 0
    for j in range(i, len(text)):
        depth += (text[j] in '([') - (text[j] in ')]')
        if not depth:
            return j + 1
    return len(text)


def uses(
    line,
    array,  # its name
):  # list of (start, end, indices): where `array[...][...]` is in the line, and the texts in its brackets
    "Find the elements of an array in a line; if the line has none, the uses of its bare name"
    found = []
    for m in re.finditer(rf'(?<![\w.]){re.escape(array)}(?!\w)', line):
        end = m.end()
        indices = []
        while b := re.compile(r'\s*\[').match(line, end):
            stop = end_of_bracket(line, b.end() - 1)
            indices.append(line[b.end() : stop - 1].strip())
            end = stop
        found.append((m.start(), end, tuple(indices)))
    return [indexed for indexed in found if indexed[2]] or found


def statement_of(text):
    """Return the text up to the end of the statement.

    >>> statement_of('f(a, b); g()')
    'f(a, b)'"""
    depth = 0
    for i, c in enumerate(text):
        depth += (c in '([{') - (c in ')]}')
        if c == ';' or depth < 0:
            return text[:i].strip()
    return text.strip()


def parts_of(index):
    """Split the indices in one pair of brackets: `r, c`.

    >>> parts_of('r, f(c, 1)')
    ['r', 'f(c, 1)']"""
    parts = []
    depth = 0
    start = 0
    for i, c in enumerate(index):
        depth += (c in '([') - (c in ')]')
        if c == ',' and not depth:
            parts.append(index[start:i].strip())
            start = i + 1
    return [*parts, index[start:].strip()]


def names_in(expr):
    """Return the variables in an index.

    >>> sorted(names_in('blockIdx.x*w + c'))
    ['c', 'w']"""
    own = {'blockIdx', 'blockDim', 'threadIdx', 'gridDim', 'cuda', 'grid', 'gridsize', 'int'}
    return {name for name in re.findall(r'(?<![\w.])[A-Za-z_]\w*', expr) if name not in own}


class Guard(NamedTuple):
    "A comparison that lets a thread in: `i < n`"

    name: str  # of the variable
    sign: str  # < or <=
    bound: str
    wrote: str = ''  # the comparison in the source: `i >= n` before a `return`

    @property
    def text(self):
        "The comparison, with the kernel's names"
        return ' '.join(self[:3])

    @property
    def corrected(self):
        "The comparison that excludes the bound: `i >= n` for `i > n`, `i < n` for `i <= n`"
        return re.sub('<=|>', lambda m: {'<=': '<', '>': '>='}[m[0]], self.wrote, count=1)

    @property
    def includes_bound(self):
        "Whether the guard lets the bound itself in"
        return self.sign == '<=' and '-' not in self.bound


def _compared(name, sign, bound, more):
    "Return the guard for a comparison with `bound` plus `more`; `i <= n-1` is `i < n`"
    wrote = f'{name} {sign} {bound}{more}'
    sign = '<=' if sign in ('<=', '>') else '<'
    return Guard(name, *(('<', bound) if sign + more.replace(' ', '') == '<=-1' else (sign, bound + more)), wrote)


def guards_of(names, lines):
    "Yield the comparisons of these variables with an upper bound, the nearest first: `i < n`"
    for n, line in enumerate(lines):
        if not re.search(r'\b(if|while|for|elif)\b|\?', line):
            continue
        if n and not re.search(r'[:{)]\s*$|\b(return|continue|break)\b', line):
            continue  # this guard holds on its own line only
        is_exit = re.search(r'\b(return|continue|break)\b', line)
        for m in re.finditer(rf'(\w+)\s*(<=?|>=?)(?![<=>])\s*({COMPARED})(\s*[-+]\s*\w+)?', line):
            if m[1] in names and (m[2] != '>' or is_exit):
                yield _compared(m[1], m[2], m[3], m[4] or '')
        if m := re.search(r'for (\w+) in range\([^,]*,\s*([^,]+\+ ?1)\s*[,)]', line):
            if m[1] in names:
                bound = m[2][:-1].rstrip(' +')
                yield Guard(m[1], '<=', bound, m[2])


# Which loops a line is in


def share_loop(location, until):
    "Return whether a loop around the location also contains line `until`, the same one or a later one"
    above = location.above.split('\n') if location.above else []
    onward = location.onward.split('\n')
    own = onward[0] or ' ' * _indent_after(above) + location.source
    lines = [code_of(text) for text in (*above, own, *onward[1 : until - location.line + 1])]
    is_python = any(re.match(r'\s*(def|for|while|if)\b.*:\s*$', text) for text in lines)
    return (_in_indented_loop if is_python else _in_braced_loop)(lines, len(above))


def _indent(line):
    return len(line) - len(line.lstrip())


def _indent_after(lines):
    "Return the indentation of a line that continues the last one of these"
    last = next((text for text in reversed(lines) if text.strip()), '')
    return _indent(last) + 4 * last.rstrip().endswith(':')


def _in_indented_loop(lines, n):
    "Return whether line `n` of Python is in a loop whose body contains the last line as well"
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
    "Return whether line `n` of CUDA C is in a loop that contains the last line as well"
    opened = []  # per open `{`, whether it belongs to a loop
    loop = None
    depth = 0
    for k, line in enumerate(lines):
        if n == k == len(lines) - 1:
            return any(opened) or loop is not None or bool(re.search(r'\b(for|while|do)\b', line))
        if k == len(lines) - 1:
            break
        for m in re.finditer(r'\b(?:for|while|do)\b|[{};()]', line):
            opened, loop = _advance(m[0], opened, loop)
            depth = min(depth, len(opened)) if k > n else len(opened)
    return any(opened[:depth])


def _advance(token, opened, loop):
    "Return `opened` after a token, and the brackets open since the head of a loop began; None outside a head"
    if token in ('for', 'while', 'do'):
        return opened, 0
    if token in '{}':
        return ([*opened, loop is not None] if token == '{' else opened[:-1]), None
    if token == ';':
        return opened, loop or None
    return opened, loop if loop is None else loop + (1 if token == '(' else -1)
