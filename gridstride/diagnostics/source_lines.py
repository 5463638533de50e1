"""Parses the learner's lines for a hint: the elements that a line accesses, its variables, and the guards around it.

These functions use regular expressions and count brackets, so they work for Numba's dialect and for CUDA C. A finding
whose line they cannot parse keeps the general hint of its message.
"""

import re
from typing import NamedTuple

__all__ = [
    'BOUND',
    'Guard',
    'strip_comment',
    'end_of_bracket',
    'guards_of',
    'variables_in',
    'split_indices',
    'share_loop',
    'statement_of',
    'find_uses',
]

BOUND = r'len\([\w.]+\)|[\w.]+(?:\(\)|\[\d+\])?'


def strip_comment(line):
    """Return a line without the comment at its end.

    >>> strip_comment('x[i] = 1;  // clear it')
    'x[i] = 1;'"""
    return re.sub(r'\s*(//|#(?!define)).*', '', line or '')


def end_of_bracket(text, i):
    """Return the index after the bracket that closes the one at `i`, or the length of `text`.

    >>> end_of_bracket('s[a[0]] = 1', 1)
    7"""
    depth = 0
    for j in range(i, len(text)):
        depth += (text[j] in '([') - (text[j] in ')]')
        if not depth:
            return j + 1
    return len(text)


def find_uses(
    line,
    array,  # its name
):  # list of (start, end, indices): the range of `array[...][...]` in the line, and the contents of its brackets
    "Find the elements of an array in a line; if the line has none, the uses of its bare name"
    matches = []
    for m in re.finditer(rf'(?<![\w.]){re.escape(array)}(?!\w)', line):
        end = m.end()
        indices = []
        while bracket := re.compile(r'\s*\[').match(line, end):
            index_end = end_of_bracket(line, bracket.end() - 1)
            indices.append(line[bracket.end() : index_end - 1].strip())
            end = index_end
        matches.append((m.start(), end, tuple(indices)))
    return [match for match in matches if match[2]] or matches


def statement_of(text):
    """Return the source up to the end of the statement.

    >>> statement_of('f(a, b); g()')
    'f(a, b)'"""
    depth = 0
    for i, c in enumerate(text):
        depth += (c in '([{') - (c in ')]}')
        if c == ';' or depth < 0:
            return text[:i].strip()
    return text.strip()


def split_indices(index):
    """Split the indices in one pair of brackets: `r, c`.

    >>> split_indices('r, f(c, 1)')
    ['r', 'f(c, 1)']"""
    indices = []
    depth = 0
    start = 0
    for i, c in enumerate(index):
        depth += (c in '([') - (c in ')]')
        if c == ',' and not depth:
            indices.append(index[start:i].strip())
            start = i + 1
    return [*indices, index[start:].strip()]


def variables_in(expr):
    """Return the variables in an index.

    >>> sorted(variables_in('blockIdx.x*w + c'))
    ['c', 'w']"""
    builtin_names = {'blockIdx', 'blockDim', 'threadIdx', 'gridDim', 'cuda', 'grid', 'gridsize', 'int'}
    return {name for name in re.findall(r'(?<![\w.])[A-Za-z_]\w*', expr) if name not in builtin_names}


class Guard(NamedTuple):
    "A bounds check, a comparison that is true for the threads that access memory: `i < n`"

    name: str  # of the variable
    operator: str  # < or <=
    bound: str
    comparison: str = ''  # as written in the source: `i >= n` before a `return`

    @property
    def text(self):
        "The comparison, with the kernel's names"
        return ' '.join(self[:3])

    @property
    def corrected(self):
        "The comparison that excludes the bound: `i >= n` for `i > n`, `i < n` for `i <= n`"
        return re.sub('<=|>', lambda m: {'<=': '<', '>': '>='}[m[0]], self.comparison, count=1)

    @property
    def includes_bound(self):
        "Whether the guard is true for the bound itself, too"
        return self.operator == '<=' and '-' not in self.bound


def _make_guard(name, operator, bound, offset):
    "Return the guard for a comparison with `bound` plus `offset`; `i <= n-1` becomes `i < n`"
    comparison = f'{name} {operator} {bound}{offset}'
    operator = '<=' if operator in ('<=', '>') else '<'
    return Guard(
        name,
        *(('<', bound) if operator + offset.replace(' ', '') == '<=-1' else (operator, bound + offset)),
        comparison,
    )


def guards_of(names, lines):
    "Yield a `Guard` per comparison of these variables with an upper bound; `lines` begin with the nearest"
    for lines_up, line in enumerate(lines):
        if not re.search(r'\b(if|while|for|elif)\b|\?', line):
            continue
        if lines_up and not re.search(r'[:{)]\s*$|\b(return|continue|break)\b', line):
            continue  # this guard holds on its own line only
        is_exit = re.search(r'\b(return|continue|break)\b', line)
        for m in re.finditer(rf'(\w+)\s*(<=?|>=?)(?![<=>])\s*({BOUND})(\s*[-+]\s*\w+)?', line):
            if m[1] in names and (m[2] != '>' or is_exit):
                yield _make_guard(m[1], m[2], m[3], m[4] or '')
        if m := re.search(r'for (\w+) in range\([^,]*,\s*([^,]+\+ ?1)\s*[,)]', line):
            if m[1] in names:
                bound = m[2][:-1].rstrip(' +')
                yield Guard(m[1], '<=', bound, m[2])


# The loops around a line


def share_loop(location, until):
    "Return whether a loop around the location also contains line `until`, which is not before it"
    preceding_lines = location.preceding_lines.split('\n') if location.preceding_lines else []
    following_lines = location.following_lines.split('\n')
    current = following_lines[0] or ' ' * _indent_after(preceding_lines) + location.source
    lines = [
        strip_comment(text) for text in (*preceding_lines, current, *following_lines[1 : until - location.line + 1])
    ]
    is_python = any(re.match(r'\s*(def|for|while|if)\b.*:\s*$', text) for text in lines)
    return (_is_in_indented_loop if is_python else _is_in_braced_loop)(lines, len(preceding_lines))


def _indent(line):
    return len(line) - len(line.lstrip())


def _indent_after(lines):
    "Return the indentation of a line that continues the last one of these"
    last = next((text for text in reversed(lines) if text.strip()), '')
    return _indent(last) + 4 * last.rstrip().endswith(':')


def _is_in_indented_loop(lines, n):
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


def _is_in_braced_loop(lines, n):
    "Return whether line `n` of CUDA C is in a loop that contains the last line as well"
    is_loop_brace = []  # per open `{`: whether it opens the body of a loop
    num_open_parens = None  # open parentheses in the header of a loop; None elsewhere
    depth = 0
    for i, line in enumerate(lines):
        if n == i == len(lines) - 1:
            return any(is_loop_brace) or num_open_parens is not None or bool(re.search(r'\b(for|while|do)\b', line))
        if i == len(lines) - 1:
            break
        for m in re.finditer(r'\b(?:for|while|do)\b|[{};()]', line):
            is_loop_brace, num_open_parens = _update_loop_state(m[0], is_loop_brace, num_open_parens)
            depth = min(depth, len(is_loop_brace)) if i > n else len(is_loop_brace)
    return any(is_loop_brace[:depth])


def _update_loop_state(token, is_loop_brace, num_open_parens):
    "Return the state of `_is_in_braced_loop` after a token"
    if token in ('for', 'while', 'do'):
        return is_loop_brace, 0
    if token in '{}':
        return ([*is_loop_brace, num_open_parens is not None] if token == '{' else is_loop_brace[:-1]), None
    if token == ';':
        return is_loop_brace, num_open_parens or None
    return is_loop_brace, num_open_parens if num_open_parens is None else num_open_parens + (1 if token == '(' else -1)
